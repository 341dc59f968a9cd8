//! Refusal of a request.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

/// Refusal of a request, as sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: StatusCode,
    /// Message with the reason and a remedy.
    pub message: String,
    /// Time after which a retry makes sense.
    pub retry_after: Option<Duration>,
    /// True if the token is refused: another one might be accepted at once.
    pub wants_token: bool,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let wants_token = status == StatusCode::UNAUTHORIZED;
        Refusal { status, message: message.into(), retry_after: None, wants_token }
    }

    /// Creates a refusal that asks the client to retry after some seconds.
    pub(super) fn later(status: StatusCode, message: impl Into<String>) -> Self {
        Refusal { retry_after: Some(Duration::from_secs(5)), ..Self::new(status, message) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { status, message, retry_after, wants_token } = self;
        // Messages created by this module are JSON already.
        let kind = if message.starts_with('{') { "application/json" } else { "text/plain; charset=utf-8" };
        let mut response = Response::new(Body::from(message));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(wait) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        if wants_token {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
