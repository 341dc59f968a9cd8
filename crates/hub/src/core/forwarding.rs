//! Forwarding of requests between hubs that share a log.
//!
//! A request for a session of another hub is forwarded to the owner and repeated until the owner replies. Every
//! forwarded request has an idempotency key, so the owner executes it once.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::extensions::{Author, OPERATION_ID};
use switchboard_acp::rpc::codes;
use switchboard_acp::{Raw, Side};
use switchboard_store::Role;

use super::client_message::ClientMessage;
use super::lines::{self, Outcome};
use super::notices::ClientAction;
use super::outbox::Dropped;
use super::questions::Questions;
use super::requests::{self, Refusal, WAITING};
use super::{ConnectionId, Core, Identity, Output, SessionId, notifications};

/// Connection ids of forwarded requests start here. Those of real connections never get this large.
const FIRST_FORWARDED_ID: ConnectionId = 1 << 62;
/// Maximum number of forwarded requests without a reply.
const MAX_FORWARDED: usize = 10_000;

/// A request that was forwarded to another hub.
#[derive(Debug)]
pub(super) struct ForwardedRequest {
    pub(super) session: SessionId,
    pub(super) hub: Arc<str>,
    pub(super) message: Arc<str>,
    /// The client and its line; `None` for answers to questions, which may be lost without harm.
    pub(super) client: Option<(ConnectionId, ClientMessage)>,
    /// True if it must be sent again.
    pub(super) is_due: bool,
    /// True if the hub has replied that it is not the owner.
    pub(super) is_refused: bool,
    /// True if the owner sends the response to a later duplicate instead.
    pub(super) is_superseded: bool,
}

/// A request that another hub has forwarded to this one.
#[derive(Debug)]
pub(super) struct ReceivedRequest {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    /// Sequence number of the session's last record, which the response must not overtake. `None` if the session was
    /// removed.
    pub(super) last: Option<u64>,
}

/// Forwards a message to the owner of a session. If the owner is unknown, the message waits until this hub has
/// found it or has become the owner itself.
pub(super) fn forward_to_owner(
    core: &mut Core,
    id: &SessionId,
    connection: ConnectionId,
    line: &ClientMessage,
) -> Result<(), Refusal> {
    if let Some(key) =
        core.cx.clients.connections.get(&connection).and_then(|client| client.forwarded_key.clone())
    {
        core.cx.reject_not_owner(key, id);
        return Ok(());
    }
    let Some(session) = core.sessions.get_mut(id) else { return Ok(()) };
    let hub = session.hub.clone().filter(|hub| core.cx.cluster.hubs.contains_key(hub));
    if let Some(hub) = hub {
        return forward_request(core, hub, id, connection, line);
    }
    if session.waiting.len() >= WAITING {
        return Err((
            codes::INTERNAL_ERROR,
            "too many messages wait for this session; try again later".to_owned(),
            None,
        ));
    }
    session.waiting.push_back((connection, line.clone()));
    if let Some((session, cx)) = core.session(id) {
        session.acquire(cx);
    }
    Ok(())
}

pub(super) fn forward_request(
    core: &mut Core,
    hub: Arc<str>,
    id: &SessionId,
    connection: ConnectionId,
    line: &ClientMessage,
) -> Result<(), Refusal> {
    let Some(client) = core.cx.clients.connections.get(&connection) else { return Ok(()) };
    if core.cx.cluster.forwarded.len() >= MAX_FORWARDED {
        let message = "too many requests wait for other hubs; try again later".to_owned();
        return Err((codes::INTERNAL_ERROR, message, None));
    }
    let ticket = core.cx.outbox.next_ticket();
    let line = core.cx.with_idempotency_key(line, ticket);
    // Visibility of the session was checked before.
    let Identity { name, role, all: _, made } = &client.identity;
    let message = json!({
        "session": &**id, "line": line.text(), "client": client.client, "turns": client.wants_turn_end,
        "who": {"name": &**name, "role": role.to_string(), "made": made},
    });
    if let Some(request) = line.request()
        && request.method == "session/prompt"
        && let Some(name) = request.params.as_ref().and_then(|params| OPERATION_ID.of(params))
    {
        core.cx.cluster.record_action(id, ClientAction::Prompt(name), connection);
    }
    core.cx.send_forwarded(ticket, hub, id, &message, Some((connection, line)));
    Ok(())
}

