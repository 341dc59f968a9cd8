//! Router, HTML shell and assets of the page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use maud::{DOCTYPE, Markup, html};

use tokio::task::block_in_place;

use super::Identify;
use super::app::App;
use super::guard::{self, ENTER, KNOWN, PROTOCOL, SOCKET, SignedIn, TOKEN};
use super::render::{self, icon};
use super::tab::{self, Limits};

/// Maximum size of a message from a tab in bytes, such as a prompt with files.
const MAX_MESSAGE: usize = 40 * 1024 * 1024;

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Assets of the page: path, content type and content.
const ASSETS: [(&str, &str, &str); 30] = [
    ("/assets/tokens.css", STYLE, include_str!("assets/tokens.css")),
    ("/assets/page.css", STYLE, include_str!("assets/page.css")),
    ("/assets/entries.css", STYLE, include_str!("assets/entries.css")),
    ("/assets/export.css", STYLE, include_str!("assets/export.css")),
    ("/assets/page.js", SCRIPT, include_str!("assets/page.js")),
    ("/assets/actions.js", SCRIPT, include_str!("assets/actions.js")),
    ("/assets/server.js", SCRIPT, include_str!("assets/server.js")),
    ("/assets/show.js", SCRIPT, include_str!("assets/show.js")),
    ("/assets/door.js", SCRIPT, include_str!("assets/door.js")),
    ("/assets/transcript.js", SCRIPT, include_str!("assets/transcript.js")),
    ("/assets/entry.js", SCRIPT, include_str!("assets/entry.js")),
    ("/assets/composer.js", SCRIPT, include_str!("assets/composer.js")),
    ("/assets/inspector.js", SCRIPT, include_str!("assets/inspector.js")),
    ("/assets/kept.js", SCRIPT, include_str!("assets/kept.js")),
    ("/assets/theme.js", SCRIPT, include_str!("assets/theme.js")),
    ("/assets/patch.js", SCRIPT, include_str!("assets/patch.js")),
    ("/assets/presence.js", SCRIPT, include_str!("assets/presence.js")),
    ("/assets/press.js", SCRIPT, include_str!("assets/press.js")),
    ("/assets/questions.js", SCRIPT, include_str!("assets/questions.js")),
    ("/assets/waiting.js", SCRIPT, include_str!("assets/waiting.js")),
    ("/assets/sidebar.js", SCRIPT, include_str!("assets/sidebar.js")),
    ("/assets/find.js", SCRIPT, include_str!("assets/find.js")),
    ("/assets/push.js", SCRIPT, include_str!("assets/push.js")),
    ("/assets/signed-in.js", SCRIPT, include_str!("assets/signed-in.js")),
    ("/assets/local-clients.js", SCRIPT, include_str!("assets/local-clients.js")),
    (guard::SERVICE_WORKER, SCRIPT, include_str!("assets/sw.js")),
    ("/assets/palette.js", SCRIPT, include_str!("assets/palette.js")),
    (
        "/assets/switchboard.webmanifest",
        "application/manifest+json",
        include_str!("assets/switchboard.webmanifest"),
    ),
    ("/assets/icon-waiting.svg", "image/svg+xml", include_str!("assets/icon-waiting.svg")),
    ("/assets/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// Icons for phones, which do not install pages with other formats.
const ICONS: [(&str, &[u8]); 4] = [
    ("/assets/icon-180.png", include_bytes!("assets/icon-180.png")),
    ("/assets/icon-192.png", include_bytes!("assets/icon-192.png")),
    ("/assets/icon-512.png", include_bytes!("assets/icon-512.png")),
    ("/assets/icon-maskable-512.png", include_bytes!("assets/icon-maskable-512.png")),
];

/// Returns the router of the page. The page and its assets are public and contain no session data, which uses only
/// the WebSocket. `routes` are further ones for browsers that are signed in.
pub(crate) fn router(app: Arc<App>, identify: Option<Identify>, routes: Router) -> Router {
    let guard = app.guard.clone();
    let mut router = Router::new()
        .route("/", get(page))
        .route("/r/{recording}", get(page))
        .route("/r/{recording}/{session}", get(page))
        .route(ENTER, post(enter))
        .route(KNOWN, get(|| async { StatusCode::NO_CONTENT }))
        .route(SOCKET, get(socket));
    if let Some(identify) = identify {
        router = router.route(TOKEN, post(move |app, head| by_token(app, identify, head)));
    }
    for (path, kind, text) in ASSETS {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
    }
    for (path, bytes) in ICONS {
        router =
            router.route(path, get(move || async move { ([(header::CONTENT_TYPE, "image/png")], bytes) }));
    }
    #[cfg(debug_assertions)]
    {
        let style = || async { ([(header::CONTENT_TYPE, STYLE)], include_str!("assets/design.css")) };
        router = router.route("/design", get(design)).route("/assets/design.css", get(style));
    }
    router
        .fallback(|| async { (StatusCode::NOT_FOUND, "There is nothing here.\n") })
        .with_state(app)
        .merge(routes)
        .layer(from_fn_with_state(guard, guard::check))
}

async fn enter(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    app.guard.sign_in_by_code(&headers)
}

/// Exchanges a bearer token for a key.
async fn by_token(State(app): State<Arc<App>>, identify: Identify, head: Parts) -> Response {
    let from = head.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(from)| *from);
    let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    // The check may read from the store, which blocks.
    match block_in_place(|| identify(&head, from)) {
        Ok(who) => app.guard.sign_in(who, &head.headers),
        Err(refusal) => refusal.into_response(),
    }
}

async fn socket(
    upgrade: WebSocketUpgrade,
    State(app): State<Arc<App>>,
    Extension(SignedIn(who)): Extension<SignedIn>,
) -> Response {
    let user = app.user(who).await;
    if user.is_revoked() {
        return (StatusCode::FORBIDDEN, "This browser is no longer signed in.\n").into_response();
    }
    let Ok(permit) = Arc::clone(&user.tab_permits).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many tabs are open.\n").into_response();
    };
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).protocols([PROTOCOL]);
    upgrade.on_upgrade(move |socket| tab::serve(socket, user, permit, Limits::default())).into_response()
}

