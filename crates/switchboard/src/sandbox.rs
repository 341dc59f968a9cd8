//! Sandboxes of agents: the option `--sandbox`, and the confinement that a program starts with.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use switchboard_policy::SandboxMode;
use switchboard_sandbox::{
    AgentNeeds, DeniedHost, OnDenied, Places, Plan, Sandbox, SandboxError, SandboxRequest,
};
use switchboard_transport::{Confined, Confinement, ConfinementNotice, Program, ProgramStart};
use tokio::sync::mpsc;

use crate::agents;
use crate::configuration;
use crate::outcome::CommandError;
use crate::policy_file;
use crate::rules::Rules;
use crate::{standard_error, store_file};

/// Name of the hidden command that is the first process of a sandbox.
const INIT: &str = "sandbox-init";
/// Maximum number of notices that wait for their session.
const MAX_NOTICES: usize = 256;

/// Returns the arguments of the first process of a sandbox, if this is one.
pub(crate) fn init_arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == INIT).then(|| arguments.collect())
}

/// Runs the first process of a sandbox, which becomes the agent.
pub(crate) fn init(arguments: &[OsString]) -> ExitCode {
    let code = switchboard_sandbox::init(arguments);
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The option of commands that start agents.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct SandboxArgument {
    /// Confine the agent and all its processes: workspace, strict or off; without the option, the rules
    /// decide (see `switchboard sandbox`)
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "workspace",
        value_parser = SandboxMode::parse
    )]
    pub(crate) sandbox: Option<SandboxMode>,
}

/// Facts about a command that starts agents.
#[derive(Debug, Default, Clone)]
pub(crate) struct SandboxContext {
    /// Folder whose project decides, beside the user's rules, whether there is a sandbox.
    pub(crate) folder: PathBuf,
    /// Path of the store, if it is not the usual one.
    pub(crate) store: Option<PathBuf>,
    /// Ports on which the command listens.
    pub(crate) ports: Vec<u16>,
}

impl SandboxArgument {
    /// Returns the mode of a command: that of the option, else that of the rules.
    pub(crate) fn mode(&self, rules: &Rules, folder: &Path) -> Result<SandboxMode, CommandError> {
        let by_rules = rules
            .for_sandbox(Some(folder))
            .map(|policy| policy.sandbox().mode.unwrap_or(SandboxMode::Off))
            .map_err(CommandError::not_confined);
        match self.sandbox {
            None => match by_rules {
                Ok(mode) => Ok(mode),
                // Without a word about a sandbox, questions are asked as before. The problem is reported then.
                Err(_) if !policy_file::may_have_sandbox(folder) => Ok(SandboxMode::Off),
                Err(error) => Err(error.hint("correct the rules, or choose with --sandbox=off")),
            },
            Some(SandboxMode::Off) => {
                if by_rules.is_ok_and(|mode| mode > SandboxMode::Off) {
                    standard_error::say("switchboard: --sandbox=off switches off the sandbox of the rules");
                }
                Ok(SandboxMode::Off)
            }
            Some(mode) => by_rules.map(|_| mode),
        }
    }

    /// Returns a program that is confined as the option and the rules say. Agents on other machines cannot be.
    pub(crate) fn confine(
        &self,
        program: Program,
        agent: Option<&str>,
        rules: &Rules,
        context: &SandboxContext,
    ) -> Result<Program, CommandError> {
        if self.mode(rules, &context.folder)? == SandboxMode::Off {
            return Ok(program);
        }
        if program.is_relay() {
            return Err(CommandError::not_confined(
                "the sandbox cannot be made: this agent runs elsewhere and is only connected to",
            )
            .hint("confine it where it runs, or use --sandbox=off"));
        }
        let confinement = AgentSandbox {
            mode: self.sandbox,
            rules: rules.clone(),
            needs: needs_of(agent),
            places: places(context)?,
        };
        Ok(program.confined(Arc::new(confinement)))
    }
}

