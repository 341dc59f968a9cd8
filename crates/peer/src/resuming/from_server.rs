//! Messages of the server.

use switchboard_acp::extensions::{CURSOR, QUESTIONS, own_request_id, with_meta};
use switchboard_acp::rpc::{Message, Notification, Request, RequestId, Response, RpcError, codes};
use switchboard_acp::{Raw, Wire, WireFormat};

use super::pending::Opens;
use super::questions::QuestionAction;
use super::{AttachedSession, Awaiting, OwnRequest, ResumableClient, ResumableOutput, envelope};

impl ResumableClient {
    pub(super) fn on_server_response(&mut self, line: &str, response: &Response<'_>) {
        // Responses to requests of this type first: the client must never see them.
        let own = self.own.keys().copied().find(|number| own_request_id(*number) == response.id);
        match own.and_then(|number| self.own.remove(&number)) {
            Some((OwnRequest::Initialize, _)) => return self.initialized_again(response),
            Some((OwnRequest::Attach { session, has_cursor }, _)) => {
                return self.attached(session, has_cursor, response);
            }
            None => {}
        }
        if let Some(known) = self.initialize.as_mut().filter(|known| !known.is_answered)
            && known.id == response.id
        {
            if response.outcome.is_ok() {
                known.is_answered = true;
                self.send_to_client(line.to_owned());
                return self.attach_all();
            }
            // The client may try other parameters.
            self.initialize = None;
            return self.send_to_client(line.to_owned());
        }
        // A second response to a request that was sent twice is dropped.
        let Some((opens, first_on)) = self.pending.answered(&response.id) else { return };
        // Whatever the outcome is, no replay follows the response. A replay that is still expected would let
        // old updates pass as new ones.
        if let Opens::Known { session, .. } = &opens {
            self.cursors.replay_begun(session);
        }
        let is_new = matches!(opens, Opens::New { .. });
        let opened = response.outcome.as_ref().ok().and_then(|result| self.opened(opens, result));
        // The response precedes the updates of the new session, because the client learns the id of the
        // session from it.
        self.send_to_client(line.to_owned());
        if let Some(session) = opened.filter(|_| is_new && first_on != Some(self.link)) {
            // An earlier message may have opened it, without updates on this connection.
            self.attach(session, true);
        }
    }

    /// Handles the success of a request that opens or ends a session. Returns the session that is open now.
    fn opened(&mut self, opens: Opens, result: &Raw<'_>) -> Option<String> {
        let cursor = CURSOR.of(result);
        let (session, attached) = match opens {
            Opens::Nothing => return None,
            Opens::New { params, is_empty } => match result.text("sessionId") {
                Some(session) => {
                    (session, AttachedSession { method: "session/resume", params, is_own: is_empty })
                }
                None => return None,
            },
            Opens::Known { method, session, params } => {
                let is_own = self.sessions.get(&session).is_some_and(|known| known.is_own);
                (session, AttachedSession { method, params, is_own })
            }
            Opens::End { session } => {
                self.sessions.remove(&session);
                self.cursors.forget(&session);
                return None;
            }
        };
        if let Some(cursor) = cursor {
            self.cursors.begin(&session, &cursor);
        }
        self.sessions.insert(session.clone(), attached);
        Some(session)
    }

    fn initialized_again(&mut self, response: &Response<'_>) {
        match &response.outcome {
            Ok(_) => self.attach_all(),
            Err(error) => {
                let reason = error.to_string();
                self.output.push_back(ResumableOutput::Refused { reason });
            }
        }
    }

    fn attached(&mut self, session: String, has_cursor: bool, response: &Response<'_>) {
        self.reattaching.remove(&session);
        if let Err(error) = &response.outcome {
            let reason = error.to_string();
            // The session exists, but the server cannot continue at the cursor: attach without it and report
            // the gap, instead of losing the session.
            if has_cursor && error.code != codes::RESOURCE_NOT_FOUND {
                self.output.push_back(ResumableOutput::Gap { session: session.clone(), reason });
                self.cursors.forget(&session);
                self.attach(session, false);
            } else {
                self.drop_session(session, reason);
            }
        }
        self.resume_when_attached();
    }

    /// Removes a lost session and fails the requests in it.
    fn drop_session(&mut self, session: String, reason: String) {
        self.sessions.remove(&session);
        self.cursors.forget(&session);
        // Questions before the state: a client that sees the session idle may close its questions itself and
        // would then get late cancellations.
        self.settle(&session);
        let update = serde_json::json!({
            "sessionId": session,
            "update": {"sessionUpdate": "state_update", "state": "idle", "stopReason": "error",
                "error": {"code": codes::RESOURCE_NOT_FOUND, "message": &reason}},
        });
        self.send_to_client(envelope::notification("session/update", Raw::from(update)));
        self.output.push_back(ResumableOutput::SessionLost { session, reason });
    }

