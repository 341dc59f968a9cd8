//! Generated conversations of every kind, deterministic for a seed, with the faults that a robust client
//! tolerates.
//!
//! Every text in them consists of unique words (`zq17`), so that tests can check which of them a reader
//! shows, and where. Malformed content that must be dropped has its own words (`zx17`).

use serde_json::{Value, json};

/// A pseudorandom number generator, the same on every machine.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below a limit, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % limit as u64) as usize
    }

    /// Returns true with a probability of one in this number.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// A message, and whether the agent sent it.
type Said = (bool, Value);

/// Several conversations on one connection.
#[derive(Debug)]
pub struct Generator {
    numbers: Random,
    words: u32,
    sessions: usize,
    requests: i64,
}

impl Generator {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Generator { numbers: Random::new(seed), words: 0, sessions: 0, requests: 1 }
    }

    /// Returns recorded lines of this number of conversations after one handshake. Some have two interleaved
    /// sessions.
    pub fn recording(&mut self, conversations: usize) -> String {
        let info = json!({"name": "x", "version": "1"});
        let params = json!({"protocolVersion": 2, "info": info, "capabilities": {}});
        let result = json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {}}});
        let mut said = vec![
            (false, json!({"id": 0, "method": "initialize", "params": params})),
            (true, json!({"id": 0, "result": result})),
        ];
        for _ in 0..conversations {
            let mut sessions = vec![self.session()];
            if self.numbers.one_in(8) {
                sessions.push(self.session());
            }
            said.extend(self.interleaved(sessions));
        }
        self.lines(said)
    }

    /// Interleaves the messages of several sessions, each in its order.
    fn interleaved(&mut self, mut sessions: Vec<Vec<Said>>) -> Vec<Said> {
        sessions.iter_mut().for_each(|session| session.reverse());
        let mut said = Vec::new();
        while sessions.iter().any(|session| !session.is_empty()) {
            let place = self.numbers.below(sessions.len());
            said.extend(sessions[place].pop());
        }
        said
    }

    /// Returns the lines of a recording, with some messages of the agent in batches.
    fn lines(&mut self, said: Vec<Said>) -> String {
        let mut lines = String::new();
        let mut batch: Vec<Value> = Vec::new();
        let count = said.len();
        for (place, (from_agent, mut message)) in said.into_iter().enumerate() {
            message["jsonrpc"] = "2.0".into();
            let time = place as f64 / 100.0;
            let mut line = |from_agent: bool, message: Value| {
                let direction = if from_agent { "agent->client" } else { "client->agent" };
                lines.push_str(&json!({"t": time, "dir": direction, "msg": message}).to_string());
                lines.push('\n');
            };
            // Not the handshake, and not across a request of the client.
            if from_agent && place > 1 && batch.len() < 4 && place + 1 < count && self.numbers.one_in(6) {
                batch.push(message);
                continue;
            }
            if !batch.is_empty() {
                if from_agent {
                    batch.push(message);
                    line(true, std::mem::take(&mut batch).into());
                    continue;
                }
                line(true, std::mem::take(&mut batch).into());
            }
            line(from_agent, message);
        }
        lines
    }

    // ----- words

    fn word(&mut self) -> String {
        self.words += 1;
        format!("zq{}", self.words)
    }

    fn lost(&mut self) -> String {
        self.words += 1;
        format!("zx{}", self.words)
    }

    fn text(&mut self) -> String {
        let count = 1 + self.numbers.below(3);
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(if self.numbers.one_in(5) { "\n" } else { " " })
    }

    fn text_block(&mut self) -> Value {
        json!({"type": "text", "text": format!(" {} ", self.text())})
    }

    /// Returns content of a message. Malformed parts are dropped.
    fn block(&mut self) -> Value {
        match self.numbers.below(10) {
            0 => json!({"type": "resource_link", "name": self.word(), "uri": "file:///w/a"}),
            1 => json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
            2 => json!({"type": format!("_{}", self.word()), "more": 1}),
            _ => self.text_block(),
        }
    }

    fn blocks(&mut self) -> Value {
        let mut blocks: Vec<Value> = (0..1 + self.numbers.below(3)).map(|_| self.block()).collect();
        if self.numbers.one_in(4) {
            let bad =
                [json!(7), json!({"type": "text", "text": 7}), json!({"type": "image", "data": self.lost()})];
            let place = self.numbers.below(blocks.len() + 1);
            blocks.insert(place, self.numbers.pick(&bad));
        }
        blocks.into()
    }

    // ----- sessions

    fn session(&mut self) -> Vec<Said> {
        self.sessions += 1;
        let mut session = Session {
            id: format!("s{}", self.sessions),
            said: Vec::new(),
            messages: 0,
            calls: 0,
            terminals: 0,
        };
        let request = self.request();
        let new = json!({"id": request, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}});
        session.said.push((false, new));
        if self.numbers.one_in(6) {
            // The agent sends updates before the client knows the session.
            self.update(&mut session);
        }
        let opened = json!({"id": request, "result": {"sessionId": session.id}});
        session.said.push((true, opened.clone()));
        if self.numbers.one_in(12) {
            session.said.push((true, opened));
        }
        for _ in 0..1 + self.numbers.below(2) {
            self.turn(&mut session);
        }
        session.said
    }

    fn request(&mut self) -> i64 {
        self.requests += 1;
        self.requests
    }

    fn turn(&mut self, session: &mut Session) {
        let request = self.request();
        let prompt = json!({"sessionId": session.id, "prompt": [{"type": "text", "text": "Go"}]});
        session.said.push((false, json!({"id": request, "method": "session/prompt", "params": prompt})));
        let message = format!("u{}", session.said.len());
        // A response without the id belongs to another dialect, with other semantics of metadata.
        let answers = [json!({"messageId": message}), json!({"messageId": message, "_meta": 1})];
        let answer = (true, json!({"id": request, "result": self.numbers.pick(&answers)}));
        let running = json!({"sessionUpdate": "state_update", "state": "running"});
        let is_first = self.numbers.one_in(3);
        if is_first {
            session.said.push(answer.clone());
        }
        session.update(running);
        let content = self.blocks();
        session.update(json!({"sessionUpdate": "user_message", "messageId": message, "content": content}));
        if !is_first {
            session.said.push(answer);
        }
        for _ in 0..2 + self.numbers.below(6) {
            self.event(session);
        }
        let reasons = [json!("end_turn"), json!("end_turn"), json!("_whim"), json!(7), Value::Null];
        let mut idle = json!({"sessionUpdate": "state_update", "state": "idle"});
        if !self.numbers.one_in(4) {
            idle["stopReason"] = self.numbers.pick(&reasons);
        }
        session.update(idle);
    }

    fn event(&mut self, session: &mut Session) {
        match self.numbers.below(8) {
            0 => self.permission(session),
            1 if self.numbers.one_in(2) => self.elicitation(session),
            _ => self.update(session),
        }
    }

    /// Sends an update, possibly with a fault, and possibly twice.
    fn update(&mut self, session: &mut Session) {
        let mut update = match self.numbers.below(22) {
            0..4 => self.chunk(session),
            4..6 => self.message(session),
            6..12 => self.tool_call(session),
            12..14 => self.tool_chunk(session),
            14 => self.plan(),
            15 => self.terminal(session),
            16 => {
                json!({"sessionUpdate": "session_info_update", "title": self.numbers.pick(&[Value::Null, json!("A title")])})
            }
            17 => json!({"sessionUpdate": format!("_{}", self.word()), "messageId": "m1", "anything": [1]}),
            18 => json!({"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": 7}),
            19 => json!({"sessionUpdate": "notice", "severity": "info", "title": self.word()}),
            20 => self.compaction(session),
            // Unknown or unreadable updates, which no reader shows.
            _ => {
                let word = self.lost();
                self.numbers.pick(&[
                    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": word}}),
                    json!({"sessionUpdate": "tool_call_update", "title": word}),
                    json!({"sessionUpdate": "plan_update", "plan": 7}),
                    json!({"sessionUpdate": 7}),
                    json!("nothing"),
                ])
            }
        };
        if update.is_object() && self.numbers.one_in(4) {
            let faults = [
                ("_meta", json!(1)),
                ("_meta", json!({"a": 1})),
                ("unheardOf", json!([1])),
                ("_meta", Value::Null),
            ];
            let (key, value) = self.numbers.pick(&faults);
            update[key] = value;
        }
        session.update(update.clone());
        if self.numbers.one_in(12) {
            session.update(update);
        }
    }

    fn message_id(&mut self, session: &mut Session) -> String {
        // Usually the last message continues, sometimes an earlier one, sometimes a new one begins.
        if session.messages == 0 || self.numbers.one_in(3) {
            session.messages += 1;
            return format!("m{}", session.messages);
        }
        let back = if self.numbers.one_in(4) { self.numbers.below(session.messages) } else { 0 };
        format!("m{}", session.messages - back)
    }

    fn chunk(&mut self, session: &mut Session) -> Value {
        let kind = if self.numbers.one_in(4) { "agent_thought_chunk" } else { "agent_message_chunk" };
        json!({"sessionUpdate": kind, "messageId": self.message_id(session), "content": self.block()})
    }

    fn message(&mut self, session: &mut Session) -> Value {
        let kind = if self.numbers.one_in(4) { "agent_thought" } else { "agent_message" };
        let mut update = json!({"sessionUpdate": kind, "messageId": self.message_id(session)});
        match self.numbers.below(8) {
            0 => {}
            1 => update["content"] = Value::Null,
            2 => update["content"] = json!("words"),
            _ => update["content"] = self.blocks(),
        }
        update
    }

    fn call_id(&mut self, session: &mut Session) -> String {
        if session.calls == 0 || self.numbers.one_in(2) {
            session.calls += 1;
        }
        let back = if self.numbers.one_in(4) { self.numbers.below(session.calls) } else { 0 };
        format!("c{}", session.calls - back)
    }

    /// Returns the fields of a tool call, some of them malformed, cleared or missing.
    fn call_fields(&mut self, session: &mut Session) -> Value {
        let mut call = json!({"toolCallId": self.call_id(session)});
        if !self.numbers.one_in(4) {
            call["title"] = match self.numbers.below(10) {
                0 => Value::Null,
                1 => json!(7),
                _ => self.word().into(),
            };
        }
        let statuses = [
            json!("pending"),
            json!("in_progress"),
            json!("completed"),
            json!("failed"),
            json!("cancelled"),
            json!("_odd"),
            json!({}),
            Value::Null,
        ];
        if !self.numbers.one_in(3) {
            call["status"] = self.numbers.pick(&statuses);
        }
        if self.numbers.one_in(3) {
            call["kind"] =
                self.numbers.pick(&[json!("edit"), json!("read"), json!("_spell"), json!(7), Value::Null]);
        }
        if self.numbers.one_in(3) {
            let (path, other, lost) = (self.word(), self.word(), self.lost());
            call["locations"] = self.numbers.pick(&[
                json!([{"path": format!("/w/{path}"), "line": 3}]),
                json!([{"path": format!("{path}/{other}")}]),
                json!([{"path": format!("/w/{path}"), "line": "x"}, 7, {"path": format!("/w/{other}")}]),
                json!([{"line": 7, "_meta": {"lost": lost}}]),
                json!("everywhere"),
                Value::Null,
            ]);
        }
        if self.numbers.one_in(2) {
            let mut content: Vec<Value> =
                (0..1 + self.numbers.below(2)).map(|_| self.call_content(session)).collect();
            if self.numbers.one_in(4) {
                content.push(self.numbers.pick(&[
                    json!(7),
                    json!({"type": "diff", "changes": 7}),
                    json!({"type": "content"}),
                ]));
            }
            call["content"] = content.into();
        } else if self.numbers.one_in(8) {
            call["content"] = self.numbers.pick(&[Value::Null, json!(7), json!([])]);
        }
        if self.numbers.one_in(6) {
            call["name"] = self.numbers.pick(&[json!("a name"), json!([]), Value::Null]);
        }
        if self.numbers.one_in(6) {
            call["rawInput"] = self.numbers.pick(&[json!({"fine": true}), json!("text"), Value::Null]);
        }
        if self.numbers.one_in(8) {
            call["_meta"] = self.numbers.pick(&[json!(1), json!({"k": 1}), Value::Null]);
        }
        call
    }

    fn call_content(&mut self, session: &mut Session) -> Value {
        match self.numbers.below(8) {
            0 => {
                let (path, old, new) = (self.word(), self.word(), self.word());
                let patch = format!(
                    "diff --git /w/{path} /w/{path}\n--- /w/{path}\n+++ /w/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
                );
                json!({"type": "diff", "changes": [{"operation": "modify", "path": format!("/w/{path}")}],
                    "patch": {"format": "git_patch", "text": patch}})
            }
            1 => {
                let changes =
                    [json!({"operation": "delete", "path": format!("/w/{}", self.word())}), json!(7)];
                json!({"type": "diff", "changes": changes})
            }
            2 if session.terminals > 0 => {
                json!({"type": "terminal", "terminalId": format!("t{}", session.terminals)})
            }
            3 => json!({"type": format!("_{}", self.word()), "more": 1}),
            _ => json!({"type": "content", "content": self.block()}),
        }
    }

    fn tool_call(&mut self, session: &mut Session) -> Value {
        let mut call = self.call_fields(session);
        call["sessionUpdate"] = "tool_call_update".into();
        call
    }

    /// Also for calls that have not been announced yet.
    fn tool_chunk(&mut self, session: &mut Session) -> Value {
        let (id, content) = (self.call_id(session), self.call_content(session));
        json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": content})
    }

    fn plan(&mut self) -> Value {
        let statuses = ["pending", "in_progress", "completed", "cancelled", "_odd"];
        let mut entries: Vec<Value> = (0..1 + self.numbers.below(3))
            .map(|_| json!({"content": self.word(), "priority": "high", "status": self.numbers.pick(&statuses)}))
            .collect();
        if self.numbers.one_in(4) {
            entries.push(json!({"content": 7, "priority": self.lost()}));
        }
        let id = format!("p{}", self.numbers.below(2));
        let plan = if self.numbers.one_in(6) {
            json!({"type": format!("_{}", self.word()), "planId": id})
        } else {
            json!({"type": "items", "planId": id, "entries": entries})
        };
        json!({"sessionUpdate": "plan_update", "plan": plan})
    }

    fn terminal(&mut self, session: &mut Session) -> Value {
        if session.terminals == 0 || self.numbers.one_in(3) {
            session.terminals += 1;
        }
        let id = format!("t{}", session.terminals);
        // "b2s=" is "ok".
        match self.numbers.below(3) {
            0 => json!({"sessionUpdate": "terminal_output_chunk", "terminalId": id, "data": "b2s="}),
            1 => {
                json!({"sessionUpdate": "terminal_update", "terminalId": id, "command": self.word(), "cwd": "rel", "size": 7})
            }
            _ => json!({"sessionUpdate": "terminal_update", "terminalId": id, "command": self.word(),
                "exitStatus": {"exitCode": "x"}}),
        }
    }

    fn compaction(&mut self, session: &Session) -> Value {
        let id = format!("k{}", session.calls % 2);
        if self.numbers.one_in(2) {
            return json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": id, "content": self.text_block()});
        }
        let status = self.numbers.pick(&["in_progress", "completed", "failed", "_odd"]);
        json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status, "error": 7})
    }

    // ----- requests

    fn permission(&mut self, session: &mut Session) {
        let id = self.request();
        let kinds = ["allow_once", "allow_always", "reject_once", "_whim"];
        let options: Vec<Value> = (0..1 + self.numbers.below(3))
            .map(|place| {
                let kind = self.numbers.pick(&kinds);
                json!({"optionId": format!("o{place}"), "name": self.word(), "kind": kind})
            })
            .collect();
        let mut params = json!({"sessionId": session.id, "title": self.word(), "options": options});
        match self.numbers.below(5) {
            0 => {}
            1 => {
                params["subject"] = json!({"type": "command", "command": "make", "cwd": "/w"});
            }
            2 => params["subject"] = json!({"type": "_spell", "words": 1}),
            _ => {
                let call = self.call_fields(session);
                params["subject"] = json!({"type": "tool_call", "toolCall": call});
            }
        }
        if self.numbers.one_in(3) {
            let faults = [
                ("_meta", json!(1)),
                ("description", json!(["x"])),
                ("unheardOf", json!(1)),
                ("description", Value::Null),
            ];
            let (key, value) = self.numbers.pick(&faults);
            params[key] = value;
        }
        session
            .said
            .push((true, json!({"id": id, "method": "session/request_permission", "params": params})));
        if self.numbers.one_in(4) {
            self.update(session);
        }
        let first = options[0]["optionId"].clone();
        let answer = match self.numbers.below(10) {
            0 => json!({"result": {"outcome": {"outcome": "cancelled"}}}),
            1 => json!({"result": {"outcome": {"outcome": "selected", "optionId": "not offered"}}}),
            2 => json!({"result": {"outcome": {"outcome": "_whim"}}}),
            3 => json!({"result": {"outcome": 7}}),
            4 => json!({"error": {"code": -32603, "message": "no"}}),
            5 => {
                let params = json!({"requestId": id});
                session.said.push((true, json!({"method": "$/cancel_request", "params": params})));
                json!({"result": {"outcome": {"outcome": "cancelled"}}})
            }
            _ => json!({"result": {"outcome": {"outcome": "selected", "optionId": first}}}),
        };
        session.answer(id, answer);
    }

    fn elicitation(&mut self, session: &mut Session) {
        let id = self.request();
        let message = self.word();
        let properties = json!({"a": {"type": "string", "minLength": "x"}, "b": {"type": "_odd"}});
        let mut params = self.numbers.pick(&[
            json!({"mode": "form", "requestedSchema": {"type": "object", "properties": properties}}),
            json!({"mode": "url", "elicitationId": "e", "url": "https://example.org/"}),
            json!({"mode": "_odd"}),
        ]);
        params["sessionId"] = session.id.clone().into();
        params["message"] = message.into();
        session.said.push((true, json!({"id": id, "method": "elicitation/create", "params": params})));
        let answer = self.numbers.pick(&[
            json!({"result": {"action": "accept", "content": {"a": "x"}}}),
            json!({"result": {"action": "decline"}}),
            json!({"result": {"action": "cancel"}}),
            json!({"result": {"action": "_whim"}}),
            json!({"result": 7}),
        ]);
        session.answer(id, answer);
    }
}

/// A session that is being generated.
struct Session {
    id: String,
    said: Vec<Said>,
    messages: usize,
    calls: usize,
    terminals: usize,
}

impl Session {
    // Values of `json!` read better without an ampersand.
    #[allow(clippy::needless_pass_by_value)]
    fn update(&mut self, update: Value) {
        let params = json!({"sessionId": self.id, "update": update});
        self.said.push((true, json!({"method": "session/update", "params": params})));
    }

    fn answer(&mut self, id: i64, mut answer: Value) {
        answer["id"] = id.into();
        self.said.push((false, answer));
    }
}
