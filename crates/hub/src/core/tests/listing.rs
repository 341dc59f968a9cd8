//! Lists of sessions.

use super::*;

fn known(number: usize) -> Known {
    Known {
        id: format!("s{number:03}").into(),
        agent: "one".to_owned(),
        agent_session: String::new(),
        owner: "somebody".to_owned(),
        folder: "/w/p".to_owned(),
        title: None,
        changed: (number / 2) as i64,
        length: 1,
    }
}

/// A page of the list: ids, and the cursor of the next one.
fn page(world: &mut World, client: ConnectionId, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    let id = world.request(client, "session/list", json!({"cursor": cursor}));
    let answer = &world.clients[&client].answers[&id][0]["result"];
    let id = |session: &Value| session["sessionId"].as_str().unwrap().to_owned();
    let ids = answer["sessions"].as_array().unwrap().iter().map(id).collect();
    (ids, answer["nextCursor"].as_str().map(str::to_owned))
}

#[test]
fn pages_go_on_where_the_last_one_ended_whatever_becomes_of_its_last_session() {
    let mut world = world(100_000);
    let client = world.connect(Role::Own);
    for number in 0..250 {
        world.core.know(known(number));
    }
    let (first, cursor) = page(&mut world, client, None);
    assert_eq!((first.len(), &*first[0], &*first[99]), (100, "s249", "s150"));
    // The session at the end of the page is used, and moves to the beginning.
    world.core.sessions.get_mut("s150").unwrap().known.changed = 1000;
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

#[test]
fn a_session_is_listed_by_what_it_is_called_now() {
    let mut world = world(100_000);
    let client = world.connect(Role::Own);
    world.request(client, "session/new", json!({"cwd": "/w/p"}));
    world.settle();
    let agent = world.agent.sessions[0].clone();
    world.update(&agent, json!({"sessionUpdate": "session_info_update", "title": "The plan"}));
    let id = world.request(client, "session/list", json!({}));
    assert_eq!(world.clients[&client].answers[&id][0]["result"]["sessions"][0]["title"], "The plan");
}
