//! Scenarios without a session: versions, ids, lines and methods.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::extensions::probes;

use super::super::peer::{Peer, Trouble};
use super::{ScenarioContext, introduction};
use crate::rules::RuleId;

impl ScenarioContext<'_> {
    pub(super) async fn handshake(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some(process) = peer.process.clone() else { return Ok(()) };
        peer.close_input();
        let is_gone = tokio::time::timeout(Duration::from_secs(3), process.wait()).await.is_ok();
        self.findings.check(RuleId::Shutdown, peer.number, is_gone, || {
            "it still runs 3 seconds after its input was closed".to_owned()
        });
        let lines = process.last_lines(3);
        if !lines.is_empty() {
            self.findings.broken(
                RuleId::StandardError,
                peer.number,
                format!("it writes: {}", lines.join("; ")),
            );
        }
        Ok(())
    }

    pub(super) async fn future_version(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let answer = peer.call("initialize", introduction(u16::MAX, true)).await;
        let answer = self.waited(peer, RuleId::InitAnswer, "initialize with version 65535", answer)?;
        self.highest = answer.result().and_then(|result| result["protocolVersion"].as_u64());
        Ok(())
    }

    pub(super) async fn first_version(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let answer = peer.call("initialize", introduction(1, true)).await;
        let answer = self.waited(peer, RuleId::InitAnswer, "initialize with version 1", answer)?;
        let lowest = answer.result().and_then(|result| result["protocolVersion"].as_u64());
        if let (Some(lowest), Some(highest)) = (lowest, self.highest) {
            self.findings.check(RuleId::InitEcho, peer.number, highest >= lowest, || {
                format!("asked for 65535 it answers {highest}, asked for 1 it answers {lowest}")
            });
        }
        Ok(())
    }

    pub(super) async fn identifiers(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize_as(peer, &json!("first")).await?;
        let method = probes::METHOD;
        let answer = peer.call_as(&json!("a-1"), method, json!({})).await;
        self.waited(peer, RuleId::IdEcho, "a request with the id \"a-1\"", answer)?;
        let answer = peer.call_as(&json!(9_007_199_254_740_000_i64), method, json!({})).await;
        self.waited(peer, RuleId::IdEcho, "a request with a large number as id", answer)?;
        Ok(())
    }

    pub(super) async fn pieces(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let id = json!(1);
        let first = json!({"jsonrpc": "2.0", "id": id, "method": "initialize",
            "params": introduction(self.version.number(), false)});
        let text = format!("{first}\n");
        let (before, after) = text.as_bytes().split_at(text.len() / 2);
        peer.note(text.trim_end());
        peer.write_raw(before).await?;
        peer.listen(Duration::from_millis(50)).await;
        peer.write_raw(after).await?;
        let answer = peer.answer(&id).await;
        self.waited(peer, RuleId::InitAnswer, "initialize in two pieces", answer)?;
        let two: Vec<_> = [2, 3]
            .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": probes::METHOD, "params": {}}).to_string())
            .into();
        two.iter().for_each(|text| peer.note(text));
        peer.write_raw(format!("{}\n", two.join("\n")).as_bytes()).await?;
        let mut left = vec![2_i64, 3];
        while !left.is_empty() {
            let answer = peer.until(|message| {
                message.get("method").is_none() && message["id"].as_i64().is_some_and(|id| left.contains(&id))
            });
            match answer.await {
                Ok(message) => left.retain(|id| message["id"] != *id),
                Err(trouble) => {
                    let reason = format!("two requests at once were not both answered: {}", trouble.as_str());
                    self.findings.broken(RuleId::Answered, peer.number, reason);
                    return Err(trouble);
                }
            }
        }
        self.findings.kept(RuleId::Answered);
        Ok(())
    }

    pub(super) async fn unknown_methods(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        for method in [probes::METHOD, probes::OTHER_METHOD] {
            let answer = peer.call(method, json!({"a": 1})).await;
            self.waited(peer, RuleId::Answered, method, answer)?;
        }
        let answer = peer.call(probes::METHOD, json!({})).await;
        self.findings.check(RuleId::AliveAfterError, peer.number, answer.is_ok(), || {
            "after an unknown method nothing was answered any more".to_owned()
        });
        Ok(())
    }

    pub(super) async fn notifications(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        peer.notify(probes::NOTIFICATION, json!({"a": [1, 2]})).await?;
        peer.notify("$/switchboard", json!({})).await?;
        let answer = peer.call(probes::METHOD, json!({})).await;
        self.findings.check(RuleId::IgnoresNotification, peer.number, answer.is_ok(), || {
            "after an unknown notification nothing was answered any more".to_owned()
        });
        Ok(())
    }

    pub(super) async fn unreadable(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let is_error = |message: &Value| message.get("method").is_none() && message["id"].is_null();
        for (rule, text) in
            [(RuleId::ParseError, "{no json\n"), (RuleId::InvalidRequest, "{\"jsonrpc\":\"2.0\"}\n")]
        {
            peer.write_raw(text.as_bytes()).await?;
            let answer = peer.until_within(Duration::from_secs(1), is_error).await;
            let received = match &answer {
                Ok(message) => format!("answered with {}", message["error"]),
                Err(Trouble::Timeout) => "not answered".to_owned(),
                Err(Trouble::Ended) => "it ended".to_owned(),
            };
            self.findings.broken(rule, peer.number, received);
            if answer == Err(Trouble::Ended) {
                return Err(Trouble::Ended);
            }
        }
        peer.note("[]");
        peer.write_raw(b"[]\n").await?;
        if let Err(trouble) = peer.until_within(Duration::from_secs(2), is_error).await
            && !self.is_v1()
        {
            let reason = format!("an empty array was not refused: {}", trouble.as_str());
            self.findings.broken(RuleId::BatchRefused, peer.number, reason);
        }
        Ok(())
    }
}
