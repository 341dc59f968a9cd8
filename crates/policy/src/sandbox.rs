//! The table `[sandbox]` of a rules file, and the rules that a sandbox can enforce by itself.

use std::fmt;
use std::net::IpAddr;

use switchboard_acp::v2::ToolKind;

use crate::glob::{Anchors, PathPattern, exactly, names};
use crate::host::Host;
use crate::path::resolve;
use crate::policy::{Policy, Verdict};
use crate::rule::Rule;

/// Strictness of a sandbox, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxMode {
    /// No sandbox.
    Off,
    /// The agent works in the session's folders, with the user's toolchains and package registries.
    Workspace,
    /// The agent works in the session's folders, and rules that ask count as rules that deny.
    Strict,
}

impl SandboxMode {
    /// Returns the mode as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxMode::Off => "off",
            SandboxMode::Workspace => "workspace",
            SandboxMode::Strict => "strict",
        }
    }

    /// Parses a mode.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(SandboxMode::Off),
            "workspace" => Ok(SandboxMode::Workspace),
            "strict" => Ok(SandboxMode::Strict),
            other => Err(format!("the sandbox is \"off\", \"workspace\" or \"strict\", not {other:?}")),
        }
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Network access of a sandbox, in ascending order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxNetwork {
    /// The network of the machine, including its loopback.
    All,
    /// Hosts on a list, through a proxy.
    Hosts,
    /// Only the loopback of the sandbox itself.
    None,
}

impl SandboxNetwork {
    /// Returns the access as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxNetwork::All => "all",
            SandboxNetwork::Hosts => "hosts",
            SandboxNetwork::None => "none",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(SandboxNetwork::All),
            "hosts" => Ok(SandboxNetwork::Hosts),
            "none" => Ok(SandboxNetwork::None),
            other => Err(format!("the network is \"none\", \"hosts\" or \"all\", not {other:?}")),
        }
    }
}

/// A host, or all hosts below a name, with an optional port.
///
/// ```
/// use switchboard_policy::HostPattern;
///
/// let pattern = HostPattern::parse("*.example.com")?;
/// assert!(pattern.matches("api.example.com", 443));
/// assert!(!pattern.matches("example.com", 443));
/// assert!(!pattern.matches("api.example.com", 22));
/// assert!(HostPattern::parse("https://example.com").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    name: HostName,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostName {
    Exact(String),
    /// The part after `*`, with its leading dot.
    Below(String),
    Address(IpAddr),
}

impl HostPattern {
    /// Parses `name`, `*.name` or an address, each with an optional `:port`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = |reason: &str| Err(format!("{text:?} is not a host: {reason}"));
        if text.contains("//") || text.contains('@') || text.contains(char::is_whitespace) {
            return fault("write only the name, such as \"example.com\" or \"example.com:8080\"");
        }
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, rest)) => (address, rest.strip_prefix(':')),
            None if text.parse::<IpAddr>().is_ok() => (text, None),
            None => match text.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            None if text.contains("]") && !text.ends_with(']') => return fault("the port is malformed"),
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(number) if number > 0 && !port.starts_with('+') => Some(number),
                _ => return fault("the port is a number from 1 to 65535"),
            },
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(HostPattern { name: HostName::Address(address), port });
        }
        let lower = name.to_ascii_lowercase();
        let name = match lower.strip_prefix('*') {
            Some(rest) if rest.starts_with('.') && is_host_name(&rest[1..]) => {
                HostName::Below(rest.to_owned())
            }
            Some(_) => {
                return fault("`*` may only stand for the names before a dot, as in \"*.example.com\"");
            }
            None if is_host_name(&lower) => HostName::Exact(lower),
            None => return fault("a name has letters, digits, dots and hyphens"),
        };
        Ok(HostPattern { name, port })
    }

    /// Returns whether a host, as a lower-case name or an address, and a port match. Without a port of its own, the
    /// pattern matches 80 and 443.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or(port == 80 || port == 443, |own| own == port);
        is_port
            && match &self.name {
                HostName::Exact(name) => name == host,
                HostName::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
                HostName::Address(address) => host.parse::<IpAddr>().is_ok_and(|host| host == *address),
            }
    }

    /// Returns whether it names all hosts below a name.
    pub fn is_many(&self) -> bool {
        matches!(self.name, HostName::Below(_))
    }

    /// Returns the address that it names. Addresses of this machine are only reachable by such a pattern.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.name {
            HostName::Address(address) => Some(*address),
            HostName::Exact(_) | HostName::Below(_) => None,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.port) {
            (HostName::Exact(name), _) => formatter.write_str(name)?,
            (HostName::Below(suffix), _) => write!(formatter, "*{suffix}")?,
            (HostName::Address(IpAddr::V6(address)), Some(_)) => write!(formatter, "[{address}]")?,
            (HostName::Address(address), _) => write!(formatter, "{address}")?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Returns whether a text is a host name of letters, digits, hyphens and dots that no program takes for an address.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Some programs read `127.1`, `0x7f.1` and `2130706433` as addresses: the last label must be a name.
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    text.len() <= 253 && text.split('.').all(is_label) && !is_number
}

