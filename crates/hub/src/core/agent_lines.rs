//! What agents say.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{AgentSessionRecord, HubRecord, MEMORY_LOST};
use switchboard_acp::rpc::{Message, Request, RequestId, Response, codes};
use switchboard_acp::{Raw, Side, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::SharedText;

use super::hosting::{Description, Purpose};
use super::lines::{self, Outcome, Rewrite};
use super::memory::request_named;
use super::opening::Fork;
use super::questions::{ELICITATION, PERMISSION, cancelled};
use super::session::Session;
use super::{ConnectionId, Core, HostId, Memory, Output, SessionId};
use crate::host::About;
use switchboard_bridge::{Loss, Version};

/// The divider in a session whose agent has lost it.
const FORGOTTEN: &str =
    "The agent has lost its memory of what is above. It knows only what comes from here on.";

/// How often an agent is asked for a session whose id the log does not have yet.
const RENEWALS: usize = 32;

impl Core {
    /// A line of an agent, in version 2.
    pub(crate) fn host_line(&mut self, host: HostId, line: &str) {
        if !self.hosts.contains_key(&host) {
            return;
        }
        let message = Message::decode(line, WireFormat::Any);
        match &message {
            Ok(message @ Message::Notification(notification)) => {
                let params = notification.params.as_ref();
                match (lines::text_of(params, "sessionId"), &*notification.method) {
                    (Some(session), _) => self.for_session(host, &session, line, message),
                    (None, "$/cancel_request") => self.taken_back(host, params, line),
                    (None, method) => self.for_all(host, method, params),
                }
            }
            Ok(Message::Request(request)) => self.asked(host, request, line),
            Ok(Message::Response(response)) => self.answered(host, response, line),
            Err(error) => self.tell(format!("an agent said something that is no message: {error}")),
        }
    }

    /// A line as it was on the other side of a translation.
    pub(crate) fn other_line(&mut self, host: HostId, about: &About, from: Side, text: &str) {
        let session = match about {
            About::Session(session) => Some(Arc::clone(session)),
            About::Agents(session) => self.session_of(host, session),
            About::Introduction => {
                if let Some(host) = self.hosts.get_mut(&host) {
                    host.note(Channel::of_message(from, true), text);
                }
                return;
            }
        };
        let is_open = |id: &SessionId| {
            self.sessions.get(id).is_some_and(|session| session.host == Some(host) && !session.is_waking)
        };
        if let Some(session) = session.filter(is_open) {
            let _ = self.append(&session, Channel::of_message(from, true), text);
        }
    }

    /// What could not be carried over to or from an agent.
    pub(crate) fn lost(&mut self, host: HostId, loss: &Loss) {
        if let Some(session) = loss.session.as_deref().and_then(|session| self.session_of(host, session)) {
            let _ = self.append(&session, Channel::Diagnostic, loss.to_json());
        } else {
            self.note_beside(host, Channel::Diagnostic, &loss.to_json());
        }
    }

    /// What an agent wrote to its standard error.
    pub(crate) fn complained(&mut self, host: HostId, text: &str) {
        self.note_beside(host, Channel::StandardError, text);
        if self.options.tells_standard_error {
            let agent = self.name_of(host);
            self.tell(format!("agent {agent}: {text}"));
        }
    }

    fn name_of(&self, host: HostId) -> String {
        let agent = self.hosts.get(&host).and_then(|host| self.options.agents.get(host.agent));
        agent.cloned().unwrap_or_default()
    }

    /// What an agent wrote to its standard output and is no message. The first of it is told and more of it kept; of what
    /// comes then only the number, now and then.
    pub(crate) fn rambled(&mut self, host: HostId, text: &str) {
        self.keep_noise(host, text);
        if let Some(words) = self.hosts.get_mut(&host).and_then(|host| host.odd_told.next(text)) {
            let agent = self.name_of(host);
            self.tell(format!("agent {agent}: {words}"));
        }
    }

    /// Keeps something odd beside the messages.
    fn keep_noise(&mut self, host: HostId, text: &str) {
        if let Some(noise) = self.hosts.get_mut(&host).and_then(|host| host.odd_kept.next(text)) {
            let noise = json!({"from": Side::Agent, "noise": noise}).to_string();
            self.note_beside(host, Channel::Diagnostic, &noise);
        }
    }

    /// An agent has chosen a version of the protocol.
    pub(crate) fn speaks(&mut self, host: HostId, version: Version) {
        if let Some(host) = self.hosts.get_mut(&host) {
            host.version = version.number();
        }
    }

    /// Keeps something that belongs to no session where the agent is at work, else where it was last.
    fn note_beside(&mut self, host: HostId, channel: Channel, text: &str) {
        let Some(known) = self.hosts.get_mut(&host) else { return };
        known.note(channel, text);
        let open =
            || self.sessions.values().filter(|session| session.host == Some(host) && !session.is_waking);
        let is_busy = |session: &&Session| session.memory.as_ref().is_some_and(Memory::is_busy);
        let mut concerned: Vec<SessionId> = open().filter(is_busy).map(|it| Arc::clone(it.id())).collect();
        if concerned.is_empty() {
            concerned.extend(open().max_by_key(|it| it.known.changed).map(|it| Arc::clone(it.id())));
        }
        for session in concerned {
            let _ = self.append(&session, channel, text);
        }
    }

    /// The session that an id of the agent belongs to.
    fn session_of(&mut self, host: HostId, session: &str) -> Option<SessionId> {
        let known = self.hosts.get(&host)?;
        if let Some(id) = known.session(session).cloned() {
            self.is_spoken_of(host, &id);
            return Some(id);
        }
        let is_parent = |memory: &Memory| memory.is_child(session);
        let parent = self
            .sessions
            .values()
            .find(|known| known.host == Some(host) && known.memory.as_ref().is_some_and(is_parent))?;
        let id = Arc::clone(parent.id());
        self.hosts.get_mut(&host)?.learn(session, &id);
        Some(id)
    }

    fn for_session(&mut self, host: HostId, session: &str, line: &str, message: &Message<'_>) {
        if let Some(id) = self.session_of(host, session) {
            let is_waking = self.sessions.get(&id).is_some_and(|session| session.is_waking);
            // What comes before the answer of one that is woken is history, which the log has.
            if !is_waking {
                if let Message::Notification(late) = message
                    && self.is_late_state(&id, session, late, line)
                {
                    return;
                }
                let _ = self.append_read(&id, Channel::ToClient, line, Some(message));
            }
            return;
        }
        // The session goes on in another process; nothing of it belongs into the logs of those that are still here.
        if self.hosts.get(&host).is_some_and(|host| host.left.contains(session)) {
            if self.hosts.get_mut(&host).is_some_and(|host| host.is_new_stranger(session)) {
                self.tell(format!(
                    "an agent that did not stop still speaks of its session {session}; that is dropped"
                ));
            }
            return;
        }
        let kept = self.is_opening(host)
            && self.hosts.get_mut(&host).is_some_and(|host| host.keep_early(session, line));
        if kept {
            return;
        }
        // Nobody looks at such a session; what was said is kept where somebody may find it.
        self.keep_noise(host, line);
        if self.hosts.get_mut(&host).is_some_and(|host| host.is_new_stranger(session)) {
            self.tell(format!("an agent speaks of a session that nobody opened: {session}"));
        }
    }

    /// Whether a session is being opened in an agent, whose id nobody knows yet.
    fn is_opening(&self, host: HostId) -> bool {
        let opens = |purpose: &Purpose| {
            matches!(purpose, Purpose::New { .. } | Purpose::Renew { .. } | Purpose::Fork { .. })
        };
        self.hosts.get(&host).is_some_and(|host| host.open.iter().any(|(.., purpose)| opens(purpose)))
            || self.creating.values().any(|creating| creating.host == host)
    }

    /// The agent takes a question back.
    fn taken_back(&mut self, host: HostId, params: Option<&Raw<'_>>, line: &str) {
        let Some(id) = params.and_then(request_named) else { return };
        self.withdraw_direct(host, Some(&id));
        let mut hosted = self.sessions.values().filter(|session| session.host == Some(host));
        let found = hosted.find_map(|session| {
            let (_, question) = session.memory.as_ref()?.question_of(&id)?;
            Some((Arc::clone(session.id()), question.clone()))
        });
        let Some((session, question)) = found else { return };
        let _ = self.append(&session, Channel::ToClient, line);
        // Also what is taken back has an answer.
        let line = lines::answer(&question.id, &cancelled(&question.method));
        let _ = self.append(&session, Channel::ToAgent, line.as_str());
        self.output.push_back(Output::ToHost { host, line, session: Some(session) });
    }

    /// Something that concerns every client of an agent.
    fn for_all(&mut self, host: HostId, method: &str, params: Option<&Raw<'_>>) {
        let Some(agent) = self.hosts.get(&host).map(|host| host.agent) else { return };
        let text: SharedText = lines::call(None, method, params, Rewrite::default()).into();
        if let Some(host) = self.hosts.get_mut(&host) {
            host.announce(method, &text);
        }
        let concerned = self
            .connections
            .iter()
            .filter(|(_, client)| client.agent == agent && client.is_initialized && client.may_hear_agent());
        let concerned: Vec<ConnectionId> = concerned.map(|(id, _)| *id).collect();
        for connection in concerned {
            self.send(connection, text.clone(), None);
        }
    }

    /// The agent asks something.
    fn asked(&mut self, host: HostId, request: &Request<'_>, line: &str) {
        let params = request.params.as_ref();
        let is_question = matches!(&*request.method, PERMISSION | ELICITATION);
        let session = lines::text_of(params, "sessionId");
        let Some(session) = session else {
            if !is_question {
                return self.pass_request(host, request, None);
            }
            // It belongs to something that a client has asked for: a prompt, a login.
            let about = params.and_then(request_named);
            let prompted = about.and_then(|id| self.hosts.get(&host)?.session_of_prompt(&id).cloned());
            return match prompted {
                Some(id) => self.asked_in(host, &id, request, line),
                None => self.asked_outside(host, request),
            };
        };
        let Some(id) = self.session_of(host, &session) else {
            if self.hosts.get(&host).is_some_and(|host| host.left.contains(&*session)) {
                let line = lines::answer(&request.id, &cancelled(&request.method));
                return self.output.push_back(Output::ToHost { host, line, session: None });
            }
            let kept = self.is_opening(host)
                && self.hosts.get_mut(&host).is_some_and(|host| host.keep_early(&session, line));
            if !kept {
                self.keep_noise(host, line);
                self.refuse_agent(
                    host,
                    &request.id,
                    codes::RESOURCE_NOT_FOUND,
                    "no such session is open here",
                );
            }
            return;
        };
        match is_question {
            true => self.asked_in(host, &id, request, line),
            false => self.pass_request(host, request, Some(&id)),
        }
    }

    /// The agent asks something in a session.
    fn asked_in(&mut self, host: HostId, id: &SessionId, request: &Request<'_>, line: &str) {
        let memory = self.sessions.get(id).and_then(|session| session.memory.as_ref());
        if let Some((code, message)) = memory.and_then(|memory| memory.refusal(request)) {
            self.keep_noise(host, line);
            return self.refuse_agent(host, &request.id, code, &message);
        }
        if !self.is_late_question(host, id, request, line) {
            let _ = self.append(id, Channel::ToClient, line);
        }
    }

    /// The agent answers.
    fn answered(&mut self, host: HostId, response: &Response<'_>, line: &str) {
        let answered = self.hosts.get_mut(&host).and_then(|host| host.answered(&response.id));
        let Some(purpose) = answered else { return };
        let outcome = Outcome::of(&response.outcome);
        match purpose {
            Purpose::Handshake => self.introduced(host, &outcome, line),
            Purpose::New { session, client } => {
                if outcome.is_error() {
                    self.reply(client.0, &client.1, outcome, None);
                    self.forget(&session);
                } else {
                    self.opened(host, &session, &client, line);
                }
            }
            Purpose::Adopt { session, client } => self.adopted(&session, &client, outcome, line),
            Purpose::Remembered { client } => {
                let outcome = self.with_own_names(host, outcome);
                self.reply(client.0, &client.1, outcome, None);
            }
            Purpose::Wake { session } => self.woken(host, &session, &outcome, line),
            Purpose::Renew { session, tries } => self.renewed(host, &session, &outcome, tries, line),
            Purpose::Prompt { session, client, .. } => {
                let after = self.append(&session, Channel::ToClient, line);
                // Its work may have been over before the agent answered.
                let memory = self.sessions.get(&session).and_then(|session| session.memory.as_ref());
                let ended = memory.and_then(|memory| memory.end_of(&response.id));
                let outcome = self.of_turn(client.0, outcome, ended.as_deref());
                let is_error = outcome.is_error();
                self.reply(client.0, &client.1, outcome, after.map(|after| (&session, after)));
                if is_error {
                    self.run_next(&session);
                }
            }
            Purpose::Forwarded { session, client } => {
                let after =
                    session.as_ref().and_then(|session| self.append(session, Channel::ToClient, line));
                let after = session.as_ref().zip(after);
                self.reply(client.0, &client.1, outcome, after);
            }
            Purpose::Fork { params, of, client } => {
                self.forked(host, &params, &of, client, &outcome, &response.id, line);
            }
            Purpose::Close => {}
            // The turn is over for everybody; how the agent took it is kept for who looks closely.
            Purpose::Abandoned { session } => {
                let late = json!({"from": Side::Agent, "late": serde_json::from_str::<serde_json::Value>(line).unwrap_or_default()});
                let _ = self.append(&session, Channel::Diagnostic, late.to_string());
            }
        }
    }

    fn introduced(&mut self, host: HostId, outcome: &Outcome, line: &str) {
        let Outcome::Result(result) = outcome else {
            let reason = match outcome {
                Outcome::Error(error) => format!("the agent refuses the handshake: {error}"),
                Outcome::Result(_) => String::new(),
            };
            self.output.push_back(Output::EndHost { host });
            return self.host_ended(host, &reason, &[]);
        };
        let Some(known) = self.hosts.get_mut(&host) else { return };
        let waiting = known.introduced(line);
        let (agent, version) = (known.agent, known.version);
        if let Some(description) = self.descriptions.get_mut(agent) {
            *description = Some(Arc::new(Description { result: result.clone(), version }));
        }
        let waking: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.host == Some(host) && session.is_waking)
            .map(|session| Arc::clone(session.id()))
            .collect();
        for session in waking {
            self.take_up(host, &session);
        }
        for (connection, message) in waiting {
            self.dispatch(connection, &message);
        }
    }

    /// The agent goes on with a session, or has forgotten it.
    fn woken(&mut self, host: HostId, id: &SessionId, outcome: &Outcome, line: &str) {
        let _ = self.append(id, Channel::ToClient, line);
        if outcome.is_error() {
            return self.renew(host, id, 0);
        }
        self.is_awake(id);
    }

    /// The agent has begun a session anew in the place of one that it has forgotten.
    fn renewed(&mut self, host: HostId, id: &SessionId, outcome: &Outcome, tries: usize, line: &str) {
        let result = match outcome {
            Outcome::Result(result) => Raw::parse(result.as_str()).ok(),
            Outcome::Error(_) => None,
        };
        let agent_session = lines::text_of(result.as_ref(), "sessionId").map(std::borrow::Cow::into_owned);
        let Some(agent_session) = agent_session else {
            let error = match outcome {
                Outcome::Error(error) => serde_json::from_str(error).unwrap_or_default(),
                Outcome::Result(_) => serde_json::Value::Null,
            };
            let reason = error["message"].as_str().unwrap_or("it does not say why").to_owned();
            let message =
                format!("the agent has forgotten this session and begins none in its place: {reason}");
            let error = Outcome::error(codes::INTERNAL_ERROR, message, Some(json!({"agentError": error})));
            return self.not_awake(id, &error);
        };
        // An agent that counts its sessions anew gives ids of old ones, whose messages the new ones would be taken for.
        let is_old = self.sessions.get(id).and_then(|session| session.memory.as_ref());
        if is_old.is_some_and(|memory| memory.is_own(&agent_session)) && tries < RENEWALS {
            return self.renew(host, id, tries + 1);
        }
        let before = self.sessions.get(id).and_then(|session| session.agent_session().map(str::to_owned));
        // What every reader of the log needs to know before the first word of the new session.
        let record = AgentSessionRecord::new(&*agent_session);
        self.note(id, &HubRecord::AgentSession(AgentSessionRecord { was: before.map(Into::into), ..record }));
        let place = self.append(id, Channel::ToClient, line).unwrap_or_default();
        // An entry of the transcript, so that it stays where it is in history, exports and for who comes later. The number
        // of the record makes its id one that no other entry has.
        let divider = json!({
            "sessionUpdate": "compaction_update", "compactionId": format!("switchboard-memory-lost-{place}"),
            "status": "completed", "summary": [{"type": "text", "text": FORGOTTEN}], "_meta": MEMORY_LOST.meta(true).as_raw(),
        });
        let _ = self.append(id, Channel::ToClient, lines::update(&agent_session, &divider.to_string()));
        self.output.push_back(Output::Changed { session: Arc::clone(id) });
        self.joined(host, id, &agent_session);
        self.is_awake(id);
    }

    /// A session has its agent: what waited for that is done.
    fn is_awake(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_waking = false;
        let waiting = std::mem::take(&mut session.waiting);
        for (connection, message) in waiting {
            self.dispatch(connection, &message);
        }
        self.run_next(id);
    }

    /// The agent has made a copy of a session, which gets a log of its own.
    #[allow(clippy::too_many_arguments)]
    fn forked(
        &mut self,
        host: HostId,
        params: &Raw<'_>,
        of: &SessionId,
        client: (ConnectionId, RequestId<'static>),
        outcome: &Outcome,
        request: &RequestId<'_>,
        line: &str,
    ) {
        if outcome.is_error() {
            return self.reply(client.0, &client.1, outcome.clone(), None);
        }
        let original = self.sessions.get(of).map(|session| (session.known.folder.clone(), session.title()));
        let Some((folder, title)) = original else {
            let message = format!("the session {of} was deleted meanwhile");
            return self.refuse(client.0, &client.1, codes::RESOURCE_NOT_FOUND, message, None);
        };
        let request = lines::call(
            Some(request),
            "session/fork",
            Some(params),
            Rewrite { drops_own: true, ..Rewrite::default() },
        );
        self.create_forked(host, folder, client, Fork { request, answer: line.to_owned(), title });
    }
}
