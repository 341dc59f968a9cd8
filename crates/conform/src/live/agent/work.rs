//! Scenarios about prompts and cancellation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_acp::extensions::probes;

use super::super::peer::{Answer, Peer, Trouble};
use super::{QUIET, ScenarioContext, text};
use crate::rules::RuleId;

impl ScenarioContext<'_> {
    /// Sends a prompt and waits for the end of the turn. Returns the response.
    pub(super) async fn turn(
        &mut self,
        peer: &mut Peer,
        session: &str,
        prompt: Value,
        more: Value,
    ) -> Result<Answer, Trouble> {
        let mut params = json!({"sessionId": session, "prompt": prompt});
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        let id = Value::from(peer.next_id());
        peer.request(&id, "session/prompt", params).await?;
        self.turn_end(peer, session, &id).await
    }

    /// Waits for the end of a prompt's turn.
    pub(super) async fn turn_end(
        &mut self,
        peer: &mut Peer,
        session: &str,
        id: &Value,
    ) -> Result<Answer, Trouble> {
        if self.is_v1() {
            let answer = peer.answer(id).await;
            return self.waited(peer, RuleId::StopReasonV1, "session/prompt", answer);
        }
        // The response and the end of the work may arrive in either order.
        let (mut answer, mut is_over, mut has_run) = (None, false, false);
        while answer.is_none() || !is_over {
            let wanted = |message: &Value| {
                has_run |= is_state(message, session, "running");
                (message.get("method").is_none() && message["id"] == *id)
                    || is_end(message, session)
                    || (has_run && is_state(message, session, "idle"))
            };
            match peer.until(wanted).await {
                Ok(message) if message.get("method").is_some() => is_over = true,
                Ok(message) => match Answer::of(&message) {
                    Answer::Result(result) => answer = Some(result),
                    error @ Answer::Error { .. } => return Ok(error),
                },
                Err(trouble) => {
                    let (rule, what) = match answer {
                        None => (RuleId::PromptMessageId, "session/prompt was not answered"),
                        Some(_) => (RuleId::ReachesIdle, "the work did not end with idle"),
                    };
                    self.findings.broken(rule, peer.number, format!("{what}: {}", trouble.as_str()));
                    return Err(trouble);
                }
            }
        }
        Ok(Answer::Result(answer.unwrap_or_default()))
    }

    pub(super) async fn prompt(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        for _ in 0..2 {
            self.turn(peer, &session, text(&self.options.prompt), json!({})).await?;
        }
        peer.listen(QUIET).await;
        Ok(())
    }

    pub(super) async fn content(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        let base = if self.is_v1() { "/promptCapabilities" } else { "/session/prompt" };
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let words = || json!({"type": "text", "text": self.options.prompt});
        let link = json!({"type": "resource_link", "name": "notes", "uri": "file:///notes.txt"});
        let mut prompts = vec![
            (json!([words(), link]), json!({})),
            (json!([words()]), json!({"_meta": {probes::KEY.name(): 1}})),
        ];
        let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let extras = [
            ("image", json!({"type": "image", "data": pixel, "mimeType": "image/png"})),
            (
                "audio",
                json!({"type": "audio", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=", "mimeType": "audio/wav"}),
            ),
            (
                "embeddedContext",
                json!({"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "notes", "mimeType": "text/plain"}}),
            ),
        ];
        for (key, block) in extras {
            let is_advertised = capabilities
                .pointer(&format!("{base}/{key}"))
                .is_some_and(|value| value.is_object() || *value == Value::Bool(true));
            if is_advertised {
                prompts.push((json!([words(), block]), json!({})));
            }
        }
        for (prompt, more) in prompts {
            self.turn(peer, &session, prompt, more).await?;
        }
        Ok(())
    }

    /// Starts work that takes a while; `None` if it ends too early.
    pub(super) async fn begin_work(
        &mut self,
        peer: &mut Peer,
        session: &str,
    ) -> Result<Option<Value>, Trouble> {
        let id = Value::from(peer.next_id());
        peer.hold_questions();
        let params = json!({"sessionId": session, "prompt": text(&self.options.cancel_prompt)});
        peer.request(&id, "session/prompt", params).await?;
        let is_v1 = self.is_v1();
        let begun = |message: &Value| {
            let update = &message["params"]["update"];
            let is_work = message["params"]["sessionId"] == *session
                && (if is_v1 {
                    matches!(
                        update["sessionUpdate"].as_str(),
                        Some("agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "plan")
                    )
                } else {
                    update["state"] == "running"
                });
            is_work
                || (message.get("method").is_none()
                    && message["id"] == id
                    && (is_v1 || message.get("error").is_some()))
        };
        match peer.until_within(self.options.patience.min(Duration::from_secs(5)), begun).await {
            Ok(message) if message.get("method").is_none() => {
                peer.release_questions(false).await?;
                return Ok(None);
            }
            Ok(_) | Err(Trouble::Timeout) => {}
            Err(Trouble::Ended) => return Err(Trouble::Ended),
        }
        // Work that ends at once may be over before the cancellation arrives, which is not a fault.
        let is_over = |message: &Value| {
            (is_v1 && message.get("method").is_none() && message["id"] == id)
                || is_state(message, session, "idle")
        };
        match peer.until_within(QUIET, is_over).await {
            Ok(_) => {
                peer.release_questions(false).await?;
                Ok(None)
            }
            Err(Trouble::Timeout) => Ok(Some(id)),
            Err(Trouble::Ended) => Err(Trouble::Ended),
        }
    }

    pub(super) async fn cancel(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let Some(id) = self.begin_work(peer, &session).await? else { return Ok(()) };
        peer.notify("session/cancel", json!({"sessionId": session})).await?;
        peer.release_questions(true).await?;
        let began = Instant::now();
        let rule = if self.is_v1() { RuleId::CancelV1 } else { RuleId::CancelV2 };
        let outcome = if self.is_v1() {
            peer.answer(&id).await.map(drop)
        } else {
            peer.until(|message| is_state(message, &session, "idle")).await.map(drop)
        };
        match outcome {
            Ok(()) => {
                let reason = format!("{} ms", began.elapsed().as_millis());
                self.findings.broken(RuleId::CancelLatency, peer.number, reason);
            }
            Err(trouble) => {
                let reason = format!("the work was cancelled, and did not end: {}", trouble.as_str());
                self.findings.broken(rule, peer.number, reason);
                return Err(trouble);
            }
        }
        peer.listen(QUIET).await;
        Ok(())
    }
}

/// Returns whether a message ends the work of a session.
fn is_end(message: &Value, session: &str) -> bool {
    is_state(message, session, "idle") && message["params"]["update"]["stopReason"].is_string()
}

/// Returns whether a message reports a state of a session.
fn is_state(message: &Value, session: &str, state: &str) -> bool {
    message["method"] == "session/update"
        && message["params"]["sessionId"] == *session
        && message["params"]["update"]["state"] == *state
}
