//! Authentication and origin check of the page: requests must come from pages of this server, in a browser that
//! signed in by a link or a token.
//!
//! A link contains a code that works once and for a minute, so it is worthless in a process list or a browser
//! history. The page exchanges the code for a key with two halves. One half is an `HttpOnly` cookie. Cookies ignore
//! ports, so browsers may send it to any other server on this machine. Therefore it is only valid together with the
//! other half, which the page stores for its own origin and sends explicitly with each request. This also prevents
//! CSRF.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use switchboard_hub::Identity;

use super::short_codes::ShortCodes;

/// Lifetime of a link.
const LINK_LIFETIME: Duration = Duration::from_secs(60);

/// Maximum number of links kept per user, including used and expired ones for error messages. The oldest are dropped.
const MAX_CODES: usize = 64;

/// Maximum number of signed-in browsers per user. The oldest are dropped.
const MAX_KEYS: usize = 64;

/// Path that exchanges a code for a key.
pub(crate) const ENTER: &str = "/in/enter";
/// Path that exchanges a token for a key.
pub(crate) const TOKEN: &str = "/in/token";
/// Path that succeeds for requests with a valid key.
pub(crate) const KNOWN: &str = "/in/known";
/// Path of the tabs' WebSocket.
pub(crate) const SOCKET: &str = "/in/socket";

/// Path of the service worker. Its scope is everything below its folder.
pub(crate) const SERVICE_WORKER: &str = "/sw.js";

/// WebSocket subprotocol of the tabs. The browser also offers its half of the key as a subprotocol.
pub(crate) const PROTOCOL: &str = "switchboard";
const PROTOCOL_KEY: &str = "key-";

const CODE_HEADER: HeaderName = HeaderName::from_static("x-switchboard-code");
const KEY_HEADER: HeaderName = HeaderName::from_static("x-switchboard-key");

/// Authentication state. Clones share it.
#[derive(Clone)]
pub(crate) struct Guard {
    /// Port of the server. It is part of the cookie's name, to distinguish servers on one host.
    port: u16,
    /// Origins of the server, such as `http://127.0.0.1:4173`. Links use the first one.
    origins: Arc<[String]>,
    /// `true` if TLS certificates prove the host names, which rules out DNS rebinding.
    has_certificate: bool,
    credentials: Arc<Mutex<Credentials>>,
}

#[derive(Default)]
struct Credentials {
    codes: Vec<Code>,
    keys: Vec<Key>,
    short: ShortCodes,
}

/// A one-time code in a link.
struct Code {
    text: String,
    /// User whom the code signs in.
    who: Identity,
    since: Instant,
    is_used: bool,
}

/// Credential of a signed-in browser.
pub(crate) struct Key {
    cookie: String,
    page: String,
    who: Identity,
}

/// User to whom the key of a request belongs.
#[derive(Debug, Clone)]
pub(crate) struct SignedIn(pub(crate) Identity);

/// Reason why a code is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvalidCode {
    Used,
    Expired,
    Unknown,
}

impl InvalidCode {
    fn reason(self) -> &'static str {
        match self {
            InvalidCode::Used => {
                "This link has been used already. If you did not use it, another browser is signed in: stop Switchboard."
            }
            InvalidCode::Expired => "This link has expired: each one works for a minute. Create a new one.",
            InvalidCode::Unknown => "This link is not one of this launch of Switchboard.",
        }
    }
}

/// Content security policy: only resources of this origin, no inline scripts or styles, no frames, no form targets.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src data:; connect-src 'self'; manifest-src 'self'; \
    worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The same words for every reason, so that a guess learns nothing.
const WRONG_SHORT_CODE: &str =
    "This code is not valid. Each one works once and for two minutes, and five wrong codes end all of them.";

const CROSS_ORIGIN: &str = "Cross-origin requests are rejected.\n";

impl Guard {
    /// Creates the state for a server on loopback.
    pub(crate) fn new(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost"];
        Guard::of_hub(port, names.map(|name| format!("http://{name}:{port}")).to_vec(), false)
    }

