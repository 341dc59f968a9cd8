//! The page of `switchboard serve`: several people, a script and a phone on the sessions of one hub.

use std::process::{Command, Stdio};

use switchboard_browser::{Browser, Page, Visitor};

use super::looks::nothing_is_clipped;
use super::opened::Opened;
use super::talk::{done, say, unfold};
use crate::agent_program::{Place, listening_to_signals};

/// A hub with the demo agent, and the token of its launch. What comes first is dropped first.
struct Hub {
    opened: Opened,
    place: Place,
    token: String,
}

impl Hub {
    fn start() -> Hub {
        let place = Place::new();
        let store = place.home().join("store.sqlite3").display().to_string();
        let file = place.home().join("token").display().to_string();
        let arguments =
            ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--token-file", &file, "demo"];
        let mut command = place.command(&arguments);
        command.env_remove("SWITCHBOARD_STORE").stderr(Stdio::inherit());
        // The first line says where it listens, and the token is written before that.
        let opened = Opened::run(command);
        let token = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        Hub { opened, place, token }
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = listening_to_signals();
        let store = self.place.home().join("store.sqlite3");
        command.args(arguments).env("HOME", self.place.home()).env("SWITCHBOARD_STORE", store);
        command.current_dir(self.place.work()).stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes a token.
    fn person(&self, name: &str, role: &str, more: &[&str]) -> String {
        self.output(&[&["tokens", "add", name, "--role", role], more].concat())
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.opened.host())
    }

    /// Comes in with a token.
    fn enter(&self, visitor: &Visitor, path: &str, token: &str) -> Page {
        let page = visitor.open(&self.url(path));
        page.wait_for("#door h1");
        page.type_into("#token", token);
        page.press("Enter");
        page.wait_until("document.body.dataset.role");
        page
    }
}

/// Opens a session and gives its id.
fn begin(page: &Page) -> String {
    page.click("header [data-action=new]");
    page.wait_until("document.body.classList.contains('is-live')");
    page.eval("location.pathname.split('/')[2]").as_str().unwrap().to_owned()
}

#[test]
fn a_question_answered_by_one_is_gone_for_the_others_who_see_the_name() {
    let hub = Hub::start();
    let anna = hub.person("anna", "own", &[]);
    let bert = hub.person("bert", "answer", &["--all"]);
    let (visitor, other) = (Browser::shared().visitor(), Browser::shared().visitor());
    let first = hub.enter(&visitor, "/", &anna);
    let session = begin(&first);
    // A link to the session is of use to whoever has a token.
    let second = hub.enter(&other, &format!("/r/{session}"), &bert);
    second.wait_until("document.body.classList.contains('is-live')");
    unfold(&first);
    unfold(&second);
    assert_eq!(second.count("#composer"), 0, "who may answer may not prompt");
    assert_eq!(second.count("header [data-action=new]"), 0);

    say(&first, "permission");
    for page in [&first, &second] {
        page.wait_for("[data-question] h3 :: config.json?");
        page.wait_until("document.title.startsWith('(1) ')");
        page.wait_until("document.querySelector('#badge').textContent === '1'");
    }
    // Rules are for who owns the hub.
    first.wait_for("[data-question] [data-part=rule]");
    assert_eq!(second.count("[data-question] [data-part=rule]"), 0);
    second.screenshot("hub-question");
    second.click("[data-question] button :: allow once");
    for page in [&first, &second] {
        page.wait_gone("[data-question]");
        page.wait_for("article.e-agent :: Debugging is on.");
        page.wait_for("article.e-tool :: by bert (switchboard page");
        page.wait_until("!document.title.startsWith('(')");
    }
    done(&first);
    first.wait_for("#session-list li[data-state=idle] button :: done");
    first.screenshot("hub-answered");

    // A script is in the same session, and answers by itself.
    let address = format!("ws://{}/acp", hub.opened.host());
    let script = hub
        .program(&["run", "--approve-all", "--session", &session, "permission", "--", &address])
        .env("SWITCHBOARD_TOKEN", &hub.token)
        .output()
        .unwrap();
    assert!(script.status.success(), "{script:?}");
    for page in [&first, &second] {
        page.wait_until("find('article.e-user').length === 2");
        page.wait_for("article.e-tool :: by launch (switchboard ");
    }
    for page in [&first, &second] {
        assert_eq!(page.complaints(), [""; 0]);
    }
}

