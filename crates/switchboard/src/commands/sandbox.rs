//! `switchboard sandbox`.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use switchboard_acp::display::visible_line;
use switchboard_policy::{HostPattern, SandboxMode, SandboxNetwork};
use switchboard_sandbox::{Mount, Plan, Target};
use switchboard_transport::{Program, ProgramStart};

use super::run::working_directory;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::policy_file::Extended;
use crate::rules::PermissionsArgument;
use crate::sandbox::{SandboxContext, needs_of, places, plan};

/// Show and try the sandbox of agents
///
/// `--sandbox` of run, bridge, open and serve, or `mode` in the table `[sandbox]` of the rules, confines an agent and all
/// its processes by the operating system. It can write only in the session's folders, sees only the system, the
/// toolchains and its own settings, and reaches only listed hosts.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  switchboard sandbox show claude\n  switchboard sandbox run -- cargo test\n  \
    switchboard sandbox why ~/.ssh\n  switchboard sandbox allow registry.example.com"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the sandbox of an agent: folders, hosts, variables
    Show(ShowArguments),
    /// Run a program in the sandbox of this folder
    Run(RunArguments),
    /// Explain the access to a path or host
    Why(WhyArguments),
    /// Add a host to the rules
    Allow(AllowArguments),
}

/// The sandbox to look at.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Working directory of the session, instead of the current one
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Mode, instead of that in the rules
    #[arg(long, value_name = "MODE", value_parser = SandboxMode::parse)]
    mode: Option<SandboxMode>,

    /// Name of a known agent, whose needs are included
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    #[command(flatten)]
    permissions: PermissionsArgument,
}

#[derive(Debug, clap::Args)]
struct ShowArguments {
    /// Name of a known agent
    #[arg(value_name = "AGENT")]
    name: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    #[command(flatten)]
    chosen: Chosen,

    /// Command line of the program
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct WhyArguments {
    /// Path, or host with an optional port
    #[arg(value_name = "PATH|HOST")]
    what: String,

    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, clap::Args)]
struct AllowArguments {
    /// Host, `*.name`, or an address, each with an optional port
    #[arg(value_name = "HOST", value_parser = HostPattern::parse)]
    host: HostPattern,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.command {
        Command::Show(arguments) => show(arguments),
        Command::Run(arguments) => run_program(arguments),
        Command::Why(arguments) => why(arguments),
        Command::Allow(arguments) => allow(&arguments.host),
    }
}

impl Chosen {
    fn plan(&self, program: PathBuf, arguments: Vec<OsString>) -> Result<Plan, CommandError> {
        let cwd = working_directory(self.cwd.as_ref())?;
        let rules = self.permissions.rules()?;
        let context = SandboxContext { folder: cwd.clone(), ..SandboxContext::default() };
        let start = ProgramStart::new(program).arguments(arguments).folder(cwd);
        let refused = |error: switchboard_sandbox::SandboxError| {
            let text = format!("the sandbox cannot be made: {}", error.reason());
            let hints = error.hints().iter();
            hints.fold(CommandError::not_confined(text), CommandError::hint).hint("nothing was started")
        };
        plan(&rules, self.mode, needs_of(self.agent.as_deref()), places(&context)?, start).map_err(refused)
    }
}

fn not_confined(error: &switchboard_sandbox::SandboxError) -> CommandError {
    let text = format!("the sandbox cannot be made: {}", error.reason());
    error
        .hints()
        .iter()
        .fold(CommandError::not_confined(text), CommandError::hint)
        .hint("nothing was started")
}

