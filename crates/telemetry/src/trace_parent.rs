//! `traceparent` and `tracestate` in the `_meta` of messages.

use std::collections::HashMap;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use switchboard_acp::extensions::MetaKey;
use switchboard_acp::rpc::{Message, Request};
use switchboard_acp::{Wire, WireFormat};

const PARENT: MetaKey<String> = MetaKey::new("traceparent");
const STATE: MetaKey<String> = MetaKey::new("tracestate");

/// Returns the context of these headers; an empty one if they are invalid.
pub(crate) fn context(parent: &str, state: Option<&str>) -> Context {
    let mut words = HashMap::from([(PARENT.name().to_owned(), parent.to_owned())]);
    words.extend(state.map(|state| (STATE.name().to_owned(), state.to_owned())));
    TraceContextPropagator::new().extract_with_context(&Context::new(), &words)
}

/// Returns the `traceparent` of a context.
pub(crate) fn words(context: &Context) -> Option<String> {
    let mut words = HashMap::new();
    TraceContextPropagator::new().inject_context(context, &mut words);
    words.remove(PARENT.name())
}

/// Returns the trace headers of a request.
pub(crate) fn of_request(request: &Request<'_>) -> Option<(String, Option<String>)> {
    let params = request.params.as_ref()?;
    Some((PARENT.of(params)?, STATE.of(params)))
}

/// Returns the request as a line with a `traceparent`. Everything else stays unchanged.
pub(crate) fn mark(request: &Request<'_>, parent: &str) -> Option<String> {
    let params = request.params.as_ref().filter(|params| params.is_object())?;
    let params = Some(PARENT.set(params, parent));
    let Request { id, method, params: _, extra } = request.clone();
    Some(Message::Request(Request { id, method, params, extra }).encode(WireFormat::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT_WORDS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn request(line: &str) -> Request<'_> {
        match Message::decode(line, WireFormat::Any) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mark_changes_nothing_else() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","n":1e3,"_meta":{"a":1.50},"prompt":[]}}"#;
        let marked = mark(&request(line), PARENT_WORDS).unwrap();
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":"s","n":1e3,"prompt":[],"_meta":{{"a":1.50,"traceparent":"{PARENT_WORDS}"}}}}}}"#
        );
        assert_eq!(marked, expected);
        assert_eq!(of_request(&request(&marked)), Some((PARENT_WORDS.to_owned(), None)));
    }

    #[test]
    fn metadata_that_is_none_gives_way() {
        let line = r#"{"jsonrpc":"2.0","id":"x","method":"session/prompt","params":{"_meta":null}}"#;
        let marked = mark(&request(line), PARENT_WORDS).unwrap();
        assert!(marked.contains(r#""_meta":{"traceparent":"00-"#), "{marked}");
        let none = r#"{"jsonrpc":"2.0","id":"x","method":"session/prompt"}"#;
        assert_eq!(mark(&request(none), PARENT_WORDS), None);
    }

    #[test]
    fn words_name_a_context_and_back() {
        assert_eq!(words(&context(PARENT_WORDS, Some("vendor=1"))).as_deref(), Some(PARENT_WORDS));
        for nonsense in ["", "00-0-0-00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"] {
            assert_eq!(words(&context(nonsense, None)), None, "{nonsense:?}");
        }
    }
}