#[test]
fn a_question_stays_open_whoever_leaves_the_page_and_however() {
    let hub = Hub::start();
    let anna = hub.person("anna", "own", &[]);
    let [bert, vera] =
        [("bert", "answer"), ("vera", "view")].map(|(name, role)| hub.person(name, role, &["--all"]));
    let visitor = Browser::shared().visitor();
    let owner = hub.enter(&visitor, "/", &anna);
    let session = begin(&owner);
    let path = format!("/r/{session}");
    say(&owner, "permission");
    let question = "[data-question] h3 :: config.json?";
    owner.wait_for(question);
    // Others look, load the page again, and close it.
    for token in [&bert, &vera, &anna] {
        let other = Browser::shared().visitor();
        let page = hub.enter(&other, &path, token);
        page.wait_for(question);
        page.reload();
        page.wait_for(question);
        page.visit("about:blank");
        page.visit(&hub.url(&path));
        page.wait_for(question);
        // Text that was taken back is in the messages, which are for who may see everything.
        let is_owner = *token == anna;
        assert_eq!(page.count("#show-inspector") > 0, is_owner);
        drop(page);
        drop(other);
        assert_eq!(owner.count("[data-question]"), 1);
    }
    // The last tab of all leaves for another session, and comes back by the list.
    owner.click("header [data-action=new]");
    owner.wait_until(&format!(
        "document.body.classList.contains('is-live') && !location.pathname.includes('{session}')"
    ));
    owner.visit(&hub.url(&path));
    owner.wait_for(question);
    owner.reload();
    owner.wait_for(question);
    owner.visit("about:blank");
    let elsewhere = Browser::shared().visitor();
    let again = hub.enter(&elsewhere, &path, &anna);
    again.wait_for(question);
    owner.visit(&hub.url(&path));
    owner.wait_for(question);
    owner.click("[data-question] button :: allow once");
    for page in [&owner, &again] {
        page.wait_gone("[data-question]");
        page.wait_for("article.e-agent :: Debugging is on.");
    }
    for page in [&owner, &again] {
        assert_eq!(page.complaints(), [""; 0]);
    }
}

#[test]
fn a_revoked_token_ends_its_pages_and_others_stay() {
    let hub = Hub::start();
    let (anna, eve) = (hub.person("anna", "own", &[]), hub.person("eve", "view", &[]));
    let (visitor, other) = (Browser::shared().visitor(), Browser::shared().visitor());
    let first = hub.enter(&visitor, "/", &anna);
    let session = begin(&first);
    say(&first, "permission");
    first.wait_for("[data-question]");
    // What is not shared is not there.
    let second = hub.enter(&other, &format!("/r/{session}"), &eve);
    second.wait_for("#trouble :: does not exist, or you may not see it");
    assert_eq!(second.count("#session-list li"), 0);
    hub.output(&["hub", "share", &session, "eve"]);
    second.click("#session-list li button");
    second.wait_for("[data-question] h3 :: config.json?");
    assert_eq!(second.count("[data-question] [data-option]"), 0, "who may view may not answer");
    second.wait_until("!document.title.startsWith('(')");
    assert_eq!(second.count("#composer"), 0);
    // What is not shared any more goes out of sight at once.
    hub.output(&["hub", "unshare", &session, "eve"]);
    second.wait_gone("[data-question]");
    second.wait_gone("article");
    hub.output(&["tokens", "revoke", "eve"]);
    second.wait_for("#door :: is not any more");
    second.reload();
    second.wait_for("#door h1");
    first.click("[data-question] button :: allow once");
    first.wait_for("article.e-agent :: Debugging is on.");
    assert_eq!(first.complaints(), [""; 0]);
}

