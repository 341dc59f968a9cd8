//! Authentication of clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_hub::{Hub, Identity, LoginRateLimit, bearer_token, constant_time_eq};
use switchboard_store::{Role, Store, TokenLimits};
use switchboard_transport::server::{Refusal, ServerConnection, Service};

use super::super::agent_host;
use super::cross_origin::SocketCredential;
use super::logging::Logger;
use super::tickets::Tickets;

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
    /// Origins of other servers whose pages may connect with a credential.
    listed: Vec<String>,
    tickets: Tickets,
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
        listed: Vec<String>,
        has_certificate: bool,
        logger: Logger,
    ) -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let launch = format!("sb_{}", URL_SAFE_NO_PAD.encode(random));
        let name = LAUNCH.into();
        let wrong = LoginRateLimit::default();
        let told = Mutex::new(LoggedRefusals { since: Instant::now(), count: 0 });
        let tickets = Tickets::default();
        Ok(Gate {
            store,
            origins,
            listed,
            tickets,
            has_certificate,
            logger,
            launch,
            name,
            wrong,
            told,
            hub: None,
        })
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

    /// Returns whether an origin of another server is listed.
    pub(super) fn is_listed(&self, origin: &[u8]) -> bool {
        self.listed.iter().any(|listed| listed.as_bytes() == origin)
    }

    pub(super) fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    pub(super) fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// Sets the hub for new connections.
    pub(super) fn over(self, hub: Hub) -> Self {
        Gate { hub: Some(hub), ..self }
    }

    /// Checks a token. `place` is the part of the request that has it.
    fn by_token(
        &self,
        token: &str,
        place: Place,
        head: &Parts,
        from: SocketAddr,
    ) -> Result<Identity, Refusal> {
        if place == Place::Header && constant_time_eq(token, &self.launch) {
            return Ok(self.launch_identity());
        }
        match self.store.find_token(token) {
            Ok(Some(token)) => {
                match &token.limits {
                    None if place == Place::Address => {
                        let message = "tokens in addresses are refused; make one with --origin";
                        return Err(self.wrong_credential(from, message));
                    }
                    Some(limits) if !fits(limits, head) => {
                        let message = "this token is only for WebSockets of its origin and its agent";
                        return Err(self.wrong_credential(from, message));
                    }
                    _ => {}
                }
                Ok(Identity { name: token.name.into(), role: token.role, all: token.all, made: token.made.0 })
            }
            // The same words for tokens that exist and for those that do not.
            Ok(None) if place == Place::Address => {
                let message = "tokens in addresses are refused; make one with --origin";
                Err(self.wrong_credential(from, message))
            }
            Ok(None) => Err(self.wrong_credential(from, "the token is unknown or was revoked")),
            Err(error) => {
                self.logger.say(&format!("cannot look up tokens: {error}"));
                Err(Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "tokens cannot be checked now; try again later",
                ))
            }
        }
    }

    /// Refuses a wrong credential, and counts it for the rate limit.
    fn wrong_credential(&self, from: SocketAddr, message: &str) -> Refusal {
        let refusal = match self.wrong.record_failure(from.ip(), Instant::now()) {
            Ok(()) => Refusal::new(StatusCode::UNAUTHORIZED, message),
            Err(wait) => Refusal {
                status: StatusCode::TOO_MANY_REQUESTS,
                message: "rate limit: too many invalid tokens from this address; try again later".to_owned(),
                retry_after: Some(wait),
                wants_token: true,
            },
        };
        self.refuse(from, refusal)
    }

    /// Refuses a connection and logs it; above the limit, refusals are only counted.
    pub(super) fn refuse(&self, from: SocketAddr, refusal: Refusal) -> Refusal {
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

/// Part of a request that has a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Address,
}

/// Returns the agent that a request names.
fn agent_of(head: &Parts) -> Option<&str> {
    head.uri.path().strip_prefix("/acp/")
}

/// Returns whether a request meets the limits of a token: a WebSocket, from its origin, to its agent.
fn fits(limits: &TokenLimits, head: &Parts) -> bool {
    let is_socket = head
        .headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let origin = head.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    is_socket && origin == Some(limits.origin.as_bytes()) && agent_of(head) == Some(&limits.agent)
}

impl Gate {
    /// Identifies a client of the Agent Host Protocol. VS Code sends its token in the address, and its windows have an
    /// origin of their own.
    pub(super) fn identify_editor(&self, head: &Parts, from: SocketAddr) -> Result<Identity, Refusal> {
        let origin = head.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        let is_allowed = agent_host::is_editor(origin)
            || origin.is_some_and(|origin| self.is_own(origin, head) || self.is_listed(origin));
        if !is_allowed {
            let message = "pages of other servers may not use this one";
            return Err(self.refuse(from, Refusal::new(StatusCode::FORBIDDEN, message)));
        }
        match agent_host::token(head) {
            Some(token) => self.by_token(&token, Place::Header, head, from),
            None => Err(self.refuse(from, agent_host::no_token())),
        }
    }
}

impl Service for Gate {
    type Identity = Identity;

    fn identify(&self, head: &Parts, from: SocketAddr) -> Result<Identity, Refusal> {
        let origin = head.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        if let Some(origin) = origin
            && !self.is_own(origin, head)
            && !self.is_listed(origin)
        {
            let message = "pages of other servers may not use this one";
            return Err(self.refuse(from, Refusal::new(StatusCode::FORBIDDEN, message)));
        }
        if let Some(token) = bearer_token(&head.headers) {
            return self.by_token(token, Place::Header, head, from);
        }
        let is_socket = head
            .headers
            .get(header::UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let credential = SocketCredential::of(&head.headers, head.uri.query()).filter(|_| is_socket);
        match credential {
            Some(SocketCredential::Subprotocol { has_other: false, .. }) => {
                let message =
                    "offer the subprotocol acp beside the one with the token: [\"acp\", \"bearer.TOKEN\"]";
                Err(self.refuse(from, Refusal::new(StatusCode::BAD_REQUEST, message)))
            }
            Some(SocketCredential::Subprotocol { token, .. }) => {
                self.by_token(&token, Place::Header, head, from)
            }
            Some(SocketCredential::Ticket(ticket)) => {
                let origin = origin.and_then(|origin| std::str::from_utf8(origin).ok()).unwrap_or_default();
                let agent = agent_of(head).unwrap_or_default();
                self.tickets
                    .redeem(&ticket, agent, origin, Instant::now())
                    .ok_or_else(|| self.wrong_credential(from, "the ticket is not valid"))
            }
            Some(SocketCredential::Token(token)) => self.by_token(&token, Place::Address, head, from),
            None => {
                let message =
                    "a token is required: Authorization: Bearer TOKEN; `switchboard tokens add` creates one";
                Err(self.refuse(from, Refusal::new(StatusCode::UNAUTHORIZED, message)))
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
