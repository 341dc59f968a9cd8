//! Random updates as plain JSON, and the engine's fold of them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::Session;

/// A source of small choices.
pub(crate) struct Choices<'b>(std::slice::Iter<'b, u8>);

impl Choices<'_> {
    fn below(&mut self, limit: u8) -> u8 {
        self.0.next().copied().unwrap_or_default() % limit
    }

    fn pick<'s>(&mut self, words: &[&'s str]) -> &'s str {
        words[self.below(words.len() as u8) as usize]
    }

    /// Omits the field, clears it or sets it.
    fn patch(&mut self, update: &mut Map<String, Value>, key: &str, value: impl FnOnce(&mut Self) -> Value) {
        match self.below(4) {
            0 | 1 => {}
            2 => drop(update.insert(key.to_owned(), Value::Null)),
            _ => {
                let value = value(self);
                update.insert(key.to_owned(), value);
            }
        }
    }

    fn meta(&mut self) -> Value {
        let mut meta = Map::new();
        for key in ["a", "b", "c"] {
            match self.below(4) {
                0 => drop(meta.insert(key.to_owned(), Value::Null)),
                1 => drop(meta.insert(key.to_owned(), json!(self.below(3)))),
                _ => {}
            }
        }
        Value::Object(meta)
    }

    /// Adds metadata and unknown keys to an update.
    fn attached(&mut self, update: &mut Map<String, Value>) {
        if self.below(4) == 0 {
            update.insert("_meta".into(), json!({"m": self.below(3)}));
        }
        if self.below(4) == 0 {
            update.insert("vendorKey".into(), json!(self.below(3)));
        }
    }

    fn block(&mut self) -> Value {
        let text = self.pick(&["", "a", "b\n", "é", "long text ", "\u{1f600}"]);
        match self.below(8) {
            0 => json!({"type": "text", "text": text, "annotations": {"audience": ["user"]}}),
            1 => json!({"type": "text", "text": text, "_meta": {"k": 1}}),
            2 => json!({"type": "resource_link", "name": text, "uri": "file:///w"}),
            3 => json!({"type": "_hologram", "frames": [1, 2]}),
            _ => json!({"type": "text", "text": text}),
        }
    }

    fn item(&mut self) -> Value {
        match self.below(6) {
            0 => json!({"type": "diff", "changes": [{"operation": "delete", "path": "/w/a"}]}),
            1 => json!({"type": "_chart", "bars": 3}),
            2 => json!({"type": "content", "content": self.block(), "_meta": {"m": true}}),
            _ => json!({"type": "content", "content": self.block()}),
        }
    }

    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Value) -> Value {
        let length = self.below(4);
        (0..length).map(|_| item(self)).collect()
    }

    fn update(&mut self, dialect: WireFormat) -> Value {
        let messages = ["user_message", "agent_message", "agent_thought"];
        let (message_id, call_id) = (self.pick(&["m1", "m2"]), self.pick(&["c1", "c2", "c3"]));
        let mut update = Map::new();
        let kinds = if dialect == WireFormat::Spec { 11 } else { 15 };
        let tag = match self.below(kinds) {
            0..3 => {
                update.insert("messageId".into(), message_id.into());
                update.insert("content".into(), self.block());
                if self.below(4) == 0 {
                    update.insert("_meta".into(), json!({"chunk": self.below(9)}));
                }
                format!("{}_chunk", self.pick(&messages))
            }
            3 => {
                update.insert("messageId".into(), message_id.into());
                self.patch(&mut update, "content", |choices| choices.list(Self::block));
                self.patch(&mut update, "_meta", Self::meta);
                self.pick(&messages).to_owned()
            }
            4 | 5 => {
                update.insert("toolCallId".into(), call_id.into());
                self.patch(&mut update, "title", |choices| choices.pick(&["", "Read", "Write"]).into());
                self.patch(&mut update, "kind", |choices| choices.pick(&["read", "other", "_mine"]).into());
                self.patch(&mut update, "status", |choices| {
                    choices.pick(&["pending", "failed", "new"]).into()
                });
                self.patch(&mut update, "content", |choices| choices.list(Self::item));
                self.patch(&mut update, "locations", |choices| {
                    choices.list(|choices| json!({"path": choices.pick(&["/w/a", "/w/b"])}))
                });
                self.patch(&mut update, "rawInput", |choices| json!({"n": choices.below(3)}));
                self.patch(&mut update, "rawOutput", |choices| json!([choices.below(3)]));
                self.patch(&mut update, "_meta", Self::meta);
                if self.below(5) == 0 {
                    update.insert("vendorKey".into(), json!(self.below(3)));
                }
                "tool_call_update".to_owned()
            }
            6 => {
                update.insert("toolCallId".into(), call_id.into());
                update.insert("content".into(), self.item());
                "tool_call_content_chunk".to_owned()
            }
            7 => {
                let state = self.pick(&["running", "requires_action", "idle", "_dreaming"]);
                update.insert("state".into(), state.into());
                if state == "idle" && self.below(2) == 0 {
                    update.insert("stopReason".into(), self.pick(&["end_turn", "_bored"]).into());
                }
                "state_update".to_owned()
            }
            8 => {
                let plan_id = self.pick(&["p1", "p2"]);
                let entry =
                    json!({"content": self.pick(&["a", "b"]), "priority": "low", "status": "pending"});
                update.insert("plan".into(), json!({"type": "items", "planId": plan_id, "entries": [entry]}));
                self.attached(&mut update);
                "plan_update".to_owned()
            }
            9 => {
                self.patch(&mut update, "title", |choices| choices.pick(&["", "T", "U"]).into());
                self.patch(&mut update, "updatedAt", |choices| choices.pick(&["x", "y"]).into());
                self.patch(&mut update, "_meta", Self::meta);
                "session_info_update".to_owned()
            }
            10 if self.below(3) == 0 => {
                let name = self.pick(&["plan", "test"]);
                update.insert(
                    "availableCommands".into(),
                    json!([{"type": "command", "name": name, "description": "Does it"}]),
                );
                self.attached(&mut update);
                "available_commands_update".to_owned()
            }
            10 => {
                update.insert("n".into(), json!(self.below(5)));
                self.pick(&["_vendor", "tool_call"]).to_owned()
            }
            11 | 12 => {
                update.insert("terminalId".into(), call_id.into());
                update.insert("data".into(), self.pick(&["", "w6k=", "qQ==", "ww==", "AAEC"]).into());
                self.attached(&mut update);
                "terminal_output_chunk".to_owned()
            }
            13 => {
                update.insert("terminalId".into(), call_id.into());
                self.patch(&mut update, "command", |choices| choices.pick(&["ls", "make"]).into());
                self.patch(&mut update, "output", |choices| json!({"data": choices.pick(&["", "WA=="])}));
                self.patch(&mut update, "exitStatus", |choices| json!({"exitCode": choices.below(2)}));
                self.patch(&mut update, "_meta", Self::meta);
                "terminal_update".to_owned()
            }
            _ => {
                update.insert("used".into(), json!(self.below(9)));
                update.insert("size".into(), json!(100));
                self.patch(&mut update, "cost", |_| json!({"amount": 0.5, "currency": "USD"}));
                "usage_update".to_owned()
            }
        };
        update.insert("sessionUpdate".into(), tag.into());
        Value::Object(update)
    }
}

