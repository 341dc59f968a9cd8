//! One prompt, from the start of the agent to its end.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::v2::unstable::{AuthState, ForkSessionRequest};
use switchboard_acp::v2::{self, StopReason};
use switchboard_acp::{AbsolutePath, DecodeError};
use switchboard_peer::{AgentHandle, Client, ClientOptions, Error, Event, Feed, PromptEnd};
use switchboard_store::Channel;
use switchboard_transport::{Child, ConfinementNotice, Connection, Exit, Oddities, Program};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::form::Form;
use super::halt::Halt;
use super::permissions::Keyboard;
use super::questions::Question;
use super::rest::{is_about_states, to_cancel};
use super::screen::Screen;
use super::view::{JsonView, QuietView, View};
use super::{Format, login};
use crate::ending::{self, Phase, Stop, Stops};
use crate::outcome::{CommandError, Outcome};
use crate::recording::{self, Recording};
use crate::rules::Rules;
use crate::{handshake, invalid_lines, sandbox, standard_error, stdio};

/// One prompt.
pub(crate) type Prompt = Vec<v2::ContentBlock<'static>>;

/// The work to do.
pub(crate) struct Task {
    pub(crate) program: Program,
    pub(crate) cwd: String,
    /// The prompts of each session.
    pub(crate) sessions: Vec<Vec<Prompt>>,
    pub(crate) format: Format,
    /// Rules that answer permission requests.
    pub(crate) rules: Rules,
    /// Options to select for the agent's questions, one after the other, instead of the rules.
    pub(crate) answers: Option<VecDeque<Option<String>>>,
    pub(crate) timeout: Option<Duration>,
    /// Timeout of the handshake.
    pub(crate) handshake_timeout: Duration,
    /// A session to continue instead of opening the first one.
    pub(crate) session: Option<String>,
    /// A session to copy and continue.
    pub(crate) fork: Option<String>,
    /// A method to log in with before anything else.
    pub(crate) login: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) recording: Option<Recording>,
}

/// Time for the agent to stop after a cancellation.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Silence after which the output of an exited agent counts as complete.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Returns whether there is a terminal to ask on.
fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Runs the task to its end.
pub(crate) fn run_to_end(task: Task) -> Result<Outcome, CommandError> {
    stdio::run_alone(run(task))
}

async fn run(task: Task) -> Result<Outcome, CommandError> {
    let stops = Stops::listen(task.timeout)?;
    let recording = task.recording.clone();
    let mut options = ClientOptions {
        observer: recording.as_ref().map(Recording::observer),
        patience: task.handshake_timeout,
        ..ClientOptions::new("switchboard", env!("CARGO_PKG_VERSION"))
    };
    if can_ask() {
        options.capabilities.elicitation = Some(v2::ElicitationCapabilities {
            form: Some(v2::EmptyObject::new()),
            url: Some(v2::EmptyObject::new()),
            ..v2::ElicitationCapabilities::new()
        });
    }
    let started = task.program.connect(options.connection_options());
    let (child, connection) = recording::started(recording.as_ref(), started)
        .map_err(|error| sandbox::start_error(&error, CommandError::no_session))?;
    let watch = recording.as_ref().map(|recording| recording.watch(&child));
    ending::takes_along(&child, recording.as_ref());
    let outcome = converse(task, stops, &child, connection, options).await;
    if let (Some(recording), Some(watch)) = (recording, watch) {
        recording.finish(watch, child.exit()).await;
    }
    outcome
}

/// Runs the conversation with a started agent, which has ended afterwards.
async fn converse(
    mut task: Task,
    mut stops: Stops,
    child: &Child,
    connection: Connection,
    options: ClientOptions,
) -> Result<Outcome, CommandError> {
    let connected = tokio::select! {
        biased;
        connected = Client::connect(connection, options) => connected,
        stop = stops.next() => {
            child.shut_down_within(ending::grace()).await;
            if stop == Stop::Timeout {
                standard_error::say("switchboard: the agent did not complete the handshake in time");
            }
            return Ok(Outcome::Stopped(stop));
        }
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            let failed = no_client(&error, child).await;
            end(child, &mut stops, false).await;
            return Err(failed);
        }
    };
    let mut runner = Runner::new(client, stops, &mut task);
    runner.confinement = child.confinement_notices();
    let halted = runner.work(task).await;
    let stopping = runner.stopping;
    let outcome = match (halted, stopping) {
        (Ok(outcome), _) => Ok(outcome),
        // Failures after a stop signal, for example because the terminal is gone, are not reported.
        (Err(_), Some(stop)) | (Err(Halt::Stop(stop)), None) => Ok(Outcome::Stopped(stop)),
        (Err(Halt::Failed(error)), None) => Err(error),
    };
    let stopped = match outcome {
        Ok(Outcome::Stopped(stop)) => Some(stop),
        _ => stopping,
    };
    if let Some(stop) = stopped {
        ending::begin(stop);
    }
    let in_hurry = stopped.is_some();
    // Output after the end of the turn belongs to the session: it is read before the end is shown.
    let read = runner.read_to_end(child, in_hurry).await;
    let shown = read.and_then(|()| Ok(runner.show_end()?));
    match shown {
        Err(halt) if outcome.is_ok() && !in_hurry => halt.into_outcome(),
        _ => outcome,
    }
}

