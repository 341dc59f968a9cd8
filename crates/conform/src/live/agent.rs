//! Scenarios for agents: we are the client.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_protocol::detect::Handshake;
use switchboard_protocol::{Raw, Side, Version};

use super::peer::{Answer, Launch, Peer, Trouble};
use crate::report::{Findings, Report};
use crate::rules::RuleId;

const LOGIN_REQUIRED: i64 = -32000;
/// How long is listened for what should not come.
const QUIET: Duration = Duration::from_millis(300);

/// What an agent is asked.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The version to speak; the newest that the agent has when missing.
    pub version: Option<Version>,
    /// The folder of the sessions.
    pub folder: PathBuf,
    /// What it is prompted.
    pub prompt: String,
    /// What it is prompted where the work is to be cancelled.
    pub cancel_prompt: String,
    /// How long each answer may take.
    pub patience: Duration,
    /// The login to use.
    pub login: Option<String>,
}

/// A scenario: a fresh process, and what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Handshake,
    FutureVersion,
    FirstVersion,
    Identifiers,
    Pieces,
    UnknownMethods,
    Notifications,
    Unreadable,
    Sessions,
    Prompt,
    Content,
    Cancel,
    Close,
    History,
    Lists,
    Settings,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "initialize, and exit when the input closes", kind: Kind::Handshake },
    Scenario { name: "a version of the future", kind: Kind::FutureVersion },
    Scenario { name: "version 1", kind: Kind::FirstVersion },
    Scenario { name: "ids that are strings", kind: Kind::Identifiers },
    Scenario { name: "messages in pieces, and two at once", kind: Kind::Pieces },
    Scenario { name: "methods that are not known", kind: Kind::UnknownMethods },
    Scenario { name: "notifications that are not known", kind: Kind::Notifications },
    Scenario { name: "what is no message", kind: Kind::Unreadable },
    Scenario { name: "sessions", kind: Kind::Sessions },
    Scenario { name: "a prompt", kind: Kind::Prompt },
    Scenario { name: "content of prompts", kind: Kind::Content },
    Scenario { name: "work that is cancelled", kind: Kind::Cancel },
    Scenario { name: "work whose session is closed", kind: Kind::Close },
    Scenario { name: "histories", kind: Kind::History },
    Scenario { name: "lists, and sessions that are deleted", kind: Kind::Lists },
    Scenario { name: "modes and options", kind: Kind::Settings },
];

/// Judges an agent. `tell` is called before each scenario, with its number and how many there are.
///
/// Also gives what was said, by message number.
pub async fn judge_agent(
    launch: &dyn Launch,
    subject: &str,
    options: &AgentOptions,
    mut tell: impl FnMut(&Scenario, usize, usize),
) -> (Report, BTreeMap<u64, String>) {
    let mut run = Run {
        launch,
        options,
        version: Version::V1,
        findings: Findings::new(Some(Side::Agent)),
        transcript: BTreeMap::new(),
        number: 0,
        highest: None,
    };
    if let Err(reason) = run.find_version().await {
        run.findings.block(reason);
        return (run.findings.report(subject), run.transcript);
    }
    for (place, scenario) in SCENARIOS.iter().enumerate() {
        tell(scenario, place + 1, SCENARIOS.len());
        let Ok(mut peer) = Peer::start(launch, run.number, options.patience) else {
            run.findings.block("the agent could not be started again");
            break;
        };
        run.play(scenario.kind, &mut peer).await;
        run.take(peer).await;
    }
    let Run { mut findings, transcript, version, .. } = run;
    // It was asked for other versions too, and is judged in the one that it was to speak.
    findings.versions = [version.number()].into();
    (findings.report(subject), transcript)
}

/// What scenarios share.
struct Run<'a> {
    launch: &'a dyn Launch,
    options: &'a AgentOptions,
    version: Version,
    findings: Findings,
    transcript: BTreeMap<u64, String>,
    number: u64,
    /// The number that was answered when a version of the future was asked for.
    highest: Option<u64>,
}

