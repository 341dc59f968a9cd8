//! Clients that know a session up to a message, and go on behind it.

use std::sync::Arc;

use serde_json::json;
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Raw, WireFormat};
use switchboard_store::Channel;

use super::connection::Start;
use super::lines;
use super::replay::Held;
use super::requests::Refusal;
use super::{ConnectionId, Core, Output, SessionId};

/// A client that waits until a message is found.
#[derive(Debug)]
pub(super) struct Seeking {
    /// Its request.
    id: RequestId<'static>,
    session: SessionId,
    message: Sought,
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sought {
    id: Arc<str>,
    /// What the agent calls it, where the client was told another id because version 1 cannot replace what was said.
    replaced: Option<Arc<str>>,
    /// The agent's ids of the session, without those of sub-agents.
    sessions: Arc<[String]>,
}

/// Where a message ends, in a log that is gone through once.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Found {
    place: Option<u64>,
    /// The same for the message that it has taken the place of.
    replaced: Option<u64>,
}

impl Sought {
    /// Looks whether a record belongs to the message.
    pub(crate) fn look(&self, found: &mut Found, sequence: u64, channel: Channel, text: &str) {
        // Before anything is read of it; few write the letters of a key by their numbers.
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
            *(if is_it { &mut found.place } else { &mut found.replaced }) = Some(sequence);
        }
    }
}

impl Found {
    /// The place of the last record that belongs to the message.
    pub(crate) fn place(self) -> Option<u64> {
        self.place.or(self.replaced)
    }
}

impl Core {
    /// Looks for the message behind which a client goes on: one at a time, for each means reading a whole log.
    pub(super) fn seek(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        session: &SessionId,
        params: Option<&Raw<'_>>,
    ) -> Result<(), Refusal> {
        let Some(message) = lines::text_of(params, "afterMessageId") else {
            let message = "at /params/afterMessageId: the id of the message is missing".to_owned();
            return Err((codes::INVALID_PARAMS, message, None));
        };
        let Some(client) = self.connections.get_mut(&connection) else { return Ok(()) };
        let memory = self.sessions.get(session).and_then(|known| known.memory.as_ref());
        let replaced = message.rsplit_once("~r").filter(|(_, count)| count.parse::<u32>().is_ok());
        let message = Sought {
            id: (*message).into(),
            replaced: replaced.map(|(id, _)| id.into()),
            sessions: memory.map(super::Memory::own_ids).unwrap_or_default().into(),
        };
        client.seeking.push_back(Seeking { id: id.clone(), session: Arc::clone(session), message });
        if client.seeking.len() == 1 {
            self.seek_next(connection);
        }
        Ok(())
    }

    fn seek_next(&mut self, connection: ConnectionId) {
        let Some(client) = self.connections.get(&connection) else { return };
        let Some(Seeking { session, message, .. }) = client.seeking.front() else { return };
        // A session that is gone by now has no log to look at; that is said then.
        let end = self.sessions.get(session).map_or(0, |session| session.next);
        let (session, message) = (Arc::clone(session), message.clone());
        self.output.push_back(Output::Seek { connection, session, message, end });
    }

    /// A message was looked for, and stands there; `None`: nowhere.
    pub(crate) fn found(&mut self, connection: ConnectionId, place: Result<Option<u64>, String>) {
        let client = self.connections.get_mut(&connection);
        let Some(seeking) = client.and_then(|client| client.seeking.pop_front()) else { return };
        let Seeking { id, session, message } = seeking;
        if let Err((code, reason, data)) = self.go_on_behind(connection, &id, &session, &message, place) {
            self.refuse(connection, &id, code, reason, data);
        }
        self.seek_next(connection);
    }

    fn go_on_behind(
        &mut self,
        connection: ConnectionId,
        id: &RequestId<'static>,
        session: &SessionId,
        message: &Sought,
        place: Result<Option<u64>, String>,
    ) -> Result<(), Refusal> {
        // Much may have changed meanwhile.
        let params = Raw::from(json!({"sessionId": &**session}));
        self.named(connection, Some(&params))?;
        self.may_attach(connection, Some(session))?;
        let place = place.map_err(|reason| {
            (codes::INTERNAL_ERROR, format!("the log of {session} cannot be read: {reason}"), None)
        })?;
        let Some(place) = place else {
            let message = lines::named(&message.id);
            let reason = format!(
                "at /params/afterMessageId: {session} has no message {message}; attach with the history full"
            );
            let data = json!({"afterMessageId": message, "reason": "unknown_message"});
            return Err((codes::INVALID_PARAMS, reason, Some(data)));
        };
        if self.sessions.get(session).is_some_and(|known| known.memory.is_none()) {
            self.load(session);
        }
        self.attach_by_policy(connection, id, session, Start::After(Held::live(place)), "after_message");
        Ok(())
    }
}
