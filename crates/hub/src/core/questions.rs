//! Questions go to every subscriber that may answer; the first answer wins. Only an answer, a cancellation or the agent's
//! own withdrawal ends one: a client that leaves, or that answers with an error, has not answered.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{Author, DECIDER, HubRecord, Native, POLICY_DECISION, QuestionRecord};
use switchboard_acp::rpc::{RequestId, Response};
use switchboard_acp::{Raw, Side, WireFormat};
use switchboard_store::{Channel, Role};

use super::connection::{About, Attachment, Phase, Topic};
use super::lines::{self, Outcome, Rewrite};
use super::memory::Question;
use super::notices::resolved;
use super::{ConnectionId, Core, HostId, Output, SessionId, ToClient};
use crate::judge::{Judgement, PermissionRequest};

/// How often a client may answer again what did not fit: a form that nobody can fill in must not be asked without end.
pub(super) const MISFITS: usize = 3;
/// The question about a tool call and other things that may be done or not.
pub(super) const PERMISSION: &str = "session/request_permission";
/// The question for data.
pub(super) const ELICITATION: &str = "elicitation/create";

impl Core {
    /// Evaluates an open question by the rules, over its tool call as the session has it. `None`: it is not for rules, or there
    /// are none.
    pub(super) fn judge(&mut self, id: &SessionId, place: u64) -> Option<Judgement> {
        let judge = self.options.judge.as_mut()?;
        let session = self.sessions.get(id)?;
        let memory = session.memory.as_ref()?;
        let question = memory.questions.get(&place).filter(|question| question.method == PERMISSION)?;
        judge.evaluate(&PermissionRequest {
            params: &question.params,
            session: memory.asking_session(question)?,
            folder: &session.known.folder,
            agent: memory.agent.as_deref(),
        })
    }

    /// Rules have decided over a question that nobody was asked yet. What they decided is in the log, and where it is the
    /// answer, everybody sees it: the call that was asked about, and by which rule.
    pub(super) fn judged(&mut self, id: &SessionId, place: u64, judgement: &Judgement) {
        let Some(question) = self.question(id, place).cloned() else { return };
        let by = Author::from_value(&judgement.by);
        let Some(result) = &judgement.result else {
            self.note(id, &HubRecord::Judged(about(place, &question).by(by)));
            return self.pump_all(id);
        };
        self.settle(id, place, &Outcome::Result(result.clone()), &by, None);
        let call =
            question.params.get("subject").and_then(|about| about.get("toolCall").map(Raw::into_owned));
        if let Some(call) = call.filter(Raw::is_object) {
            let session = lines::text_of(Some(&question.params), "sessionId").unwrap_or_default();
            let mut update = call.to_value();
            update["sessionUpdate"] = "tool_call_update".into();
            let _ = self.append(id, Channel::ToClient, lines::update(&session, &update.to_string()));
        }
        self.tell_judgement(id, &question, judgement);
    }

    /// Rules have changed: what waits for an answer may have one by now. Those who were asked know what it was about. Gives
    /// what is answered.
    pub(crate) fn judge_again(&mut self) -> Vec<(SessionId, RequestId<'static>)> {
        let mut answered = Vec::new();
        let mut waiting = Vec::new();
        for (id, session) in &self.sessions {
            let Some(memory) = session.memory.as_ref().filter(|_| session.is_ours) else { continue };
            let permissions = memory.questions.iter().filter(|(_, question)| question.method == PERMISSION);
            waiting.extend(permissions.map(|(place, question)| (Arc::clone(id), *place, question.clone())));
        }
        for (id, place, question) in waiting {
            let Some(judgement) = self.judge(&id, place) else { continue };
            let Some(result) = &judgement.result else { continue };
            let by = Author::from_value(&judgement.by);
            self.note(&id, &HubRecord::Judged(about(place, &question).by(by.clone())));
            self.settle(&id, place, &Outcome::Result(result.clone()), &by, None);
            self.tell_judgement(&id, &question, &judgement);
            answered.push((id, question.id));
        }
        answered
    }

