//! The bridge: determines the versions of both sides, then translates or passes through.

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{
    BATCH_LIMIT, BatchFault, Message, RequestId, Response, RpcError, batch_entries, codes,
};
use switchboard_acp::{Raw, Wire, WireFormat, v2};

use crate::context::{Context, Output};
use crate::host::{Host, NoHost};
use crate::loss::Severity;
use crate::native::NativeAction;
use crate::passthrough::Passthrough;
use crate::pending_work::{self, PendingWork};
use crate::sessions::Size;
use crate::translator::Translator;
use crate::v1_to_v2::V1ToV2;
use crate::v2_to_v1::V2ToV1;
use crate::{BridgeOptions, LossReport, Moment, Side, Version};

/// A translator between a client and an agent.
///
/// [`handle`](Bridge::handle) takes the lines of either side, and [`drain`](Bridge::drain) returns the output
/// for both. A bridge has no clock: the caller supplies the time and calls [`tick`](Bridge::tick) at
/// [`next_deadline`](Bridge::next_deadline).
#[derive(Debug)]
pub struct Bridge {
    mode: Mode,
    /// Requests that the client sent before its handshake.
    early: PendingWork,
    /// Error for requests of the client after the agent has exited.
    ended: Option<RpcError<'static>>,
}

#[derive(Debug)]
enum Mode {
    /// The handshake is not complete.
    Handshaking(Box<Context>, Option<Handshaking>),
    /// Both sides use the same version.
    Same(Box<Passthrough>),
    /// The sides use different versions.
    Different(Box<dyn Translator>),
}

/// A handshake that the agent has not answered yet.
#[derive(Debug)]
struct Handshaking {
    client: Version,
    id: RequestId<'static>,
    line: String,
    /// Messages of the client since the handshake. They wait until the agent's version is known.
    held: Vec<String>,
}

/// Further treatment of a handled line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Handled {
    /// Forward the line unchanged, after the output of [`Bridge::drain`].
    Forward,
    /// [`Bridge::drain`] returns everything that has to be sent.
    Done,
}

/// Size of the state that a bridge retains, bounded by [`Limits`](crate::Limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Remembered {
    /// Sessions.
    pub sessions: usize,
    /// Messages, tool calls, terminals and similar entries in all sessions.
    pub entries: usize,
    /// Bytes of retained content, ids and requests.
    pub bytes: usize,
}

/// Maximum number of retained messages from a client that does not wait for the handshake.
const MAX_HELD: usize = 1024;

impl Bridge {
    /// Creates a bridge with a host that offers no files or commands.
    pub fn new(options: BridgeOptions) -> Self {
        Bridge::with_host(options, Box::new(NoHost))
    }

    /// Creates a bridge with a host that offers files or commands.
    pub fn with_host(options: BridgeOptions, host: Box<dyn Host + Send>) -> Self {
        let requests = options.limits.requests;
        let pending_work = || PendingWork::new(requests);
        let versions = (options.client_version, options.agent_version);
        let context = Context::new(options, host);
        let mode = match versions {
            (Some(Version::V1), Some(Version::V2)) => Mode::Different(Box::new(V1ToV2::new(context))),
            (Some(Version::V2), Some(Version::V1)) => Mode::Different(Box::new(V2ToV1::new(context))),
            (Some(version), Some(_)) => {
                Mode::Same(Box::new(Passthrough::new(context, version, pending_work())))
            }
            _ => Mode::Handshaking(Box::new(context), None),
        };
        Bridge { mode, early: pending_work(), ended: None }
    }

    fn context(&self) -> &Context {
        match &self.mode {
            Mode::Handshaking(context, _) => context,
            Mode::Same(passthrough) => &passthrough.context,
            Mode::Different(translator) => translator.context(),
        }
    }

    fn context_mut(&mut self) -> &mut Context {
        match &mut self.mode {
            Mode::Handshaking(context, _) => context,
            Mode::Same(passthrough) => &mut passthrough.context,
            Mode::Different(translator) => translator.context_mut(),
        }
    }

    /// Takes the context for the next mode.
    fn take_context(&mut self) -> Context {
        std::mem::take(self.context_mut())
    }

    /// Advances the time.
    fn at(&mut self, now: Moment) {
        let context = self.context_mut();
        context.now = context.now.max(now);
    }

