//! Tests of the documentation: tutorials are executed, command lines are accepted by the program, and links
//! have a target.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use switchboard_testkit::{code_blocks, links};

const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the lines of all code blocks in these languages.
fn lines<'p>(page: &'p str, languages: &[&str]) -> Vec<&'p str> {
    let blocks = code_blocks(page).unwrap_or_else(|fault| panic!("{fault}\n{page}"));
    blocks.into_iter().filter(|block| languages.contains(&block.info)).flat_map(|block| block.lines).collect()
}

/// A command of a tutorial, with the expected parts of its output.
struct Step {
    command: String,
    expected: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines(text, &["console"]) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
        } else {
            let step = steps.last_mut().expect("a block begins with a command");
            match line.strip_prefix("> ") {
                Some(more) => step.command.extend(["\n", more]),
                None => step.expected.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Runs all commands of a tutorial in one shell, with an empty home, and compares their output.
fn follow(name: &str) {
    let text = std::fs::read_to_string(root().join("docs/tutorials").join(name)).unwrap();
    let steps = steps(&text);
    let folder = tempfile::tempdir().unwrap();
    let (home, project) = (folder.path().join("home"), folder.path().join("project"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&project).unwrap();
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        script.push_str(&format!("{}\nprintf '\\n=== %s %s\\n' {number} $?\n", step.command));
    }
    let output = folder.path().join("output");
    let file = std::fs::File::create(&output).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_switchboard")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .envs([("HOME", home.as_os_str()), ("PATH", path.as_ref()), ("LANG", "C.UTF-8".as_ref())])
        .current_dir(&project)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .process_group(0)
        .spawn()
        .unwrap();
    let group = rustix::process::Pid::from_child(&shell);
    let (ended, end) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || drop(ended.send(shell.wait())));
    let is_done = end.recv_timeout(PATIENCE).is_ok();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    waiting.join().unwrap();
    let output = std::fs::read_to_string(&output).unwrap();
    assert!(is_done, "{name} does not end:\n{output}");
    let mut rest = output.as_str();
    for (number, step) in steps.iter().enumerate() {
        let mark = format!("\n=== {number} ");
        let (said, after) = rest.split_once(&mark).unwrap_or_else(|| panic!("{name}: {number}: {output}"));
        let (code, after) = after.split_once('\n').unwrap();
        assert_eq!(code, "0", "{name}: {}\n{said}", step.command);
        for expected in &step.expected {
            assert!(said.contains(expected), "{name}: {}\nno {expected:?} in\n{said}", step.command);
        }
        rest = after;
    }
}

#[test]
fn the_tutorial_for_people_with_an_editor() {
    follow("editor.md");
}

#[test]
fn the_tutorial_for_authors_of_agents() {
    follow("agent-author.md");
}

#[test]
fn the_tutorial_for_authors_of_clients() {
    follow("client-author.md");
}

#[test]
fn the_tutorial_for_operators() {
    follow("operator.md");
}

#[test]
fn the_tutorial_for_people_who_debug() {
    follow("debugging.md");
}

#[test]
fn every_tutorial_is_followed() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("docs/tutorials"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["agent-author.md", "client-author.md", "debugging.md", "editor.md", "operator.md"]);
}

/// Returns all pages: those of the book, and those in the root.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root.join(name)).into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Splits a command into words, up to a pipe, redirection or separator.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut is_open, mut quote) = (String::new(), false, None);
    for letter in line.chars() {
        match (letter, quote) {
            (letter, Some(quoted)) if letter == quoted => quote = None,
            ('\'' | '"', None) => (quote, is_open) = (Some(letter), true),
            ('|' | '>' | '<' | '&' | ';', None) => break,
            ('#', None) if !is_open => break,
            (' ', None) => {
                if std::mem::take(&mut is_open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => {
                word.push(letter);
                is_open = true;
            }
        }
    }
    words.extend(is_open.then_some(word));
    words
}

/// With `--help` after all options, the program still reports unknown options.
#[test]
fn command_lines_are_ones_that_the_program_takes() {
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in lines(&text, &["sh", "console"]) {
            let line = line.trim_start_matches("$ ");
            let Some(rest) = line.strip_prefix("switchboard ") else { continue };
            let mut words = words(rest);
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.truncate(end);
            words.push("--help".to_owned());
            let output = Command::new(env!("CARGO_BIN_EXE_switchboard")).args(&words).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {line}\n{stderr}", page.display());
            count += 1;
        }
    }
    assert!(count > 40, "only {count} command lines were found");
}

/// The packages have one name. Another one may belong to somebody else.
#[test]
fn no_text_tells_to_install_a_name_that_is_not_ours() {
    let mut files = pages();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_text = path.extension().is_some_and(|extension| extension == "rs" || extension == "md");
            if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                folders.push(path);
            } else if is_text {
                files.push(path);
            }
        }
    }
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for begin in [
            "npm install -g",
            "npx",
            "uvx",
            "pip install",
            "uv tool install",
            "brew install",
            "cargo install",
        ] {
            for (at, found) in text.match_indices(&format!("{begin} switchboard")) {
                count += 1;
                let is_ours = begin != "cargo install" && text[at + found.len()..].starts_with("-acp");
                assert!(is_ours, "{}: {found}", file.display());
            }
        }
    }
    assert!(count > 5, "only {count} were found");
}

/// Returns the anchor of a heading, as generated by documentation sites.
fn anchor(heading: &str) -> String {
    let letters =
        heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    letters.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> Vec<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            if !wanted.is_empty() {
                let there = std::fs::read_to_string(&target).unwrap();
                assert!(
                    anchors(&there).iter().any(|anchor| anchor == wanted),
                    "{}: {link}: there is no such heading",
                    page.display()
                );
            }
            count += 1;
        }
    }
    assert!(count > 100, "only {count} links were found");
}

/// Every step of the data flow names an existing file, and passes the update on by a name that both files
/// contain.
#[test]
fn the_data_flow_of_the_architecture_is_that_of_the_code() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split("### One update").nth(1).unwrap().split("\n## ").next().unwrap();
    let quoted = |cell: &str| cell.trim().trim_matches('`').to_owned();
    let steps: Vec<(String, String)> = section
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("`crates/"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (quoted(cells[2]), quoted(cells[3]))
        })
        .collect();
    assert!(steps.len() >= 10, "{steps:?}");
    let code = |file: &str| {
        std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    for pair in steps.windows(2) {
        let [(file, name), (next, _)] = pair else { unreachable!() };
        for file in [file, next] {
            // A method is called and declared with different prefixes.
            let method = name.rsplit('.').next().unwrap();
            assert!(!name.is_empty() && code(file).contains(method), "{file} has no {name:?}");
        }
    }
    for file in section.split('`').filter(|word| word.starts_with("crates/")) {
        assert!(root().join(file).exists(), "{file}");
    }
}

#[test]
fn the_book_has_every_page() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for page in pages() {
        let Ok(name) = page.strip_prefix(&docs) else { continue };
        let name = name.to_str().unwrap();
        let count = summary.matches(&format!("({name})")).count();
        assert!(name == "SUMMARY.md" || count == 1, "{name} is {count} times in the book");
    }
}
