//! Responses and their effect on sessions.

use serde_json::Value;
use switchboard_acp::{Side, Version};

use super::{
    INVALID_PARAMS, LOGIN_REQUIRED, METHOD_NOT_FOUND, advertised_at, is_foreign, is_invented, opens, works,
};
use crate::connection::{PendingRequest, Session, SessionWork};
use crate::evaluator::{Evaluator, ParsedMessage};
use crate::rules::RuleId;
use crate::schema::shown;

impl Evaluator {
    /// Checks a response.
    pub(crate) fn about_response(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest) {
        let code = received.value["error"]["code"].as_i64();
        if is_foreign(&open.method)
            && let Some(code) = code
        {
            self.findings.check(RuleId::UnknownMethod, received.number, code == METHOD_NOT_FOUND, || {
                format!("{} was refused with {code} instead of {METHOD_NOT_FOUND}", open.method)
            });
        }
        if is_invented(&open.method)
            && let Some(result) = received.value.get("result")
        {
            self.findings.broken(
                RuleId::UnknownMethod,
                received.number,
                format!("{} was answered with {} instead of {METHOD_NOT_FOUND}", open.method, shown(result)),
            );
        }
        if is_foreign(&open.method) {
            self.findings.kept(RuleId::Answered);
        }
        match received.from {
            Side::Client => self.client_answer(received, open, code),
            Side::Agent => self.agent_answer(received, open, code),
        }
    }

    fn client_answer(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest, code: Option<i64>) {
        self.connection.latest_of_client = received.number;
        let number = received.number;
        if open.method.starts_with("fs/")
            || open.method.starts_with("terminal/")
            || open.method == "elicitation/create"
        {
            let has = match open.method.as_str() {
                "fs/read_text_file" => self.connection.client_has("/fs/readTextFile"),
                "fs/write_text_file" => self.connection.client_has("/fs/writeTextFile"),
                "elicitation/create" => {
                    let mode = open.params["mode"].as_str().unwrap_or("form");
                    self.connection.client_has(&format!("/elicitation/{mode}"))
                }
                _ => self.connection.client_has("/terminal") && self.version() == Some(Version::V1),
            };
            if has {
                self.findings.check(RuleId::ServesAdvertised, number, code != Some(METHOD_NOT_FOUND), || {
                    format!("{} is advertised, and answered with {METHOD_NOT_FOUND}", open.method)
                });
            }
        }
        if open.method != "session/request_permission" {
            return;
        }
        if let Some(session) = self.connection.sessions.get_mut(&open.session) {
            session.is_answered = true;
            if self.connection.version == Some(Version::V2) && session.has_run && !open.is_cancelled {
                let has_waited = session.has_waited || session.work == SessionWork::RequiresAction;
                self.findings.check(RuleId::RequiresAction, open.number, has_waited, || {
                    "the user was asked, and no state_update said requires_action".to_owned()
                });
            }
        }
        let outcome = &received.value["result"]["outcome"];
        let kind = outcome["outcome"].as_str().unwrap_or_default();
        if kind == "selected" && !open.is_faulty {
            let chosen = outcome["optionId"].as_str().unwrap_or_default();
            let offered = open.params["options"].as_array().into_iter().flatten();
            let is_offered = offered.filter_map(|option| option["optionId"].as_str()).any(|id| id == chosen);
            self.findings.check(RuleId::PermissionOffered, number, is_offered, || {
                format!("the option {chosen:?} was not offered")
            });
        }
        if open.is_cancelled && received.value.get("result").is_some() {
            self.findings.check(RuleId::PermissionsCancelled, number, kind == "cancelled", || {
                format!("the client cancelled, and then answered {}", shown(outcome))
            });
        }
    }

