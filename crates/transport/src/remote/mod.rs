//! Agents that somebody else runs, reached over the network.

mod http;
mod server_events;
mod tls;
mod websocket;

pub use tls::client_tls;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::http::uri::Scheme;
use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::DEFAULT_MESSAGE_LIMIT;

/// How much may wait between us and whoever holds the stream.
const BUFFER: usize = 64 * 1024;

/// How often the other side is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long the other side may be silent.
const SILENCE: Duration = Duration::from_secs(75);

/// How much of a refusal is shown.
const EXCERPT: usize = 8 * 1024;

/// A server of ACP: WebSocket (`ws://`, `wss://`) or streamable HTTP (`http://`, `https://`).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use switchboard_transport::{Connection, ConnectionOptions, Remote};
///
/// let remote = Remote::new("wss://example.com/acp")?.header("authorization", "Bearer secret")?;
/// let stream = remote.connect().await?;
/// let connection = Connection::new(stream.reader, stream.writer, ConnectionOptions::default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Remote {
    url: Uri,
    headers: HeaderMap,
    limit: usize,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    is_exact: bool,
}

/// The connection to a [`Remote`]: one JSON value a line in both directions. It ends with the writer.
#[derive(Debug)]
pub struct RemoteStream {
    /// What the server says.
    pub reader: tokio::io::ReadHalf<DuplexStream>,
    /// What is said to the server.
    pub writer: tokio::io::WriteHalf<DuplexStream>,
    /// How it ended: fine where we ended it.
    pub end: JoinHandle<Result<(), RemoteError>>,
    /// What the server calls the connection, for [`Remote::take_up`]. Only a WebSocket is taken up from outside.
    pub connection_id: Option<String>,
    /// Is told when a stream broke and was taken up again inside: what was said on it meanwhile may be lost, except for what
    /// has a place in the stream.
    pub taken_up: Arc<Notify>,
}

/// Why a server could not be reached, or was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// It is no address of a server.
    #[error("\"{url}\" is no address of an agent: {reason}")]
    BadAddress {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header that HTTP does not have.
    #[error("the header \"{name}\" cannot be sent: {reason}")]
    BadHeader {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody is there, or the way there is broken.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The server.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server is there and wants nothing of us.
    #[error("{url} refuses: {status}{}", with_colon(body))]
    Refused {
        /// The server.
        url: String,
        /// The status of its answer.
        status: StatusCode,
        /// Whether it would have other credentials: 401, or another status with `WWW-Authenticate`.
        wants_token: bool,
        /// What it said, at most 8 KiB.
        body: String,
    },
    /// The server ended the connection.
    #[error("{url} ended the connection{}", with_colon(reason))]
    Ended {
        /// The server.
        url: String,
        /// The reason that it gave, with the code.
        reason: String,
    },
    /// The server has not said anything for too long.
    #[error("nothing came from {url} for {} seconds", SILENCE.as_secs())]
    Silent {
        /// The server.
        url: String,
    },
}

fn with_colon(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

impl fmt::Debug for Remote {
    // Headers may be secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remote").field("url", &self.shown()).finish_non_exhaustive()
    }
}

impl Remote {
    /// The server at an address.
    pub fn new(url: &str) -> Result<Self, RemoteError> {
        let bad = |reason: String| RemoteError::BadAddress { url: url.to_owned(), reason };
        let uri: Uri = url.trim().parse().map_err(|error: ::http::uri::InvalidUri| bad(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("ws" | "wss" | "http" | "https")) {
            return Err(bad("it begins with ws://, wss://, http:// or https://".to_owned()));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(bad("it names no machine".to_owned()));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("a password does not belong there; send a header".to_owned()));
        }
        let tell = Arc::new(|_: &str| {});
        let (headers, limit) = (HeaderMap::new(), DEFAULT_MESSAGE_LIMIT);
        Ok(Remote { url: uri, headers, limit, tell, is_exact: false })
    }

    /// Whether a word is meant as an address, and not as a program.
    pub fn is_address(word: &str) -> bool {
        ["ws://", "wss://", "http://", "https://"].iter().any(|scheme| {
            word.get(..scheme.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(scheme))
        })
    }

    /// Sends a header along with every request. It is never shown.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, RemoteError> {
        let bad = |reason: String| RemoteError::BadHeader { name: name.to_owned(), reason };
        let key: HeaderName =
            name.parse().map_err(|error: ::http::header::InvalidHeaderName| bad(error.to_string()))?;
        let mut value = HeaderValue::from_str(value).map_err(|error| bad(error.to_string()))?;
        value.set_sensitive(true);
        self.headers.insert(key, value);
        Ok(self)
    }

    /// Who is told what happens on the way, such as a stream that broke and was taken up again.
    #[must_use]
    pub fn tell(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// The machine to which headers would go unencrypted, over a network.
    pub fn exposes_secrets_to(&self) -> Option<&str> {
        let host = self.url.host().filter(|_| !self.is_encrypted())?;
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        let is_here =
            host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
        (!is_here).then_some(host)
    }

    /// Ends a connection rather than to go on where something may be missing: for whoever can begin a new one behind the
    /// last thing that came.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Connects. Over HTTP the server is first spoken to with the first message.
    pub async fn connect(&self) -> Result<RemoteStream, RemoteError> {
        if matches!(self.url.scheme_str(), Some("ws" | "wss")) {
            return self.connect_socket(None).await;
        }
        let (near, far) = tokio::io::duplex(BUFFER);
        let client = http::Client::new(self)?;
        let taken_up = Arc::new(Notify::new());
        let end = spawn(http::pass_on(client, far, Arc::clone(&taken_up)));
        let (reader, writer) = tokio::io::split(near);
        Ok(RemoteStream { reader, writer, end, connection_id: None, taken_up })
    }

    /// Takes up a connection by WebSocket that was lost. A server that does not know it any more refuses with 404.
    pub async fn take_up(&self, connection_id: &str) -> Result<RemoteStream, RemoteError> {
        self.connect_socket(Some(connection_id)).await
    }

    async fn connect_socket(&self, earlier: Option<&str>) -> Result<RemoteStream, RemoteError> {
        let (near, far) = tokio::io::duplex(BUFFER);
        let (socket, connection_id) = websocket::open(self, earlier).await?;
        let end = spawn(websocket::pass_on(self.clone(), socket, far));
        let (reader, writer) = tokio::io::split(near);
        Ok(RemoteStream { reader, writer, end, connection_id, taken_up: Arc::default() })
    }

    /// What the server has at the address, which is one of HTTP: a text.
    pub async fn get(&self) -> Result<String, RemoteError> {
        http::Client::new(self)?.get().await
    }

    /// The address as it may be shown: without what follows the path, which may be a secret.
    fn shown(&self) -> String {
        let scheme = self.url.scheme().map_or("", Scheme::as_str);
        let place = self.url.authority().map_or("", ::http::uri::Authority::as_str);
        format!("{scheme}://{place}{}", self.url.path())
    }

    fn is_encrypted(&self) -> bool {
        matches!(self.url.scheme_str(), Some("wss" | "https"))
    }

    fn unreachable(&self, reason: &impl ToString) -> RemoteError {
        RemoteError::Unreachable { url: self.shown(), reason: reason.to_string() }
    }

    /// The same for an error that may be about the server's certificate, with what to do about that.
    fn failed(&self, error: &(dyn std::error::Error + 'static), reason: &impl ToString) -> RemoteError {
        match crate::certificate::advice_in(error) {
            Some(advice) => self.unreachable(&advice),
            None => self.unreachable(reason),
        }
    }

    /// What to say of a server that has not answered in the time that it had.
    pub fn no_answer(&self, time: Duration) -> RemoteError {
        self.unreachable(&format!("no answer within {} seconds", time.as_secs()))
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> RemoteError {
        let wants_token =
            status == StatusCode::UNAUTHORIZED || headers.contains_key(::http::header::WWW_AUTHENTICATE);
        let body = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]).into_owned();
        RemoteError::Refused { url: self.shown(), status, wants_token, body }
    }

    fn ended(&self, reason: impl Into<String>) -> RemoteError {
        RemoteError::Ended { url: self.shown(), reason: reason.into() }
    }
}

fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(future)
}

