//! Recordings of real peers, with their violations, which were reviewed by hand.

use std::collections::BTreeSet;

use switchboard_acp::Side;
use switchboard_conform::{Evaluator, Verdict};

/// Violations in recordings with this name prefix, and why they are not false alarms.
const KNOWN: &[(&str, &str, &str)] = &[
    ("demo-unknown-v2", "update-kind", "the demo agent sends an update of a later version on purpose"),
    ("client-python1rc3-v2-tsagent", "diff-absolute-paths", "its patch has relative paths with a/ and b/"),
    ("conductor-v2ref-plain-v2", "diff-absolute-paths", "its patch has relative paths with a/ and b/"),
    ("v2ref-ts-agent-", "diff-absolute-paths", "its patch has relative paths with a/ and b/"),
    ("fast-agent-", "resume-no-history-1", "it replays the history in session/resume"),
    (
        "codex-acp-shellslow",
        "cancel-quiet-1",
        "it updates a tool call after the cancelled prompt was answered",
    ),
    ("goose-cancel", "cancel-stop-reason-1", "it answers a cancelled prompt with end_turn"),
    ("client-yopo-", "client-absolute-paths", "the client yopo sends \".\" as cwd"),
    ("opencode-", "client-files-unadvertised", "it writes files through clients that do not offer it"),
    ("codex-acp-maxtok-v2", "client-schema", "the recorder set an option without its type"),
    ("codex-acp-shell-autoreview-v2", "client-schema", "the recorder set an option without its type"),
    (
        "claude-agent-acp-versions",
        "init-client-info-2",
        "the recorder asked for version 2 in the form of version 1",
    ),
    ("codex-acp-versions", "init-client-info-2", "the recorder asked for version 2 in the form of version 1"),
    (
        "conductor-claude-versions",
        "init-client-info-2",
        "the recorder asked for version 2 in the form of version 1",
    ),
    (
        "conductor-v2ref-versions",
        "init-client-info-2",
        "the recorder asked for version 2 in the form of version 1",
    ),
    ("client-ts24-v2-goose", "init-version-echo", "goose repeats any number, with a body of version 1"),
    ("elizacp-versions", "init-version-echo", "it repeats any number"),
    ("fast-agent-", "init-version-echo", "it repeats any number"),
    ("goose-versions", "init-version-echo", "it repeats any number"),
    ("elizacp-cancel", "rpc-envelope", "it answers session/cancel by an error without an id"),
];

#[test]
fn real_peers_break_what_is_known_and_nothing_else() {
    let mut problems = BTreeSet::new();
    for recording in switchboard_testkit::recordings() {
        let mut evaluator = Evaluator::new(None);
        for (place, line) in recording.lines.iter().enumerate() {
            let from = if line.from_agent { Side::Agent } else { Side::Client };
            evaluator.message(place as u64 + 1, from, &line.message);
        }
        let report = evaluator.report(recording.name.as_str());
        for judged in report.failed().filter(|judged| judged.rule.rule().strength.counts()) {
            let id = judged.rule.rule().id;
            let is_known =
                KNOWN.iter().any(|(name, rule, _)| recording.name.starts_with(name) && *rule == id);
            if !is_known {
                problems.insert(format!("{}: {id}: {}", recording.name, judged.reason));
            }
        }
        let may_lack_version = recording.name.ends_with("-v2agent");
        assert_eq!(report.verdict == Verdict::NotJudged, may_lack_version, "{}", recording.name);
    }
    assert_eq!(problems, BTreeSet::new());
}
