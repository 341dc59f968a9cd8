//! Spans and metrics of conversations, as the collector gets them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_acp::Side;
use switchboard_telemetry::Connection;
use switchboard_testkit::{Answers, Collector, SeenNumber, SeenSpan};

use crate::{PATIENCE, telemetry};

/// Text that must not be exported.
const SECRET: &str = "correct horse battery staple";

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn answer(id: u64, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn update(session: &str, update: Value) -> String {
    let params = json!({"sessionId": session, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

fn prompt(id: u64, session: &str, meta: Value) -> String {
    let text = [json!({"type": "text", "text": SECRET})];
    request(id, "session/prompt", json!({"sessionId": session, "prompt": text, "_meta": meta}))
}

/// A conversation under the control of the test.
struct Talk(Connection);

impl Talk {
    fn begin(mut connection: Connection) -> Self {
        connection.message(Side::Client, 0, &request(0, "initialize", json!({"protocolVersion": 2})));
        let info = json!({"name": "demo", "version": "1"});
        let result = json!({"protocolVersion": 2, "capabilities": {}, "info": info, "authMethods": []});
        connection.message(Side::Agent, 2, &answer(0, result));
        let mut talk = Talk(connection);
        talk.client(&request(1, "session/new", json!({"cwd": "/", "mcpServers": []})));
        talk.agent(&answer(1, json!({"sessionId": "s"})));
        talk
    }

    fn client(&mut self, line: &str) {
        self.0.message(Side::Client, 2, line);
    }

    fn agent(&mut self, line: &str) {
        self.0.message(Side::Agent, 2, line);
    }

    fn state(&mut self, session: &str, state: Value) {
        let mut told = json!({"sessionUpdate": "state_update"});
        told.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        self.agent(&update(session, told));
    }

    fn call(&mut self, session: &str, call: &str, fields: Value) {
        let mut told = json!({"sessionUpdate": "tool_call_update", "toolCallId": call});
        told.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.agent(&update(session, told));
    }

    /// Runs a complete turn.
    fn turn(&mut self, id: u64, meta: Value, during: impl FnOnce(&mut Self)) {
        self.client(&prompt(id, "s", meta));
        self.agent(&answer(id, json!({"messageId": format!("m-{id}")})));
        self.state("s", json!({"state": "running"}));
        during(self);
        self.state("s", json!({"state": "idle", "stopReason": "end_turn"}));
    }

    fn ask(&mut self, id: u64, call: &str) {
        let subject = json!({"type": "tool_call", "toolCall": {"toolCallId": call, "title": SECRET}});
        let options = json!([
            {"optionId": "yes", "name": SECRET, "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": "s", "title": SECRET, "subject": subject, "options": options});
        self.agent(&request(id, "session/request_permission", params));
    }

    fn choose(&mut self, id: u64, option: &str) {
        self.client(&answer(id, json!({"outcome": {"outcome": "selected", "optionId": option}})));
    }
}

/// Returns the telemetry of a conversation.
fn seen(work: impl FnOnce(&mut Talk)) -> (Vec<SeenSpan>, Vec<SeenNumber>, Collector) {
    let collector = Collector::start(Answers::Well).unwrap();
    let telemetry = telemetry(&collector);
    let mut talk = Talk::begin(telemetry.connection());
    work(&mut talk);
    talk.0.end();
    telemetry.end(PATIENCE);
    let spans = collector.spans_when("session", 1);
    let numbers = collector.numbers_when("switchboard.turns");
    for (_, body) in collector.requests() {
        assert!(!body.windows(SECRET.len()).any(|words| words == SECRET.as_bytes()), "words were sent");
    }
    (spans, numbers, collector)
}

fn only<'s>(spans: &'s [SeenSpan], name: &str) -> &'s SeenSpan {
    let found: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

fn number<'n>(numbers: &'n [SeenNumber], name: &str, attributes: &[(&str, &str)]) -> &'n SeenNumber {
    let expected: BTreeMap<String, String> =
        attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let found = numbers.iter().find(|number| {
        number.name == name && expected.iter().all(|(key, value)| number.attributes.get(key) == Some(value))
    });
    found.unwrap_or_else(|| panic!("{name} with {expected:?}: {numbers:#?}"))
}

#[test]
fn a_session_is_a_tree_of_turns_calls_and_questions() {
    let (spans, numbers, collector) = seen(|talk| {
        talk.turn(2, Value::Null, |talk| {
            let content = json!([{"type": "content", "content": {"type": "text", "text": SECRET}}]);
            let input = json!({"command": SECRET});
            talk.call(
                "s",
                "c-1",
                json!({"title": SECRET, "kind": "execute", "name": "Bash", "rawInput": input, "content": content}),
            );
            talk.ask(90, "c-1");
            talk.choose(90, "yes");
            talk.call("s", "c-1", json!({"status": "completed"}));
            talk.call("s", "c-2", json!({"title": SECRET, "kind": "read", "status": "failed"}));
            talk.agent(&update("s", json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
                "content": {"type": "text", "text": SECRET}})));
        });
    });
    let session = only(&spans, "session");
    let turn = only(&spans, "invoke_agent demo");
    let call = only(&spans, "execute_tool Bash");
    let failed = only(&spans, "execute_tool read");
    let question = only(&spans, "ask permission");
    assert_eq!(spans.len(), 5);
    assert_eq!(session.parent, "");
    assert_eq!(turn.parent, session.id);
    assert_eq!((&call.parent, &failed.parent), (&turn.id, &turn.id));
    assert_eq!(question.parent, call.id);
    assert!(spans.iter().all(|span| span.trace == session.trace));
    let about = |span: &SeenSpan, key: &str| span.attributes.get(key).cloned().unwrap_or_default();
    assert_eq!(about(turn, "gen_ai.operation.name"), "invoke_agent");
    assert_eq!(about(turn, "gen_ai.conversation.id"), "s");
    assert_eq!(about(turn, "gen_ai.agent.name"), "demo");
    assert_eq!(about(turn, "switchboard.outcome"), "end_turn");
    assert_eq!(about(call, "gen_ai.operation.name"), "execute_tool");
    assert_eq!(about(call, "gen_ai.tool.name"), "Bash");
    assert_eq!(about(call, "gen_ai.tool.call.id"), "c-1");
    assert_eq!(about(call, "switchboard.tool.kind"), "execute");
    assert_eq!(about(failed, "error.type"), "failed");
    assert!(failed.is_error && !call.is_error && !turn.is_error);
    assert_eq!(about(question, "switchboard.outcome"), "allow_once");
    assert_eq!(about(question, "switchboard.question.decider"), "client");
    assert_eq!(number(&numbers, "switchboard.turns", &[("switchboard.outcome", "end_turn")]).count, 1);
    let calls = [("switchboard.tool.kind", "execute"), ("switchboard.outcome", "completed")];
    assert_eq!(number(&numbers, "switchboard.tool_calls", &calls).count, 1);
    let calls = [("switchboard.tool.kind", "read"), ("switchboard.outcome", "failed")];
    assert_eq!(number(&numbers, "switchboard.tool_calls", &calls).count, 1);
    let asked = [("switchboard.question.kind", "permission"), ("switchboard.outcome", "allow_once")];
    assert_eq!(number(&numbers, "switchboard.questions", &asked).count, 1);
    assert_eq!(number(&numbers, "switchboard.question.wait", &asked).count, 1);
    assert_eq!(collector.resource()["service.name"], "switchboard");
}

