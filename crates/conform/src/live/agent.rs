//! Scenarios for agents, with the evaluator as client.

mod connection;
mod sessions;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_acp::detect::Handshake;
use switchboard_acp::{Raw, Side, Version};

use super::peer::{Answer, Launch, Peer, Trouble};
use crate::report::{Findings, Report};
use crate::rules::RuleId;

const LOGIN_REQUIRED: i64 = -32000;
const UNSUPPORTED_VERSION: i64 = -32022;
/// Duration for which forbidden messages are awaited.
const QUIET: Duration = Duration::from_millis(300);

/// Options of a live test of an agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The version to use; `None`: the newest that the agent supports.
    pub version: Option<Version>,
    /// The working folder of the sessions.
    pub folder: PathBuf,
    /// Text of the prompts.
    pub prompt: String,
    /// Text of prompts whose work is cancelled.
    pub cancel_prompt: String,
    /// Timeout for each response.
    pub patience: Duration,
    /// The login method to use.
    pub login: Option<String>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

/// A scenario, which runs with a fresh process.
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
    Scenario { name: "invalid lines", kind: Kind::Unreadable },
    Scenario { name: "sessions", kind: Kind::Sessions },
    Scenario { name: "a prompt", kind: Kind::Prompt },
    Scenario { name: "content of prompts", kind: Kind::Content },
    Scenario { name: "work that is cancelled", kind: Kind::Cancel },
    Scenario { name: "work whose session is closed", kind: Kind::Close },
    Scenario { name: "histories", kind: Kind::History },
    Scenario { name: "lists, and sessions that are deleted", kind: Kind::Lists },
    Scenario { name: "modes and options", kind: Kind::Settings },
];

/// Checks an agent. `tell` is called before each scenario with its number and the number of scenarios.
///
/// Also returns the transcript by message number.
pub async fn check_agent(
    launch: &dyn Launch,
    subject: &str,
    options: &AgentOptions,
    mut tell: impl FnMut(&Scenario, usize, usize),
) -> (Report, BTreeMap<u64, String>) {
    let mut run = ScenarioContext {
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
    let ScenarioContext { mut findings, transcript, version, .. } = run;
    // It was asked for other versions too, but counts for the one under test.
    findings.versions = [version.number()].into();
    (findings.report(subject), transcript)
}

/// State that scenarios share.
struct ScenarioContext<'a> {
    launch: &'a dyn Launch,
    options: &'a AgentOptions,
    version: Version,
    findings: Findings,
    transcript: BTreeMap<u64, String>,
    number: u64,
    /// The version in the response to a request for a future version.
    highest: Option<u64>,
}

impl ScenarioContext<'_> {
    fn is_v1(&self) -> bool {
        self.version == Version::V1
    }

    async fn take(&mut self, peer: Peer) {
        let (evaluator, number, transcript) = peer.end().await;
        let mut findings = evaluator.finish();
        // A missing login in one scenario does not affect the others.
        if let Some(reason) = findings.blocked.take().filter(|reason| reason.contains("login")) {
            self.findings.block(reason);
        }
        self.findings.merge(findings);
        self.number = number;
        self.transcript.extend(transcript);
    }

    /// Determines the agent's version. Fails with the reason if it cannot be checked.
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
                        "the agent was requested in version {} but supports version {}",
                        wanted.number(),
                        found.number()
                    )),
                    _ => Ok(found),
                }
            }
            Ok(Answer::Error { code, message }) => match (self.options.version, code) {
                (None, UNSUPPORTED_VERSION) => self.find_first_version().await,
                (None, _) => Ok(Version::V1),
                (Some(wanted), UNSUPPORTED_VERSION) => {
                    Err(format!("the agent does not support version {}", wanted.number()))
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
        // This run only determines the version; the scenarios check.
        drop(peer.end().await);
        self.version = outcome?;
        Ok(())
    }

    /// Determines whether an agent that refuses version 2 supports version 1.
    async fn find_first_version(&self) -> Result<Version, String> {
        let mut peer = Peer::start(self.launch, 0, self.options.patience)?;
        let answer = peer.call("initialize", introduction(1, true)).await;
        drop(peer.end().await);
        match answer {
            Ok(Answer::Error { code: UNSUPPORTED_VERSION, message }) => {
                Err(format!("the agent supports neither version 1 nor version 2: {message}"))
            }
            _ => Ok(Version::V1),
        }
    }

    async fn play(&mut self, kind: Kind, peer: &mut Peer) {
        // Missing messages were reported by the code that waited for them.
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

    /// Initializes in the agent's version.
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

    /// Records the result of waiting; a timeout breaks the rule.
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

    /// Opens a session; `None` if that is refused.
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

    /// Records whether an advertised method works.
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
}

fn text(words: &str) -> Value {
    json!([{"type": "text", "text": words}])
}

/// Returns the parameters of our handshake. `both`: with the keys of both versions, for agents of unknown
/// version.
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
