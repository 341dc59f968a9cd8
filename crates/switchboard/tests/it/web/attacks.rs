//! What an agent or a tab may send without harm.

use serde_json::{Value, json};

use super::hostile;
use super::scripted_agent::{SESSION, scripted_agent, update};
use super::talk::Talk;
use crate::agent_program::Place;

/// A socket of its own, for messages that the page itself would never send.
const SOCKET: &str = "new WebSocket(`ws://${location.host}/in/socket`, ['switchboard', `key-${localStorage.getItem('switchboard-key')}`])";

/// Opens everything that can be opened, and clicks on every link.
const OPEN_AND_CLICK: &str = "(async () => {
    document.querySelectorAll('details').forEach(it => { it.open = true; });
    for (const link of document.querySelectorAll('article a, #questions a, dialog a, #plans a')) {
        link.removeAttribute('target');
        link.addEventListener('click', event => event.preventDefault(), { once: true });
        link.click();
    }
    await new Promise(requestAnimationFrame);
})()";

/// What must never be in the page, whatever an agent sends.
const DANGEROUS: &str = "[...document.querySelectorAll('body *')].filter(element =>
    element.matches('script, iframe, object, embed, link, style, base, meta, form:not([id], [data-elicitation], [method=dialog])')
    || [...element.attributes].some(attribute => attribute.name.startsWith('on') || attribute.name === 'style' && element.closest('article'))
    || element.matches('a[href]') && !/^(https?:|mailto:|#)/.test(element.getAttribute('href'))
    || element.matches('img, audio, video, source') && !/^data:(image\\/(png|jpeg|gif|webp)|audio\\/)/.test(element.getAttribute('src'))
).map(element => element.outerHTML.slice(0, 300))";

fn is_harmless(talk: &Talk) {
    talk.page.eval(OPEN_AND_CLICK);
    assert_eq!(talk.page.eval(DANGEROUS), json!([]));
    assert_eq!(talk.page.eval("globalThis.attacked ?? null"), Value::Null);
    talk.all_is_well();
    assert!(talk.page.requests().iter().all(|request| !request.url.contains(hostile::ELSEWHERE)));
}

#[test]
fn whatever_an_agent_sends_stays_text() {
    let place = Place::new();
    let agent = scripted_agent(&place.work(), &json!({}), &hostile::opened(), &hostile::lines());
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.resize(1600, 1200);
    page.type_into("#prompt", "/");
    page.wait_for("#completions");
    page.screenshot("hostile-completion");
    is_harmless(&talk);
    page.press("Escape");
    page.press("Backspace");
    page.type_text(&hostile::payload("prompt"));
    page.press("Enter");
    page.wait_for(".notice :: notice");
    page.wait_for("article.e-tool");
    page.screenshot("hostile");
    is_harmless(&talk);
    // Nor does it push away what the user needs.
    let send = page.eval("(box => [box.left, box.top, innerWidth - box.right, innerHeight - box.bottom])(find('#send, #cancel')[0].getBoundingClientRect())");
    assert!(send.as_array().unwrap().iter().all(|distance| distance.as_f64() >= Some(0.0)), "{send}");
    // Every entry in turn, in case not all are in the page.
    for position in 0..page
        .eval("Math.max(...[...document.querySelectorAll('article')].map(it => +it.dataset.position))")
        .as_u64()
        .unwrap()
    {
        page.eval(&format!("location.hash = 'e{position}'"));
        page.wait_until(&format!("document.querySelector('#e{position}')"));
        is_harmless(&talk);
    }
    page.click("#show-inspector");
    page.wait_for("#wire-rows [data-row]");
    let rows = page.eval("Number(document.querySelector('#slider').max)").as_u64().unwrap();
    for row in 0..rows {
        page.eval(&format!("location.hash = 'm{row}'"));
        page.wait_until(&format!("document.querySelector('#detail').dataset.row === '{row}'"));
        is_harmless(&talk);
    }
    page.screenshot("hostile-inspector");
    page.press("Alt+s");
    page.wait_for("#session-list h3");
    is_harmless(&talk);
}

