//! Rules and the policy file format.

use std::ops::Range;

use switchboard_acp::v2::ToolKind;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::command::Pattern;
use crate::error::PolicyError;
use crate::glob::PathPattern;
use crate::host::Host;
use crate::policy::{Mode, Verdict};
use crate::sandbox::{HostPattern, SandboxMode, SandboxNetwork, SandboxSettings};
use crate::subject::Operation;

/// Maximum number of rules in a file.
const MAX_RULES: usize = 10_000;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Name of the rule in decisions.
    pub(crate) id: String,
    pub(crate) decision: Verdict,
    pub(crate) agents: Vec<String>,
    pub(crate) kinds: Vec<ToolKind>,
    pub(crate) tools: Vec<String>,
    pub(crate) command: Option<Pattern>,
    pub(crate) cwd: Vec<PathPattern>,
    pub(crate) paths: Vec<PathPattern>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) max_files: Option<usize>,
    pub(crate) reason: Option<String>,
    pub(crate) remember: bool,
}

impl Rule {
    /// Returns a built-in rule for calls of some kinds: those with files matching this pattern, or without
    /// files.
    pub(crate) fn for_kinds(id: &str, decision: Verdict, kinds: &[ToolKind], path: Option<&str>) -> Rule {
        let paths = path.and_then(|path| PathPattern::parse(path, &crate::host::NoFiles::default()).ok());
        Rule {
            id: id.to_owned(),
            decision,
            agents: Vec::new(),
            kinds: kinds.to_vec(),
            tools: Vec::new(),
            command: None,
            cwd: Vec::new(),
            paths: paths.into_iter().collect(),
            operations: Vec::new(),
            max_files: None,
            reason: None,
            remember: false,
        }
    }
}

impl Rule {
    /// Returns whether it covers files that a command writes by redirection, which may be new or exist
    /// already.
    pub(crate) fn allows_writing(&self) -> bool {
        [Operation::Add, Operation::Modify].iter().all(|operation| self.operations.contains(operation))
    }
}

/// A command line that a rule must match, or must not match.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) rule: usize,
    pub(crate) line: String,
    pub(crate) is_match: bool,
    pub(crate) offset: usize,
}

/// Content of a policy file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) default: Option<Verdict>,
    pub(crate) mode: Option<Mode>,
    pub(crate) login_shells: Option<bool>,
    pub(crate) sandbox: SandboxSettings,
    pub(crate) rules: Vec<Rule>,
    pub(crate) examples: Vec<Example>,
}

const TOP: [&str; 5] = ["default", "login_shells", "mode", "rule", "sandbox"];
const SANDBOX_KEYS: [&str; 14] = [
    "backend",
    "mode",
    "network",
    "hosts",
    "loopback",
    "read",
    "write",
    "env",
    "sockets",
    "unprotect",
    "nested",
    "processes",
    "memory",
    "file_size",
];
/// Names in a project that other programs run or obey. A sandbox keeps them from being changed.
pub const PROTECTED_NAMES: [&str; 19] = [
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git",
    ".gitmodules",
    ".husky",
    ".pre-commit-config.yaml",
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".mcp.json",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".switchboard.json",
    "switchboard-policy.toml",
];
const KEYS: [&str; 14] = [
    "id",
    "decision",
    "agent",
    "kind",
    "tool",
    "command",
    "cwd",
    "path",
    "operations",
    "max_files",
    "reason",
    "remember",
    "match",
    "not_match",
];

type Value<'t> = Spanned<DeValue<'t>>;

struct Reader<'t> {
    text: &'t str,
    host: &'t dyn Host,
}

impl File {
    pub(crate) fn parse(text: &str, host: &dyn Host) -> Result<File, PolicyError> {
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().to_owned();
            error.span().map_or_else(
                || PolicyError::new(message.clone()),
                |span| PolicyError::at(text, span.start, message.clone()),
            )
        })?;
        Reader { text, host }.file(table.get_ref())
    }
}

