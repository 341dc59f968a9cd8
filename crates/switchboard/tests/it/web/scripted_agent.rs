//! An agent that says exactly what a test wrote down.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The id of its only session.
pub(crate) const SESSION: &str = "scripted";

/// Answers what every client asks first, and says the lines of a file when it is prompted or steered. It tells in a message which
/// permissions it was given, and writes down what it hears.
const SCRIPT: &str = r#"#!/bin/sh
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$HEARD"
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([^,]*\),"method".*/\1/p')
    case $line in
    *'"method":"initialize"'*) result=$INITIALIZED ;;
    *'"method":"session/new"'*) result=$OPENED ;;
    *'"method":"session/prompt"'*) result='{"messageId":"prompt"}' ;;
    *'"method":"_session/steering"'*) result='{"outcome":"injected"}' ;;
    *'"outcome":"selected"'*)
        option=$(printf '%s' "$line" | sed 's/.*"optionId":"\([^"]*\)".*/\1/')
        printf "$GIVEN" "$option"
        continue
        ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    case $line in
    *'"method":"session/prompt"'* | *'"method":"_session/steering"'*)
        cat "$LINES_TO_SAY"
        [ -e "$LINES_TO_SAY.next" ] && LINES_TO_SAY=$LINES_TO_SAY.next
        ;;
    esac
done
"#;

/// Writes the agent into a folder, and gives the path of its script. `prompt` is what it takes in prompts.
pub(crate) fn scripted_agent(folder: &Path, prompt: &Value, opened: &Value, lines: &[Value]) -> PathBuf {
    let said = folder.join("agent-lines.jsonl");
    write_lines(&said, lines);
    let initialized = json!({
        "protocolVersion": 2, "info": { "name": "scripted", "version": "1" }, "capabilities": { "session": { "prompt": prompt } },
        "_meta": { "steering": { "supported": true } },
    });
    let mut opened = opened.clone();
    opened["sessionId"] = SESSION.into();
    let given = update(json!({
        "sessionUpdate": "agent_message_chunk", "messageId": "given", "content": { "type": "text", "text": "given %s, " },
    }));
    let head = |name: &str, value: &str| format!("{name}='{}'\n", value.replace('\'', r"'\''"));
    let (shebang, rest) = SCRIPT.split_once('\n').unwrap();
    let script = [
        format!("{shebang}\n"),
        head("INITIALIZED", &initialized.to_string()),
        head("OPENED", &opened.to_string()),
        head("LINES_TO_SAY", said.to_str().unwrap()),
        head("HEARD", heard(folder).to_str().unwrap()),
        head("GIVEN", &format!("{given}\\n")),
        rest.to_owned(),
    ]
    .concat();
    let program = folder.join("scripted-agent");
    std::fs::write(&program, script).unwrap();
    program
}

/// Writes down what the agent says when it is prompted again.
pub(crate) fn then_says(folder: &Path, lines: &[Value]) {
    write_lines(&folder.join("agent-lines.jsonl.next"), lines);
}

fn write_lines(path: &Path, lines: &[Value]) {
    std::fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// The file of what it has heard.
pub(crate) fn heard(folder: &Path) -> PathBuf {
    folder.join("agent-heard.jsonl")
}

/// A `session/update` of its session.
pub(crate) fn update(update: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": SESSION, "update": update } })
}
