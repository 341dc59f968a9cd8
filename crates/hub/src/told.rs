//! What a client of version 1 was told last. It is made of the log by a bridge that remembers what it has said, so it cannot
//! be made once more from any place of the log: who has lost some of it gets these lines again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Raw, WireFormat};
use switchboard_transport::SharedText;

use crate::core::lines;

/// How many bytes are kept.
const BYTES: usize = 256 * 1024;

/// A line in a session.
#[derive(Debug, Clone)]
pub(crate) struct ToldLine {
    pub(crate) text: SharedText,
    pub(crate) stream: Arc<str>,
    /// Its place in the log.
    pub(crate) cursor: Option<Arc<str>>,
}

/// The lines of all sessions in their order.
#[derive(Debug, Default)]
pub(crate) struct Told {
    lines: VecDeque<ToldLine>,
    bytes: usize,
}

impl Told {
    /// Takes note of a line that is sent.
    pub(crate) fn note(&mut self, text: &SharedText, stream: Option<&Arc<str>>, cursor: Option<&Arc<str>>) {
        if cursor.is_none()
            && let Some(withdrawn) = withdrawn(text)
        {
            self.answered(&withdrawn);
        }
        let Some(stream) = stream else { return };
        self.bytes += text.len();
        self.lines.push_back(ToldLine {
            text: text.clone(),
            stream: Arc::clone(stream),
            cursor: cursor.cloned(),
        });
        while self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= oldest.text.len();
        }
    }

    /// A question is open no more.
    pub(crate) fn answered(&mut self, id: &RequestId<'_>) {
        let is_it = |line: &ToldLine| {
            line.cursor.is_none()
                && matches!(Message::decode(&line.text, WireFormat::Any), Ok(Message::Request(question)) if question.id == *id)
        };
        if let Some(at) = self.lines.iter().position(is_it)
            && let Some(line) = self.lines.remove(at)
        {
            self.bytes -= line.text.len();
        }
    }

    /// The lines that were sent in a session after a cursor; `None` where they are not known any more, or where the agent
    /// has taken back what some of them say: version 1 has no line that says less. Of a tool call, what a later line
    /// replaces is left out.
    pub(crate) fn after(&self, session: &str, cursor: &str) -> Option<Vec<ToldLine>> {
        let lines = self.lines.iter().filter(|line| *line.stream == *session);
        let mut rest = lines.skip_while(|line| line.cursor.as_deref() != Some(cursor));
        rest.next()?;
        let mut rest: Vec<ToldLine> = rest.cloned().collect();
        // From the last line to the first: what a later one sets an earlier one need not.
        let mut set: HashSet<(String, &str)> = HashSet::new();
        for line in rest.iter_mut().rev() {
            let Some((params, update)) = update_of(&line.text) else { continue };
            if update.text("messageId").is_some_and(|id| is_replacement(&id)) {
                return None;
            }
            let Some(call) = update.text("toolCallId") else { continue };
            let mut left = update.clone();
            for key in REPLACED.into_iter().filter(|key| update.get(key).is_some()) {
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

/// What a later update of a tool call replaces.
const REPLACED: [&str; 4] = ["content", "rawInput", "rawOutput", "title"];

/// The update of a line, and the parameters around it.
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

/// Whether an id is one that the bridge gives a message which takes the place of another.
fn is_replacement(id: &str) -> bool {
    id.rsplit_once("~r").is_some_and(|(_, count)| count.parse::<u32>().is_ok())
}

/// The question that a line takes back.
fn withdrawn(text: &str) -> Option<RequestId<'static>> {
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

    use super::{BYTES, Told};

    fn note(told: &mut Told, text: &str, stream: &str, cursor: Option<&str>) {
        told.note(&text.to_owned().into(), Some(&Arc::from(stream)), cursor.map(Arc::from).as_ref());
    }

    fn after(told: &Told, cursor: &str) -> Option<Vec<String>> {
        let lines = told.after("s", cursor)?;
        Some(lines.iter().map(|line| line.text.to_string()).collect())
    }

    #[test]
    fn what_follows_a_place_is_told_again_but_no_question_that_is_closed() {
        let mut told = Told::default();
        let question = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"q"}}"#);
        note(&mut told, "1", "s", Some("s.1"));
        note(&mut told, "x", "t", Some("t.1"));
        for id in 1..4 {
            note(&mut told, &question(id), "s", None);
        }
        note(&mut told, "2", "s", Some("s.2"));
        told.answered(&RequestId::Number(1));
        let withdrawal = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}"#;
        told.note(&withdrawal.to_owned().into(), None, None);
        assert_eq!(after(&told, "s.1"), Some(vec![question(2), "2".to_owned()]));
        assert_eq!(after(&told, "s.2"), Some(vec![]));
        assert_eq!((after(&told, "t.1"), after(&told, "s.3")), (None, None));
    }

    #[test]
    fn what_was_replaced_since_is_not_told_again() {
        let update = |update: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
            )
        };
        let call =
            |more: &str| update(&format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"t"{more}}}"#));
        let mut told = Told::default();
        note(&mut told, "1", "s", Some("s.1"));
        note(&mut told, &call(r#","status":"pending","rawOutput":"SECRET","content":[1]"#), "s", Some("s.2"));
        note(&mut told, &call(r#","content":[2]"#), "s", Some("s.3"));
        note(&mut told, &call(r#","rawOutput":null"#), "s", Some("s.4"));
        let expected =
            [call(r#","status":"pending""#), call(r#","content":[2]"#), call(r#","rawOutput":null"#)];
        assert_eq!(after(&told, "s.1"), Some(expected.to_vec()));
        let said =
            |id: &str| update(&format!(r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}"}}"#));
        note(&mut told, &said("m"), "s", Some("s.5"));
        note(&mut told, &said("m~r1"), "s", Some("s.6"));
        assert_eq!((after(&told, "s.1"), after(&told, "s.5")), (None, None));
        assert_eq!(after(&told, "s.6"), Some(vec![]));
    }

    #[test]
    fn it_does_not_grow() {
        let mut told = Told::default();
        for number in 0..2000 {
            note(&mut told, &"x".repeat(1000), "s", Some(&format!("s.{number}")));
        }
        assert!(told.bytes <= BYTES && after(&told, "s.0").is_none());
        assert_eq!(after(&told, "s.1998").unwrap().len(), 1);
        note(&mut told, &"x".repeat(BYTES + 1), "s", None);
        assert_eq!((told.bytes, told.lines.len()), (0, 0));
    }
}
