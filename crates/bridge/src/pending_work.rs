//! Pending requests and busy sessions of a client in passthrough mode, which fail if the agent exits.

use std::collections::HashSet;

use memchr::memmem::Finder;
use switchboard_acp::rpc::{
    BATCH_LIMIT, Message, Request, RequestId, Response, RpcError, batch_entries, is_batch,
};
use switchboard_acp::{Correlator, Raw, WireFormat};

use crate::context::{Context, session_of};
use crate::loss::Severity;

use crate::{Side, Version};

/// Pending requests of the client, and sessions in which a version 2 agent is working.
#[derive(Debug)]
pub(crate) struct PendingWork {
    requests: Correlator<RequestKind>,
    /// Set if sessions have states, as in version 2.
    has_states: bool,
    at_work: HashSet<String>,
}

/// Kind of a pending request, as far as its response matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Prompt {
        session: String,
        /// Set if the work on the prompt has ended although the response is missing.
        over: bool,
    },
    /// A request that ends the session.
    End {
        session: String,
    },
    Other,
}

/// Returns whether a line of the agent may be a response. A line that begins as an update is not searched.
pub(crate) fn may_answer(line: &str, id: &Finder<'_>) -> bool {
    !line.starts_with(r#"{"jsonrpc":"2.0","method":"#) && id.find(line.as_bytes()).is_some()
}

/// Returns the messages of a line: one, or those of an array.
pub(crate) fn messages(line: &str) -> Vec<&str> {
    if is_batch(line) { batch_entries(line, BATCH_LIMIT).unwrap_or_default() } else { vec![line] }
}

impl PendingWork {
    /// Creates an empty tracker that holds at most `limit` requests, and as many sessions.
    pub(crate) fn new(limit: usize) -> Self {
        PendingWork { requests: Correlator::new(limit), has_states: false, at_work: HashSet::new() }
    }

    /// Returns whether a request is pending.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.requests.is_empty()
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.requests.iter().any(|(_, _, asked)| matches!(asked, RequestKind::Prompt { .. }))
    }

    /// Sets the version once it is known.
    pub(crate) fn in_version(self, version: Version) -> Self {
        PendingWork { has_states: version == Version::V2, ..self }
    }

    /// Tracks all messages in a line that is passed through.
    pub(crate) fn look(&mut self, from: Side, line: &str, context: &mut Context) {
        for text in messages(line) {
            match (from, Message::decode(text, WireFormat::Any)) {
                (Side::Client, Ok(Message::Request(request))) => {
                    self.ask(&request);
                }
                (Side::Agent, Ok(Message::Response(response))) => {
                    self.answered(&response);
                }
                (Side::Agent, Ok(Message::Notification(_))) => self.state(text, context),
                _ => {}
            }
        }
    }

    /// Tracks a request of the client. Returns `false` if the limit is reached.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> bool {
        let session = || session_of(request.params.as_ref());
        let asked = match &*request.method {
            "session/prompt" => session().map(|session| RequestKind::Prompt { session, over: false }),
            "session/close" | "session/delete" => session().map(|session| RequestKind::End { session }),
            _ => None,
        };
        let is_prompt = matches!(asked, Some(RequestKind::Prompt { .. }));
        // A prompt makes its session busy later. It is refused now, because a busy session that is not
        // tracked would never become idle if the agent exits.
        if is_prompt && self.at_work.len() >= self.requests.limit() {
            return false;
        }
        self.requests.open(Side::Client, &request.id, asked.unwrap_or(RequestKind::Other)).is_ok()
    }

    /// Handles a response of the agent. Returns the kind of its request.
    pub(crate) fn answered(&mut self, response: &Response<'_>) -> Option<RequestKind> {
        let asked = self.requests.answered(Side::Agent, &response.id)?;
        match (&asked, &response.outcome) {
            // Busy from the response on, not from the request: a refused prompt starts no work. `over` means
            // that the turn ended before its response arrived.
            (RequestKind::Prompt { session, over: false }, Ok(_)) if self.has_states => {
                self.at_work.insert(session.clone());
            }
            (RequestKind::End { session }, Ok(_)) => {
                self.at_work.remove(session);
            }
            _ => {}
        }
        Some(asked)
    }

    /// Tracks a state update of the agent.
    pub(crate) fn state(&mut self, line: &str, context: &mut Context) {
        if !self.has_states {
            return;
        }
        let Ok(Message::Notification(notification)) = Message::decode(line, WireFormat::Any) else { return };
        let Some(params) = notification.params.as_ref() else { return };
        let (Some(session), Some(update)) = (session_of(Some(params)), params.get("update")) else { return };
        if update.text("sessionUpdate").as_deref() != Some("state_update") {
            return;
        }
        match update.text("state").as_deref() {
            Some("idle") => {
                let was_at_work = self.at_work.remove(&session);
                // Without either it is the state of a session at the end of a replay, and says nothing about
                // a pending prompt.
                if was_at_work || has_stop_reason(&update) {
                    self.prompts_are_over(&session);
                }
            }
            Some("running" | "requires_action") => {
                // Agents start work themselves, without a request that could be refused, so the excess is
                // reported instead.
                let limit = self.requests.limit();
                if self.at_work.len() < limit || self.at_work.contains(&session) {
                    self.at_work.insert(session);
                } else {
                    let reason = format!(
                        "more than {limit} busy sessions: this one gets no idle state if the agent exits"
                    );
                    let session = Some(&*session);
                    context.report_loss(
                        session,
                        "state_update",
                        "/params/update/state",
                        reason,
                        Severity::Minor,
                        Side::Client,
                    );
                }
            }
            _ => {}
        }
    }

    /// Marks the pending prompts of a session as done, because the agent is idle after work.
    fn prompts_are_over(&mut self, session: &str) {
        let is_about = |asked: &RequestKind| matches!(asked, RequestKind::Prompt { session: about, .. } if about == session);
        let prompts = self.requests.iter().filter(|(_, _, asked)| is_about(asked));
        let ids: Vec<RequestId<'static>> = prompts.map(|(_, id, _)| id.clone()).collect();
        for id in ids {
            if let Some(RequestKind::Prompt { over, .. }) = self.requests.get_mut(Side::Client, &id) {
                *over = true;
            }
        }
    }

    /// Fails all requests and makes all busy sessions idle, because the agent has exited.
    pub(crate) fn agent_ended(mut self, error: &RpcError<'static>, context: &mut Context) {
        // Responses precede states: a client takes an idle session without the response to its prompt for the
        // end of another turn.
        for request in self.requests.drain_of(Side::Client) {
            context.fail(Side::Client, &request.id, error.clone());
        }
        for session in self.at_work.drain() {
            context.idle_with_error(&session, error);
        }
    }
}

/// Returns whether a state has a stop reason.
fn has_stop_reason(value: &Raw<'_>) -> bool {
    value.get("stopReason").is_some_and(|reason| reason.as_str() != "null")
}
