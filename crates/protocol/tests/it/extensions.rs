//! Names of extensions are declared in `src/extensions` and not repeated elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Files with the word `"hub"` for something other than a record, with the reason.
const OTHER_HUBS: [(&str, &str); 9] = [
    ("protocol/src/recorded.rs", "the member of a recorded line that holds a record"),
    ("switchboard/src/configuration/hub.rs", "a setting"),
    ("switchboard/src/commands.rs", "the name of a command"),
    ("switchboard/src/commands/setup.rs", "the name of an option"),
    ("switchboard/src/commands/doctor/hub.rs", "the heading of findings"),
    ("switchboard/src/configuration.rs", "the name of a setting"),
    ("switchboard/src/commands/sessions/show.rs", "the name of a channel"),
    ("web/src/wire.rs", "the name of a channel"),
    ("telemetry/src/connection/questions.rs", "the value of an attribute"),
];

/// The module that declares them.
const DECLARATIONS: &str = "protocol/src/extensions";

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Collects the Rust files below a folder, except tests, which spell out wire content.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_tests = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_tests {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            found.push(path);
        }
    }
}

/// Returns the lines of code of a file by number, without comments and its test module.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_test_module = |line: usize| {
        let mut rest = lines[line..].iter().skip_while(|line| line.starts_with("#["));
        lines[line] == "#[cfg(test)]"
            && rest.next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let end = (0..lines.len()).find(|line| is_test_module(*line)).unwrap_or(lines.len());
    let lines = text.lines().enumerate().take(end);
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(index, line)| (index + 1, line))
}

/// Returns the name of an extension that a line spells out: `"switchboard/`, `"_switchboard/` or `"acp/`, also in a raw or
/// escaped string.
fn spelled(line: &str) -> Option<&'static str> {
    ["\"switchboard/", "\"_switchboard/", "\"acp/"].into_iter().find(|name| line.contains(name))
}

#[test]
fn names_of_extensions_are_spelled_in_one_module() {
    let crates = crates();
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 300, "only {} files were found", files.len());
    let mut problems = Vec::new();
    let mut declared = 0;
    for path in files {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
        let text = fs::read_to_string(&path).unwrap();
        let other_hub = OTHER_HUBS.iter().any(|(file, _)| *file == name);
        for (number, line) in code(&text) {
            let is_record = line.contains("\"hub\"") && !other_hub;
            if name.starts_with(DECLARATIONS) {
                declared += usize::from(spelled(line).is_some());
            } else if spelled(line).is_some() || is_record {
                problems.push(format!("crates/{name}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(declared > 20, "only {declared} declarations were found");
    assert!(
        problems.is_empty(),
        "declare these names in switchboard_acp::extensions and use the declaration:\n{}",
        problems.join("\n")
    );
}

#[test]
fn the_exceptions_are_needed() {
    for (file, reason) in OTHER_HUBS {
        let text = fs::read_to_string(crates().join(file)).unwrap_or_default();
        assert!(code(&text).any(|(_, line)| line.contains("\"hub\"")), "{file} has no {reason} any more");
    }
}

#[test]
fn the_search_finds_names_in_code_alone() {
    let found = |text: &str| code(text).filter(|(_, line)| spelled(line).is_some()).count();
    assert_eq!(found("const A: &str = \"switchboard/a\";"), 1);
    assert_eq!(found("let a = json!({\"_meta\": {\"switchboard/a\": 1}, \"m\": \"_switchboard/b\"});"), 1);
    assert_eq!(found("let a = r#\"{\"acp/cursor\":1}\"#;\nlet b = \"{\\\"switchboard/a\\\":1}\";"), 2);
    assert_eq!(found("/// `\"switchboard/a\"`\n// \"acp/cursor\"\n"), 0);
    assert_eq!(found("fn a() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"acp/a\";\n}\n"), 0);
    assert_eq!(found("#[cfg(test)]\n#[allow(x)]\nmod tests {\n    const A: &str = \"acp/a\";\n}\n"), 0);
    assert_eq!(found("#[cfg(test)]\nmod tests;\nconst A: &str = \"acp/a\";\n"), 1);
}
