//! What subscribers of a session get, and when: first the history, replayed from the folded state, then every record as it
//! is written. A subscriber that has fallen behind while it was attached gets the records that it has missed from the log,
//! as they are: it was there when they were written.

use std::sync::Arc;

use switchboard_acp::extensions::{CURSOR, META, Native, QUESTIONS};
use switchboard_acp::rpc::{Message, Notification, RequestId, codes};
use switchboard_acp::{Meta, Raw, Side, Wire, WireFormat, v2};
use switchboard_session::{may_name_sessions, rename_sessions};
use switchboard_store::{Channel, Role};
use switchboard_transport::SharedText;

use super::connection::{Attachment, Phase, Start};
use super::lines::{self, Outcome, Rewrite};
use super::losses::LossCounts;
use super::native::{Origin, Origins};
use super::replay::{Held, Replay, ReplayLine};
use super::session::Session;
use super::{ConnectionId, Core, Kept, Memory, Output, SessionId, ToClient};

/// Why a client cannot go on at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSuchPlace {
    /// There is no such session, or not for this client.
    Session,
    /// The place is of another session, or not there.
    Cursor,
}

impl Core {
    /// Attaches a client to a session. `answer` is the outcome of the request that it did this with, which it gets behind
    /// the history.
    pub(super) fn attach(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        start: Start,
        answer: Option<(RequestId<'static>, Outcome)>,
    ) {
        // Who asks twice has two answers.
        if let Some((request, outcome)) = self.take_answer(connection, id) {
            self.reply(connection, &request, outcome, None);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        if client.guest.is_some() {
            return;
        }
        let until = session.next;
        let may_be_native =
            client.wants_native && session.memory.as_ref().is_none_or(|memory| memory.origins.has_native());
        let (place, held) = match start {
            Start::Now => (until, None),
            Start::Beginning => (0, Some(None)),
            // What a translator makes of the next record depends on all before it, and so does the origin of that record.
            Start::After(held)
                if !client.is_translated && !may_be_native && has_only_appended(session, held) =>
            {
                (held.key + 1, None)
            }
            Start::After(held) => (held.key + 1, Some(Some(held))),
        };
        let replay = held.filter(|_| until > 0).map(|held| {
            self.last_ticket += 1;
            Box::new(Replay::new(self.last_ticket, held, until, client.is_translated))
        });
        let replaying = replay.as_ref().map(|replay| replay.ticket);
        let phase = Phase::CatchingUp { start, until, answer };
        if session.attached.insert(connection) && session.attached.len() == 1 {
            // Nobody looked on, so nothing is at hand.
            session.window_start = session.window_start.max(session.next);
        }
        match client.attachments.get_mut(id) {
            Some(attachment) => {
                attachment.place = place;
                (attachment.replaying, attachment.replay) = (replaying, replay);
                attachment.is_reading = false;
                attachment.leaves = false;
                attachment.held = 0;
                attachment.phase = phase;
                // Its history is translated again.
                attachment.losses = LossCounts::default();
            }
            None => {
                let attachment = Attachment { replaying, replay, ..Attachment::new(place, phase) };
                client.attachments.insert(Arc::clone(id), attachment);
            }
        }
        self.pump(connection, id);
    }

    /// Lets the client that has opened a session look at it from its beginning.
    pub(super) fn attach_first(&mut self, connection: ConnectionId, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        if client.guest.is_some() {
            return;
        }
        session.attached.insert(connection);
        session.window_start = session.next;
        client.attachments.insert(Arc::clone(id), Attachment::new(session.next, Phase::Live));
    }

    /// A client looks at a session no more.
    pub(super) fn detach(&mut self, connection: ConnectionId, id: &SessionId) -> bool {
        let Some(client) = self.connections.get_mut(&connection) else { return false };
        let Some(mut attachment) = client.attachments.remove(id) else { return false };
        for question in attachment.asked.values() {
            client.asked.close(Side::Agent, &(*question).into());
        }
        for (_, line) in attachment.held_back {
            self.output.push_back(Output::Send { connection, line });
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.attached.remove(&connection);
        }
        if let Some((request, _)) = attachment.phase.take_answer() {
            let message = "the session is looked at no more";
            self.decline(connection, &request, Outcome::error(codes::REQUEST_CANCELLED, message, None));
        }
        true
    }

    /// A client goes when it has seen everything that there is.
    pub(super) fn leave_when_seen(&mut self, connection: ConnectionId, id: &SessionId) {
        let attachment =
            self.connections.get_mut(&connection).and_then(|client| client.attachments.get_mut(id));
        if let Some(attachment) = attachment {
            attachment.leaves = true;
            self.pump(connection, id);
        }
    }

    /// Gives everybody who looks on what there is for them.
    pub(super) fn pump_all(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let attached: Vec<ConnectionId> = session.attached.iter().copied().collect();
        for connection in attached {
            self.pump(connection, id);
        }
    }

    /// Gives a client what there is for it, as far as it has room.
    pub(super) fn pump(&mut self, connection: ConnectionId, id: &SessionId) {
        let flow = self.options.flow;
        loop {
            let Some(session) = self.sessions.get_mut(id) else { return };
            let Some(client) = self.connections.get_mut(&connection) else { return };
            // Before the log was read nobody knows which ids are whose.
            if client.is_paused || session.memory.is_none() {
                return;
            }
            let Some(attachment) = client.attachments.get_mut(id) else { return };
            let is_replaying = attachment.replaying.is_some();
            // Answers that belong behind a record are held back until the history is told.
            while !is_replaying
                && let Some((_, line)) =
                    attachment.held_back.pop_front_if(|(after, _)| *after < attachment.place)
            {
                self.output.push_back(Output::Send { connection, line });
            }
            if !is_replaying
                && let Phase::CatchingUp { until, .. } = attachment.phase
                && attachment.place >= until
            {
                self.caught_up(connection, id);
                continue;
            }
            if !is_replaying && attachment.place >= session.next {
                attachment.behind_since = None;
                if attachment.leaves {
                    self.detach(connection, id);
                }
                return;
            }
            if attachment.is_reading || !attachment.has_room(flow) {
                attachment.behind_since.get_or_insert(self.now);
                // Over HTTP some read the stream of a session only when they have the answer: it must not wait for them.
                if client.repeats_by_id
                    && !attachment.is_reading
                    && let Some((request, outcome)) = attachment.phase.take_answer()
                {
                    self.reply(connection, &request, outcome, None);
                }
                return;
            }
            if is_replaying {
                attachment.behind_since.get_or_insert(self.now);
                let is_native = client.wants_native
                    && session.memory.as_ref().is_some_and(|memory| memory.origins.is_all_native());
                if let Some(replay) = attachment.replay.take_if(|replay| is_native && replay.is_new()) {
                    // The agent's own lines are sent as they are. The translator gets every record from the first one.
                    attachment.replaying = None;
                    attachment.origins = Origins::default();
                    (attachment.held, attachment.place) = (replay.held(), 0);
                    continue;
                }
                if let Some(replay) = attachment.replay.take() {
                    attachment.is_reading = true;
                    self.output.push_back(Output::Replay { connection, session: Arc::clone(id), replay });
                }
                return;
            }
            if attachment.place < session.window_start {
                attachment.is_reading = true;
                attachment.behind_since.get_or_insert(self.now);
                let (from, end) = (attachment.place, session.next);
                self.output.push_back(Output::Read { connection, session: Arc::clone(id), from, end });
                return;
            }
            let place = attachment.place;
            let Some(recent) = session.recent(place) else {
                // What stands there is for nobody.
                attachment.place = session.next;
                continue;
            };
            let (sequence, is_question) = (recent.sequence, recent.is_question);
            attachment.place = sequence + 1;
            if recent.origin == Origin::Native && !client.wants_native {
                continue;
            }
            attachment.origins.continue_behind(&recent.origin);
            let is_held = sequence < attachment.held;
            if is_held && (!client.is_translated || recent.origin == Origin::Native) {
                continue;
            }
            let native = mark(&recent.origin, is_held).filter(|_| client.wants_native);
            if is_question {
                if matches!(attachment.phase, Phase::Live) {
                    self.ask(connection, id, sequence);
                }
                continue;
            }
            let line = match &recent.line {
                Some(line) if native.is_none() => line.clone(),
                _ => {
                    let text = Arc::clone(&recent.text);
                    let cursor = Some(lines::cursor(id, sequence));
                    let line = match (Message::decode(&text, WireFormat::Any), &session.memory) {
                        (Ok(Message::Notification(notification)), Some(memory)) => {
                            client_line(&notification, memory, id, cursor, native.as_ref())
                        }
                        _ => update_line(text.to_string().into(), id, cursor),
                    };
                    if native.is_none()
                        && let Some(recent) = session.recent(sequence)
                    {
                        recent.line = Some(line.clone());
                    }
                    line
                }
            };
            attachment.sent += line.text.len() as u64;
            self.output.push_back(Output::Send { connection, line });
        }
    }

    /// A part of the log that was read for a client, and the place behind it.
    pub(crate) fn read(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        from: u64,
        part: &[Kept],
        to: u64,
    ) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        // It may have gone elsewhere meanwhile.
        if !attachment.is_reading || attachment.place != from {
            return;
        }
        attachment.is_reading = false;
        let is_live = matches!(attachment.phase, Phase::Live);
        let mut questions = Vec::new();
        for kept in part {
            let origin = match client.wants_native {
                true => attachment.origins.see(kept.channel, &kept.text),
                false => Origin::Original,
            };
            let is_held = kept.sequence < attachment.held;
            // What a client holds only the translation in the hub needs again.
            let is_wanted = match kept.channel {
                Channel::ToClient => !is_held || client.is_translated,
                _ => !is_held && origin == Origin::Native,
            };
            if !is_wanted {
                continue;
            }
            let native = mark(&origin, is_held);
            match Message::decode(&kept.text, WireFormat::Any) {
                Ok(Message::Notification(notification)) if notification.method != "$/cancel_request" => {
                    let line = match &session.memory {
                        Some(memory) => {
                            let cursor = Some(lines::cursor(id, kept.sequence));
                            client_line(&notification, memory, id, cursor, native.as_ref())
                        }
                        None => {
                            let cursor = lines::cursor(id, kept.sequence);
                            update_line(kept.text.to_string().into(), id, Some(cursor))
                        }
                    };
                    attachment.sent += line.text.len() as u64;
                    self.output.push_back(Output::Send { connection, line });
                }
                Ok(Message::Request(_)) if is_live => questions.push(kept.sequence),
                _ => {}
            }
        }
        attachment.place = to.max(from);
        for question in questions {
            self.ask(connection, id, question);
        }
        self.pump(connection, id);
    }

    /// Takes the next portion of the history of a session that was made for a client.
    pub(crate) fn replayed(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
        replay: Box<Replay>,
        portion: Vec<ReplayLine>,
    ) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        // The client may have begun another one meanwhile.
        if attachment.replaying != Some(replay.ticket) {
            return;
        }
        let Some(memory) = &session.memory else {
            // Without it the sessions have no names for clients.
            return self.read_failed(connection, id, "it is being read again");
        };
        attachment.is_reading = false;
        for ReplayLine { text, held, is_known } in portion {
            let Ok(Message::Notification(notification)) = Message::decode(&text, WireFormat::Any) else {
                continue;
            };
            let cursor = held.map(|held| lines::cursor_of(id, held));
            let native = is_known.then_some(Native::Known);
            let line = client_line(&notification, memory, id, cursor, native.as_ref());
            attachment.sent += line.text.len() as u64;
            self.output.push_back(Output::Send { connection, line });
        }
        if replay.is_done() {
            attachment.replaying = None;
            attachment.place = replay.end();
            let unreadable = replay.unreadable();
            if unreadable > 0 {
                self.tell(format!("{unreadable} updates of {id} cannot be read and are not replayed"));
            }
        } else {
            attachment.replay = Some(replay);
        }
        self.pump(connection, id);
    }

