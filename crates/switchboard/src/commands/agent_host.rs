//! The Agent Host Protocol on the server of a hub, for VS Code.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use switchboard_ahp::{AhpHosts, AhpOptions, MemoryPlace, PATH, ResolveFolder};
use switchboard_hub::{Hub, Identity, bearer_token};
use switchboard_store::Store;
use switchboard_transport::server::Refusal;

/// Name of the state in the store.
const STATE: &str = "agent host";
/// Parameter of the address in which VS Code sends its token.
const PARAMETER: &str = "tkn";

/// The store as the place of the state.
struct StoredState(Store);

impl MemoryPlace for StoredState {
    fn load(&self) -> Option<String> {
        self.0.kept(STATE).ok().flatten()
    }

    fn save(&self, text: &str) {
        // The store reports its own problems. Without the state, clients lose their place in sessions at a restart.
        let _ = self.0.keep(STATE, Some(text));
    }
}

/// Identifies a client by its token, or says how it is refused.
pub(crate) type IdentifyClient = Arc<dyn Fn(&Parts, SocketAddr) -> Result<Identity, Refusal> + Send + Sync>;

/// Starts the hosts of a hub. `folder` is that of new sessions for which the client gives none.
pub(crate) fn start(hub: &Hub, store: &Store, folder: &str, resolve: ResolveFolder) -> AhpHosts {
    AhpHosts::new(AhpOptions {
        hub: hub.clone(),
        folder: folder.to_owned(),
        resolve,
        memory: Some(Arc::new(StoredState(store.clone()))),
    })
}

/// Adds the protocol to a router: at its own path, and for WebSockets at `/`, the only path that code-server knows.
pub(crate) fn with_route(router: Router, hosts: &AhpHosts, identify: IdentifyClient) -> Router {
    let hosts = hosts.clone();
    // A layer would not see requests for which there is no route.
    let router = router.route(PATH, axum::routing::any(async || StatusCode::NOT_FOUND));
    router.layer(from_fn(move |request: Request, next: Next| {
        let (hosts, identify) = (hosts.clone(), Arc::clone(&identify));
        async move {
            let is_socket = is_socket(request.headers());
            match request.uri().path() {
                PATH if !is_socket => {
                    let message = "This is the address of an agent host: connect with a WebSocket.\n";
                    let upgrade = [(header::UPGRADE, HeaderValue::from_static("websocket"))];
                    (StatusCode::UPGRADE_REQUIRED, upgrade, message).into_response()
                }
                PATH => serve(&hosts, &identify, request).await,
                "/" if is_socket => serve(&hosts, &identify, request).await,
                _ => next.run(request).await,
            }
        }
    }))
}

fn is_socket(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

async fn serve(hosts: &AhpHosts, identify: &IdentifyClient, request: Request) -> Response {
    let (mut head, _) = request.into_parts();
    let from = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(from)| *from);
    let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    // The check may read from the store, which blocks.
    let identity = match tokio::task::block_in_place(|| identify(&head, from)) {
        Ok(identity) => identity,
        Err(refusal) => return refusal.into_response(),
    };
    match WebSocketUpgrade::from_request_parts(&mut head, &()).await {
        Ok(upgrade) => hosts.serve(upgrade, &identity),
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns the token of a client: in the header, or in the address, where VS Code sends it.
pub(crate) fn token(head: &Parts) -> Option<String> {
    if let Some(token) = bearer_token(&head.headers) {
        return Some(token.to_owned());
    }
    let query = head.uri.query()?;
    let mut values = url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == PARAMETER);
    match (values.next(), values.next()) {
        (Some((_, token)), None) => Some(token.into_owned()),
        _ => None,
    }
}

/// Returns the refusal of a client without a token.
pub(crate) fn no_token() -> Refusal {
    let message = "a token is required: Authorization: Bearer TOKEN, or ?tkn=TOKEN; `switchboard tokens add` creates one";
    Refusal::new(StatusCode::UNAUTHORIZED, message)
}

/// Returns whether the origin of a request is that of an editor's window. Programs that are no browsers have none.
pub(crate) fn is_editor(origin: Option<&[u8]>) -> bool {
    origin.is_none_or(|origin| origin == switchboard_ahp::VS_CODE_ORIGIN.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(uri: &str, header: Option<&str>) -> Parts {
        let mut request = axum::http::Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(header::AUTHORIZATION, header);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_token_is_in_the_header_or_once_in_the_address() {
        for (uri, header, expected) in [
            ("/ahp?tkn=sb_x", None, Some("sb_x")),
            ("/?a=b&tkn=sb%5Fx", None, Some("sb_x")),
            ("/ahp?tkn=sb_x", Some("Bearer sb_y"), Some("sb_y")),
            ("/ahp?tkn=a&tkn=b", None, None),
            ("/ahp?token=a", None, None),
            ("/ahp", None, None),
        ] {
            assert_eq!(token(&head(uri, header)).as_deref(), expected, "{uri}");
        }
    }
}
