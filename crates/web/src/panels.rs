//! Panels around the entries of a session. Each one is replaced as a whole.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::json;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_hub::{SessionActivity, SessionSummary};
use switchboard_session::{Activity, Conversation, Snapshot};
use switchboard_store::Role;

use super::live::{Failure, Live};
use super::live_recording::LiveRecording;
use super::subagents::{self, Below, Named, SessionNode, SessionSource};
use super::user_state::{FirstSession, Stage, UserState};
use super::{lists, questions, render};

/// Number of updates of unknown kinds that are shown, the latest ones.
const MOST_UNKNOWN: usize = 20;

/// The content of a tab, from which its panels are rendered.
pub(crate) struct Subject<'a> {
    pub(crate) user: &'a UserState,
    /// Reason why the requested recording cannot be shown.
    pub(crate) missing: Option<&'a Failure>,
    /// Reason why attaching to the session failed.
    pub(crate) refusal: Option<&'a Failure>,
    pub(crate) source: Option<SessionSource<'a>>,
    /// Connection to the session, if there is one.
    pub(crate) live: Option<&'a Live>,
    pub(crate) session: &'a str,
    pub(crate) shown: Option<&'a SessionNode>,
    /// `true` for the present state, `false` for an earlier one.
    pub(crate) is_now: bool,
    /// Number of questions before the first visible one.
    pub(crate) skipped_questions: usize,
}

impl<'a> Subject<'a> {
    /// Returns the connection if questions can be answered over it: only in the present state, and while it is open.
    pub(crate) fn asker(&self) -> Option<&'a Live> {
        self.live.filter(|live| self.is_now && live.ended().is_none())
    }

    pub(crate) fn room(&self) -> Option<&'a LiveRecording> {
        self.source.map(|source| source.room)
    }

    /// Returns the summary of the shown session, if it is one of the hub.
    fn hosted(&self) -> Option<SessionSummary> {
        self.room().and_then(|room| self.user.session(&room.id))
    }

    /// Returns the reason for the end of the agent process, if it is lost.
    fn lost(&self) -> Option<String> {
        self.hosted().and_then(|session| session.lost)
    }

    fn below(&self) -> Below {
        let below = self.source.map(|source| source.look(|it| subagents::below(it, self.session)));
        below.unwrap_or_default()
    }
}

/// Renders all panels, by the id of their element.
pub(crate) fn all(subject: &Subject<'_>) -> Vec<(&'static str, String)> {
    let Subject { user, live, session, .. } = *subject;
    let app = &*user.app;
    let snapshot = subject.shown.map(|shown| &shown.snapshot);
    let asker = subject.asker();
    let below = subject.below();
    let waiting = asker.map_or(0, |live| below.questions + live.loose_elicitations().len());
    let mut line = subject.source.map(|source| source.look(|it| line(it, session))).unwrap_or_default();
    if let ([only], Some(room)) = (&mut *line, subject.room())
        && *only.name == *only.id
    {
        let hosted = user.session(&room.id).and_then(|session| session.title);
        let said = || snapshot.and_then(subagents::first_words);
        let name = hosted.or_else(said).or_else(|| room.about.title.clone());
        only.name = name.unwrap_or_else(|| lists::NAMELESS.to_owned());
    }
    let mut panels = vec![
        ("agent", agent(subject).into_string()),
        ("title", title(line.last()).into_string()),
        ("path", path(subject, &line).into_string()),
        ("trouble", trouble(subject).into_string()),
        ("questions", questions::all(subject, &below).into_string()),
        ("takes", takes(live)),
        ("folder", app.folder.display().to_string()),
        ("activity", activity(subject, snapshot, waiting).to_owned()),
        ("offers", offers(subject, line.last()).into_string()),
        ("hint", hint(subject).into_string()),
        ("queue", queue(subject).into_string()),
        ("speech", message_effect(subject, snapshot).to_owned()),
        ("history", original(subject).map(|original| original.id.to_string()).unwrap_or_default()),
    ];
    panels.extend([
        ("waiting", waiting_anywhere(subject)),
        ("hub-sessions", lists::of_hub(user, subject.room().map(|room| &*room.id)).into_string()),
        ("role", user.role().to_string()),
    ]);
    if user.may(Role::Use) {
        panels.extend([
            ("agent-choice", lists::agents(user).into_string()),
            ("known-folders", lists::folders(user).into_string()),
        ]);
    }
    if snapshot.is_none() {
        let empty = ["state", "plans", "plan-now", "usage", "commands", "notices", "unknown"];
        panels.extend(empty.map(|name| (name, String::new())));
        panels.push(("config", agent_of_first_message(subject).into_string()));
    }
    if let Some(snapshot) = snapshot {
        panels.extend([
            ("state", state(subject, snapshot, &below, waiting).into_string()),
            ("plans", render::plans(snapshot, &app.cache).into_string()),
            ("plan-now", render::plan_line(snapshot).into_string()),
            ("usage", render::usage(snapshot).into_string()),
            ("config", render::config_options(snapshot).into_string()),
            ("commands", render::commands(snapshot).into_string()),
            ("notices", notices(subject, snapshot).into_string()),
            ("unknown", unknown(snapshot).into_string()),
        ]);
    }
    panels
}

