//! Checks of configuration, rules, store, disk, and programs that install agents.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use switchboard_store::{Filter, Store, StoreError};
use switchboard_transport::Program;

use super::Finding;
use crate::agents::Registry;
use crate::configuration::hub::HubSettings;
use crate::configuration::{self, Configuration, read_json};
use crate::policy_file::{self, SystemFiles};
use crate::setup::{self, Editor, Kind};
use crate::{store_file, units};

pub(super) fn look(configuration: &Configuration, folder: &Path, min_free: u64) -> Vec<Finding> {
    let mut findings = programs();
    findings.extend(sandbox());
    findings.extend(proxy());
    findings.extend(settings(configuration, folder));
    findings.extend(editors());
    findings.extend(rules(folder));
    match store_file::place(None) {
        Ok(place) => {
            findings.extend(store(&place));
            findings.push(disk("store", &place, min_free));
        }
        Err(error) => {
            findings.push(Finding::problem("store", error.to_string(), "set HOME or SWITCHBOARD_STORE"));
        }
    }
    findings.push(disk("temporary files", &std::env::temp_dir(), min_free));
    findings
}

fn programs() -> Vec<Finding> {
    let version = env!("CARGO_PKG_VERSION");
    let ourselves = match std::env::current_exe() {
        Ok(path) => Finding::fine("switchboard", format!("version {version}, {}", path.display())),
        Err(error) => Finding::problem(
            "switchboard",
            format!("version {version}; cannot find its own program: {error}"),
            "start it by its path",
        ),
    };
    let mut findings = vec![ourselves];
    for (program, what) in [
        ("npx", "agents from npm need it; it comes with Node.js"),
        ("uvx", "agents from PyPI need it; it comes with uv"),
        ("git", "`switchboard diff --git` needs it"),
    ] {
        findings.push(match Program::new(program).locate() {
            Ok(path) => Finding::fine(program, path.display().to_string()),
            Err(_) => Finding::note(program, format!("not on the PATH; {what}")),
        });
    }
    findings
}

/// Reports which parts of a sandbox this machine can enforce. A missing part is a note: a sandbox is used on request.
fn sandbox() -> Vec<Finding> {
    let checks = switchboard_sandbox::machine().into_iter().chain([("trial", crate::sandbox::trial())]);
    let findings = checks.map(|(name, result)| match result {
        Ok(what) => Finding::fine(format!("sandbox: {name}"), what),
        Err(reason) => Finding::note(format!("sandbox: {name}"), reason),
    });
    findings.collect()
}

fn settings(configuration: &Configuration, folder: &Path) -> Vec<Finding> {
    const SUBJECT: &str = "configuration";
    const REMEDY: &str = "correct the reported problem, or remove the file";
    let mut findings: Vec<Finding> =
        configuration.problems.iter().map(|problem| Finding::problem(SUBJECT, problem, REMEDY)).collect();
    findings.extend(home());
    findings.extend(unknown_keys());
    findings.extend(store_file::limit_problems().into_iter().map(|problem| {
        Finding::problem(
            SUBJECT,
            problem,
            "change it in config.json, for example to \"keep\": \"90d\" or \"max_size\": \"2GB\"",
        )
    }));
    findings.extend(HubSettings::problems(folder).into_iter().map(|problem| {
        Finding::problem(SUBJECT, problem, "change it in config.json; docs/hub.md has the settings")
    }));
    if let Err(problem) = Registry::cached() {
        findings.push(Finding::problem("registry", problem, "switchboard agents update"));
    }
    for agent in &configuration.agents {
        if configuration.find(&agent.name) != Some(agent) {
            let (name, file) = (&agent.name, agent.file.display());
            findings.push(Finding::note(
                SUBJECT,
                format!("the agent \"{name}\" of {file} is not used: another comes first"),
            ));
        }
    }
    if findings.is_empty() {
        let count = configuration.agents.len();
        findings.push(Finding::fine(
            SUBJECT,
            match count {
                1 => "1 agent is configured".to_owned(),
                _ => format!("{count} agents are configured"),
            },
        ));
    }
    findings
}

