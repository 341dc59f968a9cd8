//! Notifications of clients.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::extensions::{ActRecord, HubRecord, LOSS_METHOD};
use switchboard_acp::rpc::{Notification, RequestId, codes};
use switchboard_acp::{Raw, Side};
use switchboard_store::Channel;

use super::client_message::ClientMessage;
use super::connection::{MAX_SUBSCRIPTIONS, Phase};
use super::delivery::{Delivery, ResumeError};
use super::lines::{self, Rewrite};
use super::method_table::{Form, Method, is_request};
use super::outbox::Dropped;
use super::questions::Questions;
use super::requests::{self, Refusal, TargetSession};
use super::session_state::referenced_request;
use super::unresponsive::OverdueTurn;
use super::{AgentId, ConnectionId, Core, Output, SessionId, forwarding, losses};

/// Maximum number of cancellations that are forwarded to an agent during one turn.
const CANCELS: usize = 100;

pub(super) fn handle_notification(
    core: &mut Core,
    connection: ConnectionId,
    notification: &Notification<'_>,
    line: &ClientMessage,
) {
    let params = notification.params.as_ref();
    let method = &*notification.method;
    // A method that needs a response must be a request, which takes its place in the queue of the session and
    // passes all checks.
    if is_request(method) {
        return core.cx.drop_notification(connection, method, "this method is a request and must have an id");
    }
    if let Err((_, reason, _)) =
        core.cx.access().authorize(connection, Method::of(method, Form::Notification), params)
    {
        return core.cx.drop_notification(connection, method, &reason);
    }
    match method {
        "stream/resume" => resume_streams(core, connection, params),
        "$/cancel_request" => cancel_request(core, connection, params),
        LOSS_METHOD => losses::loss_reported(core, connection, params),
        "session/cancel" => {
            let named = match requests::target_session(core, connection, params) {
                Ok(named) => named,
                Err((_, reason, _)) => return core.cx.drop_notification(connection, method, &reason),
            };
            if !core.is_owner(&named.session) {
                // If too many messages wait, the cancellation is dropped, as if it had been lost in transit.
                if let Err((_, reason, _)) =
                    forwarding::forward_to_owner(core, &named.session, connection, line)
                {
                    core.cx.drop_notification(connection, method, &reason);
                }
            } else if core.cx.is_duplicate_notification(connection, params) {
                core.cx.outbox.drop_message(Dropped::DuplicateRequest);
            } else {
                cancel_work(core, connection, &named);
            }
        }
        _ => {
            if let Err(reason) = forward_notification(core, connection, method, params, line) {
                core.cx.drop_notification(connection, method, &reason);
            }
        }
    }
}

/// Forwards a notification with an unknown method to the agent. Fails with the reason if it cannot.
pub(super) fn forward_notification(
    core: &mut Core,
    connection: ConnectionId,
    method: &str,
    params: Option<&Raw<'_>>,
    line: &ClientMessage,
) -> Result<(), String> {
    let words = |(_, reason, _): Refusal| reason;
    core.cx.access().more_folders(params).map_err(words)?;
    if lines::text_of(params, "sessionId").is_none() {
        let agent = core.cx.clients.connections.get(&connection).map(|client| client.agent);
        let process = agent.and_then(|agent| core.cx.agents.process_of(agent));
        let is_ready =
            |process: &AgentId| core.cx.agents.processes.get(process).is_some_and(|process| process.is_ready);
        let process = process.filter(is_ready).ok_or("the agent is not running")?;
        let rewrite = Rewrite { drops_hub_meta: true, ..Rewrite::default() };
        let line = lines::call(None, method, params, rewrite);
        core.cx.outbox.push(Output::ToAgent { process, line, session: None });
        return Ok(());
    }
    let TargetSession { session, child } =
        requests::target_session(core, connection, params).map_err(words)?;
    if !core.is_owner(&session) {
        return forwarding::forward_to_owner(core, &session, connection, line).map_err(words);
    }
    let known = core.sessions.get(&session);
    let target = known.and_then(|known| Some((known.process?, known.agent_session()?.to_owned())));
    let (process, own) = target.ok_or("the session has no running agent")?;
    let name = child.unwrap_or(own);
    let rewrite = Rewrite { session: Some(&name), drops_hub_meta: true, ..Rewrite::default() };
    let text = lines::call(None, method, params, rewrite);
    let _ = core.append(&session, Channel::ToAgent, text.as_str());
    core.cx.outbox.push(Output::ToAgent { process, line: text, session: Some(session) });
    Ok(())
}