impl Reader<'_> {
    fn fault<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PolicyError> {
        Err(PolicyError::at(self.text, span.start, message))
    }

    fn file(&self, table: &DeTable<'_>) -> Result<File, PolicyError> {
        let mut file = File {
            default: None,
            mode: None,
            login_shells: None,
            sandbox: SandboxSettings::default(),
            rules: Vec::new(),
            examples: Vec::new(),
        };
        // In file order, so that the first error is reported.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            match &**key.get_ref() {
                "default" => file.default = Some(self.verdict(value)?),
                "mode" => {
                    file.mode = Some(match self.string(value)? {
                        "enforce" => Mode::Enforce,
                        "observe" => Mode::Observe,
                        other => {
                            return self.fault(
                                value.span(),
                                format!("the mode is \"enforce\" or \"observe\", not {other:?}"),
                            );
                        }
                    });
                }
                "login_shells" => match value.get_ref().as_bool() {
                    Some(allowed) => file.login_shells = Some(allowed),
                    None => return self.fault(value.span(), "login_shells must be true or false"),
                },
                "rule" => self.rules(value, &mut file)?,
                "sandbox" => file.sandbox = self.sandbox(value)?,
                other => {
                    return self.fault(key.span(), format!("unknown key {other:?}{}", nearest(other, &TOP)));
                }
            }
        }
        Ok(file)
    }

    fn rules(&self, value: &Value<'_>, file: &mut File) -> Result<(), PolicyError> {
        let Some(list) = value.get_ref().as_array() else {
            return self.fault(value.span(), "write rules under [[rule]], with two brackets");
        };
        if list.len() > MAX_RULES {
            return self.fault(value.span(), format!("a file may have at most {MAX_RULES} rules"));
        }
        let mut ids = std::collections::HashSet::new();
        for (place, value) in list.iter().enumerate() {
            let Some(table) = value.get_ref().as_table() else {
                return self.fault(value.span(), "a rule must be a table");
            };
            let rule = self.rule(table, value.span(), place, &mut file.examples)?;
            if !ids.insert(rule.id.clone()) {
                return self.fault(value.span(), format!("there are two rules with the id {:?}", rule.id));
            }
            file.rules.push(rule);
        }
        Ok(())
    }

    fn sandbox(&self, value: &Value<'_>) -> Result<SandboxSettings, PolicyError> {
        let Some(table) = value.get_ref().as_table() else {
            return self.fault(value.span(), "[sandbox] must be a table");
        };
        let mut settings = SandboxSettings::default();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let key_text = &**key.get_ref();
            settings.note_list(key_text);
            match key_text {
                "mode" => settings.mode = Some(self.parsed(value, SandboxMode::parse)?),
                "network" => settings.network = Some(self.parsed(value, SandboxNetwork::parse)?),
                "hosts" => settings.hosts = self.items(value, HostPattern::parse)?,
                "loopback" => settings.loopback = self.ports(value)?,
                "read" => settings.read = self.items(value, plain_path)?,
                "write" => settings.write = self.items(value, plain_path)?,
                "env" => settings.env = self.items(value, variable)?,
                "sockets" => settings.sockets = self.items(value, socket)?,
                "unprotect" => settings.unprotect = self.items(value, protected_name)?,
                "nested" => {
                    settings.nested = match (value.get_ref().as_bool(), value.get_ref().as_str()) {
                        (Some(nested), _) => Some(nested),
                        (None, Some("auto")) => None,
                        _ => return self.fault(value.span(), "nested is \"auto\", true or false"),
                    };
                }
                "processes" => {
                    settings.processes = match self.number(value).filter(|number| *number > 0) {
                        Some(number) => Some(number),
                        None => return self.fault(value.span(), "processes must be a number above 0"),
                    };
                }
                // Settings for others would hold less; there is nothing to store for the only one.
                "backend" => self.parsed(value, backend)?,
                "memory" => settings.memory = Some(self.parsed(value, size)?),
                "file_size" => settings.file_size = Some(self.parsed(value, size)?),
                other => {
                    return self.fault(
                        key.span(),
                        format!("unknown key {other:?} in [sandbox]{}", nearest(other, &SANDBOX_KEYS)),
                    );
                }
            }
        }
        Ok(settings)
    }

    fn parsed<T>(
        &self,
        value: &Value<'_>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, PolicyError> {
        parse(self.string(value)?).or_else(|message| self.fault(value.span(), message))
    }

    /// Returns the items of a list of strings, which may be empty.
    fn items<T>(
        &self,
        value: &Value<'_>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, PolicyError> {
        let Some(list) = value.get_ref().as_array() else {
            return self.fault(value.span(), "expected a list of strings");
        };
        list.iter().map(|item| self.parsed(item, &parse)).collect()
    }

    fn number(&self, value: &Value<'_>) -> Option<u64> {
        let number = value.get_ref().as_integer()?;
        u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
    }

    fn ports(&self, value: &Value<'_>) -> Result<Vec<u16>, PolicyError> {
        let Some(list) = value.get_ref().as_array() else {
            return self.fault(value.span(), "loopback must be a list of ports");
        };
        let port = |item: &Value<'_>| match self.number(item).and_then(|port| u16::try_from(port).ok()) {
            Some(port) if port > 0 => Ok(port),
            _ => self.fault(item.span(), "a port is a number from 1 to 65535"),
        };
        list.iter().map(port).collect()
    }

    fn rule(
        &self,
        table: &DeTable<'_>,
        span: Range<usize>,
        place: usize,
        examples: &mut Vec<Example>,
    ) -> Result<Rule, PolicyError> {
        let mut rule = Rule::for_kinds(&format!("rule-{}", place + 1), Verdict::Ask, &[], None);
        let mut has_decision = false;
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            match &**key.get_ref() {
                "id" => {
                    rule.id = self.string(value)?.to_owned();
                    if rule.id.is_empty() {
                        return self.fault(value.span(), "the id is empty");
                    }
                }
                "decision" => {
                    rule.decision = self.verdict(value)?;
                    has_decision = true;
                }
                "agent" => rule.agents = self.names(value, "agent")?,
                "tool" => rule.tools = self.names(value, "tool")?,
                "kind" => rule.kinds = self.list(value, "kind", kind)?,
                "command" => rule.command = Some(self.command(value)?),
                "cwd" => rule.cwd = self.list(value, "cwd", |text| PathPattern::parse(text, self.host))?,
                "path" => {
                    rule.paths = self.list(value, "path", |text| PathPattern::parse(text, self.host))?;
                }
                "operations" => rule.operations = self.list(value, "operations", operation)?,
                "max_files" => {
                    let number = value.get_ref().as_integer();
                    let number = number
                        .and_then(|it| usize::from_str_radix(&it.as_str().replace('_', ""), it.radix()).ok());
                    match number {
                        Some(0) => {
                            return self.fault(value.span(), "the rule can never match: it allows no file");
                        }
                        Some(number) => rule.max_files = Some(number),
                        None => return self.fault(value.span(), "max_files must be a number"),
                    }
                }
                "reason" => rule.reason = Some(self.string(value)?.to_owned()),
                "remember" => match value.get_ref().as_bool() {
                    Some(remember) => rule.remember = remember,
                    None => return self.fault(value.span(), "remember must be true or false"),
                },
                key @ ("match" | "not_match") => {
                    let is_match = key == "match";
                    for (line, span) in self.strings(value, key)? {
                        examples.push(Example {
                            rule: place,
                            line: line.to_owned(),
                            is_match,
                            offset: span.start,
                        });
                    }
                }
                other => {
                    return self.fault(
                        key.span(),
                        format!("unknown key {other:?} in a rule{}", nearest(other, &KEYS)),
                    );
                }
            }
        }
        if !has_decision {
            return self.fault(span, "the rule has no decision: \"allow\", \"ask\" or \"deny\"");
        }
        self.sense(&rule, table, span)?;
        Ok(rule)
    }

    /// Checks that a rule can match anything at all.
    fn sense(&self, rule: &Rule, table: &DeTable<'_>, span: Range<usize>) -> Result<(), PolicyError> {
        let place = |wanted: &str| {
            let entry = table.iter().find(|(key, _)| key.get_ref() == wanted);
            entry.map_or(span.clone(), |(key, _)| key.span())
        };
        let is_allow = rule.decision == Verdict::Allow;
        if !is_allow && rule.max_files.is_some() {
            return self
                .fault(place("max_files"), "max_files is only valid in rules with decision = \"allow\"");
        }
        if !is_allow && rule.remember {
            return self
                .fault(place("remember"), "remember is only valid in rules with decision = \"allow\"");
        }
        if is_allow && !rule.operations.is_empty() && rule.paths.is_empty() {
            return self.fault(
                place("operations"),
                "the rule can never match: files are allowed by path; add a path such as \"$root/**\"",
            );
        }
        let is_written = |operation| matches!(operation, &Operation::Add | &Operation::Modify);
        if is_allow
            && !rule.operations.is_empty()
            && rule.command.is_some()
            && !(rule.allows_writing() && rule.operations.iter().all(is_written))
        {
            return self.fault(
                place("operations"),
                "the only operation known of a command is writing by redirection, to a new or an existing file; write [\"add\", \"modify\"]",
            );
        }
        if is_allow && rule.command.is_none() && !rule.kinds.is_empty() {
            if rule.kinds.iter().all(|kind| *kind == ToolKind::Execute) {
                return self.fault(
                    place("kind"),
                    "the rule can never match: calls of kind execute are allowed by command; add a command",
                );
            }
            let told = |kind: &ToolKind| match kind {
                ToolKind::Delete => Some(Operation::Delete),
                ToolKind::Move => Some(Operation::Move),
                _ => None,
            };
            let is_left_out = |kind| told(kind).is_some_and(|told| !rule.operations.contains(&told));
            if !rule.operations.is_empty() && rule.kinds.iter().all(is_left_out) {
                return self.fault(
                    place("operations"),
                    "the rule can never match: calls of this kind have other operations",
                );
            }
        }
        if is_allow && let Some(command) = &rule.command {
            let names = command.names();
            if names.iter().all(|name| ["eval", "trap", "alias", "let", "hash", "enable"].contains(&&**name))
            {
                return self.fault(
                    place("command"),
                    "the rule can never match: the effect of eval, trap, alias, let, hash and enable is never known",
                );
            }
            if names.iter().all(|name| name.contains(['*', '?', '$', '`'])) {
                return self.fault(
                    place("command"),
                    "the rule can never match: words are compared as they are, without wildcards",
                );
            }
        }
        let has_examples = ["match", "not_match"]
            .into_iter()
            .find(|key| table.iter().any(|(found, _)| found.get_ref() == key));
        if let Some(key) = has_examples
            && rule.command.is_none()
            && (is_allow || rule.paths.is_empty())
        {
            return self.fault(place(key), "examples are command lines, but this rule has no command");
        }
        Ok(())
    }

    fn string<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, PolicyError> {
        match value.get_ref().as_str() {
            Some(text) => Ok(text),
            None => {
                self.fault(value.span(), format!("expected a string, found {}", value.get_ref().type_str()))
            }
        }
    }

    fn verdict(&self, value: &Value<'_>) -> Result<Verdict, PolicyError> {
        match self.string(value)? {
            "allow" => Ok(Verdict::Allow),
            "ask" => Ok(Verdict::Ask),
            "deny" => Ok(Verdict::Deny),
            other => {
                self.fault(value.span(), format!("expected \"allow\", \"ask\" or \"deny\", found {other:?}"))
            }
        }
    }

    /// Returns one string, or the strings of a list.
    fn strings<'v>(
        &self,
        value: &'v Value<'_>,
        key: &str,
    ) -> Result<Vec<(&'v str, Range<usize>)>, PolicyError> {
        let Some(list) = value.get_ref().as_array() else {
            return Ok(vec![(self.string(value)?, value.span())]);
        };
        if list.is_empty() {
            return self.fault(
                value.span(),
                format!("the list {key} is empty, so the rule can never match; remove it"),
            );
        }
        list.iter().map(|item| Ok((self.string(item)?, item.span()))).collect()
    }

    fn list<T>(
        &self,
        value: &Value<'_>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, PolicyError> {
        let parsed = self.strings(value, key)?.into_iter();
        parsed.map(|(text, span)| parse(text).or_else(|message| self.fault(span, message))).collect()
    }

    fn names(&self, value: &Value<'_>, key: &str) -> Result<Vec<String>, PolicyError> {
        self.list(value, key, |text| match text {
            "" => Err(format!("{key} is empty, so the rule can never match")),
            _ => Ok(text.to_owned()),
        })
    }

    fn command(&self, value: &Value<'_>) -> Result<Pattern, PolicyError> {
        let Some(list) = value.get_ref().as_array() else {
            let words = value.get_ref().as_str().map(|line| {
                line.split_whitespace().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
            });
            let hint = words.map(|words| format!(": [{words}]")).unwrap_or_default();
            return self.fault(value.span(), format!("command must be a list of words{hint}"));
        };
        if list.is_empty() {
            return self.fault(value.span(), "command has no words, so the rule can never match");
        }
        let mut pattern = Vec::new();
        for (place, item) in list.iter().enumerate() {
            let words: Vec<(&str, Range<usize>)> = self.strings(item, "alternatives")?;
            for (word, span) in &words {
                if let Some(message) = unfit(word, place == 0) {
                    return self.fault(span.clone(), message);
                }
            }
            pattern.push(words.into_iter().map(|(word, _)| word.to_owned()).collect());
        }
        Ok(Pattern::new(pattern))
    }
}

