//! Superseded text: messages and tool call content that a later update replaced as a whole or emptied.

use std::collections::HashMap;

use switchboard_acp::Raw;
use switchboard_acp::rpc::{BATCH_LIMIT, batch_entries, is_batch};

use crate::error::Result;
use crate::record::{Item, Record};
use crate::store::Store;
use crate::text;

const REPLACEMENT: &str = "\"[withdrawn]\"";
/// Keys of strings that hold text in content.
const TEXTS: [&str; 6] = ["text", "newText", "oldText", "diff", "data", "blob"];

/// For each message and tool call, the record that last replaced its text as a whole.
#[derive(Debug, Default)]
pub struct Withdrawals {
    replaced: HashMap<String, u64>,
    count: u64,
}

impl Store {
    /// Returns the superseded texts of a session. Reads the whole session.
    pub fn withdrawals(&self, id: &str) -> Result<Withdrawals> {
        let mut withdrawals = Withdrawals::default();
        for item in self.read(id, 0)? {
            if let Item::Record(record) = item? {
                withdrawals.see(&record);
            }
        }
        Ok(withdrawals)
    }
}

impl Withdrawals {
    /// Registers a record. All records of a session must be registered before
    /// [`take_out`](Withdrawals::take_out) is called.
    pub fn see(&mut self, record: &Record) {
        for run in text::read(record).replaced {
            self.replaced.insert(run, record.sequence);
        }
    }

    /// Returns the number of records from which superseded text was removed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of a record without superseded text. `None` if it has none.
    pub fn take_out(&mut self, record: &Record) -> Option<Vec<u8>> {
        let is_gone = |run: &str| self.replaced.get(run).is_some_and(|sequence| *sequence > record.sequence);
        let reading = text::read(record);
        if !reading.texts.iter().any(|text| is_gone(&text.run)) {
            return None;
        }
        let text = std::str::from_utf8(&record.bytes).ok()?;
        let without = if is_batch(text) {
            let entries = batch_entries(text, BATCH_LIMIT).ok()?;
            let parts: Option<Vec<_>> = entries.into_iter().map(without_content).collect();
            format!("[{}]", parts?.join(","))
        } else {
            without_content(text)?
        };
        self.count += 1;
        Some(without.into_bytes())
    }
}

/// Returns a message without the text of its content.
fn without_content(message: &str) -> Option<String> {
    let message = Raw::parse(message).ok()?;
    Some(rewrite(&message, &["params", "update"]))
}

/// Follows a path and empties the content at its end.
fn rewrite(value: &Raw<'_>, path: &[&str]) -> String {
    object(value, |key, value| match path {
        [first, rest @ ..] if key == *first => rewrite(value, rest),
        [] if key == "content" || key == "summary" => emptied(value, "", 0),
        _ => value.as_str().to_owned(),
    })
}

fn object(value: &Raw<'_>, mut change: impl FnMut(&str, &Raw<'_>) -> String) -> String {
    let members: Vec<_> = value
        .entries()
        .map(|(key, value)| format!("{}:{}", serde_json::Value::from(&*key), change(&key, &value)))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn emptied(value: &Raw<'_>, key: &str, depth: usize) -> String {
    match value.as_str().as_bytes().first() {
        _ if depth > 64 => "null".to_owned(),
        Some(b'{') => object(value, |key, value| emptied(value, key, depth + 1)),
        Some(b'[') => {
            let items: Vec<_> = value.items().map(|item| emptied(&item, key, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
        Some(b'"') if TEXTS.contains(&key) => REPLACEMENT.to_owned(),
        _ => value.as_str().to_owned(),
    }
}
