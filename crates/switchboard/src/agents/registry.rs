//! The public registry of agents: a JSON document that lists agents and their packages. It is downloaded on
//! request and kept with its checksum. It only names programs that could be run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Runner;
use crate::configuration;

/// URL of the public registry.
pub(crate) const REGISTRY: &str = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json";

/// Maximum size of a registry in bytes.
pub(crate) const MAX_REGISTRY: u64 = 2_000_000;

/// Maximum number of agents in a registry.
const MAX_AGENTS: usize = 2000;

/// Maximum length of a text in it.
const MAX_TEXT: usize = 2000;

/// A parsed registry.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) agents: Vec<RegistryAgent>,
    /// Reasons why some of its agents were rejected.
    pub(crate) refused: Vec<String>,
}

/// An agent of the registry.
#[derive(Debug)]
pub(crate) struct RegistryAgent {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) version: String,
    pub(crate) package: Option<RegisteredPackage>,
    /// The archive for this platform.
    pub(crate) archive: Option<Archive>,
}

/// A package on npm or `PyPI`.
#[derive(Debug)]
pub(crate) struct RegisteredPackage {
    pub(crate) runner: Runner,
    name: String,
    arguments: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

impl RegisteredPackage {
    pub(crate) fn command_line(&self) -> Vec<String> {
        self.runner.command_line(&self.name, &self.arguments)
    }
}

/// A program that is published as an archive.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) url: String,
    pub(crate) sha256: Option<String>,
    pub(crate) command_line: Vec<String>,
}

/// Returns the SHA-256 checksum of a text in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Registry {
    /// Parses the document. An invalid agent is left out and reported; an invalid document is an error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() as u64 > MAX_REGISTRY {
            return Err(format!("it is larger than {MAX_REGISTRY} bytes"));
        }
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let version = document.get("version").and_then(Value::as_str).ok_or("its version is missing")?;
        if version.split('.').next() != Some("1") {
            return Err(format!("its format version is {version:?}; only 1 is supported"));
        }
        let agents =
            document.get("agents").and_then(Value::as_array).ok_or("its list of agents is missing")?;
        if agents.len() > MAX_AGENTS {
            return Err(format!("it lists more than {MAX_AGENTS} agents"));
        }
        let (mut registry, mut ids) = (Registry::default(), BTreeSet::new());
        for (place, entry) in agents.iter().enumerate() {
            let id = entry.get("id").and_then(Value::as_str).unwrap_or("without an id");
            match agent(entry) {
                Ok(agent) if ids.insert(agent.id.clone()) => registry.agents.push(agent),
                Ok(agent) => {
                    registry.refused.push(format!("agents[{place}]: {:?} is listed twice", agent.id));
                }
                Err(reason) => registry.refused.push(format!("agents[{place}] ({id}): {reason}")),
            }
        }
        Ok(registry)
    }

    /// Returns the last downloaded registry. Fails if the copy does not match its checksum.
    pub(crate) fn cached() -> Result<Option<Self>, String> {
        let Some(file) = cache_file() else { return Ok(None) };
        let damaged = |what: &str| format!("{} {what}; run `switchboard agents update`", file.display());
        let Some(kept) = configuration::read_json(&file)? else { return Ok(None) };
        let text = |key: &str| {
            kept.get(key).and_then(Value::as_str).ok_or_else(|| damaged("is not a copy of a registry"))
        };
        let document = text("document")?;
        if sha256(document.as_bytes()) != text("sha256")? {
            return Err(damaged("was changed since it was downloaded"));
        }
        Registry::parse(document).map(Some).map_err(|problem| damaged(&format!("cannot be used ({problem})")))
    }

    /// Stores a valid document. Returns its path.
    pub(crate) fn keep(document: &str, source: &str) -> Result<PathBuf, String> {
        let file = cache_file().ok_or("the cache folder is unknown: HOME is not set")?;
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
        let kept = json!({"source": source, "sha256": sha256(document.as_bytes()), "document": document});
        let folder = file.parent().ok_or("the cache folder is unknown")?;
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        std::io::Write::write_all(&mut temporary, kept.to_string().as_bytes()).map_err(failed)?;
        temporary.persist(&file).map_err(|error| failed(error.error))?;
        Ok(file)
    }

    pub(crate) fn find(&self, id: &str) -> Option<&RegistryAgent> {
        self.agents.iter().find(|agent| agent.id == id)
    }
}