/// Reserved words of the shell, with which no command begins.
const RESERVED: [&str; 17] = [
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "select",
    "then", "until", "while", "{",
];

/// Returns why a word of a command can never match.
fn unfit(word: &str, is_first: bool) -> Option<String> {
    let operators = ["&&", "||", ";", "|", "&", ">", ">>", "<", "(", ")"];
    if word.is_empty() {
        Some("an empty word can never match".to_owned())
    } else if word == "*" || word == "**" {
        Some("words are compared literally, and further words may follow: remove this word".to_owned())
    } else if operators.contains(&word) {
        Some(format!("{word:?} is not a word of a command: each part of a line is evaluated separately"))
    } else if is_first && word.contains(char::is_whitespace) {
        let words: Vec<String> = word.split_whitespace().map(|word| format!("{word:?}")).collect();
        Some(format!("{word:?} can never match, because it is one word; write [{}]", words.join(", ")))
    } else if is_first && crate::shell::is_assignment(word) {
        Some(format!("{word:?} can never match: an assignment is not part of the command"))
    } else if is_first && RESERVED.contains(&word) {
        Some(format!(
            "{word:?} can never match: it is a reserved word, and the commands inside are evaluated"
        ))
    } else if is_first && word.starts_with('-') {
        Some(format!("{word:?} can never match: a command begins with a name"))
    } else {
        None
    }
}

