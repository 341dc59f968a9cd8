//! The protocol side of an agent, which its author need not implement.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{Message, RpcError, codes};
use switchboard_acp::v2::unstable::SessionArchiveFilter;
use switchboard_acp::{AbsolutePath, Raw, Version, Wire, WireFormat, v2};
use switchboard_session::{Entry, EntryKind, Session, prompt_title};
use switchboard_transport::{
    Caller, Connection, Event, IncomingNotification, IncomingRequest, Json, Received, SharedText,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::sending::SessionInner;
use super::session::AgentSession;
use super::work::{QueuedPrompt, work_on};
use super::{Agent, Introduction, Recalled, agent_connection_options, history};
use crate::{Error, translation};

/// Protocol versions of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// The version that the client requests.
    #[default]
    Both,
    /// Version 1 only, regardless of the client's request.
    One,
    /// Version 2 only.
    Two,
}

/// Runs an agent until the client disconnects, in the version that the client requests.
///
/// Running work is dropped then. Create the connection with
/// [`agent_connection_options`](crate::agent_connection_options).
pub async fn serve<A: Agent>(agent: A, connection: Connection) -> Result<(), Error> {
    serve_versions(agent, connection, Versions::Both).await
}

/// Runs an agent like [`serve`], with a choice of versions.
pub async fn serve_versions<A: Agent>(
    agent: A,
    mut connection: Connection,
    versions: Versions,
) -> Result<(), Error> {
    let mut first = None;
    if versions == Versions::One {
        connection = translation::to_version_one_client(connection, agent_connection_options(), None);
    } else if versions == Versions::Both {
        match connection.inbox.next_or(asks_for_version_one).await {
            Some(Received::Taken(line)) => {
                connection =
                    translation::to_version_one_client(connection, agent_connection_options(), Some(line));
            }
            Some(Received::Event(event)) => first = Some(event),
            None => return Ok(()),
        }
    }
    play(agent, connection, first).await
}

/// Returns a line if it is the handshake of a version 1 client.
fn asks_for_version_one(line: &SharedText) -> Option<SharedText> {
    let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else { return None };
    let Handshake { version, number, .. } = Handshake::of_request(request.params.as_ref());
    let is_one = request.method == "initialize" && version == Version::V1 && number.is_some();
    is_one.then(|| line.clone())
}

async fn play<A: Agent>(agent: A, connection: Connection, first: Option<Event>) -> Result<(), Error> {
    let Connection { caller, mut inbox } = connection;
    let introduction = agent.introduce();
    let mut service = Service {
        agent: Arc::new(agent),
        caller,
        introduction,
        initialized: false,
        client: Arc::new(v2::ClientCapabilities::new()),
        opened: 0,
        sessions: Arc::default(),
        tasks: JoinSet::new(),
    };
    let mut next = first;
    loop {
        let event = match next.take() {
            Some(event) => Some(event),
            None => inbox.next().await,
        };
        while service.tasks.try_join_next().is_some() {}
        match event {
            Some(Event::Request(request)) => service.take_request(request),
            Some(Event::Notification(notification)) => service.take_notification(&notification),
            Some(Event::Anomaly(_)) => {}
            Some(Event::Closed(_)) | None => break,
        }
    }
    service.tasks.shutdown().await;
    Ok(())
}

pub(super) struct Service<A> {
    pub(super) agent: Arc<A>,
    pub(super) caller: Caller,
    /// The author's description of the agent.
    pub(super) introduction: Introduction,
    initialized: bool,
    pub(super) client: Arc<v2::ClientCapabilities<'static>>,
    opened: u64,
    pub(super) sessions: Arc<Sessions>,
    pub(super) tasks: JoinSet<()>,
}

/// A session with its queued prompts.
#[derive(Debug)]
pub(super) struct ServedSession {
    core: Arc<SessionInner>,
    /// Completes when the last accepted prompt is done.
    last: Option<oneshot::Receiver<()>>,
}