async fn page(State(app): State<Arc<App>>) -> Html<String> {
    Html(shell(app.is_shared).into_string())
}

/// Renders all components, for the eye and for tests.
#[cfg(debug_assertions)]
async fn design() -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" { (head("Design", &["/assets/design.css"], &[])) (super::design::body()) }
    };
    Html(page.into_string())
}

fn shell(is_hub: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Switchboard", &[], scripts(is_hub)))
            body data-hub[is_hub] {
                (render::sprite())
                (door(is_hub))
                a class="skip" href="#prompt" { "Skip to the prompt" }
                div id="columns" {
                    (sidebar())
                    div id="drawer-back" hidden {}
                    (talk())
                    (inspector())
                }
                dialog id="dialog" aria-labelledby="dialog-title" {
                    form method="dialog" {
                        button class="close" aria-label="Close" { (icon("close")) }
                    }
                    div id="dialog-body" {}
                }
                dialog id="palette" aria-label="Commands" {
                    input id="palette-query" type="text" autocomplete="off" spellcheck="false" role="combobox"
                        aria-label="Search sessions, actions and agents" placeholder="Sessions, actions, agents"
                        aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list";
                    ul id="palette-list" role="listbox" aria-label="Commands" {}
                }
                div id="print" class="export" {}
                div id="toasts" role="status" aria-live="polite" popover="manual" {}
                p id="announcer" class="sr" aria-live="polite" {}
            }
        }
    }
}

/// Returns the scripts of the page. Those of a hub alone do not belong to `switchboard open`.
fn scripts(is_hub: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] =
        ["/assets/theme.js", "/assets/page.js", "/assets/push.js", "/assets/local-clients.js"];
    if is_hub { &ALL } else { &ALL[..2] }
}

fn head(title: &str, more_styles: &[&str], scripts: &[&str]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover";
            meta name="color-scheme" content="light dark";
            meta name="theme-color" content="#fbfbfa" media="(prefers-color-scheme: light)";
            meta name="theme-color" content="#161615" media="(prefers-color-scheme: dark)";
            title { (title) }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="apple-touch-icon" href="/assets/icon-180.png";
            link rel="manifest" href="/assets/switchboard.webmanifest";
            link rel="stylesheet" href="/assets/tokens.css";
            link rel="stylesheet" href="/assets/page.css";
            link rel="stylesheet" href="/assets/entries.css";
            link rel="stylesheet" href="/assets/export.css";
            @for style in more_styles { link rel="stylesheet" href=(style); }
            @for script in scripts { script type="module" src=(script) {} }
        }
    }
}

