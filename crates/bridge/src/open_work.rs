//! What a client waits for where lines pass as they came: answers to its requests, and rest in sessions at work.

use std::collections::HashSet;

use memchr::memmem::Finder;
use switchboard_acp::rpc::{
    BATCH_LIMIT, Message, Request, RequestId, Response, RpcError, batch_entries, is_batch,
};
use switchboard_acp::{Correlator, Raw, WireFormat};

use crate::context::{Context, session_of};
use crate::loss::Severity;

use crate::{Side, Version};

/// Requests of the client without an answer, and sessions in which an agent of version 2 is at work.
#[derive(Debug)]
pub(crate) struct OpenWork {
    requests: Correlator<Purpose>,
    /// Whether sessions have states, as in version 2.
    has_states: bool,
    at_work: HashSet<String>,
}

/// What a request is about, as far as its answer matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Prompt {
        session: String,
        /// The work on it has ended, although it is not answered.
        over: bool,
    },
    /// The session is gone after it.
    End {
        session: String,
    },
    Other,
}

/// Whether a line of the agent may be an answer. What says at once that it is an update is not read for that.
pub(crate) fn may_answer(line: &str, id: &Finder<'_>) -> bool {
    !line.starts_with(r#"{"jsonrpc":"2.0","method":"#) && id.find(line.as_bytes()).is_some()
}

/// The messages of a line: one, or those of an array.
pub(crate) fn messages(line: &str) -> Vec<&str> {
    if is_batch(line) { batch_entries(line, BATCH_LIMIT).unwrap_or_default() } else { vec![line] }
}

impl OpenWork {
    /// Nobody waits for anything. So many requests, and sessions at work, are remembered.
    pub(crate) fn new(limit: usize) -> Self {
        OpenWork { requests: Correlator::new(limit), has_states: false, at_work: HashSet::new() }
    }

    /// Whether anybody waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.requests.is_empty()
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.requests.iter().any(|(_, _, asked)| matches!(asked, Purpose::Prompt { .. }))
    }

    /// The version is known from now on.
    pub(crate) fn in_version(self, version: Version) -> Self {
        OpenWork { has_states: version == Version::V2, ..self }
    }

    /// Takes notice of all messages in a line, which passes whatever they say.
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

    /// The client asks. Whether that can be remembered.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> bool {
        let session = || session_of(request.params.as_ref());
        let asked = match &*request.method {
            "session/prompt" => session().map(|session| Purpose::Prompt { session, over: false }),
            "session/close" | "session/delete" => session().map(|session| Purpose::End { session }),
            _ => None,
        };
        let is_prompt = matches!(asked, Some(Purpose::Prompt { .. }));
        if is_prompt && self.at_work.len() >= self.requests.limit() {
            return false;
        }
        self.requests.open(Side::Client, &request.id, asked.unwrap_or(Purpose::Other)).is_ok()
    }

    /// The agent answers. Gives what was asked.
    pub(crate) fn answered(&mut self, response: &Response<'_>) -> Option<Purpose> {
        let asked = self.requests.answered(Side::Agent, &response.id)?;
        match (&asked, &response.outcome) {
            (Purpose::Prompt { session, over: false }, Ok(_)) if self.has_states => {
                self.at_work.insert(session.clone());
            }
            (Purpose::End { session }, Ok(_)) => {
                self.at_work.remove(session);
            }
            _ => {}
        }
        Some(asked)
    }

    /// Takes notice of a state of the agent.
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
                if was_at_work || has_stop_reason(&update) {
                    self.prompts_are_over(&session);
                }
            }
            Some("running" | "requires_action") => {
                let limit = self.requests.limit();
                if self.at_work.len() < limit || self.at_work.contains(&session) {
                    self.at_work.insert(session);
                } else {
                    let reason = format!(
                        "more than {limit} sessions at work: of this one the end is not told if the agent ends"
                    );
                    let session = Some(&*session);
                    context.lose(
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

    /// The agent rests after work: what it has not answered yet is done.
    fn prompts_are_over(&mut self, session: &str) {
        let is_about =
            |asked: &Purpose| matches!(asked, Purpose::Prompt { session: about, .. } if about == session);
        let prompts = self.requests.iter().filter(|(_, _, asked)| is_about(asked));
        let ids: Vec<RequestId<'static>> = prompts.map(|(_, id, _)| id.clone()).collect();
        for id in ids {
            if let Some(Purpose::Prompt { over, .. }) = self.requests.get_mut(Side::Client, &id) {
                *over = true;
            }
        }
    }

    /// The agent is gone: requests fail, and sessions at work come to rest.
    pub(crate) fn agent_ended(mut self, error: &RpcError<'static>, context: &mut Context) {
        for request in self.requests.drain_of(Side::Client) {
            context.fail(Side::Client, &request.id, error.clone());
        }
        for session in self.at_work.drain() {
            context.rest_with_error(&session, error);
        }
    }
}

/// Whether a state says why work ended.
fn has_stop_reason(value: &Raw<'_>) -> bool {
    value.get("stopReason").is_some_and(|reason| reason.as_str() != "null")
}
