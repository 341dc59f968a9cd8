//! An agent that wants a login first.

use serde_json::{Value, json};

use super::talk::Talk;
use crate::agent_program::Place;

/// Opens no session before somebody has logged in by `good`, and refuses `bad`.
const SCRIPT: &str = r#"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([^,]*\),"method".*/\1/p')
    answer='"error":{"code":-32601,"message":"no such method"}'
    case $line in
    *'"method":"initialize"'*) answer=$INITIALIZED ;;
    *'"method":"auth/login"'*'"good"'*) answer='"result":{}'; known=yes ;;
    *'"method":"auth/login"'*) answer='"error":{"code":-32603,"message":"this <b>token</b> is too old"}' ;;
    *'"method":"session/new"'*)
        answer='"error":{"code":-32000,"message":"Authentication required"}'
        [ -n "$known" ] && answer='"result":{"sessionId":"inside"}'
        ;;
    esac
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

fn before_agent(methods: &Value) -> Talk {
    let place = Place::new();
    let initialized = json!({
        "protocolVersion": 2, "info": { "name": "locked", "version": "1" },
        "capabilities": { "session": {}, "auth": {} }, "authMethods": methods,
    });
    let program = place.work().join("locked-agent");
    std::fs::write(&program, format!("INITIALIZED='\"result\":{initialized}'\n{SCRIPT}")).unwrap();
    Talk::with(place, &["--", "sh", program.to_str().unwrap()])
}

#[test]
fn a_login_opens_the_session() {
    let talk = before_agent(&json!([
        { "type": "agent", "methodId": "bad", "name": "By an <i>old</i> token" },
        { "type": "agent", "methodId": "good", "name": "By account", "description": "Opens a page of <u>yours</u>." },
    ]));
    let page = &talk.page;
    page.wait_for("#trouble :: Authentication required");
    page.wait_for("#trouble :: Opens a page of <u>yours</u>.");
    page.screenshot("login");
    page.resize(360, 740);
    page.screenshot("login-360");
    page.click("#trouble button :: By an <i>old</i> token");
    page.wait_for("#toasts :: this <b>token</b> is too old");
    assert_eq!(page.count("#trouble button"), 2);
    page.click("#trouble button :: By account");
    page.wait_gone("#trouble button");
    page.wait_until("document.body.classList.contains('is-live') && location.pathname.endsWith('/inside')");
    page.wait_for("#hint");
    page.wait_until("document.activeElement.id === 'prompt'");
    talk.all_is_well();
}

#[test]
fn an_agent_that_does_not_answer_the_handshake_is_given_up() {
    let silent = "echo still loading >&2; exec sleep 1000";
    let talk = Talk::with(Place::new(), &["--handshake-timeout", "5s", "--", "sh", "-c", silent]);
    let page = &talk.page;
    page.wait_for("#trouble :: the agent did not answer the handshake within 5s");
    page.wait_for("#trouble :: still loading");
    page.wait_for("#trouble :: --handshake-timeout 5m");
    page.click("#trouble button :: Try again");
    page.wait_for("#hint :: Starting sh");
    page.wait_for("#trouble :: the agent did not answer the handshake within 5s");
    talk.all_is_well();
}

#[test]
fn an_agent_without_a_login_says_why_it_opens_no_session() {
    let talk = before_agent(&json!([]));
    let page = &talk.page;
    page.wait_for("#trouble :: Authentication required");
    page.click("#trouble button :: Try again");
    page.wait_for("#toasts :: Authentication required");
    talk.all_is_well();
}

#[test]
fn a_login_in_a_terminal_is_described() {
    let talk = before_agent(&json!([
        { "type": "terminal", "methodId": "t", "name": "In a terminal", "args": ["--login", "<b>"] },
        { "type": "_later", "methodId": "l", "name": "Later" },
    ]));
    let page = &talk.page;
    page.wait_for("#trouble code :: --login <b>");
    page.wait_for("#trouble :: a way to log in that is not known here");
    page.click("#trouble button :: try again");
    page.wait_for("#toasts :: Authentication required");
    talk.all_is_well();
}
