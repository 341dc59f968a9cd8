//! Subscriptions of browsers to Web Push. Each belongs to the token by which its browser is signed in, and is deleted
//! with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use switchboard_hub::{Hub, Identity};
use switchboard_notify::{Endpoint, Notifier, PushKey, Subscription, Target, Viewer};
use switchboard_store::Store;
use tokio::task::spawn_blocking;
use url::Url;

use super::logging::Logger;

/// Names of the values in the store.
const SUBSCRIPTIONS: &str = "push";
const KEY: &str = "push-key";
/// Maximum number of subscriptions of a token, and of all. The oldest ones are replaced.
const MAX_OF_TOKEN: usize = 10;
const MAX_ALL: usize = 200;
/// Maximum size of a request in bytes.
const MAX_BODY: usize = 8192;
/// Interval of the check for revoked tokens.
const CHECK: Duration = Duration::from_secs(1);

/// Push services of browsers. The address of a subscription comes from a browser, so it could name any server that this
/// machine reaches; `hub.push_services` lists further ones.
const SERVICES: [&str; 5] = [
    "fcm.googleapis.com",
    "push.services.mozilla.com",
    "push.apple.com",
    "notify.windows.com",
    "push.samsung.com",
];

/// A subscription in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    /// Token of the browser.
    name: String,
    made: i64,
    sees_all: bool,
    endpoint: String,
    p256dh: String,
    auth: String,
}

impl Stored {
    /// Returns the name of the target.
    fn target_name(&self) -> String {
        let digest = Sha256::digest(&self.endpoint);
        let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("push-{}-{hash}", self.name)
    }

    fn is_of(&self, who: &Identity) -> bool {
        *self.name == *who.name && self.made == who.made
    }
}

/// The subscriptions of a hub.
pub(super) struct PushBook {
    store: Store,
    logger: Logger,
    /// Further push services, as origins.
    services: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    key: Option<Arc<PushKey>>,
    list: Vec<Stored>,
}

