//! Validation of answers to forms before the agent gets them.

use super::*;

fn form(id: i64) -> Value {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer", "minimum": 1}}, "required": ["age"]});
    let params = json!({"sessionId": "a1", "mode": "form", "message": "How old?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

fn asked() -> (World, ConnectionId) {
    let mut world = world(1 << 20);
    world.next_connection += 1;
    let client = world.next_connection;
    world.clients.insert(client, Client::default());
    world.core.connected(client, identity("anna", Role::Admin), 0, false, false);
    let can = json!({"elicitation": {"form": {}}});
    let info = json!({"name": "c", "version": "1"});
    world.request(client, "initialize", json!({"protocolVersion": 2, "info": info, "capabilities": can}));
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    world.say(form(7));
    (world, client)
}

impl World {
    /// Returns the responses that the agent has got for a question.
    pub(super) fn agent_got(&self, id: i64) -> Vec<Value> {
        let lines = self.log["h1"].iter().filter(|(channel, _)| *channel == Channel::ToAgent);
        let lines = lines.map(|(_, text)| serde_json::from_str::<Value>(text).unwrap());
        lines.filter(|line| line["id"] == id && line.get("method").is_none()).collect()
    }
}

#[test]
fn an_invalid_answer_is_asked_again_and_not_sent_to_the_agent() {
    let (mut world, client) = asked();
    for wrong in [json!({"age": 0}), json!({"age": "old"})] {
        world.answer_last(client, json!({"action": "accept", "content": wrong}));
        assert_eq!(world.agent_got(7).len(), 0);
        assert_eq!(world.clients[&client].questions.values().collect::<Vec<_>>(), ["How old?"]);
    }
    let notes = world.log["h1"].iter().filter(|(_, text)| text.contains("answer does not fit"));
    assert!(notes.clone().any(|(_, text)| text.contains("age: at least 1")), "{notes:?}");
    world.answer_last(client, json!({"action": "accept", "content": {"age": 7}, "x": 1}));
    let result = json!({"action": "accept", "content": {"age": 7}, "x": 1});
    assert_eq!(world.agent_got(7), [json!({"jsonrpc": "2.0", "id": 7, "result": result})]);
    assert!(world.clients[&client].questions.is_empty());
    world.check();
}

#[test]
fn invalid_answers_to_a_form_are_limited() {
    let (mut world, client) = asked();
    for times in 0..4 {
        assert_eq!(world.agent_got(7).len(), 0, "{times}");
        world.answer_last(client, json!({"action": "accept"}));
    }
    assert_eq!(world.agent_got(7)[0]["result"], json!({"action": "cancel"}));
    assert!(world.clients[&client].questions.is_empty());
    world.check();
}

#[test]
fn a_client_that_declines_is_not_asked_again() {
    let (mut world, client) = asked();
    world.answer_last(client, json!({"action": "decline"}));
    assert_eq!(world.agent_got(7)[0]["result"], json!({"action": "decline"}));
}

#[test]
fn an_invalid_question_is_refused_with_the_reason() {
    let (mut world, client) = asked();
    let mut unreadable = form(8);
    unreadable["params"]["requestedSchema"] = 5.into();
    let before = world.log["h1"].len();
    world.say(unreadable);
    assert_eq!(world.agent.answered[&8], 1);
    assert_eq!(world.clients[&client].questions.len(), 1, "only the first one is asked");
    let kept = &world.log["h1"][before..];
    assert!(kept.iter().all(|(channel, _)| *channel == Channel::Diagnostic), "{kept:?}");
    assert!(kept[0].1.contains("requestedSchema"), "what was said is kept");
    // Two pending questions must not have the same id.
    world.say(form(7));
    assert_eq!((world.agent.answered[&7], world.agent_got(7).len()), (1, 0));
}
