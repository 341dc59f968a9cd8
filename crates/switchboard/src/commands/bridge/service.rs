//! The running bridge: forwards lines of both sides until one of them ends.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_acp::Correlator;
use switchboard_acp::display::visible_line;
use switchboard_acp::rpc::{Message, Outline, RpcError, codes, is_batch, messages};
use switchboard_acp::{Wire, WireFormat};
use switchboard_bridge::{Driver, Handled, Loss, Port, Severity, Side};
use switchboard_store::Channel;
use switchboard_transport::{
    Child, ChildOutput, DEFAULT_MESSAGE_LIMIT, Exit, Frame, LineReader, Oddities, Spawned, Substitute,
    TooLong, invalid_line_answer,
};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::history::{History, Redirect};
use super::host::TerminalEvent;
use super::permissions::{Instead, Permissions};
use super::recorded::BridgeRecording;
use super::sandboxed::{ForAgent, FromAgent, SandboxedAgent, StartedAgent};
use crate::ending::{self, Phase, Stop, Stops};
use crate::outbound_queue::{OutboundLine, OutboundQueue};
use crate::outcome::{CommandError, Outcome};
use crate::{handshake, losses, standard_error, stdio};

/// Maximum number of lines or runs of one side before the other side's turn.
const TURN: usize = 128;

/// Time for the agent's responses after the client has closed its input: the client may be a script that
/// still reads.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Maximum number of tracked pending requests.
const UNANSWERED: usize = 10_000;

/// Silence after which an agent that stopped reading counts as gone: an exiting agent closes its input a
/// moment before its output.
const LAST_OUTPUT: Duration = Duration::from_millis(300);

/// Time for a client to read that the agent has exited, before the bridge exits: some clients read nothing
/// more then.
const EXIT_NOTICE_TIME: Duration = Duration::from_millis(500);

/// Maximum wait for a client that does not read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The components of the bridge.
pub(super) struct Parts {
    pub(super) driver: Driver,
    pub(super) losses: Option<File>,
    pub(super) record: Option<BridgeRecording>,
    pub(super) history: Option<History>,
    pub(super) permissions: Option<Permissions>,
    pub(super) terminal_events: mpsc::Receiver<TerminalEvent>,
    pub(super) stops: Stops,
    pub(super) handshake_timeout: Duration,
    pub(super) sandbox: Option<SandboxedAgent>,
}

pub(super) struct Service {
    driver: Driver,
    to_client: OutboundQueue,
    to_agent: OutboundQueue,
    losses: Option<File>,
    record: Option<BridgeRecording>,
    history: Option<History>,
    permissions: Option<Permissions>,
    /// Pending requests of the client; for a handshake with its deadline.
    unanswered: Correlator<Option<tokio::time::Instant>>,
    handshake_timeout: Duration,
    /// Deadline of the pending handshake.
    too_late: Option<tokio::time::Instant>,
    of_client: Oddities,
    of_agent: Oddities,
    sandbox: Option<SandboxedAgent>,
    /// A request of the client that waits for the agent to start in these folders.
    starting: Option<(Vec<PathBuf>, OutboundLine)>,
}

/// Reason for the end of the service.
enum End {
    /// The client closed its side.
    Client,
    /// The agent is unusable, for this reason.
    Agent(String),
    /// The agent did not answer the handshake.
    NoHandshake,
    /// The process received a stop signal.
    Told(Stop),
}

impl Service {
    pub(super) async fn run(parts: Parts, spawned: Spawned) -> Result<Outcome, CommandError> {
        let Parts {
            driver,
            losses,
            record,
            history,
            permissions,
            terminal_events,
            mut stops,
            handshake_timeout,
            sandbox,
        } = parts;
        let Spawned { child, input, output } = spawned;
        let holds = record.is_some();
        let mut service = Service {
            driver,
            to_client: OutboundQueue::to_client(stdio::output()).holding(holds),
            to_agent: OutboundQueue::to_agent(input).holding(holds),
            losses,
            record,
            history,
            permissions,
            unanswered: Correlator::new(UNANSWERED),
            handshake_timeout,
            too_late: None,
            of_client: Oddities::shown(),
            of_agent: Oddities::shown(),
            sandbox,
            starting: None,
        };
        let mut from_client = LineReader::new(stdio::input(), DEFAULT_MESSAGE_LIMIT);
        let from_agent = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
        let end = service.serve(&mut from_client, from_agent, terminal_events, &mut stops).await;
        let child = service.sandbox.as_ref().map_or(child, |sandbox| sandbox.child().clone());
        service.end(end, &child, from_client, stops).await
    }

