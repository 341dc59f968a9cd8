//! The routes: requests and responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Path as AxumPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_acp::Moment;
use switchboard_hub::{Hub, Identity, SessionSummary};
use switchboard_notify::Notifier;
use switchboard_store::{Role, Store, StoreError};
use switchboard_transport::server::{Admission, Refusal, Service as _};
use tokio::task::spawn_blocking;

use super::super::gate::Gate;
use super::super::logging::Logger;
use super::registry::{PromptRecord, Registered, Registry, Status, key};
use super::runner::{Runner, Work};
use crate::configuration::roots::{Refused, Roots};

/// Maximum size of a request in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// Maximum length of an id.
const MAX_ID: usize = 128;
/// Maximum time for which a request for a result waits.
const MAX_WAIT: u64 = 60;

/// Keys of a request.
const KEYS: [&str; 6] = ["id", "agent", "folder", "text", "session", "webhook"];

/// Takes prompts from programs that are no ACP clients.
pub(in super::super) struct PromptService {
    gate: Arc<Gate>,
    runner: Arc<Runner>,
    roots: Roots,
}

impl PromptService {
    /// Creates the service of a hub. `address` is its public origin.
    pub(in super::super) fn new(
        gate: &Arc<Gate>,
        hub: &Hub,
        notifier: &Notifier,
        (store, logger): (Store, Logger),
        roots: Roots,
        address: &str,
    ) -> Result<Self, StoreError> {
        let runner = Runner {
            hub: hub.clone(),
            registry: Arc::new(Registry::open(store)?),
            notifier: notifier.clone(),
            logger,
            address: address.to_owned(),
        };
        Ok(PromptService { gate: Arc::clone(gate), runner: Arc::new(runner), roots })
    }

