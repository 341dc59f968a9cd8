//! A live peer and the messages exchanged with it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::Side;
use switchboard_transport::{Child, Frame, LineReader, NoiseKind, Program};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::evaluator::Evaluator;

/// Maximum length of a message in bytes: the largest that scenarios request, and some more.
const LONGEST_MESSAGE: usize = 256 * 1024 * 1024;
/// Bytes of a message kept for the transcript.
const LONGEST_KEPT: usize = 4000;

/// Starts a fresh peer.
pub trait Launch {
    /// Starts the peer. Fails with the reason.
    fn launch(&self) -> Result<Started, String>;
}

impl Launch for Program {
    fn launch(&self) -> Result<Started, String> {
        let spawned = self.spawn().map_err(|error| error.to_string())?;
        Ok(Started {
            input: Box::new(spawned.input),
            output: Box::new(spawned.output),
            process: Some(spawned.child),
        })
    }
}

/// A started peer.
pub struct Started {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Its process, if it is one.
    pub process: Option<Child>,
}

/// A response.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Result(Value),
    Error { code: i64, message: String },
}

impl Answer {
    /// Parses a response.
    pub(super) fn of(response: &Value) -> Self {
        match response.get("error") {
            Some(error) => Answer::Error {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
            },
            None => Answer::Result(response["result"].clone()),
        }
    }

    pub(super) fn result(&self) -> Option<&Value> {
        match self {
            Answer::Result(value) => Some(value),
            Answer::Error { .. } => None,
        }
    }
}

/// Reason for a missing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Timeout,
    Ended,
}

impl Trouble {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Trouble::Timeout => "timeout",
            Trouble::Ended => "the agent ended",
        }
    }
}

/// A live agent, with the evaluator as client.
pub(super) struct Peer {
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    output: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) process: Option<Child>,
    pub(super) evaluator: Evaluator,
    /// Number of the latest message.
    pub(super) number: u64,
    pub(super) transcript: BTreeMap<u64, String>,
    next_id: i64,
    patience: Duration,
    /// Set if questions are held, because the work will be cancelled.
    holds_questions: bool,
    held: Vec<Value>,
    /// Set if questions are answered with `cancelled`, because the work was.
    is_cancelling: bool,
}

impl Peer {
    pub(super) fn start(launch: &dyn Launch, number: u64, patience: Duration) -> Result<Self, String> {
        let Started { input, output, process } = launch.launch()?;
        Ok(Peer {
            input: Some(input),
            output: LineReader::new(output, LONGEST_MESSAGE),
            process,
            evaluator: Evaluator::new(Some(Side::Agent)),
            number,
            transcript: BTreeMap::new(),
            next_id: 0,
            patience,
            holds_questions: false,
            held: Vec::new(),
            is_cancelling: false,
        })
    }

    pub(super) fn next_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    fn keep(&mut self, side: Side, text: &str) {
        let arrow = match side {
            Side::Client => "client->agent",
            Side::Agent => "agent->client",
        };
        let shown: String = text.chars().take(LONGEST_KEPT).collect();
        self.transcript.insert(self.number, format!("{arrow} {shown}"));
    }

