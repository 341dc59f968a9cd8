//! `switchboard convert`: translates a recording.

use std::io::{BufWriter, Write};

use serde::Serialize;
use switchboard_acp::{LineForm, Recorded, RecordedLine};
use switchboard_bridge::{
    Error, Loss, LossPolicy, Moment, Note, RecordingBridge, Severity, Side, Stateless, Version,
};

use crate::arguments::{InputArgument, Protocol};
use crate::lines::Lines;
use crate::outcome::{CommandError, Outcome, write_error};

/// Translate a recorded conversation into the other protocol version
///
/// Reads JSON lines like `check`: complete messages, or recorded lines ({"dir":"client->agent","msg":{...}}),
/// and writes them in the other version, in the same format. Losses are listed on standard error, one JSON
/// object per line. Exit code 1 if anything was lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  switchboard convert --to v1 session.jsonl >session-v1.jsonl")]
pub(crate) struct Arguments {
    /// Protocol version to translate into
    #[arg(long, value_enum)]
    to: Protocol,

    #[command(flatten)]
    input: InputArgument,

    /// Translate each message on its own, and fail if that is not possible
    #[arg(long)]
    stateless: bool,

    /// Treatment of losses in the session itself
    #[arg(
        long,
        value_enum,
        default_value = "visible",
        value_name = "ACTION",
        alias = "policy",
        conflicts_with = "stateless"
    )]
    on_loss: LossAction,
}

/// Treatment of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LossAction {
    /// End the turn with an error
    Strict,
    /// Show a notice in the session if a user would notice the loss
    Visible,
    /// Show nothing in the session
    Quiet,
}

impl From<LossAction> for LossPolicy {
    fn from(action: LossAction) -> Self {
        match action {
            LossAction::Strict => LossPolicy::Strict,
            LossAction::Visible => LossPolicy::Visible,
            LossAction::Quiet => LossPolicy::Quiet,
        }
    }
}

impl From<Protocol> for Version {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::V1 => Version::V1,
            Protocol::V2 => Version::V2,
        }
    }
}

/// The printed report of a loss.
#[derive(Serialize)]
struct Report<'l> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'l str>,
    message: &'l str,
    element: &'l str,
    /// JSON pointer into the line's message.
    pointer: &'l str,
    reason: &'l str,
    severity: Severity,
}

struct Writer<W> {
    output: W,
    lost: bool,
    /// Number of invalid lines.
    noise: u64,
    /// Start time of the recording, for its first line.
    began: Option<i64>,
}

/// Maximum number of invalid lines that are listed individually.
const LISTED_NOISE: u64 = 10;

impl<W: Write> Writer<W> {
    fn line(&mut self, from: Option<Side>, text: &str, form: &Form<'_>) -> std::io::Result<()> {
        if form.wrapped && from.is_some() {
            let recorded = Recorded::Message { from, other_side: false, text: text.into() };
            let line = RecordedLine {
                began: self.began.take(),
                time: form.time.map(Into::into),
                ..RecordedLine::new(recorded)
            };
            write!(self.output, "{line}")?;
        } else {
            // An unchanged line contains it already.
            self.began = None;
            self.output.write_all(text.as_bytes())?;
        }
        self.output.write_all(b"\n")
    }

    fn report(&mut self, report: &Report<'_>) {
        self.lost = true;
        // A closed standard error is not a reason to stop.
        let _ = serde_json::to_writer(std::io::stderr(), report);
        let _ = writeln!(std::io::stderr());
    }

    fn loss(&mut self, line: u64, loss: &Loss) {
        // A guess is not a loss.
        if loss.severity == Severity::Guess {
            return;
        }
        // The translation's name for an invalid line.
        if loss.message == "line" {
            return self.noise(line, &loss.reason);
        }
        self.report(&Report {
            line,
            session: loss.session.as_deref(),
            message: &loss.message,
            element: &loss.element,
            pointer: &loss.pointer,
            reason: &loss.reason,
            severity: loss.severity,
        });
    }

    /// Reports an invalid line, up to the limit.
    fn noise(&mut self, line: u64, reason: &str) {
        self.noise += 1;
        if self.noise <= LISTED_NOISE {
            self.fault(line, reason);
        }
    }

    /// Reports the number of invalid lines if not all were listed.
    fn total_noise(&mut self, last: u64) {
        if self.noise > LISTED_NOISE {
            let count = self.noise;
            self.fault(last, &format!("{count} lines were invalid; the first {LISTED_NOISE} are listed"));
        }
    }

