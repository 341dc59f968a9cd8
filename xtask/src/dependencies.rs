//! Check of dependencies against `deny.toml`: licences, versions, sources. `cargo deny` does the same and
//! more, but takes minutes to build; it runs as well if it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use toml::de::DeTable;

use crate::{package, root, run, setup};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks all dependencies of the published crates, on any system and with all features.
pub(crate) fn check() -> Result<(), String> {
    println!("\n==> dependencies, by deny.toml");
    let text =
        std::fs::read_to_string(root().join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let rules = DeTable::parse(&text).map_err(|error| format!("deny.toml: {error}"))?;
    let list = |table: &str, key: &str| -> BTreeSet<String> {
        let table = rules.get_ref().get(table).and_then(|table| table.get_ref().as_table());
        let values = table.and_then(|table| table.get(key)).and_then(|values| values.get_ref().as_array());
        values.into_iter().flatten().filter_map(|value| Some(value.get_ref().as_str()?.to_owned())).collect()
    };
    let (allowed, mut twice) = (list("licenses", "allow"), list("bans", "skip"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut faults = Vec::new();
    for package in needed(&package::metadata(&["--all-features"])?) {
        let (name, version) = (text_of(&package, "name"), text_of(&package, "version"));
        if !matches!(package["source"].as_str(), None | Some(REGISTRY)) {
            faults.push(format!("{name} {version} comes from {}", package["source"]));
        }
        let license = text_of(&package, "license");
        if !is_allowed(&license, &allowed) {
            faults.push(format!(
                "{name} {version} has the licence \"{license}\", which deny.toml does not allow"
            ));
        }
        versions.entry(name).or_default().insert(version);
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !twice.remove(&name) {
            faults.push(format!("{name} is there in the versions {versions:?}"));
        }
    }
    faults.extend(twice.iter().map(|name| format!("{name} is there once now: take it out of deny.toml")));
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    if setup::exists("cargo-deny", &["--version"]) {
        run(Command::new("cargo").args(["deny", "--locked", "check", "bans", "licenses", "sources"]))?;
    }
    Ok(())
}

/// Returns the packages that the published crates need, without those for tests only.
fn needed(metadata: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let by_id = |values: Vec<Value>| -> BTreeMap<String, Value> {
        values.into_iter().map(|value| (text_of(&value, "id"), value)).collect()
    };
    let packages = by_id(list(&metadata["packages"]));
    let nodes = by_id(list(&metadata["resolve"]["nodes"]));
    let members = list(&metadata["workspace_members"]);
    let published = |id: &String| packages.get(id).is_some_and(|package| package["publish"].is_null());
    let mut open: Vec<String> =
        members.iter().filter_map(|id| Some(id.as_str()?.to_owned())).filter(published).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev") {
                let id = text_of(&dependency, "pkg");
                if !found.contains(&id) {
                    open.push(id);
                }
            }
        }
        found.insert(id);
    }
    found.iter().filter_map(|id| packages.get(id).cloned()).collect()
}

fn text_of(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Returns whether a licence expression is satisfied by the allowed ones. A slash is an old spelling of `OR`.
fn is_allowed(license: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed) && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allowed);
        return words.next_if_eq(&")").is_some() && met;
    }
    let mut name = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_met_or_not() {
        let allowed = ["MIT", "Apache-2.0"].map(str::to_owned).into();
        for license in
            ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Apache-2.0", "MIT AND Apache-2.0"]
        {
            assert!(is_allowed(license, &allowed), "{license}");
        }
        for license in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0 WITH X", "(MIT", "MIT)", "MIT MIT", "OR"]
        {
            assert!(!is_allowed(license, &allowed), "{license}");
        }
    }
}