    async fn serve(
        &mut self,
        from_client: &mut LineReader<impl AsyncRead + Unpin>,
        mut from_agent: LineReader<ChildOutput>,
        mut terminal_events: mpsc::Receiver<TerminalEvent>,
        stops: &mut Stops,
    ) -> End {
        let mut farewell = None;
        // Deadline after which an agent that stopped reading counts as gone, unless it writes before.
        let mut deaf = None;
        loop {
            if let Some((roots, line)) = self.starting.take() {
                tokio::select! {
                    started = self.start_in_sandbox(roots, &line) => {
                        if let Some(reader) = started {
                            from_agent = reader;
                            self.pass(Side::Client, line);
                        }
                    }
                    stop = stops.next() => return End::Told(stop),
                }
            }
            self.show_sandbox();
            self.release();
            if self.to_client.is_closed() || (farewell.is_some() && self.unanswered.is_empty()) {
                return End::Client;
            }
            if self.to_agent.is_closed() && deaf.is_none() {
                deaf = Some(tokio::time::Instant::now() + LAST_OUTPUT);
            }
            let deadline = self.driver.next_deadline().map(Into::into);
            let too_late = self.too_late;
            tokio::select! {
                frame = from_agent.next(), if self.to_client.has_room() => match frame {
                    Ok(Some(frame)) => {
                        deaf = deaf.map(|_| tokio::time::Instant::now() + LAST_OUTPUT);
                        self.frame(Side::Agent, frame);
                        for _ in 0..TURN {
                            // Check the queue first: a frame that was read must not be dropped.
                            if !self.to_client.has_room() {
                                break;
                            }
                            if self.pass_run(&mut from_agent) {
                                continue;
                            }
                            let Some(frame) = from_agent.ready() else { break };
                            self.frame(Side::Agent, frame);
                        }
                    }
                    Ok(None) | Err(_) if farewell.is_some() => return End::Client,
                    Ok(None) => return End::Agent("closed its output".to_owned()),
                    Err(error) => return End::Agent(format!("cannot be read from: {error}")),
                },
                frame = from_client.next(), if farewell.is_none() && deaf.is_none() && self.takes_from_client() => {
                    match frame {
                        Ok(Some(frame)) => {
                            self.frame(Side::Client, frame);
                        }
                        Ok(None) | Err(_) => farewell = Some(tokio::time::Instant::now() + LAST_ANSWERS),
                    }
                }
                () = stdio::sleep_until(farewell), if farewell.is_some() => return End::Client,
                () = self.to_client.send_first() => {
                    deaf = deaf.map(|_| tokio::time::Instant::now() + LAST_OUTPUT);
                }
                () = self.to_agent.send_first() => {}
                () = stdio::sleep_until(deaf), if deaf.is_some() && self.to_client.has_room() => {
                    return End::Agent("closed its input".to_owned());
                }
                () = stdio::sleep_until(too_late), if too_late.is_some() => return End::NoHandshake,
                Some(event) = terminal_events.recv() => self.terminal_event(event),
                () = next_notice(&mut self.sandbox) => {}
                stop = stops.next() => return End::Told(stop),
                () = stdio::sleep_until(deadline) => {
                    let outputs = self.driver.tick();
                    let _ = outputs.deliver(self);
                }
            }
        }
    }

    /// Releases queued lines after their recording is durable.
    fn release(&mut self) {
        if let Some(recorded) = &self.record {
            recorded.recording.commit();
        }
        self.to_client.send_ready();
        self.to_agent.send_ready();
    }

    /// Returns whether the queues accept lines of the client and responses to it.
    fn takes_from_client(&self) -> bool {
        self.to_agent.has_room() && self.to_client.keeps_up()
    }

