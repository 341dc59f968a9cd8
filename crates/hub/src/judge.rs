//! Rules that answer what an agent asks, before anybody is asked.

use switchboard_acp::Side;

/// What was decided over a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// By what, for the log: an object with the key `policy`, which is the name of a rule or null.
    pub by: serde_json::Value,
    /// The result that the agent gets, as JSON; `None`: somebody is asked.
    pub result: Option<String>,
    /// What was decided, in one line, for those who were not asked.
    pub notice: String,
}

/// Decides over what agents ask. It is called in the middle of the hub's work, so it must be quick.
pub trait Judge: Send {
    /// Hears a message that an agent sends or gets, in version 2 and with the agent's own ids, before it is told to anybody.
    /// Where it is a request for a permission, says what becomes of it.
    fn hear(&mut self, session: &str, folder: &str, from: Side, line: &str) -> Option<Judgement>;

    /// Decides anew over a request that waits for an answer, after the rules have changed: over what is known by now of what
    /// it asks. `line` is the request as it was heard.
    fn again(&mut self, session: &str, folder: &str, line: &str) -> Option<Judgement>;

    /// The agent of a session is gone.
    fn forget(&mut self, session: &str);
}