    /// Creates the state for a hub with these origins. With a certificate, it accepts every host name, because TLS
    /// proves it.
    pub(crate) fn of_hub(port: u16, origins: Vec<String>, has_certificate: bool) -> Self {
        Guard { port, origins: origins.into(), has_certificate, credentials: Arc::default() }
    }

    /// Invalidates all links and keys of a user.
    pub(crate) fn forget(&self, who: &Identity) {
        let is_other = |held: &Identity| (&held.name, held.made) != (&who.name, who.made);
        let mut credentials = self.credentials();
        credentials.codes.retain(|code| is_other(&code.who));
        credentials.keys.retain(|key| is_other(&key.who));
        credentials.short.forget(is_other);
    }

    fn credentials(&self) -> MutexGuard<'_, Credentials> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a link to a path, which signs in one browser.
    pub(crate) fn link(&self, path: &str, who: Identity) -> Result<String, getrandom::Error> {
        let code = random_hex()?;
        // Browsers do not send the fragment. The page reads the code from it, exchanges it and removes it from the
        // address.
        let origin = self.origins.first().map_or("", String::as_str);
        let link = format!("{origin}{path}#code={code}");
        let codes = &mut self.credentials().codes;
        evict_oldest(codes, MAX_CODES, |code| code.who == who);
        codes.push(Code { text: code, who, since: Instant::now(), is_used: false });
        Ok(link)
    }

    /// Creates a code to type into another device, which signs in one browser.
    pub(crate) fn short_code(&self, who: Identity) -> Result<String, getrandom::Error> {
        let code = self.credentials().short.create(who, Instant::now())?;
        let (first, second) = code.split_at(code.len() / 2);
        Ok(format!("{first}-{second}"))
    }

    /// Redeems a code for a new key.
    fn redeem(&self, offered: &str, now: Instant) -> Result<Key, InvalidCode> {
        let mut credentials = self.credentials();
        let code = credentials.codes.iter_mut().find(|code| constant_time_eq(&code.text, offered));
        let code = code.ok_or(InvalidCode::Unknown)?;
        if std::mem::replace(&mut code.is_used, true) {
            return Err(InvalidCode::Used);
        }
        if now.saturating_duration_since(code.since) > LINK_LIFETIME {
            return Err(InvalidCode::Expired);
        }
        let who = code.who.clone();
        drop(credentials);
        self.create_key(who).map_err(|_| InvalidCode::Unknown)
    }

    /// Creates a key for a user.
    fn create_key(&self, who: Identity) -> Result<Key, getrandom::Error> {
        let (cookie, page) = (random_hex()?, random_hex()?);
        let mut credentials = self.credentials();
        evict_oldest(&mut credentials.keys, MAX_KEYS, |key| key.who == who);
        credentials.keys.push(Key { cookie: cookie.clone(), page: page.clone(), who: who.clone() });
        Ok(Key { cookie, page, who })
    }

