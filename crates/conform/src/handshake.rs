//! `initialize`: versions and capabilities.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_acp::detect::Handshake;
use switchboard_acp::{Raw, Side, Version};

use crate::connection::PendingRequest;
use crate::evaluator::{Evaluator, ParsedMessage};
use crate::rules::RuleId;
use crate::schema::shown;

/// The error for peers without a common version.
const UNSUPPORTED_VERSION: i64 = -32022;

fn is_filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Returns whether a peer sends a name and a version.
fn is_introduced(info: &Value) -> bool {
    is_filled(&info["name"]) && is_filled(&info["version"])
}

/// Collects the pointers of booleans in capabilities that must be objects.
fn booleans(capabilities: &Value, pointer: &str, found: &mut Vec<String>) {
    let Some(entries) = capabilities.as_object() else { return };
    for (key, value) in entries.iter().filter(|(key, _)| *key != "_meta") {
        let place = format!("{pointer}/{key}");
        match value {
            Value::Bool(_) => found.push(place),
            other => booleans(other, &place, found),
        }
    }
}

impl Evaluator {
    /// Checks the client's handshake, which starts a connection.
    pub(crate) fn begin_handshake(&mut self, received: &ParsedMessage<'_>) {
        let is_first = self.connection.messages == 1;
        if let Some(early) = self.connection.too_early.take().filter(|_| self.connection.is_whole) {
            self.findings.broken(RuleId::InitFirst, early, "a request before the connection was initialized");
        } else if is_first {
            self.findings.kept(RuleId::InitFirst);
        }
        if !is_first {
            self.close_connection();
        }
        let params = received.params();
        let asked = params["protocolVersion"].as_u64();
        let connection = &mut self.connection;
        connection.messages = 1;
        connection.is_whole = true;
        connection.has_handshake = true;
        connection.asked_version = asked;
        let both = [&params["clientCapabilities"], &params["capabilities"]];
        let capabilities = both.into_iter().find(|value| value.is_object()).cloned();
        connection.client_capabilities = capabilities.unwrap_or_default();
        if asked.is_some_and(|asked| asked >= 2) {
            if params["info"].is_object() {
                self.findings.check(
                    RuleId::ClientInfoV2,
                    received.number,
                    is_introduced(&params["info"]),
                    || "info without a name or a version".to_owned(),
                );
            }
            let mut found = Vec::new();
            booleans(&params["capabilities"], "/params/capabilities", &mut found);
            self.findings.check(RuleId::Markers, received.number, found.is_empty(), || {
                format!("{}: a boolean", found[0])
            });
        } else {
            self.findings.check(
                RuleId::ClientInfoV1,
                received.number,
                is_introduced(&params["clientInfo"]),
                || "no clientInfo with a name and a version".to_owned(),
            );
        }
    }

    /// Checks the agent's response.
    pub(crate) fn end_handshake(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest) {
        let number = received.number;
        let Some(result) = received.value.get("result") else {
            let code = received.value["error"]["code"].as_i64();
            if code == Some(UNSUPPORTED_VERSION) {
                self.findings.kept(RuleId::InitAnswer);
                self.findings.block("client and agent have no version in common");
            } else if !open.is_faulty {
                let reason = format!("initialize failed: {}", shown(&received.value["error"]));
                self.findings.broken(RuleId::InitAnswer, number, reason);
                self.findings.versions.insert(1);
            }
            return;
        };
        self.findings.blocked = None;
        let Ok(raw) = Raw::parse(result.to_string()) else { return };
        let handshake = Handshake::of_answer(&raw);
        self.set_version(handshake.version);
        let answered = result["protocolVersion"].as_u64().filter(|answered| *answered <= u64::from(u16::MAX));
        let Some(answered) = answered else {
            let found = shown(&result["protocolVersion"]);
            let reason = format!("expected an integer as protocolVersion, found {found}");
            self.findings.broken(RuleId::InitAnswer, number, reason);
            return;
        };
        self.findings.kept(RuleId::InitAnswer);
        self.check_version(number, answered, handshake.version);
        self.introduce_agent(received, result, handshake.version);
    }

