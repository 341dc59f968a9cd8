//! Answers from notifications: links that select one option of one question, once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use switchboard_hub::PendingQuestionEvent;
use tokio::time::Instant;

/// Time for which a link is valid.
const VALIDITY: Duration = Duration::from_secs(15 * 60);
/// Time before which a link is not accepted, as in the page: a person has not read the question yet.
const TOO_EARLY: Duration = Duration::from_millis(500);
/// Maximum number of links. Above it, notifications have none.
const MAX_LINKS: usize = 4096;

/// An option of a question that a link selects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// Id of the session.
    pub session: String,
    /// The question as it was shown. The answer is valid only if it is still the same.
    pub question: Arc<PendingQuestionEvent>,
    /// Id of the selected option.
    pub option: String,
    /// Name of the target.
    pub target: String,
}

/// Reason why a link is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidAnswer {
    /// The link is unknown, used or expired.
    Unknown,
    /// The link was used within half a second.
    TooEarly,
}

struct Link {
    answer: Answer,
    made: Instant,
}

/// The links of this launch, by the hashes of their codes.
#[derive(Default)]
pub(crate) struct Links(Mutex<HashMap<Vec<u8>, Link>>);

fn hash(code: &str) -> Vec<u8> {
    digest(&SHA256, code.as_bytes()).as_ref().to_vec()
}

impl Links {
    /// Creates a code for an answer. `None` if there are too many or the system has no random numbers.
    pub(crate) fn create(&self, answer: Answer) -> Option<String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let code: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (mut links, now) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        links.retain(|_, link| now.duration_since(link.made) < VALIDITY);
        if links.len() >= MAX_LINKS {
            return None;
        }
        links.insert(hash(&code), Link { answer, made: now });
        Some(code)
    }

    /// Takes the answer of a code. It and the other options of the question are used up, unless it is too early.
    pub(crate) fn redeem(&self, code: &str) -> Result<Answer, InvalidAnswer> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.get(&hash(code)).ok_or(InvalidAnswer::Unknown)?;
        let age = link.made.elapsed();
        if age < TOO_EARLY {
            return Err(InvalidAnswer::TooEarly);
        }
        let answer = link.answer.clone();
        links.retain(|_, other| !is_about(&other.answer, &answer.session, answer.question.id));
        if age < VALIDITY { Ok(answer) } else { Err(InvalidAnswer::Unknown) }
    }

    /// Removes the codes of a question that has ended.
    pub(crate) fn forget(&self, session: &str, question: u64) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| !is_about(&link.answer, session, question));
    }
}

fn is_about(answer: &Answer, session: &str, question: u64) -> bool {
    answer.session == session && answer.question.id == question
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: u64, option: &str) -> Answer {
        let question = PendingQuestionEvent {
            id: question,
            action: "asks to run a command",
            details: "$ ls".to_owned(),
            is_complete: true,
            options: Vec::new(),
        };
        let (session, option) = ("s".to_owned(), option.to_owned());
        Answer { session, question: Arc::new(question), option, target: "ntfy".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_works_once_after_half_a_second_and_for_fifteen_minutes() {
        let links = Links::default();
        let code = links.create(answer(1, "yes")).unwrap();
        assert_eq!(code.len(), 32, "128 bits");
        assert_eq!(links.redeem(&code), Err(InvalidAnswer::TooEarly));
        tokio::time::advance(TOO_EARLY).await;
        assert_eq!(links.redeem(&code), Ok(answer(1, "yes")));
        assert_eq!(links.redeem(&code), Err(InvalidAnswer::Unknown));
        let code = links.create(answer(1, "yes")).unwrap();
        tokio::time::advance(VALIDITY).await;
        assert_eq!(links.redeem(&code), Err(InvalidAnswer::Unknown));
        assert_eq!(links.redeem(""), Err(InvalidAnswer::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn the_options_of_a_question_end_together() {
        let links = Links::default();
        let [yes, no, other] =
            [answer(1, "yes"), answer(1, "no"), answer(2, "yes")].map(|answer| links.create(answer).unwrap());
        tokio::time::advance(TOO_EARLY).await;
        assert!(links.redeem(&yes).is_ok());
        assert_eq!(links.redeem(&no), Err(InvalidAnswer::Unknown));
        links.forget("s", 2);
        assert_eq!(links.redeem(&other), Err(InvalidAnswer::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_links_is_limited() {
        let links = Links::default();
        for _ in 0..MAX_LINKS {
            assert!(links.create(answer(1, "yes")).is_some());
        }
        assert_eq!(links.create(answer(1, "yes")), None);
        tokio::time::advance(VALIDITY).await;
        assert!(links.create(answer(1, "yes")).is_some());
    }
}
