//! Chromium's DevTools protocol over a pair of pipes: JSON texts, each ended by a zero byte. The crate's
//! documentation explains why no published client is used.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::observed::Observed;

/// Timeout of one command; longer than any wait inside a page.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` once closed.
    writer: Mutex<Option<ChildStdin>>,
    next: AtomicU64,
    /// Pending commands by id. `None` after Chromium has exited.
    waiting: Mutex<Option<HashMap<u64, SyncSender<Value>>>>,
    /// Observed events of each attached page.
    pages: Mutex<HashMap<String, Arc<Mutex<Observed>>>>,
    ended: Mutex<Receiver<()>>,
}

impl Connection {
    pub(crate) fn start(stdin: ChildStdin, stdout: ChildStdout) -> Arc<Connection> {
        let (end, ended) = sync_channel(1);
        let connection = Arc::new(Connection {
            writer: Mutex::new(Some(stdin)),
            next: AtomicU64::new(1),
            waiting: Mutex::new(Some(HashMap::new())),
            pages: Mutex::default(),
            ended: Mutex::new(ended),
        });
        let reading = Arc::clone(&connection);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(0, &mut line).is_ok_and(|length| length > 0) {
                line.pop();
                if let Ok(message) = serde_json::from_slice(&line) {
                    reading.take(message);
                }
                line.clear();
            }
            // Waiting callers are notified because their senders are dropped.
            *lock(&reading.waiting) = None;
            let _ = end.send(());
        });
        connection
    }

    /// Sends a command to the browser, or to one of its pages, and waits for the response.
    pub(crate) fn call(&self, page: Option<&str>, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(format!("{method}: Chromium has ended")),
        };
        self.send(id, page, method, params).map_err(|error| format!("{method}: cannot write: {error}"))?;
        let mut answer = receiver
            .recv_timeout(COMMAND_LIMIT)
            .map_err(|_| format!("{method}: Chromium has ended, or gave no answer for {COMMAND_LIMIT:?}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {}", error["message"].as_str().unwrap_or("unknown error"))),
            None => Ok(answer["result"].take()),
        }
    }

    fn send(&self, id: u64, page: Option<&str>, method: &str, params: &Value) -> std::io::Result<()> {
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(page) = page {
            message["sessionId"] = page.into();
        }
        match &mut *lock(&self.writer) {
            Some(writer) => writer.write_all(format!("{message}\0").as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Records events of a page from now on.
    pub(crate) fn observe(&self, page: &str, observed: Arc<Mutex<Observed>>) {
        lock(&self.pages).insert(page.to_owned(), observed);
    }

    pub(crate) fn forget(&self, page: &str) {
        lock(&self.pages).remove(page);
    }

    fn take(&self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let sender = lock(&self.waiting).as_mut().and_then(|waiting| waiting.remove(&id));
            if let Some(sender) = sender {
                let _ = sender.try_send(message);
            }
            return;
        }
        let (Some(page), Some(method)) = (message["sessionId"].as_str(), message["method"].as_str()) else {
            return;
        };
        let (page, method) = (page.to_owned(), method.to_owned());
        if method == "Page.javascriptDialogOpening" {
            // The page is blocked until the dialog is answered; the response to this is not needed.
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let _ = self.send(id, Some(&page), "Page.handleJavaScriptDialog", &json!({ "accept": false }));
        }
        let observed = lock(&self.pages).get(&page).cloned();
        if let Some(observed) = observed {
            lock(&observed).take(&method, &message["params"]);
        }
    }

    /// Breaks the pipe. Returns whether Chromium exited in time.
    pub(crate) fn close(&self, limit: Duration) -> bool {
        *lock(&self.writer) = None;
        lock(&self.ended).recv_timeout(limit).is_ok()
    }
}

/// Locks a mutex even if it is poisoned: a failed test must not hide its reason behind failures of others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