    fn identify(&self, head: &Parts) -> Result<Identity, Refusal> {
        let from = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(from)| *from);
        let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let who = self.gate.identify(head, from)?;
        // A request may wait longer than connections of strangers live.
        if let Some(admission) = head.extensions.get::<Admission>() {
            admission.grant();
        }
        Ok(who)
    }

    async fn start(&self, request: Request) -> Result<Response, Refusal> {
        let (head, body) = request.into_parts();
        let who = self.identify(&head)?;
        if who.role < Role::Use {
            let message =
                format!("the role {} of this token does not allow prompts; it needs the role use", who.role);
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        let body = to_bytes(body, MAX_BODY).await;
        let body =
            body.map_err(|_| refused(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long or incomplete"))?;
        let mut wish = Wish::parse(&body).map_err(|reason| refused(StatusCode::BAD_REQUEST, &reason))?;
        let digest = wish.digest();
        let session = match wish.session.take() {
            Some(id) => Some(self.session(&who, &id).await?),
            None => None,
        };
        let (agent, folder) = self.place(&wish, session.as_ref())?;
        if let Some(webhook) = &wish.webhook
            && !self.runner.notifier.takes_results_at(webhook)
        {
            let message = format!("there is no webhook {webhook:?} in hub.notify that takes results");
            return Err(refused(StatusCode::BAD_REQUEST, &message));
        }
        let record = PromptRecord {
            id: wish.id.clone(),
            digest,
            agent,
            folder,
            webhook: wish.webhook,
            status: Status::Starting,
            session: None,
            stop_reason: None,
            error: None,
            text: None,
            is_text_cut: false,
            may_run_again: false,
            created: Moment::now().0,
            ended: None,
        };
        let (registry, key) = (Arc::clone(&self.runner.registry), key(&who, &wish.id));
        let registered = self.blocking(move || registry.register(key, record)).await?;
        let (status, record) = match registered {
            Registered::New(prompt) => {
                let record = prompt.record();
                let (runner, session) =
                    (Arc::clone(&self.runner), session.map(|session| session.id.to_string()));
                let work = Work { who, text: wish.text, session };
                tokio::spawn(async move { runner.run(prompt, work).await });
                (StatusCode::ACCEPTED, record)
            }
            Registered::Known(record) => (StatusCode::OK, *record),
            Registered::Conflict => {
                let message = "another prompt has this id; choose a new one for each prompt";
                return Err(refused(StatusCode::CONFLICT, message));
            }
            Registered::Full => {
                let message = "too many prompts run at once; try again later";
                let wait = Some(Duration::from_secs(10));
                return Err(Refusal {
                    retry_after: wait,
                    ..refused(StatusCode::SERVICE_UNAVAILABLE, message)
                });
            }
        };
        let mut response = response(status, &record.result(&self.runner.address, 0));
        if let Ok(place) = HeaderValue::from_str(&format!("/prompt/{}", record.id)) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        Ok(response)
    }

    /// Returns a session that a client sees.
    async fn session(&self, who: &Identity, id: &str) -> Result<SessionSummary, Refusal> {
        let (_, sessions) = self.runner.hub.sessions(who).await.ok_or_else(ended)?;
        let found = sessions.into_iter().find(|session| *session.id == *id);
        found.ok_or_else(|| refused(StatusCode::NOT_FOUND, &format!("there is no session {id:?}")))
    }

    /// Returns the agent and the folder of a prompt.
    fn place(&self, wish: &Wish, session: Option<&SessionSummary>) -> Result<(String, String), Refusal> {
        if let Some(session) = session {
            return Ok((session.agent.clone(), session.folder.clone()));
        }
        let first = || self.runner.hub.agents().first().cloned();
        let agent = wish.agent.clone().or_else(first).unwrap_or_default();
        if !self.gate.has_agent(Some(&agent)) {
            return Err(refused(StatusCode::NOT_FOUND, &format!("no agent {agent:?} on this server")));
        }
        let folder = wish.folder.as_deref().ok_or_else(|| {
            refused(StatusCode::BAD_REQUEST, "\"folder\" is required: an absolute path on this server")
        })?;
        let folder = self.roots.resolve(folder).map_err(|Refused { reason, roots }| {
            let message = format!("cannot work in {folder}: {reason}; the roots are {}", roots.join(", "));
            refused(StatusCode::BAD_REQUEST, &message)
        })?;
        Ok((agent, folder))
    }

    async fn result(&self, id: &str, request: Request) -> Result<Response, Refusal> {
        let (head, _) = request.into_parts();
        let who = self.identify(&head)?;
        let wait = wait_of(head.uri.query()).map_err(|reason| refused(StatusCode::BAD_REQUEST, &reason))?;
        let key = key(&who, id);
        if let Some(running) = self.runner.registry.running(&key) {
            // Whether it has ended in time is in the record.
            let _ = tokio::time::timeout(wait, running.ended()).await;
        }
        let registry = Arc::clone(&self.runner.registry);
        let record = self.blocking(move || registry.find(&key)).await?;
        let record = record
            .ok_or_else(|| refused(StatusCode::NOT_FOUND, "this token has sent no prompt with this id"))?;
        let questions = match (&record.session, record.status) {
            (Some(session), Status::Running) => {
                let (_, sessions) = self.runner.hub.sessions(&who).await.ok_or_else(ended)?;
                sessions.iter().find(|known| *known.id == **session).map_or(0, |known| known.questions)
            }
            _ => 0,
        };
        Ok(response(StatusCode::OK, &record.result(&self.runner.address, questions)))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let reason = match spawn_blocking(work).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.runner.logger.say(&format!("cannot read or keep a prompt: {reason}"));
        Err(refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the hub cannot read or keep prompts now; see its log",
        ))
    }
}

/// Returns the routes of the service.
pub(in super::super) fn routes(service: PromptService) -> Router {
    let service = Arc::new(service);
    let starting = Arc::clone(&service);
    Router::new()
        .route("/prompt", post(move |request: Request| async move { answer(starting.start(request).await) }))
        .route(
            "/prompt/{id}",
            get(move |AxumPath(id): AxumPath<String>, request: Request| async move {
                answer(service.result(&id, request).await)
            }),
        )
}

fn answer(result: Result<Response, Refusal>) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], result.unwrap_or_else(IntoResponse::into_response))
}

fn response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

fn refused(status: StatusCode, message: &str) -> Refusal {
    Refusal::new(status, message)
}

fn ended() -> Refusal {
    refused(StatusCode::SERVICE_UNAVAILABLE, "the hub is ending, or the token was revoked")
}

/// Parses the time that a request for a result waits: `wait=SECONDS`.
fn wait_of(query: Option<&str>) -> Result<Duration, String> {
    let mut wait = Duration::ZERO;
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match (&*name, value.parse::<u64>()) {
            ("wait", Ok(seconds)) if seconds <= MAX_WAIT => wait = Duration::from_secs(seconds),
            ("wait", _) => return Err(format!("\"wait\" must be a number of seconds up to {MAX_WAIT}")),
            _ => return Err("expected no parameter but \"wait\"".to_owned()),
        }
    }
    Ok(wait)
}

/// A request to run a prompt.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    id: String,
    agent: Option<String>,
    folder: Option<String>,
    text: String,
    session: Option<String>,
    webhook: Option<String>,
}

