//! Protocol check of a recording, with links to the invalid messages.

use maud::{Markup, html};
use switchboard_conform::{Evaluator, Report};

use super::live_recording::LiveRecording;

/// Number of rows that are read at once.
const PIECE: usize = 2048;
/// Maximum number of rows. Longer recordings are checked on the command line.
const MOST_ROWS: usize = 200_000;
/// Maximum number of linked messages per rule.
const MOST_LINKS: usize = 20;

/// Checks the records so far. May read from disk.
pub(crate) fn verdict(room: &LiveRecording) -> Result<Markup, String> {
    let length = room.log().rows().len();
    if length > MOST_ROWS {
        let id = &room.id;
        return Err(format!("too long to be judged here; switchboard conform recording {id} does it"));
    }
    let mut evaluator = Evaluator::new(None);
    for from in (0..length).step_by(PIECE) {
        for (row, text) in room.texts(from..length.min(from + PIECE)) {
            let channel = room.log().rows().get(row).map(|row| row.channel);
            if let Some((side, false)) = channel.and_then(switchboard_store::Channel::message) {
                evaluator.message(number(row), side, &text);
            }
        }
    }
    Ok(shown(&evaluator.report(room.id.as_str())))
}

/// Returns the number of a message in the inspector and on the command line.
fn number(row: usize) -> u64 {
    row as u64 + 1
}

fn shown(report: &Report) -> Markup {
    html! {
        h2 id="dialog-title" { "Protocol: " (report.verdict.as_str()) }
        @if let Some(reason) = &report.blocked { p { (reason) } }
        @if report.blocked.is_none() && report.failed().next().is_none() { p { "No rule is broken." } }
        @for judged in report.failed() {
            @let rule = judged.rule.rule();
            section {
                h3 { (rule.id) " (" (rule.strength.as_str()) ", " (rule.party.as_str()) ")" }
                p { (rule.text) }
                p class="meta" { (judged.reason) }
                p {
                    "Messages: "
                    @for failure in judged.failures.iter().take(MOST_LINKS) {
                        a href={ "#m" (failure.message.saturating_sub(1)) } { (failure.message) } " "
                    }
                }
                p class="meta" { (rule.fix) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_acp::Side;
    use switchboard_conform::Evaluator;

    use super::{number, shown};

    #[test]
    fn each_violation_leads_to_its_message() {
        let mut evaluator = Evaluator::new(None);
        let lines = [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"<b>"}}"#,
        ];
        for (row, (side, line)) in [Side::Client, Side::Agent].into_iter().zip(lines).enumerate() {
            evaluator.message(number(row), side, line);
        }
        let html = shown(&evaluator.report("x")).into_string();
        assert!(html.contains("Protocol: not conformant"), "{html}");
        assert!(
            html.contains("<h3>init-answer (must, agent)</h3>") && html.contains(r##"<a href="#m1">2</a>"##),
            "{html}"
        );
        assert!(!html.contains("<b>"), "{html}");
    }
}