pub(super) type Sessions = std::sync::Mutex<HashMap<String, ServedSession>>;
type Answer = Result<Json<'static>, RpcError<'static>>;

pub(super) fn find(sessions: &Sessions, id: &str) -> Option<Arc<SessionInner>> {
    let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let open = |id| sessions.get(id).map(|slot| Arc::clone(&slot.core));
    open(id).or_else(|| sessions.values().find_map(|slot| slot.core.descendant(id)))
}

pub(super) fn insert(sessions: &Sessions, core: &Arc<SessionInner>) {
    let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    sessions.insert(core.id.to_string(), ServedSession { core: Arc::clone(core), last: None });
}

pub(super) fn json<'w>(value: &impl Wire<'w>) -> Json<'static> {
    Json::of(value, WireFormat::Any)
}

pub(super) fn failed(code: i32, message: impl Into<String>) -> RpcError<'static> {
    RpcError::new(code, message.into())
}

/// Decodes the parameters of a request; malformed optional parts are left out.
macro_rules! params {
    ($($type:ident)::+, $request:expr) => {
        v2::$($type)::+::decode_tolerant($request.params(), WireFormat::Any)
            .map(|(params, _)| params)
            .map_err(|reason| failed(codes::INVALID_PARAMS, reason.to_string()))
    };
}
pub(super) use params;

impl<A: Agent> Service<A> {
    fn take_request(&mut self, request: IncomingRequest) {
        if request.method() != "initialize" && !self.initialized {
            let error = failed(codes::INVALID_REQUEST, "the connection is not initialized");
            return self.answer(request, async { Err(error) });
        }
        let (agent, sessions) = (Arc::clone(&self.agent), Arc::clone(&self.sessions));
        match request.method() {
            "initialize" => {
                let answer = self.initialize(&request);
                self.initialized |= answer.is_ok();
                self.answer(request, async { answer });
            }
            "auth/login" => {
                let params = params!(LoginAuthRequest, request).map(Wire::into_owned);
                self.answer(request, async move {
                    agent.login(&params?.method_id).await?;
                    Ok(Json::default())
                });
            }
            "auth/logout" => {
                self.answer(request, async move {
                    agent.logout().await?;
                    Ok(Json::default())
                });
            }
            "session/new" => self.open(request),
            "session/resume" => self.resume(request),
            "session/prompt" => self.prompt(request),
            "session/list" => {
                let params = params!(ListSessionsRequest, request).map(Wire::into_owned);
                self.answer(request, async move { list(&sessions, &params?).await });
            }
            "session/close" => {
                let id = params!(CloseSessionRequest, request).map(|params| params.session_id.into_owned());
                self.answer(request, async move {
                    close(&sessions, &id?, false).await;
                    Ok(Json::default())
                });
            }
            "session/delete" => {
                let id = params!(DeleteSessionRequest, request).map(|params| params.session_id.into_owned());
                self.answer(request, async move {
                    close(&sessions, &id?, true).await;
                    Ok(Json::default())
                });
            }
            "session/set_config_option" => {
                let params = params!(SetSessionConfigOptionRequest, request).map(Wire::into_owned);
                self.answer(request, async move {
                    let params = params?;
                    let id = match &params {
                        v2::SetSessionConfigOptionRequest::Id(set) => set.session_id.clone(),
                        v2::SetSessionConfigOptionRequest::Boolean(set) => set.session_id.clone(),
                        v2::SetSessionConfigOptionRequest::Unknown(set) => {
                            set.text("sessionId").unwrap_or_default().into_owned().into()
                        }
                        v2::SetSessionConfigOptionRequest::More(none) => none.never(),
                    };
                    let core = find(&sessions, &id).ok_or_else(|| unknown_session(&id))?;
                    let options =
                        agent.set_config_option(&AgentSession { core: Arc::clone(&core) }, &params).await?;
                    core.writer().await.lists.config_options = Some(options.clone());
                    Ok(json(&v2::SetSessionConfigOptionResponse::new(options)))
                });
            }
            "tool_call/cancel" => {
                let params = params!(CancelToolCallRequest, request).map(Wire::into_owned);
                self.answer(request, async move { cancel_tool_call(&sessions, &params?) });
            }
            "terminal/cancel" => {
                let error = failed(codes::INVALID_PARAMS, "the terminal cannot be cancelled individually");
                self.answer(request, async { Err(error) });
            }
            _ => self.take_unstable(request),
        }
    }

