//! Rules made from a request.

use std::fmt::Write;

use switchboard_acp::display::is_hidden;
use switchboard_acp::v2::ToolKind;

use crate::{Host, Operation, Policy, Program, Subject, Verdict};

/// Commands that only read, or only write to the project's build folder, with any arguments.
const HARMLESS: [(&str, &[&str]); 2] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    ("git", &["blame", "describe", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"]),
];

/// Words of commands that change more than the project, or cannot be undone.
const IRREVERSIBLE: [&str; 40] = [
    "add",
    "apply",
    "auth",
    "checkout",
    "clean",
    "commit",
    "config",
    "delete",
    "deploy",
    "destroy",
    "drop",
    "eval",
    "exec",
    "fetch",
    "get",
    "init",
    "install",
    "kill",
    "link",
    "login",
    "merge",
    "prune",
    "publish",
    "pull",
    "purge",
    "push",
    "rebase",
    "release",
    "remove",
    "reset",
    "restore",
    "rm",
    "send",
    "set",
    "stash",
    "sync",
    "uninstall",
    "update",
    "upgrade",
    "upload",
];

/// Programs that show what is in any file that they are given.
const SHOWING: [&str; 8] = ["cat", "cmp", "cut", "diff", "grep", "head", "tail", "wc"];
/// Maximum number of commands of one line for which rules are drafted.
const MAX_PARTS: usize = 4;
/// Maximum number of files listed individually.
const MAX_FILES: usize = 8;
/// Maximum length of the drafted rules.
const MAX_TEXT: usize = 4000;

/// Returns whether no prefix of this program's commands is harmless.
fn is_powerful(program: &str) -> bool {
    use Program::{Powerful, Shell, Wrapper};
    program.contains('/') || matches!(Program::named(program), Some(Powerful | Shell | Wrapper))
}

/// Returns whether a rule for this prefix of a command can be suggested as safe without a user's decision.
fn is_safe(words: &[&str]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let is_grave = |word: &&str| {
        let name = word.trim_start_matches('-');
        IRREVERSIBLE.contains(&name)
            || name.starts_with("force")
            || matches!(name, "hard" | "no-verify" | "yes" | "y")
    };
    match Program::named(first) {
        _ if is_powerful(first) => false,
        Some(Program::Teller) => true,
        // They only run tasks of the project by name.
        Some(Program::Runner) => {
            let task = match rest {
                ["run", task, ..] if matches!(*first, "bun" | "npm" | "pnpm" | "yarn") => task,
                [task, ..] => task,
                [] => return false,
            };
            is_name(task) && *task != "run" && !rest.iter().any(is_grave) && !runs_code(rest)
        }
        _ => !rest.iter().any(is_grave) && !runs_code(rest),
    }
}

fn runs_code(words: &[&str]) -> bool {
    words.iter().any(|word| matches!(*word, "-c" | "-e" | "--eval" | "-m" | "--exec" | "-exec"))
}

/// Returns whether a word is a subcommand name, such as `status`.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
}

/// Returns the number of leading words that identify a command for a rule; `None` if no prefix is harmless.
fn telling_words(words: &[&str]) -> Option<usize> {
    let (first, rest) = words.split_first()?;
    let is_harmless =
        |verb: &str| HARMLESS.iter().any(|(program, verbs)| program == first && verbs.contains(&verb));
    match rest.first() {
        _ if Program::named(first) == Some(Program::Teller) => Some(1),
        Some(verb) if is_harmless(verb) => Some(2),
        _ if is_powerful(first) && (rest.is_empty() || runs_code(rest)) => None,
        _ => Some(words.len()),
    }
}

/// Formats a text as a TOML string on one line, with invisible characters escaped.
fn toml_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        let is_blank = character.is_whitespace() && character != ' ';
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\u{200C}' | '\u{200D}' => push_code(&mut out, character),
            _ if is_blank || is_hidden(character) => push_code(&mut out, character),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn push_code(out: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = if code > 0xFFFF { write!(out, "\\U{code:08X}") } else { write!(out, "\\u{code:04X}") };
}

/// Formats a list of texts as TOML.
fn toml_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(toml_string).collect();
    format!("[{}]", texts.join(", "))
}

/// Rules that decide a request and its like in one project, and little else.
///
/// ```
/// use switchboard_policy::{Draft, NoFiles, QuestionReader, Verdict};
///
/// let mut reader = QuestionReader::new("/project");
/// let line = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","title":"Look?",
///     "subject":{"type":"tool_call","toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"git status"}}},
///     "options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#;
/// let question = reader.read(line, None, Default::default()).remove(0);
/// let draft = Draft::of(&question.subject, Verdict::Allow, &NoFiles::default())?;
/// assert!(draft.text.contains(r#"command = ["git", "status"]"#), "{}", draft.text);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The rules as TOML, to be appended to a file of rules.
    pub text: String,
    /// The same rules as a policy without any others.
    pub policy: Policy,
}

