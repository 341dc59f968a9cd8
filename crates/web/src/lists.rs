//! Lists of the sidebar: current and earlier sessions, and remembered choices.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use maud::{Markup, html};
use switchboard_acp::extensions::REMEMBERED;
use switchboard_acp::{Raw, v2};
use switchboard_hub::{SessionActivity, SessionSummary};
use switchboard_store::{Filter, Item, Role, Search, Summary};
use tokio::time::timeout;

use super::app::App;
use super::live::{Failure, Live};
use super::qr;
use super::render;
use super::subagents::{self, SessionSource};
use super::user_state::UserState;

/// Maximum time that the agent may take to list its sessions. The recorded sessions wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum number of sessions in one list.
const MAX_SESSIONS: usize = 100;

/// Maximum number of records in which the first words of a recording's sessions are searched.
const MOST_RECORDS: usize = 5000;

/// Renders the results of a search. Without a query, renders the sessions outside of the hub's list: those that an
/// agent lists, and other recordings.
pub(crate) async fn sessions(
    user: &UserState,
    live: Option<&Live>,
    query: &str,
    archived: bool,
    skip: usize,
) -> Result<Markup, Failure> {
    if !query.trim().is_empty() {
        return search(user, query);
    }
    if !user.may(Role::Admin) {
        return Ok(html! {});
    }
    if archived {
        let live = live.ok_or("no agent is running")?;
        return Ok(archived_sessions(user, live, &agent_sessions(live, true).await?));
    }
    let remembered = match live.filter(|_| skip == 0) {
        Some(live) => Some((live, agent_sessions(live, false).await)),
        None => None,
    };
    let app = &*user.app;
    let recorded = app.store.sessions(&Filter::default()).map_err(|error| error.to_string())?;
    let others = by_project(others(user, &recorded));
    let page = others.get(skip..).unwrap_or_default();
    let left = page.len().saturating_sub(MAX_SESSIONS);
    let page = &page[..page.len().min(MAX_SESSIONS)];
    Ok(html! {
        @match &remembered {
            None => {}
            Some((live, Ok(sessions))) => {
                @let is_listed = |info: &&v2::SessionInfo<'_>| user.session(&info.session_id).is_none();
                @let earlier: Vec<_> = sessions.iter().filter(is_listed).collect();
                @let can_archive = live.offers(|can| can.archive.is_some());
                @if !earlier.is_empty() {
                    h3 { "The agent remembers" }
                    ul class="sessions" {
                        @for info in &earlier { (agent_session(user, info, &live.name, false)) }
                    }
                }
                @if can_archive {
                    details id="archived" { summary { "Archived" } div id="archived-list" {} }
                }
            }
            Some((_, Err(reason))) => p class="meta" {
                "The agent does not list its sessions: " (render::visible(reason))
            },
        }
        @if skip == 0 && (!others.is_empty() || user.sessions().is_empty()) { h3 { "Recorded" } }
        @if recorded.is_empty() {
            p class="meta" { "Nothing yet. Sessions are kept in " code { (at_home(&app.store.path().display().to_string())) } "." }
        }
        @for group in page.chunk_by(|a, b| a.about.project == b.about.project) {
            @if let Some(folder) = group.first().and_then(|first| first.about.project.as_deref()) {
                h3 title=(folder) { (render::visible_line(name_of(folder))) }
            }
            ul class="sessions" { @for summary in group { (recorded_sessions(app, summary)) } }
        }
        @if left > 0 {
            button type="button" class="more" data-action="more-sessions" data-skip=(skip + MAX_SESSIONS) {
                (left) " more"
            }
        }
    })
}