    fn check_version(&mut self, number: u64, answered: u64, version: Version) {
        let asked = self.connection.asked_version.unwrap_or(1);
        self.connection.is_foreign = answered > asked;
        let is_body_of_1 = version == Version::V1 && answered >= 2;
        if answered == asked && (asked > 2 || is_body_of_1) {
            let what = if is_body_of_1 { ", and the rest is of version 1" } else { "" };
            let reason = format!("asked for version {asked}, answered {answered}{what}");
            self.findings.broken(RuleId::InitEcho, number, reason);
        } else if asked == 1 && answered != 1 && (answered != 2 || is_body_of_1) {
            let reason = format!("asked for version 1, answered {answered}");
            self.findings.broken(RuleId::InitVersionV1, number, reason);
        } else if is_body_of_1 || answered == 0 {
            let reason = format!("the answer says version {answered}, and the rest is of version 1");
            self.findings.broken(RuleId::InitEcho, number, reason);
        } else {
            self.findings.kept(RuleId::InitEcho);
            if asked == 1 {
                self.findings.kept(RuleId::InitVersionV1);
            }
        }
    }

    fn introduce_agent(&mut self, received: &ParsedMessage<'_>, result: &Value, version: Version) {
        let number = received.number;
        let capabilities = match version {
            Version::V1 => {
                self.findings.check(RuleId::AgentInfoV1, number, is_introduced(&result["agentInfo"]), || {
                    "no agentInfo with a name and a version".to_owned()
                });
                &result["agentCapabilities"]
            }
            Version::V2 => {
                if result["info"].is_object() {
                    let reason = || "info without a name or a version".to_owned();
                    self.findings.check(RuleId::InfoV2, number, is_introduced(&result["info"]), reason);
                }
                let mut found = Vec::new();
                booleans(&result["capabilities"], "/result/capabilities", &mut found);
                self.findings
                    .check(RuleId::Markers, number, found.is_empty(), || format!("{}: a boolean", found[0]));
                &result["capabilities"]
            }
        };
        let is_object = capabilities.is_object();
        self.connection.agent_capabilities =
            Some(if is_object { capabilities.clone() } else { Value::Object(serde_json::Map::new()) });
        self.logins(number, &result["authMethods"], version);
    }

    fn logins(&mut self, number: u64, methods: &Value, version: Version) {
        let methods = methods.as_array().map(Vec::as_slice).unwrap_or_default();
        let key = if version == Version::V1 { "id" } else { "methodId" };
        let mut ids = HashSet::new();
        let mut known = Vec::new();
        for method in methods {
            let id = method[key].as_str().unwrap_or_default();
            self.findings.check(RuleId::AuthIdsUnique, number, ids.insert(id), || {
                format!("two logins have the id {id:?}")
            });
            let kind = method["type"].as_str().unwrap_or("agent");
            known.push((id.to_owned(), kind.to_owned()));
            if kind == "terminal" {
                let is_advertised = self.connection.client_has("/auth/terminal");
                self.findings.check(RuleId::AuthTerminal, number, is_advertised, || {
                    format!("the login {id:?} needs a terminal, which the client does not advertise")
                });
                if version == Version::V2 {
                    let names = method["env"].as_array().into_iter().flatten();
                    let mut seen = HashSet::new();
                    let twice =
                        names.filter_map(|entry| entry["name"].as_str()).find(|name| !seen.insert(*name));
                    self.findings.check(RuleId::AuthEnvironment, number, twice.is_none(), || {
                        format!("the login {id:?} has the variable {:?} twice", twice.unwrap_or_default())
                    });
                }
            }
            if version == Version::V2 && matches!(kind, "agent" | "terminal") {
                self.findings.kept(RuleId::AuthType);
            }
        }
        self.connection.auth_methods = known;
    }

    /// Checks the client's first request after the handshake.
    pub(crate) fn after_handshake(&mut self, received: &ParsedMessage<'_>, method: &str) {
        if received.from != Side::Client || method == "initialize" {
            return;
        }
        let connection = &mut self.connection;
        if !connection.has_handshake && connection.messages == 1 && connection.is_whole {
            let opens = matches!(method, "session/new" | "session/load" | "session/resume" | "session/list");
            connection.too_early = opens.then_some(received.number);
        }
        if connection.agent_capabilities.is_some() {
            let (is_foreign, asked) = (connection.is_foreign, connection.asked_version.unwrap_or_default());
            self.findings.check(RuleId::ForeignVersion, received.number, !is_foreign, || {
                format!("the client requested version {asked}, got a higher one, and continued")
            });
        }
    }
}
