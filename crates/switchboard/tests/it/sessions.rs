//! Recorded sessions: list, show, search, export.
// Values created in place are easier to read without references.
#![allow(clippy::needless_pass_by_value)]

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent_program::Place;
use crate::program::{Run, switchboard};

struct Scratch {
    folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Scratch { folder: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str], input: &str) -> Run {
        let store = self.folder.path().join("store.sqlite3");
        let all = [&["sessions", "--store", store.to_str().unwrap()], arguments].concat();
        switchboard(&all, input.as_bytes())
    }

    fn import(&self, lines: &[Value]) -> String {
        let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let run = self.run(&["import", "-"], &input);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        run.stdout.trim().to_owned()
    }
}

fn line(seconds: f64, from_agent: bool, message: Value) -> Value {
    json!({"t": seconds, "dir": if from_agent { "agent->client" } else { "client->agent" }, "msg": message})
}

fn conversation() -> Vec<Value> {
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "wire-1", "update": update}});
    vec![
        line(
            0.0,
            false,
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}}),
        ),
        line(
            0.1,
            true,
            json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 2, "info": {"name": "demo-bot", "version": "1"}, "capabilities": {}}}),
        ),
        line(
            0.2,
            false,
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/home/user/project", "mcpServers": [{"type": "stdio", "name": "x", "command": "/x", "args": [], "env": [{"name": "API", "value": "hunter2"}]}]}}),
        ),
        line(0.3, true, json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "wire-1"}})),
        line(
            0.4,
            false,
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "wire-1", "prompt": [{"type": "text", "text": "Fix the build"}]}}),
        ),
        line(
            0.5,
            true,
            update(
                json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "Fix the build"}]}),
            ),
        ),
        line(
            0.6,
            true,
            update(
                json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "Look"}}),
            ),
        ),
        line(
            0.7,
            true,
            update(
                json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "ing \u{1b}[2J at it"}}),
            ),
        ),
        line(
            0.8,
            true,
            update(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run cargo build", "kind": "execute", "status": "completed"}),
            ),
        ),
    ]
}

#[test]
fn a_recording_is_imported_listed_shown_and_exported() {
    let scratch = Scratch::new();
    let lines = conversation();
    let id = scratch.import(&lines);
    let list =
        scratch.run(&["list", "--json", "--agent", "demo", "--project", "/home/user"], "").json_lines();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["id"], id.as_str());
    assert_eq!(list[0]["wireIds"], json!(["wire-1"]));
    assert_eq!((&list[0]["title"], &list[0]["records"]), (&json!("Fix the build"), &json!(9)));
    assert_eq!(scratch.run(&["list", "--agent", "other"], "").stdout, "");
    let text = scratch.run(&["list"], "").stdout;
    assert!(
        text.starts_with("ID ") && text.contains("demo-bot  /home/user/project  Fix the build"),
        "{text}"
    );

    let shown = scratch.run(&["show", "wire-1"], "");
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(
        shown.stdout,
        "== session wire-1, idle ==\n\nuser:\n    Fix the build\n\nagent:\n    Looking ␛[2J at it\n\n\
         tool: Run cargo build (execute) [completed]\n\n"
    );
    let early = scratch.run(&["show", &id, "--at", "7"], "").stdout;
    assert!(early.ends_with("agent:\n    Look\n\n"), "{early}");
    let wire = scratch.run(&["show", &id, "--wire", "--last", "1"], "").stdout;
    assert!(wire.starts_with("     9     0.800 agent->client {\"jsonrpc\""), "{wire}");
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let folded = switchboard(&["fold"], input.as_bytes()).json_lines();
    assert_eq!(scratch.run(&["show", &id, "--json"], "").json_lines(), folded);

    let exported = scratch.run(&["export", &id], "");
    let mut bare = exported.json_lines();
    assert_eq!(bare[0].as_object_mut().unwrap().remove("began"), Some(list[0]["began"].clone()));
    assert_eq!(bare, lines);
    assert_eq!(switchboard(&["check"], exported.stdout.as_bytes()).code, 0);
}