    /// Forwards the agent's buffered lines that need no inspection. Returns whether there were any.
    fn pass_run(&mut self, from_agent: &mut LineReader<impl AsyncRead + Unpin>) -> bool {
        // A history inspects each line while it waits for something.
        if self.history.as_ref().is_some_and(History::is_at_work) {
            return false;
        }
        let Service { driver, to_client, record, permissions, sandbox, .. } = self;
        let bridge = driver.bridge();
        let room = to_client.room();
        let passes = |line: &[u8]| {
            bridge.is_passthrough(Side::Agent, line)
                && permissions.as_ref().is_none_or(|permissions| permissions.passes(line))
                && (sandbox.is_none() || SandboxedAgent::passes(line))
        };
        let take = |lines: &str| {
            if let Some(recorded) = record {
                recorded.forwarded_lines(Side::Agent, lines, bridge.versions());
                to_client.send_ready();
            }
            to_client.push_run(lines);
        };
        from_agent.ready_run(room, passes, take).is_some()
    }

    fn frame(&mut self, from: Side, frame: Frame) {
        let line = match frame {
            Frame::Message(line) => line,
            Frame::Noise(noise) => {
                if !noise.is_blank() {
                    self.complain(from, &noise.to_string());
                    self.refuse_invalid(from, &noise.excerpt);
                }
                return;
            }
            Frame::Unfinished(noise) => {
                if !noise.is_blank() {
                    self.complain(from, &noise.to_string());
                }
                return;
            }
            Frame::TooLong(long) => return self.take_too_long(from, &long),
        };
        // First: the agent's response to an array is undefined, and some agents execute it.
        if self.refuse_invalid(from, &line) {
            return self.complain(from, &line);
        }
        if from == Side::Client {
            self.note_request(&line);
            match self.sandbox.as_mut().map(|sandbox| sandbox.look_at_client(&line)) {
                None | Some(ForAgent::Forward(None)) => {}
                Some(ForAgent::Forward(Some(changed))) => {
                    return self.pass(from, OutboundLine::Made(changed));
                }
                Some(ForAgent::Start(roots)) => {
                    self.starting = Some((roots, OutboundLine::Made(line.to_string())));
                    return;
                }
                Some(ForAgent::Refuse(answer)) => {
                    self.record(Side::Client, Side::Agent, &answer);
                    return self.send(Side::Client, OutboundLine::Made(answer));
                }
            }
            let marked = self.record.as_ref().and_then(|recorded| recorded.recording.mark_prompt(&line));
            if let Some(marked) = marked {
                return self.pass(from, OutboundLine::Made(marked));
            }
        }
        if from == Side::Agent && self.sandbox.is_some() {
            // Each message of a batch is a line of its own, so that none escapes inspection.
            let entries: Vec<String> =
                messages(&line).iter().map(|entry| entry.replace(['\n', '\r'], " ")).collect();
            if is_batch(&line) && entries.len() == 1 && !SandboxedAgent::passes(line.as_bytes()) {
                // A batch that cannot be taken apart.
                return self.complain(from, &line);
            }
            let looked: Vec<FromAgent> =
                entries.iter().map(|entry| SandboxedAgent::look_at_agent(entry)).collect();
            if looked.iter().any(|looked| *looked != FromAgent::Pass) {
                for (entry, looked) in entries.into_iter().zip(looked) {
                    match looked {
                        FromAgent::Answer(answer) => self.push_to_agent(OutboundLine::Made(answer)),
                        FromAgent::Pass => self.pass(from, OutboundLine::Made(entry)),
                        FromAgent::Drop => self.complain(from, &entry),
                    }
                }
                return;
            }
        }
        let is_of_agent = from == Side::Agent && self.permissions.is_some();
        match is_of_agent.then(|| Permissions::apart(&line)).flatten() {
            Some(entries) => entries.into_iter().for_each(|entry| self.pass(from, OutboundLine::Made(entry))),
            None => self.pass(from, OutboundLine::Forwarded(line)),
        }
    }

    /// Forwards a message of one side to the other, unless the history or the rules replace it.
    fn pass(&mut self, from: Side, line: OutboundLine) {
        if let Some(permissions) = self.permissions.as_mut().filter(|_| from == Side::Agent) {
            permissions.on_agent_line(line.text(), self.driver.now());
        }
        let history = self.history.as_mut().filter(|_| from == Side::Agent);
        match history.and_then(|history| history.take_of_agent(line.text())) {
            Some(steps) => {
                self.record_replaced("from", line.text());
                self.follow(steps);
            }
            None => self.line(from, line),
        }
        self.answer_for_client();
    }

