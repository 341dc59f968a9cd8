//! Who may talk to the server: only a browser that was given the token of this launch, over loopback, from our own
//! pages.

use std::fmt::Write;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// What a visitor must know.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    port: u16,
}

/// Nothing from elsewhere, no inline script or style, no frames, no forms that go anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Guard {
    pub(crate) fn new(port: u16) -> Result<Self, getrandom::Error> {
        Ok(Guard { token: random_token()?, port })
    }

    /// The link that lets a browser in, at a path.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}?token={}", self.port, self.token)
    }

    /// Cookies do not know ports, so that the name must.
    fn cookie_name(&self) -> String {
        format!("switchboard-{}", self.port)
    }

    fn is_token(&self, offered: &str) -> bool {
        let pairs = self.token.bytes().zip(offered.bytes());
        // In the same time however much of it is right.
        offered.len() == self.token.len() && pairs.fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(known, value)| known == name && self.is_token(value))
    }

    /// A name of this machine that no other site can claim: with another one, somebody has bent a domain to us.
    fn is_our_host(&self, host: &str) -> bool {
        ["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{}", self.port))
    }

    fn is_our_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_our_host(host))
    }

    /// Why a request is refused, if it is.
    fn refuses(&self, request: &Request) -> Option<&'static str> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if !text(header::HOST).is_some_and(|host| self.is_our_host(host)) {
            return Some("This is not the name of this server.");
        }
        let origin = text(header::ORIGIN);
        let is_socket = headers.contains_key(header::UPGRADE);
        if origin.is_some_and(|origin| !self.is_our_origin(origin)) || (is_socket && origin.is_none()) {
            return Some("Requests from other sites are refused.");
        }
        let site = text(HeaderName::from_static("sec-fetch-site"));
        if site.is_some_and(|site| site == "cross-site") && request.method() != Method::GET {
            return Some("Requests from other sites are refused.");
        }
        None
    }
}

/// Lets through what may come in, and puts on every answer what keeps the page to itself.
pub(crate) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = answer(&guard, request, next).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn answer(guard: &Guard, request: Request, next: Next) -> Response {
    if let Some(reason) = guard.refuses(&request) {
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    let offered = request.uri().query().and_then(|query| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == "token")
    });
    match offered {
        Some((_, token)) if guard.is_token(token) && request.method() == Method::GET => {
            let cookie =
                format!("{}={}; HttpOnly; SameSite=Strict; Path=/", guard.cookie_name(), guard.token);
            // The token leaves the address, so that it is not in the history nor on a screenshot.
            let path = request.uri().path();
            let path = if path.starts_with("//") { "/" } else { path };
            (StatusCode::SEE_OTHER, [(header::LOCATION, path), (header::SET_COOKIE, &cookie)]).into_response()
        }
        _ if guard.has_cookie(request.headers()) => next.run(request).await,
        _ => (StatusCode::FORBIDDEN, "Open the link that `switchboard open` printed: it holds the key.\n")
            .into_response(),
    }
}

/// 128 bits that nobody can guess.
fn random_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
