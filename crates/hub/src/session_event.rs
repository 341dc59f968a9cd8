//! Events of a session that people may want to be notified of.

use std::sync::Arc;
use std::time::Duration;

/// An event of a session. The record that it follows from is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionEvent {
    /// Id of the session. The question of a sub-agent is an event of the session that it belongs to.
    pub session: Arc<str>,
    /// Name of the agent.
    pub agent: String,
    /// Title that the agent gave the session. Prompts are not part of events.
    pub title: Option<String>,
    /// Working folder.
    pub folder: String,
    /// Tokens that see the session beside those that see every session: their names and creation times. The token that
    /// started it is one of them.
    pub shared_with: Vec<(Arc<str>, i64)>,
    /// The event.
    pub kind: SessionEventKind,
}

impl SessionEvent {
    /// Creates an event of a session without a title, which is not shared.
    pub fn new(session: &str, agent: &str, folder: &str, kind: SessionEventKind) -> Self {
        let (session, agent, folder) = (session.into(), agent.to_owned(), folder.to_owned());
        SessionEvent { session, agent, title: None, folder, shared_with: Vec::new(), kind }
    }
}

/// Kind of a [`SessionEvent`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEventKind {
    /// A question waits for an answer, and no rule has answered it. Sent again with the same id when the question
    /// changes while it waits.
    Asked(PendingQuestionEvent),
    /// A question was answered or cancelled, or its agent has exited.
    Resolved {
        /// Id of the question.
        question: u64,
        /// Name of the token that answered it; `None` if no client did.
        by: Option<String>,
    },
    /// A turn ended by itself.
    TurnEnded {
        /// Stop reason of the agent.
        reason: String,
        /// Time since the prompt.
        duration: Duration,
    },
    /// A turn ended with an error or a refusal.
    TurnFailed {
        /// The reason, as the agent gave it.
        reason: String,
    },
    /// The agent process exited during a turn, or could not be started for a prompt.
    AgentDied {
        /// The reason.
        reason: String,
    },
}

/// A pending question, for people who do not look at its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingQuestionEvent {
    /// Id of the question, unique in its session.
    pub id: u64,
    /// The request without its details, such as "asks to run a command".
    pub action: &'static str,
    /// Title, command line and paths, one per line.
    pub details: String,
    /// True if `details` has everything that the question is about.
    pub is_complete: bool,
    /// Options of a permission request.
    pub options: Vec<QuestionOption>,
}

/// Result of an answer to a question that was shown elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerResult {
    /// The answer was recorded and sent to the agent.
    Answered,
    /// The question is no longer as it was shown. It stays pending.
    Changed,
    /// The question is not pending.
    NotPending,
}

/// An option of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// Id of the option.
    pub id: String,
    /// Label.
    pub name: String,
    /// Kind, such as `allow_once`.
    pub kind: String,
}