impl PushBook {
    /// Reads the subscriptions. Those of a launch token have ended with their launch.
    pub(super) fn open(store: Store, services: Vec<String>, logger: Logger) -> Arc<Self> {
        let list = match store.kept(SUBSCRIPTIONS) {
            Ok(text) => {
                text.and_then(|text| serde_json::from_str::<Vec<Stored>>(&text).ok()).unwrap_or_default()
            }
            Err(error) => {
                logger.say(&format!("cannot read the push subscriptions: {error}"));
                Vec::new()
            }
        };
        let list = list.into_iter().filter(|it| it.made != 0).collect();
        let state = Mutex::new(State { list, key: None });
        Arc::new(PushBook { store, logger, services, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the key of this hub, which is made when it is first needed.
    fn key(&self) -> Result<Arc<PushKey>, String> {
        let mut state = self.state();
        if let Some(key) = &state.key {
            return Ok(Arc::clone(key));
        }
        let words = |error: switchboard_store::StoreError| error.to_string();
        let secret = match self.store.kept(KEY).map_err(words)? {
            Some(secret) => secret,
            None => {
                let secret = PushKey::generate()?;
                self.store.keep(KEY, Some(&secret)).map_err(words)?;
                secret
            }
        };
        let key = Arc::new(PushKey::parse(&secret)?);
        state.key = Some(Arc::clone(&key));
        Ok(key)
    }

    fn save(&self, state: &State) {
        if let Err(error) = self.store.keep(SUBSCRIPTIONS, Some(&json!(state.list).to_string())) {
            self.logger.say(&format!("cannot keep the push subscriptions: {error}"));
        }
    }

    /// Returns the targets of the subscriptions.
    pub(super) fn targets(&self) -> Vec<Target> {
        let list = self.state().list.clone();
        if list.is_empty() {
            return Vec::new();
        }
        let key = match self.key() {
            Ok(key) => key,
            Err(error) => {
                self.logger.say(&format!("browsers are not notified: {error}"));
                return Vec::new();
            }
        };
        list.iter().filter_map(|stored| self.target(stored, Arc::clone(&key)).ok()).collect()
    }

    fn target(&self, stored: &Stored, key: Arc<PushKey>) -> Result<Target, String> {
        let subscription = Subscription::new(&stored.endpoint, &stored.p256dh, &stored.auth, key)
            .map_err(|error| error.to_string())?;
        let service = subscription.service();
        if !is_allowed(&service, &self.services) {
            return Err(format!(
                "{service} is no known push service; list it in hub.push_services to use it"
            ));
        }
        let mut target = Target::new(stored.target_name(), Endpoint::WebPush(Box::new(subscription)));
        target.viewer =
            Some(Viewer { name: stored.name.clone(), made: stored.made, sees_all: stored.sees_all });
        Ok(target)
    }

    /// Adds a subscription, or replaces the one with the same address.
    fn subscribe(
        &self,
        who: &Identity,
        request: &SubscribeRequest,
        notifier: &Notifier,
    ) -> Result<(), String> {
        let stored = Stored {
            name: who.name.to_string(),
            made: who.made,
            sees_all: who.sees_all(),
            endpoint: request.endpoint.clone(),
            p256dh: request.keys.p256dh.clone(),
            auth: request.keys.auth.clone(),
        };
        let target = self.target(&stored, self.key()?)?;
        let mut state = self.state();
        let mut removed = Vec::new();
        state.list.retain(|it| {
            let is_same = it.endpoint == stored.endpoint;
            if is_same && it.target_name() != stored.target_name() {
                removed.push(it.target_name());
            }
            !is_same
        });
        if state.list.iter().filter(|it| it.is_of(who)).count() >= MAX_OF_TOKEN
            && let Some(oldest) = state.list.iter().position(|it| it.is_of(who))
        {
            removed.push(state.list.remove(oldest).target_name());
        }
        if state.list.len() >= MAX_ALL {
            return Err("too many browsers are subscribed to this hub".to_owned());
        }
        state.list.push(stored);
        self.save(&state);
        drop(state);
        for name in removed {
            notifier.remove_target(&name);
        }
        notifier.add_target(target);
        Ok(())
    }

    /// Removes subscriptions.
    fn remove(&self, notifier: Option<&Notifier>, is_meant: impl Fn(&Stored) -> bool) {
        let mut state = self.state();
        let (gone, list): (Vec<_>, Vec<_>) = std::mem::take(&mut state.list).into_iter().partition(is_meant);
        state.list = list;
        if gone.is_empty() {
            return;
        }
        self.save(&state);
        drop(state);
        if let Some(notifier) = notifier {
            gone.iter().for_each(|it| notifier.remove_target(&it.target_name()));
        }
    }

    /// Removes a subscription that its push service no longer knows.
    pub(super) fn gone(&self, target: &str) {
        self.remove(None, |it| it.target_name() == target);
    }

    /// Removes the subscriptions of tokens that were revoked or have expired, for as long as the hub runs.
    pub(super) async fn follow_tokens(self: Arc<Self>, notifier: Notifier, hub: Hub) {
        let mut seen = None;
        loop {
            tokio::time::sleep(CHECK).await;
            let state = self.store.access_changed().ok();
            if state.is_some() && state == seen {
                continue;
            }
            seen = state;
            let holders: Vec<Identity> = {
                let state = self.state();
                let identity = |it: &Stored| Identity {
                    name: it.name.as_str().into(),
                    role: switchboard_store::Role::Admin,
                    all: it.sees_all,
                    made: it.made,
                };
                state.list.iter().map(identity).collect()
            };
            for who in holders {
                if hub.sessions(&who).await.is_none() {
                    let (book, notifier) = (Arc::clone(&self), notifier.clone());
                    // A hub that has ended answers nothing; the store then keeps its subscriptions.
                    if hub.counts().await.is_some() {
                        let removing =
                            spawn_blocking(move || book.remove(Some(&notifier), |it| it.is_of(&who)));
                        let _ = removing.await;
                    }
                }
            }
        }
    }
}

/// Returns whether messages may be sent to a push service.
fn is_allowed(service: &str, others: &[String]) -> bool {
    if others.iter().any(|other| other == service) {
        return true;
    }
    let Some(host) = service.strip_prefix("https://") else { return false };
    let is_below =
        |known: &&str| host.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    SERVICES.iter().any(is_below)
}

/// Parses a further push service: an origin with https, or one of this machine.
pub(crate) fn parse_service(text: &str) -> Result<String, String> {
    let origin = super::parse_origin(text)?;
    let url = Url::parse(&origin).map_err(|error| error.to_string())?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "https" || is_here {
        Ok(origin)
    } else {
        Err(format!("{text:?} must begin with https://"))
    }
}

/// A subscription as browsers report it.
#[derive(Deserialize)]
struct SubscribeRequest {
    endpoint: String,
    keys: SubscribeKeys,
}

#[derive(Deserialize)]
struct SubscribeKeys {
    p256dh: String,
    auth: String,
}

#[derive(Deserialize)]
struct UnsubscribeRequest {
    endpoint: String,
}

/// Returns the route by which browsers subscribe.
pub(super) fn route(book: &Arc<PushBook>, notifier: &Notifier, hub: &Hub) -> Router {
    let reading = Arc::clone(book);
    let key = move |Extension(_): Extension<Identity>| async move {
        match spawn_blocking(move || reading.key()).await {
            Ok(Ok(key)) => {
                let body = json!({"key": key.public()}).to_string();
                ([(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let (book, notifier, hub) = (Arc::clone(book), notifier.clone(), hub.clone());
    let (other_book, other_notifier) = (Arc::clone(&book), notifier.clone());
    let subscribe = move |Extension(who): Extension<Identity>, request: Request| async move {
        // The current rights: the token may have been revoked since the browser signed in.
        let Some((who, _)) = hub.sessions(&who).await else { return StatusCode::FORBIDDEN.into_response() };
        let Some(request) = read::<SubscribeRequest>(request).await else { return bad_request() };
        let subscribed = spawn_blocking(move || book.subscribe(&who, &request, &notifier)).await;
        match subscribed {
            Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
            Ok(Err(reason)) => (StatusCode::BAD_REQUEST, reason).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let unsubscribe = move |Extension(who): Extension<Identity>, request: Request| async move {
        let Some(UnsubscribeRequest { endpoint }) = read(request).await else { return bad_request() };
        let is_meant = move |it: &Stored| it.is_of(&who) && it.endpoint == endpoint;
        let removed = spawn_blocking(move || other_book.remove(Some(&other_notifier), is_meant)).await;
        let status = if removed.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::INTERNAL_SERVER_ERROR };
        status.into_response()
    };
    Router::new().route("/in/push", get(key).post(subscribe).delete(unsubscribe))
}

async fn read<T: serde::de::DeserializeOwned>(request: Request) -> Option<T> {
    let body = to_bytes(request.into_body(), MAX_BODY).await.ok()?;
    serde_json::from_slice(&body).ok()
}

fn bad_request() -> Response {
    (StatusCode::BAD_REQUEST, "expected a push subscription").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_push_services_are_contacted() {
        for known in [
            "https://fcm.googleapis.com",
            "https://updates.push.services.mozilla.com",
            "https://web.push.apple.com",
            "https://wns2-par02p.notify.windows.com",
        ] {
            assert!(is_allowed(known, &[]), "{known}");
        }
        for other in [
            "http://fcm.googleapis.com",
            "https://fcm.googleapis.com:8443",
            "https://evilfcm.googleapis.com.example.org",
            "https://xfcm.googleapis.com",
            "https://169.254.169.254",
            "https://localhost",
            "http://127.0.0.1:4173",
            "https://push.example.org",
        ] {
            assert!(!is_allowed(other, &[]), "{other}");
            assert!(is_allowed(other, &[other.to_owned()]), "{other}");
        }
        assert_eq!(parse_service("http://127.0.0.1:9").as_deref(), Ok("http://127.0.0.1:9"));
        assert_eq!(parse_service("https://push.example.org").as_deref(), Ok("https://push.example.org"));
        for wrong in ["http://push.example.org", "push.example.org", "https://push.example.org/path", "*"] {
            assert!(parse_service(wrong).is_err(), "{wrong}");
        }
    }
}
