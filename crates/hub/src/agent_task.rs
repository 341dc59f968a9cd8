//! Task of one agent process. Translates to version 2 if the agent speaks version 1.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use switchboard_acp::rpc::{Message, messages};
use switchboard_acp::{Correlator, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Outputs, Port, Side, Version};
use switchboard_transport::{
    ConfinementNotice, DEFAULT_MESSAGE_LIMIT, Frame, Grace, LineReader, Outbox, OutboxOptions, Program,
    SharedText, Spawned, StandardErrorLine, Substitute, unique_salt,
};
use tokio::sync::mpsc;

use crate::core::lines;
use crate::core::services::Services;
use crate::core::{AgentId, SessionId};
use crate::files::FilesOnDisk;
use crate::service::Event;

/// Maximum number of lines that are handled before the hub gets them.
const BATCH: usize = 256;
/// Maximum number of bytes queued for an agent that does not read its input.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Maximum wait for the remaining standard error of an agent that has exited.
const STDERR_DRAIN: Duration = Duration::from_millis(100);
/// Part of the exit description of a killed process, and the explanation that is added if it had a lease: the watchdog
/// cannot say why it killed the process.
const KILLED: &str = "signal 9";
const LEASE_OVER: &str = "; agents are killed when their hub cannot renew its lease in time, so that no other hub starts a second one";
/// Maximum number of requests whose session is remembered.
const MAX_REQUESTS: usize = 4096;

/// Output of an agent process, or a line that was sent to it.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    /// A line in version 2.
    Line(SharedText),
    /// A line as it was on the wire, on the agent's side of a translation, and the session that it belongs to.
    WireLine { from: Side, text: String, about: LineSession },
    /// A loss of the translation.
    Loss(Loss),
    /// A line on standard error.
    StandardError(String),
    /// A line on standard output that is not a JSON-RPC message.
    InvalidLine(String),
    /// The protocol version that the agent speaks.
    Version(Version),
    /// A notice about its confinement.
    Confinement(ConfinementNotice),
}

/// The session that a line belongs to.
#[derive(Debug, Clone)]
pub(crate) enum LineSession {
    /// By the hub's id.
    Hub(SessionId),
    /// By the agent's id.
    Agent(String),
    /// None: the line belongs to the handshake.
    Handshake,
}

/// A line for an agent.
pub(crate) struct AgentInput {
    pub(crate) line: String,
    pub(crate) session: Option<SessionId>,
}

/// Starts an agent process. It is ended when the returned sender is dropped.
pub(crate) fn start(
    id: AgentId,
    name: &str,
    program: Program,
    services: Services,
    events: mpsc::Sender<Event>,
    shutdown_grace: Arc<OnceLock<Grace>>,
) -> mpsc::UnboundedSender<AgentInput> {
    // Unbounded, because the task queues everything itself and gives up on an agent above `MAX_QUEUED_BYTES`.
    #[allow(clippy::disallowed_methods)]
    let (sender, lines) = mpsc::unbounded_channel();
    let has_lease = program.has_lease();
    let options = BridgeOptions {
        client_version: Some(Version::V2),
        agent_name: name.to_owned(),
        // Served from disk while no client that offers files is attached.
        serve_files: services.has_files(),
        // Unique, because a restarted agent continues sessions whose logs contain the ids of the previous process.
        id_salt: unique_salt(),
        ..BridgeOptions::default()
    };
    tokio::spawn(async move {
        // A confinement looks at many files and waits for its proof, which must not hold up the hub.
        let spawned = if program.is_confined() {
            let spawning = tokio::task::spawn_blocking(move || program.spawn()).await;
            spawning
                .map_err(|error| error.to_string())
                .and_then(|spawned| spawned.map_err(|error| error.to_string()))
        } else {
            program.spawn().map_err(|error| error.to_string())
        };
        let ended = match spawned {
            Ok(spawned) => {
                let process = AgentTask::new(
                    id,
                    Driver::with_host(options, Box::new(FilesOnDisk)),
                    events.clone(),
                    shutdown_grace,
                );
                let mut ended = process.run(spawned, lines).await;
                if has_lease && ended.reason.contains(KILLED) {
                    ended.reason.push_str(LEASE_OVER);
                }
                ended
            }
            Err(reason) => AgentExit { reason, ..AgentExit::default() },
        };
        // The receiver exists until every task has ended.
        let _ = events.send(Event::AgentExited { process: id, ended }).await;
    });
    sender
}