#[test]
fn a_prompt_that_says_where_it_belongs_is_part_of_that() {
    let (spans, ..) = seen(|talk| {
        talk.turn(2, json!({"traceparent": PARENT, "tracestate": "vendor=1"}), |_| ());
        talk.turn(3, json!({"traceparent": "nonsense"}), |_| ());
    });
    let session = only(&spans, "session");
    let turns: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == "invoke_agent demo").collect();
    let [told, untold] = turns[..] else { panic!("{turns:?}") };
    assert_eq!((&*told.trace, &*told.parent), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
    assert_eq!(told.links, [&*session.id]);
    assert_eq!((&untold.trace, &untold.parent), (&session.trace, &session.id));
}

#[test]
fn a_marked_prompt_has_the_span_of_its_turn() {
    let (spans, ..) = seen(|talk| {
        let line = prompt(2, "s", json!({"mine": 1}));
        let marked = talk.0.mark_prompt(&line).unwrap();
        let told: Value = serde_json::from_str(&marked).unwrap();
        let meta = &told["params"]["_meta"];
        assert_eq!(meta["mine"], 1);
        assert_eq!(talk.0.mark_prompt(&marked), None, "it says already where it belongs");
        assert_eq!(talk.0.mark_prompt(&request(3, "session/cancel", json!({"sessionId": "s"}))), None);
        talk.client(&marked);
        talk.agent(&answer(2, json!({"messageId": "m"})));
        talk.state("s", json!({"state": "running"}));
        talk.call("s", "c", json!({"title": meta["traceparent"], "name": meta["traceparent"]}));
        talk.call("s", "c", json!({"status": "completed"}));
        talk.state("s", json!({"state": "idle", "stopReason": "end_turn"}));
        // This prompt is never sent.
        talk.0.prepare("s").unwrap();
    });
    let turns: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == "invoke_agent demo").collect();
    let [turn, unsent] = turns[..] else { panic!("{turns:?}") };
    let call = spans.iter().find(|span| span.name.starts_with("execute_tool 00-")).unwrap();
    assert_eq!(call.name, format!("execute_tool 00-{}-{}-01", turn.trace, turn.id));
    assert_eq!(call.parent, turn.id);
    assert_eq!(unsent.attributes["error.type"], "not_sent");
}

