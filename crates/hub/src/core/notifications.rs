//! What clients say without wanting an answer.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{ActRecord, HubRecord, LOSS_METHOD, OPERATION_ID};
use switchboard_acp::rpc::{Notification, RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::Channel;

use super::connection::{ATTACHMENTS, Phase};
use super::delivery::NoSuchPlace;
use super::lines::{self, Outcome, Rewrite};
use super::memory::request_named;
use super::method_table::{Form, Method, is_request};
use super::requests::{Named, Refusal};
use super::{ConnectionId, Core, HostId, Output, SessionId};

/// How often an agent is told to stop what it does.
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
        // Whatever must be answered is a request: it has its place in the queue of the session, and its checks.
        if is_request(method) {
            return self.drop_notification(connection, method, "this method is a request and needs an id");
        }
        if let Err((_, reason, _)) =
            self.authorize(connection, Method::of(method, Form::Notification), params)
        {
            return self.drop_notification(connection, method, &reason);
        }
        match method {
            "stream/resume" => self.resume_streams(connection, params),
            "$/cancel_request" => self.cancel_request(connection, params),
            LOSS_METHOD => self.loss_reported(connection, params),
            "session/cancel" => {
                let named = match self.named(connection, params) {
                    Ok(named) => named,
                    Err((_, reason, _)) => return self.drop_notification(connection, method, &reason),
                };
                if !self.is_ours(&named.session) {
                    // Where too much waits, the cancellation is lost as it would be on the way.
                    if let Err((_, reason, _)) = self.elsewhere(&named.session, connection, line) {
                        self.drop_notification(connection, method, &reason);
                    }
                } else if !self.is_heard(connection, params) {
                    self.cancel(connection, &named);
                }
            }
            _ => {
                if let Err(reason) = self.pass_notification(connection, method, params, line) {
                    self.drop_notification(connection, method, &reason);
                }
            }
        }
    }

    /// Passes a notification that the hub does not know on to the agent, or says why not.
    fn pass_notification(
        &mut self,
        connection: ConnectionId,
        method: &str,
        params: Option<&Raw<'_>>,
        line: &Arc<str>,
    ) -> Result<(), String> {
        let words = |(_, reason, _): Refusal| reason;
        self.more_folders(params).map_err(words)?;
        if lines::text_of(params, "sessionId").is_none() {
            let agent = self.connections.get(&connection).map(|client| client.agent);
            let host = agent.and_then(|agent| self.host_of(agent));
            let is_ready = |host: &HostId| self.hosts.get(host).is_some_and(|host| host.is_ready);
            let host = host.filter(is_ready).ok_or("the agent does not run")?;
            let rewrite = Rewrite { drops_own: true, ..Rewrite::default() };
            let line = lines::call(None, method, params, rewrite);
            self.output.push_back(Output::ToHost { host, line, session: None });
            return Ok(());
        }
        let Named { session, child } = self.named(connection, params).map_err(words)?;
        if !self.is_ours(&session) {
            return self.elsewhere(&session, connection, line).map_err(words);
        }
        let known = self.sessions.get(&session);
        let target = known.and_then(|known| Some((known.host?, known.agent_session()?.to_owned())));
        let (host, own) = target.ok_or("the session has no running agent")?;
        let name = child.unwrap_or(own);
        let rewrite = Rewrite { session: Some(&name), drops_own: true, ..Rewrite::default() };
        let text = lines::call(None, method, params, rewrite);
        let _ = self.append(&session, Channel::ToAgent, text.as_str());
        self.output.push_back(Output::ToHost { host, line: text, session: Some(session) });
        Ok(())
    }

    /// Whether a client tells something for the second time, because it could not know that it was heard: a cancellation
    /// that comes late must not end work that began after it.
    pub(super) fn is_heard(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) -> bool {
        let Some(client) = self.connections.get(&connection) else { return true };
        let Some(operation) = params.and_then(|params| OPERATION_ID.of(params)) else { return false };
        let key = client.who.key();
        let is_heard = self.answers.get(&key, &operation).is_some();
        self.answers.keep(&key, operation, Outcome::Result("{}".to_owned()));
        is_heard
    }

    /// Cancels the work of a session, or of a sub-agent alone.
    pub(super) fn cancel(&mut self, connection: ConnectionId, Named { session, child }: &Named) {
        let Some(known) = self.sessions.get(session) else { return };
        // An agent that does not stop hears it often enough: whoever repeats it without end fills neither log nor memory.
        let is_told = known.memory.as_ref().is_some_and(|memory| memory.cancels >= CANCELS);
        let (Some(host), Some(own)) = (known.host, known.agent_session().map(str::to_owned)) else {
            return self.cancel_prompts(session);
        };
        let by = self.author(connection);
        let name = child.as_deref().unwrap_or(&own);
        let params = Raw::from(json!({"sessionId": name}));
        let line = lines::call(None, "session/cancel", Some(&params), Rewrite::default());
        if !is_told {
            self.note(session, &HubRecord::Cancelled(ActRecord::new().by(by.clone())));
            let _ = self.append(session, Channel::ToAgent, line.as_str());
            self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(session)) });
        }
        if child.is_none() {
            self.cancel_prompts(session);
            self.cancel_questions(session, &by);
            self.await_stop(session);
        }
    }

    /// Prompts that the agent has not got are not given to it any more.
    pub(super) fn cancel_prompts(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        for prompt in std::mem::take(&mut known.prompts) {
            self.states += 1;
            let message = "the work of this session was cancelled";
            self.refuse(prompt.connection, &prompt.id, codes::REQUEST_CANCELLED, message, None);
        }
    }

    /// A client takes a request back.
    pub(super) fn cancel_request(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(id) = params.and_then(request_named) else { return };
        let Some(client) = self.connections.get(&connection) else { return };
        let Some(asked) = client.open.get(Side::Client, &id).cloned() else { return };
        if let Some((host, number)) = asked.at_host {
            let line = lines::cancel(&RequestId::Number(number));
            let prompted =
                self.hosts.get(&host).and_then(|host| host.session_of_prompt(&number.into()).cloned());
            self.output.push_back(Output::ToHost { host, line, session: asked.stream });
            if let Some(session) = prompted {
                self.await_stop(&session);
            }
            return;
        }
        if self.cancel_passed(connection, &id) {
            return;
        }
        let mut was_waiting = false;
        for session in self.sessions.values_mut() {
            let before = session.prompts.len();
            session.prompts.retain(|prompt| (prompt.connection, &prompt.id) != (connection, &id));
            was_waiting |= session.prompts.len() < before;
        }
        if was_waiting {
            // What waits is told with the state.
            self.states += 1;
            self.refuse(connection, &id, codes::REQUEST_CANCELLED, "the request was taken back", None);
        }
    }

    /// A client whose socket is another one says what it has got.
    pub(super) fn resume_streams(&mut self, connection: ConnectionId, params: Option<&Raw<'_>>) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        client.is_paused = false;
        let mut left: Vec<SessionId> = client.attachments.keys().cloned().collect();
        self.repeat_direct(connection);
        let streams = params.and_then(|params| params.get("streams").map(Raw::into_owned));
        for stream in streams.iter().flat_map(Raw::items).take(ATTACHMENTS) {
            let session = lines::text_of(Some(&stream), "sessionId").unwrap_or_default().into_owned();
            let cursor = lines::text_of(Some(&stream), "cursor").unwrap_or_default().into_owned();
            left.retain(|known| **known != *session);
            if let Err(reason) = self.continue_at(connection, &session, &cursor) {
                let reason = match reason {
                    NoSuchPlace::Session => "unknown_session",
                    NoSuchPlace::Cursor => "unknown_cursor",
                };
                if let Some((id, _)) =
                    self.sessions.get_key_value(&*session).map(|(id, known)| (Arc::clone(id), known))
                {
                    self.detach(connection, &id);
                }
                let params = Raw::from(json!({"sessionId": session, "reason": reason}));
                let text = lines::call(None, "stream/resume_failed", Some(&params), Rewrite::default());
                self.send(connection, text, None);
            }
        }
        for session in left {
            // What it asked for and has not got any of is still wanted, from its beginning.
            let client = self.connections.get(&connection);
            let start = client.and_then(|client| match client.attachments.get(&session)?.phase {
                Phase::CatchingUp { start, answer: Some(_), .. } => Some(start),
                _ => None,
            });
            let answer = self.take_answer(connection, &session);
            match start {
                Some(start) => self.attach(connection, &session, start, answer),
                None => drop(self.detach(connection, &session)),
            }
        }
    }
}
