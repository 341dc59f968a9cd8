//! Systems without sandboxes: every request is an error.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;

use switchboard_policy::{SandboxMode, SandboxNetwork};

use crate::{AllowedHosts, Layout, OnDenied, SandboxError, SandboxRequest};

const REASON: &str = "sandboxes need Linux";

/// The plan of a sandbox, which this system cannot make.
#[derive(Debug)]
pub struct Plan(Infallible);

/// A sandbox, which this system cannot make.
#[derive(Debug)]
pub struct Sandbox(Infallible);

/// A change of a file that other programs run or obey.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedChange {
    /// The file or folder.
    pub path: PathBuf,
    /// True if it was missing before.
    pub is_new: bool,
}

/// Compares protected names.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Returns the changes since the last call.
    pub fn changes(&mut self) -> Result<Vec<ProtectedChange>, String> {
        match self.0 {}
    }
}

impl Plan {
    /// Fails.
    pub fn new(_: SandboxRequest) -> Result<Self, SandboxError> {
        Err(SandboxError::new(REASON))
    }

    /// Returns the layout.
    pub fn layout(&self) -> Result<Layout, SandboxError> {
        match self.0 {}
    }

    /// Returns the hosts that can be reached.
    pub fn hosts(&self) -> &AllowedHosts {
        match self.0 {}
    }

    /// Describes the sandbox in one line.
    pub fn summary(&self) -> String {
        match self.0 {}
    }

    /// Returns the limits of the sandbox that the user should know about.
    pub fn gaps(&self) -> &[String] {
        match self.0 {}
    }

    /// Returns the mode.
    pub fn mode(&self) -> SandboxMode {
        match self.0 {}
    }

    /// Returns the network access.
    pub fn network(&self) -> SandboxNetwork {
        match self.0 {}
    }

    /// Returns the environment inside.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        match self.0 {}
    }

    /// Returns the folders of the session.
    pub fn roots(&self) -> &[PathBuf] {
        match self.0 {}
    }

    /// Returns the comparison of protected names, as of now.
    pub fn watch(&self) -> Watch {
        match self.0 {}
    }

    /// Creates the sandbox.
    pub fn create(self, _: Option<OnDenied>) -> Result<Sandbox, SandboxError> {
        match self.0 {}
    }
}

impl Sandbox {
    /// Describes the sandbox in one line.
    pub fn summary(&self) -> &str {
        match self.0 {}
    }

    /// Returns the command that starts the program inside.
    pub fn command(&self) -> Result<(Command, OwnedFd), SandboxError> {
        match self.0 {}
    }

    /// Waits until the sandbox is proven.
    pub fn wait_until_ready(&mut self, _: &mut dyn FnMut() -> Option<String>) -> Result<(), SandboxError> {
        match self.0 {}
    }
}

/// Returns the reason why this machine has no sandboxes.
pub fn machine() -> Vec<(&'static str, Result<String, String>)> {
    vec![("system", Err(REASON.to_owned()))]
}

/// Refuses to be the first process of a sandbox.
pub fn init(_: &[OsString]) -> i32 {
    eprintln!("switchboard: {REASON}");
    125
}
