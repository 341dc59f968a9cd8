//! Who may come in.

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

/// The name of whoever has the token of the launch.
pub(crate) const LAUNCH: &str = "launch";

/// How many refusals a minute are written down.
const TOLD: u64 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// How many refusals there were in the last minute.
struct Told {
    since: Instant,
    count: u64,
}

/// Looks at tokens.
pub(super) struct Gate {
    store: Store,
    origins: Vec<String>,
    /// Whether the server's names are proven by its certificate.
    has_certificate: bool,
    logger: Logger,
    launch: String,
    name: Arc<str>,
    wrong: LoginRateLimit,
    told: Mutex<Told>,
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
        let told = Mutex::new(Told { since: Instant::now(), count: 0 });
        Ok(Gate { store, origins, has_certificate, logger, launch, name, wrong, told, hub: None })
    }

    /// The token of this launch.
    pub(super) fn launch_token(&self) -> &str {
        &self.launch
    }

    pub(super) fn launch_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Who has the token of this launch.
    pub(super) fn launch_identity(&self) -> Identity {
        Identity { name: Arc::clone(&self.name), role: Role::Admin, all: true, made: 0 }
    }

    /// Whether a page comes from this server.
    fn is_own(&self, origin: &[u8], head: &Parts) -> bool {
        let host = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = host.or(head.headers.get(header::HOST).map(HeaderValue::as_bytes));
        let is_proven = self.has_certificate && origin.strip_prefix(b"https://") == host;
        is_proven || self.origins.iter().any(|own| own.as_bytes() == origin)
    }

    /// The same, with the hub that connections are for.
    pub(super) fn over(self, hub: Hub) -> Self {
        Gate { hub: Some(hub), ..self }
    }

    /// Refuses, and writes it down; of very many only how many they are.
    fn refuse(&self, from: SocketAddr, refusal: Refusal) -> Refusal {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.since.elapsed() >= MINUTE {
            let untold = told.count.saturating_sub(TOLD);
            if untold > 0 {
                self.logger.say(&format!("{untold} more were refused"));
            }
            *told = Told { since: Instant::now(), count: 0 };
        }
        told.count += 1;
        if told.count <= TOLD {
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
                "a token is needed: Authorization: Bearer TOKEN; `switchboard tokens add` makes one";
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
                    Ok(()) => {
                        Refusal::new(StatusCode::UNAUTHORIZED, "this token is unknown here, or was revoked")
                    }
                    Err(wait) => Refusal {
                        status: StatusCode::TOO_MANY_REQUESTS,
                        message: "too many wrong tokens from this address".to_owned(),
                        retry_after: Some(wait),
                        wants_token: true,
                    },
                };
                Err(self.refuse(from, refusal))
            }
            Err(error) => {
                self.logger.say(&format!("tokens cannot be looked up: {error}"));
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "tokens cannot be looked up now"))
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
