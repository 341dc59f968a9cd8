//! Questions of the server to the client.

use std::collections::{BTreeMap, HashMap};

use switchboard_acp::extensions::META;
use switchboard_acp::rpc::{Request, RequestId, Response};
use switchboard_acp::{Raw, Wire};

use super::envelope;

/// Maximum number of pending questions.
const OPEN: usize = 4096;

/// Maximum number of answers kept for resending.
const MAX_KEPT_ANSWERS: usize = 1024;

/// Questions by the ids that the client sees. The client sees each question once, however often and with
/// whatever id the server sends it.
#[derive(Debug, Default)]
pub(super) struct Questions {
    known: BTreeMap<i64, ForwardedQuestion>,
    /// The client's id by the server's id on this connection.
    client_ids: HashMap<RequestId<'static>, i64>,
    last: i64,
    answered: usize,
}

#[derive(Debug)]
struct ForwardedQuestion {
    /// Its id on this connection, once it was sent there.
    id: Option<RequestId<'static>>,
    method: String,
    /// Its parameters without metadata, which may differ between repetitions.
    content: Raw<'static>,
    session: Option<String>,
    answer: Option<Response<'static>>,
    /// The connection on which it was sent last.
    asked_on: u64,
}

/// Treatment of a question of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QuestionAction {
    /// Send it to the client with this id.
    New(i64),
    /// The client already has it.
    Known,
    /// The client has answered it with this line.
    Answered(String),
    /// The limit is reached.
    TooMany,
}

impl Questions {
    /// Handles a question of the server on a connection.
    pub(super) fn ask(&mut self, request: &Request<'_>, link: u64) -> QuestionAction {
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let content = envelope::without_keys(&params, &[META]);
        let is_same =
            |question: &ForwardedQuestion| question.method == request.method && question.content == content;
        let by_id = self.client_ids.get(&request.id).copied();
        let by_id = by_id.filter(|seen| self.known.get(seen).is_some_and(is_same));
        // On a new connection it has a new id.
        let known = by_id.or_else(|| {
            let unbound = |question: &ForwardedQuestion| question.id.is_none() && is_same(question);
            self.known.iter().find(|(_, question)| unbound(question)).map(|(seen, _)| *seen)
        });
        let id = request.id.clone().into_owned();
        if let Some(seen) = known
            && let Some(question) = self.known.get_mut(&seen)
        {
            // Marked as repeated before the treatment is decided: `settle` cancels all questions that are not
            // marked.
            question.asked_on = link;
            question.id = Some(id.clone());
            self.client_ids.insert(id.clone(), seen);
            return match &question.answer {
                Some(answer) => QuestionAction::Answered(envelope::response_as(answer, id)),
                None => QuestionAction::Known,
            };
        }
        // Answered questions do not count: they are kept only to answer repetitions, and have a limit of
        // their own.
        if self.known.len() - self.answered >= OPEN {
            return QuestionAction::TooMany;
        }
        self.last += 1;
        let question = ForwardedQuestion {
            id: Some(id.clone()),
            method: request.method.clone().into_owned(),
            session: content.text("sessionId"),
            content,
            answer: None,
            asked_on: link,
        };
        self.known.insert(self.last, question);
        self.client_ids.insert(id, self.last);
        QuestionAction::New(self.last)
    }

    /// Handles the client's answer. Returns the line for the server if it asked on this connection; otherwise
    /// the answer is kept for a repetition.
    pub(super) fn answer(&mut self, response: &Response<'_>, link: Option<u64>) -> Option<String> {
        let RequestId::Number(seen) = response.id else { return None };
        let question = self.known.get_mut(&seen).filter(|question| question.answer.is_none())?;
        // Kept even if it is sent now: if the connection breaks before it arrives, the server asks again and
        // gets the same answer.
        question.answer = Some(response.clone().into_owned());
        let id = question.id.clone().filter(|_| Some(question.asked_on) == link);
        self.answered += 1;
        if self.answered > MAX_KEPT_ANSWERS {
            let oldest = self.known.iter().find(|(_, question)| question.answer.is_some());
            if let Some((oldest, _)) = oldest.map(|(oldest, question)| (*oldest, question.asked_on)) {
                self.remove(oldest);
            }
        }
        id.map(|id| envelope::response_as(response, id))
    }

    /// Handles the server's cancellation of a question. Returns the client's id of it if it is unanswered.
    pub(super) fn cancel(&mut self, id: &RequestId<'_>) -> Option<i64> {
        let seen = *self.client_ids.get(&id.clone().into_owned())?;
        self.remove(seen).filter(|question| question.answer.is_none()).map(|_| seen)
    }

    fn remove(&mut self, seen: i64) -> Option<ForwardedQuestion> {
        let question = self.known.remove(&seen)?;
        if let Some(id) = &question.id
            && self.client_ids.get(id) == Some(&seen)
        {
            self.client_ids.remove(id);
        }
        self.answered -= usize::from(question.answer.is_some());
        Some(question)
    }

    /// Drops the server's ids, which are invalid on a new connection.
    pub(super) fn forget_ids(&mut self) {
        self.client_ids.clear();
        self.known.values_mut().for_each(|question| question.id = None);
    }

    /// Expects the pending questions of a session to be repeated on this connection. Returns whether there
    /// are any.
    pub(super) fn expect_repetition(&mut self, session: &str) -> bool {
        let of_session =
            self.known.values_mut().filter(|question| question.session.as_deref() == Some(session));
        // No connection has the number 0, so each of them is cancelled by `settle` unless it is repeated.
        of_session.map(|question| question.asked_on = 0).count() > 0
    }

    /// Returns the sessions with questions.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.known.values().filter_map(|question| question.session.as_deref())
    }

    /// Removes the questions of a session that the server did not repeat. Returns the client's ids of the
    /// unanswered ones.
    pub(super) fn settle(&mut self, session: &str, link: u64) -> Vec<i64> {
        let is_over = |question: &ForwardedQuestion| {
            question.session.as_deref() == Some(session) && question.asked_on != link
        };
        let over: Vec<i64> =
            self.known.iter().filter(|(_, question)| is_over(question)).map(|(seen, _)| *seen).collect();
        over.into_iter()
            .filter(|seen| self.remove(*seen).is_some_and(|question| question.answer.is_none()))
            .collect()
    }
}
