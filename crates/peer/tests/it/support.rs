//! An agent made of a function, and a client connected to it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use switchboard_acp::{AbsolutePath, v2};
use switchboard_peer::{
    Agent, Client, ClientOptions, Error, Event, Introduction, PromptEnd, PromptTurn, Turn, Versions,
    agent_connection_options, serve_versions,
};
use switchboard_session::Session;
use switchboard_transport::Connection;

/// Fails a test that does not end by itself.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test takes too long")
}

pub(crate) type Work<'t> = Pin<Box<dyn Future<Output = Result<v2::StopReason, Error>> + Send + 't>>;

/// An agent that runs a function for every prompt.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F> Agent for Scripted<F>
where
    F: for<'t> Fn(&'t Turn) -> Work<'t> + Send + Sync + 'static,
{
    fn introduce(&self) -> Introduction {
        Introduction::new("scripted", "1.0")
    }

    async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
        (self.0)(turn).await
    }
}

/// A client with one session in `/w`.
pub(crate) struct Test {
    pub(crate) client: Client,
    pub(crate) session: String,
}

impl Test {
    pub(crate) async fn with(agent: impl Agent) -> Self {
        Self::speaking(agent, Versions::Both).await
    }

    pub(crate) async fn speaking(agent: impl Agent, versions: Versions) -> Self {
        let (near, far) = Connection::pair(Client::connection_options(), agent_connection_options());
        tokio::spawn(serve_versions(agent, far, versions));
        let mut client = Client::connect(near, ClientOptions::new("test", "1.0")).await.unwrap();
        let request = v2::NewSessionRequest::new(path("/w"));
        let opened = client.feed.until(client.agent.new_session(&request), drop).await.unwrap().unwrap();
        Test { client, session: opened.session_id.into_owned() }
    }

    pub(crate) async fn scripted<F>(work: F) -> Self
    where
        F: for<'t> Fn(&'t Turn) -> Work<'t> + Send + Sync + 'static,
    {
        Self::with(Scripted(work)).await
    }

    pub(crate) async fn prompt(&mut self, text: &str) -> PromptTurn {
        let content = vec![v2::ContentBlock::text(text.to_owned())];
        let Client { agent, feed } = &mut self.client;
        feed.until(agent.prompt(&self.session, content), drop).await.unwrap().unwrap()
    }

    pub(crate) async fn ended(&mut self, turn: &mut PromptTurn, handle: impl FnMut(Event)) -> PromptEnd {
        self.client.feed.until(turn.ended(), handle).await.unwrap()
    }

    /// Runs one prompt to its end.
    pub(crate) async fn run(&mut self, text: &str) -> PromptEnd {
        let mut turn = self.prompt(text).await;
        self.ended(&mut turn, drop).await
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Session) -> T) -> T {
        self.client.feed.sessions().get(&self.session, look).unwrap()
    }
}

/// Parses an absolute path.
pub(crate) fn path(text: &'static str) -> AbsolutePath<'static> {
    AbsolutePath::parse(text).unwrap()
}
