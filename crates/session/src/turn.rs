//! Prompts, and what became of them.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard_acp::rpc::{RequestId, RpcError};
use switchboard_acp::{Moment, Wire, v2};

/// How many prompts of a session are remembered; of more, the oldest that are over go.
const MAX_TURNS: usize = 1000;

/// A prompt and the work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    id: RequestId<'static>,
    asked_at: Moment,
    position: usize,
    message_id: Option<Arc<str>>,
    /// Other work was under way when the prompt was sent, whose end is not this one's.
    busy: bool,
    /// The agent has said that the prompt is part of the conversation.
    inserted: bool,
    /// The session has worked since.
    ran: bool,
    /// The session has said since that it does nothing, which need not be the end of this.
    rested: bool,
    end: Option<TurnEnd>,
}

/// How and when the work on a prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// When.
    pub at: Moment,
}

/// How the work on a prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnOutcome {
    /// The session became idle, with all that the agent said of that: the reason, and what failed.
    Idle(Arc<v2::IdleState<'static>>),
    /// The agent did not take the prompt.
    Refused(RpcError<'static>),
    /// The connection ended first.
    ConnectionEnd,
}

impl Turn {
    /// The id of the request that sent the prompt.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// When it was sent.
    pub fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// How many entries the transcript had then.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The message that the prompt became, where the agent told it.
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// Whether the agent has said that the prompt is part of the conversation.
    pub fn is_inserted(&self) -> bool {
        self.inserted
    }

    /// How the work on it ended, once it has. A prompt is over only after the agent has taken it, even where the session
    /// was idle before the agent said so.
    pub fn end(&self) -> Option<&TurnEnd> {
        self.end.as_ref().filter(|end| self.inserted || !matches!(end.outcome, TurnOutcome::Idle(_)))
    }
}

/// The prompts of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    turns: VecDeque<Turn>,
    /// How many are not over.
    open: usize,
}

impl Turns {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter()
    }

    /// Whether work on one of them goes on or is yet to begin. It may be over before the agent says that it took the prompt,
    /// and where the agent rests nobody waits for it, even if it never said that it began.
    pub(crate) fn are_at_work(&self) -> bool {
        self.has_open() && self.turns.iter().rev().any(|turn| turn.end.is_none() && !turn.rested)
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn begin(&mut self, id: RequestId<'static>, is_working: bool, position: usize, at: Moment) {
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
            rested: false,
            end: None,
        });
        self.open += 1;
    }

    /// Changes the open prompts, and gives those that are over thereby.
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

    /// The agent has answered a prompt.
    pub(crate) fn answered(
        &mut self,
        id: &RequestId<'_>,
        answer: Result<Option<&str>, &RpcError<'_>>,
        at: Moment,
    ) -> Vec<RequestId<'static>> {
        // Ids may be used again: it is the latest that waits.
        self.settle(|turn| {
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

    /// The session has told its state.
    pub(crate) fn note_state(&mut self, state: &v2::StateUpdate<'_>, at: Moment) -> Vec<RequestId<'static>> {
        self.settle(|turn| {
            // What happens before another turn's end has nothing to do with a prompt that is not inserted yet.
            if turn.busy && !turn.inserted {
                return;
            }
            turn.rested = matches!(state, v2::StateUpdate::Idle(_));
            match state {
                // Idle without a reason is also told where nothing has ended, as after a session was opened.
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

    /// Nobody waits for a prompt any more that was never sent.
    pub(crate) fn forget(&mut self, id: &RequestId<'_>) {
        if let Some(place) = self.turns.iter().rposition(|turn| turn.id == *id)
            && self.turns.remove(place).is_some_and(|turn| turn.end().is_none())
        {
            self.open -= 1;
        }
    }
}
