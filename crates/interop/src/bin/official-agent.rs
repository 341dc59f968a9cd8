//! An agent built with the official SDK: `official-agent 1|2 [serve]`. It asks for a permission and reports
//! the answer; the prompt `flood COUNT` in version 2 sends so many updates. `serve`: over HTTP and WebSocket;
//! the address is the first line on standard output.

use agent_client_protocol::{
    Agent, Client, ConnectTo, Result, Stdio, on_receive_notification, on_receive_request,
};
use agent_client_protocol_http::AcpHttpServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (version, serves) = (arguments.next(), arguments.next().is_some());
    match (version.as_deref(), serves) {
        (Some("1"), false) => version_one().connect_to(Stdio::new()).await,
        (_, false) => version_two().connect_to(Stdio::new()).await,
        (Some("1"), true) => serve(AcpHttpServer::new(version_one)).await,
        (_, true) => serve(AcpHttpServer::new(version_two)).await,
    }
}

async fn serve(server: AcpHttpServer) -> Result<()> {
    let failed =
        |error: std::io::Error| agent_client_protocol::Error::internal_error().data(error.to_string());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    println!("{}", listener.local_addr().map_err(failed)?);
    axum::serve(listener, server.into_router()).await.map_err(failed)
}

fn version_two() -> impl ConnectTo<Client> {
    use agent_client_protocol::v2::{ConnectionTo, Responder, schema};

    fn send(
        connection: &ConnectionTo<Client>,
        id: &schema::SessionId,
        update: schema::SessionUpdate,
    ) -> Result<()> {
        connection.send_notification(schema::UpdateSessionNotification::new(id.clone(), update))
    }

    async fn work(
        connection: ConnectionTo<Client>,
        id: schema::SessionId,
        cancelled: Arc<AtomicBool>,
    ) -> Result<()> {
        let state = |state| schema::SessionUpdate::StateUpdate(state);
        send(&connection, &id, state(schema::StateUpdate::Running(schema::RunningStateUpdate::new())))?;
        let call = schema::ToolCallUpdate::new("call-1").title("Write").kind(schema::ToolKind::Edit);
        send(&connection, &id, schema::SessionUpdate::ToolCallUpdate(call.clone()))?;
        let options = vec![
            schema::PermissionOption::new("yes", "Yes", schema::PermissionOptionKind::AllowOnce),
            schema::PermissionOption::new("no", "No", schema::PermissionOptionKind::RejectOnce),
        ];
        let request = schema::RequestPermissionRequest::new(id.clone(), "May I?", options).subject(
            schema::RequestPermissionSubject::ToolCall(Box::new(schema::ToolCallPermissionSubject::new(
                call,
            ))),
        );
        let response = connection.send_request(request).block_task().await?;
        let words = match response.outcome {
            schema::RequestPermissionOutcome::Selected(selected) => format!("chosen: {}", selected.option_id),
            _ => "nothing chosen".to_owned(),
        };
        let done = schema::ToolCallUpdate::new("call-1").status(schema::ToolCallStatus::Completed);
        send(&connection, &id, schema::SessionUpdate::ToolCallUpdate(done))?;
        let chunk = schema::ContentChunk::new(words.into(), schema::MessageId::new("message-1"));
        send(&connection, &id, schema::SessionUpdate::AgentMessageChunk(chunk))?;
        let reason = if cancelled.load(Ordering::SeqCst) {
            schema::StopReason::Cancelled
        } else {
            schema::StopReason::EndTurn
        };
        let idle = schema::IdleStateUpdate::new().stop_reason(reason);
        send(&connection, &id, state(schema::StateUpdate::Idle(idle)))
    }

    /// Sends updates as fast as the SDK can.
    async fn flood(connection: ConnectionTo<Client>, id: schema::SessionId, count: u64) -> Result<()> {
        for _ in 0..count {
            let text = switchboard_interop::FLOOD_TEXT.to_owned();
            let chunk = schema::ContentChunk::new(text.into(), schema::MessageId::new("message-1"));
            send(&connection, &id, schema::SessionUpdate::AgentMessageChunk(chunk))?;
        }
        Ok(())
    }

    let cancelled = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&cancelled);
    Agent
        .v2()
        .name("official-agent")
        .on_receive_request(
            async |request: schema::InitializeRequest,
                   responder: Responder<schema::InitializeResponse>,
                   _: ConnectionTo<Client>| {
                let info = schema::Implementation::new("official-agent", "1");
                let capabilities =
                    schema::AgentCapabilities::new().session(schema::SessionCapabilities::new());
                responder.respond(
                    schema::InitializeResponse::new(request.protocol_version, info)
                        .capabilities(capabilities),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |_: schema::NewSessionRequest,
                   responder: Responder<schema::NewSessionResponse>,
                   connection: ConnectionTo<Client>| {
                let id = schema::SessionId::new("official-1");
                responder.respond(schema::NewSessionResponse::new(id.clone()))?;
                // As in the SDK's own example: an idle state without a completion.
                let idle = schema::StateUpdate::Idle(schema::IdleStateUpdate::new());
                send(&connection, &id, schema::SessionUpdate::StateUpdate(idle))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: schema::PromptRequest,
                        responder: Responder<schema::PromptResponse>,
                        connection: ConnectionTo<Client>| {
                let id = schema::MessageId::new("user-1");
                let message = schema::UserMessage::new(id.clone()).content(request.prompt.clone());
                send(&connection, &request.session_id, schema::SessionUpdate::UserMessage(message))?;
                responder.respond(schema::PromptResponse::new(id))?;
                if let Some(schema::ContentBlock::Text(text)) = request.prompt.first()
                    && let Some(count) = switchboard_interop::flood_of(&text.text)
                {
                    return connection.spawn(flood(connection.clone(), request.session_id, count));
                }
                let (session, cancelled) = (request.session_id, Arc::clone(&cancelled));
                connection.spawn(work(connection.clone(), session, cancelled))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: schema::CancelSessionNotification, _: ConnectionTo<Client>| {
                noticed.store(true, Ordering::SeqCst);
                Ok(())
            },
            on_receive_notification!(),
        )
}

fn version_one() -> impl ConnectTo<Client> {
    use agent_client_protocol::v1::{ConnectionTo, Responder, schema};

    Agent
        .v1()
        .name("official-agent")
        .on_receive_request(
            async |_: schema::InitializeRequest,
                   responder: Responder<schema::InitializeResponse>,
                   _: ConnectionTo<Client>| {
                responder.respond(
                    schema::InitializeResponse::new(agent_client_protocol::schema::ProtocolVersion::V1)
                        .agent_capabilities(schema::AgentCapabilities::new())
                        .agent_info(schema::Implementation::new("official-agent", "1")),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |_: schema::NewSessionRequest,
                   responder: Responder<schema::NewSessionResponse>,
                   _: ConnectionTo<Client>| {
                responder.respond(schema::NewSessionResponse::new("official-1"))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |request: schema::PromptRequest,
                   responder: Responder<schema::PromptResponse>,
                   connection: ConnectionTo<Client>| {
                let id = request.session_id;
                let working = connection.clone();
                connection.spawn(async move {
                    let send = |update| {
                        working.send_notification(schema::SessionNotification::new(id.clone(), update))
                    };
                    send(schema::SessionUpdate::ToolCall(
                        schema::ToolCall::new("call-1", "Write").kind(schema::ToolKind::Edit),
                    ))?;
                    let fields = schema::ToolCallUpdateFields::new();
                    let asked = schema::RequestPermissionRequest::new(
                        id.clone(),
                        schema::ToolCallUpdate::new("call-1", fields),
                        vec![
                            schema::PermissionOption::new(
                                "yes",
                                "Yes",
                                schema::PermissionOptionKind::AllowOnce,
                            ),
                            schema::PermissionOption::new(
                                "no",
                                "No",
                                schema::PermissionOptionKind::RejectOnce,
                            ),
                        ],
                    );
                    let response = working.send_request(asked).block_task().await?;
                    let words = match response.outcome {
                        schema::RequestPermissionOutcome::Selected(selected) => {
                            format!("chosen: {}", selected.option_id)
                        }
                        _ => "nothing chosen".to_owned(),
                    };
                    let done = schema::ToolCallUpdateFields::new().status(schema::ToolCallStatus::Completed);
                    send(schema::SessionUpdate::ToolCallUpdate(schema::ToolCallUpdate::new("call-1", done)))?;
                    send(schema::SessionUpdate::AgentMessageChunk(schema::ContentChunk::new(words.into())))?;
                    responder.respond(schema::PromptResponse::new(schema::StopReason::EndTurn))
                })
            },
            on_receive_request!(),
        )
}
