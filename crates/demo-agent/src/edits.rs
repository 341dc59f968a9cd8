//! Scenarios that edit files.

use std::path::{Path, PathBuf};

use switchboard_acp::{AbsolutePath, v2};
use switchboard_diff::{BuildOptions, Built, Detect, Renames, build_from_trees};
use switchboard_peer::Turn;

use super::{END, Played, ScenarioError};

/// The folder that scenarios edit, in a known state.
pub(crate) struct Folder(PathBuf);

const FILES: [(&str, &[u8]); 6] = [
    ("config.json", b"{\n  \"debug\": false,\n  \"level\": 3\n}\n"),
    ("greeting.txt", b"Good morning,\nladies and gentlemen.\n"),
    (
        "letter.txt",
        b"Dear reader,\n\nthis letter moves house.\nIt stays the same\nbut for one line.\n\nYours\n",
    ),
    ("obsolete.txt", b"Nobody needs this.\n"),
    ("template.txt", b"Name:\nStreet:\nTown:\nCountry:\n"),
    ("picture.bin", b"\x89DEMO\x00\x01\x02\x03"),
];

impl Folder {
    /// Creates or restores the folder, so that every run does the same.
    pub(crate) fn prepare(turn: &Turn) -> Result<Self, ScenarioError> {
        let cwd = Path::new(turn.session().cwd());
        if !cwd.is_dir() {
            return Err(ScenarioError(format!("there is no folder {}", cwd.display())));
        }
        let folder = cwd.join("switchboard-demo");
        match folder.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(&folder)?,
            Ok(_) => return Err(ScenarioError(format!("{} is in the way", folder.display()))),
            Err(_) => {}
        }
        fill(&folder)?;
        Ok(Folder(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the changes since it was prepared.
    fn diff(&self) -> Result<Built, ScenarioError> {
        let before = tempfile::tempdir()?;
        fill(before.path())?;
        let options = BuildOptions {
            renames: Renames { detect: Detect::CopiesOfAll, ..Renames::default() },
            root: Some(self.0.clone()),
            ..BuildOptions::default()
        };
        Ok(build_from_trees(before.path(), &self.0, &options)?)
    }
}

fn fill(folder: &Path) -> Result<(), ScenarioError> {
    std::fs::create_dir_all(folder)?;
    for (name, content) in FILES {
        std::fs::write(folder.join(name), content)?;
    }
    std::os::unix::fs::symlink("greeting.txt", folder.join("link"))?;
    Ok(())
}

/// Performs the edit inside a tool call that shows its diff.
async fn edit_with(
    turn: &Turn,
    title: &str,
    edit: impl FnOnce(&Folder) -> Result<(), ScenarioError>,
) -> Played {
    let folder = Folder::prepare(turn)?;
    let call = turn.tool_call(title).kind(v2::ToolKind::Edit).begin().await?;
    edit(&folder)?;
    let built = folder.diff()?;
    let paths: Vec<String> = built.diff.changes.iter().map(|change| change.path.clone()).collect();
    let location = |path: &String| AbsolutePath::parse(path.clone()).map(v2::ToolCallLocation::new);
    let locations = paths.iter().map(location).collect::<Result<Vec<_>, _>>()?;
    call.update(|update| update.locations(locations)).await?;
    call.diff(&built.diff).await?;
    call.complete().await?;
    turn.say(&format!("{} changed in `{}`.", count(paths.len()), folder.0.display())).await?;
    Ok(END)
}

fn count(files: usize) -> String {
    if files == 1 { "One file".to_owned() } else { format!("{files} files") }
}

pub(crate) async fn edit(turn: &Turn) -> Played {
    edit_with(turn, "Edit five files", |folder| {
        std::fs::write(folder.path("new.txt"), "This file is new.\n")?;
        std::fs::remove_file(folder.path("obsolete.txt"))?;
        std::fs::write(folder.path("config.json"), "{\n  \"debug\": true,\n  \"level\": 3\n}\n")?;
        std::fs::remove_file(folder.path("letter.txt"))?;
        std::fs::create_dir(folder.path("letters"))?;
        std::fs::write(
            folder.path("letters/letter.txt"),
            "Dear reader,\n\nthis letter has moved house.\nIt stays the same\nbut for one line.\n\nYours\n",
        )?;
        std::fs::copy(folder.path("template.txt"), folder.path("form.txt"))?;
        Ok(())
    })
    .await
}

pub(crate) async fn binary(turn: &Turn) -> Played {
    edit_with(turn, "Change a picture", |folder| {
        Ok(std::fs::write(folder.path("picture.bin"), b"\x89DEMO\x00\xFF\xFE\x03\x04")?)
    })
    .await
}

pub(crate) async fn symlink(turn: &Turn) -> Played {
    edit_with(turn, "Point a link elsewhere", |folder| {
        std::fs::remove_file(folder.path("link"))?;
        Ok(std::os::unix::fs::symlink("config.json", folder.path("link"))?)
    })
    .await
}
