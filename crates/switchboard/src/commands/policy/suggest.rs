//! `switchboard policy suggest`: rules that would have avoided questions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use switchboard_policy::{PastAnswer, Policy, Subject, Verdict, candidate_rules};

use super::history::{self, Event, PastArguments};
use crate::commands::fold::text::shown;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::policy_file::{self, SystemFiles};

/// Suggest the fewest rules that would have avoided the most questions
///
/// Examines past questions that were allowed, in the store or in recordings, and writes rules that would have
/// allowed them, the most effective first, each with the requests it would have allowed. A rule that would
/// have allowed a rejected request is not suggested, nor one for programs that run arbitrary commands or
/// change more than the project. The first suggested rule asks about hidden files.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  switchboard policy suggest --min 3 >> ~/.config/switchboard/switchboard-policy.toml"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    past: PastArguments,

    /// Existing rules: requests they decide need no suggestion
    #[arg(long, value_name = "FILE", alias = "policy")]
    permissions: Option<PathBuf>,

    /// Minimum number of questions that a rule must avoid
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = clap::value_parser!(u64).range(1..))]
    min: u64,
}

/// Rule that precedes all others, so that none of them allows too much.
const GUARD: &str = "[[rule]]\ndecision = \"ask\"\npath = [\"$root/**/.*/**\"]\n\n";
/// Maximum number of suggested rules.
const MAX_RULES: usize = 50;
/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 2000;
/// Maximum number of requests shown per rule.
const MAX_SHOWN: usize = 10;

pub(super) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let host = SystemFiles::new();
    let known = match &arguments.permissions {
        Some(file) => policy_file::load(file, &host)?,
        None => Policy::ask(),
    };
    let (mut allowed, mut refused) = (Vec::new(), Vec::new());
    let (extent, outcome) = history::read(&arguments.past, |_, event| {
        if let Event::Asked { question, answered, .. } = event {
            let is_open = known.evaluate(&question.subject, &host).verdict == Verdict::Ask;
            match answered {
                PastAnswer::Allowed if is_open => allowed.push(question.subject),
                PastAnswer::Rejected => refused.push(question.subject),
                _ => {}
            }
        }
        Ok(())
    })?;
    let questions = allowed.len();
    let mut candidates: BTreeSet<String> = BTreeSet::new();
    for subject in &allowed {
        if candidates.len() >= MAX_CANDIDATES {
            break;
        }
        candidates.extend(candidate_rules(subject));
    }
    // The requests that each would have allowed. A rule that would have allowed a rejected request is
    // dropped.
    let mut open: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for candidate in candidates {
        let Ok(policy) = Policy::parse(&format!("{GUARD}{candidate}"), &host) else { continue };
        let allows = |subject: &Subject| policy.evaluate(subject, &host).verdict == Verdict::Allow;
        if !refused.iter().any(allows) {
            let spared =
                allowed.iter().enumerate().filter(|(_, subject)| allows(subject)).map(|(place, _)| place);
            open.insert(candidate, spared.collect());
        }
    }
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut write = || -> std::io::Result<()> {
        let mut rules = 0;
        let mut spared = 0;
        while rules < MAX_RULES {
            // Of two with the same effect, the more specific one.
            let best = open.iter().max_by_key(|(rule, spared)| (spared.len(), rule.len()));
            let Some((rule, places)) = best.map(|(rule, places)| (rule.clone(), places.clone())) else {
                break;
            };
            if (places.len() as u64) < arguments.min {
                break;
            }
            if rules == 0 {
                writeln!(
                    output,
                    "# hidden files may be secrets or be executed later: still ask about them\n{GUARD}"
                )?;
            }
            let through: BTreeSet<String> = places.iter().map(|place| allowed[*place].summary()).collect();
            writeln!(output, "# would have avoided {} questions and allowed:", places.len())?;
            for line in through.iter().take(MAX_SHOWN) {
                writeln!(output, "#   {}", shown(line).replace('\n', " "))?;
            }
            if through.len() > MAX_SHOWN {
                writeln!(output, "#   and {} others", through.len() - MAX_SHOWN)?;
            }
            writeln!(output, "{rule}")?;
            spared += places.len();
            rules += 1;
            open.values_mut().for_each(|others| others.retain(|place| !places.contains(place)));
        }
        writeln!(
            output,
            "# together they would have avoided {spared} of {questions} allowed questions in {} sessions",
            extent.sessions
        )?;
        output.flush()
    };
    write().map_err(write_error)?;
    Ok(outcome)
}
