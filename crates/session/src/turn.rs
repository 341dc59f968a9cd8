//! Prompts and their outcomes.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard_acp::rpc::{RequestId, RpcError};
use switchboard_acp::{Moment, Wire, v2};

/// Maximum number of prompts kept per session. Beyond it, the oldest ended ones are evicted.
const MAX_TURNS: usize = 1000;

/// A prompt and the work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    id: RequestId<'static>,
    asked_at: Moment,
    position: usize,
    message_id: Option<Arc<str>>,
    /// True if other work was running when the prompt was sent. The end of that work is not the end of this
    /// prompt.
    busy: bool,
    /// True if the agent has confirmed that the prompt is part of the conversation.
    inserted: bool,
    /// True if the session has worked since.
    ran: bool,
    /// True if the session has been idle since, which need not be the end of this prompt.
    was_idle: bool,
    end: Option<TurnEnd>,
}

/// Outcome and time of the end of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnEnd {
    /// Outcome.
    pub outcome: TurnOutcome,
    /// Time.
    pub at: Moment,
}

/// Outcome of the work on a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnOutcome {
    /// The session became idle. Contains the agent's details: reason and error.
    Idle(Arc<v2::IdleState<'static>>),
    /// The agent refused the prompt.
    Refused(RpcError<'static>),
    /// The connection ended first.
    ConnectionEnd,
}

impl Turn {
    /// Returns the id of the request with the prompt.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the time when it was sent.
    pub fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Returns the number of entries in the transcript at that time.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the id of the message that the prompt became, if the agent reported it.
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// Returns true if the agent has confirmed that the prompt is part of the conversation.
    pub fn is_inserted(&self) -> bool {
        self.inserted
    }

    /// Returns the end of the work on it, once it has ended. A prompt ends only after the agent has accepted
    /// it, even if the session was idle before.
    pub fn end(&self) -> Option<&TurnEnd> {
        self.end.as_ref().filter(|end| self.inserted || !matches!(end.outcome, TurnOutcome::Idle(_)))
    }
}

/// The prompts of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    turns: VecDeque<Turn>,
    /// Number of prompts that have not ended.
    open: usize,
}

impl Turns {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter()
    }

    /// Returns true if work on a prompt is running or has yet to start. The work may have ended before the
    /// agent confirms the prompt, and an idle agent counts as done even if it never reported that it started.
    pub(crate) fn are_at_work(&self) -> bool {
        self.has_open() && self.turns.iter().rev().any(|turn| turn.end.is_none() && !turn.was_idle)
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn begin(&mut self, id: RequestId<'static>, is_working: bool, position: usize, at: Moment) {
        // An earlier open prompt counts as other work too: prompts are worked on in order.
        let busy = is_working || self.open > 0;
        if self.turns.len() >= MAX_TURNS {
            let oldest = self.turns.iter().position(|turn| turn.end().is_some()).unwrap_or(0);
            if self.turns.remove(oldest).is_some_and(|turn| turn.end().is_none()) {
                self.open -= 1;
            }
        }
        self.turns.push_back(Turn {
            id,
            asked_at: at,
            position,
            message_id: None,
            busy,
            inserted: false,
            ran: false,
            was_idle: false,
            end: None,
        });
        self.open += 1;
    }

    /// Changes the open prompts and returns those that ended.
    fn settle(&mut self, mut change: impl FnMut(&mut Turn)) -> Vec<RequestId<'static>> {
        let mut over = Vec::new();
        for turn in self.turns.iter_mut().filter(|turn| turn.end().is_none()) {
            change(turn);
            if turn.end().is_some() {
                over.push(turn.id.clone());
            }
        }
        self.open -= over.len();
        over
    }

    /// Applies the agent's response to a prompt.
    pub(crate) fn answered(
        &mut self,
        id: &RequestId<'_>,
        answer: Result<Option<&str>, &RpcError<'_>>,
        at: Moment,
    ) -> Vec<RequestId<'static>> {
        // Ids may be reused: the latest prompt is the pending one.
        self.settle(|turn| {
            // An inserted prompt has its response, so this one belongs to a reused id.
            if turn.id != *id || turn.inserted {
                return;
            }
            match answer {
                Ok(message_id) => {
                    turn.inserted = true;
                    turn.message_id = message_id.map(Into::into);
                }
                Err(error) => {
                    let outcome = TurnOutcome::Refused(error.clone().into_owned());
                    turn.end = Some(TurnEnd { outcome, at });
                }
            }
        })
    }

    /// Applies a state of the session.
    pub(crate) fn note_state(&mut self, state: &v2::StateUpdate<'_>, at: Moment) -> Vec<RequestId<'static>> {
        self.settle(|turn| {
            // Until the prompt is inserted, states belong to the other work.
            if turn.busy && !turn.inserted {
                return;
            }
            turn.was_idle = matches!(state, v2::StateUpdate::Idle(_));
            match state {
                // Idle without a reason is also reported if no work has ended, for example after a session
                // was opened.
                v2::StateUpdate::Idle(idle) if turn.ran || idle.stop_reason.is_some() => {
                    turn.end.get_or_insert_with(|| TurnEnd {
                        outcome: TurnOutcome::Idle(Arc::new(idle.clone().into_owned())),
                        at,
                    });
                }
                v2::StateUpdate::Idle(_) => {}
                _ => turn.ran = true,
            }
        })
    }

    pub(crate) fn connection_ended(&mut self, at: Moment) -> Vec<RequestId<'static>> {
        self.settle(|turn| turn.end = Some(TurnEnd { outcome: TurnOutcome::ConnectionEnd, at }))
    }

    /// Removes a prompt that was never sent.
    pub(crate) fn forget(&mut self, id: &RequestId<'_>) {
        if let Some(place) = self.turns.iter().rposition(|turn| turn.id == *id)
            && self.turns.remove(place).is_some_and(|turn| turn.end().is_none())
        {
            self.open -= 1;
        }
    }
}
