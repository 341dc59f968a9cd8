//! Streamable HTTP: messages are posted, and what the server says comes over streams of events, one for the connection
//! and one a session.

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

/// How many requests are remembered, in both directions.
const REQUESTS: usize = 4096;

/// How many messages of the server may wait for whoever reads them.
const WAITING: usize = 4;

/// How long a broken stream is tried to be taken up again.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the server may take to hear that we leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// A client of one server.
pub(super) struct Client {
    remote: Remote,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    state: Mutex<HttpState>,
}

struct HttpState {
    /// What the server calls the connection.
    connection: Option<HeaderValue>,
    cookies: BTreeMap<String, String>,
    /// The sessions whose streams are read.
    sessions: HashSet<String>,
    requests: Correlator<About>,
}

/// What is remembered of a request.
enum About {
    /// Ours, whose answer names a session.
    OpensSession,
    /// One of the server in a session: the answer goes there, too.
    Session(String),
}

/// What a stream has to tell.
enum Told {
    Message { session: Option<String>, text: String },
    Lost(RemoteError),
}

/// Where streams tell, and where they run.
struct Streams {
    tell: mpsc::Sender<Told>,
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

    /// Sends a request with everything that belongs to all of them.
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

    /// Cookies say which of several machines knows the connection. All requests go to one place, so a name and a value
    /// are all that counts.
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

    /// A body of limited length.
    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, RemoteError> {
        let body = Limited::new(response.into_body(), self.remote.limit).collect().await;
        Ok(body.map_err(|error| self.remote.ended(error.to_string()))?.to_bytes())
    }

