//! Notifications of clients.

use super::delivery::{Delivery, ResumeError};
use super::questions::Questions;
use super::unresponsive::OverdueTurn;
use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{ActRecord, HubRecord, LOSS_METHOD, OPERATION_ID};
use switchboard_acp::rpc::{Notification, RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::Channel;

use super::connection::{MAX_SUBSCRIPTIONS, Phase};
use super::lines::{self, Outcome, Rewrite};
use super::method_table::{Form, Method, is_request};
use super::requests::{Refusal, TargetSession};
use super::session_state::referenced_request;
use super::{AgentId, ConnectionId, Core, Output, SessionId};

/// Maximum number of cancellations that are forwarded to an agent during one turn.
const CANCELS: usize = 100;

impl Core {
    pub(super) fn notification(
        &mut self,
        connection: ConnectionId,
        notification: &Notification<'_>,
        line: &Arc<str>,
    ) {
        let params = notification.params.as_ref();
        let method = &*notification.method;
        // A method that needs a response must be a request, which takes its place in the queue of the session and
        // passes all checks.
        if is_request(method) {
            return self.cx.drop_notification(
                connection,
                method,
                "this method is a request and must have an id",
            );
        }
        if let Err((_, reason, _)) =
            self.cx.access().authorize(connection, Method::of(method, Form::Notification), params)
        {
            return self.cx.drop_notification(connection, method, &reason);
        }
        match method {
            "stream/resume" => self.resume_streams(connection, params),
            "$/cancel_request" => self.cancel_request(connection, params),
            LOSS_METHOD => self.loss_reported(connection, params),
            "session/cancel" => {
                let named = match self.target_session(connection, params) {
                    Ok(named) => named,
                    Err((_, reason, _)) => return self.cx.drop_notification(connection, method, &reason),
                };
                if !self.is_owner(&named.session) {
                    // If too many messages wait, the cancellation is dropped, as if it had been lost in transit.
                    if let Err((_, reason, _)) = self.forward_to_owner(&named.session, connection, line) {
                        self.cx.drop_notification(connection, method, &reason);
                    }
                } else if !self.is_duplicate_notification(connection, params) {
                    self.cancel(connection, &named);
                }
            }
            _ => {
                if let Err(reason) = self.forward_notification(connection, method, params, line) {
                    self.cx.drop_notification(connection, method, &reason);
                }
            }
        }
    }

    /// Forwards a notification with an unknown method to the agent. Fails with the reason if it cannot.
    fn forward_notification(
        &mut self,
        connection: ConnectionId,
        method: &str,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), String> {
        let words = |(_, reason, _): Refusal| reason;
        self.cx.access().more_folders(params).map_err(words)?;
        if lines::text_of(params, "sessionId").is_none() {
            let agent = self.cx.clients.connections.get(&connection).map(|client| client.agent);
            let process = agent.and_then(|agent| self.cx.agents.process_of(agent));
            let is_ready = |process: &AgentId| {
                self.cx.agents.processes.get(process).is_some_and(|process| process.is_ready)
            };
            let process = process.filter(is_ready).ok_or("the agent is not running")?;
            let rewrite = Rewrite { drops_hub_meta: true, ..Rewrite::default() };
            let line = lines::call(None, method, params, rewrite);
            self.cx.outbox.push(Output::ToAgent { process, line, session: None });
            return Ok(());
        }
        let TargetSession { session, child } = self.target_session(connection, params).map_err(words)?;
        if !self.is_owner(&session) {
            return self.forward_to_owner(&session, connection, line).map_err(words);
        }
        let known = self.sessions.get(&session);
        let target = known.and_then(|known| Some((known.process?, known.agent_session()?.to_owned())));
        let (process, own) = target.ok_or("the session has no running agent")?;
        let name = child.unwrap_or(own);
        let rewrite = Rewrite { session: Some(&name), drops_hub_meta: true, ..Rewrite::default() };
        let text = lines::call(None, method, params, rewrite);
        let _ = self.append(&session, Channel::ToAgent, text.as_str());
        self.cx.outbox.push(Output::ToAgent { process, line: text, session: Some(session) });
        Ok(())
    }

    /// Returns whether a notification is a duplicate by its idempotency key. A client that reconnects sends it again,
    /// and a late cancellation must not end work that began after it.
    pub(super) fn is_duplicate_notification(
        &mut self,
        connection: ConnectionId,
        params: Option<&Raw<'_>>,
    ) -> bool {
        let Some(client) = self.cx.clients.connections.get(&connection) else { return true };
        let Some(operation) = params.and_then(|params| OPERATION_ID.of(params)) else { return false };
        let key = client.identity.key();
        let is_duplicate = self.cx.clients.answers.get(&key, &operation).is_some();
        self.cx.clients.answers.keep(&key, operation, Outcome::Result("{}".to_owned()));
        is_duplicate
    }

    /// Cancels the work of a session, or of one sub-agent.
    pub(super) fn cancel(
        &mut self,
        connection: ConnectionId,
        TargetSession { session, child }: &TargetSession,
    ) {
        let Some(known) = self.sessions.get(session) else { return };
        // Repeated cancellations of an agent that does not stop must fill neither the log nor memory.
        let is_limit_reached = known.state.as_ref().is_some_and(|state| state.cancels >= CANCELS);
        let (Some(process), Some(own)) = (known.process, known.agent_session().map(str::to_owned)) else {
            if let Some((session, cx)) = self.session(session) {
                session.cancel_prompts(cx);
            }
            return;
        };
        let by = self.cx.clients.author(connection);
        let name = child.as_deref().unwrap_or(&own);
        let params = Raw::from(json!({"sessionId": name}));
        let line = lines::call(None, "session/cancel", Some(&params), Rewrite::default());
        // Recorded before it is sent, like everything that changes the state of the agent.
        if !is_limit_reached {
            self.append_hub_record(session, &HubRecord::Cancelled(ActRecord::new().by(by.clone())));
            let _ = self.append(session, Channel::ToAgent, line.as_str());
            self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(session)) });
        }
        if child.is_none() {
            // Queued prompts go first: ending the turn would start the next one.
            if let Some((session, cx)) = self.session(session) {
                session.cancel_prompts(cx);
                Questions::of(session, cx).cancel_questions(&by);
                OverdueTurn::of(session, cx).await_stop();
            }
        }
    }

    /// Cancels a request of a client.
    pub(super) fn cancel_request(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(id) = params.and_then(referenced_request) else { return };
        let Some(client) = self.cx.clients.connections.get(&connection) else { return };
        let Some(asked) = client.pending.get(Side::Client, &id).cloned() else { return };
        if let Some((process, number)) = asked.at_agent {
            let line = lines::cancel(&RequestId::Number(number));
            let prompted_session = self
                .cx
                .agents
                .processes
                .get(&process)
                .and_then(|process| process.session_of_prompt(&number.into()).cloned());
            self.cx.outbox.push(Output::ToAgent { process, line, session: asked.stream });
            if let Some(session) = prompted_session {
                if let Some((session, cx)) = self.session(&session) {
                    OverdueTurn::of(session, cx).await_stop();
                }
            }
            return;
        }
        if self.cancel_forwarded(connection, &id) {
            return;
        }
        let mut was_waiting = false;
        for session in self.sessions.values_mut() {
            let before = session.prompts.len();
            session.prompts.retain(|prompt| (prompt.connection, &prompt.id) != (connection, &id));
            was_waiting |= session.prompts.len() < before;
        }
        if was_waiting {
            // Summaries contain the queued prompts.
            self.cx.outbox.summary_version += 1;
            self.cx.refuse(connection, &id, codes::REQUEST_CANCELLED, "the request was cancelled", None);
        }
    }

    /// Handles `stream/resume` of a client that has reconnected: resumes each session after its cursor.
    pub(super) fn resume_streams(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        // Unpaused before the streams are resumed: `resume_at` delivers at once.
        client.is_paused = false;
        let mut left: Vec<SessionId> = client.subscriptions.keys().cloned().collect();
        self.cx.direct_questions().ask_direct_again(connection);
        let streams = params.and_then(|params| params.get("streams").map(Raw::into_owned));
        for stream in streams.iter().flat_map(Raw::items).take(MAX_SUBSCRIPTIONS) {
            let session = lines::text_of(Some(&stream), "sessionId").unwrap_or_default().into_owned();
            let cursor = lines::text_of(Some(&stream), "cursor").unwrap_or_default().into_owned();
            // Sessions that the client does not name are detached below: it has given them up.
            left.retain(|known| **known != *session);
            if let Err(reason) = self.resume_at(connection, &session, &cursor) {
                let reason = match reason {
                    ResumeError::UnknownSession => "unknown_session",
                    ResumeError::UnknownCursor => "unknown_cursor",
                };
                if let Some((session, cx)) = self.session(&session) {
                    Delivery::of(session, cx).detach(connection);
                }
                let params = Raw::from(json!({"sessionId": session, "reason": reason}));
                let text = lines::call(None, "stream/resume_failed", Some(&params), Rewrite::default());
                self.cx.outbox.send(connection, text, None);
            }
        }
        for session in left {
            // A session without a cursor, whose history was requested but not received, is delivered from its start.
            let client = self.cx.clients.connections.get(&connection);
            let start = client.and_then(|client| match client.subscriptions.get(&session)?.phase {
                Phase::CatchingUp { start, answer: Some(_), .. } => Some(start),
                _ => None,
            });
            let Some((session, cx)) = self.session(&session) else { continue };
            let mut delivery = Delivery::of(session, cx);
            let answer = delivery.take_answer(connection);
            match start {
                Some(start) => delivery.attach(connection, start, answer),
                None => drop(delivery.detach(connection)),
            }
        }
    }
}