    fn take_notification(&self, notification: &IncomingNotification) {
        if notification.method() == "session/cancel"
            && let Ok(params) = params!(CancelSessionNotification, notification)
            && let Some(core) = find(&self.sessions, &params.session_id)
        {
            core.cancel_all();
        }
    }

    /// Answers a request when its work is done, unless the client cancels it first.
    pub(super) fn answer(
        &mut self,
        request: IncomingRequest,
        work: impl Future<Output = Answer> + Send + 'static,
    ) {
        self.tasks.spawn(async move {
            let mut cancellation = request.cancellation();
            let answer = tokio::select! {
                biased;
                answer = work => answer,
                () = cancellation.cancelled() => {
                    Err(failed(codes::REQUEST_CANCELLED, "the request was cancelled"))
                }
            };
            // A disconnected client needs no response.
            let _ = match answer {
                Ok(result) => request.respond(result).await,
                Err(error) => request.fail(&error).await,
            };
        });
    }

    fn initialize(&mut self, request: &IncomingRequest) -> Answer {
        let requested = Handshake::of_request(Raw::parse(request.params()).ok().as_ref())
            .number
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| failed(codes::INVALID_PARAMS, "the protocol version is missing"))?;
        if requested < 2 {
            let data = v2::UnsupportedProtocolVersionErrorData::new(requested, vec![2]);
            let mut error =
                failed(codes::UNSUPPORTED_PROTOCOL_VERSION, "this agent only supports protocol version 2");
            error.data = Raw::parse(data.encode(WireFormat::Any)).ok();
            return Err(error);
        }
        let params = params!(InitializeRequest, request)?.into_owned();
        self.client = Arc::new(params.capabilities.unwrap_or_else(v2::ClientCapabilities::new));
        let introduction = self.introduction.clone();
        let response = v2::InitializeResponse {
            capabilities: Some(introduction.capabilities),
            auth_methods: Some(introduction.auth_methods),
            ..v2::InitializeResponse::new(2u16, introduction.info)
        };
        Ok(json(&response))
    }

    pub(super) fn new_id(&mut self) -> String {
        loop {
            self.opened += 1;
            let id = self.agent.session_id(self.opened);
            if find(&self.sessions, &id).is_none() {
                return id;
            }
        }
    }

    fn open(&mut self, request: IncomingRequest) {
        let params = match params!(NewSessionRequest, request) {
            Ok(params) => params.into_owned(),
            Err(error) => return self.answer(request, async { Err(error) }),
        };
        let id = self.new_id();
        let core = Arc::new(SessionInner::new(
            &id,
            params.cwd.as_str(),
            self.caller.clone(),
            Arc::clone(&self.client),
            1,
        ));
        let (agent, sessions) = (Arc::clone(&self.agent), Arc::clone(&self.sessions));
        self.answer(request, async move {
            let lists = agent.open_session(&AgentSession { core: Arc::clone(&core) }, &params).await?;
            core.writer().await.lists = lists.clone();
            insert(&sessions, &core);
            Ok(json(&v2::NewSessionResponse {
                config_options: lists.config_options,
                available_commands: lists.commands,
                ..v2::NewSessionResponse::new(id)
            }))
        });
    }

    fn resume(&mut self, request: IncomingRequest) {
        let (agent, sessions) = (Arc::clone(&self.agent), Arc::clone(&self.sessions));
        let (caller, client) = (self.caller.clone(), Arc::clone(&self.client));
        let params = params!(ResumeSessionRequest, request).map(Wire::into_owned);
        self.answer(request, async move {
            let params = params?;
            let replays = match &params.replay_from {
                None => false,
                Some(v2::ReplayFrom::Start(_)) => true,
                Some(v2::ReplayFrom::Unknown(other)) => {
                    let message = format!("replay from \"{}\" is not supported", other.tag);
                    return Err(failed(codes::INVALID_PARAMS, message));
                }
                Some(v2::ReplayFrom::More(none)) => none.never(),
            };
            let core = match find(&sessions, &params.session_id) {
                Some(core) => core,
                None => {
                    let recalled = agent.recall_session(&params.session_id).await;
                    let recalled = recalled.ok_or_else(|| unknown_session(&params.session_id))?;
                    let core = recall(&params.session_id, caller, client, recalled).await;
                    insert(&sessions, &core);
                    core
                }
            };
            if core.cwd != params.cwd.as_str() {
                let message = format!("the session works in {}", core.cwd);
                return Err(failed(codes::INVALID_PARAMS, message));
            }
            core.set_closed(false);
            core.replay(replays).await.map_err(|error| failed(codes::INTERNAL_ERROR, error.to_string()))
        });
    }

    fn prompt(&mut self, request: IncomingRequest) {
        let params = match params!(PromptRequest, request) {
            Ok(params) => params.into_owned(),
            Err(error) => return self.answer(request, async { Err(error) }),
        };
        let (done, last) = oneshot::channel();
        let (core, before) = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            match sessions.get_mut(&*params.session_id) {
                Some(slot) if !slot.core.is_closed() => (Arc::clone(&slot.core), slot.last.replace(last)),
                _ => {
                    drop(sessions);
                    let error = unknown_session(&params.session_id);
                    return self.answer(request, async { Err(error) });
                }
            }
        };
        let held = QueuedPrompt::new(request, params.prompt, &core, before, done);
        let agent = Arc::clone(&self.agent);
        self.tasks.spawn(work_on(agent, core, held));
    }
}

