//! Who may come in: by which links, from where, and with what.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use switchboard_browser::{Browser, serve};

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

/// What a browser has that was let in: the lines of its cookie and of its other half of the key.
struct Key {
    cookie: String,
    page: String,
    protocol: String,
}

/// Comes in by a code.
fn enter(opened: &Opened, code: &str) -> String {
    let (host, origin) = (format!("host: {}", opened.host()), format!("origin: http://{}", opened.host()));
    let code = format!("x-switchboard-code: {code}");
    opened.ask(&["POST /in/enter HTTP/1.1", &host, &origin, &code, "content-length: 0", "connection: close"])
}

fn key(opened: &Opened) -> Key {
    let answer = enter(opened, opened.code());
    assert_eq!(status(&answer), 200, "{answer}");
    let cookie = header(&answer, "set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/in"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let page = answer.split("\r\n\r\n").nth(1).unwrap();
    assert!(page.len() == 32 && !cookie.contains(page), "{answer}");
    Key {
        cookie: format!("cookie: {}", cookie.split(';').next().unwrap()),
        page: format!("x-switchboard-key: {page}"),
        protocol: format!("sec-websocket-protocol: switchboard, key-{page}"),
    }
}

/// A line without its last character.
fn almost(line: &str) -> String {
    format!("{}{}", &line[..line.len() - 1], if line.ends_with('0') { '1' } else { '0' })
}

#[test]
fn nobody_comes_in_without_a_code_and_each_lets_in_once() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    for wrong in ["", &almost(opened.code()), &format!("{}0", opened.code())] {
        let answer = enter(&opened, wrong);
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(!answer.contains("set-cookie") && answer.contains("not one of this launch"), "{answer}");
    }
    let key = key(&opened);
    let again = enter(&opened, opened.code());
    assert_eq!(status(&again), 403, "{again}");
    assert!(!again.contains("set-cookie") && again.contains("used already"), "{again}");
    let host = format!("host: {}", opened.host());
    let known = |lines: &[&str]| {
        status(&opened.ask(&[&["GET /in/known HTTP/1.1", &*host, "connection: close"], lines].concat()))
    };
    assert_eq!(known(&[&key.cookie, &key.page]), 204);
    assert_eq!(known(&[]), 403);
    assert_eq!(known(&[&key.cookie]), 403);
    assert_eq!(known(&[&key.page]), 403);
    assert_eq!(known(&[&almost(&key.cookie), &key.page]), 403);
    assert_eq!(known(&[&key.cookie, &almost(&key.page)]), 403);
    // The page is the same for everybody.
    let page =
        |lines: &[&str]| opened.ask(&[&["GET / HTTP/1.1", &*host, "connection: close"], lines].concat());
    let body = |answer: String| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(page(&[])), body(page(&[&key.cookie, &key.page])));
    assert!(!page(&[]).contains(place.work().to_str().unwrap()));
}

#[test]
fn other_names_and_other_origins_are_refused() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let (key, host) = (key(&opened), format!("host: {}", opened.host()));
    let port = opened.host().split(':').nth(1).unwrap();
    let get = |path: &str, more: &[&str]| {
        let first = format!("GET {path} HTTP/1.1");
        let lines = [&[&*first, &*key.cookie, &*key.page, "connection: close"], more].concat();
        status(&opened.ask(&lines))
    };
    for (path, fine) in [("/", 200), ("/in/known", 204)] {
        assert_eq!(get(path, &[&host]), fine);
        // A domain that was bent to this machine.
        assert_eq!(get(path, &[&format!("host: elsewhere.invalid:{port}")]), 403);
        assert_eq!(get(path, &["host: 127.0.0.1:1"]), 403);
        assert_eq!(get(path, &[]), 403);
        for origin in ["http://elsewhere.invalid", "http://127.0.0.1:1", "https://127.0.0.1", "null"] {
            assert_eq!(get(path, &[&host, &format!("origin: {origin}")]), 403, "{origin}");
        }
    }
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(get("/in/known", &[&host, &format!("sec-fetch-site: {site}")]), 403, "{site}");
    }
    let upgrade = |more: &[&str]| status(&upgrade(&opened, more));
    let own = format!("origin: http://{}", opened.host());
    assert_eq!(upgrade(&[&key.cookie, &key.protocol, &own]), 101);
    assert_eq!(upgrade(&[&own]), 403);
    assert_eq!(upgrade(&[&key.cookie, &own]), 403);
    assert_eq!(upgrade(&[&key.protocol, &own]), 403);
    assert_eq!(upgrade(&[&key.cookie, &almost(&key.protocol), &own]), 403);
    assert_eq!(upgrade(&[&key.cookie, &key.protocol]), 403);
    for origin in ["http://elsewhere.invalid", "http://127.0.0.1:1", "null"] {
        let origin = format!("origin: {origin}");
        assert_eq!(upgrade(&[&key.cookie, &key.protocol, &origin]), 403, "{origin}");
    }
}

