//! `switchboard fold`: folds a stream of updates into sessions.

mod changes;
pub(crate) mod text;

use std::io::{BufWriter, Write};

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::is_batch;
use switchboard_acp::{DecodeError, Diagnostic, Raw, Recorded, RecordedLine, Version, Wire, WireFormat, v2};
use switchboard_bridge::{LossPolicy, RecordingBridge};
use switchboard_session::{Conversation, ConversationError, Folded, Moment, Side, Step};
use switchboard_store::apply_hub_note;

use crate::arguments::{Dialect, InputArgument};
use crate::lines::Lines;
use crate::outcome::{CommandError, Outcome, write_error};

/// Fold session updates into the resulting sessions
///
/// Reads JSON lines: bare version 2 updates, session/update messages or recorded lines
/// ({"dir":"agent->client","msg":{...}}), possibly of several sessions. Writes one JSON object per session,
/// in order of first appearance; updates without a session id form one whose "sessionId" is null. Permission
/// requests, their answers, cancellations and replays are applied too. A recording with a version 1 handshake
/// is translated first. Other lines are ignored. Malformed optional parts are left out, and unreadable
/// updates change nothing; both are reported on standard error and lead to exit code 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    echo '{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"title\":\"Read\"}' | switchboard fold --text")]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArgument,

    /// Dialect of version 2 in the input
    #[arg(long, value_enum, default_value = "any")]
    dialect: Dialect,

    /// Stop after this line of the input
    #[arg(long, value_name = "LINE")]
    at: Option<u64>,

    /// Refuse messages with any malformed part, instead of leaving that part out
    #[arg(long)]
    strict: bool,

    /// Print the changes of each update, one line each, instead of the result
    #[arg(long, conflicts_with = "text")]
    changes: bool,

    /// Print a transcript for people
    #[arg(long)]
    text: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let new = || Fold::new(arguments.dialect.revision(), arguments.strict);
    let mut writer =
        Writer { output: BufWriter::new(std::io::stdout().lock()), arguments, outcome: Outcome::Fine };
    let mut fold = new();
    let mut lines = Lines::of(&arguments.input)?;
    while arguments.at.is_none_or(|at| lines.number() < at) {
        let Some((number, text)) = lines.next_text(&arguments.input)? else { break };
        let line = text.and_then(|text| RecordedLine::parse(text).map_err(|error| error.to_string()));
        let outcomes = match line {
            Ok(line) => {
                // A file may contain several recordings, one after the other.
                if line.began.is_some() {
                    let mut before = std::mem::replace(&mut fold, new());
                    writer.end(&mut before, number - 1).map_err(write_error)?;
                }
                fold.line(&line)
            }
            Err(problem) => Outcomes::problem(problem),
        };
        writer.write(&fold, &outcomes, number).map_err(write_error)?;
    }
    writer.end(&mut fold, lines.number()).map_err(write_error)?;
    writer.output.flush().map_err(write_error)?;
    Ok(writer.outcome)
}

/// Prints the results of the lines.
struct Writer<'a, W> {
    output: W,
    arguments: &'a Arguments,
    outcome: Outcome,
}

impl<W: Write> Writer<'_, W> {
    fn write(&mut self, fold: &Fold, outcomes: &Outcomes, line: u64) -> std::io::Result<()> {
        if self.arguments.changes {
            for step in &outcomes.steps {
                writeln!(self.output, "{}", changes::to_json(&fold.conversation, step, line))?;
            }
        }
        for problem in &outcomes.problems {
            self.outcome = Outcome::Problems;
            eprintln!("line {line}: {problem}");
        }
        Ok(())
    }

    /// Ends a recording at this line.
    fn end(&mut self, fold: &mut Fold, line: u64) -> std::io::Result<()> {
        let outcomes = fold.finish();
        self.write(fold, &outcomes, line)?;
        if self.arguments.changes {
            return Ok(());
        }
        for (id, session) in fold.conversation.sessions() {
            if session.is_replaying() {
                eprintln!(
                    "session {}: the replay has not ended and is not shown",
                    id.unwrap_or("without an id")
                );
            }
            if !self.arguments.text {
                writeln!(self.output, "{}", session.to_json(id))?;
            }
        }
        match self.arguments.text {
            true => text::write_all(&mut self.output, &fold.conversation, None),
            false => Ok(()),
        }
    }
}

pub(crate) struct Fold {
    pub(crate) conversation: Conversation,
    format: WireFormat,
    is_strict: bool,
    /// A handshake without a response yet.
    introduction: Option<(Option<Side>, String, Moment)>,
    /// Translates messages after a version 1 handshake to version 2.
    translation: Option<Box<RecordingBridge>>,
}

/// Results of a line.
#[derive(Default)]
pub(crate) struct Outcomes {
    steps: Vec<Step>,
    problems: Vec<String>,
}

