//! A client of a server whose connections may break: nothing is lost, nothing comes twice.

mod envelope;
mod from_server;
mod pending;
mod places;
mod questions;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;

use switchboard_acp::extensions::{CURSOR, META, OPERATION_ID, TRANSPORT, own_request_id, with_meta};
use switchboard_acp::rpc::{
    BATCH_LIMIT, Message, Notification, Request, RequestId, RpcError, batch_entries, codes, is_batch,
};
use switchboard_acp::{Raw, Side, Text, Wire, WireFormat};
use switchboard_transport::invalid_line_answer;

use self::pending::{About, Opens, Pending};
use self::places::Places;
use self::questions::Questions;

/// How many bytes of what the client said may wait for an answer before it should say no more.
const ROOM: usize = 8 * 1024 * 1024;

/// Stands between a client of version 2 and a server that can take up broken connections, such as `switchboard serve`.
///
/// It has no connection and no clock: whoever drives it tells what either side says by [`handle`](Self::handle), and by
/// [`connected`](Self::connected) and [`lost`](Self::lost) what happens to the connection, and takes what there is to send
/// by [`drain`](Self::drain). Whatever breaks and wherever, the client gets each update once and in its order, one answer
/// to each request, and sees each question once; and what it asked for is done once.
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
/// // The connection breaks before the answer: the request is sent once more, and the server knows it again.
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
    /// Counts the links, so that it is known what was said on which.
    link: u64,
    /// The server knows us and our sessions on this connection.
    is_known: bool,
    initialize: Option<Initialize>,
    pending: Pending,
    questions: Questions,
    sessions: BTreeMap<String, Attached>,
    places: Places,
    /// Requests of our own, on this link.
    own: BTreeMap<u64, (Own, String)>,
    last_own: u64,
    /// The sessions that are being taken up: until their state is told, what has come already may come once more.
    taken_up: HashSet<String>,
    /// The sessions of which it is to be found out what is still asked in them.
    catching_up: HashMap<String, CatchingUp>,
    output: VecDeque<ResumableOutput>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Down,
    /// The server does not know us yet.
    Opening,
    /// The server does not know our sessions yet.
    Attaching,
    Up,
}

/// How far a session is taken up. The server tells what has happened, then the state, then what it still wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatchingUp {
    /// The state was not told yet.
    Waits,
    /// So many questions are to come.
    Asks(u64),
    /// Questions come until something happens.
    AsksUntilLive,
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
struct Attached {
    method: &'static str,
    /// With what it was opened, without its name.
    params: Raw<'static>,
    /// The client opened it as a new one: all that happens in it is for the client.
    is_own: bool,
}

/// What a request of our own is for.
#[derive(Debug)]
enum Own {
    Initialize,
    Attach { session: String, has_cursor: bool },
}

/// How a connection to the server came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connected {
    /// The server does not know us: all begins with the handshake.
    Anew,
    /// It is the connection that was lost.
    Resumed,
}

