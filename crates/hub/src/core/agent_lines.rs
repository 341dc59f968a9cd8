//! Handling of everything that agent processes send: messages, losses, standard error and invalid lines.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{AgentSessionRecord, HubRecord, MEMORY_LOST, META, SANDBOX};
use switchboard_acp::rpc::{Message, Request, RequestId, Response, codes};
use switchboard_acp::{Raw, Side, WireFormat};
use switchboard_store::Channel;
use switchboard_transport::ConfinementNotice;

use super::agent_process::{self, Description, PendingAgentRequest};
use super::dormancy::Dormancy;
use super::lifecycle::{self, Fork, Lifecycle};
use super::lines::{self, Outcome, Rewrite};
use super::outbox::Dropped;
use super::questions::{ELICITATION, PERMISSION, cancelled};
use super::session::Session;
use super::session_state::referenced_request;
use super::unresponsive::OverdueTurn;
use super::{AgentId, ConnectionId, Core, Output, SessionId, SessionState, requests};
use crate::agent_task::LineSession;

/// Divider that is shown in a session whose agent has lost its history.
const FORGOTTEN: &str =
    "The agent has lost its memory of what is above. It knows only what comes from here on.";

/// Maximum number of attempts to get a new session from an agent whose id the log does not contain yet.
const MAX_RECREATIONS: usize = 32;

/// Returns a line of an agent without the metadata that only the hub may write: notices about the sandbox, on which users
/// and audits rely. `None` if it has none.
fn without_sandbox_claim(line: &str) -> Option<String> {
    // Letters may be escaped.
    let may_claim = line.contains(SANDBOX.name()) || line.contains(META) && line.contains("\\u00");
    if !may_claim {
        return None;
    }
    let mut message = serde_json::from_str::<serde_json::Value>(line).ok()?;
    let claims = message.pointer_mut("/params/update")?.as_object_mut()?.get_mut(META)?.as_object_mut()?;
    claims.remove(SANDBOX.name())?;
    Some(message.to_string())
}

/// Handles a line of an agent, in version 2.
pub(super) fn agent_line(core: &mut Core, process: AgentId, line: &str) {
    match without_sandbox_claim(line) {
        Some(changed) => own_line(core, process, &changed),
        None => own_line(core, process, line),
    }
}

/// Handles a line of an agent, or one that the hub makes in its place.
fn own_line(core: &mut Core, process: AgentId, line: &str) {
    if !core.cx.agents.processes.contains_key(&process) {
        return core.cx.outbox.drop_message(Dropped::EndedProcess);
    }
    let message = Message::decode(line, WireFormat::Any);
    match &message {
        Ok(message @ Message::Notification(notification)) => {
            let params = notification.params.as_ref();
            match (lines::text_of(params, "sessionId"), &*notification.method) {
                (Some(session), _) => session_line(core, process, &session, line, message),
                (None, "$/cancel_request") => request_cancelled(core, process, params, line),
                (None, method) => core.cx.broadcast(process, method, params),
            }
        }
        Ok(Message::Request(request)) => agent_request(core, process, request, line),
        Ok(Message::Response(response)) => agent_response(core, process, response, line),
        Err(error) => core.cx.outbox.report(format!("an agent sent an invalid message: {error}")),
    }
}

/// Records a line as it was on the wire, on the agent's side of a translation.
pub(super) fn wire_line(core: &mut Core, process: AgentId, about: &LineSession, from: Side, text: &str) {
    let session = match about {
        LineSession::Hub(session) => Some(Arc::clone(session)),
        LineSession::Agent(session) => session_of(core, process, session),
        LineSession::Handshake => {
            if let Some(process) = core.cx.agents.processes.get_mut(&process) {
                process.record_handshake_line(Channel::of_message(from, true), text);
            }
            return;
        }
    };
    let is_open = |id: &SessionId| {
        core.sessions.get(id).is_some_and(|session| session.process == Some(process) && !session.is_resuming)
    };
    match session.filter(is_open) {
        Some(session) => drop(core.append(&session, Channel::of_message(from, true), text)),
        None => core.cx.outbox.drop_message(Dropped::UnrecordedLine),
    }
}

