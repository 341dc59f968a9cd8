//! Delivery of a session's log to its subscribers, with backpressure.
//!
//! A subscriber first gets the history, as a replay of the folded state, and then every record as it is appended. Each
//! subscriber has a send window: the hub stops delivering when the window is full of unacknowledged bytes, and
//! continues when the client acknowledges some. A slow client thus slows down neither the agent nor other clients, and
//! costs no memory. When it falls behind the records that are kept in memory, the hub reads them from the log. They are
//! sent unfolded, because the client was attached when they were written.

use std::sync::Arc;

use switchboard_acp::extensions::{CURSOR, META, Native, QUESTIONS};
use switchboard_acp::rpc::{Message, Notification, RequestId, codes};
use switchboard_acp::{Meta, Raw, Side, Wire, WireFormat, v2};
use switchboard_session::{may_name_sessions, rename_sessions};
use switchboard_store::{Channel, Role};
use switchboard_transport::SharedText;

use super::connection::{Phase, Start, Subscription};
use super::context::Context;
use super::lines::{self, Outcome, Rewrite};
use super::losses::LossCounts;
use super::native::{Origin, OriginTracker};
use super::questions::Questions;
use super::replay::{Cursor, Replay, ReplayLine};
use super::session::Session;
use super::{ConnectionId, LogRecord, Output, SessionId, SessionState, ToClient};

/// Reason why a client cannot resume at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumeError {
    /// The session does not exist or is not visible to this client.
    UnknownSession,
    /// The cursor belongs to another session or is after the end of the log.
    UnknownCursor,
}

/// Delivery of the log of one session to its subscribers.
pub(super) struct Delivery<'a> {
    session: &'a mut Session,
    cx: &'a mut Context,
}

impl<'a> Delivery<'a> {
    pub(super) fn of(session: &'a mut Session, cx: &'a mut Context) -> Self {
        Delivery { session, cx }
    }

    /// Attaches a client to a session. `answer` is the response to the request that attaches it, which is sent after
    /// the history.
    pub(super) fn attach(
        &mut self,
        connection: ConnectionId,
        start: Start,
        answer: Option<(RequestId<'static>, Outcome)>,
    ) {
        let id = &SessionId::clone(self.session.id());
        // The client has attached twice: each of its requests gets a response.
        if let Some((request, outcome)) = self.take_answer(connection) {
            self.cx.reply(connection, &request, outcome);
        }
        let session = &mut *self.session;
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        if client.forwarded_key.is_some() {
            return;
        }
        // Records after this point are delivered live, so history and live records neither overlap nor leave a gap.
        let until = session.next;
        let may_be_native =
            client.wants_native && session.state.as_ref().is_none_or(|state| state.origins.has_native());
        let (offset, held) = match start {
            Start::Now => (until, None),
            Start::Beginning => (0, Some(None)),
            // A translator needs all earlier records to translate the next one. The origin of a record also depends on
            // the records before it.
            Start::After(held)
                if !client.is_translated && !may_be_native && has_only_appended(session, held) =>
            {
                (held.key + 1, None)
            }
            Start::After(held) => (held.key + 1, Some(Some(held))),
        };
        let replay = held.filter(|_| until > 0).map(|held| {
            let ticket = self.cx.outbox.next_ticket();
            Box::new(Replay::new(ticket, held, until, client.is_translated))
        });
        let replaying = replay.as_ref().map(|replay| replay.ticket);
        let phase = Phase::CatchingUp { start, until, answer };
        if session.subscribers.insert(connection) && session.subscribers.len() == 1 {
            // Records are kept in memory only while a client is attached, so there are none before this point.
            session.tail_start = session.tail_start.max(session.next);
        }
        match client.subscriptions.get_mut(id) {
            Some(subscription) => {
                subscription.offset = offset;
                (subscription.replaying, subscription.replay) = (replaying, replay);
                subscription.is_reading = false;
                subscription.detaches_when_delivered = false;
                subscription.held_until = 0;
                subscription.phase = phase;
                // The history is translated again, so its losses are counted again.
                subscription.losses = LossCounts::default();
            }
            None => {
                let subscription = Subscription { replaying, replay, ..Subscription::new(offset, phase) };
                client.subscriptions.insert(Arc::clone(id), subscription);
            }
        }
        self.deliver(connection);
    }

    /// Attaches the client that has opened a session, without history.
    pub(super) fn attach_first(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let session = &mut *self.session;
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        if client.forwarded_key.is_some() {
            return;
        }
        session.subscribers.insert(connection);
        session.tail_start = session.next;
        client.subscriptions.insert(Arc::clone(id), Subscription::new(session.next, Phase::Live));
    }

    /// Detaches a client from a session. Returns whether it was attached.
    pub(super) fn detach(&mut self, connection: ConnectionId) -> bool {
        let id = &SessionId::clone(self.session.id());
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return false };
        let Some(mut subscription) = client.subscriptions.remove(id) else { return false };
        for question in subscription.asked.values() {
            client.questions.close(Side::Agent, &(*question).into());
        }
        // Replies are still due, even if the record that they should follow is not delivered any more.
        for (_, line) in subscription.deferred_replies {
            self.cx.outbox.push(Output::Send { connection, line });
        }
        self.session.subscribers.remove(&connection);
        if let Some((request, _)) = subscription.phase.take_answer() {
            let message = "the client was detached from the session";
            self.cx.decline(connection, &request, Outcome::error(codes::REQUEST_CANCELLED, message, None));
        }
        true
    }

