//! Network listener. A connection that has not authenticated within seconds is closed, and the oldest
//! unauthenticated connections are closed in favour of new ones, so idle connections cannot exhaust the
//! server.
//!
//! The accept loop uses `hyper-util` and `tokio-rustls` directly: `axum-server` limits neither the number of
//! connections nor the time for authentication or reading.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::header::HOST;
use http::{HeaderValue, Request};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep, timeout};

use super::Tls;

/// Limits of network connections.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ListenerLimits {
    /// Maximum lifetime of a connection that is neither authenticated nor a WebSocket.
    pub life: Duration,
    /// Maximum number of such connections. The oldest are closed in favour of new ones.
    pub strangers: usize,
    /// Maximum number of connections in total. New ones beyond it are closed at once.
    pub connections: usize,
    /// Maximum idle time of an authenticated connection without a request.
    pub idle: Duration,
    /// Maximum time that the peer may not read while data is queued.
    pub stalled: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        ListenerLimits {
            life: Duration::from_secs(30),
            strangers: 1024,
            connections: 32_768,
            idle: Duration::from_secs(90),
            stalled: Duration::from_secs(75),
        }
    }
}

impl ListenerLimits {
    /// Sets the limits for unauthenticated connections.
    #[must_use]
    pub fn of_strangers(mut self, count: usize, life: Duration) -> Self {
        (self.strangers, self.life) = (count, life);
        self
    }
}

/// Request extension with which the authentication keeps the connection alive.
#[derive(Debug, Clone, Default)]
pub struct Admission(Arc<Admitted>);

#[derive(Debug, Default)]
struct Admitted {
    is_granted: AtomicBool,
    granted: Notify,
}

impl Admission {
    /// Marks the connection as authenticated, so that it lives as long as it is used.
    pub fn grant(&self) {
        if !self.0.is_granted.swap(true, Ordering::Relaxed) {
            self.0.granted.notify_one();
        }
    }

    fn is_granted(&self) -> bool {
        self.0.is_granted.load(Ordering::Relaxed)
    }
}

/// Delay after a failed accept.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum size of a connection's write buffer and of a request head, in bytes.
const BUFFER: usize = 64 << 10;

/// Interval of HTTP/2 keep-alive pings, and time limit for the response.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum concurrent HTTP/2 requests per connection: all session streams that a client may read, and its
/// posts.
const STREAMS: u32 = 512;

/// Serves all connections over HTTP/1.1 and HTTP/2. Never returns.
pub async fn serve(
    listener: &TcpListener,
    router: &Router,
    tls: Option<&Tls>,
    limits: ListenerLimits,
) -> Infallible {
    let mut strangers: VecDeque<(AbortHandle, Admission)> = VecDeque::new();
    let count = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            // Too many open files, for example. Temporary.
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        strangers.retain(|(task, admission)| !task.is_finished() && !admission.is_granted());
        if strangers.len() >= limits.strangers
            && let Some((oldest, _)) = strangers.pop_front()
        {
            oldest.abort();
        }
        let Some(counted) = Counted::new(&count, limits.connections) else { continue };
        // Disable Nagle's algorithm: small messages are sent at once.
        let _ = stream.set_nodelay(true);
        let admission = Admission::default();
        let requests =
            Requests { router: TowerToHyperService::new(router.clone()), from, admission: admission.clone() };
        let task = tokio::spawn(begin(stream, tls.cloned(), requests, limits, counted));
        strangers.push_back((task.abort_handle(), admission));
        // After a restart many clients connect at once. Let each authenticate before later ones evict it.
        tokio::task::yield_now().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

/// Counts a connection towards the total. A WebSocket is counted by its registry instead.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let counted = Counted(Arc::clone(count));
        (counted.0.fetch_add(1, Ordering::Relaxed) < limit).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes requests to the router, with the peer's address.
struct Requests {
    router: TowerToHyperService<Router>,
    from: SocketAddr,
    admission: Admission,
}

impl Service<Request<hyper::body::Incoming>> for Requests {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<hyper::body::Incoming>>>::Future;

    fn call(&self, mut request: Request<hyper::body::Incoming>) -> Self::Future {
        // HTTP/2 carries the host in the URI. Copy it to the header, which handlers check.
        if !request.headers().contains_key(HOST)
            && let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().insert(HOST, host);
        }
        request.extensions_mut().insert(ConnectInfo(self.from));
        request.extensions_mut().insert(self.admission.clone());
        self.router.call(request)
    }
}

async fn begin(
    stream: TcpStream,
    tls: Option<Tls>,
    requests: Requests,
    limits: ListenerLimits,
    _counted: Counted,
) {
    let stream = WriteTimeout::new(stream, limits.stalled);
    match tls {
        None => serve_connection(stream, requests, limits).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(limits.life, tls.acceptor.accept(stream)).await {
                serve_connection(stream, requests, limits).await;
            }
        }
    }
}

/// Serves a connection until it ends, becomes a WebSocket, or reaches its time limit.
async fn serve_connection<IO>(stream: IO, requests: Requests, limits: ListenerLimits)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let admission = requests.admission.clone();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle).max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(SILENCE)
        .max_send_buf_size(BUFFER)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(BUFFER).unwrap_or(u32::MAX));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    // First refuse new requests, then close. Errors of a connection only concern the peer, which sees the
    // close.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = admission.0.granted.notified() => {}
        () = sleep(limits.life / 2) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = connection.as_mut() => return,
                () = admission.0.granted.notified() => {}
                () = sleep(limits.life / 2) => return,
            }
        }
    }
    let _ = connection.await;
}

/// A stream with a write timeout.
struct WriteTimeout<IO> {
    stream: IO,
    patience: Duration,
    /// Runs while a write is blocked.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<IO> WriteTimeout<IO> {
    fn new(stream: IO, patience: Duration) -> Self {
        WriteTimeout { stream, patience, deadline: None }
    }

    /// Returns the result of a write, or an error after the timeout.
    fn check_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.deadline = None;
            return outcome;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        if deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WriteTimeout<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.check_deadline(context, outcome)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_flush(context);
        this.check_deadline(context, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.check_deadline(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