pub(super) fn confinement_notice_in(
    core: &mut Core,
    process: AgentId,
    agent_session: &str,
    notice: &ConfinementNotice,
) {
    let ConfinementNotice { title, description, is_warning, data } = notice;
    let mut update = json!({
        "sessionUpdate": "notice",
        "severity": if *is_warning { "warning" } else { "info" },
        "title": title,
        META: {SANDBOX.name(): data},
    });
    if let Some(description) = description {
        update["description"] = json!(description);
    }
    let line = lines::update(agent_session, &update.to_string());
    own_line(core, process, &line);
}

/// Handles a line on an agent's standard output that is not a JSON-RPC message. The first lines are reported and
/// recorded; afterwards only their number is, at intervals.
pub(super) fn invalid_line(core: &mut Core, process: AgentId, text: &str) {
    record_invalid_line(core, process, text);
    if let Some(words) =
        core.cx.agents.processes.get_mut(&process).and_then(|process| process.invalid_reported.next(text))
    {
        let agent = core.cx.name_of(process);
        core.cx.outbox.report(format!("agent {agent}: {words}"));
    }
}

/// Records an invalid line or an unroutable message in a log.
pub(super) fn record_invalid_line(core: &mut Core, process: AgentId, text: &str) {
    if let Some(invalid) =
        core.cx.agents.processes.get_mut(&process).and_then(|process| process.invalid_recorded.next(text))
    {
        let invalid = json!({"from": Side::Agent, "noise": invalid}).to_string();
        record_beside(core, process, Channel::Diagnostic, &invalid);
    }
}

/// Appends a record without a session to the sessions in which the agent works, or else to the last one it worked
/// in.
pub(super) fn record_beside(core: &mut Core, process: AgentId, channel: Channel, text: &str) {
    let Some(known) = core.cx.agents.processes.get_mut(&process) else { return };
    known.record_handshake_line(channel, text);
    let open =
        || core.sessions.values().filter(|session| session.process == Some(process) && !session.is_resuming);
    let is_busy = |session: &&Session| session.state.as_ref().is_some_and(SessionState::is_busy);
    let mut concerned: Vec<SessionId> = open().filter(is_busy).map(|it| Arc::clone(it.id())).collect();
    if concerned.is_empty() {
        concerned.extend(open().max_by_key(|it| it.info.changed).map(|it| Arc::clone(it.id())));
    }
    for session in concerned {
        let _ = core.append(&session, channel, text);
    }
}

/// Returns the session that has this id at the agent.
pub(super) fn session_of(core: &mut Core, process: AgentId, session: &str) -> Option<SessionId> {
    let known = core.cx.agents.processes.get(&process)?;
    if let Some(id) = known.session(session).cloned() {
        if let Some((session, cx)) = core.session(&id) {
            Dormancy::of(session, cx).unpark_on_output(process);
        }
        return Some(id);
    }
    let is_parent = |state: &SessionState| state.is_child(session);
    let parent = core
        .sessions
        .values()
        .find(|known| known.process == Some(process) && known.state.as_ref().is_some_and(is_parent))?;
    let id = Arc::clone(parent.id());
    core.cx.agents.processes.get_mut(&process)?.bind(session, &id);
    Some(id)
}

