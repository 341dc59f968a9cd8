use std::fmt::Write;

use super::{counts, places};
use crate::report::{Report, Status};
use crate::rules::{RULES, RuleId};

/// Renders a table for people. Without `everything`, only violations and counts are shown.
pub fn text(reports: &[Report], everything: bool) -> String {
    let mut out = String::new();
    for report in reports {
        // Writing to a string cannot fail.
        let _ = one(&mut out, report, everything);
    }
    out
}

fn one(out: &mut String, report: &Report, everything: bool) -> std::fmt::Result {
    writeln!(out, "{}: {}", shown(&report.subject), report.verdict.as_str())?;
    if let Some(reason) = &report.blocked {
        writeln!(out, "  {}", shown(reason))?;
    }
    for judged in &report.rules {
        let rule = judged.rule.rule();
        if judged.status != Status::Fail && !everything {
            continue;
        }
        let status = if judged.is_known { "known" } else { judged.status.as_str() };
        write!(out, "  {status:<10} {:<10} {:<32}", rule.strength.as_str(), rule.id)?;
        let places = places(judged);
        if !places.is_empty() {
            write!(out, " message {places}:")?;
        }
        writeln!(out, " {}", shown(&judged.reason))?;
    }
    let counts = counts(report);
    write!(out, "  {} kept, {} broken", counts.pass, counts.fail)?;
    if counts.known > 0 {
        write!(out, " ({} of them known)", counts.known)?;
    }
    writeln!(out, ", {} skipped, {} not tested", counts.skipped, counts.not_tested)
}

/// Replaces control characters in a foreign text.
fn shown(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{FFFD}' } else { character }).collect()
}

/// Lists all rules, one per line.
pub fn list() -> String {
    let mut out = String::new();
    for rule in RULES {
        let _ = writeln!(
            out,
            "{:<32} {:<10} {:<6} {:<18} {}",
            rule.id,
            rule.strength.as_str(),
            rule.party.as_str(),
            rule.versions.as_str(),
            rule.text
        );
    }
    out
}

/// Explains one rule.
pub fn explanation(id: RuleId) -> String {
    let rule = id.rule();
    let mut out = format!("{}\n\n{}\n\n", rule.id, rule.text);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(out, "{name:<14}{value}");
        }
    };
    line("strength", rule.strength.as_str());
    line("kept by", rule.party.as_str());
    line("version", rule.versions.as_str());
    line("capability", &rule.capability.trim_start_matches('/').replace('/', "."));
    line("specification", rule.citation);
    line("official kit", &rule.official.join(", "));
    line("violation", rule.violation);
    line("what to do", rule.fix);
    out
}