pub(super) fn unknown_session(id: &str) -> RpcError<'static> {
    let mut error = failed(codes::RESOURCE_NOT_FOUND, format!("there is no session {id}"));
    error.data = Some(Raw::from(serde_json::json!({ "sessionId": id })));
    error
}

/// Opens a restored session with all its descendants.
pub(super) async fn recall(
    id: &str,
    caller: Caller,
    client: Arc<v2::ClientCapabilities<'static>>,
    recalled: Recalled,
) -> Arc<SessionInner> {
    let Recalled { cwd, history, lists, mut subagents, more: _ } = recalled;
    let new = |id: &str, first| SessionInner::new(id, &cwd, caller.clone(), Arc::clone(&client), first);
    let root = Arc::new(new(id, first_number(&history)));
    root.remember(&history).await;
    root.writer().await.lists = lists;
    // The id of a child begins with that of its parent, so parents come first.
    subagents.sort_by_key(|(id, _)| id.len());
    for (id, history) in subagents {
        let parent = id.rsplit_once('.').map_or("", |(parent, _)| parent);
        let parent = if *parent == *root.id { Some(Arc::clone(&root)) } else { root.descendant(parent) };
        if let Some(parent) = parent {
            let child = parent.adopt(new(&id, first_number(&history)));
            child.remember(&history).await;
        }
    }
    root
}