/// The table `[sandbox]` of a rules file. Missing keys are `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SandboxSettings {
    /// The mode.
    pub mode: Option<SandboxMode>,
    /// The network access.
    pub network: Option<SandboxNetwork>,
    /// Hosts that can be reached.
    pub hosts: Vec<HostPattern>,
    /// Ports of the machine's loopback that can be reached at the same port.
    pub loopback: Vec<u16>,
    /// Further readable paths: absolute, or below `~/`.
    pub read: Vec<String>,
    /// Further writable paths: absolute, or below `~/`.
    pub write: Vec<String>,
    /// Further environment variables; `*` at the end matches any rest.
    pub env: Vec<String>,
    /// Unix sockets that can be connected to: absolute, below `~/`, or the name of a variable as in `$SSH_AUTH_SOCK`.
    pub sockets: Vec<String>,
    /// Protected names that may be written.
    pub unprotect: Vec<String>,
    /// True if the agent may create namespaces; `None` if that depends on the agent.
    pub nested: Option<bool>,
    /// Maximum number of processes.
    pub processes: Option<u64>,
    /// Maximum size of a process's data in bytes.
    pub memory: Option<u64>,
    /// Maximum size of a file in bytes.
    pub file_size: Option<u64>,
    /// Lists that an untrusted project restricts further: only entries on both lists count.
    limits: Limits,
}

/// Lists of untrusted projects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Limits {
    hosts: Option<Vec<HostPattern>>,
    env: Option<Vec<String>>,
    has_hosts: bool,
    has_env: bool,
}

impl SandboxSettings {
    /// Marks a list as written in the file, even if it is empty.
    pub(crate) fn note_list(&mut self, key: &str) {
        match key {
            "hosts" => self.limits.has_hosts = true,
            "env" => self.limits.has_env = true,
            _ => {}
        }
    }

    /// Returns a user's settings extended by a project's. An untrusted project can only tighten them: the stricter mode
    /// and network, and only those hosts and variables that it lists too. Its other keys are ignored.
    pub(crate) fn with_project(mut self, project: SandboxSettings, is_trusted: bool) -> Self {
        if !is_trusted {
            self.mode = self.mode.max(project.mode);
            // Without a key of the user, the default counts, which is stricter than `all`.
            let own = self.network.unwrap_or(SandboxNetwork::Hosts);
            self.network = project.network.map(|other| own.max(other)).or(self.network);
            if project.limits.has_hosts {
                self.limits.hosts = Some(project.hosts);
            }
            if project.limits.has_env {
                self.limits.env = Some(project.env);
            }
            self.nested = if project.nested == Some(false) { Some(false) } else { self.nested };
            let less = |own: Option<u64>, other: Option<u64>| match (own, other) {
                (Some(own), Some(other)) => Some(own.min(other)),
                (own, other) => own.or(other),
            };
            self.processes = less(self.processes, project.processes);
            self.memory = less(self.memory, project.memory);
            self.file_size = less(self.file_size, project.file_size);
            return self;
        }
        let SandboxSettings {
            mode,
            network,
            hosts,
            loopback,
            read,
            write,
            env,
            sockets,
            unprotect,
            nested,
            processes,
            memory,
            file_size,
            limits: _,
        } = project;
        self.mode = mode.or(self.mode);
        self.network = network.or(self.network);
        self.hosts.extend(hosts);
        self.loopback.extend(loopback);
        self.read.extend(read);
        self.write.extend(write);
        self.env.extend(env);
        self.sockets.extend(sockets);
        self.unprotect.extend(unprotect);
        self.nested = nested.or(self.nested);
        self.processes = processes.or(self.processes);
        self.memory = memory.or(self.memory);
        self.file_size = file_size.or(self.file_size);
        self
    }

