//! Registered prompts: those that run in memory, all of them in the store.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_acp::Moment;
use switchboard_hub::Identity;
use switchboard_store::{Store, StoreError};
use tokio::sync::watch;

/// Name of the list of all prompts in the store.
const LIST: &str = "prompts";
/// Maximum number of prompts in the store. Above it, the oldest ended ones are removed.
const MAX_KEPT: usize = 1000;
/// Maximum number of prompts that run or wait at a time.
pub(super) const MAX_RUNNING: usize = 100;
/// Maximum length of a result's text in bytes. The session has the whole text.
const MAX_TEXT: usize = 256 * 1024;

/// State of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Registered; nothing was sent to the agent.
    Starting,
    /// Sent to the agent.
    Running,
    /// The turn ended by itself.
    Done,
    /// The turn ended with an error or a refusal, or could not begin.
    Failed,
    /// The turn was cancelled.
    Cancelled,
}

/// Reason why a prompt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// Error code of JSON-RPC, if it is an answer of the hub or the agent.
    pub(super) code: Option<i32>,
    pub(super) message: String,
}

/// A prompt and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PromptRecord {
    /// Id that the client has chosen.
    pub(super) id: String,
    /// Digest of the request, to recognize another request with the same id.
    pub(super) digest: String,
    pub(super) agent: String,
    pub(super) folder: String,
    /// Target that gets the result.
    pub(super) webhook: Option<String>,
    pub(super) status: Status,
    pub(super) session: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) error: Option<Failure>,
    /// The agent's last message.
    pub(super) text: Option<String>,
    pub(super) is_text_cut: bool,
    /// True if nothing was sent to the agent, so that the same request runs it.
    pub(super) may_run_again: bool,
    /// Times in Unix milliseconds.
    pub(super) created: i64,
    pub(super) ended: Option<i64>,
}

impl PromptRecord {
    /// Sets the text of the result, cut if it is too long.
    pub(super) fn set_text(&mut self, mut text: String) {
        if text.len() > MAX_TEXT {
            let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            text.truncate(end);
            self.is_text_cut = true;
        }
        self.text = Some(text);
    }

    pub(super) fn fail(&mut self, code: Option<i32>, message: impl Into<String>) {
        (self.status, self.error) = (Status::Failed, Some(Failure { code, message: message.into() }));
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.status, Status::Starting | Status::Running)
    }

    /// Returns the result for clients. `questions` is the number of pending questions of its session.
    pub(super) fn result(&self, hub: &str, questions: usize) -> Value {
        let status = match self.status {
            Status::Running if questions > 0 => json!("waiting"),
            status => json!(status),
        };
        let time = |at: i64| {
            let [date, time] = Moment(at).date_and_time();
            format!("{date}T{time}Z")
        };
        let mut result = json!({
            "id": self.id, "status": status, "agent": self.agent, "folder": self.folder,
            "created": time(self.created),
        });
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                result[key] = value;
            }
        };
        set("session", self.session.as_ref().map(|session| json!(session)));
        set("url", self.session.as_ref().map(|session| json!(format!("{hub}/r/{session}"))));
        set("questions", (questions > 0).then(|| json!(questions)));
        set("stop_reason", self.stop_reason.as_ref().map(|reason| json!(reason)));
        set("text", self.text.as_ref().map(|text| json!(text)));
        set("text_cut", self.is_text_cut.then_some(Value::Bool(true)));
        set("ended", self.ended.map(|at| json!(time(at))));
        set(
            "error",
            self.error.as_ref().map(|error| match error.code {
                Some(code) => json!({"code": code, "message": error.message}),
                None => json!({"message": error.message}),
            }),
        );
        result
    }
}

/// A prompt that runs.
pub(super) struct RunningPrompt {
    pub(super) key: String,
    record: Mutex<PromptRecord>,
    /// True after its end.
    ended: watch::Sender<bool>,
}

