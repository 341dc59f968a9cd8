//! Replay buffer: the last lines that were sent to a version 1 client. The translator has state, so its output cannot
//! be reproduced from an arbitrary cursor. A client that resumes gets these lines again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Raw, WireFormat};
use switchboard_transport::SharedText;

use crate::core::lines;

/// Maximum size of the buffer in bytes.
const BYTES: usize = 256 * 1024;

/// A line of a session.
#[derive(Debug, Clone)]
pub(crate) struct BufferedLine {
    pub(crate) text: SharedText,
    pub(crate) stream: Arc<str>,
    /// The cursor after this line.
    pub(crate) cursor: Option<Arc<str>>,
}

/// The buffered lines of all sessions, in order.
#[derive(Debug, Default)]
pub(crate) struct ReplayBuffer {
    lines: VecDeque<BufferedLine>,
    bytes: usize,
}

impl ReplayBuffer {
    /// Adds a line that is sent.
    pub(crate) fn push(&mut self, text: &SharedText, stream: Option<&Arc<str>>, cursor: Option<&Arc<str>>) {
        // A cancellation is not an update. It removes its question from the buffer, so that a resuming client is not
        // asked again.
        if cursor.is_none()
            && let Some(cancelled_request) = cancelled_request(text)
        {
            self.answered(&cancelled_request);
        }
        // Lines of the connection itself cannot be resumed.
        let Some(stream) = stream else { return };
        self.bytes += text.len();
        self.lines.push_back(BufferedLine {
            text: text.clone(),
            stream: Arc::clone(stream),
            cursor: cursor.cloned(),
        });
        // Dropping from the front makes old cursors unknown; such a client has to load the session again.
        while self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= oldest.text.len();
        }
    }

    /// Removes a question that has been answered.
    pub(crate) fn answered(&mut self, id: &RequestId<'_>) {
        let is_it = |line: &BufferedLine| {
            line.cursor.is_none()
                && matches!(Message::decode(&line.text, WireFormat::Any), Ok(Message::Request(question)) if question.id == *id)
        };
        if let Some(at) = self.lines.iter().position(is_it)
            && let Some(line) = self.lines.remove(at)
        {
            self.bytes -= line.text.len();
        }
    }

    /// Returns the lines of a session after a cursor. `None` if they are not in the buffer any more, or if the agent
    /// has replaced some of their content since: version 1 cannot remove content. Fields of a tool call that a later
    /// line replaces are omitted.
    pub(crate) fn after(&self, session: &str, cursor: &str) -> Option<Vec<BufferedLine>> {
        let lines = self.lines.iter().filter(|line| *line.stream == *session);
        let mut rest = lines.skip_while(|line| line.cursor.as_deref() != Some(cursor));
        // The line with the cursor itself was received. If it is not in the buffer, neither is everything after it.
        rest.next()?;
        let mut rest: Vec<BufferedLine> = rest.cloned().collect();
        // From the last line to the first, because later values replace earlier ones.
        let mut set: HashSet<(String, &str)> = HashSet::new();
        for line in rest.iter_mut().rev() {
            let Some((params, update)) = update_of(&line.text) else { continue };
            // The client may show the replaced text, and version 1 cannot remove it: only loading the session again
            // can.
            if update.text("messageId").is_some_and(|id| is_replacement(&id)) {
                return None;
            }
            let Some(call) = update.text("toolCallId") else { continue };
            let mut left = update.clone();
            for key in REPLACED.into_iter().filter(|key| update.get(key).is_some()) {
                // A later line sets the same field, so this value would only be visible for a moment.
                if !set.insert((call.clone(), key))
                    && let Ok(less) = Raw::parse(lines::without(&left, key))
                {
                    left = less;
                }
            }
            if left != update {
                let params = lines::merged(Some(&params), &[("update", left.as_str())]);
                let params = Raw::parse(params).ok();
                let rewrite = lines::Rewrite::default();
                line.text = lines::call(None, "session/update", params.as_ref(), rewrite).into();
            }
        }
        Some(rest)
    }
}

/// Fields of a tool call that a later update replaces.
const REPLACED: [&str; 4] = ["content", "rawInput", "rawOutput", "title"];

