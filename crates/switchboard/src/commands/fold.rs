//! `switchboard fold`: the sessions that a stream of updates amounts to.

mod changes;
pub(crate) mod text;

use std::io::{BufWriter, Write};

use switchboard_protocol::detect::Handshake;
use switchboard_protocol::rpc::{BATCH_LIMIT, batch_entries, is_batch};
use switchboard_protocol::{Raw, Recorded, RecordedLine, Version, Wire, WireFormat, v2};
use switchboard_session::{Conversation, ConversationError, Moment, Side, Step};

use crate::arguments::{Dialect, InputArgument};
use crate::lines::{Line, Lines, MAX_LINE};
use crate::outcome::{CommandError, Outcome, write_error};

/// Fold session updates into the sessions that result
///
/// Reads JSON lines of version 2: bare updates, session/update messages or recorded lines
/// ({"dir":"agent->client","msg":{...}}), several sessions mixed. Writes one JSON object a session, in the order
/// in which they first appear; updates that name no session make one whose "sessionId" is null. Permission
/// requests, their answers, cancellations and replays are followed too. Lines that are not updates are passed
/// over; malformed ones change nothing, are reported on standard error, and make the exit code 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    echo '{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"title\":\"Read\"}' | switchboard fold --text")]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArgument,

    /// Dialect of version 2
    #[arg(long, value_enum, default_value = "any")]
    dialect: Dialect,

    /// Stop after this line of the input
    #[arg(long, value_name = "LINE")]
    at: Option<u64>,

    /// Print what each update changes, a line each, instead of the result
    #[arg(long, conflicts_with = "text")]
    changes: bool,

    /// Print a transcript for people
    #[arg(long)]
    text: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut fold = Fold::new(arguments.dialect.revision());
    let mut lines = Lines::new(arguments.input.open()?);
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut outcome = Outcome::Fine;
    while arguments.at.is_none_or(|at| lines.number() < at) {
        let result = match lines.next() {
            Ok(Some(Line::Text(text))) => fold.line(text),
            Ok(Some(Line::TooLong { length })) => {
                Err(format!("expected at most {MAX_LINE} bytes in a line, found {length}"))
            }
            Ok(None) => break,
            Err(error) => {
                let name = arguments.input.name();
                return Err(CommandError::failed(format!("cannot read {name}: {error}")));
            }
        };
        match result {
            Ok(steps) if arguments.changes => {
                for step in &steps {
                    let line = changes::to_json(&fold.conversation, step, lines.number());
                    writeln!(output, "{line}").map_err(write_error)?;
                }
            }
            Ok(_) => {}
            Err(problem) => {
                outcome = Outcome::Problems;
                eprintln!("line {}: {problem}", lines.number());
            }
        }
    }
    if outcome == Outcome::Problems && fold.is_version_1 {
        eprintln!("hint: this is a conversation of version 1; only updates of version 2 can be folded");
    }
    if !arguments.changes {
        for (id, session) in fold.conversation.sessions() {
            if session.is_replaying() {
                eprintln!(
                    "session {}: the replay has not ended and is not shown",
                    id.unwrap_or("without an id")
                );
            }
            if arguments.text {
                text::write(&mut output, id, session).map_err(write_error)?;
            } else {
                writeln!(output, "{}", session.to_json(id)).map_err(write_error)?;
            }
        }
    }
    output.flush().map_err(write_error)?;
    Ok(outcome)
}

struct Fold {
    conversation: Conversation,
    dialect: WireFormat,
    /// Whether an agent said that it speaks version 1.
    is_version_1: bool,
}

impl Fold {
    fn new(dialect: WireFormat) -> Self {
        Fold { conversation: Conversation::new(dialect), dialect, is_version_1: false }
    }

    /// Folds one line. Gives what it did, or what is wrong with it.
    fn line(&mut self, line: &[u8]) -> Result<Vec<Step>, String> {
        let text = std::str::from_utf8(line).map_err(|error| format!("expected UTF-8, {error}"))?;
        if text.trim_ascii().is_empty() {
            return Ok(Vec::new());
        }
        let line = RecordedLine::parse(text).map_err(|error| error.to_string())?;
        let Recorded::Message { from, other_side: false, text: message } = &line.recorded else {
            return Ok(Vec::new());
        };
        // A time before the beginning is the beginning.
        let at = Moment(line.milliseconds().and_then(|time| u64::try_from(time).ok()).unwrap_or_default());
        if is_batch(message) {
            return self.batch(message, *from, at);
        }
        self.message(message, *from, at)
            .map(|step| step.into_iter().collect())
            .map_err(|error| error.to_string())
    }

    fn message(
        &mut self,
        message: &str,
        from: Option<Side>,
        at: Moment,
    ) -> Result<Option<Step>, ConversationError> {
        let raw = Raw::parse(message)?;
        Ok(match Shape::of(&raw) {
            Shape::Message => {
                self.is_version_1 |= is_version_1(&raw);
                self.conversation.read(message, from, at)?
            }
            Shape::Update => {
                let update = v2::SessionUpdate::decode(message, self.dialect)?;
                Some(self.conversation.apply_update(None, &update))
            }
            Shape::Parameters => {
                let params = v2::UpdateSessionNotification::decode(message, self.dialect)?;
                Some(self.conversation.apply_update(Some(&params.session_id), &params.update))
            }
            Shape::Other => None,
        })
    }

    /// The messages of a batch apply one after the other, up to the first that cannot be read.
    fn batch(&mut self, text: &str, from: Option<Side>, at: Moment) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        for entry in batch_entries(text, BATCH_LIMIT).map_err(|fault| fault.to_string())? {
            steps.extend(self.conversation.read(entry, from, at).map_err(|error| error.to_string())?);
        }
        Ok(steps)
    }
}

/// What a line holds.
enum Shape {
    /// A JSON-RPC message.
    Message,
    /// A bare update.
    Update,
    /// The parameters of `session/update`.
    Parameters,
    /// Something else.
    Other,
}

impl Shape {
    fn of(raw: &Raw<'_>) -> Self {
        let has = |wanted: &str| raw.entries().any(|(key, _)| key == wanted);
        if has("jsonrpc") || has("method") {
            Shape::Message
        } else if has("sessionUpdate") {
            Shape::Update
        } else if has("sessionId") && has("update") {
            Shape::Parameters
        } else {
            Shape::Other
        }
    }
}

/// Whether an agent introduces itself as one of version 1.
fn is_version_1(message: &Raw<'_>) -> bool {
    let result = message.get("result").filter(|result| result.get("protocolVersion").is_some());
    result.is_some_and(|result| Handshake::of_answer(&result).version == Version::V1)
}