/// Writes a message as one line. Whoever wrote it may have laid it out over several, or put several into one.
async fn write_lines(local: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    let text = text.trim();
    if !text.contains(['\n', '\r']) {
        local.write_all(text.as_bytes()).await?;
        return local.write_all(b"\n").await;
    }
    let first = text.lines().next().unwrap_or_default();
    if serde_json::from_str::<serde::de::IgnoredAny>(first).is_ok() {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            local.write_all(line.as_bytes()).await?;
            local.write_all(b"\n").await?;
        }
        return Ok(());
    }
    // In JSON a line can only end between values, where a space means the same.
    local.write_all(text.replace(['\n', '\r'], " ").as_bytes()).await?;
    local.write_all(b"\n").await
}

/// The lines that are to be sent. What is no message is told and left out.
struct Lines<R> {
    reader: crate::LineReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(reader: R, remote: &Remote) -> Self {
        Lines { reader: crate::LineReader::new(reader, remote.limit) }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self, remote: &Remote) -> Option<crate::SharedText> {
        loop {
            match self.reader.next().await {
                Ok(Some(crate::Frame::Message(text))) => return Some(text),
                Ok(Some(crate::Frame::Noise(noise) | crate::Frame::Unfinished(noise))) => {
                    if !noise.is_blank() {
                        (remote.tell)(&format!("not sent: {noise}"));
                    }
                }
                Ok(Some(crate::Frame::TooLong(line))) => (remote.tell)(&format!("not sent: {line}")),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_is_one_line_however_it_was_laid_out() {
        let laid_out = [
            ("{\"id\":1}", "{\"id\":1}\n"),
            ("{\"id\":1}\n", "{\"id\":1}\n"),
            ("{\"id\":1}\r\n\n{\"id\":2}\n", "{\"id\":1}\n{\"id\":2}\n"),
            ("{\n  \"id\": 1\n}", "{   \"id\": 1 }\n"),
        ];
        for (sent, expected) in laid_out {
            let mut lines = Vec::new();
            write_lines(&mut lines, sent).await.unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&lines), expected);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_and_secrets_are_not_shown() {
        for bad in ["", "agent", "ftp://a/b", "ws://", "http:///acp", "ws://a b/", "wss://me:word@host/acp"] {
            assert!(Remote::new(bad).is_err(), "{bad}");
        }
        let remote = Remote::new("ws://example.com/acp?key=secret")
            .and_then(|remote| remote.header("x-key", "secret"));
        let remote = remote.unwrap_or_else(|error| panic!("{error}"));
        let shown = format!("{remote:?} {}", remote.unreachable(&"gone"));
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(remote.exposes_secrets_to(), Some("example.com"));
        for safe in ["ws://localhost:1/", "http://127.0.0.1/", "ws://[::1]:9/", "wss://example.com/"] {
            assert_eq!(
                Remote::new(safe).ok().and_then(|remote| remote.exposes_secrets_to().map(str::to_owned)),
                None
            );
        }
    }
}
