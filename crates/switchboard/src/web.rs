//! The sessions of a hub in a browser: of one that `switchboard open` starts for one person, or of `switchboard serve`.
//!
//! The log of a session is folded as it grows (`live_recording`). Who acts in one is connected to the hub as any other
//! client is (`live`). Every tab has a view of one recording (`view`) and gets frames: the HTML of what has changed among the entries that it shows (`render`),
//! and the rows of the inspector that are in sight (`wire`). The page keeps no state of its own that matters, so a
//! reload, another tab or another launch shows the same.

mod actions;
pub(crate) mod app;
mod asked;
mod changes;
mod checkpoints;
pub(crate) mod desk;
mod entry_times;
mod excerpt;
mod export;
mod family;
mod files;
mod find;
pub(crate) mod guard;
mod lists;
mod live;
pub(crate) mod live_recording;
mod mentions;
mod message_log;
mod names;
mod pages;
mod panels;
mod pictures;
mod questions;
mod rates;
mod reading;
pub(crate) mod remembered;
mod render;
mod request;
mod roles;
mod rows;
mod rule;
mod tab;
mod verdict;
pub(crate) mod view;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use switchboard_hub::Identity;
use switchboard_store::Role;
use switchboard_transport::server::Refusal;

use app::App;
use guard::Guard;

/// Where the page has a message of a session, by their ids in the store.
pub(crate) fn message_address(session: &str, message: u64) -> String {
    format!("/r/{session}#m{message}")
}

/// Makes links that let a browser in. Each works once.
#[derive(Clone)]
pub(crate) struct Links {
    guard: Guard,
    path: String,
    /// Whom they let in.
    who: Identity,
}

impl Links {
    pub(crate) fn new(guard: Guard, path: String, who: Identity) -> Self {
        Links { guard, path, who }
    }

    pub(crate) fn fresh(&self) -> std::io::Result<String> {
        self.guard.link(&self.path, self.who.clone()).map_err(std::io::Error::other)
    }
}

/// Says whose a request is by its token, or how it is refused.
pub(crate) type Identify = Arc<dyn Fn(&Parts, SocketAddr) -> Result<Identity, Refusal> + Send + Sync>;

/// What answers at `/` and below. Where there are tokens, they let browsers in too.
pub(crate) fn router(app: Arc<App>, identify: Option<Identify>) -> Router {
    pages::router(app, identify)
}

/// Who opens a page of their own: no token, and everything may be done.
pub(crate) fn myself() -> Identity {
    Identity { name: "you".into(), role: Role::Admin, all: true, made: 0 }
}