/// Returns the needs of an agent by its name: those of the known agent, else none.
pub(crate) fn needs_of(agent: Option<&str>) -> AgentNeeds {
    let Some(known) = agent.and_then(agents::find) else { return AgentNeeds::default() };
    let agents::SandboxNeeds { state, settings, hosts, env, set, nests } = known.sandbox;
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    AgentNeeds {
        state: owned(state),
        settings: owned(settings),
        hosts: owned(hosts),
        env: owned(env),
        set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        nests,
    }
}

/// Returns the places of this machine that matter to sandboxes.
pub(crate) fn places(context: &SandboxContext) -> Result<Places, CommandError> {
    let missing = || CommandError::not_confined("the sandbox cannot be made: HOME is not set");
    let home = configuration::home().ok_or_else(missing)?;
    let data = configuration::data_folder().ok_or_else(missing)?.join("switchboard");
    let mut closed = vec![data.clone()];
    closed.extend(configuration::configuration_folder().map(|folder| folder.join("switchboard")));
    closed.extend(store_file::place(context.store.as_ref()).ok());
    Ok(Places { home, data: data.join("sandbox"), closed, ports: context.ports.clone() })
}

/// The confinement of an agent's processes by the user's rules.
#[derive(Debug)]
struct AgentSandbox {
    /// The mode of the option.
    mode: Option<SandboxMode>,
    rules: Rules,
    needs: AgentNeeds,
    places: Places,
}

/// Returns the plan of a sandbox.
pub(crate) fn plan(
    rules: &Rules,
    mode: Option<SandboxMode>,
    needs: AgentNeeds,
    places: Places,
    start: ProgramStart,
) -> Result<Plan, SandboxError> {
    let policy = rules.for_sandbox(start.roots.first().map(PathBuf::as_path)).map_err(SandboxError::new)?;
    // Whether there is a sandbox was decided before, so a project cannot switch it off by now.
    let by_rules = policy.sandbox().mode.unwrap_or(SandboxMode::Workspace);
    let mode = mode.unwrap_or(by_rules).max(SandboxMode::Workspace);
    let roots: Vec<String> = start.roots.iter().map(|root| root.to_string_lossy().into_owned()).collect();
    let init = std::env::current_exe()
        .map_err(|error| SandboxError::new(format!("cannot find the program of Switchboard: {error}")))?;
    Plan::new(SandboxRequest {
        mode,
        // Rules may name an agent, whose own name is only known after its start: they apply to all.
        rules: policy.path_rules(None, mode, &roots, rules.files()),
        settings: policy.sandbox().clone(),
        roots: start.roots,
        working_directory: start.working_directory,
        program: start.path,
        arguments: start.arguments,
        environment: start.environment,
        needs,
        places,
        init,
    })
}

impl Confinement for AgentSandbox {
    fn confine(&self, start: ProgramStart) -> Result<Box<dyn Confined>, String> {
        let plan = plan(&self.rules, self.mode, self.needs.clone(), self.places.clone(), start)
            .map_err(|error| error.to_string())?;
        let (sender, notices) = mpsc::channel(MAX_NOTICES);
        let summary = ConfinementNotice {
            title: plan.summary(),
            description: None,
            is_warning: !plan.gaps().is_empty(),
            data: json!({
                "mode": plan.mode().as_str(),
                "network": plan.network().as_str(),
                "gaps": plan.gaps(),
            }),
        };
        // The first one always fits.
        let _ = sender.try_send(summary);
        let on_denied: OnDenied = Arc::new(move |denied| {
            if is_told(denied.count) {
                // If too many wait, the session is not being read, and the count is in the next one.
                let _ = sender.try_send(denied_notice(&denied));
            }
        });
        let sandbox = plan.create(Some(on_denied)).map_err(|error| error.to_string())?;
        Ok(Box::new(ConfinedAgent { sandbox, notices: Some(notices) }))
    }
}

