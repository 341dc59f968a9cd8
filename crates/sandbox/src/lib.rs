//! Confines a coding agent and all its processes by the kernel, from the rules of a [`Policy`](switchboard_policy::Policy).
//!
//! [`Plan::new`] computes a sandbox from a [`SandboxRequest`]: the mounts as a pure function of the session's folders, the
//! rules and facts about the file system ([`Layout`]), the environment, and the hosts that a proxy reaches
//! ([`AllowedHosts`]). [`Plan::create`] makes its private folders and sockets. [`Sandbox::command`] is the command line of
//! bubblewrap. Its first process is this program again ([`init`]): it applies seccomp and Landlock scopes, proves the sandbox
//! from inside, and becomes the agent. [`Sandbox::wait_until_ready`] returns the result of that proof.
//!
//! Everything fails closed: a sandbox that cannot be enforced is a [`SandboxError`], and nothing is started.
//!
//! Linux only. On other systems every request is an error.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod environment;
#[cfg(target_os = "linux")]
mod git_config;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod init;
mod layout;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod plan;
mod proxy;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod scopes;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod specification;
#[cfg(target_os = "linux")]
mod survey;
#[cfg(target_os = "linux")]
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use switchboard_policy::{PathRules, SandboxMode, SandboxSettings};

#[cfg(not(target_os = "linux"))]
pub use self::elsewhere::{Plan, ProtectedChange, Sandbox, Watch, init, machine};
pub use self::environment::SANDBOX_VARIABLE;
#[cfg(target_os = "linux")]
pub use self::init::run as init;
pub use self::layout::{Binding, ClosedPath, Layout, Mount, may_tell_of_closed_path};
#[cfg(target_os = "linux")]
pub use self::machine::machine;
#[cfg(target_os = "linux")]
pub use self::plan::Plan;
pub use self::proxy::{
    AllowedHosts, BadRequest, DeniedHost, HttpRequest, MAX_HEAD, OnDenied, PACKAGE_REGISTRIES, ServerName,
    Target, parse_http, parse_socks, server_name,
};
#[cfg(target_os = "linux")]
pub use self::sandbox::Sandbox;
#[cfg(target_os = "linux")]
pub use self::watch::{ProtectedChange, Watch};

/// A request for a sandbox.
#[derive(Debug)]
pub struct SandboxRequest {
    /// The mode; not `Off`.
    pub mode: SandboxMode,
    /// Folders of the session. Without any, the agent can only answer questions about itself.
    pub roots: Vec<PathBuf>,
    /// Folder in which the agent starts; its home if that is not shown.
    pub working_directory: Option<PathBuf>,
    /// Path of the agent's program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that the user has configured for the agent; `None` removes one.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// The table `[sandbox]` of the rules.
    pub settings: SandboxSettings,
    /// The rules that close paths.
    pub rules: PathRules,
    /// Needs of the agent.
    pub needs: AgentNeeds,
    /// Places of this machine.
    pub places: Places,
    /// This program, which becomes the first process of the sandbox.
    pub init: PathBuf,
}

/// Needs of an agent, as data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentNeeds {
    /// Paths below the home directory that it writes: logins, histories, caches.
    pub state: Vec<String>,
    /// Paths below the home directory that it reads, and that must not be changed: they decide what it runs.
    pub settings: Vec<String>,
    /// Hosts of its model and login.
    pub hosts: Vec<String>,
    /// Environment variables that it reads; `*` at the end matches any rest.
    pub env: Vec<String>,
    /// Environment variables that are set for it.
    pub set: Vec<(String, String)>,
    /// True if it makes sandboxes of its own.
    pub nests: bool,
}

/// Places of this machine.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The home directory.
    pub home: PathBuf,
    /// Folder for the private folders of sandboxes.
    pub data: PathBuf,
    /// Files and folders of Switchboard that no sandbox shows: store, configuration, tokens.
    pub closed: Vec<PathBuf>,
    /// Files of rules, which no sandbox can change, wherever they are.
    pub rules: Vec<PathBuf>,
    /// Ports on which this program listens.
    pub ports: Vec<u16>,
}

/// Reason why a sandbox cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{}", advice.iter().map(|advice| format!("\n  {advice}")).collect::<String>())]
pub struct SandboxError {
    reason: String,
    advice: Vec<String>,
}

impl SandboxError {
    /// Creates an error.
    pub fn new(reason: impl Into<String>) -> Self {
        SandboxError { reason: reason.into(), advice: Vec::new() }
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the advice.
    pub fn hints(&self) -> &[String] {
        &self.advice
    }
}
