use crate::program::switchboard;

#[test]
fn prints_a_definition_for_each_type() {
    for arguments in [&["schema"][..], &["schema", "--dialect", "spec"], &["schema", "--protocol", "v1"]] {
        let run = switchboard(arguments, b"");
        assert_eq!(run.code, 0);
        let schema: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(schema["$defs"]["SessionUpdate"]["anyOf"].is_array(), "{arguments:?}");
    }
}

/// The most common JavaScript validator compiles the schemas in its default configuration without warnings,
/// and has the same results as `check`.
#[test]
fn ajv_takes_the_schemas_as_they_are() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let Some(program) = crate::interop::typescript("schema") else { return };
    let messages = [
        r#"42"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/close","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"C:\\w","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"\\\\server\\share","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"w","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image","mimeType":"image/png","data":"AA=="}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image","mimeType":"image/png","data":"A"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"_own/method"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ];
    let kinds = [
        ("v1.json", "--protocol", "v1"),
        ("v2-spec.json", "--dialect", "spec"),
        ("v2-newest.json", "--dialect", "newest"),
        ("v2.json", "--dialect", "any"),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
    let mut ajv = Command::new(&program[0])
        .arg(&program[1])
        .args(kinds.map(|(file, ..)| folder.join(file)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    ajv.stdin.take().unwrap().write_all(messages.join("\n").as_bytes()).unwrap();
    let output = ajv.wait_with_output().unwrap();
    assert!(output.status.success());
    let reports = String::from_utf8(output.stdout).unwrap();
    assert_eq!(reports.lines().count(), kinds.len());
    for (report, (file, option, value)) in reports.lines().zip(kinds) {
        let report: serde_json::Value = serde_json::from_str(report).unwrap();
        let verdicts =
            messages.map(|message| switchboard(&["check", option, value], message.as_bytes()).code == 0);
        for draft in ["7", "2019", "2020"] {
            assert_eq!(report[draft]["complaints"], serde_json::json!([]), "{file}, draft {draft}");
            assert_eq!(report[draft]["valid"], serde_json::json!(verdicts), "{file}, draft {draft}");
        }
    }
}
