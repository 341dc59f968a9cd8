use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

/// The environment variable with a folder of recordings of other agents and clients.
const FOLDER: &str = "SWITCHBOARD_CAPTURES";

/// One recorded conversation.
#[derive(Debug)]
pub struct Recording {
    /// The file name without its extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its messages.
    pub lines: Vec<Recorded>,
}

/// One recorded message.
#[derive(Debug)]
pub struct Recorded {
    /// Set if the agent sent it.
    pub from_agent: bool,
    /// The message as JSON text, as in the file.
    pub message: String,
}

/// Returns all available recordings by name: those of our own demo agent in `fixtures/recordings`, and those
/// in the folder of `SWITCHBOARD_CAPTURES`. A configured folder without recordings is an error, so that no
/// test passes without input.
pub fn recordings() -> Vec<Recording> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut recordings = read_folder(&own);
    match std::env::var_os(FOLDER) {
        Some(folder) => recordings.extend(read_folder(Path::new(&folder))),
        None => println!("{FOLDER} is not set: only the demo agent's recordings are tried"),
    }
    recordings.sort_by(|left, right| left.name.cmp(&right.name));
    recordings
}

fn read_folder(folder: &Path) -> Vec<Recording> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let recordings: Vec<_> = entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(read)
        .collect();
    assert!(!recordings.is_empty(), "no recordings (*.jsonl) in {}", folder.display());
    recordings
}

#[derive(Deserialize)]
struct Line<'a> {
    dir: &'a str,
    #[serde(borrow)]
    msg: &'a RawValue,
}

fn read(path: PathBuf) -> Recording {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text
        .lines()
        .map(|line| {
            let Line { dir, msg } =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            Recorded { from_agent: dir == "agent->client", message: msg.get().to_owned() }
        })
        .collect();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Recording { name, path, lines }
}
