//! Open spans.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::SdkTracer;

/// Maximum length of an exported word of an agent.
const LONGEST_WORD: usize = 64;

/// A started span. It ends when it is dropped.
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

    /// Returns the context for child spans.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    pub(crate) fn link(&self, other: &Context) {
        self.context.span().add_link(other.span().span_context().clone(), Vec::new());
    }

    /// Marks it as failed with one word, because error texts of agents may contain anything.
    pub(crate) fn fail(&self, how: impl Into<Cow<'static, str>>) {
        self.set("error.type", how.into());
        self.context.span().set_status(Status::error(""));
    }

    /// Ends it. Returns its duration.
    pub(crate) fn end(self) -> Duration {
        self.context.span().end();
        self.begun.elapsed()
    }
}

/// Returns the name of a tool or an agent if it looks like one: short, and for programs. Other text is not
/// exported.
pub(crate) fn name(text: &str) -> Option<&str> {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./: @+".contains(letter);
    let text = text.trim();
    (!text.is_empty() && text.chars().count() <= LONGEST_WORD && text.chars().all(is_plain)).then_some(text)
}

/// Returns one word of an extensible list; other text is replaced.
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