#[test]
fn hidden_characters_in_a_permission_are_made_visible() {
    let place = Place::new();
    let command = "rm -rf ./\u{202e}dliub\u{202c}\u{200b} # \u{2066}safe\u{2069}\u{a0}\u{1b}[2K";
    let ask = json!({
        "jsonrpc": "2.0", "id": 1, "method": "session/request_permission",
        "params": {
            "sessionId": SESSION, "title": "Clean up\u{202e}?", "description": hostile::payload("description"),
            "subject": { "type": "command", "command": command, "cwd": "/tmp/\u{202e}x" },
            "options": [
                { "optionId": "a", "name": "Allow \u{202e}once", "kind": "allow_once" },
                { "optionId": hostile::payload("option"), "name": hostile::payload("name"), "kind": hostile::payload("kind") },
            ],
        },
    });
    let running = update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[running, ask]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.type_into("#prompt", "go");
    page.press("Enter");
    page.wait_for("[data-question] .cmd");
    let shown = page.text("[data-question]");
    for hidden in ['\u{202e}', '\u{202c}', '\u{200b}', '\u{2066}', '\u{2069}', '\u{a0}', '\u{1b}'] {
        assert!(!shown.contains(hidden), "{hidden:?} in {shown}");
        if hidden != '\u{1b}' {
            assert!(shown.contains(&format!("U+{:04X}", u32::from(hidden))), "{hidden:?} in {shown}");
        }
    }
    page.screenshot("hostile-permission");
    is_harmless(&talk);
}

#[test]
fn only_files_that_a_session_names_in_its_folder_are_shown() {
    let place = Place::new();
    place.write("work/named.txt", "this one is named");
    place.write("work/other.txt", "this one is not");
    place.write("secret.txt", "outside");
    std::os::unix::fs::symlink("../secret.txt", place.work().join("link.txt")).unwrap();
    let path = |name: &str| place.work().join(name).to_str().unwrap().to_owned();
    let named = ["named.txt", "link.txt", "../secret.txt"].map(path);
    let mut locations: Vec<Value> = named.iter().map(|path| json!({ "path": path })).collect();
    locations.push(json!({ "path": "/etc/passwd" }));
    let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read", "locations": locations });
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[update(call)]);
    let other = path("other.txt");
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.type_into("#prompt", "go");
    page.press("Enter");
    page.wait_for("article.e-tool");
    // What the page itself would never send.
    let script = format!(
        "new Promise(resolve => {{
            const paths = {};
            const socket = {SOCKET};
            const answers = [];
            const ask = () => paths.forEach((path, place) =>
                socket.send(JSON.stringify({{ type: 'file', session: {}, path, number: place + 1 }})));
            let isAsked = false;
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
                // Files are read in a session that the tab is attached to.
                if (message.type === 'frame') socket.send(JSON.stringify({{ type: 'shown' }}));
                if (message.live && !isAsked) {{ isAsked = true; ask(); }}
                if (message.number) answers[message.number - 1] = message.type === 'answer' ? message.value : 'refused';
                if (answers.filter(Boolean).length === paths.length) resolve(answers);
            }};
        }})",
        json!([named[0], named[1], named[2], "/etc/passwd", other, format!("{}/../work/other.txt", named[0])]),
        json!(SESSION),
    );
    let answers = page.eval(&script);
    assert!(answers[0].as_str().unwrap().contains("this one is named"), "{answers}");
    for place in 1..6 {
        assert_eq!(answers[place], "refused", "{answers}");
    }
    talk.all_is_well();
}

/// Numbers that are too large, too small, or none.
fn extremes() -> Vec<Value> {
    let large = [1 << 31, 1 << 32, 1 << 53, 99_999_999_999, u64::MAX - 1, u64::MAX].map(Value::from);
    let odd = [
        json!(-1),
        json!(i64::MIN),
        json!(0.5),
        json!(1e308),
        json!("7"),
        json!(null),
        json!([]),
        json!(0),
        json!(1),
    ];
    large.into_iter().chain(odd).collect()
}