    fn agent_answer(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest, code: Option<i64>) {
        let Some(version) = self.version() else { return };
        let (number, is_v1) = (received.number, version == Version::V1);
        let result = received.value.get("result");
        if let Some(rule) = works(&open.method, version) {
            let pointer = advertised_at(&open.method, version);
            let is_advertised = pointer.is_none_or(|pointer| self.connection.agent_has(pointer));
            if is_advertised && code == Some(METHOD_NOT_FOUND) {
                let reason = format!("{} is advertised, and answered with {METHOD_NOT_FOUND}", open.method);
                self.findings.broken(rule, number, reason);
            } else if result.is_some() {
                self.findings.kept(rule);
            }
        }
        for rule in open.must_take.iter().filter(|_| !open.is_faulty) {
            if code == Some(INVALID_PARAMS) {
                let reason = format!("{} was refused: {}", open.method, shown(&received.value["error"]));
                self.findings.broken(*rule, number, reason);
            } else if result.is_some() {
                self.findings.kept(*rule);
            }
        }
        if opens(&open.method) {
            self.session_opened(received, open, code, is_v1);
        }
        match (open.method.as_str(), result) {
            ("authenticate" | "auth/login", Some(_)) => self.connection.is_logged_in = true,
            ("logout" | "auth/logout", Some(_)) => self.connection.is_logged_in = false,
            ("session/prompt", _) if is_v1 => self.prompt_ended(received, open),
            ("session/prompt", _) => self.prompt_accepted(received, open),
            ("session/list", Some(result)) => self.listed(number, open, result),
            ("session/delete", Some(_)) => {
                if self.connection.deleted.contains(&open.session) {
                    self.findings.kept(RuleId::DeleteAgain);
                }
                self.connection.deleted.insert(open.session.clone());
            }
            ("session/delete", None) if self.connection.deleted.contains(&open.session) => {
                let reason =
                    format!("deleting {:?} again failed: {}", open.session, shown(&received.value["error"]));
                self.findings.broken(RuleId::DeleteAgain, number, reason);
            }
            ("session/close", Some(_)) => self.session_closed(received, open, is_v1),
            ("session/set_config_option", Some(result)) => self.option_set(received, open, result),
            _ => {}
        }
    }

    fn session_opened(
        &mut self,
        received: &ParsedMessage<'_>,
        open: &PendingRequest,
        code: Option<i64>,
        is_v1: bool,
    ) {
        let number = received.number;
        if open.method == "session/new" {
            let needs_login = code == Some(LOGIN_REQUIRED);
            self.connection.needs_login |= needs_login;
            if self.connection.auth_methods.is_empty() && self.connection.agent_capabilities.is_some() {
                self.findings.check(RuleId::NoLoginNeeded, number, !needs_login, || {
                    "a login is required, and none is offered".to_owned()
                });
            } else if self.connection.is_logged_in {
                self.findings.check(RuleId::LoginHelps, number, !needs_login, || {
                    "a login is required after one that succeeded".to_owned()
                });
            }
        }
        let Some(result) = received.value.get("result") else {
            if let Some(session) = self.connection.sessions.get_mut(&open.session) {
                session.opening = None;
            }
            return;
        };
        let makes_new = matches!(open.method.as_str(), "session/new" | "session/fork");
        let id = if makes_new { result["sessionId"].as_str().unwrap_or_default() } else { &open.session };
        if makes_new {
            let works = if is_v1 { RuleId::SessionIdV1 } else { RuleId::SessionIdV2 };
            if result["sessionId"].as_str() == Some("") {
                self.findings.broken(works, number, "the session's id is empty");
            }
            let rule = if is_v1 { RuleId::DistinctV1 } else { RuleId::DistinctV2 };
            let is_known = self.connection.sessions.get(id).is_some_and(|session| session.is_new);
            if !id.is_empty() {
                self.findings.check(rule, number, !is_known, || format!("there is a session {id:?} already"));
            }
            let session = self.connection.session(id);
            *session =
                Session { is_new: true, work: session.work, has_run: session.has_run, ..Session::default() };
        } else {
            self.session_reopened(received, id);
        }
        let id = id.to_owned();
        self.modes(number, &id, &result["modes"]);
        self.options(number, &id, &result["configOptions"], is_v1);
    }

