//! The setting `editor`: the command that opens files of a session from the page of `open`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use switchboard_web::Editor;

use super::own_settings;

/// Stands for the path of the file in an argument.
const FILE: &str = "{file}";
/// Stands for the line in an argument.
const LINE: &str = "{line}";

/// A command line such as `["code", "--goto", "{file}:{line}"]`. It comes from the user's own configuration only, never
/// from that of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditorCommand {
    program: String,
    arguments: Vec<String>,
}

impl EditorCommand {
    /// Reads the setting. An invalid one is reported and ignored.
    pub(crate) fn read() -> Option<Self> {
        match EditorCommand::parse(&own_settings("editor")?) {
            Ok(command) => Some(command),
            Err(problem) => {
                eprintln!("switchboard: the setting editor {problem}");
                None
            }
        }
    }

    /// Parses a list of words, of which one has the path of the file.
    pub(crate) fn parse(setting: &Value) -> Result<Self, String> {
        let expected = r#"expected a list of words such as ["code", "--goto", "{file}:{line}"]"#;
        let words = setting.as_array().and_then(|words| {
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        let mut words = words.ok_or_else(|| format!("{expected}, found {setting}"))?.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or(expected)?;
        let arguments: Vec<String> = words.collect();
        if !arguments.iter().any(|argument| argument.contains(FILE)) {
            return Err(format!("names no {FILE}: {expected}"));
        }
        Ok(EditorCommand { program, arguments })
    }

    /// Returns the arguments for a file and a line.
    fn arguments(&self, file: &str, line: u32) -> Vec<String> {
        // The line first: the path of a file may contain the other placeholder.
        let filled = |argument: &String| argument.replace(LINE, &line.to_string()).replace(FILE, file);
        self.arguments.iter().map(filled).collect()
    }
}

impl Editor for EditorCommand {
    fn open(&self, file: &Path, line: u32) -> Result<(), String> {
        let name = file.to_str().ok_or("the path of the file is not UTF-8")?;
        let mut command = Command::new(&self.program);
        command.args(self.arguments(name, line));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| format!("the editor {} does not start: {error}", self.program))?;
        // It is waited for, so that no zombie remains.
        std::thread::Builder::new()
            .name("editor".to_owned())
            .spawn(move || child.wait())
            .map(drop)
            .map_err(|error| format!("the editor was started, but cannot be waited for: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_names_the_file_and_may_name_the_line() {
        let editor = EditorCommand::parse(&json!(["code", "--goto", "{file}:{line}"])).unwrap();
        assert_eq!(editor.arguments("/w/a {line} b", 12), ["--goto", "/w/a {line} b:12"]);
        let editor = EditorCommand::parse(&json!(["gedit", "{file}"])).unwrap();
        assert_eq!(editor.arguments("/w/a", 12), ["/w/a"]);
        for wrong in [json!("code"), json!([]), json!(["code"]), json!(["", "{file}"]), json!(["code", 1])] {
            assert!(EditorCommand::parse(&wrong).unwrap_err().contains("{file}"), "{wrong}");
        }
    }
}
