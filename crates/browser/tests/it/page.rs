use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::json;
use switchboard_browser::{Browser, ColorScheme, Named, Page, Visitor, serve};

const PAGE: &str = r#"<!doctype html><html lang="en"><title>Small</title>
<style>
  body { background: white; margin: 0 } main { height: 3000px }
  @media (prefers-color-scheme: dark) { body { background: black } }
  @media (prefers-reduced-motion: reduce) { body { cursor: help } }
</style>
<main><h1>Hello</h1>
  <button id="count">0</button> <button id="off" disabled>Off</button> <p hidden>secret</p>
  <textarea aria-label="Say something"></textarea> <input type="file" hidden multiple>
  <ul id="keys"></ul>
</main>
<button id="far">Far away</button>
<script>
  const byId = id => document.getElementById(id);
  byId('count').onclick = event => { event.target.textContent = Number(event.target.textContent) + 1; };
  byId('far').onclick = () => setTimeout(() => document.body.append('You came far'), 50);
  document.querySelector('textarea').onkeydown = event => {
    const line = document.createElement('li');
    line.textContent = [event.ctrlKey ? 'Control' : '', event.shiftKey ? 'Shift' : '', event.key, event.code].join(' ').trim();
    byId('keys').append(line);
  };
  document.querySelector('input').onchange = event => {
    byId('keys').textContent = [...event.target.files].map(file => `${file.name}: ${file.size}`).join(', ');
  };
</script>"#;

fn visit() -> (Visitor, Page) {
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&serve(PAGE));
    (visitor, page)
}

/// Returns the panic message of a closure.
fn failure(act: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).expect_err("it must fail");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn clicks_reach_elements_that_must_be_scrolled_to() {
    let (_visitor, page) = visit();
    page.click("#count");
    page.click("button :: 1");
    assert_eq!(page.text("#count"), "2");
    page.click("button :: Far");
    page.wait_until("document.body.innerText.includes('You came far')");
    assert!(page.eval("scrollY").as_f64() > Some(1000.0));
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn only_visible_elements_are_found() {
    let (_visitor, page) = visit();
    assert_eq!(page.count("p"), 0);
    assert_eq!(page.count("button"), 3);
    assert_eq!(page.texts("button :: Off"), ["Off"]);
    assert_eq!(page.count("textarea :: Say something"), 1);
    page.eval("document.querySelector('h1').remove()");
    page.wait_gone("h1");
}

#[test]
fn keys_are_real_events_with_modifiers() {
    let (_visitor, page) = visit();
    page.type_into("textarea", "Hé 1\n\u{4f60}");
    page.press("Control+Enter");
    page.press("Shift+Tab");
    assert_eq!(page.eval("document.querySelector('textarea').value"), "Hé 1\n\u{4f60}");
    assert_eq!(
        page.texts("#keys li"),
        [
            "H KeyH",
            "é",
            "Space",
            "1 Digit1",
            "Shift Enter Enter",
            "\u{4f60}",
            "Control Enter Enter",
            "Shift Tab Tab"
        ]
    );
    assert_eq!(page.eval("document.activeElement.id"), "count");
}

#[test]
fn a_wait_in_vain_tells_what_was_awaited_and_what_was_there() {
    let (_visitor, page) = visit();
    let page = page.patience(Duration::from_millis(50));
    let message = failure(|| page.wait_for("#nowhere"));
    assert!(message.contains("waited for #nowhere in vain"), "{message}");
    assert!(message.contains("the page shows:\nHello"), "{message}");
    let message = failure(|| page.click("#off"));
    assert!(message.contains("waited for a click on #off in vain (it is disabled)"), "{message}");
    let message = failure(|| drop(page.wait_until("nothing.at.all")));
    assert!(message.contains("in vain (ReferenceError: nothing is not defined)"), "{message}");
}

#[test]
fn preferences_and_size_reach_the_page() {
    let (_visitor, page) = visit();
    let background = "getComputedStyle(document.body).backgroundColor";
    page.prefer(ColorScheme::Dark, true);
    assert_eq!(page.eval(background), "rgb(0, 0, 0)");
    assert_eq!(page.eval("getComputedStyle(document.body).cursor"), "help");
    page.prefer(ColorScheme::Light, false);
    assert_eq!(page.eval(background), "rgb(255, 255, 255)");
    page.resize(360, 640);
    assert_eq!(page.eval("[innerWidth, innerHeight]"), json!([360, 640]));
    let image = std::fs::read(page.screenshot("small-page")).unwrap();
    // The header of a PNG has its width and height.
    assert_eq!(image[16..24], [0, 0, 1, 104, 0, 0, 2, 128]);
}

#[test]
fn complaints_are_errors_exceptions_dialogs_and_violated_policies() {
    let (_visitor, page) = visit();
    page.eval("console.error('an error', 7)");
    page.eval("void setTimeout(() => { throw new Error('uncaught') })");
    page.wait_until("new Promise(resolve => setTimeout(() => resolve(true)))");
    page.eval("alert('hello')");
    page.eval(
        "new Promise(resolve => {
            document.addEventListener('securitypolicyviolation', () => resolve(0));
            document.body.append(Object.assign(new Image(), { src: '/image.png' }));
        })",
    );
    let complaints = page.complaints();
    for expected in
        ["console: an error 7", "exception: Error: uncaught", "dialog: hello", "content security policy:"]
    {
        assert!(
            complaints.iter().any(|complaint| complaint.starts_with(expected)),
            "{expected}: {complaints:#?}"
        );
    }
}

