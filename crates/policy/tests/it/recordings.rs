//! Real agents: the requested action is found, or its absence is reported.

use switchboard_acp::v2::ToolKind;
use switchboard_policy::{QuestionReader, Source};
use switchboard_session::Side;

#[test]
fn every_recorded_question_tells_its_command_or_files_or_why_not() {
    let mut questions = 0;
    for recording in switchboard_testkit::recordings() {
        let mut reader = QuestionReader::without_root("/").reading_version_1(crate::support::VERSION_1);
        for line in &recording.lines {
            let from = if line.from_agent { Side::Agent } else { Side::Client };
            let asked = reader.read(&line.message, Some(from), Default::default());
            let is_request = line.message.contains("\"session/request_permission\"");
            assert_eq!(asked.len(), usize::from(is_request), "{}", recording.name);
            for question in asked {
                questions += 1;
                let subject = &question.subject;
                // A call of a known kind, such as a search, may have neither.
                let is_kind =
                    subject.kind().is_some_and(|kind| !matches!(kind, ToolKind::Other | ToolKind::Execute));
                let is_told = subject.command().is_some() || !subject.paths().is_empty() || is_kind;
                assert!(is_told || subject.unsure().is_some(), "{}: {subject:?}", recording.name);
                let is_told_in_words = matches!(subject.source(), Source::Text | Source::Cut);
                assert!(!is_told_in_words || subject.unsure().is_some(), "{}: {subject:?}", recording.name);
                assert!(!question.options.is_empty(), "{}", recording.name);
            }
        }
    }
    assert!(questions > 0);
}
