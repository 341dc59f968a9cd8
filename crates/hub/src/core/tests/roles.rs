//! Rights of tokens by role.

use serde_json::{Value, json};
use switchboard_acp::extensions::{END_AGENT_METHOD, LOSS_METHOD};
use switchboard_acp::rpc::codes;
use switchboard_store::{Channel, Role};

use super::super::{ConnectionId, FORBIDDEN, Identity};
use super::world::{Client, World, world};

fn token(name: &str, role: Role, made: i64) -> Identity {
    Identity { name: name.into(), role, all: false, made }
}

impl World {
    fn connect_as(&mut self, identity: Identity) -> ConnectionId {
        self.next_connection += 1;
        let id = self.next_connection;
        self.clients.insert(id, Client::default());
        self.core.connected(id, identity, 0, false, false);
        self.request(id, "initialize", json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}}));
        id
    }

    /// Returns the response to a request, after all slow work is done.
    fn ask(&mut self, client: ConnectionId, method: &str, params: Value) -> Value {
        let id = self.request(client, method, params);
        self.settle();
        self.clients[&client].answers[&id][0].clone()
    }

    fn start(&mut self, client: ConnectionId) -> String {
        let answer = self.ask(client, "session/new", json!({"cwd": "/w/p"}));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Returns the visible sessions of a client, including those without a prompt.
    fn listed(&mut self, client: ConnectionId) -> Vec<String> {
        let identity = self.core.cx.clients.connections[&client].identity.clone();
        let mut ids: Vec<String> =
            self.core.summaries(&identity).iter().map(|session| session.id.to_string()).collect();
        ids.sort();
        ids
    }

    fn share(&mut self, session: &str, tokens: &[(&str, i64)]) {
        let tokens = tokens.iter().map(|(name, made)| ((*name).into(), *made)).collect();
        self.core.set_shares([(session.to_owned(), tokens)].into());
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

fn code(answer: &Value) -> Option<i64> {
    answer["error"]["code"].as_i64()
}

#[test]
fn the_role_use_controls_its_own_and_shared_sessions_only() {
    let mut world = world(100_000);
    let admin = world.connect_as(token("root", Role::Admin, 1));
    let anna = world.connect_as(token("anna", Role::Use, 2));
    let ben = world.connect_as(token("ben", Role::Use, 3));
    let (of_admin, of_anna) = (world.start(admin), world.start(anna));
    assert_eq!(world.listed(anna), [of_anna.clone()]);
    assert_eq!(world.listed(ben), [""; 0]);
    assert_eq!(world.listed(admin).len(), 2);
    assert_eq!(code(&world.ask(anna, "session/prompt", prompt(&of_anna, "one"))), None);
    let not_found = i64::from(codes::RESOURCE_NOT_FOUND);
    assert_eq!(code(&world.ask(anna, "session/prompt", prompt(&of_admin, "two"))), Some(not_found));
    assert_eq!(code(&world.ask(ben, "session/close", json!({"sessionId": of_anna}))), Some(not_found));

    world.share(&of_admin, &[("ben", 3)]);
    assert_eq!(world.listed(ben), [of_admin.clone()]);
    assert_eq!(code(&world.ask(ben, "session/prompt", prompt(&of_admin, "three"))), None);
    // A shared session remains that of its owner.
    let refused = world.ask(ben, "session/delete", json!({"sessionId": of_admin}));
    assert_eq!(code(&refused), Some(FORBIDDEN.into()), "{refused}");
    world.share(&of_anna, &[("anna", 2)]);
    assert_eq!(code(&world.ask(anna, "session/delete", json!({"sessionId": of_anna}))), None);
    assert_eq!(world.listed(admin), [of_admin]);
}

#[test]
fn each_role_allows_exactly_its_listed_methods() {
    let forbidden = |role: Role, method: &str, params: Value| {
        let mut world = world(100_000);
        let admin = world.connect_as(token("root", Role::Admin, 1));
        let session = world.start(admin);
        world.share(&session, &[("t", 2)]);
        let client = world.connect_as(token("t", role, 2));
        let mut params = params;
        if params["sessionId"] == "S" {
            params["sessionId"] = session.into();
        }
        code(&world.ask(client, method, params)) == Some(FORBIDDEN.into())
    };
    let state = json!({"_meta": {"switchboard/remembered": true}});
    let cases = [
        ("session/list", json!({}), Role::View),
        ("session/resume", json!({"sessionId": "S", "cwd": "/w/p"}), Role::View),
        ("session/attach", json!({"sessionId": "S"}), Role::View),
        ("session/new", json!({"cwd": "/w/p"}), Role::Use),
        ("session/prompt", json!({"sessionId": "S", "prompt": [{"type": "text", "text": "x"}]}), Role::Use),
        ("session/close", json!({"sessionId": "S"}), Role::Use),
        ("session/set_config_option", json!({"sessionId": "S", "configId": "c", "value": "v"}), Role::Use),
        ("session/set_title", json!({"sessionId": "S", "title": "T"}), Role::Use),
        ("session/fork", json!({"sessionId": "S", "cwd": "/w/p"}), Role::Use),
        ("_x/anything", json!({"sessionId": "S"}), Role::Use),
        ("session/delete", json!({"sessionId": "S"}), Role::Admin),
        ("session/list", state, Role::Admin),
        ("session/unarchive", json!({"sessionId": "elsewhere"}), Role::Admin),
        ("auth/login", json!({"methodId": "m"}), Role::Admin),
        ("auth/logout", json!({}), Role::Admin),
        ("_x/anything", json!({}), Role::Admin),
        // As requests they are forwarded to the agent.
        ("session/cancel", json!({"sessionId": "S"}), Role::Use),
        (LOSS_METHOD, json!({"sessionId": "S", "loss": {}}), Role::Use),
        (LOSS_METHOD, json!({"loss": {}}), Role::Admin),
        ("$/cancel_request", json!({"requestId": 1}), Role::Admin),
    ];
    for (method, params, least) in cases {
        for role in Role::ALL {
            assert_eq!(forbidden(role, method, params.clone()), role < least, "{method} {params} as {role}");
        }
    }
}

#[test]
fn a_reused_token_name_inherits_nothing() {
    let mut world = world(100_000);
    let before = world.connect_as(token("anna", Role::Use, 1));
    let session = world.start(before);
    let named = json!({"sessionId": session, "title": "secret", "_meta": {"switchboard/operationId": "o"}});
    assert_eq!(code(&world.ask(before, "session/set_title", named.clone())), None);
    // The hub has not yet read that the first token was revoked.
    let after = world.connect_as(token("anna", Role::Use, 2));
    assert_eq!(world.listed(after), [""; 0]);
    let not_found = i64::from(codes::RESOURCE_NOT_FOUND);
    assert_eq!(code(&world.ask(after, "session/prompt", prompt(&session, "x"))), Some(not_found));
    let resumed = world.ask(after, "session/resume", json!({"sessionId": session, "cwd": "/w/p"}));
    assert_eq!(code(&resumed), Some(not_found));
    assert_eq!(
        code(&world.ask(after, "session/set_title", named)),
        Some(not_found),
        "an answer is not repeated to it"
    );
    // Shared again it is visible, but does not belong to the new token.
    world.share(&session, &[("anna", 2)]);
    assert_eq!(world.listed(after), [session]);
    assert_eq!(world.listed(before), [""; 0]);
}

#[test]
fn agent_options_need_the_configured_role() {
    let server = json!([{"type": "stdio", "name": "s", "command": "/bin/sh", "args": [], "env": []}]);
    let options = json!({"claudeCode": {"options": {"permissionMode": "bypassPermissions"}}});
    let dangerous = [
        json!({"cwd": "/w/p", "mcpServers": server}),
        json!({"cwd": "/w/p", "mcpServers": {"s": 1}}),
        json!({"cwd": "/w/p", "mcpServers": "s"}),
        json!({"cwd": "/w/p", "mcpServers": [], "_meta": options}),
        json!({"cwd": "/w/p", "_meta": "options"}),
    ];
    let harmless = [
        json!({"cwd": "/w/p", "mcpServers": []}),
        json!({"cwd": "/w/p", "mcpServers": null, "_meta": null}),
        json!({"cwd": "/w/p", "_meta": {"traceparent": "00-1-2-01", "switchboard/operationId": "o"}}),
    ];
    for (least, role, may) in [
        (Some(Role::Admin), Role::Use, false),
        (Some(Role::Admin), Role::Admin, true),
        (Some(Role::Use), Role::Use, true),
        (None, Role::Admin, false),
    ] {
        let mut world = world(100_000);
        world.core.cx.options.agent_options = least;
        let client = world.connect_as(token("t", role, 1));
        for params in &dangerous {
            let answer = world.ask(client, "session/new", params.clone());
            let is_refused = code(&answer) == Some(FORBIDDEN.into());
            assert_eq!(is_refused, !may, "{least:?} {role} {params}: {answer}");
            if is_refused {
                assert_eq!(answer["error"]["data"]["setting"], "hub.agent_options");
            }
        }
        for params in &harmless {
            let answer = world.ask(client, "session/new", params.clone());
            assert_eq!(code(&answer), None, "{least:?} {role} {params}: {answer}");
        }
        let session = world.start(client);
        let mut with_options = prompt(&session, "x");
        with_options["_meta"] = options.clone();
        let requests = [
            ("session/prompt", with_options),
            ("session/fork", json!({"sessionId": session, "cwd": "/w/p", "mcpServers": server})),
            ("_x/servers", json!({"sessionId": session, "mcpServers": server})),
        ];
        for (method, params) in requests {
            let answer = world.ask(client, method, params);
            assert_eq!(code(&answer) == Some(FORBIDDEN.into()), !may, "{least:?} {role} {method}: {answer}");
        }
    }
}

#[test]
fn additional_folders_must_be_below_the_roots_and_keys_unique() {
    let mut world = world(100_000);
    let client = world.connect_as(token("root", Role::Admin, 1));
    let invalid = Some(i64::from(codes::INVALID_PARAMS));
    for more in [
        json!("/etc"),
        json!({"0": "/etc"}),
        json!(7),
        json!(true),
        json!([7]),
        json!(["/etc"]),
        json!(["/w/a", null]),
    ] {
        let params = json!({"cwd": "/w/p", "additionalDirectories": more});
        assert_eq!(code(&world.ask(client, "session/new", params)), invalid, "{more}");
    }
    for more in [json!(null), json!([]), json!(["/w/a"])] {
        let params = json!({"cwd": "/w/p", "additionalDirectories": more});
        assert_eq!(code(&world.ask(client, "session/new", params)), None, "{more}");
    }
    let session = world.start(client);
    for method in ["session/fork", "_x/anything"] {
        let params = json!({"sessionId": session, "cwd": "/w/p", "additionalDirectories": "/etc"});
        assert_eq!(code(&world.ask(client, method, params)), invalid, "{method}");
    }
    // With a duplicate key, the hub might check one value and the agent use the other.
    for params in [
        r#"{"cwd":"/w/p","additionalDirectories":[],"additionalDirectories":["/etc"]}"#,
        r#"{"cwd":"/w/p","mcpServers":[],"mcpServers":[{"command":"sh"}]}"#,
        r#"{"cwd":"/w/p","_meta":{"a":1,"a":2}}"#,
    ] {
        let id = 1000 + params.len();
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new","params":{params}}}"#);
        world.core.client_line(client, &line.as_str().into());
        world.perform();
        world.settle();
        assert_eq!(code(&world.clients[&client].answers[&(id as i64)][0]), invalid, "{params}");
    }
}

#[test]
fn a_notification_with_the_name_of_a_request_is_dropped() {
    let mut world = world(100_000);
    let client = world.connect_as(token("root", Role::Admin, 1));
    let session = world.start(client);
    world.request(client, "session/prompt", prompt(&session, "first"));
    world.settle();
    let before = world.log[&*session].len();
    for method in [
        "session/prompt",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
        "session/fork",
        "session/load",
        "session/resume",
        "session/attach",
        END_AGENT_METHOD,
    ] {
        world.notify(client, method, prompt(&session, "second"));
    }
    world.settle();
    assert_eq!(world.agent.prompts, ["first"], "the second did not wait for its turn");
    assert_eq!(world.log[&*session].len(), before, "nothing of it is in the log");
    // Unknown notifications are forwarded, inside and outside sessions.
    world.notify(client, "_x/hint", json!({"sessionId": session}));
    world.settle();
    let (channel, text) = world.log[&*session].last().unwrap();
    assert!(*channel == Channel::ToAgent && text.contains("_x/hint"), "{text}");
}

#[test]
fn unknown_methods_are_forwarded_in_both_directions() {
    let mut world = world(100_000);
    let first = world.connect_as(token("root", Role::Admin, 1));
    let session = world.start(first);
    let viewer = world.connect_as(token("eve", Role::View, 2));
    world.share(&session, &[("eve", 2)]);
    world.ask(viewer, "session/attach", json!({"sessionId": session}));
    // Notifications outside sessions go to clients that see everything, including later ones.
    world.say(json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"n": 1}}));
    world.say(json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"n": 2}}));
    let second = world.connect_as(token("root", Role::Admin, 1));
    let heard = |world: &World, client: ConnectionId| world.clients[&client].heard.clone();
    assert_eq!(heard(&world, first).iter().filter(|told| told.contains("_auth/status_update")).count(), 2);
    assert_eq!(heard(&world, second).iter().filter(|told| told.contains(r#""n":2"#)).count(), 1);
    assert_eq!(heard(&world, viewer).len(), 0);

    // A request goes to one client at a time, until one knows the method.
    world.ask(second, "session/attach", json!({"sessionId": session}));
    let ask = |world: &mut World, id: i64| {
        let params = json!({"sessionId": "a1", "q": id});
        world.say(json!({"jsonrpc": "2.0", "id": id, "method": "_x/ask", "params": params}));
    };
    let reply = |world: &mut World, client: ConnectionId, outcome: Value| {
        let asked = world.clients.get_mut(&client).unwrap().requests.pop().expect("it is asked");
        assert_eq!(asked["params"]["sessionId"], *session, "by the hub's name");
        let mut line = json!({"jsonrpc": "2.0", "id": asked["id"]});
        line.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        world.core.client_line(client, &line.to_string().into());
        world.perform();
    };
    ask(&mut world, 70);
    assert_eq!(world.clients[&first].requests.len(), 0, "one at a time");
    reply(&mut world, second, json!({"error": {"code": codes::METHOD_NOT_FOUND, "message": "?"}}));
    reply(&mut world, first, json!({"result": {"known": true}}));
    assert_eq!(world.agent.results[&70], [json!({"known": true})]);
    // If a client disconnects, the next one is asked.
    ask(&mut world, 71);
    world.core.disconnected(second);
    world.clients.remove(&second);
    world.perform();
    reply(&mut world, first, json!({"error": {"code": 7, "message": "no"}}));
    assert_eq!(world.agent.results[&71][0]["code"], 7);
    assert_eq!(world.clients[&viewer].requests.len(), 0, "who may only view answers nothing");
    // Without clients, the agent gets an error.
    world.core.disconnected(first);
    world.clients.remove(&first);
    ask(&mut world, 72);
    assert_eq!(world.agent.results[&72][0]["code"], codes::METHOD_NOT_FOUND);
}
