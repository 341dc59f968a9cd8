//! Everything of a session beside its entries, in pieces that are replaced as a whole.

use maud::{Markup, html};
use switchboard_peer::ElicitationQuestion;
use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::{Wire, WireFormat, v2};
use switchboard_session::{Activity, EntryKind, Moment, Permission, Session, Snapshot};

use super::app::{AgentState, App};
use super::asked::Asked;
use super::live::Live;
use super::live_recording::LiveRecording;
use super::remembered::Remembered;
use super::render;

/// So many of the latest updates of unknown kinds are shown.
const MOST_UNKNOWN: usize = 20;

/// All pieces, by the name of the place that they go to. `is_now`: the snapshot is the session as it is, not as it was.
pub(crate) fn all(
    app: &App,
    room: Option<&LiveRecording>,
    live: Option<&Live>,
    session: &str,
    snapshot: Option<&Snapshot>,
    is_now: bool,
) -> Vec<(&'static str, String)> {
    // Only what is asked now can be answered.
    let asker = live.filter(|live| is_now && live.ended().is_none());
    let waiting = asker.map_or(0, |live| waiting(live, snapshot));
    let mut panels = vec![
        ("agent", agent(app, room, live).into_string()),
        ("title", title(session, snapshot).into_string()),
        ("trouble", trouble(app, room, live, session).into_string()),
        ("questions", questions(app, asker, session, snapshot).into_string()),
        ("takes", takes(live)),
        ("folder", app.folder.display().to_string()),
        ("activity", activity(live, snapshot, waiting).to_owned()),
    ];
    if let Some(snapshot) = snapshot {
        panels.extend([
            ("state", state(live, snapshot, waiting).into_string()),
            ("plans", render::plans(snapshot).into_string()),
            ("usage", render::usage(snapshot).into_string()),
            ("config", render::config_options(snapshot).into_string()),
            ("commands", render::commands(snapshot).into_string()),
            ("notices", render::notices(snapshot).into_string()),
            ("unknown", unknown(snapshot).into_string()),
        ]);
    }
    panels
}

fn agent(app: &App, room: Option<&LiveRecording>, live: Option<&Live>) -> Markup {
    match live {
        Some(live) => {
            let description = live.agent.description();
            let version = description.info.as_ref().map_or("", |info| &info.version);
            html! {
                strong { (render::visible_line(description.name())) } " "
                span class="meta" { (render::visible_line(version)) " · ACP " (description.version) }
            }
        }
        None => {
            let name =
                room.map_or(&*app.agent_name, |room| room.about.agent.as_deref().unwrap_or("unknown agent"));
            html! {
                strong { (render::visible_line(name)) }
                @if room.is_some() { " " span class="meta" { "recording" } }
            }
        }
    }
}

fn title(session: &str, snapshot: Option<&Snapshot>) -> Markup {
    let title = snapshot.and_then(Snapshot::title).filter(|title| !title.is_empty());
    html! { (render::visible_line(title.unwrap_or(if session.is_empty() { "No session" } else { session }))) }
}

/// How many questions wait for somebody here.
fn waiting(live: &Live, snapshot: Option<&Snapshot>) -> usize {
    let of_session = snapshot.map_or(0, |snapshot| {
        snapshot.pending_permissions().count() + snapshot.pending_elicitations().count()
    });
    of_session + live.loose_elicitations().len()
}

/// What the session does. What an agent that is gone was doing last is no longer so, and whoever waits for an answer
/// does nothing else, whatever it says.
fn state(live: Option<&Live>, snapshot: &Snapshot, waiting: usize) -> Markup {
    let is_gone = live.is_some_and(|live| live.ended().is_some());
    let (class, mark, words) = match waiting {
        _ if is_gone => ("st st-bad", "✗ ", "gone".to_owned()),
        0 => return render::state(snapshot),
        1 => ("st st-wait", "! ", "1 question waits for you".to_owned()),
        more => ("st st-wait", "! ", format!("{more} questions wait for you")),
    };
    html! { span class=(class) role="status" { span aria-hidden="true" { (mark) } (words) } }
}