    /// Handles the response to `session/load` or `session/resume`.
    fn session_reopened(&mut self, received: &ParsedMessage<'_>, id: &str) {
        let is_v1 = self.version() == Some(Version::V1);
        let session = self.connection.session(id);
        let Some(opening) = session.opening.take() else { return };
        session.is_loaded = opening.with_history;
        session.ended = None;
        match (is_v1, opening.is_load) {
            (true, true) => self.findings.kept(RuleId::LoadReplay),
            (true, false) => self.findings.kept(RuleId::ResumeNoHistoryV1),
            (false, _) if opening.with_history => self.findings.kept(RuleId::ReplayBefore),
            (false, _) => self.findings.kept(RuleId::NoReplay),
        }
        if !is_v1 {
            if opening.has_state {
                self.findings.kept(RuleId::ResumeState);
            } else {
                let reason = "no state_update came before the answer".to_owned();
                self.broken_if_newest(RuleId::ResumeState, received.number, reason);
            }
        }
    }

    fn listed(&mut self, number: u64, open: &PendingRequest, result: &Value) {
        let wanted = open.params["cwd"].as_str();
        for entry in result["sessions"].as_array().into_iter().flatten() {
            let id = entry["sessionId"].as_str().unwrap_or_default();
            if let (Some(wanted), Some(cwd)) = (wanted, entry["cwd"].as_str()) {
                let is_same = cwd.trim_end_matches('/') == wanted.trim_end_matches('/');
                self.findings.check(RuleId::ListMatches, number, is_same, || {
                    format!("asked for {wanted:?}, listed {id:?} of {cwd:?}")
                });
            }
            if self.connection.deleted.contains(id) {
                let reason = format!("the session {id:?} was deleted, and is listed");
                self.findings.broken(RuleId::DeleteGone, number, reason);
            } else {
                self.connection.session(id);
            }
        }
        if wanted.is_some() && result["sessions"].as_array().is_some_and(Vec::is_empty) {
            self.findings.kept(RuleId::ListMatches);
        }
        if !self.connection.deleted.is_empty() {
            self.findings.kept(RuleId::DeleteGone);
        }
    }

    fn session_closed(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest, is_v1: bool) {
        let session = self.connection.session(&open.session);
        session.is_closed = true;
        if !is_v1 && open.during_work {
            let is_ended = session.work == SessionWork::Idle;
            self.findings.check(RuleId::CloseCancelsV2, received.number, is_ended, || {
                "closed while work was going on, which did not end before the answer".to_owned()
            });
        }
    }

    fn option_set(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest, result: &Value) {
        let is_v1 = self.version() == Some(Version::V1);
        let before = self.connection.session(&open.session).options.as_ref().map_or(0, Vec::len);
        let id = open.params["configId"].as_str().unwrap_or_default();
        let key = if is_v1 { "id" } else { "configId" };
        let options = result["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = options.iter().find(|option| option[key].as_str() == Some(id));
        let problem = match found {
            None => Some(format!("the answer lacks the option {id:?}")),
            Some(option) if option["currentValue"] != open.params["value"] => Some(format!(
                "{id:?} was set to {}, and the answer says {}",
                shown(&open.params["value"]),
                shown(&option["currentValue"])
            )),
            Some(_) if options.len() == 1 && before > 1 => {
                Some(format!("the answer has one option of {before}"))
            }
            Some(_) => None,
        };
        let problem = problem.filter(|_| result["configOptions"].is_array());
        if result["configOptions"].is_array() {
            self.findings.check(RuleId::ConfigComplete, received.number, problem.is_none(), || {
                problem.unwrap_or_default()
            });
        }
        self.options(received.number, &open.session.clone(), &result["configOptions"], is_v1);
    }
}
