//! What only some agents can do: copies, titles, the archive, messages to a turn at work, and logins that are lost.

use serde_json::{Value, json};

use super::scripted_agent::scripted_agent;
use super::talk::Talk;
use crate::agent_program::Place;

/// Takes prompts that never end by themselves, and messages to the turn at work unless none is.
const SCRIPT: &str = r#"
say() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}\n' "$1"; }
told() { say '{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"'"$1"', "}}'; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([^,]*\),"method".*/\1/p')
    text=$(printf '%s' "$line" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
    answer='"error":{"code":-32601,"message":"no such method"}'
    case $line in
    *'"method":"initialize"'*) answer=$INITIALIZED ;;
    *'"method":"session/new"'*) answer='"result":{"sessionId":"s"}' ;;
    *'"method":"auth/login"'*) answer='"result":{}'; lost= ;;
    *'"method":"session/prompt"'*)
        answer='"result":{"messageId":"u"}'
        [ -n "$lost" ] && answer='"error":{"code":-32000,"message":"Authentication required"}'
        ;;
    *'"method":"_session/steering"'*)
        answer='"result":{"outcome":"injected"}'
        [ -n "$busy" ] || answer='"result":{"outcome":"promptRequired"}'
        ;;
    esac
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
    case $line$lost in
    *'"method":"session/prompt"'*lost) ;;
    *'"method":"session/prompt"'*'"lose'*) lost=lost
        say '{"sessionUpdate":"state_update","state":"idle"}'
        printf '{"jsonrpc":"2.0","method":"auth/status_update","params":{"state":"unauthenticated"}}\n'
        ;;
    *'"method":"session/prompt"'*'"forget'*) lost=lost
        say '{"sessionUpdate":"state_update","state":"idle"}'
        ;;
    *'"method":"session/prompt"'*'"idle'*)
        told "prompted $text"
        busy=
        say '{"sessionUpdate":"state_update","state":"idle"}'
        ;;
    *'"method":"session/prompt"'*)
        told "prompted $text"
        busy=yes
        say '{"sessionUpdate":"state_update","state":"running"}'
        ( until [ -e done ] || ! kill -0 $$; do sleep 0.1; done; say '{"sessionUpdate":"state_update","state":"idle"}' ) 2>/dev/null &
        ;;
    *'"method":"_session/steering"'*)
        case $answer in *injected*) told "steered $text" ;; esac
        ;;
    esac
done
"#;

fn before_agent(meta: &Value) -> Talk {
    let place = Place::new();
    let initialized = json!({
        "protocolVersion": 2, "info": { "name": "some", "version": "1" },
        "capabilities": { "session": {}, "auth": {} },
        "authMethods": [{ "type": "agent", "methodId": "good", "name": "By account" }],
        "_meta": meta,
    });
    let program = place.work().join("some-agent");
    std::fs::write(&program, format!("INITIALIZED='\"result\":{initialized}'\n{SCRIPT}")).unwrap();
    Talk::with(place, &["--", "sh", program.to_str().unwrap()])
}

fn say(talk: &Talk, text: &str) {
    talk.page.type_into("#prompt", text);
    talk.page.press("Enter");
}

#[test]
fn a_copy_opens_and_goes_on_by_itself() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    let original = page.eval("location.pathname");
    page.click("#menu > summary");
    page.screenshot("menu");
    page.click("#offers button :: Fork");
    page.wait_until(&format!("location.pathname !== {original}"));
    page.wait_until("!document.querySelector('#menu').open");
    page.wait_for("#hint :: A copy of hello");
    page.wait_until("document.activeElement.id === 'prompt'");
    talk.ask("second");
    page.wait_for("article.e-agent :: You said: second");
    page.eval("history.back()");
    // The copy shows it, too, as history.
    page.wait_for("#transcript article.e-agent :: Hello!");
    assert_eq!(page.count("article :: You said: second"), 0);
    talk.all_is_well();
}

#[test]
fn a_session_gets_the_title_that_the_user_gives_it() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    page.click("#menu > summary");
    page.press("Escape");
    page.wait_until(
        "!document.querySelector('#menu').open && document.activeElement.matches('#menu > summary')",
    );
    page.press("Enter");
    page.click("#offers button :: Rename");
    page.wait_for("dialog #new-title");
    page.eval("document.querySelector('#new-title').select()");
    page.type_text("A <b>better</b> name");
    page.press("Enter");
    page.wait_gone("dialog");
    page.wait_for("#title :: A <b>better</b> name");
    page.wait_until("document.title.startsWith('A <b>better</b> name')");
    page.wait_for("#session-list .name :: A <b>better</b> name");
    talk.all_is_well();
}

