//! The way of an update from an author to the client, and into the history.

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

/// One session of an agent. All that is said in it goes through here, one thing after the other.
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
    /// The number of the turn that goes on; 0 between turns.
    turn: AtomicU64,
    turns: AtomicU64,
    /// How many prompts are held or worked on.
    prompts: watch::Sender<usize>,
    /// Counts up with every cancel.
    pub(crate) cancel: watch::Sender<u64>,
    /// The session that started this one, where one did and is still there, and those that this one has started.
    pub(crate) parent: Weak<SessionInner>,
    pub(crate) children: std::sync::Mutex<Vec<Arc<SessionInner>>>,
    /// What can be cancelled by itself.
    pub(crate) cancellable: std::sync::Mutex<BTreeMap<String, watch::Sender<bool>>>,
}

/// What is only said by one at a time.
#[derive(Debug)]
pub(crate) struct SessionWriter {
    /// What a replay tells.
    pub(crate) history: Session,
    pub(crate) lists: SessionLists,
    /// Tool calls that are not finished.
    open_calls: Vec<Arc<str>>,
    /// Terminals that have not exited.
    open_terminals: Vec<Arc<str>>,
    /// How many questions wait for the user.
    questions: usize,
}

/// The right to say something in a session.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    pub(crate) core: Arc<SessionInner>,
    /// The turn that it belongs to; 0 for what may be said at any time.
    pub(crate) turn: u64,
}

impl SessionInner {
    /// A session whose ids count up from `first`.
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

    /// A new id, such as `message-3`. All kinds count together, so that ids tell the order.
    pub(crate) fn make_id(&self, kind: &str) -> Arc<str> {
        format!("{kind}-{}", self.next.fetch_add(1, Ordering::Relaxed)).into()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes or opens it, and the sessions that it has started.
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

    /// The sessions that this one has started.
    pub(crate) fn children(&self) -> Vec<Arc<SessionInner>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it is doing.
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

    /// Counts a prompt for as long as this lives.
    pub(crate) fn working(self: &Arc<Self>) -> Working {
        self.prompts.send_modify(|count| *count += 1);
        Working(Arc::clone(self))
    }

    /// Waits until no prompt is held or worked on.
    pub(crate) async fn until_idle(&self) {
        // The sender is here, so that waiting cannot fail.
        let _ = self.prompts.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(crate) fn emitter(self: &Arc<Self>) -> Emitter {
        Emitter { core: Arc::clone(self), turn: 0 }
    }

    /// Whoever holds this is the only one who speaks.
    pub(crate) async fn writer(&self) -> tokio::sync::MutexGuard<'_, SessionWriter> {
        self.writer.lock().await
    }

    /// Says something without a look at turns.
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

    /// Sends an update without keeping it.
    pub(crate) async fn transmit(&self, update: v2::SessionUpdate<'_>) -> Result<(), Error> {
        let params = v2::UpdateSessionNotification::new(&*self.id, update);
        let mut line = String::with_capacity(256);
        encode_notification(&params, &mut line, WireFormat::Any);
        Ok(self.caller.forward(&SharedText::from(line)).await?)
    }

    /// Tells a state, also in the session that started this one.
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

/// A prompt that is held or worked on.
#[derive(Debug)]
pub(crate) struct Working(Arc<SessionInner>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.prompts.send_modify(|count| *count -= 1);
    }
}

impl Emitter {
    /// Says something, in its turn.
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

    /// Says that a question waits for the user, the first time that one does.
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

    /// Says that the work goes on, when no question waits any more.
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
    /// Keeps account of what is said.
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

    /// Tool calls and terminals that an author left open, which are closed with the turn.
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
