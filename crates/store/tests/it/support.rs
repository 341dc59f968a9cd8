//! Shared test helpers.

use switchboard_store::{About, Channel, Item, Record, Recorder, Store};
use tempfile::TempDir;

pub(crate) struct Scratch {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

pub(crate) fn scratch() -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    Scratch { folder, store }
}

impl Scratch {
    pub(crate) fn begin(&self) -> Recorder {
        self.store.begin(&About::default()).unwrap()
    }

    /// Opens a second handle on the same file, like another process.
    pub(crate) fn other(&self) -> Store {
        Store::open(self.folder.path().join("store.sqlite3")).unwrap()
    }
}

impl Scratch {
    /// Opens a read-only handle.
    pub(crate) fn other_reader(&self) -> Store {
        Store::open_read_only(self.folder.path().join("store.sqlite3")).unwrap()
    }
}

pub(crate) fn update(text: &str) -> Record {
    Record::new(Channel::ToClient, text)
}

/// Returns a chunk of an agent message.
pub(crate) fn chunk(message: &str, text: &str) -> Record {
    update(&format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"agent_message_chunk","messageId":"{message}","content":{{"type":"text","text":{}}}}}}}}}"#,
        serde_json::Value::from(text)
    ))
}

/// Returns all records of a session. Panics on a gap.
pub(crate) fn records(store: &Store, id: &str) -> Vec<Record> {
    store
        .read(id, 0)
        .unwrap()
        .map(|item| match item.unwrap() {
            Item::Record(record) => record,
            gap @ Item::Gap { .. } => panic!("{gap:?}"),
        })
        .collect()
}
