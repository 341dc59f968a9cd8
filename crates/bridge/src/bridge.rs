//! The bridge: finds out which versions the sides speak, then translates or lets pass.

use switchboard_protocol::detect::Handshake;
use switchboard_protocol::rpc::{
    BATCH_LIMIT, BatchFault, Message, RequestId, Response, RpcError, batch_entries, codes,
};
use switchboard_protocol::{DecodeError, Raw, Wire, WireFormat};

use crate::host::{Host, NoHost};
use crate::loss::Severity;
use crate::open_work::{self, OpenWork};
use crate::passthrough::Passthrough;
use crate::shared::{Output, Shared};
use crate::v1_to_v2::V1ToV2;
use crate::v2_to_v1::V2ToV1;
use crate::{BridgeOptions, LossReport, Moment, Side, Version};

/// Stands between a client and an agent.
///
/// It is given what either side sends by [`handle`](Bridge::handle), and what it has for them is taken by
/// [`drain`](Bridge::drain). It has no clock: whoever drives it says what time it is, and calls
/// [`tick`](Bridge::tick) at [`next_deadline`](Bridge::next_deadline).
#[derive(Debug)]
pub struct Bridge {
    shared: Shared,
    mode: Mode,
    /// What the client asked before its handshake.
    early: OpenWork,
    /// What the client is told since the agent is gone.
    ended: Option<RpcError<'static>>,
}

#[derive(Debug)]
enum Mode {
    /// The handshake is not over.
    Opening(Option<Opening>),
    /// Both sides speak the same version.
    Same(Box<Passthrough>),
    V1ToV2(Box<V1ToV2>),
    V2ToV1(Box<V2ToV1>),
}

/// A handshake that the agent has not answered.
#[derive(Debug)]
struct Opening {
    client: Version,
    id: RequestId<'static>,
    line: String,
    /// What the client said since: in which version the agent is to hear it is not known yet.
    held: Vec<String>,
}

/// What is to be done with a line that was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Handled {
    /// It goes to the other side as it is, after what [`Bridge::drain`] gives.
    Forward,
    /// Everything there is to send is given by [`Bridge::drain`].
    Done,
}

/// How much a bridge remembers. All of it has limits: [`Limits`](crate::Limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Remembered {
    /// Sessions.
    pub sessions: usize,
    /// Messages, tool calls, terminals and the like in all of them.
    pub entries: usize,
    /// Bytes of content, ids and requests that are kept.
    pub bytes: usize,
}

/// How many messages of a client that does not wait for the handshake are kept.
const MAX_HELD: usize = 1024;

impl Bridge {
    /// A bridge on whose sides nothing has been said, with nobody to serve files.
    pub fn new(options: BridgeOptions) -> Self {
        Bridge::with_host(options, Box::new(NoHost))
    }

    /// A bridge whose host has files or commands to offer.
    pub fn with_host(options: BridgeOptions, host: Box<dyn Host + Send>) -> Self {
        let mut shared = Shared::new(options, host);
        let requests = shared.options.limits.requests;
        let open_work = || OpenWork::new(requests);
        let mode = match (shared.options.client_version, shared.options.agent_version) {
            (Some(Version::V1), Some(Version::V2)) => Mode::V1ToV2(Box::new(V1ToV2::new(&mut shared))),
            (Some(Version::V2), Some(Version::V1)) => Mode::V2ToV1(Box::new(V2ToV1::new(&mut shared))),
            (Some(version), Some(_)) => Mode::Same(Box::new(Passthrough::new(version, open_work()))),
            _ => Mode::Opening(None),
        };
        Bridge { shared, mode, early: open_work(), ended: None }
    }

    /// Takes one line from one side.
    pub fn handle(&mut self, from: Side, line: &str, now: Moment) -> Handled {
        self.shared.now = self.shared.now.max(now);
        let start = line.trim_start();
        if start.is_empty() {
            return Handled::Done;
        }
        if let Some(error) = &self.ended {
            if from == Side::Client {
                for request in requests(line) {
                    self.shared.fail(Side::Client, &request, error.clone());
                }
            }
            return Handled::Done;
        }
        if start.starts_with('[') && !matches!(self.mode, Mode::Same(_)) {
            self.batch(from, line);
            return Handled::Done;
        }
        self.shared.received += line.len();
        let handled = self.handle_one(from, line);
        self.settle();
        handled
    }

