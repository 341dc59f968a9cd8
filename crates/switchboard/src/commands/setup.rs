//! `switchboard setup`: configures editors to use the bridge.

mod agent_host;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use switchboard_acp::display::{visible, visible_line};
use switchboard_diff::{BuildOptions, build_from_bytes};

use crate::agents;
use crate::configuration::edited_file::EditedFile;
use crate::configuration::edited_json::EditedJson;
use crate::configuration::{Configuration, read_json};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::rules::Rules;
use crate::setup::command_line::{BridgeLine, BridgeOptions, CommandLine, address_at_hub};
use crate::setup::{self, ConfiguredBy, Editor, Entry, Kind, Record, Shape, Shim, Snippet};
use crate::store_file;

/// Configure an editor to reach its agents through Switchboard
///
/// Without arguments, lists the installed editors and their agents. With an editor and an agent, changes the
/// editor's own configuration so that it reaches the agent through `switchboard bridge`, which records the
/// sessions; an agent that the editor does not have is added if it is configured or known here. Comments,
/// order and everything else in the file are kept. A second call changes the options of the entry.
///
/// For editors that are configured by code (Neovim, Emacs) it prints the code and its place, or writes it
/// between two marked lines (--write). For JupyterLab and others that find agents on the PATH, it makes a
/// script with the name of the agent's program.
///
/// With `vscode` and --hub, but without an agent, all agents of the hub appear in VS Code's own chat.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard setup                      # editors and their agents\n  \
    switchboard setup zed codex --dry-run  # show the change\n  \
    switchboard setup zed codex --permissions rules.toml\n  \
    switchboard setup zed codex --hub wss://home.example --token-file token\n  \
    switchboard setup zed codex --undo     # as it was, byte for byte\n  \
    switchboard setup vscode --hub ws://127.0.0.1:4173 --token-file token\n  \
    switchboard setup neovim claude        # print the Lua for it\n  \
    switchboard setup jupyterlab claude    # a script on the PATH")]
pub(crate) struct Arguments {
    /// zed, jetbrains, vscode, obsidian, codecompanion, avante, agentic, agent-shell, jupyterlab, marimo, neovim,
    /// emacs or path
    editor: Option<String>,

    /// Name of the agent in the editor or here
    agent: Option<String>,

    /// Record the sessions in the store; this is the default for a new entry
    #[arg(long, requires = "agent", conflicts_with = "no_record")]
    record: bool,

    /// Do not record the sessions
    #[arg(long, requires = "agent")]
    no_record: bool,

    /// Answer permission requests with the rules of this file (see `switchboard policy`)
    #[arg(long, value_name = "FILE", requires = "agent")]
    permissions: Option<PathBuf>,

    /// Reach the agent at the hub with this URL, instead of starting it; the hub records and has its own rules
    #[arg(long, value_name = "URL", conflicts_with_all = ["record", "no_record", "permissions"])]
    hub: Option<String>,

    /// File that contains the token for the hub
    #[arg(long, value_name = "FILE", requires = "hub")]
    token_file: Option<PathBuf>,

    /// Write code into this file, between two marked lines, instead of printing it
    #[arg(long, value_name = "FILE", requires = "agent")]
    write: Option<PathBuf>,

    /// Show the change without making it
    #[arg(long, requires = "editor")]
    dry_run: bool,

    /// Undo the change
    #[arg(long, requires = "editor")]
    undo: bool,

    /// Answer questions with yes: edit the target of a symbolic link, copy this program out of a cache
    #[arg(long, requires = "editor")]
    yes: bool,
}

/// The request of the command line: an agent and the way to it.
struct Request<'a> {
    agent: &'a str,
    options: BridgeOptions,
    /// The command line of `connect`, with `--hub`.
    connect: Option<CommandLine>,
    arguments: &'a Arguments,
}

impl<'a> Request<'a> {
    fn new(arguments: &'a Arguments, agent: &'a str) -> Result<Self, CommandError> {
        let Arguments { record, no_record, hub, token_file, undo, .. } = arguments;
        let record = if *no_record { Some(false) } else { record.then_some(true) };
        let permissions = arguments.permissions.as_deref();
        if !undo && permissions.is_some() {
            // An agent does not start with rules that are invalid; the editor would only show that it ended.
            Rules::of_file(permissions)?;
        }
        let permissions = permissions.map(absolute).transpose()?;
        let connect = match hub {
            None => None,
            Some(hub) => {
                let token_file = token_file.as_deref().map(absolute).transpose()?;
                Some(CommandLine::Connect { url: address_at_hub(hub, agent)?, token_file })
            }
        };
        Ok(Request { agent, options: BridgeOptions { record, permissions }, connect, arguments })
    }

