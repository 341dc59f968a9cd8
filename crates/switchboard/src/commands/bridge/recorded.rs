//! What the bridge records.

use switchboard_bridge::{Side, Version};
use switchboard_store::Channel;
use switchboard_transport::{Child, Exit};

use crate::recording::{Recording, Watch};

/// What is recorded: the side that speaks version 2, and the other one beside it. A file gets what the client
/// sends and sees.
pub(super) struct BridgeRecording {
    pub(super) recording: Recording,
    watch: Watch,
    /// The side whose messages are those of the session, where it is settled.
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

    /// Takes a line that one side sent or got. It is safe after the next commit.
    pub(super) fn line(&mut self, at: Side, from: Side, line: &str, versions: Option<(Version, Version)>) {
        self.settle(versions);
        self.recording.put(self.channel(at, from), line);
    }

    /// Where the versions are known, it is settled which messages are those of the session.
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

    /// A line that is the same on both sides is recorded once.
    pub(super) fn forwarded(&mut self, from: Side, line: &str, versions: Option<(Version, Version)>) {
        self.line(self.side(), from, line, versions);
    }

    /// The same for several lines with their ends between them, which are safe at once.
    pub(super) fn forwarded_lines(&mut self, from: Side, lines: &str, versions: Option<(Version, Version)>) {
        self.settle(versions);
        self.recording.lines(self.channel(self.side(), from), lines);
    }

    /// Before the versions are settled nothing is translated: both sides are the same.
    fn side(&self) -> Side {
        self.side.unwrap_or(Side::Client)
    }

    /// Whether the messages of the session are those that the agent sends and gets.
    pub(super) fn is_of_agent(&self) -> bool {
        self.side == Some(Side::Agent)
    }

    pub(super) async fn finish(self, exit: Option<Exit>) {
        self.recording.finish(self.watch, exit).await;
    }
}
