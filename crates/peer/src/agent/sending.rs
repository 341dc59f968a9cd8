//! Sending of updates to the client and into the history.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use switchboard_acp::rpc::encode_notification;
use switchboard_acp::v2::unstable::SubagentUpdate;
use switchboard_acp::{Field, WireFormat, v2};
use switchboard_session::Session;
use switchboard_transport::{Caller, SharedText};
use tokio::sync::{Mutex, watch};

use super::SessionLists;
use crate::Error;

/// One session of an agent. All its updates pass through here, one after the other.
#[derive(Debug)]
pub(crate) struct SessionInner {
    pub(crate) id: Arc<str>,
    pub(crate) cwd: String,
    pub(crate) caller: Caller,
    pub(crate) client: Arc<v2::ClientCapabilities<'static>>,
    writer: Mutex<SessionWriter>,
    closed: AtomicBool,
    archived: AtomicBool,
    next: AtomicU64,
    /// Number of the running turn; 0 between turns.
    turn: AtomicU64,
    turns: AtomicU64,
    /// Number of queued and running prompts.
    prompts: watch::Sender<usize>,
    /// Number of cancellations.
    pub(crate) cancel: watch::Sender<u64>,
    /// The parent session if it still exists, and the child sessions.
    pub(crate) parent: Weak<SessionInner>,
    pub(crate) children: std::sync::Mutex<Vec<Arc<SessionInner>>>,
    /// Tool calls that can be cancelled individually.
    pub(crate) cancellable: std::sync::Mutex<BTreeMap<String, watch::Sender<bool>>>,
}

/// State of a session that is protected by its writer lock.
#[derive(Debug)]
pub(crate) struct SessionWriter {
    /// Content of a replay.
    pub(crate) history: Session,
    pub(crate) lists: SessionLists,
    /// Unfinished tool calls.
    open_calls: Vec<Arc<str>>,
    /// Running terminals.
    open_terminals: Vec<Arc<str>>,
    /// Number of pending questions.
    questions: usize,
}

/// Permission to send updates in a session.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    pub(crate) core: Arc<SessionInner>,
    /// The turn it belongs to; 0 for updates outside of turns.
    pub(crate) turn: u64,
}

impl SessionInner {
    /// Creates a session whose ids count up from `first`.
    pub(crate) fn new(
        id: &str,
        cwd: &str,
        caller: Caller,
        client: Arc<v2::ClientCapabilities<'static>>,
        first: u64,
    ) -> Self {
        SessionInner {
            id: id.into(),
            cwd: cwd.to_owned(),
            caller,
            client,
            writer: Mutex::new(SessionWriter {
                history: Session::new(WireFormat::Any),
                lists: SessionLists::default(),
                open_calls: Vec::new(),
                open_terminals: Vec::new(),
                questions: 0,
            }),
            closed: AtomicBool::new(false),
            archived: AtomicBool::new(false),
            next: AtomicU64::new(first),
            turn: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            prompts: watch::Sender::new(0),
            cancel: watch::Sender::new(0),
            parent: Weak::new(),
            children: std::sync::Mutex::default(),
            cancellable: std::sync::Mutex::default(),
        }
    }

