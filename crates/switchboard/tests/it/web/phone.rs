//! A phone: paired at the terminal, notified while its page is closed, and answering in the page.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use switchboard_browser::{Browser, Page};
use switchboard_testkit::PushBrowser;

use crate::agent_program::Place;
use crate::notify::{Sink, configure};
use crate::serve::block_on;
use crate::serve::browser_clients::Socket;
use crate::serve::hub::{Client, Hub};

const PATIENCE: Duration = Duration::from_secs(60);
/// Size of a small phone.
const PHONE: (u32, u32) = (375, 667);

/// A hub on a terminal.
struct Desk {
    child: Child,
    address: String,
    token: String,
    printed: Arc<Mutex<String>>,
    /// Keeps the terminal open.
    terminal: std::fs::File,
}

impl Desk {
    fn start(place: &Place, arguments: &[&str]) -> Desk {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--store").arg(place.home().join("hub.sqlite3"));
        command.arg("--token-file").arg(place.home().join("token")).args(arguments);
        let mut child = command.stdin(side()).stderr(side()).spawn().unwrap();
        let terminal = std::fs::File::from(terminal);
        let (mut reading, printed) = (terminal.try_clone().unwrap(), Arc::new(Mutex::new(String::new())));
        let text = Arc::clone(&printed);
        // The thread ends with the terminal.
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length) = reading.read(&mut part) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(place.home().join("token")).unwrap().trim().to_owned();
        Desk { child, address, token, printed, terminal }
    }

    /// Waits until the terminal shows words, and returns everything that it shows.
    fn printed(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.printed.lock().unwrap().clone();
            if text.contains(words) {
                return text;
            }
            assert!(Instant::now() < until, "{words}: {text}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signed_in(page: &Page) {
    page.wait_until("document.body.dataset.role");
}

#[test]
fn a_phone_is_paired_notified_and_answers_and_the_notification_is_withdrawn() {
    let (place, sink) = (Place::new(), Sink::start("200 OK"));
    configure(&place, &[json!({"ntfy": format!("http://{}/topic", sink.address), "after": "0s"})]);
    let public = "https://hub.example.org";
    let desk = Desk::start(&place, &["--public-url", public, "demo"]);
    // The terminal shows the link as a QR code, and its text below.
    let printed = desk.printed("#code=");
    let start = printed.find(&format!("{public}/#code=")).expect("the public address");
    assert!(printed[..start].contains('▀') || printed[..start].contains('█'), "{printed}");
    let printed = desk.printed("Other clients need a token");
    let link = printed[start..].split_whitespace().next().unwrap();
    // What is between the public address and the hub is not part of this test.
    let here = |link: &str| link.replace(public, &format!("http://{}", desk.address));
    let phone = Browser::shared().visitor();
    let page = phone.blank_page();
    page.resize(PHONE.0, PHONE.1);
    page.visit(&here(link));
    signed_in(&page);
    assert_eq!(page.eval("location.hash"), "");
    drop(page);
    block_on(async {
        let mut client = Client::at(&desk.address, &desk.token).await.unwrap();
        client.initialize(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "permission").await;
        let posted = sink.arrival().await;
        let click = posted.body["click"].as_str().unwrap();
        assert_eq!(click, format!("{public}/r/{session}"));
        // The phone is still signed in.
        let page = answer(&phone, &here(click));
        let deleted = sink.arrival().await;
        let sequence = posted.body["sequence_id"].as_str().unwrap();
        assert_eq!(deleted.line, format!("DELETE /topic/{sequence}"));
        client.until_idle().await;
        drop(page);
    });
    assert!(sink.is_empty());
}

/// Opens the link of a notification on the phone, and allows what is asked.
fn answer(phone: &switchboard_browser::Visitor, link: &str) -> Page {
    let page = phone.blank_page();
    page.resize(PHONE.0, PHONE.1);
    page.visit(link);
    signed_in(&page);
    page.wait_for("[data-question] h3 :: config.json?");
    page.screenshot("phone-notified");
    page.click("[data-question] button :: allow once");
    page.wait_gone("[data-question]");
    assert_eq!(page.complaints(), [""; 0]);
    page
}

/// Signs a browser in with the token of the launch.
fn enter(visitor: &switchboard_browser::Visitor, hub: &Hub) -> Page {
    let page = visitor.open(&format!("http://{}/", hub.address));
    page.wait_for("#door h1");
    page.type_into("#token", &hub.token);
    page.press("Enter");
    signed_in(&page);
    page
}

#[test]
fn the_service_worker_shows_what_the_push_service_delivers() {
    let place = Place::new();
    let hub = Hub::start(&place, &["demo"]);
    let visitor = Browser::shared().visitor();
    visitor.allow_notifications(&format!("http://{}", hub.address));
    let page = enter(&visitor, &hub);
    page.eval("navigator.serviceWorker.register('/sw.js').then(() => true)");
    page.eval("navigator.serviceWorker.ready.then(() => true)");
    let shown = "navigator.serviceWorker.ready.then(it => it.getNotifications())
        .then(all => all.map(it => `${it.title}|${it.body}|${it.tag}|${it.data.path}|${it.silent}`).join())";
    let wait = |words: &str| {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = page.eval(shown);
            if text.as_str().is_some_and(|text| text.contains(words)) {
                return;
            }
            assert!(Instant::now() < until, "{words}: {text}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    };
    // What cannot be read shows something all the same, as browsers require.
    page.deliver_push("garbage");
    wait("Switchboard|");
    let message = |text: &str, resolved: bool| {
        json!({"event": "question", "title": "demo: work", "text": text, "url": "/r/1", "tag": "abc", "resolved": resolved})
            .to_string()
    };
    page.deliver_push(&message("asks to run a command", false));
    wait("demo: work|asks to run a command|abc|/r/1|false");
    // The end of the question replaces its notification.
    page.deliver_push(&message("answered by anna", true));
    wait("demo: work|answered by anna|abc|/r/1|true");
    assert!(!page.eval(shown).as_str().unwrap().contains("asks to run"));
    assert_eq!(page.complaints(), [""; 0]);
    let manifest = page.eval("fetch('/assets/switchboard.webmanifest').then(it => it.json())");
    for icon in manifest["icons"].as_array().unwrap() {
        let source = icon["src"].as_str().unwrap();
        let kind = page.eval(&format!("fetch('{source}').then(it => it.headers.get('content-type'))"));
        assert_eq!(kind, icon["type"], "{source}");
    }
}

#[test]
fn the_switch_in_the_settings_subscribes_this_browser() {
    let (place, sink) = (Place::new(), Sink::start("201 Created"));
    let service = format!("http://{}", sink.address);
    place.write(
        "home/.config/switchboard/config.json",
        &json!({"hub": {"push_services": [service]}}).to_string(),
    );
    let hub = Hub::start(&place, &["demo"]);
    let visitor = Browser::shared().visitor();
    visitor.allow_notifications(&format!("http://{}", hub.address));
    let page = enter(&visitor, &hub);
    // A browser without a push service of its own, as in tests: its part is played here.
    let browser = PushBrowser::default();
    let [p256dh, auth] = browser.keys();
    let subscription =
        json!({"endpoint": format!("{service}/phone"), "keys": {"p256dh": p256dh, "auth": auth}});
    page.eval(&format!(
        "PushManager.prototype.subscribe = async (options) => {{
            globalThis.subscribed = options;
            return {{ toJSON: () => ({subscription}) }};
        }}, true"
    ));
    page.click("#settings summary");
    page.click("#push :: Notify this browser");
    page.wait_for("#toasts :: This browser is notified.");
    assert_eq!(page.eval("document.querySelector('#push').textContent"), "Stop notifying this browser");
    let options = page.eval("[subscribed.userVisibleOnly, subscribed.applicationServerKey.length].join()");
    assert_eq!(options, "true,65");
    block_on(async {
        let mut client = hub.client(2).await;
        let session = client.new_session(&place).await;
        client.prompt(&session, "crash").await;
        let received = sink.arrival().await;
        let message: Value = serde_json::from_str(&browser.read(&received.bytes)).unwrap();
        assert_eq!((&message["event"], &message["url"]), (&json!("died"), &json!(format!("/r/{session}"))));
    });
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_notebook_is_let_in_from_the_page() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (origin, fixed) = ("http://localhost:2718", format!("demo={port}"));
    let hub = Hub::start(&place, &["demo", "--for", "marimo", "--fixed-port", &fixed, "--origin", origin]);
    let visitor = Browser::shared().visitor();
    let page = enter(&visitor, &hub);
    let host = format!("localhost:{port}");
    let mut socket = Socket::open_at(&format!("127.0.0.1:{port}"), &host, "/message", &[("Origin", origin)]);
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    socket.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    page.wait_for("#local-client :: A notebook at http://localhost:2718 wants to use demo");
    page.screenshot("local-client");
    page.click("#local-client button :: Let in");
    assert_eq!(socket.receive()["result"]["protocolVersion"], 1);
    page.wait_gone("#local-client");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_notebook_is_let_in_from_the_terminal() {
    use std::io::Write;
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (origin, fixed) = ("http://localhost:2718", format!("demo={port}"));
    let desk = Desk::start(&place, &["demo", "--for", "marimo", "--fixed-port", &fixed, "--origin", origin]);
    desk.printed("marimo reaches demo at ws://127.0.0.1:");
    let host = format!("localhost:{port}");
    let mut socket = Socket::open_at(&format!("127.0.0.1:{port}"), &host, "/message", &[("Origin", origin)]);
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    socket.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    desk.printed("marimo at http://localhost:2718 wants demo: let it in? (type y or n and Enter");
    (&desk.terminal).write_all(b"y\n").unwrap();
    assert_eq!(socket.receive()["result"]["protocolVersion"], 1);
    desk.printed("http://localhost:2718 is let in until the hub ends.");
}