    /// Tells everybody in a session what rules have answered.
    fn tell_judgement(&mut self, id: &SessionId, question: &Question, judgement: &Judgement) {
        let session = lines::text_of(Some(&question.params), "sessionId").unwrap_or_default();
        let decided = json!({
            "policy": judgement.by["policy"], "decision": judgement.by["decision"],
            "request": Raw::of(&question.id, WireFormat::Any),
        });
        let meta = POLICY_DECISION.meta(Raw::from(decided));
        let update = json!({
            "sessionUpdate": "notice", "severity": "info", "title": judgement.notice, "_meta": meta.as_raw(),
        });
        let _ = self.append(id, Channel::ToClient, lines::update(&session, &update.to_string()));
    }

    /// Asks a client what is open, if it may answer and can.
    pub(super) fn ask(&mut self, connection: ConnectionId, id: &SessionId, place: u64) {
        self.ask_after(connection, id, place, 0);
    }

    /// The same after answers that did not fit.
    fn ask_after(&mut self, connection: ConnectionId, id: &SessionId, place: u64, misfits: usize) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(memory) = &session.memory else { return };
        let Some(question) = memory.questions.get(&place) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        if client.who.role < Role::Answer || !client.can_answer(question) {
            return;
        }
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        let number = *attachment.asked.entry(place).or_insert_with(|| {
            client.last_id += 1;
            client.last_id
        });
        let topic = Topic { about: About::Question(Arc::clone(id), place), misfits };
        if client.asked.open(Side::Agent, &number.into(), topic).is_err() {
            // It could not answer; others can.
            attachment.asked.remove(&place);
            return self.tell(format!("a client of {id} is asked too much already, and not this one too"));
        }
        let name = lines::text_of(Some(&question.params), "sessionId");
        let name = name.map(|session| memory.name_for_clients(id, &session));
        let native = question.native.clone().filter(|_| client.wants_native).map(Native::TranslatedFrom);
        let rewrite = Rewrite {
            session: name.as_deref(),
            request: Some(&question.id),
            native: native.as_ref(),
            ..Rewrite::default()
        };
        let request = RequestId::Number(number);
        let text = lines::call(Some(&request), &question.method, Some(&question.params), rewrite);
        self.send(connection, text, Some(id));
    }

    /// A question is answered or taken back: whoever was asked and has not answered is told.
    pub(super) fn withdraw(&mut self, id: &SessionId, place: u64, except: Option<ConnectionId>) {
        let Some(session) = self.sessions.get(id) else { return };
        for &connection in &session.attached {
            let Some(client) = self.connections.get_mut(&connection) else { continue };
            let Some(attachment) = client.attachments.get_mut(id) else { continue };
            let Some(number) = attachment.asked.remove(&place) else { continue };
            client.asked.close(Side::Agent, &number.into());
            if Some(connection) == except {
                continue;
            }
            let text = lines::cancel(&RequestId::Number(number));
            let line = ToClient::plain(text.into(), Some(Arc::clone(id)));
            self.output.push_back(Output::Send { connection, line });
        }
    }

    /// A client answers something. What it was not asked, or not any more, concerns nobody.
    pub(super) fn answer(&mut self, connection: ConnectionId, response: &Response<'_>, line: &Arc<str>) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let (outcome, decider) = match &response.outcome {
            Ok(result) => (Outcome::Result(lines::without_own(result)), DECIDER.of(result)),
            Err(_) => (Outcome::of(&response.outcome), None),
        };
        let Some(Topic { about, misfits }) = client.asked.get(Side::Agent, &response.id).cloned() else {
            return;
        };
        match about {
            About::Direct(direct) => {
                self.answer_directly(connection, &response.id, &direct, misfits, outcome);
            }
            About::Question(id, place) => {
                // The token may have lost the right meanwhile.
                if client.who.role < Role::Answer {
                    return;
                }
                let mut by = client.signature();
                if let Outcome::Error(error) = &outcome {
                    return self.not_answered(connection, &id, place, &by, error);
                }
                by.decider = decider.map(Into::into);
                let reason = self.question(&id, place).and_then(|question| question.misfit(&outcome));
                let outcome = match reason {
                    Some(reason) => {
                        let record = QuestionRecord::new().question(place).by(by.clone());
                        self.note(&id, &HubRecord::AnswerDoesNotFit(record.reason(reason.clone())));
                        self.tell_misfit(connection, &id, &reason);
                        if misfits < MISFITS {
                            return self.ask_again(connection, &id, place, misfits + 1);
                        }
                        cancelled(ELICITATION)
                    }
                    None => outcome,
                };
                if self.is_ours(&id) {
                    self.settle(&id, place, &outcome, &by, Some(connection));
                } else {
                    self.answer_elsewhere(&id, place, &outcome, &by, (connection, line));
                }
            }
        }
    }

    /// Keeps a question open that a client has answered with an error: its connection broke, its window was closed, or it
    /// cannot show the question. The others stay asked; this client is asked again when it attaches again.
    fn not_answered(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        place: u64,
        by: &Author<'static>,
        error: &str,
    ) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        if let Some(attachment) = client.attachments.get_mut(id)
            && let Some(number) = attachment.asked.remove(&place)
        {
            client.asked.close(Side::Agent, &number.into());
        }
        let Some(record) = self.question(id, place).map(|question| about(place, question)) else { return };
        let record = QuestionRecord { error: Raw::parse(error).ok(), ..record.by(by.clone()) };
        self.note(id, &HubRecord::NotAnswered(record));
        self.tell(format!("a client has no answer to a question of {id}, which stays open: {error}"));
    }

    /// An answer does not fit: the agent does not get it, and who gave it is told why.
    fn tell_misfit(&mut self, connection: ConnectionId, id: &SessionId, reason: &str) {
        let title = format!("This answer does not fit the form, and the agent has not got it: {reason}");
        let update = json!({"sessionUpdate": "notice", "severity": "warning", "title": title});
        let text = lines::update(id, &update.to_string());
        self.send(connection, text, Some(id));
    }

    /// Asks a client what it has answered in vain, by another id.
    fn ask_again(&mut self, connection: ConnectionId, id: &SessionId, place: u64, misfits: usize) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        if let Some(number) = attachment.asked.remove(&place) {
            client.asked.close(Side::Agent, &number.into());
        }
        self.ask_after(connection, id, place, misfits);
    }

    /// Asks a version 1 client again what it has not answered, because it prompts: some of these clients drop requests that
    /// arrive outside of a prompt, such as at `session/load`, and would then wait for this one without a word. The earlier
    /// request is cancelled, so that a client that did show it has one question and not two.
    pub(super) fn ask_at_prompt(&mut self, connection: ConnectionId, id: &SessionId) {
        let Some(memory) = self.sessions.get(id).and_then(|session| session.memory.as_ref()) else { return };
        let titles: Vec<String> = memory.questions.values().map(Question::title).collect();
        let places: Vec<u64> = memory.questions.keys().copied().collect();
        let Some(client) = self.connections.get(&connection).filter(|client| client.is_translated) else {
            return;
        };
        let reached = match client.attachments.get(id) {
            Some(Attachment { place, phase: Phase::Live, .. }) => *place,
            _ => 0,
        };
        let Some(first) = titles.first() else { return };
        let more = match titles.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let title =
            format!("This prompt waits: the agent has asked \"{first}\"{more}, which needs an answer first");
        let update = json!({"sessionUpdate": "notice", "severity": "info", "title": title});
        self.send(connection, lines::update(id, &update.to_string()), Some(id));
        // A question that the client has not come to yet is asked when it has.
        for place in places.into_iter().filter(|place| *place < reached) {
            let Some(client) = self.connections.get_mut(&connection) else { return };
            let Some(attachment) = client.attachments.get_mut(id) else { return };
            if let Some(number) = attachment.asked.remove(&place) {
                client.asked.close(Side::Agent, &number.into());
                self.send(connection, lines::cancel(&RequestId::Number(number)), Some(id));
            }
            self.ask(connection, id, place);
        }
    }

    /// A question has its answer: it is written down with who gave it, the agent gets it, the others are told.
    pub(super) fn settle(
        &mut self,
        id: &SessionId,
        place: u64,
        outcome: &Outcome,
        by: &Author<'static>,
        from: Option<ConnectionId>,
    ) {
        let Some(question) = self.question(id, place).cloned() else { return };
        let host = self.sessions.get(id).and_then(|session| session.host);
        let result = match outcome {
            Outcome::Result(text) => json!({"result": parsed(text)}),
            Outcome::Error(text) => json!({"error": parsed(text)}),
        };
        let record = about(place, &question).by(by.clone()).outcome(result.clone());
        self.note(id, &HubRecord::Answered(record));
        let line = lines::answer(&question.id, outcome);
        let _ = self.append(id, Channel::ToAgent, line.as_str());
        if let Some(host) = host {
            self.output.push_back(Output::ToHost { host, line, session: Some(Arc::clone(id)) });
        }
        self.withdraw(id, place, from);
        self.notice(id, &resolved(&question, &result, by, from), from);
    }

    pub(super) fn question(&self, id: &SessionId, place: u64) -> Option<&Question> {
        self.sessions.get(id)?.memory.as_ref()?.questions.get(&place)
    }

    /// The work is cancelled, and with it every question of a session.
    pub(super) fn cancel_questions(&mut self, id: &SessionId, by: &Author<'static>) {
        let open: Vec<(u64, String)> = self
            .sessions
            .get(id)
            .and_then(|session| session.memory.as_ref())
            .map(|memory| {
                memory.questions.iter().map(|(place, question)| (*place, question.method.clone())).collect()
            })
            .unwrap_or_default();
        for (place, method) in open {
            self.settle(id, place, &cancelled(&method), by, None);
        }
    }

    /// The agent that asked is gone: its questions can have no answer.
    pub(super) fn abandon_questions(&mut self, id: &SessionId, reason: &str) {
        let memory = self.sessions.get(id).and_then(|session| session.memory.as_ref());
        let open = memory.into_iter().flat_map(|memory| &memory.questions);
        let open: Vec<_> = open.map(|(place, question)| (*place, about(*place, question))).collect();
        for (place, record) in open {
            self.note(id, &HubRecord::Unanswered(record.reason(reason)));
            self.withdraw(id, place, None);
        }
    }

    /// Refuses a request of an agent.
    pub(super) fn refuse_agent(&mut self, host: HostId, id: &RequestId<'_>, code: i32, message: &str) {
        let line = lines::answer(id, &Outcome::error(code, message, None));
        self.output.push_back(Output::ToHost { host, line, session: None });
    }
}

impl super::connection::Connection {
    /// Whether the client has what it takes to answer.
    pub(super) fn can_answer(&self, question: &Question) -> bool {
        if question.method != ELICITATION {
            return true;
        }
        let mode = lines::text_of(Some(&question.params), "mode");
        match mode.as_deref() {
            Some("url") => self.can_open_addresses,
            _ => self.can_show_forms,
        }
    }
}

/// The answer that is none.
pub(super) fn cancelled(method: &str) -> Outcome {
    let outcome = match method {
        PERMISSION => r#"{"outcome":{"outcome":"cancelled"}}"#,
        _ => r#"{"action":"cancel"}"#,
    };
    Outcome::Result(outcome.to_owned())
}

/// A text of JSON as a tree, for notes.
fn parsed(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or(serde_json::Value::Null)
}

/// Returns a record about a question.
fn about(place: u64, question: &Question) -> QuestionRecord<'static> {
    QuestionRecord::new().question(place).request(question.id.clone())
}
