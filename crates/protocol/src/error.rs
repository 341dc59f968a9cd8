//! What can be wrong with a text, first by its place in the text (cheap while reading), then by its JSON
//! pointer (worked out only when there is something to report).

use std::borrow::Cow;
use std::fmt;

use crate::json::pointer;

/// Something wrong, remembered by the byte where the offending value begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(crate) offset: usize,
    pub(crate) problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The text is not JSON.
    Syntax(&'static str),
    /// The value is of another shape than the protocol wants.
    Expected(Cow<'static, str>),
    /// A required key is not there.
    Missing(&'static str),
    /// A key stands twice in one object.
    Duplicate(String),
    /// The shape is right but a rule that a shape cannot express is broken.
    Rule(Cow<'static, str>),
    /// The same, and the value was kept all the same.
    Kept(Cow<'static, str>),
}

pub(crate) type Read<T> = Result<T, Box<Fault>>;

impl Fault {
    pub(crate) fn new(offset: usize, problem: Problem) -> Box<Self> {
        Box::new(Fault { offset, problem })
    }

    /// Says the fault in words, with the JSON pointer of the value it is about.
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

/// One thing wrong with a value: where it is, what was expected there, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// JSON pointer (RFC 6901) of the value that is wrong; empty for the whole text.
    pub pointer: String,
    /// What the protocol wants there.
    pub expected: Cow<'static, str>,
    /// What was there instead, shortened.
    pub found: String,
    /// Whether the value was kept all the same, in tolerant reading: it breaks a rule that its type does not need.
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
    /// The same thing seen from a value around the one that was read, in which that stands under a pointer.
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

    /// The sentence without the pointer.
    pub fn message(&self) -> String {
        format!("expected {}, found {}", self.expected, self.found)
    }
}

/// Why a text is not a value of the wanted type.
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

    /// A text that breaks the rule of its type; a long one is not shown to its end.
    pub(crate) fn rule(expected: &'static str, found: &str) -> Self {
        let found = describe(&format!("{:?}", found.chars().take(100).collect::<String>()), 0);
        let diagnostic =
            Diagnostic { pointer: String::new(), expected: Cow::Borrowed(expected), found, kept: false };
        DecodeError { diagnostic: Box::new(diagnostic), syntax: false }
    }

    /// The same error seen from a text around the one that was read, in which that stands under a pointer.
    #[must_use]
    pub fn under(mut self, pointer: &str) -> Self {
        self.diagnostic.pointer.insert_str(0, pointer);
        self
    }

    /// What is wrong and where.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.diagnostic
    }

    /// Whether the text is not even JSON, in contrast to JSON of another shape.
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

/// The character at a place, for a syntax error.
fn excerpt(text: &str, offset: usize) -> (String, usize) {
    let start = floor_boundary(text, offset);
    match text[start..].chars().next() {
        Some(character) => (format!("{character:?}"), start),
        None => ("the end of the text".to_owned(), start),
    }
}

/// The value that begins at a place, in a few words.
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
