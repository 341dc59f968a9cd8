//! The work on one prompt.

use switchboard_acp::v2;

use super::message::Message;
use super::permission::{self, Ask};
use super::sending::Emitter;
use super::session::AgentSession;
use super::subagent::SubagentStart;
use super::terminal::Terminal;
use super::tool_call::ToolCallStart;
use crate::Error;

/// The work on one prompt. Open tool calls and terminals are closed at its end, and later updates fail with
/// [`Error::TurnOver`].
#[derive(Debug)]
pub struct Turn {
    session: AgentSession,
    emitter: Emitter,
    prompt: Vec<v2::ContentBlock<'static>>,
    message_id: String,
    /// Number of cancellations when it began.
    cancels: u64,
}

impl Turn {
    pub(super) fn new(
        session: AgentSession,
        emitter: Emitter,
        prompt: Vec<v2::ContentBlock<'static>>,
        message_id: String,
        cancels: u64,
    ) -> Self {
        Turn { session, emitter, prompt, message_id, cancels }
    }

    pub(super) fn emitter(&self) -> &Emitter {
        &self.emitter
    }

    /// Returns the session.
    pub fn session(&self) -> &AgentSession {
        &self.session
    }

    /// Returns the content of the prompt.
    pub fn prompt(&self) -> &[v2::ContentBlock<'static>] {
        &self.prompt
    }

    /// Returns the text of the prompt.
    pub fn text(&self) -> String {
        self.prompt.iter().filter_map(v2::ContentBlock::as_text).collect()
    }

    /// Returns the id of the user's message.
    pub fn message_id(&self) -> &str {
        &self.message_id
    }

    /// Starts a message.
    pub fn message(&self) -> Message {
        Message::new(self.emitter.clone(), false)
    }

    /// Starts a thought.
    pub fn thought(&self) -> Message {
        Message::new(self.emitter.clone(), true)
    }

    /// Sends one complete message.
    pub async fn say(&self, text: &str) -> Result<(), Error> {
        self.message().text(text).await
    }

    /// Prepares a tool call with a title for people.
    pub fn tool_call(&self, title: &str) -> ToolCallStart {
        ToolCallStart::new(self.emitter.clone(), title)
    }

    /// Runs a command in a terminal without a tool call.
    pub async fn terminal(&self, command: &str, cwd: &str) -> Result<Terminal, Error> {
        Terminal::open(self.emitter.clone(), command, cwd).await
    }

    /// Prepares a sub-agent with a title for people: a child session of this one. **Unstable.**
    ///
    /// Its id, its states in both sessions and its history are managed. [`ToolCall::subagent`] shows it in
    /// the content of the tool call that starts it.
    ///
    /// ```
    /// use switchboard_peer::{
    ///     AbsolutePath, Agent, Client, ClientOptions, Connection, Error, Introduction, Turn,
    ///     agent_connection_options, serve, v2,
    /// };
    ///
    /// struct Delegating;
    ///
    /// impl Agent for Delegating {
    ///     fn introduce(&self) -> Introduction {
    ///         Introduction::new("delegating", "1.0")
    ///     }
    ///
    ///     async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
    ///         let helper = turn.subagent("Explorer").task("Find the tests.").start().await?;
    ///         helper.say("They are in tests/.").await?;
    ///         helper.finish(v2::StopReason::EndTurn).await?;
    ///         Ok(v2::StopReason::EndTurn)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (near, far) = Connection::pair(Client::connection_options(), agent_connection_options());
    /// tokio::spawn(serve(Delegating, far));
    /// let Client { agent, mut feed } = Client::connect(near, ClientOptions::new("example", "1.0")).await?;
    /// let request = v2::NewSessionRequest::new(AbsolutePath::parse("/w")?);
    /// let session = feed.until(agent.new_session(&request), drop).await??.session_id;
    /// let prompt = agent.prompt(&session, vec![v2::ContentBlock::text("Go")]);
    /// let mut turn = feed.until(prompt, drop).await??;
    /// feed.until(turn.ended(), drop).await?;
    /// feed.sessions().conversation(|conversation| {
    ///     let (child, _) = conversation.children(&session).next().unwrap();
    ///     assert_eq!(conversation.name(child).unwrap(), "Explorer");
    ///     assert_eq!(conversation.state_in_words(child), "done");
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`ToolCall::subagent`]: crate::ToolCall::subagent
    pub fn subagent(&self, title: &str) -> SubagentStart {
        SubagentStart::new(self.emitter.clone(), title, None)
    }

    /// Prepares a permission request.
    pub fn ask(&self, title: &str) -> Ask<'_> {
        Ask::new(self, title)
    }

    /// Asks the user for data with a form or a web page, and waits for the answer without a timeout. A
    /// cancellation of the turn and an error of the client count as `cancel`. Requires a client with that
    /// capability: see [`AgentSession::client_capabilities`].
    pub async fn elicit(
        &self,
        request: &v2::CreateElicitationRequest<'_>,
    ) -> Result<v2::CreateElicitationResponse<'static>, Error> {
        permission::elicit(self, request).await
    }

    /// Sends a plan, or replaces the one with this id.
    pub async fn plan(&self, id: &str, entries: Vec<v2::PlanEntry<'_>>) -> Result<(), Error> {
        let plan = v2::PlanUpdateContent::Items(v2::PlanItems::new(id, entries));
        self.update(v2::SessionUpdate::PlanUpdate(Box::new(v2::PlanUpdate::new(plan)))).await
    }

    /// Sends any other update. States are sent automatically and refused here.
    pub async fn update(&self, update: v2::SessionUpdate<'_>) -> Result<(), Error> {
        if matches!(update, v2::SessionUpdate::StateUpdate(_)) {
            return Err(Error::BrokenRule("the state of a session is sent automatically".into()));
        }
        self.emitter.say(update).await
    }

    /// Returns whether the user has cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.emitter.core.cancel.borrow() > self.cancels
    }

    /// Waits until the user cancels.
    pub async fn cancelled(&self) {
        let mut cancel = self.emitter.core.cancel.subscribe();
        let cancels = self.cancels;
        // The sender lives as long as the session.
        let _ = cancel.wait_for(|count| *count > cancels).await;
    }
}
