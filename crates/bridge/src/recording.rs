//! Recordings: both sides of a conversation in one version, translated into the other.

use std::collections::VecDeque;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{BATCH_LIMIT, Message, RequestId, batch_entries};
use switchboard_acp::{DecodeError, SenderTracker, Wire, WireFormat};

use crate::bridge::Handled;
use crate::context::{Output, session_of};
use crate::loss::{Severity, element_of};
use crate::{Bridge, BridgeOptions, Loss, LossPolicy, Moment, Side, Version};

/// Translates a recorded conversation, in which both sides speak the same version, into the other version.
///
/// It puts two bridges back to back: the recorded client talks to the first, the recorded agent to the second,
/// and what the two say to each other is the conversation in the other version. A part of the recording that is
/// in the wanted version already passes as it is; where the recording has handshakes, they tell.
///
/// ```
/// use switchboard_bridge::{Moment, RecordingBridge, Side, Version};
///
/// let mut recording = RecordingBridge::new(Version::V1);
/// let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
///     {"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Read"}}}"#;
/// recording.take(Some(Side::Agent), line, Moment(0));
/// let line = recording.drain().next().unwrap();
/// assert!(line.text.contains(r#""sessionUpdate":"tool_call","toolCallId":"c""#));
/// ```
#[derive(Debug)]
pub struct RecordingBridge {
    to: Version,
    policy: LossPolicy,
    /// Talks to the recorded client.
    near: Bridge,
    /// Talks to the recorded agent.
    far: Bridge,
    /// Whether what comes is in the wanted version already.
    passes: bool,
    undecided: Option<Undecided>,
    senders: SenderTracker,
    lines: VecDeque<TranslatedLine>,
    /// The number of the line that is being translated, and of the last that came.
    number: u64,
    taken: u64,
    losses: Vec<(u64, Loss)>,
    back: Vec<TranslatedLine>,
}

/// Lines since a handshake whose answer will tell the version.
#[derive(Debug)]
struct Undecided {
    handshake: RequestId<'static>,
    lines: Vec<(u64, Side, String, Moment)>,
}

/// One message of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedLine {
    /// Who says it.
    pub from: Side,
    /// The message.
    pub text: String,
}

/// How many lines a handshake may wait for its answer.
const UNDECIDED: usize = 1000;

impl RecordingBridge {
    /// A translation into a version.
    pub fn new(to: Version) -> Self {
        RecordingBridge::with_policy(to, LossPolicy::default())
    }

    /// A translation that treats losses in a certain way.
    pub fn with_policy(to: Version, policy: LossPolicy) -> Self {
        let (near, far) = halves(to, policy);
        RecordingBridge {
            to,
            policy,
            near,
            far,
            passes: false,
            undecided: None,
            senders: SenderTracker::default(),
            lines: VecDeque::new(),
            number: 0,
            taken: 0,
            losses: Vec::new(),
            back: Vec::new(),
        }
    }

    /// Takes the next message of the recording. Who said it is guessed where it is not known. A line that is no message
    /// has no place in the translation: it is a loss, and the recording goes on.
    pub fn take(&mut self, from: Option<Side>, line: &str, now: Moment) {
        self.take_numbered(self.taken + 1, from, line, now);
    }

    /// The same for a line whose number is known, because there are others between the messages.
    pub fn take_numbered(&mut self, number: u64, from: Option<Side>, line: &str, now: Moment) {
        (self.taken, self.number) = (number, number);
        let message = Message::decode(line, WireFormat::Any);
        let from = from.unwrap_or_else(|| self.guess_sender(message.as_ref().ok()));
        match &message {
            Err(error) if batch_entries(line, BATCH_LIMIT).is_err() => return self.lose(from, error),
            Ok(Message::Request(request)) if from == Side::Client && request.method == "initialize" => {
                self.decide(None);
                self.end_connection();
                let handshake = request.id.clone().into_owned();
                let lines = vec![(number, from, line.to_owned(), now)];
                self.undecided = Some(Undecided { handshake, lines });
                return;
            }
            _ => {}
        }
        let Some(undecided) = &mut self.undecided else { return self.convert(from, line, now) };
        undecided.lines.push((number, from, line.to_owned(), now));
        let full = undecided.lines.len() >= UNDECIDED;
        match &message {
            Ok(Message::Response(response)) if from == Side::Agent && response.id == undecided.handshake => {
                // Refused: whatever was said is said in either version.
                let version = response.outcome.as_ref().ok();
                let version = version.filter(|result| result.get("protocolVersion").is_some());
                self.decide(version.map(|result| Handshake::of_answer(result).version));
            }
            _ if full => self.decide(None),
            _ => {}
        }
    }

    /// Who says something, where the recording does not tell. What shows nothing is taken for a request of the client, or for
    /// something that the agent says.
    fn guess_sender(&mut self, message: Option<&Message<'_>>) -> Side {
        let shown = message.and_then(|message| self.senders.sender(message));
        shown.unwrap_or(match message {
            Some(Message::Request(_)) => Side::Client,
            _ => Side::Agent,
        })
    }