impl RunningPrompt {
    pub(super) fn record(&self) -> PromptRecord {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) {
        // The sender lives as long as this.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// An entry of the list in the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    key: String,
    has_ended: bool,
}

/// Result of a registration.
pub(super) enum Registered {
    /// The prompt is new and must be run.
    New(Arc<RunningPrompt>),
    /// The same prompt is known.
    Known(Box<PromptRecord>),
    /// Another prompt has this id.
    Conflict,
    /// Too many prompts run.
    Full,
}

/// The registry of a hub. Its methods block on the store.
pub(super) struct Registry {
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: HashMap<String, Arc<RunningPrompt>>,
    list: Vec<Entry>,
}

/// Returns the key of a prompt in the store. Ids are chosen by clients, so each token has its own.
pub(super) fn key(who: &Identity, id: &str) -> String {
    let digest = Sha256::digest(format!("{}\0{}\0{id}", who.name, who.made));
    digest.iter().fold("prompt/".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Registry {
    /// Reads the registry. Prompts that an earlier launch has not finished have failed.
    pub(super) fn open(store: Store) -> Result<Self, StoreError> {
        let list = store.kept(LIST)?.unwrap_or_default();
        let mut list: Vec<Entry> = serde_json::from_str(&list).unwrap_or_default();
        for entry in list.iter_mut().filter(|entry| !entry.has_ended) {
            if let Some(mut record) = read(&store, &entry.key)? {
                let has_ended = record.has_ended();
                match record.status {
                    Status::Starting => {
                        record.may_run_again = true;
                        record.fail(
                            None,
                            "the hub was restarted before it sent the prompt; send the request again",
                        );
                    }
                    Status::Running => record.fail(None, "the hub was restarted while the prompt ran"),
                    Status::Done | Status::Failed | Status::Cancelled => {}
                }
                if !has_ended {
                    record.ended = Some(Moment::now().0);
                    write_record(&store, &entry.key, &record)?;
                }
            }
            entry.has_ended = true;
        }
        let registry = Registry { store, state: Mutex::new(State { list, ..State::default() }) };
        registry.save_list(&mut registry.state())?;
        Ok(registry)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the list, and removes the oldest ended prompts above the limit.
    fn save_list(&self, state: &mut State) -> Result<(), StoreError> {
        while state.list.len() > MAX_KEPT
            && let Some(oldest) = state.list.iter().position(|entry| entry.has_ended)
        {
            let oldest = state.list.remove(oldest);
            self.store.keep(&oldest.key, None)?;
        }
        self.store.keep(LIST, Some(&json!(state.list).to_string()))
    }

    /// Registers a prompt, unless its id is known. When this returns, the registration is durable.
    pub(super) fn register(&self, key: String, record: PromptRecord) -> Result<Registered, StoreError> {
        let mut state = self.state();
        if let Some(running) = state.running.get(&key) {
            return Ok(known(running.record(), &record));
        }
        if let Some(stored) = read(&self.store, &key)?
            && !(stored.may_run_again && stored.digest == record.digest)
        {
            return Ok(known(stored, &record));
        }
        if state.running.len() >= MAX_RUNNING {
            return Ok(Registered::Full);
        }
        state.list.retain(|entry| entry.key != key);
        state.list.push(Entry { key: key.clone(), has_ended: false });
        self.save_list(&mut state)?;
        write_record(&self.store, &key, &record)?;
        let (ended, _) = watch::channel(false);
        let running = Arc::new(RunningPrompt { key: key.clone(), record: Mutex::new(record), ended });
        state.running.insert(key, Arc::clone(&running));
        Ok(Registered::New(running))
    }

    /// Returns a prompt that runs.
    pub(super) fn running(&self, key: &str) -> Option<Arc<RunningPrompt>> {
        self.state().running.get(key).cloned()
    }

    /// Returns a prompt.
    pub(super) fn find(&self, key: &str) -> Result<Option<PromptRecord>, StoreError> {
        match self.running(key) {
            Some(running) => Ok(Some(running.record())),
            None => read(&self.store, key),
        }
    }

    /// Changes a prompt that runs. When this returns, the change is durable.
    pub(super) fn update(
        &self,
        running: &RunningPrompt,
        change: impl FnOnce(&mut PromptRecord),
    ) -> Result<PromptRecord, StoreError> {
        let record = {
            let mut record = running.record.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut record);
            record.clone()
        };
        let written = write_record(&self.store, &running.key, &record);
        if record.has_ended() {
            let mut state = self.state();
            state.running.remove(&running.key);
            if let Some(entry) = state.list.iter_mut().find(|entry| entry.key == running.key) {
                entry.has_ended = true;
            }
            let saved = self.save_list(&mut state);
            drop(state);
            running.ended.send_replace(true);
            saved?;
        }
        written.map(|()| record)
    }
}

fn known(known: PromptRecord, request: &PromptRecord) -> Registered {
    if known.digest == request.digest { Registered::Known(Box::new(known)) } else { Registered::Conflict }
}

fn read(store: &Store, key: &str) -> Result<Option<PromptRecord>, StoreError> {
    // A record of a later version cannot be read. It is replaced.
    Ok(store.kept(key)?.and_then(|text| serde_json::from_str(&text).ok()))
}

fn write_record(store: &Store, key: &str, record: &PromptRecord) -> Result<(), StoreError> {
    store.keep(key, Some(&json!(record).to_string()))
}

#[cfg(test)]
mod tests {
    use switchboard_store::Role;

    use super::*;

    fn record(id: &str, digest: &str) -> PromptRecord {
        PromptRecord {
            id: id.to_owned(),
            digest: digest.to_owned(),
            agent: "claude".to_owned(),
            folder: "/w".to_owned(),
            webhook: None,
            status: Status::Starting,
            session: None,
            stop_reason: None,
            error: None,
            text: None,
            is_text_cut: false,
            may_run_again: false,
            created: 0,
            ended: None,
        }
    }

    fn store(folder: &tempfile::TempDir) -> Store {
        Store::open(folder.path().join("hub.sqlite3")).unwrap()
    }

    fn running(registered: Registered) -> Arc<RunningPrompt> {
        match registered {
            Registered::New(running) => running,
            _ => panic!("the prompt is not new"),
        }
    }

    #[test]
    fn the_same_prompt_is_known_and_another_one_with_its_id_is_a_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::open(store(&folder)).unwrap();
        let prompt = running(registry.register("prompt/a".to_owned(), record("a", "1")).unwrap());
        for (digest, is_known) in [("1", true), ("2", false)] {
            let again = registry.register("prompt/a".to_owned(), record("a", digest)).unwrap();
            assert_eq!(matches!(again, Registered::Known(_)), is_known);
            assert_eq!(matches!(again, Registered::Conflict), !is_known);
        }
        registry.update(&prompt, |record| record.status = Status::Done).unwrap();
        let again = registry.register("prompt/a".to_owned(), record("a", "1")).unwrap();
        assert!(matches!(again, Registered::Known(known) if known.status == Status::Done));
        let again = registry.register("prompt/a".to_owned(), record("a", "2")).unwrap();
        assert!(matches!(again, Registered::Conflict));
    }

    #[test]
    fn after_a_restart_a_prompt_that_may_have_run_does_not_run_again() {
        let folder = tempfile::tempdir().unwrap();
        {
            let registry = Registry::open(store(&folder)).unwrap();
            let sent = running(registry.register("prompt/sent".to_owned(), record("sent", "1")).unwrap());
            registry.update(&sent, |record| record.status = Status::Running).unwrap();
            running(registry.register("prompt/not".to_owned(), record("not", "1")).unwrap());
        }
        let registry = Registry::open(store(&folder)).unwrap();
        let known = registry.register("prompt/sent".to_owned(), record("sent", "1")).unwrap();
        assert!(matches!(known, Registered::Known(record) if record.status == Status::Failed));
        let found = registry.find("prompt/not").unwrap().unwrap();
        assert!(
            found.status == Status::Failed && found.error.unwrap().message.contains("send the request again")
        );
        let other = registry.register("prompt/not".to_owned(), record("not", "2")).unwrap();
        assert!(matches!(other, Registered::Conflict));
        running(registry.register("prompt/not".to_owned(), record("not", "1")).unwrap());
    }

    #[test]
    fn the_numbers_of_prompts_and_the_text_of_results_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::open(store(&folder)).unwrap();
        let mut prompts = Vec::new();
        for number in 0..MAX_RUNNING {
            let registered = registry.register(format!("prompt/{number}"), record("x", "1")).unwrap();
            prompts.push(running(registered));
        }
        assert!(matches!(registry.register("prompt/x".to_owned(), record("x", "1")), Ok(Registered::Full)));
        registry.update(&prompts[0], |record| record.fail(None, "x")).unwrap();
        running(registry.register("prompt/x".to_owned(), record("x", "1")).unwrap());
        let mut state = State {
            list: (0..MAX_KEPT + 5)
                .map(|number| Entry { key: format!("old/{number}"), has_ended: number > 2 })
                .collect(),
            ..State::default()
        };
        write_record(&registry.store, "old/3", &record("old", "1")).unwrap();
        registry.save_list(&mut state).unwrap();
        assert_eq!(registry.find("old/3").unwrap(), None);
        let kept: Vec<&str> = state.list.iter().take(4).map(|entry| &*entry.key).collect();
        assert_eq!(kept, ["old/0", "old/1", "old/2", "old/8"], "those that run stay");
        let mut long = record("x", "1");
        long.set_text("ä".repeat(MAX_TEXT));
        assert!(long.is_text_cut && long.text.unwrap().len() <= MAX_TEXT);
    }

    #[test]
    fn each_token_has_its_own_ids() {
        let who = |name: &str, made| Identity { name: name.into(), role: Role::Use, all: false, made };
        assert_eq!(key(&who("a", 1), "x"), key(&who("a", 1), "x"));
        for other in [key(&who("a", 2), "x"), key(&who("b", 1), "x"), key(&who("a", 1), "y")] {
            assert_ne!(key(&who("a", 1), "x"), other);
        }
    }
}
