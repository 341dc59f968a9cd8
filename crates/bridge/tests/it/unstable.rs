//! Unstable elements that both versions have are translated or reported.

use serde_json::{Value, json};
use switchboard_bridge::{BridgeOptions, Version};

use crate::children::of;
use crate::support::Bench;

/// The two directions of translation.
const WAYS: [Version; 2] = [Version::V1, Version::V2];

fn bench(client: Version) -> Bench {
    Bench::new(BridgeOptions::between(client, client.other()))
}

#[test]
fn providers_login_status_titles_and_the_archive_pass_with_their_answers() {
    let provider = json!({"providerId": "p", "supported": ["openai"], "required": true, "current": {"apiType": "openai", "baseUrl": "http://x"}});
    let asked = [
        ("providers/list", json!({}), json!({"providers": [provider]})),
        (
            "providers/set",
            json!({"providerId": "p", "apiType": "openai", "baseUrl": "http://x", "headers": {"a": "b"}}),
            json!({}),
        ),
        ("providers/disable", json!({"providerId": "p"}), json!({})),
        (
            "auth/status",
            json!({}),
            json!({"state": "authenticated", "accounts": [{"label": "me", "active": true}]}),
        ),
        ("session/set_title", json!({"sessionId": "s", "title": "T"}), json!({"title": "T"})),
        ("session/archive", json!({"sessionId": "s"}), json!({})),
        (
            "mcp/message",
            json!({"serverId": "m", "requestId": 1, "method": "tools/list"}),
            json!({"result": {}}),
        ),
    ];
    for client in WAYS {
        for (method, params, result) in &asked {
            let mut bench = bench(client);
            bench.client(json!({"id": 1, "method": method, "params": params}));
            let request = bench.take_agent().remove(0);
            assert_eq!((&request["method"], &request["params"]), (&json!(method), params), "{client:?}");
            bench.agent(json!({"id": request["id"], "result": result}));
            assert_eq!(bench.take_client()[0]["result"], *result, "{client:?} {method}");
            assert!(bench.losses.is_empty(), "{:?}", bench.losses);
        }
        // The other direction, and updates.
        let mut bench = bench(client);
        bench.agent(json!({"id": 1, "method": "mcp/message", "params": {"serverId": "m", "requestId": 1, "method": "x"}}));
        let request = bench.take_client().remove(0);
        bench.client(json!({"id": request["id"], "result": {"result": 1}}));
        assert_eq!(bench.take_agent()[0]["result"], json!({"result": 1}));
        let news = json!({"state": "unauthenticated", "accounts": []});
        bench.agent(json!({"method": "auth/status_update", "params": news}));
        assert_eq!(bench.take_client()[0]["params"], news);
    }
}

#[test]
fn a_system_prompt_goes_with_every_way_to_open_a_session() {
    let prompt = json!({"mode": "append", "content": [{"type": "text", "text": "Be brief."}], "key": 2, "_meta": {"a": 1}});
    for (client, methods) in [
        (Version::V1, vec!["session/new", "session/load", "session/resume", "session/fork"]),
        (Version::V2, vec!["session/new", "session/fork"]),
    ] {
        for method in methods {
            let mut bench = bench(client);
            bench.client(json!({"id": 1, "method": method, "params": {"sessionId": "s", "cwd": "/w", "mcpServers": [], "systemPrompt": prompt}}));
            assert_eq!(bench.take_agent()[0]["params"]["systemPrompt"], prompt, "{client:?} {method}");
        }
    }
}

