//! What is wrong with a file of rules.

use std::fmt;

/// Why a file of rules is not used, with the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    line: Option<usize>,
    message: String,
}

impl PolicyError {
    /// Something that is wrong with the file as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        PolicyError { line: None, message: message.into() }
    }

    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        PolicyError { line: Some(line), message: message.into() }
    }

    /// The line that is wrong, counted from 1; none where it is the file as a whole.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "line {line}: {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

impl std::error::Error for PolicyError {}