#[test]
fn secrets_are_shown_beforehand_and_replaced() {
    let scratch = Scratch::new();
    let id = scratch.import(&conversation());
    let preview = scratch.run(&["export", &id, "--preview"], "").stdout;
    assert_eq!(preview, "     1 x value of an environment variable: hun... (7 characters)\n");
    let redacted = scratch.run(&["export", &id, "--redact"], "");
    assert!(!redacted.stdout.contains("hunter2") && redacted.stdout.contains("[redacted]"));
    assert_eq!(redacted.stderr, preview);
    assert_eq!(redacted.json_lines().len(), 9);
}

#[test]
fn texts_are_found() {
    let scratch = Scratch::new();
    let id = scratch.import(&conversation());
    let hits = scratch.run(&["search", "looking", "--json"], "").json_lines();
    assert_eq!(hits.len(), 1);
    assert_eq!(
        (&hits[0]["session"], &hits[0]["first"], &hits[0]["last"]),
        (&json!(id), &json!(6), &json!(7))
    );
    let titles = scratch.run(&["search", "cargo", "--kind", "title", "--session", &id], "").stdout;
    assert!(titles.ends_with(" title: Run cargo build\n"), "{titles}");
    let none = scratch.run(&["search", "cargo", "--kind", "user"], "");
    assert_eq!((none.code, &*none.stdout), (1, ""));
    assert!(none.stderr.starts_with("no texts match in "), "{}", none.stderr);
    assert_eq!(scratch.run(&["search", "cargo", "--kind", "nothing"], "").code, 2);
    assert_eq!(scratch.run(&["search", "--", "--"], "").code, 2);
}

#[test]
fn sessions_are_deleted_and_pruned() {
    let scratch = Scratch::new();
    let ids: Vec<_> = (0..3).map(|_| scratch.import(&conversation())).collect();
    assert_eq!(scratch.run(&["delete", "2"], "").code, 2);
    assert_eq!(scratch.run(&["delete", &ids[0]], "").stdout, format!("{}\n", ids[0]));
    assert_eq!(scratch.run(&["prune", "--older-than", "30d"], "").stdout, "");
    assert_eq!(
        scratch.run(&["prune", "--older-than", "9999-01-01", "--dry-run"], "").stdout.lines().count(),
        2
    );
    assert_eq!(scratch.run(&["list"], "").stdout.lines().count(), 1 + 2);
    assert_eq!(scratch.run(&["prune", "--max-size", "1"], "").stdout.lines().count(), 2);
    assert_eq!(scratch.run(&["list"], "").stdout, "");
    assert_eq!(scratch.run(&["prune"], "").code, 2);
}

#[test]
fn statistics_are_by_agent_and_tool() {
    let scratch = Scratch::new();
    scratch.import(&conversation());
    let lines = scratch.run(&["stats", "--json"], "").json_lines();
    let tool = lines.iter().find(|line| line["kind"] == "tool execute").unwrap();
    assert_eq!(
        (&tool["agent"], &tool["records"], &tool["content"]),
        (&json!("demo-bot"), &json!(1), &json!(15))
    );
    assert_eq!(lines[0]["kind"], Value::Null);
    assert_eq!(lines[0]["records"], json!(9));
    assert!(scratch.run(&["stats"], "").stdout.contains("demo-bot"));
}

#[test]
fn a_store_that_does_not_exist_is_an_error_where_it_was_named() {
    let place = Place::new();
    for command in ["list", "stats"] {
        let run = place.run(&["sessions", command, "--store", "/no/such/store"]);
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
        assert!(run.stderr.contains("there is no store /no/such/store"), "{}", run.stderr);
    }
    let run = place.run(&["sessions", "list"]);
    assert_eq!((run.code, &*run.stdout), (0, ""));
    assert!(run.stderr.starts_with("no sessions are recorded yet"), "{}", run.stderr);
}

