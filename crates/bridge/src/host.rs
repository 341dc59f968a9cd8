//! Files and commands. The bridge itself does no I/O and asks a [`Host`] for them.

use switchboard_acp::rpc::codes;
use switchboard_diff::FileAtHand;

/// A command to run for a version 1 agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalStart {
    /// Identifier that terminal events use.
    pub terminal_id: String,
    /// Program to start.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Working directory, inside the session's roots.
    pub cwd: String,
}

/// An error of a host operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostError {
    /// JSON-RPC error code.
    pub code: i32,
    /// Message for the agent.
    pub message: String,
}

impl HostError {
    /// Returns the error for an operation that the host does not offer.
    pub fn not_offered() -> Self {
        HostError {
            code: codes::METHOD_NOT_FOUND,
            message: "the host does not offer this operation".to_owned(),
        }
    }

    /// Returns the error for a file or command that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        HostError { code: codes::RESOURCE_NOT_FOUND, message: message.into() }
    }

    /// Returns the error for an operation that failed.
    pub fn failed(message: impl Into<String>) -> Self {
        HostError { code: codes::INTERNAL_ERROR, message: message.into() }
    }
}

/// Access to files and commands on behalf of a bridge.
///
/// Every path is checked by name to be inside a root of the session. Resolving links that lead out of the
/// roots is the host's responsibility, so each method also gets the roots.
pub trait Host {
    /// Returns the content of a file, used to improve diffs; [`FileAtHand::Unknown`] if files must not be
    /// read.
    fn file(&mut self, path: &str, roots: &[String]) -> FileAtHand<'static> {
        let _ = (path, roots);
        FileAtHand::Unknown
    }

    /// Resolves a program name without a folder to an absolute path, for a version 2 agent that starts it.
    /// `None` if it is not found or the agent runs on another machine.
    fn find_program(&mut self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// Reads a file for a version 1 agent.
    fn read_text_file(&mut self, path: &str, roots: &[String]) -> Result<String, HostError> {
        let _ = (path, roots);
        Err(HostError::not_offered())
    }

    /// Writes a file for a version 1 agent.
    fn write_text_file(&mut self, path: &str, content: &str, roots: &[String]) -> Result<(), HostError> {
        let _ = (path, content, roots);
        Err(HostError::not_offered())
    }

    /// Starts a command for a version 1 agent. The host reports its output with
    /// [`Bridge::terminal_output`](crate::Bridge::terminal_output) and its end with
    /// [`Bridge::terminal_exited`](crate::Bridge::terminal_exited).
    fn start_terminal(&mut self, start: &TerminalStart, roots: &[String]) -> Result<(), HostError> {
        let _ = (start, roots);
        Err(HostError::not_offered())
    }

    /// Kills a command and all its child processes.
    fn kill_terminal(&mut self, terminal_id: &str) {
        let _ = terminal_id;
    }
}

/// A host that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// Returns whether a path is inside one of the roots, judged by name only. A path with `..` never is.
pub(crate) fn is_inside(path: &str, roots: &[String]) -> bool {
    let parts = |path: &str| -> Option<Vec<String>> {
        let mut parts = Vec::new();
        for part in path.split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." => return None,
                part => parts.push(part.to_owned()),
            }
        }
        Some(parts)
    };
    let Some(wanted) = parts(path) else { return false };
    let absolute = path.starts_with('/') == roots.first().is_none_or(|root| root.starts_with('/'));
    absolute && roots.iter().any(|root| parts(root).is_some_and(|root| wanted.starts_with(&root)))
}

#[cfg(test)]
mod tests {
    use super::is_inside;

    #[test]
    fn only_paths_below_a_root_are_inside() {
        let roots = ["/w/project".to_owned(), "/data/".to_owned()];
        for inside in ["/w/project", "/w/project/a", "/w/project/./a/b", "/data/x", "/w//project/a"] {
            assert!(is_inside(inside, &roots), "{inside}");
        }
        for outside in ["/w", "/w/projects/a", "/w/project/../a", "/etc/passwd", "a", "", "/"] {
            assert!(!is_inside(outside, &roots), "{outside}");
        }
        assert!(!is_inside("/w/a", &[]));
    }
}