pub(super) fn session_line(core: &mut Core, process: AgentId, name: &str, line: &str, message: &Message<'_>) {
    if let Some(id) = session_of(core, process, name)
        && let Some((session, cx)) = core.session(&id)
    {
        // Updates that precede the response to `session/resume` are history that the log already contains.
        if !session.is_resuming {
            if let Message::Notification(late) = message
                && OverdueTurn::of(session, cx).is_late_state(name, late, line)
            {
                return;
            }
            let _ = session.append_decoded(cx, Channel::ToClient, line, Some(message));
        }
        return;
    }
    // The session runs in another process by now. Lines of this process must not get into any log.
    if core.cx.agents.processes.get(&process).is_some_and(|process| process.left_sessions.contains(name)) {
        if core
            .cx
            .agents
            .processes
            .get_mut(&process)
            .is_some_and(|process| process.is_new_unknown_session(name))
        {
            core.cx.outbox.report(format!(
                "dropped an update of an unresponsive agent process for session {name}, which has left it"
            ));
        }
        return;
    }
    let kept = core.cx.agents.is_opening(process)
        && core.cx.agents.processes.get_mut(&process).is_some_and(|process| process.buffer_early(name, line));
    if kept {
        return;
    }
    // No client is attached to such a session. The line is recorded where a reader of the log can find it.
    record_invalid_line(core, process, line);
    if core.cx.agents.processes.get_mut(&process).is_some_and(|process| process.is_new_unknown_session(name))
    {
        core.cx.outbox.report(format!("an agent sends updates for the unknown session {name}"));
    }
}

/// Handles `$/cancel_request` of an agent: cancels the question.
pub(super) fn request_cancelled(core: &mut Core, process: AgentId, params: Option<&Raw<'_>>, line: &str) {
    let Some(id) = params.and_then(referenced_request) else {
        return core.cx.outbox.drop_message(Dropped::CancellationWithoutRequest);
    };
    core.cx.direct_questions().cancel_direct(process, Some(&id));
    let mut hosted = core.sessions.values().filter(|session| session.process == Some(process));
    let found = hosted.find_map(|session| {
        let (_, question) = session.state.as_ref()?.question_of(&id)?;
        Some((Arc::clone(session.id()), question.clone()))
    });
    // Usually the answer and the cancellation have crossed.
    let Some((session, question)) = found else {
        return core.cx.outbox.drop_message(Dropped::LateCancellation);
    };
    // The cancellation is recorded before the response, because the log keeps the order of the agent's
    // requests and their responses.
    let _ = core.append(&session, Channel::ToClient, line);
    // A cancelled request needs a response, too.
    let line = lines::answer(&question.id, &cancelled(&question.method));
    let _ = core.append(&session, Channel::ToAgent, line.as_str());
    core.cx.outbox.push(Output::ToAgent { process, line, session: Some(session) });
}

/// Routes a request of an agent.
pub(super) fn agent_request(core: &mut Core, process: AgentId, request: &Request<'_>, line: &str) {
    let params = request.params.as_ref();
    let is_confined = core
        .cx
        .agents
        .processes
        .get(&process)
        .is_some_and(|process| core.cx.options.is_confined(process.agent));
    if is_confined && (request.method.starts_with("fs/") || request.method.starts_with("terminal/")) {
        let message = "the agent runs in a sandbox: it works with files and commands itself";
        return core.cx.outbox.refuse_agent(process, &request.id, codes::METHOD_NOT_FOUND, message);
    }
    let is_question = matches!(&*request.method, PERMISSION | ELICITATION);
    let session = lines::text_of(params, "sessionId");
    let Some(session) = session else {
        if !is_question {
            return core.cx.direct_questions().forward_to_client(process, request, None);
        }
        // The request names one that a client has sent, such as a prompt or a login.
        let about = params.and_then(referenced_request);
        let prompted_session =
            about.and_then(|id| core.cx.agents.processes.get(&process)?.session_of_prompt(&id).cloned());
        return match prompted_session {
            Some(id) => agent_request_in(core, process, &id, request, line),
            None => core.cx.direct_questions().direct_request(process, request),
        };
    };
    let Some(id) = session_of(core, process, &session) else {
        // A session that moved to another process is not unknown: its late question is cancelled, because
        // the turn that it belongs to is over.
        if core
            .cx
            .agents
            .processes
            .get(&process)
            .is_some_and(|process| process.left_sessions.contains(&*session))
        {
            let line = lines::answer(&request.id, &cancelled(&request.method));
            return core.cx.outbox.push(Output::ToAgent { process, line, session: None });
        }
        let kept = core.cx.agents.is_opening(process)
            && core
                .cx
                .agents
                .processes
                .get_mut(&process)
                .is_some_and(|process| process.buffer_early(&session, line));
        if !kept {
            record_invalid_line(core, process, line);
            core.cx.outbox.refuse_agent(
                process,
                &request.id,
                codes::RESOURCE_NOT_FOUND,
                "the session is not open in this hub",
            );
        }
        return;
    };
    match is_question {
        true => agent_request_in(core, process, &id, request, line),
        false => core.cx.direct_questions().forward_to_client(process, request, core.sessions.get(&id)),
    }
}

