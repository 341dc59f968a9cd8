//! Authentication of clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_hub::{Hub, Identity, LoginRateLimit, bearer_token, constant_time_eq};
use switchboard_store::{Role, Store};
use switchboard_transport::server::{Refusal, ServerConnection, Service};

use super::logging::Logger;

/// Name of the holder of the launch token.
pub(crate) const LAUNCH: &str = "launch";

/// Maximum number of logged refusals per minute.
const MAX_LOGGED: u64 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// Number of refusals in the last minute.
struct LoggedRefusals {
    since: Instant,
    count: u64,
}

/// Checks tokens.
pub(super) struct Gate {
    store: Store,
    origins: Vec<String>,
    /// Set if a certificate proves the server's names.
    has_certificate: bool,
    logger: Logger,
    launch: String,
    name: Arc<str>,
    wrong: LoginRateLimit,
    told: Mutex<LoggedRefusals>,
    hub: Option<Hub>,
}

impl Gate {
    pub(super) fn new(
        store: Store,
        origins: Vec<String>,
        has_certificate: bool,
        logger: Logger,
    ) -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let launch = format!("sb_{}", URL_SAFE_NO_PAD.encode(random));
        let name = LAUNCH.into();
        let wrong = LoginRateLimit::default();
        let told = Mutex::new(LoggedRefusals { since: Instant::now(), count: 0 });
        Ok(Gate { store, origins, has_certificate, logger, launch, name, wrong, told, hub: None })
    }

    /// Returns the launch token.
    pub(super) fn launch_token(&self) -> &str {
        &self.launch
    }

    pub(super) fn launch_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns the identity of the launch token's holder.
    pub(super) fn launch_identity(&self) -> Identity {
        Identity { name: Arc::clone(&self.name), role: Role::Admin, all: true, made: 0 }
    }

    /// Returns whether a page is from this server.
    fn is_own(&self, origin: &[u8], head: &Parts) -> bool {
        let host = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = host.or(head.headers.get(header::HOST).map(HeaderValue::as_bytes));
        let is_proven = self.has_certificate && origin.strip_prefix(b"https://") == host;
        is_proven || self.origins.iter().any(|own| own.as_bytes() == origin)
    }

    /// Sets the hub for new connections.
    pub(super) fn over(self, hub: Hub) -> Self {
        Gate { hub: Some(hub), ..self }
    }

    /// Refuses a connection and logs it; above the limit, refusals are only counted.
    fn refuse(&self, from: SocketAddr, refusal: Refusal) -> Refusal {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.since.elapsed() >= MINUTE {
            let untold = told.count.saturating_sub(MAX_LOGGED);
            if untold > 0 {
                self.logger.say(&format!("{untold} more refusals"));
            }
            *told = LoggedRefusals { since: Instant::now(), count: 0 };
        }
        told.count += 1;
        if told.count <= MAX_LOGGED {
            self.logger.say(&format!("refused {}: {}", from.ip(), refusal.message));
        }
        refusal
    }
}

impl Service for Gate {
    type Identity = Identity;

    fn identify(&self, head: &Parts, from: SocketAddr) -> Result<Identity, Refusal> {
        if let Some(origin) = head.headers.get(header::ORIGIN)
            && !self.is_own(origin.as_bytes(), head)
        {
            let message = "pages of other servers may not use this one";
            return Err(self.refuse(from, Refusal::new(StatusCode::FORBIDDEN, message)));
        }
        let Some(token) = bearer_token(&head.headers) else {
            let message =
                "a token is required: Authorization: Bearer TOKEN; `switchboard tokens add` creates one";
            return Err(self.refuse(from, Refusal::new(StatusCode::UNAUTHORIZED, message)));
        };
        if constant_time_eq(token, &self.launch) {
            return Ok(self.launch_identity());
        }
        match self.store.find_token(token) {
            Ok(Some(token)) => {
                Ok(Identity { name: token.name.into(), role: token.role, all: token.all, made: token.made.0 })
            }
            Ok(None) => {
                let refusal = match self.wrong.record_failure(from.ip(), Instant::now()) {
                    Ok(()) => Refusal::new(StatusCode::UNAUTHORIZED, "the token is unknown or was revoked"),
                    Err(wait) => Refusal {
                        status: StatusCode::TOO_MANY_REQUESTS,
                        message: "rate limit: too many invalid tokens from this address; try again later"
                            .to_owned(),
                        retry_after: Some(wait),
                        wants_token: true,
                    },
                };
                Err(self.refuse(from, refusal))
            }
            Err(error) => {
                self.logger.say(&format!("cannot look up tokens: {error}"));
                Err(Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "tokens cannot be checked now; try again later",
                ))
            }
        }
    }

    fn has_agent(&self, agent: Option<&str>) -> bool {
        self.hub.as_ref().is_some_and(|hub| hub.has_agent(agent))
    }

    fn open(&self, who: Identity, agent: Option<String>, connection: ServerConnection) {
        let Some(hub) = self.hub.clone() else { return };
        tokio::spawn(async move { hub.connect(who, agent.as_deref(), connection).await });
    }
}
