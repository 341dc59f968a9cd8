//! Spans that are open.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::SdkTracer;

/// The longest word of an agent that is sent.
const LONGEST_WORD: usize = 64;

/// A span that has begun. It ends by itself when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    context: Context,
    begun: Instant,
}

impl OpenSpan {
    pub(crate) fn begin(
        tracer: &SdkTracer,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        parent: &Context,
        attributes: Vec<KeyValue>,
    ) -> Self {
        let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let span = tracer.build_with_context(builder, parent);
        OpenSpan { context: Context::new().with_span(span), begun: Instant::now() }
    }

    /// What spans below this one belong to.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    pub(crate) fn link(&self, other: &Context) {
        self.context.span().add_link(other.span().span_context().clone(), Vec::new());
    }

    /// Says that it failed, and how in one word: what agents write of it may be anything.
    pub(crate) fn fail(&self, how: impl Into<Cow<'static, str>>) {
        self.set("error.type", how.into());
        self.context.span().set_status(Status::error(""));
    }

    /// Ends it. Gives how long it took.
    pub(crate) fn end(self) -> Duration {
        self.context.span().end();
        self.begun.elapsed()
    }
}

/// A name that an agent gave to one of its tools, or to itself, if it is one: names are for programs and short. What else may
/// stand there is not sent.
pub(crate) fn name(text: &str) -> Option<&str> {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./: @+".contains(letter);
    let text = text.trim();
    (!text.is_empty() && text.chars().count() <= LONGEST_WORD && text.chars().all(is_plain)).then_some(text)
}

/// One word of a list that agents may extend; what is not a word counts as something else.
pub(crate) fn word(text: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !text.is_empty() && text.len() <= LONGEST_WORD && text.bytes().all(is_plain) { text } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_words_are_sent() {
        assert_eq!(name("mcp__files__read"), Some("mcp__files__read"));
        assert_eq!(name(" Claude Code "), Some("Claude Code"));
        for text in ["", "rm -rf $HOME; echo", "a\nb", &"x".repeat(65)] {
            assert_eq!(name(text), None, "{text:?}");
        }
        assert_eq!(word("end_turn"), "end_turn");
        assert_eq!(word("all of it"), "other");
        assert_eq!(word(""), "other");
    }
}
