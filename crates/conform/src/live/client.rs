//! Scenarios for clients: we are the agent.
//!
//! A client cannot be looked into, so it is judged by what it sends. Behind each fault it is asked a question: who answers it has
//! survived.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_protocol::{Recorded, RecordedLine, Side};
use switchboard_transport::{Frame, LineReader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout_at};

/// The longest message of a client that is read.
const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;
/// How much output a large tool call has: so many pieces of a megabyte.
const PIECES: usize = 100;

/// What an agent does to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientScenario {
    /// Its name, for people.
    pub name: &'static str,
    /// Its name on a command line.
    pub id: &'static str,
    fault: Fault,
}

impl ClientScenario {
    /// Whether the agent breaks the protocol in it, so that a client need not bear it.
    pub(super) fn breaks_protocol(&self, is_v1: bool) -> bool {
        match self.fault {
            Fault::Noise | Fault::Malformed => true,
            // Only version 2 has values that are not known yet.
            Fault::UnknownKinds => is_v1,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Early,
    Late,
    Duplicates,
    UnknownKinds,
    UnknownFields,
    Malformed,
    Questions,
    Withdrawn,
    Large,
    Noise,
    Pieces,
    Slow,
    UnknownCalls,
    Folding,
}

/// All scenarios for clients.
pub const CLIENT_SCENARIOS: &[ClientScenario] = &[
    ClientScenario { name: "a turn without faults", id: "plain", fault: Fault::None },
    ClientScenario { name: "updates before the session is there", id: "early", fault: Fault::Early },
    ClientScenario { name: "updates after the turn", id: "late", fault: Fault::Late },
    ClientScenario { name: "everything twice", id: "duplicates", fault: Fault::Duplicates },
    ClientScenario {
        name: "updates and content of unknown kinds",
        id: "unknown-kinds",
        fault: Fault::UnknownKinds,
    },
    ClientScenario { name: "unknown fields", id: "unknown-fields", fault: Fault::UnknownFields },
    ClientScenario { name: "malformed optional fields", id: "malformed", fault: Fault::Malformed },
    ClientScenario { name: "two questions at once", id: "questions", fault: Fault::Questions },
    ClientScenario { name: "a question that is taken back", id: "withdrawn", fault: Fault::Withdrawn },
    ClientScenario { name: "100 MB of output", id: "large", fault: Fault::Large },
    ClientScenario { name: "noise between messages", id: "noise", fault: Fault::Noise },
    ClientScenario { name: "messages in pieces, and several at once", id: "pieces", fault: Fault::Pieces },
    ClientScenario { name: "a slow agent", id: "slow", fault: Fault::Slow },
    ClientScenario {
        name: "unknown requests and notifications",
        id: "unknown-calls",
        fault: Fault::UnknownCalls,
    },
    ClientScenario { name: "messages that are replaced", id: "folding", fault: Fault::Folding },
];

/// Words in a log that say how it went.
pub(super) const SURVIVED: &str = "conform: the question behind the fault was answered";
pub(super) const NOT_SURVIVED: &str = "conform: the question behind the fault was not answered";
pub(super) const ALL_ANSWERED: &str = "conform: both questions were answered";
pub(super) const NOT_ALL_ANSWERED: &str = "conform: not both questions were answered";

/// What the client must have shown in the end, and what not.
pub(super) const SHOWN: [&str; 2] = ["conform-kept-one", "conform-kept-two"];
pub(super) const REPLACED: &str = "conform-replaced";

/// Plays the agent of a scenario on a connection until the client ends it. Each message is given to `log` as a line of a recording.
///
/// ```no_run
/// # async fn play() {
/// use switchboard_conform::live::{CLIENT_SCENARIOS, play_agent};
///
/// let scenario = CLIENT_SCENARIOS.iter().find(|scenario| scenario.id == "noise").unwrap();
/// let patience = std::time::Duration::from_secs(10);
/// play_agent(scenario, tokio::io::empty(), tokio::io::sink(), patience, |line| println!("{line}")).await;
/// # }
/// ```
pub async fn play_agent<R, W>(
    scenario: &ClientScenario,
    input: R,
    output: W,
    patience: Duration,
    log: impl FnMut(&str),
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut agent = Agent {
        fault: scenario.fault,
        input: LineReader::new(input, LONGEST_MESSAGE),
        output,
        log,
        patience,
        is_v1: true,
        waiting: Vec::new(),
        next_id: 0,
        sessions: 0,
        prompts: 0,
    };
    // The end of the connection is how it ends.
    let _ = agent.run().await;
}

/// The client is gone.
struct Gone;

struct Agent<R, W, L> {
    fault: Fault,
    input: LineReader<R>,
    output: W,
    log: L,
    patience: Duration,
    is_v1: bool,
    /// What came while something else was waited for.
    waiting: Vec<Value>,
    next_id: i64,
    sessions: u64,
    prompts: u64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, L: FnMut(&str)> Agent<R, W, L> {
    async fn run(&mut self) -> Result<(), Gone> {
        loop {
            let message = match self.waiting.is_empty() {
                false => self.waiting.remove(0),
                true => self.read(None).await?.ok_or(Gone)?,
            };
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
            let method = method.to_owned();
            self.request(&method, &id.clone(), &message["params"]).await?;
        }
    }

    async fn request(&mut self, method: &str, id: &Value, params: &Value) -> Result<(), Gone> {
        let result = match method {
            "initialize" => self.introduction(params),
            "session/new" => {
                self.sessions += 1;
                let session = format!("conform-{}", self.sessions);
                if self.fault == Fault::Early {
                    let title = json!({"sessionUpdate": "session_info_update", "title": "Early"});
                    self.update(&session, title).await?;
                    self.say(&session, "early ").await?;
                }
                json!({"sessionId": session})
            }
            "session/prompt" => return self.prompt(id, params).await,
            "session/list" => json!({"sessions": []}),
            "session/close" | "session/delete" | "session/set_mode" | "auth/login" | "authenticate" => {
                json!({})
            }
            "session/set_config_option" => json!({"configOptions": []}),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
        };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await
    }

    fn introduction(&mut self, params: &Value) -> Value {
        self.is_v1 = params["protocolVersion"].as_u64().unwrap_or(1) < 2 || !params["info"].is_object();
        let info = json!({"name": "switchboard-conform", "version": env!("CARGO_PKG_VERSION")});
        if self.is_v1 {
            json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info, "authMethods": []})
        } else {
            json!({"protocolVersion": 2, "capabilities": {"session": {}}, "info": info})
        }
    }

    async fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), Gone> {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        self.prompts += 1;
        if !self.is_v1 {
            let message = format!("user-{}", self.prompts);
            self.state(&session, json!({"state": "running"})).await?;
            self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"messageId": message}})).await?;
            let told =
                json!({"sessionUpdate": "user_message", "messageId": message, "content": params["prompt"]});
            self.update(&session, told).await?;
        }
        self.say(&session, "conform-kept-one ").await?;
        self.disturb(&session).await?;
        let outcome = self.ask(&session, "Are you there?").await?;
        let told = if outcome.is_some() { SURVIVED } else { NOT_SURVIVED };
        self.note(told);
        self.say(&session, "conform-kept-two").await?;
        let is_cancelled = self.waiting.iter().any(|message| message["method"] == "session/cancel");
        let reason = if is_cancelled { "cancelled" } else { "end_turn" };
        if self.is_v1 {
            self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}})).await?;
        } else {
            self.state(&session, json!({"state": "idle", "stopReason": reason})).await?;
        }
        if self.fault == Fault::Late {
            self.update(&session, self.tool_call("late", json!({"title": "Late", "status": "completed"})))
                .await?;
            self.say(&session, " late").await?;
        }
        Ok(())
    }

    /// What the scenario is about.
    async fn disturb(&mut self, session: &str) -> Result<(), Gone> {
        match self.fault {
            Fault::None | Fault::Early | Fault::Late => {}
            Fault::Duplicates => {
                for status in ["pending", "pending", "completed", "completed"] {
                    let call =
                        self.tool_call("twice", json!({"title": "Twice", "kind": "read", "status": status}));
                    self.update(session, call).await?;
                }
            }
            Fault::UnknownKinds => {
                self.update(session, json!({"sessionUpdate": "_switchboard/weather", "rain": true})).await?;
                self.update(session, json!({"sessionUpdate": "weather_update", "sun": [1, 2]})).await?;
                let content = json!([{"type": "_switchboard/hologram", "depth": 3}]);
                let call = json!({"title": "Odd", "kind": "_switchboard/odd", "status": "pending", "content": content});
                self.update(session, self.tool_call("odd", call)).await?;
                let block = json!({"type": "_switchboard/smell", "data": "x"});
                self.update(session, self.chunk(&block)).await?;
            }
            Fault::UnknownFields => {
                let mut call = self.tool_call("more", json!({"title": "More", "status": "pending"}));
                call["colour"] = json!("green");
                call["_meta"] = json!({"switchboard/conform": {"deep": [[[]]]}});
                self.update(session, call).await?;
                let mut chunk = self.chunk(&json!({"type": "text", "text": "x ", "font": "serif"}));
                chunk["weight"] = json!(700);
                self.update(session, chunk).await?;
            }
            Fault::Malformed => {
                for fields in [
                    json!({"title": "Bad", "kind": 7, "locations": "nowhere"}),
                    json!({"title": "Bad", "status": ["completed"], "rawInput": null}),
                    json!({"title": "Bad", "content": [5, {"type": "content"}, null], "_meta": "none"}),
                ] {
                    self.update(session, self.tool_call("bad", fields)).await?;
                }
                self.update(session, json!({"sessionUpdate": "usage_update", "used": "many", "size": -1}))
                    .await?;
                self.update(session, json!({"sessionUpdate": 7})).await?;
                self.update(session, json!("no object")).await?;
            }
            Fault::Questions => {
                let first = self.put(session, "First?").await?;
                let second = self.put(session, "Second?").await?;
                let answers = [self.answer(&first).await?, self.answer(&second).await?];
                let is_all = answers.iter().all(Option::is_some);
                self.note(if is_all { ALL_ANSWERED } else { NOT_ALL_ANSWERED });
            }
            Fault::Withdrawn => {
                let question = self.put(session, "Never mind?").await?;
                let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": question}});
                self.send(&cancel).await?;
                self.answer(&question).await?;
            }
            Fault::Large => self.large(session).await?,
            Fault::Noise => {
                for noise in
                    ["starting up...\n", "\n", "\u{1b}[2Kspinner\n", "[1] warning: {}\n", "{\"half\":\n"]
                {
                    self.write(noise.as_bytes()).await?;
                    self.say(session, "x ").await?;
                }
                self.write(b"\xff\xfe\n").await?;
            }
            Fault::Pieces => {
                for letter in ["a", "b"] {
                    let update = self.chunk(&json!({"type": "text", "text": letter}));
                    let text = format!("{}\n", self.update_message(session, &update));
                    self.log_sent(text.trim_end());
                    for piece in text.as_bytes().chunks(7) {
                        self.write(piece).await?;
                        tokio::task::yield_now().await;
                    }
                }
                let update = self.chunk(&json!({"type": "text", "text": "c"}));
                let text = self.update_message(session, &update).to_string();
                for _ in 0..3 {
                    self.log_sent(&text);
                }
                self.write(format!("{text}\n{text}\r\n{text}\n").as_bytes()).await?;
            }
            Fault::Slow => {
                for _ in 0..3 {
                    sleep(Duration::from_millis(700)).await;
                    self.say(session, "slow ").await?;
                }
            }
            Fault::UnknownCalls => {
                let id = self.next();
                let request =
                    json!({"jsonrpc": "2.0", "id": id, "method": "_switchboard/what", "params": {}});
                self.send(&request).await?;
                self.send(&json!({"jsonrpc": "2.0", "method": "_switchboard/hello", "params": {}})).await?;
                self.send(&json!({"jsonrpc": "2.0", "method": "$/switchboard"})).await?;
                self.answer(&id).await?;
            }
            Fault::Folding if self.is_v1 => {
                for words in ["conform-a ", "conform-b "] {
                    self.say(session, words).await?;
                }
            }
            Fault::Folding => {
                for text in [REPLACED, " twice"] {
                    let chunk = json!({"sessionUpdate": "agent_message_chunk", "messageId": "folded",
                        "content": {"type": "text", "text": text}});
                    self.update(session, chunk).await?;
                }
                let whole = json!({"sessionUpdate": "agent_message", "messageId": "folded",
                    "content": [{"type": "text", "text": "conform-whole"}]});
                self.update(session, whole).await?;
            }
        }
        Ok(())
    }

    async fn large(&mut self, session: &str) -> Result<(), Gone> {
        let call =
            self.tool_call("large", json!({"title": "Large", "kind": "execute", "status": "in_progress"}));
        self.update(session, call).await?;
        let line = format!("{}\n", "0123456789abcdef".repeat(4).trim());
        let piece = line.repeat((1 << 20) / line.len());
        let item = json!({"type": "content", "content": {"type": "text", "text": piece}});
        let update = if self.is_v1 {
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "large", "content": [item]})
        } else {
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "large", "content": item})
        };
        // Not written down: a hundred megabytes of the same say nothing of the client.
        let text = format!("{}\n", self.update_message(session, &update));
        for _ in 0..PIECES {
            self.write(text.as_bytes()).await?;
        }
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "large", "status": "completed"});
        self.update(session, done).await
    }

    fn tool_call(&self, id: &str, fields: Value) -> Value {
        let kind = if self.is_v1 { "tool_call" } else { "tool_call_update" };
        let mut update = json!({"sessionUpdate": kind, "toolCallId": id});
        if let (Some(update), Value::Object(fields)) = (update.as_object_mut(), fields) {
            update.extend(fields);
        }
        update
    }

    fn chunk(&self, content: &Value) -> Value {
        let mut update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        if !self.is_v1 {
            update["messageId"] = json!(format!("agent-{}", self.prompts));
        }
        update
    }

    async fn say(&mut self, session: &str, words: &str) -> Result<(), Gone> {
        let update = self.chunk(&json!({"type": "text", "text": words}));
        self.update(session, update).await
    }

    async fn state(&mut self, session: &str, fields: Value) -> Result<(), Gone> {
        let mut update = fields;
        update["sessionUpdate"] = json!("state_update");
        self.update(session, update).await
    }

    fn update_message(&self, session: &str, update: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
    }

    async fn update(&mut self, session: &str, update: Value) -> Result<(), Gone> {
        let message = self.update_message(session, &update);
        self.send(&message).await
    }

    fn next(&mut self) -> Value {
        self.next_id += 1;
        Value::from(self.next_id)
    }

    /// Asks something, and gives the id of the question.
    async fn put(&mut self, session: &str, title: &str) -> Result<Value, Gone> {
        let id = self.next();
        let options = json!([
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let params = if self.is_v1 {
            json!({"sessionId": session, "toolCall": {"toolCallId": "ask", "title": title}, "options": options})
        } else {
            json!({"sessionId": session, "title": title, "options": options})
        };
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}),
        )
        .await?;
        Ok(id)
    }

    async fn ask(&mut self, session: &str, title: &str) -> Result<Option<Value>, Gone> {
        if !self.is_v1 {
            self.state(session, json!({"state": "requires_action"})).await?;
        }
        let id = self.put(session, title).await?;
        let answer = self.answer(&id).await?;
        if !self.is_v1 {
            self.state(session, json!({"state": "running"})).await?;
        }
        Ok(answer)
    }

    /// Waits for the answer to a question; `None` if it does not come in time.
    async fn answer(&mut self, id: &Value) -> Result<Option<Value>, Gone> {
        let is_answer = |message: &Value| message.get("method").is_none() && message["id"] == *id;
        if let Some(place) = self.waiting.iter().position(is_answer) {
            return Ok(Some(self.waiting.remove(place)));
        }
        let deadline = Instant::now() + self.patience;
        loop {
            let message = match self.read(Some(deadline)).await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(None),
                Err(Gone) => {
                    self.note(NOT_SURVIVED);
                    return Err(Gone);
                }
            };
            if is_answer(&message) {
                return Ok(Some(message));
            }
            self.waiting.push(message);
        }
    }

    /// The next message; `None` when the time is over.
    async fn read(&mut self, deadline: Option<Instant>) -> Result<Option<Value>, Gone> {
        loop {
            let frame = match deadline {
                None => self.input.next().await,
                Some(deadline) => match timeout_at(deadline, self.input.next()).await {
                    Ok(frame) => frame,
                    Err(_) => return Ok(None),
                },
            };
            match frame {
                Ok(Some(Frame::Message(text))) => {
                    self.log_line(Side::Client, &text);
                    if let Ok(message) = serde_json::from_str::<Value>(&text) {
                        return Ok(Some(message));
                    }
                }
                Ok(Some(Frame::Noise(noise) | Frame::Unfinished(noise))) => {
                    let line = RecordedLine::new(Recorded::Noise {
                        from: Side::Client,
                        other_side: false,
                        text: noise.excerpt.into(),
                    });
                    (self.log)(&line.to_string());
                }
                Ok(Some(Frame::TooLong(_))) => {}
                Ok(None) | Err(_) => return Err(Gone),
            }
        }
    }

    fn log_line(&mut self, from: Side, text: &str) {
        let recorded = Recorded::Message { from: Some(from), other_side: false, text: text.into() };
        (self.log)(&RecordedLine::new(recorded).to_string());
    }

    fn log_sent(&mut self, text: &str) {
        self.log_line(Side::Agent, text);
    }

    fn note(&mut self, words: &str) {
        (self.log)(&RecordedLine::new(Recorded::Process(words.into())).to_string());
    }

    async fn send(&mut self, message: &Value) -> Result<(), Gone> {
        let text = message.to_string();
        self.log_sent(&text);
        self.write(format!("{text}\n").as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.output.write_all(bytes).await.map_err(|_| Gone)?;
        self.output.flush().await.map_err(|_| Gone)
    }
}