    /// Detaches a client as soon as everything is delivered.
    pub(super) fn detach_when_delivered(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let subscription = self
            .cx
            .clients
            .connections
            .get_mut(&connection)
            .and_then(|client| client.subscriptions.get_mut(id));
        if let Some(subscription) = subscription {
            subscription.detaches_when_delivered = true;
            self.deliver(connection);
        }
    }

    /// Delivers what is available to every subscriber of a session.
    pub(super) fn deliver_all(&mut self) {
        let session = &*self.session;
        let attached: Vec<ConnectionId> = session.subscribers.iter().copied().collect();
        for connection in attached {
            self.deliver(connection);
        }
    }

    /// Delivers what is available to one subscriber, until it is up to date, its send window is full or the log must be
    /// read.
    ///
    /// The order of the steps is the order that the client sees: replay, then the deferred replies whose record has
    /// been delivered, then the state and the response that end the catch-up, then live records.
    pub(super) fn deliver(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let send_window = self.cx.options.send_window;
        loop {
            let session = &mut *self.session;
            let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
            // The ids of sub-agent sessions are not known before the log has been read.
            if client.is_paused || session.state.is_none() {
                return;
            }
            let Some(subscription) = client.subscriptions.get_mut(id) else { return };
            let is_replaying = subscription.replaying.is_some();
            // A reply that must follow a record is deferred until that record has been delivered.
            while !is_replaying
                && let Some((_, line)) =
                    subscription.deferred_replies.pop_front_if(|(after, _)| *after < subscription.offset)
            {
                self.cx.outbox.push(Output::Send { connection, line });
            }
            if !is_replaying
                && let Phase::CatchingUp { until, .. } = subscription.phase
                && subscription.offset >= until
            {
                self.finish_catch_up(connection);
                continue;
            }
            if !is_replaying && subscription.offset >= session.next {
                subscription.lagging_since = None;
                if subscription.detaches_when_delivered {
                    self.detach(connection);
                }
                return;
            }
            // Backpressure: nothing is sent while the send window is full. `acknowledge` continues delivery. The log is
            // read again later, so nothing needs to be queued for a slow client.
            if subscription.is_reading || !subscription.has_window(send_window) {
                subscription.lagging_since.get_or_insert(self.cx.outbox.now);
                // Some HTTP clients open the stream of a session only after they have this response. If it waited for
                // the send window, neither side would continue.
                if client.dedups_by_id
                    && !subscription.is_reading
                    && let Some((request, outcome)) = subscription.phase.take_answer()
                {
                    self.cx.reply(connection, &request, outcome);
                }
                return;
            }
            if is_replaying {
                subscription.lagging_since.get_or_insert(self.cx.outbox.now);
                let is_native = client.wants_native
                    && session.state.as_ref().is_some_and(|state| state.origins.is_all_native());
                if let Some(replay) = subscription.replay.take_if(|replay| is_native && replay.is_new()) {
                    // Every record has a native line: these are sent as they are instead of a folded replay. The
                    // translator gets every record from the first one.
                    subscription.replaying = None;
                    subscription.origins = OriginTracker::default();
                    (subscription.held_until, subscription.offset) = (replay.held(), 0);
                    continue;
                }
                if let Some(replay) = subscription.replay.take() {
                    subscription.is_reading = true;
                    self.cx.outbox.push(Output::Replay { connection, session: Arc::clone(id), replay });
                }
                return;
            }
            // The subscriber has fallen behind the tail: continue from the log, one portion at a time.
            if subscription.offset < session.tail_start {
                subscription.is_reading = true;
                subscription.lagging_since.get_or_insert(self.cx.outbox.now);
                let (from, end) = (subscription.offset, session.next);
                self.cx.outbox.push(Output::Read { connection, session: Arc::clone(id), from, end });
                return;
            }
            let offset = subscription.offset;
            let Some(recent) = session.tail_record(offset) else {
                // No record from here on is for clients.
                subscription.offset = session.next;
                continue;
            };
            let (sequence, is_question) = (recent.sequence, recent.is_question);
            // Advanced before sending: a record that is skipped below must not be looked at again.
            subscription.offset = sequence + 1;
            if recent.origin == Origin::Native && !client.wants_native {
                continue;
            }
            subscription.origins.continue_after(&recent.origin);
            let is_held = sequence < subscription.held_until;
            if is_held && (!client.is_translated || recent.origin == Origin::Native) {
                continue;
            }
            let native = mark(&recent.origin, is_held).filter(|_| client.wants_native);
            if is_question {
                if matches!(subscription.phase, Phase::Live) {
                    Questions::of(self.session, self.cx).ask(connection, sequence);
                }
                continue;
            }
            let line = match &recent.line {
                Some(line) if native.is_none() => line.clone(),
                _ => {
                    let text = Arc::clone(&recent.text);
                    let cursor = Some(lines::cursor(id, sequence));
                    let line = match (Message::decode(&text, WireFormat::Any), &session.state) {
                        (Ok(Message::Notification(notification)), Some(state)) => {
                            client_line(&notification, state, id, cursor, native.as_ref())
                        }
                        _ => update_line(text.to_string().into(), id, cursor),
                    };
                    if native.is_none()
                        && let Some(recent) = session.tail_record(sequence)
                    {
                        recent.line = Some(line.clone());
                    }
                    line
                }
            };
            subscription.sent += line.text.len() as u64;
            self.cx.outbox.push(Output::Send { connection, line });
        }
    }