/// Checks that the program which editors start as Switchboard exists and is this one.
fn editors() -> Vec<Finding> {
    let mut findings = Vec::new();
    for editor in Editor::ALL.into_iter().filter(|editor| editor.found().is_some()) {
        let files = editor.files().into_iter();
        // A file that cannot be read is reported with the configuration, or not at all: it is the editor's own.
        let read = files.filter_map(|(file, shape)| Some((read_json(&file).ok()??, file, shape)));
        for (document, file, shape) in read {
            let entries = shape.entries(&document).into_iter();
            for entry in entries.filter(|entry| matches!(entry.kind, Kind::Ours(_))) {
                let Some(program) = &entry.program else { continue };
                let reason = match Program::new(program).locate() {
                    Err(_) => "is not there",
                    Ok(path) if setup::is_in_cache(&path) => {
                        "is in a cache that is emptied from time to time"
                    }
                    Ok(_) => continue,
                };
                let (title, name) = (editor.title(), &entry.name);
                let what =
                    format!("{title}: {program}, which starts \"{name}\" in {}, {reason}", file.display());
                let fix = format!("switchboard setup {} {name}", editor.name());
                findings.push(Finding::problem("editors", what, fix));
            }
        }
    }
    findings.extend(agent_hosts());
    if let Some(copy) = setup::copy_is_old() {
        let what = format!("{} is not the same as this program", copy.display());
        let finding = Finding::note("editors", what);
        findings.push(finding.advice("to update it, run `switchboard setup EDITOR AGENT` again"));
    }
    findings
}

/// Time limit for the answer of a hub in the settings of VS Code.
const HUB_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the hub in the settings of VS Code: that agent hosts are enabled, that the hub is there, and that it accepts the
/// token.
fn agent_hosts() -> Vec<Finding> {
    const FIX: &str = "switchboard setup vscode --hub URL --token-file FILE";
    let mut findings = Vec::new();
    for file in setup::agent_host_files() {
        // A file that cannot be read is the editor's own concern.
        let Ok(Some(document)) = read_json(&file) else { continue };
        let Some((_, host)) = setup::agent_host_of(&document, "Switchboard") else { continue };
        let text = |key: &str| host.get(key).and_then(Value::as_str).unwrap_or_default();
        let (address, file) = (text("address"), file.display());
        if document.get(setup::AGENT_HOSTS_ENABLED) != Some(&Value::Bool(true)) {
            let what = format!("VS Code: {} is not true in {file}", setup::AGENT_HOSTS_ENABLED);
            findings.push(Finding::problem("editors", what, FIX));
            continue;
        }
        findings.push(match agent_host_status(address, text("connectionToken")) {
            Some(101) => {
                Finding::fine("editors", format!("VS Code: the hub {address} accepts the token in {file}"))
            }
            Some(401 | 403) => Finding::problem(
                "editors",
                format!("VS Code: the hub {address} refuses the token in {file}"),
                FIX,
            ),
            Some(status) => {
                let what = format!("VS Code: {address} in {file} answers with {status} and may be no hub");
                Finding::problem("editors", what, FIX)
            }
            None if address.starts_with("wss://") => {
                Finding::note("editors", format!("VS Code: the hub {address} in {file} was not tried"))
            }
            None => {
                let what = format!("VS Code: no hub answers at {address}, which is in {file}");
                Finding::note("editors", what).advice("start it: switchboard serve")
            }
        });
    }
    findings
}

/// Returns the status with which a hub answers an agent host's client. `None` if it cannot be reached, or only with TLS.
fn agent_host_status(address: &str, token: &str) -> Option<u16> {
    let address = address.strip_prefix("ws://").unwrap_or(address);
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    // A token with a line break would change the request.
    if address.contains("://") || token.contains(char::is_control) || path.contains(char::is_whitespace) {
        return None;
    }
    let target = host.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&target, HUB_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(HUB_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(HUB_TIMEOUT)).ok()?;
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: c3dpdGNoYm9hcmQgZG9jdA==\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    std::str::from_utf8(&start).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// Checks that there is a home folder and that it can be written.
fn home() -> Option<Finding> {
    let Some(home) = configuration::home() else {
        return Some(Finding::problem("home", "HOME is not set to a folder", "set HOME to your home folder"));
    };
    let error = rustix::fs::access(&home, rustix::fs::Access::WRITE_OK).err()?;
    let what = format!("{} cannot be written: {error}", home.display());
    let fix = "correct its owner and permissions, or set XDG_DATA_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME";
    Some(Finding::problem("home", what, fix))
}

/// Names the keys of the user's configuration that have no meaning: most likely they are misspelled.
fn unknown_keys() -> Vec<Finding> {
    let unknown = configuration::unknown_settings();
    let finding = |(key, meant): (String, Option<&str>)| {
        let fix = match meant {
            Some(meant) => format!("is \"{meant}\" meant? correct it in config.json"),
            None => format!("remove it; the settings are {}", configuration::SETTINGS.join(", ")),
        };
        Finding::problem("configuration", format!("config.json has an unknown setting \"{key}\""), fix)
    };
    unknown.into_iter().map(finding).collect()
}

/// Checks the proxy that is set in the environment: agents and downloads use it.
fn proxy() -> Vec<Finding> {
    let variables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let set = variables.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    set.filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            let has_scheme = value.contains("://");
            let address = if has_scheme { value.clone() } else { format!("http://{value}") };
            match url::Url::parse(&address) {
                Ok(url) if url.host_str().is_some() => {
                    // Without user name and password.
                    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
                    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                    Finding::note(
                        "proxy",
                        format!("{name} is set: agents reach the network through {host}{port}"),
                    )
                }
                _ => Finding::problem(
                    "proxy",
                    format!("{name} is not the address of a proxy"),
                    format!("set it to an address such as http://proxy.example.com:3128, or unset {name}"),
                ),
            }
        })
        .collect()
}

