//! The connection of one session to the hub: a client of the hub in this process, in version 2 of the Agent Client
//! Protocol, like the page.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use switchboard_acp::extensions::OPERATION_ID;
use switchboard_acp::rpc::{RequestId, RpcError, codes};
use switchboard_acp::{AbsolutePath, Wire, WireFormat, v2};
use switchboard_peer::{
    AgentDescription, AgentHandle, Client, ClientOptions, ElicitationQuestion, Event, Feed,
    PermissionQuestion, Sessions,
};
use switchboard_session::{Conversation, Decider};
use switchboard_transport::Connection;
use switchboard_transport::server::{ServerConnection, ServerLimits};
use tokio::sync::{mpsc, oneshot};

use crate::host::Command;
use crate::options::Setting;
use crate::prompt::Accepts;
use crate::question::Answer;
use crate::service::HostService;
use crate::session::Link;

/// Maximum size of a message in bytes, such as a prompt with files.
const MAX_MESSAGE: usize = 48 << 20;
/// Maximum number of sessions of an agent, including those of its sub-agents.
const MAX_SESSIONS: usize = 10_000;
/// Handshake timeout of the client. It is long because the hub has its own, shorter timeout and reports it.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

struct FeedLink(Sessions);

impl Link for FeedLink {
    fn look(&self, look: &mut dyn FnMut(&Conversation)) {
        self.0.conversation(|conversation| look(conversation));
    }
}

/// A question that waits for an answer.
enum Question {
    Permission(PermissionQuestion),
    Form(ElicitationQuestion),
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connects to the hub for an agent, which the hub starts if it is not running.
async fn connect(service: &HostService, agent: &str) -> Result<Client, String> {
    let mut limits = ServerLimits::default();
    limits.message = MAX_MESSAGE;
    let (server, stream) = ServerConnection::local(limits);
    service.hub.connect(service.identity.clone(), Some(agent), server).await;
    let mut options = ClientOptions::new("switchboard ahp", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = Some(v2::ElicitationCapabilities {
        form: Some(v2::EmptyObject::new()),
        url: Some(v2::EmptyObject::new()),
        ..v2::ElicitationCapabilities::new()
    });
    options.session_limit = MAX_SESSIONS;
    options.patience = PATIENCE;
    let (reader, writer) = tokio::io::split(stream);
    let connection = Connection::new(reader, writer, options.connection_options());
    Client::connect(connection, options).await.map_err(|error| match error {
        switchboard_peer::Error::NotInitialized(error) => in_words(&error),
        error => error.to_string(),
    })
}

/// Returns an error for people, with the last lines of an agent that did not start.
fn in_words(error: &RpcError<'_>) -> String {
    if error.code == codes::AUTHENTICATION_REQUIRED {
        return format!(
            "{}: log in to the agent first, in its own program or on the page of the hub",
            error.message
        );
    }
    let lines = error.data.as_ref().and_then(|data| data.get("stderr").or_else(|| data.get("lastLines")));
    let lines = lines.as_ref().map(|lines| lines.as_str().to_owned()).filter(|lines| lines.len() > 2);
    match lines {
        Some(lines) => format!("{}\n{}", error.message, crate::content::clipped_to(&lines, 4096)),
        None => error.message.to_string(),
    }
}

fn accepts(description: &AgentDescription) -> Accepts {
    let session = description.capabilities.session.as_ref();
    let prompt = session.and_then(|session| session.prompt.as_ref());
    Accepts {
        image: prompt.is_some_and(|prompt| prompt.image.is_some()),
        audio: prompt.is_some_and(|prompt| prompt.audio.is_some()),
        embedded: prompt.is_some_and(|prompt| prompt.embedded_context.is_some()),
    }
}

fn absolute(folder: &str) -> Result<AbsolutePath<'static>, String> {
    AbsolutePath::parse(folder.to_owned()).map_err(|error| error.to_string())
}

/// Opens a session, and returns its id. Questions that arrive meanwhile are kept.
async fn open(
    client: &mut Client,
    id: Option<&Arc<str>>,
    folder: &str,
    early: &mut Vec<Event>,
) -> Result<Arc<str>, String> {
    let folder = absolute(folder)?;
    let agent = client.agent.clone();
    let keep = |event| early.push(event);
    let refused = |error: RpcError<'static>| in_words(&error);
    match id {
        Some(id) => {
            let mut request = v2::ResumeSessionRequest::new(&**id, folder);
            request.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
            let reply = client.feed.until(agent.resume_session(&request), keep).await;
            reply.map_err(|error| error.to_string())?.map_err(refused)?;
            Ok(Arc::clone(id))
        }
        None => {
            let request = v2::NewSessionRequest::new(folder);
            let reply = client.feed.until(agent.new_session(&request), keep).await;
            let opened = reply.map_err(|error| error.to_string())?.map_err(refused)?;
            Ok((*opened.session_id).into())
        }
    }
}

/// Closes a session for all clients.
pub(crate) async fn close(service: &HostService, agent: &str, id: &str) -> Result<(), String> {
    let mut client = connect(service, agent).await?;
    let handle = client.agent.clone();
    let reply = client.feed.until(handle.close_session(id), |_| ()).await;
    reply.map_err(|error| error.to_string())?.map_err(|error| in_words(&error))
}

/// Runs the connection of a session until it is detached or the hub closes it.
pub(crate) async fn run(
    service: Arc<HostService>,
    session: Arc<str>,
    id: Option<Arc<str>>,
    agent: String,
    folder: String,
    commands: mpsc::Receiver<Command>,
) {
    let mut early = Vec::new();
    let opened = match connect(&service, &agent).await {
        Ok(mut client) => open(&mut client, id.as_ref(), &folder, &mut early).await.map(|id| (client, id)),
        Err(reason) => Err(reason),
    };
    let (client, id) = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            service.step(|host, now| host.session_failed(&session, &reason, now));
            return;
        }
    };
    let Client { agent, feed } = client;
    let link = Arc::new(FeedLink(feed.sessions()));
    let accepts = accepts(agent.description());
    service.step(|host, now| host.session_opened(&session, &id, link, accepts, now));
    service.relist();
    let driver =
        Driver { service, session, id, agent, questions: HashMap::new(), taken_back: HashMap::new() };
    driver.run(feed, early, commands).await;
}

