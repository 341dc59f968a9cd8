//! Questions of agents. Every subscriber that may answer is asked; the first answer wins. A question ends with an
//! answer, a cancellation of the turn, or a cancellation by the agent. A client that detaches or responds with an error
//! has not answered.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{Author, DECIDER, HubRecord, Native, POLICY_DECISION, QuestionRecord};
use switchboard_acp::rpc::{RequestId, Response};
use switchboard_acp::{Raw, Side, WireFormat};
use switchboard_store::{Channel, Role};

use super::client_message::ClientMessage;
use super::connection::{PendingQuestion, Phase, QuestionSource, Subscription};
use super::context::Context;
use super::delivery::Delivery;
use super::lines::{self, Outcome, Rewrite};
use super::notices::resolved;
use super::outbox::Dropped;
use super::session::Session;
use super::session_state::Question;
use super::{ConnectionId, Core, Output, SessionId, ToClient, forwarding};
use crate::policy::{PermissionRequest, PolicyDecision};

/// Maximum number of invalid answers of one client to one question. A form that cannot be filled in must not be asked
/// forever.
pub(super) const MAX_INVALID_ANSWERS: usize = 3;
/// Method of a permission request.
pub(super) const PERMISSION: &str = "session/request_permission";
/// Method of a request for data.
pub(super) const ELICITATION: &str = "elicitation/create";

