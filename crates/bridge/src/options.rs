//! Options of a bridge.

use crate::Version;

/// Treatment of losses. Every loss is reported in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossPolicy {
    /// End the turn with an error.
    Strict,
    /// Show a notice in the session if a user would notice the loss.
    #[default]
    Visible,
    /// Show nothing in the session.
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

/// Limits of the retained state. Above a limit, the bridge evicts the least recently used idle sessions and
/// reports that as a loss, or refuses the request.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sessions with full history, and sessions with work in progress at the same time. Default: 1,024. For
    /// 16 times as many further sessions the directories and options are retained.
    pub sessions: usize,
    /// Messages per session, and tool calls per session. Default: 20,000.
    pub entries: usize,
    /// Bytes of content per tool call, and of output per terminal. Default: 64 MiB.
    pub content: usize,
    /// Bytes of all sessions together. Default: 512 MiB.
    pub total: usize,
    /// Pending requests in each direction, and queued prompts. Default: 4,096.
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

/// Behaviour of a bridge.
#[derive(Debug, Clone)]
pub struct BridgeOptions {
    /// Treatment of losses.
    pub policy: LossPolicy,
    /// Version of the client; `None`: the version it requests.
    pub client_version: Option<Version>,
    /// Version of the agent; `None`: the client's version if the agent supports it, else the agent's own.
    pub agent_version: Option<Version>,
    /// Dialect of a version 2 client; `None`: detected from its messages.
    pub client_dialect: Option<Dialect>,
    /// Dialect of a version 2 agent; `None`: detected from its messages.
    pub agent_dialect: Option<Dialect>,
    /// Set if messages for a version 1 client are held until the agent is idle, so that text which the agent
    /// retracts is never shown.
    pub hold_messages: bool,
    /// Set if the bridge reads and writes files for a version 1 agent.
    pub serve_files: bool,
    /// Set if the bridge runs commands for a version 1 agent.
    pub serve_terminals: bool,
    /// Name of the agent's program, for agents that do not send a name.
    pub agent_name: String,
    /// Set if requests keep their ids on the other side. For recordings, where no other requests exist.
    pub keep_ids: bool,
    /// Milliseconds after which a prompt counts as accepted by a version 1 agent that shows no sign of it.
    /// Default: 200.
    pub acceptance: u64,
    /// Milliseconds between two reports of growing tool output to a version 1 client. Default: 50.
    pub coalescing: u64,
    /// Milliseconds without news of running sub-agents or a pending question after which the prompt of a
    /// version 1 client is answered anyway. Default: 600,000.
    pub background: u64,
    /// Set if other clients may work with the agent's sessions at the same time, as on a hub. The agent is
    /// then asked to say, when it accepts a prompt, whether the work on it is already over; an end that
    /// arrives before that may belong to another client's prompt.
    pub is_shared: bool,
    /// Part of every message and tool call id that this bridge creates. Clients may keep ids of an earlier
    /// bridge of the same session, for example from before a restart of the agent, so no two bridges of a
    /// session may share a salt. The bridge has no clock and no randomness: the caller supplies a value that
    /// does not repeat, such as a random number. May be empty if a session has only one bridge, as in a
    /// recording. Default: empty.
    pub id_salt: String,
    /// Limits of the retained state.
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
    /// Returns the salt with a trailing separator, or an empty string.
    pub(crate) fn salt(&self) -> String {
        if self.id_salt.is_empty() { String::new() } else { format!("{}-", self.id_salt) }
    }

    /// Returns options for peers of known versions, so that the bridge translates from the first message on.
    pub fn between(client: Version, agent: Version) -> Self {
        BridgeOptions { client_version: Some(client), agent_version: Some(agent), ..Self::default() }
    }
}
