//! The connections of browsers. One that has not become a tab's socket in time is ended, whatever it is busy with:
//! requests here are small, and a browser opens a new connection when it needs one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long it may live at most.
    pub(crate) life: Duration,
    /// How many there may be at once that are no tabs; the oldest are ended for new ones.
    pub(crate) count: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { life: Duration::from_secs(30), count: 128 }
    }
}

/// How long to wait when no more connections can be had from the system.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves every connection, for ever.
pub(crate) async fn serve(listener: &TcpListener, router: &Router, limits: Limits) -> Infallible {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            // There may be too many files open, which passes.
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= limits.count
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let task = tokio::spawn(talk(stream, router.clone(), limits.life));
        open.push_back(task.abort_handle());
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::Interrupted)
}

/// Serves a connection until it is done, has become a socket, or has had its time.
async fn talk(stream: TcpStream, router: Router, life: Duration) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(life)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    // First no new requests, then nothing at all.
    if timeout(life / 2, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // What is wrong with it, or that it was too slow, concerns only the other end, which sees that it is closed.
        let _ = timeout(life / 2, connection).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn serving(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let large = "x".repeat(32 << 20);
        let router =
            Router::new().route("/", get(|| async { "here" })).route("/large", get(|| async { large }));
        tokio::spawn(async move { serve(&listener, &router, limits).await });
        address
    }

    async fn begin(address: SocketAddr, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }

    /// Everything until the other end closes it.
    async fn rest(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    #[tokio::test]
    async fn silence_half_a_head_and_idleness_have_an_end() {
        let address = serving(Limits { life: Duration::from_millis(100), count: 100 }).await;
        for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n", REQUEST] {
            let stream = begin(address, sent).await;
            let answer = rest(stream).await;
            assert_eq!(answer.ends_with("here"), sent == REQUEST, "{answer}");
        }
    }

    #[tokio::test]
    async fn who_does_not_read_is_not_waited_for() {
        let address = serving(Limits { life: Duration::from_millis(100), count: 100 }).await;
        let mut stream = begin(address, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The first byte has come; the rest does not fit into the buffers between us, and nobody takes it from there.
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        let ended = async {
            while stream.write_all(b"x").await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), ended).await.unwrap();
    }

    #[tokio::test]
    async fn many_silent_connections_keep_nobody_out() {
        let address = serving(Limits { life: Duration::from_secs(3600), count: 4 }).await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(begin(address, "GET / HT").await);
        }
        let mut stream = begin(address, REQUEST).await;
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        // The oldest has given way.
        assert_eq!(rest(silent.remove(0)).await, "");
    }
}