/// The questions of one session.
pub(super) struct Questions<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> Questions<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        Questions { session, cx }
    }

    /// Evaluates the policy for a pending question, on its tool call as the session has it. Returns `None` if the
    /// policy does not apply.
    pub(super) fn evaluate(&mut self, offset: u64) -> Option<PolicyDecision> {
        let policy = self.cx.options.policy.as_mut()?;
        let session = &*self.session;
        let state = session.state.as_ref()?;
        let question = state.questions.get(&offset).filter(|question| question.method == PERMISSION)?;
        policy.evaluate(&PermissionRequest {
            params: &question.params,
            session: state.asking_session(question)?,
            folder: &session.info.folder,
            agent: state.agent.as_deref(),
        })
    }

    /// Applies the decision of the policy on a question that no client was asked yet. The decision is recorded. If it
    /// is the answer, every client is shown the tool call and the rule.
    pub(super) fn apply_decision(&mut self, offset: u64, decision: &PolicyDecision) {
        let Some(question) = self.session.question(offset).cloned() else { return };
        let by = Author::from_value(&decision.by);
        let Some(result) = &decision.result else {
            self.session.append_hub_record(self.cx, &HubRecord::Judged(about(offset, &question).by(by)));
            return Delivery::of(self.session, self.cx).deliver_all();
        };
        // The answer is in the log before clients are shown the call, so that no client takes the question
        // for pending.
        self.settle(offset, &Outcome::Result(result.clone()), &by, None);
        let call =
            question.params.get("subject").and_then(|about| about.get("toolCall").map(Raw::into_owned));
        if let Some(call) = call.filter(Raw::is_object) {
            let session = lines::text_of(Some(&question.params), "sessionId").unwrap_or_default();
            let mut update = call.to_value();
            update["sessionUpdate"] = "tool_call_update".into();
            let _ =
                self.session.append(self.cx, Channel::ToClient, lines::update(&session, &update.to_string()));
        }
        self.announce_decision(&question, decision);
    }

    /// Shows the decision of the policy to every client of a session.
    pub(super) fn announce_decision(&mut self, question: &Question, decision: &PolicyDecision) {
        let session = lines::text_of(Some(&question.params), "sessionId").unwrap_or_default();
        let decided = json!({
            "policy": decision.by["policy"], "decision": decision.by["decision"],
            "request": Raw::of(&question.id, WireFormat::Any),
        });
        let meta = POLICY_DECISION.meta(Raw::from(decided));
        let update = json!({
            "sessionUpdate": "notice", "severity": "info", "title": decision.notice, "_meta": meta.as_raw(),
        });
        let _ = self.session.append(self.cx, Channel::ToClient, lines::update(&session, &update.to_string()));
    }

    /// Asks a client a pending question, if it may and can answer.
    pub(super) fn ask(&mut self, connection: ConnectionId, offset: u64) {
        self.ask_after(connection, offset, 0);
    }

    /// Asks a client again after invalid answers.
    pub(super) fn ask_after(&mut self, connection: ConnectionId, offset: u64, invalid_answers: usize) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let Some(state) = &session.state else { return };
        let Some(question) = state.questions.get(&offset) else { return };
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        if client.identity.role < Role::Answer || !client.can_answer(question) {
            return;
        }
        let Some(subscription) = client.subscriptions.get_mut(id) else { return };
        // One id per client and question, also if the question is asked again at the next attach: a client
        // that still shows it can answer either request.
        let number = *subscription.asked.entry(offset).or_insert_with(|| {
            client.last_id += 1;
            client.last_id
        });
        let topic =
            PendingQuestion { about: QuestionSource::Question(Arc::clone(id), offset), invalid_answers };
        if client.questions.open(Side::Agent, &number.into(), topic).is_err() {
            // This client has failed to answer; others still can.
            subscription.asked.remove(&offset);
            return self.cx.outbox.report(format!(
                "a client of session {id} has too many pending questions and is not asked another one"
            ));
        }
        let name = lines::text_of(Some(&question.params), "sessionId");
        let name = name.map(|session| state.client_session_id(id, &session));
        let native = question.native.clone().filter(|_| client.wants_native).map(Native::TranslatedFrom);
        let rewrite = Rewrite {
            session: name.as_deref(),
            request: Some(&question.id),
            native: native.as_ref(),
            ..Rewrite::default()
        };
        let request = RequestId::Number(number);
        let text = lines::call(Some(&request), &question.method, Some(&question.params), rewrite);
        self.cx.outbox.send(connection, text, Some(id));
    }

    /// Cancels a question at every client that was asked, because it was answered or cancelled.
    pub(super) fn cancel_asked(&mut self, offset: u64, except: Option<ConnectionId>) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        for &connection in &session.subscribers {
            let Some(client) = self.cx.clients.connections.get_mut(&connection) else { continue };
            let Some(subscription) = client.subscriptions.get_mut(id) else { continue };
            let Some(number) = subscription.asked.remove(&offset) else { continue };
            // Closed before the cancellation is sent: an answer that is already under way finds no question
            // and is dropped.
            client.questions.close(Side::Agent, &number.into());
            if Some(connection) == except {
                continue;
            }
            let text = lines::cancel(&RequestId::Number(number));
            let line = ToClient::plain(text.into(), Some(Arc::clone(id)));
            self.cx.outbox.push(Output::Send { connection, line });
        }
    }

    /// Keeps a question pending that a client has answered with an error: its connection broke, its window was closed,
    /// or it cannot show the question. The other clients still have it. This client is asked again when it attaches
    /// again.
    pub(super) fn not_answered(
        &mut self,
        connection: ConnectionId,
        offset: u64,
        by: &Author<'static>,
        error: &str,
    ) {
        let id = &SessionId::clone(self.session.id());
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        if let Some(subscription) = client.subscriptions.get_mut(id)
            && let Some(number) = subscription.asked.remove(&offset)
        {
            client.questions.close(Side::Agent, &number.into());
        }
        let Some(record) = self.session.question(offset).map(|question| about(offset, question)) else {
            return;
        };
        let record = QuestionRecord { error: Raw::parse(error).ok(), ..record.by(by.clone()) };
        self.session.append_hub_record(self.cx, &HubRecord::NotAnswered(record));
        self.cx.outbox.report(format!("a client responded to a question of session {id} with an error; the question stays pending: {error}"));
    }

    /// Reports an invalid answer to the client that gave it. The agent does not get it.
    pub(super) fn report_invalid_answer(&mut self, connection: ConnectionId, reason: &str) {
        let id = &SessionId::clone(self.session.id());
        let title = format!("Invalid answer; it was not sent to the agent: {reason}");
        let update = json!({"sessionUpdate": "notice", "severity": "warning", "title": title});
        let text = lines::update(id, &update.to_string());
        self.cx.outbox.send(connection, text, Some(id));
    }

    /// Asks a client again after an invalid answer, under a new id.
    pub(super) fn ask_again(&mut self, connection: ConnectionId, offset: u64, invalid_answers: usize) {
        let id = &SessionId::clone(self.session.id());
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let Some(subscription) = client.subscriptions.get_mut(id) else { return };
        if let Some(number) = subscription.asked.remove(&offset) {
            client.questions.close(Side::Agent, &number.into());
        }
        self.ask_after(connection, offset, invalid_answers);
    }

    /// Asks a version 1 client its pending questions again when it prompts. Some of these clients drop requests that
    /// arrive outside a prompt, for example during `session/load`, and would never answer. The earlier request is
    /// cancelled, so that a client that did show it has one question, not two.
    pub(super) fn ask_at_prompt(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let Some(state) = self.session.state.as_ref() else { return };
        let titles: Vec<String> = state.questions.values().map(Question::title).collect();
        let offsets: Vec<u64> = state.questions.keys().copied().collect();
        let Some(client) = self.cx.clients.connections.get(&connection).filter(|client| client.is_translated)
        else {
            return;
        };
        let reached = match client.subscriptions.get(id) {
            Some(Subscription { offset, phase: Phase::Live, .. }) => *offset,
            _ => 0,
        };
        let Some(first) = titles.first() else { return };
        let more = match titles.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let title = format!("This prompt is queued until the pending question \"{first}\"{more} is answered");
        let update = json!({"sessionUpdate": "notice", "severity": "info", "title": title});
        self.cx.outbox.send(connection, lines::update(id, &update.to_string()), Some(id));
        // Questions after the client's offset are asked when delivery gets there.
        for offset in offsets.into_iter().filter(|offset| *offset < reached) {
            let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
            let Some(subscription) = client.subscriptions.get_mut(id) else { return };
            if let Some(number) = subscription.asked.remove(&offset) {
                client.questions.close(Side::Agent, &number.into());
                self.cx.outbox.send(connection, lines::cancel(&RequestId::Number(number)), Some(id));
            }
            self.ask(connection, offset);
        }
    }

    /// Answers a question: records the answer and its author, responds to the agent, and cancels the question at other
    /// clients.
    pub(super) fn settle(
        &mut self,
        offset: u64,
        outcome: &Outcome,
        by: &Author<'static>,
        from: Option<ConnectionId>,
    ) {
        let id = &SessionId::clone(self.session.id());
        let Some(question) = self.session.question(offset).cloned() else { return };
        let process = self.session.process;
        let result = match outcome {
            Outcome::Result(text) => json!({"result": parsed(text)}),
            Outcome::Error(text) => json!({"error": parsed(text)}),
        };
        let record = about(offset, &question).by(by.clone()).outcome(result.clone());
        self.session.append_hub_record(self.cx, &HubRecord::Answered(record));
        let line = lines::answer(&question.id, outcome);
        self.cx.answered_by = by.token.as_deref().or(by.client.as_deref()).map(str::to_owned);
        let _ = self.session.append(self.cx, Channel::ToAgent, line.as_str());
        self.cx.answered_by = None;
        if let Some(process) = process {
            self.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(id)) });
        }
        self.cancel_asked(offset, from);
        self.session.notice(self.cx, &resolved(&question, &result, by, from), from);
    }

    /// Cancels every question of a session together with its work.
    pub(super) fn cancel_questions(&mut self, by: &Author<'static>) {
        let open: Vec<(u64, String)> = self
            .session
            .state
            .as_ref()
            .map(|state| {
                state.questions.iter().map(|(offset, question)| (*offset, question.method.clone())).collect()
            })
            .unwrap_or_default();
        for (offset, method) in open {
            self.settle(offset, &cancelled(&method), by, None);
        }
    }

    /// Ends the questions of an agent that has exited.
    pub(super) fn abandon_questions(&mut self, reason: &str) {
        let state = self.session.state.as_ref();
        let open = state.into_iter().flat_map(|state| &state.questions);
        let open: Vec<_> = open.map(|(offset, question)| (*offset, about(*offset, question))).collect();
        for (offset, record) in open {
            self.session.append_hub_record(self.cx, &HubRecord::Unanswered(record.reason(reason)));
            self.cancel_asked(offset, None);
        }
    }

    /// Evaluates the policy again for the pending questions, after the rules have changed. Returns the agent's request ids
    /// of the questions that are answered now.
    pub(super) fn reevaluate(&mut self) -> Vec<RequestId<'static>> {
        let Some(state) = self.session.state.as_ref().filter(|_| self.session.is_owned) else {
            return Vec::new();
        };
        let permissions = state.questions.iter().filter(|(_, question)| question.method == PERMISSION);
        let waiting: Vec<_> = permissions.map(|(offset, question)| (*offset, question.clone())).collect();
        let mut answered = Vec::new();
        // Collected before: each decision appends records, which changes the questions of the session.
        for (offset, question) in waiting {
            let Some(decision) = self.evaluate(offset) else { continue };
            let Some(result) = &decision.result else { continue };
            let by = Author::from_value(&decision.by);
            let record = HubRecord::Judged(about(offset, &question).by(by.clone()));
            self.session.append_hub_record(self.cx, &record);
            self.settle(offset, &Outcome::Result(result.clone()), &by, None);
            self.announce_decision(&question, &decision);
            answered.push(question.id);
        }
        answered
    }
}