/// Routes a request of an agent that belongs to a session.
pub(super) fn agent_request_in(
    core: &mut Core,
    process: AgentId,
    id: &SessionId,
    request: &Request<'_>,
    line: &str,
) {
    let state = core.sessions.get(id).and_then(|session| session.state.as_ref());
    if let Some((code, message)) = state.and_then(|state| state.refusal(request)) {
        record_invalid_line(core, process, line);
        return core.cx.outbox.refuse_agent(process, &request.id, code, &message);
    }
    if !core
        .session(id)
        .is_some_and(|(session, cx)| OverdueTurn::of(session, cx).is_late_question(process, request, line))
    {
        let _ = core.append(id, Channel::ToClient, line);
    }
}

/// Handles a response of an agent.
pub(super) fn agent_response(core: &mut Core, process: AgentId, response: &Response<'_>, line: &str) {
    let answered =
        core.cx.agents.processes.get_mut(&process).and_then(|process| process.answered(&response.id));
    let Some(purpose) = answered else {
        return core.cx.outbox.drop_message(Dropped::UnknownResponse);
    };
    let outcome = Outcome::of(&response.outcome);
    match purpose {
        PendingAgentRequest::Handshake => agent_initialized(core, process, &outcome, line),
        PendingAgentRequest::New { session, client } => {
            if outcome.is_error() {
                core.cx.reply(client.0, &client.1, outcome);
                lifecycle::discard_session(core, &session);
            } else {
                lifecycle::opened(core, process, &session, &client, &outcome, line);
            }
        }
        PendingAgentRequest::Adopt { session, client } => {
            lifecycle::session_adopted(core, &session, &client, outcome, line);
        }
        PendingAgentRequest::AgentSessions { client } => {
            let outcome = lifecycle::with_hub_ids(core, process, outcome);
            core.cx.reply(client.0, &client.1, outcome);
        }
        PendingAgentRequest::Resume { session } => {
            session_resumed(core, process, &session, &outcome, line);
        }
        PendingAgentRequest::Recreate { session, tries } => {
            session_recreated(core, process, &session, &outcome, tries, line);
        }
        // The response is recorded first, and the client's reply waits for that record: after a crash, the
        // log knows at least as much as the client.
        PendingAgentRequest::Prompt { session, client, .. } => {
            // The response is recorded first, and the client's reply waits for that record: after a
            // crash, the log knows at least as much as the client.
            let after = core.append(&session, Channel::ToClient, line);
            // The turn may have ended before the agent responded to the prompt.
            let state = core.sessions.get(&session).and_then(|session| session.state.as_ref());
            let ended = state.and_then(|state| state.end_of(&response.id));
            let outcome = core.cx.clients.of_turn(client.0, outcome, ended.as_deref());
            let is_error = outcome.is_error();
            core.reply_after(client.0, &client.1, outcome, after.map(|after| (&session, after)));
            if is_error {
                core.run_next_prompt(&session);
            }
        }
        PendingAgentRequest::Forwarded { session, client } => {
            let after = session.as_ref().and_then(|session| core.append(session, Channel::ToClient, line));
            let after = session.as_ref().zip(after);
            core.reply_after(client.0, &client.1, outcome, after);
        }
        PendingAgentRequest::Fork { params, of, client } => {
            forked(core, process, &params, &of, client, &outcome, &response.id, line);
        }
        PendingAgentRequest::Close => {}
        // The clients have been told that the turn is over. The late response is recorded for diagnostics only.
        PendingAgentRequest::Abandoned { session } => {
            let late = json!({"from": Side::Agent, "late": serde_json::from_str::<serde_json::Value>(line).unwrap_or_default()});
            let _ = core.append(&session, Channel::Diagnostic, late.to_string());
        }
    }
}