fn kind(text: &str) -> Result<ToolKind, String> {
    let known =
        ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];
    if known.contains(&text) || text.starts_with('_') && text.len() > 1 {
        return Ok(ToolKind::from(text));
    }
    Err(format!("the kind {text:?} can never match; known kinds are {}", known.join(", ")))
}

fn operation(text: &str) -> Result<Operation, String> {
    let known = Operation::KNOWN.into_iter().find(|operation| operation.as_str() == text);
    known.ok_or_else(|| {
        format!(
            "the operation {text:?} can never match; known operations are add, modify, delete, move and copy"
        )
    })
}

/// Reads a path without wildcards: absolute, or below the home directory.
fn plain_path(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("~/").or_else(|| text.strip_prefix('/'));
    let is_plain = |rest: &str| rest.split('/').all(|name| name != "." && name != "..");
    match rest {
        Some(rest) if rest.contains(['*', '?']) => {
            Err(format!("the path {text:?} cannot have wildcards; name the folder"))
        }
        Some(rest) if !rest.is_empty() && is_plain(rest) && !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(format!("the path {text:?} must be absolute or begin with ~/, without \".\" and \"..\"")),
    }
}

fn socket(text: &str) -> Result<String, String> {
    let is_variable =
        text.strip_prefix('$').is_some_and(|name| variable(name).is_ok() && !name.contains('*'));
    if is_variable { Ok(text.to_owned()) } else { plain_path(text) }
}

