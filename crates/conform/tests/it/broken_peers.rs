//! A peer for each rule that a conversation can show, which breaks that rule and no other: a conversation
//! without faults, with one fault inserted.

mod connection;
mod content;
mod conversations;
mod sessions;

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_acp::Side;
use switchboard_conform::{
    Evaluator, Findings, RULES, RecordingChecker, RuleId, Status, Strength, TestKind, Verdict,
};

use self::conversations::{V1, V2};
/// A fault: a replaced, added or removed line.
enum Fault {
    /// Replaces the first text by the second in this line.
    Edit(u64, &'static str, &'static str),
    /// Adds a line after this one.
    Add(u64, &'static str),
    Remove(u64),
}
use Fault::{Add, Edit, Remove};

/// A rule, the faulty conversation, the faults, and the reported messages.
type Broken = (&'static str, &'static [&'static str], &'static [Fault], &'static [u64]);

/// Returns all peers that break a rule.
fn broken_peers() -> impl Iterator<Item = &'static Broken> {
    [connection::BROKEN, sessions::BROKEN, content::BROKEN].into_iter().flatten()
}

fn conversation(base: &[&str], faults: &[Fault]) -> Vec<String> {
    let mut lines: Vec<Option<String>> = base.iter().map(|line| Some((*line).to_owned())).collect();
    for fault in faults {
        match fault {
            Edit(number, before, after) => {
                let line = lines[*number as usize - 1].as_mut().unwrap();
                assert!(line.contains(before), "line {number} has no {before}");
                *line = line.replacen(before, after, 1);
            }
            Add(number, more) => {
                let line = lines[*number as usize - 1].as_mut().unwrap();
                line.push('\n');
                line.push_str(more);
            }
            Remove(number) => lines[*number as usize - 1] = None,
        }
    }
    lines.iter().flatten().flat_map(|line| line.lines()).map(str::to_owned).collect()
}

fn findings(lines: &[String]) -> Findings {
    let mut evaluator = Evaluator::new(None);
    for (place, line) in lines.iter().enumerate() {
        let (side, text) = line.split_at(2);
        let from = if side == "C " { Side::Client } else { Side::Agent };
        let text = if text.starts_with('{') && !text.contains("\"jsonrpc\"") {
            text.replacen('{', r#"{"jsonrpc":"2.0","#, 1)
        } else {
            text.to_owned()
        };
        evaluator.message(place as u64 + 1, from, &text);
    }
    evaluator.finish()
}

#[test]
fn peers_that_keep_everything_break_nothing() {
    for base in [V1, V2] {
        let report = findings(&conversation(base, &[])).report("base");
        let broken: Vec<_> = report.failed().map(|judged| (judged.rule.rule().id, &judged.reason)).collect();
        assert_eq!((report.verdict, broken), (Verdict::Conformant, Vec::new()));
    }
}

#[test]
fn each_broken_peer_breaks_exactly_its_rule() {
    let mut problems = Vec::new();
    for (id, base, faults, expected) in broken_peers() {
        let report = findings(&conversation(base, faults)).report(*id);
        let broken: Vec<_> = report
            .failed()
            .map(|judged| {
                let numbers: Vec<_> = judged.failures.iter().map(|failure| failure.message).collect();
                (judged.rule.rule().id, numbers, judged.reason.clone())
            })
            .collect();
        let rule = RuleId::find(id).unwrap_or_else(|| panic!("no rule {id}")).rule();
        let as_expected = matches!(&*broken, [(found, numbers, _)] if found == id && numbers == expected);
        let verdict = if rule.strength.counts() { Verdict::NotConformant } else { Verdict::Conformant };
        // An array also breaks the rule for its sender.
        let is_batch = *id == "rpc-batch-refused" && broken.len() == 2;
        if !is_batch && (!as_expected || report.verdict != verdict) {
            problems.push(format!("{id} at {expected:?}: {broken:?}, {}", report.verdict.as_str()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_history_that_begins_with_running_is_judged_as_any_other() {
    let running = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"running"}}}"#;
    let broken = |faults: &[Fault]| {
        let report = findings(&conversation(V2, faults)).report("history");
        let failed = report.failed().flat_map(|judged| {
            let id = judged.rule.rule().id;
            judged.failures.iter().map(move |failure| (id, failure.message))
        });
        failed.collect::<Vec<_>>()
    };
    assert_eq!(broken(&[Add(36, running), Remove(38)]), [("resume-chunk-seeded", 39)]);
    // Work that the client has seen continues while the session is resumed.
    let resumed_at_work = [Remove(33), Remove(34), Remove(35), Remove(38)];
    assert_eq!(broken(&resumed_at_work).iter().filter(|(id, _)| *id == "resume-chunk-seeded").count(), 0);
}

#[test]
fn unknown_requests_that_are_answered_are_told() {
    let answered = |method: &str, result: &str| {
        let lines = format!(
            "C {{\"id\":77,\"method\":\"{method}\",\"params\":{{}}}}\nA {{\"id\":77,\"result\":{result}}}"
        );
        let mut all = conversation(V2, &[]);
        all.extend(lines.lines().map(str::to_owned));
        let report = findings(&all).report("unknown");
        report.failed().map(|judged| (judged.rule.rule().id, judged.reason.clone())).collect::<Vec<_>>()
    };
    let reason = "_switchboard/conform was answered with {} instead of -32601";
    assert_eq!(answered("_switchboard/conform", "{}"), [("rpc-unknown-method", reason.to_owned())]);
    // It is unknown whether another party's extension is supported.
    assert_eq!(answered("_acme/ping", "{}"), []);
}

#[test]
fn every_rule_has_one_broken_peer() {
    let mut seen = BTreeSet::new();
    for (id, ..) in broken_peers() {
        assert!(seen.insert(*id), "{id} twice");
    }
    let missing: Vec<_> = RULES
        .iter()
        .filter(|rule| rule.seen == TestKind::Recorded && rule.strength != Strength::Recorded)
        .map(|rule| rule.id)
        .filter(|id| !seen.contains(id))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_recording_that_ends_anywhere_breaks_nothing() {
    for base in [V1, V2] {
        for end in 0..base.len() {
            let report = findings(&conversation(&base[..end], &[])).report("cut");
            assert_eq!(
                report.failed().count(),
                0,
                "cut behind line {end}: {:?}",
                report.failed().collect::<Vec<_>>()
            );
            if end < 2 {
                assert_eq!(report.verdict, Verdict::NotJudged);
            }
        }
    }
}

#[test]
fn a_recording_without_its_beginning_breaks_nothing() {
    for base in [V1, V2] {
        for start in 1..base.len() {
            let report = findings(&conversation(&base[start..], &[])).report("cut");
            assert_eq!(
                report.failed().count(),
                0,
                "cut before line {}: {:?}",
                start + 1,
                report.failed().collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_line_that_is_lost_breaks_nothing() {
    for base in [V1, V2] {
        for lost in 0..base.len() {
            let mut judge = RecordingChecker::new(None);
            for (place, line) in base.iter().enumerate() {
                let side = if line.starts_with('C') { "client->agent" } else { "agent->client" };
                let message = line[2..].replacen('{', r#"{"jsonrpc":"2.0","#, 1);
                let line = format!(r#"{{"dir":"{side}","msg":{message}}}"#);
                let end = if place == lost { line.len() / 2 } else { line.len() };
                judge.line(place as u64 + 1, &line.as_bytes()[..end]);
            }
            assert_eq!(judge.gaps(), 1);
            let report = judge.finish().report("damaged");
            assert_eq!(
                report.failed().count(),
                0,
                "line {}: {:?}",
                lost + 1,
                report.failed().collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn recorded_only_rules_never_fail() {
    let again = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"in_progress"}}}"#;
    let lines = conversation(
        V1,
        &[Edit(
            9,
            "\"completed\"}}}",
            "\"completed\"}}}\nA {\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\",\"update\":{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c-1\",\"status\":\"in_progress\"}}}",
        )],
    );
    assert_eq!(lines[9], again);
    let report = findings(&lines).report("again");
    let judged = report.rules.iter().find(|judged| judged.rule == RuleId::ToolCallFinal).unwrap();
    assert_eq!(
        (judged.status, judged.failures[0].message, report.verdict),
        (Status::Pass, 10, Verdict::Conformant)
    );
}

#[test]
fn the_json_has_exactly_the_promised_keys() {
    let json = findings(&conversation(V1, &[])).report("x").to_json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&json), ["rules", "subject", "verdict"].map(str::to_owned).into());
    for rule in json["rules"].as_array().unwrap() {
        assert_eq!(keys(rule), ["id", "messages", "reason", "status", "strength"].map(str::to_owned).into());
    }
}