impl Wish {
    fn parse(body: &[u8]) -> Result<Self, String> {
        let body: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| format!("the body must be a JSON object: {error}"))?;
        if let Some(unknown) = body.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("unknown key {unknown:?}; expected {}", KEYS.join(", ")));
        }
        let text = |key: &str| match body.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key:?} must be a string")),
        };
        let id =
            text("id")?.ok_or("\"id\" is required: a name of your own for this prompt, which runs once")?;
        let is_id = (1..=MAX_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
            && !matches!(&*id, "." | "..");
        if !is_id {
            return Err(format!("\"id\" must have 1 to {MAX_ID} letters, digits and - _ . :"));
        }
        let prompt = text("text")?.filter(|text| !text.trim().is_empty());
        let wish = Wish {
            id,
            agent: text("agent")?,
            folder: text("folder")?,
            text: prompt.ok_or("\"text\" is required: the prompt")?,
            session: text("session")?,
            webhook: text("webhook")?,
        };
        if wish.session.is_some() && (wish.agent.is_some() || wish.folder.is_some()) {
            return Err(
                "\"session\" has its agent and folder already; leave \"agent\" and \"folder\" out".to_owned()
            );
        }
        Ok(wish)
    }

    /// Returns a digest of everything that the prompt is about.
    fn digest(&self) -> String {
        let Wish { id: _, agent, folder, text, session, webhook } = self;
        let parts = json!([agent, folder, text, session, webhook]);
        Sha256::digest(parts.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked() {
        let parse = |value: Value| Wish::parse(value.to_string().as_bytes());
        let wish =
            parse(json!({"id": "nightly-1", "agent": "claude", "folder": "/w", "text": "Hi"})).unwrap();
        assert_eq!((&*wish.id, wish.agent.as_deref(), &*wish.text), ("nightly-1", Some("claude"), "Hi"));
        assert!(parse(json!({"id": "a", "session": "s", "text": "Hi"})).is_ok());
        let long = "x".repeat(MAX_ID + 1);
        for (wrong, words) in [
            (json!([]), "JSON object"),
            (json!({"text": "Hi", "folder": "/w"}), "\"id\" is required"),
            (json!({"id": "", "text": "Hi"}), "1 to 128"),
            (json!({"id": long, "text": "Hi"}), "1 to 128"),
            (json!({"id": "..", "text": "Hi"}), "1 to 128"),
            (json!({"id": "a/b", "text": "Hi"}), "1 to 128"),
            (json!({"id": 7, "text": "Hi"}), "\"id\" must be a string"),
            (json!({"id": "a", "text": " \n"}), "\"text\" is required"),
            (json!({"id": "a", "text": ["Hi"]}), "\"text\" must be a string"),
            (json!({"id": "a", "text": "Hi", "cwd": "/w"}), "unknown key \"cwd\""),
            (json!({"id": "a", "text": "Hi", "session": "s", "folder": "/w"}), "leave \"agent\""),
        ] {
            let reason = parse(wrong.clone()).unwrap_err();
            assert!(reason.contains(words), "{wrong}: {reason}");
        }
        assert!(Wish::parse(b"{\"id\": \"a\"").is_err());
    }

    #[test]
    fn the_digest_has_everything_but_the_id() {
        let of = |value: Value| Wish::parse(value.to_string().as_bytes()).unwrap().digest();
        let digest = of(json!({"id": "a", "agent": "x", "folder": "/w", "text": "Hi"}));
        assert_eq!(digest, of(json!({"id": "b", "folder": "/w", "text": "Hi", "agent": "x"})));
        for other in [
            json!({"id": "a", "agent": "y", "folder": "/w", "text": "Hi"}),
            json!({"id": "a", "agent": "x", "folder": "/v", "text": "Hi"}),
            json!({"id": "a", "agent": "x", "folder": "/w", "text": "Ho"}),
            json!({"id": "a", "agent": "x", "folder": "/w", "text": "Hi", "webhook": "h"}),
            json!({"id": "a", "session": "x", "text": "Hi"}),
        ] {
            assert_ne!(of(other), digest);
        }
    }

    #[test]
    fn a_request_for_a_result_waits_for_at_most_a_minute() {
        assert_eq!(wait_of(None), Ok(Duration::ZERO));
        assert_eq!(wait_of(Some("wait=60")), Ok(Duration::from_secs(60)));
        for wrong in ["wait=61", "wait=-1", "wait=soon", "token=sb_x"] {
            assert!(wait_of(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
