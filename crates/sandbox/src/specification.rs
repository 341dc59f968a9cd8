//! The instructions of a sandbox for its first process, as a JSON file that only this program writes.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Folder inside the sandbox with the sockets and the program of Switchboard.
pub(crate) const INSIDE: &str = "/run/switchboard";
/// Names in that folder.
pub(crate) const PROGRAM: &str = "switchboard";
pub(crate) const SPECIFICATION: &str = "sandbox.json";
pub(crate) const CONTROL: &str = "control";
pub(crate) const PROXY: &str = "proxy";

/// Returns the name of the socket for a port of the machine's loopback.
pub(crate) fn port_socket(port: u16) -> String {
    format!("port-{port}")
}

/// Instructions for the first process of a sandbox.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Specification {
    pub(crate) limits: ResourceLimits,
    /// Ports inside, and the sockets to which they lead.
    pub(crate) relays: Vec<(u16, PathBuf)>,
    /// True if Landlock scopes are applied: the kernel has them.
    pub(crate) scopes: bool,
    /// Variables that only the program itself gets.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) proof: Proof,
}

/// Limits of each process.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    pub(crate) processes: Option<u64>,
    pub(crate) memory: Option<u64>,
    pub(crate) file_size: Option<u64>,
}

/// Facts that must hold inside.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Files outside, which must not be there.
    pub(crate) outside: Vec<PathBuf>,
    /// Hidden files and folders.
    pub(crate) hidden: Vec<PathBuf>,
    /// Paths that cannot be written.
    pub(crate) read_only: Vec<PathBuf>,
    /// Folders that can be written.
    pub(crate) writable: Vec<PathBuf>,
    /// A port of the machine's loopback, which must not be reachable.
    pub(crate) port: Option<u16>,
    /// Name of an abstract socket, which must not be reachable.
    pub(crate) abstract_socket: Option<String>,
    /// Files and folders inside, and what they are outside. Another one in their place leads out.
    pub(crate) identities: Vec<(PathBuf, Identity)>,
    /// Paths that must be mount points, and whether they may be writable: without one, a folder could be renamed, or its
    /// content replaced.
    pub(crate) mount_points: Vec<(PathBuf, bool)>,
    /// Namespaces of Switchboard that must not be those of the sandbox, by their names in `/proc/self/ns`.
    pub(crate) namespaces: Vec<(String, PathBuf)>,
    /// True if the agent must not be able to make namespaces.
    pub(crate) has_no_namespaces: bool,
}
