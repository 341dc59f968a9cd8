//! The life of a prompt: queued, accepted, running, done.

use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::{WireFormat, v2};
use switchboard_transport::{IncomingRequest, Json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Agent;
use super::sending::{ActivePrompt, SessionInner};
use super::session::AgentSession;
use super::turn::Turn;
use crate::Error;

/// Grace period for an author's code after a cancellation.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// A queued prompt.
pub(super) struct QueuedPrompt {
    request: IncomingRequest,
    prompt: Vec<v2::ContentBlock<'static>>,
    /// Number of cancellations when it arrived.
    cancels: u64,
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when this prompt is done.
    done: oneshot::Sender<()>,
    _working: ActivePrompt,
}

impl QueuedPrompt {
    pub(super) fn new(
        request: IncomingRequest,
        prompt: Vec<v2::ContentBlock<'static>>,
        core: &Arc<SessionInner>,
        before: Option<oneshot::Receiver<()>>,
        done: oneshot::Sender<()>,
    ) -> Self {
        let cancels = *core.cancel.borrow();
        QueuedPrompt { request, prompt, cancels, before, done, _working: core.working() }
    }
}

/// Waits for the earlier prompts and works on this one.
pub(super) async fn work_on<A: Agent>(agent: Arc<A>, core: Arc<SessionInner>, held: QueuedPrompt) {
    let QueuedPrompt { request, prompt, cancels, mut before, done, _working } = held;
    let mut cancel = core.cancel.subscribe();
    let mut taken_back = request.cancellation();
    let turn_has_come = async {
        if let Some(before) = &mut before {
            // An error also means that the earlier prompt is done.
            let _ = before.await;
        }
    };
    let inserted = tokio::select! {
        biased;
        () = taken_back.cancelled() => false,
        _ = cancel.wait_for(|count| *count > cancels) => false,
        () = turn_has_come => true,
    };
    if inserted {
        // An unreachable client needs no further updates.
        let _ = work(agent, &core, request, prompt, cancels).await;
    } else {
        let error = RpcError::new(codes::REQUEST_CANCELLED, "cancelled while queued");
        let _ = request.fail(&error).await;
        // The next prompt still waits for the earlier one.
        if let Some(before) = before {
            let _ = before.await;
        }
    }
    drop(done);
}

async fn work<A: Agent>(
    agent: Arc<A>,
    core: &Arc<SessionInner>,
    request: IncomingRequest,
    prompt: Vec<v2::ContentBlock<'static>>,
    cancels: u64,
) -> Result<(), Error> {
    let emitter = core.begin_turn();
    let message_id = core.make_id("user").to_string();
    {
        let mut writer = core.writer().await;
        core.say_state(&mut writer, v2::StateUpdate::Running(v2::ActiveState::new())).await?;
        let response =
            v2::PromptResponse { message_id: Some(message_id.as_str().into()), ..v2::PromptResponse::new() };
        request.respond(Json::of(&response, WireFormat::Any)).await?;
        let message = v2::MessageUpdate {
            content: switchboard_acp::Field::Set(prompt.clone()),
            ..v2::MessageUpdate::new(message_id.as_str())
        };
        core.say(&mut writer, v2::SessionUpdate::UserMessage(message)).await?;
    }
    let session = AgentSession { core: Arc::clone(core) };
    let turn = Turn::new(session.clone(), emitter, prompt, message_id, cancels);
    let outcome = run(Arc::clone(&agent), turn).await;
    let cancelled = *core.cancel.borrow() > cancels;
    finish(core, outcome, cancelled).await?;
    agent.turn_ended(&session).await;
    Ok(())
}

/// Runs the author's code, which may panic, and drops it if it continues too long after a cancellation.
async fn run<A: Agent>(agent: Arc<A>, turn: Turn) -> Result<v2::StopReason, RpcError<'static>> {
    let turn = Arc::new(turn);
    // A set with one task, because a set aborts its tasks when it is dropped.
    let mut task = JoinSet::new();
    let here = Arc::clone(&turn);
    task.spawn(async move { agent.prompt(&here).await });
    let too_late = async {
        turn.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        biased;
        joined = task.join_next() => match joined {
            Some(Ok(outcome)) => outcome.map_err(RpcError::from),
            Some(Err(error)) if error.is_panic() => {
                Err(RpcError::new(codes::INTERNAL_ERROR, "the agent's code panicked"))
            }
            Some(Err(_)) | None => Err(RpcError::new(codes::INTERNAL_ERROR, "the agent's code was stopped")),
        },
        () = too_late => Ok(v2::StopReason::Cancelled),
    }
}

/// Closes open tool calls and terminals and reports that the session is idle.
pub(super) async fn finish(
    core: &SessionInner,
    outcome: Result<v2::StopReason, RpcError<'static>>,
    cancelled: bool,
) -> Result<(), Error> {
    let mut writer = core.writer().await;
    core.end_turn();
    let (calls, terminals) = writer.take_open();
    for id in calls {
        let status = if cancelled { v2::ToolCallStatus::Cancelled } else { v2::ToolCallStatus::Failed };
        core.say(&mut writer, v2::ToolCallUpdate::new(&*id).status(status).into()).await?;
    }
    for id in terminals {
        let update = v2::TerminalUpdate::new(&*id).exit_status(v2::TerminalExitStatus::new());
        core.say(&mut writer, update.into()).await?;
    }
    let idle = match outcome {
        _ if cancelled => {
            v2::IdleState { stop_reason: Some(v2::StopReason::Cancelled), ..v2::IdleState::new() }
        }
        Ok(reason) => v2::IdleState { stop_reason: Some(reason), ..v2::IdleState::new() },
        Err(error) => v2::IdleState {
            stop_reason: Some(v2::StopReason::Error),
            error: Some(Box::new(error)),
            ..v2::IdleState::new()
        },
    };
    core.say_state(&mut writer, v2::StateUpdate::Idle(idle)).await
}
