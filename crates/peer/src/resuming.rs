//! A client of a server over unreliable connections, without lost or duplicate messages.

mod cursors;
mod envelope;
mod from_server;
mod pending;
mod questions;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;

use switchboard_acp::extensions::{CURSOR, META, OPERATION_ID, TRANSPORT, own_request_id, with_meta};
use switchboard_acp::rpc::{
    BATCH_LIMIT, Message, Notification, Request, RequestId, RpcError, batch_entries, codes, is_batch,
};
use switchboard_acp::{Raw, Side, Text, Wire, WireFormat};
use switchboard_transport::invalid_line_answer;

use self::cursors::Cursors;
use self::pending::{Opens, Pending, PendingKind};
use self::questions::Questions;

/// Send window in bytes: unanswered messages of the client before backpressure applies.
const SEND_WINDOW: usize = 8 * 1024 * 1024;

/// Connects a version 2 client to a server with resumable connections, such as `switchboard serve`.
///
/// It has no connection and no clock. The caller passes lines of either side to [`handle`](Self::handle),
/// reports connection changes with [`connected`](Self::connected) and [`lost`](Self::lost), and sends the
/// output of [`drain`](Self::drain). Wherever a connection breaks, the client gets each update once and in
/// order, one response to each request, and each question once; and each of its requests is executed once,
/// because it has an idempotency key.
///
/// ```
/// use switchboard_peer::{Connected, ResumableClient, ResumableOutput};
/// use switchboard_acp::Side;
///
/// let mut client = ResumableClient::new(|| "4b1d".to_owned());
/// client.handle(Side::Client, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}"#);
/// client.connected(Connected::Anew);
/// client.handle(Side::Agent, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}"#);
/// client.handle(Side::Client, r#"{"jsonrpc":"2.0","id":1,"method":"session/list"}"#);
/// // The connection breaks before the response: the request is sent again, and the server detects the
/// // duplicate.
/// client.lost();
/// client.connected(Connected::Resumed);
/// let asked = client.drain().filter(|output| {
///     matches!(output, ResumableOutput::Line { to: Side::Agent, line }
///         if line.contains("session/list") && line.contains(r#""switchboard/operationId":"4b1d""#))
/// });
/// assert_eq!(asked.count(), 2);
/// ```
pub struct ResumableClient {
    operation_id: Box<dyn FnMut() -> String + Send>,
    keeps_cursors: bool,
    phase: Phase,
    /// Number of the current connection, to tell on which one a message was sent.
    link: u64,
    /// Set if the server knows the client and its sessions on this connection.
    is_known: bool,
    initialize: Option<Initialize>,
    pending: Pending,
    questions: Questions,
    sessions: BTreeMap<String, AttachedSession>,
    cursors: Cursors,
    /// Pending requests of this type itself on the current connection.
    own: BTreeMap<u64, (OwnRequest, String)>,
    last_own: u64,
    /// Sessions that are being reattached: until their state arrives, updates may be duplicates.
    reattaching: HashSet<String>,
    /// Sessions whose pending questions are being determined.
    catching_up: HashMap<String, Awaiting>,
    output: VecDeque<ResumableOutput>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Down,
    /// The client is not initialized on this connection.
    Opening,
    /// The sessions are not attached on this connection.
    Attaching,
    Up,
}

/// Progress of reattaching a session. The server sends the missed updates, then the state, then the pending
/// questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaiting {
    /// The state has not arrived yet.
    State,
    /// Number of questions that still follow.
    Questions(u64),
    /// Questions follow until a live update arrives.
    LiveUpdate,
}

/// The client's handshake.
#[derive(Debug)]
struct Initialize {
    id: RequestId<'static>,
    params: Raw<'static>,
    is_answered: bool,
}

/// A session whose updates the client gets.
#[derive(Debug)]
struct AttachedSession {
    method: &'static str,
    /// Parameters of the request that opened it, without the session id.
    params: Raw<'static>,
    /// Set if the client created it, so that every update belongs to the client.
    is_own: bool,
}

/// Purpose of a request of this type itself.
#[derive(Debug)]
enum OwnRequest {
    Initialize,
    Attach { session: String, has_cursor: bool },
}

