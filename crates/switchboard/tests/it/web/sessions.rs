//! Sessions that come and go: new, earlier, recorded, after a restart.

use serde_json::json;
use switchboard_browser::Browser;

use super::opened::Opened;
use super::scripted_agent::{heard, scripted_agent, update};
use super::talk::{Talk, done, say};
use crate::agent_program::Place;
use crate::known_agents::EmptyHome;

#[test]
fn a_new_session_begins_empty_and_the_old_one_stays() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    let first = page.eval("location.pathname");
    page.click("[data-action=new]");
    page.wait_until(&format!("location.pathname !== {first} && find('article').length === 0"));
    talk.ask("second");
    page.wait_for("article.e-agent :: You said: second");
    assert_eq!(page.count("article :: Hello!"), 0);
    page.wait_until("find('#session-list h3').length > 0");
    page.screenshot("sessions");
    page.click("#session-list [data-action=look] :: hello");
    page.wait_for("article.e-agent :: Hello!");
    assert_eq!(page.eval("location.pathname"), first);
    page.eval("history.back()");
    page.wait_for("article.e-agent :: You said: second");
    talk.all_is_well();
}

#[test]
fn a_reload_shows_the_same() {
    let talk = Talk::with_demo();
    talk.ask("replace");
    talk.page.wait_for("article.e-agent :: Now it is right.");
    let before = talk.page.texts("article");
    talk.page.reload();
    talk.page.wait_for("article.e-agent :: Now it is right.");
    assert_eq!(talk.page.texts("article"), before);
    talk.say("ask");
    talk.page.wait_for("[data-question]");
    talk.page.reload();
    talk.page.click("[data-question] button :: Yes, go on");
    talk.page.wait_for("article.e-agent :: Then I go on.");
    talk.all_is_well();
}

#[test]
fn a_restart_shows_what_was_recorded() {
    let mut talk = Talk::with_demo();
    talk.ask("edit");
    talk.page.wait_for("article.e-tool :: 5 files");
    done(&talk.page);
    let path = talk.page.eval("location.pathname").as_str().unwrap().to_owned();
    talk.all_is_well();
    drop(std::mem::replace(&mut talk.opened, Opened::start(&talk.place, &["demo"])));
    let page = talk.visitor.open(&talk.opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    page.visit(&format!("http://{}{path}", talk.opened.host()));
    page.wait_for("article.e-tool :: 5 files");
    page.wait_for("article.e-tool .op-mov");
    page.wait_until("document.body.dataset.activity === 'recording'");
    page.screenshot("recording");
    page.wait_for("#session-list [aria-current] :: dormant");
    // What is said in it takes it up again.
    page.type_into("#prompt", "hello");
    page.press("Enter");
    page.wait_for("article.e-agent :: Hello!");
    page.wait_gone("#held .queued");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn recorded_sessions_are_found_by_what_was_said() {
    let mut talk = Talk::with_demo();
    talk.ask("a rare word: xylophone");
    talk.all_is_well();
    drop(std::mem::replace(&mut talk.opened, Opened::start(&talk.place, &["demo"])));
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&talk.opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    page.type_into("#query", "xylophone");
    page.wait_for("#session-list :: Found");
    page.click("#session-list [data-action=look] :: xylophone");
    page.wait_for("article :: xylophone");
    page.wait_until("document.body.dataset.activity === 'recording'");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_tab_that_lost_the_server_says_so() {
    let talk = Talk::with_demo();
    talk.ask("hello");
    let port = talk.opened.host().split(':').nth(1).unwrap().to_owned();
    let Talk { page, visitor, opened, place } = talk;
    drop(opened);
    page.wait_for("#link-state :: onnecting");
    // What was there can still be read, and a new launch on the same port has another key.
    page.wait_for("article.e-agent :: Hello!");
    let opened = Opened::start(&place, &["demo", "--port", &port]);
    page.wait_for("#link-state :: open a link that it printed");
    page.visit(&opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    drop((page, visitor));
}

#[test]
fn links_lead_to_an_entry_and_to_a_message() {
    let talk = Talk::with_demo();
    for _ in 0..12 {
        talk.ask("markdown");
    }
    let address = talk.page.eval("location.origin + location.pathname").as_str().unwrap().to_owned();
    let page = talk.visitor.open(&format!("{address}#e1"));
    page.wait_until("document.querySelector('#e1')?.getBoundingClientRect().top >= 0");
    page.wait_until("document.querySelector('#e1').getBoundingClientRect().top < innerHeight");
    let page = talk.visitor.open(&format!("{address}#m1"));
    page.wait_for("#inspector #detail :: initialize");
    assert_eq!(page.complaints(), [""; 0]);
    talk.all_is_well();
}

/// Remembers a session of its own, and says its history when it goes on with it.
const REMEMBERING: &str = r#"
say() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":%s}}\n' "$1" "$2"; }
told() { say "$1" '{"sessionUpdate":"agent_message","messageId":"'"$2"'","content":[{"type":"text","text":"'"$3"'"}]}'; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([^,]*\),"method".*/\1/p')
    result='{}'
    case $line in
    *'"method":"initialize"'*)
        result='{"protocolVersion":2,"info":{"name":"old","version":"1"},"capabilities":{"session":{}}}' ;;
    *'"method":"session/new"'*) result='{"sessionId":"new"}' ;;
    *'"method":"session/list"'*) result='{"sessions":[{"sessionId":"old","cwd":"'"$PWD"'","title":"Of yesterday"}]}' ;;
    *'"method":"session/resume"'*) told old m1 'said yesterday' ;;
    *'"method":"session/prompt"'*) result='{"messageId":"u"}' ;;
    esac
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    case $line in
    *'"method":"session/prompt"'*'"sessionId":"old"'* | *'"sessionId":"old"'*'"method":"session/prompt"'*)
        told old m2 'said today'
        say old '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}'
        ;;
    esac
