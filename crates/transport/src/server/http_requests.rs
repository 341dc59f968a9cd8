//! HTTP requests: authentication, dispatch, and streamable HTTP. Messages are posted; the program's lines are
//! read as server-sent events.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use switchboard_acp::Raw;
use switchboard_acp::rpc::RequestId;
use tokio::sync::{SemaphorePermit, oneshot};
use tokio::time::timeout;

use super::connection::{ActiveRequest, Carrier, Incoming, ResumeReply, ResumeRequest, ServedConnection};
use super::events::Events;
use super::listener::Admission;
use super::mailbox::{Claim, Reader};
use super::{Refusal, Server, Service, close_codes, message, websocket};
use crate::routing::{CONNECTION_ID, LAST_EVENT_ID, Routing, SESSION_ID};

/// Maximum length of a session id in bytes.
const SESSION_LENGTH: usize = 1024;

/// Body length in bytes up to which a body does not count towards the limit for long bodies.
const SHORT: usize = 64 << 10;

/// Methods that require a session.
const SESSION_METHODS: [&str; 10] = [
    "session/prompt",
    "session/cancel",
    "session/close",
    "session/delete",
    "session/fork",
    "session/load",
    "session/resume",
    "session/set_config_option",
    "session/set_mode",
    "session/set_model",
];