/// Forwards the answer of a client to a question of a session of another hub.
pub(super) fn forward_answer(
    core: &mut Core,
    id: &SessionId,
    offset: u64,
    outcome: &Outcome,
    by: &Author<'_>,
    (connection, line): (ConnectionId, &ClientMessage),
) {
    let hub = core.sessions.get(id).and_then(|session| session.hub.clone());
    let Some(hub) = hub.filter(|hub| core.cx.cluster.hubs.contains_key(hub)) else {
        // If too many messages wait, the answer is dropped like one that arrives too late.
        if forward_to_owner(core, id, connection, line).is_err() {
            core.cx.outbox.drop_message(Dropped::LateAnswer);
        }
        return;
    };
    // The client that has answered gets no cancellation for its own question.
    if let Some(client) = core.cx.clients.connections.get_mut(&connection)
        && let Some(number) = client.subscriptions.get_mut(id).and_then(|known| known.asked.remove(&offset))
    {
        client.questions.close(Side::Agent, &number.into());
    }
    core.cx.cluster.record_action(id, ClientAction::Answer(offset), connection);
    let (key, text) = outcome_text(outcome);
    let ticket = core.cx.outbox.next_ticket();
    let message = json!({"session": &**id, "question": offset, key: text, "by": by});
    core.cx.send_forwarded(ticket, hub, id, &message, None);
}

/// Handles the reply of another hub; `None` if it did not reply in time.
pub(super) fn forward_answered(core: &mut Core, ticket: u64, reply: Option<&str>) {
    let Some(forwarded) = core.cx.cluster.forwarded.get_mut(&ticket) else {
        return core.cx.outbox.drop_message(Dropped::UnknownResponse);
    };
    let Some(reply) = reply.and_then(|reply| serde_json::from_str::<Value>(reply).ok()) else {
        forwarded.is_due = true;
        return;
    };
    if reply.get("elsewhere").is_some() {
        // Retried after a pause: the next owner may need a moment.
        (forwarded.is_due, forwarded.is_refused) = (true, true);
        return;
    }
    // The owner sends the response to a duplicate, possibly an older one over a connection that is closed by now.
    // If the client still waits here, the request is sent again and gets the outcome that is known by then.
    if reply.get("taken").is_some() && core.cx.is_awaited(ticket) {
        if let Some(forwarded) = core.cx.cluster.forwarded.get_mut(&ticket) {
            (forwarded.is_due, forwarded.is_superseded) = (true, true);
        }
        return;
    }
    let Some(ForwardedRequest { session, client, .. }) = core.cx.cluster.forwarded.remove(&ticket) else {
        return;
    };
    let word = |key: &str| reply.get(key).and_then(Value::as_str).map(str::to_owned);
    let outcome = word("result").map(Outcome::Result).or(word("error").map(Outcome::Error));
    let (Some(outcome), Some((connection, line))) = (outcome, client) else { return };
    let Some(request) = line.request() else { return };
    // The response must not overtake the records before it. It may arrive after the end of the turn that it belongs
    // to.
    let after = reply.get("after").and_then(Value::as_u64);
    let ended = ended_before(core, &session, connection, request.params.as_ref(), after);
    let outcome = match &ended {
        Some(ended) => core.cx.clients.of_turn(connection, outcome, Some(ended)),
        None => outcome,
    };
    let request = &request.id;
    match reply["declined"] == true {
        true => core.cx.decline(connection, request, outcome),
        false => core.reply_after(connection, request, outcome, after.map(|after| (&session, after))),
    }
}