struct Driver {
    service: Arc<HostService>,
    /// URI of the session.
    session: Arc<str>,
    /// The hub's id of it.
    id: Arc<str>,
    agent: AgentHandle,
    questions: HashMap<String, Question>,
    /// Prompts that can still be taken back.
    taken_back: HashMap<String, oneshot::Sender<()>>,
}

impl Driver {
    async fn run(mut self, mut feed: Feed, early: Vec<Event>, mut commands: mpsc::Receiver<Command>) {
        for event in early {
            // Updates are in the history, which was translated as a whole.
            if !matches!(event, Event::Update(_) | Event::Changed { .. }) && self.event(event) {
                return;
            }
        }
        // Prompts wait for their turn; all other commands are performed one after the other.
        let mut prompts: FuturesUnordered<Work> = FuturesUnordered::new();
        let mut current: Option<Work> = None;
        loop {
            tokio::select! {
                biased;
                // First: a prompt is sent when it is polled for the first time, before later commands.
                Some(()) = prompts.next(), if !prompts.is_empty() => {}
                () = async { if let Some(work) = &mut current { work.await } }, if current.is_some() => current = None,
                command = commands.recv(), if current.is_none() => match command {
                    Some(command) => self.command(command, &mut prompts, &mut current),
                    None => return,
                },
                event = feed.next() => match event {
                    Some(event) => if self.event(event) { return },
                    None => return,
                },
            }
        }
    }

    fn command(
        &mut self,
        command: Command,
        prompts: &mut FuturesUnordered<Work>,
        current: &mut Option<Work>,
    ) {
        match command {
            Command::Prompt { turn, content } => {
                let (sender, taken_back) = oneshot::channel();
                self.taken_back.retain(|_, sender| !sender.is_closed());
                self.taken_back.insert(turn.clone(), sender);
                prompts.push(Box::pin(self.prompt(turn, content, taken_back)));
            }
            Command::TakeBack { turn } => {
                if let Some(sender) = self.taken_back.remove(&turn) {
                    // The prompt may just have been accepted; then the host cancels its work.
                    let _ = sender.send(());
                }
            }
            Command::Cancel => {
                let (agent, id) = (self.agent.clone(), Arc::clone(&self.id));
                *current = Some(Box::pin(async move {
                    // A broken connection is reported by the feed.
                    let _ = agent.cancel(&id).await;
                }));
            }
            Command::Answer { question, answer } => {
                if let Some(question) = self.questions.remove(&question) {
                    *current = Some(Box::pin(answer_question(question, answer)));
                }
            }
            Command::Set(setting) => {
                let (agent, id, service, session) = (
                    self.agent.clone(),
                    Arc::clone(&self.id),
                    Arc::clone(&self.service),
                    Arc::clone(&self.session),
                );
                *current = Some(Box::pin(async move {
                    let request = match setting {
                        Setting::Select { option, value } => v2::SetSessionConfigOptionRequest::Id(
                            v2::SetConfigId::new(id.to_string(), option, value),
                        ),
                        Setting::Switch { option, value } => v2::SetSessionConfigOptionRequest::Boolean(
                            v2::SetConfigBoolean::new(id.to_string(), option, value),
                        ),
                    };
                    if !matches!(agent.set_config_option(&request).await, Ok(Ok(_))) {
                        service.step(|host, now| host.setting_failed(&session, now));
                    }
                }));
            }
        }
    }

