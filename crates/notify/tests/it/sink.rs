//! An HTTP server that keeps what it receives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Duration, timeout};

/// Maximum time to wait for a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that was received.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    received: mpsc::Receiver<Received>,
}

impl Sink {
    /// Starts a server that accepts everything.
    pub(crate) async fn start() -> Self {
        Sink::answering(|_| StatusCode::OK.into_response()).await
    }

    /// Starts a server with the given responses.
    pub(crate) async fn answering(answer: impl Fn(usize) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::channel(100);
        let (answer, count) = (Arc::new(answer), Arc::new(Mutex::new(0)));
        let router = Router::new().fallback(move |request: Request<Body>| {
            let (sender, answer, count) = (sender.clone(), Arc::clone(&answer), Arc::clone(&count));
            async move {
                let (head, body) = request.into_parts();
                let bytes = to_bytes(body, 1 << 20).await.unwrap();
                let received = Received {
                    method: head.method.to_string(),
                    path: head.uri.to_string(),
                    headers: head.headers,
                    text: String::from_utf8(bytes.to_vec()).unwrap(),
                };
                sender.send(received).await.unwrap();
                let number = {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    *count - 1
                };
                answer(number)
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Sink { address, received }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn next(&mut self) -> Received {
        timeout(PATIENCE, self.received.recv()).await.expect("no request arrived").unwrap()
    }

    /// Returns whether no request has arrived.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}
