//! Errors in a policy file.

use std::fmt;

/// An error in a policy file, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    line: Option<usize>,
    message: String,
}

impl PolicyError {
    /// Creates an error about the file as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        PolicyError { line: None, message: message.into() }
    }

    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        PolicyError { line: Some(line), message: message.into() }
    }

    /// Returns the 1-based line of the error; `None` if it concerns the whole file.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the message.
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
