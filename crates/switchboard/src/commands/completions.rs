//! `switchboard completions` and `switchboard man`, generated from the command line definition.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::outcome::{CommandError, Outcome, write_error};

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard\n  \
    switchboard completions zsh > ~/.zfunc/_switchboard     # a folder of fpath\n  \
    switchboard completions fish > ~/.config/fish/completions/switchboard.fish")]
pub(crate) struct Arguments {
    /// Shell that reads the script
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write the manual pages into a folder
///
/// One page per command: switchboard.1, switchboard-run.1 and so on. The folder is created if it does not
/// exist.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// Folder for the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::Arguments::command(), "switchboard", &mut text);
    let mut output = std::io::stdout().lock();
    output.write_all(&text).and_then(|()| output.flush()).map_err(write_error)?;
    Ok(Outcome::Fine)
}

pub(crate) fn write_manual(arguments: &ManArguments) -> Result<Outcome, CommandError> {
    let folder: &Path = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), folder))
        .map_err(|error| CommandError::failed(format!("cannot write to {}: {error}", folder.display())))?;
    Ok(Outcome::Fine)
}
