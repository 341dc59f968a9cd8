//! Clients of the Agent Host Protocol at `switchboard serve`, with the demo agent: over a real WebSocket, and beside clients
//! of the Agent Client Protocol.

use serde_json::{Value, json};

use crate::agent_program::Place;
use crate::serve::block_on;
use crate::serve::hub::{Client, Hub};

const ROOT: &str = "ahp-root://";

/// An editor that shows one session.
struct Editor {
    client: Client,
    session: String,
    chat: String,
    /// Number of the last action.
    last: i64,
}

impl Editor {
    /// Connects, and creates a session that the hub does not know yet.
    async fn with_session(hub: &Hub, place: &Place, id: &str) -> Self {
        let session = format!("demo:/{id}");
        let chat = format!("{session}/chat");
        let mut editor = Editor { client: hub.socket("/ahp").await.unwrap(), session, chat, last: 0 };
        let answer = editor.initialize(&[]).await;
        assert_eq!(answer["result"]["protocolVersion"], "0.9.0", "{answer}");
        assert_eq!(answer["result"]["snapshots"][0]["state"]["agents"][0]["provider"], "demo");
        let folder = format!("file://{}", place.work().display());
        let created = json!({"channel": editor.session, "provider": "demo", "workingDirectories": [folder]});
        let created = editor.client.ask("createSession", created).await;
        assert!(created.get("error").is_none(), "{created}");
        for channel in [editor.session.clone(), editor.chat.clone()] {
            let answer = editor.client.ask("subscribe", json!({"channel": channel})).await;
            assert_eq!(answer["result"]["snapshot"]["resource"], *channel, "{answer}");
        }
        editor
    }

    async fn initialize(&mut self, more: &[&str]) -> Value {
        let subscriptions: Vec<&str> = [ROOT].into_iter().chain(more.iter().copied()).collect();
        let params = json!({"channel": ROOT, "protocolVersions": ["0.9.0", "0.7.0"], "clientId": "editor",
            "initialSubscriptions": subscriptions});
        self.client.ask("initialize", params).await
    }

    async fn dispatch(&mut self, action: Value) {
        let params = json!({"channel": self.chat, "clientSeq": 1, "action": action});
        self.client.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params})).await;
    }

    async fn prompt(&mut self, turn: &str, text: &str) {
        let message = json!({"text": text, "origin": {"kind": "user"}});
        let action = json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-11-15T04:18:43.000Z", "message": message});
        self.dispatch(action).await;
    }

    /// Waits for an action of a kind, and returns its envelope.
    async fn action(&mut self, kind: &str) -> Value {
        let of_kind = |message: &Value| message["params"]["action"]["type"] == *kind;
        let envelope = self.client.until(of_kind).await["params"].clone();
        self.last = self.last.max(envelope["serverSeq"].as_i64().unwrap());
        envelope
    }

    /// Returns the state of the chat.
    async fn chat(&mut self) -> Value {
        let answer = self.client.ask("subscribe", json!({"channel": self.chat})).await;
        answer["result"]["snapshot"]["state"].clone()
    }

    /// Answers the question of a tool call.
    async fn confirm(&mut self, question: &Value, approved: bool, option: Option<&str>) {
        let mut action = json!({"type": "chat/toolCallConfirmed", "turnId": question["turnId"],
            "toolCallId": question["toolCallId"], "approved": approved});
        if let Some(option) = option {
            action["selectedOptionId"] = json!(option);
        }
        self.dispatch(action).await;
    }

    /// Waits for the question of a tool call, and returns its action.
    async fn question(&mut self) -> Value {
        let is_question = |message: &Value| {
            message["params"]["action"]["type"] == "chat/toolCallReady"
                && message["params"]["action"]["options"].is_array()
        };
        self.client.until(is_question).await["params"]["action"].clone()
    }
}

/// Returns the id of the first option of a kind.
fn option<'q>(question: &'q Value, kind: &str) -> &'q str {
    let options = question["options"].as_array().unwrap();
    options.iter().find(|option| option["kind"] == *kind).unwrap()["id"].as_str().unwrap()
}

/// Returns the text of the last turn.
fn text(chat: &Value) -> String {
    let parts =
        chat["turns"].as_array().unwrap().last().unwrap()["responseParts"].as_array().unwrap().clone();
    parts.iter().filter_map(|part| part["content"].as_str()).collect()
}