    fn prompt(
        &self,
        turn: String,
        content: Vec<v2::ContentBlock<'static>>,
        taken_back: oneshot::Receiver<()>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (agent, id, service, session) =
            (self.agent.clone(), self.id.to_string(), Arc::clone(&self.service), Arc::clone(&self.session));
        async move {
            let mut request = v2::PromptRequest::new(id, content);
            // A client sends a prompt again that it believes lost.
            request.meta = Some(OPERATION_ID.meta(format!("ahp-{turn}")));
            let wanted_back = async {
                if taken_back.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            match agent.prompt_unless(&request, wanted_back).await {
                Ok(Ok(mut prompt)) => {
                    let message = prompt.message_id().map(str::to_owned);
                    service.step(|host, now| host.prompt_accepted(&session, &turn, message.as_deref(), now));
                    if prompt.ended().await.is_ok() {
                        service.step(|host, now| host.prompt_ended(&session, &turn, now));
                    }
                }
                Ok(Err(error)) => {
                    let reason = in_words(&error);
                    service.step(|host, now| host.prompt_failed(&session, &turn, &reason, now));
                }
                // The feed reports the end of the connection.
                Err(error) => {
                    let reason = error.to_string();
                    service.step(|host, now| host.prompt_failed(&session, &turn, &reason, now));
                }
            }
        }
    }

    /// Handles an event. Returns true if it was the last one.
    fn event(&mut self, event: Event) -> bool {
        let (service, session) = (Arc::clone(&self.service), Arc::clone(&self.session));
        match event {
            Event::Update(update) => {
                service.step(|host, now| {
                    host.session_changed(&session, update.session(), update.changes(), now);
                });
            }
            Event::Changed { session: acp, changes } => {
                service.step(|host, now| host.session_changed(&session, &acp, &changes, now));
            }
            Event::Permission(question) => {
                let id = key(question.id());
                service.step(|host, now| {
                    host.permission_asked(&session, question.session(), &id, question.request(), now);
                });
                self.questions.insert(id, Question::Permission(question));
            }
            Event::Elicitation(question) => {
                let id = key(question.id());
                service.step(|host, now| {
                    let acp = question.session().map(|session| &**session);
                    host.data_asked(&session, acp, &id, question.request(), now);
                });
                self.questions.insert(id, Question::Form(question));
            }
            Event::Withdrawn { id } => {
                let id = key(&id);
                self.questions.remove(&id);
                service.step(|host, now| host.question_withdrawn(&session, &id, now));
            }
            Event::Closed(closure) => {
                let reason = closure.to_string();
                service.step(|host, now| host.session_closed(&session, &reason, now));
                return true;
            }
            // Login states, malformed messages and protocol errors are in the log.
            _ => {}
        }
        false
    }
}

fn key(id: &RequestId<'_>) -> String {
    id.encode(WireFormat::Any)
}

async fn answer_question(question: Question, answer: Answer) {
    // An answer that comes too late is dropped: the question was withdrawn, and its clients know.
    let _ = match (question, answer) {
        (Question::Permission(question), Answer::Option(option)) => {
            question.choose(&option, Decider::User).await
        }
        (Question::Form(question), Answer::Form(text)) => {
            match v2::CreateElicitationResponse::decode(&text, WireFormat::Any) {
                Ok(response) => question.answer(&response, Decider::User).await,
                Err(_) => question.dismiss(),
            }
        }
        (Question::Permission(question), _) => question.dismiss(),
        (Question::Form(question), _) => question.dismiss(),
    };
}
