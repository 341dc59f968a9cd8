//! The web page of a hub: a client and an inspector for its sessions, as an [`axum`] router.
//!
//! `switchboard open` serves it to the user who started it, `switchboard serve` to all users with a token.
//!
//! - [`Page`] is the page of a hub. [`PageOptions`] contains the hub, the admitted users ([`Access`]) and the file
//!   for new rules ([`RuleFile`]).
//! - [`Links`] creates links that sign in one browser each.
//! - [`Viewer`] keeps the sessions of a user while no tab is open.
//!
//! The page follows the log of a session and folds it as it grows (`live_recording`). A user who acts in a session is
//! a client of the hub like any other (`live`). Each tab has a view of one recording (`view`) and receives frames:
//! the HTML of the visible entries that changed (`render`), and the visible rows of the inspector (`wire`). All
//! durable state is in the hub and its store, so a reload, another tab or another launch shows the same.
//!
//! ```
//! use std::sync::Arc;
//!
//! use switchboard_hub::{Hub, HubOptions};
//! use switchboard_store::Store;
//! use switchboard_transport::Program;
//! use switchboard_web::{Page, PageOptions, local_user};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let _entered = runtime.enter();
//! let store = Store::open(folder.path().join("sessions.sqlite3"))?;
//! let agents = vec![("claude".to_owned(), Program::new("claude-agent-acp"))];
//! let hub = Hub::start(HubOptions {
//!     local_names: vec![local_user().name],
//!     ..HubOptions::new(store.clone(), agents, Box::new(|folder| Ok(folder.to_owned())))
//! })?;
//! let page = Page::new(PageOptions::new(store, hub, folder.path().to_owned(), 4173));
//! let router: axum::Router = page.router();
//! let link = page.links("/", local_user()).fresh()?;
//! assert!(link.starts_with("http://127.0.0.1:4173/#code="));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod actions;
mod app;
mod asked;
mod changes;
mod charts;
mod checkpoints;
#[cfg(debug_assertions)]
mod design;
mod entry_times;
mod excerpt;
mod export;
mod files;
mod find;
mod guard;
mod lists;
mod live;
mod live_recording;
mod mentions;
mod message_log;
mod names;
mod pages;
mod panels;
mod preview;
mod qr;
mod questions;
mod rates;
#[cfg(test)]
mod readers;
mod reading;
mod remembered;
mod render;
mod request;
mod review;
mod roles;
mod rows;
mod rule;
mod runs;
mod short_codes;
mod subagents;
mod tab;
mod user_state;
mod verdict;
mod view;
mod wire;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use switchboard_hub::{Hub, Identity};
use switchboard_policy::{Host, HostPattern, Policy};
use switchboard_store::{Role, Store};
use switchboard_transport::server::Refusal;

pub use qr::{is_reachable, qr_for_terminal};

use app::App;
use guard::Guard;
use user_state::UserState;

/// Identifies the sender of a request by its token, or says how the request is refused.
pub type Identify = Arc<dyn Fn(&Parts, SocketAddr) -> Result<Identity, Refusal> + Send + Sync>;

/// The users whom a page admits.
#[derive(Clone)]
pub enum Access {
    /// The user who started the hub, on loopback, by a link. There are no tokens.
    LocalUser,
    /// Every user with a token of the hub or with a link.
    Tokens {
        /// Origins under which browsers reach the page, such as `https://hub.example.org`. Links use the first one.
        origins: Vec<String>,
        /// True if the server has a TLS certificate. The page then accepts every host name that the certificate
        /// proves.
        has_certificate: bool,
        /// Checks a token.
        identify: Identify,
    },
}

/// The user's own rule file, to which the page appends rules that are made from permission requests.
pub trait RuleFile: Send + Sync {
    /// Returns the reason why an appended rule would have no effect, if there is one.
    fn refusal(&self) -> Option<String>;

    /// Returns the machine that the rules are for.
    fn host(&self) -> &dyn Host;

    /// Returns the policy that would apply in a project folder if the text were appended to the file. Does not write.
    fn with_appended(&self, text: &str, folder: &Path) -> Result<Policy, String>;

    /// Appends text to the file, and returns the path of the file.
    fn append(&self, text: &str) -> Result<PathBuf, String>;

    /// Adds a host to those that sandboxes reach, and returns the path of the file.
    fn allow_host(&self, host: &HostPattern) -> Result<PathBuf, String>;
}

/// Notifications of people who do not look at the page.
pub trait Notifications: Send + Sync {
    /// Notes that a tab shows a session and is visible and focused, or that it is not. Tabs repeat it.
    fn look(&self, tab: u64, session: Option<&str>);

    /// Returns the outcomes of each target, one line per target.
    fn outcomes(&self) -> Vec<String>;
}

