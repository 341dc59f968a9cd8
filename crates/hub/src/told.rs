//! What a client of version 1 was told last. It is made of the log by a bridge that remembers what it has said, so it cannot
//! be made once more from any place of the log: who has lost some of it gets these lines again.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard_acp::WireFormat;
use switchboard_acp::rpc::{Message, RequestId};
use switchboard_transport::SharedText;

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

    /// What was told in a session behind a place; `None` where that is not known any more.
    pub(crate) fn after(&self, session: &str, cursor: &str) -> Option<Vec<ToldLine>> {
        let lines = self.lines.iter().filter(|line| *line.stream == *session);
        let mut rest = lines.skip_while(|line| line.cursor.as_deref() != Some(cursor));
        rest.next()?;
        Some(rest.cloned().collect())
    }
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