    /// Writes bytes that are not recorded as a message.
    pub(super) async fn write_raw(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let Some(input) = &mut self.input else { return Err(Trouble::Ended) };
        let deadline = Instant::now() + self.patience;
        match timeout_at(deadline, input.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Trouble::Ended),
            Err(_) => Err(Trouble::Timeout),
        }
    }

    /// Records a message without writing it.
    pub(super) fn note(&mut self, text: &str) {
        self.number += 1;
        self.keep(Side::Client, text);
        self.evaluator.message(self.number, Side::Client, text);
    }

    pub(super) async fn send(&mut self, message: &Value) -> Result<(), Trouble> {
        let mut text = message.to_string();
        self.note(&text);
        text.push('\n');
        self.write_raw(text.as_bytes()).await
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) -> Result<(), Trouble> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Sends a request and waits for the response.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Answer, Trouble> {
        let id = Value::from(self.next_id());
        self.call_as(&id, method, params).await
    }

    pub(super) async fn call_as(
        &mut self,
        id: &Value,
        method: &str,
        params: Value,
    ) -> Result<Answer, Trouble> {
        self.request(id, method, params).await?;
        self.answer(id).await
    }

    /// Sends a request without waiting.
    pub(super) async fn request(&mut self, id: &Value, method: &str, params: Value) -> Result<(), Trouble> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Waits for the response to a request.
    pub(super) async fn answer(&mut self, id: &Value) -> Result<Answer, Trouble> {
        let message = self.until(|message| message.get("method").is_none() && message["id"] == *id).await?;
        Ok(Answer::of(&message))
    }

    /// Waits for a matching message. Questions are answered meanwhile.
    pub(super) async fn until(&mut self, wanted: impl FnMut(&Value) -> bool) -> Result<Value, Trouble> {
        self.until_within(self.patience, wanted).await
    }

    pub(super) async fn until_within(
        &mut self,
        patience: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value, Trouble> {
        let deadline = Instant::now() + patience;
        loop {
            let message = self.read(deadline).await?;
            let Some(message) = message else { continue };
            let is_wanted = wanted(&message);
            if message.get("method").is_some() && message.get("id").is_some() {
                if self.holds_questions {
                    self.held.push(message.clone());
                } else {
                    self.reply(&message).await?;
                }
            }
            if is_wanted {
                return Ok(message);
            }
        }
    }

    /// Waits for a while for messages that must not arrive.
    pub(super) async fn listen(&mut self, time: Duration) {
        // A timeout is the expected result.
        let _ = self.until_within(time, |_| false).await;
    }

    async fn read(&mut self, deadline: Instant) -> Result<Option<Value>, Trouble> {
        let frame = match timeout_at(deadline, self.output.next()).await {
            Err(_) => return Err(Trouble::Timeout),
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None) | Err(_)) => return Err(Trouble::Ended),
        };
        match frame {
            Frame::Message(text) => {
                self.number += 1;
                self.keep(Side::Agent, &text);
                self.evaluator.message(self.number, Side::Agent, &text);
                Ok(serde_json::from_str(&text).ok())
            }
            Frame::Noise(noise) if noise.kind == NoiseKind::Blank => Ok(None),
            Frame::Noise(noise) => {
                self.number += 1;
                self.keep(Side::Agent, &noise.excerpt);
                self.evaluator.noise(self.number, Side::Agent, &noise.excerpt);
                Ok(None)
            }
            Frame::TooLong(_) => {
                self.evaluator.gap();
                Ok(None)
            }
            // An incomplete line of an agent that has exited.
            Frame::Unfinished(_) => Ok(None),
        }
    }

    /// Answers a question of the agent: allows everything and offers nothing.
    async fn reply(&mut self, request: &Value) -> Result<(), Trouble> {
        let id = &request["id"];
        let message = match request["method"].as_str() {
            Some("session/request_permission") if self.is_cancelling => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
            }
            Some("session/request_permission") => {
                let options = request["params"]["options"].as_array().map(Vec::as_slice).unwrap_or_default();
                let allows =
                    |option: &&Value| option["kind"].as_str().is_some_and(|kind| kind.starts_with("allow"));
                let chosen = options.iter().find(allows).or_else(|| options.first());
                let outcome = match chosen.and_then(|option| option["optionId"].as_str()) {
                    Some(chosen) => json!({"outcome": "selected", "optionId": chosen}),
                    None => json!({"outcome": "cancelled"}),
                };
                json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})
            }
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
            }
        };
        self.send(&message).await
    }

    /// Holds questions from now on.
    pub(super) fn hold_questions(&mut self) {
        self.holds_questions = true;
    }

    /// Answers held and later questions. `cancelled`: as after a cancellation.
    pub(super) async fn release_questions(&mut self, cancelled: bool) -> Result<(), Trouble> {
        (self.holds_questions, self.is_cancelling) = (false, cancelled);
        for question in std::mem::take(&mut self.held) {
            self.reply(&question).await?;
        }
        Ok(())
    }

    /// Closes the agent's standard input.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends the agent and returns the findings.
    pub(super) async fn end(mut self) -> (Evaluator, u64, BTreeMap<u64, String>) {
        self.close_input();
        if let Some(process) = &self.process {
            process.shut_down().await;
        }
        (self.evaluator, self.number, self.transcript)
    }
}