/// Renders the notices that no entry shows: those before the first entry, and all of an earlier state.
fn notices(subject: &Subject<'_>, snapshot: &Snapshot) -> Markup {
    let all = snapshot.notices();
    let is_whole = subject.is_now && subject.room().is_some_and(|room| room.preview().is_none());
    let places = match subject.room() {
        Some(room) if is_whole && !all.is_empty() => room.log().notices(subject.session),
        _ => Vec::new(),
    };
    let unknown = all.len().saturating_sub(places.len());
    let has_place =
        |number: usize| number >= unknown && places.get(number - unknown).is_some_and(|length| *length > 0);
    let loose: Vec<_> = all.iter().enumerate().filter(|(number, _)| !has_place(*number)).collect();
    render::notices(loose.into_iter().map(|(_, notice)| notice))
}

/// Returns the path from the root to a session.
fn line(conversation: &Conversation, session: &str) -> Vec<Named> {
    let mut line = subagents::ancestors(conversation, session);
    line.push(Named { id: session.into(), name: subagents::name(conversation, session) });
    line
}

fn agent(subject: &Subject<'_>) -> Markup {
    if let Some(live) = subject.live {
        let description = live.agent.description();
        let version = description.info.as_ref().map_or("", |info| &info.version);
        let about = format!("{version} · ACP {}", live.version());
        return html! {
            strong title=(switchboard_acp::display::visible_line(&about)) { (render::visible_line(description.name())) }
            @if let Some(room) = subject.room().filter(|room| !room.folder().is_empty()) {
                span class="meta" title=(switchboard_acp::display::visible_line(room.folder())) {
                    " · " (render::visible_line(&lists::at_home(room.folder())))
                }
            }
            span class="sr" { " " (render::visible_line(&about)) }
        };
    }
    let Some(room) = subject.room() else { return html! {} };
    let name = room.about.agent.as_deref().unwrap_or("unknown agent");
    html! {
        strong { (render::visible_line(name)) }
        @if subject.hosted().is_none() { " " span class="meta" { "recording" } }
    }
}

fn title(session: Option<&Named>) -> Markup {
    let name = session.map(|session| &*session.name).filter(|name| !name.is_empty());
    html! { (render::visible_line(name.unwrap_or("Switchboard"))) }
}

/// Renders the path of a sub-agent with links to its ancestors. Empty for a session without a parent.
fn path(subject: &Subject<'_>, line: &[Named]) -> Markup {
    let (Some((own, above)), Some(room)) =
        (line.split_last().filter(|(_, above)| !above.is_empty()), subject.room())
    else {
        return html! {};
    };
    let parent = above.last().map_or("", |parent| &*parent.id);
    let can_cancel = subject.asker().is_some() && subject.user.may(Role::Answer) && {
        let look = |it: &Conversation| {
            let can = it.session(Some(parent))?.subagent(&own.id)?.capabilities()?.cancel.is_some();
            Some(can && subagents::is_active(it, &own.id))
        };
        subject.source.and_then(|source| source.look(look)).unwrap_or(false)
    };
    html! {
        span class="meta" { "Sub-agent of " }
        (render::line(&room.id, above))
        span aria-hidden="true" { " › " }
        span aria-current="page" { (render::visible_line(&own.name)) }
        @if can_cancel {
            button type="button" data-action="cancel-session" data-session=(own.id) { "Cancel" }
        }
    }
}

