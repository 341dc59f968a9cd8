//! Lists of sessions.

use super::*;

fn known(number: usize) -> SessionInfo {
    SessionInfo {
        id: format!("s{number:03}").into(),
        agent: "one".to_owned(),
        agent_session: String::new(),
        owner: "somebody".to_owned(),
        folder: "/w/p".to_owned(),
        title: Some(format!("title {number}")),
        changed: (number / 2) as i64,
        length: 1,
    }
}

/// Returns a page of the list: ids, and the cursor of the next page.
fn page(world: &mut World, client: ConnectionId, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    let id = world.request(client, "session/list", json!({"cursor": cursor}));
    let answer = &world.clients[&client].answers[&id][0]["result"];
    let id = |session: &Value| session["sessionId"].as_str().unwrap().to_owned();
    let ids = answer["sessions"].as_array().unwrap().iter().map(id).collect();
    (ids, answer["nextCursor"].as_str().map(str::to_owned))
}

#[test]
fn pages_continue_even_if_the_last_session_moved_or_was_deleted() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    for number in 0..250 {
        world.core.add_session(known(number));
    }
    let (first, cursor) = page(&mut world, client, None);
    assert_eq!((first.len(), &*first[0], &*first[99]), (100, "s249", "s150"));
    // The last session of the page is used and moves to the front.
    world.core.sessions.get_mut("s150").unwrap().info.changed = 1000;
    let (second, cursor) = page(&mut world, client, cursor.as_deref());
    assert_eq!((second.len(), &*second[0], &*second[99]), (100, "s149", "s050"));
    // And the next one is deleted.
    world.core.keep_sessions(|id| id != "s050");
    let (third, cursor) = page(&mut world, client, cursor.as_deref());
    assert_eq!((third.len(), &*third[0], &*third[49], cursor), (50, "s049", "s000", None));

    for cursor in ["", "s150", "x.s150", "."] {
        let id = world.request(client, "session/list", json!({"cursor": cursor}));
        let answer = &world.clients[&client].answers[&id][0];
        assert_eq!(answer["error"]["code"], codes::INVALID_PARAMS, "{cursor}: {answer}");
    }
}

fn listed(world: &mut World, client: ConnectionId) -> Vec<Value> {
    let id = world.request(client, "session/list", json!({}));
    world.clients[&client].answers[&id][0]["result"]["sessions"].as_array().unwrap().clone()
}

#[test]
fn a_session_is_listed_from_its_first_prompt_on() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    assert_eq!(listed(&mut world, client), [] as [Value; 0], "it is empty");
    world.core.add_session(SessionInfo { title: None, ..known(7) });
    assert_eq!(listed(&mut world, client), [] as [Value; 0], "so is one of an earlier time");

    world.agent.is_slow = true;
    let session = world.session_of(0).unwrap();
    for text in ["\n Fix the build\nnow", "And the tests"] {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        world.request(client, "session/prompt", prompt);
        world.settle();
        let listed = listed(&mut world, client);
        assert_eq!((listed.len(), &listed[0]["title"]), (1, &json!("Fix the build")), "{listed:?}");
    }
    // Folding the log gives the same title.
    let mut state = SessionState::default();
    for (offset, (channel, text)) in world.log[&*session].iter().enumerate() {
        state.apply(offset as u64, *channel, text);
    }
    assert_eq!(state.title(), Some("Fix the build"));
    // It keeps its title while its log is loaded again.
    world.core.log_failed(&std::sync::Arc::from(&*session), "no room");
    world.perform();
    let other = world.connect(Role::Admin);
    assert_eq!(listed(&mut world, other)[0]["title"], "Fix the build");
}

#[test]
fn a_session_is_listed_with_its_current_title() {
    let mut world = world(100_000);
    let client = world.connect(Role::Admin);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let agent = world.agent.sessions[0].clone();
    world.update(&agent, json!({"sessionUpdate": "session_info_update", "title": "The plan"}));
    let id = world.request(client, "session/list", json!({}));
    assert_eq!(world.clients[&client].answers[&id][0]["result"]["sessions"][0]["title"], "The plan");
}