    /// Returns whether a project's list of hosts leaves a host reachable. Applies to all hosts, also those of the agent
    /// and the package registries.
    pub fn keeps_host(&self, host: &str, port: u16) -> bool {
        self.limits.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|known| known.matches(host, port)))
    }

    /// Returns whether an environment variable passes, beside those that always pass.
    pub fn passes_variable(&self, name: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|pattern| matches_variable(pattern, name));
        listed(&self.env) && self.limits.env.as_deref().is_none_or(listed)
    }
}

/// Returns whether a variable's name matches a pattern with an optional `*` at the end.
pub fn matches_variable(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Effect of a rule on the files of a sandbox, in ascending order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathEffect {
    /// The path can be read but not changed.
    ReadOnly,
    /// The content of the path cannot be read.
    Hidden,
}

/// A rule that a sandbox enforces by itself.
#[derive(Debug, Clone)]
pub struct PathRule {
    /// Id of the rule.
    pub id: String,
    /// The effect.
    pub effect: PathEffect,
    patterns: Vec<PathPattern>,
}

impl PathRule {
    /// Returns the paths that the rule names without wildcards, except one `/**` at the end. The rule applies to
    /// everything below them. `$root` is each of the roots.
    pub fn literal_paths(&self, roots: &[String], home: Option<&str>) -> Vec<String> {
        self.patterns.iter().flat_map(|pattern| pattern.literal_paths(roots, home)).collect()
    }

    /// Returns whether a pattern has wildcards, so that paths must be looked up.
    pub fn has_wildcards(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.literal_paths(&["/".to_owned()], Some("/")).is_empty())
    }
}

/// The rules of a policy that a sandbox enforces by itself, ready for many paths.
#[derive(Debug)]
pub struct PathRules {
    rules: Vec<PathRule>,
    anchors: Anchors,
    ignores_case: bool,
}

impl PathRules {
    /// Returns the rules.
    pub fn rules(&self) -> &[PathRule] {
        &self.rules
    }

    /// Returns the strictest rule that matches an absolute path without links.
    pub fn effect(&self, path: &str) -> Option<(&PathRule, PathEffect)> {
        let names = names(path);
        let matches = |rule: &&PathRule| {
            rule.patterns.iter().any(|pattern| pattern.matches(&names, &self.anchors, self.ignores_case))
        };
        self.rules.iter().filter(matches).map(|rule| (rule, rule.effect)).max_by_key(|(_, effect)| *effect)
    }
}

/// The reason why a sandbox does not enforce a rule.
fn not_held(rule: &Rule, is_strict: bool) -> Option<&'static str> {
    match rule.decision {
        Verdict::Allow => return Some("it allows"),
        Verdict::Ask if !is_strict => return Some("it asks, which counts in the mode strict"),
        Verdict::Ask | Verdict::Deny => {}
    }
    if rule.paths.is_empty() {
        Some("it has no path")
    } else if rule.command.is_some() {
        Some("it has command")
    } else if !rule.cwd.is_empty() {
        Some("it has cwd")
    } else if !rule.tools.is_empty() {
        Some("it has tool")
    } else if rule.max_files.is_some() {
        Some("it has max_files")
    } else {
        None
    }
}

