//! The interface that both translators share and the bridge drives.

use std::fmt;

use switchboard_acp::rpc::{Message, Notification, Request, Response, RpcError};
use switchboard_acp::v2;

use crate::context::Context;
use crate::options::Limits;
use crate::sessions::Size;
use crate::{Moment, Side, Version};

/// Translates between a client of one version and an agent of the other, and tracks the state of both.
pub(crate) trait Translator: Turns + Eviction + fmt::Debug + Send {
    /// Returns the versions of the client and the agent.
    fn versions(&self) -> (Version, Version);

    fn context(&self) -> &Context;

    fn context_mut(&mut self) -> &mut Context;

    /// Handles a line of the agent if it is an update; returns the message otherwise.
    fn take_update<'l>(&mut self, line: &'l str) -> Option<Message<'l>>;

    /// Handles an update whose envelope has an unusual key order or extra keys.
    fn update_notification(&mut self, notification: &Notification<'_>);

    /// Prepares for a client that continues a session whose history is replayed.
    fn reopen(&mut self, session: &str) {
        let _ = session;
    }

    fn client_request(&mut self, request: &Request<'_>);

    fn client_response(&mut self, response: Response<'_>);

    fn agent_request(&mut self, request: &Request<'_>);

    fn agent_response(&mut self, response: Response<'_>);

    /// Handles one line from one side.
    fn handle(&mut self, from: Side, line: &str) {
        let message = match from {
            // Nearly all lines of an agent are updates. They take a faster path that decodes envelope and
            // update at once.
            Side::Agent => self.take_update(line),
            Side::Client => self.context_mut().message(from, line),
        };
        match (from, message) {
            (_, None) => {}
            (Side::Client, Some(Message::Request(request))) => self.client_request(&request),
            (Side::Client, Some(Message::Response(response))) => self.client_response(response),
            (Side::Agent, Some(Message::Request(request))) => self.agent_request(&request),
            (Side::Agent, Some(Message::Response(response))) => self.agent_response(response),
            (_, Some(Message::Notification(notification))) => match (from, &*notification.method) {
                (Side::Agent, "session/update") => self.update_notification(&notification),
                (Side::Client, "session/cancel") => self.cancel(&notification),
                (_, "$/cancel_request") => self.cancel_request(from, &notification),
                _ => self.context_mut().forward_if_valid(from, &notification),
            },
        }
    }

    /// Runs the work that is due now.
    fn tick(&mut self);

    /// Returns the time of the next [`tick`](Translator::tick).
    fn next_deadline(&self) -> Option<Moment>;

    /// Releases all output that is held back, because no more input will arrive.
    fn finish(&mut self);

    /// Handles output of a command that the host runs.
    fn terminal_output(&mut self, _terminal_id: &str, _bytes: &[u8]) {}

    /// Handles a change of a client terminal in a recording.
    fn recorded_terminal(&mut self, _session: &str, _update: v2::TerminalUpdate<'static>) {}

    /// Handles the exit of a command that the host runs.
    fn terminal_exited(&mut self, _terminal_id: &str, _exit_code: Option<i64>, _signal: Option<&str>) {}
}

/// Early ends of turns: cancellation, failure and the agent's exit.
pub(crate) trait Turns {
    /// Handles the client's cancellation of a session's turn.
    fn cancel(&mut self, notification: &Notification<'_>);

    /// Handles the cancellation of a request by the side that sent it.
    fn cancel_request(&mut self, from: Side, notification: &Notification<'_>);

    /// Sends queued prompts of sessions whose turn has ended.
    fn next_prompts(&mut self) {}

    /// Fails every request that waits for the agent.
    fn agent_ended(&mut self, error: &RpcError<'static>);

    /// Ends a turn with an error because of a loss under the strict policy.
    fn fail_turn(&mut self, session: &str, reason: &str);
}

/// Retained state and its eviction when a limit is exceeded.
pub(crate) trait Eviction {
    /// Returns the size of the retained state.
    fn size(&self) -> Size;

    /// Returns the limits of the retained state.
    fn limits(&self) -> &Limits;

    /// Returns whether more sessions are retained than the limit allows.
    fn has_too_many_sessions(&self) -> bool;

    /// Drops the history of the least recently used idle session. Returns the number of bytes freed, or
    /// `None` if no session is idle.
    fn evict_oldest(&mut self, reason: &str) -> Option<usize>;

    /// Drops as much as possible from sessions with work in progress, to free at least so many bytes.
    fn evict_from_busy(&mut self, bytes: usize, reason: &str);

    /// Evicts idle sessions while a limit is exceeded. Total bytes are only checked if `counts` is set,
    /// because counting visits every session.
    fn enforce_limits(&mut self, counts: bool) {
        let limits = self.limits();
        // The session count is cheap and checked after every line.
        let (sessions, most) = (limits.sessions, limits.total);
        while self.has_too_many_sessions()
            && self.evict_oldest(&format!("more than {sessions} sessions")).is_some()
        {}
        if !counts {
            return;
        }
        let reason = format!("more than {most} bytes in all sessions");
        let mut over = self.size().bytes.saturating_sub(most);
        // Idle sessions go first: evicting state of a running turn is visible to the user.
        while over > 0 {
            match self.evict_oldest(&reason) {
                Some(freed) => over = over.saturating_sub(freed),
                None => return self.evict_from_busy(over, &reason),
            }
        }
    }
}