fn cache_file() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    Some(
        set.or_else(|| Some(configuration::home()?.join(".cache")))?
            .join("switchboard")
            .join("registry.json"),
    )
}

fn agent(entry: &Value) -> Result<RegistryAgent, String> {
    let id = short_text(entry, "id")?;
    let is_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !id.bytes().all(is_id) || !id.starts_with(|first: char| first.is_ascii_lowercase()) || id.len() > 64 {
        return Err(
            "its id is invalid; expected at most 64 lower-case letters, digits and hyphens".to_owned()
        );
    }
    let (title, version) = (short_text(entry, "name")?, short_text(entry, "version")?);
    let distribution =
        entry.get("distribution").and_then(Value::as_object).ok_or("its distribution is missing")?;
    let package = match (distribution.get("npx"), distribution.get("uvx")) {
        (Some(npx), _) => Some(package(npx, Runner::Npx)?),
        (None, Some(uvx)) => Some(package(uvx, Runner::Uvx)?),
        (None, None) => None,
    };
    let archive = match distribution.get("binary") {
        Some(Value::Object(platforms)) => platforms.get(&platform()).map(archive).transpose()?,
        Some(_) => return Err("its binaries must be an object".to_owned()),
        None => None,
    };
    if package.is_none() && !distribution.contains_key("binary") {
        return Err("its distribution is of an unknown kind".to_owned());
    }
    Ok(RegistryAgent { id, title, version, package, archive })
}

fn package(entry: &Value, runner: Runner) -> Result<RegisteredPackage, String> {
    let name = short_text(entry, "package")?;
    // It becomes a word of a command line.
    let is_fine = |character: char| character.is_ascii_alphanumeric() || "@/._-=<>~^+[],".contains(character);
    if name.starts_with('-') || !name.chars().all(is_fine) || name.contains("..") {
        return Err(format!("{name:?} is not a valid package name"));
    }
    Ok(RegisteredPackage { runner, name, arguments: arguments(entry)?, env: environment(entry)? })
}

fn archive(entry: &Value) -> Result<Archive, String> {
    let url = short_text(entry, "archive")?;
    if !url.starts_with("https://") {
        return Err(format!("its archive {url:?} does not use https"));
    }
    let sha256 = match entry.get("sha256") {
        None | Some(Value::Null) => None,
        Some(hash) => {
            let hash = hash
                .as_str()
                .filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            Some(hash.ok_or("the checksum of its archive is invalid")?.to_owned())
        }
    };
    let mut command_line = vec![short_text(entry, "cmd")?];
    command_line.extend(arguments(entry)?);
    Ok(Archive { url, sha256, command_line })
}

fn short_text(entry: &Value, key: &str) -> Result<String, String> {
    let text = entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("its {key} is missing or not a string"))?;
    checked(text, key)
}

fn checked(text: &str, what: &str) -> Result<String, String> {
    if text.len() > MAX_TEXT || text.contains(char::is_control) {
        return Err(format!("its {what} is too long or has control characters"));
    }
    Ok(text.to_owned())
}

fn arguments(entry: &Value) -> Result<Vec<String>, String> {
    match entry.get("args") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= 100 => list
            .iter()
            .map(|item| checked(item.as_str().ok_or("an argument is not a string")?, "argument"))
            .collect(),
        Some(_) => Err("its arguments are not a list, or too many".to_owned()),
    }
}

fn environment(entry: &Value) -> Result<BTreeMap<String, String>, String> {
    match entry.get("env") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(variables)) if variables.len() <= 100 => {
            let variable = |(name, value): (&String, &Value)| {
                let value = value.as_str().ok_or("a variable is not a string")?;
                if name.is_empty() || name.contains('=') {
                    return Err(format!("{name:?} is not a valid variable name"));
                }
                Ok((checked(name, "variable")?, checked(value, "variable")?))
            };
            variables.iter().map(variable).collect()
        }
        Some(_) => Err("its variables are not an object, or too many".to_owned()),
    }
}

