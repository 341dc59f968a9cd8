//! Recordings: both sides of a conversation in one version, translated into the other.

use std::collections::VecDeque;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{BATCH_LIMIT, Message, RequestId, batch_entries};
use switchboard_acp::{DecodeError, SenderTracker, Wire, WireFormat};

use crate::context::session_of;
use crate::driver::{Driver, Outputs, Port};
use crate::loss::{Severity, element_of};
use crate::recorded_terminals::{RecordedTerminals, Told};
use crate::{BridgeOptions, Loss, LossPolicy, Moment, Side, Version};

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
    near: Driver,
    /// Talks to the recorded agent.
    far: Driver,
    /// Lines of either half for the other, in the order in which they are handed over: those of `near` first.
    from_near: Vec<TranslatedLine>,
    from_far: Vec<TranslatedLine>,
    /// Whether what comes is in the wanted version already.
    passes: bool,
    undecided: Option<Undecided>,
    senders: SenderTracker,
    terminals: RecordedTerminals,
    lines: VecDeque<TranslatedLine>,
    /// The number of the line that is being translated, and of the last that came.
    number: u64,
    taken: u64,
    /// Whether anything was said in a session.
    has_sessions: bool,
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
        let (near, far) = halves(to, policy, "");
        RecordingBridge {
            to,
            policy,
            near,
            far,
            from_near: Vec::new(),
            from_far: Vec::new(),
            passes: false,
            undecided: None,
            senders: SenderTracker::default(),
            terminals: RecordedTerminals::default(),
            lines: VecDeque::new(),
            number: 0,
            taken: 0,
            has_sessions: false,
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
                self.end_connection(number);
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

    /// A new connection begins, with this line. The ids that are made in it have its number, so that they are not those of
    /// an earlier connection with the same session, and the same whenever the recording is translated.
    fn end_connection(&mut self, number: u64) {
        self.finish_halves();
        let salt = if self.has_sessions { format!("{number:x}") } else { String::new() };
        (self.near, self.far) = halves(self.to, self.policy, &salt);
        self.terminals = RecordedTerminals::default();
    }

    fn convert(&mut self, from: Side, line: &str, now: Moment) {
        if self.passes {
            self.lines.push_back(TranslatedLine { from, text: line.to_owned() });
            return;
        }
        while let Some(due) = [&self.near, &self.far]
            .into_iter()
            .filter_map(|half| half.bridge().next_deadline())
            .min()
            .filter(|due| *due <= now)
        {
            for own in [Side::Client, Side::Agent] {
                let half = self.half(own);
                half.advance(due);
                let outputs = half.tick();
                self.deliver(own, outputs);
            }
            self.settle();
        }
        let message = Message::decode(line, WireFormat::Any).ok();
        if self.to == Version::V2
            && let Some(told) = message.as_ref().and_then(|message| self.terminals.take(from, message))
        {
            return self.tell_terminal(told, message.as_ref(), now);
        }
        let told = self.back.len();
        let half = self.half(from);
        half.advance(now);
        let outputs = half.receive(from, line);
        self.deliver(from, outputs);
        let params = message.as_ref().and_then(|message| match message {
            Message::Request(request) => request.params.as_ref(),
            Message::Notification(notification) => notification.params.as_ref(),
            Message::Response(_) => None,
        });
        self.has_sessions |= session_of(params).is_some();
        self.settle_after(told, message.as_ref());
    }

    /// Tells what became of a terminal of the client.
    fn tell_terminal(&mut self, told: Told, message: Option<&Message<'_>>, now: Moment) {
        let session = match message {
            Some(Message::Request(request)) => session_of(request.params.as_ref()),
            _ => told.update.as_ref().map(|(session, _)| session.clone()),
        };
        let toward = if matches!(message, Some(Message::Request(_))) { Side::Client } else { Side::Agent };
        let losses = told.losses.into_iter().map(|(pointer, reason)| Loss {
            session: session.clone(),
            message: told.method.clone(),
            element: element_of(&pointer),
            pointer,
            reason: reason.to_owned(),
            severity: Severity::Minor,
            toward,
        });
        self.losses.extend(losses.map(|loss| (self.number, loss)));
        if let Some((session, update)) = told.update {
            self.far.advance(now);
            let outputs = self.far.recorded_terminal(&session, update);
            self.deliver(Side::Agent, outputs);
            self.settle();
        }
    }

    /// The same after a line of the recording. A request that is answered at once was refused: the other side never gets
    /// it, in whatever words the one who made it was told so.
    fn settle_after(&mut self, told: usize, message: Option<&Message<'_>>) {
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

    /// The half that talks to one side of the recording.
    fn half(&mut self, own: Side) -> &mut Driver {
        match own {
            Side::Client => &mut self.near,
            Side::Agent => &mut self.far,
        }
    }

    /// Sorts what a half produced: for its own side of the recording, or for the other half. Nothing is forwarded as it is,
    /// because the versions of both sides of each half are known.
    fn deliver(&mut self, own: Side, outputs: Outputs) {
        let wire = match own {
            Side::Client => &mut self.from_near,
            Side::Agent => &mut self.from_far,
        };
        let _ = outputs.deliver(&mut HalfPort {
            own,
            number: self.number,
            back: &mut self.back,
            losses: &mut self.losses,
            wire,
        });
    }

    /// Carries lines between the two halves until neither has any left.
    fn settle(&mut self) {
        loop {
            let mut wire = std::mem::take(&mut self.from_near);
            wire.append(&mut self.from_far);
            if wire.is_empty() {
                return;
            }
            for line in wire {
                let own = line.from.other();
                let outputs = self.half(own).receive(line.from, &line.text);
                self.deliver(own, outputs);
                self.lines.push_back(line);
            }
        }
    }

    fn finish_halves(&mut self) {
        for own in [Side::Client, Side::Agent] {
            let outputs = self.half(own).finish();
            self.deliver(own, outputs);
        }
        self.settle();
    }

    /// Ends the recording: what was held back comes out.
    pub fn finish(&mut self) {
        self.decide(None);
        self.finish_halves();
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

/// Where the output of one half of a recording goes.
struct HalfPort<'a> {
    own: Side,
    number: u64,
    back: &'a mut Vec<TranslatedLine>,
    losses: &'a mut Vec<(u64, Loss)>,
    wire: &'a mut Vec<TranslatedLine>,
}

impl Port for HalfPort<'_> {
    fn send(&mut self, to: Side, line: String) {
        if to == self.own {
            self.back.push(TranslatedLine { from: to.other(), text: line });
        } else {
            self.wire.push(TranslatedLine { from: self.own, text: line });
        }
    }

    fn lose(&mut self, loss: Loss) {
        // What the way back cannot carry is not missing in the translation.
        if loss.toward != self.own {
            self.losses.push((self.number, loss));
        }
    }
}

fn halves(to: Version, policy: LossPolicy, salt: &str) -> (Driver, Driver) {
    let source = to.other();
    let half = |client, agent| {
        let options = BridgeOptions {
            keep_ids: true,
            policy,
            id_salt: salt.to_owned(),
            ..BridgeOptions::between(client, agent)
        };
        Driver::with_manual_clock(options)
    };
    (half(source, to), half(to, source))
}