    /// Creates an id such as `message-3`. All kinds share one counter, so that ids show the order.
    pub(crate) fn make_id(&self, kind: &str) -> Arc<str> {
        format!("{kind}-{}", self.next.fetch_add(1, Ordering::Relaxed)).into()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes or opens it and its child sessions.
    pub(crate) fn set_closed(&self, closed: bool) {
        self.closed.store(closed, Ordering::Release);
        for child in self.children() {
            child.set_closed(closed);
        }
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.archived.load(Ordering::Acquire)
    }

    pub(crate) fn set_archived(&self, archived: bool) {
        self.archived.store(archived, Ordering::Release);
    }

    /// Returns the child sessions.
    pub(crate) fn children(&self) -> Vec<Arc<SessionInner>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns its state.
    pub(crate) fn state(&self, writer: &SessionWriter) -> v2::StateUpdate<'static> {
        match (self.is_busy(), writer.questions) {
            (false, _) => v2::StateUpdate::Idle(v2::IdleState::new()),
            (true, 0) => v2::StateUpdate::Running(v2::ActiveState::new()),
            (true, _) => v2::StateUpdate::RequiresAction(v2::ActiveState::new()),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.turn.load(Ordering::Acquire) != 0
    }

    pub(crate) fn begin_turn(self: &Arc<Self>) -> Emitter {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        self.turn.store(turn, Ordering::Release);
        Emitter { core: Arc::clone(self), turn }
    }

    pub(crate) fn end_turn(&self) {
        self.turn.store(0, Ordering::Release);
    }

    /// Counts a prompt until the guard is dropped.
    pub(crate) fn working(self: &Arc<Self>) -> ActivePrompt {
        self.prompts.send_modify(|count| *count += 1);
        ActivePrompt(Arc::clone(self))
    }

    /// Waits until no prompt is queued or running.
    pub(crate) async fn until_idle(&self) {
        // The sender lives as long as this, so waiting cannot fail.
        let _ = self.prompts.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(crate) fn emitter(self: &Arc<Self>) -> Emitter {
        Emitter { core: Arc::clone(self), turn: 0 }
    }

    /// Locks the session for sending.
    pub(crate) async fn writer(&self) -> tokio::sync::MutexGuard<'_, SessionWriter> {
        self.writer.lock().await
    }

    /// Sends an update without checking the turn.
    pub(crate) async fn say(
        &self,
        writer: &mut SessionWriter,
        update: v2::SessionUpdate<'_>,
    ) -> Result<(), Error> {
        if self.is_closed() {
            return Err(Error::SessionClosed(self.id.to_string()));
        }
        writer.note(&update);
        self.transmit(update).await
    }

    /// Sends an update without storing it.
    pub(crate) async fn transmit(&self, update: v2::SessionUpdate<'_>) -> Result<(), Error> {
        let params = v2::UpdateSessionNotification::new(&*self.id, update);
        let mut line = String::with_capacity(256);
        encode_notification(&params, &mut line, WireFormat::Any);
        Ok(self.caller.forward(&SharedText::from(line)).await?)
    }

    /// Sends a state, also in the parent session.
    pub(crate) async fn say_state(
        &self,
        writer: &mut SessionWriter,
        state: v2::StateUpdate<'_>,
    ) -> Result<(), Error> {
        if let Some(parent) = self.parent.upgrade() {
            let update =
                SubagentUpdate { state: Field::Set(state.clone()), ..SubagentUpdate::new(&*self.id) };
            parent.emitter().say(v2::SessionUpdate::SubagentUpdate(Box::new(update))).await?;
        }
        self.say(writer, v2::SessionUpdate::StateUpdate(Box::new(state))).await
    }
}

/// A queued or running prompt.
#[derive(Debug)]
pub(crate) struct ActivePrompt(Arc<SessionInner>);

impl Drop for ActivePrompt {
    fn drop(&mut self) {
        self.0.prompts.send_modify(|count| *count -= 1);
    }
}

impl Emitter {
    /// Sends an update if its turn is still running.
    pub(crate) async fn say(&self, update: impl Into<v2::SessionUpdate<'_>>) -> Result<(), Error> {
        let mut writer = self.core.writer().await;
        self.check()?;
        self.core.say(&mut writer, update.into()).await
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.core.is_closed() {
            return Err(Error::SessionClosed(self.core.id.to_string()));
        }
        if self.turn != 0 && self.core.turn.load(Ordering::Acquire) != self.turn {
            return Err(Error::TurnOver);
        }
        Ok(())
    }

    /// Reports that the session waits for the user when the first question starts.
    pub(crate) async fn begin_question(&self) -> Result<(), Error> {
        let mut writer = self.core.writer().await;
        self.check()?;
        writer.questions += 1;
        if writer.questions == 1 {
            let state = v2::StateUpdate::RequiresAction(v2::ActiveState::new());
            self.core.say_state(&mut writer, state).await?;
        }
        Ok(())
    }

    /// Reports that the session is running when the last question ends.
    pub(crate) async fn end_question(&self) -> Result<(), Error> {
        let mut writer = self.core.writer().await;
        self.check()?;
        writer.questions = writer.questions.saturating_sub(1);
        if writer.questions == 0 {
            let state = v2::StateUpdate::Running(v2::ActiveState::new());
            self.core.say_state(&mut writer, state).await?;
        }
        Ok(())
    }
}

impl SessionWriter {
    /// Applies a sent update to the history.
    pub(crate) fn note(&mut self, update: &v2::SessionUpdate<'_>) {
        self.history.apply(update);
        match update {
            v2::SessionUpdate::ToolCallUpdate(call) => {
                let done = match &call.status {
                    Field::Keep => return,
                    status => status.value().is_some_and(v2::ToolCallStatus::is_final),
                };
                keep(&mut self.open_calls, &call.tool_call_id, !done);
            }
            v2::SessionUpdate::TerminalUpdate(terminal) => {
                keep(&mut self.open_terminals, &terminal.terminal_id, terminal.exit_status.value().is_none());
            }
            _ => {}
        }
    }

    /// Removes and returns the open tool calls and terminals, which are closed with the turn.
    pub(crate) fn take_open(&mut self) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        self.questions = 0;
        (std::mem::take(&mut self.open_calls), std::mem::take(&mut self.open_terminals))
    }
}

fn keep(open: &mut Vec<Arc<str>>, id: &str, is_open: bool) {
    let place = open.iter().position(|known| **known == *id);
    match (place, is_open) {
        (None, true) => open.push(id.into()),
        (Some(place), false) => {
            open.remove(place);
        }
        (None, false) | (Some(_), true) => {}
    }
}
