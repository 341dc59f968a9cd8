//! What a client of our own sees of its agent, as records.

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Side, Version, WireFormat};
use switchboard_peer::{Observed, WireSide};
use switchboard_store::{Channel, Record};
use switchboard_transport::Direction;

use super::Sink;

/// On which side of a translation lines are seen. The session's own messages are those of version 2: an agent of
/// version 1 stands on the other side.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// Whether the agent is translated, once its answer to the handshake has shown it. What is said before is the same
    /// on both sides.
    is_translated: Option<bool>,
    /// The handshake that the agent got. The translation is asked the same once more, which nobody needs to read.
    handshake: Option<String>,
}

impl Sides {
    /// The channel of a line; `None` where the same has been recorded already.
    fn channel(&mut self, side: WireSide, direction: Direction, line: &str) -> Option<Channel> {
        if side == WireSide::Agent && self.is_translated.is_none() {
            match direction {
                Direction::Sent => self.handshake = Some(line.to_owned()),
                Direction::Received => self.is_translated = shows_translation(line),
            }
        }
        if side == WireSide::Canonical
            && direction == Direction::Sent
            && self.handshake.take().is_some_and(|handshake| handshake == line)
        {
            return None;
        }
        let is_other = side == WireSide::Agent && self.is_translated == Some(true);
        let from = if direction == Direction::Sent { Side::Client } else { Side::Agent };
        Some(Channel::of_message(from, is_other))
    }
}

/// Whether a line is an answer to the handshake in version 2, and shows that the agent will be translated.
fn shows_translation(line: &str) -> Option<bool> {
    let Ok(Message::Response(answer)) = Message::decode(line, WireFormat::Any) else { return None };
    // One that refuses version 2 is asked for version 1.
    Some(answer.outcome.map_or(true, |result| Handshake::of_answer(&result).version == Version::V1))
}

impl Sink {
    pub(super) fn see(&mut self, observed: Observed<'_>) -> Result<(), String> {
        match observed {
            Observed::Line { side, direction, line } => {
                let channel = self.sides.channel(side, direction, line);
                if let Some(is_translated) = self.sides.is_translated {
                    self.versions = (2, if is_translated { 1 } else { 2 });
                }
                match channel {
                    Some(channel) => self.append(Record::new(channel, line)),
                    None => Ok(()),
                }
            }
            Observed::Anomaly(anomaly) if anomaly.is_no_message() && anomaly.is_worth_telling() => {
                self.set_aside(Side::Agent, &anomaly.to_string())
            }
            Observed::Loss(loss) => match serde_json::to_string(loss) {
                Ok(loss) => self.append(Record::new(Channel::Diagnostic, loss)),
                Err(error) => Err(error.to_string()),
            },
            // Other anomalies are messages, which have been seen as such, and the version shows in the handshake.
            _ => Ok(()),
        }
    }
}
