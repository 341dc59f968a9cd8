//! What a bridge is told when it is made.

use crate::Version;

/// What to do about things that cannot be carried over. They are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossPolicy {
    /// End the turn with an error.
    Strict,
    /// Say so in the session where a person would notice.
    #[default]
    Visible,
    /// Say nothing in the session.
    Quiet,
}

/// A revision of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The published proposals: `patch.diff`, `_meta` replaced.
    Spec,
    /// The newest draft: `patch.text`, `_meta` merged.
    Newest,
}

/// How much is remembered. Past a limit, what is at rest and was not used for the longest time is forgotten, which is
/// reported, or the request refused.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sessions in which all is remembered, and in which there may be work at the same time. 1,024; of 16 times as many
    /// more it is known where they are and which options they have.
    pub sessions: usize,
    /// Messages and tool calls of a session, each. 20,000.
    pub entries: usize,
    /// Bytes of content of one tool call, and of output of one terminal. 64 MiB.
    pub content: usize,
    /// Bytes that all sessions together hold. 512 MiB.
    pub total: usize,
    /// Requests without an answer, in each direction, and prompts that wait. 4,096.
    pub requests: usize,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 1024,
            entries: 20_000,
            content: 64 * 1024 * 1024,
            total: 512 * 1024 * 1024,
            requests: 4096,
            more: switchboard_acp::More,
        }
    }
}

/// How a bridge behaves.
#[derive(Debug, Clone)]
pub struct BridgeOptions {
    /// What to do about losses.
    pub policy: LossPolicy,
    /// The client's version; `None`: the one it asks for.
    pub client_version: Option<Version>,
    /// The agent's version; `None`: the client's if it can, else what it can.
    pub agent_version: Option<Version>,
    /// The dialect of a version 2 client; `None`: what it shows by what it says.
    pub client_dialect: Option<Dialect>,
    /// The dialect of a version 2 agent; `None`: what it shows by what it says.
    pub agent_dialect: Option<Dialect>,
    /// Whether messages for a version 1 client wait until the agent rests, so that what it takes back is never shown.
    pub hold_messages: bool,
    /// Whether files are read and written for a version 1 agent.
    pub serve_files: bool,
    /// Whether commands are run for a version 1 agent.
    pub serve_terminals: bool,
    /// Name of the agent's program, for agents that do not say their name.
    pub agent_name: String,
    /// Whether requests keep their ids on the other side: for recordings, where nobody else makes requests.
    pub keep_ids: bool,
    /// Milliseconds after which a prompt counts as accepted by a version 1 agent that shows no sign. 200.
    pub acceptance: u64,
    /// Milliseconds between two reports of growing tool output to a version 1 client. 50.
    pub coalescing: u64,
    /// Milliseconds after which the prompt of a version 1 client is answered although sub-agents are still said to be at
    /// work, if nothing was heard of them and the user is asked nothing. 600,000.
    pub background: u64,
    /// Whether others may work with the agent's sessions at the same time, as on a hub. The agent is then asked to say, when
    /// it takes a prompt, whether the work on it is over: an end that comes before that may be that of somebody else's prompt.
    pub is_shared: bool,
    /// A part of all ids that this bridge makes for messages and tool calls. A client may keep those that an earlier
    /// bridge made in the same session, for instance before the agent was restarted, so that no two bridges of a session
    /// may have the same. The bridge has no clock and no randomness: its host supplies a value that does not repeat, such
    /// as a random number. May be empty where a session has only one bridge, as in a recording. Empty.
    pub id_salt: String,
    /// What is remembered.
    pub limits: Limits,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        BridgeOptions {
            policy: LossPolicy::default(),
            client_version: None,
            agent_version: None,
            client_dialect: None,
            agent_dialect: None,
            hold_messages: false,
            serve_files: false,
            serve_terminals: false,
            agent_name: "agent".to_owned(),
            keep_ids: false,
            acceptance: 200,
            coalescing: 50,
            background: 600_000,
            is_shared: false,
            id_salt: String::new(),
            limits: Limits::default(),
            more: switchboard_acp::More,
        }
    }
}

impl BridgeOptions {
    /// The salt as it is in an id: with a separator, unless there is none.
    pub(crate) fn salt(&self) -> String {
        if self.id_salt.is_empty() { String::new() } else { format!("{}-", self.id_salt) }
    }

    /// A bridge whose sides are known beforehand, so that it translates from the first message on.
    pub fn between(client: Version, agent: Version) -> Self {
        BridgeOptions { client_version: Some(client), agent_version: Some(agent), ..Self::default() }
    }
}
