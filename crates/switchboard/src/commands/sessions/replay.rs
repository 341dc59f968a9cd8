//! `switchboard sessions replay`: a recording as an agent, or as a client.

pub(crate) mod drive;
mod faults;

use std::path::{Path, PathBuf};
use std::time::Instant;

use switchboard_acp::detect::Handshake;
use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Moment, Port, Side};
use switchboard_replay::{Player, Script, ScriptReader};
use switchboard_store::{Item, Record, Store, began, parse_line};
use switchboard_transport::{DEFAULT_MESSAGE_LIMIT, Frame, LineReader, Outbox, OutboxOptions};
use tokio::io::{AsyncRead, AsyncWrite};

use self::faults::{Fault, Faults, Part};
use super::version_2::Translation;
use crate::commands::run::Format;
use crate::lines::{Line, Lines};
use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, store_error};
use crate::{losses, stdio};

/// Replay a recording as an agent, or as a client of an agent
///
/// As the agent, it talks to any client of either version over stdio: it answers the handshake as recorded,
/// and each prompt with the recorded turn, at the recorded pace. Recorded questions are asked again and their
/// answers awaited. As the client (--as client), it sends the recorded prompts to an agent and answers its
/// questions as recorded; an answer that is no longer offered becomes a rejection.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard run 'Fix the build' -- switchboard sessions replay 20261115-0418\n  \
    switchboard sessions replay recording.jsonl --as client -- my-agent --acp")]
pub(super) struct Arguments {
    /// Session id, or a file of recorded lines
    #[arg(value_name = "ID|FILE")]
    recording: String,

    /// Name of the agent to prompt (with --as client)
    #[arg(conflicts_with = "command", requires = "role")]
    agent: Option<String>,

    /// Command line of the agent to prompt (with --as client)
    #[arg(last = true, value_name = "CMD", requires = "role")]
    command: Vec<String>,

    /// Role to play
    #[arg(long = "as", id = "role", value_name = "ROLE", value_enum)]
    role: Option<Role>,

    /// Speed factor relative to the recording
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, conflicts_with = "instant")]
    speed: Option<f64>,

    /// Replay without pauses
    #[arg(long)]
    instant: bool,

    /// Inject a fault into about one line in eight; may be repeated
    #[arg(long, value_name = "FAULT", value_enum)]
    fault: Vec<Fault>,

    /// Seed for the choice of the faulty lines
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// Output format of the client: text for people, json for every update on a line, quiet for last messages
    /// only
    #[arg(long, value_enum, default_value = "text", requires = "role")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Agent,
    Client,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("expected a number above 0".to_owned()),
    }
}

pub(super) fn run(
    store: impl Fn() -> Result<Store, CommandError>,
    arguments: &Arguments,
) -> Result<Outcome, CommandError> {
    let file = PathBuf::from(&arguments.recording);
    let recording =
        if file.is_file() { from_file(&file)? } else { from_store(&store()?, &arguments.recording)? };
    match arguments.role {
        None | Some(Role::Agent) => {
            if arguments.agent.is_some() || !arguments.command.is_empty() {
                return Err(CommandError::usage("replaying an agent does not need another agent")
                    .hint("use `--as client` to replay the client"));
            }
            let speed = (!arguments.instant).then(|| arguments.speed.unwrap_or(1.0));
            let version = recording.version();
            let player = Player::new(recording.script(), version, speed);
            let faults = Faults::new(arguments.fault.clone(), arguments.seed);
            stdio::run_alone(async { serve(player, faults, stdio::input(), stdio::output()).await })
        }
        Some(Role::Client) => {
            if !arguments.fault.is_empty() || arguments.instant || arguments.speed.is_some() {
                return Err(CommandError::usage("--speed, --instant and --fault are for the recorded agent"));
            }
            let agent = drive::Agent { name: arguments.agent.as_deref(), command: &arguments.command };
            drive::run(&recording.translated().script(), &agent, arguments.format)
        }
    }
}

/// The messages of a recording.
struct Recording {
    messages: Vec<Record>,
    protocol: u16,
}

fn from_store(store: &Store, id: &str) -> Result<Recording, CommandError> {
    let session = store.session(id).map_err(store_error)?;
    let mut messages = Vec::new();
    for item in store.read(&session.id, 0).map_err(store_error)? {
        match item.map_err(store_error)? {
            Item::Record(record) if record.channel.is_message() => messages.push(record),
            Item::Record(_) => {}
            // The replayed agent lacks these records.
            Item::Gap { from, to, reason } => eprintln!("{}", store_file::gap_in_words(from, to, &reason)),
        }
    }
    Ok(Recording { messages, protocol: session.protocol })
}