fn effect(rule: &Rule) -> PathEffect {
    let is_change = |kind: &ToolKind| matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move);
    let only_changes = !rule.kinds.is_empty() && rule.kinds.iter().all(is_change);
    if only_changes || !rule.operations.is_empty() { PathEffect::ReadOnly } else { PathEffect::Hidden }
}

impl Policy {
    /// Returns the table `[sandbox]`.
    pub fn sandbox(&self) -> &SandboxSettings {
        &self.sandbox
    }

    /// Returns the rules that a sandbox enforces by itself: those with `path` that deny, and in the mode strict those that
    /// ask, unless they depend on more than the path. A rule for agents applies if the agent is unknown.
    pub fn path_rules(
        &self,
        agent: Option<&str>,
        mode: SandboxMode,
        roots: &[String],
        host: &dyn Host,
    ) -> PathRules {
        let is_strict = mode == SandboxMode::Strict;
        let concerns = |rule: &&Rule| {
            let may_match = agent.is_none_or(|agent| {
                rule.agents.is_empty()
                    || rule.agents.iter().any(|pattern| crate::glob::wildcard(pattern, agent))
            });
            may_match && not_held(rule, is_strict).is_none()
        };
        let rules = self.rules.iter().filter(concerns).map(|rule| PathRule {
            id: rule.id.clone(),
            effect: effect(rule),
            patterns: rule.paths.clone(),
        });
        let forms = |path: &str| {
            let resolved = resolve(path, host).ok().filter(|resolved| resolved != path);
            [Some(path.to_owned()), resolved].into_iter().flatten().map(|path| exactly(&path)).collect()
        };
        let anchors = Anchors {
            roots: roots.iter().flat_map(|root| -> Vec<_> { forms(root) }).collect(),
            homes: host.home().map_or_else(Vec::new, forms),
        };
        PathRules { rules: rules.collect(), anchors, ignores_case: host.ignores_case("/") }
    }

