//! Requests to an agent.

use std::sync::Arc;

use switchboard_acp::rpc::{RequestId, RpcError};
use switchboard_acp::{DecodeError, Raw, Wire, WireFormat, v2};
use switchboard_transport::{Answer, Caller, Deadline, Json, PendingCall};

use super::negotiation::AgentDescription;
use super::state::{ClientInner, ClientState};
use super::turn::PromptTurn;
use crate::Error;

/// Decodes a result, leaving out malformed optional parts.
macro_rules! reader {
    ($($type:ident)::+) => {
        |text: &str| {
            v2::$($type)::+::decode_tolerant(text, WireFormat::Any).map(|(value, _)| value.into_owned())
        }
    };
}
pub(super) use reader;

/// Accepts any result.
#[allow(clippy::unnecessary_wraps)]
fn nothing(_: &str) -> Result<(), DecodeError> {
    Ok(())
}

/// Result of a request: the outer result tells whether a response arrived, the inner one is the response.
pub type Reply<T> = Result<Result<T, RpcError<'static>>, Error>;

/// Sends requests to an agent. Clones share the connection. The [`Feed`](crate::Feed) must be driven
/// meanwhile, in another task or with [`Feed::until`](crate::Feed::until).
#[derive(Debug, Clone)]
pub struct AgentHandle {
    shared: Arc<ClientInner>,
    description: Arc<AgentDescription>,
}

impl AgentHandle {
    pub(super) fn new(shared: Arc<ClientInner>, description: Arc<AgentDescription>) -> Self {
        AgentHandle { shared, description }
    }

    /// Returns the agent's description of itself.
    pub fn description(&self) -> &AgentDescription {
        &self.description
    }

    /// Returns the plain connection, for other methods.
    pub fn caller(&self) -> &Caller {
        &self.shared.caller
    }

