//! A running prompt and its end.

use std::sync::Arc;

use switchboard_acp::rpc::{RequestId, RpcError};
use switchboard_acp::v2;
use tokio::sync::watch;

use super::state::ClientInner;
use crate::Error;

/// End of the work on a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptEnd {
    /// The stop reason if the agent sent one.
    pub stop_reason: Option<v2::StopReason>,
    /// The error if the agent sent one.
    pub error: Option<RpcError<'static>>,
}

/// Progress of a turn.
#[derive(Debug, Clone, Default)]
pub(crate) enum Progress {
    #[default]
    Running,
    Ended(PromptEnd),
}

/// A prompt that is part of the conversation.
#[derive(Debug)]
pub struct PromptTurn {
    pub(super) message_id: Option<String>,
    pub(super) id: RequestId<'static>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) shared: Arc<ClientInner>,
}

impl PromptTurn {
    /// Returns the id of the prompt's message if the agent sent it.
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// Waits until the session is idle again. The feed must be driven meanwhile.
    pub async fn ended(&mut self) -> Result<PromptEnd, Error> {
        let ended = self.progress.wait_for(|progress| matches!(progress, Progress::Ended(_))).await;
        match ended.as_deref() {
            Ok(Progress::Ended(end)) => Ok(end.clone()),
            // The sender is only dropped with the connection.
            Ok(Progress::Running) | Err(_) => Err(self.shared.lost()),
        }
    }
}

impl Drop for PromptTurn {
    fn drop(&mut self) {
        self.shared.state().stop_waiting(&self.id);
    }
}