/// Returns the first number for new ids that do not collide with old ones.
fn first_number(history: &[v2::SessionUpdate<'_>]) -> u64 {
    let mut session = Session::new(WireFormat::Any);
    history.iter().for_each(|update| drop(session.apply(update)));
    let number = |id: &str| id.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    session.entries().filter_map(|entry| number(entry.id())).max().unwrap_or(0).saturating_add(1)
}

async fn list(sessions: &Sessions, params: &v2::ListSessionsRequest<'_>) -> Answer {
    if params.cursor.is_some() {
        return Err(failed(codes::INVALID_PARAMS, "unknown cursor"));
    }
    let mut cores: Vec<Arc<SessionInner>> = {
        let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().map(|slot| Arc::clone(&slot.core)).collect()
    };
    cores.retain(|core| params.cwd.as_ref().is_none_or(|cwd| cwd.as_str() == core.cwd));
    cores.retain(|core| match params.archived {
        Some(SessionArchiveFilter::Include) => true,
        Some(SessionArchiveFilter::Only) => core.is_archived(),
        Some(SessionArchiveFilter::Exclude | SessionArchiveFilter::Unknown(_)) | None => !core.is_archived(),
        Some(SessionArchiveFilter::More(none)) => none.never(),
    });
    cores.sort_by(|left, right| (left.id.len(), &left.id).cmp(&(right.id.len(), &right.id)));
    let mut infos = Vec::new();
    for core in cores {
        // A session without a prompt is not listed: clients open one whenever they start.
        let Some(title) = title(&core.writer().await.history) else { continue };
        infos.push(v2::SessionInfo {
            title: Some(title.into()),
            archived: core.is_archived().then_some(true),
            ..v2::SessionInfo::new(core.id.to_string(), AbsolutePath::as_sent(core.cwd.clone()))
        });
    }
    Ok(json(&v2::ListSessionsResponse::new(infos)))
}

/// Returns the title of a session: its own, or one derived from the first prompt. `None` without a prompt.
fn title(history: &Session) -> Option<String> {
    history.title().map(str::to_owned).or_else(|| {
        let message = history.entries().filter_map(Entry::as_message);
        let prompt = message.into_iter().find(|message| message.kind() == EntryKind::UserMessage)?;
        let blocks: Vec<_> =
            prompt.content().blocks().map(|block| Raw::of(&block, WireFormat::Any)).collect();
        prompt_title(&Raw::array(blocks))
    })
}

/// Cancels all work and waits for its end.
async fn close(sessions: &Sessions, id: &str, delete: bool) {
    let Some(core) = find(sessions, id) else { return };
    core.cancel_all();
    core.until_idle().await;
    core.set_closed(true);
    if delete {
        sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

fn cancel_tool_call(sessions: &Sessions, params: &v2::CancelToolCallRequest<'_>) -> Answer {
    let core = find(sessions, &params.session_id).ok_or_else(|| unknown_session(&params.session_id))?;
    let cancellable = core.cancellable.lock().unwrap_or_else(PoisonError::into_inner);
    match cancellable.get(&*params.tool_call_id) {
        Some(cancel) => {
            cancel.send_replace(true);
            Ok(Json::default())
        }
        None => Err(failed(codes::INVALID_PARAMS, "the tool call cannot be cancelled individually")),
    }
}

impl SessionInner {
    /// Applies a restored history.
    async fn remember(&self, history: &[v2::SessionUpdate<'static>]) {
        let mut writer = self.writer().await;
        for update in history {
            writer.note(update);
        }
        writer.take_open();
    }

    /// Sends the history if requested, including child sessions, then the state, and returns the response to
    /// the request. No other updates are sent meanwhile.
    async fn replay(self: &Arc<Self>, with_history: bool) -> Result<Json<'static>, Error> {
        let family = if with_history { self.family() } else { vec![Arc::clone(self)] };
        // Locked from the descendants up: a child locks itself before its parent when it sends a state, so
        // this order cannot deadlock.
        let mut voices = Vec::new();
        for core in family.iter().rev() {
            voices.push(core.writer().await);
        }
        voices.reverse();
        for (core, writer) in family.iter().zip(&voices).filter(|_| with_history) {
            for update in history::updates(&writer.history) {
                core.transmit(update).await?;
            }
        }
        for (core, writer) in family.iter().zip(&voices) {
            core.transmit(v2::SessionUpdate::StateUpdate(Box::new(core.state(writer)))).await?;
        }
        let lists = voices.first().map(|writer| writer.lists.clone()).unwrap_or_default();
        Ok(json(&v2::ResumeSessionResponse {
            config_options: lists.config_options,
            available_commands: lists.commands,
            ..v2::ResumeSessionResponse::new()
        }))
    }
}