/// Renders the sessions that an agent has archived.
fn archived_sessions(user: &UserState, live: &Live, sessions: &[v2::SessionInfo<'_>]) -> Markup {
    html! {
        @if sessions.is_empty() { p class="meta" { "None." } }
        ul class="sessions" { @for info in sessions { (agent_session(user, info, &live.name, true)) } }
    }
}

fn agent_session(user: &UserState, info: &v2::SessionInfo<'_>, agent: &str, archived: bool) -> Markup {
    let known = user.session(&info.session_id).and_then(|session| session.title);
    let title = info.title.as_deref().or(known.as_deref()).unwrap_or("A session without a name");
    html! {
        li {
            button type="button" data-action="resume" data-session=(info.session_id) data-folder=(info.cwd.as_str())
                data-agent=(agent) {
                span class="dot" {}
                span class="name" { (render::visible_line(title)) }
                span class="meta" { (render::visible_line(&at_home(info.cwd.as_str()))) }
            }
            @if archived {
                button type="button" class="small" data-action="unarchive" data-session=(info.session_id) {
                    "Take out of the archive"
                }
            }
        }
    }
}

async fn agent_sessions(live: &Live, archived: bool) -> Result<Vec<v2::SessionInfo<'static>>, Failure> {
    let mut request = v2::ListSessionsRequest::new();
    request.archived = archived.then_some(v2::unstable::SessionArchiveFilter::Only);
    request.meta = Some(REMEMBERED.meta(true));
    let reply =
        timeout(PATIENCE, live.agent.list_sessions(&request)).await.map_err(|_| "it does not answer")?;
    let response = reply.map_err(|error| error.to_string())?.map_err(|error| error.message.into_owned())?;
    Ok(response.sessions.into_iter().take(MAX_SESSIONS).collect())
}

/// Returns the recordings that the list of the hub's sessions lacks: other recordings, and old sessions.
fn others<'s>(user: &UserState, recorded: &'s [Summary]) -> Vec<&'s Summary> {
    let sessions = user.sessions();
    let known: HashMap<&str, &SessionSummary> =
        sessions.iter().map(|session| (&*session.id, session)).collect();
    let listed: HashSet<&str> = listed(&sessions, None).into_iter().map(|session| &*session.id).collect();
    let is_other = |summary: &&Summary| match known.get(&*summary.id) {
        Some(session) => is_worth_it(session) && !listed.contains(&*summary.id),
        None => true,
    };
    recorded.iter().filter(is_other).collect()
}

/// Groups summaries by folder, the folder with the latest activity first.
fn by_project(summaries: Vec<&Summary>) -> Vec<&Summary> {
    let mut places: HashMap<Option<&str>, usize> = HashMap::new();
    for summary in &summaries {
        let next = places.len();
        places.entry(summary.about.project.as_deref()).or_insert(next);
    }
    let mut ordered = summaries;
    ordered.sort_by_key(|summary| places.get(&summary.about.project.as_deref()).copied());
    ordered
}

/// Renders a row for every session of a recording that has a prompt.
fn recorded_sessions(app: &App, summary: &Summary) -> Markup {
    let several = if summary.wire_ids.len() > 1 { first_words(app, &summary.id) } else { Vec::new() };
    html! {
        @if several.len() > 1 {
            @for (session, words) in &several { (recorded_session(app, summary, Some(session), Some(words))) }
        } @else { (recorded_session(app, summary, None, None)) }
    }
}

fn recorded_session(app: &App, summary: &Summary, session: Option<&str>, words: Option<&str>) -> Markup {
    let title = words.or(summary.about.title.as_deref()).unwrap_or("Nothing was said");
    // A crashed program leaves the recording open, so the store checks for a writer.
    let is_written = !summary.closed && app.store.is_recording(&summary.id).unwrap_or(false);
    html! {
        li {
            button type="button" data-action="look" data-recording=(summary.id) data-session=[session] {
                span class="dot" {}
                span class="name" { (render::visible_line(title)) }
                time data-at=(summary.began.0) {}
                span class="meta" {
                    (render::visible_line(summary.about.agent.as_deref().unwrap_or("unknown agent")))
                    @if is_written { " · being recorded" } @else if !summary.closed { " · broke off" }
                }
            }
        }
    }
}