/// What the page needs to know about what goes on, in one word.
fn activity(live: Option<&Live>, snapshot: Option<&Snapshot>, waiting: usize) -> &'static str {
    match (live, snapshot.map(Snapshot::activity)) {
        (None, _) => "recording",
        (Some(live), _) if live.ended().is_some() => "gone",
        _ if waiting > 0 => "requires-action",
        (_, None | Some(Activity::Idle)) => "idle",
        (_, Some(Activity::RequiresAction)) => "requires-action",
        (_, Some(_)) => "running",
    }
}

/// What is in the way, and what can be done about it.
fn trouble(app: &App, room: Option<&LiveRecording>, live: Option<&Live>, session: &str) -> Markup {
    let failure = room.and_then(LiveRecording::failure);
    html! {
        @if let Some(failure) = failure { p { "The recording cannot be read on: " (render::visible(&failure)) } }
        @if let Some(live) = live.filter(|live| live.ended().is_none()) { (elsewhere(live, session)) }
        @match (live.and_then(Live::ended), app.agent()) {
            (Some(reason), _) => {
                p { "The agent is gone: " (render::visible(reason)) }
                button type="button" data-action="start" { "Start it again" }
            }
            (None, AgentState::Failed(reason)) => {
                p { "The agent cannot be started: " (render::visible(&reason)) }
                button type="button" data-action="start" { "Try again" }
            }
            (None, AgentState::Starting) => p { "The agent is starting." },
            (None, AgentState::Running(running)) => {
                @if live.is_some() && running.room.session_ids().is_empty() {
                    (logins(&running))
                } @else if let (None, Some(room), Some(folder)) = (live, room, room.and_then(project)) {
                    @if !session.is_empty() && room.about.agent.as_deref() == Some(&*app.agent_name) {
                        p class="meta" { "This is a recording." }
                        button type="button" data-action="resume" data-session=(session) data-folder=(folder) {
                            "Go on with this session"
                        }
                    }
                }
            }
        }
    }
}

/// Questions in other sessions, which nobody would see here.
fn elsewhere(live: &Live, session: &str) -> Markup {
    html! {
        @for (asking, count) in live.asked_elsewhere(session) {
            p {
                @if count == 1 { "A question waits" } @else { (count) " questions wait" }
                " for you in the session " (render::visible_line(&asking)) "."
            }
            button type="button" data-action="look" data-recording=(live.room.id) data-session=(asking) { "Look" }
        }
    }
}

fn project(room: &LiveRecording) -> Option<&str> {
    room.about.project.as_deref()
}

/// Why an agent has opened no session, and the ways to log in.
fn logins(live: &Live) -> Markup {
    let methods = &live.agent.description().auth_methods;
    html! {
        p {
            "No session is open"
            @match live.refusal() {
                Some(reason) => { ": " (render::visible(&reason)) },
                None => { "." },
            }
        }
        @if methods.is_empty() {
            button type="button" data-action="new" { "Try again" }
        } @else {
            p { "It may want a login first." }
        }
        @for method in methods { (login(live, method)) }
    }
}

fn login(live: &Live, method: &v2::AuthMethod<'_>) -> Markup {
    let about = |description: Option<&str>| {
        html! { @if let Some(words) = description { span class="meta" { (render::visible(words)) } } }
    };
    match method {
        v2::AuthMethod::Agent(method) => html! {
            button type="button" data-action="login" data-method=(method.method_id) {
                (render::visible_line(&method.name))
            }
            (about(method.description.as_deref()))
        },
        v2::AuthMethod::Terminal(method) => html! {
            p {
                (render::visible_line(&method.name)) ": run "
                code {
                    (live.name)
                    @for argument in method.args.iter().flatten() { " " (render::visible_line(argument)) }
                }
                " in a terminal, then "
                button type="button" data-action="new" { "try again" }
            }
            (about(method.description.as_deref()))
        },
        v2::AuthMethod::Unknown(_) => html! {
            p class="meta" { "There is also a way to log in that is not known here." }
        },
    }
}

