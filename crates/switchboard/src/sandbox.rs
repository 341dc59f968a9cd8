//! Sandboxes of agents: the option `--sandbox`, and the confinement that a program starts with.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use switchboard_acp::display::visible_line;
use switchboard_policy::{Policy, SandboxMode};
use switchboard_sandbox::{
    AgentNeeds, DeniedHost, Layout, OnDenied, Places, Plan, ProtectedChange, Sandbox, SandboxError,
    SandboxRequest, Watch,
};
use switchboard_transport::{
    Confined, Confinement, ConfinementNotice, OutputListener, Program, ProgramStart,
};
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
            let by_rules =
                rules.for_sandbox(Some(&context.folder)).ok().and_then(|policy| policy.sandbox().mode);
            return Ok(match by_rules.filter(|mode| *mode > SandboxMode::Off) {
                Some(mode) => program.with_notice(off_notice(mode)),
                None => program,
            });
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
    let rules = policy_file::files_of_user();
    Ok(Places { home, data: data.join("sandbox"), closed, rules, ports: context.ports.clone() })
}

/// Returns the path of this program. Fails if the file was replaced since it was started.
fn own_program() -> Result<PathBuf, SandboxError> {
    use std::os::unix::fs::MetadataExt;
    let failed = |error: std::io::Error| {
        SandboxError::new(format!("cannot find the program of Switchboard: {error}"))
            .advice("if it was updated, start it again")
    };
    let path = std::env::current_exe().map_err(failed)?;
    let found = path.metadata().map_err(failed)?;
    // The kernel's link leads to the running file, whatever its name has become.
    let running = Path::new("/proc/self/exe").metadata().map_err(failed)?;
    if (found.dev(), found.ino()) == (running.dev(), running.ino()) {
        return Ok(path);
    }
    let text = format!("{} is not the running program any more", path.display());
    Err(SandboxError::new(text).advice("if it was updated, start it again"))
}

/// Makes a sandbox of this machine for nothing but its proof. Returns the time that it took.
pub(crate) fn trial() -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot create a folder: {error}"))?;
    let begun = std::time::Instant::now();
    let tried = || -> Result<(), SandboxError> {
        let mut places =
            places(&SandboxContext::default()).map_err(|error| SandboxError::new(error.to_string()))?;
        places.data = folder.path().to_owned();
        // Only the machine is tried, not the user's rules.
        let rules = Rules::of(Policy::ask());
        let start = ProgramStart::new("/bin/true");
        let plan = plan_of(&Policy::ask(), &rules, None, AgentNeeds::default(), places, start)?;
        let mut sandbox = plan.create(None)?;
        let (mut command, inherited) = sandbox.command()?;
        let null = std::process::Stdio::null;
        command.stdin(null()).stdout(null()).stderr(std::process::Stdio::piped());
        let mut process = command
            .spawn()
            .map_err(|error| SandboxError::new(format!("cannot start bubblewrap: {error}")))?;
        drop(inherited);
        let ready = sandbox.wait_until_ready(&mut || match process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => {
                let mut words = String::new();
                if let Some(pipe) = process.stderr.take() {
                    // What cannot be read is missing in the message.
                    let _ = std::io::Read::read_to_string(&mut std::io::Read::take(pipe, 4096), &mut words);
                }
                Some(if words.is_empty() { format!("bubblewrap ended with {status}") } else { words })
            }
            Err(error) => Some(error.to_string()),
        });
        if ready.is_err() {
            let _ = process.kill();
        }
        let _ = process.wait();
        ready
    };
    tried().map_err(|error| error.to_string().replace("\n ", ";"))?;
    Ok(format!("made and proven in {} ms", begun.elapsed().as_millis()))
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
    plan_of(&policy, rules, mode, needs, places, start)
}

fn plan_of(
    policy: &Policy,
    rules: &Rules,
    mode: Option<SandboxMode>,
    needs: AgentNeeds,
    mut places: Places,
    start: ProgramStart,
) -> Result<Plan, SandboxError> {
    // Whether there is a sandbox was decided before, so a project cannot switch it off by now.
    let by_rules = policy.sandbox().mode.unwrap_or(SandboxMode::Workspace);
    let mode = mode.unwrap_or(by_rules).max(SandboxMode::Workspace);
    let roots: Vec<String> = start.roots.iter().map(|root| root.to_string_lossy().into_owned()).collect();
    places.rules.extend(rules.file().map(Path::to_owned));
    let init = own_program()?;
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
        let told = Arc::new(Told {
            layout: plan.layout().map_err(|error| error.to_string())?,
            roots: plan.roots().to_vec(),
            watch: Mutex::new(plan.watch()),
            denied: Mutex::default(),
            closed: Mutex::default(),
            sender,
        });
        let of_proxy = Arc::clone(&told);
        let on_denied: OnDenied = Arc::new(move |denied| of_proxy.denied(&denied));
        let sandbox = plan.create(Some(on_denied)).map_err(|error| error.to_string())?;
        Ok(Box::new(ConfinedAgent { sandbox, notices: Some(notices), told }))
    }
}

