use serde_json::{Value, json};

use crate::program::{Run, switchboard};

fn check(arguments: &[&str], input: &str) -> Run {
    switchboard(&[&["check"], arguments].concat(), input.as_bytes())
}

/// Returns, for each line, whether it is valid.
fn verdicts(run: &Run) -> Vec<bool> {
    run.json_lines().iter().map(|line| line["valid"].as_bool().unwrap()).collect()
}

#[test]
fn each_line_gets_a_verdict_with_its_number() {
    let input = concat!(
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#,
        "\nnoise\n",
    );
    let run = check(&[], input);
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr, "");
    assert_eq!(
        run.json_lines(),
        [
            json!({"line": 1, "valid": true, "errors": [], "warnings": []}),
            json!({"line": 2, "valid": false, "warnings": [], "errors": [
                {"pointer": "/params", "message": "expected the key \"sessionId\", found an object without it"}]}),
            json!({"line": 3, "valid": false, "warnings": [], "errors": [
                {"pointer": "", "message": "expected an object, found the text noise"}]}),
        ]
    );
}

#[test]
fn fine_input_ends_with_code_0() {
    let run = check(&["--type", "ToolKind"], "\"read\"\n\"_mine\"\n");
    assert_eq!((run.code, verdicts(&run)), (0, vec![true, true]));
    assert_eq!(check(&[], "").code, 0);
}

#[test]
fn dialects_differ() {
    let patch = r#"{"format":"git_patch","diff":"x"}"#;
    for (dialect, valid) in [("spec", true), ("newest", false), ("any", true)] {
        let run = check(&["--type", "DiffPatch", "--dialect", dialect], patch);
        assert_eq!(verdicts(&run), [valid], "{dialect}");
    }
    let run = check(&["--type", "DiffPatch", "--roundtrip"], patch);
    assert_eq!(run.json_lines()[0]["value"], json!({"format": "git_patch", "text": "x", "diff": "x"}));
    let run = check(&["--type", "DiffPatch", "--roundtrip", "--dialect", "spec"], patch);
    assert_eq!(run.json_lines()[0]["value"], json!({"format": "git_patch", "diff": "x"}));
}

#[test]
fn answers_are_judged_by_their_requests() {
    let input = [
        r#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/w"}}}"#,
        r#"{"dir":"agent->client","msg":{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","title":"t","options":[{"optionId":"a","name":"A","kind":"allow_once"}]}}}"#,
        r#"{"dir":"client->agent","msg":{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":1,"optionId":"a"}}}}"#,
        r#"{"dir":"agent->client","msg":{"jsonrpc":"2.0","id":0,"result":{"sessionId":"s"}}}"#,
        r#"{"dir":"agent->client","msg":{"jsonrpc":"2.0","id":7,"result":{}}}"#,
    ];
    let run = check(&[], &input.join("\n"));
    assert_eq!(verdicts(&run), [true, true, false, true, true]);
    let lines = run.json_lines();
    assert_eq!(lines[2]["errors"][0]["pointer"], "/msg/result/outcome/outcome");
    assert_eq!(lines[4]["warnings"][0]["message"], "a response to request 7, which is not in the input");
}

#[test]
fn methods_come_from_their_own_side() {
    let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}"#;
    let line = |direction: &str| format!(r#"{{"dir":"{direction}","msg":{prompt}}}"#);
    let run = check(&[], &[line("client->agent"), line("agent->client"), line("sideways")].join("\n"));
    assert_eq!(verdicts(&run), [true, false, false]);
    let notification =
        r#"{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
    assert_eq!(verdicts(&check(&[], notification)), [false]);
}