    /// Handles one line from one side.
    pub fn handle(&mut self, from: Side, line: &str, now: Moment) -> Handled {
        self.at(now);
        let start = line.trim_start();
        if start.is_empty() {
            return Handled::Done;
        }
        // Before anything else: an agent that has ended gets no more input, and a client that still asks must
        // not wait.
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
        // A batch is split, because its messages may be held or translated separately. Between peers of the
        // same version it stays whole.
        if start.starts_with('[') && !matches!(self.mode, Mode::Same(_)) {
            self.batch(from, line);
            return Handled::Done;
        }
        let context = self.context_mut();
        context.received += line.len();
        context.at_hand = line.len();
        let handled = match self.begin(from, line) {
            NativeAction::Unchanged => self.handle_one(from, line),
            NativeAction::Translate(line) => self.handle_one(from, &line),
            NativeAction::Own(line) => {
                self.context_mut().send(Side::Client, line);
                Handled::Done
            }
            NativeAction::Drop => Handled::Done,
        };
        // Queued prompts and evictions belong to this line: their output must be marked with its original, so
        // `native` ends last.
        self.settle();
        self.context_mut().native.end();
        handled
    }

    /// Starts handling a message. Only hubs mark messages with their originals.
    fn begin(&mut self, from: Side, line: &str) -> NativeAction {
        let context = self.context_mut();
        match from {
            Side::Agent if context.options.is_shared => context.native.begin(line),
            _ => NativeAction::Unchanged,
        }
    }

    /// Handles one line from one side and returns all resulting output, in order: [`handle`](Bridge::handle)
    /// and [`drain`](Bridge::drain) in one call, at the cost of a copy of each line that is passed through.
    pub fn pass(&mut self, from: Side, line: &str, now: Moment) -> impl Iterator<Item = Output> {
        if self.handle(from, line, now) == Handled::Forward {
            let line = line.trim_matches(['\r', '\n']).to_owned();
            self.context_mut().send(from.other(), line);
        }
        self.drain()
    }

    /// Returns whether a line can be passed through without [`handle`](Bridge::handle), which would return
    /// [`Forward`](Handled::Forward) with no state change and no output. A quick check with false negatives
    /// that also accepts bytes which are not known to be UTF-8.
    pub fn is_passthrough(&self, from: Side, line: &[u8]) -> bool {
        match &self.mode {
            Mode::Same(passthrough) => passthrough.is_passthrough(from, line),
            Mode::Handshaking(..) | Mode::Different(_) => false,
        }
    }