#[test]
fn a_system_prompt_goes_with_a_session_that_a_version_1_agent_opens_again() {
    let prompt = json!({"mode": "override", "content": [{"type": "text", "text": "Be brief."}]});
    for (offered, replay, method) in [
        (json!({"sessionCapabilities": {"resume": {}}}), Value::Null, "session/resume"),
        (json!({"loadSession": true}), json!({"type": "start"}), "session/load"),
    ] {
        let mut bench = Bench::v2_client();
        bench.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}}));
        let id = bench.take_agent()[0]["id"].clone();
        bench.agent(json!({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": offered}}));
        bench.client(json!({"id": 1, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w", "replayFrom": replay, "systemPrompt": prompt}}));
        let asked = bench.take_agent().remove(0);
        assert_eq!((&asked["method"], &asked["params"]["systemPrompt"]), (&json!(method), &prompt));
    }
}

#[test]
fn the_usage_of_work_that_no_prompt_began_is_reported() {
    let mut bench = Bench::v1_client();
    bench.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn",
        "usage": {"totalTokens": 10, "inputTokens": 6, "outputTokens": 4}}));
    assert_eq!(bench.lost(), ["state_update usage"]);
}

#[test]
fn the_usage_of_a_turn_goes_over() {
    let usage = json!({"totalTokens": 10, "inputTokens": 6, "outputTokens": 4, "thoughtTokens": 1});
    for client in WAYS {
        let mut bench = bench(client);
        bench.client(json!({"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}));
        let id = bench.take_agent()[0]["id"].clone();
        if client == Version::V1 {
            bench.agent(json!({"id": id, "result": {}}));
            bench.update(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "usage": usage}));
            assert_eq!(bench.take_client().pop().unwrap()["result"]["usage"], usage);
        } else {
            bench.agent(json!({"id": id, "result": {"stopReason": "end_turn", "usage": usage}}));
            assert_eq!(bench.take_client().pop().unwrap()["params"]["update"]["usage"], usage);
        }
    }
}

#[test]
fn plans_of_every_kind_go_over_or_are_words() {
    let plans = [
        json!({"type": "file", "planId": "p", "uri": "file:///w/plan.md"}),
        json!({"type": "markdown", "planId": "p", "content": "# Plan"}),
        json!({"type": "items", "planId": "p", "entries": [{"content": "Look", "priority": "high", "status": "pending"}]}),
    ];
    let removed = json!({"sessionUpdate": "plan_removed", "planId": "p", "key": 1, "_meta": {"a": 2}});
    let updates = plans
        .iter()
        .map(|plan| json!({"sessionUpdate": "plan_update", "plan": plan}))
        .chain([removed.clone()]);
    let updates: Vec<Value> = updates.collect();
    // A version 2 client, and a version 1 client that supports plans.
    let mut knowing = Bench::v1_client();
    knowing.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {"plan": {}}}}));
    knowing.open();
    for mut bench in [Bench::v2_client(), knowing] {
        for update in &updates {
            bench.update(update.clone());
        }
        assert_eq!(bench.take_updates(), updates);
        assert_eq!(bench.lost(), Vec::<String>::new());
    }
    // A client that does not.
    let mut bench = Bench::v1_client();
    for update in &updates {
        bench.update(update.clone());
    }
    let told = bench.take_updates();
    let words: Vec<&Value> = told.iter().map(|update| &update["content"]["text"]).collect();
    assert_eq!(words[..2], ["[plan]\n\nfile:///w/plan.md", "[plan]\n\n# Plan"]);
    assert_eq!(told[2]["entries"][0]["content"], "Look");
    assert_eq!(told[3], json!({"sessionUpdate": "plan", "entries": [], "key": 1, "_meta": {"a": 2}}));
    assert_eq!(bench.lost().len(), 3, "{:?}", bench.lost());
}

#[test]
fn that_a_session_is_at_work_is_not_told_to_version_1_which_is_reported() {
    let mut bench = Bench::v1_client();
    bench.client(json!({"id": 1, "method": "session/status", "params": {"sessionId": "s"}}));
    let id = bench.take_agent()[0]["id"].clone();
    bench.agent(json!({"id": id, "result": {"status": "open", "state": {"state": "running"}}}));
    assert_eq!(bench.take_client()[0]["result"], json!({"status": "open"}));
    assert_eq!(bench.lost(), ["session/status state"]);
}

