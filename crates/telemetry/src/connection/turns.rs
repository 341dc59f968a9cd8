//! Spans of prompts and the work on them.

use opentelemetry::trace::SpanKind;
use opentelemetry::{Context, KeyValue};
use switchboard_acp::v2;
use switchboard_session::{Session, TurnOutcome};

use super::Connection;
use crate::spans::{OpenSpan, word};
use crate::trace_parent;

impl Connection {
    /// Returns the turn of a prompt: the one that was prepared for it, or a new one.
    pub(super) fn begin_turn_of(
        &mut self,
        session: &str,
        parent: Option<(String, Option<String>)>,
    ) -> OpenSpan {
        let Some((words, state)) = parent else { return self.begin_turn(session, None) };
        if let Some(place) = self.prepared.iter().position(|(known, _)| *known == words) {
            return self.prepared.remove(place).1;
        }
        let context = trace_parent::context(&words, state.as_deref());
        self.begin_turn(session, trace_parent::words(&context).is_some().then_some(&context))
    }

    pub(super) fn begin_turn(&mut self, session: &str, parent: Option<&Context>) -> OpenSpan {
        let own = match self.whole_context() {
            Some(whole) if self.conversation.parent(session).is_none() => whole,
            whole => self.watched(session).context().or(whole).unwrap_or_default(),
        };
        let mut about = self.about(&self.shown_id(session));
        about.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
        let name = format!("invoke_agent {}", self.agent);
        let belongs_to = parent.unwrap_or(&own);
        let span = OpenSpan::begin(&self.shared.tracer, name, SpanKind::Client, belongs_to, about);
        if parent.is_some() {
            span.link(&own);
        }
        span
    }

    /// Ends the spans of finished turns.
    pub(super) fn settle_turns(&mut self) {
        let Connection { conversation, sessions, shared, agent, .. } = self;
        for (id, watched) in sessions {
            let mut open = Vec::new();
            for (request, span) in watched.turns.drain(..) {
                let end = conversation.turn(Some(id), &request).and_then(|turn| turn.end());
                let Some(end) = end else {
                    open.push((request, span));
                    continue;
                };
                let outcome = match &end.outcome {
                    TurnOutcome::Idle(idle) => {
                        let reason = idle.stop_reason.as_ref().map_or("idle", |reason| word(reason.as_str()));
                        span.set("gen_ai.response.finish_reasons", reason.to_owned());
                        if let Some(error) = &idle.error {
                            span.fail(error.code.to_string());
                        }
                        reason.to_owned()
                    }
                    TurnOutcome::Refused(error) => {
                        span.fail(error.code.to_string());
                        "refused".to_owned()
                    }
                    _ => {
                        span.fail("connection_end");
                        "cut_off".to_owned()
                    }
                };
                span.set("switchboard.outcome", outcome.clone());
                if let Some(folded) = conversation.session(Some(id)) {
                    record_usage(folded, &span, |input, output| {
                        shared.instruments.tokens(agent, input, output);
                    });
                }
                shared.instruments.turn(agent, &outcome, span.end());
            }
            watched.turns = open;
            if watched.turns.is_empty() {
                watched.end_calls(conversation.session(Some(id)), shared, agent);
            }
        }
    }
}

/// Records token usage and context size if the agent sent them.
fn record_usage(folded: &Session, span: &OpenSpan, count: impl FnOnce(u64, u64)) {
    let number = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    if let Some(v2::StateUpdate::Idle(idle)) = folded.state()
        && let Some(usage) = &idle.usage
    {
        span.set("gen_ai.usage.input_tokens", number(usage.input_tokens));
        span.set("gen_ai.usage.output_tokens", number(usage.output_tokens));
        count(usage.input_tokens, usage.output_tokens);
    }
    if let Some(usage) = folded.usage() {
        span.set("switchboard.context.tokens", number(usage.used));
        span.set("switchboard.context.size", number(usage.size));
    }
}