impl Draft {
    /// Makes the narrowest rules that allow or deny a request in the session's folder. The error says why there are none,
    /// in words that follow "because".
    pub fn of(subject: &Subject, decision: Verdict, host: &dyn Host) -> Result<Draft, String> {
        if let Some(doubt) = subject.unsure() {
            return Err(format!("its effect is unknown: {doubt}"));
        }
        let folder = Folder::of(subject.root(), host)?;
        let choices = match &*subject.commands() {
            [] => vec![vec![folder.files(subject, decision)?]],
            commands => folder.commands(commands, decision)?,
        };
        let mut refused = None;
        // The narrower ones come first.
        for rules in choices {
            let draft = Draft::parse(&rules, decision, host)?;
            let judged = draft.policy.evaluate(subject, host);
            if judged.verdict == decision {
                return Ok(draft);
            }
            refused = Some(judged.reason);
        }
        Err(refused.unwrap_or_else(|| "no rule would decide over it".to_owned()))
    }

    fn parse(rules: &[Keys], decision: Verdict, host: &dyn Host) -> Result<Draft, String> {
        let mut text = String::new();
        for Keys { name, keys } in rules {
            let keys = format!("decision = \"{decision}\"\n{keys}");
            let mut id = format!("{decision}-{name}");
            // Different rules get different names, equal rules the same.
            let hash =
                Policy::parse(&format!("[[rule]]\n{keys}"), host).map_err(|error| cannot_say(&error))?;
            id.extend(["-", hash.hash().get(..6).unwrap_or_default()]);
            let rule = format!("[[rule]]\nid = {}\n{keys}", toml_string(&id));
            if !text.contains(&rule) {
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(&rule);
            }
        }
        if text.len() > MAX_TEXT {
            return Err("it is too long for a readable rule".to_owned());
        }
        let policy = Policy::parse(&text, host).map_err(|error| cannot_say(&error))?;
        Ok(Draft { text, policy })
    }
}

fn cannot_say(error: &dyn std::fmt::Display) -> String {
    format!("rules cannot say it: {error}")
}

/// The conditions of a rule, and a name for it.
#[derive(Debug, Clone)]
struct Keys {
    name: String,
    keys: String,
}

/// The folder of the rules.
struct Folder<'f> {
    path: &'f str,
}

impl<'f> Folder<'f> {
    fn of(root: &'f str, host: &dyn Host) -> Result<Self, String> {
        let path = root.trim_end_matches('/');
        if path.contains(['*', '?']) {
            return Err("the name of the session's folder has a wildcard in it".to_owned());
        }
        let is_around =
            |home: &str| format!("{}/", home.trim_end_matches('/')).starts_with(&format!("{path}/"));
        if path.is_empty() || host.home().is_some_and(is_around) {
            return Err("the session's folder is the root of the file system".to_owned());
        }
        Ok(Folder { path })
    }

    /// Returns the pattern for everything in it.
    fn everything(&self) -> String {
        format!("{}/**", self.path)
    }

    /// Returns alternative rules for commands, narrowest first.
    fn commands(&self, commands: &[Vec<&str>], decision: Verdict) -> Result<Vec<Vec<Keys>>, String> {
        if commands.len() > 1 && decision == Verdict::Deny {
            return Err("it runs several commands, and it is unknown which one is meant".to_owned());
        }
        if commands.len() > MAX_PARTS {
            return Err(format!("it runs {} commands, which is too many to review", commands.len()));
        }
        let mut choices: Vec<Vec<Keys>> = vec![Vec::new()];
        for words in commands.iter().filter(|words| !words.is_empty()) {
            let first = words.first().copied().unwrap_or_default();
            if decision == Verdict::Allow && is_powerful(first) {
                return Err(format!(
                    "{first:?} does whatever its arguments say, so no prefix of it is harmless"
                ));
            }
            let count = match telling_words(words) {
                Some(count) => count,
                None if decision == Verdict::Deny => words.len(),
                None => return Err(format!("{first:?} runs whatever it is given")),
            };
            let words = words.iter().copied().take(count);
            let name = slug(words.clone());
            let keys = format!("command = {}\ncwd = {}\n", toml_list(words), toml_string(&self.everything()));
            let with_files = format!("{keys}path = {}\n", toml_list([&*self.everything()]));
            let ways = [with_files, keys].map(|keys| Keys { name: name.clone(), keys });
            // A deny rule only has the command.
            let ways = if decision == Verdict::Deny { &ways[1..] } else { &ways[..] };
            let longer = |rules: &Vec<Keys>| {
                let rules = rules.clone();
                ways.iter().map(move |way| rules.iter().cloned().chain([way.clone()]).collect())
            };
            choices = choices.iter().flat_map(longer).collect();
        }
        choices.retain(|rules| !rules.is_empty());
        Ok(choices)
    }

