//! Documentation of the protocol: every JSON example in `docs/protocol` is executed and checked.

use std::fmt::Display;
use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::{Recorded, RecordedLine, Wire, WireFormat, WireType, v2, wire_type};
use switchboard_testkit::{CodeBlock, code_blocks, links};

use crate::vectors::fixtures;

/// Minimum number of examples on a page.
const MIN_EXAMPLES: usize = 5;

struct Page {
    name: String,
    text: String,
}

impl Page {
    fn place(&self, line: impl Display) -> String {
        format!("docs/protocol/{}:{line}", self.name)
    }
}

enum Kind {
    /// A bare value of a wire type.
    Value(&'static WireType),
    /// Complete messages, one per line.
    Message,
    /// Session updates in order.
    Sequence,
    /// Result of the previous example.
    Result,
}

struct Example {
    place: String,
    kind: Kind,
    revision: WireFormat,
    valid: bool,
    text: String,
}

fn pages() -> Vec<Page> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "protocol"].iter().collect();
    let mut pages: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| Page {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            text: std::fs::read_to_string(&path).unwrap(),
        })
        .collect();
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    pages
}

/// Parses the info string of a block. `None` for a block of plain text.
fn example(page: &Page, block: &CodeBlock<'_>) -> Result<Option<Example>, String> {
    let (place, text) = (page.place(block.line), block.lines.join("\n"));
    let mut words = block.info.split_whitespace();
    match words.next() {
        Some("text") => return Ok(None),
        Some("json") => {}
        _ => return Err(format!("{place}: a block that is neither \"json\" nor \"text\"")),
    }
    let name = words.next().ok_or_else(|| format!("{place}: a JSON block that does not say what it is"))?;
    let (mut revision, mut valid) = (WireFormat::Any, true);
    for word in words {
        match word {
            "spec" => revision = WireFormat::Spec,
            "newest" => revision = WireFormat::Newest,
            "any" => revision = WireFormat::Any,
            "v1" => revision = WireFormat::V1,
            "invalid" => valid = false,
            _ => return Err(format!("{place}: unknown word \"{word}\"")),
        }
    }
    let kind = match name {
        "message" => Kind::Message,
        "sequence" => Kind::Sequence,
        "result" => Kind::Result,
        _ => {
            let unknown = || format!("{place}: there is no wire type \"{name}\"");
            Kind::Value(wire_type(name, revision).ok_or_else(unknown)?)
        }
    };
    if !valid && matches!(kind, Kind::Sequence | Kind::Result) {
        return Err(format!("{place}: only values and messages can be invalid"));
    }
    Ok(Some(Example { place, kind, revision, valid, text }))
}

fn examples(page: &Page) -> Result<Vec<Example>, String> {
    let blocks = code_blocks(&page.text).map_err(|fault| page.place(fault))?;
    blocks.iter().filter_map(|block| example(page, block).transpose()).collect()
}

/// Executes an example. `result` is the following example, if it gives the result.
fn run(example: &Example, result: Option<&Example>) -> Result<(), String> {
    let Example { revision, text, .. } = example;
    match example.kind {
        Kind::Value(wire_type) if example.valid => {
            let written = wire_type.rewrite(text, *revision).map_err(|error| error.to_string())?;
            let again = wire_type.rewrite(&written, *revision).map_err(|error| error.to_string())?;
            if again != written {
                return Err(format!("written as {written}, then as {again}"));
            }
            match result {
                Some(result) => same(&written, &result.text),
                None => nothing_lost(text, &written),
            }
        }
        Kind::Value(wire_type) => {
            match wire_type.rewrite(text, *revision) {
                Err(error) if error.is_syntax() => return Err(error.to_string()),
                Err(_) => {}
                Ok(written) => return Err(format!("should be refused, but is read as {written}")),
            }
            let Some(result) = result else { return Ok(()) };
            let (written, diagnostics) =
                wire_type.rewrite_tolerant(text, *revision).map_err(|error| error.to_string())?;
            if diagnostics.is_empty() {
                return Err("tolerant reading leaves something out and does not say so".to_owned());
            }
            same(&written, &result.text)
        }
        Kind::Message => run_messages(example),
        Kind::Sequence => {
            let result = result.ok_or("a sequence without a result")?;
            let updates: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let updates: Vec<&str> = updates.iter().map(|update| update.get()).collect();
            same(&fold(&updates, *revision)?.to_string(), &result.text)
        }
        Kind::Result => Ok(()),
    }
}

