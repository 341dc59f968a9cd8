//! Sub-agents as nobody should tell of them, and the rest of what a session tells that is new.

use serde_json::{Value, json};

use super::looks::nothing_is_clipped;
use super::scripted_agent::SESSION;
use super::subagents::{answers_to, asks, enabled, finished, says, started, state, told, update_of, works};
use super::trust::{before, go};

const MARKUP: &str = "<img src=x onerror=alert(1)><b>bold</b> \u{202e}dlog";

#[test]
fn a_thousand_are_listed_and_only_those_in_sight_are_sent() {
    let mut lines = vec![state(SESSION, "running")];
    for number in 0..1000 {
        let id = format!("child-{number}");
        lines.push(started(SESSION, &id, "worker", &format!("Number {number}")));
        lines.push(says(&id, "m", &format!("I am number {number}.")));
        if number < 990 {
            lines.push(finished(SESSION, &id));
        }
    }
    // And all in one call.
    let content: Vec<Value> =
        (0..1000).map(|number| json!({ "type": "session", "sessionId": format!("more-{number}") })).collect();
    lines.push(works(SESSION, "crowd", &json!({ "title": "A crowd", "content": content })));
    for number in 0..1000 {
        lines.push(says(&format!("more-{number}"), "m", &format!("I am one of them: {number}.")));
    }
    let talk = before(&lines, &[]);
    let page = &talk.page;
    go(page);
    page.wait_for("#state .family :: 10 sub-agents at work");
    page.wait_for("article.e-tool .nest-head :: A crowd #2000");
    page.wait_for("article.e-sub .nest-body :: I am number 999.");
    page.wait_for(".note :: 950 earlier sub-agents");
    // What the page has is little.
    let shown = page.eval(
        "[document.querySelectorAll('.nest').length, document.querySelectorAll('.nest-body article').length]",
    );
    let (nests, inside) = (shown[0].as_u64().unwrap(), shown[1].as_u64().unwrap());
    assert!(nests < 200 && inside <= 250, "{nests} sub-agents, {inside} entries inside");
    page.screenshot("subagents-thousand");
    page.eval("document.querySelector('#scroller').scrollTop = 0");
    page.wait_for("article.e-sub .nest-head :: worker (Number 0)");
    assert_eq!(page.count(".nest-body :: I am number 0."), 0, "it is done");
    page.click(".nest-fold :: worker (Number 0)");
    page.wait_for(".nest-body :: I am number 0.");
    page.click("#state .family");
    page.wait_for("dialog a :: worker (Number 700)");
    talk.all_is_well();
}

#[test]
fn circles_and_second_parents_are_told_and_end() {
    let talk = before(
        &[
            state(SESSION, "running"),
            started(SESSION, "a", "first", "one"),
            started("a", "b", "second", "two"),
            started("b", SESSION, "the root", "again"),
            started("b", "a", "first again", "x"),
            started("b", "b", "itself", "y"),
            started(SESSION, "b", "second of another", "z"),
            says("b", "m", "I am in no circle."),
        ],
        &[],
    );
    let page = &talk.page;
    go(page);
    page.wait_for(".nest .nest .nest-body :: I am in no circle.");
    // What does not belong here is told, with a way to it.
    page.wait_for("article.e-sub .note :: It is not shown here");
    page.wait_for("#transcript > article.e-sub a :: second of another");
    page.click("#transcript > article.e-sub a :: second of another");
    page.wait_for("#path :: scripted › first (one) › second (two)");
    page.wait_for("#transcript article.e-sub :: itself");
    page.click("#show-inspector");
    page.click("#wire-problems");
    page.wait_for("#wire-rows [data-row] :: subagent_update");
    talk.all_is_well();
}

