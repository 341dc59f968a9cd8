//! Search for questions in a million recorded messages, compared with folding them with the official types.

#[path = "../../session/benches/official/mod.rs"]
mod official;

use official::{OfficialEnvelope, OfficialSession};
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_acp::{Recorded, RecordedLine};
use switchboard_policy::{NoFiles, Policy, QuestionReader, Relevance, Verdict};
use switchboard_testkit::{Contest, TagPlace, stream};

const COUNT: usize = 1_000_000;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    msg: &'a RawValue,
}

fn main() {
    for (name, calls) in [("one in five about tool calls", 1), ("one in a hundred about tool calls", 20)] {
        contest(name, calls);
    }
}

/// Keeps every n-th update about tool calls.
fn contest(name: &str, every: usize) {
    let mut calls = 0;
    let lines: Vec<String> = stream(COUNT, TagPlace::First)
        .into_iter()
        .filter(|line| {
            let is_call = line.contains("tool_call");
            calls += usize::from(is_call);
            !is_call || calls % every == 0
        })
        .map(|line| format!(r#"{{"t":1.250,"dir":"agent->client","msg":{line}}}"#))
        .collect();
    let policy = Policy::parse("[[rule]]\ndecision = \"allow\"\ncommand = [\"ls\"]\n", &NoFiles::default())
        .expect("rules");
    let times = Contest::new(format!("{} recorded messages, {name}", lines.len()), 3)
        .of_one_thread()
        .contender("what was asked and what was not", || {
            let (relevance, mut reader) = (
                Relevance::new(),
                QuestionReader::without_root("/").reading_version_1(switchboard_policy::Version1 {
                    update: switchboard_bridge::read_v1_update,
                    permission: switchboard_bridge::read_v1_permission,
                }),
            );
            let mut begun = Vec::new();
            for line in lines.iter().filter(|line| relevance.matters(line.as_bytes())) {
                let line = RecordedLine::parse(line).expect("a recorded line");
                if let Recorded::Message { from, text, .. } = &line.recorded {
                    reader.read(text, *from, Default::default());
                    begun.extend(reader.take_begun());
                }
            }
            let subjects =
                begun.iter().filter_map(|(session, call)| reader.subject_of_call(session.as_deref(), call));
            usize::from(subjects.fold(false, |_, subject| {
                policy.evaluate(&subject, &NoFiles::default()).verdict != Verdict::Deny
            }))
        })
        .contender("official types and a hash map", || {
            let mut session = OfficialSession::default();
            for line in &lines {
                let line: Line<'_> = serde_json::from_str(line).expect("a recorded line");
                let envelope: OfficialEnvelope<'_> = serde_json::from_str(line.msg.get()).expect("official");
                session.apply(envelope.params.update);
            }
            session.len().min(1)
        })
        .run();
    let ratio = times[1].1.as_secs_f64() / times[0].1.as_secs_f64();
    println!("  {ratio:.1} times as fast (to be over 20)");
}