/// Valid messages pass without a warning, and are encoded unchanged. Of invalid ones, each line is refused.
fn run_messages(example: &Example) -> Result<(), String> {
    let rules = Rules { revision: example.revision, write_back: true, ..Rules::default() };
    let mut checker = Checker::new(rules);
    for line in example.text.lines() {
        let verdict = checker.check(line.as_bytes());
        let findings = verdict.errors.iter().chain(&verdict.warnings);
        let findings: Vec<_> =
            findings.map(|found| format!("at {}: {}", found.pointer, found.message)).collect();
        match (example.valid, verdict.is_valid()) {
            (true, _) if !findings.is_empty() => return Err(format!("{} in {line}", findings.join("; "))),
            (true, _) => {
                let recorded = RecordedLine::parse(line).map_err(|error| error.to_string())?.recorded;
                let Recorded::Message { text, .. } = recorded else { return Err("no message".to_owned()) };
                nothing_lost(&text, &verdict.value.unwrap_or_default())?;
            }
            (false, true) => return Err(format!("should be refused: {line}")),
            (false, false) => {}
        }
    }
    Ok(())
}

/// Returns the messages and tool calls after some updates, by the simplest implementation of the rules.
pub(crate) fn fold(updates: &[&str], revision: WireFormat) -> Result<Value, String> {
    let (mut messages, mut tool_calls) = (Map::new(), Map::new());
    for text in updates {
        let decoded = v2::SessionUpdate::decode(text, revision).map_err(|error| error.to_string())?;
        let update = parse(text)?;
        let content = update["content"].clone();
        let (stored, defaults) = match decoded.tag() {
            tag @ ("tool_call_update" | "tool_call_content_chunk") => {
                let defaults = json!({"kind": "other", "status": "pending", "content": [], "locations": []});
                let call =
                    tool_calls.entry(text_of(&update["toolCallId"])).or_insert_with(|| defaults.clone());
                if tag == "tool_call_content_chunk" {
                    call["content"].as_array_mut().unwrap().push(content);
                    continue;
                }
                (call, defaults)
            }
            tag if tag.starts_with("user_") || tag.starts_with("agent_") => {
                let defaults = json!({"content": []});
                let kind = tag.trim_end_matches("_chunk");
                let key = format!("{kind}/{}", text_of(&update["messageId"]));
                let message = messages.entry(key).or_insert_with(|| defaults.clone());
                if kind != tag {
                    message["content"].as_array_mut().unwrap().push(content);
                    continue;
                }
                (message, defaults)
            }
            _ => continue,
        };
        let stored = stored.as_object_mut().unwrap();
        for key in ["title", "kind", "status", "content", "locations"] {
            let value = match update.get(key) {
                None => continue,
                Some(Value::Null) => defaults.get(key),
                value => value,
            };
            set(stored, key, value);
        }
        apply_meta(stored, update.get("_meta"), revision)?;
    }
    let mut state = Map::new();
    for (key, part) in [("messages", messages), ("toolCalls", tool_calls)] {
        if !part.is_empty() {
            state.insert(key.to_owned(), Value::Object(part));
        }
    }
    Ok(Value::Object(state))
}

/// Applies metadata, for which the dialects have different rules.
fn apply_meta(
    stored: &mut Map<String, Value>,
    meta: Option<&Value>,
    revision: WireFormat,
) -> Result<(), String> {
    match (meta, revision) {
        (None, _) => {}
        (Some(Value::Object(meta)), WireFormat::Newest) => {
            let merged = stored.entry("_meta").or_insert_with(|| json!({}));
            for (key, value) in meta {
                set(merged.as_object_mut().unwrap(), key, Some(value).filter(|value| !value.is_null()));
            }
        }
        (Some(Value::Object(_)), WireFormat::Spec) => set(stored, "_meta", meta),
        (Some(Value::Object(_)), _) => return Err("what \"_meta\" does depends on the dialect".to_owned()),
        (Some(_), _) => set(stored, "_meta", None),
    }
    Ok(())
}

