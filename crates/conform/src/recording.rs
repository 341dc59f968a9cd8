//! Recordings, line by line.

use switchboard_acp::rpc::Message;
use switchboard_acp::{LineForm, Recorded, RecordedLine, SenderTracker, Side, WireFormat};

use crate::evaluator::Evaluator;
use crate::report::Findings;
use crate::rules::RuleId;

/// Checks the lines of a recording. An unreadable line, as at the end of a truncated recording, is a gap: it
/// is not a violation, but without a violation there is no verdict either.
///
/// ```
/// use switchboard_conform::{RecordingChecker, Verdict};
///
/// let mut checker = RecordingChecker::new(None);
/// checker.line(1, br#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":0,"method":"initi"#);
/// assert_eq!(checker.finish().report("a cut recording").verdict, Verdict::NotJudged);
/// ```
#[derive(Debug)]
pub struct RecordingChecker {
    evaluator: Evaluator,
    senders: SenderTracker,
    /// Set if all lines so far are bare messages, so that a line that is not JSON was sent by a peer.
    is_bare: bool,
    has_lines: bool,
    gaps: u64,
    /// Number of the line with the first gap.
    first_gap: u64,
}

impl RecordingChecker {
    /// Creates a checker. With a side, only that side's obligations are checked.
    pub fn new(only: Option<Side>) -> Self {
        RecordingChecker {
            evaluator: Evaluator::new(only),
            senders: SenderTracker::default(),
            is_bare: false,
            has_lines: false,
            gaps: 0,
            first_gap: 0,
        }
    }

    /// Checks a line. Violations are reported with its number.
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

    /// Marks a gap at a line.
    pub fn gap(&mut self, number: u64) {
        if self.gaps == 0 {
            self.first_gap = number;
        }
        self.gaps += 1;
        self.evaluator.gap();
        self.senders = SenderTracker::default();
    }

    /// Returns the number of gaps.
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
            // Other recorded events do not concern the messages.
            Recorded::Message { .. }
            | Recorded::Noise { .. }
            | Recorded::StandardError(_)
            | Recorded::Process(_)
            | Recorded::Diagnostic(_)
            | Recorded::Hub(_)
            | Recorded::Elsewhere => {}
        }
    }

    /// Returns the sender of a message if it can be determined.
    fn sender_of(&mut self, text: &str) -> Option<Side> {
        self.senders.sender(&Message::decode(text, WireFormat::Any).ok()?)
    }

    /// Checks a message without a recorded sender.
    fn bare(&mut self, number: u64, text: &str, form: LineForm) {
        if let Some(from) = self.sender_of(text) {
            self.is_bare |= form == LineForm::Bare;
            self.evaluator.message(number, from, text);
        } else if self.is_bare && !text.trim_start().starts_with(['{', '[']) {
            // Agents are the side that writes logs to standard output.
            self.evaluator.noise(number, Side::Agent, text);
        } else {
            self.gap(number);
        }
    }

    /// Handles a line that is not UTF-8.
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

    /// Finishes the recording and returns the findings. With gaps, violations count, but the verdict cannot
    /// be conformant.
    pub fn finish(mut self) -> Findings {
        if self.gaps > 0 {
            let places =
                if self.gaps == 1 { "one place".to_owned() } else { format!("{} places", self.gaps) };
            let first = self.first_gap;
            self.evaluator.findings.block(format!("messages are missing in {places}, first at line {first}"));
        } else if self.has_lines {
            self.evaluator.findings.kept(RuleId::Utf8);
        }
        self.evaluator.finish()
    }
}