fn variable(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    if name.is_empty() && !text.is_empty() {
        return Err("\"*\" would pass every variable, and with them every secret; name them".to_owned());
    }
    if name.contains('*') {
        return Err(format!("{text:?}: `*` is only allowed at the end"));
    }
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok(text.to_owned()) } else { Err(format!("{text:?} is not the name of a variable")) }
}

fn backend(text: &str) -> Result<(), String> {
    match text {
        "bubblewrap" => Ok(()),
        "landlock" => Err("the backend \"landlock\" is not available; \"bubblewrap\" holds more".to_owned()),
        other => Err(format!("the backend is \"bubblewrap\", not {other:?}")),
    }
}

fn protected_name(text: &str) -> Result<String, String> {
    if PROTECTED_NAMES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a protected name; these are: {}", PROTECTED_NAMES.join(", ")))
}

/// Reads a size such as "512MB" or "4GB", in bytes.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let unit: u64 = match text[digits.len()..].trim() {
        "B" => 1,
        "KB" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        format!("{text:?} is not a size; write a number with a unit, such as \"512MB\" or \"4GB\"")
    })
}

/// Returns a suggestion for a misspelled key.
fn nearest(found: &str, known: &[&str]) -> String {
    let letters = |text: &str| text.to_lowercase().trim_end_matches('s').replace(['-', '_'], "");
    let meant = known.iter().find(|key| letters(key) == letters(found));
    match meant {
        Some(key) => format!("; did you mean {key:?}?"),
        None => format!("; known keys are {}", known.join(", ")),
    }
}