pub(super) fn agent_initialized(core: &mut Core, process: AgentId, outcome: &Outcome, line: &str) {
    let Outcome::Result(result) = outcome else {
        let reason = match outcome {
            Outcome::Error(error) => format!("the agent refused the handshake: {error}"),
            Outcome::Result(_) => String::new(),
        };
        core.cx.outbox.push(Output::EndAgent { process });
        return agent_process::agent_exited(core, process, &reason, &[]);
    };
    let Some(known) = core.cx.agents.processes.get_mut(&process) else { return };
    let waiting = known.complete_handshake(line);
    let (agent, version) = (known.agent, known.version);
    if let Some(description) = core.cx.agents.descriptions.get_mut(agent) {
        *description = Some(Arc::new(Description { result: result.clone(), version }));
    }
    let resuming: Vec<SessionId> = core
        .sessions
        .values()
        .filter(|session| session.process == Some(process) && session.is_resuming)
        .map(|session| Arc::clone(session.id()))
        .collect();
    // Resumed before waiting messages are dispatched, because those may be prompts of the same sessions.
    for session in resuming {
        if let Some((session, cx)) = core.session(&session) {
            Lifecycle::of(session, cx).resume_session(process);
        }
    }
    for (connection, message) in waiting {
        requests::dispatch(core, connection, &message);
    }
}

/// Handles the response to `session/resume`: the session continues, or the agent has lost it.
pub(super) fn session_resumed(
    core: &mut Core,
    process: AgentId,
    id: &SessionId,
    outcome: &Outcome,
    line: &str,
) {
    let _ = core.append(id, Channel::ToClient, line);
    if outcome.is_error() {
        if let Some((session, cx)) = core.session(id) {
            Lifecycle::of(session, cx).recreate_session(process, 0);
        }
        return;
    }
    agent_ready(core, id);
}

