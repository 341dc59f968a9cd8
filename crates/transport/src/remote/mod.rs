//! Agents on other machines, reached over the network.

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

/// Buffer size between the relay and the stream's user, in bytes.
const BUFFER: usize = 64 * 1024;

/// Interval of pings.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Time without data after which the server counts as gone.
const SILENCE: Duration = Duration::from_secs(75);

/// Maximum length of a displayed refusal in bytes.
const EXCERPT: usize = 8 * 1024;

/// An ACP server: WebSocket (`ws://`, `wss://`) or streamable HTTP (`http://`, `https://`).
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

/// Connection to a [`Remote`]: one JSON value per line in both directions. Ends when the writer is dropped.
#[derive(Debug)]
pub struct RemoteStream {
    /// Messages of the server.
    pub reader: tokio::io::ReadHalf<DuplexStream>,
    /// Messages to the server.
    pub writer: tokio::io::WriteHalf<DuplexStream>,
    /// Result of the connection: `Ok` if this side ended it.
    pub end: JoinHandle<Result<(), RemoteError>>,
    /// Connection id assigned by the server, for [`Remote::resume`]. Only WebSocket connections can be
    /// resumed this way.
    pub connection_id: Option<String>,
    /// Notified when a stream broke and was resumed internally. Messages sent meanwhile may be lost, except
    /// those with a cursor.
    pub taken_up: Arc<Notify>,
}

/// Reason why a server could not be reached or was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Not a valid URL of a server.
    #[error("invalid agent URL \"{url}\": {reason}")]
    BadAddress {
        /// The URL given.
        url: String,
        /// Reason.
        reason: String,
    },
    /// Not a valid HTTP header.
    #[error("invalid header \"{name}\": {reason}")]
    BadHeader {
        /// Name of the header.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// URL of the server.
        url: String,
        /// Reason.
        reason: String,
    },
    /// The server refused the request.
    #[error("{url} refused the request: {status}{}", with_colon(body))]
    Refused {
        /// URL of the server.
        url: String,
        /// HTTP status.
        status: StatusCode,
        /// True if other credentials might be accepted: 401, or another status with `WWW-Authenticate`.
        wants_token: bool,
        /// Response body, at most 8 KiB.
        body: String,
    },
    /// The server ended the connection.
    #[error("{url} ended the connection{}", with_colon(reason))]
    Ended {
        /// URL of the server.
        url: String,
        /// Reason given by the server, with the close code.
        reason: String,
    },
    /// The server was silent for too long.
    #[error("no data from {url} for {} seconds", SILENCE.as_secs())]
    Silent {
        /// URL of the server.
        url: String,
    },
}

fn with_colon(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

impl fmt::Debug for Remote {
    // Omit headers, which may contain secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remote").field("url", &self.shown()).finish_non_exhaustive()
    }
}

impl Remote {
    /// Creates a remote from a URL.
    pub fn new(url: &str) -> Result<Self, RemoteError> {
        let bad = |reason: String| RemoteError::BadAddress { url: url.to_owned(), reason };
        let uri: Uri = url.trim().parse().map_err(|error: ::http::uri::InvalidUri| bad(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("ws" | "wss" | "http" | "https")) {
            return Err(bad("it must start with ws://, wss://, http:// or https://".to_owned()));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(bad("it has no host".to_owned()));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("it must not contain a password; send a header instead".to_owned()));
        }
        let tell = Arc::new(|_: &str| {});
        let (headers, limit) = (HeaderMap::new(), DEFAULT_MESSAGE_LIMIT);
        Ok(Remote { url: uri, headers, limit, tell, is_exact: false })
    }

    /// Returns true if a word is a URL rather than a program.
    pub fn is_address(word: &str) -> bool {
        ["ws://", "wss://", "http://", "https://"].iter().any(|scheme| {
            word.get(..scheme.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(scheme))
        })
    }

    /// Adds a header to every request. Its value is never displayed.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, RemoteError> {
        let bad = |reason: String| RemoteError::BadHeader { name: name.to_owned(), reason };
        let key: HeaderName =
            name.parse().map_err(|error: ::http::header::InvalidHeaderName| bad(error.to_string()))?;
        let mut value = HeaderValue::from_str(value).map_err(|error| bad(error.to_string()))?;
        value.set_sensitive(true);
        self.headers.insert(key, value);
        Ok(self)
    }

    /// Sets a function that is called with messages about the connection, such as a resumed stream.
    #[must_use]
    pub fn tell(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Returns the host to which headers would be sent unencrypted over a network, if any.
    pub fn exposes_secrets_to(&self) -> Option<&str> {
        let host = self.url.host().filter(|_| !self.is_encrypted())?;
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        let is_here =
            host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
        (!is_here).then_some(host)
    }

    /// Ends a connection instead of resuming it if messages may be missing. For callers that can start a new
    /// connection after their last cursor.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Connects. Over HTTP, the server is first contacted with the first message.
    pub async fn connect(&self) -> Result<RemoteStream, RemoteError> {
        if matches!(self.url.scheme_str(), Some("ws" | "wss")) {
            return self.connect_socket(None).await;
        }
        let (near, far) = tokio::io::duplex(BUFFER);
        let client = http::Client::new(self)?;
        let taken_up = Arc::new(Notify::new());
        let end = spawn(http::relay(client, far, Arc::clone(&taken_up)));
        let (reader, writer) = tokio::io::split(near);
        Ok(RemoteStream { reader, writer, end, connection_id: None, taken_up })
    }

    /// Resumes a lost WebSocket connection. Fails with status 404 if the server no longer has it.
    pub async fn resume(&self, connection_id: &str) -> Result<RemoteStream, RemoteError> {
        self.connect_socket(Some(connection_id)).await
    }

    async fn connect_socket(&self, earlier: Option<&str>) -> Result<RemoteStream, RemoteError> {
        let (near, far) = tokio::io::duplex(BUFFER);
        let (socket, connection_id) = websocket::open(self, earlier).await?;
        let end = spawn(websocket::relay(self.clone(), socket, far));
        let (reader, writer) = tokio::io::split(near);
        Ok(RemoteStream { reader, writer, end, connection_id, taken_up: Arc::default() })
    }

    /// Fetches the text at the URL, which must be HTTP.
    pub async fn get(&self) -> Result<String, RemoteError> {
        http::Client::new(self)?.get().await
    }

    /// Returns the URL without its query, which may contain a secret.
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

    /// Like `unreachable`, with advice if the error concerns the server's certificate.
    fn failed(&self, error: &(dyn std::error::Error + 'static), reason: &impl ToString) -> RemoteError {
        match crate::certificate::advice_in(error) {
            Some(advice) => self.unreachable(&advice),
            None => self.unreachable(reason),
        }
    }

    /// Returns an error for a server that did not respond in time.
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

/// Writes a message as one line. The message may span several lines, or be several messages.
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
    // In JSON, a newline can only be white space between tokens.
    local.write_all(text.replace(['\n', '\r'], " ").as_bytes()).await?;
    local.write_all(b"\n").await
}

/// Lines to send. Invalid lines are reported and skipped.
struct Lines<R> {
    reader: crate::LineReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(reader: R, remote: &Remote) -> Self {
        Lines { reader: crate::LineReader::new(reader, remote.limit) }
    }

    /// Returns the next message, or `None` at the end.
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
    fn invalid_addresses_are_refused_without_showing_secrets() {
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