    /// Returns the path of this program for the editor.
    fn program(&self) -> Result<String, CommandError> {
        setup::our_program(self.arguments.dry_run, self.arguments.yes)
    }

    /// Returns the command line by the agent's name.
    fn line(&self) -> CommandLine {
        let by_name = || CommandLine::Bridge(BridgeLine::of_name(self.agent, &self.options));
        self.connect.clone().unwrap_or_else(by_name)
    }

    /// Returns a sentence about the recordings of a command line.
    fn about_recording(line: &CommandLine) -> Option<String> {
        let CommandLine::Bridge(line) = line else { return None };
        Some(match line.record.as_deref() {
            None => "sessions are not recorded; add --record to keep them".to_owned(),
            Some("--record") => {
                let store = store_file::place(None).map(|place| place.display().to_string());
                format!("sessions are recorded in {}", store.unwrap_or_else(|_| "the store".to_owned()))
            }
            Some(other) => format!("sessions are recorded: {other}"),
        })
    }
}

/// Returns a path that is valid in every folder. Fails unless the file exists.
fn absolute(file: &Path) -> Result<String, CommandError> {
    let path = file
        .canonicalize()
        .map_err(|error| CommandError::usage(format!("cannot find {}: {error}", file.display())))?;
    path.into_os_string().into_string().map_err(|path| {
        CommandError::usage(format!("the path {} is not valid UTF-8", path.display()))
            .hint("editors' files are text: use another path")
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Arguments { editor, agent, undo, write, .. } = arguments;
    let editors = match editor {
        Some(word) => Editor::named(word)?,
        None => Editor::ALL.to_vec(),
    };
    let changes = arguments.hub.is_some() || *undo || arguments.dry_run || arguments.yes;
    let Some(agent) = agent else {
        if !changes {
            return list(&editors);
        }
        if *editors != [Editor::VsCode] || (arguments.hub.is_none() && !undo) {
            return Err(CommandError::usage("which agent?")
                .hint("name it after the editor, as in `switchboard setup zed codex`")
                .hint("only VS Code can have all agents of a hub: `switchboard setup vscode --hub URL`"));
        }
        let mut output = Vec::new();
        agent_host::run(arguments, &mut output)?;
        let mut standard = std::io::stdout().lock();
        standard.write_all(&output).and_then(|()| standard.flush()).map_err(write_error)?;
        return Ok(Outcome::Fine);
    };
    let request = Request::new(arguments, agent)?;
    let mut output = Vec::new();
    for editor in &editors {
        match editor.configured_by() {
            _ if write.is_some() && editor.configured_by() != ConfiguredBy::Code => {
                return Err(CommandError::usage(format!("{} is not configured by code", editor.title()))
                    .hint("leave --write out"));
            }
            ConfiguredBy::File => change(*editor, &request, &mut output)?,
            ConfiguredBy::Shim => change_shim(&request, &mut output)?,
            ConfiguredBy::Relay if *undo => {
                return Err(CommandError::usage(format!("no file of {} was changed", editor.title()))
                    .hint("end the command that runs beside it"));
            }
            ConfiguredBy::Code if *undo && write.is_none() => {
                return Err(CommandError::usage(format!(
                    "{} is configured by code, which was not changed",
                    editor.title()
                ))
                .hint("remove the code that you added, or name the file with --write"));
            }
            ConfiguredBy::Code | ConfiguredBy::Relay => {}
        }
    }
    let is_code =
        |editor: &Editor| matches!(editor.configured_by(), ConfiguredBy::Code | ConfiguredBy::Relay);
    let by_code: Vec<Editor> = editors.into_iter().filter(is_code).collect();
    match write {
        _ if by_code.is_empty() => {}
        Some(file) if *undo => take_code_back(&by_code, &request, file, &mut output)?,
        _ => print_code(&by_code, &request, &mut output)?,
    }
    let mut standard = std::io::stdout().lock();
    standard.write_all(&output).and_then(|()| standard.flush()).map_err(write_error)?;
    Ok(Outcome::Fine)
}

/// Prints the table of editors and their agents.
fn list(editors: &[Editor]) -> Result<Outcome, CommandError> {
    let (mut output, mut has_problems) = (std::io::stdout().lock(), false);
    for editor in editors {
        let (name, title) = (editor.name(), editor.title());
        let Some(found) = editor.found() else {
            writeln!(output, "{name:<14} not found ({title})").map_err(write_error)?;
            continue;
        };
        writeln!(output, "{name:<14} {title}, found by {}", visible_line(&found.display().to_string()))
            .map_err(write_error)?;
        for (file, shape) in editor.files() {
            let shown = visible_line(&file.display().to_string());
            let lines = match read_json(&file) {
                Ok(Some(document)) => agents_of(shape, &document, *editor),
                Ok(None) => vec![format!("there is no {shown} yet")],
                Err(problem) => {
                    has_problems = true;
                    vec![visible(&problem).into_owned()]
                }
            };
            for line in lines {
                writeln!(output, "  {line}").map_err(write_error)?;
            }
        }
        let how = match editor.configured_by() {
            ConfiguredBy::File => continue,
            ConfiguredBy::Code => "configured by code: `switchboard setup NAME AGENT` prints the code",
            ConfiguredBy::Shim => {
                "finds agents on the PATH: `switchboard setup NAME AGENT` puts a script there"
            }
            ConfiguredBy::Relay => {
                "connects to a port: `switchboard setup NAME AGENT` prints the command that listens there"
            }
        };
        writeln!(output, "  {}", how.replace("NAME", name)).map_err(write_error)?;
    }
    Ok(if has_problems { Outcome::Problems } else { Outcome::Fine })
}

fn agents_of(shape: Shape, document: &Value, editor: Editor) -> Vec<String> {
    let entries = shape.entries(document);
    if entries.is_empty() {
        return vec!["has no agents of its own".to_owned()];
    }
    let line = |entry: Entry| {
        let name = visible_line(&entry.name);
        match &entry.kind {
            Kind::Direct(line) => {
                let line = visible_line(&line.join(" "));
                format!("{name:<12} {line} (switchboard setup {} {name})", editor.name())
            }
            Kind::Ours(CommandLine::Bridge(line)) => {
                format!("{name:<12} through Switchboard: {}", visible_line(&line.shown()))
            }
            Kind::Ours(CommandLine::Connect { url, .. }) => {
                format!("{name:<12} at a hub: {}", visible_line(url))
            }
            Kind::Own => format!("{name:<12} started by the editor itself"),
        }
    };
    entries.into_iter().map(line).collect()
}

/// Changes the files of an editor.
fn change(editor: Editor, request: &Request<'_>, output: &mut Vec<u8>) -> Result<(), CommandError> {
    if editor.found().is_none() {
        return Err(CommandError::usage(format!("{} was not found on this machine", editor.title()))
            .hint("`switchboard setup` lists the installed editors"));
    }
    let agent = request.agent;
    for (path, shape) in editor.files() {
        let path = target(&path, request.arguments)?;
        let file = EditedFile::read(&path)?;
        let refused = |reason: String| {
            CommandError::usage(format!("{} {reason}", path.display()))
                .hint("nothing was changed; correct it first")
        };
        let mut edited = EditedJson::parse(file.before().unwrap_or("{}\n")).map_err(refused)?;
        let document = edited.get(&[]).unwrap_or_default();
        if !document.is_object() {
            return Err(refused("is not an object".to_owned()));
        }
        let entry = chosen(shape.entries(&document), agent, &path)?;
        if request.arguments.undo {
            take_back(&file, &mut edited, entry.as_ref(), request, output)?;
            continue;
        }
        let change = Change::of(entry, request)?;
        let program = request.program()?;
        let added = change.apply(&mut edited, shape, request, &program).map_err(refused)?;
        if file.before().is_some_and(|before| before == edited.text()) {
            tell(
                output,
                &format!("\"{agent}\" in {} is already reached through Switchboard", path.display()),
            );
            continue;
        }
        if request.arguments.dry_run {
            show_change(&file, &edited.text(), output);
            continue;
        }
        let backup = Record::keep(&file, agent, &edited.text(), added.as_deref())?;
        file.write(&edited.text())?;
        let what = match (&added, &change) {
            (Some(name), _) => format!("\"{name}\" was added, reached through Switchboard"),
            (None, Change::Rewrite(..)) => format!("the options of \"{agent}\" were changed"),
            (None, _) => format!("\"{agent}\" is now reached through Switchboard"),
        };
        let place = backup.display();
        tell(output, &format!("{}: {what}; the previous content is in {place}", path.display()));
        if let Some(about) = Request::about_recording(&change.line(request)) {
            tell(output, &about);
        }
        tell(output, &format!("to undo it: switchboard setup {} {agent} --undo", editor.name()));
    }
    Ok(())
}

/// Returns the file to edit: the target of a symbolic link, if the user agrees.
fn target(path: &Path, arguments: &Arguments) -> Result<PathBuf, CommandError> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    let Ok(target) = path.canonicalize() else {
        // Reported where it is read.
        return Ok(path.to_owned());
    };
    let (link, file) = (path.display(), target.display());
    let question = format!("{link} is a symbolic link to {file}.\nChange {file}?");
    if arguments.dry_run || arguments.yes || agents::confirmed(&question) == Some(true) {
        return Ok(target);
    }
    Err(CommandError::usage(format!("{link} is a symbolic link to {file}; nothing was changed"))
        .hint(format!("add --yes to change {file}, unless a program generates it")))
}

/// A change of an editor's file.
enum Change {
    /// Adds an entry with this title.
    Add(String),
    /// Puts the bridge before the command of an entry.
    Wrap(Entry),
    /// Changes the command line of an entry that reaches its agent through Switchboard.
    Rewrite(Entry, CommandLine),
}

impl Change {
    /// Chooses the change. An agent at a hub is another agent than one of the editor, which keeps its entry.
    fn of(entry: Option<Entry>, request: &Request<'_>) -> Result<Self, CommandError> {
        if let Some(connect) = &request.connect {
            return Ok(match entry {
                Some(entry @ Entry { kind: Kind::Ours(CommandLine::Connect { .. }), .. }) => {
                    Change::Rewrite(entry, connect.clone())
                }
                _ => Change::Add(
                    agents::find(request.agent).map_or(request.agent, |known| known.title).to_owned(),
                ),
            });
        }
        let Some(entry) = entry else { return Ok(Change::Add(usable(request.agent)?)) };
        let line = match &entry.kind {
            Kind::Direct(_) => return Ok(Change::Wrap(entry)),
            Kind::Own => return Ok(Change::Add(usable(request.agent)?)),
            Kind::Ours(CommandLine::Bridge(line)) => CommandLine::Bridge(line.with(&request.options)),
            Kind::Ours(CommandLine::Connect { .. }) => {
                // From a hub back to an agent of this machine.
                usable(request.agent)?;
                request.line()
            }
        };
        Ok(Change::Rewrite(entry, line))
    }

    /// Changes the text. Returns the name of an added entry.
    fn apply(
        &self,
        edited: &mut EditedJson,
        shape: Shape,
        request: &Request<'_>,
        program: &str,
    ) -> Result<Option<String>, String> {
        match self {
            Change::Add(title) => shape.add(edited, request.agent, title, program, &request.line()).map(Some),
            Change::Wrap(entry) => setup::wrap(edited, entry, program, &request.options).map(|()| None),
            Change::Rewrite(entry, line) => setup::rewrite(edited, entry, program, line).map(|()| None),
        }
    }

    /// Returns the command line that results.
    fn line(&self, request: &Request<'_>) -> CommandLine {
        match self {
            Change::Rewrite(_, line) => line.clone(),
            Change::Add(_) | Change::Wrap(_) => request.line(),
        }
    }
}

/// Makes or removes the script of an agent on the `PATH`.
fn change_shim(request: &Request<'_>, output: &mut Vec<u8>) -> Result<(), CommandError> {
    let Request { agent, arguments, .. } = request;
    if arguments.undo {
        let shims = Shim::written(agent)?;
        if shims.is_empty() {
            return Err(CommandError::usage(format!("there is no script of \"{agent}\" to remove")));
        }
        for shim in shims {
            if !arguments.dry_run {
                std::fs::remove_file(&shim).map_err(|error| {
                    CommandError::failed(format!("cannot remove {}: {error}", shim.display()))
                })?;
            }
            let verb = if arguments.dry_run { "would be removed" } else { "was removed" };
            tell(output, &format!("{} {verb}", shim.display()));
        }
        return Ok(());
    }
    let shim = Shim::of(agent)?;
    let line = match &request.connect {
        Some(connect) => connect.clone(),
        None => CommandLine::Bridge(BridgeLine::of_command(vec![shim.program()?], &request.options)),
    };
    let script = shim.script(&request.program()?, &line);
    let file = EditedFile::read(&shim.path)?;
    if file.before().is_some() && Shim::written(agent)?.iter().all(|path| *path != shim.path) {
        return Err(CommandError::usage(format!(
            "{} exists and was not written by Switchboard; nothing was changed",
            shim.path.display()
        ))
        .hint("move it away"));
    }
    if arguments.dry_run {
        show_change(&file, &script, output);
        return Ok(());
    }
    file.write(&script)?;
    std::fs::set_permissions(&shim.path, PermissionsExt::from_mode(0o755)).map_err(|error| {
        CommandError::failed(format!("cannot make {} executable: {error}", shim.path.display()))
    })?;
    tell(output, &format!("{} reaches the agent through Switchboard", shim.path.display()));
    if let Some(about) = Request::about_recording(&line) {
        tell(output, &about);
    }
    tell(
        output,
        &format!("start the client with it: PATH=\"{}:$PATH\" jupyter lab", shim.folder().display()),
    );
    tell(output, &format!("to undo it: switchboard setup path {agent} --undo"));
    Ok(())
}

/// Returns the entry of an agent's name. Of several, the one with exactly that name.
fn chosen(entries: Vec<Entry>, agent: &str, file: &Path) -> Result<Option<Entry>, CommandError> {
    let mut meant: Vec<Entry> = entries.into_iter().filter(|entry| entry.is(agent)).collect();
    // An entry added by Switchboard takes precedence over the editor's own.
    if let Some(place) = meant.iter().position(|entry| entry.name == format!("{agent}-switchboard")) {
        return Ok(Some(meant.swap_remove(place)));
    }
    if let Some(place) = meant.iter().position(|entry| entry.name == agent) {
        return Ok(Some(meant.swap_remove(place)));
    }
    match &*meant {
        [] | [_] => Ok(meant.pop()),
        several => {
            let names: Vec<&str> = several.iter().map(|entry| entry.name.as_str()).collect();
            Err(CommandError::usage(format!(
                "{} has several agents that \"{agent}\" may mean",
                file.display()
            ))
            .hint(format!("name one: {}", names.join(", "))))
        }
    }
}

/// Returns the title of an agent that `bridge` will find by its name.
fn usable(agent: &str) -> Result<String, CommandError> {
    let folder = std::env::current_dir().unwrap_or_default();
    if agent == "demo" || Configuration::read(&folder).find(agent).is_some() {
        return Ok(agents::find(agent).map_or(agent, |known| known.title).to_owned());
    }
    match agents::find(agent) {
        Some(known) if known.installed().is_some() => Ok(known.title.to_owned()),
        Some(known) => Err(CommandError::usage(format!(
            "the editor has no agent \"{agent}\", and {} is not installed",
            known.title
        ))
        .hint(format!("to install it: {}", known.install))
        .hint(format!("to log in: {}", known.login))),
        None => {
            Err(CommandError::usage(format!("neither the editor nor Switchboard has an agent \"{agent}\""))
                .hint("`switchboard setup` shows those of editors, `switchboard agents` the others")
                .hint(format!("to add it: switchboard agents add {agent} -- COMMAND...")))
        }
    }
}

/// Checks an agent for an editor whose configuration is only printed. A known agent may be installed later,
/// so a note is enough; an unknown name is an error.
fn check_printed(agent: &str) -> Result<(), CommandError> {
    match usable(agent) {
        Ok(_) => Ok(()),
        Err(error) if agents::find(agent).is_some() => {
            let _ = error.report();
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn take_back(
    file: &EditedFile,
    edited: &mut EditedJson,
    entry: Option<&Entry>,
    request: &Request<'_>,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let (path, agent) = (file.path(), request.agent);
    let record = Record::of(path, agent)?;
    let unchanged =
        record.as_ref().filter(|record| file.before().is_some_and(|now| record.is_last_change(now)));
    let exact = unchanged.is_some();
    let after = match (unchanged, entry) {
        (Some(record), _) => record.before.clone(),
        (None, Some(entry @ Entry { kind: Kind::Ours(_), .. })) => {
            // Other changes since then are kept.
            // A way to a hub is always an entry of its own.
            let is_added = matches!(entry.kind, Kind::Ours(CommandLine::Connect { .. }))
                || record.as_ref().is_some_and(|record| record.added.as_ref() == Some(&entry.name));
            let taken =
                if is_added { edited.remove(&entry.path()).map(drop) } else { setup::unwrap(edited, entry) };
            taken.map_err(|reason| {
                CommandError::usage(format!("{} {reason}", path.display())).hint("change it by hand")
            })?;
            Some(edited.text())
        }
        (None, _) => {
            return Err(CommandError::usage(format!(
                "{} does not reach \"{agent}\" through Switchboard",
                path.display()
            ))
            .hint("`switchboard setup` shows what it has"));
        }
    };
    if request.arguments.dry_run {
        show_change(file, after.as_deref().unwrap_or_default(), output);
        return Ok(());
    }
    match &after {
        Some(after) => file.write(after)?,
        None => std::fs::remove_file(path)
            .map_err(|error| CommandError::failed(format!("cannot remove {}: {error}", path.display())))?,
    }
    Record::forget(path, agent);
    let how = if exact { "as it was" } else { "without the bridge; what else was changed since stays" };
    tell(output, &format!("{} is {how}", path.display()));
    Ok(())
}

/// Prints the code for editors, or writes it into a file.
fn print_code(editors: &[Editor], request: &Request<'_>, output: &mut Vec<u8>) -> Result<(), CommandError> {
    let (agent, line) = (request.agent, request.line());
    if request.connect.is_none() {
        check_printed(agent)?;
    }
    let program = request.program()?;
    let found: Vec<Editor> = editors.iter().copied().filter(|editor| editor.found().is_some()).collect();
    // A named editor is printed; for a common name, the installed ones.
    let editors = if found.is_empty() { editors } else { &found };
    let (mut problems, mut codes) = (Vec::new(), Vec::new());
    for editor in editors {
        match setup::snippet(*editor, agent, &program, &line) {
            Ok(snippet) => codes.push((*editor, snippet)),
            Err(problem) => problems.push(problem),
        }
    }
    if codes.is_empty() {
        let error = CommandError::usage(problems.join("; "));
        return Err(error.hint(format!(
            "its own way to add an agent will do, with the command: {program} {}",
            line.arguments().join(" ")
        )));
    }
    if let Some(path) = &request.arguments.write {
        return write_code(&codes, request, path, output);
    }
    for (editor, Snippet { code, place }) in codes {
        if editor.found().is_none() {
            eprintln!("switchboard: {} was not found on this machine", editor.title());
        }
        eprintln!("{}: put this {place}", editor.title());
        tell(output, code.trim_end());
    }
    if let Some(about) = Request::about_recording(&line) {
        eprintln!("{about}");
    }
    Ok(())
}

/// Writes code into a file of the user, between marked lines.
fn write_code(
    codes: &[(Editor, Snippet)],
    request: &Request<'_>,
    path: &Path,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let [(editor, snippet)] = codes else {
        let names: Vec<&str> = codes.iter().map(|(editor, _)| editor.name()).collect();
        return Err(CommandError::usage("several plugins may be meant, each of which has its own code")
            .hint(format!("name one: {}", names.join(", "))));
    };
    let file = EditedFile::read(&target(path, request.arguments)?)?;
    let after = setup::with_code(file.before().unwrap_or_default(), *editor, request.agent, &snippet.code);
    if request.arguments.dry_run {
        show_change(&file, &after, output);
        return Ok(());
    }
    file.write(&after)?;
    let (name, agent, place) = (editor.name(), request.agent, file.path().display());
    tell(output, &format!("{place}: the code for \"{agent}\" was written at the end"));
    tell(output, &format!("to undo it: switchboard setup {name} {agent} --write {place} --undo"));
    Ok(())
}

/// Removes the code that was written into a file.
fn take_code_back(
    editors: &[Editor],
    request: &Request<'_>,
    path: &Path,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let file = EditedFile::read(&target(path, request.arguments)?)?;
    let before = file.before().unwrap_or_default();
    let after = editors.iter().find_map(|editor| setup::without_code(before, *editor, request.agent));
    let Some(after) = after else {
        return Err(CommandError::usage(format!(
            "{} has no code for \"{}\" between the marked lines",
            file.path().display(),
            request.agent
        )));
    };
    if request.arguments.dry_run {
        show_change(&file, &after, output);
        return Ok(());
    }
    file.write(&after)?;
    tell(output, &format!("{}: the code was removed", file.path().display()));
    Ok(())
}

fn tell(output: &mut Vec<u8>, line: &str) {
    output.extend_from_slice(visible(line).as_bytes());
    output.push(b'\n');
}

/// Shows the change as a patch.
fn show_change(file: &EditedFile, after: &str, output: &mut Vec<u8>) {
    let before = file.before().map(str::as_bytes);
    let built = build_from_bytes(file.path(), before, Some(after.as_bytes()), &BuildOptions::default());
    match built.diff.patch {
        Some(patch) => tell(output, patch.text.trim_end()),
        None => tell(output, "nothing would be changed"),
    }
}