impl Run<'_> {
    fn is_v1(&self) -> bool {
        self.version == Version::V1
    }

    async fn take(&mut self, peer: Peer) {
        let (evaluator, number, transcript) = peer.end().await;
        let mut findings = evaluator.finish();
        // A login that is missing in one scenario says nothing about the others.
        if let Some(reason) = findings.blocked.take().filter(|reason| reason.contains("login")) {
            self.findings.block(reason);
        }
        self.findings.merge(findings);
        self.number = number;
        self.transcript.extend(transcript);
    }

    /// Which version the agent speaks. An error says that it cannot be judged, and why.
    async fn find_version(&mut self) -> Result<(), String> {
        let mut peer = Peer::start(self.launch, 0, self.options.patience)?;
        let asked = self.options.version.map_or(2, Version::number);
        let answer = peer.call("initialize", introduction(asked, true)).await;
        let outcome = match answer {
            Ok(Answer::Result(result)) => {
                let raw = Raw::parse(result.to_string()).map_err(|error| error.to_string())?;
                let found = Handshake::of_answer(&raw).version;
                match self.options.version {
                    Some(wanted) if wanted != found => Err(format!(
                        "the agent was to speak version {}, and speaks version {}",
                        wanted.number(),
                        found.number()
                    )),
                    _ => Ok(found),
                }
            }
            Ok(Answer::Error { code, message }) => match (self.options.version, code) {
                (None, _) => Ok(Version::V1),
                (Some(wanted), -32022) => {
                    Err(format!("the agent does not speak version {}", wanted.number()))
                }
                (Some(_), _) => Err(format!("initialize failed with {code}: {message}")),
            },
            Err(trouble) => {
                let mut reason = format!("initialize was not answered: {}", trouble.as_str());
                if let Some(process) = &peer.process {
                    if trouble == Trouble::Ended {
                        process.wait().await;
                    }
                    for line in process.last_lines(5) {
                        reason.push_str("; ");
                        reason.push_str(&line);
                    }
                }
                Err(reason)
            }
        };
        // This one only looks: the scenarios judge.
        drop(peer.end().await);
        self.version = outcome?;
        Ok(())
    }

    async fn play(&mut self, kind: Kind, peer: &mut Peer) {
        // What did not come was told where it was waited for.
        let _ = match kind {
            Kind::Handshake => self.handshake(peer).await,
            Kind::FutureVersion => self.future_version(peer).await,
            Kind::FirstVersion => self.first_version(peer).await,
            Kind::Identifiers => self.identifiers(peer).await,
            Kind::Pieces => self.pieces(peer).await,
            Kind::UnknownMethods => self.unknown_methods(peer).await,
            Kind::Notifications => self.notifications(peer).await,
            Kind::Unreadable => self.unreadable(peer).await,
            Kind::Sessions => self.sessions(peer).await,
            Kind::Prompt => self.prompt(peer).await,
            Kind::Content => self.content(peer).await,
            Kind::Cancel => self.cancel(peer).await,
            Kind::Close => self.close(peer).await,
            Kind::History => self.history(peer).await,
            Kind::Lists => self.lists(peer).await,
            Kind::Settings => self.settings(peer).await,
        };
    }

    /// Initializes in the version that the agent speaks.
    async fn initialize(&mut self, peer: &mut Peer) -> Result<Value, Trouble> {
        let id = Value::from(peer.next_id());
        self.initialize_as(peer, &id).await
    }

    async fn initialize_as(&mut self, peer: &mut Peer, id: &Value) -> Result<Value, Trouble> {
        let params = introduction(self.version.number(), false);
        let answer = peer.call_as(id, "initialize", params).await;
        let result = match self.waited(peer, RuleId::InitAnswer, "initialize", answer)? {
            Answer::Result(result) => result,
            Answer::Error { .. } => return Err(Trouble::Ended),
        };
        if let Some(login) = &self.options.login {
            let method = if self.is_v1() { "authenticate" } else { "auth/login" };
            peer.call(method, json!({"methodId": login})).await?;
        }
        let key = if self.is_v1() { "agentCapabilities" } else { "capabilities" };
        Ok(result[key].clone())
    }

    /// What came of waiting; nothing breaks a rule.
    fn waited(
        &mut self,
        peer: &Peer,
        rule: RuleId,
        what: &str,
        answer: Result<Answer, Trouble>,
    ) -> Result<Answer, Trouble> {
        if let Err(trouble) = &answer {
            self.findings.broken(rule, peer.number, format!("{what} was not answered: {}", trouble.as_str()));
        }
        answer
    }

    /// Opens a session; `None` where that is refused.
    async fn session(&mut self, peer: &mut Peer, more: Value) -> Result<Option<(String, Value)>, Trouble> {
        let mut params = json!({"cwd": self.options.folder});
        if self.is_v1() {
            params["mcpServers"] = json!([]);
        }
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        let rule = if self.is_v1() { RuleId::SessionIdV1 } else { RuleId::SessionIdV2 };
        let answer = peer.call("session/new", params).await;
        match self.waited(peer, rule, "session/new", answer)? {
            Answer::Result(result) => {
                Ok(result["sessionId"].as_str().map(|id| (id.to_owned(), result.clone())))
            }
            Answer::Error { code: LOGIN_REQUIRED, message } => {
                self.findings.block(format!("the agent wants a login: {message}"));
                Ok(None)
            }
            Answer::Error { code, message } => {
                self.findings.broken(rule, peer.number, format!("session/new failed with {code}: {message}"));
                Ok(None)
            }
        }
    }

    async fn handshake(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some(process) = peer.process.clone() else { return Ok(()) };
        peer.close_input();
        let is_gone = tokio::time::timeout(Duration::from_secs(3), process.wait()).await.is_ok();
        self.findings.judge(RuleId::Shutdown, peer.number, is_gone, || {
            "its input was closed, and it runs on after 3 seconds".to_owned()
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

    async fn future_version(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let answer = peer.call("initialize", introduction(u16::MAX, true)).await;
        let answer = self.waited(peer, RuleId::InitAnswer, "initialize with version 65535", answer)?;
        self.highest = answer.result().and_then(|result| result["protocolVersion"].as_u64());
        Ok(())
    }

    async fn first_version(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let answer = peer.call("initialize", introduction(1, true)).await;
        let answer = self.waited(peer, RuleId::InitAnswer, "initialize with version 1", answer)?;
        let lowest = answer.result().and_then(|result| result["protocolVersion"].as_u64());
        if let (Some(lowest), Some(highest)) = (lowest, self.highest) {
            self.findings.judge(RuleId::InitEcho, peer.number, highest >= lowest, || {
                format!("asked for 65535 it answers {highest}, asked for 1 it answers {lowest}")
            });
        }
        Ok(())
    }

    async fn identifiers(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize_as(peer, &json!("first")).await?;
        let method = "_switchboard/conform";
        let answer = peer.call_as(&json!("a-1"), method, json!({})).await;
        self.waited(peer, RuleId::IdEcho, "a request with the id \"a-1\"", answer)?;
        let answer = peer.call_as(&json!(9_007_199_254_740_000_i64), method, json!({})).await;
        self.waited(peer, RuleId::IdEcho, "a request with a large number as id", answer)?;
        Ok(())
    }

    async fn pieces(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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
            .map(|id| {
                json!({"jsonrpc": "2.0", "id": id, "method": "_switchboard/conform", "params": {}})
                    .to_string()
            })
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

    async fn unknown_methods(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        for method in ["_switchboard/conform", "_switchboard/other"] {
            let answer = peer.call(method, json!({"a": 1})).await;
            self.waited(peer, RuleId::Answered, method, answer)?;
        }
        let answer = peer.call("_switchboard/conform", json!({})).await;
        self.findings.judge(RuleId::AliveAfterError, peer.number, answer.is_ok(), || {
            "after an unknown method nothing was answered any more".to_owned()
        });
        Ok(())
    }

    async fn notifications(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        peer.notify("_switchboard/hello", json!({"a": [1, 2]})).await?;
        peer.notify("$/switchboard", json!({})).await?;
        let answer = peer.call("_switchboard/conform", json!({})).await;
        self.findings.judge(RuleId::IgnoresNotification, peer.number, answer.is_ok(), || {
            "after an unknown notification nothing was answered any more".to_owned()
        });
        Ok(())
    }

    async fn unreadable(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let is_error = |message: &Value| message.get("method").is_none() && message["id"].is_null();
        for (rule, text) in
            [(RuleId::ParseError, "{no json\n"), (RuleId::InvalidRequest, "{\"jsonrpc\":\"2.0\"}\n")]
        {
            peer.write_raw(text.as_bytes()).await?;
            let answer = peer.until_within(Duration::from_secs(1), is_error).await;
            let told = match &answer {
                Ok(message) => format!("answered with {}", message["error"]),
                Err(Trouble::Timeout) => "not answered".to_owned(),
                Err(Trouble::Ended) => "it ended".to_owned(),
            };
            self.findings.broken(rule, peer.number, told);
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

    async fn sessions(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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
        let told = match peer.call("session/prompt", prompt).await? {
            Answer::Result(_) => "it is taken".to_owned(),
            Answer::Error { code, message } => format!("refused with {code}: {message}"),
        };
        self.findings.broken(RuleId::UnknownSession, peer.number, told);
        Ok(())
    }

    /// Prompts, and waits until the turn is over. Gives the answer to the prompt.
    async fn turn(
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
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})).await?;
        self.turn_end(peer, session, &id).await
    }

    /// Waits until the turn of a prompt is over.
    async fn turn_end(&mut self, peer: &mut Peer, session: &str, id: &Value) -> Result<Answer, Trouble> {
        if self.is_v1() {
            let answer = peer.answer(id).await;
            return self.waited(peer, RuleId::StopReasonV1, "session/prompt", answer);
        }
        // The answer and the end of the work come in either order.
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
                Ok(message) => match message.get("error") {
                    Some(error) => {
                        return Ok(Answer::Error {
                            code: error["code"].as_i64().unwrap_or_default(),
                            message: error["message"].as_str().unwrap_or_default().to_owned(),
                        });
                    }
                    None => answer = Some(message["result"].clone()),
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

    async fn prompt(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        self.initialize(peer).await?;
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        for _ in 0..2 {
            self.turn(peer, &session, text(&self.options.prompt), json!({})).await?;
        }
        peer.listen(QUIET).await;
        Ok(())
    }

    async fn content(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
        let capabilities = self.initialize(peer).await?;
        let base = if self.is_v1() { "/promptCapabilities" } else { "/session/prompt" };
        let Some((session, _)) = self.session(peer, json!({})).await? else { return Ok(()) };
        let words = || json!({"type": "text", "text": self.options.prompt});
        let link = json!({"type": "resource_link", "name": "notes", "uri": "file:///notes.txt"});
        let mut prompts = vec![
            (json!([words(), link]), json!({})),
            (json!([words()]), json!({"_meta": {"switchboard/conform": 1}})),
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

    /// Begins work that takes a while; `None` where it is over before anything can be done.
    async fn begin_work(&mut self, peer: &mut Peer, session: &str) -> Result<Option<Value>, Trouble> {
        let id = Value::from(peer.next_id());
        peer.hold_questions();
        let params = json!({"sessionId": session, "prompt": text(&self.options.cancel_prompt)});
        peer.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})).await?;
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
        // Work that ends at once may be over before it hears that it was cancelled, which is nobody's fault.
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

    async fn cancel(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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

    async fn close(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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
        peer.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "session/close", "params": {"sessionId": session}}),
        )
        .await?;
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

    /// An advertised method must work.
    fn works(
        &mut self,
        peer: &Peer,
        rule: RuleId,
        what: &str,
        answer: Result<Answer, Trouble>,
    ) -> Result<Answer, Trouble> {
        let answer = self.waited(peer, rule, what, answer)?;
        if let Answer::Error { code, message } = &answer {
            self.findings.broken(rule, peer.number, format!("{what} failed with {code}: {message}"));
        }
        Ok(answer)
    }

    async fn history(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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

    async fn lists(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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
                self.findings.judge(RuleId::ListMatches, peer.number, sessions.is_empty(), || {
                    format!("{} sessions in a folder that nobody used", sessions.len())
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

    async fn settings(&mut self, peer: &mut Peer) -> Result<(), Trouble> {
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

/// Whether work of a session is over with this message.
fn is_end(message: &Value, session: &str) -> bool {
    is_state(message, session, "idle") && message["params"]["update"]["stopReason"].is_string()
}

/// Whether a message tells that a session is in a state.
fn is_state(message: &Value, session: &str, state: &str) -> bool {
    message["method"] == "session/update"
        && message["params"]["sessionId"] == *session
        && message["params"]["update"]["state"] == *state
}

fn text(words: &str) -> Value {
    json!([{"type": "text", "text": words}])
}

/// How we introduce ourselves. `both`: with the keys of both versions, for agents whose version is not known.
fn introduction(version: u16, both: bool) -> Value {
    let info = json!({"name": "switchboard-conform", "title": "Switchboard conform", "version": env!("CARGO_PKG_VERSION")});
    let mut params = json!({"protocolVersion": version});
    if version == 1 || both {
        params["clientInfo"] = info.clone();
        params["clientCapabilities"] =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    }
    if version >= 2 || both {
        params["info"] = info;
        params["capabilities"] = json!({});
    }
    params
}