#[test]
fn unfinished_spans_end_with_the_connection() {
    let (spans, numbers, _) = seen(|talk| {
        talk.client(&prompt(2, "s", Value::Null));
        talk.agent(&answer(2, json!({"messageId": "m"})));
        talk.state("s", json!({"state": "running"}));
        talk.call("s", "c-1", json!({"title": "x", "kind": "edit", "status": "in_progress"}));
        talk.ask(90, "c-1");
    });
    assert!(only(&spans, "invoke_agent demo").is_error);
    assert_eq!(only(&spans, "ask permission").attributes["switchboard.question.decider"], "connection_end");
    assert_eq!(only(&spans, "execute_tool edit").attributes["switchboard.outcome"], "unfinished");
    assert_eq!(number(&numbers, "switchboard.turns", &[("switchboard.outcome", "cut_off")]).count, 1);
    let asked = [("switchboard.question.decider", "connection_end")];
    assert_eq!(number(&numbers, "switchboard.questions", &asked).count, 1);
    assert!(!numbers.iter().any(|number| number.name == "switchboard.question.wait"), "nobody answered");
}

#[test]
fn a_refused_prompt_is_an_error_with_its_code_alone() {
    let (spans, numbers, _) = seen(|talk| {
        talk.client(&prompt(2, "s", Value::Null));
        let error = json!({"code": -32000, "message": SECRET, "data": {"why": SECRET}});
        talk.agent(&json!({"jsonrpc": "2.0", "id": 2, "error": error}).to_string());
    });
    let turn = only(&spans, "invoke_agent demo");
    assert_eq!((turn.is_error, &*turn.attributes["error.type"]), (true, "-32000"));
    assert_eq!(number(&numbers, "switchboard.turns", &[("switchboard.outcome", "refused")]).count, 1);
}

#[test]
fn authors_of_answers_have_no_names_and_rules_count_as_no_waiting() {
    let (spans, numbers, _) = seen(|talk| {
        talk.turn(2, Value::Null, |talk| {
            talk.ask(90, "c-1");
            talk.0.note(&json!({"hub": "answered", "request": 90, "by": {"policy": SECRET}}).to_string());
            talk.choose(90, "yes");
            talk.ask(91, "c-2");
            talk.0.note(&json!({"hub": "answered", "request": 91, "by": {"token": SECRET}}).to_string());
            talk.choose(91, "no");
        });
    });
    let deciders: Vec<&str> = spans
        .iter()
        .filter(|span| span.name == "ask permission")
        .map(|span| &*span.attributes["switchboard.question.decider"])
        .collect();
    assert_eq!(deciders, ["rule", "person"]);
    let waited: Vec<&SeenNumber> =
        numbers.iter().filter(|number| number.name == "switchboard.question.wait").collect();
    assert_eq!(waited.len(), 1);
    assert_eq!(waited[0].attributes["switchboard.question.decider"], "person");
}

#[test]
fn tokens_are_counted_where_the_agent_tells_them() {
    let (spans, numbers, _) = seen(|talk| {
        talk.client(&prompt(2, "s", Value::Null));
        talk.agent(&answer(2, json!({"messageId": "m"})));
        talk.state("s", json!({"state": "running"}));
        talk.agent(&update("s", json!({"sessionUpdate": "usage_update", "used": 1200, "size": 200_000})));
        let usage = json!({"totalTokens": 30, "inputTokens": 20, "outputTokens": 10});
        talk.state("s", json!({"state": "idle", "stopReason": "end_turn", "usage": usage}));
    });
    let turn = only(&spans, "invoke_agent demo");
    assert_eq!(turn.attributes["gen_ai.usage.input_tokens"], "20");
    assert_eq!(turn.attributes["gen_ai.usage.output_tokens"], "10");
    assert_eq!(turn.attributes["switchboard.context.tokens"], "1200");
    let output = number(&numbers, "gen_ai.client.token.usage", &[("gen_ai.token.type", "output")]);
    assert_eq!((output.count, output.sum), (1, 10.0));
}

