//! Report formats for people and programs.

mod html;
mod junit;
mod markdown;
mod text;

use std::collections::BTreeMap;

pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use text::{explanation, list, text};

use crate::report::{Report, RuleResult, Status};

/// Messages around violations by number, for each subject.
pub type Transcripts = Vec<BTreeMap<u64, String>>;

/// Number of rules by status.
struct Counts {
    pass: usize,
    fail: usize,
    known: usize,
    skipped: usize,
    not_tested: usize,
}

fn counts(report: &Report) -> Counts {
    let of = |status| report.rules.iter().filter(|rule| rule.status == status).count();
    Counts {
        pass: of(Status::Pass),
        fail: of(Status::Fail),
        known: report.rules.iter().filter(|rule| rule.is_known).count(),
        skipped: of(Status::Skipped),
        not_tested: of(Status::NotTested),
    }
}

/// Returns the numbers of the messages that break a rule, as text.
fn places(judged: &RuleResult) -> String {
    const MOST: usize = 8;
    let mut numbers: Vec<_> = judged.failures.iter().map(|failure| failure.message).collect();
    numbers.dedup();
    let shown: Vec<_> = numbers.iter().take(MOST).map(u64::to_string).collect();
    let rest = numbers.len().saturating_sub(MOST);
    if rest > 0 { format!("{} and {rest} more", shown.join(", ")) } else { shown.join(", ") }
}

/// Escapes a text for XML or HTML. Characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            other if other.is_control() || matches!(other, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}
