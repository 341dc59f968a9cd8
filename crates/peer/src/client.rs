//! The client role.

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
use negotiation::EarlyAnomalies;
use state::ClientInner;

/// Description and timeouts of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Name and version of the client.
    pub info: v2::Implementation<'static>,
    /// Its capabilities. Default: none.
    pub capabilities: v2::ClientCapabilities<'static>,
    /// Timeout for the whole handshake. Default: 30 seconds.
    pub patience: Duration,
    /// Maximum number of sessions of the agent, including sub-agents; updates for more are dropped and
    /// reported. Default: 10240.
    pub session_limit: usize,
    /// True if updates are folded into sessions and reported as events. Disable it if the transcript is read
    /// elsewhere, such as in the log of a hub; then the ends of turns are unknown here, and only questions
    /// are reported. Default: `true`.
    pub folds_updates: bool,
    /// Observer of all messages. Default: none.
    pub observer: Option<Observer>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl ClientOptions {
    /// Returns the options of a client with this name and version.
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

    /// Returns the options for a connection to an agent: unknown methods are refused automatically, and the
    /// observer sees all messages.
    pub fn connection_options(&self) -> ConnectionOptions {
        observer::observed(Client::connection_options(), self.observer.as_ref(), WireSide::Agent)
    }
}

/// The methods that an agent may call.
const CLIENT_METHODS: [&str; 6] = [
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "elicitation/complete",
    "auth/status_update",
    "_auth/status_update",
];

/// An initialized connection to an agent. The two halves may be used in different tasks.
#[derive(Debug)]
pub struct Client {
    /// Sends requests to the agent.
    pub agent: AgentHandle,
    /// Holds the sessions and reports their events. It drives the connection: responses only arrive while the
    /// next event is awaited.
    pub feed: Feed,
}

impl Client {
    /// Initializes a connection.
    ///
    /// Requests version 2, and version 1 if the agent refuses that. The shape of the response determines the
    /// agent's version, because several agents echo any number.
    ///
    /// A version 1 agent is translated, so that the client sees version 2. [`AgentDescription::version`] has
    /// the actual version.
    pub async fn connect(connection: Connection, options: ClientOptions) -> Result<Self, Error> {
        let patience = options.patience;
        tokio::time::timeout(patience, Self::shake_hands(connection, options)).await.unwrap_or_else(|_| {
            let method = negotiation::INITIALIZE.to_owned();
            Err(switchboard_transport::Error::DeadlinePassed { method, after: patience }.into())
        })
    }

    async fn shake_hands(mut connection: Connection, options: ClientOptions) -> Result<Self, Error> {
        let mut early = EarlyAnomalies::default();
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

    /// Starts an agent's program and initializes the connection.
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

    /// Returns the options for a connection to an agent without an observer.
    pub fn connection_options() -> ConnectionOptions {
        ConnectionOptions::default().knows(|method| CLIENT_METHODS.contains(&method))
    }
}
