//! Metrics instruments.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

/// Upper bounds of the duration histogram in seconds: from a quick call to a question answered after hours.
const SECONDS: [f64; 12] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0];

/// Upper bounds of the token histogram.
const TOKENS: [f64; 9] =
    [100.0, 1_000.0, 5_000.0, 10_000.0, 50_000.0, 100_000.0, 250_000.0, 1_000_000.0, 10_000_000.0];

pub(crate) struct Instruments {
    turns: Counter<u64>,
    turn_time: Histogram<f64>,
    tool_calls: Counter<u64>,
    tool_call_time: Histogram<f64>,
    questions: Counter<u64>,
    waited: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        let times = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        Instruments {
            turns: counter("switchboard.turns", "{turn}", "Finished turns."),
            turn_time: times("switchboard.turn.duration", "Duration of turns."),
            tool_calls: counter("switchboard.tool_calls", "{call}", "Finished tool calls."),
            tool_call_time: times("switchboard.tool_call.duration", "Duration of tool calls."),
            questions: counter("switchboard.questions", "{question}", "Settled questions."),
            waited: times("switchboard.question.wait", "Time spent waiting for a person."),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens used by turns, if the agent reported them.")
                .with_boundaries(TOKENS.to_vec())
                .build(),
        }
    }

    pub(crate) fn turn(&self, agent: &str, outcome: &str, took: Duration) {
        let about = [agent_name(agent), KeyValue::new("switchboard.outcome", outcome.to_owned())];
        self.turns.add(1, &about);
        self.turn_time.record(took.as_secs_f64(), &about);
    }

    pub(crate) fn tool_call(&self, agent: &str, kind: &str, outcome: &str, took: Duration) {
        let about = [
            agent_name(agent),
            KeyValue::new("switchboard.tool.kind", kind.to_owned()),
            KeyValue::new("switchboard.outcome", outcome.to_owned()),
        ];
        self.tool_calls.add(1, &about);
        self.tool_call_time.record(took.as_secs_f64(), &about);
    }

    /// Records a settled question; `waited` if a person may have been asked.
    pub(crate) fn question(
        &self,
        agent: &str,
        kind: &'static str,
        outcome: &str,
        decider: &'static str,
        waited: Option<Duration>,
    ) {
        let about = [
            agent_name(agent),
            KeyValue::new("switchboard.question.kind", kind),
            KeyValue::new("switchboard.outcome", outcome.to_owned()),
            KeyValue::new("switchboard.question.decider", decider),
        ];
        self.questions.add(1, &about);
        if let Some(waited) = waited {
            self.waited.record(waited.as_secs_f64(), &about);
        }
    }

    pub(crate) fn tokens(&self, agent: &str, input: u64, output: u64) {
        for (kind, tokens) in [("input", input), ("output", output)] {
            let about = [
                agent_name(agent),
                KeyValue::new("gen_ai.operation.name", "invoke_agent"),
                KeyValue::new("gen_ai.token.type", kind),
            ];
            self.tokens.record(tokens, &about);
        }
    }
}

fn agent_name(agent: &str) -> KeyValue {
    KeyValue::new("gen_ai.agent.name", agent.to_owned())
}