    /// Delivers a part of the log that was read for a client. `to` is the offset after it.
    pub(super) fn read(&mut self, connection: ConnectionId, from: u64, part: &[LogRecord], to: u64) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let Some(subscription) = client.subscriptions.get_mut(id) else { return };
        // The client may have attached again at another offset meanwhile.
        if !subscription.is_reading || subscription.offset != from {
            return;
        }
        subscription.is_reading = false;
        let is_live = matches!(subscription.phase, Phase::Live);
        let mut questions = Vec::new();
        for record in part {
            let origin = match client.wants_native {
                true => subscription.origins.apply(record.channel, &record.text),
                false => Origin::Original,
            };
            let is_held = record.sequence < subscription.held_until;
            // Only the translator in the hub needs the records that the client already has.
            let is_wanted = match record.channel {
                Channel::ToClient => !is_held || client.is_translated,
                _ => !is_held && origin == Origin::Native,
            };
            if !is_wanted {
                continue;
            }
            let native = mark(&origin, is_held);
            match Message::decode(&record.text, WireFormat::Any) {
                Ok(Message::Notification(notification)) if notification.method != "$/cancel_request" => {
                    let line = match &session.state {
                        Some(state) => {
                            let cursor = Some(lines::cursor(id, record.sequence));
                            client_line(&notification, state, id, cursor, native.as_ref())
                        }
                        None => {
                            let cursor = lines::cursor(id, record.sequence);
                            update_line(record.text.to_string().into(), id, Some(cursor))
                        }
                    };
                    subscription.sent += line.text.len() as u64;
                    self.cx.outbox.push(Output::Send { connection, line });
                }
                Ok(Message::Request(_)) if is_live => questions.push(record.sequence),
                _ => {}
            }
        }
        subscription.offset = to.max(from);
        for question in questions {
            Questions::of(self.session, self.cx).ask(connection, question);
        }
        self.deliver(connection);
    }

    /// Delivers the next portion of a replay. Fails with the reason if the log must be read again.
    pub(super) fn replayed(
        &mut self,
        connection: ConnectionId,
        replay: Box<Replay>,
        portion: Vec<ReplayLine>,
    ) -> Result<(), &'static str> {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return Ok(()) };
        let Some(subscription) = client.subscriptions.get_mut(id) else { return Ok(()) };
        // The client may have started another replay meanwhile.
        if subscription.replaying != Some(replay.ticket) {
            return Ok(());
        }
        let Some(state) = &session.state else {
            // Without the state, session ids cannot be translated for clients.
            return Err("it is being loaded again; reconnect");
        };
        subscription.is_reading = false;
        for ReplayLine { text, held, is_known } in portion {
            let Ok(Message::Notification(notification)) = Message::decode(&text, WireFormat::Any) else {
                continue;
            };
            let cursor = held.map(|held| lines::format_cursor(id, held));
            let native = is_known.then_some(Native::Known);
            let line = client_line(&notification, state, id, cursor, native.as_ref());
            subscription.sent += line.text.len() as u64;
            self.cx.outbox.push(Output::Send { connection, line });
        }
        if replay.is_done() {
            subscription.replaying = None;
            subscription.offset = replay.end();
            let unreadable = replay.unreadable();
            if unreadable > 0 {
                self.cx.outbox.report(format!(
                    "{unreadable} updates of session {id} cannot be decoded and are not replayed"
                ));
            }
        } else {
            subscription.replay = Some(replay);
        }
        self.deliver(connection);
        Ok(())
    }

    /// Ends the catch-up of a client: sends the state, the response to its request and the pending questions, in this
    /// order.
    pub(super) fn finish_catch_up(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let session = &*self.session;
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let state = session.state.as_ref().map(SessionState::state_update);
        let asks = client.identity.role >= Role::Answer;
        let questions = session.state.iter().flat_map(|state| &state.questions);
        let open: Vec<u64> = questions
            .filter(|(_, question)| asks && client.can_answer(question))
            .map(|(offset, _)| *offset)
            .collect();
        let Some(subscription) = client.subscriptions.get_mut(id) else { return };
        let offset = subscription.offset;
        let Phase::CatchingUp { answer, .. } = std::mem::replace(&mut subscription.phase, Phase::Live) else {
            return;
        };
        // A new session is idle, which the client need not be told.
        if let Some(state) = state
            && offset > 0
        {
            let text = state_line(id, &state, offset - 1, open.len());
            subscription.sent += text.len() as u64;
            let line = update_line(text, id, Some(lines::cursor(id, offset - 1)));
            self.cx.outbox.push(Output::Send { connection, line });
        }
        if let Some((request, outcome)) = answer {
            self.cx.reply(connection, &request, outcome);
        }
        for question in open {
            Questions::of(self.session, self.cx).ask(connection, question);
        }
    }

    /// Handles an ack of a client: `acked` bytes of the session have left the send window in total.
    pub(super) fn acknowledge(&mut self, connection: ConnectionId, acked: u64) {
        let id = &SessionId::clone(self.session.id());
        let Some(client) = self.cx.clients.connections.get_mut(&connection) else { return };
        let Some(subscription) = client.subscriptions.get_mut(id) else { return };
        // Never more than was sent: a wrong report must not open the window.
        subscription.acked = acked.min(subscription.sent);
        self.deliver(connection);
    }

    /// Takes the response that a client still waits for while it catches up.
    pub(super) fn take_answer(&mut self, connection: ConnectionId) -> Option<(RequestId<'static>, Outcome)> {
        let id = &SessionId::clone(self.session.id());
        let subscription = self.cx.clients.connections.get_mut(&connection)?.subscriptions.get_mut(id)?;
        subscription.phase.take_answer()
    }

    /// Attaches the client that prompts, so that it gets the updates of the turn.
    pub(super) fn attach_prompter(&mut self, connection: ConnectionId) {
        let id = &SessionId::clone(self.session.id());
        let Some(client) = self.cx.clients.connections.get(&connection) else { return };
        if !client.subscriptions.contains_key(id) {
            self.attach(connection, Start::Now, None);
        }
    }

    /// Responds to a request of a client. The response follows the record with the sequence number `after`.
    pub(super) fn reply_after(
        &mut self,
        connection: ConnectionId,
        request: &RequestId<'static>,
        outcome: Outcome,
        after: Option<u64>,
    ) {
        let Some(line) = self.cx.response(connection, request, outcome) else { return };
        let client = self.cx.clients.connections.get_mut(&connection);
        let subscription = client.and_then(|client| client.subscriptions.get_mut(self.session.id()));
        match (after, subscription) {
            (Some(after), Some(subscription)) if subscription.offset <= after => {
                subscription.deferred_replies.push_back((after, line));
                self.deliver(connection);
            }
            _ => self.cx.outbox.push(Output::Send { connection, line }),
        }
    }
}

