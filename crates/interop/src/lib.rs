//! A client built with the official SDK, over any connection. It prints a line of JSON for every update and
//! the stop reason at the end. It allows everything.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::{Agent, Client, ConnectTo, Error, on_receive_notification, on_receive_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Runs a prompt in version 1 or 2.
pub async fn run_client(
    agent: impl ConnectTo<Client> + 'static,
    version: &str,
    prompt: String,
) -> Result<(), Error> {
    if version == "1" { version_one(agent, prompt).await } else { version_two(agent, prompt).await }
}

/// Text of each update in a flood.
pub const FLOOD_TEXT: &str = "The quick brown fox jumps over the lazy dog, and nobody minds. ";

/// Returns the number of updates that a prompt requests: `flood 1000`.
pub fn flood_of(prompt: &str) -> Option<u64> {
    prompt.strip_prefix("flood ")?.parse().ok()
}

/// Requests a flood of updates from a version 2 agent and counts them. Returns the duration.
pub async fn take_flood(agent: impl ConnectTo<Client> + 'static, count: u64) -> Result<Duration, Error> {
    use agent_client_protocol::v2::{ConnectionTo, schema};
    let seen = AtomicU64::new(0);
    let all_seen = Arc::new(Notify::new());
    let done = Arc::clone(&all_seen);
    Client
        .v2()
        .name("official-client")
        .on_receive_notification(
            async move |notification: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                if let schema::SessionUpdate::AgentMessageChunk(_) = &notification.update
                    && seen.fetch_add(1, Ordering::Relaxed) + 1 == count
                {
                    done.notify_one();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(agent, async move |connection| {
            let info = schema::Implementation::new("official-client", "1");
            connection
                .send_request(schema::InitializeRequest::new(ProtocolVersion::V2, info))
                .block_task()
                .await?;
            let opened = connection.build_session_cwd()?.start_session().block_task().await?;
            let begun = Instant::now();
            opened.session.send_prompt(format!("flood {count}")).block_task().await?;
            all_seen.notified().await;
            Ok(begun.elapsed())
        })
        .await
}

fn print(value: &impl std::fmt::Debug, json: serde_json::Result<serde_json::Value>) {
    match json {
        Ok(json) => println!("{json}"),
        Err(error) => panic!("{value:?} has no JSON: {error}"),
    }
}

async fn version_two(agent: impl ConnectTo<Client> + 'static, prompt: String) -> Result<(), Error> {
    use agent_client_protocol::v2::{ConnectionTo, Responder, schema};
    let (sender, mut updates) = mpsc::channel(100_000);
    Client
        .v2()
        .name("official-client")
        .on_receive_notification(
            async move |notification: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                sender.send(notification.update).await.map_err(Error::into_internal_error)
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async |request: schema::RequestPermissionRequest,
                   responder: Responder<schema::RequestPermissionResponse>,
                   _: ConnectionTo<Agent>| {
                let id = request.options[0].option_id.clone();
                let outcome =
                    schema::RequestPermissionOutcome::Selected(schema::SelectedPermissionOutcome::new(id));
                responder.respond(schema::RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(agent, async move |connection| {
            let info = schema::Implementation::new("official-client", "1");
            connection
                .send_request(schema::InitializeRequest::new(ProtocolVersion::V2, info))
                .block_task()
                .await?;
            let opened = connection.build_session_cwd()?.start_session().block_task().await?;
            opened.session.send_prompt(&prompt).block_task().await?;
            while let Some(update) = updates.recv().await {
                print(&update, serde_json::to_value(&update));
                if let schema::SessionUpdate::StateUpdate(schema::StateUpdate::Idle(idle)) = update
                    && idle.stop_reason.is_some()
                {
                    break;
                }
            }
            opened.session.close().block_task().await?;
            Ok(())
        })
        .await
}

async fn version_one(agent: impl ConnectTo<Client> + 'static, prompt: String) -> Result<(), Error> {
    use agent_client_protocol::v1::{ConnectionTo, Responder, schema};
    Client
        .v1()
        .name("official-client")
        .on_receive_notification(
            async |notification: schema::SessionNotification, _: ConnectionTo<Agent>| {
                print(&notification, serde_json::to_value(&notification.update));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async |request: schema::RequestPermissionRequest,
                   responder: Responder<schema::RequestPermissionResponse>,
                   _: ConnectionTo<Agent>| {
                let id = request.options[0].option_id.clone();
                let outcome =
                    schema::RequestPermissionOutcome::Selected(schema::SelectedPermissionOutcome::new(id));
                responder.respond(schema::RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(agent, async move |connection: ConnectionTo<Agent>| {
            connection.send_request(schema::InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let cwd = std::env::current_dir().map_err(Error::into_internal_error)?;
            let session =
                connection.send_request(schema::NewSessionRequest::new(cwd)).block_task().await?.session_id;
            let content = vec![schema::ContentBlock::Text(schema::TextContent::new(prompt))];
            let ended =
                connection.send_request(schema::PromptRequest::new(session, content)).block_task().await?;
            println!("{}", serde_json::json!({ "stopReason": ended.stop_reason }));
            Ok(())
        })
        .await
}
