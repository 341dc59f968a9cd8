//! The role of a client.

mod feed;
mod handle;
mod negotiation;
mod observer;
mod question;
mod state;
mod turn;
mod unstable;

pub use feed::{Event, Feed, Sessions, Update};
pub use handle::{AgentHandle, Reply};
pub use negotiation::AgentDescription;
pub use observer::{Observed, Observer, WireSide};
pub use question::{ElicitationQuestion, PermissionQuestion};
pub use turn::{PromptEnd, PromptTurn};
pub use unstable::Steered;

use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::v2;
use switchboard_transport::{Child, Connection, ConnectionOptions, Program};

use crate::{Error, translation};
use negotiation::Early;
use state::ClientInner;

/// What a client tells of itself, and how patient it is.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Name and version of the client.
    pub info: v2::Implementation<'static>,
    /// What it can do. Nothing unless told otherwise.
    pub capabilities: v2::ClientCapabilities<'static>,
    /// How long the agent may take to introduce itself, in all. 30 seconds.
    pub patience: Duration,
    /// How many sessions the agent may talk of at once; updates for more are dropped and reported. 10240, sub-agents
    /// among them.
    pub session_limit: usize,
    /// Whether updates are folded into sessions, and told. Who reads the transcript elsewhere, such as in the log of a hub,
    /// needs it only there; then no turn is known to end here, and questions are all that is told. `true`.
    pub folds_updates: bool,
    /// Who is shown everything that is said. `None`: nobody.
    pub observer: Option<Observer>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl ClientOptions {
    /// A client of this name and version.
    pub fn new(name: &str, version: &str) -> Self {
        ClientOptions {
            info: v2::Implementation::new(name.to_owned(), version.to_owned()),
            capabilities: v2::ClientCapabilities::new(),
            patience: Duration::from_secs(30),
            session_limit: 10_240,
            folds_updates: true,
            observer: None,
            more: switchboard_acp::More,
        }
    }

    /// The options for a connection to an agent: methods that a client does not have are refused by themselves, and
    /// the observer is shown what is said.
    pub fn connection_options(&self) -> ConnectionOptions {
        observer::observed(Client::connection_options(), self.observer.as_ref(), WireSide::Agent)
    }
}

/// The methods that an agent may call.
const KNOWN: [&str; 6] = [
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "elicitation/complete",
    "auth/status_update",
    "_auth/status_update",
];

/// A connection to an agent that has introduced itself. The two halves may live in different tasks.
#[derive(Debug)]
pub struct Client {
    /// Asks the agent for things.
    pub agent: AgentHandle,
    /// Holds the sessions and tells what happens in them. It drives the connection: answers arrive only while
    /// somebody asks it for the next event.
    pub feed: Feed,
}

impl Client {
    /// Opens the conversation over a connection.
    ///
    /// Version 2 is asked for; an agent that refuses that is asked for version 1. What the agent speaks is judged by
    /// the shape of its answer, because several agents echo any number.
    ///
    /// An agent of version 1 is translated: the client sees one of version 2. [`AgentDescription::version`] tells.
    pub async fn connect(connection: Connection, options: ClientOptions) -> Result<Self, Error> {
        let patience = options.patience;
        tokio::time::timeout(patience, Self::shake_hands(connection, options)).await.unwrap_or_else(|_| {
            let method = negotiation::INITIALIZE.to_owned();
            Err(switchboard_transport::Error::DeadlinePassed { method, after: patience }.into())
        })
    }

    async fn shake_hands(mut connection: Connection, options: ClientOptions) -> Result<Self, Error> {
        let mut early = Early::default();
        let mut description = negotiation::initialize(&mut connection, &options, &mut early).await?;
        let (mut gone, mut anomalies) = (None, None);
        if let Some(observer) = &options.observer {
            observer.see(Observed::Version(description.version));
        }
        if description.version == 1 {
            let (name, answer) = (description.name().to_owned(), description.answer.clone());
            let observer = options.observer.clone();
            let near = observer::observed(Self::connection_options(), observer.as_ref(), WireSide::Canonical);
            let (mut translated, mut behind) =
                translation::to_version_one_agent(connection, near, &name, answer, observer);
            let told = &mut behind.anomalies;
            description =
                negotiation::initialize_translated(&mut translated, &options, told, &mut early).await?;
            connection = translated;
            (gone, anomalies) = (Some(behind.gone), Some(behind.anomalies));
        }
        let shared = Arc::new(ClientInner::new(connection.caller, &options, gone));
        Ok(Client {
            agent: AgentHandle::new(Arc::clone(&shared), Arc::new(description)),
            feed: Feed::new(connection.inbox, shared, early, anomalies),
        })
    }

    /// Starts an agent's program and opens the conversation with it.
    pub async fn start(program: &Program, options: ClientOptions) -> Result<(Child, Self), Error> {
        let (child, connection) = program.connect(options.connection_options())?;
        match Self::connect(connection, options).await {
            Ok(client) => Ok((child, client)),
            Err(error) => {
                child.shut_down().await;
                Err(error)
            }
        }
    }

    /// The options for a connection to an agent that nobody observes.
    pub fn connection_options() -> ConnectionOptions {
        ConnectionOptions::default().knows(|method| KNOWN.contains(&method))
    }
}