/// Sends a forwarded request again, as a new request.
pub(super) fn resend_forwarded(core: &mut Core, ticket: u64) {
    let Some(ForwardedRequest { client: Some((connection, line)), .. }) =
        core.cx.cluster.forwarded.remove(&ticket)
    else {
        return;
    };
    requests::dispatch(core, connection, &line);
}

/// Fails forwarded requests when the servers of the log have been unreachable for too long.
pub(super) fn fail_forwarded(core: &mut Core, problem: &str) {
    // Answers to questions remain: their clients do not wait for a response.
    let tickets: Vec<u64> = core
        .cx
        .cluster
        .forwarded
        .iter()
        .filter(|(_, forwarded)| forwarded.client.is_some())
        .map(|(ticket, _)| *ticket)
        .collect();
    for ticket in tickets {
        let Some((connection, line)) =
            core.cx.cluster.forwarded.remove(&ticket).and_then(|forwarded| forwarded.client)
        else {
            continue;
        };
        let message = format!(
            "{problem}; the request was forwarded to the hub that owns the session, and its outcome is unknown; check \
             the session when the log can be reached again"
        );
        core.cx.refuse_waiting(connection, &line, &Outcome::error(codes::INTERNAL_ERROR, message, None));
    }
}

/// Returns the outcome of the turn of a prompt, if its client has already been told.
pub(super) fn ended_before(
    core: &Core,
    id: &SessionId,
    connection: ConnectionId,
    params: Option<&Raw<'_>>,
    after: Option<u64>,
) -> Option<String> {
    let session = core.sessions.get(id)?;
    let subscription = core.cx.clients.connections.get(&connection)?.subscriptions.get(id)?;
    let is_delivered =
        subscription.offset >= session.next && after.is_none_or(|after| subscription.offset > after);
    let operation = params.and_then(|params| OPERATION_ID.of(params)).filter(|_| is_delivered)?;
    session.state.as_ref()?.operation(&operation)?.ended.clone()
}

/// Retries a forwarded request that did not reach the owner, after finding the owner again.
pub(super) fn retry_forwarded(core: &mut Core, ticket: u64, was_refused: bool) {
    let Some(ForwardedRequest { session: id, client, .. }) = core.cx.cluster.forwarded.remove(&ticket) else {
        return;
    };
    let Some((connection, line)) = client else { return };
    let request = line.request();
    let Some(session) = core.sessions.get_mut(&id) else {
        if let Some(request) = request {
            let message = format!("session {id} no longer exists");
            core.cx.refuse(connection, &request.id, codes::RESOURCE_NOT_FOUND, message, None);
        }
        return;
    };
    if was_refused {
        session.hub = None;
    }
    // These methods are idempotent: the log contains the key of a prompt that has started, and closing or deleting
    // twice has the same result.
    let is_safe = |method: &str| matches!(method, "session/prompt" | "session/close" | "session/delete");
    match request {
        Some(request) if !was_refused && !is_safe(&request.method) => {
            let message = "the hub that owned the session disappeared before it replied; check the session and try again";
            core.cx.refuse(connection, &request.id, codes::INTERNAL_ERROR, message, None);
        }
        // A cancellation does not apply to work that ended with its hub.
        None if !was_refused => core.cx.outbox.drop_message(Dropped::LateCancellation),
        _ if session.is_owned => requests::dispatch(core, connection, &line),
        _ => {
            session.waiting.push_back((connection, line));
            if let Some((session, cx)) = core.session(&id) {
                session.acquire(cx);
            }
        }
    }
}

