//! Streamable HTTP client: messages are posted; the server's messages arrive as server-sent events on one
//! stream for the connection and one per session.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use switchboard_acp::rpc::codes;
use switchboard_acp::{Correlator, Raw, Side};
use tokio::io::DuplexStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::server_events::{EventDecoder, EventTooLong};
use super::{EXCERPT, Lines, Remote, RemoteError, SILENCE, tls, write_lines};
use crate::connection::{error_line, failure};
use crate::routing::{CONNECTION_ID, LAST_EVENT_ID, Routing, SESSION_ID};

/// Maximum number of requests remembered, for each direction.
const REQUESTS: usize = 4096;

/// Number of server messages that may be queued for the reader.
const WAITING: usize = 4;

/// Time for which a broken stream is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for the final DELETE request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// HTTP client for one server.
pub(super) struct Client {
    remote: Remote,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    state: Mutex<HttpState>,
}

struct HttpState {
    /// Connection id assigned by the server.
    connection: Option<HeaderValue>,
    cookies: BTreeMap<String, String>,
    /// Sessions whose streams are being read.
    sessions: HashSet<String>,
    requests: Correlator<PendingRequest>,
}

/// Data remembered about a request.
enum PendingRequest {
    /// A client request whose response contains a new session id.
    OpensSession,
    /// A server request in a session: the response is posted with this session id.
    Session(String),
}

/// Event from a stream task.
enum StreamEvent {
    Message { session: Option<String>, text: String },
    Lost(RemoteError),
}

/// Channel and task set of the stream tasks.
struct Streams {
    tell: mpsc::Sender<StreamEvent>,
    taken_up: Arc<Notify>,
    running: Mutex<JoinSet<()>>,
}