/// Waits for the next notice about the confinement of a process. Never returns without a confinement.
async fn next_notice(notices: &mut Option<mpsc::Receiver<ConfinementNotice>>) -> Option<ConfinementNotice> {
    match notices {
        Some(notices) => match notices.recv().await {
            Some(notice) => Some(notice),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Exit of an agent process.
#[derive(Debug, Default)]
pub(crate) struct AgentExit {
    pub(crate) reason: String,
    /// The last lines of standard error.
    pub(crate) last_lines: Vec<String>,
    /// The agent's ids of the sessions whose prompts it has not received.
    pub(crate) undelivered: Vec<String>,
}

/// State of the task of one agent process.
struct AgentTask {
    id: AgentId,
    driver: Driver,
    events: mpsc::Sender<Event>,
    output: Vec<AgentEvent>,
    /// The agent's line that is being translated.
    native: Option<AgentEvent>,
    waiting: VecDeque<String>,
    waiting_bytes: usize,
    /// Number of bytes that the outbox has accepted.
    accepted: u64,
    /// Prompts that the outbox has accepted but may not have written: end position, and the agent's id of the session.
    unwritten: VecDeque<(u64, String)>,
    /// Sessions of the pending requests to the agent, by the ids on the agent's side.
    requests: Correlator<SessionId>,
    has_version: bool,
    /// Grace period for the exit when the hub shuts down.
    shutdown_grace: Arc<OnceLock<Grace>>,
}

impl AgentTask {
    fn new(
        id: AgentId,
        driver: Driver,
        events: mpsc::Sender<Event>,
        shutdown_grace: Arc<OnceLock<Grace>>,
    ) -> Self {
        AgentTask {
            id,
            driver,
            events,
            output: Vec::new(),
            native: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            accepted: 0,
            unwritten: VecDeque::new(),
            requests: Correlator::new(MAX_REQUESTS),
            has_version: false,
            shutdown_grace,
        }
    }

    /// Transfers lines until one side ends.
    async fn run(mut self, spawned: Spawned, mut lines: mpsc::UnboundedReceiver<AgentInput>) -> AgentExit {
        let Spawned { child, input, output } = spawned;
        let outbox = Outbox::to_child(input, OutboxOptions::default());
        let mut reader = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
        let mut errors = child.standard_error();
        let mut has_errors = true;
        let mut notices = child.confinement_notices();
        let mut has_input = true;
        let did = loop {
            if !self.output.is_empty() {
                let output = std::mem::take(&mut self.output);
                if self.events.send(Event::AgentOutput { process: self.id, outputs: output }).await.is_err() {
                    break None;
                }
            }
            if self.waiting_bytes > MAX_QUEUED_BYTES {
                break Some("does not read its input".to_owned());
            }
            let due = self.driver.next_deadline();
            tokio::select! {
                frame = reader.next() => match frame {
                    Ok(Some(frame)) => {
                        self.frame(frame);
                        for _ in 0..BATCH {
                            let Some(frame) = reader.ready() else { break };
                            self.frame(frame);
                        }
                    }
                    Ok(None) => break Some("closed its output".to_owned()),
                    Err(error) => break Some(format!("closed its output with an error: {error}")),
                },
                line = lines.recv() => match line {
                    Some(line) => {
                        self.forward_line(line);
                        for _ in 0..BATCH {
                            let Ok(line) = lines.try_recv() else { break };
                            self.forward_line(line);
                        }
                    }
                    None => break None,
                },
                sent = send_first(&outbox, &self.waiting), if !self.waiting.is_empty() => {
                    if !sent {
                        break Some("closed its input".to_owned());
                    }
                    self.accepted(&outbox);
                }
                // An agent may close its input and still send output. That is an error only if accepted lines were not
                // written.
                _ = outbox.closed(), if has_input && self.accepted > outbox.written() => {
                    has_input = false;
                    if self.accepted > outbox.written() {
                        break Some("closed its input".to_owned());
                    }
                }
                line = errors.next(), if has_errors => match line {
                    Some(line) => self.stderr_line(line),
                    None => has_errors = false,
                },
                Some(notice) = next_notice(&mut notices) => self.output.push(AgentEvent::Confinement(notice)),
                () = until(due) => {
                    let outputs = self.driver.tick();
                    let _ = self.deliver(outputs, None);
                }
            }
        };
        let Some(did) = did else {
            // The hub ends the process. Its input is closed during the wait for its exit.
            let shutdown_grace = self.shutdown_grace.get().copied();
            let ended = async {
                match shutdown_grace {
                    Some(grace) => drop(child.shut_down_within(grace).await),
                    None => drop(child.shut_down().await),
                }
            };
            tokio::join!(outbox.close(), ended);
            let reason = "was ended because it was no longer used".to_owned();
            return AgentExit {
                reason,
                undelivered: self.undelivered(&outbox, &mut lines),
                ..AgentExit::default()
            };
        };
        let ((), known) = tokio::join!(outbox.close(), child.describe_end());
        let reason = match (known.relayed_reason(), known.exit) {
            (Some(reason), _) => reason,
            (None, Some(exit)) => format!("the agent {} {exit}", known.program),
            (None, None) => format!("the agent {} {did}", known.program),
        };
        let last_lines = known.shown_lines();
        child.shut_down().await;
        // Everything that the process itself wrote is available. Output of its own children is not waited for.
        while let Ok(Some(line)) = tokio::time::timeout(STDERR_DRAIN, errors.next()).await {
            self.stderr_line(line);
        }
        // Those that its confinement found after its end.
        while let Some(notice) = notices.as_mut().and_then(|notices| notices.try_recv().ok()) {
            self.output.push(AgentEvent::Confinement(notice));
        }
        if !self.output.is_empty() {
            let output = std::mem::take(&mut self.output);
            let _ = self.events.send(Event::AgentOutput { process: self.id, outputs: output }).await;
        }
        AgentExit { reason, last_lines, undelivered: self.undelivered(&outbox, &mut lines) }
    }

    /// Handles the acceptance of the oldest queued line by the outbox.
    fn accepted(&mut self, outbox: &Outbox) {
        let Some(line) = self.waiting.pop_front() else { return };
        self.waiting_bytes -= line.len();
        self.accepted += line.len() as u64 + 1;
        let written = outbox.written();
        while self.unwritten.front().is_some_and(|(end, _)| *end <= written) {
            self.unwritten.pop_front();
        }
        if let Some(session) = lines::prompted_session(&line) {
            self.unwritten.push_back((self.accepted, session));
        }
    }

    /// Returns the agent's ids of the sessions whose prompts were never written to the process. Accepts no more lines.
    fn undelivered(
        &mut self,
        outbox: &Outbox,
        coming: &mut mpsc::UnboundedReceiver<AgentInput>,
    ) -> Vec<String> {
        coming.close();
        let written = outbox.written();
        let accepted = self.unwritten.drain(..).filter(|(end, _)| *end > written).map(|(_, session)| session);
        let mut undelivered: Vec<String> = accepted.collect();
        undelivered.extend(self.waiting.iter().filter_map(|line| lines::prompted_session(line)));
        while let Ok(AgentInput { line, .. }) = coming.try_recv() {
            undelivered.extend(lines::prompted_session(&line));
        }
        undelivered
    }

    fn stderr_line(&mut self, line: StandardErrorLine) {
        self.output.push(AgentEvent::StandardError(match line {
            StandardErrorLine::Line(line) => line.to_string(),
            StandardErrorLine::Missed(count) => format!("({count} lines skipped)"),
        }));
    }

    fn is_translated(&self) -> bool {
        self.driver.bridge().versions().is_some_and(|(client, agent)| client != agent)
    }

    fn frame(&mut self, frame: Frame) {
        match frame {
            Frame::Message(line) => {
                // Each message of a batch is handled separately.
                for message in messages(&line) {
                    self.agent_line(&line.part(message));
                }
            }
            Frame::TooLong(too_long) => match too_long.substitute() {
                Some(Substitute::Answer(line)) => self.agent_line(&line.into()),
                Some(Substitute::Refusal(line)) => self.send(line),
                None => self.output.push(AgentEvent::InvalidLine(
                    "dropped a message that exceeds the maximum length".to_owned(),
                )),
            },
            Frame::Noise(noise) | Frame::Unfinished(noise) => {
                if !noise.is_blank() {
                    self.output.push(AgentEvent::InvalidLine(noise.to_string()));
                }
            }
        }
    }

    fn agent_line(&mut self, line: &SharedText) {
        if self.driver.bridge().is_passthrough(Side::Agent, line.as_bytes()) {
            return self.output.push(AgentEvent::Line(line.clone()));
        }
        let outputs = self.driver.receive(Side::Agent, line);
        if !self.has_version
            && let Some((_, version)) = self.driver.bridge().versions()
        {
            self.has_version = true;
            self.output.push(AgentEvent::Version(version));
        }
        if self.is_translated()
            && let Some(about) = self.session_of_line(line)
        {
            self.native = Some(AgentEvent::WireLine { from: Side::Agent, text: line.to_string(), about });
        }
        let handled = self.deliver(outputs, None);
        self.output.extend(self.native.take());
        if handled == Handled::Forward {
            self.output.push(AgentEvent::Line(line.clone()));
        }
    }

    /// Takes a translated line for clients. The native line precedes its translation, but follows the beginning of a
    /// turn, which is sent when the agent first responds in it.
    fn push_translated(&mut self, line: String) {
        if let Some(AgentEvent::WireLine { text, .. }) = &self.native
            && !begins_turn(&line, text)
        {
            self.output.extend(self.native.take());
        }
        self.output.push(AgentEvent::Line(line.into()));
    }

    fn forward_line(&mut self, AgentInput { line, session }: AgentInput) {
        let outputs = self.driver.receive(Side::Client, &line);
        if self.deliver(outputs, session.as_ref()) == Handled::Forward {
            self.send(line);
        }
    }

    fn send(&mut self, line: String) {
        self.waiting_bytes += line.len();
        self.waiting.push_back(line);
    }

    /// Delivers the output of the bridge to either side.
    fn deliver(&mut self, outputs: Outputs, session: Option<&SessionId>) -> Handled {
        outputs.deliver(&mut AgentPort { process: self, session })
    }

    /// Remembers the session of a request.
    fn track_request(&mut self, line: &str, session: &SessionId) {
        if let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) {
            // Without an entry, the response is attributed to the handshake.
            drop(self.requests.open(Side::Client, &request.id, session.clone()));
        }
    }

    /// Returns the session that a line of the agent belongs to.
    fn session_of_line(&mut self, line: &str) -> Option<LineSession> {
        let params = match Message::decode(line, WireFormat::Any).ok()? {
            Message::Response(response) => {
                let session = self.requests.answered(Side::Agent, &response.id);
                return Some(session.map_or(LineSession::Handshake, LineSession::Hub));
            }
            Message::Request(request) => request.params,
            Message::Notification(notification) => notification.params,
        };
        params?.text("sessionId").map(LineSession::Agent)
    }
}

/// Destination of the bridge's output for a line of one session.
struct AgentPort<'a> {
    process: &'a mut AgentTask,
    session: Option<&'a SessionId>,
}

impl Port for AgentPort<'_> {
    fn send(&mut self, to: Side, line: String) {
        let Self { process, session } = self;
        if to == Side::Client {
            return process.push_translated(line);
        }
        if let Some(session) = session {
            process.track_request(&line, session);
        }
        let about = session.map_or(LineSession::Handshake, |session| LineSession::Hub(session.clone()));
        process.output.push(AgentEvent::WireLine { from: Side::Client, text: line.clone(), about });
        process.send(line);
    }

    fn report_loss(&mut self, loss: Loss) {
        self.process.output.push(AgentEvent::Loss(loss));
    }
}

/// Returns whether a translated line only reports the acceptance or the text of a prompt, and is thus not a translation
/// of the native line.
fn begins_turn(line: &str, native: &str) -> bool {
    let params = match Message::decode(line, WireFormat::Any) {
        Ok(Message::Response(_)) => return true,
        Ok(Message::Notification(call)) if call.method == "session/update" => call.params,
        _ => return false,
    };
    let Some(update) = params.as_ref().and_then(|params| params.get("update")) else { return false };
    match update.text("sessionUpdate").as_deref() {
        Some("user_message" | "user_message_chunk") => !is_user_message(native),
        Some("state_update") => update.text("state").as_deref() == Some("running"),
        _ => false,
    }
}

/// Returns whether a line of a version 1 agent is a message of the user.
fn is_user_message(line: &str) -> bool {
    let Ok(Message::Notification(call)) = Message::decode(line, WireFormat::Any) else { return false };
    let update = call.params.as_ref().and_then(|params| params.get("update"));
    update.and_then(|update| update.text("sessionUpdate")).as_deref() == Some("user_message_chunk")
}

async fn send_first(outbox: &Outbox, waiting: &VecDeque<String>) -> bool {
    match waiting.front() {
        Some(line) => outbox.send(line).await.is_ok(),
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