    /// Returns a rule for the files of a request without a command.
    fn files(&self, subject: &Subject, decision: Verdict) -> Result<Keys, String> {
        let kind = match subject.kind() {
            Some(ToolKind::Read | ToolKind::Search) => "[\"read\", \"search\"]",
            Some(ToolKind::Edit) => "\"edit\"",
            Some(ToolKind::Delete) if decision == Verdict::Deny => "\"delete\"",
            Some(ToolKind::Move) if decision == Verdict::Deny => "\"move\"",
            _ => return Err("it is neither a command nor the reading or editing of files".to_owned()),
        };
        let paths = subject.paths();
        if paths.is_empty() {
            return Err("it names neither a command nor files".to_owned());
        }
        let is_edit = subject.kind() == Some(&ToolKind::Edit);
        let mut patterns: Vec<String> = Vec::new();
        let mut operations: Vec<Operation> = Vec::new();
        for path in paths {
            let below = path.path.strip_prefix(self.path).and_then(|rest| rest.strip_prefix('/'));
            let Some(below) = below.filter(|below| !below.is_empty()) else {
                return Err(format!("{:?} is not in the session's folder", path.path));
            };
            if below.contains(['*', '?']) {
                return Err(format!("{:?} has a wildcard in its name", path.path));
            }
            if decision == Verdict::Allow && below.split('/').any(|name| name.starts_with('.')) {
                return Err(format!("{:?} is hidden: it may be a secret, or be run later", path.path));
            }
            let pattern = match below.split_once('/') {
                Some((folder, _)) if decision == Verdict::Allow => format!("{}/{folder}/**", self.path),
                _ => path.path.clone(),
            };
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
            for operation in &path.operations {
                if !operations.contains(operation) {
                    operations.push(*operation);
                }
            }
        }
        if patterns.len() > MAX_FILES {
            return Err("it concerns many files in many folders".to_owned());
        }
        let known = [Operation::Add, Operation::Modify];
        if decision == Verdict::Allow
            && is_edit
            && !operations.iter().all(|operation| known.contains(operation))
        {
            return Err("it does more than add or modify files".to_owned());
        }
        let mut keys = format!("kind = {kind}\npath = {}\n", toml_list(patterns.iter().map(String::as_str)));
        if decision == Verdict::Allow && is_edit && !operations.is_empty() {
            operations.sort_unstable();
            let _ =
                writeln!(keys, "operations = {}", toml_list(operations.into_iter().map(Operation::as_str)));
        }
        let word = subject.kind().map_or("files", ToolKind::as_str);
        Ok(Keys {
            name: slug(
                [word]
                    .into_iter()
                    .chain(patterns.first().and_then(|it| it.rsplit('/').find(|name| *name != "**"))),
            ),
            keys,
        })
    }
}

/// Returns a short name of letters, digits and hyphens.
fn slug<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    const MAX: usize = 32;
    let mut slug = String::new();
    for word in words.into_iter().take(2) {
        slug.push_str(if slug.is_empty() || slug.ends_with('-') { "" } else { "-" });
        let letters = word.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
        slug.extend(letters.take(MAX.saturating_sub(slug.len())));
    }
    match slug.trim_matches('-') {
        "" => "this".to_owned(),
        slug => slug.to_lowercase(),
    }
}

