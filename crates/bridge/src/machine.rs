//! What the two machines have in common, as the bridge drives them.

use std::fmt;

use switchboard_acp::rpc::{Message, Notification, Request, Response, RpcError};
use switchboard_acp::v2;

use crate::context::Context;
use crate::options::Limits;
use crate::sessions::Size;
use crate::{Moment, Side, Version};

/// Translates between a client of one version and an agent of the other, and remembers what each has seen.
pub(crate) trait Machine: Turns + Memory + fmt::Debug + Send {
    /// The versions of the client and the agent.
    fn versions(&self) -> (Version, Version);

    fn context(&self) -> &Context;

    fn context_mut(&mut self) -> &mut Context;

    /// Takes a line of the agent that is an update; one that is something else is given back.
    fn take_update<'l>(&mut self, line: &'l str) -> Option<Message<'l>>;

    /// Takes an update whose envelope is not in the usual order, or holds more.
    fn update_notification(&mut self, notification: &Notification<'_>);

    /// The client goes on with a session of which everything is told again.
    fn reopen(&mut self, session: &str) {
        let _ = session;
    }

    fn client_request(&mut self, request: &Request<'_>);

    fn client_response(&mut self, response: Response<'_>);

    fn agent_request(&mut self, request: &Request<'_>);

    fn agent_response(&mut self, response: Response<'_>);

    /// Takes one line from one side.
    fn handle(&mut self, from: Side, line: &str) {
        let message = match from {
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
                _ => self.context_mut().pass_unless_odd(from, &notification),
            },
        }
    }

    /// Does what is due.
    fn tick(&mut self);

    /// When that is to be asked for again.
    fn next_deadline(&self) -> Option<Moment>;

    /// Writes everything that was held back, because no more is to come.
    fn finish(&mut self);

    /// A command that the host runs has put something out.
    fn terminal_output(&mut self, _terminal_id: &str, _bytes: &[u8]) {}

    /// A terminal of the client in a recording has changed.
    fn recorded_terminal(&mut self, _session: &str, _update: v2::TerminalUpdate<'static>) {}

    /// A command that the host runs has ended.
    fn terminal_exited(&mut self, _terminal_id: &str, _exit_code: Option<i64>, _signal: Option<&str>) {}
}

/// What becomes of turns that do not end by themselves.
pub(crate) trait Turns {
    /// The client cancels the turn of a session.
    fn cancel(&mut self, notification: &Notification<'_>);

    /// Either side takes back a request that it made.
    fn cancel_request(&mut self, from: Side, notification: &Notification<'_>);

    /// Sends prompts that wait in sessions whose turn has ended.
    fn next_prompts(&mut self) {}

    /// Everything that waits for the agent fails.
    fn agent_ended(&mut self, error: &RpcError<'static>);

    /// Ends a turn because something was lost and nothing may be.
    fn fail_turn(&mut self, session: &str, reason: &str);
}

/// What is remembered, and what is forgotten when it gets too much.
pub(crate) trait Memory {
    /// How much is remembered.
    fn size(&self) -> Size;

    /// How much may be.
    fn limits(&self) -> &Limits;

    /// Whether there are more sessions than there may be.
    fn has_too_many_sessions(&self) -> bool;

    /// Forgets what was said in the session at rest that was not used for the longest time. Gives how many bytes that
    /// freed; `None`: there is none.
    fn forget_oldest(&mut self, reason: &str) -> Option<usize>;

    /// Forgets what it can in sessions that are at work, so that so many bytes are freed.
    fn forget_in_work(&mut self, bytes: usize, reason: &str);

    /// Forgets what was said in sessions at rest while there are too many, or too much is held in all of them.
    /// `counts`: it is time to see how much that is.
    fn make_room(&mut self, counts: bool) {
        let limits = self.limits();
        let (sessions, most) = (limits.sessions, limits.total);
        while self.has_too_many_sessions()
            && self.forget_oldest(&format!("more than {sessions} sessions")).is_some()
        {}
        if !counts {
            return;
        }
        let reason = format!("more than {most} bytes in all sessions");
        let mut over = self.size().bytes.saturating_sub(most);
        while over > 0 {
            match self.forget_oldest(&reason) {
                Some(freed) => over = over.saturating_sub(freed),
                None => return self.forget_in_work(over, &reason),
            }
        }
    }
}
