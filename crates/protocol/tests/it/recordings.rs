//! Recorded traffic of real agents and clients is valid, except for known faults of the peers.

use switchboard_acp::WireFormat;
use switchboard_acp::check::{Checker, Rules};
use switchboard_testkit::recordings;

/// A known fault of a peer: recordings, location, message and reason.
struct KnownFault {
    recordings: &'static str,
    pointer: &'static str,
    message: &'static str,
    reason: &'static str,
}

const KNOWN_FAULTS: &[KnownFault] = &[
    KnownFault {
        recordings: "client-yopo",
        pointer: "/msg/params/cwd",
        message: "expected an absolute path",
        reason: "yopo sends a working directory of \".\"",
    },
    KnownFault {
        recordings: "elizacp-cancel",
        pointer: "/msg",
        message: "expected the key \"id\"",
        reason: "elizacp answers an unknown method with an error that has no id",
    },
    KnownFault {
        recordings: "versions",
        pointer: "/msg/params",
        message: "expected the key \"info\"",
        reason: "the recorder asked for version 2 with the body of version 1, to see what happens",
    },
    KnownFault {
        recordings: "-v2agent",
        pointer: "/msg/params",
        message: "expected the key \"info\"",
        reason: "clients of version 1 meet an agent of version 2 and speak version 1 to it",
    },
    KnownFault {
        recordings: "-v2-",
        pointer: "/msg/result/authMethods/0",
        message: "expected the key \"type\"",
        reason: "agents of version 1 answer a client of version 2 in the shape of version 1",
    },
    KnownFault {
        recordings: "codex-acp-versions",
        pointer: "/msg/result/authMethods/0",
        message: "expected the key \"id\"",
        reason: "the answers to the recorder's questions for version 2 are of version 2",
    },
];

/// Recordings of version 2 have it in their name; those with several versions are checked as version 1.
fn revision(name: &str) -> WireFormat {
    let is_v2 = name.contains("-v2") || name.starts_with("v2ref") || name.contains("python1rc3");
    if is_v2 { WireFormat::Any } else { WireFormat::V1 }
}

#[test]
fn recordings_are_valid_or_the_fault_is_the_peers() {
    let mut unexplained = Vec::new();
    for recording in recordings() {
        let rules = Rules { revision: revision(&recording.name), ..Rules::default() };
        let mut checker = Checker::new(rules);
        let text = std::fs::read_to_string(&recording.path).unwrap();
        for (index, line) in text.lines().enumerate() {
            for error in checker.check(line.as_bytes()).errors {
                let explained = KNOWN_FAULTS.iter().any(|fault| {
                    recording.name.contains(fault.recordings)
                        && error.pointer == fault.pointer
                        && error.message.contains(fault.message)
                        && !fault.reason.is_empty()
                });
                if !explained {
                    let place = format!("{} line {}", recording.name, index + 1);
                    unexplained.push(format!("{place} at {}: {}", error.pointer, error.message));
                }
            }
        }
    }
    assert!(unexplained.is_empty(), "{} faults:\n{}", unexplained.len(), unexplained.join("\n"));
}