#[test]
fn sessions_are_put_away_and_taken_back() {
    let talk = Talk::with_demo();
    let page = &talk.page;
    talk.ask("hello");
    page.click("#menu > summary");
    page.click("#offers button :: Archive");
    page.wait_for("#toasts :: The session is archived.");
    page.click("#archived > summary");
    page.wait_for("#archived-list [data-action=resume] :: hello");
    page.screenshot("archive");
    page.click("#archived-list button :: Take out of the archive");
    page.wait_gone("#archived-list [data-action=resume]");
    page.wait_for("#archived-list :: None.");
    page.click("#archived > summary");
    page.wait_gone("#archived-list :: None.");
    talk.all_is_well();
}

#[test]
fn what_an_agent_does_not_offer_is_not_shown() {
    let place = Place::new();
    let agent = scripted_agent(&place.work(), &json!({}), &json!({}), &[]);
    let talk = Talk::with(place, &["--", "sh", agent.to_str().unwrap()]);
    let page = &talk.page;
    page.wait_until("document.body.classList.contains('is-live')");
    page.click("#menu > summary");
    page.wait_for("#offers button :: Export");
    for offer in ["Fork", "Archive"] {
        assert_eq!(page.count(&format!("#offers button :: {offer}")), 0, "{offer}");
    }
    // A name needs no agent.
    page.click("#offers button :: Rename");
    page.wait_until("document.activeElement.id === 'new-title'");
    page.eval("document.querySelector('#new-title').select()");
    page.type_text("Mine");
    page.press("Enter");
    page.wait_gone("dialog");
    page.wait_for("#title :: Mine");
    page.reload();
    page.wait_for("#title :: Mine");
    page.wait_until("document.body.classList.contains('is-live')");
    page.wait_for("#session-list .name :: Mine");
    assert_eq!(page.count("#archived"), 0);
    talk.all_is_well();
}

#[test]
fn a_message_goes_to_the_turn_at_work_where_the_agent_takes_it() {
    let talk = before_agent(&json!({ "steering": { "supported": true } }));
    let page = &talk.page;
    say(&talk, "one");
    page.wait_for("article.e-agent :: prompted one,");
    page.wait_until("document.querySelector('#send').textContent === 'Steer'");
    page.screenshot("steer");
    say(&talk, "two");
    page.wait_for("article.e-agent :: prompted one, steered two,");
    page.wait_for("#toasts :: The turn at work has your message.");
    talk.all_is_well();
}

#[test]
fn a_message_for_which_no_turn_is_at_work_begins_one() {
    let talk = before_agent(&json!({ "steering": { "supported": true } }));
    let page = &talk.page;
    say(&talk, "idle");
    page.wait_for("article.e-agent :: prompted idle,");
    page.wait_for("#send :: Send");
    // As from a page that does not know yet that the turn is over.
    page.eval(
        "new Promise(resolve => {
            const socket = new WebSocket(`ws://${location.host}/in/socket`, ['switchboard', `key-${localStorage.getItem('switchboard-key')}`]);
            let number = 1;
            const steer = () => socket.send(JSON.stringify({ type: 'steer', session: 's', text: 'late', number }));
            socket.onopen = steer;
            socket.onmessage = event => {
                const reply = JSON.parse(event.data);
                if (reply.number !== number) return;
                if (reply.type === 'answer') return resolve(0);
                // What this page looks at may not be there yet.
                number += 1;
                setTimeout(steer, 100);
            };
        })",
    );
    page.wait_for("article.e-agent :: prompted idle, prompted late,");
    talk.all_is_well();
}

#[test]
fn an_agent_that_cannot_be_steered_is_prompted() {
    let talk = before_agent(&json!({}));
    let page = &talk.page;
    say(&talk, "one");
    page.wait_until("document.body.dataset.activity === 'running'");
    assert_eq!(page.eval("document.querySelector('#send').textContent"), "Send");
    // It waits for its turn.
    say(&talk, "idle two");
    page.wait_for("#queue .queued :: idle two");
    std::fs::write(talk.place.work().join("done"), "").unwrap();
    page.wait_for("article.e-agent :: prompted one, prompted idle two,");
    page.wait_gone("#queue .queued");
    talk.all_is_well();
}

#[test]
fn a_login_that_is_lost_can_be_made_again() {
    for (told, words) in [("lose", "told"), ("forget", "refused")] {
        let talk = before_agent(&json!({}));
        let page = &talk.page;
        say(&talk, told);
        if words == "refused" {
            say(&talk, "again");
            page.wait_for("#refusal :: Authentication required");
            // What was typed is not lost.
            page.wait_until("document.querySelector('#prompt').value === 'again'");
        }
        page.wait_for("#trouble :: The agent says that nobody is logged in.");
        let place = page.eval("location.pathname");
        page.screenshot("login-lost");
        page.click("#trouble button :: By account");
        page.wait_gone("#trouble button");
        assert_eq!(page.eval("location.pathname"), place, "the session goes on");
        if words == "told" {
            page.type_into("#prompt", "again");
        }
        go_on(page);
        page.wait_for("article.e-agent :: prompted again,");
        talk.all_is_well();
    }
}

fn go_on(page: &switchboard_browser::Page) {
    page.eval("document.querySelector('#prompt').focus()");
    page.press("Enter");
}
