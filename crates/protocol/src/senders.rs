//! Detects the sender of messages.

use crate::rpc::{CancelRequestNotification, Message, Request, RequestId, Response};
use crate::{Correlator, Side, Wire, WireFormat, registry};

/// Maximum number of requests whose sender is remembered.
const MAX_OPEN: usize = 100_000;

/// Returns the caller of a method: according to the protocol or, for an unknown method, the prefix of its
/// name. [`None`] for methods that either side may call, such as custom ones.
///
/// ```
/// use switchboard_acp::{Side, caller_of};
///
/// assert_eq!(caller_of("session/request_permission"), Some(Side::Agent));
/// assert_eq!(caller_of("terminal/cancel"), Some(Side::Client));
/// assert_eq!(caller_of("_vendor/thing"), None);
/// ```
pub fn caller_of(method: &str) -> Option<Side> {
    if method.starts_with('_') || method.starts_with("$/") {
        return None;
    }
    match registry::caller(method) {
        Some(registry::Caller::Client) => Some(Side::Client),
        Some(registry::Caller::Agent) => Some(Side::Agent),
        Some(registry::Caller::Both) => None,
        None => {
            let is_agents =
                ["fs/", "terminal/", "elicitation/"].iter().any(|start| method.starts_with(start));
            Some(if is_agents { Side::Agent } else { Side::Client })
        }
    }
}

/// Detects the sender of each message on a connection if it is not given, as in some recordings.
///
/// Calls are identified by their method, responses by the request with their id. If both sides have pending
/// requests with one id, the content of the response decides. Without any, the sender is unknown.
///
/// ```
/// use switchboard_acp::rpc::Message;
/// use switchboard_acp::{SenderTracker, Side, WireFormat};
///
/// let mut senders = SenderTracker::default();
/// let mut sender = |line: &str| senders.sender(&Message::decode(line, WireFormat::Any).unwrap());
/// let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
/// assert_eq!(sender(prompt), Some(Side::Client));
/// let question = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{}}"#;
/// assert_eq!(sender(question), Some(Side::Agent));
/// assert_eq!(sender(r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#), Some(Side::Client));
/// assert_eq!(sender(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Some(Side::Agent));
/// ```
#[derive(Debug, Clone)]
pub struct SenderTracker {
    /// True if the request is a question to a user, whose responses have a unique form.
    open: Correlator<bool>,
}

impl Default for SenderTracker {
    fn default() -> Self {
        SenderTracker { open: Correlator::new(MAX_OPEN) }
    }
}

impl SenderTracker {
    /// Returns the sender of a message, if detected. Must be called for all messages of the connection, in
    /// order.
    pub fn sender(&mut self, message: &Message<'_>) -> Option<Side> {
        match message {
            Message::Request(Request { id, method, .. }) => {
                let sender = caller_of(method)?;
                let is_question = matches!(&**method, "session/request_permission" | "elicitation/create");
                drop(self.open.open_or_evict(sender, id, is_question));
                Some(sender)
            }
            Message::Notification(notification) => match &*notification.method {
                "$/cancel_request" => {
                    let params = notification.params_text();
                    let cancelled = CancelRequestNotification::decode(params, WireFormat::Any).ok()?;
                    self.only_asker(&cancelled.request_id)
                }
                method => caller_of(method),
            },
            Message::Response(response) => {
                let sender = self.answerer(response)?;
                self.open.answered(sender, &response.id);
                Some(sender)
            }
        }
    }

    /// Returns the side with a pending request of an id, if only one has.
    fn only_asker(&self, id: &RequestId<'_>) -> Option<Side> {
        match [Side::Client, Side::Agent].map(|side| self.open.contains(side, id)) {
            [true, false] => Some(Side::Client),
            [false, true] => Some(Side::Agent),
            _ => None,
        }
    }

    fn answerer(&self, response: &Response<'_>) -> Option<Side> {
        if let Some(asker) = self.only_asker(&response.id) {
            return Some(asker.other());
        }
        let is_question = *self.open.get(Side::Agent, &response.id)?;
        Some(match &response.outcome {
            // Only responses to questions have these keys.
            Ok(result)
                if is_question && result.get("outcome").is_none() && result.get("action").is_none() =>
            {
                Side::Agent
            }
            // A question of an agent during a pending request is answered first.
            _ => Side::Client,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(lines: &[&str]) -> Vec<Option<Side>> {
        let mut tracker = SenderTracker::default();
        let decode = |line: &&str| Message::decode(line, WireFormat::Any).map(Message::into_owned).unwrap();
        lines.iter().map(|line| tracker.sender(&decode(line))).collect()
    }

    #[test]
    fn calls_are_told_by_their_methods() {
        for (method, caller) in [
            ("auth/status_update", Some(Side::Agent)),
            ("session/update", Some(Side::Agent)),
            ("elicitation/complete", Some(Side::Agent)),
            ("fs/read_text_file", Some(Side::Agent)),
            ("terminal/of_the_future", Some(Side::Agent)),
            ("terminal/cancel", Some(Side::Client)),
            ("session/of_the_future", Some(Side::Client)),
            ("session/load", Some(Side::Client)),
            ("mcp/message", None),
            ("$/cancel_request", None),
            ("_auth/status_update", None),
        ] {
            assert_eq!(caller_of(method), caller, "{method}");
        }
    }

    #[test]
    fn answers_are_told_by_what_was_asked() {
        let client = Some(Side::Client);
        let agent = Some(Side::Agent);
        let prompt = r#"{"jsonrpc":"2.0","id":5,"method":"session/prompt"}"#;
        let question = r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create"}"#;
        let reading = r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file"}"#;
        let chosen = r#"{"jsonrpc":"2.0","id":5,"result":{"action":"decline"}}"#;
        let plain = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
        let error = r#"{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}"#;
        let back = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}"#;
        assert_eq!(senders(&[prompt, back, error]), [client, client, agent]);
        assert_eq!(senders(&[question, back, error]), [agent, agent, client]);
        assert_eq!(senders(&[prompt, question, back, chosen, plain]), [client, agent, None, client, agent]);
        assert_eq!(senders(&[prompt, question, plain, chosen]), [client, agent, agent, client]);
        assert_eq!(senders(&[prompt, question, error, plain]), [client, agent, client, agent]);
        assert_eq!(senders(&[prompt, reading, plain, plain]), [client, agent, client, agent]);
        // A recording that starts in the middle.
        assert_eq!(senders(&[chosen, plain, error, back]), [None; 4]);
    }
}