impl Client {
    pub(super) fn new(remote: &Remote) -> Result<Self, RemoteError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(30)));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(remote)?.as_ref().clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        let state = HttpState {
            connection: None,
            cookies: BTreeMap::new(),
            sessions: HashSet::new(),
            requests: Correlator::new(REQUESTS),
        };
        Ok(Client {
            remote: remote.clone(),
            http: hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, HttpState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request with the common headers.
    async fn send(
        &self,
        method: Method,
        session: Option<&str>,
        more: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, RemoteError> {
        let url: Uri = self.remote.url.clone();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url;
        let headers = request.headers_mut();
        headers.extend(self.remote.headers.clone());
        {
            let state = self.state();
            if let Some(connection) = &state.connection {
                headers.insert(CONNECTION_ID, connection.clone());
            }
            if !state.cookies.is_empty() {
                let cookies: Vec<String> =
                    state.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if let Ok(value) = HeaderValue::from_str(&cookies.join("; ")) {
                    headers.insert(COOKIE, value);
                }
            }
        }
        let named = session.map(|session| (SESSION_ID, session));
        for (name, value) in more.iter().copied().chain(named) {
            let value = HeaderValue::from_str(value).map_err(|error| self.remote.unreachable(&error))?;
            headers.insert(name, value);
        }
        let response = self
            .http
            .request(request)
            .await
            .map_err(|error| self.remote.failed(&error, &innermost(&error)))?;
        self.keep_cookies(response.headers());
        Ok(response)
    }

    /// Stores cookies, which load balancers use to route a connection. All requests go to the same URL, so
    /// only names and values matter.
    fn keep_cookies(&self, headers: &HeaderMap) {
        for cookie in headers.get_all(SET_COOKIE) {
            let Some((name, rest)) = cookie.to_str().ok().and_then(|cookie| cookie.split_once('=')) else {
                continue;
            };
            let value = rest.split(';').next().unwrap_or_default();
            let mut state = self.state();
            if state.cookies.len() < 50 || state.cookies.contains_key(name.trim()) {
                state.cookies.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
    }

    /// Reads a body up to the length limit.
    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, RemoteError> {
        let body = Limited::new(response.into_body(), self.remote.limit).collect().await;
        Ok(body.map_err(|error| self.remote.ended(error.to_string()))?.to_bytes())
    }

    /// Returns the server's refusal as an error.
    async fn refusal(&self, response: Response<Incoming>) -> RemoteError {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, EXCERPT).collect().await;
        self.remote.refused(head.status, &head.headers, &body.map(Collected::to_bytes).unwrap_or_default())
    }

    /// Fetches the URL.
    pub(super) async fn get(&self) -> Result<String, RemoteError> {
        let response = self.send(Method::GET, None, &[], Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(String::from_utf8_lossy(&self.body(response).await?).into_owned())
    }

    /// Posts a message. Returns the response for the caller, if there is one.
    async fn post(self: &Arc<Self>, line: &str, streams: &Streams) -> Result<Option<String>, RemoteError> {
        let message = routing(line);
        let session = match (&message.method, &message.id) {
            _ if message.is_of_connection() => None,
            (Some(_), _) => message.session.clone(),
            (None, Some(id)) => match self.state().requests.answered(Side::Client, id) {
                Some(PendingRequest::Session(session)) => Some(session),
                _ => None,
            },
            (None, None) => None,
        };
        if let Some(session) = &session {
            // Open the stream before posting: the server may send messages of the session before the
            // response.
            self.read_session(session, streams).await?;
        }
        // Remember the request before sending it: the response may arrive on a stream before the POST
        // returns.
        if let (Some("session/new" | "session/fork"), Some(id)) = (message.method.as_deref(), &message.id) {
            self.state().requests.open_or_evict(Side::Client, id, PendingRequest::OpensSession);
        }
        let json = [
            (CONTENT_TYPE.as_str(), "application/json"),
            (ACCEPT.as_str(), "application/json, text/event-stream"),
        ];
        let body = Bytes::copy_from_slice(line.as_bytes());
        let response = self.send(Method::POST, session.as_deref(), &json, body).await?;
        if !response.status().is_success() {
            return self.refused_message(response, &message).await;
        }
        let begins = message.method.as_deref() == Some("initialize");
        let connection = response.headers().get(CONNECTION_ID).cloned();
        let body = self.body(response).await?;
        if let (true, Some(connection)) = (begins, connection) {
            // Store the id before opening the connection's stream, which sends it.
            self.state().connection = Some(connection);
            self.read_stream(None, streams).await?;
        }
        let text = String::from_utf8_lossy(&body);
        Ok((!text.trim().is_empty()).then(|| text.into_owned()))
    }

    /// Handles a message that the server refused: the pending request gets an error. If the server does not
    /// know this client, the connection fails.
    async fn refused_message(
        &self,
        response: Response<Incoming>,
        message: &Routing,
    ) -> Result<Option<String>, RemoteError> {
        let status = response.status();
        let refusal = self.refusal(response).await;
        let is_over = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE
        );
        if is_over {
            return Err(refusal);
        }
        let (Some(_), Some(id)) = (&message.method, &message.id) else {
            (self.remote.tell)(&refusal.to_string());
            return Ok(None);
        };
        let RemoteError::Refused { body, .. } = &refusal else { return Err(refusal) };
        let mut error = failure(codes::INTERNAL_ERROR, refusal.to_string());
        let data = serde_json::json!({"status": status.as_u16(), "body": body});
        error.data = Some(Raw::from(data));
        self.state().requests.close(Side::Client, id);
        Ok(Some(error_line(id, &error)))
    }

    /// Reads the stream of a session, unless it is already being read.
    async fn read_session(self: &Arc<Self>, session: &str, streams: &Streams) -> Result<(), RemoteError> {
        if !self.state().sessions.insert(session.to_owned()) {
            return Ok(());
        }
        match self.read_stream(Some(session), streams).await {
            // The server does not know the session. Its response to the message will say so.
            Err(RemoteError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => {
                self.state().sessions.remove(session);
                Ok(())
            }
            other => other,
        }
    }

    async fn read_stream(
        self: &Arc<Self>,
        session: Option<&str>,
        streams: &Streams,
    ) -> Result<(), RemoteError> {
        let body = self.open_stream(session, None).await?;
        let stream = EventStream {
            client: Arc::clone(self),
            session: session.map(str::to_owned),
            last: None,
            pause: Duration::ZERO,
            tell: streams.tell.clone(),
            taken_up: Arc::clone(&streams.taken_up),
        };
        let mut running = streams.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.spawn(stream.read(body));
        // Remove finished tasks.
        while running.try_join_next().is_some() {}
        Ok(())
    }

    async fn open_stream(&self, session: Option<&str>, last: Option<&str>) -> Result<Incoming, RemoteError> {
        let mut headers = vec![(ACCEPT.as_str(), "text/event-stream")];
        headers.extend(last.map(|last| (LAST_EVENT_ID, last)));
        let response = self.send(Method::GET, session, &headers, Bytes::new()).await?;
        if response.status().is_success() {
            Ok(response.into_body())
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Records requests and new sessions in a message of the server.
    async fn record_message(
        self: &Arc<Self>,
        session: Option<String>,
        text: &str,
        streams: &Streams,
    ) -> Result<(), RemoteError> {
        let message = routing(text);
        let Some(id) = &message.id else { return Ok(()) };
        if message.method.is_some() {
            if let Some(session) = session.or(message.session) {
                self.state().requests.open_or_evict(Side::Agent, id, PendingRequest::Session(session));
            }
            return Ok(());
        }
        let opened = self.state().requests.answered(Side::Agent, id);
        if let (Some(PendingRequest::OpensSession), Some(session)) = (opened, new_session(text)) {
            // Before the client can send a prompt to it.
            self.read_session(&session, streams).await?;
        }
        Ok(())
    }
}

/// One stream of server-sent events, reopened when it breaks.
struct EventStream {
    client: Arc<Client>,
    session: Option<String>,
    /// Id of the last event received, if the server sends ids.
    last: Option<String>,
    /// Delay before reopening. Zero after a stream that delivered an event.
    pause: Duration,
    tell: mpsc::Sender<StreamEvent>,
    /// Notified after the stream was reopened.
    taken_up: Arc<Notify>,
}

/// Reason why reading a stream ended.
enum Broken {
    /// The stream broke and can be reopened.
    Stream(String),
    /// The stream is invalid.
    Invalid(RemoteError),
    /// The receiver was dropped.
    ReceiverDropped,
}

impl EventStream {
    async fn read(mut self, mut body: Incoming) {
        loop {
            let next = match self.read_events(&mut body).await {
                Broken::Stream(reason) => self.reopen(&reason).await,
                Broken::Invalid(error) => Err(error),
                Broken::ReceiverDropped => return,
            };
            match next {
                Ok(Some(next)) => body = next,
                Ok(None) => return,
                Err(error) => {
                    let _ = self.tell.send(StreamEvent::Lost(error)).await;
                    return;
                }
            }
        }
    }

    /// Reads until the stream breaks. Returns the reason.
    async fn read_events(&mut self, body: &mut Incoming) -> Broken {
        let limit = self.client.remote.limit;
        let mut decoder = EventDecoder::new(limit);
        loop {
            let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else {
                return Broken::Stream(format!("no data for {} seconds", SILENCE.as_secs()));
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        decoder.push(bytes);
                    }
                }
                Some(Err(error)) => return Broken::Stream(innermost(&error)),
                None => return Broken::Stream("it was closed by the server".to_owned()),
            }
            loop {
                match decoder.next() {
                    Ok(Some(event)) => {
                        self.pause = Duration::ZERO;
                        // An event without an id keeps the last one, as the specification requires.
                        self.last = event.id.or(self.last.take());
                        let told = StreamEvent::Message { session: self.session.clone(), text: event.data };
                        if self.tell.send(told).await.is_err() {
                            return Broken::ReceiverDropped;
                        }
                    }
                    Ok(None) => break,
                    Err(EventTooLong) => {
                        let reason = format!("a message exceeds the limit of {limit} bytes");
                        return Broken::Invalid(self.client.remote.ended(reason));
                    }
                }
            }
        }
    }

    /// Reopens the stream after the last event, with increasing delays up to [`RETRY_TIMEOUT`]. Returns
    /// `None` if the session has ended.
    async fn reopen(&mut self, reason: &str) -> Result<Option<Incoming>, RemoteError> {
        let (client, session) = (&self.client, self.session.as_deref());
        // Without an event id the server cannot replay, so messages could be missing.
        if client.remote.is_exact && session.is_some() && self.last.is_none() {
            return Err(client.remote.ended(reason));
        }
        let what =
            session.map_or_else(|| "the connection".to_owned(), |session| format!("session {session}"));
        let begin = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(self.pause).await;
            // Exponential backoff. The first attempt is immediate after a stream that delivered something.
            self.pause = (self.pause * 2).clamp(Duration::from_millis(100), Duration::from_secs(5));
            match client.open_stream(session, self.last.as_deref()).await {
                Ok(body) => {
                    let gap = if self.last.is_some() || client.remote.is_exact {
                        ""
                    } else {
                        "; messages sent meanwhile may be missing"
                    };
                    (client.remote.tell)(&format!(
                        "the stream of {what} broke ({reason}) and was resumed{gap}"
                    ));
                    self.taken_up.notify_one();
                    return Ok(Some(body));
                }
                Err(RemoteError::Refused { status, .. })
                    if status == StatusCode::NOT_FOUND && session.is_some() =>
                {
                    client.state().sessions.remove(session.unwrap_or_default());
                    return Ok(None);
                }
                Err(error @ RemoteError::Refused { .. }) => return Err(error),
                Err(error) if begin.elapsed() > RETRY_TIMEOUT => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Exchanges messages in both directions until one side ends.
pub(super) async fn relay(
    client: Client,
    local: DuplexStream,
    taken_up: Arc<Notify>,
) -> Result<(), RemoteError> {
    let client = Arc::new(client);
    let (reader, writer) = tokio::io::split(local);
    let writer = tokio::sync::Mutex::new(writer);
    let mut lines = Lines::new(reader, &client.remote);
    let (tell, mut told) = mpsc::channel(WAITING);
    let streams = Streams { tell, taken_up, running: Mutex::default() };
    let sending = async {
        while let Some(line) = lines.next(&client.remote).await {
            if let Some(answer) = client.post(&line, &streams).await?
                && write_lines(&mut *writer.lock().await, &answer).await.is_err()
            {
                break;
            }
        }
        Ok(())
    };
    let receiving = async {
        while let Some(told) = told.recv().await {
            let (session, text) = match told {
                StreamEvent::Message { session, text } => (session, text),
                StreamEvent::Lost(error) => return Err(error),
            };
            // Open the stream of a new session before the client learns its id, so that no message of it is
            // missed.
            client.record_message(session, &text, &streams).await?;
            if write_lines(&mut *writer.lock().await, &text).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    // Either direction ends the relay. The DELETE below is best effort.
    let end = tokio::select! {
        end = sending => end,
        end = receiving => end,
    };
    let is_open = client.state().connection.is_some();
    if is_open {
        // Lets the server release the connection now instead of after its grace time.
        let _ =
            tokio::time::timeout(CLOSE_TIMEOUT, client.send(Method::DELETE, None, &[], Bytes::new())).await;
    }
    end
}

/// Returns the session id in the result of a response.
fn new_session(text: &str) -> Option<String> {
    Raw::parse(text).ok()?.get("result")?.text("sessionId")
}

fn routing(text: &str) -> Routing {
    Raw::parse(text).map(|message| Routing::of(&message)).unwrap_or_default()
}

/// Returns the innermost cause of an error. The outer ones only say that a request failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
