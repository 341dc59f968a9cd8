//! Turns: prompts, their results and their ends.

use serde_json::Value;
use switchboard_acp::{Side, Version};

use crate::connection::{MOST_OPEN, MOST_REMEMBERED, PendingRequest, Session, SessionWork};
use crate::evaluator::{Evaluator, ParsedMessage};
use crate::rules::RuleId;
use crate::schema::{message_kind, shown};

/// Returns whether an update is part of a conversation rather than about the session itself.
fn is_content(update: &str) -> bool {
    message_kind(update).is_some()
        || matches!(
            update,
            "tool_call" | "tool_call_update" | "tool_call_content_chunk" | "plan" | "plan_update"
        )
}

impl Evaluator {
    /// Checks that a session of an agent's message exists.
    pub(crate) fn about_session(&mut self, number: u64, id: &str) {
        let Some(version) = self.version() else { return };
        if self.connection.sessions.contains_key(id) {
            let rule = match version {
                Version::V1 => RuleId::UpdateSessionV1,
                Version::V2 => RuleId::UpdateSessionV2,
            };
            self.findings.kept(rule);
        } else if self.connection.unknown.len() < MOST_REMEMBERED {
            // It may be opened yet: updates can precede the response.
            let numbers = self.connection.unknown.entry(id.to_owned()).or_default();
            if numbers.len() < MOST_REMEMBERED {
                numbers.push(number);
            }
        }
    }

    /// Checks an update of a session.
    pub(crate) fn update(&mut self, received: &ParsedMessage<'_>) {
        let Some(version) = self.version() else { return };
        let params = received.params();
        let (update, number) = (&params["update"], received.number);
        let Some(id) = params["sessionId"].as_str() else { return };
        self.about_session(number, id);
        for started in switchboard_session::sessions_started_in(&update.to_string()) {
            self.connection.session(&started);
        }
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if let Some(session) = self.connection.sessions.get(id)
            && session.is_closed
        {
            self.findings.broken(
                RuleId::CloseSilent,
                number,
                format!("{kind} for a session that was closed"),
            );
        } else if self.connection.sessions.values().take(8).any(|session| session.is_closed) {
            self.findings.kept(RuleId::CloseSilent);
        }
        let is_v1 = version == Version::V1;
        if is_v1 {
            self.update_v1(number, id, kind, update);
        } else {
            self.update_v2(number, id, kind, update);
        }
        self.content(number, id, kind, update, is_v1);
    }

    fn known_session(&mut self, id: &str) -> Option<&mut Session> {
        self.connection.sessions.get_mut(id)
    }

    fn update_v1(&mut self, number: u64, id: &str, kind: &str, update: &Value) {
        let gate = match kind {
            "notice" => Some("/session/notices"),
            "compaction_update" | "compaction_summary_chunk" => Some("/session/compaction"),
            _ => None,
        };
        if let Some(pointer) = gate.filter(|_| self.connection.has_handshake) {
            let has = self.connection.client_has(pointer);
            self.findings.check(RuleId::UpdatesUnadvertised, number, has, || {
                format!("{kind}, and the client does not advertise {}", pointer[1..].replace('/', "."))
            });
        }
        if kind == "current_mode_update"
            && let Some(mode) = update["currentModeId"].as_str()
            && let Some(modes) = self.known_session(id).and_then(|session| session.modes.clone())
        {
            let is_known = modes.iter().any(|known| known == mode);
            self.findings
                .check(RuleId::ModesCurrent, number, is_known, || format!("there is no mode {mode:?}"));
        }
        let Some(session) = self.connection.sessions.get_mut(id) else { return };
        if !is_content(kind) {
            return;
        }
        if session.opening.as_ref().is_some_and(|opening| !opening.is_load) && session.open_prompts == 0 {
            self.findings.broken(
                RuleId::ResumeNoHistoryV1,
                number,
                format!("{kind} before the answer to session/resume"),
            );
        } else if session.is_loaded && session.open_prompts == 0 {
            self.findings.broken(
                RuleId::LoadReplay,
                number,
                format!("{kind} after the answer to session/load"),
            );
        } else if session.open_prompts == 0 && session.opening.is_none() {
            match session.ended {
                Some(true) => {
                    let reason = format!("{kind} after the answer to the cancelled prompt");
                    self.findings.broken(RuleId::CancelQuietV1, number, reason);
                }
                Some(false) => {
                    let reason = format!("{kind} after the answer to the prompt");
                    self.findings.broken(RuleId::TurnQuiet, number, reason);
                }
                None => {}
            }
        }
    }