impl Outcomes {
    fn problem(problem: impl Into<String>) -> Self {
        Outcomes { steps: Vec::new(), problems: vec![problem.into()] }
    }

    fn take(&mut self, folded: Result<Folded<'_>, ConversationError>) {
        match folded {
            Ok(folded) => {
                self.steps.extend(folded.step);
                self.problems.extend(folded.left_out.iter().map(tolerated));
            }
            Err(error) => self.problems.push(error.to_string()),
        }
    }
}

/// Describes the treatment of a malformed part.
fn tolerated(diagnostic: &Diagnostic) -> String {
    format!("{} {diagnostic}", if diagnostic.kept { "kept" } else { "left out" })
}

impl Fold {
    pub(crate) fn new(format: WireFormat, is_strict: bool) -> Self {
        let conversation = Conversation::new(format);
        let conversation = if is_strict { conversation.strict() } else { conversation };
        Fold { conversation, format, is_strict, introduction: None, translation: None }
    }

    /// Folds one line.
    pub(crate) fn line(&mut self, line: &RecordedLine<'_>) -> Outcomes {
        let at = Moment(line.milliseconds().unwrap_or_default());
        match &line.recorded {
            Recorded::Message { from, other_side: false, text } => self.message(text, *from, at),
            Recorded::Hub(note) => {
                apply_hub_note(&mut self.conversation, note, at);
                Outcomes::default()
            }
            _ => Outcomes::default(),
        }
    }

    fn message(&mut self, message: &str, from: Option<Side>, at: Moment) -> Outcomes {
        let mut outcomes = Outcomes::default();
        if is_batch(message) {
            self.fold(message, from, at, &mut outcomes);
            return outcomes;
        }
        let raw = match Raw::parse(message) {
            Ok(raw) => raw,
            Err(error) => return Outcomes::problem(error.to_string()),
        };
        match Shape::of(&raw) {
            Shape::Message => {
                self.watch_handshake(&raw, from, message, at);
                self.fold(message, from, at, &mut outcomes);
            }
            Shape::Update => match self.decode::<v2::SessionUpdate<'_>>(message, &mut outcomes) {
                Ok(update) => outcomes.take(self.conversation.apply_update(None, &update)),
                Err(error) => outcomes.problems.push(error.to_string()),
            },
            Shape::Parameters => {
                match self.decode::<v2::UpdateSessionNotification<'_>>(message, &mut outcomes) {
                    Ok(params) => outcomes
                        .take(self.conversation.apply_update(Some(&params.session_id), &params.update)),
                    Err(error) => outcomes.problems.push(error.to_string()),
                }
            }
            Shape::Other => {}
        }
        outcomes
    }

    /// Decodes a bare value on its line.
    fn decode<'t, T: Wire<'t>>(&self, text: &'t str, outcomes: &mut Outcomes) -> Result<T, DecodeError> {
        if self.is_strict {
            return T::decode(text, self.format);
        }
        let (value, left_out) = T::decode_tolerant(text, self.format)?;
        outcomes.problems.extend(left_out.iter().map(tolerated));
        Ok(value)
    }

    fn fold(&mut self, message: &str, from: Option<Side>, at: Moment, outcomes: &mut Outcomes) {
        if let Some(translation) = &mut self.translation {
            translation.take(from, message, at);
            self.fold_translated(at, outcomes);
        } else {
            self.conversation.read_line(message, from, at, |_, folded| outcomes.take(folded));
        }
    }

    fn fold_translated(&mut self, at: Moment, outcomes: &mut Outcomes) {
        let Some(translation) = &mut self.translation else { return };
        for line in translation.drain() {
            outcomes.take(self.conversation.read(&line.text, Some(line.from), at));
        }
    }

    /// Starts a translation if the agent's handshake is of version 1.
    fn watch_handshake(&mut self, raw: &Raw<'_>, from: Option<Side>, message: &str, at: Moment) {
        if self.translation.is_some() {
            return;
        }
        let method = raw.get("method");
        if method.as_ref().and_then(Raw::as_text).as_deref() == Some("initialize") {
            self.introduction = Some((from, message.to_owned(), at));
            return;
        }
        let Some(result) = raw.get("result").filter(|result| result.get("protocolVersion").is_some()) else {
            return;
        };
        let introduction = self.introduction.take();
        if Handshake::of_answer(&result).version == Version::V1 {
            let mut translation = Box::new(RecordingBridge::with_policy(Version::V2, LossPolicy::Quiet));
            if let Some((from, message, at)) = introduction {
                translation.take(from, &message, at);
            }
            self.translation = Some(translation);
        }
    }

    /// Folds the held messages.
    pub(crate) fn finish(&mut self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        if let Some(translation) = &mut self.translation {
            translation.finish();
        }
        self.fold_translated(Moment::default(), &mut outcomes);
        outcomes
    }
}

/// Kind of a line.
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
