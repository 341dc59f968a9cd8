//! A minimal model of `switchboard serve`: its log is a list, its connections are queues of lines.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

#[derive(Default)]
pub(super) struct ModelHub {
    /// Durable state.
    pub(super) logs: BTreeMap<String, Log>,
    /// Responses by idempotency key; durable only for prompts.
    operations: HashMap<String, (bool, Value)>,
    cancelled: HashSet<String>,
    /// The prompts that were run, in order.
    pub(super) runs: Vec<String>,
    /// The answers that counted, by question.
    pub(super) answers: BTreeMap<String, Value>,
    connections: HashMap<u64, Connection>,
    /// Whether it sends the number of pending questions.
    pub(super) counts_questions: bool,
    last_connection: u64,
    last_question: u64,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) updates: Vec<Value>,
    state: &'static str,
    /// Pending questions by name.
    pub(super) open: BTreeSet<String>,
}

#[derive(Default)]
struct Connection {
    /// Progress of each session.
    attached: BTreeMap<String, usize>,
    questions: BTreeMap<i64, (String, String)>,
    last_id: i64,
    /// Lines in transit to the client.
    out: VecDeque<String>,
    /// Whether the client's cursor is still awaited.
    is_held: bool,
}

impl Log {
    fn push(&mut self, update: Value) {
        self.updates.push(update);
    }

    fn go(&mut self, state: &'static str, reason: Option<&str>) {
        self.state = state;
        let mut update = json!({"sessionUpdate": "state_update", "state": state});
        if let Some(reason) = reason {
            update["stopReason"] = reason.into();
        }
        self.push(update);
    }
}

impl ModelHub {
    pub(super) fn new(counts_questions: bool) -> Self {
        ModelHub { counts_questions, ..ModelHub::default() }
    }

    pub(super) fn connect(&mut self) -> u64 {
        self.last_connection += 1;
        self.connections.insert(self.last_connection, Connection::default());
        self.last_connection
    }

    /// Resumes a known connection: queued lines with a cursor are sent again from the cursor.
    pub(super) fn take_up(&mut self, connection: u64) -> bool {
        let Some(known) = self.connections.get_mut(&connection) else { return false };
        known.out.retain(|line| !line.contains("acp/cursor"));
        known.is_held = true;
        true
    }

    /// Delivers up to a number of lines.
    pub(super) fn deliver(&mut self, connection: u64, count: usize) -> Vec<String> {
        self.flow();
        let out = &mut self.connections.get_mut(&connection).unwrap().out;
        let count = count.min(out.len());
        out.drain(..count).collect()
    }

    /// Drops all lines in transit to the client.
    pub(super) fn cut(&mut self, connection: u64) {
        self.flow();
        self.connections.get_mut(&connection).unwrap().out.clear();
    }

    /// Breaks and resumes the stream with the responses.
    pub(super) fn lose_answers(&mut self, connection: u64) {
        let out = &mut self.connections.get_mut(&connection).unwrap().out;
        out.retain(|line| line.contains("\"method\""));
    }

