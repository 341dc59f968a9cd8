//! Records that a hub writes into the log of a session in addition to its messages.

use crate::macros::{object, union};
use crate::rpc::RequestId;
use crate::{Field, Raw, Text, Wire, WireFormat};

union! {
    /// A record in the log of a session that is not a message. The hub writes them all; `run` and `bridge`
    /// write `judged` and `answered` when a policy or a person at the terminal decides. A record precedes the
    /// message that it refers to.
    HubRecord by "hub" in both_versions {
        /// The agent's id of the session, from here on. The hub reads it to route messages, every fold to follow the session.
        AgentSession(AgentSessionRecord<'a>) = "agent session",
        /// The next message is a prompt of this client. Other hubs announce it to their clients.
        Prompt(PromptRecord<'a>) = "prompt",
        /// The prompt never reached the agent: every fold treats it as not sent.
        PromptUndelivered(PromptRecord<'a>) = "prompt undelivered",
        /// The prompt failed without a response of the agent. The hub answers duplicates with the error.
        PromptFailed(PromptRecord<'a>) = "prompt failed",
        /// A policy evaluated the question and left it to a person. `policy audit` shows it.
        Judged(QuestionRecord<'a>) = "judged",
        /// The question was answered by the next message. Folds record its author.
        Answered(QuestionRecord<'a>) = "answered",
        /// A client answered the question with an error. The question stays open.
        NotAnswered(QuestionRecord<'a>) = "not answered",
        /// An answer that does not match the form. The agent does not get it.
        AnswerDoesNotFit(QuestionRecord<'a>) = "answer does not fit",
        /// The agent that asked is gone. Folds dismiss the question.
        Unanswered(QuestionRecord<'a>) = "unanswered",
        /// A client cancelled the work.
        Cancelled(ActRecord<'a>) = "cancelled",
        /// A client closed the session.
        Closed(ActRecord<'a>) = "closed",
        /// A client ended the agent process.
        AgentEnded(ActRecord<'a>) = "agent ended",
        /// The agent did not stop after a cancellation, and the hub ended the turn.
        TurnAbandoned(TurnAbandonedRecord<'a>) = "turn abandoned",
    }
}

impl<'a> HubRecord<'a> {
    /// Reads a record. An unknown one is [`HubRecord::Unknown`]; `None` where the text is not a record at all.
    ///
    /// ```
    /// use switchboard_acp::extensions::HubRecord;
    ///
    /// let record = HubRecord::parse(r#"{"hub":"agent session","id":"a","was":"b"}"#);
    /// assert!(matches!(record, Some(HubRecord::AgentSession(record)) if record.id == "a"));
    /// assert!(matches!(HubRecord::parse(r#"{"hub":"moved"}"#), Some(HubRecord::Unknown(_))));
    /// assert_eq!(HubRecord::parse(r#"{"jsonrpc":"2.0"}"#), None);
    /// ```
    pub fn parse(text: &'a str) -> Option<Self> {
        HubRecord::decode_tolerant(text, WireFormat::Any).ok().map(|(record, _)| record)
    }

    /// Returns the record as JSON.
    pub fn to_json(&self) -> String {
        self.encode(WireFormat::Any)
    }
}

object! {
    /// The agent's id of a session.
    AgentSessionRecord {
        /// The id.
        required id: Text<'a> = "id",
        /// The id before, where the agent lost the session and another one continues it.
        optional was: Text<'a> = "was",
    }
}

object! {
    /// A record about a prompt.
    PromptRecord {
        /// Id of the request to the agent.
        optional request: RequestId<'a> = "request",
        /// The client's idempotency key ([`OPERATION_ID`](super::OPERATION_ID)).
        optional operation: Text<'a> = "operation",
        /// The client that prompted.
        optional by: Author<'a> = "by",
        /// The JSON-RPC error of a prompt that failed.
        optional error: Raw<'a> = "error",
    }
}

object! {
    /// A record about a question of the agent.
    QuestionRecord {
        /// Offset of the question in the hub's log.
        optional question: u64 = "question",
        /// The agent's id of the question.
        optional request: RequestId<'a> = "request",
        /// The party that answered or decided.
        optional by: Author<'a> = "by",
        /// The answer: an object with `result` or `error`.
        optional outcome: Raw<'a> = "outcome",
        /// The JSON-RPC error in place of an answer.
        optional error: Raw<'a> = "error",
        /// Reason why there is no answer.
        optional reason: Text<'a> = "reason",
    }
}

object! {
    /// A record about an act of a client.
    ActRecord {
        /// The client.
        optional by: Author<'a> = "by",
    }
}

object! {
    /// A turn that the hub ended.
    TurnAbandonedRecord {
        /// Number of prompts without a response of the agent.
        optional requests: u64 = "requests",
        /// Reason.
        optional reason: Text<'a> = "reason",
    }
}

object! {
    /// The party that acted or decided: a client of a hub (`token`, `client`, `version`), a person at the terminal
    /// (`person`), or a policy (`policy` and the keys after it).
    Author {
        /// Name of the client's token.
        optional token: Text<'a> = "token",
        /// Name of the client program.
        optional client: Text<'a> = "client",
        /// Version of the client program.
        optional version: Text<'a> = "version",
        /// Source of a decision in the client that was not made by a person ([`DECIDER`](super::DECIDER)).
        optional decider: Text<'a> = "decider",
        /// Name of a person at the terminal.
        optional person: Text<'a> = "person",
        /// Name of the policy's rule; `null` where the policy decided without one.
        patch policy: Text<'a> = "policy",
        /// The policy's decision: `allow`, `ask` or `deny`.
        optional decision: Text<'a> = "decision",
        /// Reason of the policy's decision.
        optional reason: Text<'a> = "reason",
        /// Mode of the policy: `enforce` or `observe`.
        optional mode: Text<'a> = "mode",
        /// Hash of the policy.
        optional hash: Text<'a> = "hash",
        /// The selected option; `null` where none was.
        patch option: Text<'a> = "option",
        /// The agent that the policy knows.
        patch agent: Text<'a> = "agent",
        /// The subject of the decision.
        optional subject: Raw<'a> = "subject",
    }
}

impl<'a> Author<'a> {
    /// Returns the author that a value describes. Empty if it describes none.
    pub fn from_value(value: &serde_json::Value) -> Author<'static> {
        let text = value.to_string();
        let author = Author::decode_tolerant(&text, WireFormat::Any);
        author.map_or_else(|_| Author::new(), |(author, _)| author.into_owned())
    }

    /// Returns true if a policy decided.
    pub fn is_policy(&self) -> bool {
        !matches!(self.policy, Field::Keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_kind_are_read_as_they_were_written() {
        let by = r#"{"token":"t","client":"c","version":"1"}"#;
        for text in [
            r#"{"hub":"agent session","id":"a","was":"b"}"#.to_owned(),
            format!(r#"{{"hub":"prompt","request":3,"operation":"o","by":{by}}}"#),
            r#"{"hub":"prompt undelivered","request":3}"#.to_owned(),
            r#"{"hub":"prompt failed","operation":"o","error":{"code":1,"message":"m"}}"#.to_owned(),
            r#"{"hub":"judged","question":4,"request":"q","by":{"policy":null,"decision":"ask","option":null}}"#.to_owned(),
            format!(r#"{{"hub":"answered","question":4,"request":7,"by":{by},"outcome":{{"result":{{}}}}}}"#),
            format!(r#"{{"hub":"not answered","question":4,"request":7,"by":{by},"error":{{}}}}"#),
            format!(r#"{{"hub":"answer does not fit","question":4,"by":{by},"reason":"r"}}"#),
            r#"{"hub":"unanswered","question":4,"request":7,"reason":"r"}"#.to_owned(),
            format!(r#"{{"hub":"cancelled","by":{by}}}"#),
            r#"{"hub":"closed","by":{}}"#.to_owned(),
            r#"{"hub":"agent ended","by":{}}"#.to_owned(),
            r#"{"hub":"turn abandoned","requests":1,"reason":"r"}"#.to_owned(),
            r#"{"hub":"of a later version","x":[1e3]}"#.to_owned(),
            r#"{"hub":"closed","by":{"token":"t","x":1.50},"later":true}"#.to_owned(),
        ] {
            let record = HubRecord::parse(&text).unwrap();
            assert_eq!(record.as_unknown().is_some(), text.contains("later version"), "{text}");
            assert_eq!(record.to_json(), text);
        }
    }

    #[test]
    fn records_of_earlier_versions_have_their_keys_in_another_order_and_null_for_missing_ones() {
        let text =
            r#"{"by":{"client":"","token":"t","version":""},"hub":"prompt","operation":null,"request":12}"#;
        let Some(HubRecord::Prompt(record)) = HubRecord::parse(text) else { panic!("{text}") };
        assert_eq!((record.request, record.operation), (Some(RequestId::Number(12)), None));
        assert_eq!(record.by.unwrap().token.as_deref(), Some("t"));
        let text = r#"{"by":null,"hub":"cancelled"}"#;
        assert!(matches!(HubRecord::parse(text), Some(HubRecord::Cancelled(record)) if record.by.is_none()));
        let text = r#"{"hub":"answered","request":1,"by":7,"question":"x"}"#;
        let Some(HubRecord::Answered(record)) = HubRecord::parse(text) else { panic!("{text}") };
        assert_eq!((record.request, record.question), (Some(RequestId::Number(1)), None));
    }

    #[test]
    fn a_policy_without_a_rule_is_a_policy() {
        assert!(Author::from_value(&serde_json::json!({"policy": null})).is_policy());
        assert!(!Author::from_value(&serde_json::json!({"token": "t"})).is_policy());
        assert_eq!(Author::from_value(&serde_json::Value::Null), Author::new());
    }
}