/// Handles the response to the `session/new` that replaces a lost session.
pub(super) fn session_recreated(
    core: &mut Core,
    process: AgentId,
    id: &SessionId,
    outcome: &Outcome,
    tries: usize,
    line: &str,
) {
    let result = match outcome {
        Outcome::Result(result) => Raw::parse(result.as_str()).ok(),
        Outcome::Error(_) => None,
    };
    let agent_session = lines::text_of(result.as_ref(), "sessionId").map(std::borrow::Cow::into_owned);
    let Some(agent_session) = agent_session else {
        let error = match outcome {
            Outcome::Error(error) => serde_json::from_str(error).unwrap_or_default(),
            Outcome::Result(_) => serde_json::Value::Null,
        };
        let reason = error["message"].as_str().unwrap_or("the agent gave no reason").to_owned();
        let message = format!("the agent has lost this session and did not create a new one: {reason}");
        let error = Outcome::error(codes::INTERNAL_ERROR, message, Some(json!({"agentError": error})));
        if let Some((session, cx)) = core.session(id) {
            Lifecycle::of(session, cx).resume_failed(&error);
        }
        return;
    };
    // An agent that numbers its sessions from the start may reuse the id of an old one. Its updates would be
    // attributed to that session.
    let is_old = core.sessions.get(id).and_then(|session| session.state.as_ref());
    if is_old.is_some_and(|state| state.is_own(&agent_session)) && tries < MAX_RECREATIONS {
        if let Some((session, cx)) = core.session(id) {
            Lifecycle::of(session, cx).recreate_session(process, tries + 1);
        }
        return;
    }
    let before = core.sessions.get(id).and_then(|session| session.agent_session().map(str::to_owned));
    // Written first: readers of the log need the new id before the first update of the new session.
    let record = AgentSessionRecord::new(&*agent_session);
    core.append_hub_record(
        id,
        &HubRecord::AgentSession(AgentSessionRecord { was: before.map(Into::into), ..record }),
    );
    let offset = core.append(id, Channel::ToClient, line).unwrap_or_default();
    // A transcript entry, so that it keeps its position in history, exports and replays. The sequence number of the
    // record makes its id unique.
    let divider = json!({
        "sessionUpdate": "compaction_update", "compactionId": format!("switchboard-memory-lost-{offset}"),
        "status": "completed", "summary": [{"type": "text", "text": FORGOTTEN}], "_meta": MEMORY_LOST.meta(true).as_raw(),
    });
    let _ = core.append(id, Channel::ToClient, lines::update(&agent_session, &divider.to_string()));
    core.cx.outbox.push(Output::Changed { session: Arc::clone(id) });
    lifecycle::bind_agent_session(core, process, id, &agent_session);
    agent_ready(core, id);
}

/// Runs everything that waited until a session has an agent.
pub(super) fn agent_ready(core: &mut Core, id: &SessionId) {
    let Some(session) = core.sessions.get_mut(id) else { return };
    // Waiting requests run before queued prompts: they arrived first, and one of them may cancel a prompt.
    session.is_resuming = false;
    let waiting = std::mem::take(&mut session.waiting);
    for (connection, message) in waiting {
        requests::dispatch(core, connection, &message);
    }
    core.run_next_prompt(id);
}

/// Creates a log for a copy that the agent has made with `session/fork`.
#[allow(clippy::too_many_arguments)]
pub(super) fn forked(
    core: &mut Core,
    process: AgentId,
    params: &Raw<'_>,
    of: &SessionId,
    client: (ConnectionId, RequestId<'static>),
    outcome: &Outcome,
    request: &RequestId<'_>,
    line: &str,
) {
    if outcome.is_error() {
        return core.cx.reply(client.0, &client.1, outcome.clone());
    }
    let original = core.sessions.get(of).map(|session| (session.info.folder.clone(), session.title()));
    let Some((folder, title)) = original else {
        let message = format!("session {of} has been deleted meanwhile");
        return core.cx.refuse(client.0, &client.1, codes::RESOURCE_NOT_FOUND, message, None);
    };
    let request = lines::call(
        Some(request),
        "session/fork",
        Some(params),
        Rewrite { drops_hub_meta: true, ..Rewrite::default() },
    );
    lifecycle::create_forked(
        core,
        process,
        folder,
        client,
        Fork { request, answer: line.to_owned(), outcome: outcome.clone(), title },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_cannot_speak_for_its_sandbox() {
        let line = r#"{"method":"session/update","params":{"sessionId":"s","update":{"title":"x","_meta":{"a":1,"switchboard/sandbox":{"denied":"host"}}}}}"#;
        let changed = without_sandbox_claim(line).unwrap();
        assert!(!changed.contains("switchboard/sandbox") && changed.contains("\"a\":1"), "{changed}");
        let escaped = line.replace("switchboard/sandbox", "\\u0073witchboard/sandbox");
        assert!(!without_sandbox_claim(&escaped).unwrap().contains("witchboard/sandbox"));
        assert_eq!(without_sandbox_claim(&line.replace("switchboard/", "other/")), None);
    }
}
