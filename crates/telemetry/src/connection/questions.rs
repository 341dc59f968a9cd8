//! Spans of agents' questions.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use switchboard_acp::v2;
use switchboard_session::{Decider, Settlement};

use super::Connection;
use crate::spans::{OpenSpan, word};

impl Connection {
    pub(super) fn begin_question(
        &mut self,
        session: &Arc<str>,
        kind: &'static str,
        call: Option<&str>,
    ) -> OpenSpan {
        let mut about = self.about(&self.shown_id(session));
        about.push(KeyValue::new("switchboard.question.kind", kind));
        let parent = self.parent_in(session);
        let call = call.and_then(|call| self.watched(session).calls.get(call));
        let parent = call.map_or(parent, |call| call.context().clone());
        OpenSpan::begin(&self.shared.tracer, format!("ask {kind}"), SpanKind::Internal, &parent, about)
    }

    pub(super) fn settle_questions(&mut self) {
        let sessions: Vec<Arc<str>> = self.sessions.keys().cloned().collect();
        sessions.iter().for_each(|session| self.settle_questions_of(session));
    }

    /// Ends the spans of answered questions in a session.
    pub(super) fn settle_questions_of(&mut self, session: &Arc<str>) {
        let Connection { conversation, sessions, shared, agent, .. } = self;
        let (Some(folded), Some(watched)) = (conversation.session(Some(session)), sessions.get_mut(session))
        else {
            return;
        };
        let end = |kind: &'static str, span: OpenSpan, outcome: &str, by: &Decider| {
            let decider = decider(by);
            span.set("switchboard.outcome", outcome.to_owned());
            span.set("switchboard.question.decider", decider);
            let took = span.end();
            let waited = matches!(decider, "person" | "client").then_some(took);
            shared.instruments.question(agent, kind, outcome, decider, waited);
        };
        let settled = watched.permissions.extract_if(|index, _| {
            folded.permission_at(*index).is_some_and(|asked| !asked.settlement().is_pending())
        });
        for (index, span) in settled.collect::<Vec<_>>() {
            let Some(asked) = folded.permission_at(index) else { continue };
            let chosen = asked.chosen().map(|option| word(option.kind.as_str()));
            let (outcome, by) = outcome(asked.settlement(), |_| chosen.unwrap_or("other"));
            end("permission", span, outcome, by);
        }
        let settled = watched.elicitations.extract_if(|index, _| {
            folded.elicitations().nth(*index).is_some_and(|asked| !asked.settlement().is_pending())
        });
        for (index, span) in settled.collect::<Vec<_>>() {
            let Some(asked) = folded.elicitations().nth(index) else { continue };
            let (outcome, by) = outcome(asked.settlement(), |answer| match &**answer {
                v2::CreateElicitationResponse::Accept(_) => "accept",
                v2::CreateElicitationResponse::Decline(_) => "decline",
                _ => "cancelled",
            });
            end("elicitation", span, outcome, by);
        }
    }
}

/// Returns the outcome of a question as one word, and its decider.
fn outcome<'s, A>(settlement: &'s Settlement<A>, answered: impl Fn(&A) -> &'s str) -> (&'s str, &'s Decider) {
    match settlement {
        Settlement::Answered { answer, by, .. } => (answered(answer), by),
        Settlement::Cancelled { by, .. } => ("cancelled", by),
        Settlement::NotAnApproval { by, .. } => ("not_an_answer", by),
        Settlement::Pending => ("pending", &Decider::ConnectionEnd),
    }
}

/// Returns the kind of decider, without names.
fn decider(by: &Decider) -> &'static str {
    match by {
        Decider::Client => "client",
        Decider::Agent => "agent",
        Decider::Rule(_) => "rule",
        Decider::Remembered => "remembered",
        Decider::ConnectionEnd => "connection_end",
        Decider::Other(name) if &**name == "policy" => "rule",
        Decider::Other(name) if name.starts_with("hub") => "hub",
        _ => "person",
    }
}
