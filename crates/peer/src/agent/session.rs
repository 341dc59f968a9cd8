//! A session, as its agent sees it.

use std::sync::Arc;

use switchboard_acp::{Field, NonEmptyText, v2};

use super::history;
use super::sending::SessionInner;
use crate::Error;

/// A session of an agent. What concerns the session and not one turn is said here, at any time.
#[derive(Debug, Clone)]
pub struct AgentSession {
    pub(super) core: Arc<SessionInner>,
}

impl AgentSession {
    /// The id.
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// Where it works: an absolute path.
    pub fn cwd(&self) -> &str {
        &self.core.cwd
    }

    /// What the client told that it can do.
    pub fn client_capabilities(&self) -> &v2::ClientCapabilities<'static> {
        &self.core.client
    }

    /// Gives the session a title.
    pub async fn title(&self, title: &str) -> Result<(), Error> {
        let update =
            v2::SessionInfoUpdate { title: Field::Set(title.into()), ..v2::SessionInfoUpdate::new() };
        self.update(v2::SessionUpdate::SessionInfoUpdate(Box::new(update))).await
    }

    /// Tells the commands that the user can give.
    pub async fn commands(&self, commands: Vec<v2::AvailableCommand<'static>>) -> Result<(), Error> {
        self.core.writer().await.lists.commands = Some(commands.clone());
        let update = v2::AvailableCommandsUpdate::new(commands);
        self.update(v2::SessionUpdate::AvailableCommandsUpdate(update)).await
    }

    /// Tells what the user can set, and how it is set.
    pub async fn config_options(&self, options: Vec<v2::SessionConfigOption<'static>>) -> Result<(), Error> {
        self.core.writer().await.lists.config_options = Some(options.clone());
        self.update(v2::SessionUpdate::ConfigOptionUpdate(v2::ConfigOptionUpdate::new(options))).await
    }

    /// What the user can set, as it was told last.
    pub async fn current_options(&self) -> Vec<v2::SessionConfigOption<'static>> {
        self.core.writer().await.lists.config_options.clone().unwrap_or_default()
    }

    /// Tells how full the context is.
    pub async fn usage(&self, used: u64, size: u64) -> Result<(), Error> {
        let update = v2::UsageUpdate::new(used, size);
        self.update(v2::SessionUpdate::UsageUpdate(Box::new(update))).await
    }

    /// Shows something once. It is no part of the history.
    pub async fn notice(&self, severity: v2::NoticeSeverity, title: &str) -> Result<(), Error> {
        let update = v2::Notice::new(severity, NonEmptyText::parse(title).map_err(Error::rule)?);
        self.update(v2::SessionUpdate::Notice(Box::new(update))).await
    }

    /// Tells anything else. States are told by themselves, and are refused here.
    pub async fn update(&self, update: v2::SessionUpdate<'_>) -> Result<(), Error> {
        if matches!(update, v2::SessionUpdate::StateUpdate(_)) {
            return Err(Error::BrokenRule("the state of a session is told by itself".into()));
        }
        self.core.emitter().say(update).await
    }

    /// The sessions of the sub-agents that were started here, and of those that they started: each after the one that
    /// started it. **Unstable.**
    pub fn subagents(&self) -> Vec<AgentSession> {
        let family = self.core.family().into_iter().skip(1);
        family.map(|core| AgentSession { core }).collect()
    }

    /// The updates that make up the history, as a replay tells them.
    pub async fn history(&self) -> Vec<v2::SessionUpdate<'static>> {
        use switchboard_acp::Wire;
        let writer = self.core.writer().await;
        history::updates(&writer.history).into_iter().map(Wire::into_owned).collect()
    }
}
