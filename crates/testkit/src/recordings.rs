use std::path::PathBuf;

/// The environment variable that names a folder of recordings.
const FOLDER: &str = "SWITCHBOARD_CAPTURES";

/// One recorded conversation.
#[derive(Debug)]
pub struct Recording {
    /// The file's name without its ending.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its messages.
    pub lines: Vec<Recorded>,
}

/// One recorded message.
#[derive(Debug)]
pub struct Recorded {
    /// Whether the agent sent it.
    pub from_agent: bool,
    /// The message as JSON text.
    pub message: String,
}

/// All recordings in the folder that `SWITCHBOARD_CAPTURES` names, by name; none when it names none.
pub fn recordings() -> Vec<Recording> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        println!("{FOLDER} is not set: no recordings to try");
        return Vec::new();
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut recordings: Vec<_> = entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(read)
        .collect();
    recordings.sort_by(|left, right| left.name.cmp(&right.name));
    recordings
}

fn read(path: PathBuf) -> Recording {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("a recorded line");
            Recorded { from_agent: line["dir"] == "agent->client", message: line["msg"].to_string() }
        })
        .collect();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Recording { name, path, lines }
}