fn from_file(path: &Path) -> Result<Recording, CommandError> {
    let cannot =
        |error: std::io::Error| CommandError::usage(format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(cannot)?;
    let recording = from_lines(std::io::BufReader::new(file), &path.display().to_string()).map_err(cannot)?;
    if recording.messages.is_empty() {
        return Err(CommandError::usage(format!("{} has no recorded messages", path.display())));
    }
    Ok(recording)
}

fn from_lines(input: impl std::io::BufRead, name: &str) -> std::io::Result<Recording> {
    let mut lines = Lines::new(input);
    let mut messages = Vec::new();
    let mut passed_over = 0;
    while let Some(line) = lines.next()? {
        let Line::Text(line) = line else { continue };
        let text = std::str::from_utf8(line).unwrap_or_default();
        // A file may contain several recordings, one after the other.
        if !messages.is_empty() && began(text).is_some() {
            messages.clear();
            passed_over += 1;
        }
        match parse_line(text, Moment(0)) {
            Ok(Some(record)) if record.channel.is_message() => messages.push(record),
            Ok(_) => {}
            Err(_) if text.trim().is_empty() => {}
            Err(error) => eprintln!("line {}: {error}", lines.number()),
        }
    }
    if passed_over > 0 {
        eprintln!("{name} has {passed_over} earlier recordings; the last one is played");
    }
    Ok(Recording { messages, protocol: 0 })
}

/// Returns the agent of recorded lines, without pauses, and the script for its client.
#[cfg(test)]
pub(crate) fn replayed(lines: &str) -> (impl Future<Output = ()>, tokio::io::DuplexStream, Script) {
    let recording = from_lines(lines.as_bytes(), "memory").expect("lines in memory");
    let player = Player::new(recording.script(), recording.version(), None);
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(far);
    let agent = async move {
        let served = serve(player, Faults::new(Vec::new(), 0), Box::new(input), Box::new(output)).await;
        assert!(served.is_ok());
    };
    (agent, near, recording.translated().script())
}

impl Recording {
    fn script(&self) -> Script {
        let mut reader = ScriptReader::default();
        for record in &self.messages {
            reader.take(record);
        }
        reader.finish()
    }

    /// Returns the recorded agent's version by the shape of its response: version numbers alone are
    /// unreliable.
    fn version(&self) -> u16 {
        match self.script().introduction {
            Some(Ok(answer)) => Handshake::of_answer(&answer).version.number(),
            _ if self.protocol == 1 => 1,
            _ => 2,
        }
    }

    /// Returns the recording in version 2.
    fn translated(self) -> Self {
        if self.version() != 1 {
            return self;
        }
        let mut translation = Translation::new();
        let mut messages: Vec<Record> =
            self.messages.iter().flat_map(|record| translation.take(record)).collect();
        messages.extend(translation.finish());
        Recording { messages, protocol: 2 }
    }
}

/// Plays the agent until the client disconnects.
async fn serve(
    mut player: Player,
    mut faults: Faults,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
) -> Result<Outcome, CommandError> {
    let mut driver =
        Driver::new(BridgeOptions { agent_name: "recording".to_owned(), ..BridgeOptions::default() });
    let mut port = ReplayPort::default();
    let mut from_client = LineReader::new(input, DEFAULT_MESSAGE_LIMIT);
    let to_client = Outbox::new(output, OutboxOptions::default());
    let start = Instant::now();
    let mut is_introduced = false;
    loop {
        // Output of the player may make the bridge send requests to it, and the reverse.
        let mut has_said = true;
        while has_said {
            let now = start.elapsed();
            let said = player.next(now);
            has_said = said.is_some();
            let forwarded =
                said.filter(|line| driver.receive(Side::Agent, line).deliver(&mut port) == Handled::Forward);
            for line in std::mem::take(&mut port.to_player) {
                has_said = true;
                player.take(&line, now);
            }
            let lines = std::mem::take(&mut port.to_client);
            for line in lines.into_iter().chain(forwarded) {
                let parts = if is_introduced { faults.apply(line) } else { vec![Part::Line(line)] };
                is_introduced = true;
                for part in parts {
                    match part {
                        Part::Pause(pause) => tokio::time::sleep(pause).await,
                        Part::Line(line) if to_client.send(&line).await.is_err() => return Ok(Outcome::Fine),
                        Part::Line(_) => {}
                    }
                }
            }
        }
        let due = player.next_due();
        if due.is_none()
            && let Some(line) = faults.rest()
            && to_client.send(&line).await.is_err()
        {
            return Ok(Outcome::Fine);
        }
        let due = due.and_then(|due| start.checked_add(due));
        let deadline = due.into_iter().chain(driver.next_deadline()).min();
        tokio::select! {
            frame = from_client.next() => match frame {
                Ok(Some(Frame::Message(line))) => {
                    if driver.receive(Side::Client, &line).deliver(&mut port) == Handled::Forward {
                        port.to_player.push(line.to_string());
                    }
                }
                Ok(Some(_)) => eprintln!("switchboard: the client sent an invalid line"),
                Ok(None) | Err(_) => break,
            },
            () = stdio::sleep_until(deadline.map(Into::into)) => {
                let _ = driver.tick().deliver(&mut port);
            }
        }
    }
    // An error means that the client no longer reads.
    let _ = to_client.flush().await;
    losses::report(driver.bridge().losses());
    Ok(Outcome::Fine)
}

/// Queue of the bridge's lines.
#[derive(Default)]
struct ReplayPort {
    to_player: Vec<String>,
    to_client: Vec<String>,
}

impl Port for ReplayPort {
    fn send(&mut self, to: Side, line: String) {
        match to {
            Side::Agent => self.to_player.push(line),
            Side::Client => self.to_client.push(line),
        }
    }

    /// Nothing is recorded here: the bridge counts losses, and they are reported at the end.
    fn report_loss(&mut self, _: Loss) {}
}
