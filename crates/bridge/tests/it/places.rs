//! Paths in any form, and line numbers.

use serde_json::{Value, json};
use switchboard_bridge::Severity;

use crate::support::Bench;

/// A version 2 client with a session in a directory.
fn in_directory(cwd: &str) -> Bench {
    let mut bench = Bench::v2_client();
    bench.client(json!({"id": 1, "method": "session/new", "params": {"cwd": cwd}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"sessionId": "s"}}));
    bench.take_client();
    bench
}

fn diff(path: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": path, "title": "Edit",
        "content": [{"type": "diff", "path": path, "oldText": "a\n", "newText": "b\n"}]})
}

#[test]
fn paths_of_windows_stay_as_they_are() {
    for path in [r"C:\w\a.txt", "C:/w/a.txt", r"\\server\share\a.txt", "/w/a.txt"] {
        let mut bench = in_directory("/w");
        bench.update(diff(path));
        let content = bench.take_updates()[0]["content"][0].clone();
        assert_eq!(content["changes"][0]["path"], path);
        let quoted = path.replace('\\', r"\\");
        let patch = content["patch"]["text"].as_str().unwrap();
        assert!(patch.contains(&quoted) && !patch.contains(&format!("/{quoted}")), "{patch}");

        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit",
            "locations": [{"path": path}], "content": [content]});
        let mut bench = Bench::v1_client();
        bench.update(update);
        let told = bench.take_updates().remove(0);
        assert_eq!(told["content"][0]["path"], path, "and back");
        assert_eq!(told["locations"], json!([{"path": path}]));
    }
}

#[test]
fn a_relative_path_counts_from_the_sessions_directory() {
    for (cwd, path, resolved) in [
        ("/w", "rel.txt", "/w/rel.txt"),
        ("/w/", "./src/a.rs", "/w/src/a.rs"),
        (r"C:\w", "a.txt", r"C:\w\a.txt"),
    ] {
        let mut bench = in_directory(cwd);
        let mut update = diff(path);
        update["locations"] = json!([{"path": path, "line": 3, "_meta": {"mine": 1}}]);
        bench.update(update);
        let told = bench.take_updates().remove(0);
        assert_eq!(
            told["locations"],
            json!([{"path": resolved, "line": 3, "_meta": {"mine": 1, "acp.v1/path": path}}])
        );
        assert_eq!(told["content"][0]["changes"][0]["path"], resolved);
        assert_eq!(told["content"][0]["_meta"]["acp.v1/path"], path);
        assert!(bench.lost().is_empty(), "nothing is lost: {:?}", bench.losses);
    }
    // The same in a question.
    let mut bench = in_directory("/w");
    bench.agent(json!({"id": 7, "method": "session/request_permission", "params": {"sessionId": "s",
        "toolCall": {"toolCallId": "c", "locations": [{"path": "a"}]},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}}));
    let asked = bench.take_client().remove(0);
    assert_eq!(asked["params"]["subject"]["toolCall"]["locations"][0]["path"], "/w/a");
}

#[test]
fn a_relative_path_without_a_directory_passes_and_is_reported() {
    for (cwd, path) in [(None, "rel.txt"), (Some("/w"), "~/rel.txt")] {
        let mut bench = cwd.map_or_else(Bench::v2_client, in_directory);
        let mut update = diff(path);
        update["locations"] = json!([{"path": path}]);
        bench.update(update);
        let told = bench.take_updates().remove(0);
        assert_eq!(told["locations"], json!([{"path": path}]));
        assert_eq!(told["content"][0]["changes"][0]["path"], path);
        assert_eq!(bench.lost(), ["tool_call locations[0].path", "tool_call content[0].path"]);
    }
}

#[test]
fn a_reported_omission_is_omitted() {
    for mut bench in [Bench::v1_client(), in_directory("/w")] {
        bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "t", "locations": [{"path": "a"}], "rawInput": {"line": 0}}));
        let told = bench.take_updates().remove(0);
        assert!(told["locations"][0]["path"].as_str().unwrap().ends_with('a'));
        assert!(
            bench.losses.iter().all(|loss| !loss.reason.contains("left out")),
            "it is kept: {:?}",
            bench.losses
        );
        assert!(bench.losses.iter().any(|loss| loss.pointer == "/params/update/locations/0/path"
            && loss.severity == Severity::Guess
            && loss.reason.contains("kept")));
    }
}

#[test]
fn there_is_no_line_0() {
    for mut bench in [Bench::v1_client(), in_directory("/w")] {
        bench.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "t",
            "locations": [{"path": "/w/a", "line": 0}, {"path": "/w/a", "line": 1}]}));
        let told = bench.take_updates().remove(0);
        assert_eq!(told["locations"], json!([{"path": "/w/a"}, {"path": "/w/a", "line": 1}]));
        assert_eq!(bench.lost(), ["tool_call_update locations[0].line"]);
    }
}
