//! What could not be carried over, counted and kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::{Error, Side};

/// How much a person would miss what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is lost, but something was inferred that the sender did not say, such as where a message begins.
    Guess,
    /// A detail is gone that a person would hardly miss.
    Minor,
    /// Something that a person would notice is gone, or shown in another way.
    Major,
}

/// One thing that the other version has no place for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The session that it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The kind of message: a method, or the kind of an update.
    pub message: String,
    /// The part of the message.
    pub element: String,
    /// Why it could not be carried over, and what was done instead.
    pub reason: String,
    /// How much it matters.
    pub severity: Severity,
    /// Who does not get it.
    pub toward: Side,
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.message, self.element, self.reason)
    }
}

/// All losses of a bridge: the first ones whole, all of them counted.
#[derive(Debug, Clone, Default)]
pub struct LossReport {
    first: Vec<Loss>,
    counts: BTreeMap<(String, String), u64>,
    losses: u64,
    guesses: u64,
}

/// How many losses are kept whole, and how many kinds are counted apart.
const KEPT: usize = 1000;

impl LossReport {
    /// How many things were lost. What was only inferred does not count.
    pub fn total(&self) -> u64 {
        self.losses
    }

    /// How many things were inferred.
    pub fn guesses(&self) -> u64 {
        self.guesses
    }

    /// The first thousand losses and guesses.
    pub fn entries(&self) -> &[Loss] {
        &self.first
    }

    /// How often each element of each kind of message was lost: message, element, count.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.counts.iter().map(|((message, element), count)| (&**message, &**element, *count))
    }

    pub(crate) fn add(&mut self, loss: &Loss) {
        if loss.severity == Severity::Guess {
            self.guesses += 1;
        } else {
            self.losses += 1;
            let kind = (loss.message.clone(), without_indices(&loss.element));
            if self.counts.len() < KEPT || self.counts.contains_key(&kind) {
                *self.counts.entry(kind).or_default() += 1;
            }
        }
        if self.first.len() < KEPT {
            self.first.push(loss.clone());
        }
    }
}

/// `content[3].icons` and `content[4].icons` are one kind.
fn without_indices(element: &str) -> String {
    let mut kind = String::with_capacity(element.len());
    let mut inside = false;
    for character in element.chars() {
        match character {
            '[' => inside = true,
            ']' if inside => {
                inside = false;
                kind.push_str("[]");
            }
            _ if inside => {}
            _ => kind.push(character),
        }
    }
    kind
}

/// A place in a message, put into words only when there is something to say about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'p> {
    parent: Option<&'p At<'p>>,
    step: Step<'p>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> At<'p> {
    pub(crate) fn key(name: &'p str) -> Self {
        At { parent: None, step: Step::Key(name) }
    }

    pub(crate) fn then<'c>(&'c self, name: &'c str) -> At<'c> {
        At { parent: Some(self), step: Step::Key(name) }
    }

    pub(crate) fn item(&self, index: usize) -> At<'_> {
        At { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            Step::Key(name) if self.parent.is_some() => write!(formatter, ".{name}"),
            Step::Key(name) => formatter.write_str(name),
            Step::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// One thing that a translation could not carry over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The part of the message.
    pub element: String,
    /// Why, and what was done instead.
    pub reason: String,
    /// How much it matters.
    pub severity: Severity,
}

/// Collects what a translation cannot carry over, or makes it fail at once.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) entries: Vec<Note>,
    fails: bool,
}

impl Notes {
    /// For a translation that fails rather than loses something.
    pub(crate) fn failing() -> Self {
        Notes { entries: Vec::new(), fails: true }
    }

    /// Something has no place in the other version.
    pub(crate) fn lose(
        &mut self,
        severity: Severity,
        at: &At<'_>,
        reason: impl Into<String>,
    ) -> Result<(), Error> {
        if self.fails {
            return Err(Error::Unrepresentable { element: at.to_string(), reason: reason.into() });
        }
        self.omit(severity, at, reason);
        Ok(())
    }

    /// Something may be left out even where everything else must not, as long as it is reported.
    pub(crate) fn omit(&mut self, severity: Severity, at: &At<'_>, reason: impl Into<String>) {
        self.entries.push(Note { element: at.to_string(), reason: reason.into(), severity });
    }

    /// Something can be said only by who remembers or looks around: fails where losing would.
    pub(crate) fn require_state(&self, at: &At<'_>, reason: &str) -> Result<(), Error> {
        if self.fails { Err(Error::unrepresentable(at, reason)) } else { Ok(()) }
    }
}
