//! What could not be carried over, counted and kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::Side;

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
    /// The part of the message, as people write it: `content[0].icons`.
    pub element: String,
    /// Where that stood in the message as its sender wrote it, as a JSON pointer; empty for the whole message.
    pub pointer: String,
    /// Why it could not be carried over, and what was done instead.
    pub reason: String,
    /// How much it matters.
    pub severity: Severity,
    /// Who does not get it.
    pub toward: Side,
}

impl Loss {
    /// Returns the loss as one line of JSON, as logs and reports keep it.
    pub fn to_json(&self) -> String {
        // Strings and names of variants alone: writing them cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
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

/// The place that a JSON pointer into a message names, as people write it: without what every message begins with, keys
/// joined by dots.
pub(crate) fn element_of(pointer: &str) -> String {
    const BEGINNINGS: [&str; 4] = ["/params/update", "/params", "/result", ""];
    let inside = |beginning: &&str| {
        pointer.strip_prefix(*beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let beginning = BEGINNINGS.into_iter().find(inside).unwrap_or_default();
    let rest = pointer.get(beginning.len()..).unwrap_or_default();
    if rest.is_empty() {
        return beginning.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("message").to_owned();
    }
    let mut element = String::with_capacity(rest.len());
    for step in rest.split('/').skip(1) {
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            element.push('[');
            element.push_str(step);
            element.push(']');
        } else {
            if !element.is_empty() {
                element.push('.');
            }
            element.push_str(&step.replace("~1", "/").replace("~0", "~"));
        }
    }
    element
}

/// One thing that a translation without memory had to leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind of message and the part of it, as people write it.
    pub element: String,
    /// Where that stood, as a JSON pointer into the message.
    pub pointer: String,
    /// Why, and what was done instead.
    pub reason: String,
    /// How much it matters.
    pub severity: Severity,
}

#[cfg(test)]
mod tests {
    use super::element_of;

    #[test]
    fn a_pointer_in_words() {
        for (pointer, element) in [
            ("", "message"),
            ("/id", "id"),
            ("/params", "params"),
            ("/params/update", "update"),
            ("/params/updated", "updated"),
            ("/params/update/content/3/icons", "content[3].icons"),
            ("/params/update/_meta/a~1b~0c", "_meta.a/b~c"),
            ("/result/authMethods/1", "authMethods[1]"),
        ] {
            assert_eq!(element_of(pointer), element, "{pointer}");
        }
    }
}
