//! Requests and cancellations.

mod answers;

use serde_json::Value;
use switchboard_acp::extensions::is_own_method;
use switchboard_acp::{Side, Version};

use crate::connection::{PendingRequest, Reopening, SessionWork};
use crate::evaluator::{Evaluator, ParsedMessage, request_id};
use crate::rules::RuleId;

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const LOGIN_REQUIRED: i64 = -32000;

/// Returns whether a method opens a session.
fn opens(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume" | "session/fork")
}

/// Returns the capability of a client-to-agent method as a JSON pointer; `None` if it is always available.
fn advertised_at(method: &str, version: Version) -> Option<&'static str> {
    Some(match (version, method) {
        (Version::V1, "session/load") => "/loadSession",
        (Version::V1, "session/resume") => "/sessionCapabilities/resume",
        (Version::V1, "session/list") => "/sessionCapabilities/list",
        (Version::V1, "session/delete") => "/sessionCapabilities/delete",
        (Version::V1, "session/close") => "/sessionCapabilities/close",
        (Version::V1, "session/fork") => "/sessionCapabilities/fork",
        (Version::V1, "session/set_title") => "/sessionCapabilities/title",
        (Version::V1, "session/archive" | "session/unarchive") => "/sessionCapabilities/archive",
        (Version::V1, "session/status") => "/sessionCapabilities/status",
        (Version::V1, "logout") => "/auth/logout",
        (Version::V2, "session/delete") => "/session/delete",
        (Version::V2, "session/fork") => "/session/fork",
        (Version::V2, "session/set_title") => "/session/title",
        (Version::V2, "session/archive" | "session/unarchive") => "/session/archive",
        (Version::V2, "session/status") => "/session/status",
        (Version::V2, method) if method.starts_with("session/") => "/session",
        (_, "auth/status") => "/auth/status",
        (_, method) if method.starts_with("providers/") => "/providers",
        _ => return None,
    })
}

/// Returns the rule that an advertised method works.
fn works(method: &str, version: Version) -> Option<RuleId> {
    Some(match (version, method) {
        (Version::V1, "session/load") => RuleId::LoadWorks,
        (Version::V1, "session/resume") => RuleId::ResumeWorksV1,
        (Version::V2, "session/resume") => RuleId::ResumeWorksV2,
        (_, "session/close") => RuleId::CloseWorks,
        (_, "session/delete") => RuleId::DeleteWorks,
        (_, "session/list") => RuleId::ListArray,
        (Version::V1, "session/new") => RuleId::SessionIdV1,
        (Version::V2, "session/new") => RuleId::SessionIdV2,
        (_, "logout" | "auth/logout") => RuleId::Logout,
        _ => return None,
    })
}

/// Returns whether a method is outside the protocol.
pub(crate) fn is_foreign(method: &str) -> bool {
    method.starts_with('_')
        || !method.contains('/') && !matches!(method, "initialize" | "authenticate" | "logout")
}

/// Returns whether no peer can know a method: it is neither the protocol's nor, by its underscore, an
/// extension, or it is one of our own inventions.
fn is_invented(method: &str) -> bool {
    is_foreign(method) && (!method.starts_with('_') || is_own_method(method))
}

impl Evaluator {
    /// Checks a request.
    pub(crate) fn about_request(
        &mut self,
        received: &ParsedMessage<'_>,
        method: &str,
        open: &mut PendingRequest,
    ) {
        self.after_handshake(received, method);
        match received.from {
            Side::Client => {
                self.connection.latest_of_client = received.number;
                self.client_request(received, method, open);
            }
            Side::Agent => self.agent_request(received, method, open),
        }
    }

    fn client_request(&mut self, received: &ParsedMessage<'_>, method: &str, open: &mut PendingRequest) {
        let Some(version) = self.version() else { return };
        let params = received.params();
        let number = received.number;
        if self.connection.agent_capabilities.is_some() {
            self.gates(received, method, version, open);
        }
        let session_id = open.session.clone();
        let opens_known =
            matches!(method, "session/load" | "session/resume" | "session/fork" | "session/delete");
        if !session_id.is_empty() && !opens_known && self.connection.is_whole && self.connection.has_handshake
        {
            let is_known = self.connection.sessions.contains_key(&session_id);
            self.findings.check(RuleId::ClientSession, number, is_known, || {
                format!("no session {session_id:?} was opened")
            });
        }
        match method {
            "session/load" | "session/resume" => {
                let is_load = method == "session/load";
                let with_history = is_load || params["replayFrom"].is_object();
                let session = self.connection.session(&session_id);
                session.is_closed = false;
                let was_working = session.work != SessionWork::Idle;
                session.opening =
                    Some(Reopening { with_history, is_load, was_working, ..Reopening::default() });
            }
            "session/prompt" => {
                let session = self.connection.session(&session_id);
                session.open_prompts += 1;
                session.ended = None;
                session.is_loaded = false;
                session.is_prompted = true;
                session.has_user_message = false;
            }
            "session/close" => {
                let session = self.connection.session(&session_id);
                let is_v1 = version == Version::V1;
                open.during_work = if is_v1 {
                    session.open_prompts > 0
                } else {
                    session.work != SessionWork::Idle && session.has_run
                };
                if is_v1 {
                    self.mark_prompts(&session_id, |prompt| prompt.during_work = true);
                } else if open.during_work {
                    session.is_cancelled = true;
                }
            }
            "session/set_mode" => {
                if let Some(modes) = self.connection.session(&session_id).modes.as_ref() {
                    let mode = params["modeId"].as_str().unwrap_or_default();
                    let is_known = modes.iter().any(|known| known == mode);
                    self.findings.check(RuleId::KnownMode, number, is_known, || {
                        format!("there is no mode {mode:?}, only {}", modes.join(", "))
                    });
                }
            }
            "session/set_config_option" => self.sets_option(received, &session_id),
            _ => {}
        }
    }