/// Handles a request that another hub has forwarded, with its idempotency key.
pub(super) fn receive_forwarded(core: &mut Core, key: &str, message: &str) {
    let Ok(message) = serde_json::from_str::<Value>(message) else {
        return core.cx.outbox.drop_message(Dropped::InvalidForwardedRequest);
    };
    let word = |key: &str| message.get(key).and_then(Value::as_str);
    let Some(id) = word("session").map(SessionId::from) else {
        return core.cx.outbox.drop_message(Dropped::InvalidForwardedRequest);
    };
    let replies = core.cx.cluster.replies.get(&id, key).cloned();
    if let Some(Outcome::Result(text) | Outcome::Error(text)) = replies {
        core.cx.outbox.push(Output::ForwardReply { key: key.to_owned(), session: id, text });
        return;
    }
    if !core.sessions.get(&id).is_some_and(|session| session.is_owned) {
        return core.cx.reject_not_owner(key.to_owned(), &id);
    }
    if core.cx.cluster.received.contains_key(key) {
        return core.cx.outbox.drop_message(Dropped::DuplicateRequest);
    }
    if let Some(cancelled) = word("cancel") {
        cancel_received(core, cancelled);
        return core.cx.send_forward_reply(key, &id, &json!({"taken": true}));
    }
    if let Some(offset) = message.get("question").and_then(Value::as_u64) {
        let outcome = word("result").map(|text| Outcome::Result(text.to_owned()));
        let outcome = outcome.or_else(|| word("error").map(|text| Outcome::Error(text.to_owned())));
        if let (Some(outcome), Some((session, cx))) = (outcome, core.session(&id)) {
            let by = Author::from_value(&message["by"]);
            Questions::of(session, cx).settle(offset, &outcome, &by, None);
        }
        return core.cx.send_forward_reply(key, &id, &json!({"taken": true}));
    }
    let (Some(line), Some(identity)) = (word("line").map(Arc::<str>::from), identity(&message["who"])) else {
        // Without a reply, the other hub would retry forever.
        let text = "the hub that owns the session cannot parse the forwarded request; run the same version on all hubs";
        let error = Outcome::error(codes::INTERNAL_ERROR, text, None);
        let (word, text) = outcome_text(&error);
        return core.cx.send_forward_reply(key, &id, &json!({word: text, "declined": true}));
    };
    core.cx.cluster.last_received += 1;
    let connection = FIRST_FORWARDED_ID + core.cx.cluster.last_received;
    let agent = core
        .sessions
        .get(&id)
        .and_then(|session| core.cx.options.agents.iter().position(|agent| *agent == session.info.agent));
    core.connected(connection, identity, agent.unwrap_or_default(), false, false);
    if let Some(proxy) = core.cx.clients.connections.get_mut(&connection) {
        let word = |at: usize| message["client"][at].as_str().unwrap_or_default().to_owned();
        proxy.client = (word(0), word(1));
        proxy.is_initialized = true;
        proxy.wants_turn_end = message["turns"] == true;
        proxy.forwarded_key = Some(key.to_owned());
    }
    let last = core.sessions.get(&id).map(|session| session.next.saturating_sub(1));
    let received = ReceivedRequest { connection, session: Arc::clone(&id), last };
    core.cx.cluster.received.insert(key.to_owned(), received);
    if !requests::client_line(core, connection, &line) {
        drop(core.cx.dismiss(key));
        core.cx.send_forward_reply(key, &id, &json!({"taken": true}));
    }
}

pub(super) fn cancel_received(core: &mut Core, key: &str) {
    let Some(connection) = core.cx.cluster.received.get(key).map(|proxy| proxy.connection) else {
        return;
    };
    let open = core.cx.clients.connections.get(&connection).map(|proxy| proxy.pending.iter());
    let open = open.into_iter().flatten().map(|(_, id, _)| lines::id_text(id));
    for id in open.collect::<Vec<_>>() {
        if let Ok(params) = Raw::parse(format!(r#"{{"requestId":{id}}}"#)) {
            notifications::cancel_request(core, connection, Some(&params));
        }
    }
}

pub(super) fn outcome_text(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Result(text) => ("result", text),
        Outcome::Error(text) => ("error", text),
    }
}

fn identity(identity: &Value) -> Option<Identity> {
    Some(Identity {
        name: identity.get("name")?.as_str()?.into(),
        role: Role::parse(identity.get("role")?.as_str()?)?,
        all: true,
        made: identity.get("made")?.as_i64()?,
    })
}