#[test]
fn an_edit_has_both_sides_of_the_file() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut editor = Editor::with_session(&hub, &place, "one").await;
        editor.prompt("t1", "edit").await;
        let echo = editor.action("chat/turnStarted").await;
        assert_eq!(echo["origin"], json!({"clientId": "editor", "clientSeq": 1}));
        editor.action("chat/turnComplete").await;
        let chat = editor.chat().await;
        let parts = chat["turns"][0]["responseParts"].as_array().unwrap().clone();
        let content =
            parts.iter().flat_map(|part| part["toolCall"]["content"].as_array().cloned().unwrap_or_default());
        let edit = content.into_iter().find(|content| content["type"] == "fileEdit").expect("an edit");
        let mut sides = Vec::new();
        for side in ["before", "after"] {
            if let Some(uri) = edit[side]["content"]["uri"].as_str() {
                let answer =
                    editor.client.ask("resourceRead", json!({"uri": uri, "encoding": "base64"})).await;
                sides
                    .push(answer["result"]["data"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
            }
        }
        assert!(!sides.is_empty() && sides.iter().all(|side| !side.is_empty()), "{edit}");
        // The file is there, and files outside of the folders of sessions are not.
        let uri = edit["after"]["uri"].as_str().unwrap();
        let read = editor.client.ask("resourceRead", json!({"uri": uri, "encoding": "base64"})).await;
        assert!(read["result"]["data"].is_string(), "{read}");
        for (uri, code) in
            [("file:///etc/passwd", -32009), ("switchboard-content:/none", -32008), ("http://x/", -32009)]
        {
            let refused = editor.client.ask("resourceRead", json!({"uri": uri})).await;
            assert_eq!(refused["error"]["code"], code, "{uri}: {refused}");
        }
    });
}

#[test]
fn permissions_are_answered_by_their_own_options() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut editor = Editor::with_session(&hub, &place, "one").await;
        editor.prompt("t1", "permission").await;
        let question = editor.question().await;
        let need = editor.action("session/inputNeededSet").await;
        assert_eq!(need["action"]["request"]["kind"], "toolConfirmation");
        // What another window sends by itself is no approval.
        editor.confirm(&question, true, None).await;
        let refused = editor.action("chat/toolCallConfirmed").await;
        assert!(refused["rejectionReason"].is_string(), "{refused}");
        let allow = option(&question, "approve").to_owned();
        editor.confirm(&question, true, Some(&allow)).await;
        let echo = editor.action("chat/toolCallConfirmed").await;
        assert!(echo.get("rejectionReason").is_none(), "{echo}");
        editor.action("chat/turnComplete").await;
        assert!(text(&editor.chat().await).contains("Debugging is on."));
        // It is late now.
        editor.confirm(&question, true, Some(&allow)).await;
        assert!(editor.action("chat/toolCallConfirmed").await["rejectionReason"].is_string());
        editor.prompt("t2", "permission").await;
        let question = editor.question().await;
        let reject = option(&question, "deny").to_owned();
        editor.confirm(&question, false, Some(&reject)).await;
        editor.action("chat/turnComplete").await;
        assert!(text(&editor.chat().await).contains("Debugging stays off."));
    });
}

#[test]
fn a_cancelled_turn_ends_at_once_and_the_next_prompt_follows() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut editor = Editor::with_session(&hub, &place, "one").await;
        editor.prompt("t1", "slow 60").await;
        editor.action("chat/toolCallStart").await;
        let message = json!({"text": "hello", "origin": {"kind": "user"}});
        editor
            .dispatch(
                json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": "q1", "message": message}),
            )
            .await;
        editor.dispatch(json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 7})).await;
        let cancelled = editor.action("chat/turnCancelled").await;
        assert!(cancelled.get("rejectionReason").is_none(), "{cancelled}");
        let next =
            editor.client.until(|message| message["params"]["action"]["queuedMessageId"] == "q1").await;
        assert!(next["params"].get("origin").is_none());
        editor.action("chat/turnComplete").await;
        let chat = editor.chat().await;
        assert_eq!(
            (&chat["turns"][0]["state"], &chat["turns"][1]["state"]),
            (&json!("cancelled"), &json!("complete"))
        );
        assert!(text(&chat).contains("by heart"));
        // The same turn id is the same prompt.
        editor.prompt("t1", "slow 60").await;
        let again = editor.client.until(|message| message["params"]["rejectionReason"].is_string()).await;
        assert_eq!(again["params"]["action"]["turnId"], "t1");
    });
}

