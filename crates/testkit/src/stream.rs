use serde_json::{Map, Value, json};

/// Position of an update's tag among its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagPlace {
    /// Before all other keys.
    First,
    /// After them, as many real agents write it.
    Last,
}

/// Generates the `session/update` messages of one long session deterministically: mostly chunks of text, with
/// thoughts, tool calls with streamed output, diffs, plans and complete messages.
pub fn stream(count: usize, place: TagPlace) -> Vec<String> {
    let mut numbers = Random(0x5eed);
    let mut session = Session { message: 0, call: 0 };
    (0..count).map(|_| envelope(&session.next(&mut numbers), place)).collect()
}

struct Session {
    message: u64,
    call: u64,
}

type Update = Vec<(&'static str, Value)>;

impl Session {
    fn next(&mut self, numbers: &mut Random) -> Update {
        let message_id = format!("msg_{:06}", self.message);
        let call_id = format!("toolu_01{:08}", self.call);
        match numbers.below(100) {
            0..62 => chunk("agent_message_chunk", message_id, numbers),
            62..74 => chunk("agent_thought_chunk", format!("thought_{:06}", self.message), numbers),
            74..80 => {
                self.call += 1;
                vec![
                    ("sessionUpdate", "tool_call_update".into()),
                    ("toolCallId", format!("toolu_01{:08}", self.call).into()),
                    ("title", format!("Read `src/module_{}.rs`", numbers.below(50)).into()),
                    ("kind", "read".into()),
                    ("status", "pending".into()),
                    (
                        "locations",
                        json!([{"path": "/home/user/project/src/main.rs", "line": 1 + numbers.below(400)}]),
                    ),
                    ("rawInput", json!({"file_path": "/home/user/project/src/main.rs", "limit": 200})),
                ]
            }
            80..86 => vec![
                ("sessionUpdate", "tool_call_content_chunk".into()),
                ("toolCallId", call_id.into()),
                (
                    "content",
                    json!({"type": "content", "content": {"type": "text", "text": words(numbers, 12)}}),
                ),
            ],
            86..92 => vec![
                ("sessionUpdate", "tool_call_update".into()),
                ("toolCallId", call_id.into()),
                ("status", "completed".into()),
                ("rawOutput", json!({"exitCode": 0, "stdout": words(numbers, 30)})),
            ],
            92..95 => vec![
                ("sessionUpdate", "tool_call_update".into()),
                ("toolCallId", call_id.into()),
                ("content", json!([diff(numbers)])),
            ],
            95..97 => {
                self.message += 1;
                vec![
                    ("sessionUpdate", "user_message".into()),
                    ("messageId", format!("user_{:06}", self.message).into()),
                    ("content", json!([{"type": "text", "text": words(numbers, 20)}])),
                ]
            }
            97..98 => vec![
                ("sessionUpdate", "agent_message".into()),
                ("messageId", message_id.into()),
                ("_meta", json!({"example.com/tokens": numbers.below(900)})),
            ],
            98..99 => vec![
                ("sessionUpdate", "plan_update".into()),
                (
                    "plan",
                    json!({"type": "items", "planId": "main", "entries": [
                        {"content": words(numbers, 6), "priority": "high", "status": "in_progress"},
                        {"content": words(numbers, 6), "priority": "medium", "status": "pending"},
                    ]}),
                ),
            ],
            _ => vec![
                ("sessionUpdate", "usage_update".into()),
                ("used", (1000 + numbers.below(100_000)).into()),
                ("size", 200_000.into()),
            ],
        }
    }
}

fn chunk(kind: &'static str, message_id: String, numbers: &mut Random) -> Update {
    let count = 1 + numbers.below(6);
    let mut text = words(numbers, count);
    if numbers.below(6) == 0 {
        text.push('\n');
    }
    vec![
        ("sessionUpdate", kind.into()),
        ("messageId", message_id.into()),
        ("content", json!({"type": "text", "text": text})),
    ]
}

fn diff(numbers: &mut Random) -> Value {
    let path = format!("/home/user/project/src/module_{}.rs", numbers.below(50));
    let (old, new) = (words(numbers, 5), words(numbers, 5));
    let patch =
        format!("diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1,1 +1,1 @@\n-{old}\n+{new}\n");
    json!({
        "type": "diff",
        "changes": [{"operation": "modify", "path": path, "fileType": "text"}],
        "patch": {"format": "git_patch", "text": patch, "diff": patch},
    })
}

fn words(numbers: &mut Random, count: u64) -> String {
    const WORDS: [&str; 12] = [
        "the ",
        "module ",
        "now ",
        "reads ",
        "configuration ",
        "before ",
        "it ",
        "starts ",
        "a ",
        "connection ",
        "naïve ",
        "and ",
    ];
    (0..count).map(|_| WORDS[numbers.below(WORDS.len() as u64) as usize]).collect()
}

/// Encodes the message with its keys in the wanted order; `serde_json` maps would sort them.
fn envelope(update: &Update, place: TagPlace) -> String {
    let mut keys: Vec<_> = update.iter().collect();
    if place == TagPlace::Last {
        keys.rotate_left(1);
    }
    let fields: Vec<_> =
        keys.iter().map(|(key, value)| format!("{}:{}", json!(key), ordered(value))).collect();
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"sess_abc123def456","update":{{{}}}}}}}"#,
        fields.join(",")
    )
}

/// Encodes a value with the key `type` first, if it has one.
fn ordered(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let (tags, others): (Map<_, _>, Map<_, _>) =
                map.clone().into_iter().partition(|(key, _)| key == "type" || key == "operation");
            let write = |(key, value): (&String, &Value)| format!("{}:{}", json!(key), ordered(value));
            let fields: Vec<_> = tags.iter().map(write).chain(others.iter().map(write)).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// A small random number generator (xorshift), the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