#[test]
fn one_message_has_one_number_everywhere() {
    let scratch = Scratch::new();
    let mut lines = conversation();
    // An answer to a request that was never made breaks a rule.
    lines.push(line(0.9, true, json!({"jsonrpc": "2.0", "id": 77, "result": {}})));
    let id = scratch.import(&lines);
    let wire = scratch.run(&["show", &id, "--wire", "--last", "1"], "").stdout;
    assert!(wire.trim_start().starts_with(&format!("{} ", lines.len())), "{wire}");
    let store = scratch.folder.path().join("store.sqlite3");
    let judged = switchboard(&["conform", "recording", &id, "--store", store.to_str().unwrap()], b"");
    assert!(judged.stdout.contains(&format!("message {}", lines.len())), "{}", judged.stdout);
}

#[test]
fn lines_that_cannot_be_imported_are_reported() {
    let scratch = Scratch::new();
    let run = scratch.run(&["import", "-"], "nonsense\n{\"jsonrpc\":\"2.0\"}\n");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("line 1: expected a recorded message"), "{}", run.stderr);
    assert_eq!(scratch.run(&["list"], "").stdout, "");
    let good = conversation()[0].to_string();
    let run = scratch.run(&["import"], &format!("{good}\nnonsense\n"));
    assert_eq!((run.code, run.stdout.lines().count()), (1, 1));
    let other = scratch.folder.path().join("other");
    std::fs::write(&other, "not a store at all ".repeat(500)).unwrap();
    let run = switchboard(&["sessions", "list", "--store", other.to_str().unwrap()], b"");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("is not a store"), "{}", run.stderr);
}

#[test]
fn a_session_of_version_1_is_shown_translated() {
    let scratch = Scratch::new();
    let update = |update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "old", "update": update}});
    let id = scratch.import(&[
        line(0.0, false, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}})),
        line(0.1, true, json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})),
        line(0.2, false, json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}})),
        line(0.3, true, json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "old"}})),
        line(0.4, false, json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "old", "prompt": [{"type": "text", "text": "Hello"}]}})),
        line(0.5, true, update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Good day"}}))),
        line(0.6, true, json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})),
    ]);
    let shown = scratch.run(&["show", &id], "");
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(
        shown.stdout,
        "== session old, idle (end_turn) ==\n\nuser:\n    Hello\n\nagent:\n    Good day\n\n"
    );
}

#[test]
fn an_import_keeps_the_time_that_the_recording_has() {
    let scratch = Scratch::new();
    let mut lines = conversation();
    lines[0]["began"] = json!(951_782_400_000_u64);
    let id = scratch.import(&lines);
    assert!(id.starts_with("20000229-"), "{id}");
    let export = scratch.run(&["export", &id], "");
    let again = scratch.run(&["import", "-"], &export.stdout);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let list = scratch.run(&["list", "--json"], "").json_lines();
    assert_eq!((&list[0]["began"], &list[0]["changed"]), (&list[1]["began"], &list[1]["changed"]));
    assert_eq!(scratch.run(&["export", again.stdout.trim()], "").stdout, export.stdout);
}

