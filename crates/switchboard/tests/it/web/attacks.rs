//! Everything that must not work.

use serde_json::{Value, json};
use switchboard_browser::{Browser, serve};

use super::hostile;
use super::opened::Opened;
use super::scripted_agent::{SESSION, scripted_agent, update};
use super::talk::Talk;
use crate::agent_program::Place;

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// The header's value, if it is there.
fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// The cookie that the link gives.
fn cookie(opened: &Opened) -> String {
    let path = format!("GET /?token={} HTTP/1.1", opened.token());
    let answer = opened.ask(&[&path, &format!("host: {}", opened.host()), "connection: close"]);
    assert_eq!(status(&answer), 303, "{answer}");
    let cookie = header(&answer, "set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!header(&answer, "location").unwrap().contains("token"), "{answer}");
    format!("cookie: {}", cookie.split(';').next().unwrap())
}

#[test]
fn nobody_comes_in_without_the_token() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let host = format!("host: {}", opened.host());
    let token = opened.token();
    let almost = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    for path in [
        "/".to_owned(),
        "/?token=".to_owned(),
        format!("/?token={almost}"),
        format!("/?token={token}0"),
        format!("/?other={token}"),
        "/socket".to_owned(),
    ] {
        let answer = opened.ask(&[&format!("GET {path} HTTP/1.1"), &host, "connection: close"]);
        assert_eq!(status(&answer), 403, "{path}: {answer}");
        assert!(!answer.contains("set-cookie"), "{path}: {answer}");
    }
    let name = cookie(&opened).split('=').next().unwrap().to_owned();
    let wrong = format!("{name}={almost}");
    assert_eq!(status(&opened.ask(&["GET / HTTP/1.1", &host, &wrong, "connection: close"])), 403);
}

#[test]
fn other_names_and_other_origins_are_refused() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let (cookie, host) = (cookie(&opened), format!("host: {}", opened.host()));
    let port = opened.host().split(':').nth(1).unwrap();
    let get = |more: &[&str]| {
        let lines = [&["GET / HTTP/1.1", &*cookie, "connection: close"], more].concat();
        status(&opened.ask(&lines))
    };
    assert_eq!(get(&[&host]), 200);
    // A domain that was bent to this machine.
    assert_eq!(get(&[&format!("host: elsewhere.invalid:{port}")]), 403);
    assert_eq!(get(&["host: 127.0.0.1:1"]), 403);
    for origin in ["http://elsewhere.invalid", "http://127.0.0.1:1", "https://127.0.0.1", "null"] {
        assert_eq!(get(&[&host, &format!("origin: {origin}")]), 403, "{origin}");
    }
    let upgrade = |more: &[&str]| {
        let lines = [
            &[
                "GET /socket HTTP/1.1",
                &*host,
                "connection: upgrade",
                "upgrade: websocket",
                "sec-websocket-version: 13",
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
            ],
            more,
        ]
        .concat();
        status(&opened.ask(&lines))
    };
    let own = format!("origin: http://{}", opened.host());
    assert_eq!(upgrade(&[&cookie, &own]), 101);
    assert_eq!(upgrade(&[&own]), 403);
    assert_eq!(upgrade(&[&cookie]), 403);
    for origin in ["http://elsewhere.invalid", "http://127.0.0.1:1", "null"] {
        assert_eq!(upgrade(&[&cookie, &format!("origin: {origin}")]), 403, "{origin}");
    }
}

#[test]
fn every_answer_keeps_the_page_to_itself() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let (cookie, host) = (cookie(&opened), format!("host: {}", opened.host()));
    for (path, cookie) in [("/", &*cookie), ("/no-such-thing", &cookie), ("/", "x: y")] {
        let answer = opened.ask(&[&format!("GET {path} HTTP/1.1"), &host, cookie, "connection: close"]);
        let policy = header(&answer, "content-security-policy").unwrap_or_default();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(directive), "{directive}: {answer}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(header(&answer, "x-content-type-options"), Some("nosniff"), "{answer}");
        assert_eq!(header(&answer, "referrer-policy"), Some("no-referrer"), "{answer}");
        assert_eq!(header(&answer, "cross-origin-resource-policy"), Some("same-origin"), "{answer}");
        assert_eq!(header(&answer, "access-control-allow-origin"), None, "{answer}");
    }
}

