//! `switchboard bridge`: an agent for any client, whatever the agent behind it speaks.

mod history;
mod host;
mod outbound_queue;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use switchboard_bridge::{
    Bridge, BridgeOptions, Dialect, Handled, Loss, Moment, Output, Severity, Side, Version,
};
use switchboard_protocol::rpc::{Message, RequestId};
use switchboard_protocol::{Wire, WireFormat};
use switchboard_store::{About, Channel};
use switchboard_transport::{
    Child, DEFAULT_MESSAGE_LIMIT, Exit, Frame, LineReader, Program, Spawned, StandardErrorLine,
};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::history::{History, Step};
use self::host::{LocalHost, TerminalEvent};
use self::outbound_queue::{Line, OutboundQueue};
use super::convert::PolicyArgument;
use crate::configuration::Configuration;
use crate::outcome::{CommandError, Outcome};
use crate::recording::{RecordArguments, Recording, agent_name};
use crate::stdio;

/// Be an agent on standard input and output, in front of another agent of any version
///
/// Speaks to the client the version that it asks for, to the agent the one that it can, and translates where they
/// differ. What cannot be carried over is reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in the configuration of an editor:\n  \
    \"command\": \"switchboard\", \"args\": [\"bridge\", \"--\", \"my-agent\", \"--acp\"]")]
pub(crate) struct Arguments {
    /// Name of a configured agent (see `switchboard agents`), or `demo`
    #[arg(conflicts_with = "command", required_unless_present = "command")]
    agent: Option<String>,

    /// The agent's command line
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    /// Read and write files for agents of version 1, inside the session's directories
    #[arg(long)]
    serve_files: bool,

    /// Run commands for agents of version 1, in the session's directories
    #[arg(long)]
    serve_terminals: bool,

    /// Write losses to this file as they happen, one JSON object a line
    #[arg(long, value_name = "FILE")]
    losses: Option<PathBuf>,

    #[command(flatten)]
    record: RecordArguments,

    /// Show messages of a version 2 agent to a version 1 client only when the agent rests, so that what it takes back
    /// is never shown
    #[arg(long)]
    hold_messages: bool,

    /// What to do about losses in the session itself
    #[arg(long, value_enum, default_value = "visible")]
    policy: PolicyArgument,

    /// Dialect of a version 2 client, if it is not to be learned from what it says
    #[arg(long, value_enum)]
    client_dialect: Option<DialectArgument>,

    /// Dialect of a version 2 agent, if it is not to be learned from what it says
    #[arg(long, value_enum)]
    agent_dialect: Option<DialectArgument>,
}

/// A revision of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DialectArgument {
    /// The published proposals
    Spec,
    /// The newest draft
    Newest,
}

impl From<DialectArgument> for Dialect {
    fn from(dialect: DialectArgument) -> Self {
        match dialect {
            DialectArgument::Spec => Dialect::Spec,
            DialectArgument::Newest => Dialect::Newest,
        }
    }
}

