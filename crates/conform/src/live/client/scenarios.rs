//! Scenarios for clients.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::extensions::probes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::{
    ALL_ANSWERED, Agent, BEFORE, ClientDisconnected, NOT_ALL_ANSWERED, REPLACED, SHOWN, message_id,
    user_message,
};

/// Output of a large tool call in megabytes.
const PIECES: usize = 100;

/// Behaviour of an agent toward a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientScenario {
    /// Name for people.
    pub name: &'static str,
    /// Name on the command line.
    pub id: &'static str,
    pub(super) fault: Fault,
}

impl ClientScenario {
    /// Returns whether history is replayed, which a client must show once.
    pub(in super::super) fn replays(&self) -> bool {
        self.fault == Fault::Replay
    }

    /// Returns whether the agent breaks the protocol, so that a client need not survive it.
    pub(in super::super) fn breaks_protocol(&self, is_v1: bool) -> bool {
        match self.fault {
            Fault::Noise | Fault::Malformed => true,
            // Only version 2 allows unknown values.
            Fault::UnknownKinds => is_v1,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
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
    Replay,
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
    ClientScenario { name: "a cancelled question", id: "withdrawn", fault: Fault::Withdrawn },
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
    ClientScenario { name: "a replayed history", id: "replay", fault: Fault::Replay },
];

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, L: FnMut(&str)> Agent<R, W, L> {
    /// Runs the special part of the scenario.
    pub(super) async fn run_fault(
        &mut self,
        session: &str,
        prompt: &Value,
    ) -> Result<(), ClientDisconnected> {
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
                self.update(session, json!({"sessionUpdate": probes::UPDATE, "rain": true})).await?;
                self.update(session, json!({"sessionUpdate": "weather_update", "sun": [1, 2]})).await?;
                let content = json!([{"type": probes::TOOL_CONTENT, "depth": 3}]);
                let call = json!({"title": "Odd", "kind": probes::TOOL_KIND, "status": "pending", "content": content});
                self.update(session, self.tool_call("odd", call)).await?;
                let block = json!({"type": probes::CONTENT_BLOCK, "data": "x"});
                self.update(session, self.chunk(&block)).await?;
            }
            Fault::UnknownFields => {
                let mut call = self.tool_call("more", json!({"title": "More", "status": "pending"}));
                call["colour"] = json!("green");
                call["_meta"] = json!({probes::KEY.name(): {"deep": [[[]]]}});
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
                    json!({"jsonrpc": "2.0", "id": id, "method": probes::AGENT_REQUEST, "params": {}});
                self.send(&request).await?;
                self.send(&json!({"jsonrpc": "2.0", "method": probes::NOTIFICATION, "params": {}})).await?;
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
            // Only ids distinguish a replay from new messages.
            Fault::Replay if self.is_v1 => {}
            Fault::Replay => self.replay(session, self.prompts, prompt, SHOWN[0]).await?,
        }
        Ok(())
    }

    async fn large(&mut self, session: &str) -> Result<(), ClientDisconnected> {
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
        // Not recorded: a hundred equal megabytes say nothing about the client.
        let text = format!("{}\n", self.update_message(session, &update));
        for piece in 1..=PIECES {
            self.write(text.as_bytes()).await?;
            if piece % 10 == 0 {
                self.note(&format!("conform: {piece} MB"));
            }
        }
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "large", "status": "completed"});
        self.update(session, done).await
    }

    /// Replays the history of the earlier session.
    pub(super) async fn replay_before(&mut self, session: &str) -> Result<(), ClientDisconnected> {
        let prompt = json!([{"type": "text", "text": "What was it?"}]);
        if !self.is_v1 {
            return self.replay(session, 0, &prompt, BEFORE).await;
        }
        for (kind, block) in [
            ("user_message_chunk", &prompt[0]),
            ("agent_message_chunk", &json!({"type": "text", "text": BEFORE})),
        ] {
            self.update(session, json!({"sessionUpdate": kind, "content": block})).await?;
        }
        Ok(())
    }

    /// Replays a prompt and the text of its response. An empty message comes first, so that a client shows
    /// them once.
    async fn replay(
        &mut self,
        session: &str,
        number: u64,
        prompt: &Value,
        words: &str,
    ) -> Result<(), ClientDisconnected> {
        let id = message_id(number);
        self.update(session, user_message(number, prompt)).await?;
        self.update(session, json!({"sessionUpdate": "agent_message", "messageId": id, "content": []}))
            .await?;
        let content = json!({"type": "text", "text": format!("{words} ")});
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content});
        self.update(session, chunk).await
    }
}