#[test]
fn paths_do_not_lead_to_the_disk() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let (cookie, host) = (cookie(&opened), format!("host: {}", opened.host()));
    let up = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..%c0%af", ".%00./", "....//"];
    let mut paths: Vec<String> =
        ["/etc/passwd", "//etc/passwd", "/%2fetc/passwd", "/file:///etc/passwd"].map(str::to_owned).into();
    for root in ["/", "/assets/", "/r/"] {
        paths.extend(up.iter().map(|up| format!("{root}{}etc/passwd", up.repeat(12))));
    }
    for path in paths {
        let answer = opened.ask(&[&format!("GET {path} HTTP/1.1"), &host, &cookie, "connection: close"]);
        assert!(!answer.contains("root:"), "{path}: {answer}");
        assert!(
            (400..500).contains(&status(&answer)) || answer.contains("<!DOCTYPE html"),
            "{path}: {answer}"
        );
    }
}

#[test]
fn only_loopback_listens() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let port: u16 = opened.host().split(':').nth(1).unwrap().parse().unwrap();
    let listening: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned))
        .filter(|address| address.ends_with(&format!(":{port:04X}")))
        .collect();
    assert_eq!(listening, [format!("0100007F:{port:04X}")]);
}

#[test]
fn another_site_in_the_same_browser_gets_nothing() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let visitor = Browser::shared().visitor();
    let own = visitor.open(&opened.link);
    own.wait_until("document.title !== ''");
    // Another port of the same machine: a browser sends the cookie along even so.
    let other = visitor.open(&serve("<!doctype html><title>Elsewhere</title><body>"));
    let base = format!("http://{}", opened.host());
    let socket = format!("ws://{}/socket", opened.host());
    let script = format!(
        "Promise.all([
            fetch({0}, {{ credentials: 'include' }}).then(answer => answer.text(), () => 'refused'),
            fetch({0}, {{ method: 'POST', credentials: 'include' }}).then(answer => answer.text(), () => 'refused'),
            new Promise(resolve => {{
                const socket = new WebSocket({1});
                socket.onopen = () => resolve('open');
                socket.onerror = () => resolve('refused');
            }}),
            new Promise(resolve => {{
                const frame = document.createElement('iframe');
                frame.src = {0};
                frame.onload = () => {{
                    try {{ resolve(frame.contentDocument.body.innerText || 'refused'); }} catch {{ resolve('refused'); }}
                }};
                document.body.append(frame);
            }}),
            new Promise(resolve => {{
                const script = document.createElement('script');
                script.src = {0} + '/assets/page.js';
                script.onload = () => resolve('loaded');
                script.onerror = () => resolve('refused');
                document.body.append(script);
            }}),
        ])",
        json!(base),
        json!(socket),
    );
    assert_eq!(other.eval(&script), json!(["refused", "refused", "refused", "refused", "refused"]));
    assert_eq!(own.complaints(), [""; 0]);
}

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
    page.wait_for("#notices :: notice");
    page.wait_for("article.e-tool");
    page.screenshot("hostile");
    is_harmless(&talk);
    // Nor does it push away what the user needs.
    let send = page.eval("(box => [box.left, box.top, innerWidth - box.right, innerHeight - box.bottom])(find('#send')[0].getBoundingClientRect())");
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
            const socket = new WebSocket(`ws://${{location.host}}/socket`);
            const answers = [];
            socket.onopen = () => paths.forEach((path, place) =>
                socket.send(JSON.stringify({{ type: 'file', session: {}, path, number: place + 1 }})));
            socket.onmessage = event => {{
                const message = JSON.parse(event.data);
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
        json!({ "type": "earlier", "position": u64::MAX, "before": u64::MAX, "number": 6 }),
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
            const socket = new WebSocket(`ws://${{location.host}}/socket`);
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