/// Renders the sign-in screen of a browser without a key.
fn door(is_hub: bool) -> Markup {
    html! {
        noscript { p { "This page needs JavaScript." } }
        main id="door" hidden {
            h1 { span class="logo" {} "Switchboard" }
            p { "This browser is not signed in. " span id="door-reason" role="alert" {} }
            @if is_hub {
                form id="token-form" {
                    label class="sr" for="token" { "Token" }
                    input id="token" type="password" placeholder="Token" autocomplete="current-password" spellcheck="false" required;
                    button type="submit" class="go" { "Sign in" }
                }
            }
            details open[!is_hub] {
                summary { "Other ways to sign in" }
                form id="code-form" {
                    label class="sr" for="code" { "Code" }
                    input id="code" type="text" placeholder="Code" autocomplete="one-time-code" autocapitalize="characters"
                        spellcheck="false" maxlength="12" required;
                    button type="submit" { "Sign in" }
                }
                ul {
                    @if is_hub {
                        li {
                            "An administrator of the hub creates a token with "
                            code { "switchboard tokens add NAME --role view|answer|use|admin" } "."
                        }
                    } @else {
                        li { "Press Enter in the terminal where " code { "switchboard open" } " runs, and open the new link." }
                    }
                    li {
                        "In a browser that is signed in, choose " strong { "Settings" } " and then "
                        strong { "Open in another browser" } "."
                    }
                    li { "Each link works once, and for a minute." }
                }
            }
        }
    }
}

fn sidebar() -> Markup {
    html! {
        nav id="sessions" aria-label="Sessions" {
            h2 class="sr" { "Sessions" }
            header class="brand" {
                span class="logo" {} "Switchboard"
                button type="button" class="icon-button" data-action="new" title="New session (Alt+N)" aria-label="New session" {
                    (icon("plus"))
                }
            }
            form id="search" role="search" aria-label="All sessions" {
                (icon("search"))
                label class="sr" for="query" { "Search in all sessions" }
                input id="query" type="search" placeholder="Search" autocomplete="off";
                kbd aria-hidden="true" { "Ctrl K" }
            }
            details id="new-box" {
                summary { (icon("plus")) "New session in…" }
                form id="new-session" {
                    label for="agent-choice" { "Agent" }
                    select id="agent-choice" {}
                    datalist id="known-folders" {}
                    label for="folder" { "Folder" }
                    input id="folder" type="text" autocomplete="off" spellcheck="false" list="known-folders";
                    button type="submit" class="go" { "New session" }
                }
            }
            div id="session-list" tabindex="-1" {
                div id="found" hidden {}
                div id="hub-sessions" {}
                div id="other-sessions" {}
            }
            details id="settings" class="menu" {
                summary { (icon("settings")) "Settings" }
                div {
                    button type="button" id="notify" data-action="notify" hidden { "Notify me of questions" }
                    button type="button" id="push" hidden { "Notify this browser" }
                    button type="button" data-action="notifications" { "Notifications" }
                    button type="button" data-action="choices" { "Choices for always" }
                    button type="button" data-action="link" { "Open in another browser" }
                    button type="button" data-action="keys" { "Keyboard shortcuts" }
                    label {
                        "Colours "
                        select id="theme" {
                            option value="" { "as the system" }
                            option value="light" { "light" }
                            option value="dark" { "dark" }
                        }
                    }
                }
            }
        }
    }
}

fn bar() -> Markup {
    html! {
        header class="bar" {
            button type="button" id="show-sessions" class="icon-button" aria-controls="sessions" aria-expanded="false"
                title="Sessions (Alt+S)" {
                    (icon("menu")) span class="sr" { "Sessions " } span id="badge" class="badge" hidden {}
                }
            div class="what" {
                h1 id="title" { "Switchboard" }
                p class="meta" { span id="agent" {} " " span id="state" {} }
            }
            span id="link-state" role="status" {}
            button type="button" id="show-find" class="icon-button" data-action="find" aria-controls="find"
                aria-expanded="false" title="Find in the session (Ctrl+F)" aria-label="Find in the session" { (icon("search")) }
            button type="button" class="icon-button" data-action="changes" title="Review changes" aria-label="Review changes" {
                (icon("changes"))
            }
            button type="button" id="show-inspector" class="icon-button" aria-controls="inspector" aria-expanded="false"
                title="Inspector (Alt+I)" aria-label="Inspector" { (icon("switch")) }
            details id="menu" class="menu" hidden {
                summary title="More" aria-label="More" { (icon("more")) }
                div id="offers" {}
            }
        }
    }
}

