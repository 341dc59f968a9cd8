//! Records of the events that our own client observes.

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::Message;
use switchboard_acp::{Side, Version, WireFormat};
use switchboard_peer::{Observed, WireSide};
use switchboard_store::{Channel, Record};
use switchboard_transport::Direction;

use super::Sink;

/// Side of a translation on which lines are observed. The session's own messages are version 2: a version 1
/// agent is on the other side.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// True if the agent is translated, once its handshake response has shown it. Earlier messages are the
    /// same on both sides.
    is_translated: Option<bool>,
    /// The handshake that the agent got. The translation gets the same one, which is not recorded again.
    handshake: Option<String>,
}

impl Sides {
    /// Returns the channel of a line; `None` if it was already recorded.
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

/// Returns whether a line is a response to a version 2 handshake which shows that the agent will be
/// translated.
fn shows_translation(line: &str) -> Option<bool> {
    let Ok(Message::Response(answer)) = Message::decode(line, WireFormat::Any) else { return None };
    // An agent that refuses version 2 is asked for version 1.
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
            // Other anomalies are messages, which were observed as such, and the handshake shows the version.
            _ => Ok(()),
        }
    }
}
