//! Version 1 sessions, translated like `convert`.

use switchboard_bridge::{LossPolicy, Moment, RecordingBridge, Side, Version};
use switchboard_store::{Channel, Record};

/// Translates the messages of a session to version 2.
pub(super) struct Translation {
    bridge: RecordingBridge,
    at: Moment,
}

impl Translation {
    pub(super) fn new() -> Self {
        Translation { bridge: RecordingBridge::with_policy(Version::V2, LossPolicy::Quiet), at: Moment(0) }
    }

    /// Returns the translation of a record. Notes about messages are kept, and everything else is left out.
    pub(super) fn take(&mut self, record: &Record) -> Vec<Record> {
        let from = match record.channel {
            Channel::ToAgent => Side::Client,
            Channel::ToClient => Side::Agent,
            Channel::Hub => return vec![record.clone()],
            _ => return Vec::new(),
        };
        let Ok(text) = std::str::from_utf8(&record.bytes) else { return Vec::new() };
        self.at = record.time;
        self.bridge.take(Some(from), text, record.time);
        self.drain()
    }

    /// Returns the held records.
    pub(super) fn finish(mut self) -> Vec<Record> {
        self.bridge.finish();
        self.drain()
    }

    fn drain(&mut self) -> Vec<Record> {
        let at = self.at;
        let channel = |from| if from == Side::Client { Channel::ToAgent } else { Channel::ToClient };
        self.bridge.drain().map(|line| Record::new(channel(line.from), line.text).at(at)).collect()
    }
}
