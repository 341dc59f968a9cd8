//! Runs a registered prompt as a client of the hub, from the session to the end of the turn.

use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::extensions::OPERATION_ID;
use switchboard_acp::rpc::RpcError;
use switchboard_acp::v2::{self, StopReason};
use switchboard_acp::{AbsolutePath, Moment};
use switchboard_hub::{Hub, Identity};
use switchboard_notify::Notifier;
use switchboard_peer::{Client, ClientOptions, Error, Feed, PromptEnd};
use switchboard_session::EntryKind;
use switchboard_transport::Connection;
use switchboard_transport::server::{ServerConnection, ServerLimits};
use tokio::task::spawn_blocking;

use super::super::logging::Logger;
use super::registry::{PromptRecord, Registry, RunningPrompt, Status};

/// Timeout of the handshake. It is long because the hub has its own, shorter timeout and reports it.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Everything that a prompt needs.
pub(super) struct Runner {
    pub(super) hub: Hub,
    pub(super) registry: Arc<Registry>,
    pub(super) notifier: Notifier,
    pub(super) logger: Logger,
    /// Origin of links to sessions.
    pub(super) address: String,
}

/// Work of a prompt.
pub(super) struct Work {
    pub(super) who: Identity,
    pub(super) text: String,
    /// Session to continue, instead of a new one.
    pub(super) session: Option<String>,
}

/// Reason why a prompt failed: the error code of an answer, and a message.
struct Failed(Option<i32>, String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::NotInitialized(error) => Failed::by(&error),
            error => Failed(None, error.to_string()),
        }
    }
}

impl Failed {
    fn by(error: &RpcError<'_>) -> Self {
        Failed(Some(error.code), error.message.to_string())
    }
}

impl Runner {
    /// Runs a prompt to its end, and sends the result to its webhook.
    pub(super) async fn run(&self, prompt: Arc<RunningPrompt>, work: Work) {
        let ended = self.turn(&prompt, work).await;
        let ended = self.update(&prompt, move |record| {
            match ended {
                Ok((end, text)) => finish(record, &end, text),
                Err(Failed(code, message)) => record.fail(code, message),
            }
            record.ended = Some(Moment::now().0);
        });
        // The record in memory is complete even if it could not be written.
        let record = ended.await.unwrap_or_else(|_| prompt.record());
        if let Some(webhook) = &record.webhook
            && !self.notifier.send_result(webhook, record.result(&self.address, 0))
        {
            self.logger.say(&format!("the result of a prompt was not sent: there is no webhook {webhook}"));
        }
    }

    /// Changes the record of a prompt durably. The error was logged.
    async fn update(
        &self,
        prompt: &Arc<RunningPrompt>,
        change: impl FnOnce(&mut PromptRecord) + Send + 'static,
    ) -> Result<PromptRecord, Failed> {
        let (registry, prompt) = (Arc::clone(&self.registry), Arc::clone(prompt));
        let updated = spawn_blocking(move || registry.update(&prompt, change)).await;
        let reason = match updated {
            Ok(Ok(record)) => return Ok(record),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.logger.say(&format!("cannot keep the state of a prompt: {reason}"));
        Err(Failed(None, format!("the hub cannot keep its state: {reason}")))
    }

    /// Runs one turn. Returns its end, and the last message of the agent.
    async fn turn(
        &self,
        prompt: &Arc<RunningPrompt>,
        work: Work,
    ) -> Result<(PromptEnd, Option<String>), Failed> {
        let Work { who, text, session } = work;
        let record = prompt.record();
        let (server, stream) = ServerConnection::local(ServerLimits::default());
        self.hub.connect(who, Some(&record.agent), server).await;
        let mut options = ClientOptions::new("switchboard prompt", env!("CARGO_PKG_VERSION"));
        options.patience = PATIENCE;
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(reader, writer, options.connection_options());
        let Client { agent, mut feed } = Client::connect(connection, options).await?;
        let folder = AbsolutePath::parse(record.folder.as_str());
        let folder = folder.map_err(|error| Failed(None, error.to_string()))?;
        let session = match session {
            Some(session) => {
                let request = v2::ResumeSessionRequest::new(session.clone(), folder);
                let resumed = drive(&mut feed, agent.resume_session(&request)).await?;
                resumed.map_err(|error| Failed::by(&error))?;
                session
            }
            None => {
                let request = v2::NewSessionRequest::new(folder);
                let opened = drive(&mut feed, agent.new_session(&request)).await?;
                opened.map_err(|error| Failed::by(&error))?.session_id.into_owned()
            }
        };
        // Before the prompt is sent: from now on it may have run.
        let known = session.clone();
        self.update(prompt, move |record| (record.status, record.session) = (Status::Running, Some(known)))
            .await?;
        let mut request =
            v2::PromptRequest::new(session.as_str(), vec![v2::ContentBlock::text(text.as_str())]);
        request.meta = Some(OPERATION_ID.meta(prompt.key.clone()));
        let sent = drive(&mut feed, agent.prompt_unless(&request, std::future::pending())).await?;
        let mut turn = sent.map_err(|error| Failed::by(&error))?;
        let end = drive(&mut feed, turn.ended()).await?;
        Ok((end, last_message(&feed, &session, turn.message_id())))
    }
}

/// Drives the connection until a future completes. Questions are left to the other clients of the hub.
async fn drive<T>(feed: &mut Feed, work: impl Future<Output = T>) -> T {
    feed.until(work, drop).await
}

/// Returns the last message of the agent after a prompt.
fn last_message(feed: &Feed, session: &str, prompt: Option<&str>) -> Option<String> {
    let last = feed.sessions().get(session, |session| {
        let mut last = None;
        for entry in session.entries() {
            match entry.kind() {
                // An earlier turn of the session.
                EntryKind::UserMessage if Some(entry.id()) == prompt => last = None,
                EntryKind::AgentMessage => {
                    let text = entry.as_message().map(|message| message.content().text().clone());
                    last = text.filter(|text| !text.trim().is_empty()).or(last);
                }
                _ => {}
            }
        }
        last
    });
    last.flatten()
}

fn finish(record: &mut PromptRecord, end: &PromptEnd, text: Option<String>) {
    if let Some(text) = text {
        record.set_text(text);
    }
    let reason = end.stop_reason.as_ref();
    record.stop_reason = reason.map(ToString::to_string);
    match (reason, &end.error) {
        (Some(StopReason::Cancelled), _) => record.status = Status::Cancelled,
        (Some(StopReason::Error), Some(error)) => record.fail(Some(error.code), error.message.to_string()),
        (Some(StopReason::Error), None) => record.fail(None, "the agent failed"),
        (Some(StopReason::Refusal), _) => record.fail(None, "the agent refused"),
        _ => record.status = Status::Done,
    }
}