fn talk() -> Markup {
    html! {
        main id="talk" {
            (bar())
            form id="find" role="search" aria-label="This session" hidden {
                input id="find-query" type="search" placeholder="Find in the session" aria-label="Find in the session"
                    autocomplete="off" maxlength="500";
                output id="find-count" for="find-query" {}
                button type="button" class="icon-button" data-action="find-step" data-step="-1" aria-label="Previous match" { (icon("up")) }
                button type="button" class="icon-button" data-action="find-step" data-step="1" aria-label="Next match" { (icon("down")) }
                button type="button" class="icon-button" data-action="find" aria-label="Close the search" { (icon("close")) }
            }
            div id="then" hidden {
                span id="then-words" {}
                button type="button" data-action="now" { "Back to now" }
            }
            nav id="path" aria-label="Where this sub-agent belongs" hidden {}
            div id="scroller" tabindex="0" aria-label="Transcript" role="region" {
                div id="history" role="group" aria-label="History of the original" hidden {}
                div id="hint" hidden {}
                h2 class="sr" { "Transcript" }
                div id="before" {}
                div id="transcript" {}
                div id="after" {}
                div id="notices" {}
                div id="unknown" {}
                div id="queue" role="status" {}
                div id="held" role="status" {}
            }
            div id="foot" {
                button type="button" id="to-end" hidden { (icon("down")) "Latest" }
                div id="trouble" role="alert" {}
                div id="refusal" role="alert" hidden {}
                div id="question-count" {}
                div id="questions" role="group" aria-label="Questions of the agent" {}
                details id="plan-box" hidden { summary id="plan-now" { "Plan" } div id="plans" {} }
                (composer())
            }
        }
    }
}

fn composer() -> Markup {
    html! {
        form id="composer" {
            div id="editing" class="meta" hidden {
                p id="editing-words" {}
                button type="button" data-action="cancel-edit" { "Cancel" }
            }
            ul id="completions" role="listbox" aria-label="Commands and files" hidden {}
            ul id="commands" hidden {}
            label class="sr" for="prompt" { "Prompt" }
            textarea id="prompt" rows="1" placeholder="Tell the agent what to do, / for commands, @ for files"
                data-short="Tell the agent what to do" data-busy="Reply, or queue the next task"
                aria-autocomplete="list" aria-controls="completions" {}
            ul id="attachments" aria-label="Attached files" {}
            div class="tools" {
                label id="attach" class="button" title="Attach files" hidden {
                    (icon("attach")) span class="sr" { "Attach" } input id="files" type="file" multiple;
                }
                div id="config" {}
                span class="grow" {}
                div id="usage" {}
                button type="button" id="cancel" data-action="cancel-turn" disabled title="Stop (Escape)" {
                    (icon("stop")) span class="sr" { "Stop" }
                }
                button type="submit" id="send" title="Send (Enter)" { (icon("send")) span class="sr" { "Send" } }
            }
        }
    }
}

fn inspector() -> Markup {
    let choice = |id: &str, name: &str, values: &[(&str, &str)]| {
        html! {
            label { span class="sr" { (name) } select id=(id) aria-label=(name) {
                @for (value, words) in values { option value=(value) { (words) } }
            } }
        }
    };
    html! {
        aside id="inspector" aria-label="Inspector" hidden {
            form id="filters" {
                input id="wire-text" type="search" placeholder="Search messages" aria-label="Search messages" autocomplete="off";
                (choice("wire-direction", "Direction", &[("", "both ways"), ("in", "from the agent"), ("out", "to the agent")]))
                (choice("wire-side", "Side", &[("", "all sides"), ("main", "session side"), ("other", "other side of the bridge"), ("notes", "standard error and notes")]))
                (choice("wire-method", "Method", &[("", "all methods")]))
                (choice("wire-kind", "Kind of update", &[("", "all updates")]))
                (choice("wire-session", "Session", &[("", "all sessions")]))
                label { input id="wire-problems" type="checkbox"; " only problems" }
                button type="button" id="wire-entry" hidden { "One entry ✕" }
                button type="button" data-action="verdict" title="Does it keep the protocol?" { "Verdict" }
            }
            div id="rates" {}
            p id="wire-count" class="meta" role="status" {}
            div id="wire" tabindex="0" role="grid" aria-label="Messages" { div id="wire-size" { div id="wire-rows" {} } }
            section id="detail" aria-label="Message" tabindex="-1" hidden {}
            div id="time" {
                label for="slider" { "The session after message " output id="slider-at" {} }
                input id="slider" type="range" min="0" max="0" value="0";
            }
        }
    }
}
