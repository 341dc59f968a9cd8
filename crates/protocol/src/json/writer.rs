//! The writer: JSON text without white space, in one revision.

use super::raw::{Extra, Raw};
use super::string::write_string;
use crate::WireFormat;

/// Writes JSON values into a text.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut String,
    revision: WireFormat,
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut String, revision: WireFormat) -> Self {
        Writer { out, revision }
    }

    pub(crate) fn revision(&self) -> WireFormat {
        self.revision
    }

    #[inline]
    pub(crate) fn begin_object(&mut self) {
        self.out.push('{');
    }

    #[inline]
    pub(crate) fn end_object(&mut self) {
        self.out.push('}');
    }

    #[inline]
    pub(crate) fn begin_array(&mut self) {
        self.out.push('[');
    }

    #[inline]
    pub(crate) fn end_array(&mut self) {
        self.out.push(']');
    }

    /// Writes a comma if there is a previous item.
    #[inline]
    pub(crate) fn separate(&mut self) {
        if !matches!(self.out.as_bytes().last(), Some(b'{' | b'[')) {
            self.out.push(',');
        }
    }

    /// Writes a key that needs no escapes.
    #[inline]
    pub(crate) fn key(&mut self, key: &str) {
        self.separate();
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    /// Writes text that starts with a comma, without the comma if it is the first.
    #[inline]
    pub(crate) fn prepared(&mut self, text: &'static str) {
        let opened = matches!(self.out.as_bytes().last(), Some(b'{' | b'['));
        self.out.push_str(if opened { &text[1..] } else { text });
    }

    #[inline]
    pub(crate) fn string(&mut self, text: &str) {
        write_string(self.out, text);
    }

    #[inline]
    pub(crate) fn raw(&mut self, raw: &Raw<'_>) {
        let text = raw.as_str();
        // A message is one line. In JSON, newlines are only white space between tokens.
        if text.contains('\n') || text.contains('\r') {
            self.out.push_str(&text.replace(['\n', '\r'], " "));
        } else {
            self.out.push_str(text);
        }
    }

    pub(crate) fn literal(&mut self, literal: &str) {
        self.out.push_str(literal);
    }

    pub(crate) fn display(&mut self, value: impl std::fmt::Display) {
        use std::fmt::Write;
        // Writing to a String cannot fail.
        let _ = write!(self.out, "{value}");
    }

    #[inline]
    pub(crate) fn extra(&mut self, extra: &Extra<'_>) {
        for (key, value) in extra.iter() {
            self.entry(key, value);
        }
    }

    pub(crate) fn entry(&mut self, key: &str, value: &Raw<'_>) {
        self.separate();
        self.string(key);
        self.out.push(':');
        self.raw(value);
    }
}
