//! Sub-agents: sessions that an agent starts inside another. **Unstable**, like their part of the protocol.

use std::ops::Deref;
use std::sync::{Arc, PoisonError};

use switchboard_acp::rpc::RpcError;
use switchboard_acp::{Field, v2};
use v2::unstable::{SessionMessage, SessionReference, SubagentSessionCapabilities, SubagentUpdate};

use super::sending::{Emitter, SessionInner};
use super::session::AgentSession;
use super::turn::Turn;
use super::work;
use crate::Error;

/// A sub-agent in preparation.
#[derive(Debug)]
#[must_use = "it is not sent before `start`"]
pub struct SubagentStart {
    parent: Emitter,
    title: String,
    description: Option<String>,
    task: Option<String>,
    call: Option<Arc<str>>,
}

impl SubagentStart {
    /// Prepares a sub-agent. `call`: the tool call that starts it and shows it in its content.
    pub(super) fn new(parent: Emitter, title: &str, call: Option<Arc<str>>) -> Self {
        SubagentStart { parent, title: title.to_owned(), description: None, task: None, call }
    }

    /// Sets its description.
    pub fn description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Sets its task: the first message in its transcript.
    pub fn task(mut self, text: &str) -> Self {
        self.task = Some(text.to_owned());
        self
    }

    /// Announces the sub-agent, which is running from then on.
    pub async fn start(self) -> Result<Subagent, Error> {
        let SubagentStart { parent, title, description, task, call } = self;
        let core = parent.core.start_child();
        let running = || v2::StateUpdate::Running(v2::ActiveState::new());
        let capabilities = SubagentSessionCapabilities {
            cancel: Some(v2::EmptyObject::new()),
            ..SubagentSessionCapabilities::new()
        };
        let announcement = SubagentUpdate {
            title: Field::Set(title.into()),
            description: description.map_or(Field::Keep, |text| Field::Set(text.into())),
            capabilities: Field::Set(capabilities),
            state: Field::Set(running()),
            ..SubagentUpdate::new(core.id.to_string())
        };
        if let Some(call) = call {
            let place = v2::ToolCallContent::Session(SessionReference::new(core.id.to_string()));
            let chunk = v2::ToolCallContentChunk::new(&*call, place);
            // Before the announcement, so that a reader knows its position.
            parent.say(v2::SessionUpdate::ToolCallContentChunk(chunk)).await?;
        }
        parent.say(v2::SessionUpdate::SubagentUpdate(Box::new(announcement))).await?;
        let emitter = core.begin_turn();
        // The announcement has reported the state in the parent's transcript.
        emitter.say(v2::SessionUpdate::StateUpdate(Box::new(running()))).await?;
        if let Some(task) = &task {
            send(&parent, &emitter, task).await?;
        }
        let prompt = task.map(v2::ContentBlock::text).into_iter().collect();
        let cancels = *core.cancel.borrow();
        let turn = Turn::new(AgentSession { core }, emitter, prompt, String::new(), cancels);
        Ok(Subagent { turn, parent: parent.core, is_over: false })
    }
}

/// A running sub-agent. It can send everything that a [`Turn`] can, in its own session, including sub-agents
/// of its own. It continues after the turn that started it until it is finished or dropped, which counts as
/// cancelled. A cancellation of its parent cancels it too.
#[derive(Debug)]
pub struct Subagent {
    turn: Turn,
    parent: Arc<SessionInner>,
    is_over: bool,
}

impl Deref for Subagent {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.turn
    }
}

impl Subagent {
    /// Returns the id of its session.
    pub fn id(&self) -> &str {
        self.turn.session().id()
    }

    /// Sends a message to the parent session, for example with its result.
    pub async fn report(&self, text: &str) -> Result<(), Error> {
        send(self.turn.emitter(), &self.parent.emitter(), text).await
    }

    /// Ends its work: open tool calls and terminals are closed, and both sessions report that it is idle.
    /// After a cancellation, the reason is always `cancelled`.
    pub async fn finish(self, reason: v2::StopReason) -> Result<(), Error> {
        self.end(Ok(reason)).await
    }

    /// Ends its work with an error.
    pub async fn fail(self, error: RpcError<'static>) -> Result<(), Error> {
        self.end(Err(error)).await
    }

    async fn end(mut self, outcome: Result<v2::StopReason, RpcError<'static>>) -> Result<(), Error> {
        self.is_over = true;
        work::finish(&self.turn.emitter().core, outcome, self.turn.is_cancelled()).await
    }
}

impl Drop for Subagent {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let core = Arc::clone(&self.turn.emitter().core);
        // Without a runtime, no client is left to notify.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { work::finish(&core, Ok(v2::StopReason::Cancelled), true).await });
        }
    }
}

/// Adds a message to the transcripts of its sender and its recipient.
async fn send(sender: &Emitter, recipient: &Emitter, text: &str) -> Result<(), Error> {
    let sent = sender.core.make_id("message");
    let received = recipient.core.make_id("message");
    let message = |id: &str| SessionMessage {
        sender_session_id: Field::Set(sender.core.id.to_string().into()),
        recipient_session_id: Field::Set(recipient.core.id.to_string().into()),
        content: Field::Set(vec![v2::ContentBlock::text(text.to_owned())]),
        ..SessionMessage::new(id.to_owned())
    };
    let outgoing = SessionMessage { recipient_message_id: Field::Set((*received).into()), ..message(&sent) };
    let incoming = SessionMessage { sender_message_id: Field::Set((*sent).into()), ..message(&received) };
    sender.say(v2::SessionUpdate::SessionMessage(Box::new(outgoing))).await?;
    recipient.say(v2::SessionUpdate::SessionMessage(Box::new(incoming))).await
}

impl SessionInner {
    /// Creates a child session.
    fn start_child(self: &Arc<Self>) -> Arc<SessionInner> {
        let id = format!("{}.{}", self.id, self.make_id("subagent"));
        self.adopt(SessionInner::new(&id, &self.cwd, self.caller.clone(), Arc::clone(&self.client), 1))
    }

    /// Makes a session a child of this one.
    pub(super) fn adopt(self: &Arc<Self>, mut child: SessionInner) -> Arc<SessionInner> {
        child.parent = Arc::downgrade(self);
        let child = Arc::new(child);
        self.children.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&child));
        child
    }

    /// Returns this session and all its descendants, parents first.
    pub(super) fn family(self: &Arc<Self>) -> Vec<Arc<SessionInner>> {
        let mut family = vec![Arc::clone(self)];
        let mut place = 0;
        while let Some(core) = family.get(place) {
            family.extend(core.children());
            place += 1;
        }
        family
    }

    /// Returns the descendant session with an id.
    pub(super) fn descendant(&self, id: &str) -> Option<Arc<SessionInner>> {
        // The id of a child begins with that of its parent.
        let rest = id.strip_prefix(&*self.id)?;
        if !rest.starts_with('.') {
            return None;
        }
        self.children().into_iter().find_map(|child| match *child.id == *id {
            true => Some(child),
            false => child.descendant(id),
        })
    }

    /// Cancels the work of this session and all its descendants.
    pub(super) fn cancel_all(&self) {
        self.cancel.send_modify(|count| *count += 1);
        self.children().iter().for_each(|child| child.cancel_all());
    }
}
