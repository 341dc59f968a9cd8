//! Requests of clients, method by method.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::Raw;
use switchboard_acp::detect::Handshake;
use switchboard_acp::extensions::{CURSOR, NATIVE_VERSION, OPERATION_ID, REPORTS_TURNS};
use switchboard_acp::rpc::{RequestId, codes};
use switchboard_store::{Channel, Role};

use super::agent_process::{self, AgentProcess, PendingAgentRequest};
use super::connection::{Connection, Start};
use super::delivery::Delivery;
use super::lifecycle::{self, Lifecycle};
use super::lines::{self, Outcome};
use super::questions::Questions;
use super::requests::{self, ClientRequest, Refusal, TargetSession, WAITING, client_mut};
use super::services::Services;
use super::session::{Prompt, Session};
use super::{ConnectionId, Core, SessionId, forwarding, message_lookup};

/// Error code of `session/attach` for an unsupported parameter.
const UNSUPPORTED: i32 = -32003;
/// Maximum number of queued prompts of one session.
const PROMPTS: usize = 256;

pub(super) fn initialize(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let Some(client) = core.cx.clients.connections.get_mut(&connection) else { return Ok(()) };
    let number = Handshake::of_request(params).number;
    if number.is_none_or(|number| number < 2) {
        let data = json!({"requested": number, "supported": [1, 2]});
        let message = "at /params/protocolVersion: unsupported version; this hub supports 1 and 2".to_owned();
        return Err((codes::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data)));
    }
    if let Some(info) = params.and_then(|params| params.get("info").map(Raw::into_owned)) {
        let word = |key: &str| {
            let text = lines::text_of(Some(&info), key).unwrap_or_default();
            text.chars().take(200).collect::<String>()
        };
        client.client = (word("name"), word("version"));
    }
    let capabilities = params.and_then(|params| params.get("capabilities").map(Raw::into_owned));
    client.wants_native = params.and_then(|params| NATIVE_VERSION.of(params)) == Some(1);
    let offered = capabilities.as_ref().filter(|_| client.wants_native);
    client.services = offered.map(|known| Services::of(known, connection)).unwrap_or_default();
    let elicitation = capabilities.and_then(|known| known.get("elicitation").map(Raw::into_owned));
    let can = |mode: &str| {
        elicitation.as_ref().is_some_and(|known| known.get(mode).is_some_and(|mode| mode.is_object()))
    };
    client.wants_turn_end = params.is_some_and(|params| REPORTS_TURNS.is_set(params));
    (client.can_show_forms, client.can_open_addresses) = (can("form"), can("url"));
    let agent = client.agent;
    let Some(description) = core.cx.agents.descriptions.get(agent).cloned().flatten() else {
        // The agent must complete its handshake first, which provides the description.
        if core.cx.ready_agent(agent, connection, line).is_some() {
            let message = "the agent has not reported its capabilities".to_owned();
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        return Ok(());
    };
    client_mut(core, connection, |client| client.is_initialized = true);
    let answer = super::capabilities::of_hub(&description);
    core.cx.reply(connection, id, Outcome::Result(answer));
    let may_hear = core.cx.clients.connections.get(&connection).is_some_and(Connection::receives_broadcasts);
    let process = core
        .cx
        .agents
        .process_of(agent)
        .filter(|_| may_hear)
        .and_then(|process| core.cx.agents.processes.get(&process));
    for line in process.map(AgentProcess::broadcasts).unwrap_or_default() {
        core.cx.outbox.send(connection, line, None);
    }
    Ok(())
}

pub(super) fn new_session(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    core.cx.may_begin()?;
    let (folder, params) = core.cx.access().folders(params)?;
    let Some(agent) = core.cx.clients.connections.get(&connection).map(|client| client.agent) else {
        return Ok(());
    };
    core.cx.may_attach(connection, None)?;
    let roots = core.cx.access().roots(&folder, &params)?;
    if let Some(process) = core.cx.ready_agent_for(agent, connection, line, roots) {
        lifecycle::open_session(core, process, folder, &params, (connection, id.clone()));
    }
    Ok(())
}

/// Adopts a session that only the agent has, with its history.
pub(super) fn adopt(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    core.cx.may_begin()?;
    let (folder, resolved) = core.cx.access().folders(params)?;
    let Some(name) = lines::text_of(params, "sessionId") else {
        let message = "at /params/sessionId: missing session id".to_owned();
        return Err((codes::INVALID_PARAMS, message, None));
    };
    let Some(agent) = core.cx.clients.connections.get(&connection).map(|client| client.agent) else {
        return Ok(());
    };
    core.cx.may_attach(connection, None)?;
    let agent_name = core.cx.options.agents.get(agent);
    let constant_time_eq = |session: &&Session| {
        Some(&session.info.agent) == agent_name && session.agent_session_known() == Some(&*name)
    };
    if let Some(known) = core.sessions.values().find(constant_time_eq) {
        let message = format!("the hub already has this session, as {}", known.id());
        return Err((codes::INVALID_PARAMS, message, Some(json!({"sessionId": &**known.id()}))));
    }
    let roots = core.cx.access().roots(&folder, &resolved)?;
    if let Some(process) = core.cx.ready_agent_for(agent, connection, line, roots) {
        let client = (connection, id.clone());
        lifecycle::adopt_session(core, process, folder, name.into_owned(), &resolved, client);
    }
    Ok(())
}

