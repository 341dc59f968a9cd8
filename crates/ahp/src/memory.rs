//! Facts that survive a restart and are not in the logs: URIs that clients chose for sessions, ids of turns, flags, and
//! the last known options of each agent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of sessions whose facts are kept. The oldest are forgotten first.
const MAX_SESSIONS: usize = 2000;
/// Maximum number of turns per session whose ids are kept.
const MAX_TURNS: usize = 200;

/// Storage of the facts.
pub trait MemoryPlace: Send + Sync {
    /// Returns the stored text, if there is any.
    fn load(&self) -> Option<String>;
    /// Stores a text in place of the earlier one.
    fn save(&self, text: &str);
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Facts {
    sessions: BTreeMap<String, SessionFacts>,
    /// Configuration options of each agent, as the protocol's array.
    options: BTreeMap<String, Value>,
}

/// Facts about a session of the hub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionFacts {
    /// URI that a client chose for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    /// Time of its creation in Unix milliseconds.
    pub(crate) created: i64,
    /// Ids of turns by the id of the message of their prompt.
    turns: VecDeque<(String, String)>,
    /// Title that a client gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) is_read: bool,
    pub(crate) is_archived: bool,
    /// Time at which a client disposed it, in Unix milliseconds. It is not listed unless it changes later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disposed: Option<i64>,
}

impl SessionFacts {
    pub(crate) fn turn_of(&self, message: &str) -> Option<&str> {
        self.turns.iter().rev().find(|(known, _)| known == message).map(|(_, turn)| turn.as_str())
    }

    pub(crate) fn has_turn(&self, turn: &str) -> bool {
        self.turns.iter().any(|(_, known)| known == turn)
    }

    pub(crate) fn add_turn(&mut self, message: &str, turn: &str) {
        if self.turn_of(message) == Some(turn) {
            return;
        }
        if self.turns.len() >= MAX_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back((message.to_owned(), turn.to_owned()));
    }
}

struct Kept {
    facts: Facts,
    /// Ids of sessions by the URI that a client chose.
    by_uri: BTreeMap<String, String>,
    is_changed: bool,
}

/// The facts, shared by the hosts of all clients of a hub.
#[derive(Clone)]
pub(crate) struct Memory {
    kept: Arc<Mutex<Kept>>,
    place: Option<Arc<dyn MemoryPlace>>,
}

impl Memory {
    /// Loads the facts. An unreadable text counts as none.
    pub(crate) fn load(place: Option<Arc<dyn MemoryPlace>>) -> Self {
        let text = place.as_ref().and_then(|place| place.load());
        let facts: Facts = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let uri = |(id, session): (&String, &SessionFacts)| session.uri.clone().map(|uri| (uri, id.clone()));
        let by_uri = facts.sessions.iter().filter_map(uri).collect();
        Memory { kept: Arc::new(Mutex::new(Kept { facts, by_uri, is_changed: false })), place }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the facts if they have changed. Blocks on the storage.
    pub(crate) fn save(&self) {
        let text = {
            let mut kept = self.kept();
            if !std::mem::take(&mut kept.is_changed) {
                return;
            }
            serde_json::to_string(&kept.facts)
        };
        if let (Some(place), Ok(text)) = (&self.place, text) {
            place.save(&text);
        }
    }

    pub(crate) fn session(&self, id: &str) -> SessionFacts {
        self.kept().facts.sessions.get(id).cloned().unwrap_or_default()
    }

    /// Returns the id of the session for which a client chose this URI.
    pub(crate) fn id_of(&self, uri: &str) -> Option<String> {
        self.kept().by_uri.get(uri).cloned()
    }

    /// Changes the facts about a session.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut SessionFacts)) {
        let mut kept = self.kept();
        let before = kept.facts.sessions.get(id).cloned();
        let mut after = before.clone().unwrap_or_default();
        change(&mut after);
        if before.as_ref() == Some(&after) {
            return;
        }
        if before.is_none() && kept.facts.sessions.len() >= MAX_SESSIONS {
            let oldest = kept.facts.sessions.iter().min_by_key(|(_, session)| session.created);
            if let Some(id) = oldest.map(|(id, _)| id.clone())
                && let Some(uri) = kept.facts.sessions.remove(&id).and_then(|session| session.uri)
            {
                kept.by_uri.remove(&uri);
            }
        }
        if let Some(uri) = &after.uri {
            kept.by_uri.insert(uri.clone(), id.to_owned());
        }
        kept.facts.sessions.insert(id.to_owned(), after);
        kept.is_changed = true;
    }

    /// Returns the last known options of an agent.
    pub(crate) fn options(&self, agent: &str) -> Option<Value> {
        self.kept().facts.options.get(agent).cloned()
    }

    /// Keeps the options of an agent. Returns true if they have changed.
    pub(crate) fn set_options(&self, agent: &str, options: &Value) -> bool {
        let mut kept = self.kept();
        if kept.facts.options.get(agent) == Some(options) {
            return false;
        }
        kept.facts.options.insert(agent.to_owned(), options.clone());
        kept.is_changed = true;
        true
    }
}