/// The editor of the user who sits at the machine of the hub.
pub trait Editor: Send + Sync {
    /// Starts to open a file, at a line counted from 1. Fails if the editor cannot be started.
    fn open(&self, file: &Path, line: u32) -> Result<(), String>;
}

/// An agent as the start screen shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCard {
    /// Name in the hub or, if it is not installed, in commands.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Instructions to install it, if it cannot be started.
    pub install: Option<String>,
}

/// Options of a [`Page`].
pub struct PageOptions {
    /// The store of the hub.
    pub store: Store,
    /// The hub whose sessions the page shows.
    pub hub: Hub,
    /// Default folder of a new session.
    pub folder: PathBuf,
    /// The port of the server.
    pub port: u16,
    /// The users whom the page admits; [`Access::LocalUser`] unless set.
    pub access: Access,
    /// The user's own rule file. Without it the page does not offer to make rules.
    pub rules: Option<Box<dyn RuleFile>>,
    /// Advice for an agent that did not complete the handshake in time; empty unless set.
    pub handshake_hint: String,
    /// Notifications of the hub, if it has any targets.
    pub notifications: Option<Arc<dyn Notifications>>,
    /// The editor in which administrators open files of sessions. Without it the page does not offer that.
    pub editor: Option<Box<dyn Editor>>,
    /// Titles of the hub's agents, and agents that could be installed. The hub's agents are shown even without.
    pub agents: Vec<AgentCard>,
}

impl PageOptions {
    /// Creates options for a page on loopback for the local user.
    pub fn new(store: Store, hub: Hub, folder: PathBuf, port: u16) -> Self {
        let (access, handshake_hint) = (Access::LocalUser, String::new());
        PageOptions {
            store,
            hub,
            folder,
            port,
            access,
            rules: None,
            handshake_hint,
            notifications: None,
            editor: None,
            agents: Vec::new(),
        }
    }
}

/// The page of a hub.
#[derive(Clone)]
pub struct Page {
    app: Arc<App>,
    identify: Option<Identify>,
}

impl Page {
    /// Creates a page.
    pub fn new(options: PageOptions) -> Self {
        let (guard, identify) = match &options.access {
            Access::LocalUser => (Guard::new(options.port), None),
            Access::Tokens { origins, has_certificate, identify } => {
                (Guard::of_hub(options.port, origins.clone(), *has_certificate), Some(Arc::clone(identify)))
            }
        };
        Page { app: Arc::new(App::new(options, guard)), identify }
    }

    /// Returns the router for `/` and everything below it.
    pub fn router(&self) -> Router {
        self.router_with(Router::new())
    }

    /// Returns the router with further routes below `/in/`, for browsers that are signed in. Their handlers get the user
    /// as the extension [`Identity`]; whether the token was revoked meanwhile is not checked.
    pub fn router_with(&self, routes: Router) -> Router {
        pages::router(Arc::clone(&self.app), self.identify.clone(), routes)
    }

    /// Returns a factory of links to a path of the page. Each link signs in one browser as the given user.
    pub fn links(&self, path: impl Into<String>, who: Identity) -> Links {
        Links { guard: self.app.guard.clone(), path: path.into(), who }
    }

    /// Keeps a user's sessions and remembered choices until the returned value is dropped, even while no tab is open.
    pub async fn viewer(&self, who: Identity) -> Viewer {
        Viewer(self.app.user(who).await)
    }
}

/// A handle that keeps a user's sessions while no tab is open.
pub struct Viewer(Arc<UserState>);

impl Viewer {
    /// Starts the first agent of the hub and opens a session with it. Tabs show the progress and the error.
    pub async fn start(&self) -> Result<(), String> {
        self.0.start().await
    }
}

/// A factory of links that sign in a browser. Each link works once and for a minute.
#[derive(Clone)]
pub struct Links {
    guard: Guard,
    path: String,
    who: Identity,
}

impl Links {
    /// Creates a code of eight characters to type into another device. It works once and for two minutes.
    pub fn short_code(&self) -> std::io::Result<String> {
        self.guard.short_code(self.who.clone()).map_err(std::io::Error::other)
    }

    /// Creates a link. Fails if the system has no random numbers.
    pub fn fresh(&self) -> std::io::Result<String> {
        self.guard.link(&self.path, self.who.clone()).map_err(std::io::Error::other)
    }
}

/// Returns the path of a message in the page, by the session's id and the message's sequence number in the store.
pub fn message_address(session: &str, message: u64) -> String {
    format!("/r/{session}#m{message}")
}

/// Returns the identity of the local user, who needs no token and has every permission.
pub fn local_user() -> Identity {
    Identity { name: "you".into(), role: Role::Admin, all: true, made: 0 }
}

/// Runs the example of README.md with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