/// Forwards a request about the sessions that the agent itself has.
pub(super) fn query_agent_sessions(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, method, params, line } = request;
    // `session/unarchive` also gets here, with a session that the hub does not have.
    core.cx.access().require_role(connection, Role::Admin)?;
    core.cx.may_begin()?;
    if !matches!(method, "session/list" | "session/unarchive") {
        let message = format!("{method} is not supported for the agent's own sessions");
        return Err((codes::INVALID_PARAMS, message, None));
    }
    let Some(agent) = core.cx.clients.connections.get(&connection).map(|client| client.agent) else {
        return Ok(());
    };
    if let Some(process) = core.cx.ready_agent(agent, connection, line) {
        let purpose = PendingAgentRequest::AgentSessions { client: (connection, id.clone()) };
        agent_process::send_request(core, process, None, method, params, None, purpose)?;
    }
    Ok(())
}

/// Attaches a client with `session/resume`, with or without history or after a cursor.
pub(super) fn resume_session_request(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let session = requests::target_session(core, connection, params)?
        .root("cannot attach to a sub-agent; attach to the session that started it")?;
    core.cx.may_attach(connection, Some(&session))?;
    same_folder(core, &session, params)?;
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    let Some(known) = core.sessions.get(&session) else { return Ok(()) };
    let start = match params.map(|params| (CURSOR.of(params), params.get("replayFrom"))).unwrap_or_default() {
        (Some(cursor), _) => {
            match lines::parse_cursor(&session, &cursor).filter(|held| held.end <= known.next) {
                Some(held) => Start::After(held),
                None => {
                    let cursor = lines::truncated(&cursor);
                    let message =
                        format!("unknown cursor {cursor} for session {session}; resume with replayFrom");
                    let data = json!({"cursor": cursor, "reason": "unknown_cursor"});
                    return Err((codes::INVALID_PARAMS, message, Some(data)));
                }
            }
        }
        (None, Some(from)) if from.is_object() => {
            let kind = from.get("type").and_then(|kind| kind.as_text().map(std::borrow::Cow::into_owned));
            if kind.as_deref() != Some("start") {
                let message = "at /params/replayFrom: expected {\"type\": \"start\"}".to_owned();
                return Err((codes::INVALID_PARAMS, message, None));
            }
            Start::Beginning
        }
        _ => Start::Now,
    };
    let answer = Outcome::Result(known.opened_result());
    if let Some((session, cx)) = core.session(&session) {
        Delivery::of(session, cx).attach(connection, start, Some((id.clone(), answer)));
    }
    Ok(())
}

pub(super) fn same_folder(core: &Core, id: &SessionId, params: Option<&Raw<'_>>) -> Result<(), Refusal> {
    let Some(session) = core.sessions.get(id) else { return Ok(()) };
    // The folder of another hub's session need not exist on this machine.
    if !session.is_owned && lines::text_of(params, "cwd").as_deref() == Some(&*session.info.folder) {
        return Ok(());
    }
    let folder = core.cx.access().folder(params)?;
    if session.info.folder != folder {
        let message = format!("at /params/cwd: the working folder of the session is {}", session.info.folder);
        return Err((codes::INVALID_PARAMS, message, Some(json!({"cwd": session.info.folder}))));
    }
    Ok(())
}

pub(super) fn attach_request(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let session = requests::target_session(core, connection, params)?
        .root("cannot attach to a sub-agent; attach to the session that started it")?;
    core.cx.may_attach(connection, Some(&session))?;
    let policy = lines::text_of(params, "historyPolicy");
    let policy = policy.as_deref().unwrap_or("full").to_owned();
    if !matches!(&*policy, "full" | "pending_only" | "none" | "after_message") {
        let policy = lines::truncated(&policy);
        let message = format!(
            "at /params/historyPolicy: {policy} is not supported; use full, after_message, pending_only or none"
        );
        return Err((UNSUPPORTED, message, None));
    }
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    let start = match &*policy {
        "after_message" => return message_lookup::find_message(core, connection, id, &session, params),
        "full" => Start::Beginning,
        _ => Start::Now,
    };
    attach_with_history(core, connection, id, &session, start, &policy);
    Ok(())
}