    /// A part of the log could not be read for a client, which cannot be told what follows then.
    pub(crate) fn read_failed(&mut self, connection: ConnectionId, id: &SessionId, reason: &str) {
        let client = self.connections.get(&connection);
        // A session that was deleted meanwhile has no log.
        if client.is_some_and(|client| client.attachments.contains_key(id)) {
            self.tell(format!("the log of {id} cannot be read: {reason}"));
            self.cut_off(connection, format!("the log of {id} cannot be read"));
        }
    }

    /// A client has seen everything up to when it came: it is told how things stand, gets its answer, and is asked what
    /// is open.
    fn caught_up(&mut self, connection: ConnectionId, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let state = session.memory.as_ref().map(Memory::state_update);
        let asks = client.who.role >= Role::Answer;
        let questions = session.memory.iter().flat_map(|memory| &memory.questions);
        let open: Vec<u64> = questions
            .filter(|(_, question)| asks && client.can_answer(question))
            .map(|(place, _)| *place)
            .collect();
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        let place = attachment.place;
        let Phase::CatchingUp { answer, .. } = std::mem::replace(&mut attachment.phase, Phase::Live) else {
            return;
        };
        // A session that has just been opened is idle, and nobody has to be told.
        if let Some(state) = state
            && place > 0
        {
            let text = state_line(id, &state, place - 1, open.len());
            attachment.sent += text.len() as u64;
            let line = update_line(text, id, Some(lines::cursor(id, place - 1)));
            self.output.push_back(Output::Send { connection, line });
        }
        if let Some((request, outcome)) = answer {
            self.reply(connection, &request, outcome, None);
        }
        for question in open {
            self.ask(connection, id, question);
        }
    }