    /// Sends the rules' answer to a question that the client was not asked, and shows it to the client.
    fn answer_for_client(&mut self) {
        let instead = self.permissions.as_mut().and_then(Permissions::instead);
        let Some(Instead { updates, answer }) = instead else { return };
        for update in updates {
            self.record(Side::Client, Side::Agent, &update);
            self.to_client.push(OutboundLine::Made(update));
        }
        self.line(Side::Client, OutboundLine::Made(answer));
    }

    /// Returns whether rules answer a question for the client; their decision is recorded.
    fn is_decided(&mut self, line: &str) -> bool {
        let is_of_agent = self.record.as_ref().is_some_and(BridgeRecording::is_of_agent);
        let looked = self.permissions.as_mut().and_then(|permissions| permissions.look(line, is_of_agent));
        let Some((note, is_withheld)) = looked else { return false };
        if let Some(recorded) = &self.record {
            recorded.recording.put(Channel::Hub, &note);
        }
        is_withheld
    }

    /// Fails the request whose response was too long.
    fn take_too_long(&mut self, from: Side, long: &TooLong) {
        self.complain(from, &long.to_string());
        match long.substitute() {
            Some(Substitute::Answer(line)) => self.line(from, OutboundLine::Made(line)),
            Some(Substitute::Refusal(line)) => {
                self.record(from, from.other(), &line);
                self.send(from, OutboundLine::Made(line));
            }
            None => {}
        }
    }

    /// Answers an invalid line of the client. Returns whether it did.
    fn refuse_invalid(&mut self, from: Side, line: &str) -> bool {
        let answer = (from == Side::Client).then(|| invalid_line_answer(line)).flatten();
        let is_refused = answer.is_some();
        if let Some(answer) = answer {
            self.record(Side::Client, Side::Agent, &answer);
            self.send(Side::Client, OutboundLine::Made(answer));
        }
        is_refused
    }

    /// Tracks a pending request of the client. The bridge parses the line; here its outline is enough.
    fn note_request(&mut self, line: &str) {
        let Some(Outline::Request { id, method }) = Outline::of(line) else { return };
        let is_handshake = method == "initialize";
        if let Some(permissions) = self.permissions.as_mut().filter(|_| is_handshake) {
            permissions.on_handshake(line);
        }
        let too_late =
            tokio::time::Instant::now().checked_add(self.handshake_timeout).filter(|_| is_handshake);
        // Above the limit, the response is not awaited.
        if self.unanswered.open(Side::Client, &id, too_late).is_ok() && is_handshake {
            self.too_late = self.too_late.or(too_late);
        }
    }

    fn note_answer(&mut self, line: &str) {
        // Nearly all lines that are not responses show that at their beginning.
        let head = &line.as_bytes()[..line.len().min(64)];
        if self.unanswered.is_empty() || head.windows(8).any(|word| word == b"\"method\"") {
            return;
        }
        if let Some(Outline::Response { id }) = Outline::of(line)
            && let Some(Some(_)) = self.unanswered.answered(Side::Agent, &id)
        {
            self.too_late = self.unanswered.iter().find_map(|(_, _, too_late)| *too_late);
        }
    }

    /// Reports an invalid line.
    fn complain(&mut self, from: Side, what: &str) {
        let (name, invalid_lines) = match from {
            Side::Client => ("client", &mut self.of_client),
            Side::Agent => ("agent", &mut self.of_agent),
        };
        if let Some(words) = invalid_lines.next(&visible_line(what)) {
            standard_error::say(format!("switchboard: from the {name}: {words}"));
        }
        if let Some(recorded) = &self.record {
            recorded.recording.set_aside(from, what);
        }
    }

    /// Handles a line of one side.
    fn line(&mut self, from: Side, line: OutboundLine) {
        let outputs = self.driver.receive(from, line.text());
        if outputs.handled() == Handled::Done {
            self.record(from, from, line.text());
        }
        if outputs.deliver(self) == Handled::Forward {
            if let Some(recorded) = &mut self.record {
                recorded.forwarded(from, line.text(), self.driver.bridge().versions());
            }
            self.send(from.other(), line);
        }
    }

