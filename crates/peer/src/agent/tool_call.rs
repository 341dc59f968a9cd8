//! Tool calls of an agent.

use std::sync::{Arc, PoisonError};

use switchboard_acp::{Field, Raw, v2};
use tokio::sync::watch;

use super::sending::Emitter;
use super::subagent::SubagentStart;
use super::terminal::Terminal;
use crate::Error;

/// A tool call in preparation.
#[derive(Debug)]
#[must_use = "it is not sent before `begin` or `announce`"]
pub struct ToolCallStart {
    emitter: Emitter,
    cancellable: bool,
    update: v2::ToolCallUpdate<'static>,
}

impl ToolCallStart {
    pub(super) fn new(emitter: Emitter, title: &str) -> Self {
        let id = emitter.core.make_id("call");
        let update = v2::ToolCallUpdate::new(id.to_string()).title(title.to_owned());
        ToolCallStart { emitter, cancellable: false, update }
    }

    /// Sets the kind of the tool.
    pub fn kind(mut self, kind: v2::ToolKind) -> Self {
        self.update.kind = Field::Set(kind);
        self
    }

    /// Sets the tool's name, for programs.
    pub fn name(mut self, name: &str) -> Self {
        self.update.name = Field::Set(name.to_owned().into());
        self
    }

    /// Sets the files that it works on: paths, or locations with a line.
    ///
    /// ```
    /// # use switchboard_peer::{AbsolutePath, Error, Turn, v2};
    /// # async fn announce(turn: &Turn) -> Result<(), Error> {
    /// # let path = AbsolutePath::parse("/w/main.rs").map_err(Error::failed)?;
    /// turn.tool_call("Read main.rs").locations([v2::ToolCallLocation::new(path).line(7)]).begin().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn locations<L: Into<v2::ToolCallLocation<'static>>>(
        mut self,
        locations: impl IntoIterator<Item = L>,
    ) -> Self {
        self.update.locations = Field::Set(locations.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the parameters of the tool.
    pub fn raw_input(mut self, input: impl Into<Raw<'static>>) -> Self {
        self.update.raw_input = Field::Set(input.into());
        self
    }

    /// Lets the user cancel this call individually: see [`ToolCall::cancelled`].
    pub fn cancellable(mut self) -> Self {
        self.cancellable = true;
        let marker =
            v2::CancelCapabilities { cancel: Some(v2::EmptyObject::new()), ..v2::CancelCapabilities::new() };
        self.update.capabilities = Field::Set(marker);
        self
    }

    /// Announces the call as pending, for example until a permission is granted.
    pub async fn announce(self) -> Result<ToolCall, Error> {
        self.tell(v2::ToolCallStatus::Pending).await
    }

    /// Announces the call as in progress.
    pub async fn begin(self) -> Result<ToolCall, Error> {
        self.tell(v2::ToolCallStatus::InProgress).await
    }

    async fn tell(mut self, status: v2::ToolCallStatus) -> Result<ToolCall, Error> {
        self.update.status = Field::Set(status);
        let id: Arc<str> = self.update.tool_call_id.as_ref().into();
        let cancelled = self.cancellable.then(|| {
            let (sender, receiver) = watch::channel(false);
            let mut all = self.emitter.core.cancellable.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(id.to_string(), sender);
            receiver
        });
        let call = ToolCall { emitter: self.emitter, id, cancelled };
        call.emitter.say(self.update).await?;
        Ok(call)
    }
}

/// An unfinished tool call. It ends with one of the methods that consume it; a call that is still open at the
/// end of the turn is closed with it.
#[derive(Debug)]
pub struct ToolCall {
    emitter: Emitter,
    id: Arc<str>,
    cancelled: Option<watch::Receiver<bool>>,
}

impl ToolCall {
    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Marks an announced call as in progress.
    pub async fn begin(&self) -> Result<(), Error> {
        self.update(|update| update.status(v2::ToolCallStatus::InProgress)).await
    }

    /// Prepares a sub-agent that this call starts and shows in its content; [`Turn::subagent`] does so
    /// without a call. **Unstable.**
    ///
    /// [`Turn::subagent`]: crate::Turn::subagent
    pub fn subagent(&self, title: &str) -> SubagentStart {
        SubagentStart::new(self.emitter.clone(), title, Some(Arc::clone(&self.id)))
    }

    /// Changes the title.
    pub async fn retitle(&self, title: &str) -> Result<(), Error> {
        self.update(|update| update.title(title.to_owned())).await
    }

    /// Appends text to the output.
    pub async fn text(&self, text: &str) -> Result<(), Error> {
        self.append(v2::ToolCallContent::text(text)).await
    }

    /// Appends a diff.
    pub async fn diff(&self, diff: &switchboard_diff::Diff) -> Result<(), Error> {
        self.append(diff.into()).await
    }

    /// Runs a command in a terminal that this call shows.
    pub async fn terminal(&self, command: &str, cwd: &str) -> Result<Terminal, Error> {
        let terminal = Terminal::open(self.emitter.clone(), command, cwd).await?;
        self.append(v2::ToolCallContent::Terminal(v2::Terminal::new(terminal.id()))).await?;
        Ok(terminal)
    }

    /// Appends content of any kind.
    pub async fn append(&self, content: v2::ToolCallContent<'_>) -> Result<(), Error> {
        let chunk = v2::ToolCallContentChunk::new(&*self.id, content);
        self.emitter.say(v2::SessionUpdate::ToolCallContentChunk(chunk)).await
    }

    /// Replaces the content.
    pub async fn replace(&self, content: Vec<v2::ToolCallContent<'_>>) -> Result<(), Error> {
        let update =
            v2::ToolCallUpdate { content: Field::Set(content), ..v2::ToolCallUpdate::new(&*self.id) };
        self.emitter.say(update).await
    }

    /// Changes any other field, starting from an empty update. A final status is refused here.
    pub async fn update(
        &self,
        change: impl FnOnce(v2::ToolCallUpdate<'static>) -> v2::ToolCallUpdate<'static>,
    ) -> Result<(), Error> {
        let mut update = change(v2::ToolCallUpdate::new(self.id.to_string()));
        update.tool_call_id = self.id.to_string().into();
        if update.status.value().is_some_and(v2::ToolCallStatus::is_final) {
            return Err(Error::BrokenRule("use complete, fail or cancel to end a tool call".into()));
        }
        self.emitter.say(update).await
    }

    /// Waits until the user cancels this call; forever if it is not cancellable.
    pub async fn cancelled(&self) {
        let Some(cancelled) = &self.cancelled else { return std::future::pending().await };
        let mut cancelled = cancelled.clone();
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the call as completed.
    pub async fn complete(self) -> Result<(), Error> {
        self.end(v2::ToolCallStatus::Completed, Field::Keep).await
    }

    /// Ends the call as completed, with its raw output.
    pub async fn complete_with(self, output: impl Into<Raw<'static>>) -> Result<(), Error> {
        self.end(v2::ToolCallStatus::Completed, Field::Set(output.into())).await
    }

    /// Ends the call as failed, with a reason to show.
    pub async fn fail(self, reason: &str) -> Result<(), Error> {
        if !reason.is_empty() {
            self.text(reason).await?;
        }
        self.end(v2::ToolCallStatus::Failed, Field::Keep).await
    }

    /// Ends the call as cancelled.
    pub async fn cancel(self) -> Result<(), Error> {
        self.end(v2::ToolCallStatus::Cancelled, Field::Keep).await
    }

    async fn end(&self, status: v2::ToolCallStatus, raw_output: Field<Raw<'static>>) -> Result<(), Error> {
        let mut update = v2::ToolCallUpdate::new(&*self.id).status(status);
        update.raw_output = raw_output;
        if self.cancelled.is_some() {
            // A finished call cannot be cancelled.
            update.capabilities = Field::Clear;
        }
        self.emitter.say(update).await
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        if self.cancelled.is_some() {
            let mut all = self.emitter.core.cancellable.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(&*self.id);
        }
    }
}
