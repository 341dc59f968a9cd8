use std::fmt::Write;

use super::{Counts, Transcripts, counts, escaped, places};
use crate::report::{Report, RuleResult, Status};
use crate::rules::RuleId;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2rem;color:#1c1e21;background:#fff}\
table{border-collapse:collapse}th,td{border:1px solid #d5d8dc;padding:.25rem .5rem;text-align:left;vertical-align:top}\
thead th{position:sticky;top:0;background:#f3f4f6}td.pass{background:#e6f4ea}td.fail{background:#fce8e6}\
td.known{background:#fef7e0}td.skipped,td.none{color:#5f6368}pre{background:#f6f8fa;padding:.5rem;overflow:auto;\
white-space:pre-wrap;overflow-wrap:anywhere}pre b{background:#fce8e6}\
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e8eaed}thead th{background:#22262b}\
th,td{border-color:#3c4043}td.pass{background:#12351f}td.fail{background:#4a1714}td.known{background:#453a10}\
pre{background:#1e2226}pre b{background:#4a1714}a{color:#8ab4f8}}";

/// Renders one page: a matrix of rules and subjects, and each violation with the surrounding messages.
pub fn html(reports: &[Report], transcripts: &Transcripts) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = page(&mut out, reports, transcripts);
    out
}

fn page(out: &mut String, reports: &[Report], transcripts: &Transcripts) -> std::fmt::Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>ACP conformance</title><style>{STYLE}</style></head><body>\n<h1>ACP conformance</h1>\n"
    )?;
    for (place, report) in reports.iter().enumerate() {
        summary(out, place, report)?;
    }
    let (tested, untested): (Vec<_>, Vec<_>) = RuleId::ALL
        .iter()
        .map(|id| Row { id: *id, cells: reports.iter().map(|report| of_rule(report, *id)).collect() })
        .filter(|row| row.cells.iter().any(Option::is_some))
        .partition(Row::is_tested);
    table(out, reports, &tested)?;
    if !untested.is_empty() {
        write!(out, "<details><summary>{} rules that were not tested</summary>", untested.len())?;
        table(out, reports, &untested)?;
        out.push_str("</details>\n");
    }
    for (place, report) in reports.iter().enumerate() {
        violations(out, place, report, transcripts)?;
    }
    out.push_str("</body></html>\n");
    Ok(())
}

/// Renders the verdict on one subject, with links to the violations.
fn summary(out: &mut String, place: usize, report: &Report) -> std::fmt::Result {
    let Counts { pass, fail, skipped, not_tested, .. } = counts(report);
    write!(
        out,
        "<p><b>{}: {}</b>. {pass} kept, {fail} broken, {skipped} skipped, {not_tested} not tested.",
        escaped(&report.subject),
        report.verdict.as_str()
    )?;
    for judged in report.failed() {
        let id = judged.rule.rule().id;
        write!(out, " <a href=\"#f{place}-{id}\">{id}</a>")?;
    }
    out.push_str("</p>\n");
    Ok(())
}

/// Results of a rule for all subjects.
struct Row<'r> {
    id: RuleId,
    cells: Vec<Option<&'r RuleResult>>,
}

fn of_rule(report: &Report, id: RuleId) -> Option<&RuleResult> {
    report.rules.iter().find(|judged| judged.rule == id)
}

impl Row<'_> {
    fn is_tested(&self) -> bool {
        self.cells.iter().flatten().any(|judged| matches!(judged.status, Status::Pass | Status::Fail))
    }
}

fn table(out: &mut String, reports: &[Report], rows: &[Row<'_>]) -> std::fmt::Result {
    out.push_str("<table><thead><tr><th>rule</th><th>strength</th>");
    for report in reports {
        write!(out, "<th>{}<br>{}</th>", escaped(&report.subject), report.verdict.as_str())?;
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let rule = row.id.rule();
        let (text, strength) = (escaped(rule.text), rule.strength.as_str());
        write!(out, "<tr><th title=\"{text}\">{}</th><td>{strength}</td>", rule.id)?;
        for (place, judged) in row.cells.iter().enumerate() {
            cell(out, place, *judged)?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
    Ok(())
}

fn cell(out: &mut String, place: usize, judged: Option<&RuleResult>) -> std::fmt::Result {
    let Some(judged) = judged else {
        out.push_str("<td class=\"none\">–</td>");
        return Ok(());
    };
    let class = match judged.status {
        Status::Pass => "pass",
        Status::Fail if judged.is_known => "known",
        Status::Fail => "fail",
        Status::Skipped | Status::NotTested => "skipped",
    };
    let (title, word) = (escaped(&judged.reason), judged.status.as_str());
    if judged.status == Status::Fail {
        let id = judged.rule.rule().id;
        write!(out, "<td class=\"{class}\"><a href=\"#f{place}-{id}\" title=\"{title}\">{word}</a></td>")
    } else {
        write!(out, "<td class=\"{class}\" title=\"{title}\">{word}</td>")
    }
}

fn violations(
    out: &mut String,
    place: usize,
    report: &Report,
    transcripts: &Transcripts,
) -> std::fmt::Result {
    if report.failed().next().is_none() && report.blocked.is_none() {
        return Ok(());
    }
    writeln!(out, "<h2>{}</h2>", escaped(&report.subject))?;
    if let Some(reason) = &report.blocked {
        writeln!(out, "<p>{}</p>", escaped(reason))?;
    }
    for judged in report.failed() {
        let rule = judged.rule.rule();
        writeln!(
            out,
            "<h3 id=\"f{place}-{}\">{} ({}), message {}</h3><p>{}</p><p>{}</p><p>{} <em>{}</em></p>",
            rule.id,
            rule.id,
            rule.strength.as_str(),
            places(judged),
            escaped(rule.text),
            escaped(&judged.reason),
            escaped(rule.fix),
            escaped(rule.citation),
        )?;
        let Some(transcript) = transcripts.get(place).filter(|transcript| !transcript.is_empty()) else {
            continue;
        };
        let Some(first) = judged.failures.first() else { continue };
        out.push_str("<pre>");
        for (number, text) in
            transcript.range(first.message.saturating_sub(3)..=first.message.saturating_add(2))
        {
            let line = format!("{number:>5} {}", escaped(text));
            if *number == first.message { writeln!(out, "<b>{line}</b>")? } else { writeln!(out, "{line}")? }
        }
        out.push_str("</pre>\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchboard_acp::Side;

    use super::html;
    use crate::Evaluator;

    #[test]
    fn violations_come_first_and_untested_rules_are_folded() {
        let mut evaluator = Evaluator::new(None);
        let asked = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
        let answered = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"<b>"}}"#;
        evaluator.message(1, Side::Client, asked);
        evaluator.message(2, Side::Agent, answered);
        let transcript = [(1, asked.to_owned()), (2, answered.to_owned())].into();
        let page = html(&[evaluator.report("<i>x")], &vec![transcript]);
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        let way = place(r##"<a href="#f0-init-answer">init-answer</a>"##);
        assert!(way < place("<table>") && place("<details>") < place(r#"id="f0-init-answer""#));
        assert!(!page.contains("<b>{") && !page.contains("<i>") && !page.contains("\"<b>\""), "{page}");
    }
}