/// Ends the agent, immediately if the user insists.
async fn end(child: &Child, stops: &mut Stops, in_hurry: bool) {
    if in_hurry {
        child.shut_down_within(ending::grace()).await;
        return;
    }
    stops.lift_time_limit();
    tokio::select! {
        _ = child.shut_down() => {}
        _ = stops.next() => drop(child.shut_down_within(ending::grace()).await),
    }
}

/// Waits for the next notice about the sandbox. Never returns without a sandbox.
async fn next_notice(notices: &mut Option<mpsc::Receiver<ConfinementNotice>>) -> Option<ConfinementNotice> {
    match notices {
        Some(notices) => match notices.recv().await {
            Some(notice) => Some(notice),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn no_client(error: &Error, child: &Child) -> CommandError {
    let failed = CommandError::no_session(visible(&handshake::failure(error, child).await));
    if handshake::is_too_late(error) { failed.hint(handshake::HINT) } else { failed }
}

pub(super) struct Runner {
    pub(super) agent: AgentHandle,
    pub(super) feed: Feed,
    pub(super) view: Box<dyn View>,
    stops: Stops,
    /// Deadline for the agent to stop after a cancellation.
    patience: Option<Instant>,
    pub(super) rules: Rules,
    /// The folder of the session, which is the project of the rules.
    pub(super) cwd: String,
    /// The recording, where deciders are noted.
    pub(super) recording: Option<Recording>,
    pub(super) answers: Option<VecDeque<Option<String>>>,
    /// Set if there is a terminal to ask on.
    pub(super) can_ask: bool,
    pub(super) keyboard: Option<Keyboard>,
    pub(super) questions: VecDeque<Question>,
    pub(super) session: Option<String>,
    /// Set while a prompt runs, which can be cancelled.
    prompted: bool,
    /// Set if the agent has disconnected.
    pub(super) is_closed: bool,
    /// Set if something has changed since the last check for running work.
    pub(super) may_rest: bool,
    pub(super) stopping: Option<Stop>,
    /// Set if the agent's input is closed, so that its questions cannot be answered.
    pub(super) is_input_closed: bool,
    /// The session whose usage is not shown yet. Agents also report usage after the end of a turn.
    pub(super) usage_of: Option<String>,
    pub(super) denied: bool,
    invalid_lines: Oddities,
    /// Notices about the sandbox.
    confinement: Option<mpsc::Receiver<ConfinementNotice>>,
}

impl Runner {
    fn new(client: Client, stops: Stops, task: &mut Task) -> Self {
        let view: Box<dyn View> = match task.format {
            Format::Text => Box::new(Screen::new()),
            Format::Json => Box::new(JsonView),
            Format::Quiet => Box::new(QuietView),
        };
        Runner::showing(view, client, stops, task)
    }

    fn showing(view: Box<dyn View>, client: Client, stops: Stops, task: &mut Task) -> Self {
        Runner {
            agent: client.agent,
            feed: client.feed,
            view,
            stops,
            patience: None,
            rules: task.rules.clone(),
            cwd: task.cwd.clone(),
            recording: task.recording.take(),
            answers: task.answers.take(),
            can_ask: can_ask(),
            keyboard: None,
            questions: VecDeque::new(),
            session: None,
            is_closed: false,
            may_rest: false,
            prompted: false,
            stopping: None,
            is_input_closed: false,
            usage_of: None,
            denied: false,
            invalid_lines: Oddities::shown(),
            confinement: None,
        }
    }

    async fn work(&mut self, mut task: Task) -> Result<Outcome, Halt> {
        let mut outcome = Outcome::Fine;
        if let Some(method) = task.login.take() {
            self.log_in(&method).await?;
        }
        for prompts in std::mem::take(&mut task.sessions) {
            if self.session.is_some() {
                self.print_usage()?;
                self.end_session()?;
                self.session = None;
            }
            let session = self.open(&task).await?;
            (task.session, task.fork) = (None, None);
            self.session = Some(session.clone());
            self.view.note(&format!("session {session} of {}", self.agent.description().name()))?;
            // The first notice says how the agent is confined. It is there since the start.
            while let Some(notice) = self.confinement.as_mut().and_then(|notices| notices.try_recv().ok()) {
                self.print_confinement(&notice)?;
            }
            let Runner { feed, view, .. } = self;
            feed.sessions().conversation(|all| view.begin(all, &Arc::from(&*session)))?;
            for (id, value) in &task.settings {
                self.set(&session, id, value).await?;
            }
            for prompt in prompts {
                let ended = self.prompt(&session, prompt).await?;
                if ended != Outcome::Fine {
                    outcome = ended;
                }
                if self.stopping.is_some() {
                    return Ok(outcome);
                }
            }
        }
        Ok(outcome)
    }

    async fn prompt(&mut self, session: &str, prompt: Prompt) -> Result<Outcome, Halt> {
        let agent = self.agent.clone();
        self.print_usage()?;
        self.prompted = true;
        let mut request = v2::PromptRequest::new(session, prompt);
        request.meta = self.recording.as_ref().and_then(|recording| recording.meta_of_prompt(session));
        let prompted = async move { agent.prompt_unless(&request, std::future::pending()).await };
        let inserted = self.drive(prompted).await?;
        let mut turn = match inserted {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) if self.stopping.is_some() => return Ok(self.outcome(None)),
            Ok(Err(error)) => {
                let failed = CommandError::failed(refusal("the prompt", &error));
                return Err(self.hint_at_login(failed, error.code).into());
            }
            Err(error) => return Err(lost(&error).into()),
        };
        let ended = self.drive(async move { turn.ended().await }).await?;
        match ended {
            Ok(end) => {
                self.show_held_back()?;
                self.print_end(&end)?;
                self.until_rest(session).await?;
                self.usage_of = Some(session.to_owned());
                Ok(self.outcome(Some(&end)))
            }
            Err(error) => Err(lost(&error).into()),
        }
    }

    /// Shows a notice about the sandbox, and records it in the session.
    fn print_confinement(&mut self, notice: &ConfinementNotice) -> io::Result<()> {
        self.view.note(&notice.title)?;
        if let Some(description) = notice.description.as_ref() {
            self.view.note(description)?;
        }
        if let (Some(recording), Some(session)) = (&self.recording, &self.session) {
            let params = serde_json::json!({"sessionId": session, "update": sandbox::notice_update(notice)});
            let line = serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            recording.record(Channel::ToClient, &line.to_string());
        }
        Ok(())
    }

    /// Reports that the user is not logged in, if the agent says so.
    fn print_login(&mut self) -> io::Result<()> {
        let status = self.feed.sessions().conversation(|all| all.auth_status().cloned());
        if status.is_some_and(|status| status.state == AuthState::Unauthenticated) {
            self.view.note("the agent reports that you are not logged in")?;
            for way in login::ways(self.agent.description()) {
                self.view.note(&way)?;
            }
        }
        Ok(())
    }

    /// Opens the session to work in: a new one, or the requested one.
    async fn open(&mut self, task: &Task) -> Result<String, Halt> {
        let agent = self.agent.clone();
        let (cwd, session) = (task.cwd.clone(), task.session.clone());
        let capabilities = self.agent.description().capabilities.session.as_ref();
        if task.fork.is_some() && capabilities.is_none_or(|session| session.fork.is_none()) {
            let name = visible_line(self.agent.description().name());
            let failed = CommandError::no_session(format!("{name} cannot fork sessions"));
            return Err(failed.hint("use --session ID to continue the session itself").into());
        }
        let fork = task.fork.clone();
        let opened = self
            .drive(async move {
                let broken = |error: DecodeError| Error::BrokenRule(error.to_string());
                let cwd = AbsolutePath::parse(cwd).map_err(broken)?;
                if let Some(original) = fork {
                    let request = ForkSessionRequest::new(original, cwd);
                    let reply = agent.fork_session(&request).await?;
                    return Ok(reply.map(|response| response.session_id.into_owned()));
                }
                match session {
                    None => {
                        let request = v2::NewSessionRequest::new(cwd);
                        let reply = agent.new_session(&request).await?;
                        Ok(reply.map(|response| response.session_id.into_owned()))
                    }
                    Some(session) => {
                        let request = v2::ResumeSessionRequest::new(session.clone(), cwd);
                        Ok(agent.resume_session(&request).await?.map(|_| session))
                    }
                }
            })
            .await?;
        match opened {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(error)) => {
                let what = if task.fork.is_some() { "a copy of the session" } else { "a session" };
                let failed = CommandError::no_session(refusal(what, &error));
                Err(self.hint_at_login(failed, error.code).into())
            }
            Err(error @ Error::Transport(_)) => {
                let failed = CommandError::no_session(visible(&error.to_string()));
                Err(failed.into())
            }
            Err(error) => Err(CommandError::no_session(visible(&Error::to_string(&error))).into()),
        }
    }

    /// Adds login instructions to an error if a login is missing.
    fn hint_at_login(&self, failed: CommandError, code: i32) -> CommandError {
        let ways = login::ways(self.agent.description()).filter(|_| code == codes::AUTHENTICATION_REQUIRED);
        ways.fold(failed, CommandError::hint)
    }

    /// Logs in with a method of the agent.
    async fn log_in(&mut self, method: &str) -> Result<(), Halt> {
        login::check(self.agent.description(), method)?;
        let (agent, method) = (self.agent.clone(), method.to_owned());
        match self.drive(async move { agent.login(&method).await }).await? {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(CommandError::no_session(refusal("the login", &error)).into()),
            Err(error) => Err(lost(&error).into()),
        }
    }

    /// Sets an option in the format that the session expects.
    async fn set(&mut self, session: &str, id: &str, value: &str) -> Result<(), Halt> {
        let sessions = self.feed.sessions();
        let found = sessions.get(session, |session| {
            let options = session.config_options();
            let names: Vec<String> = options.iter().map(option_id).collect();
            let is_boolean = options.iter().any(|option| {
                matches!(option, v2::SessionConfigOption::Boolean(boolean) if boolean.config_id == id)
            });
            (names, is_boolean)
        });
        let (names, is_boolean) = found.unwrap_or_default();
        let request = if is_boolean {
            let value: bool = value.parse().map_err(|_| {
                CommandError::usage(format!("the option {id} is true or false, not \"{value}\""))
            })?;
            v2::SetSessionConfigOptionRequest::Boolean(v2::SetConfigBoolean::new(
                session.to_owned(),
                id.to_owned(),
                value,
            ))
        } else {
            let (session, id, value) = (session.to_owned(), id.to_owned(), value.to_owned());
            v2::SetSessionConfigOptionRequest::Id(v2::SetConfigId::new(session, id, value))
        };
        let agent = self.agent.clone();
        match self.drive(async move { agent.set_config_option(&request).await }).await? {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let mut failed = CommandError::usage(refusal(&format!("{id}={value}"), &error));
                if !names.is_empty() {
                    failed = failed.hint(format!("the session has: {}", names.join(", ")));
                }
                Err(failed.into())
            }
            Err(error) => Err(lost(&error).into()),
        }
    }

    /// Drives the connection until a future completes. The first interrupt cancels the work, the second ends
    /// it.
    async fn drive<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Halt> {
        self.drive_until(future, |_| None).await
    }

    /// Drives the connection until a future completes or a condition holds.
    pub(super) async fn drive_until<T>(
        &mut self,
        future: impl Future<Output = T>,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Halt> {
        tokio::pin!(future);
        loop {
            if let Some(seen) = look(self) {
                return Ok(seen);
            }
            let asking = !self.questions.is_empty();
            let patience = self.patience;
            let has_session = self.session.is_some();
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                stop = self.stops.next() => self.stop(stop).await?,
                () = stdio::sleep_until(patience), if patience.is_some() => self.give_up()?,
                line = next_line(&mut self.keyboard), if asking => self.answer(line).await?,
                Some(notice) = next_notice(&mut self.confinement), if has_session => {
                    self.print_confinement(&notice)?;
                }
                event = self.feed.next() => match event {
                    Some(event) => self.take(event).await?,
                    None => return Ok(future.await),
                },
            }
        }
    }

    /// Gives up on an agent that does not stop, or if the user does not want to wait.
    fn give_up(&self) -> Result<(), Halt> {
        self.stopping.map_or(Ok(()), |first| Err(Halt::Stop(first)))
    }

    async fn stop(&mut self, stop: Stop) -> Result<(), Halt> {
        self.give_up()?;
        self.stopping = Some(stop);
        let Some(session) = self.session.clone().filter(|_| self.prompted) else {
            return Err(Halt::Stop(stop));
        };
        // The terminal may be gone; the agent is cancelled anyway.
        let _ = self.view.note(match stop {
            Stop::Interrupt => "cancelling; interrupt again to exit immediately",
            Stop::Timeout => "timeout; cancelling",
            _ => "stop signal; cancelling",
        });
        self.questions.clear();
        let patience = ending::at_most(CANCEL_GRACE, Phase::Work);
        self.patience = Some(Instant::now() + patience);
        let sessions = self.feed.sessions().conversation(|all| to_cancel(all, &session));
        // Agents differ in whether sub-agents end with their parent session. An agent that no longer reads is
        // ended after the deadline.
        let cancelling = async {
            for session in &sessions {
                let _ = self.agent.cancel(session).await;
            }
        };
        let _ = timeout(patience / 2, cancelling).await;
        self.may_rest = true;
        Ok(())
    }

    async fn take(&mut self, event: Event) -> Result<(), Halt> {
        if let Some(words) =
            invalid_lines::of_event(&event).and_then(|odd| self.invalid_lines.next(&visible_line(&odd)))
        {
            self.view.note(&format!("from the agent: {words}"))?;
        }
        match event {
            Event::Update(update) => {
                let Runner { feed, view, may_rest, .. } = self;
                *may_rest |= update.changes().iter().any(is_about_states);
                feed.sessions().conversation(|all| view.update(all, &update))?;
            }
            Event::Changed { session, changes } => {
                let Runner { feed, view, .. } = self;
                feed.sessions().conversation(|all| view.changed(all, &session, &changes))?;
            }
            Event::AuthStatus => self.print_login()?,
            Event::Closed(_) => self.is_closed = true,
            Event::Permission(question) => self.take_question(question).await?,
            Event::Elicitation(question) => match Form::of(question.request()) {
                Some(form) if self.can_ask && self.stopping.is_none() && !self.is_input_closed => {
                    self.questions.push_back(Question::Data(question, form));
                    self.ask_next(self.questions.len() == 1)?;
                }
                _ => {
                    let asker = self.asker(question.session());
                    let asker = asker.as_deref().unwrap_or("the agent");
                    self.view.note(&format!("{asker} asks for data, which needs a terminal"))?;
                    let _ = question.dismiss();
                }
            },
            Event::Withdrawn { id } => {
                let before = self.questions.len();
                let asked = self.questions.front().is_some_and(|question| *question.id() == id);
                self.questions.retain(|question| *question.id() != id);
                if self.questions.len() < before {
                    if asked {
                        self.view.answered("the agent cancelled the question")?;
                    }
                    self.ask_next(asked)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn print_end(&mut self, end: &PromptEnd) -> io::Result<()> {
        let words = match (&end.stop_reason, &end.error) {
            (Some(StopReason::EndTurn) | None, _) => return Ok(()),
            (Some(StopReason::Error), Some(error)) => format!("the agent failed: {}", error.message),
            (Some(StopReason::Error), None) => "the agent failed".to_owned(),
            (Some(StopReason::Cancelled), _) => "cancelled".to_owned(),
            (Some(StopReason::Refusal), _) => "the agent refused".to_owned(),
            (Some(StopReason::MaxTokens), _) => "the agent ran out of tokens".to_owned(),
            (Some(StopReason::MaxTurnRequests), _) => "the agent made too many requests".to_owned(),
            (Some(other), _) => format!("the agent stopped: {other}"),
        };
        self.view.note(&words)
    }

    fn outcome(&self, end: Option<&PromptEnd>) -> Outcome {
        if let Some(stop) = self.stopping {
            return Outcome::Stopped(stop);
        }
        if self.denied {
            return Outcome::PermissionDenied;
        }
        match end.map(|end| &end.stop_reason) {
            Some(Some(StopReason::EndTurn) | None) => Outcome::Fine,
            _ => Outcome::Problems,
        }
    }

    /// Closes the agent's input and reads its output until it has exited. The grace period bounds the time,
    /// and the size of its pipe bounds the data after its exit. Everything is read, and thereby recorded,
    /// even if it can no longer be shown.
    async fn read_to_end(&mut self, child: &Child, in_hurry: bool) -> Result<(), Halt> {
        self.is_input_closed = true;
        self.questions.clear();
        self.view.ending();
        let mut ended: Pin<Box<dyn Future<Output = Option<Exit>>>> = if in_hurry {
            Box::pin(child.shut_down_within(ending::grace()))
        } else {
            self.stops.lift_time_limit();
            Box::pin(child.shut_down())
        };
        let mut shown = Ok(());
        let mut silent_until = None;
        loop {
            tokio::select! {
                biased;
                // The user does not want to wait.
                _ = self.stops.next() => ended = Box::pin(child.shut_down_within(ending::grace())),
                // Before the output: an agent that never stops writing must not delay its end.
                _ = &mut ended, if silent_until.is_none() => silent_until = Some(last_output()),
                event = self.feed.next() => {
                    let Some(event) = event else { break };
                    if shown.is_ok() {
                        shown = self.take(event).await;
                    }
                    silent_until = silent_until.map(|_| last_output());
                }
                () = stdio::sleep_until(silent_until), if silent_until.is_some() => break,
            }
        }
        // It has closed its output, and may still run.
        if silent_until.is_none() {
            tokio::select! {
                _ = ended => {}
                _ = self.stops.next() => drop(child.shut_down_within(ending::grace()).await),
            }
        }
        // Those that its sandbox found after its end.
        while let Some(notice) = self.confinement.as_mut().and_then(|notices| notices.try_recv().ok()) {
            self.print_confinement(&notice)?;
        }
        shown
    }

    fn show_end(&mut self) -> io::Result<()> {
        self.show_held_back()?;
        self.print_usage()?;
        if let Some(words) = self.invalid_lines.total() {
            self.view.note(&format!("from the agent: {words}"))?;
        }
        self.end_session()
    }

    /// Shows the rest of the session.
    fn end_session(&mut self) -> io::Result<()> {
        let Runner { feed, view, session, .. } = self;
        feed.sessions().conversation(|all| view.end(all, session.as_deref()))
    }
}

/// Returns the deadline for silence of an exited agent.
fn last_output() -> Instant {
    Instant::now() + ending::at_most(LAST_OUTPUT, Phase::Recording)
}

async fn next_line(keyboard: &mut Option<Keyboard>) -> Option<String> {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

fn option_id(option: &v2::SessionConfigOption<'_>) -> String {
    let id = match option {
        v2::SessionConfigOption::Select(select) => select.config_id.clone(),
        v2::SessionConfigOption::Boolean(boolean) => boolean.config_id.clone(),
        v2::SessionConfigOption::Unknown(unknown) => unknown.text("configId").unwrap_or_default(),
        v2::SessionConfigOption::More(none) => none.never(),
    };
    visible_line(&id)
}

fn refusal(what: &str, error: &RpcError<'_>) -> String {
    format!("the agent refused {what}: {}", visible(&error.to_string()))
}

fn lost(error: &Error) -> CommandError {
    // An agent whose response was too long is still running.
    if let Error::Transport(switchboard_transport::Error::AnswerTooLong { length, limit, .. }) = error {
        let words = format!("the agent failed: the answer has {length} bytes, over the limit of {limit}");
        return CommandError::failed(words);
    }
    CommandError::failed(format!("the agent disconnected: {}", visible(&error.to_string())))
}

/// Returns the printed output of a conversation with a connected agent, `live` as on a terminal, and the
/// result of `look` on the sessions before the connection closes.
#[cfg(test)]
pub(crate) async fn printed<T>(
    client: Client,
    mut task: Task,
    live: bool,
    look: impl FnOnce(switchboard_peer::Sessions) -> T,
) -> (String, T) {
    let (text, screen) = io::pipe().expect("a pipe");
    let reader = std::thread::spawn(move || io::read_to_string(text).unwrap_or_default());
    let view = Box::new(Screen::on(Box::new(screen), live, |_| {}));
    let mut runner = Runner::showing(view, client, Stops::never(), &mut task);
    runner.can_ask = false;
    let worked = runner.work(task).await.and_then(|_| Ok(runner.show_end()?));
    if let Err(halt) = worked {
        panic!("the conversation did not finish: {:?}", halt.into_outcome());
    }
    let seen = look(runner.feed.sessions());
    drop(runner);
    (reader.join().expect("the text"), seen)
}
