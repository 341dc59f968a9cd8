//! The two ends of a connection: an editor that runs `switchboard connect`, and `switchboard serve`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::interop::SWITCHBOARD;

/// Timeout for events that must happen.
const LONG: Duration = Duration::from_secs(120);

/// A hub with demo agents that keep their sessions. It is killed on drop.
pub(super) struct Hub {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Hub {
    pub(super) fn start(place: &Place, port: u16) -> Self {
        Hub::start_with_token_in(place, port, "token")
    }

    pub(super) fn start_with_token_in(place: &Place, port: u16, token: &str) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let home = place.home().display().to_string();
        let (store, token, agents) =
            (format!("{home}/store"), format!("{home}/{token}"), format!("{home}/agents"));
        let options = ["serve", "--listen", &listen, "--store", &store, "--token-file", &token];
        let agent = ["--", SWITCHBOARD, "demo-agent", "--store", &agents];
        let mut command = place.command(&[&options[..], &agent].concat());
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Hub { process, address }
    }

    pub(super) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/acp", self.address)
    }

    /// Kills it, without a chance to write anything.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(super) fn kill_for_good(mut self) {
        self.kill();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may already have been killed.
        let _ = (self.process.kill(), self.process.wait());
    }
}

/// An editor that allows every request. It is killed on drop.
pub(crate) struct Editor {
    process: Child,
    input: Option<ChildStdin>,
    from_program: Receiver<String>,
    errors: Receiver<String>,
    last_id: i64,
    /// The number of received lines at its last request: waits start there.
    asked_at: usize,
    /// All received lines.
    pub(crate) lines: Vec<Value>,
    /// The prompts and the ids of their requests.
    pub(super) prompts: Vec<(String, i64)>,
    /// The tool calls of all permission requests.
    pub(super) asked: Vec<String>,
}

impl Editor {
    /// Starts `connect` and sends `initialize`.
    pub(crate) fn start(place: &Place, url: &str, version: u8) -> Self {
        let mut editor = Editor::start_unanswered(place, url, version);
        let answer = editor.answer_to(1);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        editor
    }

    pub(super) fn start_unanswered(place: &Place, url: &str, version: u8) -> Self {
        let mut editor = Editor::spawn(place, &["connect", url]);
        let params = if version == 1 {
            json!({"protocolVersion": 1, "clientCapabilities": {}})
        } else {
            json!({"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}})
        };
        editor.request("initialize", params);
        editor
    }

    pub(super) fn start_no_wait(place: &Place, url: &str) -> Self {
        Editor::spawn(place, &["connect", "--no-wait", url])
    }

    fn spawn(place: &Place, arguments: &[&str]) -> Self {
        let token = place.home().join("token").display().to_string();
        let mut command = place.command(&[arguments, &["--token-file", &token]].concat());
        let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let from_program = lines(process.stdout.take().unwrap());
        let errors = lines(process.stderr.take().unwrap());
        let (lines, prompts, asked) = (Vec::new(), Vec::new(), Vec::new());
        Editor { process, input, from_program, errors, last_id: 0, asked_at: 0, lines, prompts, asked }
    }

    fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        self.asked_at = self.lines.len();
        self.say(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    /// Receives lines until the lines since the last request contain the wanted one.
    fn until<T>(&mut self, what: &str, mut found: impl FnMut(&[Value]) -> Option<T>) -> T {
        loop {
            if let Some(found) = found(&self.lines[self.asked_at..]) {
                return found;
            }
            let line = self.from_program.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| {
                let came: Vec<String> = self.lines[self.asked_at..].iter().map(Value::to_string).collect();
                let errors: Vec<String> = self.errors.try_iter().collect();
                panic!("{what} does not come; {errors:?}; since it was asked for came\n{}", came.join("\n"))
            });
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "session/request_permission" {
                self.agree(&message);
            }
            self.lines.push(message);
        }
    }

    fn agree(&mut self, question: &Value) {
        let params = &question["params"];
        let call =
            [&params["subject"]["toolCall"], &params["toolCall"]].map(|call| call["toolCallId"].as_str());
        self.asked.push(call.into_iter().flatten().next().unwrap().to_owned());
        let option = &params["options"][0]["optionId"];
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}));
    }

    /// Waits for the response to a request.
    pub(super) fn answer_to(&mut self, id: i64) -> Value {
        self.until("an answer", |lines| lines.iter().find(|line| is_answer(line, id)).cloned())
    }

    pub(super) fn answers(&self, id: i64) -> Vec<&Value> {
        self.lines.iter().filter(|line| is_answer(line, id)).collect()
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer_to(id)
    }

    /// Opens a session.
    pub(crate) fn open(&mut self, place: &Place) -> String {
        let opened = self.call("session/new", json!({"cwd": place.work(), "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    }

    pub(super) fn send_prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        let id = self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        self.prompts.push((text.to_owned(), id));
        id
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.send_prompt(session, text);
        self.answer_to(id)
    }

    /// Waits for a number of updates in the last turn, or for its end.
    pub(super) fn wait_for_updates(&mut self, session: &str, count: usize) {
        self.until("an update", |lines| {
            let updates = updates(lines, session);
            let is_over = updates.iter().any(|update| update["state"] == "idle");
            (is_over || updates.len() >= count).then_some(())
        });
    }

    /// Waits for the end of the turn of a prompt, and returns the state update that ends it.
    pub(crate) fn turn_end(&mut self, session: &str, text: &str) -> Value {
        self.until("the end of a turn", |lines| {
            // A client that missed the whole turn only gets its history, followed by the state of the
            // session.
            let updates = all_updates(lines, session);
            let is_prompt = |update: &Value| {
                update["sessionUpdate"] == "user_message" && update["content"][0]["text"] == text
            };
            let at = updates.iter().position(is_prompt)?;
            updates[at..].iter().find(|update| update["state"] == "idle").cloned()
        })
    }

    /// Returns the updates of a session, without those that only repeat its state.
    pub(super) fn updates(&self, session: &str) -> Vec<Value> {
        updates(&self.lines, session)
    }

    /// Waits for a text on standard error.
    pub(super) fn wait_for_error(&self, words: &str) {
        loop {
            let line = self.errors.recv_timeout(LONG).unwrap_or_else(|_| panic!("{words:?} does not come"));
            if line.contains(words) {
                return;
            }
        }
    }

    /// Closes the input, and returns the exit code.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.input.take());
        self.exit_code()
    }

    /// Waits for its exit, and returns the exit code.
    pub(super) fn exit_code(mut self) -> i32 {
        while self.from_program.recv_timeout(LONG).is_ok() {}
        self.process.wait().unwrap().code().unwrap()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

fn is_answer(line: &Value, id: i64) -> bool {
    line["method"].is_null() && line["id"] == id
}

fn updates(lines: &[Value], session: &str) -> Vec<Value> {
    let is_told = |line: &&Value| line["params"]["_meta"]["switchboard/questions"].is_null();
    updates_in(lines.iter().filter(is_told), session)
}

fn all_updates(lines: &[Value], session: &str) -> Vec<Value> {
    updates_in(lines.iter(), session)
}

fn updates_in<'l>(lines: impl Iterator<Item = &'l Value>, session: &str) -> Vec<Value> {
    let params = lines.map(|line| &line["params"]).filter(|params| params["sessionId"] == session);
    params.map(|params| params["update"].clone()).filter(Value::is_object).collect()
}

/// Returns the lines of a stream, which a thread reads until its end.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