#[test]
fn doubtful_things_are_warnings() {
    let warnings = |type_name: &str, text: &str| {
        let run = check(&["--type", type_name], text);
        assert_eq!(verdicts(&run), [true], "{text}");
        let line = run.json_lines().remove(0);
        let warnings = line["warnings"].as_array().unwrap().clone();
        warnings
            .into_iter()
            .map(|warning| (warning["pointer"].clone(), warning["message"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(warnings("ToolKind", "\"_mine\""), []);
    assert_eq!(warnings("ToolKind", "\"review\"").len(), 1);
    assert_eq!(warnings("ToolCallContent", r#"{"type":"table"}"#).len(), 1);
    assert_eq!(
        warnings("PlanEntry", r#"{"content":"a","priority":"low","status":"pending","x":1}"#)[0].0,
        "/x"
    );
    let update = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c"}"#;
    assert_eq!(warnings("SessionUpdate", update)[0].1, "the first report of tool call \"c\" has no title");
    let titled = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"T"}"#;
    let run = check(&["--type", "SessionUpdate"], &[titled, update].join("\n"));
    assert!(run.json_lines().iter().all(|line| line["warnings"] == json!([])), "{}", run.stdout);
}

#[test]
fn tolerant_checking_warns_of_what_is_left_out() {
    let text = r#"{"toolCallId":"c","title":42}"#;
    assert_eq!(verdicts(&check(&["--type", "ToolCallUpdate"], text)), [false]);
    let run = check(&["--type", "ToolCallUpdate", "--tolerant", "--roundtrip"], text);
    assert_eq!(run.code, 0);
    let line: Value = run.json_lines().remove(0);
    assert_eq!(line["warnings"][0]["pointer"], "/title");
    assert_eq!(line["value"], json!({"toolCallId": "c"}));
}

#[test]
fn a_line_that_is_too_long_does_not_hide_the_next() {
    let mut input = vec![b'"'];
    input.resize(100_000_000, b'a');
    input.extend_from_slice(b"\"\n\"read\"\n");
    let run = switchboard(&["check", "--type", "ToolKind"], &input);
    assert_eq!(verdicts(&run), [false, true]);
    let message = run.json_lines()[0]["errors"][0]["message"].clone();
    assert_eq!(message, "expected at most 33554432 bytes in a line, found 100000001");
}

#[test]
fn nothing_in_a_line_breaks_the_run() {
    let lines: [&[u8]; 9] = [
        b"{\"toolCallId\":\"c\"",
        b"\xff\xfe",
        b"{\"toolCallId\":\"c\",\"title\":\"\\ud800\"}",
        b"{\"toolCallId\":\"\0\"}",
        b"",
        b"   ",
        b"{\"toolCallId\":\"c\",\"toolCallId\":\"c\"}",
        b"[[[[",
        b"null",
    ];
    let mut input = lines.join(&b'\n');
    input.extend_from_slice(
        format!("\n{{\"toolCallId\":\"c\",\"rawInput\":{}1{}}}", "[".repeat(200), "]".repeat(200)).as_bytes(),
    );
    input.extend_from_slice(
        format!("\n{{\"toolCallId\":\"c\",\"rawInput\":{}}}\n", "9".repeat(400)).as_bytes(),
    );
    let run = switchboard(&["check", "--type", "ToolCallUpdate"], &input);
    let mut expected = vec![false; 10];
    expected.push(true);
    assert_eq!(verdicts(&run), expected, "{}", run.stdout);
    assert!(run.json_lines().iter().all(|line| line["valid"] == true || line["errors"][0]["message"] != ""));
}

#[test]
fn batches_are_judged_entry_by_entry() {
    let run =
        check(&[], r#"[{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}},{"id":1}]"#);
    assert_eq!(verdicts(&run), [false]);
    assert_eq!(run.json_lines()[0]["errors"][0]["pointer"], "/1");
    assert_eq!(verdicts(&check(&[], "[]")), [false]);
}

#[test]
fn an_unknown_type_is_met_with_similar_names() {
    let run = check(&["--type", "toolcall"], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("unknown wire type \"toolcall\""), "{}", run.stderr);
    assert!(run.stderr.contains("ToolCallUpdate"), "{}", run.stderr);
}

/// The program and the library have the same results.
#[test]
fn every_vector_gets_its_verdict() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors");
    let mut groups: std::collections::BTreeMap<(String, String), Vec<Value>> = Default::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if ["sequences", "bridge-proposals"].iter().any(|name| path.file_stem().unwrap() == *name) {
            continue;
        }
        let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for vector in vectors {
            let key = |name: &str| vector[name].as_str().unwrap().to_owned();
            groups.entry((key("revision"), key("kind"))).or_default().push(vector.clone());
        }
    }
    for ((revision, kind), vectors) in groups {
        let input: Vec<_> = vectors.iter().map(|vector| vector["json"].to_string()).collect();
        let arguments = match &*revision {
            "seed" => ["--dialect", "spec"],
            "latest" => ["--dialect", "newest"],
            _ => ["--protocol", "v1"],
        };
        let run = check(&[&["--type", &*kind], &arguments[..]].concat(), &input.join("\n"));
        for (vector, line) in vectors.iter().zip(run.json_lines()) {
            assert_eq!(line["valid"], vector["valid"], "{kind} {}: {line}", vector["name"]);
        }
    }
}