fn set(object: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => object.insert(key.to_owned(), value.clone()),
        None => object.remove(key),
    };
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn same(one: &str, other: &str) -> Result<(), String> {
    if parse(one)? == parse(other)? && numbers(one) == numbers(other) {
        Ok(())
    } else {
        Err(format!("comes out as {one}"))
    }
}

/// Checks that everything decoded is encoded again, except `null` where it is equivalent to a missing key.
fn nothing_lost(read: &str, written: &str) -> Result<(), String> {
    fn holds(written: &Value, read: &Value) -> bool {
        match (written, read) {
            (Value::Object(written), Value::Object(read)) => read
                .iter()
                .all(|(key, value)| written.get(key).map_or(value.is_null(), |kept| holds(kept, value))),
            (Value::Array(written), Value::Array(read)) => {
                written.len() == read.len()
                    && written.iter().zip(read).all(|(kept, value)| holds(kept, value))
            }
            (written, read) => written == read,
        }
    }
    if holds(&parse(written)?, &parse(read)?) && numbers(written) == numbers(read) {
        Ok(())
    } else {
        Err(format!("something is lost in {written}"))
    }
}

/// Returns all numbers of a JSON text with their spelling.
fn numbers(text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|next: char| next == '"' || next == '-' || next.is_ascii_digit()) {
        rest = &rest[start..];
        if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = string.find(|next| {
                let ends = next == '"' && !escaped;
                escaped = next == '\\' && !escaped;
                ends
            });
            rest = &string[end.unwrap() + 1..];
        } else {
            let end = rest.find(|next: char| !matches!(next, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
            let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
            numbers.push(number);
            rest = behind;
        }
    }
    numbers.sort_unstable();
    numbers
}

#[test]
fn every_json_example_is_what_it_says() {
    let mut failures = Vec::new();
    let mut count = 0;
    for page in pages() {
        let examples = match examples(&page) {
            Ok(examples) => examples,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        if page.name != "README.md" && examples.len() < MIN_EXAMPLES {
            failures.push(format!("docs/protocol/{}: only {} examples", page.name, examples.len()));
        }
        count += examples.len();
        for (index, example) in examples.iter().enumerate() {
            let result = examples.get(index + 1).filter(|next| matches!(next.kind, Kind::Result));
            if matches!(example.kind, Kind::Result)
                && !matches!(
                    index.checked_sub(1).map(|before| &examples[before].kind),
                    Some(Kind::Value(_) | Kind::Sequence)
                )
            {
                failures.push(format!("{}: a result of nothing", example.place));
            }
            if let Err(failure) = run(example, result) {
                failures.push(format!("{}: {failure}", example.place));
            }
        }
    }
    assert!(failures.is_empty(), "{} examples fail:\n{}", failures.len(), failures.join("\n"));
    println!("{count} examples run");
}

#[test]
fn every_page_is_in_the_index() {
    let pages = pages();
    let index = pages.iter().find(|page| page.name == "README.md").unwrap();
    for page in &pages {
        let listed = page.name == "README.md" || links(&index.text).any(|target| target == page.name);
        assert!(listed, "docs/protocol/{} is not in the index of README.md", page.name);
    }
}

/// The rules for the examples' results are those of the test vectors.
#[test]
fn the_fold_of_the_examples_agrees_with_the_vectors() {
    let text = std::fs::read_to_string(fixtures().join("vectors/sequences.json")).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for vector in &vectors {
        let expected = &vector["json"]["expect"];
        if !expected.as_object().unwrap().keys().all(|key| key == "messages" || key == "toolCalls") {
            continue;
        }
        let revision = if vector["revision"] == "seed" { WireFormat::Spec } else { WireFormat::Newest };
        let updates: Vec<_> =
            vector["json"]["updates"].as_array().unwrap().iter().map(Value::to_string).collect();
        let updates: Vec<_> = updates.iter().map(String::as_str).collect();
        assert_eq!(fold(&updates, revision).as_ref(), Ok(expected), "{}", vector["name"]);
        compared += 1;
    }
    assert!(compared > 30, "only {compared} sequences compared");
}