    /// Opens a session.
    pub async fn new_session(
        &self,
        request: &v2::NewSessionRequest<'_>,
    ) -> Reply<v2::NewSessionResponse<'static>> {
        let call = self.begin("session/new", request, Deadline::Default).await?;
        self.finish("session/new", call, reader!(NewSessionResponse)).await
    }

    /// Resumes a session, with its history if the request asks for it.
    pub async fn resume_session(
        &self,
        request: &v2::ResumeSessionRequest<'_>,
    ) -> Reply<v2::ResumeSessionResponse<'static>> {
        self.shared.open_session(&request.session_id)?;
        // A history may be long, so there is no deadline for the response.
        let call = self.begin("session/resume", request, Deadline::Never).await?;
        self.finish("session/resume", call, reader!(ResumeSessionResponse)).await
    }

    /// Lists sessions, one page at a time.
    pub async fn list_sessions(
        &self,
        request: &v2::ListSessionsRequest<'_>,
    ) -> Reply<v2::ListSessionsResponse<'static>> {
        let call = self.begin("session/list", request, Deadline::Default).await?;
        self.finish("session/list", call, reader!(ListSessionsResponse)).await
    }

    /// Closes a session. A session that the agent does not know counts as closed.
    pub async fn close_session(&self, session: &str) -> Reply<()> {
        let reply = self.plain("session/close", &v2::CloseSessionRequest::new(session)).await?;
        Ok(match reply {
            Err(error) if error.code == switchboard_acp::rpc::codes::RESOURCE_NOT_FOUND => Ok(()),
            other => other,
        })
    }

    /// Deletes a session.
    pub async fn delete_session(&self, session: &str) -> Reply<()> {
        self.plain("session/delete", &v2::DeleteSessionRequest::new(session)).await
    }

    /// Sends a prompt to a session. The response arrives when it is part of the conversation, which may be
    /// after other work; [`PromptTurn::ended`] waits for the end of the work.
    pub async fn prompt(&self, session: &str, content: Vec<v2::ContentBlock<'_>>) -> Reply<PromptTurn> {
        self.prompt_unless(&v2::PromptRequest::new(session, content), std::future::pending()).await
    }

    /// Sends a prompt that may be cancelled: if `taken_back` completes first, the request is cancelled. The
    /// agent's response decides: an error, or a turn if the agent already accepted it.
    pub async fn prompt_unless(
        &self,
        request: &v2::PromptRequest<'_>,
        taken_back: impl Future<Output = ()>,
    ) -> Reply<PromptTurn> {
        let session = self.shared.open_session(&request.session_id)?;
        let mut progress = None;
        let wait =
            |state: &mut ClientState, id: &RequestId<'static>| progress = Some(state.wait_for(id, &session));
        let mut call = self.begin_noting("session/prompt", request, Deadline::Never, wait).await?;
        let (id, shared) = (call.call.id().clone(), Arc::clone(&self.shared));
        let Some(progress) = progress else { return Err(self.shared.lost()) };
        let mut turn = PromptTurn { message_id: None, id, progress, shared };
        let is_answered = tokio::select! {
            biased;
            answer = call.call.answer() => Some(answer),
            () = taken_back => None,
        };
        let answer = match is_answered {
            Some(answer) => answer,
            None => {
                call.call.cancel();
                call.call.answer().await
            }
        };
        let reply = self.read("session/prompt", answer, reader!(PromptResponse))?;
        Ok(reply.map(|response| {
            turn.message_id = response.message_id.map(std::borrow::Cow::into_owned);
            turn
        }))
    }

    /// Cancels the work of a session and dismisses all its pending questions. The session reports when it is
    /// idle.
    pub async fn cancel(&self, session: &str) -> Result<(), Error> {
        let params = v2::CancelSessionNotification::new(session);
        let sent = self.shared.caller.notify("session/cancel", Json::of(&params, WireFormat::Any)).await;
        self.shared.dismiss_questions(session);
        Ok(sent?)
    }

    /// Cancels one tool call that can be cancelled individually.
    pub async fn cancel_tool_call(&self, session: &str, tool_call: &str) -> Reply<()> {
        self.plain("tool_call/cancel", &v2::CancelToolCallRequest::new(session, tool_call)).await
    }

    /// Cancels the command of one terminal that can be cancelled individually.
    pub async fn cancel_terminal(&self, session: &str, terminal: &str) -> Reply<()> {
        self.plain("terminal/cancel", &v2::CancelTerminalRequest::new(session, terminal)).await
    }

    /// Sets a configuration option; the response has all options.
    pub async fn set_config_option(
        &self,
        request: &v2::SetSessionConfigOptionRequest<'_>,
    ) -> Reply<v2::SetSessionConfigOptionResponse<'static>> {
        let call = self.begin("session/set_config_option", request, Deadline::Default).await?;
        self.finish("session/set_config_option", call, reader!(SetSessionConfigOptionResponse)).await
    }

    /// Logs in with a method that the agent offered, without a timeout.
    pub async fn login(&self, method: &str) -> Reply<()> {
        let request = v2::LoginAuthRequest::new(method);
        let call = self.begin("auth/login", &request, Deadline::Never).await?;
        self.finish("auth/login", call, nothing).await
    }

    /// Logs out.
    pub async fn logout(&self) -> Reply<()> {
        self.plain("auth/logout", &v2::LogoutAuthRequest::new()).await
    }

    pub(super) async fn plain<'w>(&self, method: &'static str, request: &impl Wire<'w>) -> Reply<()> {
        let call = self.begin(method, request, Deadline::Default).await?;
        self.finish(method, call, nothing).await
    }

    pub(super) async fn begin<'w>(
        &self,
        method: &'static str,
        request: &impl Wire<'w>,
        deadline: Deadline,
    ) -> Result<WatchedCall, Error> {
        self.begin_noting(method, request, deadline, |_, _| {}).await
    }

    /// Sends a request that the conversation knows before the agent does, so that its response is matched.
    async fn begin_noting<'w>(
        &self,
        method: &'static str,
        request: &impl Wire<'w>,
        deadline: Deadline,
        note: impl FnOnce(&mut ClientState, &RequestId<'static>),
    ) -> Result<WatchedCall, Error> {
        let params = Raw::parse(request.encode(WireFormat::Any))
            .map_err(|reason| Error::BadAnswer { method, reason })?;
        let mut noted = None;
        let begun = self.shared.caller.begin_noting(method, Json::from(&params), deadline, |id| {
            self.shared.note_call(id, method, &params);
            note(&mut self.shared.state(), id);
            noted = Some(id.clone());
        });
        match begun.await {
            Ok(call) => Ok(WatchedCall { call, shared: Arc::clone(&self.shared) }),
            Err(error) => {
                if let Some(id) = noted {
                    self.shared.forget(&id, true);
                    self.shared.state().stop_waiting(&id);
                }
                Err(self.shared.explain(error))
            }
        }
    }

    pub(super) async fn finish<T>(
        &self,
        method: &'static str,
        mut call: WatchedCall,
        read: impl FnOnce(&str) -> Result<T, DecodeError>,
    ) -> Reply<T> {
        let answer = call.call.answer().await;
        self.read(method, answer, read)
    }

    fn read<T>(
        &self,
        method: &'static str,
        answer: Result<Answer, switchboard_transport::Error>,
        read: impl FnOnce(&str) -> Result<T, DecodeError>,
    ) -> Reply<T> {
        match answer.map_err(|error| self.shared.explain(error))? {
            Answer::Error(error) => Ok(Err(error)),
            Answer::Result(text) => {
                // Some agents send `null` for an empty result.
                let text = if text.trim() == "null" { "{}" } else { text.as_str() };
                read(text).map(Ok).map_err(|reason| Error::BadAnswer { method, reason })
            }
        }
    }
}

/// A call that is forgotten when its response is no longer awaited.
#[derive(Debug)]
pub(super) struct WatchedCall {
    call: PendingCall,
    shared: Arc<ClientInner>,
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        self.shared.forget(self.call.id(), false);
    }
}