    /// Handles the response to a version 1 prompt, which ends the turn.
    pub(crate) fn prompt_ended(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest) {
        let number = received.number;
        let result = received.value.get("result");
        let reason = result.and_then(|result| result["stopReason"].as_str());
        if result.is_some() && reason.is_some() {
            self.findings.kept(RuleId::StopReasonV1);
        }
        let is_cancelled = reason == Some("cancelled");
        let outcome = || shown(result.unwrap_or(&received.value["error"]));
        if open.is_cancelled && !open.is_request_cancelled {
            self.findings.check(RuleId::CancelV1, number, is_cancelled, || {
                format!("the prompt was cancelled, and answered with {}", outcome())
            });
        } else if open.during_work {
            self.findings.check(RuleId::CloseCancelsV1, number, is_cancelled, || {
                format!("the session was closed, and the prompt answered with {}", outcome())
            });
        }
        let latest = self.connection.latest_prompt.entry(open.session.clone()).or_default();
        *latest = open.order.max(*latest);
        if let Some(session) = self.known_session(&open.session) {
            session.open_prompts = session.open_prompts.saturating_sub(1);
            session.ended = Some(is_cancelled);
            if session.open_prompts == 0 {
                if is_cancelled {
                    self.findings.kept(RuleId::CancelQuietV1);
                } else {
                    self.findings.kept(RuleId::TurnQuiet);
                }
            }
        }
    }

    /// Handles the response to a version 2 prompt, which accepts or refuses it.
    pub(crate) fn prompt_accepted(&mut self, received: &ParsedMessage<'_>, open: &PendingRequest) {
        let number = received.number;
        let latest = self.connection.latest_prompt.entry(open.session.clone()).or_default();
        *latest = open.order.max(*latest);
        let Some(session) = self.connection.sessions.get_mut(&open.session) else { return };
        session.open_prompts = session.open_prompts.saturating_sub(1);
        let Some(result) = received.value.get("result") else {
            let is_late = session.has_user_message && session.open_prompts == 0;
            self.findings.check(RuleId::PromptLateError, number, !is_late, || {
                format!("its message was sent, and it failed: {}", shown(&received.value["error"]))
            });
            return;
        };
        self.findings.kept(RuleId::PromptLateError);
        let Some(id) = result["messageId"].as_str() else { return };
        if id.is_empty() {
            self.broken_if_newest(RuleId::PromptMessageId, number, "messageId is empty".to_owned());
            return;
        }
        self.findings.kept(RuleId::PromptMessageId);
        let is_new = session.prompt_ids.len() >= MOST_REMEMBERED || session.prompt_ids.insert(id.to_owned());
        self.findings
            .check(RuleId::PromptIds, number, is_new, || format!("two prompts have the message id {id:?}"));
        if session.messages.contains(&(0, id.to_owned())) {
            self.findings.kept(RuleId::PromptEchoed);
        } else if is_new && session.awaited_messages.len() < MOST_OPEN {
            session.awaited_messages.push(id.to_owned());
        }
    }

    fn update_v2(&mut self, number: u64, id: &str, kind: &str, update: &Value) {
        if kind == "state_update" {
            self.state(number, id, update);
            return;
        }
        let findings = &mut self.findings;
        let Some(session) = self.connection.sessions.get_mut(id) else { return };
        let message = message_kind(kind).zip(update["messageId"].as_str());
        if let Some(opening) = &mut session.opening {
            let is_working = session.work != SessionWork::Idle;
            if kind == "notice" && opening.with_history {
                findings.broken(RuleId::ReplayLive, number, "a notice in the history");
            } else if opening.with_history && is_content(kind) {
                findings.kept(RuleId::ReplayLive);
            }
            if is_content(kind) && !opening.with_history && !is_working {
                let reason = format!("{kind} before the answer to session/resume without replayFrom");
                findings.broken(RuleId::NoReplay, number, reason);
            }
            if let Some(((class, is_whole), message_id)) = message
                && opening.with_history
            {
                let key = (class, message_id.to_owned());
                if session.is_new && session.messages.iter().take(1000).any(|known| known.0 == class) {
                    findings.check(RuleId::ReplayIds, number, session.messages.contains(&key), || {
                        format!("{kind} {message_id:?} had another id before")
                    });
                }
                if is_whole {
                    opening.whole.insert(key);
                } else {
                    // A state in the history does not make it live: only work that the client saw before
                    // does.
                    let is_seeded = opening.whole.contains(&key) || opening.was_working;
                    findings.check(RuleId::ReplaySeeds, number, is_seeded, || {
                        format!("{kind} {message_id:?} without the whole message before it")
                    });
                }
            }
            return;
        }
        if let Some(((class, _), message_id)) = message {
            if session.messages.len() < MOST_REMEMBERED {
                session.messages.insert((class, message_id.to_owned()));
            }
            if class == 0 {
                session.has_user_message = true;
                let before = session.awaited_messages.len();
                session.awaited_messages.retain(|awaited| awaited != message_id);
                if session.awaited_messages.len() < before {
                    findings.kept(RuleId::PromptEchoed);
                }
            }
        }
        if !is_content(kind) || session.is_prompted || session.work != SessionWork::Idle {
            return;
        }
        if session.ended == Some(true) {
            findings.broken(RuleId::CancelQuietV2, number, format!("{kind} after idle with cancelled"));
        } else if session.is_loaded {
            findings.broken(
                RuleId::ReplayBefore,
                number,
                format!("{kind} after the answer to session/resume"),
            );
        }
    }

