use std::fmt::Write;

use super::{Transcripts, escaped, places};
use crate::report::{Report, Status};
use crate::rules::RuleId;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2rem;color:#1c1e21;background:#fff}\
table{border-collapse:collapse}th,td{border:1px solid #d5d8dc;padding:.25rem .5rem;text-align:left;vertical-align:top}\
thead th{position:sticky;top:0;background:#f3f4f6}td.pass{background:#e6f4ea}td.fail{background:#fce8e6}\
td.known{background:#fef7e0}td.skipped,td.none{color:#5f6368}pre{background:#f6f8fa;padding:.5rem;overflow:auto;\
white-space:pre-wrap;overflow-wrap:anywhere}pre b{background:#fce8e6}\
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e8eaed}thead th{background:#22262b}\
th,td{border-color:#3c4043}td.pass{background:#12351f}td.fail{background:#4a1714}td.known{background:#453a10}\
pre{background:#1e2226}pre b{background:#4a1714}a{color:#8ab4f8}}";

/// One page: a matrix of rules and subjects, and each violation with what was said around it.
pub fn html(reports: &[Report], transcripts: &Transcripts) -> String {
    let mut out = String::new();
    // Writing to a text cannot fail.
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
    out.push_str("<table><thead><tr><th>rule</th><th>strength</th>");
    for report in reports {
        write!(out, "<th>{}<br>{}</th>", escaped(&report.subject), report.verdict.as_str())?;
    }
    out.push_str("</tr></thead><tbody>\n");
    for id in RuleId::ALL {
        let found: Vec<_> =
            reports.iter().map(|report| report.rules.iter().find(|judged| judged.rule == *id)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let rule = id.rule();
        write!(
            out,
            "<tr><th title=\"{}\">{}</th><td>{}</td>",
            escaped(rule.text),
            rule.id,
            rule.strength.as_str()
        )?;
        for (place, judged) in found.iter().enumerate() {
            match judged {
                None => out.push_str("<td class=\"none\">–</td>"),
                Some(judged) => {
                    let class = match judged.status {
                        Status::Pass => "pass",
                        Status::Fail if judged.is_known => "known",
                        Status::Fail => "fail",
                        Status::Skipped | Status::NotTested => "skipped",
                    };
                    let word = judged.status.as_str();
                    let title = escaped(&judged.reason);
                    if judged.status == Status::Fail {
                        write!(
                            out,
                            "<td class=\"{class}\"><a href=\"#f{place}-{}\" title=\"{title}\">{word}</a></td>",
                            rule.id
                        )?;
                    } else {
                        write!(out, "<td class=\"{class}\" title=\"{title}\">{word}</td>")?;
                    }
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
    for (place, report) in reports.iter().enumerate() {
        violations(out, place, report, transcripts)?;
    }
    out.push_str("</body></html>\n");
    Ok(())
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
