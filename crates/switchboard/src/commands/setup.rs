//! `switchboard setup`: configures editors to use the bridge.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use switchboard_acp::display::{visible, visible_line};
use switchboard_diff::{BuildOptions, build_from_bytes};

use crate::agents;
use crate::configuration::edited_file::EditedFile;
use crate::configuration::edited_json::EditedJson;
use crate::configuration::{Configuration, read_json};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::setup::{self, Editor, Entry, Kind, Record, Shape, Snippet};

/// Configure an editor to reach its agents through Switchboard
///
/// Without arguments, lists the installed editors and their agents. With an editor and an agent, changes the
/// editor's own configuration so that it reaches the agent through `switchboard bridge`; an agent that the
/// editor does not have is added if it is configured or known here. Comments, order and everything else in
/// the file are kept. For editors that are configured by code (Neovim, Emacs) it prints the code and its
/// place.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard setup                      # what there is\n  \
    switchboard setup zed codex --dry-run  # show what would be changed\n  \
    switchboard setup zed codex\n  \
    switchboard setup zed codex --undo     # as it was, byte for byte\n  \
    switchboard setup neovim claude        # print the Lua for it")]
pub(crate) struct Arguments {
    /// zed, jetbrains, obsidian, codecompanion, avante, agentic, agent-shell, neovim or emacs
    editor: Option<String>,

    /// Name of the agent in the editor or here
    agent: Option<String>,

    /// Show the change without making it
    #[arg(long, requires = "agent")]
    dry_run: bool,

    /// Undo the change
    #[arg(long, requires = "agent")]
    undo: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let Arguments { editor, agent, dry_run, undo } = arguments;
    let editors = match editor {
        Some(word) => Editor::named(word)?,
        None => Editor::ALL.to_vec(),
    };
    let Some(agent) = agent else { return list(&editors) };
    let mut output = Vec::new();
    for editor in &editors {
        if editor.has_file() {
            change(*editor, agent, *dry_run, *undo, &mut output)?;
        } else if *undo {
            return Err(CommandError::usage(format!(
                "{} is configured by code, which was not changed",
                editor.title()
            ))
            .hint("remove the code that you added"));
        }
    }
    let by_code: Vec<Editor> = editors.into_iter().filter(|editor| !editor.has_file()).collect();
    if !by_code.is_empty() {
        print_code(&by_code, agent, &mut output)?;
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
        if !editor.has_file() {
            writeln!(output, "  configured by code: `switchboard setup {name} AGENT` prints the code")
                .map_err(write_error)?;
        }
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
            Kind::Bridged(line) => {
                format!("{name:<12} through Switchboard: {}", visible_line(&line.join(" ")))
            }
            Kind::Own => format!("{name:<12} started by the editor itself"),
        }
    };
    entries.into_iter().map(line).collect()
}

fn change(
    editor: Editor,
    agent: &str,
    is_dry: bool,
    undo: bool,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    if editor.found().is_none() {
        return Err(CommandError::usage(format!("{} was not found on this machine", editor.title()))
            .hint("`switchboard setup` lists the installed editors"));
    }
    for (path, shape) in editor.files() {
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
        if undo {
            take_back(&file, &mut edited, entry.as_ref(), agent, is_dry, output)?;
            continue;
        }
        let program = setup::our_program()?;
        let added = match &entry {
            Some(Entry { kind: Kind::Bridged(_), name, .. }) => {
                tell(
                    output,
                    &format!("\"{name}\" in {} is already reached through Switchboard", path.display()),
                );
                continue;
            }
            Some(entry @ Entry { kind: Kind::Direct(_), .. }) => {
                setup::wrap(&mut edited, entry, &program).map_err(refused)?;
                None
            }
            Some(Entry { kind: Kind::Own, .. }) | None => {
                let title = usable(agent)?;
                Some(shape.add(&mut edited, agent, &title, &program).map_err(refused)?)
            }
        };
        if is_dry {
            show_change(&file, &edited.text(), output);
            continue;
        }
        let backup = Record::keep(&file, agent, &edited.text(), added.as_deref())?;
        file.write(&edited.text())?;
        let what = added.as_deref().map_or_else(
            || format!("\"{agent}\" is now reached"),
            |name| format!("\"{name}\" was added, reached"),
        );
        tell(
            output,
            &format!(
                "{}: {what} through Switchboard; the previous content is in {}",
                path.display(),
                backup.display()
            ),
        );
        tell(output, &format!("to undo it: switchboard setup {} {agent} --undo", editor.name()));
    }
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
    agent: &str,
    is_dry: bool,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let path = file.path();
    let record = Record::of(path, agent)?;
    let unchanged =
        record.as_ref().filter(|record| file.before().is_some_and(|now| record.is_last_change(now)));
    let exact = unchanged.is_some();
    let after = match (unchanged, entry) {
        (Some(record), _) => record.before.clone(),
        (None, Some(entry @ Entry { kind: Kind::Bridged(_), .. })) => {
            // Other changes since then are kept.
            let is_added = record.as_ref().is_some_and(|record| record.added.as_ref() == Some(&entry.name));
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
    if is_dry {
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

fn print_code(editors: &[Editor], agent: &str, output: &mut Vec<u8>) -> Result<(), CommandError> {
    check_printed(agent)?;
    let program = setup::our_program()?;
    let found: Vec<Editor> = editors.iter().copied().filter(|editor| editor.found().is_some()).collect();
    // A named editor is printed; for a common name, the installed ones.
    let editors = if found.is_empty() { editors } else { &found };
    let mut problems = Vec::new();
    for editor in editors {
        match setup::snippet(*editor, agent, &program) {
            Ok(Snippet { code, place }) => {
                if editor.found().is_none() {
                    eprintln!("switchboard: {} was not found on this machine", editor.title());
                }
                eprintln!("{}: put this {place}", editor.title());
                tell(output, code.trim_end());
            }
            Err(problem) => problems.push(problem),
        }
    }
    if output.is_empty() {
        let error = CommandError::usage(problems.join("; "));
        return Err(error.hint(format!(
            "its own way to add an agent will do, with the command: {program} bridge {agent}"
        )));
    }
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
