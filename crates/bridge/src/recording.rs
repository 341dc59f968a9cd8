//! Recordings: both sides of a conversation in one version, translated into the other.

use std::collections::VecDeque;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{BATCH_LIMIT, Message, RequestId, batch_entries};
use switchboard_acp::{DecodeError, SenderTracker, Wire, WireFormat};

use crate::context::session_of;
use crate::driver::{Driver, Outputs, Port};
use crate::loss::{Severity, element_of};
use crate::recorded_terminals::{RecordedTerminals, TerminalEvent};
use crate::{BridgeOptions, Loss, LossPolicy, Moment, Side, Version};

/// Translates a recorded conversation, in which both sides use the same version, into the other version.
///
/// Two bridges are connected back to back: the recorded client talks to the first and the recorded agent to
/// the second; the messages between them are the translated conversation. Parts of the recording that are
/// already in the wanted version, according to their handshake, pass unchanged.
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
    /// The bridge of the recorded client.
    near: Driver,
    /// The bridge of the recorded agent.
    far: Driver,
    /// Lines of each half for the other, in the order of delivery: those of `near` first.
    from_near: Vec<TranslatedLine>,
    from_far: Vec<TranslatedLine>,
    /// Set if the recording is already in the wanted version.
    passes: bool,
    undecided: Option<Undecided>,
    senders: SenderTracker,
    terminals: RecordedTerminals,
    lines: VecDeque<TranslatedLine>,
    /// Number of the line that is being translated, and of the last line received.
    number: u64,
    taken: u64,
    /// Set if any message belonged to a session.
    has_sessions: bool,
    losses: Vec<(u64, Loss)>,
    back: Vec<TranslatedLine>,
}

/// Lines since a handshake whose response will determine the version.
#[derive(Debug)]
struct Undecided {
    handshake: RequestId<'static>,
    lines: Vec<(u64, Side, String, Moment)>,
}

/// One message of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedLine {
    /// The sender.
    pub from: Side,
    /// The message.
    pub text: String,
}

/// Maximum number of lines held while a handshake waits for its response.
const UNDECIDED: usize = 1000;

impl RecordingBridge {
    /// Creates a translation into a version.
    pub fn new(to: Version) -> Self {
        RecordingBridge::with_policy(to, LossPolicy::default())
    }

    /// Creates a translation with a loss policy.
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

    /// Translates the next message of the recording. An unknown sender is guessed. An invalid line is
    /// reported as a loss, and translation continues.
    pub fn take(&mut self, from: Option<Side>, line: &str, now: Moment) {
        self.take_numbered(self.taken + 1, from, line, now);
    }

    /// Translates a line with an explicit line number, for recordings that have other lines between the
    /// messages.
    pub fn take_numbered(&mut self, number: u64, from: Option<Side>, line: &str, now: Moment) {
        (self.taken, self.number) = (number, number);
        let message = Message::decode(line, WireFormat::Any);
        let from = from.unwrap_or_else(|| self.guess_sender(message.as_ref().ok()));
        match &message {
            Err(error) if batch_entries(line, BATCH_LIMIT).is_err() => return self.report_loss(from, error),
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
                // The handshake was refused: no version is known, and the conversation is assumed to be in
                // the other one.
                let version = response.outcome.as_ref().ok();
                let version = version.filter(|result| result.get("protocolVersion").is_some());
                self.decide(version.map(|result| Handshake::of_answer(result).version));
            }
            _ if full => self.decide(None),
            _ => {}
        }
    }

    /// Guesses the sender of a message if the recording does not name it. Without any evidence, requests are
    /// assigned to the client and everything else to the agent.
    fn guess_sender(&mut self, message: Option<&Message<'_>>) -> Side {
        let shown = message.and_then(|message| self.senders.sender(message));
        shown.unwrap_or(match message {
            Some(Message::Request(_)) => Side::Client,
            _ => Side::Agent,
        })
    }

    /// Reports an invalid line.
    fn report_loss(&mut self, from: Side, error: &DecodeError) {
        let loss = Loss {
            session: None,
            message: "line".to_owned(),
            element: String::new(),
            pointer: String::new(),
            reason: format!("invalid line, left out: {error}"),
            severity: Severity::Major,
            toward: from.other(),
        };
        self.losses.push((self.number, loss));
    }

    /// Sets the version and translates the lines that waited for it.
    fn decide(&mut self, version: Option<Version>) {
        let Some(undecided) = self.undecided.take() else { return };
        self.passes = version == Some(self.to);
        for (number, from, line, now) in undecided.lines {
            self.number = number;
            self.convert(from, &line, now);
        }
        self.number = self.taken;
    }

    /// Starts a new connection with this line. Ids created in it contain its number, so that they differ from
    /// those of an earlier connection with the same session but are the same in every translation of the
    /// recording.
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
            return self.send_terminal_event(told, message.as_ref(), now);
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

    /// Sends the update that a message about a client terminal leads to.
    fn send_terminal_event(&mut self, told: TerminalEvent, message: Option<&Message<'_>>, now: Moment) {
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

    /// Exchanges lines after a line of the recording. A request that is answered at once was refused: the
    /// other side never receives it, regardless of the error's wording.
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

    /// Returns the half that talks to one side of the recording.
    fn half(&mut self, own: Side) -> &mut Driver {
        match own {
            Side::Client => &mut self.near,
            Side::Agent => &mut self.far,
        }
    }

    /// Sorts the output of a half: for its own side of the recording, or for the other half. No line is
    /// forwarded unchanged, because each half knows the versions of both its sides.
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

    /// Exchanges lines between the two halves until none are left.
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

    /// Ends the recording and releases held output.
    pub fn finish(&mut self) {
        self.decide(None);
        self.finish_halves();
    }

    /// Removes and returns the translated messages.
    pub fn drain(&mut self) -> impl Iterator<Item = TranslatedLine> + '_ {
        self.lines.drain(..)
    }

    /// Removes and returns the losses since the last call, each with its line number.
    pub fn take_losses(&mut self) -> Vec<(u64, Loss)> {
        std::mem::take(&mut self.losses)
    }

    /// Removes and returns the translation translated back, as each recorded side would receive it.
    pub fn take_back(&mut self) -> Vec<TranslatedLine> {
        std::mem::take(&mut self.back)
    }
}

/// Receiver of the output of one half of a recording.
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

    fn report_loss(&mut self, loss: Loss) {
        // A loss on the way back is not missing in the translation.
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
