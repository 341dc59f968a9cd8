//! A program with the feature `otlp`.

use serde_json::{Value, json};
use switchboard_testkit::{Answers, Collector, SeenSpan};

use super::{PARENT, agent, heard, prompt};
use crate::agent_program::Place;
use crate::bridge::Client;
use crate::serve::hub::Hub;

fn only<'s>(spans: &'s [SeenSpan], name: &str) -> &'s SeenSpan {
    let found: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

/// Returns the trace parent of a span.
fn parent_of(span: &SeenSpan) -> Value {
    format!("00-{}-{}-01", span.trace, span.id).into()
}

#[test]
fn run_sends_the_tree_of_its_turn() {
    let place = Place::new();
    let collector = Collector::start(Answers::Well).unwrap();
    let mut command =
        place.command(&["run", "demo", "permission", "--approve-all", "--otlp", &collector.url()]);
    command.env("TRACEPARENT", PARENT).env("OTEL_RESOURCE_ATTRIBUTES", "team=tests");
    let run = place.run_command(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let spans = collector.spans_when("session", 1);
    let (session, turn) = (only(&spans, "session"), only(&spans, "invoke_agent switchboard-demo"));
    assert_eq!((&*session.trace, &*session.parent), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
    assert_eq!(turn.parent, session.id);
    let question = only(&spans, "ask permission");
    assert_eq!(question.attributes["switchboard.question.decider"], "rule");
    let call = spans.iter().find(|span| span.id == question.parent).unwrap();
    assert!(call.name.starts_with("execute_tool "), "{spans:#?}");
    assert_eq!(call.parent, turn.id);
    let numbers = collector.numbers_when("switchboard.turns");
    assert!(numbers.iter().any(|number| number.name == "switchboard.tool_calls"), "{numbers:?}");
    assert_eq!(collector.resource()["team"], "tests");
    assert!(place.run(&["sessions", "list", "--json"]).stdout.is_empty(), "nothing was recorded");
}

#[test]
fn telemetry_follows_the_environment_and_can_be_disabled() {
    let place = Place::new();
    let collector = Collector::start(Answers::Well).unwrap();
    let traces = format!("{}/v1/traces", collector.url());
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*traces),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=value"),
        ("OTEL_SERVICE_NAME", "my agents"),
    ];
    let mut command = place.command(&["run", "demo", "hello"]);
    command.envs(variables).env("OTEL_SDK_DISABLED", "true");
    assert_eq!(place.run_command(command).code, 0);
    assert!(collector.requests().is_empty());
    let mut command = place.command(&["run", "demo", "hello"]);
    command.envs(variables);
    let run = place.run_command(command);
    assert_eq!((run.code, run.stderr.contains("telemetry")), (0, false), "{}", run.stderr);
    collector.spans_when("session", 1);
    assert_eq!(collector.resource()["service.name"], "my agents");
    let requests = collector.requests();
    assert!(requests.iter().all(|(head, _)| head.contains("x-key: value")), "{requests:?}");
    assert!(requests.iter().all(|(head, _)| !head.contains("/v1/metrics")), "{requests:?}");
}

#[test]
fn a_collector_that_is_away_or_refuses_does_not_disturb() {
    let place = Place::new();
    let gone = Collector::start(Answers::Well).unwrap().url();
    let refusing = Collector::start(Answers::With(503)).unwrap();
    let silent = Collector::start(Answers::Never).unwrap();
    for address in [&gone, &refusing.url(), &silent.url()] {
        let run = place.run(&["run", "demo", "hello", "--format", "quiet", "--otlp", address]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.starts_with("Hello!"), "{}", run.stdout);
        assert_eq!(run.stderr.matches("telemetry").count(), 1, "{}", run.stderr);
    }
    let run = place.run(&["run", "demo", "hello", "--otlp", "localhost:4318"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("such as http://127.0.0.1:4318"), "{}", run.stderr);
}

#[test]
fn the_bridge_sends_what_either_version_does_and_tells_the_agent() {
    for (client_version, agent_version, is_told) in [(1, 1, true), (1, 2, false), (2, 1, false), (2, 2, true)]
    {
        let place = Place::new();
        let collector = Collector::start(Answers::Well).unwrap();
        let mut client = Client::with_agent(&["--otlp", &collector.url()], &agent(&place, agent_version));
        client.ask(
            1,
            "initialize",
            json!({"protocolVersion": client_version, "clientCapabilities": {},
            "capabilities": {}, "info": {"name": "test", "version": "1"}}),
        );
        let opened = client.ask(2, "session/new", json!({"cwd": place.work(), "mcpServers": []}));
        let session = opened["result"]["sessionId"].as_str().unwrap();
        let mut params = prompt(session);
        if !is_told {
            params["_meta"] = json!({"mine": true});
        }
        client.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params}));
        loop {
            let message = client.hear();
            let is_over = message["result"]["stopReason"] == "end_turn"
                || message["params"]["update"]["stopReason"] == "end_turn";
            if is_over {
                break;
            }
        }
        let (code, stderr) = client.end();
        let case = format!("client {client_version}, agent {agent_version}: {stderr}");
        assert_eq!(code, 0, "{case}");
        let spans = collector.spans_when("session", 1);
        let turn = only(&spans, "invoke_agent switchboard-demo");
        assert_eq!(turn.attributes["switchboard.outcome"], "end_turn", "{case}");
        let meta = heard(&place);
        if is_told {
            assert_eq!(turn.parent, "b7ad6b7169203331", "{case}");
            assert_eq!(meta["traceparent"], PARENT, "{case}");
        } else {
            assert_eq!(turn.parent, only(&spans, "session").id, "{case}");
            assert_eq!((&meta["traceparent"], &meta["mine"]), (&parent_of(turn), &json!(true)), "{case}");
        }
    }
}

#[test]
fn a_hub_sends_what_its_sessions_do() {
    let place = Place::new();
    let collector = Collector::start(Answers::Well).unwrap();
    let script = agent(&place, 1);
    let hub = Hub::start(&place, &["--otlp", &collector.url(), "--", "sh", "-c", &script]);
    let session = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        // A session that does not exist has no span.
        let refused = client.prompt("nobody", "hello").await;
        assert!(client.answer(refused).await.get("error").is_some());
        client.prompt(&session, "permission").await;
        let question = client.question().await;
        client.allow(&question).await;
        client.until_idle().await;
        session
    });
    assert_eq!(hub.end(), Some(0));
    let spans = collector.spans_when("session", 1);
    let turn = only(&spans, "invoke_agent switchboard-demo");
    assert_eq!(turn.parent, only(&spans, "session").id);
    assert_eq!(turn.attributes["gen_ai.conversation.id"], session);
    assert_eq!(turn.attributes["switchboard.outcome"], "end_turn");
    let question = only(&spans, "ask permission");
    assert_eq!(question.attributes["switchboard.question.decider"], "person");
    assert_eq!(question.attributes["switchboard.outcome"], "allow_once");
    assert_eq!(heard(&place)["traceparent"], parent_of(turn));
    let numbers = collector.numbers_when("switchboard.question.wait");
    assert!(numbers.iter().any(|number| number.name == "switchboard.turn.duration"), "{numbers:?}");
}
