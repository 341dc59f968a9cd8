//! Service workers and the messages that a push service would deliver to them.

use std::time::Instant;

use serde_json::json;

use crate::connection::lock;
use crate::{Page, Visitor};

impl Visitor {
    /// Lets the pages of an origin show notifications without asking.
    pub fn allow_notifications(&self, origin: &str) {
        self.grant(origin, &["notifications"]);
    }
}

impl Page {
    /// Delivers a message to the page's service worker, which must be registered, as its push service would.
    #[track_caller]
    pub fn deliver_push(&self, data: &str) {
        let origin = self.eval("location.origin");
        let scope = format!("{}/", origin.as_str().unwrap_or_default());
        self.command("ServiceWorker.enable", &json!({}));
        let until = Instant::now() + crate::page::LIMIT;
        let registration = loop {
            if let Some(id) = lock(self.observed()).workers.get(&scope).cloned() {
                break id;
            }
            assert!(Instant::now() < until, "there is no service worker for {scope}");
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        };
        let message = json!({ "origin": origin, "registrationId": registration, "data": data });
        self.command("ServiceWorker.deliverPushMessage", &message);
    }
}