/// What waits for an answer.
fn questions(app: &App, live: Option<&Live>, session: &str, snapshot: Option<&Snapshot>) -> Markup {
    html! {
        @if let Some(snapshot) = snapshot {
            @for permission in snapshot.pending_permissions() {
                @let asked = asked(live, session, snapshot, permission);
                @let always = render::always(permission, Remembered::refuses(&asked));
                @let parts = render::permission(snapshot, permission, &app.cache).into_iter().chain(always);
                // Where a call is long, its earlier pages are asked for by its position.
                @let call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
                (question(live, permission.id(), &asked, parts, call))
            }
            @for elicitation in snapshot.pending_elicitations() {
                @let asked = asked_for_data(live, elicitation.id(), elicitation.request());
                (question(live, elicitation.id(), &asked, render::elicitation(elicitation), None))
            }
        }
        @for loose in live.map(Live::loose_elicitations).unwrap_or_default() {
            @let asked = asked_for_data(live, loose.id(), loose.request());
            (question(live, loose.id(), &asked, loose_elicitation(&loose), None))
        }
    }
}

fn asked_for_data(
    live: Option<&Live>,
    id: &RequestId<'_>,
    request: &v2::CreateElicitationRequest<'_>,
) -> Asked {
    live.map_or_else(|| Asked::elicitation(request, None), |live| live.asked_for_data(id, request))
}

fn asked(live: Option<&Live>, session: &str, snapshot: &Snapshot, permission: &Permission) -> Asked {
    let now = live.and_then(|live| live.asked(session, snapshot, permission.id()));
    now.unwrap_or_else(|| Asked::permission(snapshot, permission, None))
}

fn question(
    live: Option<&Live>,
    id: &RequestId<'_>,
    asked: &Asked,
    parts: impl IntoIterator<Item = render::Part>,
    call: Option<usize>,
) -> Markup {
    let id = id.encode(WireFormat::Any);
    let is_open = live.is_some_and(|live| live.note_content(&id, asked));
    html! {
        section class="question" data-question=(id) data-revision=(asked.revision()) data-position=[call]
            data-open[is_open] {
            @if let Some(left_out) = asked.left_out() { (render::left_out(left_out)) }
            @for part in parts { (maud::PreEscaped(&*part.html)) }
        }
    }
}

/// A request for data that belongs to no session, shown as in a session of its own.
fn loose_elicitation(question: &ElicitationQuestion) -> Vec<render::Part> {
    let mut session = Session::new(WireFormat::Any);
    session.open_elicitation(question.id(), question.request(), Moment(0));
    session.elicitation(question.id()).map(render::elicitation).unwrap_or_default()
}

/// Updates of kinds that nobody here knows, the last ones in full.
fn unknown(snapshot: &Snapshot) -> Markup {
    let count = snapshot.unknown().count();
    html! {
        @if count > 0 {
            details class="raw" {
                summary { (count) " updates of unknown kinds" }
                @for update in snapshot.unknown().skip(count.saturating_sub(MOST_UNKNOWN)) {
                    (render::json_block(&v2::SessionUpdate::Unknown(update.clone()).encode(WireFormat::Any)))
                }
            }
        }
    }
}

/// What can go with a prompt, for the picker of files.
fn takes(live: Option<&Live>) -> String {
    let session = live.and_then(|live| live.agent.description().capabilities.session.as_ref());
    let Some(prompt) = session.and_then(|session| session.prompt.as_ref()) else { return String::new() };
    let mut kinds = Vec::new();
    if prompt.image.is_some() {
        kinds.push("image/*");
    }
    if prompt.audio.is_some() {
        kinds.push("audio/*");
    }
    if prompt.embedded_context.is_some() {
        kinds.push("*/*");
    }
    kinds.join(",")
}