/// Kind of a new connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connected {
    /// The server does not know the client: the handshake must be repeated.
    Anew,
    /// The server resumes the lost connection.
    Resumed,
}

/// Output of a [`ResumableClient`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumableOutput {
    /// A line for one of the sides.
    Line {
        /// The receiver.
        to: Side,
        /// The line.
        line: String,
    },
    /// A session continues, but not from the point of interruption: updates may be missing.
    Gap {
        /// The session.
        session: String,
        /// The server's message.
        reason: String,
    },
    /// The server no longer has the session. The client is told that its work is over.
    SessionLost {
        /// The session.
        session: String,
        /// The server's message.
        reason: String,
    },
    /// The server refuses to continue on this connection.
    Refused {
        /// The server's message.
        reason: String,
    },
}

impl fmt::Debug for ResumableClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ResumableClient");
        shown.field("phase", &self.phase).field("sessions", &self.sessions).field("pending", &self.pending);
        shown.field("questions", &self.questions).finish_non_exhaustive()
    }
}

impl ResumableClient {
    /// Creates a client. `operation_id` creates unique idempotency keys, such as 128 random bits.
    pub fn new(operation_id: impl FnMut() -> String + Send + 'static) -> Self {
        ResumableClient {
            operation_id: Box::new(operation_id),
            keeps_cursors: true,
            phase: Phase::Down,
            link: 0,
            is_known: false,
            initialize: None,
            pending: Pending::default(),
            questions: Questions::default(),
            sessions: BTreeMap::new(),
            cursors: Cursors::default(),
            own: BTreeMap::new(),
            last_own: 0,
            reattaching: HashSet::new(),
            catching_up: HashMap::new(),
            output: VecDeque::new(),
        }
    }

    /// Removes cursors from the updates for the client.
    #[must_use]
    pub fn without_cursors(mut self) -> Self {
        self.keeps_cursors = false;
        self
    }