/// Returns the registry's name of this platform.
fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    format!("{system}-{}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Tests pass `json!` values to small functions; a reference would only be noise.
    #[allow(clippy::needless_pass_by_value)]
    fn entry(id: &str, distribution: Value) -> Value {
        json!({"id": id, "name": "An agent", "version": "1.2.3", "description": "d", "distribution": distribution})
    }

    fn parse(agents: &[Value]) -> Registry {
        Registry::parse(&json!({"version": "1.0.0", "agents": agents}).to_string()).unwrap()
    }

    #[test]
    fn packages_and_archives_are_read() {
        let hash = "ab".repeat(32);
        let registry = parse(&[
            entry(
                "one",
                json!({"npx": {"package": "@scope/one@1.2.3", "args": ["--acp"], "env": {"A": "b"}}}),
            ),
            entry("two", json!({"uvx": {"package": "two==1.2.3"}})),
            entry(
                "three",
                json!({"binary": {platform(): {"archive": "https://a/b.tgz", "sha256": hash, "cmd": "./three"}}}),
            ),
            entry(
                "four",
                json!({"binary": {"windows-aarch64": {"archive": "https://a/b.zip", "cmd": "four.exe"}}}),
            ),
        ]);
        assert_eq!(registry.refused, [""; 0]);
        let line = |id: &str| registry.find(id).unwrap().package.as_ref().unwrap().command_line().join(" ");
        assert_eq!(line("one"), "npx --yes -- @scope/one@1.2.3 --acp");
        assert_eq!(line("two"), "uvx two==1.2.3");
        assert_eq!(registry.find("three").unwrap().archive.as_ref().unwrap().sha256.as_ref(), Some(&hash));
        assert!(registry.find("four").unwrap().archive.is_none());
    }

    #[test]
    fn an_agent_that_makes_no_sense_is_left_out_and_told() {
        let npx = |package: Value| json!({"npx": package});
        let refused = [
            entry("Upper", npx(json!({"package": "a"}))),
            entry("-dash", npx(json!({"package": "a"}))),
            entry("option", npx(json!({"package": "--package=evil"}))),
            entry("two-words", npx(json!({"package": "a b"}))),
            entry("outside", npx(json!({"package": "../../evil"}))),
            entry("no-package", npx(json!({}))),
            entry("number", npx(json!({"package": "a", "args": [7]}))),
            entry("escape", npx(json!({"package": "a", "args": ["\u{1b}[2J"]}))),
            entry("variable", npx(json!({"package": "a", "env": {"A=B": "c"}}))),
            entry("plain-http", json!({"binary": {platform(): {"archive": "http://a/b", "cmd": "b"}}})),
            entry(
                "bad-hash",
                json!({"binary": {platform(): {"archive": "https://a/b", "sha256": "12", "cmd": "b"}}}),
            ),
            entry("unknown-way", json!({"docker": {}})),
            json!({"id": "no-name"}),
            json!(7),
        ];
        for agent in &refused {
            assert_eq!(parse(std::slice::from_ref(agent)).refused.len(), 1, "{agent}");
        }
        let mut all = refused.to_vec();
        all.extend([
            entry("fine", npx(json!({"package": "a"}))),
            entry("fine", npx(json!({"package": "b"}))),
        ]);
        let registry = parse(&all);
        assert_eq!((registry.agents.len(), registry.refused.len()), (1, refused.len() + 1));
        assert_eq!(registry.agents[0].package.as_ref().unwrap().name, "a", "the first counts");
    }

    #[test]
    fn a_document_that_is_none_is_refused() {
        for text in [
            "",
            "{",
            "[]",
            "7",
            "{}",
            r#"{"version": "1.0.0"}"#,
            r#"{"version": "2.0.0", "agents": []}"#,
            r#"{"version": 1, "agents": []}"#,
            r#"{"version": "1.0.0", "agents": {}}"#,
        ] {
            assert!(Registry::parse(text).is_err(), "{text}");
        }
        let huge = format!(r#"{{"version": "1.0.0", "agents": [{}7]}}"#, "7,".repeat(MAX_AGENTS));
        assert!(Registry::parse(&huge).unwrap_err().contains("more than 2000"));
        assert!(Registry::parse(&" ".repeat(5 << 20)).unwrap_err().contains("larger"));
        let deep = format!(r#"{{"version": "1.0.0", "agents": {}"#, "[".repeat(100_000));
        assert!(Registry::parse(&deep).is_err());
    }
}
