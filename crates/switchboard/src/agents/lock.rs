//! Lock files of a team: exactly the same agents, with exactly the same dependencies, on every machine.

use serde_json::{Value, json};
use switchboard_acp::display::visible_line;

use super::installation::{self, Offer, Prepared};
use super::{KnownAgent, Package, Runner, sha256};
use crate::outcome::CommandError;

/// Version of the format.
const FORMAT: u64 = 1;
/// Maximum size of a lock file of a team in bytes.
pub(crate) const MAX_TEAM_LOCK: u64 = 4 * installation::MAX_LOCK;

/// A version of an agent, as a lock file describes it.
#[derive(Debug)]
pub(crate) struct LockedAgent {
    pub(crate) agent: &'static KnownAgent,
    package: &'static Package,
    pub(crate) version: String,
    /// The digest of the package.
    integrity: String,
    /// The lock file of npm or uv.
    lock: String,
}

/// Returns the lock file of agents that Switchboard installed: the named ones, or all.
pub(crate) fn text(agents: &[&'static KnownAgent]) -> Result<String, CommandError> {
    let mut locked = Vec::new();
    for agent in agents {
        let missing = || {
            CommandError::usage(format!("{} is not installed by Switchboard", agent.title))
                .hint(format!("to install it: switchboard agents install {}", agent.name))
        };
        let (Some(package), Some(found)) = (&agent.package, installation::find(agent, None)) else {
            return Err(missing());
        };
        let lock = found.lock(package).ok_or_else(|| {
            CommandError::failed(format!("{} has no lock file of its packages", found.folder.display())).hint(
                format!(
                    "install it again: switchboard agents remove {0}, then agents install {0}",
                    agent.name
                ),
            )
        })?;
        locked.push(json!({
            "name": agent.name,
            "version": found.version,
            "package": package.name,
            "manager": installation::manager(package.runner),
            "integrity": found.integrity,
            "sha256": sha256(lock.as_bytes()),
            "lock": lock,
        }));
    }
    if locked.is_empty() {
        return Err(CommandError::usage("no agent is installed by Switchboard")
            .hint("to install one: switchboard agents install NAME"));
    }
    let document = json!({"format": FORMAT, "agents": locked});
    serde_json::to_string_pretty(&document)
        .map_err(|error| CommandError::failed(format!("cannot write the lock: {error}")))
}

/// Parses a lock file. Fails with the reason if any of it is invalid.
pub(crate) fn parse(text: &str) -> Result<Vec<LockedAgent>, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match document.get("format").and_then(Value::as_u64) {
        Some(FORMAT) => {}
        Some(other) => return Err(format!("its format is {other}; this program knows format {FORMAT}")),
        None => return Err("it is not a lock of `switchboard agents lock`: it has no format".to_owned()),
    }
    let agents = document.get("agents").and_then(Value::as_array).ok_or("it has no list of agents")?;
    let mut locked: Vec<LockedAgent> = Vec::new();
    for (index, value) in agents.iter().enumerate() {
        let agent = parse_agent(value).map_err(|reason| format!("agent {}: {reason}", index + 1))?;
        if locked.iter().any(|other| other.agent.name == agent.agent.name) {
            return Err(format!("it has {} twice", agent.agent.name));
        }
        locked.push(agent);
    }
    if locked.is_empty() { Err("it has no agents".to_owned()) } else { Ok(locked) }
}

fn parse_agent(value: &Value) -> Result<LockedAgent, String> {
    let text = |key: &str| {
        value.get(key).and_then(Value::as_str).ok_or_else(|| format!("\"{key}\" must be a string"))
    };
    let name = text("name")?;
    let agent = super::find(name).filter(|agent| agent.name == name);
    let agent = agent.ok_or_else(|| format!("\"{}\" is not a known agent", visible_line(name)))?;
    let package = agent.package.as_ref().ok_or_else(|| format!("{name} is not published as a package"))?;
    // A lock chooses the version of an agent and never another package for its name.
    let (named, manager) = (text("package")?, text("manager")?);
    if named != package.name || manager != installation::manager(package.runner) {
        let (named, manager) = (visible_line(named), visible_line(manager));
        return Err(format!("{name} is {} here, and {named} by {manager} in the lock", package.name));
    }
    let (version, integrity, lock) = (text("version")?, text("integrity")?, text("lock")?);
    if !installation::is_version(version) {
        return Err(format!("\"{}\" is not a version", visible_line(version)));
    }
    if sha256(lock.as_bytes()) != text("sha256")? {
        return Err(format!("the packages of {name} do not have the checksum that the lock names"));
    }
    check(package, version, lock).map_err(|reason| format!("{name}: {reason}"))?;
    let (version, integrity, lock) = (version.to_owned(), integrity.to_owned(), lock.to_owned());
    Ok(LockedAgent { agent, package, version, integrity, lock })
}