/// Returns the notice that a session runs without the sandbox of the rules.
fn off_notice(mode: SandboxMode) -> ConfinementNotice {
    ConfinementNotice {
        title: format!("sandbox: off by --sandbox=off; the rules say {mode}"),
        description: None,
        is_warning: true,
        data: json!({"mode": "off", "rules": mode.as_str()}),
    }
}

/// Maximum number of hosts and paths of a turn that are told.
const MAX_TOLD: usize = 100;
/// Maximum number of names in a notice.
const MAX_NAMES: usize = 8;

/// Everything that a sandbox tells its session.
struct Told {
    layout: Layout,
    roots: Vec<PathBuf>,
    watch: Mutex<Watch>,
    /// Refused hosts of the turn, with their number and the number that was told.
    denied: Mutex<HashMap<String, (DeniedHost, u64)>>,
    /// Closed paths of which the output of the turn told.
    closed: Mutex<HashSet<PathBuf>>,
    sender: mpsc::Sender<ConfinementNotice>,
}

impl Told {
    fn tell(&self, notice: ConfinementNotice) {
        // If too many wait, the session is not being read.
        let _ = self.sender.try_send(notice);
    }

    /// Tells the first refusal of a host in a turn at once.
    fn denied(&self, denied: &DeniedHost) {
        let mut all = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_TOLD && !all.contains_key(&denied.host) {
            return;
        }
        let (known, told) = all.entry(denied.host.clone()).or_insert_with(|| (denied.with_count(0), 0));
        *known = denied.with_count(known.count + 1);
        if *told == 0 {
            *told = 1;
            self.tell(denied_notice(known));
        }
    }

    /// Tells what is only known at the end of a turn: how often hosts were refused, and new protected names.
    fn turn_ended(&self) {
        let all = std::mem::take(&mut *self.denied.lock().unwrap_or_else(PoisonError::into_inner));
        let mut more: Vec<DeniedHost> = all
            .into_values()
            .filter(|(denied, told)| denied.count > *told)
            .map(|(denied, _)| denied)
            .collect();
        more.sort_by(|one, other| one.host.cmp(&other.host));
        more.iter().for_each(|denied| self.tell(denied_notice(denied)));
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let changes = self.watch.lock().unwrap_or_else(PoisonError::into_inner).changes();
        match changes {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => self.tell(changes_notice(&changes, &self.roots)),
            Err(reason) => self.tell(ConfinementNotice {
                title: format!("sandbox: protected names were not compared: {reason}"),
                description: None,
                is_warning: true,
                data: json!({"failed": "comparison", "reason": reason}),
            }),
        }
    }

    /// Tells of a closed path in the output of a failed tool call, which may be the reason.
    fn failed_output(&self, output: &str) {
        let Some((path, access, because)) = self.layout.told_of(output, &self.roots) else { return };
        let mut known = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TOLD || !known.insert(path.clone()) {
            return;
        }
        drop(known);
        let shown = visible_line(&shown_below(&path, &self.roots));
        self.tell(ConfinementNotice {
            title: format!("perhaps the sandbox: {shown} is {access} ({because})"),
            description: None,
            is_warning: false,
            data: json!({"denied": "path", "path": path, "access": access, "because": because, "perhaps": true}),
        });
    }
}

/// Returns a path as it is below one of the folders.
fn shown_below(path: &Path, roots: &[PathBuf]) -> String {
    let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    below.filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path).display().to_string()
}