    /// Records the actual messages to and from the agent if the session's own messages differ.
    fn record_replaced(&mut self, direction: &str, line: &str) {
        if let Some(recorded) = &self.record {
            let line = line.replace(['\n', '\r'], " ");
            let diagnostic = format!(r#"{{"{direction}":"agent","in_place":{line}}}"#);
            recorded.recording.put(Channel::Diagnostic, &diagnostic);
        }
    }

    /// Executes the replacements of the history.
    fn follow(&mut self, steps: Vec<Redirect>) {
        for step in steps {
            match step {
                Redirect::ToAgent(line) => {
                    self.record_replaced("to", &line);
                    self.push_to_agent(OutboundLine::Made(line));
                }
                Redirect::FromAgent(line) => self.line(Side::Agent, OutboundLine::Made(line)),
            }
        }
    }

    fn send(&mut self, to: Side, line: OutboundLine) {
        match to {
            Side::Client => {
                self.note_answer(line.text());
                if let Some(sandbox) = &mut self.sandbox {
                    sandbox.note_for_client(line.text());
                }
                if !self.is_decided(line.text()) {
                    self.to_client.push(line);
                }
            }
            Side::Agent => {
                match self.history.as_mut().and_then(|history| history.take_for_agent(line.text())) {
                    Some(steps) => self.follow(steps),
                    None => self.push_to_agent(line),
                }
            }
        }
    }

    /// Starts the agent again in the folders of a session. If that fails, the request that opens the session does.
    async fn start_in_sandbox(
        &mut self,
        roots: Vec<PathBuf>,
        request: &OutboundLine,
    ) -> Option<LineReader<ChildOutput>> {
        let sandbox = self.sandbox.as_mut()?;
        let old = sandbox.child().clone();
        let started = match timeout(self.handshake_timeout, sandbox.start(roots)).await {
            Ok(started) => started,
            Err(_) => {
                Err(format!("the agent did not answer the handshake within {:?}", self.handshake_timeout))
            }
        };
        match started {
            Ok(StartedAgent { child, input, reader }) => {
                let holds = self.record.is_some();
                self.to_agent = OutboundQueue::to_agent(input).holding(holds);
                if let Some(recorded) = &mut self.record {
                    recorded.follow(&child);
                }
                ending::takes_along(&child, self.record.as_ref().map(|recorded| &recorded.recording));
                tokio::spawn(super::pass_on_standard_error(child));
                // It has only answered the handshake.
                tokio::spawn(async move { old.shut_down().await });
                Some(reader)
            }
            Err(reason) => {
                if let Some(Outline::Request { id, .. }) = Outline::of(request.text()) {
                    let error = RpcError::new(codes::INTERNAL_ERROR, reason);
                    let answer = Message::response(id.into_owned(), Err(error)).encode(WireFormat::Any);
                    self.record(Side::Client, Side::Agent, &answer);
                    self.send(Side::Client, OutboundLine::Made(answer));
                }
                None
            }
        }
    }

    /// Shows the client notices about the sandbox.
    fn show_sandbox(&mut self) {
        let updates = self.sandbox.as_mut().map(SandboxedAgent::updates).unwrap_or_default();
        for update in updates {
            self.record(Side::Client, Side::Agent, &update);
            self.to_client.push(OutboundLine::Made(update));
        }
    }

    fn push_to_agent(&mut self, line: OutboundLine) {
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.note_for_agent(line.text());
        }
        if let Some(permissions) = &mut self.permissions {
            permissions.on_client_line(line.text(), self.driver.now());
        }
        self.to_agent.push(line);
    }

    fn terminal_event(&mut self, event: TerminalEvent) {
        let outputs = match event {
            TerminalEvent::Output { terminal_id, bytes } => self.driver.terminal_output(&terminal_id, &bytes),
            TerminalEvent::Exited { terminal_id, code, signal } => {
                self.driver.terminal_exited(&terminal_id, code, signal.as_deref())
            }
        };
        let _ = outputs.deliver(self);
    }

    fn record(&mut self, at: Side, from: Side, line: &str) {
        if let Some(recorded) = &mut self.record {
            recorded.line(at, from, line, self.driver.bridge().versions());
        }
    }