#[test]
fn wrong_tokens_and_other_sites_are_refused() {
    let hub = Hub::start();
    let host = format!("host: {}", hub.opened.host());
    let origin = format!("origin: http://{}", hub.opened.host());
    let right = format!("authorization: Bearer {}", hub.token);
    let enter = |host: &str, origin: &str, token: &str| {
        let answer = hub.opened.ask(&[
            "POST /in/token HTTP/1.1",
            host,
            origin,
            token,
            "content-length: 0",
            "connection: close",
        ]);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(enter(&host, &origin, &right), "200");
    assert_eq!(enter(&host, "origin: http://elsewhere.example", &right), "403");
    assert_eq!(enter(&host, "x: y", &right), "403", "a page says where it is from");
    assert_eq!(enter("host: elsewhere.example", &origin, &right), "403");
    assert_eq!(enter(&host, &origin, "x: y"), "401");
    for _ in 0..10 {
        assert_eq!(enter(&host, &origin, "authorization: Bearer sb_wrong"), "401");
    }
    assert_eq!(enter(&host, &origin, "authorization: Bearer sb_wrong"), "429");
    assert_eq!(enter(&host, &origin, &right), "200", "a right one is never asked to wait");
    let known = hub.opened.ask(&["GET /in/known HTTP/1.1", &host, "connection: close"]);
    assert!(known.starts_with("HTTP/1.1 403"), "{known}");
}

#[test]
fn on_a_phone_everything_can_be_done() {
    let hub = Hub::start();
    let anna = hub.person("anna", "own", &[]);
    let visitor = Browser::shared().visitor();
    let page = visitor.blank_page();
    page.resize(360, 640);
    page.visit(&hub.url("/"));
    page.wait_for("#door h1");
    page.screenshot("phone-door");
    page.type_into("#token", &anna);
    page.click("#door button");
    page.wait_until("document.body.dataset.role");
    // The drawer has the agents and the folders; a session begins from there.
    assert_eq!(page.count("#sessions"), 0, "the drawer is closed at first");
    page.click("#show-sessions");
    page.click("#new-box > summary");
    page.wait_for("#agent-choice");
    page.screenshot("phone-drawer");
    page.click("#new-session button");
    page.wait_until("document.body.classList.contains('is-live')");
    assert_eq!(page.count("#sessions"), 0, "and makes room");
    say(&page, "permission");
    page.wait_for("[data-question] h3 :: config.json?");
    page.screenshot("phone-question");
    nothing_is_clipped(&page, 360);
    // Every answer is in sight and as large as a thumb, without scrolling.
    let reachable = page.wait_until(
        "(() => { const all = find('[data-question] [data-option]'); return all.length > 0 && all.every(button => { \
         const box = button.getBoundingClientRect(); \
         const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2); \
         return box.height >= 44 && box.top >= 0 && box.bottom <= innerHeight && button.contains(top); }) })()",
    );
    assert_eq!(reachable, true);
    page.click("[data-question] button :: allow once");
    page.wait_gone("[data-question]");
    done(&page);
    page.click("#show-sessions");
    page.wait_for("#session-list li[data-state=idle]");
    page.screenshot("phone-sessions");
    page.type_into("#query", "debugging");
    page.wait_for("#session-list h3 :: Found");
    // A touch beside the drawer closes it.
    page.eval("document.getElementById('drawer-back').click()");
    page.wait_gone("#sessions");
    page.screenshot("phone-talk");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_page_that_is_loaded_complains_of_nothing_and_an_address_of_no_session_says_so() {
    let hub = Hub::start();
    let anna = hub.person("anna", "use", &[]);
    let visitor = Browser::shared().visitor();
    let page = hub.enter(&visitor, "/", &anna);
    let session = begin(&page);
    for path in ["/".to_owned(), format!("/r/{session}")] {
        page.visit(&hub.url(&path));
        page.wait_until("document.body.classList.contains('is-live')");
        // The list of sessions is asked for before the connection is there.
        page.wait_for("#session-list button");
        assert_eq!(page.eval("find('#toasts p').length"), 0, "{:?}", page.texts("#toasts p"));
    }
    page.visit(&hub.url("/r/20200101-000000-0a0a0a"));
    page.wait_for("#trouble :: leads nowhere");
    assert_eq!(page.eval("location.pathname"), "/r/20200101-000000-0a0a0a", "no other session is shown");
    assert_eq!(page.count("#composer"), 0, "nothing can be said there");
    assert_eq!(page.eval("find('#transcript article').length"), 0);
    page.screenshot("hub-nowhere");
    // The way back.
    page.click("#session-list li button");
    page.wait_until("document.body.classList.contains('is-live')");
    assert_eq!(page.eval("location.pathname.split('/')[2]"), session);
}

#[test]
fn whoever_may_only_view_gets_no_names_of_files_by_whatever_the_page_sends() {
    let hub = Hub::start();
    let anna = hub.person("anna", "use", &[]);
    let eve = hub.person("eve", "view", &["--all"]);
    hub.place.write(hub.place.work().join("secret-plan.txt"), "x");
    let (visitor, other) = (Browser::shared().visitor(), Browser::shared().visitor());
    let first = hub.enter(&visitor, "/", &anna);
    let session = begin(&first);
    let second = hub.enter(&other, &format!("/r/{session}"), &eve);
    second.wait_until("document.body.classList.contains('is-live')");
    // A tab of one's own making, which is in the session and asks for names.
    let ask = |page: &Page, message: &str| {
        let script = "(() => { window.heard = undefined; \
            const socket = new WebSocket(`ws://${location.host}/in/socket`, ['switchboard', `key-${localStorage.getItem('switchboard-key')}`]); \
            let asked = false; \
            socket.onopen = () => socket.send(JSON.stringify({type: 'look', recording: location.pathname.split('/')[2]})); \
            socket.onmessage = (event) => { const told = JSON.parse(event.data); \
                if (told.type === 'frame') socket.send(JSON.stringify({type: 'shown'})); \
                if (told.type === 'frame' && told.live && !asked) { asked = true; socket.send(JSON.stringify({...MESSAGE, number: 7})); } \
                if (told.number === 7) { window.heard = JSON.stringify(told); socket.close(); } }; return true })()";
        page.eval(&script.replace("MESSAGE", message));
        page.wait_until("window.heard").as_str().unwrap().to_owned()
    };
    let files = "{type: 'files', query: ''}";
    let mine = ask(&first, files);
    assert!(mine.contains("secret-plan.txt"), "{mine}");
    for message in
        [files, "{type: 'prompt', session: 's', text: 'x', mentions: ['secret-plan.txt']}", "{type: 'new'}"]
    {
        let refused = ask(&second, message);
        assert!(refused.contains("failure") && refused.contains("this needs use"), "{message}: {refused}");
        assert!(!refused.contains("secret-plan"), "{refused}");
    }
}