/// Returns whether the records after a cursor can be sent as they are: they are in memory, and none of them replaces or
/// clears earlier content.
fn has_only_appended(session: &Session, held: Cursor) -> bool {
    let from = held.key + 1;
    let is_at_hand = from >= session.next || from >= session.tail_start;
    held.is_live()
        && is_at_hand
        && session
            .tail_from(from)
            .all(|recent| recent.is_question || recent.origin == Origin::Native || only_appends(&recent.text))
}

/// Returns whether an update only adds content.
fn only_appends(text: &str) -> bool {
    let Ok(Message::Notification(notification)) = Message::decode(text, WireFormat::Any) else {
        return false;
    };
    let update = notification.params.as_ref().and_then(|params| params.get("update"));
    matches!(
        lines::text_of(update.as_ref(), "sessionUpdate").as_deref(),
        Some(
            "user_message_chunk"
                | "agent_message_chunk"
                | "agent_thought_chunk"
                | "tool_call_content_chunk"
                | "terminal_output_chunk"
                | "compaction_summary_chunk"
                | "session_message_chunk"
                | "state_update"
                | "usage_update"
                | "notice"
        )
    )
}

/// Returns the mark of a record for a client behind a translator, which may already have it.
fn mark(origin: &Origin, is_held: bool) -> Option<Native> {
    match origin.mark() {
        Some(_) if is_held => Some(Native::Translated),
        None if is_held => Some(Native::Known),
        mark => mark,
    }
}

