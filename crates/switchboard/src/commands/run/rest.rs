//! The end of a turn: running sub-agents, and usage.

use std::io;
use std::time::Duration;

use switchboard_acp::v2;
use switchboard_session::{Change, Conversation, EntryKind};

use super::conversation::Runner;
use super::halt::Halt;

/// Time for an agent to continue after its background sub-agents have ended.
const RESUME_GRACE: Duration = Duration::from_secs(1);

/// Maximum number of sub-agents named in a message.
const MOST_NAMED: usize = 5;

impl Runner {
    /// Waits for background sub-agents while they report progress.
    pub(super) async fn until_rest(&mut self, session: &str) -> Result<(), Halt> {
        let at_work = |runner: &Runner| {
            let sessions = runner.feed.sessions();
            !runner.is_closed && sessions.conversation(|all| all.is_at_work(session))
        };
        if !at_work(self) {
            return Ok(());
        }
        let names = self.feed.sessions().conversation(|all| {
            let children = all.children(session).filter(|(child, _)| all.is_at_work(child));
            children.take(MOST_NAMED).filter_map(|(child, _)| all.name(child)).collect::<Vec<_>>()
        });
        if self.stopping.is_none() && !names.is_empty() {
            self.view.note(&format!("the turn is over; waiting for {}", names.join(", ")))?;
        }
        loop {
            self.may_rest = true;
            let rests = |runner: &mut Runner| {
                let looks = std::mem::take(&mut runner.may_rest) || runner.is_closed;
                (looks && !at_work(runner)).then_some(())
            };
            self.drive_until(std::future::pending(), rests).await?;
            if self.is_closed || self.stopping.is_some() {
                return Ok(());
            }
            // Agents continue with the results of background work without announcing it.
            let quiet = async {
                tokio::time::sleep(RESUME_GRACE).await;
                false
            };
            let goes_on = |runner: &mut Runner| {
                (std::mem::take(&mut runner.may_rest) && at_work(runner)).then_some(true)
            };
            if !self.drive_until(quiet, goes_on).await? {
                return Ok(self.show_held_back()?);
            }
        }
    }

    pub(super) fn show_held_back(&mut self) -> io::Result<()> {
        let Runner { feed, view, .. } = self;
        feed.sessions().conversation(|all| view.turn_over(all))
    }

    /// Shows the tokens of the last turn if the agent reported them.
    pub(super) fn print_usage(&mut self) -> io::Result<()> {
        let Some(session) = self.usage_of.take() else { return Ok(()) };
        let words = self.feed.sessions().get(&session, |session| {
            let mut words = Vec::new();
            if let Some(v2::StateUpdate::Idle(v2::IdleState { usage: Some(usage), .. })) = session.state() {
                let (all, sent, got) = (usage.total_tokens, usage.input_tokens, usage.output_tokens);
                words.push(format!("{all} tokens used ({sent} in, {got} out)"));
            }
            if let Some(usage) = session.usage() {
                words.push(format!("context {} of {} tokens", usage.used, usage.size));
                if let Some(cost) = &usage.cost {
                    words.push(format!("cost {} {}", cost.amount, cost.currency));
                }
            }
            words.join(", ")
        });
        match words.filter(|words| !words.is_empty()) {
            Some(words) => self.view.note(&words),
            None => Ok(()),
        }
    }
}

/// Returns a session and its running sub-agents that can be cancelled.
pub(super) fn to_cancel(all: &Conversation, session: &str) -> Vec<String> {
    let below = all.subagents().to_cancel(session);
    [session.to_owned()].into_iter().chain(below.iter().map(ToString::to_string)).collect()
}

/// Returns whether a change may start or end work.
pub(super) fn is_about_states(change: &Change) -> bool {
    match change {
        Change::State => true,
        Change::Entry(change) => matches!(change.kind, EntryKind::Subagent | EntryKind::ToolCall),
        _ => false,
    }
}