    /// Whether a line can go to the other side as it is without being handled: [`handle`](Bridge::handle) would say
    /// [`Forward`](Handled::Forward) and have nothing to remember or to send. A quick look, which says no to many lines
    /// of which this is true as well; so it can be taken before anybody knows whether the line is text.
    pub fn is_passthrough(&self, from: Side, line: &[u8]) -> bool {
        match &self.mode {
            Mode::Same(passthrough) => passthrough.is_passthrough(from, line, &self.shared),
            Mode::Opening(_) | Mode::V1ToV2(_) | Mode::V2ToV1(_) => false,
        }
    }

    fn handle_one(&mut self, from: Side, line: &str) -> Handled {
        if from == Side::Client && self.is_negotiable() && is_initialize(line) {
            return self.open(line);
        }
        match &mut self.mode {
            Mode::Opening(opening) => match (from, opening) {
                (Side::Agent, opening @ Some(_)) => {
                    let Some(known) = opening.take_if(|known| answers(line, &known.id)) else {
                        self.early.look(from, line, &mut self.shared);
                        return Handled::Forward;
                    };
                    self.opened(&known, line);
                    Handled::Done
                }
                (Side::Client, Some(known)) => hold(known, line, &mut self.shared),
                (_, None) => {
                    self.early.look(from, line, &mut self.shared);
                    Handled::Forward
                }
            },
            Mode::Same(passthrough) => passthrough.handle(from, line, &mut self.shared),
            Mode::V1ToV2(translation) => {
                translation.handle(from, line, &mut self.shared);
                Handled::Done
            }
            Mode::V2ToV1(translation) => {
                translation.handle(from, line, &mut self.shared);
                Handled::Done
            }
        }
    }

    /// Messages that came in an array are taken one by one; their answers go back one by one.
    fn batch(&mut self, from: Side, line: &str) {
        let entries = match batch_entries(line, BATCH_LIMIT) {
            Ok(entries) if !entries.is_empty() => entries,
            Ok(_) | Err(BatchFault::TooMany { .. }) => {
                let message = format!("a batch of 1 to {BATCH_LIMIT} messages");
                return self.shared.refuse(from, &RequestId::Null, codes::INVALID_REQUEST, message);
            }
            Err(BatchFault::NotJson(error)) => {
                return self.shared.refuse(from, &RequestId::Null, codes::PARSE_ERROR, error.to_string());
            }
        };
        for text in entries {
            if Message::decode(text, WireFormat::Any).is_err() {
                let reason = "no message in a batch";
                self.shared.refuse(from, &RequestId::Null, codes::INVALID_REQUEST, reason);
            } else if self.handle_one(from, text) == Handled::Forward {
                self.shared.send(from.other(), text.replace(['\n', '\r'], " "));
            }
            self.settle();
        }
    }

    /// Whether the versions are found out by the handshake.
    fn is_negotiable(&self) -> bool {
        self.shared.options.client_version.is_none() || self.shared.options.agent_version.is_none()
    }

    /// The client's handshake.
    fn open(&mut self, line: &str) -> Handled {
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else {
            self.mode = Mode::Opening(None);
            return Handled::Forward;
        };
        let client = self
            .shared
            .options
            .client_version
            .unwrap_or_else(|| Handshake::of_request(request.params.as_ref()).version);
        if client == Version::V2 {
            self.shared.peers.learn_from_client(&request);
        }
        match (client, self.shared.options.agent_version) {
            (Version::V1, Some(Version::V2)) => self.translate_for_v1(line),
            (Version::V2, Some(Version::V1)) => self.translate_for_v2(line),
            _ => {
                let id = request.id.into_owned();
                let (line, held) = (line.to_owned(), Vec::new());
                self.mode = Mode::Opening(Some(Opening { client, id, line, held }));
                Handled::Forward
            }
        }
    }

    fn translate_for_v1(&mut self, line: &str) -> Handled {
        let mut translation = V1ToV2::new(&mut self.shared);
        translation.handle(Side::Client, line, &mut self.shared);
        self.mode = Mode::V1ToV2(Box::new(translation));
        Handled::Done
    }

    fn translate_for_v2(&mut self, line: &str) -> Handled {
        let mut translation = V2ToV1::new(&mut self.shared);
        translation.handle(Side::Client, line, &mut self.shared);
        self.mode = Mode::V2ToV1(Box::new(translation));
        Handled::Done
    }