    /// A line is no message.
    fn lose(&mut self, from: Side, error: &DecodeError) {
        let loss = Loss {
            session: None,
            message: "line".to_owned(),
            element: String::new(),
            pointer: String::new(),
            reason: format!("no message, left out: {error}"),
            severity: Severity::Major,
            toward: from.other(),
        };
        self.losses.push((self.number, loss));
    }

    /// The version is known, or must be assumed.
    fn decide(&mut self, version: Option<Version>) {
        let Some(undecided) = self.undecided.take() else { return };
        self.passes = version == Some(self.to);
        for (number, from, line, now) in undecided.lines {
            self.number = number;
            self.convert(from, &line, now);
        }
        self.number = self.taken;
    }

    /// A new connection begins.
    fn end_connection(&mut self) {
        self.near.finish();
        self.far.finish();
        self.settle();
        (self.near, self.far) = halves(self.to, self.policy);
    }

    fn convert(&mut self, from: Side, line: &str, now: Moment) {
        if self.passes {
            self.lines.push_back(TranslatedLine { from, text: line.to_owned() });
            return;
        }
        while let Some(due) = [self.near.next_deadline(), self.far.next_deadline()]
            .into_iter()
            .flatten()
            .min()
            .filter(|due| *due <= now)
        {
            self.near.tick(due);
            self.far.tick(due);
            self.settle();
        }
        let bridge = match from {
            Side::Client => &mut self.near,
            Side::Agent => &mut self.far,
        };
        // Both sides of each half are known, so that nothing is to be forwarded as it is.
        let _: Handled = bridge.handle(from, line, now);
        self.settle_after(Message::decode(line, WireFormat::Any).ok().as_ref());
    }

    /// The same after a line of the recording. A request that is answered at once was refused: the other side never gets
    /// it, in whatever words the one who made it was told so.
    fn settle_after(&mut self, message: Option<&Message<'_>>) {
        let told = self.back.len();
        self.settle();
        let Some(Message::Request(request)) = message else { return };
        let refusals = self.back[told..].iter().filter_map(|line| {
            match Message::decode(&line.text, WireFormat::Any).ok()? {
                Message::Response(response) if response.id == request.id => {
                    Some((line.from, response.outcome.err()?.message.into_owned()))
                }
                _ => None,
            }
        });
        let losses = refusals.map(|(toward, reason)| Loss {
            session: session_of(request.params.as_ref()),
            message: request.method.clone().into_owned(),
            element: element_of(""),
            pointer: String::new(),
            reason: format!("refused: {reason}"),
            severity: Severity::Major,
            toward,
        });
        self.losses.extend(losses.map(|loss| (self.number, loss)));
    }

    /// Carries what the two halves say to each other until they have said everything.
    fn settle(&mut self) {
        loop {
            let mut wire = Vec::new();
            // Each half talks to a side of the recording, and for it to the other half.
            for (half, own) in [(&mut self.near, Side::Client), (&mut self.far, Side::Agent)] {
                for output in half.drain() {
                    match output {
                        Output::Line { to, line } if to == own => {
                            self.back.push(TranslatedLine { from: own.other(), text: line });
                        }
                        Output::Line { line, .. } => wire.push(TranslatedLine { from: own, text: line }),
                        Output::Loss(loss) if loss.toward != own => self.losses.push((self.number, loss)),
                        Output::Loss(_) => {}
                    }
                }
            }
            if wire.is_empty() {
                return;
            }
            for line in wire {
                let now = Moment::default();
                let _: Handled = match line.from {
                    Side::Client => self.far.handle(Side::Client, &line.text, now),
                    Side::Agent => self.near.handle(Side::Agent, &line.text, now),
                };
                self.lines.push_back(line);
            }
        }
    }

    /// Ends the recording: what was held back comes out.
    pub fn finish(&mut self) {
        self.decide(None);
        self.near.finish();
        self.far.finish();
        self.settle();
    }

    /// Takes the translated messages.
    pub fn drain(&mut self) -> impl Iterator<Item = TranslatedLine> + '_ {
        self.lines.drain(..)
    }

    /// Takes what was lost since the last time, each with the number of the line that it was in.
    pub fn take_losses(&mut self) -> Vec<(u64, Loss)> {
        std::mem::take(&mut self.losses)
    }

    /// Takes what each recorded side would have been told in its own version: the translation, translated back.
    pub fn take_back(&mut self) -> Vec<TranslatedLine> {
        std::mem::take(&mut self.back)
    }
}

fn halves(to: Version, policy: LossPolicy) -> (Bridge, Bridge) {
    let source = to.other();
    let half = |client, agent| {
        Bridge::new(BridgeOptions { keep_ids: true, policy, ..BridgeOptions::between(client, agent) })
    };
    (half(source, to), half(to, source))
}