    pub(super) fn on_server_request(&mut self, request: &Request<'_>) {
        let session = request.params.as_ref().and_then(|params| params.text("sessionId"));
        let asked = self.questions.ask(request, self.link);
        // Counted after `ask` has marked it, because the last counted question cancels all unmarked ones.
        if let Some(session) = session {
            self.count_question(&session);
        }
        match asked {
            QuestionAction::New(seen) => {
                let line = envelope::request_as(request, RequestId::Number(seen));
                self.send_to_client(line);
            }
            QuestionAction::Known => {}
            QuestionAction::Answered(answer) => self.send_to_server(answer),
            QuestionAction::TooMany => {
                let error = RpcError::new(codes::INTERNAL_ERROR, "too many pending questions".to_owned());
                let answer = Message::response(request.id.clone(), Err(error)).encode(WireFormat::Any);
                self.send_to_server(answer);
            }
        }
    }

    pub(super) fn on_server_notification(&mut self, line: &str, notification: &Notification<'_>) {
        let Some(params) = &notification.params else { return self.send_to_client(line.to_owned()) };
        match &*notification.method {
            "session/update" => self.update(line, params, notification),
            "$/cancel_request" => {
                let id = params.get("requestId");
                let id = id.as_ref().and_then(|id| RequestId::decode(id.as_str(), WireFormat::Any).ok());
                if let Some(seen) = id.and_then(|id| self.questions.cancel(&id)) {
                    self.cancel(seen);
                }
            }
            "stream/resume_failed" => {
                if let Some(session) = params.text("sessionId") {
                    self.reattaching.remove(&session);
                    if !self.is_being_opened(&session) {
                        self.attach(session, true);
                    }
                }
            }
            _ => self.send_to_client(line.to_owned()),
        }
    }

    fn cancel(&mut self, seen: i64) {
        let params = Raw::from(serde_json::json!({"requestId": seen}));
        self.send_to_client(envelope::notification("$/cancel_request", params));
    }

    fn update(&mut self, line: &str, params: &Raw<'_>, notification: &Notification<'_>) {
        let session = params.text("sessionId").unwrap_or_default();
        // During a reattachment, an update with an older cursor is a repetition. Later it can only be the
        // start of a replay that the client requested.
        let cursor = CURSOR.of(params);
        let may_replay = !self.reattaching.contains(&session);
        let is_new = cursor.as_ref().map(|cursor| self.cursors.advance(&session, cursor, may_replay));
        // The state of a session is sent to a client that opens it, even if it has seen everything.
        let answers_opening = || self.is_being_opened(&session) && QUESTIONS.of(params).is_some();
        if is_new != Some(false) || answers_opening() {
            let line = if cursor.is_some() && !self.keeps_cursors {
                let params = with_meta(params, &[CURSOR.name(), QUESTIONS.name()], &[]);
                let mut notification = notification.clone();
                notification.params = Some(params);
                Message::Notification(notification).encode(WireFormat::Any)
            } else {
                line.to_owned()
            };
            self.send_to_client(line);
        }
        self.observe_state(&session, params, is_new);
    }

    /// Detects the update with the state of a session that is reattached. Our server sends the number of
    /// pending questions; for other servers, a state without a cursor is not part of the history.
    fn observe_state(&mut self, session: &str, params: &Raw<'_>, is_new: Option<bool>) {
        let questions = QUESTIONS.of(params);
        // Questions before the state are repeated after it, or are over. A stream may be resumed without our
        // action.
        if questions.is_some() && self.questions.expect_repetition(session) {
            self.catching_up.insert(session.to_owned(), Awaiting::State);
        }
        let is_concerned = self.reattaching.contains(session) || self.catching_up.contains_key(session);
        if !is_concerned && !self.pending.cancels(session) {
            return;
        }
        let update = params.get("update");
        let update =
            update.filter(|update| update.text("sessionUpdate").is_some_and(|kind| kind == "state_update"));
        let state = update.and_then(|update| update.text("state"));
        // An idle session has nothing left to cancel. Otherwise the next connection would send the
        // cancellation into the next turn.
        if state.as_deref() == Some("idle") {
            self.pending.is_idle(session);
        }
        let reached = match (questions, is_new) {
            (Some(count), _) => Some(Awaiting::Questions(count)),
            (None, None) if state.is_some() => Some(Awaiting::LiveUpdate),
            (None, _) => None,
        };
        if reached.is_some() {
            self.reattaching.remove(session);
        }
        let Some(catching_up) = self.catching_up.get_mut(session) else { return };
        match (reached, &catching_up) {
            (Some(reached), Awaiting::State) => *catching_up = reached,
            (None, Awaiting::LiveUpdate) if is_new == Some(true) => {
                *catching_up = Awaiting::Questions(0);
            }
            _ => {}
        }
        self.settle_if_all_asked(session);
    }

    /// Counts a question in a session that is reattached.
    fn count_question(&mut self, session: &str) {
        if let Some(Awaiting::Questions(count)) = self.catching_up.get_mut(session) {
            *count = count.saturating_sub(1);
            self.settle_if_all_asked(session);
        }
    }

    /// Cancels the questions that the server has not repeated, once all have arrived.
    fn settle_if_all_asked(&mut self, session: &str) {
        if self.catching_up.get(session) == Some(&Awaiting::Questions(0)) {
            self.settle(session);
        }
    }

    fn settle(&mut self, session: &str) {
        self.catching_up.remove(session);
        // The server no longer has these questions: they were answered or cancelled while the connection was
        // down.
        for seen in self.questions.settle(session, self.link) {
            self.cancel(seen);
        }
    }
}