    /// Returns the response that signs a browser in after a token was checked.
    pub(crate) fn sign_in(&self, who: Identity, headers: &HeaderMap) -> Response {
        match self.create_key(who) {
            Ok(key) => self.key_response(&key, headers),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }

    /// Returns a response with both halves of a key.
    fn key_response(&self, Key { cookie, page, who: _ }: &Key, headers: &HeaderMap) -> Response {
        let is_encrypted = headers.get(header::ORIGIN).is_some_and(|it| it.as_bytes().starts_with(b"https:"));
        let secure = if is_encrypted { "; Secure" } else { "" };
        let cookie = format!("{}={cookie}; HttpOnly; SameSite=Strict; Path=/in{secure}", self.cookie_name());
        ([(header::SET_COOKIE, cookie)], page.clone()).into_response()
    }

    /// Returns the name of the cookie. It contains the port, because cookies ignore ports.
    fn cookie_name(&self) -> String {
        format!("switchboard-{}", self.port)
    }

    /// Returns the user whose key has both halves in a request.
    fn signed_in(&self, headers: &HeaderMap) -> Option<SignedIn> {
        let texts = |name: HeaderName, separator: char| -> Vec<String> {
            let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(separator)).map(|part| part.trim().to_owned()).collect()
        };
        let name = self.cookie_name();
        let cookies = texts(header::COOKIE, ';');
        let cookies: Vec<&str> = cookies
            .iter()
            .filter_map(|cookie| cookie.split_once('='))
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value)
            .collect();
        let mut pages = texts(KEY_HEADER, ',');
        let protocols = texts(header::SEC_WEBSOCKET_PROTOCOL, ',');
        pages.extend(protocols.iter().filter_map(|it| it.strip_prefix(PROTOCOL_KEY)).map(str::to_owned));
        let has = |key: &Key| {
            let has_cookie = cookies.iter().any(|cookie| constant_time_eq(&key.cookie, cookie));
            has_cookie & pages.iter().any(|page| constant_time_eq(&key.page, page))
        };
        self.credentials().keys.iter().find(|key| has(key)).map(|key| SignedIn(key.who.clone()))
    }

    /// Returns `true` if `host` is a name of this server. Any other name may be DNS rebinding.
    fn is_our_host(&self, host: &str) -> bool {
        let name = |origin: &String| origin.split_once("://").is_some_and(|(_, name)| name == host);
        self.origins.iter().any(name)
    }

    fn is_our_origin(&self, origin: &str, host: &str) -> bool {
        let is_known = self.origins.iter().any(|known| known == origin);
        is_known || (self.has_certificate && origin.strip_prefix("https://") == Some(host))
    }

    /// Checks host, origin and key of a request. Returns the user if the path needs a key, or the reason for a
    /// rejection.
    fn authorize(&self, request: &Request) -> Result<Option<SignedIn>, &'static str> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        // HTTP/2 has the host in the URI's authority.
        let host = request.uri().authority().map(Authority::as_str);
        let host = host.or(text(header::HOST)).unwrap_or_default();
        if !self.has_certificate && !self.is_our_host(host) {
            return Err("This host name does not belong to this server.\n");
        }
        let origin = text(header::ORIGIN);
        if origin.is_some_and(|origin| !self.is_our_origin(origin, host)) {
            return Err(CROSS_ORIGIN);
        }
        if is_public(request.uri().path(), request.method()) {
            return Ok(None);
        }
        // Browsers send an origin with every request that is not a GET, and with every WebSocket handshake.
        let needs_origin = request.method() != Method::GET || headers.contains_key(header::UPGRADE);
        let site = text(HeaderName::from_static("sec-fetch-site"));
        if (needs_origin && origin.is_none()) || site.is_some_and(|site| site != "same-origin") {
            return Err(CROSS_ORIGIN);
        }
        // Requests with a code or a token have no key yet.
        if matches!(request.uri().path(), ENTER | TOKEN) {
            return Ok(None);
        }
        self.signed_in(headers).map(Some).ok_or("This browser is not signed in.\n")
    }

    /// Returns the response to a request that offers a code.
    pub(crate) fn sign_in_by_code(&self, headers: &HeaderMap) -> Response {
        let offered = headers.get(CODE_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if let Some(code) = ShortCodes::parse(offered) {
            let who = self.credentials().short.redeem(&code, Instant::now(), constant_time_eq);
            return match who {
                Some(who) => self.sign_in(who, headers),
                None => (StatusCode::FORBIDDEN, WRONG_SHORT_CODE).into_response(),
            };
        }
        match self.redeem(offered, Instant::now()) {
            Ok(key) => self.key_response(&key, headers),
            Err(invalid) => (StatusCode::FORBIDDEN, invalid.reason()).into_response(),
        }
    }
}

/// Returns `true` for the page and its assets, which are the same for all users and contain no session data.
fn is_public(path: &str, method: &Method) -> bool {
    (method == Method::GET || method == Method::HEAD)
        && (path == "/"
            || path.starts_with("/r/")
            || path.starts_with("/assets/")
            || path == SERVICE_WORKER
            || (cfg!(debug_assertions) && path == "/design"))
}