    fn sets_option(&mut self, received: &ParsedMessage<'_>, session_id: &str) {
        let params = received.params();
        let Some(options) = self.connection.session(session_id).options.as_ref() else { return };
        let id = params["configId"].as_str().unwrap_or_default();
        let option = options.iter().find(|option| option.id == id);
        let problem = match (option, params["value"].as_str()) {
            (None, _) => Some(format!("there is no option {id:?}")),
            (Some(option), Some(value)) => option
                .values
                .as_ref()
                .filter(|values| !values.iter().any(|known| known == value))
                .map(|_| format!("the option {id:?} has no value {value:?}")),
            _ => None,
        };
        self.findings
            .check(RuleId::KnownOption, received.number, problem.is_none(), || problem.unwrap_or_default());
    }

    /// Checks that only advertised methods are used.
    fn gates(
        &mut self,
        received: &ParsedMessage<'_>,
        method: &str,
        version: Version,
        open: &mut PendingRequest,
    ) {
        let (number, params) = (received.number, received.params());
        let is_v1 = version == Version::V1;
        if let Some(pointer) = advertised_at(method, version) {
            let has = self.connection.agent_has(pointer);
            self.findings.check(RuleId::CallsAdvertised, number, has, || {
                format!("{method}, and the agent does not advertise {}", pointer[1..].replace('/', "."))
            });
        }
        if matches!(method, "authenticate" | "auth/login") {
            let id = params["methodId"].as_str().unwrap_or_default();
            let offered = self.connection.auth_methods.iter().find(|(known, _)| known == id);
            let is_right = offered.is_some_and(|(_, kind)| is_v1 || kind != "terminal");
            self.findings
                .check(RuleId::LoginOffered, number, is_right, || format!("no login {id:?} is offered"));
        }
        if method == "auth/logout" {
            let has = !self.connection.auth_methods.is_empty();
            self.findings.check(RuleId::CallsAdvertised, number, has, || {
                "auth/logout, and no login is offered".to_owned()
            });
        }
        if method == "session/prompt" {
            open.must_take = self.prompt_content(number, params, is_v1);
        }
        let base = if is_v1 { "/mcpCapabilities" } else { "/session/mcp" };
        for server in params["mcpServers"].as_array().into_iter().flatten() {
            let kind = server["type"].as_str().unwrap_or("stdio");
            let is_given = (is_v1 && kind == "stdio") || kind.starts_with('_');
            let has = is_given || self.connection.agent_has(&format!("{base}/{kind}"));
            self.findings.check(RuleId::McpTransport, number, has, || {
                format!("an MCP server by {kind}, which the agent does not advertise")
            });
        }
        if params["additionalDirectories"].as_array().is_some_and(|folders| !folders.is_empty()) {
            let pointer = if is_v1 {
                "/sessionCapabilities/additionalDirectories"
            } else {
                "/session/additionalDirectories"
            };
            let has = self.connection.agent_has(pointer);
            if has {
                open.must_take.push(RuleId::DirectoriesWork);
            }
            self.findings.check(RuleId::DirectoriesAdvertised, number, has, || {
                "additionalDirectories, which the agent does not advertise".to_owned()
            });
        }
    }

    /// Checks the content of a prompt, and returns the rules that are kept by accepting it.
    fn prompt_content(&mut self, number: u64, params: &Value, is_v1: bool) -> Vec<RuleId> {
        let mut must_take = Vec::new();
        if params["_meta"].is_object() {
            must_take.push(RuleId::PromptMeta);
        }
        let base = if is_v1 { "/promptCapabilities" } else { "/session/prompt" };
        for block in params["prompt"].as_array().into_iter().flatten() {
            let kind = block["type"].as_str().unwrap_or_default();
            let key = match kind {
                "image" | "audio" => kind,
                "resource" => "embeddedContext",
                "resource_link" => {
                    must_take.push(RuleId::PromptExtras);
                    continue;
                }
                _ => continue,
            };
            let has = self.connection.agent_has(&format!("{base}/{key}"));
            if has {
                must_take.push(RuleId::PromptContentTaken);
            }
            self.findings.check(RuleId::PromptContent, number, has, || {
                format!("{kind} in a prompt, and the agent does not advertise {key}")
            });
        }
        must_take
    }