#[test]
fn one_that_outlives_its_call_is_at_work_and_one_that_asks_after_its_end_is_asked_about() {
    let content = json!([{ "type": "session", "sessionId": "late" }]);
    let talk = before(
        &[
            state(SESSION, "running"),
            works(SESSION, "call", &json!({ "title": "Delegate", "content": content })),
            started(SESSION, "late", "late one", "Goes on"),
            works(SESSION, "call", &json!({ "title": "Delegate", "status": "completed" })),
            says("late", "m", "I still work."),
        ],
        &[
            finished(SESSION, "late"),
            state("late", "idle"),
            works("late", "c", &json!({})),
            asks("late", 31, "c"),
            // The same id while it waits is refused, and another session's call of the same name is another call.
            works(SESSION, "c", &json!({ "title": "Another call of that name" })),
            asks(SESSION, 31, "c"),
            says(SESSION, "m", "All said."),
        ],
    );
    let page = &talk.page;
    go(page);
    page.wait_for("article.e-tool .head :: completed");
    page.wait_for("article.e-tool .nest-head :: at work");
    page.wait_for(".nest-body :: I still work.");
    go(page);
    page.wait_for("article.e-agent :: All said.");
    page.wait_for("[data-question] .whose :: late one (Goes on)");
    page.wait_for(".nest-head :: waiting for you");
    assert_eq!(page.count("[data-question]"), 1);
    page.wait_for("[data-question] :: Read c");
    enabled(page, "yes-31");
    page.click("[data-option=yes-31]");
    page.wait_gone("[data-question]");
    let answers = answers_to(&talk, 31);
    assert_eq!(answers.iter().filter(|answer| answer.is_string()).count(), 1, "{answers:?}");
    page.wait_for(".nest-head :: done");
    talk.all_is_well();
}

#[test]
fn a_childs_question_that_changes_is_marked_and_always_holds_for_the_child_alone() {
    let input = |path: &str| json!({ "rawInput": { "path": path } });
    let again = |session: &str, number: u64| {
        let call = format!("c-{number}");
        let same = json!({ "title": "Read it", "rawInput": { "path": "/w/same" } });
        [works(session, &call, &same), asks_same(session, number, &call)]
    };
    let mut first = vec![
        state(SESSION, "running"),
        started(SESSION, "a", "first", "one"),
        started(SESSION, "b", "second", "two"),
        works("a", "c", &input("/w/harmless")),
        asks("a", 41, "c"),
    ];
    let mut then = vec![works("a", "c", &input("/home/me/.ssh/authorized_keys"))];
    then.extend(again("a", 42));
    first.extend([says(SESSION, "m", "Asked.")]);
    let talk = before(&first, &then);
    let page = &talk.page;
    go(page);
    enabled(page, "yes-41");
    let old = page.eval("document.querySelector('[data-question]').dataset.revision");
    go(page);
    page.wait_for("[data-question] .is-changed :: authorized_keys");
    page.wait_for("[data-question] .changed-note");
    // An answer to what it was is refused.
    let refused = page.eval(&format!(
        "new Promise(resolve => {{
            const socket = new WebSocket(`ws://${{location.host}}/in/socket`, ['switchboard', `key-${{localStorage.getItem('switchboard-key')}}`]);
            socket.onopen = () => socket.send(JSON.stringify({{ type: 'look', recording: location.pathname.split('/')[2], session: null }}));
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
                if (message.type === 'frame' && message.live) socket.send(JSON.stringify({{ type: 'choose', id: '41', option: 'yes-41', revision: {old}, number: 1 }}));
                else if (message.type === 'frame') socket.send(JSON.stringify({{ type: 'shown' }}));
                if (message.number === 1) resolve(message.reason ?? 'taken');
            }};
        }})"
    ));
    assert!(refused.as_str().unwrap().contains("has changed since it was read"), "{refused}");
    enabled(page, "no-41");
    page.click("[data-option=no-41]");
    page.wait_gone("[data-question] :: number 41");
    page.wait_for("[data-question] :: The same?");
    page.wait_until("find('[data-option=always]:not(:disabled)').length === 1");
    page.click("[data-option=always]");
    page.wait_gone("[data-question]");
    assert_eq!(answers_to(&talk, 42), ["always"]);
    page.click("#settings > summary");
    page.click("[data-action=choices]");
    page.wait_for("dialog :: in the session a");
    talk.all_is_well();
}

/// A question that is the same each time but for its number.
fn asks_same(session: &str, number: u64, call: &str) -> Value {
    let option = |name: &str, kind: &str| json!({ "optionId": name, "name": name, "kind": kind });
    let mut question = asks(session, number, call);
    question["params"]["title"] = "The same?".into();
    question["params"]["options"] = json!([option("always", "allow_always"), option("never", "reject_once")]);
    question
}

