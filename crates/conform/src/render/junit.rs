use std::fmt::Write;

use super::{counts, escaped, places};
use crate::report::{Report, Status, Verdict};

/// Renders JUnit XML: one suite per subject, one case per rule. Rules that do not count never fail.
pub fn junit(reports: &[Report]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for report in reports {
        // Writing to a string cannot fail.
        let _ = suite(&mut out, report);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, report: &Report) -> std::fmt::Result {
    let counts = counts(report);
    let counted = report.failed().filter(|rule| rule.rule.rule().strength.counts() && !rule.is_known).count();
    let errors = usize::from(report.verdict == Verdict::NotJudged);
    writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{counted}\" errors=\"{errors}\" skipped=\"{}\">",
        escaped(&report.subject),
        report.rules.len() + errors,
        counts.skipped + counts.not_tested,
    )?;
    if let Some(reason) = &report.blocked {
        writeln!(
            out,
            "    <testcase classname=\"conform\" name=\"judged\"><error message=\"{}\"/></testcase>",
            escaped(reason)
        )?;
    }
    for judged in &report.rules {
        let rule = judged.rule.rule();
        write!(out, "    <testcase classname=\"{}\" name=\"{}\"", rule.strength.as_str(), rule.id)?;
        let reason = escaped(&judged.reason);
        match judged.status {
            Status::Fail if rule.strength.counts() && !judged.is_known => {
                let details = format!("{}\nmessages: {}\n{}", rule.text, places(judged), rule.fix);
                writeln!(
                    out,
                    "><failure message=\"{reason}\" type=\"{}\">{}</failure></testcase>",
                    rule.strength.as_str(),
                    escaped(&details)
                )?;
            }
            Status::Fail => writeln!(out, "><system-out>{reason}</system-out></testcase>")?,
            Status::Skipped | Status::NotTested => {
                writeln!(out, "><skipped message=\"{reason}\"/></testcase>")?;
            }
            Status::Pass => writeln!(out, "/>")?,
        }
    }
    writeln!(out, "  </testsuite>")
}