#[test]
fn a_disk_that_takes_no_more_is_told_and_what_was_there_stays() {
    let scratch = Scratch::new();
    let id = scratch.import(&conversation());
    let before = scratch.run(&["export", &id], "").stdout;
    // Texts that cannot be compressed much.
    let mut number = 1_u64;
    let mut large = Vec::new();
    for message in 0..400 {
        let mut text = String::new();
        for _ in 0..2000 {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            text.push(char::from(b'0' + (number >> 58) as u8));
        }
        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{message}"), "content": {"type": "text", "text": text}});
        large.push(line(0.0, true, json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "big", "update": update}})));
    }
    let file = scratch.folder.path().join("large.jsonl");
    std::fs::write(&file, large.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let store = scratch.folder.path().join("store.sqlite3");
    // Files cannot grow beyond 300 kB; SIGXFSZ must not kill the program.
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 600; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_switchboard")])
        .args(["sessions", "--store", store.to_str().unwrap(), "import", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("switchboard: "), "{said}");
    assert_eq!(scratch.run(&["export", &id], "").stdout, before);
    let again = scratch.run(&["import", file.to_str().unwrap()], "");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(scratch.run(&["export", again.stdout.trim()], "").stdout.lines().count(), 400);
}

#[test]
fn configured_retention_is_applied() {
    let place = Place::new();
    let mut lines = conversation();
    lines[0]["began"] = json!(951_782_400_000_u64);
    place.write("work/old.jsonl", &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let count = || place.run(&["sessions", "list", "--json"]).json_lines().len();
    assert_eq!(place.run(&["sessions", "import", "old.jsonl"]).code, 0);
    assert_eq!((count(), place.run(&["sessions", "prune"]).code), (1, 2));
    place.write("home/.config/switchboard/config.json", r#"{"store": {"keep": "30d", "max_size": "1GB"}}"#);
    assert_eq!(
        place.run(&["sessions", "prune", "--older-than", "30d", "--dry-run"]).stdout.lines().count(),
        1
    );
    let run = place.demo("hello", &["--record"]);
    assert!(run.stderr.contains("deleted 1 old sessions according to the store settings"), "{}", run.stderr);
    assert_eq!(count(), 1);
    place.write("home/.config/switchboard/config.json", r#"{"store": {"max_size": "1kB", "keep": "long"}}"#);
    let run = place.demo("hello", &["--record"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("the setting store.keep: expected a date"), "{}", run.stderr);
    assert!(run.stderr.contains("deleted 1 old sessions"), "{}", run.stderr);
}

#[test]
fn the_agents_id_means_the_latest_recording_and_deletes_nothing() {
    let scratch = Scratch::new();
    let mut lines = conversation();
    lines[0]["began"] = json!(951_782_400_000_u64);
    scratch.import(&lines);
    lines[0]["began"] = json!(951_782_500_000_u64);
    let latest = scratch.import(&lines[..5]);
    assert_eq!(scratch.run(&["show", "wire-1"], "").stdout, scratch.run(&["show", &latest], "").stdout);
    let ambiguous = scratch.run(&["show", "2000"], "");
    assert_eq!(ambiguous.code, 2);
    assert!(ambiguous.stderr.contains(&latest), "{}", ambiguous.stderr);
    let refused = scratch.run(&["delete", "wire-1"], "");
    assert!(refused.code == 2 && refused.stderr.contains(&latest), "{}", refused.stderr);
    assert_eq!(scratch.run(&["delete", &latest], "").code, 0);
    assert_eq!(scratch.run(&["list"], "").stdout.lines().count(), 1 + 1);
}

#[test]
fn sub_agents_are_kept_shown_found_and_deleted_with_the_session_that_started_them() {
    let scratch = Scratch::new();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/demo-subagents-v2.jsonl");
    let import = scratch.run(&["import", recording], "");
    assert_eq!(import.code, 0, "{}", import.stderr);
    let id = import.stdout.trim().to_owned();
    let list = scratch.run(&["list", "--json"], "").json_lines();
    assert_eq!((list.len(), &list[0]["wireIds"]), (1, &json!(["demo-1"])));

    let shown = scratch.run(&["show", &id], "").stdout;
    let headings: Vec<&str> = shown.lines().filter(|line| line.contains("== session")).collect();
    assert_eq!(
        headings,
        [
            "== session demo-1, idle (end_turn) ==",
            "    == session demo-1.subagent-3, sub-agent \"Explorer (Looks for the tests)\", idle (end_turn) ==",
            "    == session demo-1.subagent-5, sub-agent \"Writer\", idle (end_turn) ==",
            "        == session demo-1.subagent-5.subagent-4, sub-agent \"Checker\" of \"Writer\", idle (end_turn) ==",
        ]
    );
    assert!(
        shown.contains("\n        tool: Read notes.txt (read) [completed]\n            2 lines\n"),
        "{shown}"
    );
    // Shown alone, with its own sub-agents.
    let alone = scratch.run(&["show", "demo-1.subagent-5"], "").stdout;
    assert!(alone.starts_with("== session demo-1.subagent-5, sub-agent \"Writer\""), "{alone}");
    assert!(
        alone.contains("\n    == session demo-1.subagent-5.subagent-4") && !alone.contains("Explorer"),
        "{alone}"
    );
    let json = scratch.run(&["show", "demo-1.subagent-5", "--json"], "").json_lines();
    let ids: Vec<_> = json.iter().map(|session| session["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["demo-1.subagent-5", "demo-1.subagent-5.subagent-4"]);
    // The end of the recording also names the owners.
    let last = scratch.run(&["show", &id, "--last", "1"], "").stdout;
    assert!(
        last.contains("        == session demo-1.subagent-5.subagent-4, sub-agent \"Checker\" of \"Writer\""),
        "{last}"
    );

    let found = scratch.run(&["search", "\"both lines\""], "").stdout;
    assert!(found.contains(" agent, sub-agent \"Checker\" of \"Writer\": "), "{found}");
    let found = scratch.run(&["search", "\"both lines\"", "--json"], "").json_lines();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["sessionId"], "demo-1.subagent-5.subagent-4");
    assert_eq!(found[0]["speaker"], "sub-agent \"Checker\" of \"Writer\"");
    let of_the_root = scratch.run(&["search", "\"both are done\"", "--json"], "").json_lines();
    assert_eq!((&of_the_root[0]["sessionId"], &of_the_root[0]["speaker"]), (&json!("demo-1"), &Value::Null));

    // The id of a sub-agent does not delete the recording; deleting the recording deletes all sub-agents.
    let refused = scratch.run(&["delete", "demo-1.subagent-5"], "");
    assert!(refused.code == 2 && !refused.stderr.contains("the store is"), "{}", refused.stderr);
    assert_eq!(scratch.run(&["delete", &id], "").code, 0);
    assert_eq!(scratch.run(&["show", "demo-1.subagent-5"], "").code, 2);
    assert_eq!(scratch.run(&["search", "\"both lines\""], "").code, 1);
}

#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_looked_at_is_no_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    // A link to itself cannot be opened, not even by root.
    std::os::unix::fs::symlink(&store, &store).unwrap();
    let store = store.to_str().unwrap();
    for arguments in [
        &["sessions", "list", "--store", store][..],
        &["sessions", "show", "x", "--store", store],
        &["tokens", "list", "--store", store],
        &["tokens", "revoke", "x", "--store", store],
        &["conform", "recording", "x", "--store", store],
        &["policy", "suggest", "--store", store],
    ] {
        let run = switchboard(arguments, b"");
        assert_eq!((run.code, &*run.stdout), (2, ""), "{arguments:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(&format!("cannot open the store {store}: Too many levels")),
            "{}",
            run.stderr
        );
    }
}

/// Returns a store with a session that is only in its journal, as during recording, and another one that is
/// not.
fn with_journal(folder: &std::path::Path, damage: impl FnOnce(&mut Vec<u8>)) -> (String, std::path::PathBuf) {
    use switchboard_store::{About, Channel, Record, Store};
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(place.path().join("store.sqlite3")).unwrap();
    let about = About { agent: Some("demo-bot".to_owned()), ..About::default() };
    let mut recorder = store.begin(&about).unwrap();
    for number in 0..20 {
        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{number}"),
            "content": {"type": "text", "text": format!("word{number}")}});
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
        drop(recorder.append(Record::new(Channel::ToClient, message.to_string()).with_protocol(2)).unwrap());
    }
    recorder.sync().unwrap();
    for name in ["store.sqlite3", "store.sqlite3-wal"] {
        std::fs::copy(place.path().join(name), folder.join(name)).unwrap();
    }
    let name = format!("store.sqlite3-writers/{}.0", recorder.id());
    let mut journal = std::fs::read(place.path().join(&name)).unwrap();
    damage(&mut journal);
    std::fs::create_dir(folder.join("store.sqlite3-writers")).unwrap();
    std::fs::write(folder.join(&name), journal).unwrap();
    (recorder.id().to_owned(), folder.join("store.sqlite3-damaged"))
}

#[test]
fn every_command_reads_past_damage_and_says_what_is_missing() {
    let scratch = Scratch::new();
    let (id, kept) = with_journal(scratch.folder.path(), |journal| {
        let place = journal.windows(6).position(|bytes| bytes == b"word7\"").unwrap();
        journal[place + 1] ^= 2;
    });
    let check = |arguments: &[&str], shown: &str, reason: &str| {
        let run = scratch.run(arguments, "");
        assert_eq!(run.code, 1, "{arguments:?}: {}", run.stderr);
        assert!(run.stdout.contains(shown), "{arguments:?}: {}", run.stdout);
        assert!(run.stderr.contains(reason), "{arguments:?}: {}", run.stderr);
        assert!(!run.stdout.contains("word7"), "{arguments:?}: {}", run.stdout);
    };
    for reason in ["records 8 to 8: the journal ", "records 8 to 8: the journal was damaged here"] {
        check(&["list"], &id, reason);
        check(&["show", &id], "word19", reason);
        check(&["show", &id, "--last", "1"], "word19", reason);
        check(&["show", &id, "--wire"], "word19", reason);
        check(&["export", &id], "word19", reason);
        check(&["search", "word19"], &id, reason);
        check(&["stats"], "demo-bot", "1 records cannot be read");
        // The next program that writes keeps the damaged file, and reports it once.
        if reason.ends_with("here") {
            continue;
        }
        let imported = scratch.run(&["import", "-"], &format!("{}\n", conversation()[0]));
        assert_eq!(imported.code, 0, "{}", imported.stderr);
        assert!(imported.stderr.contains("is kept as"), "{}", imported.stderr);
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
    }
    let list = scratch.run(&["list"], "");
    assert!(list.stderr.contains("kept 1 damaged file of the store in"), "{}", list.stderr);
    // Without damage, nothing is reported.
    assert_eq!(scratch.run(&["delete", &id], "").code, 0);
    let list = scratch.run(&["list"], "");
    assert_eq!((list.code, &*list.stderr), (0, ""));
}

#[test]
fn a_damaged_log_of_the_database_is_told_by_readers_and_by_the_next_writer() {
    let scratch = Scratch::new();
    with_journal(scratch.folder.path(), |_| {});
    let log = scratch.folder.path().join("store.sqlite3-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    assert!(bytes.len() > 4152, "{}", bytes.len());
    bytes[40] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    for arguments in [&["list"][..], &["search", "word1"], &["stats"]] {
        let run = scratch.run(arguments, "");
        assert_eq!(run.code, 1, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains("-wal is damaged at byte 32"), "{arguments:?}: {}", run.stderr);
    }
    let list = scratch.run(&["list"], "");
    assert!(list.stderr.contains("is not in the list of sessions, but has a journal"), "{}", list.stderr);
    let imported = scratch.run(&["import", "-"], &format!("{}\n", conversation()[0]));
    assert!(imported.stderr.contains("is kept as"), "{}", imported.stderr);
    // The session was recovered from the journal.
    let list = scratch.run(&["list"], "");
    assert_eq!((list.code, list.stdout.lines().count()), (0, 1 + 2), "{}", list.stderr);
    assert!(list.stderr.contains("kept 1 damaged file of the store in"), "{}", list.stderr);
}

/// Returns a session of random words, which cannot be compressed.
fn noise(seed: u64) -> Vec<Value> {
    let mut number = seed * 7 + 1;
    let mut word = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", number >> 24)
    };
    (0..100)
        .map(|message| {
            let text: String = (0..200).map(|_| word()).collect();
            let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{message}"), "content": {"type": "text", "text": text}});
            line(0.0, true, json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "big", "update": update}}))
        })
        .collect()
}