/// Renders the state of the session. A lost agent and pending questions take precedence over the reported state.
fn state(subject: &Subject<'_>, snapshot: &Snapshot, below: &Below, waiting: usize) -> Markup {
    let is_gone = subject.is_now && subject.lost().is_some();
    let (class, mark, words) = match waiting {
        _ if is_gone => ("st st-bad", "✗ ", "gone".to_owned()),
        0 => return html! { (quiet_state(subject, snapshot)) (at_work(subject, below)) },
        1 => ("st st-wait", "! ", "1 question waits for you".to_owned()),
        more => ("st st-wait", "! ", format!("{more} questions wait for you")),
    };
    html! {
        span class=(class) role="status" { span aria-hidden="true" { (mark) } (words) }
        (at_work(subject, below))
    }
}

/// Renders the state of a session without pending questions. A sub-agent's state may be reported only by its parent.
fn quiet_state(subject: &Subject<'_>, snapshot: &Snapshot) -> Markup {
    match subject.shown.filter(|shown| shown.parent.is_some()) {
        Some(shown) => {
            html! { span role="status" { (render::work(shown.state.as_ref(), shown.state_in_words)) } }
        }
        None => render::state(snapshot),
    }
}

/// Renders the number of sub-agents, as a button that lists them.
fn at_work(subject: &Subject<'_>, below: &Below) -> Markup {
    // Without an agent process no sub-agent is active.
    let busy = if subject.asker().is_some() || !subject.is_now { below.at_work } else { 0 };
    html! {
        @if below.count > 0 {
            " " button type="button" class="family" data-action="family" title="All sub-agents" {
                @match (busy, below.count) {
                    (0, 1) => "1 sub-agent",
                    (0, count) => { (count) " sub-agents" },
                    (1, _) => "1 sub-agent at work",
                    (busy, _) => { (busy) " sub-agents at work" },
                }
            }
        }
    }
}