    fn handle_one(&mut self, from: Side, line: &str) -> Handled {
        if from == Side::Client && self.is_negotiable() && is_initialize(line) {
            return self.open(line);
        }
        match &mut self.mode {
            Mode::Handshaking(context, opening) => match (from, opening) {
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
            Mode::Different(translator) => {
                translator.handle(from, line);
                Handled::Done
            }
        }
    }

    /// Handles the messages of a JSON array one by one. Responses are sent one by one, too.
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
                let reason = "a batch must contain at least one message";
                self.context_mut().refuse(from, &RequestId::Null, codes::INVALID_REQUEST, reason);
            } else if self.handle_one(from, text) == Handled::Forward {
                self.context_mut().send(from.other(), text.replace(['\n', '\r'], " "));
            }
            self.settle();
        }
    }

    /// Returns whether the handshake determines the versions.
    fn is_negotiable(&self) -> bool {
        let options = &self.context().options;
        options.client_version.is_none() || options.agent_version.is_none()
    }

    /// Handles the client's handshake.
    fn open(&mut self, line: &str) -> Handled {
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else {
            self.mode = Mode::Handshaking(Box::new(self.take_context()), None);
            return Handled::Forward;
        };
        let context = self.context_mut();
        let known = context.options.client_version;
        let client = known.unwrap_or_else(|| Handshake::of_request(request.params.as_ref()).version);
        if client == Version::V2 {
            context.peers.learn_from_client(&request);
        }
        // The versions differ for certain, so the agent is addressed in its own version at once. Otherwise
        // the client's handshake is sent first, and the response decides.
        if context.options.agent_version == Some(client.other()) {
            return self.translate_for(client, line);
        }
        let id = request.id.into_owned();
        let opening = Handshaking { client, id, line: line.to_owned(), held: Vec::new() };
        self.mode = Mode::Handshaking(Box::new(self.take_context()), Some(opening));
        Handled::Forward
    }

    /// Starts to translate for a client, beginning with its handshake.
    fn translate_for(&mut self, client: Version, line: &str) -> Handled {
        let context = self.take_context();
        let mut translator: Box<dyn Translator> = match client {
            Version::V1 => Box::new(V1ToV2::new(context)),
            Version::V2 => Box::new(V2ToV1::new(context)),
        };
        // The translator sends its own handshake; the client gets one response, translated from that of the
        // second handshake.
        translator.handle(Side::Client, line);
        self.mode = Mode::Different(translator);
        Handled::Done
    }

    /// Handles the agent's response to a handshake in the client's version, then the client's messages held
    /// since.
    fn opened(&mut self, opening: &Handshaking, line: &str) {
        // The response precedes the held messages, because they are valid only after it, and the mode is
        // final once it is handled.
        if self.settle_versions(opening, line) == Handled::Forward {
            self.context_mut().send(Side::Client, line.to_owned());
        }
        for held in &opening.held {
            if self.handle_one(Side::Client, held) == Handled::Forward {
                self.context_mut().send(Side::Agent, held.clone());
            }
        }
    }

    fn settle_versions(&mut self, opening: &Handshaking, line: &str) -> Handled {
        let Ok(Message::Response(response)) = Message::decode(line, WireFormat::Any) else {
            return Handled::Forward;
        };
        match &response.outcome {
            Ok(result) if Handshake::of_answer(result).version == opening.client => {
                let context = self.take_context();
                let early = PendingWork::new(context.options.limits.requests);
                let early = std::mem::replace(&mut self.early, early);
                self.mode = Mode::Same(Box::new(Passthrough::new(context, opening.client, early)));
                Handled::Forward
            }
            Ok(_) => self.opened_in_other(opening, &response),
            // The agent rejects the client's version; it may support the other one.
            Err(error) if refuses_version(error.code) => self.translate_for(opening.client, &opening.line),
            Err(_) => Handled::Forward,
        }
    }

    /// Handles a handshake that the agent answered in its own version.
    fn opened_in_other(&mut self, opening: &Handshaking, response: &Response<'_>) -> Handled {
        let context = self.take_context();
        let request = Message::decode(&opening.line, WireFormat::Any);
        let translator: Box<dyn Translator> = match opening.client {
            Version::V1 => {
                let mut translator = V1ToV2::new(context);
                if let Ok(Message::Request(request)) = &request {
                    translator.opened(request.params_text(), response);
                }
                Box::new(translator)
            }
            Version::V2 => {
                let mut translator = V2ToV1::new(context);
                let answer = response.outcome.as_ref().map_or("{}", Raw::as_str);
                if let Ok(Message::Request(request)) = &request {
                    translator.opened(request, answer);
                }
                Box::new(translator)
            }
        };
        self.mode = Mode::Different(translator);
        Handled::Done
    }

    /// Completes a handled line: sends queued prompts, ends turns that a loss has failed, and evicts state
    /// above the limits.
    fn settle(&mut self) {
        let context = self.context_mut();
        let counts = context.is_time_to_count();
        if counts && context.terminals.size().1 > context.options.limits.total {
            context.terminals.forget_output();
            let reason = "terminal output exceeds the total limit and is dropped; tool calls that show a terminal later show only new output";
            context.report_loss(None, "terminal_update", "", reason, Severity::Minor, Side::Client);
        }
        if let Mode::Different(translator) = &mut self.mode {
            // Eviction precedes the queued prompts, whose handling may need room. A turn that a loss has
            // failed ends last, so that it also covers losses of the eviction.
            translator.enforce_limits(counts);
            translator.next_prompts();
            if let Some((Some(session), reason)) = translator.context_mut().strict_failure.take() {
                translator.fail_turn(&session, &reason);
            }
        }
        // Losses while ending the turn are not a reason to end another turn.
        self.context_mut().strict_failure = None;
    }

    /// Prepares for a client that continues a session without opening it through this bridge. The agent
    /// replays the history, so that later messages can be translated.
    pub fn reopen(&mut self, session: &str) {
        if let Mode::Different(translator) = &mut self.mode {
            translator.reopen(session);
        }
        self.settle();
    }

    /// Runs the work that is due now.
    pub fn tick(&mut self, now: Moment) {
        self.at(now);
        if let Mode::Different(translator) = &mut self.mode {
            translator.tick();
        }
        self.settle();
    }

    /// Returns the time of the next [`tick`](Bridge::tick); `None` until another line is handled.
    pub fn next_deadline(&self) -> Option<Moment> {
        if let Mode::Different(translator) = &self.mode { translator.next_deadline() } else { None }
    }

    /// Releases all output that is held back, because no more input will arrive.
    pub fn finish(&mut self) {
        if let Mode::Different(translator) = &mut self.mode {
            translator.finish();
        }
        self.settle();
    }

    /// Ends the agent's side. Held output is released, each pending and each later request of the client
    /// fails, and each session of a version 2 client with work in progress becomes idle with the same error.
    ///
    /// `reason` is text for a person; `last_lines` are the last lines of the agent's standard error, oldest
    /// first, which the errors carry in `data.stderr`. Call [`drain`](Bridge::drain) afterwards.
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
        // Requests from before the handshake were sent first, so they fail first.
        let early = std::mem::replace(&mut self.early, PendingWork::new(0));
        early.agent_ended(&error, self.context_mut());
        match &mut self.mode {
            Mode::Different(translator) => translator.agent_ended(&error),
            Mode::Same(passthrough) => passthrough.agent_ended(&error),
            Mode::Handshaking(context, opening) => {
                for opening in opening.iter() {
                    let held = opening.held.iter().flat_map(|line| requests(line));
                    for id in [opening.id.clone()].into_iter().chain(held) {
                        context.fail(Side::Client, &id, error.clone());
                    }
                }
            }
        }
        // Set last: the translator still sends held output while it ends, and with this set `handle` would
        // refuse its own requests.
        self.ended = Some(error);
        self.context_mut().strict_failure = None;
    }

    /// Handles output of a command that the host runs.
    pub fn terminal_output(&mut self, terminal_id: &str, bytes: &[u8], now: Moment) {
        self.at(now);
        if let Mode::Different(translator) = &mut self.mode {
            translator.terminal_output(terminal_id, bytes);
        }
    }

    /// Handles a change of a client terminal in a recording.
    pub(crate) fn recorded_terminal(
        &mut self,
        session: &str,
        update: v2::TerminalUpdate<'static>,
        now: Moment,
    ) {
        self.at(now);
        if let Mode::Different(translator) = &mut self.mode {
            translator.recorded_terminal(session, update);
        }
        self.settle();
    }

    /// Handles the exit of a command that the host runs.
    pub fn terminal_exited(
        &mut self,
        terminal_id: &str,
        exit_code: Option<i64>,
        signal: Option<&str>,
        now: Moment,
    ) {
        self.at(now);
        if let Mode::Different(translator) = &mut self.mode {
            translator.terminal_exited(terminal_id, exit_code, signal);
        }
    }

    /// Removes and returns the lines to send and the losses to report, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.context_mut().output.drain(..)
    }

    /// Removes and returns the same as a vector.
    pub(crate) fn take_output(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.context_mut().output)
    }

    /// Returns the size of the retained state.
    pub fn remembered(&self) -> Remembered {
        let size = match &self.mode {
            Mode::Different(translator) => translator.size(),
            Mode::Same(passthrough) => passthrough.size(),
            Mode::Handshaking(..) => Size::default(),
        };
        let (terminals, output) = self.context().terminals.size();
        let (entries, bytes) = (size.entries + terminals, size.bytes + output);
        Remembered { sessions: size.sessions, entries, bytes }
    }

    /// Returns the losses so far.
    pub fn losses(&self) -> &LossReport {
        &self.context().losses
    }

    /// Returns the versions of the client and the agent once they are known.
    pub fn versions(&self) -> Option<(Version, Version)> {
        match &self.mode {
            Mode::Handshaking(..) => None,
            Mode::Same(passthrough) => Some((passthrough.version(), passthrough.version())),
            Mode::Different(translator) => Some(translator.versions()),
        }
    }
}

