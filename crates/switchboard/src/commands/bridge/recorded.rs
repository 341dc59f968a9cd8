//! Recording of the bridge.

use switchboard_bridge::{Side, Version};
use switchboard_store::Channel;
use switchboard_transport::{Child, Exit};

use crate::recording::{Recording, Watch};

/// The recorded sides: the side of version 2, and the other one as a second channel. A file gets the client's
/// side.
pub(super) struct BridgeRecording {
    pub(super) recording: Recording,
    watch: Watch,
    /// The side of the session's own messages, once it is known.
    side: Option<Side>,
}

impl BridgeRecording {
    pub(super) fn new(recording: Recording, child: &Child, is_file: bool) -> Self {
        BridgeRecording {
            watch: recording.watch(child),
            recording,
            side: if is_file { Some(Side::Client) } else { None },
        }
    }

    /// Follows another process of the agent.
    pub(super) fn follow(&mut self, child: &Child) {
        self.watch = self.recording.watch(child);
    }

    /// Records a line of one side. It is durable after the next commit.
    pub(super) fn line(&mut self, at: Side, from: Side, line: &str, versions: Option<(Version, Version)>) {
        self.settle(versions);
        self.recording.put(self.channel(at, from), line);
    }

    /// Determines the side of the session's own messages once the versions are known.
    fn settle(&mut self, versions: Option<(Version, Version)>) {
        if let (None, Some((client, agent))) = (self.side, versions) {
            if client == Version::V1 && agent == Version::V2 {
                self.side = Some(Side::Agent);
                self.recording.versions(agent.number(), client.number());
            } else {
                self.side = Some(Side::Client);
                self.recording.versions(client.number(), agent.number());
            }
        }
    }

    fn channel(&self, at: Side, from: Side) -> Channel {
        Channel::of_message(from, at != self.side())
    }

    /// Records a line that is the same on both sides once.
    pub(super) fn forwarded(&mut self, from: Side, line: &str, versions: Option<(Version, Version)>) {
        self.line(self.side(), from, line, versions);
    }

    /// Records several such lines with line ends between them, which are durable at once.
    pub(super) fn forwarded_lines(&mut self, from: Side, lines: &str, versions: Option<(Version, Version)>) {
        self.settle(versions);
        self.recording.lines(self.channel(self.side(), from), lines);
    }

    /// Returns the recorded side. Before the versions are known nothing is translated: both sides are the
    /// same.
    fn side(&self) -> Side {
        self.side.unwrap_or(Side::Client)
    }

    /// Returns whether the session's own messages are those of the agent's side.
    pub(super) fn is_of_agent(&self) -> bool {
        self.side == Some(Side::Agent)
    }

    pub(super) async fn finish(self, exit: Option<Exit>) {
        self.recording.finish(self.watch, exit).await;
    }
}
