//! Duration of an evaluation with a thousand rules.

use divan::{Bencher, black_box};
use switchboard_policy::{NoFiles, Policy, QuestionReader, RequestContext, Subject};

fn main() {
    divan::main();
}

/// Returns a thousand rules, of which the last one matches.
fn rules() -> Policy {
    let mut text = String::new();
    for place in 0..333 {
        text.push_str(&format!(
            "[[rule]]\ndecision = \"deny\"\ncommand = [\"tool-{place}\", [\"push\", \"publish\"]]\n"
        ));
        text.push_str(&format!(
            "[[rule]]\ndecision = \"deny\"\npath = [\"$root/secret-{place}/**\", \"**/.key-{place}*\"]\n"
        ));
        text.push_str(&format!(
            "[[rule]]\ndecision = \"allow\"\ncommand = [\"run-{place}\"]\npath = [\"$root/**\"]\n"
        ));
    }
    text.push_str("[[rule]]\ndecision = \"allow\"\ncommand = [\"cargo\", \"test\"]\n");
    Policy::parse(&text, &NoFiles::default()).expect("rules")
}

fn question(call: &str) -> Subject {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{call},"options":[]}}}}"#
    );
    QuestionReader::new("/project")
        .reading_version_1(switchboard_policy::Version1 {
            update: switchboard_bridge::read_v1_update,
            permission: switchboard_bridge::read_v1_permission,
        })
        .read(&line, None, Default::default())
        .remove(0)
        .subject
}

#[divan::bench]
fn command(bencher: Bencher<'_, '_>) {
    let (policy, host) = (rules(), NoFiles::default());
    let scene = RequestContext { root: "/project".to_owned(), ..RequestContext::default() };
    assert_eq!(policy.len(), 1000);
    assert_eq!(policy.evaluate_line("cargo test --workspace", &scene, &host).verdict.as_str(), "allow");
    bencher.bench(|| black_box(policy.evaluate_line(black_box("cargo test --workspace"), &scene, &host)));
}

#[divan::bench]
fn compound_command(bencher: Bencher<'_, '_>) {
    let (policy, host) = (rules(), NoFiles::default());
    let scene = RequestContext { root: "/project".to_owned(), ..RequestContext::default() };
    let line = "cd src && timeout 60 cargo test --workspace 2>&1 | cargo test";
    bencher.bench(|| black_box(policy.evaluate_line(black_box(line), &scene, &host)));
}

#[divan::bench]
fn edit(bencher: Bencher<'_, '_>) {
    let (policy, host) = (rules(), NoFiles::default());
    let subject = question(
        r#"{"toolCallId":"c","kind":"edit","content":[{"type":"diff","path":"/project/src/lib.rs","oldText":"a","newText":"b"}]}"#,
    );
    bencher.bench(|| black_box(policy.evaluate(black_box(&subject), &host)));
}
