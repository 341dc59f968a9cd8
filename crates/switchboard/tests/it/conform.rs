//! `switchboard conform`.

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::program::switchboard;

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/demo-hello-v2.jsonl");
const UNKNOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/demo-unknown-v2.jsonl");

fn json(arguments: &[&str], input: &[u8], code: i32) -> Value {
    let run = switchboard(&[&["conform", "recording", "--format", "json"], arguments].concat(), input);
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn failed(report: &Value) -> Vec<(&str, &str, Vec<u64>)> {
    let rules = report["rules"].as_array().unwrap().iter().filter(|rule| rule["status"] == "fail");
    rules
        .map(|rule| {
            let messages = rule["messages"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
            (rule["id"].as_str().unwrap(), rule["strength"].as_str().unwrap(), messages)
        })
        .collect()
}

#[test]
fn a_recording_is_judged_by_its_lines() {
    let good = json(&[HELLO], b"", 0);
    assert_eq!((&good["subject"], &good["verdict"]), (&HELLO.into(), &"conformant".into()));
    assert_eq!(failed(&good), []);
    let bad = json(&[UNKNOWN], b"", 1);
    assert_eq!(bad["verdict"], "not conformant");
    assert_eq!(failed(&bad), [("update-kind", "capability", vec![10])]);
    let both = json(&[HELLO, UNKNOWN], b"", 1);
    assert_eq!(both.as_array().map(Vec::len), Some(2));
}

#[test]
fn incomplete_recordings_are_not_conformant() {
    assert_eq!(json(&["-"], b"", 4)["verdict"], "not judged");
    assert_eq!(json(&["-"], b"{\"t\":1,\"stderr\":\"hello\"}\n", 4)["verdict"], "not judged");
    let cut = br#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1"#;
    assert_eq!(json(&["-"], cut, 4)["verdict"], "not judged");
    // The truncated recording has no violations, but is incomplete.
    let whole = std::fs::read(HELLO).unwrap();
    assert_eq!(json(&["-"], &whole[..whole.len() - 10], 4)["verdict"], "not judged");
    let middle = whole.len() / 2;
    let torn = [&whole[..middle], b"\n", &whole[middle..]].concat();
    let run = switchboard(&["conform", "recording", "-"], &torn);
    assert!(run.code == 4 && run.stdout.contains("messages are missing in 2 places"), "{}", run.stdout);
    assert_eq!(switchboard(&["conform", "recording", "no/such/file.jsonl"], b"").code, 2);
    assert_eq!(switchboard(&["conform", "recording"], b"").code, 2);
    assert_eq!(switchboard(&["conform"], b"").code, 2);
}

#[test]
fn a_baseline_lets_known_failures_pass_and_tells_stale_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let known = file("known", "# on purpose\nupdate-kind\n");
    assert_eq!(json(&[UNKNOWN, "--baseline", &known], b"", 0)["verdict"], "conformant");
    let run = switchboard(&["conform", "recording", HELLO, "--baseline", &known], b"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("update-kind no longer fails"), "{}", run.stderr);
    // A recording without a verdict is not conformant, and its baseline entries are not stale.
    let whole = std::fs::read(UNKNOWN).unwrap();
    let cut = &whole[..whole.len() - 10];
    assert_eq!(json(&["-"], cut, 1)["verdict"], "not conformant");
    assert_eq!(json(&["-", "--baseline", &known], cut, 4)["verdict"], "not judged");
    json(&["-", "--baseline", &known], b"", 4);
    let report = file("report.json", &json(&[UNKNOWN], b"", 1).to_string());
    json(&[UNKNOWN, "--baseline", &report], b"", 0);
    for (name, text) in [("unknown", "no-such-rule"), ("broken.json", "{\"rules\":")] {
        let run = switchboard(&["conform", "recording", HELLO, "--baseline", &file(name, text)], b"");
        assert_eq!(run.code, 2, "{}", run.stderr);
    }
}

#[test]
fn rules_are_listed_and_explained() {
    let list = switchboard(&["conform", "recording", "--list"], b"");
    assert!(list.code == 0 && list.stdout.lines().count() >= 80, "{}", list.stdout);
    let rule = switchboard(&["conform", "--explain", "ACP-INIT-003"], b"");
    assert!(
        rule.stdout.starts_with("init-version-echo\n") && rule.stdout.contains("what to do"),
        "{}",
        rule.stdout
    );
    let unknown = switchboard(&["conform", "--explain", "init-nothing"], b"");
    assert!(unknown.code == 2 && unknown.stderr.contains("similar: "), "{}", unknown.stderr);
}

#[test]
fn each_format_names_what_is_broken() {
    for (format, begin) in
        [("text", UNKNOWN), ("junit", "<?xml"), ("markdown", "| subject"), ("html", "<!doctype")]
    {
        let run = switchboard(&["conform", "recording", UNKNOWN, "--format", format], b"");
        assert_eq!(run.code, 1);
        assert!(run.stdout.starts_with(begin) && run.stdout.contains("update-kind"), "{}", run.stdout);
    }
}

const SWITCHBOARD: &str = env!("CARGO_BIN_EXE_switchboard");

/// Checks an agent, and returns its must violations.
fn check_agent(options: &[&str], agent: &[&str], code: i32) -> Value {
    let run =
        switchboard(&[&["conform", "agent", "--format", "json"], options, &["--"], agent].concat(), b"");
    assert_eq!(run.code, code, "{options:?} {agent:?}: {}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn the_demo_agent_keeps_the_protocol() {
    for (version, prompt) in [("1", "permission"), ("2", "edit")] {
        let agent = [SWITCHBOARD, "demo-agent", "--protocol", version];
        let report = check_agent(&["--prompt", prompt], &agent, 0);
        assert_eq!(failed(&report), []);
        let is_judged = |id: &str| {
            let rules = report["rules"].as_array().unwrap();
            rules.iter().any(|rule| rule["id"] == id && rule["status"] == "pass")
        };
        let own = if version == "1" { "cancel-stop-reason-1" } else { "cancel-stop-reason-2" };
        for id in [own, "init-version-echo", "process-exits", "rpc-answered", "config-complete"] {
            assert!(is_judged(id), "version {version}: {id}: {report}");
        }
    }
}

#[test]
fn the_bridge_keeps_the_protocol() {
    for (agent, client) in [("1", "v1"), ("1", "v2"), ("2", "v1"), ("2", "v2")] {
        let agent = [SWITCHBOARD, "demo-agent", "--protocol", agent];
        let report = check_agent(&["--through", "bridge", "--protocol", client], &agent, 0);
        assert_eq!(failed(&report), []);
    }
}

/// Returns a recording with as many sessions and prompts as the scenarios need.
fn long_recording(version: u64) -> String {
    let mut lines = Vec::new();
    let mut say = |from_agent: bool, mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        let direction = if from_agent { "agent->client" } else { "client->agent" };
        lines.push(json!({"t": lines.len(), "dir": direction, "msg": message}).to_string());
    };
    let info = json!({"name": "a", "version": "1"});
    let optional = json!({"list": {}, "resume": {}, "close": {}, "delete": {}});
    let (asked, answered) = match version {
        1 => (
            json!({"protocolVersion": 1, "clientInfo": info, "clientCapabilities": {}}),
            json!({"protocolVersion": 1, "agentInfo": info, "authMethods": [],
                "agentCapabilities": {"loadSession": true, "sessionCapabilities": optional}}),
        ),
        _ => (
            json!({"protocolVersion": 2, "info": info}),
            json!({"protocolVersion": 2, "info": info, "capabilities": {"session": {"delete": {}}}}),
        ),
    };
    say(false, json!({"id": 0, "method": "initialize", "params": asked}));
    say(true, json!({"id": 0, "result": answered}));
    for session in ["s-1", "s-2"] {
        say(
            false,
            json!({"id": session, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
        );
        say(true, json!({"id": session, "result": {"sessionId": session}}));
        for turn in 0..4 {
            let (id, user, answer) =
                (format!("{session}-{turn}"), format!("u-{session}-{turn}"), format!("m-{session}-{turn}"));
            let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
            say(false, json!({"id": id, "method": "session/prompt", "params": params}));
            let mut update = |update: Value| {
                let params = json!({"sessionId": session, "update": update});
                say(true, json!({"method": "session/update", "params": params}));
            };
            let block = json!({"type": "text", "text": "Done."});
            if version == 1 {
                update(json!({"sessionUpdate": "agent_message_chunk", "content": block}));
                say(true, json!({"id": id, "result": {"stopReason": "end_turn"}}));
                continue;
            }
            update(json!({"sessionUpdate": "state_update", "state": "running"}));
            update(json!({"sessionUpdate": "user_message", "messageId": user, "content": params["prompt"]}));
            update(json!({"sessionUpdate": "agent_message_chunk", "messageId": answer, "content": block}));
            update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
            say(true, json!({"id": id, "result": {"messageId": user}}));
        }
    }
    lines.join("\n")
}

#[test]
fn a_recording_that_is_played_keeps_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    for version in [1, 2] {
        let file = folder.path().join(format!("{version}.jsonl")).display().to_string();
        std::fs::write(&file, long_recording(version)).unwrap();
        assert_eq!(json(&[&file], b"", 0)["verdict"], "conformant", "the recording itself");
        for spoken in ["v1", "v2"] {
            let agent = [SWITCHBOARD, "sessions", "replay", &file, "--instant"];
            let report = check_agent(&["--protocol", spoken], &agent, 0);
            assert_eq!(failed(&report), []);
            let rules = report["rules"].as_array().unwrap();
            let passed = |id: &str| rules.iter().any(|rule| rule["id"] == id && rule["status"] == "pass");
            let history = if spoken == "v1" { "load-works" } else { "resume-chunk-seeded" };
            assert!(passed(history) && passed("delete-gone") && passed("delete-again"), "{report}");
            assert!(spoken == "v1" || passed("rpc-batch-refused"), "{report}");
        }
    }
}

#[test]
fn a_program_that_is_not_an_agent_is_not_judged() {
    let report = check_agent(&[], &["false"], 4);
    assert_eq!(report["verdict"], "not judged");
    let silent = check_agent(&["--timeout", "0.2"], &["sleep", "600"], 4);
    assert_eq!(silent["verdict"], "not judged");
    let nobody = switchboard(&["conform", "agent", "--", "no-such-program-at-all"], b"");
    assert!(nobody.code == 4 && nobody.stderr.contains("no-such-program-at-all"), "{}", nobody.stderr);
    assert_eq!(switchboard(&["conform", "agent"], b"").code, 2);
}

#[test]
fn a_process_that_stays_is_told() {
    let agent = format!("{SWITCHBOARD} demo-agent; sleep 600");
    let report = check_agent(&[], &["sh", "-c", &agent], 0);
    let failed = failed(&report);
    assert!(matches!(&*failed, [("process-exits", "should", _)]), "{failed:?}");
}

#[test]
fn an_echo_is_no_agent() {
    let report = check_agent(&[], &["cat"], 1);
    assert!(failed(&report).iter().any(|(id, ..)| *id == "rpc-method-direction"), "{report}");
}

#[test]
fn run_is_a_client_that_survives_everything() {
    let run = switchboard(
        &[
            "conform",
            "client",
            "--format",
            "json",
            "--timeout",
            "120",
            "--",
            SWITCHBOARD,
            "run",
            "hi",
            "--approve-all",
            "--",
            "{agent}",
        ],
        b"",
    );
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(failed(&report), []);
    let rules = report["rules"].as_array().unwrap();
    for id in ["client-survives", "client-tolerates-faults", "client-answers-questions"] {
        assert!(rules.iter().any(|rule| rule["id"] == id && rule["status"] == "pass"), "{id}: {report}");
    }
}

/// A client in a few lines of shell: it sends one prompt, allows every request, and never exits.
const ENDLESS: &str = r#"
    trap '' TERM
    back=$(mktemp -u)
    mkfifo "$back"
    {agent} < "$back" | (
        exec 3> "$back"
        rm "$back"
        echo '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"}}}' >&3
        echo '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}' >&3
        echo '{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"conform-1","prompt":[{"type":"text","text":"hi"}]}}' >&3
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\),.*"method".*/\1/p')
            case "$line" in
                *request_permission*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}' >&3 ;;
                *'"id":'*'"method"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}' >&3 ;;
            esac
        done
    )
    while :; do sleep 1; done
"#;

#[test]
fn a_client_that_never_ends_is_ended_when_it_has_answered() {
    let began = std::time::Instant::now();
    let run = switchboard(
        &["conform", "client", "--format", "json", "--timeout", "300", "--", "sh", "-c", ENDLESS],
        b"",
    );
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, failed(&report)), (0, Vec::new()), "{}{}", run.stdout, run.stderr);
    assert!(began.elapsed().as_secs() < 300, "its time is not waited for");
}