/// Rejects unauthorized requests, and adds the security headers to every response.
pub(crate) async fn check(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let mut response = match guard.authorize(&request) {
        Err(reason) => (StatusCode::FORBIDDEN, reason).into_response(),
        Ok(signed_in) => {
            if let Some(signed_in) = signed_in {
                request.extensions_mut().insert(signed_in.0.clone());
                request.extensions_mut().insert(signed_in);
            }
            next.run(request).await
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Compares two texts in constant time for texts of equal length.
fn constant_time_eq(known: &str, offered: &str) -> bool {
    let pairs = known.bytes().zip(offered.bytes());
    offered.len() == known.len() && pairs.fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

/// Removes the oldest item of a user if the user is at the limit. Items of other users are unaffected.
fn evict_oldest<T>(list: &mut Vec<T>, most: usize, is_same_user: impl Fn(&T) -> bool) {
    if list.iter().filter(|it| is_same_user(it)).count() >= most
        && let Some(oldest) = list.iter().position(is_same_user)
    {
        list.remove(oldest);
    }
}

/// Returns 128 random bits as hexadecimal digits.
fn random_hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(guard: &Guard) -> String {
        guard.link("/", crate::local_user()).unwrap().split_once("#code=").unwrap().1.to_owned()
    }

    fn headers(cookie: &str, page: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, format!("a=b; switchboard-1={cookie}").parse().unwrap());
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, format!("switchboard, key-{page}").parse().unwrap());
        headers
    }

    #[test]
    fn a_code_works_once_and_for_a_minute() {
        let guard = Guard::new(1);
        let now = Instant::now();
        let enter = |code: &str, after: u64| guard.redeem(code, now + Duration::from_secs(after)).map(drop);
        let (first, second) = (code(&guard), code(&guard));
        assert_eq!(enter("", 0), Err(InvalidCode::Unknown));
        assert_eq!(enter(&first, 1), Ok(()));
        assert_eq!(enter(&first, 2), Err(InvalidCode::Used));
        assert_eq!(enter(&second, 62), Err(InvalidCode::Expired));
        // An expired code stays invalid, even if the clock moves back.
        assert_eq!(enter(&second, 1), Err(InvalidCode::Used));
    }

    #[test]
    fn a_typed_code_signs_one_browser_in() {
        let guard = Guard::new(1);
        let code = guard.short_code(crate::local_user()).unwrap();
        assert_eq!((code.len(), code.find('-')), (9, Some(4)));
        let enter = |code: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CODE_HEADER, code.parse().unwrap());
            guard.sign_in_by_code(&headers).status()
        };
        assert_eq!(enter("2222-2222"), StatusCode::FORBIDDEN);
        assert_eq!(enter(&code.to_lowercase().replace('-', " ")), StatusCode::OK);
        assert_eq!(enter(&code), StatusCode::FORBIDDEN);
        let code = guard.short_code(crate::local_user()).unwrap();
        guard.forget(&crate::local_user());
        assert_eq!(enter(&code), StatusCode::FORBIDDEN);
    }

    #[test]
    fn only_both_halves_of_one_key_open() {
        let guard = Guard::new(1);
        let key = || guard.redeem(&code(&guard), Instant::now()).map_err(InvalidCode::reason).unwrap();
        let (mine, other) = (key(), key());
        assert!(guard.signed_in(&headers(&mine.cookie, &mine.page)).is_some());
        assert!(guard.signed_in(&headers(&other.cookie, &other.page)).is_some());
        for (cookie, page) in [
            (&mine.cookie, &other.page),
            (&mine.cookie, &mine.cookie),
            (&mine.page, &mine.cookie),
            (&mine.page, &mine.page),
            (&mine.cookie, &String::new()),
            (&String::new(), &mine.page),
            (&String::new(), &String::new()),
        ] {
            assert!(guard.signed_in(&headers(cookie, page)).is_none(), "{cookie} {page}");
        }
    }

    #[test]
    fn links_and_keys_are_limited() {
        let guard = Guard::new(1);
        let first = code(&guard);
        for _ in 0..MAX_CODES {
            let code = code(&guard);
            assert!(guard.redeem(&code, Instant::now()).is_ok());
        }
        assert_eq!(guard.redeem(&first, Instant::now()).map(drop), Err(InvalidCode::Unknown));
        assert!(guard.credentials().codes.len() <= MAX_CODES && guard.credentials().keys.len() <= MAX_KEYS);
    }
}
