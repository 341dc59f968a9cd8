//! Losses: information that a translation could not carry over.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::Side;

/// Importance of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No loss: a value that the sender did not state was inferred, such as the start of a message.
    Guess,
    /// A lost detail that hardly any user would miss.
    Minor,
    /// A loss that a user would notice, or content that is shown in another form.
    Major,
}

/// One element that the other version cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Session of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Kind of message: a method, or the tag of an update.
    pub message: String,
    /// The lost part of the message in dotted notation: `content[0].icons`.
    pub element: String,
    /// JSON pointer to that part in the original message; empty for the whole message.
    pub pointer: String,
    /// Reason for the loss, and the replacement if there is one.
    pub reason: String,
    /// Importance of the loss.
    pub severity: Severity,
    /// The side that does not receive the element.
    pub toward: Side,
}

impl Loss {
    /// Returns the loss as one line of JSON, the format of logs and reports.
    pub fn to_json(&self) -> String {
        // The fields are strings and variant names: serializing them cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.message, self.element, self.reason)
    }
}

/// All losses of a bridge: the first ones in full, all of them counted.
#[derive(Debug, Clone, Default)]
pub struct LossReport {
    first: Vec<Loss>,
    counts: BTreeMap<(String, String), u64>,
    losses: u64,
    guesses: u64,
}

/// Maximum number of losses kept in full, and of kinds counted separately.
const KEPT: usize = 1000;

impl LossReport {
    /// Returns the number of losses, without guesses.
    pub fn total(&self) -> u64 {
        self.losses
    }

    /// Returns the number of guesses.
    pub fn guesses(&self) -> u64 {
        self.guesses
    }

    /// Returns the first 1,000 losses and guesses.
    pub fn entries(&self) -> &[Loss] {
        &self.first
    }

    /// Returns the count of each lost element: message, element, count.
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

/// Removes array indices, so that `content[3].icons` and `content[4].icons` count as one kind.
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

/// Formats a JSON pointer in dotted notation, without the prefix that all messages share.
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

/// One element that a stateless translation left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Kind of message and its lost part in dotted notation.
    pub element: String,
    /// JSON pointer to that part in the message.
    pub pointer: String,
    /// Reason for the loss, and the replacement if there is one.
    pub reason: String,
    /// Importance of the loss.
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