    /// The agent's answer to a handshake in the client's version. What the client said since follows.
    fn opened(&mut self, opening: &Opening, line: &str) {
        if self.settle_versions(opening, line) == Handled::Forward {
            self.shared.send(Side::Client, line.to_owned());
        }
        for held in &opening.held {
            if self.handle_one(Side::Client, held) == Handled::Forward {
                self.shared.send(Side::Agent, held.clone());
            }
        }
    }

    fn settle_versions(&mut self, opening: &Opening, line: &str) -> Handled {
        let Ok(Message::Response(response)) = Message::decode(line, WireFormat::Any) else {
            return Handled::Forward;
        };
        match (&response.outcome, opening.client) {
            (Ok(result), client) => match (client, Handshake::of_answer(result).version) {
                (Version::V1, Version::V2) => self.opened_for_v1(opening, &response),
                (Version::V2, Version::V1) => self.opened_for_v2(opening, &response),
                _ => {
                    let limit = self.shared.options.limits.requests;
                    let early = std::mem::replace(&mut self.early, OpenWork::new(limit));
                    self.mode = Mode::Same(Box::new(Passthrough::new(client, early)));
                    Handled::Forward
                }
            },
            // The agent does not speak the client's version; perhaps it speaks the other one.
            (Err(error), Version::V1) if refuses_version(error.code) => self.translate_for_v1(&opening.line),
            (Err(error), Version::V2) if refuses_version(error.code) => self.translate_for_v2(&opening.line),
            (Err(_), _) => Handled::Forward,
        }
    }

    fn opened_for_v1(&mut self, opening: &Opening, response: &Response<'_>) -> Handled {
        let mut translation = V1ToV2::new(&mut self.shared);
        if let Ok(Message::Request(request)) = Message::decode(&opening.line, WireFormat::Any) {
            translation.opened(request.params_text(), response, &mut self.shared);
        }
        self.mode = Mode::V1ToV2(Box::new(translation));
        Handled::Done
    }

    fn opened_for_v2(&mut self, opening: &Opening, response: &Response<'_>) -> Handled {
        let mut translation = V2ToV1::new(&mut self.shared);
        let answer = response.outcome.as_ref().map_or("{}", Raw::as_str).to_owned();
        if let Ok(Message::Request(request)) = Message::decode(&opening.line, WireFormat::Any) {
            translation.opened(&request, &answer, &mut self.shared);
        }
        self.mode = Mode::V2ToV1(Box::new(translation));
        Handled::Done
    }

