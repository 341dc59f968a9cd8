//! Conversion to the wire and back.

use serde_json::{Value, json};
use switchboard_acp::{Wire as _, WireFormat, v2};
use switchboard_diff::{
    BuildOptions, Change, Diff, FileType, Operation, PatchFormat, PatchText, build_from_bytes, check,
    parse_patch, write_patch,
};
use switchboard_testkit::recordings;

fn change(operation: &str, path: &str, old_path: Option<&str>) -> Change {
    Change {
        operation: operation.into(),
        path: path.to_owned(),
        old_path: old_path.map(str::to_owned),
        file_type: Some(FileType::Text),
        mime_type: Some("text/plain".to_owned()),
    }
}

#[test]
fn a_diff_survives_the_wire() {
    let diff = Diff {
        changes: vec![
            change("add", "/w/a", None),
            change("delete", "/w/b", None),
            change("modify", "/w/c", None),
            change("move", "/w/d", Some("/w/e")),
            change("copy", "/w/f", Some("/w/g")),
            Change {
                file_type: Some(FileType::Other("_socket".into())),
                ..change("_touch", "/w/h", Some("/w/i"))
            },
            Change { file_type: None, mime_type: None, ..change("modify", "/w/j", None) },
        ],
        patch: Some(PatchText { format: PatchFormat::Other("_ed".into()), text: "x".into() }),
        root: Some("/w".into()),
        partial: true,
    };
    for revision in [WireFormat::Spec, WireFormat::Newest, WireFormat::Any] {
        let text = v2::Diff::from(&diff).encode(revision);
        assert_eq!(Diff::from(&v2::Diff::decode(&text, revision).unwrap()), diff);
    }
}

#[test]
fn the_form_is_that_of_the_specification() {
    let built = build_from_bytes(
        std::path::Path::new("/home/user/project/src/config.json"),
        Some(b"{\n  \"debug\": false\n}\n"),
        Some(b"{\n  \"debug\": true\n}\n"),
        &BuildOptions::default(),
    );
    let diff = Diff { root: None, ..built.diff };
    let text = v2::ToolCallContent::diff(v2::Diff::from(&diff)).encode(WireFormat::Spec);
    let path = "/home/user/project/src/config.json";
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({
            "type": "diff",
            "changes": [
                {"operation": "modify", "path": path, "fileType": "text", "mimeType": "application/json"}
            ],
            "patch": {
                "format": "git_patch",
                "diff": format!(
                    "diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n {{\n-  \"debug\": false\n+  \"debug\": true\n }}\n"
                ),
            },
        })
    );
}

#[test]
fn the_vectors_agree_with_themselves() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/vectors/diff.json");
    let vectors: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut seen = 0;
    for vector in
        vectors.iter().filter(|vector| vector["valid"] == true && vector["json"]["patch"].is_object())
    {
        let text = vector["json"].to_string();
        let content = match vector["kind"].as_str() {
            Some("Diff") => v2::Diff::decode(&text, WireFormat::Any).unwrap(),
            Some("ToolCallContent") => match v2::ToolCallContent::decode(&text, WireFormat::Any).unwrap() {
                v2::ToolCallContent::Diff(diff) => *diff,
                other => panic!("{other:?}"),
            },
            _ => continue,
        };
        assert_eq!(check(&Diff::from(&content)).disagreements, [], "{}", vector["name"]);
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

/// Collects every text in a JSON value that looks like a patch.
fn find_patches(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("diff --git ") || text.contains("\n+++ ") => {
            found.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| find_patches(item, found)),
        Value::Object(entries) => entries.values().for_each(|item| find_patches(item, found)),
        _ => {}
    }
}

#[test]
fn recorded_patches_are_read_without_loss() {
    for recording in recordings() {
        for line in &recording.lines {
            let mut patches = Vec::new();
            find_patches(&serde_json::from_str(&line.message).unwrap(), &mut patches);
            for patch in patches {
                let parsed = parse_patch(patch.as_bytes());
                assert_eq!(parsed.faults, [], "{}: {patch}", recording.name);
                assert!(!parsed.files.is_empty(), "{}: {patch}", recording.name);
                let mut written = write_patch(&parsed.files);
                written.extend_from_slice(parsed.trailer);
                assert_eq!(String::from_utf8(written).unwrap(), patch, "{}", recording.name);
                // Other agents only report changed files.
                let is_ours = recording.name.starts_with("demo-");
                assert!(is_ours || parsed.files.iter().all(|file| file.operation == Operation::Modify));
            }
        }
    }
}
