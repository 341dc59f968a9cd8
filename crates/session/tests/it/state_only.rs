//! A conversation without transcript reports the same session state as one with transcript.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_acp::rpc::Message;
use switchboard_acp::{Moment, Side, WireFormat};
use switchboard_session::{Conversation, Session};
use switchboard_testkit::recordings;

use crate::generate::updates;

struct Both {
    full: Conversation,
    small: Conversation,
}

impl Both {
    fn new() -> Self {
        let full = Conversation::new(WireFormat::Any);
        Both { small: full.clone().without_transcript(), full }
    }

    fn say(&mut self, from: Side, line: &str) {
        let Ok(message) = Message::decode(line, WireFormat::Any) else { return };
        let whole = self.full.apply_message(&message, Some(from), Moment(7)).map(|folded| folded.ended);
        let ended = self.small.apply_message(&message, Some(from), Moment(7)).map(|folded| folded.ended);
        if let (Ok(whole), Ok(ended)) = (whole, ended) {
            assert_eq!(whole, ended, "after {line}");
        }
        let nothing = Session::new(WireFormat::Any);
        for (id, session) in self.full.sessions() {
            let small = self.small.session(id).unwrap_or(&nothing);
            assert_eq!(standing(small), standing(session), "{id:?} after {line}");
            assert_eq!(small.lists(), session.lists());
            assert_eq!(self.small.is_prompted(id), self.full.is_prompted(id));
            let ends = |of: &Conversation| of.turns(id).map(|turn| turn.end().cloned()).collect::<Vec<_>>();
            assert_eq!(ends(&self.small), ends(&self.full));
            let parent = |of: &Conversation| of.parent(id.unwrap_or_default()).cloned();
            assert_eq!(parent(&self.small), parent(&self.full));
            // Nothing else is kept.
            let kept = small.permissions().count() - small.pending_permissions().count()
                + (small.elicitations().count() - small.pending_elicitations().count());
            let said = small.len() + small.plans().count() + small.unknown().count() + small.notices().len();
            assert_eq!((kept, said), (0, 0), "after {line}");
        }
    }
}

fn standing(session: &Session) -> impl PartialEq + std::fmt::Debug {
    let permissions = session.pending_permissions();
    let permissions = permissions.map(|it| (it.id().clone(), it.title().to_owned(), it.subject().cloned()));
    let elicitations = session.pending_elicitations().map(|it| (it.id().clone(), it.request().clone()));
    (
        (session.state().cloned(), session.title().map(str::to_owned), session.usage().cloned()),
        (permissions.collect::<Vec<_>>(), elicitations.collect::<Vec<_>>()),
    )
}

#[test]
fn recordings_stand_the_same() {
    let mut lines = 0;
    for recording in recordings() {
        let mut both = Both::new();
        for line in &recording.lines {
            both.say(if line.from_agent { Side::Agent } else { Side::Client }, &line.message);
            lines += 1;
        }
    }
    assert!(lines > 100, "only {lines} lines were folded");
}

/// Returns an event between updates: sender and message.
fn event(which: u8, id: u8) -> (Side, Value) {
    let about = json!({"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Write"}});
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    match which % 9 {
        0 | 1 => {
            let params =
                json!({"sessionId": "s", "title": format!("{id}?"), "subject": about, "options": options});
            (Side::Agent, json!({"id": id, "method": "session/request_permission", "params": params}))
        }
        2 => {
            let params = json!({"sessionId": "s", "mode": "form", "message": "Who?", "requestedSchema": {"type": "object"}});
            (Side::Agent, json!({"id": id, "method": "elicitation/create", "params": params}))
        }
        3 => {
            (Side::Client, json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}))
        }
        4 => (Side::Client, json!({"id": id, "result": {"action": "accept"}})),
        5 => (Side::Agent, json!({"method": "$/cancel_request", "params": {"requestId": id}})),
        6 => (
            Side::Client,
            json!({"id": id, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}),
        ),
        7 => (Side::Agent, json!({"id": id, "result": {}})),
        _ => (Side::Client, json!({"method": "session/cancel", "params": {"sessionId": "s"}})),
    }
}

proptest! {
    #[test]
    fn the_state_without_transcript_equals_the_full_state(
        (_, updates) in updates(),
        events in prop::collection::vec((any::<u8>(), 0u8..4), 0..40),
    ) {
        let mut both = Both::new();
        let mut updates = updates.into_iter();
        let mut say = |(from, mut message): (Side, Value)| {
            message["jsonrpc"] = "2.0".into();
            both.say(from, &message.to_string());
        };
        for (which, id) in events {
            if let Some(update) = updates.next() {
                let params = json!({"sessionId": "s", "update": update});
                say((Side::Agent, json!({"method": "session/update", "params": params})));
            }
            say(event(which, id));
        }
    }
}

#[test]
fn a_session_goes_on_under_another_id_with_all_that_is_known_of_it() {
    let mut both = Both::new();
    let update = |session: &str, update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
        )
    };
    both.say(Side::Agent, &update("a", r#"{"sessionUpdate":"session_info_update","title":"T"}"#));
    both.say(
        Side::Agent,
        &update("a", r#"{"sessionUpdate":"subagent_update","sessionId":"c","title":"Sub"}"#),
    );
    both.say(Side::Agent, &update("x", r#"{"sessionUpdate":"session_info_update","title":"X"}"#));
    both.say(Side::Agent, &update("c", r#"{"sessionUpdate":"state_update","state":"running"}"#));
    for conversation in [&mut both.full, &mut both.small] {
        assert!(!conversation.rename("a", "x"), "there is another one");
        assert!(!conversation.rename("gone", "b"));
        assert!(conversation.rename("a", "b"));
        assert_eq!(conversation.session(Some("b")).and_then(|session| session.title()), Some("T"));
        assert!(conversation.session(Some("a")).is_none());
        assert_eq!(&*conversation.parent("c").unwrap().session, "b");
        assert_eq!(conversation.root("c"), "b");
        assert!(conversation.rename("c", "d"), "also one that is another's");
        let children: Vec<_> = conversation.children("b").map(|(child, _)| child).collect();
        assert_eq!((children, conversation.name("d")), (vec!["d"], Some("Sub".to_owned())));
        assert_eq!(conversation.len(), 3);
    }
    both.say(Side::Agent, &update("b", r#"{"sessionUpdate":"state_update","state":"running"}"#));
    both.say(
        Side::Agent,
        &update("b", r#"{"sessionUpdate":"subagent_update","sessionId":"e","title":"Sub"}"#),
    );
    assert_eq!(both.full.name("e"), Some("Sub #2".to_owned()), "names are counted on");
}