/// Returns the update of a line, and the parameters around it.
fn update_of(text: &str) -> Option<(Raw<'static>, Raw<'static>)> {
    match Message::decode(text, WireFormat::Any) {
        Ok(Message::Notification(call)) if call.method == "session/update" => {
            let params = call.params?.into_owned();
            let update = params.get("update")?.into_owned();
            Some((params, update))
        }
        _ => None,
    }
}

/// Returns whether the bridge assigned this id to a message that replaces another one.
fn is_replacement(id: &str) -> bool {
    id.rsplit_once("~r").is_some_and(|(_, count)| count.parse::<u32>().is_ok())
}

/// Returns the request that a line cancels.
fn cancelled_request(text: &str) -> Option<RequestId<'static>> {
    match Message::decode(text, WireFormat::Any) {
        Ok(Message::Notification(call)) if call.method == "$/cancel_request" => {
            let id = call.params?.get("requestId")?.to_value();
            let number = id.as_i64().map(RequestId::Number);
            number.or_else(|| Some(RequestId::Text(id.as_str()?.to_owned().into())))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use switchboard_acp::rpc::RequestId;

    use super::{BYTES, ReplayBuffer};

    fn push(buffer: &mut ReplayBuffer, text: &str, stream: &str, cursor: Option<&str>) {
        buffer.push(&text.to_owned().into(), Some(&Arc::from(stream)), cursor.map(Arc::from).as_ref());
    }

    fn after(buffer: &ReplayBuffer, cursor: &str) -> Option<Vec<String>> {
        let lines = buffer.after("s", cursor)?;
        Some(lines.iter().map(|line| line.text.to_string()).collect())
    }

    #[test]
    fn lines_after_a_cursor_are_replayed_without_closed_questions() {
        let mut buffer = ReplayBuffer::default();
        let question = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"q"}}"#);
        push(&mut buffer, "1", "s", Some("s.1"));
        push(&mut buffer, "x", "t", Some("t.1"));
        for id in 1..4 {
            push(&mut buffer, &question(id), "s", None);
        }
        push(&mut buffer, "2", "s", Some("s.2"));
        buffer.answered(&RequestId::Number(1));
        let cancellation = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}"#;
        buffer.push(&cancellation.to_owned().into(), None, None);
        assert_eq!(after(&buffer, "s.1"), Some(vec![question(2), "2".to_owned()]));
        assert_eq!(after(&buffer, "s.2"), Some(vec![]));
        assert_eq!((after(&buffer, "t.1"), after(&buffer, "s.3")), (None, None));
    }

    #[test]
    fn replaced_content_is_not_replayed() {
        let update = |update: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
            )
        };
        let call =
            |more: &str| update(&format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"t"{more}}}"#));
        let mut buffer = ReplayBuffer::default();
        push(&mut buffer, "1", "s", Some("s.1"));
        push(
            &mut buffer,
            &call(r#","status":"pending","rawOutput":"SECRET","content":[1]"#),
            "s",
            Some("s.2"),
        );
        push(&mut buffer, &call(r#","content":[2]"#), "s", Some("s.3"));
        push(&mut buffer, &call(r#","rawOutput":null"#), "s", Some("s.4"));
        let expected =
            [call(r#","status":"pending""#), call(r#","content":[2]"#), call(r#","rawOutput":null"#)];
        assert_eq!(after(&buffer, "s.1"), Some(expected.to_vec()));
        let said =
            |id: &str| update(&format!(r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}"}}"#));
        push(&mut buffer, &said("m"), "s", Some("s.5"));
        push(&mut buffer, &said("m~r1"), "s", Some("s.6"));
        assert_eq!((after(&buffer, "s.1"), after(&buffer, "s.5")), (None, None));
        assert_eq!(after(&buffer, "s.6"), Some(vec![]));
    }

    #[test]
    fn the_buffer_is_bounded() {
        let mut buffer = ReplayBuffer::default();
        for number in 0..2000 {
            push(&mut buffer, &"x".repeat(1000), "s", Some(&format!("s.{number}")));
        }
        assert!(buffer.bytes <= BYTES && after(&buffer, "s.0").is_none());
        assert_eq!(after(&buffer, "s.1998").unwrap().len(), 1);
        push(&mut buffer, &"x".repeat(BYTES + 1), "s", None);
        assert_eq!((buffer.bytes, buffer.lines.len()), (0, 0));
    }
}