#[test]
fn requests_are_seen() {
    let (_visitor, page) = visit();
    let base = page.eval("location.href").as_str().unwrap().to_owned();
    page.eval("fetch('/there', { method: 'POST' }).then(answer => answer.status)");
    page.eval("new Promise(resolve => { new WebSocket(location.href.replace('http', 'ws') + 'socket').onerror = resolve })");
    let requests: Vec<_> = page.requests().into_iter().map(|request| (request.method, request.url)).collect();
    let socket = base.replace("http", "ws") + "socket";
    let expected = [("GET", base.clone()), ("POST", base + "there"), ("WEBSOCKET", socket)];
    assert_eq!(requests, expected.map(|(method, url)| (method.to_owned(), url)));
}

#[test]
fn files_are_attached_and_names_are_read_out() {
    let (_visitor, page) = visit();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "four").unwrap();
    page.attach("input", &[&file]);
    page.wait_for("#keys :: note.txt: 4");
    let named = page.accessibility();
    for (role, name) in [("heading", "Hello"), ("button", "Off"), ("textbox", "Say something")] {
        assert!(named.contains(&Named { role: role.into(), name: name.into() }), "{named:#?}");
    }
}

#[test]
fn visitors_have_their_own_cookies_and_several_tabs() {
    let (visitor, page) = visit();
    let url = page.eval("document.cookie = 'known=yes', location.href").as_str().unwrap().to_owned();
    assert_eq!(visitor.open(&url).eval("document.cookie"), "known=yes");
    assert_eq!(Browser::shared().visitor().open(&url).eval("document.cookie"), "");
    page.reload();
    assert_eq!(page.eval("document.cookie"), "known=yes");
}

#[test]
fn the_heap_counts_what_is_kept() {
    let (_visitor, page) = visit();
    let before = page.heap();
    page.eval("globalThis.kept = Array.from({ length: 1000000 }, (_, index) => index + 0.5), 0");
    assert!(page.heap() > before + 4_000_000);
    page.eval("globalThis.kept = null");
    assert!(page.heap() < before + 4_000_000);
}

#[test]
fn a_browser_ends_with_its_value_and_leaves_no_profile() {
    let browser = Browser::start();
    let profile = browser.profile().to_owned();
    assert!(profile.exists());
    drop(browser);
    assert!(!profile.exists());
}