    /// Removes and returns the output, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = ResumableOutput> + '_ {
        self.output.drain(..)
    }

    /// Returns whether the send window is open. If not, stop reading from the client (backpressure) until the
    /// server answers.
    pub fn has_open_send_window(&self) -> bool {
        self.pending.bytes() < SEND_WINDOW
    }

    /// Returns whether all requests of the client are answered.
    pub fn is_answered(&self) -> bool {
        self.pending.has_no_requests() && self.initialize.as_ref().is_none_or(|known| known.is_answered)
    }

    /// Returns whether a lost connection may be resumed: not before the server knows the sessions, and not
    /// while one is being opened, because the server cannot know how much of its history has arrived.
    pub fn is_resumable(&self) -> bool {
        let is_opening =
            |about: &PendingKind| matches!(about, PendingKind::Request { opens: Opens::Known { .. }, .. });
        self.is_known && !self.pending.iter().any(|item| is_opening(&item.about))
    }

    /// Handles a new connection.
    pub fn connected(&mut self, how: Connected) {
        // Increased before anything is sent: `sent_on` and `asked_on` are compared with it, so that messages
        // of an earlier connection count as not delivered.
        self.link += 1;
        self.own.clear();
        self.catching_up =
            self.questions.sessions().map(|session| (session.to_owned(), Awaiting::State)).collect();
        match how {
            Connected::Resumed => {
                // The server may repeat updates that arrived before the break. Until the state of a session
                // arrives, its cursor must not go backwards.
                self.reattaching = self.sessions.keys().cloned().collect();
                let streams = self.sessions.keys().map(|session| {
                    let session_id = (Text::Borrowed("sessionId"), envelope::quoted(session));
                    let cursor = self.cursors.of(session).map(envelope::quoted);
                    envelope::object(
                        [session_id]
                            .into_iter()
                            .chain(cursor.map(|cursor| (Text::Borrowed("cursor"), cursor))),
                    )
                });
                let streams = envelope::object([(Text::Borrowed("streams"), Raw::array(streams))]);
                // Before everything else on the connection: the server sends nothing until it has the
                // cursors, and messages of the client must not overtake them.
                self.send_to_server(envelope::notification("stream/resume", streams));
                self.phase = Phase::Up;
                self.send_pending(true);
            }
            Connected::Anew => {
                // A new connection has new request ids. Without this, an old id could match a different
                // question.
                self.questions.forget_ids();
                self.is_known = false;
                self.reattaching.clear();
                self.phase = Phase::Opening;
                self.send_initialize();
            }
        }
    }

    /// Handles a lost response stream on the same connection.
    pub fn refreshed(&mut self) {
        let own: Vec<String> = self.own.values().map(|(_, line)| line.clone()).collect();
        own.into_iter().for_each(|line| self.send_to_server(line));
        if self.phase == Phase::Up {
            self.send_pending(false);
        }
    }

    /// Handles the loss of the connection.
    pub fn lost(&mut self) {
        self.phase = Phase::Down;
        self.own.clear();
    }

    /// Ends the client without a connection: pending requests fail with this reason.
    pub fn give_up(&mut self, reason: &str) {
        self.lost();
        // The handshake first, because the client waits for it before it sends other requests.
        let unanswered = self.initialize.take().filter(|known| !known.is_answered).map(|known| known.id);
        let error = RpcError::new(codes::INTERNAL_ERROR, reason.to_owned());
        for id in unanswered.into_iter().chain(self.pending.take_requests()) {
            self.send_to_client(Message::response(id, Err(error.clone())).encode(WireFormat::Any));
        }
    }

    /// Handles one line of the client or the server.
    pub fn handle(&mut self, from: Side, line: &str) {
        // Refused with the same response as a hub would send.
        if from == Side::Client
            && let Some(answer) = invalid_line_answer(line)
        {
            return self.send_to_client(answer);
        }
        if is_batch(line) {
            let entries = batch_entries(line, BATCH_LIMIT).unwrap_or_default();
            return entries.into_iter().for_each(|entry| self.handle_one(from, entry));
        }
        self.handle_one(from, line);
    }

    fn handle_one(&mut self, from: Side, line: &str) {
        match (from, Message::decode(line, WireFormat::Any)) {
            (_, Err(error)) => self.refuse_line(from, codes::INVALID_REQUEST, &error.to_string()),
            (Side::Client, Ok(Message::Request(request))) => self.on_client_request(&request),
            (Side::Client, Ok(Message::Notification(notification))) => {
                self.on_client_notification(notification);
            }
            (Side::Client, Ok(Message::Response(response))) => {
                let link = (self.phase != Phase::Down).then_some(self.link);
                if let Some(answer) = self.questions.answer(&response, link) {
                    self.send_to_server(answer);
                }
            }
            (Side::Agent, Ok(Message::Request(request))) => self.on_server_request(&request),
            (Side::Agent, Ok(Message::Notification(notification))) => {
                self.on_server_notification(line, &notification);
            }
            (Side::Agent, Ok(Message::Response(response))) => self.on_server_response(line, &response),
        }
    }

    fn send_to_client(&mut self, line: String) {
        self.output.push_back(ResumableOutput::Line { to: Side::Client, line });
    }

    fn send_to_server(&mut self, line: String) {
        self.output.push_back(ResumableOutput::Line { to: Side::Agent, line });
    }

    /// Refuses an invalid line at once, because it cannot be queued.
    fn refuse_line(&mut self, from: Side, code: i32, reason: &str) {
        if from == Side::Client {
            self.refuse(RequestId::Null, code, reason);
        }
    }

    fn refuse(&mut self, id: RequestId<'static>, code: i32, reason: &str) {
        let error = RpcError::new(code, reason.to_owned());
        self.send_to_client(Message::response(id, Err(error)).encode(WireFormat::Any));
    }
}

/// Messages of the client.
impl ResumableClient {
    fn on_client_request(&mut self, request: &Request<'_>) {
        let id = request.id.clone().into_owned();
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        // The handshake is kept apart from other pending requests: it is repeated on every new connection,
        // also after its response.
        if request.method == "initialize" && self.initialize.is_none() {
            let params = params.into_owned();
            self.initialize = Some(Initialize { id, params, is_answered: false });
            if self.phase == Phase::Opening {
                self.send_initialize();
            }
            return;
        }
        let opens = opens(&request.method, &params);
        let mut request = request.clone();
        request.params = Some(self.with_operation(&params));
        let line = Message::Request(request).encode(WireFormat::Any);
        // While sessions are being attached, requests are only kept. They follow in order from
        // `send_pending`, so that a prompt never reaches the server before its session.
        let sent_on = (self.phase == Phase::Up).then_some(self.link);
        if let Opens::Known { session, params, .. } = &opens
            && params.get("replayFrom").is_some_and(|from| from.is_object())
        {
            self.cursors.expect_replay(session);
        }
        let about = PendingKind::Request { id: id.clone(), opens };
        // Kept before it is sent: if the connection breaks in between, the request is sent again, and the
        // idempotency key makes the server execute it once.
        if !self.pending.push(&line, about, sent_on) {
            let reason = "the id is in use, or the limit of pending requests is reached";
            return self.refuse(id, codes::INVALID_REQUEST, reason);
        }
        if sent_on.is_some() {
            self.send_to_server(line);
        }
    }

