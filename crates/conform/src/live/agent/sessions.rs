//! Scenarios about sessions: opening, listing, resuming, closing, deleting and options.

use serde_json::{Value, json};
use switchboard_acp::Version;

use super::super::peer::{Answer, Peer, Trouble};
use super::{QUIET, ScenarioContext, text};
use crate::rules::RuleId;

impl ScenarioContext<'_> {
    pub(super) async fn sessions(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        if self.session(peer, json!({})).await?.is_none() {
            return Ok(());
        }
        self.session(peer, json!({})).await?;
        let at = if self.is_v1() {
            "/sessionCapabilities/additionalDirectories"
        } else {
            "/session/additionalDirectories"
        };
        if capabilities.pointer(at).is_some_and(Value::is_object) {
            self.session(peer, json!({"additionalDirectories": [std::env::temp_dir()]})).await?;
        }
        let prompt = json!({"sessionId": "no-such-session", "prompt": text("hello")});
        let received = match peer.call("session/prompt", prompt).await? {
            Answer::Result(_) => "it is taken".to_owned(),
            Answer::Error { code, message } => format!("refused with {code}: {message}"),
        };
        self.findings.broken(RuleId::UnknownSession, peer.number, received);
        Ok(())
    }

    pub(super) async fn close(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        if self.is_v1() && !capabilities["sessionCapabilities"]["close"].is_object() {
            return Ok(());
        }
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let answer = peer.call("session/close", json!({"sessionId": session})).await;
        self.works(peer, RuleId::CloseWorks, "session/close", answer)?;
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let Some(prompt) = self.begin_work(peer, &session).await? else { return Ok(()) };
        let id = Value::from(peer.next_id());
        peer.request(&id, "session/close", json!({"sessionId": session})).await?;
        peer.release_questions(true).await?;
        let mut left = vec![id.clone()];
        if self.is_v1() {
            left.push(prompt);
        }
        while !left.is_empty() {
            let answer =
                peer.until(|message| message.get("method").is_none() && left.contains(&message["id"]));
            match answer.await {
                Ok(message) => left.retain(|id| *id != message["id"]),
                Err(trouble) => {
                    let is_close = left.contains(&id);
                    let rule = if is_close { RuleId::CloseWorks } else { RuleId::CloseCancelsV1 };
                    let reason = format!("session/close during work: {}", trouble.as_str());
                    self.findings.broken(rule, peer.number, reason);
                    return Err(trouble);
                }
            }
        }
        peer.listen(QUIET).await;
        Ok(())
    }

    pub(super) async fn history(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        self.turn(peer, &session, text(&self.options.prompt), json!({})).await?;
        peer.listen(QUIET).await;
        let params = json!({"sessionId": session, "cwd": self.options.folder});
        let with = |key: &str, value: Value| {
            let mut params = params.clone();
            params[key] = value;
            params
        };
        if self.is_v1() {
            if capabilities["loadSession"] == true {
                let answer = peer.call("session/load", with("mcpServers", json!([]))).await;
                self.works(peer, RuleId::LoadWorks, "session/load", answer)?;
                peer.listen(QUIET).await;
            }
            if capabilities["sessionCapabilities"]["resume"].is_object() {
                let answer = peer.call("session/resume", params).await;
                self.works(peer, RuleId::ResumeWorksV1, "session/resume", answer)?;
            }
        } else {
            for params in [with("replayFrom", json!({"type": "start"})), params.clone()] {
                let answer = peer.call("session/resume", params).await;
                self.works(peer, RuleId::ResumeWorksV2, "session/resume", answer)?;
                peer.listen(QUIET).await;
            }
        }
        Ok(())
    }

    pub(super) async fn lists(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        let has = |key: &str| {
            if self.version == Version::V1 {
                capabilities["sessionCapabilities"][key].is_object()
            } else {
                key == "list" || capabilities["session"][key].is_object()
            }
        };
        let (lists, deletes) = (has("list"), has("delete"));
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        if lists {
            let answer = peer.call("session/list", json!({})).await;
            self.works(peer, RuleId::ListArray, "session/list", answer)?;
            let unused = json!({"cwd": "/switchboard-conform/nobody-works-here"});
            let answer = peer.call("session/list", unused).await;
            let answer = self.works(peer, RuleId::ListArray, "session/list", answer)?;
            if let Some(sessions) = answer.result().and_then(|result| result["sessions"].as_array()) {
                self.findings.check(RuleId::ListMatches, peer.number, sessions.is_empty(), || {
                    format!("{} sessions in an unused folder", sessions.len())
                });
            }
        }
        if deletes {
            for is_again in [false, true] {
                let answer = peer.call("session/delete", json!({"sessionId": session})).await;
                let rule = if is_again { RuleId::DeleteAgain } else { RuleId::DeleteWorks };
                self.works(peer, rule, "session/delete", answer)?;
            }
            if lists {
                peer.call("session/list", json!({})).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn settings(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some((session, opened)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let modes = &opened["modes"];
        let other_mode = modes["availableModes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|mode| mode["id"].as_str())
            .find(|mode| modes["currentModeId"] != *mode);
        if let Some(mode) = other_mode.filter(|_| self.is_v1()) {
            let answer = peer.call("session/set_mode", json!({"sessionId": session, "modeId": mode})).await;
            self.works(peer, RuleId::ModesCurrent, "session/set_mode", answer)?;
        }
        let key = if self.is_v1() { "id" } else { "configId" };
        for option in opened["configOptions"].as_array().into_iter().flatten().take(3) {
            let values = option["options"].as_array().into_iter().flatten();
            let other = values
                .filter_map(|value| value["value"].as_str())
                .find(|value| option["currentValue"] != *value);
            if let (Some(value), "select") = (other, option["type"].as_str().unwrap_or_default()) {
                let mut params = json!({"sessionId": session, "configId": option[key], "value": value});
                if !self.is_v1() {
                    params["type"] = json!("id");
                }
                let answer = peer.call("session/set_config_option", params).await;
                self.waited(peer, RuleId::ConfigComplete, "session/set_config_option", answer)?;
            }
        }
        Ok(())
    }
}