/// Returns whether a refusal is told: the first one of a host, and then ever fewer.
fn is_told(count: u64) -> bool {
    count.checked_ilog10().is_some_and(|digits| count == 10_u64.pow(digits))
}

fn denied_notice(denied: &DeniedHost) -> ConfinementNotice {
    let DeniedHost { host, count, reason, .. } = denied;
    let pattern = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host);
    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
    ConfinementNotice {
        title: format!("sandbox: no connection to {host}{times}: {reason}"),
        description: Some(format!(
            "To allow it, run `switchboard sandbox allow {pattern}`, which adds {pattern:?} to `hosts` under [sandbox] in {}. \
             It applies to sandboxes that start afterwards.",
            policy_file::user_file_name()
        )),
        is_warning: true,
        data: json!({"denied": "host", "host": host, "count": count, "rule": pattern}),
    }
}

struct ConfinedAgent {
    sandbox: Sandbox,
    notices: Option<mpsc::Receiver<ConfinementNotice>>,
}

impl Confined for ConfinedAgent {
    fn command(&mut self) -> Result<(std::process::Command, OwnedFd), String> {
        self.sandbox.command().map_err(|error| error.to_string())
    }

    fn wait_until_ready(&mut self, ended: &mut dyn FnMut() -> Option<String>) -> Result<(), String> {
        self.sandbox.wait_until_ready(ended).map_err(|error| error.to_string())
    }

    fn notices(&mut self) -> Option<mpsc::Receiver<ConfinementNotice>> {
        self.notices.take()
    }
}

/// Returns the notice as an update of a session, in version 2.
pub(crate) fn notice_update(notice: &ConfinementNotice) -> serde_json::Value {
    use switchboard_acp::extensions::{META, SANDBOX};
    let ConfinementNotice { title, description, is_warning, data } = notice;
    let mut update = json!({
        "sessionUpdate": "notice",
        "severity": if *is_warning { "warning" } else { "info" },
        "title": title,
        META: {SANDBOX.name(): data},
    });
    if let Some(description) = description {
        update["description"] = json!(description);
    }
    update
}

/// Returns the error of a program that did not start: exit code 6 if its sandbox could not be made.
pub(crate) fn start_error(
    error: &switchboard_transport::Error,
    otherwise: impl FnOnce(String) -> CommandError,
) -> CommandError {
    let text = error.to_string();
    match error {
        switchboard_transport::Error::NotConfined { .. } => CommandError::not_confined(text),
        _ => otherwise(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_ever_more_rarely() {
        let told: Vec<u64> = (0..=2000).filter(|count| is_told(*count)).collect();
        assert_eq!(told, [1, 10, 100, 1000]);
    }

    #[test]
    fn a_denied_host_names_the_rule_to_add() {
        let notice = |host: &str| {
            let denied: DeniedHost = DeniedHost::new(host, 1, "it is not in the sandbox's hosts");
            denied_notice(&denied)
        };
        assert_eq!(notice("a.com:443").data["rule"], "a.com");
        assert_eq!(notice("a.com:8080").data["rule"], "a.com:8080");
        assert!(notice("a.com:443").description.unwrap().contains("switchboard sandbox allow a.com`"));
    }

    #[test]
    fn the_needs_of_known_agents_are_valid() {
        for agent in agents::known() {
            let needs = needs_of(Some(agent.name));
            for host in &needs.hosts {
                switchboard_policy::HostPattern::parse(host).unwrap();
            }
            for path in needs.state.iter().chain(&needs.settings) {
                let is_below_home = !path.starts_with('/') && !path.split('/').any(|name| name == "..");
                assert!(is_below_home && !path.is_empty(), "{}: {path}", agent.name);
            }
            for path in &needs.settings {
                assert!(
                    needs.state.iter().any(|state| path.starts_with(state.as_str())),
                    "{}: {path}",
                    agent.name
                );
            }
        }
        assert!(needs_of(Some("codex")).nests && !needs_of(Some("claude")).nests);
        assert_eq!(needs_of(Some("unknown")), AgentNeeds::default());
    }
}