/// Handles a request to `/acp` or `/acp/{agent}`.
pub(super) async fn answer<S: Service>(
    server: Arc<Server<S>>,
    agent: Option<String>,
    request: Request,
) -> Response {
    respond(server, agent, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn respond<S: Service>(
    server: Arc<Server<S>>,
    agent: Option<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let from = parts.extensions.get::<ConnectInfo<SocketAddr>>().map_or(nowhere, |from| from.0);
    // Authenticate before anything else, so that unauthenticated clients learn nothing about agents or
    // connections.
    let who = server.service.identify(&parts, from)?;
    if let Some(admission) = parts.extensions.get::<Admission>() {
        admission.grant();
    }
    if !server.service.has_agent(agent.as_deref()) {
        let reason = match &agent {
            Some(agent) => format!("no agent {agent:?} on this server"),
            None => "no agent on this server".to_owned(),
        };
        return Err(Refusal::new(StatusCode::NOT_FOUND, reason));
    }
    let client = Client { server, who, agent };
    match parts.method {
        Method::GET if websocket::is_asked_for(&parts.headers) => {
            let Client { server, who, agent } = client;
            websocket::upgrade(server, who, agent, Request::from_parts(parts, body)).await
        }
        Method::GET => client.get(&parts.headers).await,
        Method::POST => client.post(&parts.headers, body).await,
        Method::DELETE => client.delete(&parts.headers),
        _ => {
            let refusal =
                Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use POST, GET or DELETE");
            let mut response = refusal.into_response();
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            Ok(response)
        }
    }
}

pub(super) fn name_connection(headers: &mut HeaderMap, id: &str) {
    headers
        .extend(HeaderValue::from_str(id).ok().map(|id| (http::HeaderName::from_static(CONNECTION_ID), id)));
}

/// The authenticated client of a request and its agent.
struct Client<S: Service> {
    server: Arc<Server<S>>,
    who: S::Identity,
    agent: Option<String>,
}

impl<S: Service> Client<S> {
    /// Returns the connection that a request refers to, and keeps it in use. `None` if the request has no
    /// connection id.
    fn connection(&self, headers: &HeaderMap) -> Result<Option<ActiveRequest>, Refusal> {
        let Some(id) = text_of(headers, CONNECTION_ID)? else { return Ok(None) };
        let found = self.server.connections.find(id, &self.who, self.agent.as_deref(), Carrier::Events);
        let shared = found.ok_or_else(gone)?;
        let active = ActiveRequest::new(shared).ok_or_else(|| {
            let reason = "too many concurrent requests on this connection; wait for responses";
            Refusal::later(StatusCode::TOO_MANY_REQUESTS, reason)
        })?;
        Ok(Some(active))
    }

    fn known_connection(&self, headers: &HeaderMap) -> Result<ActiveRequest, Refusal> {
        self.connection(headers)?.ok_or_else(no_connection)
    }

    async fn post(self, headers: &HeaderMap, body: Body) -> Result<Response, Refusal> {
        let kind = text_of(headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
        if !is_media_type(kind, "application/json") {
            let reason = "post messages with Content-Type: application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
        }
        // A client that starts over may still send the id of an expired connection.
        let connection = match self.connection(headers) {
            Err(refusal) if refusal.status != StatusCode::NOT_FOUND => return Err(refusal),
            found => found,
        };
        let (text, _room) = self.read_body(body).await?;
        let message = message::read(&text).map_err(|answer| Refusal::new(StatusCode::BAD_REQUEST, answer))?;
        if let Some(id) = message.id.as_ref().filter(|_| message::opens(&message)) {
            // `initialize` always starts a new connection, even with a connection id.
            return self.open(id.clone(), text).await;
        }
        let active = connection?.ok_or_else(no_connection)?;
        // Read the body before checking, because an HTTP/1.1 client may not read a response while it is
        // writing.
        check_session(&message, text_of(headers, SESSION_ID)?)?;
        self.deliver(&active.0, Incoming::Message(text)).await?;
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Creates a connection. The response to `initialize` becomes the HTTP response.
    async fn open(&self, id: RequestId<'static>, text: String) -> Result<Response, Refusal> {
        let Client { server, who, agent } = self;
        let limits = Arc::clone(server.connections.limits());
        let connection = server.connections.open(who.clone(), agent.clone(), Carrier::Events)?;
        let opening = Opening(Some(Arc::clone(&connection.outgoing.0)));
        let shared = Arc::clone(&connection.outgoing.0);
        let _active = ActiveRequest::new(Arc::clone(&shared));
        // Register the expected response before the program gets the request, or it could be missed.
        let answered = shared.expect_opening(id);
        shared.set_open();
        if let Some(incoming) = shared.incoming() {
            // A new queue has capacity for one message.
            let _ = incoming.try_send(Incoming::Message(text));
        }
        // The first message is queued before the program gets the connection, so it is the first one it
        // reads.
        server.service.open(who.clone(), agent.clone(), connection);
        let answer = match timeout(limits.opening, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(ended(&shared)),
            Err(_) => {
                return Err(Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "the agent did not answer initialize in time",
                ));
            }
        };
        let is_refused = Raw::parse(&*answer).is_ok_and(|answer| answer.get("error").is_some());
        let mut response = Response::new(Body::from(answer.into_bytes()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if !is_refused {
            name_connection(headers, &shared.id);
            opening.done();
        }
        Ok(response)
    }

    async fn get(self, headers: &HeaderMap) -> Result<Response, Refusal> {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if !accepted.flat_map(|value| value.split(',')).any(|kind| is_media_type(kind, "text/event-stream")) {
            let reason = "read streams with Accept: text/event-stream";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, reason));
        }
        let active = self.known_connection(headers)?;
        let session: Option<Arc<str>> = text_of(headers, SESSION_ID)?.map(Arc::from);
        if session.as_ref().is_some_and(|session| session.is_empty() || session.len() > SESSION_LENGTH) {
            let reason = format!("Acp-Session-Id must have 1 to {SESSION_LENGTH} bytes");
            return Err(Refusal::new(StatusCode::BAD_REQUEST, reason));
        }
        let last = text_of(headers, LAST_EVENT_ID)?.filter(|last| !last.is_empty());
        let reader = match (session, last) {
            (Some(session), Some(cursor)) => self.resume(&active.0, session, cursor.to_owned()).await?,
            (None, Some(_)) => active.0.read(None, Claim::Over)?,
            (session, None) => active.0.read(session.as_ref(), Claim::Free)?,
        };
        let mut response = Response::new(Body::new(Events::new(reader)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        // Prevents nginx from buffering events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        name_connection(headers, &active.0.id);
        Ok(response)
    }

    /// Asks the program to resume a stream after a cursor.
    async fn resume(
        &self,
        shared: &Arc<ServedConnection>,
        session: Arc<str>,
        cursor: String,
    ) -> Result<Reader, Refusal> {
        let (answer, answered) = oneshot::channel();
        let reply = ResumeReply { shared: Arc::clone(shared), session: Arc::clone(&session), answer };
        let request = ResumeRequest { session: session.to_string(), cursor, reply };
        self.deliver(shared, Incoming::Resume(Box::new(request))).await?;
        match timeout(shared.limits.body, answered).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(busy()),
        }
    }

    fn delete(self, headers: &HeaderMap) -> Result<Response, Refusal> {
        let active = self.known_connection(headers)?;
        active.0.end(close_codes::NORMAL, "the client has left");
        Ok(StatusCode::ACCEPTED.into_response())
    }

    /// Delivers input to the program.
    async fn deliver(&self, shared: &ServedConnection, incoming: Incoming) -> Result<(), Refusal> {
        let sender = shared.incoming().ok_or_else(gone)?;
        match timeout(shared.limits.body, sender.send(incoming)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(busy()),
        }
    }

    /// Reads a body within the length and time limits. Returns it with the permits that it holds if it is
    /// long.
    async fn read_body(&self, mut body: Body) -> Result<(String, Vec<SemaphorePermit<'_>>), Refusal> {
        let limits = self.server.connections.limits();
        let reading = async {
            let (mut bytes, mut room, mut length) = (Vec::new(), Vec::new(), 0);
            while let Some(frame) = timeout(limits.body, body.frame()).await.map_err(|_| too_slow())? {
                let frame = frame.map_err(|error| {
                    Refusal::new(StatusCode::BAD_REQUEST, format!("the request body is incomplete: {error}"))
                })?;
                let Ok(data) = frame.into_data() else { continue };
                length += data.len();
                if length > limits.message {
                    bytes = Vec::new();
                    room.clear();
                    // Keep reading, because a client that is still writing does not see the response. Give up
                    // if the body does not end.
                    if length > 4 * limits.message {
                        break;
                    }
                    continue;
                }
                if length > SHORT {
                    let more = u32::try_from(data.len().div_ceil(1 << 10)).unwrap_or(u32::MAX);
                    // Acquire memory as the body grows. A declared length is not trusted.
                    room.extend(self.server.bodies.acquire_many(more).await);
                }
                bytes.extend_from_slice(&data);
            }
            if length > limits.message {
                let reason = format!("the message exceeds the limit of {} bytes", limits.message);
                return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
            }
            let text = String::from_utf8(bytes).map_err(|error| not_text(&error))?;
            Ok((text, room))
        };
        timeout(10 * limits.body, reading).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

/// Ends a connection that could not be opened completely.
struct Opening(Option<Arc<ServedConnection>>);

impl Opening {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.end(close_codes::NORMAL, "the client has left");
        }
    }
}

/// Returns a header as text.
fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, format!("header {name} is not valid UTF-8")))
}

/// Returns true if a media type, ignoring parameters, equals `expected`.
fn is_media_type(found: &str, expected: &str) -> bool {
    found.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(expected))
}