/// Returns the first words of each session in a recording, in order of appearance.
fn first_words(app: &App, recording: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let Ok(items) = app.store.read(recording, 0) else { return found };
    for item in items.take(MOST_RECORDS).flatten() {
        let Item::Record(record) = item else { continue };
        // This search skips most records without parsing them.
        if memchr::memmem::find(&record.bytes, b"session/prompt").is_none() {
            continue;
        }
        let text = String::from_utf8_lossy(&record.bytes);
        let Ok(message) = Raw::parse(&*text) else { continue };
        if message.text("method").as_deref() != Some("session/prompt") {
            continue;
        }
        let Some(params) = message.get("params") else { continue };
        let Some(session) = params.text("sessionId") else { continue };
        if found.len() < MAX_SESSIONS && found.iter().all(|(known, _)| *known != session) {
            let blocks = params.get("prompt");
            let words = blocks.iter().flat_map(Raw::items).filter_map(|block| block.text("text"));
            let words: String = words.collect::<Vec<_>>().join(" ").chars().take(200).collect();
            found.push((session, words));
        }
    }
    found
}

/// Renders the results of a search in all visible sessions.
fn search(user: &UserState, query: &str) -> Result<Markup, Failure> {
    let find = |session: Option<&str>| {
        let search = Search {
            query: query.to_owned(),
            session: session.map(str::to_owned),
            limit: Some(MAX_SESSIONS),
            ..Search::default()
        };
        user.app.store.search(&search).map_err(|error| error.to_string())
    };
    let hits = if user.may(Role::Admin) {
        find(None)?
    } else {
        // Searches each visible session by itself, so that hits in other users' sessions do not use up the limit.
        let mut hits = Vec::new();
        for session in user.sessions().iter().take(MAX_SESSIONS) {
            hits.extend(find(Some(&session.id))?);
        }
        hits.sort_by_key(|hit| Reverse(hit.time));
        hits.truncate(MAX_SESSIONS);
        hits
    };
    let title = |id: &str| {
        let known = user.session(id).and_then(|session| session.title);
        let stored = || user.app.store.session(id).ok().and_then(|summary| summary.about.title);
        known.or_else(stored).unwrap_or_else(|| NAMELESS.to_owned())
    };
    Ok(html! {
        h3 { "Found" }
        @if hits.is_empty() { p class="meta" { "Nothing." } }
        ul class="sessions" {
            @for hit in &hits {
                li {
                    button type="button" data-action="look" data-recording=(hit.session) data-row=(hit.first) {
                        span class="dot" {}
                        span class="name" { (render::visible_line(&title(&hit.session))) }
                        time data-at=(hit.time.0) {}
                        span class="context" { (marked(&hit.excerpt, query)) }
                    }
                }
            }
        }
    })
}

/// Renders an excerpt with the words of a query marked. ASCII letters match case-insensitively.
fn marked(excerpt: &str, query: &str) -> Markup {
    let text = excerpt.to_ascii_lowercase();
    let words = query.split_whitespace().map(|word| word.trim_matches(['"', '*']).to_ascii_lowercase());
    let mut found: Vec<(usize, usize)> = Vec::new();
    for word in words.filter(|word| !word.is_empty()).take(MOST_WORDS) {
        found.extend(text.match_indices(&*word).map(|(start, word)| (start, start + word.len())));
    }
    found.sort_unstable();
    let (mut at, mut pieces) = (0, Vec::new());
    for (start, end) in found {
        if start >= at {
            pieces.push((&excerpt[at..start], &excerpt[start..end]));
            at = end;
        }
    }
    html! {
        @for (before, word) in pieces { (render::visible_line(before)) mark { (render::visible_line(word)) } }
        (render::visible_line(&excerpt[at..]))
    }
}

/// Maximum number of words of a query that are marked.
const MOST_WORDS: usize = 16;

/// Renders the sessions of the hub, the most recently changed first; the page groups them by day. Sessions with
/// questions are always listed.
pub(crate) fn of_hub(user: &UserState, looked_at: Option<&str>) -> Markup {
    let sessions = user.sessions();
    html! {
        @if sessions.is_empty() { p class="meta" { "No sessions yet." } }
        ul class="sessions by-day" {
            @for session in listed(&sessions, looked_at) { (hub_session(user, session, looked_at)) }
        }
    }
}

/// Renders the latest sessions, for the start screen.
pub(crate) fn recent(user: &UserState, most: usize) -> Markup {
    let sessions = user.sessions();
    let recent: Vec<_> = sessions.iter().filter(|session| session.title.is_some()).take(most).collect();
    html! {
        @if !recent.is_empty() {
            h3 { "Recent sessions" }
            ul class="sessions" { @for session in recent { (hub_session(user, session, None)) } }
        }
    }
}

