//! The bridge: finds out which versions the sides speak, then translates or lets pass.

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{
    BATCH_LIMIT, BatchFault, Message, RequestId, Response, RpcError, batch_entries, codes,
};
use switchboard_acp::{Raw, Wire, WireFormat, v2};

use crate::context::{Context, Output};
use crate::host::{Host, NoHost};
use crate::loss::Severity;
use crate::machine::Machine;
use crate::native::Begun;
use crate::open_work::{self, OpenWork};
use crate::passthrough::Passthrough;
use crate::sessions::Size;
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
    mode: Mode,
    /// What the client asked before its handshake.
    early: OpenWork,
    /// What the client is told since the agent is gone.
    ended: Option<RpcError<'static>>,
}

#[derive(Debug)]
enum Mode {
    /// The handshake is not over.
    Opening(Box<Context>, Option<Opening>),
    /// Both sides speak the same version.
    Same(Box<Passthrough>),
    /// They speak different ones.
    Different(Box<dyn Machine>),
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
        let requests = options.limits.requests;
        let open_work = || OpenWork::new(requests);
        let versions = (options.client_version, options.agent_version);
        let context = Context::new(options, host);
        let mode = match versions {
            (Some(Version::V1), Some(Version::V2)) => Mode::Different(Box::new(V1ToV2::new(context))),
            (Some(Version::V2), Some(Version::V1)) => Mode::Different(Box::new(V2ToV1::new(context))),
            (Some(version), Some(_)) => Mode::Same(Box::new(Passthrough::new(context, version, open_work()))),
            _ => Mode::Opening(Box::new(context), None),
        };
        Bridge { mode, early: open_work(), ended: None }
    }

    fn context(&self) -> &Context {
        match &self.mode {
            Mode::Opening(context, _) => context,
            Mode::Same(passthrough) => &passthrough.context,
            Mode::Different(machine) => machine.context(),
        }
    }

    fn context_mut(&mut self) -> &mut Context {
        match &mut self.mode {
            Mode::Opening(context, _) => context,
            Mode::Same(passthrough) => &mut passthrough.context,
            Mode::Different(machine) => machine.context_mut(),
        }
    }

    /// The context, for the next mode.
    fn take_context(&mut self) -> Context {
        std::mem::take(self.context_mut())
    }

    /// Time goes on.
    fn at(&mut self, now: Moment) {
        let context = self.context_mut();
        context.now = context.now.max(now);
    }

    /// Takes one line from one side.
    pub fn handle(&mut self, from: Side, line: &str, now: Moment) -> Handled {
        self.at(now);
        let start = line.trim_start();
        if start.is_empty() {
            return Handled::Done;
        }
        if let Some(error) = self.ended.clone() {
            if from == Side::Client {
                for request in requests(line) {
                    self.context_mut().fail(Side::Client, &request, error.clone());
                }
            }
            return Handled::Done;
        }
        if self.is_passthrough(from, line.as_bytes()) {
            return Handled::Forward;
        }
        if start.starts_with('[') && !matches!(self.mode, Mode::Same(_)) {
            self.batch(from, line);
            return Handled::Done;
        }
        let context = self.context_mut();
        context.received += line.len();
        context.at_hand = line.len();
        let handled = match self.begin(from, line) {
            Begun::AsItIs => self.handle_one(from, line),
            Begun::Translate(line) => self.handle_one(from, &line),
            Begun::Own(line) => {
                self.context_mut().send(Side::Client, line);
                Handled::Done
            }
            Begun::Nothing => Handled::Done,
        };
        self.settle();
        self.context_mut().native.end();
        handled
    }

    /// Begins to handle a message. Only a hub marks messages with what they were translated from.
    fn begin(&mut self, from: Side, line: &str) -> Begun {
        let context = self.context_mut();
        match from {
            Side::Agent if context.options.is_shared => context.native.begin(line),
            _ => Begun::AsItIs,
        }
    }

    /// Takes one line from one side and gives all that is to be sent because of it, in order: [`handle`](Bridge::handle)
    /// and [`drain`](Bridge::drain) in one, for whoever does not mind a copy of the lines that go on as they are.
    pub fn pass(&mut self, from: Side, line: &str, now: Moment) -> impl Iterator<Item = Output> {
        if self.handle(from, line, now) == Handled::Forward {
            let line = line.trim_matches(['\r', '\n']).to_owned();
            self.context_mut().send(from.other(), line);
        }
        self.drain()
    }

    /// Whether a line can go to the other side as it is without being handled: [`handle`](Bridge::handle) would say
    /// [`Forward`](Handled::Forward) and have nothing to remember or to send. A quick look, which says no to many lines
    /// of which this is true as well; so it can be taken before anybody knows whether the line is text.
    pub fn is_passthrough(&self, from: Side, line: &[u8]) -> bool {
        match &self.mode {
            Mode::Same(passthrough) => passthrough.is_passthrough(from, line),
            Mode::Opening(..) | Mode::Different(_) => false,
        }
    }

    fn handle_one(&mut self, from: Side, line: &str) -> Handled {
        if from == Side::Client && self.is_negotiable() && is_initialize(line) {
            return self.open(line);
        }
        match &mut self.mode {
            Mode::Opening(context, opening) => match (from, opening) {
                (Side::Agent, opening @ Some(_)) => {
                    let Some(known) = opening.take_if(|known| answers(line, &known.id)) else {
                        self.early.look(from, line, context);
                        return Handled::Forward;
                    };
                    self.opened(&known, line);
                    Handled::Done
                }
                (Side::Client, Some(known)) => hold(known, line, context),
                (_, None) => {
                    self.early.look(from, line, context);
                    Handled::Forward
                }
            },
            Mode::Same(passthrough) => passthrough.handle(from, line),
            Mode::Different(machine) => {
                machine.handle(from, line);
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
                return self.context_mut().refuse(from, &RequestId::Null, codes::INVALID_REQUEST, message);
            }
            Err(BatchFault::NotJson(error)) => {
                let message = error.to_string();
                return self.context_mut().refuse(from, &RequestId::Null, codes::PARSE_ERROR, message);
            }
        };
        for text in entries {
            if Message::decode(text, WireFormat::Any).is_err() {
                let reason = "no message in a batch";
                self.context_mut().refuse(from, &RequestId::Null, codes::INVALID_REQUEST, reason);
            } else if self.handle_one(from, text) == Handled::Forward {
                self.context_mut().send(from.other(), text.replace(['\n', '\r'], " "));
            }
            self.settle();
        }
    }

    /// Whether the versions are found out by the handshake.
    fn is_negotiable(&self) -> bool {
        let options = &self.context().options;
        options.client_version.is_none() || options.agent_version.is_none()
    }

    /// The client's handshake.
    fn open(&mut self, line: &str) -> Handled {
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else {
            self.mode = Mode::Opening(Box::new(self.take_context()), None);
            return Handled::Forward;
        };
        let context = self.context_mut();
        let known = context.options.client_version;
        let client = known.unwrap_or_else(|| Handshake::of_request(request.params.as_ref()).version);
        if client == Version::V2 {
            context.peers.learn_from_client(&request);
        }
        if context.options.agent_version == Some(client.other()) {
            return self.translate_for(client, line);
        }
        let id = request.id.into_owned();
        let opening = Opening { client, id, line: line.to_owned(), held: Vec::new() };
        self.mode = Mode::Opening(Box::new(self.take_context()), Some(opening));
        Handled::Forward
    }

    /// Begins to translate for a client, from its handshake on.
    fn translate_for(&mut self, client: Version, line: &str) -> Handled {
        let context = self.take_context();
        let mut machine: Box<dyn Machine> = match client {
            Version::V1 => Box::new(V1ToV2::new(context)),
            Version::V2 => Box::new(V2ToV1::new(context)),
        };
        machine.handle(Side::Client, line);
        self.mode = Mode::Different(machine);
        Handled::Done
    }

    /// The agent's answer to a handshake in the client's version. What the client said since follows.
    fn opened(&mut self, opening: &Opening, line: &str) {
        if self.settle_versions(opening, line) == Handled::Forward {
            self.context_mut().send(Side::Client, line.to_owned());
        }
        for held in &opening.held {
            if self.handle_one(Side::Client, held) == Handled::Forward {
                self.context_mut().send(Side::Agent, held.clone());
            }
        }
    }

    fn settle_versions(&mut self, opening: &Opening, line: &str) -> Handled {
        let Ok(Message::Response(response)) = Message::decode(line, WireFormat::Any) else {
            return Handled::Forward;
        };
        match &response.outcome {
            Ok(result) if Handshake::of_answer(result).version == opening.client => {
                let context = self.take_context();
                let early = OpenWork::new(context.options.limits.requests);
                let early = std::mem::replace(&mut self.early, early);
                self.mode = Mode::Same(Box::new(Passthrough::new(context, opening.client, early)));
                Handled::Forward
            }
            Ok(_) => self.opened_in_other(opening, &response),
            // The agent does not speak the client's version; perhaps it speaks the other one.
            Err(error) if refuses_version(error.code) => self.translate_for(opening.client, &opening.line),
            Err(_) => Handled::Forward,
        }
    }

    /// The agent has answered the client's words in its own version.
    fn opened_in_other(&mut self, opening: &Opening, response: &Response<'_>) -> Handled {
        let context = self.take_context();
        let request = Message::decode(&opening.line, WireFormat::Any);
        let machine: Box<dyn Machine> = match opening.client {
            Version::V1 => {
                let mut machine = V1ToV2::new(context);
                if let Ok(Message::Request(request)) = &request {
                    machine.opened(request.params_text(), response);
                }
                Box::new(machine)
            }
            Version::V2 => {
                let mut machine = V2ToV1::new(context);
                let answer = response.outcome.as_ref().map_or("{}", Raw::as_str);
                if let Ok(Message::Request(request)) = &request {
                    machine.opened(request, answer);
                }
                Box::new(machine)
            }
        };
        self.mode = Mode::Different(machine);
        Handled::Done
    }

    /// What handling a line leaves to do: prompts that waited, turns that a loss has ended, and what there is no room for.
    fn settle(&mut self) {
        let context = self.context_mut();
        let counts = context.is_time_to_count();
        if counts && context.terminals.size().1 > context.options.limits.total {
            context.terminals.forget_output();
            let reason = "what terminals put out is too much to remember; calls that come to show one show what follows";
            context.lose(None, "terminal_update", "", reason, Severity::Minor, Side::Client);
        }
        if let Mode::Different(machine) = &mut self.mode {
            machine.make_room(counts);
            machine.next_prompts();
            if let Some((Some(session), reason)) = machine.context_mut().strict_failure.take() {
                machine.fail_turn(&session, &reason);
            }
        }
        // What ending the turn loses in its turn is not a reason to end another.
        self.context_mut().strict_failure = None;
    }

    /// The client goes on with a session that it did not open by a request here. All that was said in it is told again, so that
    /// what follows can be translated.
    pub fn reopen(&mut self, session: &str) {
        if let Mode::Different(machine) = &mut self.mode {
            machine.reopen(session);
        }
        self.settle();
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.at(now);
        if let Mode::Different(machine) = &mut self.mode {
            machine.tick();
        }
        self.settle();
    }

    /// When [`tick`](Bridge::tick) is next to be called; `None`: when something was handled again.
    pub fn next_deadline(&self) -> Option<Moment> {
        if let Mode::Different(machine) = &self.mode { machine.next_deadline() } else { None }
    }

    /// Sends everything that is held back, because no more is to come.
    pub fn finish(&mut self) {
        if let Mode::Different(machine) = &mut self.mode {
            machine.finish();
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
        let early = std::mem::replace(&mut self.early, OpenWork::new(0));
        early.agent_ended(&error, self.context_mut());
        match &mut self.mode {
            Mode::Different(machine) => machine.agent_ended(&error),
            Mode::Same(passthrough) => passthrough.agent_ended(&error),
            Mode::Opening(context, opening) => {
                for opening in opening.iter() {
                    let held = opening.held.iter().flat_map(|line| requests(line));
                    for id in [opening.id.clone()].into_iter().chain(held) {
                        context.fail(Side::Client, &id, error.clone());
                    }
                }
            }
        }
        self.ended = Some(error);
        self.context_mut().strict_failure = None;
    }

    /// A command that the host runs has put something out.
    pub fn terminal_output(&mut self, terminal_id: &str, bytes: &[u8], now: Moment) {
        self.at(now);
        if let Mode::Different(machine) = &mut self.mode {
            machine.terminal_output(terminal_id, bytes);
        }
    }

    /// A terminal of the client in a recording has changed.
    pub(crate) fn recorded_terminal(
        &mut self,
        session: &str,
        update: v2::TerminalUpdate<'static>,
        now: Moment,
    ) {
        self.at(now);
        if let Mode::Different(machine) = &mut self.mode {
            machine.recorded_terminal(session, update);
        }
        self.settle();
    }

    /// A command that the host runs has ended.
    pub fn terminal_exited(
        &mut self,
        terminal_id: &str,
        exit_code: Option<i64>,
        signal: Option<&str>,
        now: Moment,
    ) {
        self.at(now);
        if let Mode::Different(machine) = &mut self.mode {
            machine.terminal_exited(terminal_id, exit_code, signal);
        }
    }

    /// Takes what there is to send and to report, in its order.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.context_mut().output.drain(..)
    }

    /// Takes the same as one list.
    pub(crate) fn take_output(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.context_mut().output)
    }

    /// How much is remembered now.
    pub fn remembered(&self) -> Remembered {
        let size = match &self.mode {
            Mode::Different(machine) => machine.size(),
            Mode::Same(passthrough) => passthrough.size(),
            Mode::Opening(..) => Size::default(),
        };
        let (terminals, output) = self.context().terminals.size();
        let (entries, bytes) = (size.entries + terminals, size.bytes + output);
        Remembered { sessions: size.sessions, entries, bytes }
    }

    /// What could not be carried over so far.
    pub fn losses(&self) -> &LossReport {
        &self.context().losses
    }

    /// The versions of the client and the agent, once they are known.
    pub fn versions(&self) -> Option<(Version, Version)> {
        match &self.mode {
            Mode::Opening(..) => None,
            Mode::Same(passthrough) => Some((passthrough.version(), passthrough.version())),
            Mode::Different(machine) => Some(machine.versions()),
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
fn hold(opening: &mut Opening, line: &str, context: &mut Context) -> Handled {
    let request = match Message::decode(line, WireFormat::Any) {
        Ok(Message::Response(_)) | Err(_) => return Handled::Forward,
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_)) => None,
    };
    if opening.held.len() < MAX_HELD {
        opening.held.push(line.to_owned());
    } else if let Some(id) = request {
        context.refuse_full(Side::Client, &id);
    } else {
        let reason = "said before the handshake was answered, when no more could be kept";
        context.lose(None, "message", "", reason, Severity::Major, Side::Agent);
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