/// Checks that a lock file of npm or uv has this version, and that every package in it comes from a registry with a digest.
fn check(package: &Package, version: &str, lock: &str) -> Result<(), String> {
    if package.runner == Runner::Uvx {
        // uv itself requires a digest of each package.
        return match installation::locked(lock, package.name) {
            Some((found, _)) if found == version => Ok(()),
            _ => Err(format!("the packages do not have {} {version}", package.name)),
        };
    }
    let document: Value =
        serde_json::from_str(lock).map_err(|error| format!("the lock of npm is not JSON: {error}"))?;
    let packages =
        document.get("packages").and_then(Value::as_object).ok_or("the lock of npm has no packages")?;
    let key = format!("node_modules/{}", package.name);
    if packages.get(&key).and_then(|entry| entry.get("version")?.as_str()) != Some(version) {
        return Err(format!("the packages do not have {} {version}", package.name));
    }
    for (path, entry) in packages.iter().filter(|(path, _)| !path.is_empty()) {
        let path = visible_line(path);
        let is_bundled = entry.get("inBundle").and_then(Value::as_bool) == Some(true);
        if !is_bundled && entry.get("integrity").and_then(Value::as_str).is_none() {
            return Err(format!("{path} has no digest"));
        }
        if let Some(from) = entry.get("resolved") {
            let is_registry =
                from.as_str().is_some_and(|url| url.starts_with("https://") || url.starts_with("http://"));
            if !is_registry {
                return Err(format!("{path} does not come from a registry"));
            }
        }
    }
    Ok(())
}

impl LockedAgent {
    /// Makes the installation in a folder of its own.
    pub(crate) fn prepare(&self) -> Result<Prepared, CommandError> {
        Offer::of_lock(self.agent, self.package, &self.version).prepare_locked(&self.lock, &self.integrity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_of(packages: &Value) -> Value {
        let lock = json!({"lockfileVersion": 3, "packages": packages}).to_string();
        json!({"name": "codex", "version": "1.0.0", "package": "@agentclientprotocol/codex-acp", "manager": "npm",
            "integrity": "sha512-x", "sha256": sha256(lock.as_bytes()), "lock": lock})
    }

    fn good() -> Value {
        lock_of(
            &json!({"": {}, "node_modules/@agentclientprotocol/codex-acp": {"version": "1.0.0", "integrity": "sha512-x",
            "resolved": "https://registry.example/codex-acp-1.0.0.tgz"}}),
        )
    }

    fn reason(agents: &Value) -> String {
        parse(&json!({"format": 1, "agents": agents}).to_string()).map(drop).unwrap_err()
    }

    #[test]
    fn a_lock_is_read_only_if_all_of_it_is_valid() {
        let locked = parse(&json!({"format": 1, "agents": [good()]}).to_string()).unwrap();
        assert_eq!((locked[0].agent.name, &*locked[0].version), ("codex", "1.0.0"));
        for (text, words) in [
            ("", "not JSON"),
            ("[]", "no format"),
            (r#"{"format": 2, "agents": []}"#, "its format is 2"),
            (r#"{"format": 1}"#, "no list"),
            (r#"{"format": 1, "agents": []}"#, "no agents"),
        ] {
            let found = parse(text).map(drop).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
        assert!(reason(&json!([good(), good()])).contains("codex twice"));
        for (key, value, words) in [
            ("name", json!("nothing"), "not a known agent"),
            ("name", json!(7), "must be a string"),
            ("package", json!("evil"), "codex is @agentclientprotocol/codex-acp here, and evil"),
            ("manager", json!("uv"), "by uv in the lock"),
            ("version", json!("../x"), "is not a version"),
            ("version", json!("2.0.0"), "do not have @agentclientprotocol/codex-acp 2.0.0"),
            ("sha256", json!("00"), "checksum"),
            ("lock", json!("{}"), "checksum"),
        ] {
            let mut agent = good();
            agent[key] = value;
            let found = reason(&json!([agent]));
            assert!(found.contains(words), "{key}: {found}");
        }
    }

    #[test]
    fn packages_without_a_digest_or_from_elsewhere_are_refused() {
        let with = |entry: Value| {
            let own = json!({"version": "1.0.0", "integrity": "sha512-x"});
            reason(&json!([lock_of(
                &json!({"node_modules/@agentclientprotocol/codex-acp": own, "node_modules/a": entry})
            )]))
        };
        assert!(with(json!({"version": "1.0.0"})).contains("node_modules/a has no digest"));
        for from in ["file:../x", "git+ssh://git@example/x", "/x"] {
            let found = with(json!({"version": "1.0.0", "integrity": "sha512-y", "resolved": from}));
            assert!(found.contains("node_modules/a does not come from a registry"), "{found}");
        }
    }
}