/// Renders the actions on the whole session: those of the agent, which sub-agents lack, and those of Switchboard.
fn offers(subject: &Subject<'_>, session: Option<&Named>) -> Markup {
    let (Some(room), Some(session)) = (subject.room(), session) else { return html! {} };
    let may_act = subject.user.may(Role::Use);
    let is_root = subject.shown.is_some_and(|shown| shown.parent.is_none());
    let live = subject.asker().filter(|_| is_root && may_act);
    let can = |what: fn(&v2::SessionCapabilities<'_>) -> bool| live.is_some_and(|live| live.offers(what));
    html! {
        button type="button" data-action="changes" { "Review changes" }
        button type="button" data-action="pictures" { "Time line and cost" }
        @if can(|can| can.fork.is_some()) {
            button type="button" data-action="fork" title="A copy that goes on by itself" { "Fork" }
        }
        @if can(|can| can.title.is_some()) {
            button type="button" data-action="rename" data-title=(session.name) { "Rename" }
        }
        @if can(|can| can.archive.is_some()) {
            button type="button" data-action="archive" { "Archive" }
        }
        button type="button" data-action="export" { "Export…" }
        button type="button" data-action="print" { "Print" }
        @if subject.user.may_delete(&room.id) {
            button type="button" data-action="delete" data-recording=(room.id) data-title=(session.name) { "Delete…" }
        }
    }
}

/// Suggested prompts for a new session with an arbitrary agent.
const EXAMPLES: [&str; 3] = [
    "Explain how this project is built and tested.",
    "Review what has changed since the last commit.",
    "Find a test that fails, and repair what it shows.",
];
/// Suggested prompts for the demo agent, with a description of each.
const DEMO_EXAMPLES: [(&str, &str); 3] = [
    ("Show how changes of files look.", "edit"),
    ("Ask me for permission before a change.", "permission"),
    ("Let two sub-agents do the work.", "subagents"),
];
/// Number of sessions on the start screen.
const MOST_RECENT: usize = 5;

/// Renders the placeholder of an empty transcript.
fn hint(subject: &Subject<'_>) -> Markup {
    if subject.missing.is_some() {
        return html! {};
    }
    if subject.room().is_none() {
        return match subject.user.first_session() {
            FirstSession::Empty | FirstSession::Opened(_) | FirstSession::Failed(_) => {
                start_screen(subject.user)
            }
            FirstSession::Starting { .. } => starting(subject.user),
            FirstSession::Refused(..) => html! {},
        };
    }
    if subject.shown.is_some_and(|shown| shown.parent.is_some()) {
        return html! { "Nothing has come of this sub-agent yet." };
    }
    let original = original(subject);
    html! {
        @match &original {
            Some(original) => p {
                "A copy of "
                a href=(format!("/r/{}", original.id)) data-action="look" data-recording=(original.id) {
                    (render::visible_line(lists::name(original)))
                }
                ". The agent knows what was said there."
            },
            None => (first_screen(subject)),
        }
    }
}

/// Renders the agent that a message on the start screen goes to, as a choice.
fn agent_of_first_message(subject: &Subject<'_>) -> Markup {
    if message_effect(subject, None) != "start" {
        return html! {};
    }
    html! {
        label class="config" title="Agent" {
            span class="sr" { "Agent" }
            select id="start-agent" { (lists::agents(subject.user)) }
        }
    }
}

/// Returns the session that the shown one is a copy of, if the user may see it.
fn original(subject: &Subject<'_>) -> Option<SessionSummary> {
    let is_root = subject.shown.is_none_or(|shown| shown.parent.is_none());
    let origin = subject.room().filter(|_| is_root)?.origin()?;
    subject.user.session(&origin.session)
}

/// Renders the introduction of an empty session: agent, folder and suggested prompts.
fn first_screen(subject: &Subject<'_>) -> Markup {
    let Some(live) = subject.live else { return html! {} };
    let description = live.agent.description();
    let version = description.info.as_ref().map_or("", |info| &info.version);
    let examples = if live.name == "demo" { DEMO_EXAMPLES } else { EXAMPLES.map(|words| (words, words)) };
    let has_others = subject.user.agents().len() > 1;
    html! {
        h2 { (render::visible_line(description.name())) " " span class="meta" { (render::visible_line(version)) } }
        p class="meta" {
            "Works in " code { (render::visible_line(&lists::at_home(&live.folder.display().to_string()))) }
            ". Switchboard records the session, asks you before the agent does what needs your permission, and shows every message in the inspector."
        }
        @if subject.user.may(Role::Use) {
            h3 { "Tell the agent below what to do, or try:" }
            div class="examples" {
                @for (words, text) in examples {
                    button type="button" data-action="example" data-text=(text) { (words) }
                }
            }
            @if has_others { h3 { "Or start another agent" } (lists::starts(subject.user)) }
            (lists::recent(subject.user, MOST_RECENT))
        }
    }
}

/// Renders the screen without a session: an introduction, the agents, suggested prompts, and the latest sessions.
fn start_screen(user: &UserState) -> Markup {
    let may_start = user.may(Role::Use) && !user.agents().is_empty();
    html! {
        h2 { "Switchboard" }
        p class="meta" {
            "One page for every coding agent that speaks ACP: talk to it, answer its questions, review what it changed, and see every message."
        }
        @if may_start {
            h3 { "Start a session" }
            p class="meta" {
                "In " code { (render::visible_line(&lists::at_home(&user.app.folder.display().to_string()))) }
                ". Another folder: " em { "New session in…" } " in the side bar."
            }
            (lists::starts(user))
            h3 { "Or say below what to do" }
            div class="examples" {
                @for text in EXAMPLES {
                    button type="button" data-action="example" data-text=(text) { (text) }
                }
            }
        }
        (lists::recent(user, MOST_RECENT))
    }
}

/// Renders the progress of the first session.
fn starting(user: &UserState) -> Markup {
    let FirstSession::Starting { agent, since, stage } = user.first_session() else { return html! {} };
    html! {
        h2 {
            @match stage {
                Stage::Program => "Starting ",
                Stage::Session => "Opening a session with ",
            }
            (render::visible_line(lists::title_of_agent(user, &agent))) "…"
        }
        p class="meta" { "In " code { (render::visible_line(&lists::at_home(&user.app.folder.display().to_string()))) } " " span data-since=(since) {} }
        p class="meta" {
            @match stage {
                Stage::Program => "Its program runs and has not answered the handshake yet. ",
                Stage::Session => "It has answered. ",
            }
            "A message that you write now is sent as soon as the session is open."
        }
    }
}

/// Renders the queued prompts.
fn queue(subject: &Subject<'_>) -> Markup {
    let hosted = subject.hosted().filter(|_| subject.is_now);
    let is_starting = hosted.as_ref().is_some_and(|session| session.state == SessionActivity::Dormant);
    let queued = hosted.map(|session| session.queued).unwrap_or_default();
    let until = match (is_starting, queued.len()) {
        (true, 1) => "1 message waits until the agent has started".to_owned(),
        (true, count) => format!("{count} messages wait until the agent has started"),
        (false, 1) => "1 message waits for its turn".to_owned(),
        (false, count) => format!("{count} messages wait for their turn"),
    };
    html! {
        @if !queued.is_empty() { p class="meta" { (until) } }
        @for prompt in &queued {
            div class="queued" {
                p { (render::visible(&prompt.text)) }
                @if let Some(number) = subject.live.and_then(|live| live.number_of(prompt)) {
                    span class="actions" {
                        button type="button" data-action="edit-queued" data-prompt=(number) { "Edit" }
                        button type="button" data-action="take-back" data-prompt=(number) { "Take back" }
                    }
                }
            }
        }
    }
}

/// Returns the effect of a message: it starts a turn (`prompt`), steers the running turn (`steer`), waits for the
/// session (`later`), starts a session (`start`), or cannot be sent (empty). Sub-agents take messages only from their own agent.
fn message_effect(subject: &Subject<'_>, snapshot: Option<&Snapshot>) -> &'static str {
    if !subject.user.may(Role::Use) || !subject.is_now || subject.missing.is_some() {
        return "";
    }
    if subject.shown.is_some_and(|shown| shown.parent.is_some()) {
        return "";
    }
    let Some(live) = subject.live else {
        return match (subject.room(), subject.user.first_session()) {
            _ if can_send_soon(subject) => "later",
            (None, FirstSession::Empty | FirstSession::Opened(_) | FirstSession::Failed(_))
                if !subject.user.agents().is_empty() =>
            {
                "start"
            }
            _ => "",
        };
    };
    if live.ended().is_some() {
        return "";
    }
    let is_busy = snapshot.is_some_and(|snapshot| snapshot.activity() != Activity::Idle);
    if is_busy && live.agent.description().can_steer() { "steer" } else { "prompt" }
}

/// Returns `true` if messages can be sent soon: the first session is being opened, or the hub can resume the shown
/// one.
fn can_send_soon(subject: &Subject<'_>) -> bool {
    match (subject.room(), subject.hosted()) {
        (None, _) => matches!(subject.user.first_session(), FirstSession::Starting { .. }),
        (Some(_), Some(known)) => {
            subject.refusal.is_none() && subject.user.app.hub.has_agent(Some(&known.agent))
        }
        (Some(_), None) => false,
    }
}

/// Returns the activity of the session as one word for the page.
fn activity(subject: &Subject<'_>, snapshot: Option<&Snapshot>, waiting: usize) -> &'static str {
    match (subject.live, snapshot.map(Snapshot::activity)) {
        (None, _) => "recording",
        _ if subject.lost().is_some() => "gone",
        _ if waiting > 0 => "requires-action",
        (_, None | Some(Activity::Idle)) => "idle",
        (_, Some(Activity::RequiresAction)) => "requires-action",
        (_, Some(_)) => "running",
    }
}

/// Renders problems and the actions against them.
fn trouble(subject: &Subject<'_>) -> Markup {
    let Subject { user, live, .. } = *subject;
    let failure = subject.room().and_then(LiveRecording::failure);
    let here = subject.room().map(|room| &*room.id);
    let others: Vec<_> = user.asking().into_iter().filter(|asking| Some(&*asking.id) != here).collect();
    html! {
        @if let Some((count, reason)) = subject.room().and_then(LiveRecording::gaps) {
            p {
                (count) @if count == 1 { " record" } @else { " records" }
                " of this session cannot be read: " (render::visible(&reason))
            }
        }
        @if let Some(failure) = failure { p { "The recording cannot be read on: " (render::visible(&failure)) } }
        @for asking in others.iter().take(MOST_ASKING) {
            p {
                @if asking.questions == 1 { "A question waits" } @else { (asking.questions) " questions wait" }
                " for you in the session " (render::visible_line(lists::name(asking))) "."
            }
            button type="button" data-action="look" data-recording=(asking.id) { "Look" }
        }
        (elsewhere(subject))
        @if others.len() > MOST_ASKING { p { "More wait in " (others.len() - MOST_ASKING) " other sessions." } }
        @match (live, subject.hosted(), here) {
            (_, _, None) if subject.missing.is_some() => (missing(subject)),
            (_, _, None) => (before_a_session(user)),
            (Some(live), known, _) => {
                @if let Some(reason) = live.ended() {
                    p { "The connection to the session is gone: " (render::visible(reason)) }
                    button type="button" data-action="attach" { "Connect again" }
                } @else if known.as_ref().is_some_and(|known| known.is_unresponsive) {
                    p { "The agent did not stop after the cancellation. Its process still runs." }
                    @if user.may(Role::Use) {
                        p class="meta" { "Your next message starts it again." }
                        button type="button" data-action="end-agent" { "End the agent process" }
                    }
                } @else if let Some(reason) = known.and_then(|known| known.lost) {
                    p { "The agent is gone: " (render::visible(&reason)) }
                    p class="meta" { "Your next message starts it again." }
                } @else if live.has_lost_login() && user.may(Role::Admin) { (lost_login(live)) }
            }
            (None, Some(known), _) => (not_attached(subject, &known)),
            (None, None, Some(_)) => (only_recorded(subject)),
        }
        @if let (Some(_), FirstSession::Refused(live, reason)) = (here, user.first_session()) { (logins(user, &live, &reason)) }
    }
}

/// Renders links to questions of the same session outside of the shown sub-agent and its descendants.
fn elsewhere(subject: &Subject<'_>) -> Markup {
    let (Some(_), Some(source)) = (subject.asker(), subject.source) else { return html! {} };
    let session = subject.session;
    let asking = source.look(|it| {
        let root = it.ancestors(session).last().map(|root| Arc::clone(&root.session));
        let Some(root) = root else { return Vec::new() };
        let is_here = |id: &str| id == session || it.ancestors(id).any(|above| *above.session == *session);
        let asking = subagents::below(it, &root).asking.into_iter().filter(|asking| !is_here(&asking.id));
        asking.map(|asking| Named { name: subagents::name(it, &asking.id), id: asking.id }).collect()
    });
    html! {
        @if let Some(room) = subject.room() {
            @for asking in asking.iter().take(MOST_ASKING) {
                p { "A question waits for you in the session " (render::visible_line(&asking.name)) "." }
                button type="button" data-action="look" data-recording=(room.id) data-session=(asking.id) { "Look" }
            }
        }
    }
}

/// Renders the error for an unknown address.
fn missing(subject: &Subject<'_>) -> Markup {
    html! {
        p { "This address leads nowhere: " (render::visible(subject.missing.map_or("", String::as_str))) }
        p class="meta" { "Choose a session from the list." }
    }
}

/// Renders the screen without a session.
fn before_a_session(user: &UserState) -> Markup {
    html! {
        @match user.first_session() {
            FirstSession::Starting { .. } => {},
            FirstSession::Failed(reason) => {
                p { "The agent cannot be started: " (render::visible(&reason)) }
                button type="button" data-action="start" { "Try again" }
            },
            FirstSession::Refused(live, reason) => (logins(user, &live, &reason)),
            FirstSession::Empty | FirstSession::Opened(_) => @if !user.may(Role::Use) {
                p { "Choose a session. Those that are shared with you are listed." }
            },
        }
    }
}

/// Renders the notice of a hub session without a connection.
fn not_attached(subject: &Subject<'_>, known: &SessionSummary) -> Markup {
    let is_possible = subject.user.app.hub.has_agent(Some(&known.agent));
    html! {
        @if let Some(reason) = subject.refusal {
            p { "Nothing can be done in this session: " (render::visible(reason)) }
            button type="button" data-action="attach" { "Try again" }
        } @else if known.state == SessionActivity::Dormant && subject.user.may(Role::Use) {
            @if is_possible {
                p class="meta" { "This session is dormant." }
                button type="button" data-action="attach" { "Go on with this session" }
            } @else {
                p class="meta" { "This session is of the agent " (render::visible_line(&known.agent)) ", which is not here." }
            }
        }
    }
}

/// Renders the notice of a recording that is not a session of the hub. The agent may be able to load its session.
fn only_recorded(subject: &Subject<'_>) -> Markup {
    let Subject { user, session, .. } = *subject;
    let Some(about) = subject.room().map(|room| &room.about) else { return html! {} };
    let (Some(folder), Some(agent)) = (&about.project, &about.agent) else { return html! {} };
    let is_possible = !session.is_empty() && user.may(Role::Admin) && user.agents().contains(agent);
    html! {
        @if is_possible {
            p class="meta" { "This is a recording." }
            button type="button" data-action="resume" data-session=(session) data-folder=(folder) data-agent=(agent) {
                "Go on with this session"
            }
        }
    }
}

/// Returns the pending questions of all sessions as JSON, for the title and notifications.
fn waiting_anywhere(subject: &Subject<'_>) -> String {
    let asking = subject.user.asking();
    let loose = subject.asker().map_or(0, |live| live.loose_elicitations().len());
    let here = subject.room().map(|room| &*room.id);
    let first = asking.first().map(|first| json!({"recording": &*first.id, "title": first.title}));
    let count = asking.iter().map(|asking| asking.questions).sum::<usize>() + loose;
    let elsewhere = asking.iter().any(|asking| Some(&*asking.id) != here);
    json!({"count": count, "first": first, "elsewhere": elsewhere}).to_string()
}

/// Maximum number of listed sessions with questions; further ones are only counted.
const MOST_ASKING: usize = 5;

/// Renders the reason why an agent rejected a new session, and its login methods.
fn logins(user: &UserState, live: &Live, reason: &str) -> Markup {
    let methods = &live.agent.description().auth_methods;
    html! {
        p { "No session is open: " (render::visible(reason)) }
        @if methods.is_empty() {
            button type="button" data-action="new" { "Try again" }
        } @else if user.may(Role::Admin) {
            p { "It may want a login first." }
            @for method in methods { (login(live, method)) }
        } @else {
            p { "It may want a login first, which an administrator of this hub has to do." }
            button type="button" data-action="new" { "Try again" }
        }
    }
}

/// Renders the login methods for an agent that lost its login while sessions are open.
fn lost_login(live: &Live) -> Markup {
    let methods = &live.agent.description().auth_methods;
    html! {
        p {
            "The agent says that nobody is logged in. "
            @if methods.is_empty() { "It offers no way to log in." } @else { "Log in:" }
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
        v2::AuthMethod::More(none) => none.never(),
    }
}

/// Renders updates of unknown kinds, the latest ones in full.
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

/// Returns the media types that a prompt accepts, for the file picker.
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
