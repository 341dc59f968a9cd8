//! State as clients have it: the fold of the actions they were sent.
//!
//! The reducers are those of the protocol's own crate, so that a snapshot equals the state of a client that has folded
//! all actions before it. An action that the reducers do not apply changes nothing for any client and is not sent.

use std::sync::Arc;

use ahp::reducers::{
    ReduceOutcome, apply_action_to_chat, apply_action_to_root, apply_action_to_session,
    apply_action_to_terminal,
};
use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, RootState, SessionState, TerminalState};
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_acp::Moment;

/// State of a channel.
pub(crate) trait Folded {
    /// Applies an action. Returns false if it changes nothing.
    fn reduce(&mut self, action: &StateAction) -> ReduceOutcome;
}

macro_rules! folded {
    ($($state:ty, $reduce:path;)*) => {$(
        impl Folded for $state {
            fn reduce(&mut self, action: &StateAction) -> ReduceOutcome {
                $reduce(self, action)
            }
        }
    )*};
}

folded! {
    RootState, apply_action_to_root;
    SessionState, apply_action_to_session;
    ChatState, apply_action_to_chat;
    TerminalState, apply_action_to_terminal;
}

/// An action for the subscribers of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) channel: Arc<str>,
    pub(crate) action: Value,
    /// Client that dispatched it.
    pub(crate) origin: Option<Value>,
    /// Reason why it counts for no client.
    pub(crate) rejected: Option<String>,
}

/// Collects actions in the order in which clients get them.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) now: Moment,
    pub(crate) sent: Vec<Sent>,
    /// Number of actions that changed nothing and were not sent.
    pub(crate) skipped: usize,
}

impl Sink {
    pub(crate) fn new(now: Moment) -> Self {
        Sink { now, sent: Vec::new(), skipped: 0 }
    }

    /// Applies an action of the host and sends it, unless it changes nothing.
    pub(crate) fn act(&mut self, channel: &Arc<str>, state: &mut impl Folded, action: Value) -> bool {
        match apply(state, &action) {
            Ok(()) => {
                self.sent.push(Sent { channel: Arc::clone(channel), action, origin: None, rejected: None });
                true
            }
            Err(_) => {
                self.skipped += 1;
                false
            }
        }
    }
}

/// Applies an action. Fails with the reason if it is malformed or does not concern the state; an action that changes
/// nothing is not an error of the client, but is reported as `changes nothing`.
pub(crate) fn apply(state: &mut impl Folded, action: &Value) -> Result<(), String> {
    let typed: StateAction =
        serde_json::from_value(action.clone()).map_err(|error| format!("malformed action: {error}"))?;
    if matches!(typed, StateAction::Unknown(_)) {
        return Err("unknown action".to_owned());
    }
    match state.reduce(&typed) {
        ReduceOutcome::Applied => Ok(()),
        ReduceOutcome::NoOp => Err("the action changes nothing".to_owned()),
        ReduceOutcome::OutOfScope => Err("the action does not belong to this channel".to_owned()),
        ReduceOutcome::Invalid(error) => Err(format!("malformed action: {error}")),
    }
}

/// Builds a state from JSON that this crate wrote itself.
pub(crate) fn state<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}
