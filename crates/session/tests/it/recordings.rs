//! Recordings of our own and other agents.

use switchboard_acp::WireFormat;
use switchboard_session::{Activity, Conversation, ConversationError, Moment, Session, Side};
use switchboard_testkit::recordings;

/// Returns true if the agent of a recording chose version 2, according to its response to `initialize`.
fn is_version_2(lines: &[switchboard_testkit::Recorded]) -> bool {
    let answers = lines.iter().filter(|line| line.from_agent);
    let mut versions = answers.filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(&line.message).unwrap();
        let result = &message["result"];
        // Some agents echo any number and continue in version 1: only version 2 has `info`.
        (!result["info"].is_null()).then(|| result["protocolVersion"].as_u64())?
    });
    versions.next_back() == Some(2)
}

#[test]
fn conversations_of_version_2_fold_without_a_diagnostic() {
    let mut folded = 0;
    for recording in recordings().iter().filter(|recording| is_version_2(&recording.lines)) {
        let mut conversation = Conversation::new(WireFormat::Any);
        for line in &recording.lines {
            let from = if line.from_agent { Side::Agent } else { Side::Client };
            let outcome = conversation.read(&line.message, Some(from), Moment(0));
            assert!(outcome.is_ok(), "{}: {outcome:?} in {}", recording.name, line.message);
        }
        for (_, session) in conversation.sessions() {
            let unknown = if recording.name == "demo-unknown-v2" { 2 } else { 0 };
            assert_eq!(session.unknown().count(), unknown, "{}", recording.name);
            assert_eq!(session.pending_permissions().count(), 0, "{}", recording.name);
            assert_eq!(session.activity(), Activity::Idle, "{}", recording.name);
            let text = serde_json::to_string(session).unwrap();
            assert_eq!(&serde_json::from_str::<Session>(&text).unwrap(), session, "{}", recording.name);
            folded += 1;
        }
    }
    println!("{folded} recorded sessions folded");
    assert!(folded >= 20, "only {folded} recorded sessions were folded");
}

#[test]
fn senders_are_inferred_in_recordings_without_directions() {
    let mut answered = 0;
    for recording in recordings().iter().filter(|recording| is_version_2(&recording.lines)) {
        let [mut told, mut untold] = [(); 2].map(|()| Conversation::new(WireFormat::Any));
        for line in &recording.lines {
            let from = if line.from_agent { Side::Agent } else { Side::Client };
            let (one, other) = (
                told.read(&line.message, Some(from), Moment(0)),
                untold.read(&line.message, None, Moment(0)),
            );
            assert_eq!(one.is_ok(), other.is_ok(), "{}: {}", recording.name, line.message);
        }
        assert!(told.sessions().eq(untold.sessions()), "{}", recording.name);
        for (id, session) in told.sessions() {
            assert!(told.turns(id).eq(untold.turns(id)), "{}", recording.name);
            answered += session.permissions().count();
        }
    }
    assert!(answered >= 3, "only {answered} questions were asked");
}

#[test]
fn no_recording_of_version_1_is_folded_without_a_word() {
    let mut refused = 0;
    for recording in recordings().iter().filter(|recording| !is_version_2(&recording.lines)) {
        let mut conversation = Conversation::new(WireFormat::Any);
        let mut is_told = false;
        for line in &recording.lines {
            let from = if line.from_agent { Side::Agent } else { Side::Client };
            conversation.read_line(&line.message, Some(from), Moment(0), |_, folded| {
                is_told |= folded == Err(ConversationError::Version1);
            });
        }
        let is_said = recording.lines.iter().any(|line| line.message.contains("\"session/update\""));
        assert!(is_told || !is_said, "{}", recording.name);
        refused += usize::from(is_told);
    }
    assert!(refused > 0, "no recording of version 1 was read");
}