    /// Breaks and resumes the stream of a session after its last cursor.
    pub(super) fn lose_stream(&mut self, connection: u64, session: &str, place: usize) {
        self.flow();
        let known = self.connections.get_mut(&connection).unwrap();
        if !known.attached.contains_key(session) {
            return;
        }
        let (asked, named) = (known.questions.clone(), format!("\"sessionId\":\"{session}\""));
        let is_of_session = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            let id = message["params"]["requestId"].as_i64();
            let takes_back = id.is_some_and(|id| asked.get(&id).is_none_or(|(known, _)| known == session));
            message["method"].is_string() && (takes_back || line.contains(&named))
        };
        known.out.retain(|line| !is_of_session(line));
        self.attach(connection, session, place, 0);
        self.tell_state(connection, session);
        self.ask_again(connection, session);
    }

    /// Kills and restarts the process. Pending questions are repeated, or the work is over.
    pub(super) fn restart(&mut self, work_is_over: bool) {
        self.connections.clear();
        self.operations.retain(|_, (is_prompt, _)| *is_prompt);
        self.cancelled.clear();
        if work_is_over {
            for log in self.logs.values_mut().filter(|log| log.state != "idle") {
                log.open.clear();
                log.go("idle", Some("error"));
            }
        }
    }

    /// Sends new updates to every connection for its attached sessions.
    fn flow(&mut self) {
        for connection in self.connections.values_mut().filter(|connection| !connection.is_held) {
            for (session, place) in &mut connection.attached {
                let log = &self.logs[session];
                for (number, update) in log.updates.iter().enumerate().skip(*place) {
                    let cursor = format!("{session}.{}", number + 1);
                    let params =
                        json!({"sessionId": session, "update": update, "_meta": {"acp/cursor": cursor}});
                    connection.out.push_back(told("session/update", params));
                }
                *place = log.updates.len();
            }
        }
    }

    pub(super) fn say(&mut self, session: &str, text: &str) {
        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": text}});
        self.logs.get_mut(session).unwrap().push(update);
    }

    pub(super) fn ask(&mut self, session: &str) {
        self.flow();
        self.last_question += 1;
        let name = format!("question {}", self.last_question);
        let log = self.logs.get_mut(session).unwrap();
        log.open.insert(name.clone());
        log.go("requires_action", None);
        self.flow();
        for connection in self.connections.values_mut().filter(|known| known.attached.contains_key(session)) {
            connection.ask(session, &name);
        }
    }

    /// Answers the oldest question from another client.
    pub(super) fn answer_elsewhere(&mut self, session: &str) {
        let name = self.logs[session].open.first().cloned();
        if let Some(name) = name {
            self.close(session, &name, json!("elsewhere"));
        }
    }

    pub(super) fn end_turn(&mut self, session: &str) {
        let names: Vec<String> = self.logs[session].open.iter().cloned().collect();
        for name in names {
            self.close(session, &name, json!("given up"));
        }
        self.logs.get_mut(session).unwrap().go("idle", Some("end_turn"));
    }

    fn close(&mut self, session: &str, name: &str, answer: Value) {
        let log = self.logs.get_mut(session).unwrap();
        if !log.open.remove(name) {
            return;
        }
        log.go("running", None);
        self.answers.insert(name.to_owned(), answer.clone());
        for connection in self.connections.values_mut() {
            let asked = connection.questions.iter().find(|(_, (_, known))| known == name).map(|(id, _)| *id);
            if let Some(id) = asked {
                connection.questions.remove(&id);
                connection.out.push_back(told("$/cancel_request", json!({"requestId": id})));
            }
        }
    }

    /// Handles a line of a client. `again` is the number of updates before its cursor that a resumed session
    /// repeats.
    pub(super) fn take(&mut self, connection: u64, line: &str, again: usize) {
        let message: Value = serde_json::from_str(line).unwrap();
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let operation = params["_meta"]["switchboard/operationId"].as_str().unwrap_or_default().to_owned();
        match (message["method"].as_str(), &message["id"]) {
            (Some("stream/resume"), _) => {
                let streams = params["streams"].as_array().unwrap();
                let known = self.connections.get_mut(&connection).unwrap();
                // Sessions that the client does not name, or names without a cursor, are detached.
                known.attached.clear();
                known.is_held = false;
                for stream in streams {
                    let session = stream["sessionId"].as_str().unwrap();
                    if let Some(cursor) = stream["cursor"].as_str() {
                        self.attach(connection, session, place(session, cursor), again);
                        self.tell_state(connection, session);
                        self.ask_again(connection, session);
                    } else {
                        let params = json!({"sessionId": session, "reason": "unknown_cursor"});
                        let out = &mut self.connections.get_mut(&connection).unwrap().out;
                        out.push_back(told("stream/resume_failed", params));
                    }
                }
            }
            (Some("session/cancel"), _) => {
                if self.cancelled.insert(operation) && self.logs[&session].state != "idle" {
                    self.end_turn(&session);
                }
            }
            (Some(method), id) => {
                let known = self.operations.get(&operation).filter(|_| !operation.is_empty());
                let answer = match known {
                    Some((_, answer)) => answer.clone(),
                    None => {
                        let answer = self.perform(connection, method, &session, params, again);
                        self.operations.insert(operation, (method == "session/prompt", answer.clone()));
                        answer
                    }
                };
                self.flow();
                let out = &mut self.connections.get_mut(&connection).unwrap().out;
                out.push_back(json!({"jsonrpc": "2.0", "id": id, "result": answer}).to_string());
                if method == "session/resume" {
                    self.ask_again(connection, &session);
                }
            }
            (None, id) => {
                let known =
                    self.connections.get_mut(&connection).unwrap().questions.remove(&id.as_i64().unwrap());
                if let Some((session, name)) = known {
                    self.close(&session, &name, message["result"].clone());
                }
            }
        }
    }

    fn perform(
        &mut self,
        connection: u64,
        method: &str,
        session: &str,
        params: &Value,
        again: usize,
    ) -> Value {
        match method {
            "initialize" => json!({"protocolVersion": 2, "capabilities": {"transport": {"resumable": {}}}}),
            "session/new" => {
                let session = format!("s{}", self.logs.len());
                self.logs.insert(session.clone(), Log { state: "idle", ..Log::default() });
                self.connections.get_mut(&connection).unwrap().attached.insert(session.clone(), 0);
                json!({"sessionId": session})
            }
            "session/resume" => {
                assert_eq!(params["cwd"], "/w", "{params}");
                let cursor = params["_meta"]["acp/cursor"].as_str();
                let from_start = params["replayFrom"]["type"] == "start";
                assert!(cursor.is_some() || from_start, "what was told is not known: {params}");
                let place = cursor.map_or(0, |cursor| place(session, cursor));
                self.attach(connection, session, place, again);
                self.tell_state(connection, session);
                json!({})
            }
            "session/prompt" => {
                let text = params["prompt"][0]["text"].as_str().unwrap();
                self.runs.push(text.to_owned());
                let log = self.logs.get_mut(session).unwrap();
                log.push(
                    json!({"sessionUpdate": "user_message", "messageId": text, "content": params["prompt"]}),
                );
                log.go("running", None);
                json!({"messageId": text})
            }
            _ => json!({}),
        }
    }

    fn attach(&mut self, connection: u64, session: &str, place: usize, again: usize) {
        assert!(place <= self.logs[session].updates.len(), "{place} is yet to come");
        let known = self.connections.get_mut(&connection).unwrap();
        known.attached.insert(session.to_owned(), place.saturating_sub(again));
    }

    /// Sends the updates up to now, then the state, with or without the number of questions.
    fn tell_state(&mut self, connection: u64, session: &str) {
        self.flow();
        let log = &self.logs[session];
        let update = json!({"sessionUpdate": "state_update", "state": log.state});
        let mut params = json!({"sessionId": session, "update": update});
        if self.counts_questions {
            let cursor = format!("{session}.{}", log.updates.len());
            params["_meta"] = json!({"acp/cursor": cursor, "switchboard/questions": log.open.len()});
        }
        self.connections.get_mut(&connection).unwrap().out.push_back(told("session/update", params));
    }

    fn ask_again(&mut self, connection: u64, session: &str) {
        let connection = self.connections.get_mut(&connection).unwrap();
        for name in &self.logs[session].open {
            connection.ask(session, name);
        }
    }
}

impl Connection {
    fn ask(&mut self, session: &str, name: &str) {
        let known = self.questions.iter().find(|(_, (_, known))| known == name).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            self.last_id += 1;
            self.questions.insert(self.last_id, (session.to_owned(), name.to_owned()));
            self.last_id
        });
        let params = json!({"sessionId": session, "title": name});
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params});
        self.out.push_back(request.to_string());
    }
}

fn told(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

fn place(session: &str, cursor: &str) -> usize {
    cursor.strip_prefix(&format!("{session}.")).unwrap().parse().unwrap()
}