pub(crate) fn dialects() -> impl Strategy<Value = WireFormat> {
    prop::sample::select(vec![WireFormat::Spec, WireFormat::Newest, WireFormat::Any])
}

/// Returns a dialect and updates in it.
pub(crate) fn updates() -> impl Strategy<Value = (WireFormat, Vec<Value>)> {
    let bytes = prop::collection::vec(prop::collection::vec(any::<u8>(), 40), 0..60);
    (dialects(), bytes).prop_map(|(dialect, bytes)| {
        let update = |bytes: &Vec<u8>| Choices(bytes.iter()).update(dialect);
        (dialect, bytes.iter().map(update).collect())
    })
}

pub(crate) fn apply(session: &mut Session, update: &Value) -> switchboard_session::Changes {
    let text = update.to_string();
    let update = v2::SessionUpdate::decode(&text, session.dialect()).unwrap_or_else(|error| {
        panic!("{error} in {text}");
    });
    session.apply(&update)
}

pub(crate) fn fold<'u>(dialect: WireFormat, updates: impl IntoIterator<Item = &'u Value>) -> Session {
    let mut session = Session::new(dialect);
    for update in updates {
        apply(&mut session, update);
    }
    session
}

pub(crate) fn json_of(session: &switchboard_session::Snapshot) -> Value {
    serde_json::from_str(&session.to_json(None)).unwrap()
}