/// Attaches a client with a history policy of `session/attach`.
pub(super) fn attach_with_history(
    core: &mut Core,
    connection: ConnectionId,
    id: &RequestId<'static>,
    session: &SessionId,
    start: Start,
    policy: &str,
) {
    let Some(known) = core.sessions.get(session) else { return };
    let cluster = known.subscribers.iter().chain([&connection]).collect::<std::collections::BTreeSet<_>>();
    let clients: Vec<serde_json::Value> = cluster
        .into_iter()
        .filter_map(|id| core.cx.clients.connections.get(id).map(|client| (id, client)))
        .map(|(id, client)| {
            json!({"clientId": id.to_string(), "name": client.client.0, "version": client.client.1})
        })
        .collect();
    let result = json!({
        "sessionId": &**session, "clientId": connection.to_string(), "historyPolicy": policy,
        "connectedClients": clients,
    });
    if let Some((session, cx)) = core.session(session) {
        Delivery::of(session, cx).attach(
            connection,
            start,
            Some((id.clone(), Outcome::Result(result.to_string()))),
        );
    }
    client_mut(core, connection, |client| {
        if let Some(subscription) = client.subscriptions.get_mut(session) {
            subscription.wants_notices = true;
        }
    });
}

pub(super) fn detach_request(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, .. } = request;
    let TargetSession { session, .. } = requests::target_session(core, connection, params)?;
    if let Some((session, cx)) = core.session(&session) {
        Delivery::of(session, cx).detach(connection);
    }
    let result = json!({"sessionId": &*session, "status": "detached"});
    core.cx.reply(connection, id, Outcome::Result(result.to_string()));
    Ok(())
}

/// Queues a prompt. A duplicate by its idempotency key is not queued again.
pub(super) fn queue_prompt(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    core.cx.may_begin()?;
    let session = requests::target_session(core, connection, params)?
        .root("cannot prompt a sub-agent; prompt the session that started it")?;
    core.cx.may_attach(connection, Some(&session))?;
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    if !core.is_owner(&session) {
        if let Some((session, cx)) = core.session(&session) {
            Delivery::of(session, cx).attach_prompter(connection);
            Questions::of(session, cx).ask_at_prompt(connection);
        }
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    let operation = params.and_then(|params| OPERATION_ID.of(params));
    if let Some(operation) = &operation
        && core
            .session(&session)
            .is_some_and(|(session, cx)| Lifecycle::of(session, cx).is_duplicate(connection, id, operation))
    {
        return Ok(());
    }
    let Some((session, cx)) = core.session(&session) else { return Ok(()) };
    if session.prompts.len() >= PROMPTS {
        let message = format!("{PROMPTS} prompts are already queued in this session; wait for a turn to end");
        return Err((codes::INTERNAL_ERROR, message, None));
    }
    let params = params.map_or_else(|| Raw::from(json!({})), Raw::to_shared);
    let is_held = session.is_busy();
    session.prompts.push_back(Prompt { connection, id: id.clone(), params, operation, redeliveries: 0 });
    cx.outbox.summary_version += u64::from(is_held);
    Delivery::of(session, cx).attach_prompter(connection);
    Questions::of(session, cx).ask_at_prompt(connection);
    Lifecycle::of(session, cx).run_next_prompt();
    Ok(())
}

pub(super) fn close_session(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let session = requests::target_session(core, connection, params)?
        .root("cannot close a sub-agent; close the session that started it")?;
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    let by = core.cx.clients.author(connection);
    if let Some((session, cx)) = core.session(&session) {
        Lifecycle::of(session, cx).close(by);
    }
    core.cx.reply(connection, id, Outcome::Result("{}".to_owned()));
    Ok(())
}

pub(super) fn delete_session(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let named = requests::target_session(core, connection, params);
    let session = match named
        .and_then(|named| named.root("cannot delete a sub-agent; delete the session that started it"))
    {
        Ok(session) => session,
        // Deleting a session that does not exist succeeds.
        Err((codes::RESOURCE_NOT_FOUND, ..)) => {
            core.cx.reply(connection, id, Outcome::Result("{}".to_owned()));
            return Ok(());
        }
        Err(refusal) => return Err(refusal),
    };
    may_delete(core, connection, &session)?;
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    let by = core.cx.clients.author(connection);
    if let Some((session, cx)) = core.session(&session) {
        let (process, agent_session) = (session.process, session.agent_session().map(str::to_owned));
        let mut lifecycle = Lifecycle::of(session, cx);
        lifecycle.close(by);
        if let (Some(process), Some(agent_session)) = (process, agent_session) {
            let params = json!({"sessionId": agent_session});
            lifecycle.send_hub_request(process, "session/delete", &params, PendingAgentRequest::Close);
        }
    }
    core.cx.reply(connection, id, Outcome::Result("{}".to_owned()));
    lifecycle::discard_session(core, &session);
    Ok(())
}

/// Checks that a client may delete a session. A session that is only shared with it may not be deleted.
pub(super) fn may_delete(core: &Core, connection: ConnectionId, session: &SessionId) -> Result<(), Refusal> {
    let (Some(client), Some(known)) =
        (core.cx.clients.connections.get(&connection), core.sessions.get(session))
    else {
        return Ok(());
    };
    // A forwarded request was checked by the hub of the client, which has the token and its shares.
    if client.forwarded_key.is_some()
        || client.identity.role >= Role::Admin
        || known.is_started_by(&client.identity)
    {
        return Ok(());
    }
    let role = client.identity.role.to_string();
    let message =
        format!("the role {role} of this token allows it to delete only the sessions that it started");
    Err((super::FORBIDDEN, message, Some(json!({"role": role, "needs": Role::Admin.to_string()}))))
}

/// Renames a session. If the agent keeps no titles, the title is recorded in the log.
pub(super) fn set_title(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, line, .. } = request;
    let TargetSession { session, child } = requests::target_session(core, connection, params)?;
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    if child.is_some() || agent_keeps_titles(core, &session) {
        return forward_request_to_agent(core, request);
    }
    let title = lines::text_of(params, "title").unwrap_or_default().trim().to_owned();
    if title.is_empty() {
        return Err((codes::INVALID_PARAMS, "the title must not be empty".to_owned(), None));
    }
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    let Some(own) = core.sessions.get(&session).and_then(Session::agent_session_known) else {
        let message = "the agent has not opened this session yet; send a prompt first".to_owned();
        return Err((codes::INTERNAL_ERROR, message, None));
    };
    let update = json!({"sessionUpdate": "session_info_update", "title": title}).to_string();
    let update = lines::update(own, &update);
    let _ = core.append(&session, Channel::ToClient, update);
    core.cx.reply(connection, id, Outcome::Result(json!({"title": title}).to_string()));
    Ok(())
}