/// Every message that has a number, with every extreme in its place.
fn extreme_messages() -> Vec<Value> {
    let templates = [
        json!({ "type": "at", "rows": "N" }),
        json!({ "type": "window", "from": "N", "to": "N" }),
        json!({ "type": "window", "from": 0, "to": "N" }),
        json!({ "type": "earlier", "session": "demo-1", "position": "N", "before": 1 }),
        json!({ "type": "earlier", "session": "demo-1", "position": 0, "before": "N" }),
        json!({ "type": "wire", "window": ["N", "N"], "follows": false }),
        json!({ "type": "wire", "window": [0, "N"], "follows": true }),
        json!({ "type": "wire", "window": ["N", 0], "follows": true }),
        json!({ "type": "wire", "window": [0, 10], "filter": { "entry": "N" } }),
        json!({ "type": "wire", "window": [0, "N"], "filter": { "text": "e", "entry": "N" } }),
        json!({ "type": "wire", "window": [0, 10], "filter": { "entry": "N", "entry_session": "nobody" } }),
        json!({ "type": "message", "row": "N" }),
        json!({ "type": "messages-of", "session": "demo-1", "position": "N" }),
        json!({ "type": "find", "row": "N" }),
        json!({ "type": "file", "session": "demo-1", "path": "/", "line": "N" }),
        json!({ "type": "withdraw", "place": "N", "since": 0 }),
        json!({ "type": "withdraw", "place": 0, "since": "N" }),
        json!({ "type": "choices", "number": "N" }),
    ];
    let fill = |template: &Value, number: &Value| -> Value {
        let text = template.to_string().replace("\"N\"", &number.to_string());
        serde_json::from_str(&text).unwrap()
    };
    templates
        .iter()
        .flat_map(|template| extremes().iter().map(|number| fill(template, number)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn no_number_of_a_tab_is_too_large_for_the_server() {
    let talk = Talk::with_demo();
    talk.ask("hello");
    // One after the other, each with a frame after it: what is asked for is then also drawn.
    let script = format!(
        "new Promise((resolve, reject) => {{
            const messages = {};
            const socket = {SOCKET};
            const send = it => socket.send(JSON.stringify(it));
            let isBegun = false;
            const next = () => {{
                const message = messages.shift();
                if (message === undefined) return resolve('still there');
                send({{ number: 7, ...message }});
                send({{ type: 'choices', number: 99 }});
            }};
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
                if (message.type === 'frame') {{
                    send({{ type: 'shown' }});
                    if (!isBegun && message.rows > 0) {{ isBegun = true; next(); }}
                }}
                if (message.number === 99) next();
            }};
            socket.onclose = () => resolve(`closed before ${{JSON.stringify(messages[0])}}`);
        }})",
        json!(extreme_messages())
    );
    assert_eq!(talk.page.eval(&script), "still there");
    // Links are numbers from outside too.
    for hash in
        ["#e99999999999", "#m99999999999", "#e1e308", "#m18446744073709551616", "#e99999999999999999999999"]
    {
        talk.page.eval(&format!("location.hash = {}", json!(hash)));
    }
    talk.page.eval("location.hash = ''");
    talk.ask("hello");
    talk.page.wait_for("article.e-agent :: Hello!");
    assert_eq!(talk.page.count("#toasts p"), 0);
    talk.all_is_well();
}

#[test]
fn a_tab_that_talks_nonsense_harms_nobody() {
    let talk = Talk::with_demo();
    let nonsense = [
        json!("no request"),
        json!([]),
        json!({ "type": "no-such-request", "number": 1 }),
        json!({ "type": "window", "from": u64::MAX, "to": u64::MAX, "number": 2 }),
        json!({ "type": "window", "from": -1, "to": "x", "number": 3 }),
        json!({ "type": "at", "rows": u64::MAX, "number": 4 }),
        json!({ "type": "message", "row": u64::MAX, "number": 5 }),
        json!({ "type": "earlier", "session": "demo-1", "position": u64::MAX, "before": u64::MAX, "number": 6 }),
        json!({ "type": "wire", "window": [u64::MAX, 0], "filter": { "entry": u64::MAX, "text": "x" }, "number": 7 }),
        json!({ "type": "look", "recording": "../../etc/passwd", "number": 8 }),
        json!({ "type": "choose", "id": "1", "option": "yes", "number": 9 }),
        json!({ "type": "prompt", "session": "of somebody else", "text": "hello", "number": 10 }),
        json!({ "type": "new", "folder": "/no/such/folder", "number": 11 }),
        json!({ "type": "withdraw", "place": u64::MAX, "since": 0, "number": 12 }),
        json!({ "type": "configure", "session": "demo-1", "id": "mood", "value": { "deep": [] }, "number": 13 }),
    ];
    let script = format!(
        "new Promise(resolve => {{
            const nonsense = {};
            const socket = {SOCKET};
            socket.onopen = () => {{
                socket.send('{{');
                socket.send(new Uint8Array([0, 255]));
                nonsense.forEach(it => socket.send(JSON.stringify(it)));
                socket.send(JSON.stringify({{ type: 'choices', number: 99 }}));
            }};
            socket.onmessage = event => JSON.parse(event.data).number === 99 && resolve('still there');
            socket.onclose = () => resolve('closed');
        }})",
        json!(nonsense)
    );
    assert_eq!(talk.page.eval(&script), "still there");
    talk.ask("hello");
    talk.page.wait_for("article.e-agent :: Hello!");
    talk.all_is_well();
}