/// Handles a response of a client. Responses to questions that are not pending are ignored.
pub(super) fn answered(
    core: &mut Core,
    connection: ConnectionId,
    response: &Response<'_>,
    line: &ClientMessage,
) {
    let Some(client) = core.cx.clients.connections.get_mut(&connection) else {
        return core.cx.outbox.drop_message(Dropped::DisconnectedClient);
    };
    let (outcome, decider) = match &response.outcome {
        Ok(result) => (Outcome::Result(lines::without_hub_meta(result)), DECIDER.of(result)),
        Err(_) => (Outcome::of(&response.outcome), None),
    };
    let Some(PendingQuestion { about, invalid_answers }) =
        client.questions.get(Side::Agent, &response.id).cloned()
    else {
        return core.cx.outbox.drop_message(Dropped::LateAnswer);
    };
    match about {
        QuestionSource::Direct(direct) => {
            core.cx.direct_questions().answer_directly(
                connection,
                &response.id,
                &direct,
                invalid_answers,
                outcome,
            );
        }
        QuestionSource::Question(id, offset) => {
            // The token may have lost the right to answer meanwhile.
            if client.identity.role < Role::Answer {
                return core.cx.outbox.drop_message(Dropped::AnswerWithoutRight);
            }
            let mut by = client.author();
            // Only an answer ends a question. An error says that this client did not show it, or that its
            // connection broke.
            if let Outcome::Error(error) = &outcome {
                if let Some((session, cx)) = core.session(&id) {
                    Questions::of(session, cx).not_answered(connection, offset, &by, error);
                }
                return;
            }
            by.decider = decider.map(Into::into);
            let Some((session, cx)) = core.session(&id) else {
                return core.cx.outbox.drop_message(Dropped::LateAnswer);
            };
            let reason = session.question(offset).and_then(|question| question.validation_error(&outcome));
            let outcome = match reason {
                Some(reason) => {
                    let record = QuestionRecord::new().question(offset).by(by.clone());
                    let record = HubRecord::AnswerDoesNotFit(record.reason(reason.clone()));
                    session.append_hub_record(cx, &record);
                    let mut questions = Questions::of(session, cx);
                    questions.report_invalid_answer(connection, &reason);
                    if invalid_answers < MAX_INVALID_ANSWERS {
                        return questions.ask_again(connection, offset, invalid_answers + 1);
                    }
                    cancelled(ELICITATION)
                }
                None => outcome,
            };
            // Only the owner decides which of several answers is the first: the log has one order, and the
            // owner writes it.
            if session.is_owned {
                Questions::of(session, cx).settle(offset, &outcome, &by, Some(connection));
            } else {
                forwarding::forward_answer(core, &id, offset, &outcome, &by, (connection, line));
            }
        }
    }
}

/// Returns the response for a cancelled question.
pub(super) fn cancelled(method: &str) -> Outcome {
    let outcome = match method {
        PERMISSION => r#"{"outcome":{"outcome":"cancelled"}}"#,
        _ => r#"{"action":"cancel"}"#,
    };
    Outcome::Result(outcome.to_owned())
}

/// Parses JSON text for a record.
fn parsed(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or(serde_json::Value::Null)
}

/// Returns a record about a question.
fn about(offset: u64, question: &Question) -> QuestionRecord<'static> {
    QuestionRecord::new().question(offset).request(question.id.clone())
}
