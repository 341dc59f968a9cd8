//! Switchboard's command lines in the configuration of editors.

use std::path::Path;

use switchboard_transport::Remote;

use crate::outcome::CommandError;

/// A command line of this program by which an editor reaches an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandLine {
    Bridge(BridgeLine),
    /// `connect`, with the address of the agent at a hub.
    Connect {
        url: String,
        token_file: Option<String>,
    },
}

/// The words after `switchboard` in a command line of `bridge`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BridgeLine {
    /// `--record`, with a file or without.
    pub(crate) record: Option<String>,
    /// The file of `--permissions`.
    pub(crate) permissions: Option<String>,
    /// All other words before `--`, among them the agent's name.
    pub(crate) others: Vec<String>,
    /// The agent's own command line after `--`.
    pub(crate) command: Vec<String>,
}

/// The options that `setup` writes into a command line; `None` keeps an entry's option as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct BridgeOptions {
    pub(crate) record: Option<bool>,
    pub(crate) permissions: Option<String>,
}

impl CommandLine {
    /// Reads the command line of an editor's entry. `None` if it does not start this program as an agent.
    pub(crate) fn parse(program: &str, arguments: &[impl AsRef<str>]) -> Option<Self> {
        if Path::new(program).file_name().is_none_or(|file| file != "switchboard") {
            return None;
        }
        let mut words = arguments.iter().map(AsRef::as_ref);
        match words.next()? {
            "bridge" => Some(CommandLine::Bridge(BridgeLine::parse(words))),
            "connect" => {
                let (mut url, mut token_file) = (None, None);
                while let Some(word) = words.next() {
                    if word == "--token-file" {
                        token_file = words.next().map(str::to_owned);
                    } else if let Some(file) = word.strip_prefix("--token-file=") {
                        token_file = Some(file.to_owned());
                    } else if Remote::is_address(word) {
                        url = Some(word.to_owned());
                    }
                }
                Some(CommandLine::Connect { url: url?, token_file })
            }
            _ => None,
        }
    }

    /// Returns the words after the program.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match self {
            CommandLine::Bridge(line) => [line.before_command(), line.command.clone()].concat(),
            CommandLine::Connect { url, token_file } => {
                let option = token_file.iter().flat_map(|file| ["--token-file".to_owned(), file.clone()]);
                ["connect".to_owned(), url.clone()].into_iter().chain(option).collect()
            }
        }
    }
}

impl BridgeLine {
    /// Returns the command line for an agent that `bridge` finds by its name.
    pub(crate) fn of_name(agent: &str, options: &BridgeOptions) -> Self {
        BridgeLine { others: vec![agent.to_owned()], ..BridgeLine::new(options) }
    }

    /// Returns the command line that runs an agent's own command.
    pub(crate) fn of_command(command: Vec<String>, options: &BridgeOptions) -> Self {
        BridgeLine { command, ..BridgeLine::new(options) }
    }

    fn new(options: &BridgeOptions) -> Self {
        let record = options.record.unwrap_or(true).then(|| "--record".to_owned());
        BridgeLine { record, permissions: options.permissions.clone(), ..BridgeLine::default() }
    }

    fn parse<'w>(mut words: impl Iterator<Item = &'w str>) -> Self {
        let mut line = BridgeLine::default();
        while let Some(word) = words.next() {
            match word {
                "--" => line.command = words.by_ref().map(str::to_owned).collect(),
                "--permissions" => line.permissions = words.next().map(str::to_owned),
                _ if word == "--record" || word.starts_with("--record=") => {
                    line.record = Some(word.to_owned());
                }
                _ => match word.strip_prefix("--permissions=") {
                    Some(file) => line.permissions = Some(file.to_owned()),
                    None => line.others.push(word.to_owned()),
                },
            }
        }
        line
    }

    /// Returns this command line with other options.
    pub(crate) fn with(&self, options: &BridgeOptions) -> Self {
        let record = match options.record {
            None => self.record.clone(),
            Some(false) => None,
            Some(true) => self.record.clone().or_else(|| Some("--record".to_owned())),
        };
        let permissions = options.permissions.clone().or_else(|| self.permissions.clone());
        BridgeLine { record, permissions, ..self.clone() }
    }

    /// Returns the words before the agent's own command line.
    pub(crate) fn before_command(&self) -> Vec<String> {
        let mut words = vec!["bridge".to_owned()];
        words.extend(self.record.clone());
        if let Some(file) = &self.permissions {
            words.extend(["--permissions".to_owned(), file.clone()]);
        }
        words.extend(self.others.iter().cloned());
        if !self.command.is_empty() {
            words.push("--".to_owned());
        }
        words
    }

    /// Returns the agent for people: its command line or name, and the options that matter.
    pub(crate) fn shown(&self) -> String {
        let agent = if self.command.is_empty() { &self.others } else { &self.command };
        let record = self.record.iter().map(|_| "recorded".to_owned());
        let rules = self.permissions.iter().map(|file| format!("rules {file}"));
        let options: Vec<String> = record.chain(rules).collect();
        let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
        format!("{}{options}", agent.join(" "))
    }
}