fn show(arguments: &ShowArguments) -> Result<Outcome, CommandError> {
    let mut chosen = Chosen {
        cwd: arguments.chosen.cwd.clone(),
        mode: arguments.chosen.mode,
        agent: arguments.name.clone().or_else(|| arguments.chosen.agent.clone()),
        permissions: PermissionsArgument { permissions: arguments.chosen.permissions.permissions.clone() },
    };
    if let Some(name) = &chosen.agent
        && crate::agents::find(name).is_none()
    {
        eprintln!("switchboard: {} is not a known agent; it gets what the rules open", visible_line(name));
        chosen.agent = None;
    }
    let plan = chosen.plan("/bin/sh".into(), Vec::new())?;
    let layout = plan.layout().map_err(|error| not_confined(&error))?;
    let mut output = std::io::stdout().lock();
    if arguments.json {
        let paths = |writable: bool| -> Vec<_> {
            let shown = layout.bindings.iter().filter(|binding| binding.is_writable == writable);
            shown.map(|binding| json!({"path": binding.target, "because": binding.because})).collect()
        };
        let closed: Vec<_> = layout
            .closed
            .iter()
            .map(|closed| {
                let (access, because) = layout.explain(&closed.path);
                json!({"path": closed.path, "access": access, "because": because})
            })
            .collect();
        let hosts: Vec<_> = plan
            .hosts()
            .patterns
            .iter()
            .map(|(host, because)| json!({"host": host.to_string(), "because": because}))
            .collect();
        let variables: Vec<_> =
            plan.environment().into_iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        let text = json!({
            "mode": plan.mode().as_str(), "network": plan.network().as_str(), "writable": paths(true),
            "readOnly": paths(false), "closed": closed, "hosts": hosts, "variables": variables, "gaps": plan.gaps(),
        });
        writeln!(output, "{text}").map_err(write_error)?;
        return Ok(Outcome::Fine);
    }
    let mut text = format!("{}\n", plan.summary());
    for (title, writable) in [("Writable", true), ("Read-only", false)] {
        text.push_str(&format!("\n{title}:\n"));
        for binding in layout.bindings.iter().filter(|binding| binding.is_writable == writable) {
            let path = visible_line(&binding.target.display().to_string());
            text.push_str(&format!("  {path:<40}  {}\n", binding.because));
        }
    }
    if !layout.closed.is_empty() {
        text.push_str("\nClosed inside these:\n");
        for closed in &layout.closed {
            let path = visible_line(&closed.path.display().to_string());
            let (access, because) = layout.explain(&closed.path);
            text.push_str(&format!("  {path:<40}  {access}: {because}\n"));
        }
    }
    text.push_str("\nHosts:\n");
    match plan.network() {
        SandboxNetwork::All => text.push_str("  all, including the loopback of this machine\n"),
        SandboxNetwork::None => text.push_str("  none\n"),
        SandboxNetwork::Hosts => {
            for (host, because) in &plan.hosts().patterns {
                text.push_str(&format!("  {:<40}  {because}\n", host.to_string()));
            }
        }
    }
    let names: Vec<String> =
        plan.environment().into_iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    text.push_str(&format!("\nVariables:\n  {}\n", visible_line(&names.join(" "))));
    let links = layout.mounts.iter().filter(|mount| matches!(mount, Mount::Link { .. })).count();
    text.push_str(&format!("\n{} mounts, {links} links\n", layout.mounts.len() - links));
    output.write_all(text.as_bytes()).map_err(write_error)?;
    Ok(Outcome::Fine)
}