/// Returns the agent's request and the client's response for an agent with these capabilities.
fn asked_of(
    client: Version,
    offered: &Value,
    method: &str,
    params: &Value,
    result: &Value,
) -> (Option<Value>, Value) {
    let mut bench = Bench::new(BridgeOptions::between(client, client.other()));
    let hello = match client {
        Version::V1 => json!({"protocolVersion": 1, "clientCapabilities": {}}),
        Version::V2 => json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}}),
    };
    bench.client(json!({"id": 0, "method": "initialize", "params": hello}));
    let id = bench.take_agent()[0]["id"].clone();
    let answer = match client {
        Version::V1 => {
            json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": offered}})
        }
        Version::V2 => json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": offered}}),
    };
    bench.agent(json!({"id": id, "result": answer}));
    bench.open();
    bench.client(json!({"id": 5, "method": method, "params": params}));
    let asked = bench.take_agent().pop();
    if let Some(asked) = &asked {
        assert_eq!(asked["method"], method);
        bench.agent(json!({"id": asked["id"], "result": result}));
    }
    let answer = bench.take_client().into_iter().find(|message| message["id"] == 5).expect("an answer");
    if method == "session/fork" && asked.is_some() {
        // The client has opened the session with it.
        bench.agent(of("new", json!({"sessionUpdate": "session_info_update", "title": "T"})));
        assert_eq!(bench.take_client()[0]["params"]["sessionId"], "new");
    }
    (asked.map(|asked| asked["params"].clone()), answer)
}

#[test]
fn sessions_are_forked_renamed_archived_and_asked_for_where_the_agent_can() {
    let all = json!({"fork": {}, "title": {}, "archive": {}, "status": {}});
    for client in [Version::V1, Version::V2] {
        let (server, theirs) = (
            json!({"name": "m", "command": "/bin/m", "args": [], "env": []}),
            json!({"type": "stdio", "name": "m", "command": "/bin/m", "args": [], "env": []}),
        );
        let (ours, theirs) = if client == Version::V1 { (server, theirs) } else { (theirs, server) };
        let fork = |server: &Value| {
            json!({"sessionId": "s", "cwd": "/w", "mcpServers": [server],
            "additionalDirectories": ["/w/more"], "_meta": {"a": 1}, "key": 2})
        };
        let (asked, answer) =
            asked_of(client, &all, "session/fork", &fork(&ours), &json!({"sessionId": "new"}));
        assert_eq!(asked.unwrap(), fork(&theirs), "{client:?}");
        assert_eq!(answer["result"]["sessionId"], "new");

        let about = json!({"sessionId": "s"});
        let named = json!({"sessionId": "s", "title": "T"});
        let (asked, answer) = asked_of(client, &all, "session/set_title", &named, &json!({"title": "T"}));
        assert_eq!((asked.unwrap(), &answer["result"]), (named.clone(), &json!({"title": "T"})));
        for method in ["session/archive", "session/unarchive"] {
            let (asked, answer) = asked_of(client, &all, method, &about, &json!({}));
            assert_eq!((asked.unwrap(), &answer["result"]), (about.clone(), &json!({})));
        }
        let state = json!({"state": "idle"});
        let of_status = |with_state: bool, rest: Value| {
            let mut answer = rest;
            answer["status"] = json!("open");
            if with_state {
                answer["state"] = state.clone();
            }
            answer
        };
        let rest = json!({"_meta": {"a": 1}, "key": 2});
        let told = of_status(client == Version::V1, rest.clone());
        let (_, answer) = asked_of(client, &all, "session/status", &about, &told);
        assert_eq!(answer["result"], of_status(client == Version::V2, rest), "{client:?}");
        let expected = of_status(client == Version::V2, json!({}));

        // If the agent lacks the method, the client gets an error and the agent is not asked.
        for (method, params) in [
            ("session/fork", &fork(&ours)),
            ("session/set_title", &named),
            ("session/archive", &about),
            ("session/unarchive", &about),
            ("session/status", &json!({"sessionId": "x"})),
        ] {
            let (asked, answer) = asked_of(client, &json!({}), method, params, &Value::Null);
            assert_eq!(asked, None, "{client:?} {method}");
            assert_eq!(answer["error"]["code"], -32601, "{client:?} {method}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("the agent"), "{answer}");
        }
        let (asked, answer) = asked_of(client, &json!({}), "session/status", &about, &Value::Null);
        assert_eq!((asked, &answer["result"]), (None, &expected), "{client:?}");
    }
}
