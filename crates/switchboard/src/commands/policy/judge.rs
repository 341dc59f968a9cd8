//! Rules in a hub: they answer before anybody is asked.

use std::collections::HashMap;

use switchboard_acp::{Side, Wire, WireFormat};
use switchboard_hub::{Judge, Judgement};
use switchboard_policy::{Answer, Question, QuestionReader, Relevance};
use switchboard_session::Moment;

use super::in_few_words;
use crate::rules::{Rules, result};

/// The rules of a hub.
pub(crate) struct HubJudge {
    rules: Rules,
    relevance: Relevance,
    /// What agents have said, by the sessions of the hub.
    readers: HashMap<String, QuestionReader>,
}

impl HubJudge {
    pub(crate) fn new(rules: Rules) -> Self {
        HubJudge { rules, relevance: Relevance::new(), readers: HashMap::new() }
    }
}

impl Judge for HubJudge {
    fn hear(&mut self, session: &str, folder: &str, from: Side, line: &str) -> Option<Judgement> {
        if !self.relevance.matters(line.as_bytes()) {
            return None;
        }
        if !self.readers.contains_key(session) {
            self.readers.insert(session.to_owned(), QuestionReader::new(folder));
        }
        let questions = self.readers.get_mut(session)?.read(line, Some(from), Moment::default());
        self.judge(&questions.into_iter().next()?, folder)
    }

    fn again(&mut self, session: &str, folder: &str, line: &str) -> Option<Judgement> {
        let question = self.readers.get(session)?.again(line)?;
        self.judge(&question, folder)
    }

    fn forget(&mut self, session: &str) {
        self.readers.remove(session);
    }
}

impl HubJudge {
    /// What the rules say to a question; nothing where there are none.
    fn judge(&mut self, question: &Question, folder: &str) -> Option<Judgement> {
        let judged = self.rules.judge(&question.subject, &question.options, folder);
        if judged.has_no_rules() {
            return None;
        }
        let answer = judged.answer(&question.options);
        let option = match &answer {
            Answer::Select(option) => Some(option.as_str()),
            Answer::Cancel | Answer::Ask => None,
        };
        Some(Judgement {
            by: judged.to_json(option),
            result: result(&answer).map(|result| result.encode(WireFormat::Any)),
            notice: format!("{}: {}", judged.in_words(), in_few_words(&question.subject)),
        })
    }
}