/// Asks for a socket.
fn upgrade(opened: &Opened, more: &[&str]) -> String {
    let host = format!("host: {}", opened.host());
    let lines = [
        "GET /in/socket HTTP/1.1",
        &host,
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    opened.ask(&[&lines, more].concat())
}

/// Another server of this machine, which writes down what is asked of it.
fn collecting_server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = sync_channel(100);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
            let _ = sender.try_send(head);
            let body = "<!doctype html><title>Elsewhere</title>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (address, receiver)
}

#[test]
fn the_cookie_that_another_server_of_this_machine_gets_opens_nothing() {
    let (elsewhere, collected) = collecting_server();
    let place = Place::new();
    let link = format!("[look](http://{elsewhere}/in/socket)");
    let said = update(json!({
        "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": link }],
    }));
    let ask = json!({
        "jsonrpc": "2.0", "id": 1, "method": "session/request_permission",
        "params": {
            "sessionId": SESSION, "title": "Question?",
            "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
        },
    });
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[said, ask]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.type_into("#prompt", "go");
    page.press("Enter");
    page.wait_until("find('[data-option=yes]:not(:disabled)').length === 1");
    page.click("article.e-agent a :: look");
    let head = collected.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(head.starts_with("GET /in/socket "), "{head}");
    // A browser does send it, but nothing tells where it comes from or what is asked there.
    assert!(!head.to_lowercase().contains("referer:"), "{head}");
    let line =
        |name: &str| head.lines().find(|line| line.to_lowercase().starts_with(name)).map(str::to_owned);
    let cookie = line("cookie:").expect("cookies know no ports");
    assert!(cookie.contains("switchboard-"), "{cookie}");
    // With that, neither is anything read nor answered, whatever else is made up.
    let (host, own) =
        (format!("host: {}", talk.opened.host()), format!("origin: http://{}", talk.opened.host()));
    let value = cookie.split_once('=').unwrap().1.trim().to_owned();
    for other in [
        "x: y".to_owned(),
        "sec-websocket-protocol: switchboard".to_owned(),
        format!("sec-websocket-protocol: switchboard, key-{value}"),
        "sec-websocket-protocol: switchboard, key-".to_owned(),
    ] {
        let answer = upgrade(&talk.opened, &[&cookie, &other, &own]);
        assert_eq!(status(&answer), 403, "{other}: {answer}");
    }
    let key = format!("x-switchboard-key: {value}");
    for path in ["/in/known", "/in/socket", "/in/", "/in"] {
        let first = format!("GET {path} HTTP/1.1");
        let answer = talk.opened.ask(&[&first, &host, &own, &cookie, &key, "connection: close"]);
        assert_eq!(status(&answer), 403, "{path}: {answer}");
    }
    // The browser that has both halves still answers.
    page.click("[data-option=yes]");
    page.wait_for("article.e-agent :: given yes,");
}

