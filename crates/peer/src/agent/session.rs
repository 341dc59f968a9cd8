//! A session from the agent's point of view.

use std::sync::Arc;

use switchboard_acp::{Field, NonEmptyText, v2};

use super::history;
use super::sending::SessionInner;
use crate::Error;

/// A session of an agent. Updates about the session rather than a turn can be sent at any time.
#[derive(Debug, Clone)]
pub struct AgentSession {
    pub(super) core: Arc<SessionInner>,
}

impl AgentSession {
    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// Returns its working directory, an absolute path.
    pub fn cwd(&self) -> &str {
        &self.core.cwd
    }

    /// Returns the client's capabilities.
    pub fn client_capabilities(&self) -> &v2::ClientCapabilities<'static> {
        &self.core.client
    }

    /// Sets the title of the session.
    pub async fn title(&self, title: &str) -> Result<(), Error> {
        let update =
            v2::SessionInfoUpdate { title: Field::Set(title.into()), ..v2::SessionInfoUpdate::new() };
        self.update(v2::SessionUpdate::SessionInfoUpdate(Box::new(update))).await
    }

    /// Sends the list of slash commands.
    pub async fn commands(&self, commands: Vec<v2::AvailableCommand<'static>>) -> Result<(), Error> {
        self.core.writer().await.lists.commands = Some(commands.clone());
        let update = v2::AvailableCommandsUpdate::new(commands);
        self.update(v2::SessionUpdate::AvailableCommandsUpdate(update)).await
    }

    /// Sends the configuration options with their values.
    pub async fn config_options(&self, options: Vec<v2::SessionConfigOption<'static>>) -> Result<(), Error> {
        self.core.writer().await.lists.config_options = Some(options.clone());
        self.update(v2::SessionUpdate::ConfigOptionUpdate(v2::ConfigOptionUpdate::new(options))).await
    }

    /// Returns the options that were sent last.
    pub async fn current_options(&self) -> Vec<v2::SessionConfigOption<'static>> {
        self.core.writer().await.lists.config_options.clone().unwrap_or_default()
    }

    /// Sends the context usage, in tokens.
    pub async fn usage(&self, used: u64, size: u64) -> Result<(), Error> {
        let update = v2::UsageUpdate::new(used, size);
        self.update(v2::SessionUpdate::UsageUpdate(Box::new(update))).await
    }

    /// Shows a notice, which is not part of the history.
    pub async fn notice(&self, severity: v2::NoticeSeverity, title: &str) -> Result<(), Error> {
        let update = v2::Notice::new(severity, NonEmptyText::parse(title).map_err(Error::rule)?);
        self.update(v2::SessionUpdate::Notice(Box::new(update))).await
    }

    /// Sends any other update. States are sent automatically and refused here.
    pub async fn update(&self, update: v2::SessionUpdate<'_>) -> Result<(), Error> {
        if matches!(update, v2::SessionUpdate::StateUpdate(_)) {
            return Err(Error::BrokenRule("the state of a session is sent automatically".into()));
        }
        self.core.emitter().say(update).await
    }

    /// Returns all descendant sessions of sub-agents, parents first. **Unstable.**
    pub fn subagents(&self) -> Vec<AgentSession> {
        let family = self.core.family().into_iter().skip(1);
        family.map(|core| AgentSession { core }).collect()
    }

    /// Returns the updates of the history, as in a replay.
    pub async fn history(&self) -> Vec<v2::SessionUpdate<'static>> {
        use switchboard_acp::Wire;
        let writer = self.core.writer().await;
        history::updates(&writer.history).into_iter().map(Wire::into_owned).collect()
    }
}