done
"#;

#[test]
fn a_session_that_only_the_agent_remembers_is_taken_over_with_its_history() {
    let place = Place::new();
    let program = place.work().join("old-agent");
    std::fs::write(&program, REMEMBERING).unwrap();
    let talk = Talk::with(place, &["--", "sh", program.to_str().unwrap()]);
    let page = &talk.page;
    page.wait_until("document.body.dataset.activity === 'idle'");
    page.click("#other-sessions [data-action=resume] :: Of yesterday");
    page.wait_for("article.e-agent :: said yesterday");
    page.type_into("#prompt", "go on");
    page.press("Enter");
    page.wait_for("article.e-agent :: said today");
    assert_eq!(page.count("article.e-agent"), 2);
    // From now on it is one of the hub's.
    page.wait_for("#hub-sessions [aria-current]");
    page.press("Alt+s");
    page.wait_gone("#other-sessions [data-action=resume]");
    talk.all_is_well();
}

#[test]
fn an_earlier_session_is_gone_on_with() {
    let demo = env!("CARGO_BIN_EXE_switchboard");
    let agent = ["--", demo, "demo-agent", "--store", "kept"];
    let mut talk = Talk::with(Place::new(), &agent);
    talk.ask("the first thing");
    let path = talk.page.eval("location.pathname").as_str().unwrap().to_owned();
    talk.all_is_well();
    drop(std::mem::replace(&mut talk.opened, Opened::start(&talk.place, &agent)));
    let page = talk.visitor.open(&talk.opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    // From the recording.
    page.visit(&format!("http://{}{path}", talk.opened.host()));
    page.wait_for("article.e-agent :: You said: the first thing");
    page.click("[data-action=attach] :: Go on with this session");
    page.wait_until("document.body.dataset.activity === 'idle'");
    page.wait_for("article.e-agent :: You said: the first thing");
    say(&page, "the second thing");
    page.wait_for("article.e-agent :: You said: the second thing");
    done(&page);
    assert_eq!(page.count("article.e-agent"), 2);
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn another_agent_is_picked_with_its_folder() {
    let place = Place::new();
    let said = update(json!({
        "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": { "type": "text", "text": "it is me" },
    }));
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[said]);
    let folder = place.work().join("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let known = json!({ "agent_servers": { "second": { "command": "sh", "args": [agent] } } });
    place.write("home/.config/switchboard/config.json", &known.to_string());
    let talk = Talk::with(place, &["demo"]);
    let page = &talk.page;
    page.click("#new-box > summary");
    page.wait_until("[...document.querySelector('#agent-choice').options].some(it => it.value === 'second')");
    page.eval("document.querySelector('#agent-choice').value = 'second'");
    page.eval("document.querySelector('#folder').value = ''");
    page.type_into("#folder", folder.to_str().unwrap());
    page.screenshot("another-agent");
    page.click("#new-session button");
    page.wait_for("#agent :: scripted");
    page.wait_until("document.body.classList.contains('is-live')");
    page.type_into("#prompt", "who are you?");
    page.press("Enter");
    page.wait_for("article.e-agent :: it is me");
    let heard = std::fs::read_to_string(heard(&talk.place.work())).unwrap();
    let opened = heard.lines().find(|line| line.contains("session/new")).unwrap();
    assert!(opened.contains(folder.to_str().unwrap()), "{opened}");
    talk.all_is_well();
}

#[test]
fn a_known_agent_that_is_installed_is_picked_without_any_configuration() {
    let home = EmptyHome::new();
    home.install_demo("codex-acp");
    let opened = Opened::run(home.command(&["open", "--no-browser"]));
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&opened.link);
    page.wait_until("document.body.dataset.activity");
    page.click("#new-box > summary");
    page.wait_until("document.querySelector('#agent-choice').options.length === 2");
    assert_eq!(home.started(), "", "it starts when somebody needs it");
    page.eval("document.querySelector('#agent-choice').value = 'codex'");
    let first = page.eval("location.pathname");
    page.click("#new-session button");
    page.wait_until(&format!("location.pathname !== {first} && document.body.classList.contains('is-live')"));
    say(&page, "who are you?");
    page.wait_for("article.e-agent :: You said: who are you?");
    assert!(home.started().ends_with("programs/codex-acp \n"), "{}", home.started());
    assert_eq!(page.complaints(), [""; 0]);
}