/// Renders a button for each agent that starts a session with it, and the agents that could be installed.
pub(crate) fn starts(user: &UserState) -> Markup {
    let absent: Vec<_> = user.app.agents.iter().filter(|card| card.install.is_some()).collect();
    html! {
        div class="starts" {
            @for agent in user.agents() {
                @let title = title_of_agent(user, agent);
                button type="button" data-action="start-with" data-agent=(agent) data-title=(title) {
                    (render::icon("agent"))
                    span class="name" { (render::visible_line(title)) }
                    @if title != agent { span class="meta" { (render::visible_line(agent)) } }
                }
            }
        }
        @if !absent.is_empty() {
            details class="absent" {
                summary { (absent.len()) " more agents that can be installed" }
                ul {
                    @for card in absent {
                        li {
                            span class="name" { (render::visible_line(&card.title)) }
                            code { (render::visible_line(card.install.as_deref().unwrap_or_default())) }
                        }
                    }
                }
                p class="meta" { "Run the command in a terminal, and start Switchboard again." }
            }
        }
    }
}

/// Returns the title of an agent of the hub, or its name.
pub(crate) fn title_of_agent<'a>(user: &'a UserState, agent: &'a str) -> &'a str {
    let card = user.app.agents.iter().find(|card| card.install.is_none() && card.name == agent);
    card.map_or(agent, |card| &*card.title)
}

/// Returns a folder with `~` instead of the user's home.
pub(crate) fn at_home(folder: &str) -> String {
    let home = std::env::home_dir().and_then(|home| home.to_str().map(str::to_owned));
    let inside =
        home.filter(|home| home.len() > 1).and_then(|home| folder.strip_prefix(&*home).map(str::to_owned));
    match inside {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => folder.to_owned(),
    }
}

/// Returns `true` if a session has a title or an agent, so that it is worth listing.
fn is_worth_it(session: &SessionSummary) -> bool {
    session.title.is_some() || session.state != SessionActivity::Dormant
}

/// Returns the sessions that the list shows: the latest, those with questions, and the selected one.
fn listed<'s>(sessions: &'s [SessionSummary], looked_at: Option<&str>) -> Vec<&'s SessionSummary> {
    let listed = sessions.iter().filter(|session| is_worth_it(session)).enumerate();
    let listed = listed.filter(|(place, session)| *place < MAX_SESSIONS || session.questions > 0);
    let mut listed: Vec<&SessionSummary> = listed.map(|(_, session)| session).collect();
    let here = sessions.iter().find(|session| Some(&*session.id) == looked_at);
    if let Some(here) = here.filter(|here| listed.iter().all(|session| session.id != here.id)) {
        listed.push(here);
    }
    listed
}

/// Returns the title of a session, or a placeholder.
pub(crate) fn name(session: &SessionSummary) -> &str {
    session.title.as_deref().unwrap_or(NAMELESS)
}

/// Title of a session without a prompt.
pub(crate) const NAMELESS: &str = "New session";

/// Returns the last component of a folder's path.
fn name_of(folder: &str) -> &str {
    folder.rsplit('/').find(|part| !part.is_empty()).unwrap_or(folder)
}

fn hub_session(user: &UserState, session: &SessionSummary, looked_at: Option<&str>) -> Markup {
    let SessionSummary { id, agent, owner, state, questions, .. } = session;
    let is_here = (Some(&**id) == looked_at).then_some("true");
    // An ordinary state needs no word on the screen.
    let (is_said, words) = match state {
        _ if session.lost.is_some() => (true, "failed"),
        SessionActivity::Waiting if user.may(Role::Answer) => (true, "waits for you"),
        SessionActivity::Waiting => (true, "waits for an answer"),
        SessionActivity::Working => (true, "working"),
        SessionActivity::Idle => (false, "done"),
        SessionActivity::Dormant => (false, "dormant"),
    };
    let shown_state = if session.lost.is_some() { "lost" } else { state.as_str() };
    html! {
        li data-state=(shown_state) {
            button type="button" data-action="look" data-recording=(id) aria-current=[is_here] {
                span class="dot" {}
                span class="name" { (render::visible_line(name(session))) }
                time data-at=(session.changed) {}
                span class="meta" {
                    (render::visible_line(agent))
                    " · " (render::visible_line(name_of(&session.folder)))
                    @if user.is_shared() { " · " (render::visible_line(owner)) }
                    span class=[(!is_said).then_some("sr")] { " · " (words) }
                    @if *questions > 1 { " " span class="badge" { (questions) } }
                }
            }
            button type="button" class="pin" data-action="pin" data-pin=(id) aria-pressed="false"
                title={ "Pin " (switchboard_acp::display::visible_line(name(session))) }
                aria-label={ "Pin " (switchboard_acp::display::visible_line(name(session))) } {
                (render::icon("pin"))
            }
        }
    }
}