    fn agent_request(&mut self, received: &ParsedMessage<'_>, method: &str, open: &mut PendingRequest) {
        let (number, params) = (received.number, received.params());
        let is_v1 = match self.version() {
            Some(version) => version == Version::V1,
            None => return,
        };
        if self.connection.has_handshake {
            let at = match method {
                "fs/read_text_file" if is_v1 => Some((RuleId::FileAccess, "/fs/readTextFile".to_owned())),
                "fs/write_text_file" if is_v1 => Some((RuleId::FileAccess, "/fs/writeTextFile".to_owned())),
                method if is_v1 && method.starts_with("terminal/") => {
                    Some((RuleId::TerminalAccess, "/terminal".to_owned()))
                }
                "elicitation/create" => {
                    let rule = if is_v1 { RuleId::ElicitationV1 } else { RuleId::ElicitationV2 };
                    let mode = params["mode"].as_str().unwrap_or("form");
                    let is_custom = mode.starts_with('_');
                    let at =
                        if is_custom { "/elicitation".to_owned() } else { format!("/elicitation/{mode}") };
                    Some((rule, at))
                }
                _ => None,
            };
            if let Some((rule, pointer)) = at {
                let has = self.connection.client_has(&pointer);
                self.findings.check(rule, number, has, || {
                    format!("{method}, and the client does not advertise {}", pointer[1..].replace('/', "."))
                });
            }
        }
        if let Some(id) = params["sessionId"].as_str() {
            self.about_session(number, id);
        }
        if method == "session/request_permission" {
            open.is_faulty |= !self.asks_permission(received, is_v1);
        }
    }

    /// Checks the options of a permission request. Returns whether they are valid.
    fn asks_permission(&mut self, received: &ParsedMessage<'_>, is_v1: bool) -> bool {
        let params = received.params();
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut ids = std::collections::HashSet::new();
        let twice =
            options.iter().filter_map(|option| option["optionId"].as_str()).find(|id| !ids.insert(*id));
        let rule = if is_v1 { RuleId::PermissionIdsV1 } else { RuleId::PermissionIdsV2 };
        self.findings.check(rule, received.number, twice.is_none(), || {
            format!("two options have the id {:?}", twice.unwrap_or_default())
        });
        if !is_v1 && params["title"].as_str().is_some_and(|title| title.trim().is_empty()) {
            self.findings.broken(RuleId::PermissionShape, received.number, "the title is empty");
        }
        let call = if is_v1 { &params["toolCall"] } else { &params["subject"]["toolCall"] };
        let session_id = params["sessionId"].as_str().unwrap_or_default();
        if call.is_object() {
            self.tool_call(received.number, session_id, call, is_v1, true);
        }
        twice.is_none()
    }

    /// Handles `$/cancel_request`.
    pub(crate) fn cancel_request(&mut self, received: &ParsedMessage<'_>) {
        let Some(id) = request_id(&received.params()["requestId"]) else { return };
        let is_open = if let Some(open) = self.connection.open.get_mut(received.from, &id) {
            open.is_request_cancelled = true;
            true
        } else {
            false
        };
        let is_own = is_open || self.connection.was_answered(received.from, &id) || !self.connection.is_whole;
        self.findings.check(RuleId::CancelOwnRequest, received.number, is_own, || {
            format!("the {} has made no request {id}", received.from.as_str())
        });
    }

    /// Handles `session/cancel`.
    pub(crate) fn session_cancelled(&mut self, received: &ParsedMessage<'_>) {
        self.connection.latest_of_client = received.number;
        let Some(id) = received.params()["sessionId"].as_str() else { return };
        self.mark_prompts(id, |prompt| prompt.is_cancelled = true);
        let is_open = |side: Side, open: &PendingRequest| {
            side == Side::Agent && open.method == "session/request_permission" && open.session == id
        };
        let questions: Vec<_> = self
            .connection
            .open
            .iter()
            .filter(|(side, _, open)| is_open(*side, open))
            .map(|(_, id, _)| id.clone())
            .collect();
        for question in questions {
            if let Some(open) = self.connection.open.get_mut(Side::Agent, &question) {
                open.is_cancelled = true;
            }
        }
        let version = self.version();
        if let Some(session) = self.connection.sessions.get_mut(id)
            && version == Some(Version::V2)
            && session.has_run
            && session.work != SessionWork::Idle
        {
            session.is_cancelled = true;
        }
    }

    /// Updates the pending prompts of a session.
    fn mark_prompts(&mut self, session: &str, mut mark: impl FnMut(&mut PendingRequest)) {
        let prompts: Vec<_> = self
            .connection
            .open
            .iter()
            .filter(|(side, _, open)| {
                *side == Side::Client && open.method == "session/prompt" && open.session == session
            })
            .map(|(_, id, _)| id.clone())
            .collect();
        for prompt in prompts {
            if let Some(open) = self.connection.open.get_mut(Side::Client, &prompt) {
                mark(open);
            }
        }
    }
}