#[test]
fn a_session_is_shared_with_other_clients_and_survives_reconnecting_and_a_restart() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let session = block_on(async {
        let mut editor = Editor::with_session(&hub, &place, "one").await;
        editor.prompt("t1", "hello").await;
        editor.action("chat/turnComplete").await;
        let added = editor.client.until(|message| message["method"] == "root/sessionAdded").await;
        assert_eq!(added["params"]["summary"]["resource"], *editor.session);
        let (last, chat) = (editor.last, editor.chat.clone());

        // Another client finds it, and prompts while the editor is away.
        let mut other = hub.client(2).await;
        let listed = other.ask("session/list", json!({})).await;
        let session = listed["result"]["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
        let resume = json!({"sessionId": session, "cwd": place.work(), "mcpServers": [], "replayFrom": {"type": "start"}});
        assert!(other.ask("session/resume", resume).await.get("error").is_none());
        other.seen.clear();
        let subscriptions = json!([ROOT, editor.session, editor.chat]);
        drop(editor.client);
        other.prompt(&session, "tool").await;
        other.until_idle().await;

        let mut client = hub.socket("/").await.unwrap();
        let reconnect =
            json!({"clientId": "editor", "lastSeenServerSeq": last, "subscriptions": subscriptions});
        let answer = client.ask("reconnect", reconnect.clone()).await;
        assert_eq!(answer["result"]["type"], "replay", "{answer}");
        let is_prompt = |envelope: &Value| envelope["action"]["message"]["text"] == "tool";
        let missed =
            answer["result"]["actions"].as_array().unwrap().iter().find(|envelope| is_prompt(envelope));
        // The rest of the turn may still be on its way.
        if missed.is_none() {
            client.until(|message| is_prompt(&message["params"])).await;
        }

        // A session of another client appears in the editor.
        let new = other.new_session(&place).await;
        let added = client.until(|message| message["method"] == "root/sessionAdded").await;
        assert_eq!(added["params"]["summary"]["resource"], format!("demo:/{new}"));
        (reconnect, chat)
    });
    assert_eq!(hub.end(), Some(0));
    let hub = Hub::start(&place, &["demo"]);
    let (reconnect, chat) = session;
    block_on(async {
        let mut editor =
            Editor { client: hub.socket("/ahp").await.unwrap(), session: String::new(), chat, last: 0 };
        let refused = editor.client.ask("reconnect", reconnect).await;
        assert_eq!(refused["error"]["code"], -32008, "{refused}");
        let chat = editor.chat.clone();
        let answer = editor.initialize(&[&chat]).await;
        let state = &answer["result"]["snapshots"][1]["state"];
        let turns = state["turns"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let prompts: Vec<&str> = turns.iter().map(|turn| turn["message"]["text"].as_str().unwrap()).collect();
        assert_eq!((&turns[0]["id"], &prompts[..]), (&json!("t1"), &["hello", "tool"][..]));
        editor.prompt("t1", "hello").await;
        assert!(editor.action("chat/turnStarted").await["rejectionReason"].is_string(), "it ran before");
        editor.prompt("t3", "hello").await;
        editor.action("chat/turnComplete").await;
        assert_eq!(editor.chat().await["turns"].as_array().unwrap().len(), 3);
    });
}

#[test]
fn a_session_that_is_disposed_in_a_turn_is_closed_for_all() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    block_on(async {
        let mut editor = Editor::with_session(&hub, &place, "one").await;
        editor.prompt("t1", "slow 60").await;
        editor.action("chat/toolCallStart").await;
        let answer = editor.client.ask("disposeSession", json!({"channel": editor.session})).await;
        assert!(answer.get("error").is_none() && answer["result"].is_null(), "{answer}");
        editor.client.until(|message| message["method"] == "root/sessionRemoved").await;
        let gone = editor.client.ask("disposeSession", json!({"channel": "demo:/none"})).await;
        assert_eq!(gone["error"]["code"], -32001);
        let mut other = hub.client(2).await;
        let listed = other.ask("session/list", json!({})).await;
        assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 1, "the log stays: {listed}");
    });
}

#[test]
fn tokens_origins_and_versions_are_checked() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let upgrade = |path: &str, headers: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=={headers}"
        );
        let answer = hub.http(&head);
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for path in ["/ahp", "/"] {
        assert_eq!(upgrade(path, ""), 401, "{path}");
        assert_eq!(upgrade(&format!("{path}?tkn=sb_wrong"), ""), 401, "{path}");
        assert_eq!(
            upgrade(&format!("{path}?tkn={}", hub.token), "\nOrigin: https://evil.test"),
            403,
            "{path}"
        );
    }
    let plain = hub.http("GET /ahp HTTP/1.1");
    assert!(plain.starts_with("HTTP/1.1 426"), "{plain}");
    block_on(async {
        let mut client = hub.socket("/ahp").await.unwrap();
        assert_eq!(client.ask("listSessions", json!({})).await["error"]["code"], -32600);
        let offer = json!({"channel": ROOT, "protocolVersions": ["0.5.1"], "clientId": "c"});
        let refused = client.ask("initialize", offer).await;
        assert_eq!(refused["error"]["code"], -32005, "{refused}");
        let offer = json!({"channel": ROOT, "protocolVersions": ["1.0.0", "0.9.0"], "clientId": "c"});
        assert_eq!(client.ask("initialize", offer).await["result"]["protocolVersion"], "1.0.0");
        assert_eq!(client.ask("moveChat", json!({})).await["error"]["code"], -32601);
        assert_eq!(client.ask("ping", json!({"channel": ROOT})).await["result"], json!({}));
    });
    // A client that may only look gets an error in its turn, not silence.
    let made = place.run(&["tokens", "add", "guest", "--role", "view", "--all", "--store", hub.store()]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let mut guest = hub;
    guest.token = made.stdout.trim().to_owned();
    block_on(async {
        let mut editor = Editor::with_session(&guest, &place, "one").await;
        editor.prompt("t1", "hello").await;
        let error = editor.action("chat/error").await;
        assert!(error["action"]["part"]["error"]["message"].as_str().unwrap().contains("role"), "{error}");
    });
}