/// Returns the address of an agent at a hub, from the address of the hub.
pub(crate) fn address_at_hub(hub: &str, agent: &str) -> Result<String, CommandError> {
    let refused = |reason: &str| {
        CommandError::usage(format!("{hub} is not the address of a hub: {reason}"))
            .hint("an address looks like wss://home.example or http://127.0.0.1:4173")
    };
    let mut url = url::Url::parse(hub).map_err(|error| refused(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(
            refused("it has a user name, password or query").hint("a token belongs into --token-file")
        );
    }
    let has_path = url.path_segments().is_some_and(|mut segments| segments.any(|part| part == "acp"));
    if !has_path {
        let mut segments = url.path_segments_mut().map_err(|()| refused("it has no host"))?;
        segments.pop_if_empty().extend(["acp", agent]);
    }
    Remote::new(url.as_str()).map_err(|error| refused(&error.to_string()))?;
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(words: &[&str]) -> BridgeLine {
        match CommandLine::parse("/opt/bin/switchboard", words) {
            Some(CommandLine::Bridge(line)) => line,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn options_are_found_wherever_they_are_and_nothing_else_is_changed() {
        let rules = BridgeOptions { record: Some(true), permissions: Some("/r.toml".to_owned()) };
        for (before, after) in [
            ("bridge -- npx -y x", "bridge --record --permissions /r.toml -- npx -y x"),
            ("bridge codex", "bridge --record --permissions /r.toml codex"),
            ("bridge codex --permissions=/old.toml", "bridge --record --permissions /r.toml codex"),
            (
                "bridge --record=/f --losses /l -- a --record",
                "bridge --record=/f --permissions /r.toml --losses /l -- a --record",
            ),
            ("bridge --permissions /old.toml --record x", "bridge --record --permissions /r.toml x"),
        ] {
            let line = bridge(&before.split(' ').collect::<Vec<_>>()).with(&rules);
            assert_eq!(CommandLine::Bridge(line).arguments().join(" "), after);
        }
        let recorded = bridge(&["bridge", "--record", "--permissions", "/r.toml", "codex"]);
        assert_eq!(recorded.with(&BridgeOptions::default()), recorded, "nothing was asked for");
        let declined = BridgeOptions { record: Some(false), permissions: None };
        assert_eq!(
            recorded.with(&declined).before_command(),
            ["bridge", "--permissions", "/r.toml", "codex"]
        );
    }

    #[test]
    fn only_our_program_as_an_agent_counts() {
        for (program, words) in [
            ("switchboard-acp", &["bridge", "x"][..]),
            ("/bin/switchboard", &["serve", "x"]),
            ("/bin/switchboard", &[]),
            ("/bin/switchboard", &["connect"]),
        ] {
            assert_eq!(CommandLine::parse(program, words), None, "{program} {words:?}");
        }
        let words = ["connect", "wss://h/acp/codex", "--token-file", "/t"];
        let line = CommandLine::parse("switchboard", &words).unwrap();
        assert_eq!(line.arguments(), words);
    }

    #[test]
    fn a_hub_and_a_name_make_an_address() {
        for (hub, address) in [
            ("wss://home.example", "wss://home.example/acp/my%20agent"),
            ("http://127.0.0.1:4173/", "http://127.0.0.1:4173/acp/my%20agent"),
            ("wss://home.example/switch", "wss://home.example/switch/acp/my%20agent"),
            ("wss://home.example/acp/other", "wss://home.example/acp/other"),
        ] {
            assert_eq!(address_at_hub(hub, "my agent").unwrap(), address);
        }
        for hub in
            ["home.example", "ftp://home.example", "wss://a:b@home.example", "wss://h/?token=x", "mailto:a"]
        {
            assert!(address_at_hub(hub, "x").is_err(), "{hub}");
        }
    }
}