#[test]
fn markup_in_what_is_told_of_them_is_text_on_every_screen() {
    let plan = |plan: Value| update_of(SESSION, &json!({ "sessionUpdate": "plan_update", "plan": plan }));
    let message = |id: &str, from: &str, to: &str| {
        let content = json!([{ "type": "text", "text": format!("{MARKUP} **said**") }]);
        update_of(
            SESSION,
            &json!({ "sessionUpdate": "session_message", "messageId": id, "senderSessionId": from,
                "recipientSessionId": to, "content": content }),
        )
    };
    let odd = format!("odd/{MARKUP}?#%2e");
    let usage = json!({ "totalTokens": 4321, "inputTokens": 4000, "outputTokens": 321, "thoughtTokens": 20 });
    let talk = before(
        &[
            started(SESSION, &odd, MARKUP, &format!("{MARKUP}\n{}", "word ".repeat(300))),
            told(SESSION, &odd, &json!({ "capabilities": { "cancel": {} } })),
            says(&odd, "m", &format!("{MARKUP} *inside*")),
            works(&odd, "c", &json!({ "title": MARKUP })),
            asks(&odd, 51, "c"),
            message("m-1", SESSION, &odd),
            message("m-2", &odd, SESSION),
            message("m-3", "elsewhere", &odd),
            plan(
                json!({ "type": "markdown", "planId": "one", "content": format!("# Plan\n\n- {MARKUP}\n- [go](javascript:alert(1))") }),
            ),
            plan(json!({ "type": "file", "planId": "two", "uri": "file:///w/PLAN.md" })),
            update_of(SESSION, &json!({ "sessionUpdate": "state_update", "state": "idle", "usage": usage })),
        ],
        &[
            update_of(SESSION, &json!({ "sessionUpdate": "plan_removed", "planId": "one" })),
            update_of(SESSION, &json!({ "sessionUpdate": "plan_removed", "planId": "two" })),
        ],
    );
    let page = &talk.page;
    go(page);
    page.wait_for(".nest-head :: <b>bold</b>");
    page.wait_for("article.e-between :: To sub-agent");
    page.wait_for("article.e-between :: From sub-agent");
    page.wait_for("[data-question] .whose :: <b>bold</b>");
    page.wait_for("#usage :: last turn 4,321");
    page.click("#plan-box > summary");
    page.wait_for("#plans .md :: <img src=x");
    page.wait_for("#plans :: The plan is in file:///w/PLAN.md");
    for (width, height) in [(360, 740), (768, 1024), (1280, 800)] {
        page.resize(width, height);
        nothing_is_clipped(page, width);
        page.screenshot(&format!("subagents-odd-{width}"));
    }
    // An id that is no part of an address by itself leads to its session all the same.
    page.click(".nest .by-itself a");
    page.wait_for("#transcript > article.e-agent :: inside");
    page.wait_for("#path :: scripted");
    page.wait_for("#path button :: Cancel");
    nothing_is_clipped(page, 1280);
    page.reload();
    page.wait_for("#transcript > article.e-agent :: inside");
    page.eval("history.back()");
    page.wait_for("#plan-box");
    assert_eq!(page.eval("document.querySelectorAll('#talk img, #talk b').length"), 0);
    go(page);
    page.wait_gone("#plan-box");
    talk.all_is_well();
}

#[test]
fn they_are_folded_and_opened_by_keyboard_and_named_for_the_ear() {
    let talk = before(
        &[
            state(SESSION, "running"),
            started(SESSION, "a", "first", "one"),
            says("a", "m", "I work."),
            started(SESSION, "b", "second", "two"),
        ],
        &[],
    );
    let page = &talk.page;
    go(page);
    page.wait_for(".nest-body :: I work.");
    page.eval("document.querySelector('.nest-fold').focus()");
    page.press("Enter");
    page.wait_gone(".nest-body :: I work.");
    assert_eq!(page.eval("document.activeElement.getAttribute('aria-expanded')"), "false");
    page.press("Space");
    page.wait_for(".nest-body :: I work.");
    page.press("Tab");
    assert_eq!(page.eval("document.activeElement.textContent"), "↗Open by itself");
    page.press("Enter");
    page.wait_for("#path a :: scripted");
    // J and K go from entry to entry, not into those inside.
    page.click("#path a");
    page.wait_for("#transcript > article.e-sub");
    page.eval("document.querySelector('#e0').focus()");
    page.wait_until("document.activeElement.id === 'e0'");
    page.press("j");
    page.wait_until("document.activeElement.id === 'e1'");
    let named = page.eval(
        "[...document.querySelectorAll('.nest, #path, #menu > summary')].map(it => it.getAttribute('aria-label'))",
    );
    assert!(
        named.as_array().unwrap().iter().all(|name| !name.as_str().unwrap_or_default().is_empty()),
        "{named}"
    );
    talk.all_is_well();
}