/// Returns whether the agent of a session keeps titles itself.
pub(super) fn agent_keeps_titles(core: &Core, session: &SessionId) -> bool {
    let agent = core.sessions.get(session).map(|session| &session.info.agent);
    let offset = core.cx.options.agents.iter().position(|known| Some(known) == agent);
    let description = offset.and_then(|offset| core.cx.agents.descriptions.get(offset)?.as_deref());
    description.is_some_and(super::capabilities::has_titles)
}

/// Forwards any other request to the agent.
pub(super) fn forward_request_to_agent(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, method, params, line } = request;
    core.cx.may_begin()?;
    // Independent of the method: an agent must not get folders outside those in which sessions may work.
    core.cx.access().more_folders(params)?;
    let client = (connection, id.clone());
    if lines::text_of(params, "sessionId").is_none() {
        let Some(agent) = core.cx.clients.connections.get(&connection).map(|client| client.agent) else {
            return Ok(());
        };
        if let Some(process) = core.cx.ready_agent(agent, connection, line) {
            let purpose = PendingAgentRequest::Forwarded { session: None, client };
            agent_process::send_request(core, process, None, method, params, None, purpose)?;
        }
        return Ok(());
    }
    let TargetSession { session, child } = requests::target_session(core, connection, params)?;
    let mut resolved = None;
    if method == "session/fork" {
        core.cx.may_attach(connection, None)?;
        same_folder(core, &session, params)?;
        if core.is_owner(&session) {
            resolved = Some(core.cx.access().folders(params)?.1);
        }
    }
    let params = resolved.as_ref().or(params);
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line);
    }
    if !requests::is_loaded(core, &session, connection, line)? {
        return Ok(());
    }
    if !core.session(&session).is_some_and(|(session, cx)| Lifecycle::of(session, cx).ensure_agent()) {
        if let Some(known) = core.sessions.get_mut(&session)
            && (known.is_resuming || known.process.is_some() || known.parked.is_some())
            && known.waiting.len() < WAITING
        {
            known.waiting.push_back((connection, line.clone()));
        } else {
            let message = "this session has no running agent".to_owned();
            return Err((codes::INTERNAL_ERROR, message, None));
        }
        return Ok(());
    }
    let Some(known) = core.sessions.get(&session) else { return Ok(()) };
    let (Some(process), Some(own)) = (known.process, known.agent_session().map(str::to_owned)) else {
        return Ok(());
    };
    let name = child.unwrap_or(own);
    let purpose = match (method, params) {
        ("session/fork", Some(params)) => {
            PendingAgentRequest::Fork { params: params.to_shared(), of: Arc::clone(&session), client }
        }
        _ => PendingAgentRequest::Forwarded { session: Some(Arc::clone(&session)), client },
    };
    agent_process::send_request(core, process, Some(&session), method, params, Some(&name), purpose)
}