/// Renders the agents as options for a new session.
pub(crate) fn agents(user: &UserState) -> Markup {
    html! {
        @for agent in user.agents() { option value=(agent) { (render::visible_line(title_of_agent(user, agent))) } }
    }
}

/// Renders the folders of existing sessions as suggestions for a new session.
pub(crate) fn folders(user: &UserState) -> Markup {
    let sessions = user.sessions();
    let own = user.app.folder.display().to_string();
    let folders: BTreeSet<&str> =
        sessions.iter().take(MAX_SESSIONS).map(|session| &*session.folder).chain([&*own]).collect();
    html! { @for folder in folders { option value=(folder) {} } }
}

/// Renders the QR code of a link, or the reason why there is none.
pub(crate) fn pairing(link: &str) -> Markup {
    match qr::svg(link).filter(|_| qr::is_reachable(link)) {
        Some(picture) => html! { p { (picture) } },
        None => html! {
            p class="meta" {
                "Only browsers of this machine reach this address. For a phone, start the hub with "
                code { "--public-url" } " or " code { "--behind-proxy" } "."
            }
        },
    }
}

/// Renders the outcomes of the hub's notifications.
pub(crate) fn notifications(outcomes: &[String]) -> Markup {
    html! {
        @if outcomes.is_empty() {
            p class="meta" { "This hub has no targets for notifications: see " code { "hub.notify" } " in config.json." }
        }
        ul class="choices" {
            @for line in outcomes { li { (render::visible_line(line)) } }
        }
    }
}

/// Renders the remembered choices, each with a button that removes it.
pub(crate) fn choices(user: &UserState) -> Markup {
    let choices = user.choices();
    html! {
        @if choices.is_empty() {
            p class="meta" { "No choice has been made for always." }
        } @else {
            p class="meta" { "They hold for exactly the same question in the same session, until its agent ends." }
        }
        ul class="choices" {
            @for (place, (_, choice)) in choices.iter().enumerate() {
                li {
                    span class="name" {
                        @if choice.allows { "Always allow: " } @else { "Always reject: " }
                        (render::visible_line(&choice.title))
                        @if let Some(about) = &choice.about { " " code { (render::visible_line(about)) } }
                    }
                    span class="meta" {
                        "exactly this, in the session " (render::visible_line(&choice.session))
                        ", since " (choice.since)
                    }
                    button type="button" data-action="withdraw" data-place=(place) data-since=(choice.since.0) {
                        "Withdraw"
                    }
                }
            }
        }
    }
}

/// Maximum number of sub-agents in one list.
const MAX_SUBAGENTS: usize = 1000;

/// Renders all sub-agents below a session, each with a link.
pub(crate) fn subagents(source: SessionSource<'_>, session: &str) -> Markup {
    let descendants = source.look(|it| subagents::descendants(it, session, MAX_SUBAGENTS));
    html! {
        @if descendants.is_empty() { p class="meta" { "It has none." } }
        ul class="family-list" {
            @for descendant in &descendants {
                li data-depth=(descendant.depth.min(MAX_DEPTH)) {
                    (render::line(&source.room.id, std::slice::from_ref(&descendant.named)))
                    " " span class="meta" {
                        (descendant.state)
                        " · " (descendant.length) @if descendant.length == 1 { " entry" } @else { " entries" }
                    }
                }
            }
        }
        @if descendants.len() == MAX_SUBAGENTS { p class="meta" { "There may be more." } }
    }
}

/// Maximum indentation, in levels.
const MAX_DEPTH: usize = 6;