    /// Describes the effect of each rule with `path` in a sandbox: its id, and `held (hidden)`, `held (read-only)` or the
    /// reason why it is not held.
    pub fn sandbox_report(&self, mode: SandboxMode) -> Vec<(String, String)> {
        let with_path = self.rules.iter().filter(|rule| !rule.paths.is_empty());
        let described = with_path.filter(|rule| rule.decision != Verdict::Allow).map(|rule| {
            let text = match (not_held(rule, mode == SandboxMode::Strict), effect(rule)) {
                (Some(reason), _) => format!("not held: {reason}"),
                (None, PathEffect::Hidden) => "held (hidden)".to_owned(),
                (None, PathEffect::ReadOnly) => "held (read-only)".to_owned(),
            };
            (rule.id.clone(), text)
        });
        described.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::NoFiles;

    fn parsed(text: &str) -> Policy {
        Policy::parse(text, &NoFiles { home: Some("/home/u".to_owned()) }).unwrap()
    }

    fn fault(text: &str) -> (Option<usize>, String) {
        let error = Policy::parse(text, &NoFiles::default()).unwrap_err();
        (error.line(), error.message().to_owned())
    }

    #[test]
    fn the_table_is_read() {
        let policy = parsed(
            r#"
[sandbox]
mode = "strict"
network = "hosts"
hosts = ["Registry.example.com", "*.crates.example.com", "10.0.0.7:8080", "[::1]:5", "::2"]
loopback = [5432]
read = ["~/datasets"]
write = ["/scratch"]
env = ["DATABASE_URL", "AWS_*"]
sockets = ["$SSH_AUTH_SOCK"]
unprotect = [".vscode"]
nested = "auto"
backend = "bubblewrap"
processes = 1_000
"#,
        );
        let sandbox = policy.sandbox();
        assert_eq!(sandbox.mode, Some(SandboxMode::Strict));
        let hosts: Vec<String> = sandbox.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(
            hosts,
            ["registry.example.com", "*.crates.example.com", "10.0.0.7:8080", "[::1]:5", "::2"]
        );
        assert_eq!((sandbox.nested, sandbox.processes), (None, Some(1000)));
        assert!(sandbox.passes_variable("AWS_REGION") && !sandbox.passes_variable("AWS"));
    }

    #[test]
    fn faults_name_their_line() {
        let cases = [
            ("[sandbox]\nmod = 1\n", 2, "unknown key \"mod\" in [sandbox]"),
            ("[sandbox]\nmode = \"loose\"\n", 2, "the sandbox is"),
            ("sandbox = 3\n", 1, "[sandbox] must be a table"),
            ("[sandbox]\nhosts = [\"https://x.com\"]\n", 2, "is not a host"),
            ("[sandbox]\nhosts = [\"*com\"]\n", 2, "is not a host"),
            ("[sandbox]\nhosts = [\"127.1\"]\n", 2, "is not a host"),
            ("[sandbox]\nhosts = [\"a:0\"]\n", 2, "the port is a number"),
            ("[sandbox]\nloopback = [70000]\n", 2, "a port is a number from 1 to 65535"),
            ("[sandbox]\nread = [\"data\"]\n", 2, "must be absolute"),
            ("[sandbox]\nwrite = [\"/a/../b\"]\n", 2, "must be absolute"),
            ("[sandbox]\nread = [\"/a/*\"]\n", 2, "wildcards"),
            ("[sandbox]\nenv = [\"A*B\"]\n", 2, "`*` is only allowed at the end"),
            ("[sandbox]\nenv = [\"*\"]\n", 2, "every variable"),
            ("[sandbox]\nunprotect = [\".bashrc\"]\n", 2, "is not a protected name"),
            ("[sandbox]\nnested = \"yes\"\n", 2, "nested is"),
            ("[sandbox]\nprocesses = 0\n", 2, "must be a number above 0"),
            ("[sandbox]\nmemory = \"a lot\"\n", 2, "a size"),
            ("[sandbox]\nbackend = \"landlock\"\n", 2, "is not available"),
            ("[sandbox]\nbackend = \"none\"\n", 2, "the backend is"),
        ];
        for (text, line, wanted) in cases {
            let (found, message) = fault(text);
            assert_eq!(found, Some(line), "{text}: {message}");
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn an_untrusted_project_only_tightens() {
        let user = || {
            parsed("[sandbox]\nmode = \"workspace\"\nhosts = [\"a.com\", \"b.com\"]\nenv = [\"A\", \"B\"]\n")
        };
        let project = || {
            parsed(
                "[sandbox]\nmode = \"off\"\nnetwork = \"all\"\nhosts = [\"b.com\", \"c.com\"]\nenv = [\"B\", \"C\"]\n\
                 write = [\"/x\"]\nunprotect = [\".vscode\"]\nsockets = [\"/s\"]\nloopback = [1]\nnested = true\n",
            )
        };
        let untrusted = user().with_project(project(), false);
        let sandbox = untrusted.sandbox();
        assert_eq!(sandbox.mode, Some(SandboxMode::Workspace));
        // Network `all` is looser than the default of a user without the key.
        assert_ne!(sandbox.network, Some(SandboxNetwork::All));
        assert!(sandbox.keeps_host("b.com", 443) && !sandbox.keeps_host("a.com", 443));
        assert!(!sandbox.hosts.iter().any(|host| host.matches("c.com", 443)));
        assert!(sandbox.passes_variable("B"));
        assert!(!sandbox.passes_variable("A") && !sandbox.passes_variable("C"));
        assert!(sandbox.write.is_empty() && sandbox.unprotect.is_empty() && sandbox.sockets.is_empty());
        assert!(sandbox.loopback.is_empty() && sandbox.nested.is_none());

        let trusted = user().with_project(project(), true);
        assert_eq!(trusted.sandbox().mode, Some(SandboxMode::Off));
        assert!(trusted.sandbox().hosts.iter().any(|host| host.matches("c.com", 443)));
        let strict = user().with_project(parsed("[sandbox]\nmode = \"strict\"\nhosts = []\n"), false);
        assert_eq!(strict.sandbox().mode, Some(SandboxMode::Strict));
        assert!(!strict.sandbox().keeps_host("a.com", 443), "an empty list keeps no host");
    }

    #[test]
    fn hosts_match_whole_names_and_usual_ports() {
        let matches =
            |pattern: &str, host: &str, port| HostPattern::parse(pattern).unwrap().matches(host, port);
        assert!(matches("a.com", "a.com", 443) && matches("a.com", "a.com", 80));
        for (pattern, host, port) in [
            ("a.com", "a.com", 22),
            ("a.com", "ba.com", 443),
            ("a.com", "b.a.com", 443),
            ("*.a.com", "a.com", 443),
            ("*.a.com", "xa.com", 443),
            ("a.com:8080", "a.com", 443),
            ("10.0.0.7", "10.0.0.8", 80),
        ] {
            assert!(!matches(pattern, host, port), "{pattern} {host}:{port}");
        }
        assert!(matches("*.a.com", "x.y.a.com", 443) && matches("10.0.0.7:8080", "10.0.0.7", 8080));
        for odd in [
            "",
            ".",
            "a..b",
            "-a.com",
            "a.com:",
            "a.com:99999",
            "a b",
            "*.*.com",
            "0x7f.0x1",
            "1",
            "[::1",
            "[::1]x",
        ] {
            assert!(HostPattern::parse(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn rules_by_path_are_held() {
        let policy = parsed(
            r#"
[[rule]]
id = "secrets"
decision = "deny"
path = ["**/.env*", "~/.ssh/**", "$root/private"]
[[rule]]
id = "lock"
decision = "deny"
kind = ["edit", "delete"]
path = ["$root/Cargo.lock"]
[[rule]]
id = "asks"
decision = "ask"
path = ["$root/ci/**"]
[[rule]]
id = "with-command"
decision = "deny"
command = ["rm"]
path = ["/data/**"]
[[rule]]
id = "other-agent"
decision = "deny"
agent = "codex*"
path = ["$root/only-codex"]
[[rule]]
id = "opens-nothing"
decision = "allow"
kind = "read"
path = ["/**"]
"#,
        );
        let host = NoFiles { home: Some("/home/u".to_owned()) };
        let roots = ["/w".to_owned()];
        let rules = |agent, mode| policy.path_rules(agent, mode, &roots, &host);
        let found = |agent, mode, path: &str| {
            rules(agent, mode).effect(path).map(|(rule, effect)| (rule.id.clone(), effect))
        };
        let (workspace, strict) = (SandboxMode::Workspace, SandboxMode::Strict);
        let hidden = |id: &str| Some((id.to_owned(), PathEffect::Hidden));
        assert_eq!(found(Some("claude"), workspace, "/w/a/.env.local"), hidden("secrets"));
        assert_eq!(found(Some("claude"), workspace, "/home/u/.ssh/id"), hidden("secrets"));
        assert_eq!(
            found(Some("claude"), workspace, "/w/Cargo.lock"),
            Some(("lock".to_owned(), PathEffect::ReadOnly))
        );
        assert_eq!(found(Some("claude"), workspace, "/w/ci/x"), None);
        assert_eq!(found(Some("claude"), strict, "/w/ci/x"), hidden("asks"));
        assert_eq!(found(Some("claude"), workspace, "/data/x"), None);
        assert_eq!(found(Some("claude"), workspace, "/w/only-codex"), None);
        assert_eq!(found(Some("codex-acp"), workspace, "/w/only-codex"), hidden("other-agent"));
        assert_eq!(found(None, workspace, "/w/only-codex"), hidden("other-agent"), "any agent may be it");
        let secrets = &rules(None, workspace).rules[0];
        assert_eq!(secrets.literal_paths(&roots, Some("/home/u")), ["/home/u/.ssh", "/w/private"]);
        assert!(secrets.has_wildcards());
        let report = policy.sandbox_report(workspace);
        let line = |id: &str| report.iter().find(|(found, _)| found == id).map(|(_, text)| text.as_str());
        assert_eq!(line("secrets"), Some("held (hidden)"));
        assert_eq!(line("lock"), Some("held (read-only)"));
        assert_eq!(line("with-command"), Some("not held: it has command"));
        assert_eq!(line("opens-nothing"), None);
    }
}
