//! How much of what goes over the wire is content.

use std::collections::{BTreeMap, HashMap};

use switchboard_acp::Raw;

use crate::error::{Result, StoreError};
use crate::record::{Filter, Item, Record};
use crate::store::Store;
use crate::text::texts;

/// Tool calls of a session whose names are remembered.
const MAX_CALLS: usize = 100_000;

/// Bytes on the wire against bytes of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// How many records.
    pub records: u64,
    /// Their bytes.
    pub wire: u64,
    /// The bytes of the texts in them.
    pub content: u64,
}

impl Share {
    /// How many bytes go over the wire for a byte of content.
    pub fn amplification(&self) -> Option<f64> {
        (self.content > 0).then(|| self.wire as f64 / self.content as f64)
    }

    fn add(&mut self, record: &Record, content: u64) {
        self.records += 1;
        self.wire += record.bytes.len() as u64;
        self.content += content;
    }
}

/// What all sessions together have, by agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// All of an agent's records.
    pub agents: BTreeMap<String, Share>,
    /// By agent and kind of message: the method, the kind of an update, or the kind of a tool.
    pub kinds: BTreeMap<(String, String), Share>,
    /// How many records could not be read.
    pub unreadable: u64,
}

/// What a record counts as. `calls` remembers the tools of tool calls.
fn kind(record: &Record, calls: &mut HashMap<String, String>) -> String {
    if !record.channel.is_message() {
        return "log".to_owned();
    }
    let message = std::str::from_utf8(&record.bytes).ok().and_then(|text| Raw::parse(text).ok());
    let Some(message) = message.filter(Raw::is_object) else { return "noise".to_owned() };
    let Some(method) = message.text("method") else { return "answer".to_owned() };
    let params = message.get("params");
    let Some(update) = params.as_ref().and_then(|params| params.get("update")).filter(Raw::is_object) else {
        return method;
    };
    let Some(id) = update.text("toolCallId") else {
        return update.text("sessionUpdate").unwrap_or(method);
    };
    if let Some(tool) = update.text("name").or_else(|| update.text("kind"))
        && calls.len() < MAX_CALLS
    {
        calls.insert(id.clone(), tool);
    }
    format!("tool {}", calls.get(&id).map_or("(no kind)", String::as_str))
}

impl Store {
    fn is_listed(&self, id: &str) -> Result<bool> {
        match self.number(id) {
            Ok((_, found)) => Ok(found == id),
            Err(StoreError::UnknownSession { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads everything that fits, and adds up. Sessions that are deleted meanwhile are left out from then on.
    pub fn statistics(&self, filter: &Filter) -> Result<Statistics> {
        let mut statistics = Statistics::default();
        for session in self.sessions(filter)? {
            let agent = session.about.agent.unwrap_or_else(|| "(unknown)".to_owned());
            let mut calls = HashMap::new();
            let items = match self.read(&session.id, 0) {
                Ok(items) => items,
                // Deleted since the list was made.
                Err(StoreError::UnknownSession { .. }) => continue,
                Err(error) => return Err(error),
            };
            for item in items {
                let record = match item? {
                    Item::Record(record) => record,
                    // A session that is being deleted loses its records under the reader.
                    Item::Gap { .. } if !self.is_listed(&session.id)? => break,
                    Item::Gap { from, to, .. } => {
                        statistics.unreadable += to - from;
                        continue;
                    }
                };
                if record.channel.is_other_side() {
                    continue;
                }
                let content = texts(&record).iter().map(|text| text.text.len() as u64).sum();
                statistics.agents.entry(agent.clone()).or_default().add(&record, content);
                let kind = (agent.clone(), kind(&record, &mut calls));
                statistics.kinds.entry(kind).or_default().add(&record, content);
            }
        }
        Ok(statistics)
    }
}
