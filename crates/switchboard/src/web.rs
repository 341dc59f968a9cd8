//! `switchboard open`: the session in a browser.
//!
//! The agent's messages are recorded into the store and folded as they come (`live`, `trace`). Every tab has a view
//! of one recording (`view`) and gets frames: the HTML of what has changed among the entries that it shows (`render`),
//! and the rows of the inspector that are in sight (`wire`). The page keeps no state of its own that matters, so a
//! reload, another tab or another launch shows the same.

mod actions;
pub(crate) mod app;
mod asked;
mod checkpoints;
pub(crate) mod desk;
mod entry_times;
mod excerpt;
mod family;
mod files;
pub(crate) mod guard;
mod lists;
mod live;
pub(crate) mod live_recording;
mod message_log;
mod names;
mod pages;
mod panels;
mod questions;
mod rates;
mod reading;
mod remembered;
mod render;
mod request;
mod rows;
mod tab;
pub(crate) mod view;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use switchboard_hub::{Hub, Identity};
use switchboard_store::Store;
use switchboard_transport::Program;
use switchboard_transport::server::{ListenerLimits, Refusal, serve};
use tokio::net::TcpListener;

use app::{Agents, App};
use guard::Guard;

use crate::standard_error;

/// What is opened.
pub(crate) struct Opening {
    pub(crate) store: Store,
    pub(crate) program: Program,
    /// The agent's name in the configuration, or its program.
    pub(crate) agent_name: String,
    pub(crate) folder: PathBuf,
    /// 0: any that is free.
    pub(crate) port: u16,
    /// How long the agent may take to introduce itself.
    pub(crate) handshake_timeout: Duration,
    /// The recording to look at first.
    pub(crate) recording: Option<String>,
}

/// A server that listens, and the agent behind it.
pub(crate) struct Server {
    listener: TcpListener,
    app: Arc<App>,
    links: Links,
}

/// Makes links that let a browser in. Each works once.
#[derive(Clone)]
pub(crate) struct Links {
    guard: Guard,
    path: String,
    /// Whom they let in at a hub.
    who: Option<Identity>,
}

impl Links {
    pub(crate) fn fresh(&self) -> io::Result<String> {
        self.guard.link(&self.path, self.who.clone()).map_err(io::Error::other)
    }
}

/// Says whose a request is by its token, or how it is refused.
pub(crate) type Identify = Arc<dyn Fn(&Parts, SocketAddr) -> Result<Identity, Refusal> + Send + Sync>;

/// The page of a hub.
pub(crate) struct HubPage {
    pub(crate) store: Store,
    pub(crate) hub: Hub,
    /// The folder of a new session, unless another one is chosen.
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    /// The addresses of the server; links have the first.
    pub(crate) origins: Vec<String>,
    pub(crate) has_certificate: bool,
    pub(crate) identify: Identify,
}

impl HubPage {
    /// What answers at `/` and below, beside what a hub has for programs, and links for somebody.
    pub(crate) fn router(self, who: Identity) -> (Router, Links) {
        let HubPage { store, hub, folder, port, origins, has_certificate, identify } = self;
        let guard = Guard::of_hub(port, origins, has_certificate);
        let links = Links { guard: guard.clone(), path: "/".to_owned(), who: Some(who) };
        let app = Arc::new(App::with(store, Agents::Hub(hub), folder, guard));
        (pages::router(app, Some(identify)), links)
    }
}

impl Server {
    /// Listens on loopback.
    pub(crate) async fn bind(opening: Opening) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, opening.port));
        let listener = TcpListener::bind(address).await?;
        let guard = Guard::new(listener.local_addr()?.port());
        remembered::mention_old_file(opening.store.path());
        let path = opening.recording.as_ref().map_or_else(|| "/".to_owned(), |id| format!("/r/{id}"));
        let links = Links { guard: guard.clone(), path, who: None };
        let Opening { store, program, agent_name: name, folder, handshake_timeout, .. } = opening;
        let app = App::with(store, Agents::Ours { program, name, handshake_timeout }, folder, guard);
        Ok(Server { listener, app: Arc::new(app), links })
    }

    /// Links that let a browser in.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Serves until `end` is done, then ends the agent. Gives why it ended.
    pub(crate) async fn run<E>(self, end: impl Future<Output = E>) -> E {
        let app = Arc::clone(&self.app);
        tokio::spawn(async move {
            // The page shows it too, with a way to try again.
            if let Err(reason) = app.start_agent().await {
                standard_error::say(format!("switchboard: {reason}"));
            }
        });
        let router = pages::router(Arc::clone(&self.app), None);
        let end = tokio::select! {
            never = serve(&self.listener, &router, None, ListenerLimits::default()) => match never {},
            end = end => end,
        };
        self.app.end().await;
        end
    }
}