fn changes_notice(changes: &[ProtectedChange], roots: &[PathBuf]) -> ConfinementNotice {
    let names = |is_new: bool| -> Option<String> {
        let all: Vec<String> = changes
            .iter()
            .filter(|change| change.is_new == is_new)
            .map(|change| visible_line(&shown_below(&change.path, roots)))
            .collect();
        let more = all.len().saturating_sub(MAX_NAMES);
        let named = all.get(..all.len().min(MAX_NAMES)).unwrap_or_default().join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let verb = if is_new { "made" } else { "changed" };
        (!all.is_empty()).then(|| format!("{verb} {named}{rest}"))
    };
    let parts: Vec<String> = [names(true), names(false)].into_iter().flatten().collect();
    let all: Vec<_> = changes
        .iter()
        .map(|change| json!({"path": change.path, "change": if change.is_new { "made" } else { "changed" }}))
        .collect();
    ConfinementNotice {
        title: format!("sandbox: the agent {}, which other programs run", parts.join(" and ")),
        description: Some(
            "Look at it before you use a program that obeys it, such as Git, an editor or a shell."
                .to_owned(),
        ),
        is_warning: true,
        data: json!({"changed": all}),
    }
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

/// Maximum length of a line of the agent that is looked at.
const MAX_LINE: usize = 1024 * 1024;
/// Maximum number of open tool calls whose output is kept, and of bytes of each.
const MAX_CALLS: usize = 64;
const MAX_OUTPUT: usize = 16 * 1024;

/// Pause after a comparison of files, as a multiple of the time that it took.
const COMPARISON_PAUSE: u32 = 4;

/// Reads along the output of an agent, of either version, for the ends of turns and failed tool calls.
struct OutputReader {
    told: Arc<Told>,
    line: Vec<u8>,
    is_too_long: bool,
    /// Output of open tool calls that may tell of a closed path.
    calls: HashMap<String, String>,
    /// Wakes the thread that compares files.
    ends: std::sync::mpsc::SyncSender<()>,
}

impl OutputReader {
    /// Creates a reader. The thread that compares files at the end of a turn ends with it.
    fn new(told: Arc<Told>) -> std::io::Result<Self> {
        let (ends, ended) = std::sync::mpsc::sync_channel::<()>(1);
        let of_thread = Arc::clone(&told);
        let compare = move || {
            for () in ended {
                let begun = std::time::Instant::now();
                of_thread.turn_ended();
                // An agent that ends many turns must not keep this machine busy.
                std::thread::park_timeout(begun.elapsed() * COMPARISON_PAUSE);
            }
        };
        std::thread::Builder::new().name("sandbox watch".to_owned()).spawn(compare)?;
        Ok(OutputReader { told, line: Vec::new(), is_too_long: false, calls: HashMap::new(), ends })
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (end, rest) = (&bytes[..at], &bytes[at + 1..]);
            bytes = rest;
            if std::mem::take(&mut self.is_too_long) {
                self.line.clear();
            } else if self.line.is_empty() {
                self.look_at(end);
            } else {
                self.line.extend_from_slice(end);
                let line = std::mem::take(&mut self.line);
                self.look_at(&line);
            }
        }
        if self.line.len() + bytes.len() > MAX_LINE {
            self.is_too_long = true;
            self.line.clear();
        }
        if !self.is_too_long {
            self.line.extend_from_slice(bytes);
        }
    }

    fn look_at(&mut self, line: &[u8]) {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        // A turn that seems to end too often costs a comparison.
        if has(b"\"stopReason\"") || has(b"\"idle\"") {
            let _ = self.ends.try_send(());
            self.calls.clear();
        }
        if !has(b"\"tool_call") {
            return;
        }
        let is_failed = has(b"\"failed\"");
        let text = String::from_utf8_lossy(line);
        if !is_failed && !switchboard_sandbox::may_tell_of_closed_path(&text) {
            return;
        }
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&text) else { return };
        let Some(update) = message.pointer("/params/update") else { return };
        let call = update["toolCallId"].as_str().unwrap_or_default();
        let mut output = self.calls.remove(call).unwrap_or_default();
        for key in ["content", "rawOutput", "_meta"] {
            collect_texts(&update[key], &mut output);
        }
        if update["status"] == "failed" {
            self.told.failed_output(&output);
        } else if self.calls.len() < MAX_CALLS && !output.is_empty() {
            self.calls.insert(call.to_owned(), output);
        }
    }
}

/// Appends all texts of a value, each on lines of its own, up to the limit.
fn collect_texts(value: &serde_json::Value, texts: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            let room = MAX_OUTPUT.saturating_sub(texts.len());
            let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            texts.push_str(&text[..end]);
            texts.push('\n');
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        serde_json::Value::Object(values) => values.values().for_each(|value| collect_texts(value, texts)),
        _ => {}
    }
}

struct ConfinedAgent {
    sandbox: Sandbox,
    notices: Option<mpsc::Receiver<ConfinementNotice>>,
    told: Arc<Told>,
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

    fn listener(&mut self) -> Option<OutputListener> {
        // Without a thread, the end of the process still tells.
        let mut reader = OutputReader::new(Arc::clone(&self.told)).ok()?;
        Some(Box::new(move |bytes| reader.take(bytes)))
    }

    fn ended(&mut self) {
        self.told.turn_ended();
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
        // Of these nothing is documented, or nothing is needed.
        let without = ["elizacp", "fx", "mcode", "pool"];
        for agent in agents::known() {
            let needs = needs_of(Some(agent.name));
            assert_eq!(needs == AgentNeeds::default(), without.contains(&agent.name), "{}", agent.name);
            let is_documented = needs.state.is_empty() || !needs.settings.is_empty();
            assert!(is_documented, "{}: everything that it obeys can be changed", agent.name);
        }
        assert!(needs_of(Some("codex")).nests && !needs_of(Some("claude")).nests);
        assert_eq!(needs_of(Some("unknown")), AgentNeeds::default());
    }
}