    fn on_client_notification(&mut self, mut notification: Notification<'_>) {
        let params = notification.params.take().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let named = |key: &str| {
            params
                .get(key)
                .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).ok().map(Wire::into_owned))
        };
        let about = match &*notification.method {
            "$/cancel_request" => named("requestId").map(|id| PendingKind::CancelsRequest { id }),
            "session/cancel" => {
                params.text("sessionId").map(|session| PendingKind::CancelsSession { session })
            }
            _ => None,
        };
        let params = self.with_operation(&params);
        notification.params = Some(params);
        let line = Message::Notification(notification).encode(WireFormat::Any);
        let sent_on = (self.phase == Phase::Up).then_some(self.link);
        // Notifications have no response that proves their arrival. They are kept until a later response on
        // the same connection proves it.
        self.pending.push(&line, about.unwrap_or(PendingKind::Other), sent_on);
        if sent_on.is_some() {
            self.send_to_server(line);
        }
    }

    /// Adds an idempotency key to an operation, so that the server detects duplicates.
    fn with_operation(&mut self, params: &Raw<'_>) -> Raw<'static> {
        if OPERATION_ID.of(params).is_some() {
            return params.clone().into_owned();
        }
        OPERATION_ID.set(params, (self.operation_id)())
    }
}

/// Messages to the server after a new connection.
impl ResumableClient {
    /// Sends a request of this type itself.
    fn ask_for(&mut self, own: OwnRequest, method: &str, params: Raw<'_>) {
        self.last_own += 1;
        let line = envelope::request(own_request_id(self.last_own), method, params);
        self.own.insert(self.last_own, (own, line.clone()));
        self.send_to_server(line);
    }

    fn send_initialize(&mut self) {
        let Some(Initialize { id, params, is_answered }) = &self.initialize else { return };
        let (id, params) = (id.clone(), params.clone());
        // A repeated handshake has an id of this type: the client has its response already and must not get
        // another one.
        if *is_answered {
            self.ask_for(OwnRequest::Initialize, "initialize", params);
        } else {
            self.send_to_server(envelope::request(id, "initialize", params));
        }
    }

    /// Attaches all sessions on the new connection. Other pending messages follow when they are attached.
    fn attach_all(&mut self) {
        self.phase = Phase::Attaching;
        let sessions: Vec<String> =
            self.sessions.keys().filter(|session| !self.is_being_opened(session)).cloned().collect();
        for session in sessions {
            self.attach(session, true);
        }
        self.resume_when_attached();
    }

    /// Returns whether the client is opening a session itself.
    fn is_being_opened(&self, session: &str) -> bool {
        self.pending.iter().any(|item| {
            matches!(&item.about, PendingKind::Request { opens: Opens::Known { session: known, .. }, .. } if known == session)
        })
    }

    fn attach(&mut self, session: String, with_cursor: bool) {
        let Some(AttachedSession { method, params, is_own }) = self.sessions.get(&session) else { return };
        let cursor = self.cursors.of(&session).filter(|_| with_cursor);
        let has_cursor = cursor.is_some();
        let mut params = attach_params(params, &session, cursor);
        // No update of an own session has arrived, but some may have been sent: everything must be replayed.
        if *is_own && with_cursor && !has_cursor {
            let start = (Text::Borrowed("replayFrom"), Raw::from(serde_json::json!({"type": "start"})));
            params = envelope::object(params.entries().chain([start]));
        }
        let method = *method;
        let params = self.with_operation(&params);
        // Before the request, because the updates that it causes may arrive before its response.
        self.reattaching.insert(session.clone());
        self.ask_for(OwnRequest::Attach { session, has_cursor }, method, params);
    }