/// Returns whether a line of the client is a handshake. Called for every line, so a substring search comes
/// first.
fn is_initialize(line: &str) -> bool {
    memchr::memmem::find(line.as_bytes(), b"\"initialize\"").is_some()
        && Message::decode(line, WireFormat::Any).is_ok_and(|message| message.method() == Some("initialize"))
}

/// Returns the ids of the requests in a line.
fn requests(line: &str) -> Vec<RequestId<'static>> {
    let id = |text| match Message::decode(text, WireFormat::Any) {
        Ok(Message::Request(request)) => Some(request.id.into_owned()),
        _ => None,
    };
    pending_work::messages(line).into_iter().filter_map(id).collect()
}

fn answers(line: &str, id: &RequestId<'_>) -> bool {
    matches!(Message::decode(line, WireFormat::Any), Ok(Message::Response(response)) if response.id == *id)
}

/// Holds a message of the client until its handshake is answered. Responses pass, because the agent may wait
/// for them, and so do invalid lines.
fn hold(opening: &mut Handshaking, line: &str, context: &mut Context) -> Handled {
    let request = match Message::decode(line, WireFormat::Any) {
        Ok(Message::Response(_)) | Err(_) => return Handled::Forward,
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_)) => None,
    };
    // Held in order and without gaps: once one message is refused, later ones are refused too, because the
    // number never decreases before the handshake is answered.
    if opening.held.len() < MAX_HELD {
        opening.held.push(line.to_owned());
    } else if let Some(id) = request {
        context.refuse_full(Side::Client, &id);
    } else {
        let reason = "sent before the handshake was answered, after the limit of held messages was reached";
        context.report_loss(None, "message", "", reason, Severity::Major, Side::Agent);
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