/// Cancels the work of a session, or of one sub-agent.
pub(super) fn cancel_work(
    core: &mut Core,
    connection: ConnectionId,
    TargetSession { session, child }: &TargetSession,
) {
    let Some(known) = core.sessions.get(session) else { return };
    // Repeated cancellations of an agent that does not stop must fill neither the log nor memory.
    let is_limit_reached = known.state.as_ref().is_some_and(|state| state.cancels >= CANCELS);
    let (Some(process), Some(own)) = (known.process, known.agent_session().map(str::to_owned)) else {
        if let Some((session, cx)) = core.session(session) {
            session.cancel_prompts(cx);
        }
        return;
    };
    let by = core.cx.clients.author(connection);
    let name = child.as_deref().unwrap_or(&own);
    let params = Raw::from(json!({"sessionId": name}));
    let line = lines::call(None, "session/cancel", Some(&params), Rewrite::default());
    // Recorded before it is sent, like everything that changes the state of the agent.
    if !is_limit_reached {
        core.append_hub_record(session, &HubRecord::Cancelled(ActRecord::new().by(by.clone())));
        let _ = core.append(session, Channel::ToAgent, line.as_str());
        core.cx.outbox.push(Output::ToAgent { process, line, session: Some(Arc::clone(session)) });
    }
    if child.is_none() {
        // Queued prompts go first: ending the turn would start the next one.
        if let Some((session, cx)) = core.session(session) {
            session.cancel_prompts(cx);
            Questions::of(session, cx).cancel_questions(&by);
            OverdueTurn::of(session, cx).await_stop();
        }
    }
}

/// Cancels a request of a client.
pub(super) fn cancel_request(core: &mut Core, connection: ConnectionId, params: Option<&Raw<'_>>) {
    let Some(id) = params.and_then(referenced_request) else {
        return core.cx.outbox.drop_message(Dropped::CancellationWithoutRequest);
    };
    let Some(client) = core.cx.clients.connections.get(&connection) else {
        return core.cx.outbox.drop_message(Dropped::DisconnectedClient);
    };
    // Usually the response and the cancellation have crossed.
    let Some(asked) = client.pending.get(Side::Client, &id).cloned() else {
        return core.cx.outbox.drop_message(Dropped::LateCancellation);
    };
    if let Some((process, number)) = asked.at_agent {
        let line = lines::cancel(&RequestId::Number(number));
        let prompted_session = core
            .cx
            .agents
            .processes
            .get(&process)
            .and_then(|process| process.session_of_prompt(&number.into()).cloned());
        core.cx.outbox.push(Output::ToAgent { process, line, session: asked.stream });
        if let Some(session) = prompted_session
            && let Some((session, cx)) = core.session(&session)
        {
            OverdueTurn::of(session, cx).await_stop();
        }
        return;
    }
    if core.cx.cancel_forwarded(connection, &id) {
        return;
    }
    let mut was_waiting = false;
    for session in core.sessions.values_mut() {
        let before = session.prompts.len();
        session.prompts.retain(|prompt| (prompt.connection, &prompt.id) != (connection, &id));
        was_waiting |= session.prompts.len() < before;
    }
    if was_waiting {
        // Summaries contain the queued prompts.
        core.cx.outbox.summary_version += 1;
        core.cx.refuse(connection, &id, codes::REQUEST_CANCELLED, "the request was cancelled", None);
    } else {
        // The request waits for the log or for an agent, and will be answered then.
        core.cx.outbox.drop_message(Dropped::LateCancellation);
    }
}

/// Handles `stream/resume` of a client that has reconnected: resumes each session after its cursor.
pub(super) fn resume_streams(core: &mut Core, connection: ConnectionId, params: Option<&Raw<'_>>) {
    let Some(client) = core.cx.clients.connections.get_mut(&connection) else { return };
    // Unpaused before the streams are resumed: `resume_at` delivers at once.
    client.is_paused = false;
    let mut left: Vec<SessionId> = client.subscriptions.keys().cloned().collect();
    core.cx.direct_questions().ask_direct_again(connection);
    let streams = params.and_then(|params| params.get("streams").map(Raw::into_owned));
    for stream in streams.iter().flat_map(Raw::items).take(MAX_SUBSCRIPTIONS) {
        let session = lines::text_of(Some(&stream), "sessionId").unwrap_or_default().into_owned();
        let cursor = lines::text_of(Some(&stream), "cursor").unwrap_or_default().into_owned();
        // Sessions that the client does not name are detached below: it has given them up.
        left.retain(|known| **known != *session);
        if let Err(reason) = core.resume_at(connection, &session, &cursor) {
            let reason = match reason {
                ResumeError::UnknownSession => "unknown_session",
                ResumeError::UnknownCursor => "unknown_cursor",
            };
            if let Some((session, cx)) = core.session(&session) {
                Delivery::of(session, cx).detach(connection);
            }
            let params = Raw::from(json!({"sessionId": session, "reason": reason}));
            let text = lines::call(None, "stream/resume_failed", Some(&params), Rewrite::default());
            core.cx.outbox.send(connection, text, None);
        }
    }
    for session in left {
        // A session without a cursor, whose history was requested but not received, is delivered from its start.
        let client = core.cx.clients.connections.get(&connection);
        let start = client.and_then(|client| match client.subscriptions.get(&session)?.phase {
            Phase::CatchingUp { start, answer: Some(_), .. } => Some(start),
            _ => None,
        });
        let Some((session, cx)) = core.session(&session) else { continue };
        let mut delivery = Delivery::of(session, cx);
        let answer = delivery.take_answer(connection);
        match start {
            Some(start) => delivery.attach(connection, start, answer),
            None => drop(delivery.detach(connection)),
        }
    }
}
