//! Questions of the past and their answers, read from the messages of a session.

use std::collections::VecDeque;

use switchboard_session::{Decider, Moment, Settlement, Side};

use crate::{Question, QuestionReader};

/// Maximum number of questions that wait for an answer at a time. The answers to older ones are not found.
const MAX_WAITING: usize = 1000;

/// The outcome of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PastAnswer {
    /// The request was allowed.
    Allowed,
    /// The request was rejected.
    Rejected,
    /// The question was cancelled or dismissed, or its answer chose none of the options.
    Cancelled,
    /// The messages have no answer.
    Open,
}

impl PastAnswer {
    /// Returns its name: `allowed`, `rejected`, `cancelled` or `none`.
    pub fn as_str(self) -> &'static str {
        match self {
            PastAnswer::Allowed => "allowed",
            PastAnswer::Rejected => "rejected",
            PastAnswer::Cancelled => "cancelled",
            PastAnswer::Open => "none",
        }
    }
}

/// A question with its outcome.
#[derive(Debug)]
pub struct PastQuestion {
    /// The number of its message.
    pub number: u64,
    /// The question itself.
    pub question: Question,
    /// Its outcome.
    pub answered: PastAnswer,
    /// True if rules answered it.
    pub by_rule: bool,
    /// 0-based index among the questions of the session, in the order in which they were asked.
    pub index: usize,
}

/// A reader of a session that pairs questions with their answers. Questions without an answer are limited in number.
///
/// ```
/// use switchboard_acp::Side;
/// use switchboard_policy::{PastAnswer, PastQuestions, QuestionReader};
///
/// let mut past = PastQuestions::new(QuestionReader::new("/project"));
/// let asked = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","title":"Push?",
///     "subject":{"type":"tool_call","toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"git push"}}},
///     "options":[{"optionId":"n","name":"No","kind":"reject_once"}]}}"#;
/// assert!(past.read(asked, Some(Side::Agent), 7).is_empty());
/// let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"n"}}}"#;
/// let settled = past.read(answer, Some(Side::Client), 8);
/// assert_eq!((settled[0].number, settled[0].answered), (7, PastAnswer::Rejected));
/// assert_eq!(settled[0].question.subject.summary(), "git push");
/// ```
#[derive(Debug)]
pub struct PastQuestions {
    reader: QuestionReader,
    open: VecDeque<PastQuestion>,
    asked: usize,
}

impl PastQuestions {
    /// Reads the messages of one session with the given reader.
    pub fn new(reader: QuestionReader) -> Self {
        PastQuestions { reader, open: VecDeque::new(), asked: 0 }
    }

    /// Returns the reader.
    pub fn reader(&self) -> &QuestionReader {
        &self.reader
    }

    /// Returns the reader, whose conversation takes the records of a hub.
    pub fn reader_mut(&mut self) -> &mut QuestionReader {
        &mut self.reader
    }

    /// Reads a message with its number, and returns the questions that it settles. A question whose answer is no longer
    /// waited for, because there are too many, is returned without one.
    pub fn read(&mut self, message: &str, from: Option<Side>, number: u64) -> Vec<PastQuestion> {
        let asked = self.reader.read(message, from, Moment(0));
        // A question is settled before another one can take its id.
        let mut settled = self.settle();
        for question in asked {
            if self.open.len() >= MAX_WAITING {
                settled.extend(self.open.pop_front());
            }
            let index = self.asked;
            self.asked += 1;
            let answered = PastAnswer::Open;
            self.open.push_back(PastQuestion { number, question, answered, by_rule: false, index });
        }
        settled
    }

    fn settle(&mut self) -> Vec<PastQuestion> {
        let mut settled = Vec::new();
        let mut at = 0;
        while let Some(asked) = self.open.get_mut(at) {
            match answer(&self.reader, &asked.question) {
                Some(found) => {
                    (asked.answered, asked.by_rule) = found;
                    settled.extend(self.open.remove(at));
                }
                None => at += 1,
            }
        }
        settled
    }

    /// Returns the questions without an answer, at the end of the session.
    pub fn end(&mut self) -> impl Iterator<Item = PastQuestion> {
        self.open.drain(..)
    }
}

/// Returns the answer to a question, once it is settled, and whether rules gave it.
fn answer(reader: &QuestionReader, question: &Question) -> Option<(PastAnswer, bool)> {
    let session = reader.conversation().session(question.session.as_deref())?;
    let permission = session.permission(question.id.as_ref()?)?;
    let is_rule = |by: &Decider| match by {
        Decider::Rule(_) => true,
        // The policy decided without a rule: by its default, or because there was no client to ask.
        Decider::Other(by) => **by == *"policy",
        _ => false,
    };
    Some(match permission.settlement() {
        Settlement::Pending => return None,
        Settlement::Answered { by, .. } if permission.is_granted() => (PastAnswer::Allowed, is_rule(by)),
        Settlement::Answered { by, .. } => (PastAnswer::Rejected, is_rule(by)),
        Settlement::Cancelled { by, .. } | Settlement::NotAnApproval { by, .. } => {
            (PastAnswer::Cancelled, is_rule(by))
        }
    })
}