/// Checks that the header and the message refer to the same session, and that there is one if the method
/// requires it.
fn check_session(message: &Routing, header: Option<&str>) -> Result<(), Refusal> {
    if message.is_of_connection() {
        return Ok(());
    }
    let reason = match (header, message.session.as_deref()) {
        (Some(header), Some(named)) if header != named => {
            "Acp-Session-Id and params.sessionId name different sessions"
        }
        (None, None) if message.method.as_deref().is_some_and(|method| SESSION_METHODS.contains(&method)) => {
            "this method needs a session: send Acp-Session-Id, and params.sessionId"
        }
        _ => return Ok(()),
    };
    Err(Refusal::new(StatusCode::BAD_REQUEST, reason))
}

fn not_text(error: &std::string::FromUtf8Error) -> Refusal {
    use crate::connection::{error_line, failure};
    let code = switchboard_acp::rpc::codes::PARSE_ERROR;
    let answer =
        error_line(&RequestId::Null, &failure(code, format!("the message is not valid UTF-8: {error}")));
    Refusal::new(StatusCode::BAD_REQUEST, answer)
}

fn no_connection() -> Refusal {
    let reason = "the header Acp-Connection-Id is missing; send the value from the response to initialize";
    Refusal::new(StatusCode::BAD_REQUEST, reason)
}

fn gone() -> Refusal {
    let reason = "unknown or expired connection; send initialize to start a new one";
    Refusal::new(StatusCode::NOT_FOUND, reason)
}

fn too_slow() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time")
}

fn busy() -> Refusal {
    Refusal::later(StatusCode::SERVICE_UNAVAILABLE, "the server is busy")
}

/// Returns the refusal for a connection that the program ended instead of opening it.
fn ended(shared: &ServedConnection) -> Refusal {
    let Some(ending) = shared.ending() else { return busy() };
    let status = match ending.code {
        close_codes::UNAUTHORIZED => StatusCode::UNAUTHORIZED,
        close_codes::GOING_AWAY => StatusCode::SERVICE_UNAVAILABLE,
        close_codes::POLICY_VIOLATION => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, &*ending.reason)
}