    /// What handling a line leaves to do: prompts that waited, turns that a loss has ended, and what there is no room for.
    fn settle(&mut self) {
        let counts = self.shared.is_time_to_count();
        match &mut self.mode {
            Mode::V1ToV2(translation) => translation.make_room(counts, &mut self.shared),
            Mode::V2ToV1(translation) => translation.make_room(counts, &mut self.shared),
            Mode::Opening(_) | Mode::Same(_) => {}
        }
        if counts && self.shared.terminals.size().1 > self.shared.options.limits.total {
            self.shared.terminals.forget_output();
            let reason = "what terminals put out is too much to remember; calls that come to show one show what follows";
            self.shared.lose(None, "terminal_update", "", reason, Severity::Minor, Side::Client);
        }
        if let Mode::V1ToV2(translation) = &mut self.mode {
            translation.next_prompts(&mut self.shared);
        }
        if let Some((session, reason)) = self.shared.strict_failure.take() {
            match &mut self.mode {
                Mode::V1ToV2(translation) => {
                    translation.fail_turn(session.as_deref(), &reason, &mut self.shared);
                }
                Mode::V2ToV1(translation) => {
                    translation.fail_turn(session.as_deref(), &reason, &mut self.shared);
                }
                Mode::Opening(_) | Mode::Same(_) => {}
            }
            // What ending the turn loses in its turn is not a reason to end another.
            self.shared.strict_failure = None;
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.shared.now = self.shared.now.max(now);
        match &mut self.mode {
            Mode::V1ToV2(translation) => translation.tick(&mut self.shared),
            Mode::V2ToV1(translation) => translation.tick(&mut self.shared),
            Mode::Opening(_) | Mode::Same(_) => {}
        }
        self.settle();
    }

    /// When [`tick`](Bridge::tick) is next to be called; `None`: when something was handled again.
    pub fn next_deadline(&self) -> Option<Moment> {
        match &self.mode {
            Mode::V1ToV2(translation) => translation.next_deadline(&self.shared),
            Mode::V2ToV1(translation) => translation.next_deadline(),
            Mode::Opening(_) | Mode::Same(_) => None,
        }
    }

    /// Sends everything that is held back, because no more is to come.
    pub fn finish(&mut self) {
        match &mut self.mode {
            Mode::V1ToV2(translation) => translation.finish(&mut self.shared),
            Mode::V2ToV1(translation) => translation.finish(&mut self.shared),
            Mode::Opening(_) | Mode::Same(_) => {}
        }
        self.settle();
    }

    /// The agent is gone. What is held back comes out, and whoever waits for it is told so: each request of the client
    /// gets an error, and each session of a version 2 client that is at work comes to rest with that error. So does
    /// what the client asks from now on.
    ///
    /// `reason` are words for a person; `last_lines` what the agent wrote last to its standard error, oldest first,
    /// which the errors have in `data.stderr`. Afterwards, [`drain`](Bridge::drain) has everything.
    ///
    /// ```
    /// # use switchboard_bridge::{Bridge, BridgeOptions, Moment, Output, Side, Version};
    /// let mut bridge = Bridge::new(BridgeOptions::between(Version::V1, Version::V1));
    /// let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
    /// let _ = bridge.handle(Side::Client, prompt, Moment(0));
    /// bridge.agent_ended("the agent ended with exit code 1", &["Error: no key".to_owned()]);
    /// let Some(Output::Line { to: Side::Client, line }) = bridge.drain().next() else { panic!() };
    /// assert!(line.contains(r#""data":{"stderr":["Error: no key"]}"#), "{line}");
    /// ```
    pub fn agent_ended(&mut self, reason: &str, last_lines: &[String]) {
        if self.ended.is_some() {
            return;
        }
        let mut error = RpcError::new(codes::INTERNAL_ERROR, reason.to_owned());
        if !last_lines.is_empty() {
            error.data = Some(Raw::from(serde_json::json!({"stderr": last_lines})));
        }
        self.early.agent_ended(&error, &mut self.shared);
        match &mut self.mode {
            Mode::V1ToV2(translation) => translation.agent_ended(&error, &mut self.shared),
            Mode::V2ToV1(translation) => translation.agent_ended(&error, &mut self.shared),
            Mode::Same(passthrough) => passthrough.agent_ended(&error, &mut self.shared),
            Mode::Opening(Some(opening)) => {
                let held = opening.held.iter().flat_map(|line| requests(line));
                for id in [opening.id.clone()].into_iter().chain(held) {
                    self.shared.fail(Side::Client, &id, error.clone());
                }
            }
            Mode::Opening(None) => {}
        }
        self.ended = Some(error);
        self.shared.strict_failure = None;
    }

    /// A command that the host runs has put something out.
    pub fn terminal_output(&mut self, terminal_id: &str, bytes: &[u8], now: Moment) {
        self.shared.now = self.shared.now.max(now);
        if let Mode::V2ToV1(translation) = &mut self.mode {
            translation.terminal_output(terminal_id, bytes, &mut self.shared);
        }
    }

    /// A command that the host runs has ended.
    pub fn terminal_exited(
        &mut self,
        terminal_id: &str,
        exit_code: Option<i64>,
        signal: Option<&str>,
        now: Moment,
    ) {
        self.shared.now = self.shared.now.max(now);
        if let Mode::V2ToV1(translation) = &mut self.mode {
            translation.terminal_exited(terminal_id, exit_code, signal, &mut self.shared);
        }
    }

    /// Takes what there is to send and to report, in its order.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.shared.output.drain(..)
    }

    /// How much is remembered now.
    pub fn remembered(&self) -> Remembered {
        let (sessions, entries, bytes) = match &self.mode {
            Mode::V1ToV2(translation) => translation.size(),
            Mode::V2ToV1(translation) => translation.size(),
            Mode::Same(passthrough) => passthrough.size(),
            Mode::Opening(_) => (0, 0, 0),
        };
        let (terminals, output) = self.shared.terminals.size();
        Remembered { sessions, entries: entries + terminals, bytes: bytes + output }
    }

