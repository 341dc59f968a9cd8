//! Connections of the network. Who has not said who it is within some seconds has to go, and gives way to those who come
//! after it: any number of silent connections keeps nobody out.
//!
//! The accept loop is ours, on the connections of `hyper-util` and the handshake of `tokio-rustls`: `axum-server` limits
//! neither the number of connections nor the time that one may take to authenticate or to read.

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

/// What connections of the network may take.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ListenerLimits {
    /// How long one may live, unless it is admitted or becomes a WebSocket.
    pub life: Duration,
    /// How many there may be at once that are neither; the oldest are ended for new ones.
    pub strangers: usize,
    /// How many there may be in all; new ones are closed at once.
    pub connections: usize,
    /// How long one that was admitted may be without a request.
    pub idle: Duration,
    /// How long the other end may read nothing of what was written.
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
    /// Others for those who have not said who they are.
    #[must_use]
    pub fn of_strangers(mut self, count: usize, life: Duration) -> Self {
        (self.strangers, self.life) = (count, life);
        self
    }
}

/// Goes with every request, as an extension: whoever finds out who asks lets the connection live on by it.
#[derive(Debug, Clone, Default)]
pub struct Admission(Arc<Admitted>);

#[derive(Debug, Default)]
struct Admitted {
    is_granted: AtomicBool,
    granted: Notify,
}

impl Admission {
    /// Lets the connection live as long as it is used.
    pub fn grant(&self) {
        if !self.0.is_granted.swap(true, Ordering::Relaxed) {
            self.0.granted.notify_one();
        }
    }

    fn is_granted(&self) -> bool {
        self.0.is_granted.load(Ordering::Relaxed)
    }
}

/// How long to wait when no more connections can be had from the system.
const PAUSE: Duration = Duration::from_millis(200);

/// How much a connection collects before it is written, and of a head before it is read.
const BUFFER: usize = 64 << 10;

/// How often HTTP/2 asks whether the other end is there, and how long it waits for the answer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(60);

/// How many requests HTTP/2 may have under way on a connection: the streams of all sessions that a client may read, and
/// what it posts beside them.
const STREAMS: u32 = 512;

/// Serves every connection, for ever, by HTTP/1.1 and HTTP/2.
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
            // There may be too many files open, which passes.
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
        // Small messages go at once.
        let _ = stream.set_nodelay(true);
        let admission = Admission::default();
        let requests =
            Requests { router: TowerToHyperService::new(router.clone()), from, admission: admission.clone() };
        let task = tokio::spawn(begin(stream, tls.cloned(), requests, limits, counted));
        strangers.push_back((task.abort_handle(), admission));
        // Many come at once after a restart: each gets to say who it is before it gives way to those behind it.
        tokio::task::yield_now().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

/// One of the connections that there may be. A WebSocket is counted where it is kept.
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

/// Hands requests to the router, with where they come from.
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
        // HTTP/2 names the host in another place, and whoever checks it looks in one.
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
    let stream = Patient::new(stream, limits.stalled);
    match tls {
        None => talk(stream, requests, limits).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(limits.life, tls.acceptor.accept(stream)).await {
                talk(stream, requests, limits).await;
            }
        }
    }
}

/// Serves a connection until it is done, has become a socket, or has had its time.
async fn talk<IO>(stream: IO, requests: Requests, limits: ListenerLimits)
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
    // First no new requests, then nothing at all. What is wrong with a connection concerns only the other end, which sees
    // that it is closed.
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

/// A stream that does not wait for ever for an end that does not read.
struct Patient<IO> {
    stream: IO,
    patience: Duration,
    /// Runs while something cannot be written.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<IO> Patient<IO> {
    fn new(stream: IO, patience: Duration) -> Self {
        Patient { stream, patience, deadline: None }
    }

    /// What writing came to, or that it has taken too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
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

impl<IO: AsyncRead + Unpin> AsyncRead for Patient<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Patient<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(context, outcome)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_flush(context);
        this.judge(context, outcome)
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
        this.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
