//! Errors in a text, located first by byte offset, which is cheap while reading, and by JSON pointer when
//! reported.

use std::borrow::Cow;
use std::fmt;

use crate::json::pointer;

/// An error at the byte offset of the invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(crate) offset: usize,
    pub(crate) problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text is not JSON.
    Syntax(&'static str),
    /// The value has another type than the protocol requires.
    Expected(Cow<'static, str>),
    /// A required key is missing.
    Missing(&'static str),
    /// A key occurs twice in one object.
    Duplicate(String),
    /// The type is right but a rule is violated that the type cannot express.
    Rule(Cow<'static, str>),
    /// The same, but the value was kept.
    Kept(Cow<'static, str>),
}

pub(crate) type Read<T> = Result<T, Box<Fault>>;

impl Fault {
    pub(crate) fn new(offset: usize, problem: Problem) -> Box<Self> {
        Box::new(Fault { offset, problem })
    }

    /// Describes the error, with the JSON pointer to its value.
    pub(crate) fn locate(&self, text: &str) -> Diagnostic {
        let (expected, found) = match &self.problem {
            Problem::Syntax(what) => {
                let (line_text, column) = excerpt(text, self.offset);
                let found = if self.offset >= text.len() {
                    "the end of the text".to_owned()
                } else {
                    format!("{line_text} at byte {column}")
                };
                (Cow::Borrowed(*what), found)
            }
            Problem::Expected(expected) => (expected.clone(), describe(text, self.offset)),
            Problem::Missing(key) => (format!("the key \"{key}\"").into(), "an object without it".to_owned()),
            Problem::Duplicate(key) => (format!("the key \"{key}\" once").into(), "it twice".to_owned()),
            Problem::Rule(rule) | Problem::Kept(rule) => (rule.clone(), describe(text, self.offset)),
        };
        let kept = matches!(self.problem, Problem::Kept(_));
        Diagnostic { pointer: pointer::pointer_to(text, self.offset), expected, found, kept }
    }
}

/// One error in a value: location, expectation and actual value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// JSON pointer (RFC 6901) to the invalid value. Empty for the whole text.
    pub pointer: String,
    /// Expectation of the protocol.
    pub expected: Cow<'static, str>,
    /// Actual value, shortened.
    pub found: String,
    /// True if tolerant reading kept the value, because its type does not depend on the rule.
    pub kept: bool,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(formatter, "at {}: ", self.pointer)?;
        }
        write!(formatter, "{}", self.message())
    }
}

impl Diagnostic {
    /// Returns the diagnostic relative to an enclosing value, which contains the value under a pointer.
    ///
    /// ```
    /// use switchboard_acp::{Wire, WireFormat, v2};
    ///
    /// let error = v2::ToolCallUpdate::decode(r#"{"toolCallId":7}"#, WireFormat::Any).unwrap_err();
    /// assert_eq!(error.under("/params/update").diagnostic().pointer, "/params/update/toolCallId");
    /// ```
    #[must_use]
    pub fn under(mut self, pointer: &str) -> Self {
        self.pointer.insert_str(0, pointer);
        self
    }

    /// Returns the message without the pointer.
    pub fn message(&self) -> String {
        format!("expected {}, found {}", self.expected, self.found)
    }
}

/// Error of decoding a text as a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    diagnostic: Box<Diagnostic>,
    syntax: bool,
}

impl DecodeError {
    pub(crate) fn new(fault: &Fault, text: &str) -> Self {
        DecodeError {
            diagnostic: Box::new(fault.locate(text)),
            syntax: matches!(fault.problem, Problem::Syntax(_)),
        }
    }

    pub(crate) fn whole_text(expected: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Self {
        let diagnostic = Diagnostic {
            pointer: String::new(),
            expected: expected.into(),
            found: found.into(),
            kept: false,
        };
        DecodeError { diagnostic: Box::new(diagnostic), syntax: true }
    }

    /// Creates an error for a text that violates the rule of its type. A long text is shortened.
    pub(crate) fn rule(expected: &'static str, found: &str) -> Self {
        let found = describe(&format!("{:?}", found.chars().take(100).collect::<String>()), 0);
        let diagnostic =
            Diagnostic { pointer: String::new(), expected: Cow::Borrowed(expected), found, kept: false };
        DecodeError { diagnostic: Box::new(diagnostic), syntax: false }
    }

    /// Returns the error relative to an enclosing text, which contains the text under a pointer.
    #[must_use]
    pub fn under(mut self, pointer: &str) -> Self {
        self.diagnostic.pointer.insert_str(0, pointer);
        self
    }

    /// Returns the diagnostic.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.diagnostic
    }

    /// Returns true if the text is not JSON, as opposed to JSON of another type.
    pub fn is_syntax(&self) -> bool {
        self.syntax
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(formatter)
    }
}

impl std::error::Error for DecodeError {}

const EXCERPT: usize = 40;

/// Returns the character at an offset, for a syntax error.
fn excerpt(text: &str, offset: usize) -> (String, usize) {
    let start = floor_boundary(text, offset);
    match text[start..].chars().next() {
        Some(character) => (format!("{character:?}"), start),
        None => ("the end of the text".to_owned(), start),
    }
}

/// Describes the value that starts at an offset in a few words.
fn describe(text: &str, offset: usize) -> String {
    let start = floor_boundary(text, offset);
    let rest = &text[start..];
    let shortened = |kind: &str| {
        let length = rest.find([',', '}', ']', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
        let shown = &rest[..floor_boundary(rest, length.min(EXCERPT))];
        let dots = if length > EXCERPT { "..." } else { "" };
        format!("{kind} {shown}{dots}")
    };
    match rest.bytes().next() {
        None => "the end of the text".to_owned(),
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b'n') if rest.starts_with("null") => "null".to_owned(),
        Some(b't' | b'f') if rest.starts_with("true") || rest.starts_with("false") => {
            shortened("the boolean")
        }
        Some(b'-' | b'0'..=b'9') => shortened("the number"),
        Some(b'"') => {
            let inner = &rest[1..];
            let length = inner.find('"').unwrap_or(inner.len());
            let shown = &inner[..floor_boundary(inner, length.min(EXCERPT))];
            let dots = if length > EXCERPT { "..." } else { "" };
            format!("the string \"{shown}{dots}\"")
        }
        Some(_) => shortened("the text"),
    }
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