    /// Bytes that were on their way to a client in a session have gone, in all so many.
    pub(crate) fn has_room(&mut self, connection: ConnectionId, id: &SessionId, gone: u64) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let Some(attachment) = client.attachments.get_mut(id) else { return };
        attachment.gone = gone.min(attachment.sent);
        self.pump(connection, id);
    }

    /// A client that was cut off goes on behind the last update that it got.
    pub(crate) fn continue_at(
        &mut self,
        connection: ConnectionId,
        id: &str,
        cursor: &str,
    ) -> Result<(), NoSuchPlace> {
        let Some(client) = self.connections.get(&connection) else { return Err(NoSuchPlace::Session) };
        let session = self.sessions.get(id).filter(|session| session.is_visible_to(&client.who));
        let session = session.ok_or(NoSuchPlace::Session)?;
        let held = lines::held(id, cursor).filter(|held| held.end <= session.next);
        let held = held.ok_or(NoSuchPlace::Cursor)?;
        let id = Arc::clone(session.id());
        if session.memory.is_none() {
            // The answers to what it looks at later need no log; where the session stands does.
            self.load(&id);
        }
        // What it was asked is asked again under the same ids.
        let pending = self.take_answer(connection, &id);
        self.attach(connection, &id, Start::After(held), pending);
        Ok(())
    }

    /// The answer that a client still waits for in a session that it was catching up with.
    pub(super) fn take_answer(
        &mut self,
        connection: ConnectionId,
        id: &SessionId,
    ) -> Option<(RequestId<'static>, Outcome)> {
        let attachment = self.connections.get_mut(&connection)?.attachments.get_mut(id)?;
        attachment.phase.take_answer()
    }
}