    /// What could not be carried over so far.
    pub fn losses(&self) -> &LossReport {
        &self.shared.losses
    }

    /// The versions of the client and the agent, once they are known.
    pub fn versions(&self) -> Option<(Version, Version)> {
        match &self.mode {
            Mode::Opening(_) => None,
            Mode::Same(passthrough) => Some((passthrough.version(), passthrough.version())),
            Mode::V1ToV2(_) => Some((Version::V1, Version::V2)),
            Mode::V2ToV1(_) => Some((Version::V2, Version::V1)),
        }
    }
}

/// Whether a line of the client is a handshake. Asked of every line, so the quick look comes first.
fn is_initialize(line: &str) -> bool {
    memchr::memmem::find(line.as_bytes(), b"\"initialize\"").is_some()
        && Message::decode(line, WireFormat::Any).is_ok_and(|message| message.method() == Some("initialize"))
}

/// The ids of the requests in a line.
fn requests(line: &str) -> Vec<RequestId<'static>> {
    let id = |text| match Message::decode(text, WireFormat::Any) {
        Ok(Message::Request(request)) => Some(request.id.into_owned()),
        _ => None,
    };
    open_work::messages(line).into_iter().filter_map(id).collect()
}

fn answers(line: &str, id: &RequestId<'_>) -> bool {
    matches!(Message::decode(line, WireFormat::Any), Ok(Message::Response(response)) if response.id == *id)
}

/// Keeps what the client says before its handshake is answered. Answers pass, for the agent may wait for them, and so
/// does what is no message.
fn hold(opening: &mut Opening, line: &str, shared: &mut Shared) -> Handled {
    let request = match Message::decode(line, WireFormat::Any) {
        Ok(Message::Response(_)) | Err(_) => return Handled::Forward,
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_)) => None,
    };
    if opening.held.len() < MAX_HELD {
        opening.held.push(line.to_owned());
    } else if let Some(id) = request {
        refuse_full(shared, Side::Client, &id);
    } else {
        let reason = "said before the handshake was answered, when no more could be kept";
        shared.lose(None, "message", "", reason, Severity::Major, Side::Agent);
    }
    Handled::Done
}

fn refuses_version(code: i32) -> bool {
    matches!(
        code,
        codes::UNSUPPORTED_PROTOCOL_VERSION
            | codes::INVALID_PARAMS
            | codes::INVALID_REQUEST
            | codes::INTERNAL_ERROR
    )
}

/// Answers a line that cannot be read, where there is somebody to answer.
pub(crate) fn refuse_line(shared: &mut Shared, from: Side, line: &str, error: &DecodeError) {
    let raw = Raw::parse(line);
    let key = |name: &str| raw.as_ref().ok().and_then(|raw| raw.get(name));
    if let Some(method) = key("method") {
        if let Some(id) = key("id")
            .and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).map(Wire::into_owned).ok())
        {
            return shared.refuse(from, &id, codes::INVALID_REQUEST, error.to_string());
        }
        let method = method.as_text().map_or_else(|| "message".to_owned(), std::borrow::Cow::into_owned);
        let session = key("params").and_then(|params| Some(params.get("sessionId")?.as_text()?.into_owned()));
        let session = session.as_deref();
        return shared.lose(session, &method, "/params", error.to_string(), Severity::Major, from.other());
    }
    if key("result").is_some() || key("error").is_some() {
        let reason = error.to_string();
        return shared.lose(None, "answer", "", reason, Severity::Major, from.other());
    }
    let code = if error.is_syntax() { codes::PARSE_ERROR } else { codes::INVALID_REQUEST };
    shared.refuse(from, &RequestId::Null, code, error.to_string());
}

/// Refuses a prompt because there is work in too many sessions.
pub(crate) fn refuse_work(shared: &mut Shared, id: &RequestId<'_>) {
    let limit = shared.options.limits.sessions;
    let message =
        format!("there is work in {limit} sessions, as many as there may be: wait until one of them rests");
    shared.refuse(Side::Client, id, codes::INTERNAL_ERROR, message);
}

/// Refuses a request because too many are open.
pub(crate) fn refuse_full(shared: &mut Shared, to: Side, id: &RequestId<'_>) {
    shared.refuse(to, id, codes::INTERNAL_ERROR, "too many requests are open");
}