/// Returns a notification of the agent as clients get it.
pub(super) fn client_line(
    notification: &Notification<'_>,
    state: &SessionState,
    id: &SessionId,
    cursor: Option<String>,
    native: Option<&Native>,
) -> ToClient {
    let renamed = notification.params.as_ref().and_then(|params| renamed(params, state, id));
    let params = renamed.as_ref().or(notification.params.as_ref());
    let name = lines::text_of(params, "sessionId").map(|session| state.client_session_id(id, &session));
    let rewrite = Rewrite {
        session: name.as_deref(),
        cursor: cursor.as_deref().filter(|_| notification.method == "session/update"),
        native,
        ..Rewrite::default()
    };
    update_line(lines::call(None, &notification.method, params, rewrite).into(), id, cursor)
}

/// Returns the parameters with the session ids that clients use; `None` if an update contains no session ids.
fn renamed(params: &Raw<'_>, state: &SessionState, id: &str) -> Option<Raw<'static>> {
    // A cheap check that avoids decoding most updates.
    if !may_name_sessions(params.as_str()) {
        return None;
    }
    let update = params.get("update")?;
    let mut update = v2::SessionUpdate::decode(update.as_str(), WireFormat::Any).ok()?;
    let rename = &mut |session: &str| Some(state.client_session_id(id, session).into_owned());
    let has_changed = rename_sessions(&mut update, rename);
    let update = has_changed.then(|| update.encode(WireFormat::Any))?;
    Raw::parse(lines::merged(Some(params), &[("update", &update)])).ok()
}

fn update_line(text: SharedText, id: &SessionId, cursor: Option<String>) -> ToClient {
    let cursor = cursor.map(Into::into);
    ToClient { text, stream: Some(Arc::clone(id)), cursor, is_windowed: true }
}

/// Returns the update with the state of a session. It has the cursor of the preceding record, and the number of pending
/// questions, so that a resuming client can drop those that are no longer pending.
fn state_line(id: &str, state: &str, sequence: u64, questions: usize) -> SharedText {
    let meta = [CURSOR.entry(lines::cursor(id, sequence)), QUESTIONS.entry(questions as u64)];
    let meta = Meta::from_entries(meta);
    let params = [("sessionId", &*lines::quoted(id)), ("update", state), (META, meta.as_raw().as_str())];
    let params = lines::merged(None, &params);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#).into()
}
