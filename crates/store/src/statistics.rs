//! Ratio of content to bytes on the wire.

use std::collections::{BTreeMap, HashMap};

use switchboard_acp::Raw;

use crate::error::{Result, StoreError};
use crate::record::{Filter, Item, Record};
use crate::store::Store;
use crate::text::texts;

/// Maximum number of tool calls per session whose tool is remembered.
const MAX_CALLS: usize = 100_000;

/// Bytes on the wire and bytes of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Number of records.
    pub records: u64,
    /// Bytes of the records.
    pub wire: u64,
    /// Bytes of the texts in them.
    pub content: u64,
}

impl Share {
    /// Returns the bytes on the wire per byte of content.
    pub fn amplification(&self) -> Option<f64> {
        (self.content > 0).then(|| self.wire as f64 / self.content as f64)
    }

    fn add(&mut self, record: &Record, content: u64) {
        self.records += 1;
        self.wire += record.bytes.len() as u64;
        self.content += content;
    }
}

/// Statistics of several sessions, by agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Totals by agent.
    pub agents: BTreeMap<String, Share>,
    /// Totals by agent and kind of message: the method, the kind of update, or the kind of tool.
    pub kinds: BTreeMap<(String, String), Share>,
    /// Number of records that could not be read.
    pub unreadable: u64,
}

/// Returns the kind of a record. `calls` maps tool calls to tools.
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

    /// Computes statistics of the matching sessions. Reads all their records. Sessions that are deleted
    /// meanwhile are left out from then on.
    pub fn statistics(&self, filter: &Filter) -> Result<Statistics> {
        let mut statistics = Statistics::default();
        for session in self.sessions(filter)? {
            let agent = session.about.agent.unwrap_or_else(|| "(unknown)".to_owned());
            let mut calls = HashMap::new();
            let items = match self.read(&session.id, 0) {
                Ok(items) => items,
                // Deleted since the list was read.
                Err(StoreError::UnknownSession { .. }) => continue,
                Err(error) => return Err(error),
            };
            for item in items {
                let record = match item? {
                    Item::Record(record) => record,
                    // A session that is being deleted loses records while it is read.
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
