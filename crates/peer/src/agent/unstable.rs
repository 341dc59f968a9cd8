//! Unstable parts of the protocol, implemented for every author whose capabilities have them.

use std::sync::Arc;

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_transport::{IncomingRequest, Json};
use v2::unstable;

use super::service::{Service, Sessions, failed, find, insert, json, params, recall, unknown_session};
use super::session::AgentSession;
use super::{Agent, Recalled, history};

impl<A: Agent> Service<A> {
    /// Returns whether the author's capabilities have a method. Others are refused.
    fn has(&self, method: &str) -> bool {
        let capabilities = &self.introduction.capabilities;
        let session = capabilities.session.as_ref();
        let told = |part: fn(&v2::SessionCapabilities<'static>) -> bool| session.is_some_and(part);
        match method {
            "session/fork" => told(|session| session.fork.is_some()),
            "session/set_title" => told(|session| session.title.is_some()),
            "session/archive" | "session/unarchive" => told(|session| session.archive.is_some()),
            "session/status" => told(|session| session.status.is_some()),
            "auth/status" => capabilities.auth.as_ref().is_some_and(|auth| auth.status.is_some()),
            _ => false,
        }
    }

    pub(super) fn take_unstable(&mut self, request: IncomingRequest) {
        let (agent, sessions) = (Arc::clone(&self.agent), Arc::clone(&self.sessions));
        let method = request.method().to_owned();
        match &*method {
            known if !self.has(known) => {
                self.tasks.spawn(async move {
                    let _ = request.method_not_found().await;
                });
            }
            "session/fork" => self.fork(request),
            "session/set_title" => {
                let params = params!(unstable::SetSessionTitleRequest, request).map(Wire::into_owned);
                self.answer(request, async move {
                    let params = params?;
                    let core = find(&sessions, &params.session_id)
                        .ok_or_else(|| unknown_session(&params.session_id))?;
                    let told = AgentSession { core }.title(&params.title).await;
                    told.map_err(|error| failed(codes::INTERNAL_ERROR, error.to_string()))?;
                    Ok(json(&unstable::SetSessionTitleResponse::new(params.title)))
                });
            }
            "session/archive" | "session/unarchive" => {
                // Both requests have only the session's id.
                let params = params!(unstable::ArchiveSessionRequest, request).map(Wire::into_owned);
                self.answer(
                    request,
                    async move { archive(&sessions, &params?, method == "session/archive") },
                );
            }
            "session/status" => {
                let params = params!(unstable::SessionStatusRequest, request).map(Wire::into_owned);
                self.answer(request, async move {
                    let id = params?.session_id;
                    let Some(core) = find(&sessions, &id).filter(|core| !core.is_closed()) else {
                        let kept =
                            find(&sessions, &id).is_some() || agent.recall_session(&id).await.is_some();
                        let saved =
                            || json(&unstable::SessionStatusResponse::new(unstable::SessionStatus::Saved));
                        return if kept { Ok(saved()) } else { Err(unknown_session(&id)) };
                    };
                    let state = core.state(&*core.writer().await);
                    Ok(json(&unstable::SessionStatusResponse {
                        state: Some(state),
                        ..unstable::SessionStatusResponse::new(unstable::SessionStatus::Open)
                    }))
                });
            }
            _ => self.answer(request, async move { Ok(json(&agent.auth_status().await?)) }),
        }
    }

    /// Opens a copy of a session with its history, which continues independently.
    fn fork(&mut self, request: IncomingRequest) {
        let params = match params!(unstable::ForkSessionRequest, request) {
            Ok(params) => params.into_owned(),
            Err(error) => return self.answer(request, async { Err(error) }),
        };
        let id = self.new_id();
        let (agent, sessions) = (Arc::clone(&self.agent), Arc::clone(&self.sessions));
        let (caller, client) = (self.caller.clone(), Arc::clone(&self.client));
        self.answer(request, async move {
            let from = match find(&sessions, &params.session_id) {
                Some(core) => {
                    let writer = core.writer().await;
                    let history = history::updates(&writer.history).into_iter().map(Wire::into_owned);
                    let (history, lists) = (history.collect(), writer.lists.clone());
                    Some(Recalled { history, lists, ..Recalled::new(&core.cwd) })
                }
                None => agent.recall_session(&params.session_id).await,
            };
            let mut from = from.ok_or_else(|| unknown_session(&params.session_id))?;
            from.cwd = params.cwd.as_str().to_owned();
            // Sub-agents stay with the session that started them.
            from.subagents.clear();
            let lists = from.lists.clone();
            let core = recall(&id, caller, client, from).await;
            agent.fork_session(&params.session_id, &AgentSession { core: Arc::clone(&core) }).await?;
            insert(&sessions, &core);
            Ok(json(&unstable::ForkSessionResponse {
                config_options: lists.config_options,
                available_commands: lists.commands,
                ..unstable::ForkSessionResponse::new(id)
            }))
        });
    }
}

fn archive(
    sessions: &Sessions,
    params: &unstable::ArchiveSessionRequest<'_>,
    away: bool,
) -> Result<Json<'static>, RpcError<'static>> {
    let id = &params.session_id;
    let core = find(sessions, id).ok_or_else(|| unknown_session(id))?;
    core.set_archived(away);
    Ok(Json::default())
}
