//! Scenarios for clients, with the evaluator as agent.
//!
//! The state of a client is not accessible, so it is checked by its messages. After each fault it is asked a
//! question: a client that answers has survived.

mod scenarios;

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::{Recorded, RecordedLine, Side};
use switchboard_transport::{Frame, LineReader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use self::scenarios::Fault;
pub use self::scenarios::{CLIENT_SCENARIOS, ClientScenario};

/// Maximum length of a client's message in bytes.
const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;
/// Log entries with the result of a scenario.
pub(super) const SURVIVED: &str = "conform: the question behind the fault was answered";
pub(super) const NOT_SURVIVED: &str = "conform: the question behind the fault was not answered";
pub(super) const ALL_ANSWERED: &str = "conform: both questions were answered";
pub(super) const NOT_ALL_ANSWERED: &str = "conform: not both questions were answered";
/// Log entry for the end of a scenario. Later actions of the client are not checked.
const OVER: &str = "conform: the scenario is over";

/// Texts that the client must show at the end, and a text that it must not show.
pub(super) const SHOWN: [&str; 2] = ["conform-kept-one", "conform-kept-two"];
pub(super) const REPLACED: &str = "conform-replaced";
/// Text of the session that existed before.
pub(super) const BEFORE: &str = "conform-before";

/// Returns whether the log of a scenario says that it is complete.
pub fn is_played(log: &str) -> bool {
    log.contains(OVER)
}

/// Acts as the agent of a scenario on a connection until the client ends it. Each message is passed to `log`
/// as a line of a recording.
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
    // The end of the connection ends the scenario.
    let _ = agent.run().await;
}

/// The client has disconnected.
struct ClientDisconnected;

struct Agent<R, W, L> {
    fault: Fault,
    input: LineReader<R>,
    output: W,
    log: L,
    patience: Duration,
    is_v1: bool,
    /// Messages that arrived while another one was awaited.
    waiting: Vec<Value>,
    next_id: i64,
    sessions: u64,
    prompts: u64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, L: FnMut(&str)> Agent<R, W, L> {
    async fn run(&mut self) -> Result<(), ClientDisconnected> {
        loop {
            let message = match self.waiting.is_empty() {
                false => self.waiting.remove(0),
                true => self.read(None).await?.ok_or(ClientDisconnected)?,
            };
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
            let method = method.to_owned();
            self.request(&method, &id.clone(), &message["params"]).await?;
        }
    }

    async fn request(&mut self, method: &str, id: &Value, params: &Value) -> Result<(), ClientDisconnected> {
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
            "session/list" => json!({"sessions": self.old_sessions()}),
            "session/load" | "session/resume" if self.fault == Fault::Replay => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                if method == "session/load" || params["replayFrom"].is_object() {
                    self.replay_before(session).await?;
                }
                if !self.is_v1 {
                    self.state(session, json!({"state": "idle"})).await?;
                }
                json!({})
            }
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
        // The keys of version 1 alone show that a client does not support the version it requests. Without
        // any keys the requested version counts.
        let is_of_v1 = ["clientInfo", "clientCapabilities"].iter().any(|key| params[key].is_object())
            && !["info", "capabilities"].iter().any(|key| params[key].is_object());
        self.is_v1 = params["protocolVersion"].as_u64().unwrap_or(1) < 2 || is_of_v1;
        let info = json!({"name": "switchboard-conform", "version": env!("CARGO_PKG_VERSION")});
        if self.is_v1 {
            let capabilities = match self.fault {
                Fault::Replay => {
                    json!({"loadSession": true, "sessionCapabilities": {"list": {}, "resume": {}}})
                }
                _ => json!({}),
            };
            json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info, "authMethods": []})
        } else {
            json!({"protocolVersion": 2, "capabilities": {"session": {}}, "info": info})
        }
    }

    /// Returns the sessions that existed before the client connected.
    fn old_sessions(&self) -> Value {
        match std::env::current_dir() {
            Ok(folder) if self.fault == Fault::Replay => {
                json!([{"sessionId": "conform-old", "cwd": folder, "title": "Said before"}])
            }
            _ => json!([]),
        }
    }

    async fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), ClientDisconnected> {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        self.prompts += 1;
        if !self.is_v1 {
            let received = user_message(self.prompts, &params["prompt"]);
            self.state(&session, json!({"state": "running"})).await?;
            self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"messageId": received["messageId"]}}))
                .await?;
            self.update(&session, received).await?;
        }
        let first = format!("{} ", SHOWN[0]);
        self.say(&session, &first).await?;
        self.run_fault(&session, &params["prompt"]).await?;
        let outcome = self.ask(&session, "Are you there?").await?;
        let received = if outcome.is_some() { SURVIVED } else { NOT_SURVIVED };
        self.note(received);
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
        self.note(OVER);
        Ok(())
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
            update["messageId"] = json!(message_id(self.prompts));
        }
        update
    }

    async fn say(&mut self, session: &str, words: &str) -> Result<(), ClientDisconnected> {
        let update = self.chunk(&json!({"type": "text", "text": words}));
        self.update(session, update).await
    }

    async fn state(&mut self, session: &str, fields: Value) -> Result<(), ClientDisconnected> {
        let mut update = fields;
        update["sessionUpdate"] = json!("state_update");
        self.update(session, update).await
    }

    fn update_message(&self, session: &str, update: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
    }

    async fn update(&mut self, session: &str, update: Value) -> Result<(), ClientDisconnected> {
        let message = self.update_message(session, &update);
        self.send(&message).await
    }

    fn next(&mut self) -> Value {
        self.next_id += 1;
        Value::from(self.next_id)
    }

    /// Sends a question and returns its id.
    async fn put(&mut self, session: &str, title: &str) -> Result<Value, ClientDisconnected> {
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

    async fn ask(&mut self, session: &str, title: &str) -> Result<Option<Value>, ClientDisconnected> {
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

    /// Waits for the answer to a question; `None` after the timeout.
    async fn answer(&mut self, id: &Value) -> Result<Option<Value>, ClientDisconnected> {
        let is_answer = |message: &Value| message.get("method").is_none() && message["id"] == *id;
        if let Some(place) = self.waiting.iter().position(is_answer) {
            return Ok(Some(self.waiting.remove(place)));
        }
        let deadline = Instant::now() + self.patience;
        loop {
            let message = match self.read(Some(deadline)).await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(None),
                Err(ClientDisconnected) => {
                    self.note(NOT_SURVIVED);
                    return Err(ClientDisconnected);
                }
            };
            if is_answer(&message) {
                return Ok(Some(message));
            }
            self.waiting.push(message);
        }
    }

    /// Reads the next message; `None` after the deadline.
    async fn read(&mut self, deadline: Option<Instant>) -> Result<Option<Value>, ClientDisconnected> {
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
                Ok(None) | Err(_) => return Err(ClientDisconnected),
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

    async fn send(&mut self, message: &Value) -> Result<(), ClientDisconnected> {
        let text = message.to_string();
        self.log_sent(&text);
        self.write(format!("{text}\n").as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnected> {
        self.output.write_all(bytes).await.map_err(|_| ClientDisconnected)?;
        self.output.flush().await.map_err(|_| ClientDisconnected)
    }
}

/// Returns the update for a prompt: the first has number 1, the one of the earlier session 0.
fn user_message(number: u64, content: &Value) -> Value {
    json!({"sessionUpdate": "user_message", "messageId": format!("user-{number}"), "content": content})
}

/// Returns the id of the agent's message for a prompt.
fn message_id(number: u64) -> String {
    format!("agent-{number}")
}
