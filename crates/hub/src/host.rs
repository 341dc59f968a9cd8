//! An agent's process, in version 2 whatever it speaks.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use switchboard_acp::rpc::{Message, messages};
use switchboard_acp::{Correlator, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Outputs, Port, Side, Version};
use switchboard_transport::{
    DEFAULT_MESSAGE_LIMIT, Frame, Grace, LineReader, Outbox, OutboxOptions, Program, SharedText, Spawned,
    StandardErrorLine, Substitute, unique_salt,
};
use tokio::sync::mpsc;

use crate::core::lines;
use crate::core::services::Services;
use crate::core::{HostId, SessionId};
use crate::files::FilesOnDisk;
use crate::service::Event;

/// How many lines are handled before the hub gets them.
const TURN: usize = 256;
/// How many bytes may wait for an agent that reads nothing.
const UNREAD: usize = 64 * 1024 * 1024;
/// How long the standard error of an agent that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// What is said of an agent that was killed, and more of one that had a lease: its watchdog cannot say why it did so.
const KILLED: &str = "signal 9";
const LEASE_OVER: &str = "; agents are killed when their hub cannot renew its lease in time, so that no other hub starts a second one";
/// Of how many requests it is known which session they are about.
const ASKED: usize = 4096;

/// Something that an agent said or was told.
#[derive(Debug)]
pub(crate) enum Said {
    /// A line of version 2.
    Line(SharedText),
    /// A line as it was on the other side of a translation, and the session that it is about.
    Other { from: Side, text: String, about: About },
    /// What could not be carried over.
    Loss(Loss),
    /// On standard error.
    Error(String),
    /// Something on standard output that is no message.
    Noise(String),
    /// Which version it speaks itself.
    Version(Version),
}

/// Which session a line is about.
#[derive(Debug, Clone)]
pub(crate) enum About {
    /// By the hub's id.
    Session(SessionId),
    /// By the agent's.
    Agents(String),
    /// None: it belongs to the agent's introduction.
    Introduction,
}

/// A line for an agent.
pub(crate) struct ForAgent {
    pub(crate) line: String,
    pub(crate) session: Option<SessionId>,
}

/// Starts an agent. It ends when the sender of its lines is dropped.
pub(crate) fn start(
    id: HostId,
    name: &str,
    program: &Program,
    services: Services,
    events: mpsc::Sender<Event>,
    hurry: Arc<OnceLock<Grace>>,
) -> mpsc::UnboundedSender<ForAgent> {
    // The task takes what there is, turn by turn, and gives an agent up for which too much waits.
    #[allow(clippy::disallowed_methods)]
    let (sender, lines) = mpsc::unbounded_channel();
    let (spawned, has_lease) = (program.spawn(), program.has_lease());
    let options = BridgeOptions {
        client_version: Some(Version::V2),
        agent_name: name.to_owned(),
        // While no client is there whose files they are.
        serve_files: services.has_files(),
        // An agent that is restarted continues sessions whose log has the ids of before.
        id_salt: unique_salt(),
        ..BridgeOptions::default()
    };
    tokio::spawn(async move {
        let ended = match spawned {
            Ok(spawned) => {
                let host =
                    Host::new(id, Driver::with_host(options, Box::new(FilesOnDisk)), events.clone(), hurry);
                let mut ended = host.run(spawned, lines).await;
                if has_lease && ended.reason.contains(KILLED) {
                    ended.reason.push_str(LEASE_OVER);
                }
                ended
            }
            Err(error) => Ended { reason: error.to_string(), ..Ended::default() },
        };
        // The hub is gone only when everything is.
        let _ = events.send(Event::HostEnded { host: id, ended }).await;
    });
    sender
}

/// How an agent ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) reason: String,
    /// The last lines of its standard error.
    pub(crate) last_lines: Vec<String>,
    /// The agent's ids of the sessions whose prompts it has not got.
    pub(crate) undelivered: Vec<String>,
}

struct Host {
    id: HostId,
    driver: Driver,
    events: mpsc::Sender<Event>,
    said: Vec<Said>,
    /// The line of the agent that is being translated.
    native: Option<Said>,
    waiting: VecDeque<String>,
    waiting_bytes: usize,
    /// How many bytes the outbox has accepted.
    accepted: u64,
    /// Prompts that it has accepted and may not have written: where each ends, and the agent's id of its session.
    unwritten: VecDeque<(u64, String)>,
    /// Which sessions open requests to the agent are about, by their ids on the agent's side.
    asked: Correlator<SessionId>,
    has_version: bool,
    /// How long it may take to end with the hub.
    hurry: Arc<OnceLock<Grace>>,
}