    /// Why the server refused.
    async fn refusal(&self, response: Response<Incoming>) -> RemoteError {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, EXCERPT).collect().await;
        self.remote.refused(head.status, &head.headers, &body.map(Collected::to_bytes).unwrap_or_default())
    }

    /// What is at the address.
    pub(super) async fn get(&self) -> Result<String, RemoteError> {
        let response = self.send(Method::GET, None, &[], Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(String::from_utf8_lossy(&self.body(response).await?).into_owned())
    }

    /// Posts a message of ours. Gives what is to be said to whoever sent it.
    async fn post(self: &Arc<Self>, line: &str, streams: &Streams) -> Result<Option<String>, RemoteError> {
        let message = routing(line);
        let session = match (&message.method, &message.id) {
            _ if message.is_of_connection() => None,
            (Some(_), _) => message.session.clone(),
            (None, Some(id)) => match self.state().requests.answered(Side::Client, id) {
                Some(About::Session(session)) => Some(session),
                _ => None,
            },
            (None, None) => None,
        };
        if let Some(session) = &session {
            // What the message leads to may be said before it is answered.
            self.read_session(session, streams).await?;
        }
        if let (Some("session/new" | "session/fork"), Some(id)) = (message.method.as_deref(), &message.id) {
            self.state().requests.open_or_evict(Side::Client, id, About::OpensSession);
        }
        let json = [
            (CONTENT_TYPE.as_str(), "application/json"),
            (ACCEPT.as_str(), "application/json, text/event-stream"),
        ];
        let body = Bytes::copy_from_slice(line.as_bytes());
        let response = self.send(Method::POST, session.as_deref(), &json, body).await?;
        if !response.status().is_success() {
            return self.not_taken(response, &message).await;
        }
        let begins = message.method.as_deref() == Some("initialize");
        let connection = response.headers().get(CONNECTION_ID).cloned();
        let body = self.body(response).await?;
        if let (true, Some(connection)) = (begins, connection) {
            self.state().connection = Some(connection);
            self.read_stream(None, streams).await?;
        }
        let text = String::from_utf8_lossy(&body);
        Ok((!text.trim().is_empty()).then(|| text.into_owned()))
    }

    /// The server did not take a message: whoever waits for its answer hears that. Where it does not know us any more,
    /// all is over.
    async fn not_taken(
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

    /// Reads the stream of a session, if nobody does yet.
    async fn read_session(self: &Arc<Self>, session: &str, streams: &Streams) -> Result<(), RemoteError> {
        if !self.state().sessions.insert(session.to_owned()) {
            return Ok(());
        }
        match self.read_stream(Some(session), streams).await {
            // The server does not know the session: it will say so in its answer.
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
        // Those that have ended are taken away.
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

    /// Notes what a message of the server means for messages to come.
    async fn take_note(
        self: &Arc<Self>,
        session: Option<String>,
        text: &str,
        streams: &Streams,
    ) -> Result<(), RemoteError> {
        let message = routing(text);
        let Some(id) = &message.id else { return Ok(()) };
        if message.method.is_some() {
            if let Some(session) = session.or(message.session) {
                self.state().requests.open_or_evict(Side::Agent, id, About::Session(session));
            }
            return Ok(());
        }
        let opened = self.state().requests.answered(Side::Agent, id);
        if let (Some(About::OpensSession), Some(session)) = (opened, new_session(text)) {
            // Before anybody can prompt it.
            self.read_session(&session, streams).await?;
        }
        Ok(())
    }
}

/// One stream of events, taken up again when it breaks.
struct EventStream {
    client: Arc<Client>,
    session: Option<String>,
    /// The last event that came, where events have names.
    last: Option<String>,
    /// How long to wait before it is taken up again: not at all after one that brought something.
    pause: Duration,
    tell: mpsc::Sender<Told>,
    /// Is told that it was taken up again.
    taken_up: Arc<Notify>,
}

/// How the reading of a stream ended.
enum Broken {
    /// It broke, and may be taken up again.
    Stream(String),
    /// It cannot be read.
    Unreadable(RemoteError),
    /// Nobody listens.
    Unheard,
}

impl EventStream {
    async fn read(mut self, mut body: Incoming) {
        loop {
            let next = match self.read_events(&mut body).await {
                Broken::Stream(reason) => self.take_up(&reason).await,
                Broken::Unreadable(error) => Err(error),
                Broken::Unheard => return,
            };
            match next {
                Ok(Some(next)) => body = next,
                Ok(None) => return,
                Err(error) => {
                    let _ = self.tell.send(Told::Lost(error)).await;
                    return;
                }
            }
        }
    }

    /// Reads until the stream breaks, and says why.
    async fn read_events(&mut self, body: &mut Incoming) -> Broken {
        let limit = self.client.remote.limit;
        let mut decoder = EventDecoder::new(limit);
        loop {
            let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else {
                return Broken::Stream(format!("nothing came for {} seconds", SILENCE.as_secs()));
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        decoder.push(bytes);
                    }
                }
                Some(Err(error)) => return Broken::Stream(innermost(&error)),
                None => return Broken::Stream("it ended".to_owned()),
            }
            loop {
                match decoder.next() {
                    Ok(Some(event)) => {
                        self.pause = Duration::ZERO;
                        self.last = event.id.or(self.last.take());
                        let told = Told::Message { session: self.session.clone(), text: event.data };
                        if self.tell.send(told).await.is_err() {
                            return Broken::Unheard;
                        }
                    }
                    Ok(None) => break,
                    Err(EventTooLong) => {
                        let reason = format!("a message of more than {limit} bytes");
                        return Broken::Unreadable(self.client.remote.ended(reason));
                    }
                }
            }
        }
    }

    /// Opens the stream once more, behind what has come. `None` where the session is over.
    async fn take_up(&mut self, reason: &str) -> Result<Option<Incoming>, RemoteError> {
        let (client, session) = (&self.client, self.session.as_deref());
        if client.remote.is_exact && session.is_some() && self.last.is_none() {
            return Err(client.remote.ended(reason));
        }
        let what =
            session.map_or_else(|| "the connection".to_owned(), |session| format!("session {session}"));
        let begin = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).clamp(Duration::from_millis(100), Duration::from_secs(5));
            match client.open_stream(session, self.last.as_deref()).await {
                Ok(body) => {
                    let gap = if self.last.is_some() || client.remote.is_exact {
                        ""
                    } else {
                        "; what was said meanwhile may be missing"
                    };
                    (client.remote.tell)(&format!(
                        "the stream of {what} broke ({reason}) and was taken up again{gap}"
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
                Err(error) if begin.elapsed() > PATIENCE => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Passes messages on in both directions until one side ends.
pub(super) async fn pass_on(
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
                Told::Message { session, text } => (session, text),
                Told::Lost(error) => return Err(error),
            };
            client.take_note(session, &text, &streams).await?;
            if write_lines(&mut *writer.lock().await, &text).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let end = tokio::select! {
        end = sending => end,
        end = receiving => end,
    };
    let is_open = client.state().connection.is_some();
    if is_open {
        // The server ends what belongs to the connection, now or when it has waited long enough.
        let _ = tokio::time::timeout(FAREWELL, client.send(Method::DELETE, None, &[], Bytes::new())).await;
    }
    end
}

/// The session that the result of an answer names.
fn new_session(text: &str) -> Option<String> {
    Raw::parse(text).ok()?.get("result")?.text("sessionId")
}

fn routing(text: &str) -> Routing {
    Raw::parse(text).map(|message| Routing::of(&message)).unwrap_or_default()
}

/// The cause of an error: what is around it says only that a request failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