#[test]
fn a_client_that_does_not_speak_cannot_be_judged() {
    let client = |command: &[&str]| switchboard(&[&["conform", "client", "--"], command].concat(), b"").code;
    assert_eq!(client(&["true", "{agent}"]), 4);
    assert_eq!(client(&["no-such-program-at-all", "{agent}"]), 4);
    assert_eq!(client(&["true"]), 2);
    let silent =
        switchboard(&["conform", "client", "--timeout", "0.2", "--", "sleep", "600", "{agent}"], b"");
    assert!(silent.code == 4 && silent.stdout.contains("never initialized"), "{}", silent.stdout);
    let broken = switchboard(&["conform", "client", "--", "sh", "no-such-script", "{agent}"], b"");
    assert_eq!(broken.code, 4);
    assert!(broken.stdout.contains("the last lines of its standard error: "), "{}", broken.stdout);
    assert!(broken.stdout.contains("no-such-script"), "{}", broken.stdout);
}

#[test]
fn a_client_runs_where_the_command_runs_and_no_file_is_overwritten() {
    let place = Place::new();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"}}}"#;
    place.write("work/client.sh", &format!("echo '{hello}' | \"$1\" > /dev/null\n"));
    place.write("work/kept", "mine");
    let conform = |more: &[&str]| {
        place.run(&[&["conform", "client"], more, &["--", "sh", "client.sh", "{agent}"]].concat())
    };
    let refused = conform(&["--transcript", "kept"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(place.work().join("kept")).unwrap(), "mine");
    let judged = conform(&["--probe", "echo \"$PWD\" > probed"]);
    assert_eq!(judged.code, 4, "{}{}", judged.stdout, judged.stderr);
    assert!(judged.stdout.contains("never sent a prompt"), "{}", judged.stdout);
    let probed = std::fs::read_to_string(place.work().join("probed")).unwrap();
    assert_eq!(probed.trim_end(), place.work().to_str().unwrap());
}