#[test]
fn a_sub_agent_works_below_the_call_that_started_it() {
    let (spans, ..) = seen(|talk| {
        talk.turn(2, Value::Null, |talk| {
            let content = json!([{"type": "session", "sessionId": "child"}]);
            talk.call("s", "c-1", json!({"title": "Delegate", "name": "Task", "content": content}));
            talk.call("child", "c-9", json!({"title": "Look", "kind": "search", "status": "completed"}));
            talk.call("s", "c-1", json!({"status": "completed"}));
        });
    });
    let sessions: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == "session").collect();
    let child = sessions.iter().find(|span| span.attributes["gen_ai.conversation.id"] == "child").unwrap();
    assert_eq!(sessions.len(), 2);
    assert_eq!(child.parent, only(&spans, "execute_tool Task").id);
    assert_eq!(only(&spans, "execute_tool search").parent, child.id);
}

#[test]
fn version_1_amounts_to_the_same_tree() {
    let collector = Collector::start(Answers::Well).unwrap();
    let telemetry = telemetry(&collector);
    let mut connection = telemetry.connection().with_agent("old one");
    let mut say = |from: Side, version: u16, line: &str| connection.message(from, version, line);
    say(Side::Client, 0, &request(0, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})));
    say(Side::Agent, 1, &answer(0, json!({"protocolVersion": 1, "agentCapabilities": {}})));
    say(Side::Client, 1, &request(1, "session/new", json!({"cwd": "/", "mcpServers": []})));
    say(Side::Agent, 1, &answer(1, json!({"sessionId": "s"})));
    say(Side::Client, 1, &prompt(2, "s", json!({"traceparent": PARENT})));
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "kind": "execute"});
    say(Side::Agent, 1, &update("s", call));
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let asked = json!({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options});
    say(Side::Agent, 1, &request(7, "session/request_permission", asked));
    say(Side::Client, 1, &answer(7, json!({"outcome": {"outcome": "selected", "optionId": "yes"}})));
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    say(Side::Agent, 1, &update("s", done));
    say(Side::Agent, 1, &answer(2, json!({"stopReason": "end_turn"})));
    connection.end();
    telemetry.end(PATIENCE);
    let spans = collector.spans_when("session", 1);
    let turn = only(&spans, "invoke_agent old one");
    assert_eq!(turn.parent, "b7ad6b7169203331");
    assert_eq!(turn.attributes["switchboard.outcome"], "end_turn");
    let call = only(&spans, "execute_tool execute");
    assert_eq!(call.parent, turn.id);
    assert_eq!(only(&spans, "ask permission").parent, call.id);
    assert_eq!(spans.len(), 4);
}

#[test]
fn a_session_of_a_hub_is_known_by_the_hubs_id() {
    let collector = Collector::start(Answers::Well).unwrap();
    let telemetry = telemetry(&collector);
    let mut talk = Talk::begin(telemetry.session("hub-1"));
    let marked = talk.0.mark_prompt(&prompt(2, "hub-1", Value::Null)).unwrap();
    // The agent has another id for the session.
    talk.client(&marked.replace("hub-1", "s"));
    talk.agent(&answer(2, json!({"messageId": "m"})));
    talk.state("s", json!({"state": "running"}));
    talk.call("s", "c", json!({"title": "x", "kind": "read", "status": "completed"}));
    talk.state("s", json!({"state": "idle", "stopReason": "end_turn"}));
    talk.0.end();
    telemetry.end(PATIENCE);
    let spans = collector.spans_when("session", 1);
    assert_eq!(spans.len(), 3, "{spans:#?}");
    assert!(spans.iter().all(|span| span.attributes["gen_ai.conversation.id"] == "hub-1"));
    assert_eq!(only(&spans, "execute_tool read").parent, only(&spans, "invoke_agent demo").id);
    assert_eq!(only(&spans, "invoke_agent demo").parent, only(&spans, "session").id);
}

#[test]
fn nothing_that_an_agent_says_breaks_it() {
    let (spans, ..) = seen(|talk| {
        for line in ["", "{", "[]", "[1]", "null", r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt"}"#] {
            talk.client(line);
            talk.agent(line);
            talk.0.note(line);
            assert_eq!(talk.0.mark_prompt(line), None);
        }
        for number in 0..2000 {
            talk.0.prepare("s").unwrap();
            talk.call("s", &format!("c-{number}"), json!({"title": "x", "kind": SECRET}));
        }
        talk.turn(3, Value::Null, |_| ());
    });
    assert!(spans.len() > 1, "the queue is limited, and what is in it arrives");
}
