//! `switchboard setup vscode --hub URL`: the hub as an agent host of VS Code's own chat.

use serde_json::{Value, json};

use super::{Arguments, show_change, target, tell};
use crate::configuration::edited_file::EditedFile;
use crate::configuration::edited_json::EditedJson;
use crate::outcome::CommandError;
use crate::setup::{AGENT_HOSTS, AGENT_HOSTS_ENABLED, Record, agent_host_files, agent_host_of};

/// Name under which VS Code shows the hub, and by which the entry is found again.
const NAME: &str = "Switchboard";
/// Name of the change in the records, which no agent has.
const CHANGE: &str = "agent host of VS Code";

/// Returns the address of a hub as VS Code wants it: without `ws://`, which it adds itself.
fn address_of(hub: &str) -> Result<String, CommandError> {
    let refused = |reason: &str| {
        CommandError::usage(format!("{hub} is not the address of a hub: {reason}"))
            .hint("an address looks like wss://home.example or ws://127.0.0.1:4173")
    };
    let url = url::Url::parse(hub).map_err(|error| refused(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(
            refused("it has a user name, password or query").hint("a token belongs into --token-file")
        );
    }
    let host = url.host_str().ok_or_else(|| refused("it has no host"))?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let scheme = match url.scheme() {
        "ws" | "http" => "",
        "wss" | "https" => "wss://",
        _ => return Err(refused("expected ws, wss, http or https")),
    };
    let path = match url.path() {
        "" | "/" => switchboard_ahp::PATH,
        path => path.trim_end_matches('/'),
    };
    Ok(format!("{scheme}{host}{port}{path}"))
}

/// Adds the hub to the settings of VS Code, or removes it.
pub(super) fn run(arguments: &Arguments, output: &mut Vec<u8>) -> Result<(), CommandError> {
    let files = agent_host_files();
    if files.is_empty() {
        return Err(CommandError::usage("VS Code was not found on this machine")
            .hint("docs/editors/vscode.md has the settings, to be added by hand"));
    }
    let host = match (&arguments.hub, &arguments.token_file) {
        _ if arguments.undo => None,
        (Some(hub), Some(file)) => {
            let token = std::fs::read_to_string(file).map_err(|error| {
                CommandError::usage(format!("cannot read the token in {}: {error}", file.display()))
            })?;
            let token = token.trim().to_owned();
            if token.is_empty() || token.contains(char::is_whitespace) {
                return Err(CommandError::usage(format!("{} does not contain a token", file.display())));
            }
            Some((address_of(hub)?, token))
        }
        _ => {
            return Err(CommandError::usage("VS Code needs a token for the hub")
                .hint("name a file that contains it: --token-file FILE")
                .hint("create one: switchboard tokens add vscode --role use > FILE"));
        }
    };
    for path in files {
        let path = target(&path, arguments)?;
        let file = EditedFile::read(&path)?;
        let refused = |reason: String| {
            CommandError::usage(format!("{} {reason}", path.display()))
                .hint("nothing was changed; correct it first")
        };
        let mut edited = EditedJson::parse(file.before().unwrap_or("{}\n")).map_err(refused)?;
        if !edited.get(&[]).unwrap_or_default().is_object() {
            return Err(refused("is not an object".to_owned()));
        }
        match &host {
            Some((address, token)) => {
                add(&mut edited, address, token).map_err(refused)?;
                if file.before().is_some_and(|before| before == edited.text()) {
                    tell(output, &format!("{} has this hub already", path.display()));
                    continue;
                }
                if arguments.dry_run {
                    show_change(&file, &edited.text(), output);
                    continue;
                }
                let backup = Record::keep(&file, CHANGE, &edited.text(), None)?;
                file.write(&edited.text())?;
                let place = backup.display();
                tell(
                    output,
                    &format!(
                        "{}: the hub {address} was added; the previous content is in {place}",
                        path.display()
                    ),
                );
                tell(output, "the agents of the hub are in the agent picker of VS Code's chat");
                tell(output, "to undo it: switchboard setup vscode --undo");
            }
            None => undo(&file, &mut edited, arguments, output)?,
        }
    }
    Ok(())
}

fn add(edited: &mut EditedJson, address: &str, token: &str) -> Result<(), String> {
    if edited.get(&[AGENT_HOSTS_ENABLED]) != Some(json!(true)) {
        edited.set(&[AGENT_HOSTS_ENABLED], &json!(true))?;
    }
    match edited.get(&[AGENT_HOSTS]) {
        None => edited.set(&[AGENT_HOSTS], &json!([]))?,
        Some(Value::Array(_)) => {}
        Some(_) => return Err(format!("has \"{AGENT_HOSTS}\" that is not a list")),
    }
    let document = edited.get(&[]).unwrap_or_default();
    let Some((index, known)) = agent_host_of(&document, NAME) else {
        let host = json!({"name": NAME, "address": address, "connectionToken": token});
        return edited.push(&[AGENT_HOSTS], &host);
    };
    let index = index.to_string();
    for (key, value) in [("address", address), ("connectionToken", token)] {
        if known.get(key).and_then(Value::as_str) != Some(value) {
            edited.set(&[AGENT_HOSTS, &index, key], &json!(value))?;
        }
    }
    Ok(())
}

fn undo(
    file: &EditedFile,
    edited: &mut EditedJson,
    arguments: &Arguments,
    output: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let path = file.path();
    let record = Record::of(path, CHANGE)?;
    let unchanged = record.filter(|record| file.before().is_some_and(|now| record.is_last_change(now)));
    let is_exact = unchanged.is_some();
    let after = match unchanged {
        Some(record) => record.before,
        None => {
            let document = edited.get(&[]).unwrap_or_default();
            let Some((index, _)) = agent_host_of(&document, NAME) else {
                tell(output, &format!("{} has no hub of Switchboard", path.display()));
                return Ok(());
            };
            edited.remove(&[AGENT_HOSTS, &index.to_string()]).map_err(|reason| {
                CommandError::usage(format!("{} {reason}", path.display())).hint("change it by hand")
            })?;
            Some(edited.text())
        }
    };
    if arguments.dry_run {
        show_change(file, after.as_deref().unwrap_or_default(), output);
        return Ok(());
    }
    match &after {
        Some(after) => file.write(after)?,
        None => std::fs::remove_file(path)
            .map_err(|error| CommandError::failed(format!("cannot remove {}: {error}", path.display())))?,
    }
    Record::forget(path, CHANGE);
    let how = if is_exact { "as it was" } else { "without the hub; what else was changed since stays" };
    tell(output, &format!("{} is {how}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_the_protocol() {
        for (hub, expected) in [
            ("ws://127.0.0.1:4173", "127.0.0.1:4173/ahp"),
            ("http://127.0.0.1:4173/", "127.0.0.1:4173/ahp"),
            ("https://home.example", "wss://home.example/ahp"),
            ("wss://home.example:8443/hub/ahp/", "wss://home.example:8443/hub/ahp"),
        ] {
            assert_eq!(address_of(hub).unwrap(), expected);
        }
        for wrong in ["127.0.0.1:4173", "ftp://x", "ws://u@x", "ws://x?tkn=y", ""] {
            assert!(address_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_entry_is_added_once_and_everything_else_stays() {
        let before = "{\n  // mine\n  \"editor.fontSize\": 12,\n  \"chat.remoteAgentHosts\": [{\"name\": \"Other\", \"address\": \"x\"}]\n}\n";
        let mut edited = EditedJson::parse(before).unwrap();
        add(&mut edited, "127.0.0.1:1/ahp", "sb_a").unwrap();
        add(&mut edited, "127.0.0.1:2/ahp", "sb_b").unwrap();
        let text = edited.text();
        assert!(text.contains("// mine") && !text.contains("sb_a"), "{text}");
        let hosts = edited.get(&[AGENT_HOSTS]).unwrap();
        assert_eq!(
            hosts,
            json!([{"name": "Other", "address": "x"},
            {"name": NAME, "address": "127.0.0.1:2/ahp", "connectionToken": "sb_b"}])
        );
        assert_eq!(edited.get(&[AGENT_HOSTS_ENABLED]), Some(json!(true)));
        let mut wrong = EditedJson::parse(r#"{"chat.remoteAgentHosts": 7}"#).unwrap();
        assert!(add(&mut wrong, "x", "y").is_err());
    }
}