    /// Ends the service: notifies the remaining side and ends the agent.
    async fn end(
        mut self,
        end: End,
        child: &Child,
        from_client: LineReader<impl AsyncRead + Unpin>,
        mut stops: Stops,
    ) -> Result<Outcome, CommandError> {
        let in_hurry = matches!(end, End::Told(_));
        let failure = self.report_end_to_bridge(&end, child).await;
        self.release();
        self.to_agent.close();
        let waits_for_client = failure.is_some();
        let ending = async {
            let told = self.report_to_client(from_client, waits_for_client);
            if in_hurry {
                tokio::join!(told, child.shut_down_within(ending::grace())).1
            } else {
                tokio::join!(told, child.shut_down()).1
            }
        };
        let exit = tokio::select! {
            exit = ending => exit,
            // No time is left for further messages.
            _ = stops.next() => child.shut_down_within(ending::grace()).await,
        };
        self.finish(exit).await;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(ending::told().map_or(Outcome::Fine, Outcome::Stopped)),
        }
    }

    /// Reports the end to the bridge, which notifies the client. Returns the error message for the exit.
    async fn report_end_to_bridge(&mut self, end: &End, child: &Child) -> Option<CommandError> {
        let (did, hint) = match end {
            End::Client => {
                let outputs = self.driver.finish();
                let _ = outputs.deliver(self);
                return None;
            }
            End::Told(stop) => {
                let outputs = self.driver.agent_ended(&format!("the bridge was stopped ({stop})"), &[]);
                let _ = outputs.deliver(self);
                return None;
            }
            End::Agent(did) => (did.clone(), None),
            End::NoHandshake => (
                format!("did not answer the handshake within {:?}", self.handshake_timeout),
                Some(handshake::HINT),
            ),
        };
        let known = child.describe_end().await;
        let reason = match (known.relayed_reason(), known.exit) {
            (Some(reason), _) => reason,
            (None, Some(exit)) => format!("the agent {} {exit}", known.program),
            (None, None) => format!("the agent {} {did}", known.program),
        };
        let last_lines = known.shown_lines();
        let failed = CommandError::failed(&*reason);
        let outputs = self.driver.agent_ended(&with_last_line(reason, &last_lines), &last_lines);
        let _ = outputs.deliver(self);
        Some(match hint {
            Some(hint) => failed.hint(hint),
            None => failed,
        })
    }

    /// Sends the remaining output to the client.
    async fn report_to_client(
        &mut self,
        mut from_client: LineReader<impl AsyncRead + Unpin>,
        waits_for_client: bool,
    ) {
        // A client that does not read is not awaited.
        let _ = timeout(ending::at_most(DRAIN_TIMEOUT, Phase::Work), self.to_client.flush()).await;
        if !waits_for_client {
            return;
        }
        let gone = async {
            // Requests that arrived meanwhile fail with the same reason.
            while let Ok(Some(frame)) = from_client.next().await {
                self.frame(Side::Client, frame);
                self.release();
                self.to_client.flush().await;
            }
        };
        let _ = timeout(EXIT_NOTICE_TIME, gone).await;
    }

    /// Ends the recording, and reports invalid lines and losses.
    async fn finish(self, exit: Option<Exit>) {
        let Service { record, losses, driver, of_client, of_agent, .. } = self;
        if let Some(recorded) = record {
            recorded.finish(exit).await;
        }
        for (name, invalid_lines) in [("client", of_client), ("agent", of_agent)] {
            if let Some(words) = invalid_lines.total() {
                standard_error::say(format!("switchboard: from the {name}: {words}"));
            }
        }
        if losses.is_none() {
            losses::report(driver.bridge().losses());
        }
    }
}

impl Port for Service {
    fn send(&mut self, to: Side, line: String) {
        self.record(to, to.other(), &line);
        Service::send(self, to, OutboundLine::Made(line));
    }

    fn report_loss(&mut self, loss: Loss) {
        let line = loss.to_json();
        if let Some(recorded) = &self.record {
            recorded.recording.put(Channel::Diagnostic, &line);
        }
        if loss.severity == Severity::Guess {
            return;
        }
        if let Some(file) = &mut self.losses
            && let Err(error) = writeln!(file, "{line}")
        {
            standard_error::say(format!("switchboard: losses are no longer written: {error}"));
            self.losses = None;
        }
    }
}

/// Waits for the next notice about a sandbox. Never returns without one.
async fn next_notice(sandbox: &mut Option<SandboxedAgent>) {
    match sandbox {
        Some(sandbox) => sandbox.next_notice().await,
        None => std::future::pending().await,
    }
}

/// Adds the last line of the agent's standard error to a reason, which often explains it.
fn with_last_line(reason: String, last_lines: &[String]) -> String {
    match last_lines.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{reason}: {}", line.trim()),
        None => reason,
    }
}