    fn fault(&mut self, line: u64, reason: &str) {
        let severity = Severity::Major;
        self.report(&Report {
            line,
            session: None,
            message: "line",
            element: "line",
            pointer: "",
            reason,
            severity,
        });
    }
}

/// The format of an input line.
#[derive(Clone, Copy, Default)]
struct Form<'l> {
    wrapped: bool,
    time: Option<&'l str>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut lines = Lines::of(&arguments.input)?;
    let output = BufWriter::new(std::io::stdout().lock());
    let mut writer = Writer { output, lost: false, noise: 0, began: None };
    let to = Version::from(arguments.to);
    let new = || {
        if arguments.stateless {
            return Converter::Stateless(Stateless::new(to));
        }
        let recording = RecordingBridge::with_policy(to, arguments.on_loss.into());
        Converter::Stateful { recording: Box::new(recording), clock: 0, wrapped: false }
    };
    let mut converter = new();
    while let Some((number, text)) = lines.next_text(&arguments.input)? {
        let parsed =
            text.and_then(|text| Ok((text, RecordedLine::parse(text).map_err(|error| error.to_string())?)));
        match parsed {
            Ok((text, line)) => {
                // A file may contain several recordings, one after the other.
                if line.began.is_some() {
                    converter.finish(&mut writer).map_err(write_error)?;
                    converter = new();
                    writer.began = line.began;
                }
                converter.line(text, &line, number, &mut writer).map_err(write_error)?;
            }
            Err(problem) => writer.noise(number, &problem),
        }
    }
    converter.finish(&mut writer).map_err(write_error)?;
    writer.total_noise(lines.number());
    writer.output.flush().map_err(write_error)?;
    Ok(if writer.lost { Outcome::Problems } else { Outcome::Fine })
}

enum Converter {
    Stateless(Stateless),
    Stateful { recording: Box<RecordingBridge>, clock: i64, wrapped: bool },
}

impl Converter {
    fn line(
        &mut self,
        text: &str,
        line: &RecordedLine<'_>,
        number: u64,
        writer: &mut Writer<impl Write>,
    ) -> std::io::Result<()> {
        let form = Form { wrapped: line.form != LineForm::Bare, time: line.time.as_deref() };
        let Recorded::Message { from, other_side: false, text: message } = &line.recorded else {
            // Other recorded events are the same in both versions.
            return writer.line(None, text, &form);
        };
        let from = *from;
        match self {
            Converter::Stateless(stateless) => match stateless.convert(message, from) {
                Ok(converted) => {
                    for line in &converted.value {
                        writer.line(from, line, &form)?;
                    }
                    for Note { element, pointer, reason, severity } in &converted.omitted {
                        let severity = *severity;
                        writer.report(&Report {
                            line: number,
                            session: None,
                            message: "message",
                            element,
                            pointer,
                            reason,
                            severity,
                        });
                    }
                }
                Err(Error::Unrepresentable { element, reason }) => {
                    let severity = Severity::Major;
                    writer.report(&Report {
                        line: number,
                        session: None,
                        message: "message",
                        element: &element,
                        // The whole message is left out because of it.
                        pointer: "",
                        reason: &reason,
                        severity,
                    });
                }
                Err(error) => writer.noise(number, &error.to_string()),
            },
            Converter::Stateful { recording, clock, wrapped } => {
                *wrapped = form.wrapped;
                let time = line.milliseconds().filter(|time| *time >= 0);
                *clock = time.unwrap_or(*clock + 10);
                recording.take_numbered(number, from, message, Moment(*clock));
                write_out(recording, &form, writer)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, writer: &mut Writer<impl Write>) -> std::io::Result<()> {
        if let Converter::Stateful { recording, wrapped, .. } = self {
            recording.finish();
            let form = Form { wrapped: *wrapped, time: None };
            write_out(recording, &form, writer)?;
        }
        Ok(())
    }
}

fn write_out(
    recording: &mut RecordingBridge,
    form: &Form<'_>,
    writer: &mut Writer<impl Write>,
) -> std::io::Result<()> {
    for line in recording.drain() {
        writer.line(Some(line.from), &line.text, form)?;
    }
    for (number, loss) in recording.take_losses() {
        writer.loss(number, &loss);
    }
    Ok(())
}