/// Whether a client that holds this much can be sent the records that follow as they are: they are at hand, and none of
/// them replaces or clears what another one has said.
fn has_only_appended(session: &Session, held: Held) -> bool {
    let from = held.key + 1;
    let is_at_hand = from >= session.next || from >= session.window_start;
    held.is_live()
        && is_at_hand
        && session
            .recent_from(from)
            .all(|recent| recent.is_question || recent.origin == Origin::Native || only_appends(&recent.text))
}

/// Whether an update adds something and takes nothing away.
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

/// Returns the mark of a record for a client that translates, or for which the hub does, and that may hold it already.
fn mark(origin: &Origin, is_held: bool) -> Option<Native> {
    match origin.mark() {
        Some(_) if is_held => Some(Native::Translated),
        None if is_held => Some(Native::Known),
        mark => mark,
    }
}

/// A notification of the agent as clients get it.
pub(super) fn client_line(
    notification: &Notification<'_>,
    memory: &Memory,
    id: &SessionId,
    cursor: Option<String>,
    native: Option<&Native>,
) -> ToClient {
    let renamed = notification.params.as_ref().and_then(|params| renamed(params, memory, id));
    let params = renamed.as_ref().or(notification.params.as_ref());
    let name = lines::text_of(params, "sessionId").map(|session| memory.name_for_clients(id, &session));
    let rewrite = Rewrite {
        session: name.as_deref(),
        cursor: cursor.as_deref().filter(|_| notification.method == "session/update"),
        native,
        ..Rewrite::default()
    };
    update_line(lines::call(None, &notification.method, params, rewrite).into(), id, cursor)
}

/// The parameters with the sessions that an update names as clients call them; `None` where it names none.
fn renamed(params: &Raw<'_>, memory: &Memory, id: &str) -> Option<Raw<'static>> {
    // Before anything is looked for in it.
    if !may_name_sessions(params.as_str()) {
        return None;
    }
    let update = params.get("update")?;
    let mut update = v2::SessionUpdate::decode(update.as_str(), WireFormat::Any).ok()?;
    let rename = &mut |session: &str| Some(memory.name_for_clients(id, session).into_owned());
    let has_changed = rename_sessions(&mut update, rename);
    let update = has_changed.then(|| update.encode(WireFormat::Any))?;
    Raw::parse(lines::merged(Some(params), &[("update", &update)])).ok()
}

fn update_line(text: SharedText, id: &SessionId, cursor: Option<String>) -> ToClient {
    let cursor = cursor.map(Into::into);
    ToClient { text, stream: Some(Arc::clone(id)), cursor, counts: true }
}

/// The update that says what a session is at, under the cursor of what was told before it; and how many questions are asked
/// next, so that a client which was cut off knows what is asked no more.
fn state_line(id: &str, state: &str, sequence: u64, questions: usize) -> SharedText {
    let meta = [CURSOR.entry(lines::cursor(id, sequence)), QUESTIONS.entry(questions as u64)];
    let meta = Meta::from_entries(meta);
    let params = [("sessionId", &*lines::quoted(id)), ("update", state), (META, meta.as_raw().as_str())];
    let params = lines::merged(None, &params);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#).into()
}
