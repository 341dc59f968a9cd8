//! Marks in messages, and their fate.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use switchboard_bridge::{
    Bridge, BridgeOptions, Handled, Loss, Moment, Output, RecordingBridge, Severity, Side, Version,
};

/// A mark and its position.
pub(crate) struct Mark {
    text: String,
    pointer: String,
    /// Whether it is a value of the message itself. An inserted mark is unique and may appear anywhere; a
    /// value must appear in the output of this message, or of later ones if this one has no output.
    is_own: bool,
}

/// Inserts an unknown key and a metadata key into every object of a message, and a mark after texts for
/// people, so that both keys and values are checked. Objects with arbitrary keys are not changed.
pub(crate) fn mark(message: &mut Value, count: &mut u64) -> Vec<Mark> {
    let mut marks = Vec::new();
    put(message, &mut String::new(), count, &mut marks);
    marks
}

/// Keys of objects whose keys are data of the sender: variables, form fields and their values.
const DATA: [&str; 2] = ["env", "properties"];

/// Keys of texts for people, which do not matter to the protocol.
const WORDS: [&str; 3] = ["title", "description", "hint"];

fn put(value: &mut Value, pointer: &mut String, count: &mut u64, marks: &mut Vec<Mark>) {
    let length = pointer.len();
    match value {
        Value::Object(object) => {
            let is_answer = pointer == "/result/content";
            let is_data = is_answer || DATA.iter().any(|key| pointer.ends_with(&format!("/{key}")));
            for (key, value) in object.iter_mut() {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match value {
                    // While a question is pending, its title replaces the title of the call.
                    Value::String(_) if pointer.ends_with("/subject/toolCall/title") => {}
                    Value::String(words) if WORDS.contains(&&**key) => {
                        *count += 1;
                        let text = format!("mark-{count}.");
                        words.push_str(&format!(" {text}"));
                        marks.push(Mark { text, pointer: pointer.clone(), is_own: false });
                    }
                    value => put(value, pointer, count, marks),
                }
                pointer.truncate(length);
            }
            if is_data {
                return;
            }
            let is_meta = pointer.ends_with("/_meta");
            let mut add = |object: &mut Map<String, Value>, way: &str| {
                *count += 1;
                let text = format!("mark-{count}.");
                object.insert(format!("key{count}"), json!(text));
                let pointer = format!("{pointer}{way}/key{count}");
                marks.push(Mark { text, pointer, is_own: false });
            };
            add(object, "");
            if !is_meta {
                let meta = object.entry("_meta").or_insert_with(|| json!({}));
                if let Value::Object(meta) = meta {
                    add(meta, "/_meta");
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                put(item, pointer, count, marks);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Keys whose values belong to the protocol and may differ between versions, or are shown in another form.
const NOT_OWN: [&str; 22] = [
    "jsonrpc",
    "method",
    "type",
    "sessionUpdate",
    "kind",
    "status",
    "priority",
    "operation",
    "fileType",
    "format",
    "mode",
    "stopReason",
    "action",
    "outcome",
    "severity",
    "audience",
    "state",
    "protocolVersion",
    "requestId",
    "terminalId",
    "messageId",
    "code",
];

/// Spellings of a boolean option that is on, also for clients without boolean options.
const SWITCHED_ON: [&str; 2] = [r#""currentValue":true"#, r#""currentValue":"on""#];

/// Returns the sender's values in a message: each must appear in the output, too.
pub(crate) fn values(message: &Value) -> Vec<Mark> {
    let mut marks = Vec::new();
    collect(message, &mut String::new(), &mut marks);
    // The response to the prompt reports the end of a turn, without a session id.
    let is_state = message["params"]["update"]["sessionUpdate"] == "state_update";
    marks.retain(|mark| !(is_state && mark.pointer == "/params/sessionId"));
    marks
}

fn collect(value: &Value, pointer: &mut String, marks: &mut Vec<Mark>) {
    let length = pointer.len();
    let text = match value {
        Value::Object(object) => {
            for (key, value) in object {
                // Terminal output is shown as text.
                let is_output =
                    key == "data" && (pointer.ends_with("/update") || pointer.ends_with("/output"));
                if NOT_OWN.contains(&&**key) || is_output || (key == "id" && pointer.is_empty()) {
                    continue;
                }
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                collect(value, pointer, marks);
                pointer.truncate(length);
            }
            return;
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                collect(item, pointer, marks);
                pointer.truncate(length);
            }
            return;
        }
        Value::String(text) if text.len() > 1 => {
            let written = Value::String(text.clone()).to_string();
            written[1..written.len() - 1].to_owned()
        }
        Value::Number(number) if number.to_string().len() > 1 => number.to_string(),
        Value::Bool(true) if pointer.ends_with("/currentValue") => SWITCHED_ON[0].to_owned(),
        // All version 2 agents can load sessions; other flags have a value or a mark.
        Value::Bool(true) if !pointer.ends_with("/loadSession") => {
            format!("{}\":", pointer.rsplit('/').next().unwrap_or_default())
        }
        _ => return,
    };
    marks.push(Mark { text, pointer: pointer.clone(), is_own: true });
}

/// Result of a conversation: losses and direct output of each message, and the complete output.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) losses: Vec<Vec<Loss>>,
    pub(crate) said: Vec<String>,
    /// Output after the last message.
    pub(crate) rest: String,
}

/// Returns the marks that do not appear anywhere.
pub(crate) fn missing(marks: &[Vec<Mark>], outcome: &Outcome) -> Vec<String> {
    let covers = |loss: &Loss, pointer: &str| {
        loss.severity != Severity::Guess
            && pointer
                .strip_prefix(&*loss.pointer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_other = |character: char| !(character.is_ascii_alphanumeric() || matches!(character, '-' | '.'));
    let output = outcome.said.concat() + &outcome.rest;
    let told: HashSet<&str> = output.split(is_other).filter(|text| text.starts_with("mark-")).collect();
    let comes_out = |index: usize, mark: &Mark| {
        if !mark.is_own {
            return told.contains(&*mark.text);
        }
        let is_in = |said: &String| {
            said.contains(&mark.text) || (mark.text == SWITCHED_ON[0] && said.contains(SWITCHED_ON[1]))
        };
        let mut later = outcome.said[index..].iter().chain([&outcome.rest]);
        if outcome.said[index].is_empty() { later.any(is_in) } else { later.next().is_some_and(is_in) }
    };
    let mut missing = Vec::new();
    for (index, (marks, losses)) in marks.iter().zip(&outcome.losses).enumerate() {
        for mark in marks {
            let is_reported = losses.iter().any(|loss| covers(loss, &mark.pointer));
            if !is_reported && !comes_out(index, mark) {
                missing.push(format!("{} {}", mark.pointer, if mark.is_own { &mark.text } else { "" }));
            }
        }
    }
    missing
}

/// Translates a recorded conversation with so many milliseconds between the messages.
pub(crate) fn translate(lines: &[(Side, Value)], to: Version, step: i64) -> Outcome {
    let mut bridge = RecordingBridge::new(to);
    let mut outcome = Outcome::default();
    for (index, (from, message)) in lines.iter().enumerate() {
        bridge.take(Some(*from), &message.to_string(), Moment(index as i64 * step));
        outcome.losses.push(Vec::new());
        outcome.said.push(bridge.drain().map(|line| line.text + "\n").collect());
        for (number, loss) in bridge.take_losses() {
            outcome.losses[usize::try_from(number).unwrap() - 1].push(loss);
        }
    }
    bridge.finish();
    outcome.rest = bridge.drain().map(|line| line.text + "\n").collect();
    let last = bridge.take_losses().into_iter().map(|(_, loss)| loss).collect();
    attribute_waiting(lines, last, &mut outcome);
    outcome
}

/// Translates a conversation with a bridge between a client and an agent of different versions.
pub(crate) fn translate_live(lines: &[(Side, Value)], options: BridgeOptions) -> Outcome {
    let mut bridge = Bridge::new(BridgeOptions { keep_ids: true, ..options });
    let mut outcome = Outcome::default();
    let take = |bridge: &mut Bridge, message: &Value| {
        let (mut said, mut losses) = (String::new(), Vec::new());
        for output in bridge.drain() {
            match output {
                Output::Line { line, .. } => {
                    // The sender got an error response, which counts as a report about the whole request.
                    let told: Value = serde_json::from_str(&line).expect("JSON");
                    if told.get("error").is_some() && told["id"] == message["id"] {
                        losses.push(lost_at("", Severity::Major));
                    }
                    said.push_str(&(line + "\n"));
                }
                Output::Loss(loss) => losses.push(loss),
            }
        }
        (said, losses)
    };
    for (index, (from, message)) in lines.iter().enumerate() {
        let (line, now) = (message.to_string(), Moment(index as i64 * 500));
        let handled = bridge.handle(*from, &line, now);
        assert_eq!(handled, Handled::Done, "{line}");
        bridge.tick(now);
        let (said, losses) = take(&mut bridge, message);
        outcome.said.push(said);
        outcome.losses.push(losses);
    }
    bridge.finish();
    let (rest, last) = take(&mut bridge, &Value::Null);
    outcome.rest = rest;
    attribute_waiting(lines, last, &mut outcome);
    outcome
}

/// Returns a loss at a pointer.
pub(crate) fn lost_at(pointer: &str, severity: Severity) -> Loss {
    let (message, element, reason) = ("message".to_owned(), "message".to_owned(), "refused".to_owned());
    Loss {
        session: None,
        message,
        element,
        pointer: pointer.to_owned(),
        reason,
        severity,
        toward: Side::Client,
    }
}

/// Returns whether a loss may be reported later than its message: a prompt in the queue, a state that ends a
/// turn, and every update of a session without a known parent.
fn is_of(loss: &Loss, message: &Value) -> bool {
    let kind = [&message["method"], &message["params"]["update"]["sessionUpdate"]];
    let session = message["params"]["sessionId"].as_str();
    if session == Some("child-c") && loss.session.as_deref() == session {
        return kind.contains(&&json!(loss.message));
    }
    matches!(&*loss.message, "session/prompt" | "state_update") && kind.contains(&&json!(loss.message))
}

/// Attributes late losses: a queued prompt that is never sent, and the end of a turn that never began, are
/// reported with a later message and count for all earlier ones.
fn attribute_waiting(lines: &[(Side, Value)], last: Vec<Loss>, outcome: &mut Outcome) {
    let mut late: Vec<(usize, Loss)> = last.into_iter().map(|loss| (lines.len(), loss)).collect();
    for (index, losses) in outcome.losses.iter().enumerate() {
        let others = losses.iter().filter(|loss| !is_of(loss, &lines[index].1));
        late.extend(others.map(|loss| (index, loss.clone())));
    }
    for (index, loss) in late {
        for ((_, message), losses) in lines.iter().zip(&mut outcome.losses).take(index) {
            let is_answer = message.get("result").is_some() && loss.message == "session/prompt";
            if is_of(&loss, message) || (is_answer && !loss.pointer.is_empty()) {
                losses.push(loss.clone());
            }
        }
    }
}

impl Outcome {
    /// Accepts states in any order: the loss of an earlier state may be reported with a later one and counts
    /// for all before it.
    pub(crate) fn in_any_order(mut self, lines: &[(Side, Value)]) -> Self {
        for index in (1..lines.len()).rev() {
            let states: Vec<Loss> =
                self.losses[index].iter().filter(|loss| loss.message == "state_update").cloned().collect();
            let earlier = lines.iter().zip(&mut self.losses).take(index);
            for (_, losses) in
                earlier.filter(|((_, message), _)| states.iter().any(|loss| is_of(loss, message)))
            {
                losses.extend(states.iter().cloned());
            }
        }
        self
    }
}
