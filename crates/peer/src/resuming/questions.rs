//! What the server asks the client.

use std::collections::{BTreeMap, HashMap};

use switchboard_acp::extensions::META;
use switchboard_acp::rpc::{Request, RequestId, Response};
use switchboard_acp::{Raw, Wire};

use super::envelope;

/// How many questions may wait for the client.
const OPEN: usize = 4096;

/// How many answers are kept for the case that they were lost on their way.
const ANSWERED: usize = 1024;

/// Questions under the ids that the client sees. It sees each once, however often and under whatever ids the server
/// asks it.
#[derive(Debug, Default)]
pub(super) struct Questions {
    known: BTreeMap<i64, KnownQuestion>,
    /// The id that the client sees, by the one of the server on this connection.
    seen_as: HashMap<RequestId<'static>, i64>,
    last: i64,
    answered: usize,
}

#[derive(Debug)]
struct KnownQuestion {
    /// Its id on this connection, once it was asked there.
    id: Option<RequestId<'static>>,
    method: String,
    /// Its parameters, without what may change from one asking to the next.
    content: Raw<'static>,
    session: Option<String>,
    answer: Option<Response<'static>>,
    /// On which link it was asked last.
    asked_on: u64,
}

/// What is to be done about a question of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The client is to see it under this id.
    New(i64),
    /// The client sees it already.
    Known,
    /// The client has answered it: with this line.
    Answered(String),
    /// There is no room for it.
    TooMany,
}

impl Questions {
    /// The server asks something on a link.
    pub(super) fn ask(&mut self, request: &Request<'_>, link: u64) -> Asked {
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let content = envelope::without_keys(&params, &[META]);
        let is_same =
            |question: &KnownQuestion| question.method == request.method && question.content == content;
        let by_id = self.seen_as.get(&request.id).copied();
        let by_id = by_id.filter(|seen| self.known.get(seen).is_some_and(is_same));
        // On a new connection it has a new id.
        let known = by_id.or_else(|| {
            let unbound = |question: &KnownQuestion| question.id.is_none() && is_same(question);
            self.known.iter().find(|(_, question)| unbound(question)).map(|(seen, _)| *seen)
        });
        let id = request.id.clone().into_owned();
        if let Some(seen) = known
            && let Some(question) = self.known.get_mut(&seen)
        {
            question.asked_on = link;
            question.id = Some(id.clone());
            self.seen_as.insert(id.clone(), seen);
            return match &question.answer {
                Some(answer) => Asked::Answered(envelope::response_as(answer, id)),
                None => Asked::Known,
            };
        }
        if self.known.len() - self.answered >= OPEN {
            return Asked::TooMany;
        }
        self.last += 1;
        let question = KnownQuestion {
            id: Some(id.clone()),
            method: request.method.clone().into_owned(),
            session: content.text("sessionId"),
            content,
            answer: None,
            asked_on: link,
        };
        self.known.insert(self.last, question);
        self.seen_as.insert(id, self.last);
        Asked::New(self.last)
    }

    /// The client answers. Gives the line for the server, if it asked on this link: else it has it when it asks again.
    pub(super) fn answer(&mut self, response: &Response<'_>, link: Option<u64>) -> Option<String> {
        let RequestId::Number(seen) = response.id else { return None };
        let question = self.known.get_mut(&seen).filter(|question| question.answer.is_none())?;
        question.answer = Some(response.clone().into_owned());
        let id = question.id.clone().filter(|_| Some(question.asked_on) == link);
        self.answered += 1;
        if self.answered > ANSWERED {
            let oldest = self.known.iter().find(|(_, question)| question.answer.is_some());
            if let Some((oldest, _)) = oldest.map(|(oldest, question)| (*oldest, question.asked_on)) {
                self.remove(oldest);
            }
        }
        id.map(|id| envelope::response_as(response, id))
    }

    /// The server takes a question back. Gives the id that the client sees, where it has not answered.
    pub(super) fn withdraw(&mut self, id: &RequestId<'_>) -> Option<i64> {
        let seen = *self.seen_as.get(&id.clone().into_owned())?;
        self.remove(seen).filter(|question| question.answer.is_none()).map(|_| seen)
    }

    fn remove(&mut self, seen: i64) -> Option<KnownQuestion> {
        let question = self.known.remove(&seen)?;
        if let Some(id) = &question.id
            && self.seen_as.get(id) == Some(&seen)
        {
            self.seen_as.remove(id);
        }
        self.answered -= usize::from(question.answer.is_some());
        Some(question)
    }

    /// The connection is a new one: ids of the old mean nothing on it.
    pub(super) fn forget_ids(&mut self) {
        self.seen_as.clear();
        self.known.values_mut().for_each(|question| question.id = None);
    }

    /// What is open in a session is about to be asked once more on this link. Whether there is something.
    pub(super) fn ask_again(&mut self, session: &str) -> bool {
        let of_session =
            self.known.values_mut().filter(|question| question.session.as_deref() == Some(session));
        of_session.map(|question| question.asked_on = 0).count() > 0
    }

    /// The sessions in which something was asked.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.known.values().filter_map(|question| question.session.as_deref())
    }

    /// The server has asked all that it still wants to know in a session. Gives the ids of what it asked before and asks no
    /// more, as the client sees them.
    pub(super) fn settle(&mut self, session: &str, link: u64) -> Vec<i64> {
        let is_over = |question: &KnownQuestion| {
            question.session.as_deref() == Some(session) && question.asked_on != link
        };
        let over: Vec<i64> =
            self.known.iter().filter(|(_, question)| is_over(question)).map(|(seen, _)| *seen).collect();
        over.into_iter()
            .filter(|seen| self.remove(*seen).is_some_and(|question| question.answer.is_none()))
            .collect()
    }
}