fn rules(folder: &Path) -> Option<Finding> {
    let files = SystemFiles::new();
    let rules = policy_file::of_user(&files).and_then(|user| policy_file::for_project(user, folder, &files));
    let refused = rules.err()?;
    let fix = match &refused {
        policy_file::Refused::Exposed(exposure) => exposure.remedy.clone(),
        policy_file::Refused::Unreadable(_) => {
            "make the file readable for yourself: chmod u+r FILE".to_owned()
        }
        policy_file::Refused::Invalid(path, _) => {
            format!("correct it; `switchboard policy check {}` shows where", path.display())
        }
    };
    let finding = Finding::problem("rules", refused.to_string(), fix);
    Some(finding.advice("until then Switchboard asks you about everything"))
}

fn store(place: &Path) -> Vec<Finding> {
    const SUBJECT: &str = "store";
    let mode = |path: &Path| path.metadata().map(|metadata| metadata.permissions().mode() & 0o777);
    let Ok(permissions) = mode(place) else {
        let parent = existing(place);
        return vec![match rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK) {
            Ok(()) => {
                Finding::fine(SUBJECT, format!("nothing is recorded yet; it will be in {}", place.display()))
            }
            Err(error) => Finding::problem(
                SUBJECT,
                format!("{} cannot be made: {}: {error}", place.display(), parent.display()),
                "make it writable, or set another store in SWITCHBOARD_STORE",
            ),
        }];
    };
    let mut findings = Vec::new();
    if permissions & 0o077 != 0 {
        let what = format!("other users can read {} (permissions {permissions:03o})", place.display());
        findings.push(Finding::problem(SUBJECT, what, format!("chmod 600 {}", place.display())));
    }
    if let Err(error) = rustix::fs::access(place, rustix::fs::Access::WRITE_OK) {
        let what = format!("{} cannot be written: {error}", place.display());
        findings.push(Finding::problem(SUBJECT, what, "make it writable, or use another store"));
    }
    let looked = Store::open_read_only(place)
        .and_then(|store| Ok((store.sessions(&Filter::default())?.len(), store.sizes()?.file)));
    findings.push(match looked {
        Ok((sessions, bytes)) => {
            let size = units::size(bytes);
            let noun = if sessions == 1 { "session" } else { "sessions" };
            Finding::fine(SUBJECT, format!("{sessions} recorded {noun}, {size}, in {}", place.display()))
        }
        Err(error) => {
            let fix = match &error {
                StoreError::Newer { .. } => {
                    "update Switchboard: a newer one has written this store".to_owned()
                }
                StoreError::Busy { .. } => "run the command again when the other program is done".to_owned(),
                _ => format!("move {} away, or name another file in SWITCHBOARD_STORE", place.display()),
            };
            Finding::problem(SUBJECT, error.to_string(), fix)
        }
    });
    findings
}

/// Returns the existing part of a path.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn disk(what: &str, place: &Path, min_free: u64) -> Finding {
    let about = format!("disk ({what})");
    let folder = if place.is_dir() { place.to_owned() } else { existing(place) };
    let status = match rustix::fs::statvfs(&folder) {
        Ok(status) => status,
        Err(error) => {
            return Finding::note(
                about,
                format!("cannot determine the free space of {}: {error}", folder.display()),
            );
        }
    };
    if status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Finding::problem(
            about,
            format!("{} cannot be written", folder.display()),
            "mount it for writing",
        );
    }
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    let words = format!("{} free for {}", units::size(free), folder.display());
    if free < min_free {
        let advice = "free disk space, or lower --min-free";
        return Finding::problem(about, format!("only {words}"), advice);
    }
    Finding::fine(about, words)
}