impl Host {
    fn new(id: HostId, driver: Driver, events: mpsc::Sender<Event>, hurry: Arc<OnceLock<Grace>>) -> Self {
        Host {
            id,
            driver,
            events,
            said: Vec::new(),
            native: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            accepted: 0,
            unwritten: VecDeque::new(),
            asked: Correlator::new(ASKED),
            has_version: false,
            hurry,
        }
    }

    /// Carries lines until one side ends.
    async fn run(mut self, spawned: Spawned, mut lines: mpsc::UnboundedReceiver<ForAgent>) -> Ended {
        let Spawned { child, input, output } = spawned;
        let outbox = Outbox::to_child(input, OutboxOptions::default());
        let mut reader = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
        let mut errors = child.standard_error();
        let mut has_errors = true;
        let mut has_input = true;
        let did = loop {
            if !self.said.is_empty() {
                let said = std::mem::take(&mut self.said);
                if self.events.send(Event::HostSaid { host: self.id, said }).await.is_err() {
                    break None;
                }
            }
            if self.waiting_bytes > UNREAD {
                break Some("reads nothing of what it is told".to_owned());
            }
            let due = self.driver.next_deadline();
            tokio::select! {
                frame = reader.next() => match frame {
                    Ok(Some(frame)) => {
                        self.frame(frame);
                        for _ in 0..TURN {
                            let Some(frame) = reader.ready() else { break };
                            self.frame(frame);
                        }
                    }
                    Ok(None) => break Some("closed its output".to_owned()),
                    Err(error) => break Some(format!("cannot be read from: {error}")),
                },
                line = lines.recv() => match line {
                    Some(line) => {
                        self.pass_on(line);
                        for _ in 0..TURN {
                            let Ok(line) = lines.try_recv() else { break };
                            self.pass_on(line);
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
                // An agent may read no more and still have something to say; but what it was told last must have got there.
                _ = outbox.closed(), if has_input && self.accepted > outbox.written() => {
                    has_input = false;
                    if self.accepted > outbox.written() {
                        break Some("closed its input".to_owned());
                    }
                }
                line = errors.next(), if has_errors => match line {
                    Some(line) => self.complain(line),
                    None => has_errors = false,
                },
                () = until(due) => {
                    let outputs = self.driver.tick();
                    let _ = self.deliver(outputs, None);
                }
            }
        };
        let Some(did) = did else {
            // It was told to end. Its input is closed while it is waited for.
            let hurry = self.hurry.get().copied();
            let ended = async {
                match hurry {
                    Some(grace) => drop(child.shut_down_within(grace).await),
                    None => drop(child.shut_down().await),
                }
            };
            tokio::join!(outbox.close(), ended);
            let reason = "was ended, because nobody needed it".to_owned();
            return Ended { reason, undelivered: self.undelivered(&outbox, &mut lines), ..Ended::default() };
        };
        let ((), known) = tokio::join!(outbox.close(), child.describe_end());
        let reason = match (known.relayed_reason(), known.exit) {
            (Some(reason), _) => reason,
            (None, Some(exit)) => format!("the agent {} {exit}", known.program),
            (None, None) => format!("the agent {} {did}", known.program),
        };
        let last_lines = known.shown_lines();
        child.shut_down().await;
        // What it has written is there; what its own children still write is not waited for.
        while let Ok(Some(line)) = tokio::time::timeout(LAST_WORDS, errors.next()).await {
            self.complain(line);
        }
        if !self.said.is_empty() {
            let said = std::mem::take(&mut self.said);
            let _ = self.events.send(Event::HostSaid { host: self.id, said }).await;
        }
        Ended { reason, last_lines, undelivered: self.undelivered(&outbox, &mut lines) }
    }

    /// The outbox has accepted the line that waited longest.
    fn accepted(&mut self, outbox: &Outbox) {
        let Some(line) = self.waiting.pop_front() else { return };
        self.waiting_bytes -= line.len();
        self.accepted += line.len() as u64 + 1;
        let written = outbox.written();
        while self.unwritten.front().is_some_and(|(end, _)| *end <= written) {
            self.unwritten.pop_front();
        }
        if let Some(session) = lines::prompted(&line) {
            self.unwritten.push_back((self.accepted, session));
        }
    }

    /// The agent's ids of the sessions whose prompts were never written to it. No line is taken any more.
    fn undelivered(
        &mut self,
        outbox: &Outbox,
        coming: &mut mpsc::UnboundedReceiver<ForAgent>,
    ) -> Vec<String> {
        coming.close();
        let written = outbox.written();
        let accepted = self.unwritten.drain(..).filter(|(end, _)| *end > written).map(|(_, session)| session);
        let mut undelivered: Vec<String> = accepted.collect();
        undelivered.extend(self.waiting.iter().filter_map(|line| lines::prompted(line)));
        while let Ok(ForAgent { line, .. }) = coming.try_recv() {
            undelivered.extend(lines::prompted(&line));
        }
        undelivered
    }

    fn complain(&mut self, line: StandardErrorLine) {
        self.said.push(Said::Error(match line {
            StandardErrorLine::Line(line) => line.to_string(),
            StandardErrorLine::Missed(count) => format!("({count} lines were missed)"),
        }));
    }

    fn is_translated(&self) -> bool {
        self.driver.bridge().versions().is_some_and(|(client, agent)| client != agent)
    }

    fn frame(&mut self, frame: Frame) {
        match frame {
            Frame::Message(line) => {
                // Each message of a batch is one of its own.
                for message in messages(&line) {
                    self.agent_said(&line.part(message));
                }
            }
            Frame::TooLong(too_long) => match too_long.substitute() {
                Some(Substitute::Answer(line)) => self.agent_said(&line.into()),
                Some(Substitute::Refusal(line)) => self.send(line),
                None => self.said.push(Said::Noise("a message was too long and is dropped".to_owned())),
            },
            Frame::Noise(noise) | Frame::Unfinished(noise) => {
                if !noise.is_blank() {
                    self.said.push(Said::Noise(noise.to_string()));
                }
            }
        }
    }

    fn agent_said(&mut self, line: &SharedText) {
        if self.driver.bridge().is_passthrough(Side::Agent, line.as_bytes()) {
            return self.said.push(Said::Line(line.clone()));
        }
        let outputs = self.driver.receive(Side::Agent, line);
        if !self.has_version
            && let Some((_, version)) = self.driver.bridge().versions()
        {
            self.has_version = true;
            self.said.push(Said::Version(version));
        }
        if self.is_translated()
            && let Some(about) = self.about(line)
        {
            self.native = Some(Said::Other { from: Side::Agent, text: line.to_string(), about });
        }
        let handled = self.deliver(outputs, None);
        self.said.extend(self.native.take());
        if handled == Handled::Forward {
            self.said.push(Said::Line(line.clone()));
        }
    }

    /// Takes a line that the translation has for clients. The agent's own line comes before what is translated from it, and
    /// behind the beginning of a turn that is told when the agent first speaks in it.
    fn translated(&mut self, line: String) {
        if let Some(Said::Other { text, .. }) = &self.native
            && !begins_turn(&line, text)
        {
            self.said.extend(self.native.take());
        }
        self.said.push(Said::Line(line.into()));
    }

    fn pass_on(&mut self, ForAgent { line, session }: ForAgent) {
        let outputs = self.driver.receive(Side::Client, &line);
        if self.deliver(outputs, session.as_ref()) == Handled::Forward {
            self.send(line);
        }
    }

    fn send(&mut self, line: String) {
        self.waiting_bytes += line.len();
        self.waiting.push_back(line);
    }

    /// Delivers what the bridge has for either side.
    fn deliver(&mut self, outputs: Outputs, session: Option<&SessionId>) -> Handled {
        outputs.deliver(&mut HostPort { host: self, session })
    }

    /// Remembers which session a request is about.
    fn note(&mut self, line: &str, session: &SessionId) {
        if let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) {
            // The answer to one too many is taken for what the agent says of itself.
            drop(self.asked.open(Side::Client, &request.id, session.clone()));
        }
    }

    /// Which session a line of the agent is about.
    fn about(&mut self, line: &str) -> Option<About> {
        let params = match Message::decode(line, WireFormat::Any).ok()? {
            Message::Response(response) => {
                let session = self.asked.answered(Side::Agent, &response.id);
                return Some(session.map_or(About::Introduction, About::Session));
            }
            Message::Request(request) => request.params,
            Message::Notification(notification) => notification.params,
        };
        params?.text("sessionId").map(About::Agents)
    }
}

/// Where the output of an agent's bridge goes, for a line about a session.
struct HostPort<'a> {
    host: &'a mut Host,
    session: Option<&'a SessionId>,
}

impl Port for HostPort<'_> {
    fn send(&mut self, to: Side, line: String) {
        let Self { host, session } = self;
        if to == Side::Client {
            return host.translated(line);
        }
        if let Some(session) = session {
            host.note(&line, session);
        }
        let about = session.map_or(About::Introduction, |session| About::Session(session.clone()));
        host.said.push(Said::Other { from: Side::Client, text: line.clone(), about });
        host.send(line);
    }

    fn lose(&mut self, loss: Loss) {
        self.host.said.push(Said::Loss(loss));
    }
}

/// Returns whether a translated line tells that a prompt was accepted or what it was, and is not translated from the agent's
/// own line.
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
