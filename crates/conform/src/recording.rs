//! Recordings, line by line.

use switchboard_acp::rpc::Message;
use switchboard_acp::{LineForm, Recorded, RecordedLine, SenderTracker, Side, WireFormat};

use crate::evaluator::Evaluator;
use crate::report::Findings;
use crate::rules::RuleId;

/// Judges the lines of a recording. What cannot be read, as where a recording was cut off, is a gap: no violation, but no verdict that
/// everything was kept either.
///
/// ```
/// use switchboard_conform::{RecordingJudge, Verdict};
///
/// let mut judge = RecordingJudge::new(None);
/// judge.line(1, br#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":0,"method":"initi"#);
/// assert_eq!(judge.finish().report("a cut recording").verdict, Verdict::NotJudged);
/// ```
#[derive(Debug)]
pub struct RecordingJudge {
    evaluator: Evaluator,
    senders: SenderTracker,
    /// Whether the lines so far are messages alone, so that one that is no JSON was sent by somebody.
    is_bare: bool,
    has_lines: bool,
    gaps: u64,
    /// The number of the line at which something is missing first.
    first_gap: u64,
}

impl RecordingJudge {
    /// A recording of which nothing was read yet. With a side, only what that side has to keep is judged.
    pub fn new(only: Option<Side>) -> Self {
        RecordingJudge {
            evaluator: Evaluator::new(only),
            senders: SenderTracker::default(),
            is_bare: false,
            has_lines: false,
            gaps: 0,
            first_gap: 0,
        }
    }

    /// Takes a line. Its number is told where it breaks a rule.
    pub fn line(&mut self, number: u64, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.has_lines = true;
        match std::str::from_utf8(line) {
            Ok(text) => self.text(number, text),
            Err(_) => self.damaged(number, &String::from_utf8_lossy(line)),
        }
    }

    /// Something is missing at this line.
    pub fn gap(&mut self, number: u64) {
        if self.gaps == 0 {
            self.first_gap = number;
        }
        self.gaps += 1;
        self.evaluator.gap();
        self.senders = SenderTracker::default();
    }

    /// How many places there were at which something is missing.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    fn text(&mut self, number: u64, text: &str) {
        let Ok(line) = RecordedLine::parse(text) else {
            self.gap(number);
            return;
        };
        if line.began.is_some() {
            self.evaluator.begin();
            self.senders = SenderTracker::default();
        }
        match &line.recorded {
            Recorded::Message { from: Some(from), other_side: false, text } => {
                self.evaluator.message(number, *from, text);
            }
            Recorded::Message { from: None, other_side: false, text } => {
                self.bare(number, text, line.form);
            }
            Recorded::Noise { from, other_side: false, text } => self.evaluator.noise(number, *from, text),
            // What was recorded beside the messages says nothing about them.
            Recorded::Message { .. }
            | Recorded::Noise { .. }
            | Recorded::StandardError(_)
            | Recorded::Process(_)
            | Recorded::Diagnostic(_)
            | Recorded::Hub(_)
            | Recorded::Elsewhere => {}
        }
    }

    /// Who sent a message, as far as it shows.
    fn sender_of(&mut self, text: &str) -> Option<Side> {
        self.senders.sender(&Message::decode(text, WireFormat::Any).ok()?)
    }

    /// A message of which nobody says who sent it.
    fn bare(&mut self, number: u64, text: &str, form: LineForm) {
        if let Some(from) = self.sender_of(text) {
            self.is_bare |= form == LineForm::Bare;
            self.evaluator.message(number, from, text);
        } else if self.is_bare && !text.trim_start().starts_with(['{', '[']) {
            // Agents are those who write logs to standard output.
            self.evaluator.noise(number, Side::Agent, text);
        } else {
            self.gap(number);
        }
    }

    /// A line that is no UTF-8.
    fn damaged(&mut self, number: u64, text: &str) {
        let sender = match RecordedLine::parse(text).map(|line| line.recorded) {
            Ok(Recorded::Message { from: Some(from), .. } | Recorded::Noise { from, .. }) => Some(from),
            Ok(Recorded::Message { from: None, text, .. }) => self.sender_of(&text),
            _ => None,
        };
        match sender {
            Some(from) => self.evaluator.noise(number, from, "\u{FFFD}"),
            None => self.gap(number),
        }
    }

    /// What was found, now that all lines are read. Where something is missing, what is there can break rules, but nobody can
    /// say that all were kept.
    pub fn finish(mut self) -> Findings {
        if self.gaps > 0 {
            let places =
                if self.gaps == 1 { "one place".to_owned() } else { format!("{} places", self.gaps) };
            let first = self.first_gap;
            self.evaluator.findings.block(format!("something is missing in {places}, first at line {first}"));
        } else if self.has_lines {
            self.evaluator.findings.kept(RuleId::Utf8);
        }
        self.evaluator.finish()
    }
}