#[test]
fn a_link_works_in_one_browser_and_another_is_had_from_the_page() {
    let talk = Talk::with_demo();
    talk.ask("hello");
    // A reload, and another tab, need no new link.
    talk.page.reload();
    talk.page.wait_for("article.e-agent :: Hello!");
    let tab = talk.visitor.open(&talk.opened.link);
    tab.wait_for("article.e-agent :: Hello!");
    assert_eq!(tab.eval("location.hash"), "");
    // Nothing of it is in the address, which is what a history shows.
    assert_eq!(talk.page.eval("location.href.includes('code')"), false);

    let stranger = Browser::shared().visitor();
    let page = stranger.open(&talk.opened.link);
    page.wait_for("#door :: used already");
    page.wait_for("#door :: Press Enter in the terminal");
    page.screenshot("door-used");
    assert_eq!(page.count("#prompt"), 0);
    let page = stranger.open(&format!("http://{}/", talk.opened.host()));
    page.wait_for("#door :: no key of this launch");

    talk.page.click("#settings > summary");
    talk.page.click("[data-action=link]");
    talk.page.wait_for("dialog :: once and within a minute");
    talk.page.screenshot("another-browser");
    let link = talk.page.text("#new-link");
    // The tab is at the same address already: only what stands behind the `#` is new.
    page.eval(&format!("location.href = {}", json!(link)));
    page.wait_for("article.e-agent :: Hello!");
    assert_eq!(page.count("#door"), 0);
    talk.all_is_well();
}

#[test]
fn enter_prints_another_link() {
    let place = Place::new();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let mut command = place.command(&["open", "--no-browser"]);
    command.stdin(OpenOptions::new().read(true).write(true).open(path).unwrap());
    let opened = Opened::run(command);
    assert_eq!(status(&enter(&opened, opened.code())), 200);
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(b"\n").unwrap();
    let another = opened.next_link();
    assert_ne!(another, opened.link);
    assert_eq!(status(&enter(&opened, another.split_once("#code=").unwrap().1)), 200);
}

#[test]
fn the_desktop_is_given_a_link_of_its_own_that_works_once() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write(
        "bin/xdg-open",
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$OPENED_LINK.new\"; mv \"$OPENED_LINK.new\" \"$OPENED_LINK\"\n",
    );
    let tools = place.home().parent().unwrap().join("bin");
    std::fs::set_permissions(tools.join("xdg-open"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let given = place.home().join("given");
    let mut command = place.command(&["open"]);
    command
        .env("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()))
        .env("OPENED_LINK", &given)
        .env("DISPLAY", ":0");
    let opened = Opened::run(command);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !given.exists() {
        assert!(Instant::now() < deadline, "nothing was opened");
        std::thread::yield_now();
    }
    let arguments = std::fs::read_to_string(given).unwrap();
    assert!(!arguments.contains(opened.code()), "{arguments}");
    let code = arguments.trim().split_once("#code=").unwrap().1.to_owned();
    assert_eq!(status(&enter(&opened, &code)), 200);
    assert_eq!(status(&enter(&opened, &code)), 403);
    assert_eq!(status(&enter(&opened, opened.code())), 200);
}

#[test]
fn every_answer_keeps_the_page_to_itself() {
    let place = Place::new();
    let opened = Opened::start(&place, &[]);
    let (key, host) = (key(&opened), format!("host: {}", opened.host()));
    for (path, cookie) in
        [("/", &*key.cookie), ("/no-such-thing", &key.cookie), ("/in/known", "x: y"), ("/", "x: y")]
    {
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
    let (key, host) = (key(&opened), format!("host: {}", opened.host()));
    let up = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..%c0%af", ".%00./", "....//"];
    let mut paths: Vec<String> =
        ["/etc/passwd", "//etc/passwd", "/%2fetc/passwd", "/file:///etc/passwd"].map(str::to_owned).into();
    for root in ["/", "/assets/", "/r/"] {
        paths.extend(up.iter().map(|up| format!("{root}{}etc/passwd", up.repeat(12))));
    }
    for path in paths {
        let answer = opened.ask(&[
            &format!("GET {path} HTTP/1.1"),
            &host,
            &key.cookie,
            &key.page,
            "connection: close",
        ]);
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
    let socket = format!("ws://{}/in/socket", opened.host());
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