    fn resume_when_attached(&mut self) {
        // Pending messages wait for all sessions, not only for their own, because their order across sessions
        // must not change.
        if self.phase == Phase::Attaching && self.own.is_empty() {
            self.phase = Phase::Up;
            self.is_known = true;
            self.send_pending(true);
        }
    }

    /// Resends messages that the server may not have received.
    fn send_pending(&mut self, all: bool) {
        for item in self.pending.iter_mut() {
            let again = match &item.about {
                // On the same connection it is the same operation: two equal histories could not be told
                // apart.
                PendingKind::Request { id, opens: Opens::Known { method, session, params } }
                    if item.sent_on != Some(self.link) =>
                {
                    // A history that has started must not start again.
                    let cursor = self.cursors.of(session).filter(|_| !self.cursors.expects_replay(session));
                    let params = attach_params(params, session, cursor);
                    // Opening a session is valid on one connection only, so this is another operation.
                    let params = OPERATION_ID.set(&params, (self.operation_id)());
                    let line = envelope::request(id.clone(), method, params);
                    item.instead = Some(line.clone());
                    line
                }
                PendingKind::Request { .. } => item.instead.as_ref().unwrap_or(&item.line).clone(),
                PendingKind::CancelsRequest { .. }
                | PendingKind::CancelsSession { .. }
                | PendingKind::Other
                    if all =>
                {
                    item.line.clone()
                }
                PendingKind::CancelsRequest { .. }
                | PendingKind::CancelsSession { .. }
                | PendingKind::Other => continue,
            };
            item.sent_on = Some(self.link);
            item.first_on.get_or_insert(self.link);
            self.output.push_back(ResumableOutput::Line { to: Side::Agent, line: again });
        }
    }
}

/// Returns whether a response to `initialize`, in either version, is from a server with resumable
/// connections.
///
/// ```
/// use switchboard_peer::is_resumable;
///
/// assert!(is_resumable(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"capabilities":{"transport":{"resumable":{}}}}}"#));
/// assert!(!is_resumable(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#));
/// ```
pub fn is_resumable(answer: &str) -> bool {
    let resumable =
        |transport: Raw<'_>| transport.get("resumable").is_some_and(|resumable| resumable.is_object());
    let Ok(answer) = Raw::parse(answer) else { return false };
    let Some(result) = answer.get("result") else { return false };
    let of_version_two =
        result.get("capabilities").and_then(|known| Some(resumable(known.get("transport")?)));
    let of_version_one =
        result.get("agentCapabilities").and_then(|known| Some(resumable(TRANSPORT.of(&known)?)));
    of_version_two.or(of_version_one).unwrap_or_default()
}

/// Returns the effect of a client's request on the tracked sessions.
fn opens(method: &str, params: &Raw<'_>) -> Opens {
    let session = params.text("sessionId");
    let method = match (method, session) {
        ("session/new", _) | ("session/fork", Some(_)) => {
            let params = envelope::without_keys(params, &[META, "sessionId"]);
            return Opens::New { params, is_empty: method == "session/new" };
        }
        ("session/resume", Some(session)) => ("session/resume", session),
        ("session/attach", Some(session)) => ("session/attach", session),
        ("session/close" | "session/delete" | "session/detach", Some(session)) => {
            return Opens::End { session };
        }
        _ => return Opens::Nothing,
    };
    let (method, session) = method;
    Opens::Known { method, session, params: envelope::without_keys(params, &[META, "sessionId"]) }
}

/// Returns the parameters that open a session after a cursor.
fn attach_params(params: &Raw<'_>, session: &str, cursor: Option<&str>) -> Raw<'static> {
    let rest = envelope::without_keys(params, if cursor.is_some() { &["replayFrom"] } else { &[] });
    let name = (Text::Borrowed("sessionId"), envelope::quoted(session));
    let params = envelope::object([name].into_iter().chain(rest.entries()));
    let cursor: Vec<_> = cursor.into_iter().map(|cursor| CURSOR.entry(cursor)).collect();
    with_meta(&params, &[], &cursor)
}