/// What comes out of a [`ResumableClient`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumableOutput {
    /// A line for one of the sides.
    Line {
        /// Whom it is for.
        to: Side,
        /// The line.
        line: String,
    },
    /// A session goes on, but not where it broke off: something may be missing.
    Gap {
        /// The session.
        session: String,
        /// What the server said.
        reason: String,
    },
    /// The server has no such session any more. The client is told that its work is over.
    SessionLost {
        /// The session.
        session: String,
        /// What the server said.
        reason: String,
    },
    /// The server refuses to go on over this connection.
    Refused {
        /// What it said.
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
    /// A client that has said nothing. `operation_id` makes up names that nobody else does: 128 random bits.
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
            places: Places::default(),
            own: BTreeMap::new(),
            last_own: 0,
            taken_up: HashSet::new(),
            catching_up: HashMap::new(),
            output: VecDeque::new(),
        }
    }

    /// The client gets updates without their cursors.
    #[must_use]
    pub fn without_cursors(mut self) -> Self {
        self.keeps_cursors = false;
        self
    }

    /// Takes what there is to send and to tell, in its order.
    pub fn drain(&mut self) -> impl Iterator<Item = ResumableOutput> + '_ {
        self.output.drain(..)
    }

    /// Whether the client may go on talking. It may for ever while the server answers.
    pub fn has_room(&self) -> bool {
        self.pending.bytes() < ROOM
    }

    /// Whether all that the client asked is answered.
    pub fn is_answered(&self) -> bool {
        self.pending.has_no_requests() && self.initialize.as_ref().is_none_or(|known| known.is_answered)
    }

    /// Whether a lost connection may be taken up again: not before the server knows our sessions, and not while one is being
    /// opened, of whose history the server cannot know how much has come.
    pub fn is_resumable(&self) -> bool {
        let is_opening = |about: &About| matches!(about, About::Request { opens: Opens::Known { .. }, .. });
        self.is_known && !self.pending.iter().any(|item| is_opening(&item.about))
    }

    /// There is a connection.
    pub fn connected(&mut self, how: Connected) {
        self.link += 1;
        self.own.clear();
        self.catching_up =
            self.questions.sessions().map(|session| (session.to_owned(), CatchingUp::Waits)).collect();
        match how {
            Connected::Resumed => {
                self.taken_up = self.sessions.keys().cloned().collect();
                let streams = self.sessions.keys().map(|session| {
                    let session_id = (Text::Borrowed("sessionId"), envelope::quoted(session));
                    let cursor = self.places.of(session).map(envelope::quoted);
                    envelope::object(
                        [session_id]
                            .into_iter()
                            .chain(cursor.map(|cursor| (Text::Borrowed("cursor"), cursor))),
                    )
                });
                let streams = envelope::object([(Text::Borrowed("streams"), Raw::array(streams))]);
                self.tell_server(envelope::notification("stream/resume", streams));
                self.phase = Phase::Up;
                self.send_pending(true);
            }
            Connected::Anew => {
                self.questions.forget_ids();
                self.is_known = false;
                self.taken_up.clear();
                self.phase = Phase::Opening;
                self.send_initialize();
            }
        }
    }

    /// The connection is the same, but answers of the server may be lost.
    pub fn refreshed(&mut self) {
        let own: Vec<String> = self.own.values().map(|(_, line)| line.clone()).collect();
        own.into_iter().for_each(|line| self.tell_server(line));
        if self.phase == Phase::Up {
            self.send_pending(false);
        }
    }

    /// The connection is lost.
    pub fn lost(&mut self) {
        self.phase = Phase::Down;
        self.own.clear();
    }

    /// There will be no connection any more: whoever waits for an answer gets this one.
    pub fn give_up(&mut self, reason: &str) {
        self.lost();
        let unanswered = self.initialize.take().filter(|known| !known.is_answered).map(|known| known.id);
        let error = RpcError::new(codes::INTERNAL_ERROR, reason.to_owned());
        for id in unanswered.into_iter().chain(self.pending.take_requests()) {
            self.tell_client(Message::response(id, Err(error.clone())).encode(WireFormat::Any));
        }
    }

    /// Takes one line from the client or from the server.
    pub fn handle(&mut self, from: Side, line: &str) {
        // As the hub itself would refuse it.
        if from == Side::Client
            && let Some(answer) = invalid_line_answer(line)
        {
            return self.tell_client(answer);
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
            (Side::Client, Ok(Message::Request(request))) => self.client_asks(&request),
            (Side::Client, Ok(Message::Notification(notification))) => self.client_tells(notification),
            (Side::Client, Ok(Message::Response(response))) => {
                let link = (self.phase != Phase::Down).then_some(self.link);
                if let Some(answer) = self.questions.answer(&response, link) {
                    self.tell_server(answer);
                }
            }
            (Side::Agent, Ok(Message::Request(request))) => self.server_asks(&request),
            (Side::Agent, Ok(Message::Notification(notification))) => self.server_tells(line, &notification),
            (Side::Agent, Ok(Message::Response(response))) => self.server_answers(line, &response),
        }
    }

    fn tell_client(&mut self, line: String) {
        self.output.push_back(ResumableOutput::Line { to: Side::Client, line });
    }

    fn tell_server(&mut self, line: String) {
        self.output.push_back(ResumableOutput::Line { to: Side::Agent, line });
    }

    /// What is no message cannot be kept for later; whoever sent it hears that now.
    fn refuse_line(&mut self, from: Side, code: i32, reason: &str) {
        if from == Side::Client {
            self.refuse(RequestId::Null, code, reason);
        }
    }

    fn refuse(&mut self, id: RequestId<'static>, code: i32, reason: &str) {
        let error = RpcError::new(code, reason.to_owned());
        self.tell_client(Message::response(id, Err(error)).encode(WireFormat::Any));
    }
}

/// From the client.
impl ResumableClient {
    fn client_asks(&mut self, request: &Request<'_>) {
        let id = request.id.clone().into_owned();
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
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
        let sent_on = (self.phase == Phase::Up).then_some(self.link);
        if let Opens::Known { session, params, .. } = &opens
            && params.get("replayFrom").is_some_and(|from| from.is_object())
        {
            self.places.expect_again(session);
        }
        let about = About::Request { id: id.clone(), opens };
        if !self.pending.push(&line, about, sent_on) {
            let reason = "the id is in use, or too many requests wait for an answer";
            return self.refuse(id, codes::INVALID_REQUEST, reason);
        }
        if sent_on.is_some() {
            self.tell_server(line);
        }
    }