#[test]
fn pruning_to_a_size_deletes_no_more_than_that_takes() {
    let scratch = Scratch::new();
    let ids: Vec<_> = (0..6).map(|seed| scratch.import(&noise(seed))).collect();
    let used = |scratch: &Scratch| {
        let lines = scratch.run(&["stats", "--json"], "").json_lines();
        lines.last().unwrap()["store"]["used"].as_u64().unwrap()
    };
    let before = used(&scratch);
    // One session has more than a tenth of the size.
    let pruned = scratch.run(&["prune", "--max-size", &(before / 10 * 9).to_string()], "");
    assert_eq!((pruned.code, pruned.stdout.lines().count()), (0, 1), "{} {}", pruned.stdout, pruned.stderr);
    let pruned = scratch.run(&["prune", "--max-size", &(before / 2).to_string()], "");
    let gone = 1 + pruned.stdout.lines().count();
    assert!(used(&scratch) <= before / 2, "{} of {before}", used(&scratch));
    // Each of the six has about the same size.
    assert!((3..=4).contains(&gone), "{gone} are gone");
    assert_eq!(scratch.run(&["list"], "").stdout.lines().count(), 1 + ids.len() - gone);
}

#[test]
fn a_store_that_is_larger_than_the_configuration_allows_can_be_pruned() {
    let place = Place::new();
    let lines = |seed| noise(seed).iter().map(|line| format!("{line}\n")).collect::<String>();
    for seed in 0..4 {
        place.write("work/noise.jsonl", &lines(seed));
        assert_eq!(place.run(&["sessions", "import", "noise.jsonl"]).code, 0);
    }
    place.write("home/.config/switchboard/config.json", r#"{"store": {"max_size": "500kB"}}"#);
    place.write("work/noise.jsonl", &lines(4));
    // There is no space for another one, which is reported.
    let refused = place.run(&["sessions", "import", "noise.jsonl"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("store is full"),
        "{} {}",
        refused.code,
        refused.stderr
    );
    let pruned = place.run(&["sessions", "prune"]);
    assert_eq!(pruned.code, 0, "{}", pruned.stderr);
    assert!(pruned.stdout.lines().count() >= 3, "{}", pruned.stdout);
}

const SMALL_DISK: &str = "SWITCHBOARD_DELETE_SMALL_DISK_TEST";

#[test]
fn deleting_on_a_full_disk_says_what_became_of_each_session() {
    let folder = tempfile::tempdir().unwrap();
    let test = "sessions::child_that_deletes_on_a_full_disk";
    switchboard_testkit::run_on_mount(
        switchboard_testkit::Mount::Small(12),
        folder.path(),
        SMALL_DISK,
        test,
        "told the truth",
    );
}

/// Child process: deletes on a small disk that is full. Does nothing in an ordinary test run.
#[test]
fn child_that_deletes_on_a_full_disk() {
    use std::io::Write;
    let Ok(folder) = std::env::var(SMALL_DISK) else { return };
    let folder = std::path::Path::new(&folder);
    let store = folder.join("store.sqlite3");
    let run = |arguments: &[&str], input: &str| {
        let all = [&["sessions", "--store", store.to_str().unwrap()], arguments].concat();
        switchboard(&all, input.as_bytes())
    };
    let ids: Vec<String> = (0..6)
        .map(|seed| {
            let lines: String = noise(seed).iter().map(|line| format!("{line}\n")).collect();
            run(&["import", "-"], &lines).stdout.trim().to_owned()
        })
        .collect();
    for keeps_reserve in [true, false] {
        if !keeps_reserve {
            drop(std::fs::remove_file(folder.join("store.sqlite3-reserve")));
        }
        let mut filler = std::fs::File::create(folder.join("filler")).unwrap();
        for size in [65536, 4096, 512, 1] {
            while filler.write_all(&vec![1; size]).is_ok() {}
        }
        drop(filler);
        for id in ids.iter().skip(if keeps_reserve { 0 } else { 3 }).take(3) {
            let deleted = run(&["delete", id], "");
            let is_told = deleted.stdout.lines().any(|line| line == id);
            let list = run(&["list"], "");
            let is_listed = list.stdout.lines().any(|line| line.starts_with(&**id));
            assert_eq!(is_told, !is_listed, "{} {} {}", deleted.code, deleted.stderr, list.stderr);
            assert!(is_told || deleted.code != 0, "{}", deleted.stderr);
            if keeps_reserve {
                assert_eq!((is_told, deleted.code), (true, 0), "{}", deleted.stderr);
            }
        }
        std::fs::remove_file(folder.join("filler")).unwrap();
    }
    println!("told the truth");
}
