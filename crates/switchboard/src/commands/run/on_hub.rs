//! `run --on`: the prompt runs on a hub. `switchboard connect` is the program, as for other agents with an address.

use std::path::{Path, PathBuf};

use switchboard_transport::Program;
use url::Url;

use crate::outcome::CommandError;
use crate::remote_agent::ourselves;

/// Path under which a hub serves its agents.
const AGENTS: &str = "acp";

/// Options of `run --on`.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct HubArguments {
    /// Run on a hub instead of this machine: its URL, as `serve` prints it; AGENT is then one of its agents, and the
    /// session stays there
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "sandbox"])]
    pub(super) on: Option<String>,

    /// File that contains the token of the hub; default: the variable SWITCHBOARD_TOKEN
    #[arg(long, value_name = "FILE", requires = "on")]
    token_file: Option<PathBuf>,

    /// Leave questions to the other clients of the hub, such as its page, and wait for their answers
    #[arg(
        long,
        requires = "on",
        conflicts_with_all = ["approve_all", "approve_reads", "deny_all", "permissions"]
    )]
    pub(super) leave_questions: bool,
}

impl HubArguments {
    /// Returns the program that connects to an agent of the hub.
    pub(super) fn program(&self, hub: &str, agent: Option<&str>) -> Result<Program, CommandError> {
        let url = agent_url(hub, agent).map_err(|reason| {
            CommandError::usage(format!("cannot run on {hub}: {reason}"))
                .hint("give the address of a hub, such as http://127.0.0.1:4173 or https://hub.example.org")
        })?;
        let mut program = ourselves(["connect", "--no-wait"])?;
        if let Some(file) = &self.token_file {
            program = program.args(["--token-file".as_ref(), file.as_os_str()]);
        }
        Ok(program.args([&url]).relay_for(&url))
    }
}

/// Returns the working directory of a session on a hub. It is a folder of the hub's machine, so it is not looked up
/// here.
pub(super) fn working_directory(asked: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    match asked {
        Some(folder) if folder.is_absolute() => Ok(folder.clone()),
        Some(folder) => Err(CommandError::usage(format!(
            "--cwd {}: with --on, the folder must be an absolute path on the machine of the hub",
            folder.display()
        ))),
        None => super::working_directory(Some(&Path::new(".").to_owned())),
    }
}

/// Returns the WebSocket address of an agent of a hub.
fn agent_url(hub: &str, agent: Option<&str>) -> Result<String, String> {
    let mut url = Url::parse(hub).map_err(|error| error.to_string())?;
    let scheme = match url.scheme() {
        "http" | "ws" => "ws",
        "https" | "wss" => "wss",
        other => return Err(format!("unsupported scheme {other}")),
    };
    if url.host_str().is_none_or(str::is_empty) || url.set_scheme(scheme).is_err() {
        return Err("the address has no host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err("an address with a credential would be visible to others; use --token-file".to_owned());
    }
    let path: Vec<String> = url.path_segments().into_iter().flatten().map(str::to_owned).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let (is_named, path) = match path[..] {
        [] => (false, vec![AGENTS]),
        [.., AGENTS] => (false, path),
        [.., AGENTS, _] => (true, path),
        // A hub below a path of its proxy.
        _ => (false, [&path[..], &[AGENTS]].concat()),
    };
    if is_named && agent.is_some() {
        return Err("it names an agent already; leave AGENT out".to_owned());
    }
    let mut segments = url.path_segments_mut().map_err(|()| "the address has no host".to_owned())?;
    segments.clear().extend(path).extend(agent);
    drop(segments);
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_hub_becomes_that_of_an_agent() {
        let of = |hub: &str, agent| agent_url(hub, agent).unwrap();
        assert_eq!(of("http://127.0.0.1:4173", Some("claude")), "ws://127.0.0.1:4173/acp/claude");
        assert_eq!(of("https://hub.example.org/", None), "wss://hub.example.org/acp");
        assert_eq!(of("wss://hub.example.org/acp", Some("a/b ?")), "wss://hub.example.org/acp/a%2Fb%20%3F");
        assert_eq!(of("ws://[::1]:4173/acp/claude", None), "ws://[::1]:4173/acp/claude");
        assert_eq!(of("https://example.org/hub/", Some("a")), "wss://example.org/hub/acp/a");
    }

    #[test]
    fn addresses_that_are_no_hub_or_have_a_credential_are_refused() {
        for (hub, agent) in [
            ("hub.example.org", None),
            ("ftp://hub.example.org", None),
            ("unix:/run/hub", None),
            ("http://user:secret@hub.example.org", None),
            ("http://hub.example.org/?token=sb_x", None),
            ("http://hub.example.org/acp/claude", Some("codex")),
        ] {
            assert!(agent_url(hub, agent).is_err(), "{hub}");
        }
    }
}
