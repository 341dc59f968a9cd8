//! Pages of other servers: listed origins, CORS, and the route that gives out tickets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use switchboard_hub::Identity;
use switchboard_store::Role;
use switchboard_transport::server::{Refusal, Service as _};

use super::gate::Gate;
use super::tickets::VALIDITY;

/// Maximum size of a request for a ticket in bytes.
const MAX_BODY: usize = 4096;
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, acp-connection-id, acp-session-id, last-event-id");
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static("acp-connection-id, acp-session-id");

/// Adds CORS for the listed origins to routes. Requests of other origins are refused by the routes themselves.
pub(super) fn with_cors(router: Router, gate: &Arc<Gate>) -> Router {
    router.layer(from_fn_with_state(Arc::clone(gate), cors))
}

async fn cors(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let listed = origin.clone().filter(|origin| gate.is_listed(origin.as_bytes()));
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    // A preflight has no credentials, so it is answered before they are checked.
    let mut response = match &listed {
        Some(_) if is_preflight => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    // An address may contain a ticket or a token.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if gate.has_listed() {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(origin) = listed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        if is_preflight {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        }
    }
    response
}

/// Returns the route that gives out tickets. `address` is the public origin of the hub.
pub(super) fn ticket_route(gate: &Arc<Gate>, address: &str) -> Router {
    let (gate, address) = (Arc::clone(gate), address.to_owned());
    Router::new().route(
        "/ticket",
        post(move |request: Request| async move {
            let response = match ticket(&gate, &address, request).await {
                Ok(ticket) => {
                    ([(header::CONTENT_TYPE, "application/json")], ticket.to_string()).into_response()
                }
                Err(refusal) => refusal.into_response(),
            };
            ([(header::CACHE_CONTROL, "no-store")], response)
        }),
    )
}

async fn ticket(gate: &Gate, address: &str, request: Request) -> Result<Value, Refusal> {
    let bad = |message: &str| Refusal::new(StatusCode::BAD_REQUEST, message);
    let (head, body) = request.into_parts();
    let from = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(from)| *from);
    let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let who = gate.identify(&head, from)?;
    let body = to_bytes(body, MAX_BODY).await.map_err(|_| bad("the body is too long or incomplete"))?;
    let body: Value = serde_json::from_slice(&body).map_err(|_| bad("the body must be JSON"))?;
    let text = |key: &str| body[key].as_str();
    let agent = text("agent").ok_or_else(|| bad("\"agent\" is required: the name of an agent"))?;
    if !gate.has_agent(Some(agent)) {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("no agent {agent:?} on this server")));
    }
    let origin =
        text("origin").ok_or_else(|| bad("\"origin\" is required, such as http://localhost:2718"))?;
    if !gate.is_listed(origin.as_bytes()) {
        let message = "this origin is not listed: see hub.origins in config.json, and serve --origin";
        return Err(Refusal::new(StatusCode::FORBIDDEN, message));
    }
    let role = match body.get("role") {
        None => who.role,
        Some(role) => {
            let role = role.as_str().and_then(Role::parse);
            role.ok_or_else(|| bad("\"role\": expected view, answer, use or admin"))?
        }
    };
    let who = Identity { role: role.min(who.role), ..who };
    let unavailable = |message: &str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message);
    let ticket = gate
        .tickets()
        .create(who, agent, origin, Instant::now())
        .map_err(|_| unavailable("the system has no random numbers"))?
        .ok_or_else(|| unavailable("too many tickets are open; try again in a minute"))?;
    let socket = address.replacen("http", "ws", 1);
    let url = format!("{socket}/acp/{agent}?ticket={ticket}");
    Ok(json!({"ticket": ticket, "url": url, "expires_in": VALIDITY.as_secs()}))
}

/// Credentials that are not in the `Authorization` header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocketCredential {
    /// A token as a subprotocol, and whether another subprotocol was offered.
    Subprotocol { token: String, has_other: bool },
    /// A ticket in the address.
    Ticket(String),
    /// A token in the address.
    Token(String),
}

impl SocketCredential {
    /// Returns the credential of a WebSocket request.
    pub(super) fn of(headers: &HeaderMap, query: Option<&str>) -> Option<Self> {
        let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let offered: Vec<&str> =
            offered.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).collect();
        let prefix = switchboard_transport::server::BEARER_PROTOCOL;
        let mut tokens = offered.iter().filter_map(|protocol| protocol.trim().strip_prefix(prefix));
        if let (Some(token), None) = (tokens.next(), tokens.next()) {
            let has_other = offered.len() > 1;
            return Some(SocketCredential::Subprotocol { token: token.to_owned(), has_other });
        }
        let find = |key: &str| {
            let mut values = url::form_urlencoded::parse(query?.as_bytes()).filter(|(name, _)| name == key);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Some(value.into_owned()),
                _ => None,
            }
        };
        find("ticket").map(SocketCredential::Ticket).or_else(|| find("token").map(SocketCredential::Token))
    }
}

/// Parses an origin: scheme, host and port, without anything else.
pub(crate) fn parse_origin(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "{text:?} is not an origin; expected a scheme, a host and a port, such as http://localhost:2718"
        )
    };
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    let origin = url.origin().ascii_serialization();
    let is_exact = text.trim_end_matches('/') == origin;
    if matches!(url.scheme(), "http" | "https") && is_exact { Ok(origin) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_exact() {
        for origin in ["http://localhost:2718", "https://notebooks.example.com", "http://[::1]:80a"] {
            assert_eq!(parse_origin(origin).is_ok(), !origin.ends_with('a'), "{origin}");
        }
        assert_eq!(parse_origin("https://x.test/").unwrap(), "https://x.test");
        for wrong in [
            "null",
            "*",
            "https://*.example.com/x",
            "localhost:2718",
            "http://localhost:2718/path",
            "file:///x",
            "https://user@x.test",
            "HTTPS://X.TEST",
            "https://x.test:443",
            "",
            "https://x.test?y",
        ] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_found_once_or_not_at_all() {
        let of = |protocols: &[&str], query: Option<&str>| {
            let mut headers = HeaderMap::new();
            for protocol in protocols {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
            }
            SocketCredential::of(&headers, query)
        };
        let token = |has_other| Some(SocketCredential::Subprotocol { token: "sb_x".to_owned(), has_other });
        assert_eq!(of(&["acp, bearer.sb_x"], None), token(true));
        assert_eq!(of(&["acp", "bearer.sb_x"], Some("ticket=t")), token(true));
        assert_eq!(of(&["bearer.sb_x"], None), token(false));
        assert_eq!(of(&["bearer.a, bearer.b"], None), None);
        assert_eq!(of(&["acp"], Some("a=b&ticket=t%2Bx")), Some(SocketCredential::Ticket("t+x".to_owned())));
        assert_eq!(of(&[], Some("token=sb_x")), Some(SocketCredential::Token("sb_x".to_owned())));
        assert_eq!(of(&[], Some("token=a&token=b")), None);
        assert_eq!(of(&[], Some("Token=a")), None);
    }
}