    fn client_tells(&mut self, mut notification: Notification<'_>) {
        let params = notification.params.take().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let named = |key: &str| {
            params
                .get(key)
                .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).ok().map(Wire::into_owned))
        };
        let about = match &*notification.method {
            "$/cancel_request" => named("requestId").map(|id| About::TakesBack { id }),
            "session/cancel" => params.text("sessionId").map(|session| About::Cancels { session }),
            _ => None,
        };
        let params = self.with_operation(&params);
        notification.params = Some(params);
        let line = Message::Notification(notification).encode(WireFormat::Any);
        let sent_on = (self.phase == Phase::Up).then_some(self.link);
        self.pending.push(&line, about.unwrap_or(About::Other), sent_on);
        if sent_on.is_some() {
            self.tell_server(line);
        }
    }

    /// Names an operation, so that a server which hears of it twice knows that it is one.
    fn with_operation(&mut self, params: &Raw<'_>) -> Raw<'static> {
        if OPERATION_ID.of(params).is_some() {
            return params.clone().into_owned();
        }
        OPERATION_ID.set(params, (self.operation_id)())
    }
}

/// To the server, when there is a connection again.
impl ResumableClient {
    /// Sends a request of our own.
    fn ask_for(&mut self, own: Own, method: &str, params: Raw<'_>) {
        self.last_own += 1;
        let line = envelope::request(own_request_id(self.last_own), method, params);
        self.own.insert(self.last_own, (own, line.clone()));
        self.tell_server(line);
    }

    fn send_initialize(&mut self) {
        let Some(Initialize { id, params, is_answered }) = &self.initialize else { return };
        let (id, params) = (id.clone(), params.clone());
        if *is_answered {
            self.ask_for(Own::Initialize, "initialize", params);
        } else {
            self.tell_server(envelope::request(id, "initialize", params));
        }
    }

    /// The server knows us: now it is to know our sessions. What else waits follows when it does.
    fn attach_all(&mut self) {
        self.phase = Phase::Attaching;
        let sessions: Vec<String> =
            self.sessions.keys().filter(|session| !self.is_being_opened(session)).cloned().collect();
        for session in sessions {
            self.attach(session, true);
        }
        self.go_on_when_attached();
    }

    /// Whether the client is about to open a session itself.
    fn is_being_opened(&self, session: &str) -> bool {
        self.pending.iter().any(|item| {
            matches!(&item.about, About::Request { opens: Opens::Known { session: known, .. }, .. } if known == session)
        })
    }

    fn attach(&mut self, session: String, with_cursor: bool) {
        let Some(Attached { method, params, is_own }) = self.sessions.get(&session) else { return };
        let cursor = self.places.of(&session).filter(|_| with_cursor);
        let has_cursor = cursor.is_some();
        let mut params = attach_params(params, &session, cursor);
        if *is_own && with_cursor && !has_cursor {
            let start = (Text::Borrowed("replayFrom"), Raw::from(serde_json::json!({"type": "start"})));
            params = envelope::object(params.entries().chain([start]));
        }
        let method = *method;
        let params = self.with_operation(&params);
        self.taken_up.insert(session.clone());
        self.ask_for(Own::Attach { session, has_cursor }, method, params);
    }

    fn go_on_when_attached(&mut self) {
        if self.phase == Phase::Attaching && self.own.is_empty() {
            self.phase = Phase::Up;
            self.is_known = true;
            self.send_pending(true);
        }
    }

    /// Sends again what the server may not have heard.
    fn send_pending(&mut self, all: bool) {
        for item in self.pending.iter_mut() {
            let again = match &item.about {
                // On its own connection it is the same operation: a history that comes twice could not be told apart.
                About::Request { id, opens: Opens::Known { method, session, params } }
                    if item.sent_on != Some(self.link) =>
                {
                    // A history that has begun to come is not to begin once more.
                    let cursor = self.places.of(session).filter(|_| !self.places.expects_again(session));
                    let params = attach_params(params, session, cursor);
                    // Opening a session means something on its own connection only, so this is another operation.
                    let params = OPERATION_ID.set(&params, (self.operation_id)());
                    let line = envelope::request(id.clone(), method, params);
                    item.instead = Some(line.clone());
                    line
                }
                About::Request { .. } => item.instead.as_ref().unwrap_or(&item.line).clone(),
                About::TakesBack { .. } | About::Cancels { .. } | About::Other if all => item.line.clone(),
                About::TakesBack { .. } | About::Cancels { .. } | About::Other => continue,
            };
            item.sent_on = Some(self.link);
            item.first_on.get_or_insert(self.link);
            self.output.push_back(ResumableOutput::Line { to: Side::Agent, line: again });
        }
    }
}

/// Whether an answer to `initialize`, in either version, is one of a server whose connections can be taken up again.
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

/// What a request of the client will mean for what is remembered of sessions.
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

/// The parameters that open a session behind a place.
fn attach_params(params: &Raw<'_>, session: &str, cursor: Option<&str>) -> Raw<'static> {
    let rest = envelope::without_keys(params, if cursor.is_some() { &["replayFrom"] } else { &[] });
    let name = (Text::Borrowed("sessionId"), envelope::quoted(session));
    let params = envelope::object([name].into_iter().chain(rest.entries()));
    let cursor: Vec<_> = cursor.into_iter().map(|cursor| CURSOR.entry(cursor)).collect();
    with_meta(&params, &[], &cursor)
}
