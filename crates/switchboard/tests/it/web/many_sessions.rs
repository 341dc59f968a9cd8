//! More sessions than fit on a screen.

use std::io::{BufRead, BufReader};

use serde_json::json;
use switchboard_store::{About, Channel, Record, Store};

use super::talk::{Talk, done};
use crate::agent_program::Place;

fn prompt(session: &str, text: &str) -> Record {
    let prompt = json!([{ "type": "text", "text": text }]);
    let message = json!({ "jsonrpc": "2.0", "id": text, "method": "session/prompt", "params": { "sessionId": session, "prompt": prompt } });
    Record::new(Channel::ToAgent, message.to_string())
}

/// Records a session with a program that is killed at work.
fn died(place: &Place, store: &str) {
    let mut child = place.command(&["run", "--record", "--store", store, "demo", "slow 60"]).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    // It says something when it is at work.
    BufReader::new(output).read_line(&mut String::new()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn every_session_has_a_row_and_can_be_searched_and_deleted() {
    let place = Place::new();
    let file = place.home().join("many.sqlite3");
    let store = Store::open(&file).unwrap();
    let about = |title: &str, project: &str| About {
        agent: Some("old".into()),
        project: Some(project.into()),
        title: Some(title.into()),
        ..About::default()
    };
    // The first that is begun is the last that is listed.
    let mut two = store.begin(&about("two of them", "/w/both")).unwrap();
    for (session, words) in [("s1", "alpha words"), ("s2", "beta words")] {
        two.append(prompt(session, words)).unwrap();
    }
    two.close().unwrap();
    for number in 0..230 {
        let mut recorder =
            store.begin(&about(&format!("Task {number}"), ["/w/one", "/w/two"][number % 2])).unwrap();
        recorder.append(prompt("s", &format!("do task {number}"))).unwrap();
        recorder.close().unwrap();
    }
    drop(store);
    died(&place, file.to_str().unwrap());
    let talk = Talk::with(place, &["demo", "--store", file.to_str().unwrap()]);
    let page = &talk.page;
    talk.ask("a rare word: xylophone");
    page.wait_for("#other-sessions h3 :: two");
    assert_eq!(page.count("#other-sessions li"), 100);
    page.screenshot("many-sessions");
    // Further ones come while the user scrolls.
    page.wait_until("(document.querySelector('#session-list').scrollTop = 1e6, find('#other-sessions li').length === 233)");
    page.wait_gone("#other-sessions .more");
    page.wait_for("#other-sessions h3 :: one");
    assert_eq!(page.count("#other-sessions li"), 233);
    // A recording whose program died is not at work, and each session of a recording has a row.
    assert_eq!(page.count("#other-sessions li :: broke off"), 1);
    assert_eq!(page.count("#other-sessions li :: being recorded"), 0);
    page.click("#other-sessions button :: beta words");
    page.wait_until("location.pathname.endsWith('/s2')");

    // A hit names its session, and leads to the entry.
    page.type_into("#query", "xylophone");
    page.wait_for("#found li .name :: a rare word: xylophone");
    page.wait_for("#found li mark :: xylophone");
    page.click("#found li button");
    page.wait_until("document.activeElement.closest('article')?.innerText.includes('xylophone')");
    assert_eq!(page.count("#inspector"), 0);

    // Deleted is gone, here and from the list.
    page.click("#menu > summary");
    page.click("#offers [data-action=delete]");
    page.wait_for("#dialog :: a rare word: xylophone");
    page.screenshot("delete");
    page.click("#dialog [data-action=delete-now]");
    page.wait_gone("article :: xylophone");
    page.wait_gone("#hub-sessions :: xylophone");
    page.click("header [data-action=new]");
    page.wait_until("document.body.classList.contains('is-live')");
    talk.say("hello");
    done(page);
    talk.all_is_well();
}