fn run_program(arguments: &RunArguments) -> Result<Outcome, CommandError> {
    let (name, rest) =
        arguments.command.split_first().ok_or_else(|| CommandError::usage("which program?"))?;
    let path = Program::new(name).locate().map_err(|error| CommandError::failed(error.to_string()))?;
    let plan = arguments.chosen.plan(path, rest.to_vec())?;
    let on_denied: switchboard_sandbox::OnDenied = std::sync::Arc::new(|denied| {
        eprintln!("switchboard: no connection to {}: {}", visible_line(&denied.host), denied.reason);
    });
    let mut sandbox = plan.create(Some(on_denied)).map_err(|error| not_confined(&error))?;
    let (mut command, inherited) = sandbox.command().map_err(|error| not_confined(&error))?;
    let failed = |error: std::io::Error| CommandError::failed(format!("cannot start bubblewrap: {error}"));
    pipe_files(&mut command);
    let mut process = command.spawn().map_err(failed)?;
    drop(inherited);
    let outputs = copy_streams(&mut process);
    let mut ended = || match process.try_wait() {
        Ok(None) => None,
        // Its own message is on standard error already.
        Ok(Some(status)) => Some(format!("bubblewrap ended with {status}")),
        Err(error) => Some(error.to_string()),
    };
    if let Err(error) = sandbox.wait_until_ready(&mut ended) {
        let _ = process.kill();
        let _ = process.wait();
        return Err(not_confined(&error));
    }
    let status = process.wait().map_err(failed)?;
    for output in outputs {
        // A thread that has failed has said so.
        let _ = output.join();
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(Outcome::Exited(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Lets the standard streams that are files reach the program through pipes: it could open the file itself again, with more
/// rights than the stream has.
fn pipe_files(command: &mut std::process::Command) {
    use rustix::fs::{FileType, fstat};
    let is_file = |stream: std::os::fd::BorrowedFd<'_>| {
        let kind = fstat(stream).map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::RegularFile | FileType::Directory | FileType::BlockDevice))
    };
    if is_file(std::io::stdin().as_fd()) {
        command.stdin(Stdio::piped());
    }
    if is_file(std::io::stdout().as_fd()) {
        command.stdout(Stdio::piped());
    }
    if is_file(std::io::stderr().as_fd()) {
        command.stderr(Stdio::piped());
    }
}

/// Starts the threads that copy between the pipes of a process and the standard streams. Returns those of the outputs.
fn copy_streams(process: &mut std::process::Child) -> Vec<std::thread::JoinHandle<()>> {
    if let Some(mut pipe) = process.stdin.take() {
        // Not waited for: the program need not read its input.
        std::thread::spawn(move || drop(std::io::copy(&mut std::io::stdin().lock(), &mut pipe)));
    }
    // A failure to write ends the copy, and the program gets an error for its pipe.
    let output = process
        .stdout
        .take()
        .map(|mut pipe| std::thread::spawn(move || drop(std::io::copy(&mut pipe, &mut std::io::stdout()))));
    let error = process
        .stderr
        .take()
        .map(|mut pipe| std::thread::spawn(move || drop(std::io::copy(&mut pipe, &mut std::io::stderr()))));
    output.into_iter().chain(error).collect()
}

fn why(arguments: &WhyArguments) -> Result<Outcome, CommandError> {
    let plan = arguments.chosen.plan("/bin/sh".into(), Vec::new())?;
    let what = &arguments.what;
    let is_path = what.contains('/') || what.starts_with(['.', '~']) || std::path::Path::new(what).exists();
    let answer = if is_path {
        let path = match what.strip_prefix("~/") {
            Some(rest) => crate::configuration::home().unwrap_or_default().join(rest),
            None => std::path::absolute(what)
                .map_err(|error| CommandError::usage(format!("cannot use the path {what}: {error}")))?,
        };
        let layout = plan.layout().map_err(|error| not_confined(&error))?;
        // Where it leads, if it is there.
        let path = path.canonicalize().unwrap_or(path);
        let (access, because) = layout.explain(&path);
        format!("{}: {access} ({because})", visible_line(&path.display().to_string()))
    } else {
        let target = Target::parse(what).or_else(|| Target::parse(&format!("{what}:443")));
        let target =
            target.ok_or_else(|| CommandError::usage(format!("{what:?} is neither a path nor a host")))?;
        match (plan.network(), plan.hosts().reason(&target)) {
            (SandboxNetwork::All, _) => format!("{target}: reachable (network = \"all\")"),
            (SandboxNetwork::None, _) => format!("{target}: not reachable (network = \"none\")"),
            (SandboxNetwork::Hosts, Some(because)) => format!("{target}: reachable ({because})"),
            (SandboxNetwork::Hosts, None) => format!(
                "{target}: not reachable (it is not in the sandbox's hosts); `switchboard sandbox allow {}` adds it",
                target.host
            ),
        }
    };
    writeln!(std::io::stdout().lock(), "{answer}").map_err(write_error)?;
    Ok(Outcome::Fine)
}

fn allow(host: &HostPattern) -> Result<Outcome, CommandError> {
    let files = crate::policy_file::SystemFiles::new();
    let extended = Extended::with_host(&host.to_string(), &files)?;
    let file = extended.save().map_err(CommandError::failed)?;
    let output = &mut std::io::stdout().lock();
    writeln!(
        output,
        "{host} is in `hosts` of {}; it applies to sandboxes that start from now on",
        file.display()
    )
    .map_err(write_error)?;
    Ok(Outcome::Fine)
}
