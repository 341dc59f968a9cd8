use std::fmt::Write;

use super::{counts, places};
use crate::report::Report;

/// Renders Markdown for a pull request.
pub fn markdown(reports: &[Report]) -> String {
    let mut out = String::from(
        "| subject | verdict | kept | broken | skipped | not tested |\n|---|---|---|---|---|---|\n",
    );
    for report in reports {
        let counts = counts(report);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            cell(&report.subject),
            report.verdict.as_str(),
            counts.pass,
            counts.fail,
            counts.skipped,
            counts.not_tested
        );
    }
    for report in reports.iter().filter(|report| report.failed().next().is_some()) {
        let _ = write!(
            out,
            "\n### {}\n\n| rule | strength | messages | what |\n|---|---|---|---|\n",
            cell(&report.subject)
        );
        for judged in report.failed() {
            let rule = judged.rule.rule();
            let known = if judged.is_known { " (known)" } else { "" };
            let _ = writeln!(
                out,
                "| `{}`{known} | {} | {} | {} |",
                rule.id,
                rule.strength.as_str(),
                places(judged),
                cell(&judged.reason)
            );
        }
    }
    for report in reports {
        if let Some(reason) = &report.blocked {
            let _ = writeln!(out, "\n{}: {}", cell(&report.subject), cell(reason));
        }
    }
    out
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '@' | '!' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}