/// Returns rules that may allow a request and its like: by the first words of its command, or by the folder of its files.
/// Each is the text of one rule. Programs that run arbitrary code get none.
pub fn candidate_rules(subject: &Subject) -> Vec<String> {
    if subject.unsure().is_some() {
        return Vec::new();
    }
    let rule = |keys: &str| format!("[[rule]]\ndecision = \"allow\"\n{keys}\n");
    let mut rules = Vec::new();
    for words in subject.commands() {
        let Some(count) = telling_words(&words).filter(|count| is_safe(&words[..*count])) else { continue };
        let reads_files = words.first().is_some_and(|first| SHOWING.contains(first));
        let words: Vec<String> = words.iter().take(count).map(|word| toml_string(word)).collect();
        let rule_for = |more: &str| rule(&format!("command = [{}]{more}", words.join(", ")));
        // With its files where they are in the project: where both fit, the narrower one is taken.
        rules.push(rule_for("\npath = [\"$root/**\"]"));
        // What shows files shows all of them.
        if !reads_files {
            rules.push(rule_for(""));
        }
    }
    let is_reading = matches!(subject.kind(), Some(ToolKind::Read | ToolKind::Search));
    let is_editing = matches!(subject.kind(), Some(ToolKind::Edit));
    if subject.commands().is_empty() && !subject.paths().is_empty() && (is_reading || is_editing) {
        let keys = match is_reading {
            true => "kind = [\"read\", \"search\"]\n",
            false => "kind = \"edit\"\noperations = [\"add\", \"modify\"]\n",
        };
        let root = subject.root();
        for path in subject.paths() {
            let below = path.path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
            let Some((folder, _)) = below.and_then(|rest| rest.split_once('/')) else { continue };
            if !folder.starts_with('.') && !folder.contains(['*', '?', '{', '$']) {
                rules.push(rule(&format!("{keys}path = [{}]", toml_string(&format!("$root/{folder}/**")))));
            }
        }
        rules.push(rule(&format!("{keys}path = [\"$root/**\"]")));
    }
    rules
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use toml::de::{DeTable, DeValue};

    use super::*;
    use crate::{NoFiles, QuestionReader, Version1};

    const VERSION_1: Version1 = Version1 {
        update: switchboard_bridge::read_v1_update,
        permission: switchboard_bridge::read_v1_permission,
    };

    const HOSTILE: [&str; 12] = [
        "\"]\n[[rule]]\ndecision = \"allow\"\npath = [\"**\"]",
        "'''",
        "\"\"\"",
        "\\",
        "\\u0022",
        "# x",
        "]\r\ndefault = \"allow\"\r\n[",
        "</code></pre><img src=x onerror=alert(1)>",
        "\u{7f}\u{202e}\u{85}\u{2028}\0",
        "=",
        "status",
        "-x",
    ];

    fn subject(input: &Value, kind: &str) -> Subject {
        let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
        let call = json!({ "toolCallId": "c", "kind": kind, "rawInput": input });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params });
        let mut reader = QuestionReader::new("/project/it").reading_version_1(VERSION_1);
        let mut questions = reader.read(&request.to_string(), None, Default::default());
        questions.remove(0).subject
    }

    fn to_json(value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => json!(text),
            DeValue::Array(list) => list.iter().map(|item| to_json(item.get_ref())).collect(),
            DeValue::Table(table) => {
                let entries =
                    table.iter().map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())));
                Value::Object(entries.collect())
            }
            _ => Value::Null,
        }
    }

    fn draft(command: &str, decision: Verdict) -> Result<String, String> {
        Draft::of(&subject(&json!({ "command": command }), "execute"), decision, &NoFiles::default())
            .map(|draft| draft.text)
    }

    fn file(kind: &str, path: &str, decision: Verdict) -> Result<String, String> {
        Draft::of(&subject(&json!({ "path": path }), kind), decision, &NoFiles::default())
            .map(|draft| draft.text)
    }

    /// The text contains these rules and nothing else, for any request.
    fn is_nothing_else(subject: &Subject, decision: Verdict) -> Result<(), TestCaseError> {
        let host = NoFiles::default();
        let Ok(draft) = Draft::of(subject, decision, &host) else { return Ok(()) };
        let before = "default = \"ask\"\n[[rule]]\ndecision = \"deny\"\ncommand = [\"rm\"]\n";
        let whole = format!("{before}\n{}", draft.text);
        let table = to_json(&DeValue::Table(DeTable::parse(&whole).unwrap().into_inner()));
        prop_assert_eq!(table.as_object().unwrap().keys().collect::<Vec<_>>(), ["default", "rule"]);
        let rules = table["rule"].as_array().unwrap();
        prop_assert!((2..=1 + MAX_PARTS).contains(&rules.len()));
        let commands = subject.commands();
        for rule in &rules[1..] {
            let rule = rule.as_object().unwrap();
            let known = ["id", "decision", "command", "cwd", "path", "kind", "operations"];
            prop_assert!(rule.keys().all(|key| known.contains(&key.as_str())), "{}", &draft.text);
            prop_assert_eq!(rule["decision"].as_str(), Some(decision.as_str()));
            let texts = |key: &str| -> Vec<String> {
                let values = rule.get(key).and_then(|value| value.as_array().cloned()).unwrap_or_default();
                values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
            };
            let words = texts("command");
            prop_assert!(
                words.is_empty()
                    || commands
                        .iter()
                        .any(|command| command
                            .starts_with(&words.iter().map(String::as_str).collect::<Vec<_>>()))
            );
            prop_assert!(texts("path").iter().all(|path| path.starts_with("/project/it/")));
            prop_assert!(rule.get("cwd").is_none_or(|cwd| cwd.as_str() == Some("/project/it/**")));
        }
        // No part of it is invisible to a reader.
        prop_assert!(
            !draft.text.chars().any(|letter| letter != '\n' && (letter.is_control() || is_hidden(letter)))
        );
        prop_assert_eq!(draft.policy.evaluate(subject, &host).verdict, decision);
        Ok(())
    }

    proptest! {
        #[test]
        fn hostile_text_becomes_no_rule_of_its_own(
            first in prop_oneof![Just("git".to_owned()), Just("npm".to_owned()), Just("frob".to_owned()), any::<String>()],
            rest in prop::collection::vec(prop_oneof![prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned), any::<String>()], 0..4),
            is_line: bool,
            allows: bool,
        ) {
            let decision = if allows { Verdict::Allow } else { Verdict::Deny };
            let words: Vec<String> = std::iter::once(first).chain(rest).collect();
            let command = if is_line { json!(words.join(" ")) } else { json!(words) };
            is_nothing_else(&subject(&json!({ "command": command }), "execute"), decision)?;
            let path = format!("/project/it/{}", words.join("/"));
            is_nothing_else(&subject(&json!({ "path": path }), "edit"), decision)?;
            is_nothing_else(&subject(&json!({ "path": path }), "read"), decision)?;
        }
    }

    #[test]
    fn rules_are_narrow_and_made_only_of_what_is_clear() {
        for (command, keys) in [
            (
                "git status --short",
                "command = [\"git\", \"status\"]\ncwd = \"/project/it/**\"\npath = [\"/project/it/**\"]\n",
            ),
            ("frob --all", "command = [\"frob\", \"--all\"]\ncwd = \"/project/it/**\"\n"),
            ("cat src/a.rs", "command = [\"cat\"]\ncwd = \"/project/it/**\"\npath = [\"/project/it/**\"]\n"),
            ("cat /etc/hosts", "command = [\"cat\"]\ncwd = \"/project/it/**\"\n"),
            (
                "timeout 9 npm test",
                "command = [\"npm\", \"test\"]\ncwd = \"/project/it/**\"\npath = [\"/project/it/**\"]\n",
            ),
        ] {
            let text = draft(command, Verdict::Allow).unwrap();
            assert!(text.ends_with(&format!("decision = \"allow\"\n{keys}")), "{command}: {text}");
            assert_eq!(text.matches("[[rule]]").count(), 1);
        }
        assert_eq!(draft("git fetch && git status", Verdict::Allow).unwrap().matches("[[rule]]").count(), 2);
        for command in [
            "rm -rf x",
            "curl http://x",
            "python3 -c 1",
            "python3 x.py",
            "git status $(id)",
            "A=1 git status",
            "git a; git b; git c; git d; git e",
            "/tmp/git status",
            "git log > /etc/x",
            "eval x",
            "sudo ls",
        ] {
            assert!(
                draft(command, Verdict::Allow).is_err(),
                "{command}: {:?}",
                draft(command, Verdict::Allow)
            );
        }
        assert!(draft("git fetch && git push", Verdict::Deny).is_err(), "which of them?");
        assert!(draft("rm -rf x", Verdict::Deny).unwrap().contains("command = [\"rm\", \"-rf\", \"x\"]"));
        let path = |text: Result<String, String>| {
            text.unwrap().lines().find(|line| line.starts_with("path")).unwrap().to_owned()
        };
        assert_eq!(
            path(file("read", "/project/it/src/a/b.rs", Verdict::Allow)),
            "path = [\"/project/it/src/**\"]"
        );
        assert_eq!(
            path(file("read", "/project/it/README.md", Verdict::Allow)),
            "path = [\"/project/it/README.md\"]"
        );
        assert_eq!(
            path(file("edit", "/project/it/src/a.rs", Verdict::Deny)),
            "path = [\"/project/it/src/a.rs\"]"
        );
        for (kind, name) in [
            ("read", "/project/it/.env"),
            ("edit", "/project/it/.git/hooks/x"),
            ("read", "/etc/passwd"),
            ("read", "/project/item/x"),
            ("read", "/project/it/../x"),
            ("delete", "/project/it/a"),
            ("read", "/project/it/a*"),
            ("fetch", "/project/it/a"),
        ] {
            assert!(file(kind, name, Verdict::Allow).is_err(), "{kind} {name}");
        }
    }
}
