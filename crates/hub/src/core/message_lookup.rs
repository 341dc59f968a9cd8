//! Attaching after a message: lookup of its last record in the log.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, WireFormat};
use switchboard_store::Channel;

use super::connection::Start;
use super::replay::Cursor;
use super::requests::{self, Refusal};
use super::{ConnectionId, Core, Output, SessionId, lines, methods};

/// A request that waits for a message lookup.
#[derive(Debug)]
pub(super) struct PendingLookup {
    /// Id of the request.
    id: RequestId<'static>,
    session: SessionId,
    message: MessageQuery,
}

/// The message to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageQuery {
    id: Arc<str>,
    /// The agent's id of the message, if the client has another one because version 1 cannot replace messages.
    replaced: Option<Arc<str>>,
    /// The agent's ids of the session, without those of sub-agents.
    sessions: Arc<[String]>,
}

/// Result of one pass through a log: the offset of the message's last record.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MessageMatch {
    offset: Option<u64>,
    /// Offset of the last record of the message that it replaces.
    replaced: Option<u64>,
}

impl MessageQuery {
    /// Checks whether a record belongs to the message.
    pub(crate) fn look(&self, found: &mut MessageMatch, sequence: u64, channel: Channel, text: &str) {
        // A cheap check before decoding. Keys with escaped letters are rare.
        if channel != Channel::ToClient || !(text.contains("messageId") || text.contains("\\u")) {
            return;
        }
        let Ok(Message::Notification(call)) = Message::decode(text, WireFormat::Any) else { return };
        let params = call.params.as_ref().filter(|_| call.method == "session/update");
        let Some(update) = params.and_then(|params| params.get("update")) else { return };
        let Some(message) = lines::text_of(Some(&update), "messageId") else { return };
        let is_it = *message == *self.id;
        if !is_it && self.replaced.as_deref() != Some(&*message) {
            return;
        }
        let session = lines::text_of(params, "sessionId").unwrap_or_default();
        if self.sessions.iter().any(|known| **known == *session) {
            *(if is_it { &mut found.offset } else { &mut found.replaced }) = Some(sequence);
        }
    }
}

impl MessageMatch {
    /// Returns the offset of the last record of the message.
    pub(crate) fn offset(self) -> Option<u64> {
        self.offset.or(self.replaced)
    }
}

/// Looks up the message after which a client attaches. One lookup per client at a time, because each reads a whole
/// log.
pub(super) fn find_message(
    core: &mut Core,
    connection: ConnectionId,
    id: &RequestId<'static>,
    session: &SessionId,
    params: Option<&Raw<'_>>,
) -> Result<(), Refusal> {
    let Some(message) = lines::text_of(params, "afterMessageId") else {
        let message = "at /params/afterMessageId: missing message id".to_owned();
        return Err((codes::INVALID_PARAMS, message, None));
    };
    let Some(client) = core.cx.clients.connections.get_mut(&connection) else { return Ok(()) };
    let state = core.sessions.get(session).and_then(|known| known.state.as_ref());
    let replaced = message.rsplit_once("~r").filter(|(_, count)| count.parse::<u32>().is_ok());
    let message = MessageQuery {
        id: (*message).into(),
        replaced: replaced.map(|(id, _)| id.into()),
        sessions: state.map(super::SessionState::own_ids).unwrap_or_default().into(),
    };
    client.lookups.push_back(PendingLookup { id: id.clone(), session: Arc::clone(session), message });
    if client.lookups.len() == 1 {
        find_next(core, connection);
    }
    Ok(())
}

pub(super) fn find_next(core: &mut Core, connection: ConnectionId) {
    let Some(client) = core.cx.clients.connections.get(&connection) else { return };
    let Some(PendingLookup { session, message, .. }) = client.lookups.front() else { return };
    // A session that was deleted meanwhile has no log; the request is refused later.
    let end = core.sessions.get(session).map_or(0, |session| session.next);
    let (session, message) = (Arc::clone(session), message.clone());
    core.cx.outbox.push(Output::FindMessage { connection, session, message, end });
}

/// Takes the result of a lookup; `None` if the message was not found.
pub(super) fn message_found(core: &mut Core, connection: ConnectionId, offset: Result<Option<u64>, String>) {
    let client = core.cx.clients.connections.get_mut(&connection);
    let Some(lookups) = client.and_then(|client| client.lookups.pop_front()) else { return };
    let PendingLookup { id, session, message } = lookups;
    if let Err((code, reason, data)) = attach_after(core, connection, &id, &session, &message, offset) {
        core.cx.refuse(connection, &id, code, reason, data);
    }
    find_next(core, connection);
}

pub(super) fn attach_after(
    core: &mut Core,
    connection: ConnectionId,
    id: &RequestId<'static>,
    session: &SessionId,
    message: &MessageQuery,
    offset: Result<Option<u64>, String>,
) -> Result<(), Refusal> {
    // The session and the rights of the client may have changed meanwhile.
    let params = Raw::from(json!({"sessionId": &**session}));
    requests::target_session(core, connection, Some(&params))?;
    core.cx.may_attach(connection, Some(session))?;
    let offset = offset.map_err(|reason| {
        (codes::INTERNAL_ERROR, format!("cannot read the log of session {session}: {reason}"), None)
    })?;
    let Some(offset) = offset else {
        let message = lines::truncated(&message.id);
        let reason = format!(
            "at /params/afterMessageId: session {session} has no message {message}; attach with historyPolicy full"
        );
        let data = json!({"afterMessageId": message, "reason": "unknown_message"});
        return Err((codes::INVALID_PARAMS, reason, Some(data)));
    };
    if let Some((session, cx)) = core.session(session)
        && session.state.is_none()
    {
        session.load(cx);
    }
    methods::attach_with_history(
        core,
        connection,
        id,
        session,
        Start::After(Cursor::live(offset)),
        "after_message",
    );
    Ok(())
}