    fn state(&mut self, number: u64, id: &str, update: &Value) {
        let findings = &mut self.findings;
        let Some(session) = self.connection.sessions.get_mut(id) else { return };
        if let Some(opening) = &mut session.opening {
            opening.has_state = true;
            match work_of(update) {
                Some(work) => {
                    session.work = work;
                    session.has_run = work != SessionWork::Idle;
                }
                None => session.has_run = true,
            }
            return;
        }
        match work_of(update) {
            Some(SessionWork::Running) => {
                session.work = SessionWork::Running;
                (session.has_run, session.has_waited, session.is_loaded) = (true, false, false);
                session.ended = None;
            }
            Some(SessionWork::RequiresAction) => {
                session.work = SessionWork::RequiresAction;
                (session.has_waited, session.is_answered) = (true, false);
                session.ended = None;
            }
            Some(SessionWork::Idle) => idle(findings, session, number, update),
            // An unknown state counts as busy.
            None => {}
        }
    }

    /// Checks the end of a connection.
    pub(crate) fn check_end(&mut self) {
        let connection = &self.connection;
        for (side, _, open) in connection.open.iter() {
            let is_passed_over = match open.method.as_str() {
                "session/prompt" => {
                    connection.latest_prompt.get(&open.session).is_some_and(|latest| *latest > open.order)
                }
                method => {
                    crate::calls::is_foreign(method) && connection.latest_answered[side as usize] > open.order
                }
            };
            if is_passed_over && connection.is_whole {
                self.findings.speaker = Some(side.other());
                let reason = format!("{} was never answered, and later requests were", open.method);
                self.findings.broken(RuleId::Answered, open.number, reason);
            }
            let has_gone_on =
                connection.latest_prompt.get(&open.session).is_some_and(|latest| *latest > open.order);
            if side == Side::Agent && open.is_cancelled && has_gone_on && connection.is_whole {
                let reason = "the client cancelled and went on, and never answered this";
                self.findings.broken(RuleId::PermissionsCancelled, open.number, reason);
            }
        }
        let is_opening = connection.open.iter().any(|(side, _, open)| {
            side == Side::Client
                && matches!(
                    open.method.as_str(),
                    "session/new" | "session/load" | "session/resume" | "session/fork"
                )
        });
        if connection.is_whole && connection.has_handshake && !is_opening {
            let rule = match connection.version {
                Some(Version::V1) => Some(RuleId::UpdateSessionV1),
                Some(Version::V2) => Some(RuleId::UpdateSessionV2),
                None => None,
            };
            for (id, numbers) in &connection.unknown {
                for number in numbers.iter().take(100) {
                    if let Some(rule) = rule {
                        self.findings.broken(rule, *number, format!("no session {id:?} was opened"));
                    }
                }
            }
        }
        let has_session =
            connection.sessions.values().any(|session| session.is_new) || !connection.sessions.is_empty();
        if connection.needs_login && !has_session {
            self.findings.block("the agent wants a login before it opens a session");
        }
    }
}

fn work_of(update: &Value) -> Option<SessionWork> {
    match update["state"].as_str() {
        Some("running") => Some(SessionWork::Running),
        Some("requires_action") => Some(SessionWork::RequiresAction),
        Some("idle") => Some(SessionWork::Idle),
        _ => None,
    }
}

/// Handles an idle state.
fn idle(findings: &mut crate::report::Findings, session: &mut Session, number: u64, update: &Value) {
    let reason = update["stopReason"].as_str();
    let has_background = update["background"].as_array().is_some_and(|work| !work.is_empty());
    if session.is_cancelled {
        let found = reason.unwrap_or("no stop reason");
        findings.check(RuleId::CancelV2, number, reason == Some("cancelled"), || {
            format!("the work was cancelled, and ended with {found}")
        });
    } else if session.has_run || session.has_waited {
        findings.check(RuleId::StopReasonV2, number, reason.is_some(), || {
            "the work ended without a stop reason".to_owned()
        });
    }
    if session.has_run || session.has_waited {
        findings.kept(RuleId::RunningFirst);
        findings.kept(RuleId::ReachesIdle);
        let is_stuck = session.work == SessionWork::RequiresAction && session.is_answered;
        if !session.is_cancelled && reason != Some("cancelled") {
            findings.check(RuleId::RunningAgain, number, !is_stuck, || {
                "the question was answered, but no running state followed".to_owned()
            });
        }
    } else if reason.is_some() && session.is_prompted {
        findings.broken(RuleId::RunningFirst, number, "the work ended without a running state");
    }
    if session.has_run || reason.is_some() {
        for awaited in std::mem::take(&mut session.awaited_messages) {
            let reason = format!("the work ended without the message {awaited:?} of its prompt");
            findings.broken(RuleId::PromptEchoed, number, reason);
        }
    }
    let is_cancelled = reason == Some("cancelled");
    if is_cancelled && !has_background {
        findings.kept(RuleId::CancelQuietV2);
    }
    if session.has_run || session.has_waited || reason.is_some() {
        session.ended = Some(is_cancelled && !has_background);
        session.is_prompted = session.open_prompts > 0;
    }
    session.work = SessionWork::Idle;
    (session.has_run, session.has_waited, session.is_cancelled, session.is_answered) =
        (false, false, false, false);
}
