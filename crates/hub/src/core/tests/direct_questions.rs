//! Questions of an agent about a client's own request, outside any session.

use super::*;

/// A client that logs in and is asked for its name, under the agent's id 50.
struct Login {
    world: World,
    client: ConnectionId,
    /// The request id of the client, and that of the agent.
    request: i64,
    at_agent: i64,
}

fn ask(id: i64, about: i64) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let params = json!({"requestId": about, "mode": "form", "message": "Who?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

/// Starts a login that the agent does not answer during the test.
fn login(can: Value) -> Login {
    let mut world = world(1 << 20);
    world.next_connection += 1;
    let client = world.next_connection;
    world.clients.insert(client, Client::default());
    world.core.connected(client, identity("anna", Role::Admin), 0, false, false);
    let info = json!({"name": "c", "version": "1"});
    world.request(client, "initialize", json!({"protocolVersion": 2, "info": info, "capabilities": can}));
    world.request(client, "session/new", json!({"cwd": "/w/a"}));
    world.settle();
    // The hub answers this request itself, so that the request ids of client and agent differ.
    world.request(client, "session/list", json!({}));
    world.agent.is_slow = true;
    let request = world.request(client, "auth/login", json!({"methodId": "form"}));
    let at_agent = world.agent.last_request;
    assert_ne!(request, at_agent, "otherwise nothing is seen");
    Login { world, client, request, at_agent }
}

fn asked() -> Login {
    let mut login = login(json!({"elicitation": {"form": {}}}));
    login.world.say(ask(50, login.at_agent));
    assert_eq!(login.questions(), 1);
    login
}

impl Login {
    fn questions(&self) -> usize {
        self.world.clients[&self.client].questions.len()
    }

    fn agent_has_got(&self) -> &[Value] {
        self.world.agent.results.get(&50).map_or(&[], Vec::as_slice)
    }
}

#[test]
fn a_direct_question_names_the_clients_request_and_the_agent_gets_the_answer() {
    let mut login = asked();
    let question = login.world.clients[&login.client].last_question.clone();
    assert_eq!(question["params"]["requestId"], login.request);
    login.world.answer_last(login.client, json!({"action": "accept", "content": {"name": "Anna"}}));
    assert_eq!(login.agent_has_got(), [json!({"action": "accept", "content": {"name": "Anna"}})]);
}

#[test]
fn invalid_answers_are_asked_again_a_limited_number_of_times() {
    let mut login = asked();
    for _ in 0..4 {
        assert!(login.agent_has_got().is_empty());
        login.world.answer_last(login.client, json!({"action": "accept", "content": {"name": 5}}));
    }
    assert_eq!(login.agent_has_got(), [json!({"action": "cancel"})]);
    assert_eq!(login.questions(), 0);
}

#[test]
fn the_agent_gets_a_response_when_the_client_disconnects() {
    let mut login = asked();
    login.world.core.disconnected(login.client);
    login.world.perform();
    assert_eq!(login.agent_has_got(), [json!({"action": "cancel"})]);
}

#[test]
fn the_agent_gets_a_response_when_the_client_loses_the_right_to_answer() {
    for content in [json!({"name": 5}), json!({"name": "Anna"})] {
        let mut login = asked();
        login.world.core.access_changed(login.client, Some(identity("anna", Role::View)));
        login.world.answer_last(login.client, json!({"action": "accept", "content": content}));
        assert_eq!(login.agent_has_got(), [json!({"action": "cancel"})]);
        assert_eq!(login.questions(), 0);
    }
}

#[test]
fn a_question_cancelled_by_the_agent_is_cancelled_at_the_client_and_gets_a_response() {
    let mut login = asked();
    login.world.say(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 50}}));
    assert_eq!(login.questions(), 0);
    assert_eq!(login.agent_has_got(), [json!({"action": "cancel"})]);
}

#[test]
fn questions_of_an_exited_agent_are_cancelled() {
    let mut login = asked();
    login.world.core.agent_exited(login.world.agent.process.unwrap(), "it is gone", &[]);
    login.world.perform();
    assert_eq!(login.questions(), 0);
}

#[test]
fn a_reconnected_client_is_asked_again_under_the_same_id() {
    let mut login = asked();
    let id = *login.world.clients[&login.client].questions.keys().next().unwrap();
    login.world.clients.get_mut(&login.client).unwrap().questions.clear();
    login.world.core.reconnected(login.client);
    login.world.notify(login.client, "stream/resume", json!({"streams": []}));
    assert_eq!(login.world.clients[&login.client].questions.keys().copied().collect::<Vec<_>>(), [id]);
}

#[test]
fn an_agent_gets_an_error_if_no_client_can_answer() {
    let unreadable = |about| {
        let mut question = ask(50, about);
        question["params"]["requestedSchema"] = 5.into();
        question
    };
    let permission = |about| {
        let params = json!({"requestId": about, "title": "May I?"});
        json!({"jsonrpc": "2.0", "id": 50, "method": "session/request_permission", "params": params})
    };
    let forms = || json!({"elicitation": {"form": {}}});
    for (can, question, words) in [
        (json!({}), ask as fn(i64, i64) -> Value, "no connected client"),
        (forms(), |id, _| ask(id, 999), "no connected client"),
    ] {
        let mut login = login(can);
        login.world.say(question(50, login.at_agent));
        assert!(login.agent_has_got()[0].to_string().contains(words), "{:?}", login.agent_has_got());
        assert_eq!(login.questions(), 0);
    }
    let mut login = login(forms());
    login.world.say(unreadable(login.at_agent));
    login.world.say(permission(login.at_agent));
    let got = login.agent_has_got();
    assert!(got[0].to_string().contains("/requestedSchema"), "{got:?}");
    assert!(got[1].to_string().contains("/params/sessionId"), "{got:?}");
    assert_eq!(login.questions(), 0);
}

#[test]
fn the_number_of_direct_questions_is_limited() {
    let mut login = asked();
    login.world.say(ask(50, login.at_agent));
    assert!(login.agent_has_got()[0].to_string().contains("already in use"));
    for id in 100..200 {
        login.world.say(ask(id, login.at_agent));
    }
    assert_eq!(login.questions(), 16);
}

#[test]
fn questions_about_a_prompt_are_asked_in_its_session() {
    let mut login = login(json!({"elicitation": {"form": {}}}));
    let (world, client) = (&mut login.world, login.client);
    let prompt = json!({"sessionId": "h1", "prompt": [{"type": "text", "text": "hello"}]});
    world.request(client, "session/prompt", prompt);
    let mut question = ask(50, world.agent.last_request);
    question["params"]["x"] = 1.into();
    world.say(question);
    let asked = world.clients[&client].last_question["params"].clone();
    assert_eq!((&asked["sessionId"], &asked["x"], asked.get("requestId")), (&json!("h1"), &json!(1), None));
    world.answer_last(client, json!({"action": "accept", "content": {"name": "Anna"}}));
    assert_eq!(world.agent_got(50).len(), 1, "it is in the log");
}
