//! Files and commands, which the bridge itself never touches.

use switchboard_acp::rpc::codes;
use switchboard_diff::FileAtHand;

/// A command to run for a version 1 agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalStart {
    /// The name that events about it carry.
    pub terminal_id: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
    /// Its working directory, inside the session's roots.
    pub cwd: String,
}

/// Why the host did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostError {
    /// A JSON-RPC error code.
    pub code: i32,
    /// What to tell the agent.
    pub message: String,
}

impl HostError {
    /// The host does not offer this.
    pub fn not_offered() -> Self {
        HostError { code: codes::METHOD_NOT_FOUND, message: "not offered here".to_owned() }
    }

    /// Something is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        HostError { code: codes::RESOURCE_NOT_FOUND, message: message.into() }
    }

    /// Something went wrong.
    pub fn failed(message: impl Into<String>) -> Self {
        HostError { code: codes::INTERNAL_ERROR, message: message.into() }
    }
}

/// What surrounds a bridge. Every path that it is asked about lies, by its name, inside a root of the session;
/// that no link leads out of it is for the host to see to, which is why it gets the roots too.
pub trait Host {
    /// The content of a file, to make diffs better; [`FileAtHand::Unknown`] where files are not to be looked at.
    fn file(&mut self, path: &str, roots: &[String]) -> FileAtHand<'static> {
        let _ = (path, roots);
        FileAtHand::Unknown
    }

    /// The absolute path of a program that is named as in a shell, without any folder, for a version 2 agent that starts it.
    /// `None` where it is not found, or the agent runs elsewhere.
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

    /// Starts a command for a version 1 agent. What it puts out and how it ends is told to the bridge by
    /// [`Bridge::terminal_output`](crate::Bridge::terminal_output) and
    /// [`Bridge::terminal_exited`](crate::Bridge::terminal_exited).
    fn start_terminal(&mut self, start: &TerminalStart, roots: &[String]) -> Result<(), HostError> {
        let _ = (start, roots);
        Err(HostError::not_offered())
    }

    /// Ends a command and all that it started.
    fn kill_terminal(&mut self, terminal_id: &str) {
        let _ = terminal_id;
    }
}

/// A host that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// Whether a path lies inside one of the roots, by its name.
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