/// How many lines, or runs of lines, of one side are handled before the other gets its turn.
const TURN: usize = 128;

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let program = match (arguments.command.split_first(), &arguments.agent) {
        (Some((program, rest)), None) => Program::new(program).args(rest.to_vec()),
        (None, Some(name)) => Configuration::read(Path::new(".")).named_program(name)?,
        (Some(_), Some(_)) => {
            return Err(CommandError::usage("either an agent's name or a command line, not both"));
        }
        (None, None) => {
            return Err(CommandError::usage("which agent?")
                .hint("name one that `switchboard agents` lists, or give a command line behind `--`"));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(serve(arguments, &program));
    // A read of standard input that is still open must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: &Arguments, program: &Program) -> Result<Outcome, CommandError> {
    let create = |path: &Path| {
        File::create(path)
            .map_err(|error| CommandError::usage(format!("cannot write {}: {error}", path.display())))
    };
    let losses = arguments.losses.as_deref().map(create).transpose()?;
    let recording = arguments.record.begin(&About { agent: arguments.agent.clone(), ..About::default() })?;
    let history =
        recording.as_ref().and_then(|recording| History::new(recording.clone(), arguments.agent.clone()));
    let Spawned { child, input, output } =
        program.spawn().map_err(|error| CommandError::failed(error.to_string()))?;
    tokio::spawn(pass_on_standard_error(child.clone()));
    let record = recording.map(|recording| Recorded {
        watch: recording.watch(&child),
        recording,
        side: if arguments.record.is_file() { Some(Side::Client) } else { None },
    });
    let (events, terminal_events) = mpsc::channel(64);
    let options = BridgeOptions {
        policy: arguments.policy.into(),
        client_dialect: arguments.client_dialect.map(Into::into),
        agent_dialect: arguments.agent_dialect.map(Into::into),
        hold_messages: arguments.hold_messages,
        serve_files: arguments.serve_files,
        serve_terminals: arguments.serve_terminals,
        agent_name: agent_name(
            arguments.agent.as_deref(),
            arguments.command.first().map(OsString::as_os_str),
        ),
        ..BridgeOptions::default()
    };
    let host = LocalHost::new(arguments.serve_files, events);
    let service = Service {
        bridge: Bridge::with_host(options, Box::new(host)),
        start: Instant::now(),
        to_client: OutboundQueue::new(stdio::output()),
        to_agent: OutboundQueue::new(input),
        losses,
        record,
        history,
        terminal_events,
        now: Moment(0),
        unanswered: HashSet::new(),
    };
    service.run(output, child).await
}

async fn pass_on_standard_error(child: Child) {
    let mut lines = child.standard_error();
    while let Some(line) = lines.next().await {
        match line {
            StandardErrorLine::Line(line) => eprintln!("{line}"),
            StandardErrorLine::Missed(count) => eprintln!("switchboard: {count} lines of the agent missed"),
        }
    }
}

struct Service {
    bridge: Bridge,
    start: Instant,
    to_client: OutboundQueue,
    to_agent: OutboundQueue,
    losses: Option<File>,
    record: Option<Recorded>,
    history: Option<History>,
    terminal_events: mpsc::Receiver<TerminalEvent>,
    now: Moment,
    /// The requests of the client that wait for an answer.
    unanswered: HashSet<RequestId<'static>>,
}

/// What is recorded: the side that speaks version 2, and the other one beside it. A file gets what the client
/// sends and sees.
struct Recorded {
    recording: Recording,
    watch: JoinHandle<()>,
    /// The side whose messages are those of the session, where it is settled.
    side: Option<Side>,
}

impl Recorded {
    /// Records a line that one side sent or got.
    fn line(&mut self, at: Side, from: Side, line: &str, versions: Option<(Version, Version)>) {
        if let (None, Some((client, agent))) = (self.side, versions) {
            if client == Version::V1 && agent == Version::V2 {
                self.side = Some(Side::Agent);
                self.recording.versions(agent.number(), client.number());
            } else {
                self.side = Some(Side::Client);
                self.recording.versions(client.number(), agent.number());
            }
        }
        // Before that nothing is translated: both sides are the same.
        let side = self.side.unwrap_or(Side::Client);
        let channel = match (from, at == side) {
            (Side::Client, true) => Channel::ToAgent,
            (Side::Agent, true) => Channel::ToClient,
            (Side::Client, false) => Channel::OtherToAgent,
            (Side::Agent, false) => Channel::OtherToClient,
        };
        self.recording.record(channel, line);
    }
}

/// How long the agent may take for answers after the client has said all that it has to say: it may be a script that
/// still reads.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Of how many requests it is known that their answers are still to come.
const UNANSWERED: usize = 10_000;

/// How long a client may take to read that the agent has ended, before it sees that we have: some read nothing more
/// then.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why the service ends.
enum End {
    /// The client closed its side.
    Client,
    /// The agent closed its side.
    Agent(String),
}

impl Service {
    async fn run(
        mut self,
        output: impl AsyncRead + Send + Unpin + 'static,
        child: Child,
    ) -> Result<Outcome, CommandError> {
        let mut from_client = LineReader::new(stdio::input(), DEFAULT_MESSAGE_LIMIT);
        let mut from_agent = LineReader::new(output, DEFAULT_MESSAGE_LIMIT);
        let mut farewell = None;
        let end = loop {
            self.to_client.send_ready();
            self.to_agent.send_ready();
            if self.to_client.is_closed() {
                break End::Client;
            }
            if farewell.is_some() && self.unanswered.is_empty() {
                break End::Client;
            }
            if self.to_agent.is_closed() {
                break End::Agent("it takes no more input".to_owned());
            }
            let deadline = self.bridge.next_deadline().map(|due| self.instant(due));
            tokio::select! {
                frame = from_agent.next(), if self.to_client.has_room() => match frame {
                    Ok(Some(frame)) => {
                        self.look_at_clock();
                        self.frame(Side::Agent, frame);
                        for _ in 0..TURN {
                            // First the room: a frame that was taken must not be dropped.
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
                    Ok(None) | Err(_) if farewell.is_some() => break End::Client,
                    Ok(None) => break End::Agent("it closed its output".to_owned()),
                    Err(error) => break End::Agent(error.to_string()),
                },
                frame = from_client.next(), if farewell.is_none() && self.takes_from_client() => match frame {
                    Ok(Some(frame)) => {
                        self.look_at_clock();
                        self.frame(Side::Client, frame);
                    }
                    Ok(None) | Err(_) => farewell = Some(tokio::time::Instant::now() + LAST_ANSWERS),
                },
                () = stdio::sleep_until(farewell), if farewell.is_some() => {
                    break End::Client;
                }
                () = self.to_client.send_first() => {}
                () = self.to_agent.send_first() => {}
                Some(event) = self.terminal_events.recv() => self.terminal_event(event),
                () = stdio::sleep_until(deadline) => {
                    self.look_at_clock();
                    self.bridge.tick(self.now);
                    self.collect();
                }
            }
        };
        self.end(end, child, from_client).await
    }

    /// Whether there is room for what the client says, and for the answers that it gets from us.
    fn takes_from_client(&self) -> bool {
        self.to_agent.has_room() && self.to_client.keeps_up()
    }

    /// Looks at the clock. Once for all lines that came together: they came at the same time.
    fn look_at_clock(&mut self) {
        self.now = Moment(self.start.elapsed().as_millis() as u64);
    }

    fn instant(&self, moment: Moment) -> tokio::time::Instant {
        // One more, because the clock counts whole milliseconds.
        (self.start + Duration::from_millis(moment.0 + 1)).into()
    }

    /// Passes on what the agent has said already as far as nobody has to look at it. Tells whether there was something.
    fn pass_run(&mut self, from_agent: &mut LineReader<impl AsyncRead + Unpin>) -> bool {
        // A recording wants each line by itself, and history looks at each.
        if self.record.is_some() {
            return false;
        }
        let Service { bridge, to_client, .. } = self;
        let room = to_client.room();
        let passes = |line: &[u8]| bridge.is_passthrough(Side::Agent, line);
        from_agent.ready_run(room, passes, |lines| to_client.push_run(lines)).is_some()
    }

    fn frame(&mut self, from: Side, frame: Frame) {
        let line = match frame {
            Frame::Message(line) => line,
            Frame::Noise(noise) | Frame::Unfinished(noise) => {
                if !noise.excerpt.trim().is_empty() {
                    self.complain(from, &noise.to_string());
                }
                return;
            }
            Frame::TooLong(long) => {
                self.complain(from, &format!("{long}; it was dropped"));
                return;
            }
        };
        if from == Side::Client
            && self.unanswered.len() < UNANSWERED
            && let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any)
        {
            self.unanswered.insert(request.id.into_owned());
        }
        let history = self.history.as_mut().filter(|_| from == Side::Agent);
        match history.and_then(|history| history.take_of_agent(&line)) {
            Some(steps) => self.follow(steps),
            None => self.line(from, Line::Forwarded(line)),
        }
    }

    /// Tells of something that is no message.
    fn complain(&self, from: Side, what: &str) {
        eprintln!("switchboard: {} sent {what}", name_of(from));
        if let Some(recorded) = &self.record {
            let fault = serde_json::json!({"from": from, "noise": what});
            recorded.recording.record(Channel::Diagnostic, &fault.to_string());
        }
    }

    /// Takes a line that came from one side.
    fn line(&mut self, from: Side, line: Line) {
        let handled = self.bridge.handle(from, line.text(), self.now);
        if handled == Handled::Done {
            self.record(from, from, line.text());
        }
        self.collect();
        if handled == Handled::Forward {
            self.record_forwarded(from, line.text());
            self.send(from.other(), line);
        }
    }

    /// Does what history wants instead of passing a line on.
    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::ToAgent(line) => self.to_agent.push(Line::Made(line)),
                Step::FromAgent(line) => self.line(Side::Agent, Line::Made(line)),
            }
        }
    }

    fn send(&mut self, to: Side, line: Line) {
        match to {
            Side::Client => {
                if let Some(id) = answered(line.text()) {
                    self.unanswered.remove(&id.into_owned());
                }
                self.to_client.push(line);
            }
            Side::Agent => {
                match self.history.as_mut().and_then(|history| history.take_for_agent(line.text())) {
                    Some(steps) => self.follow(steps),
                    None => self.to_agent.push(line),
                }
            }
        }
    }

    fn terminal_event(&mut self, event: TerminalEvent) {
        self.look_at_clock();
        let now = self.now;
        match event {
            TerminalEvent::Output { terminal_id, bytes } => {
                self.bridge.terminal_output(&terminal_id, &bytes, now);
            }
            TerminalEvent::Exited { terminal_id, code, signal } => {
                self.bridge.terminal_exited(&terminal_id, code, signal.as_deref(), now);
            }
        }
        self.collect();
    }

    /// Takes what the bridge has to send and to report.
    fn collect(&mut self) {
        let outputs: Vec<Output> = self.bridge.drain().collect();
        for output in outputs {
            match output {
                Output::Line { to, line } => {
                    self.record(to, to.other(), &line);
                    self.send(to, Line::Made(line));
                }
                Output::Loss(loss) => self.write_loss(&loss),
            }
        }
    }

    fn write_loss(&mut self, loss: &Loss) {
        let Ok(line) = serde_json::to_string(loss) else { return };
        if let Some(recorded) = &self.record {
            recorded.recording.record(Channel::Diagnostic, &line);
        }
        if loss.severity == Severity::Guess {
            return;
        }
        if let Some(file) = &mut self.losses
            && let Err(error) = writeln!(file, "{line}")
        {
            eprintln!("switchboard: losses are no longer written: {error}");
            self.losses = None;
        }
    }

    fn record(&mut self, at: Side, from: Side, line: &str) {
        if let Some(recorded) = &mut self.record {
            recorded.line(at, from, line, self.bridge.versions());
        }
    }

    /// A line that is the same on both sides is recorded once.
    fn record_forwarded(&mut self, from: Side, line: &str) {
        if let Some(recorded) = &mut self.record {
            let side = recorded.side.unwrap_or(Side::Client);
            recorded.line(side, from, line, self.bridge.versions());
        }
    }

    /// One side is gone: the other is told what there is to tell, and ended.
    async fn end(
        mut self,
        end: End,
        child: Child,
        mut from_client: LineReader<impl AsyncRead + Unpin>,
    ) -> Result<Outcome, CommandError> {
        let failure = match end {
            End::Client => {
                self.bridge.finish();
                None
            }
            End::Agent(reason) => {
                let exit =
                    tokio::time::timeout(Duration::from_millis(500), child.wait()).await.ok().flatten();
                Some(describe_end(&child, exit, &reason))
            }
        };
        if let Some(reason) = &failure {
            self.bridge.agent_ended(reason, &child.last_lines(20));
        }
        self.collect();
        for way in [&mut self.to_client, &mut self.to_agent] {
            way.send_ready();
        }
        let told = async {
            while !self.to_client.has_room() && !self.to_client.is_closed() {
                self.to_client.send_first().await;
            }
            self.to_client.flush().await;
        };
        // A client that reads nothing is not waited for.
        let _ = tokio::time::timeout(Duration::from_secs(2), told).await;
        if failure.is_some() {
            let gone = async { while let Ok(Some(_)) = from_client.next().await {} };
            let _ = tokio::time::timeout(LAST_WORDS, gone).await;
        }
        let Service { to_agent, to_client, record, losses, bridge, .. } = self;
        drop(to_agent);
        drop(to_client);
        let exit = child.shut_down().await;
        if let Some(recorded) = record {
            recorded.recording.finish(recorded.watch, exit).await;
        }
        if losses.is_none() {
            report(&bridge);
        }
        match failure {
            Some(reason) => Err(CommandError::failed(reason)),
            None => Ok(Outcome::Fine),
        }
    }
}

/// What a line answers, if anything. Of those that answer nothing, nearly all say so at once.
fn answered(line: &str) -> Option<RequestId<'_>> {
    let head = &line.as_bytes()[..line.len().min(64)];
    if head.windows(8).any(|word| word == b"\"method\"") {
        return None;
    }
    match Message::decode(line, WireFormat::Any) {
        Ok(Message::Response(response)) => Some(response.id),
        _ => None,
    }
}

fn name_of(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Agent => "the agent",
    }
}

fn describe_end(child: &Child, exit: Option<Exit>, reason: &str) -> String {
    match exit {
        Some(exit) => format!("the agent {} {exit}", child.program()),
        None => format!("the agent {} is of no use any more: {reason}", child.program()),
    }
}

/// What was lost, on standard error.
fn report(bridge: &Bridge) {
    let losses = bridge.losses();
    if losses.total() == 0 {
        return;
    }
    eprintln!("switchboard: {} things could not be carried over:", losses.total());
    for (message, element, count) in losses.counts() {
        let why =
            losses.entries().iter().find(|loss| loss.message == message && loss.severity != Severity::Guess);
        let why = why.map_or("", |loss| &loss.reason);
        eprintln!("  {count} x {message} {element}: {why}");
    }
}
