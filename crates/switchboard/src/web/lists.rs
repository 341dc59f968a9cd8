//! Lists beside the session: sessions of now and of earlier, and choices for always.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use maud::{Markup, html};
use switchboard_hub::{SessionState, SessionSummary};
use switchboard_protocol::v2;
use switchboard_store::{Filter, Role, Search, Summary};
use tokio::time::timeout;

use super::desk::Desk;
use super::family::{self, Sight};
use super::live::{Failure, Live, about_memory};
use super::render;

/// How long the agent may take to list its sessions; the recorded ones wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many sessions are listed.
const MAX_SESSIONS: usize = 100;

/// What a search finds in all sessions; without one, those that no agent of the hub has: what an agent remembers itself,
/// and what else was recorded.
pub(crate) async fn sessions(
    desk: &Desk,
    live: Option<&Live>,
    query: &str,
    archived: bool,
) -> Result<Markup, Failure> {
    if !query.trim().is_empty() {
        return search(desk, query);
    }
    if !desk.may(Role::Own) {
        return Ok(html! {});
    }
    let remembered = match live {
        Some(live) => Some((live, agent_sessions(live, archived).await)),
        None => None,
    };
    let app = &*desk.app;
    let filter = Filter { limit: Some(MAX_SESSIONS), ..Filter::default() };
    let recorded = app.store.sessions(&filter).map_err(|error| error.to_string())?;
    let others: Vec<_> = recorded.iter().filter(|summary| desk.session(&summary.id).is_none()).collect();
    Ok(html! {
        @match &remembered {
            None => {}
            Some((live, Ok(sessions))) => {
                @let is_listed =
                    |info: &&v2::SessionInfo<'_>| archived || desk.session(&info.session_id).is_none();
                @let earlier: Vec<_> = sessions.iter().filter(is_listed).collect();
                @let can_archive = live.offers(|can| can.archive.is_some());
                @if !earlier.is_empty() || can_archive {
                    h3 { "The agent remembers" }
                    @if can_archive {
                        label class="meta" {
                            input type="checkbox" id="archived" checked[archived]; " archived ones"
                        }
                    }
                    ul class="sessions" {
                        @for info in earlier { (agent_session(desk, info, &live.name, archived)) }
                    }
                    @if sessions.is_empty() { p class="meta" { "None." } }
                }
            }
            Some((_, Err(reason))) => p class="meta" {
                "The agent does not list its sessions: " (render::visible(reason))
            },
        }
        @if !others.is_empty() || desk.sessions().is_empty() { h3 { "Recorded" } }
        @if recorded.is_empty() {
            p class="meta" { "Nothing yet. What you do here is kept in " code { (app.store.path().display().to_string()) } "." }
        }
        ul class="sessions" { @for summary in others { (recorded_session(summary)) } }
    })
}

fn agent_session(desk: &Desk, info: &v2::SessionInfo<'_>, agent: &str, archived: bool) -> Markup {
    let known = desk.session(&info.session_id).and_then(|session| session.title);
    let title = info.title.as_deref().or(known.as_deref()).unwrap_or(&info.session_id);
    html! {
        li {
            button type="button" data-action="resume" data-session=(info.session_id) data-folder=(info.cwd.as_str())
                data-agent=(agent) {
                span class="name" { (render::visible_line(title)) }
                span class="meta" { (render::visible_line(info.cwd.as_str())) }
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
    request.meta = about_memory();
    let reply =
        timeout(PATIENCE, live.agent.list_sessions(&request)).await.map_err(|_| "it does not answer")?;
    let response = reply.map_err(|error| error.to_string())?.map_err(|error| error.message.into_owned())?;
    Ok(response.sessions.into_iter().take(MAX_SESSIONS).collect())
}

fn recorded_session(summary: &Summary) -> Markup {
    let title = summary.about.title.as_deref();
    let first = summary.wire_ids.first().map(String::as_str);
    html! {
        li {
            button type="button" data-action="look" data-recording=(summary.id) {
                span class="name" { (render::visible_line(title.or(first).unwrap_or(&summary.id))) }
                span class="meta" {
                    (render::visible_line(summary.about.agent.as_deref().unwrap_or("unknown agent")))
                    " · " (summary.began) " · " (summary.length) " records"
                    @if !summary.closed { " · open" }
                }
            }
        }
    }
}

/// Finds a text in all that may be seen.
fn search(desk: &Desk, query: &str) -> Result<Markup, Failure> {
    let find = |session: Option<&str>| {
        let search = Search {
            query: query.to_owned(),
            session: session.map(str::to_owned),
            limit: Some(MAX_SESSIONS),
            ..Search::default()
        };
        desk.app.store.search(&search).map_err(|error| error.to_string())
    };
    let hits = if desk.may(Role::Own) {
        find(None)?
    } else {
        // So that what others have does not take the place of what can be seen.
        let mut hits = Vec::new();
        for session in desk.sessions().iter().take(MAX_SESSIONS) {
            hits.extend(find(Some(&session.id))?);
        }
        hits.sort_by_key(|hit| Reverse(hit.time));
        hits.truncate(MAX_SESSIONS);
        hits
    };
    Ok(html! {
        h3 { "Found" }
        @if hits.is_empty() { p class="meta" { "Nothing." } }
        ul class="sessions" {
            @for hit in &hits {
                li {
                    button type="button" data-action="look" data-recording=(hit.session) data-row=(hit.first) {
                        span class="name" { (render::visible_line(&hit.excerpt)) }
                        span class="meta" { (hit.kind.as_str()) " · " (hit.time) }
                    }
                }
            }
        }
    })
}

/// The sessions of a hub by their folders, those first that changed last. What waits is listed in any case.
pub(crate) fn of_hub(desk: &Desk, looked_at: Option<&str>) -> Markup {
    let sessions = desk.sessions();
    // One in which nothing was ever said is nothing to come back to.
    let is_worth_it =
        |session: &SessionSummary| session.title.is_some() || session.state != SessionState::AtRest;
    let listed = sessions.iter().filter(|session| is_worth_it(session)).enumerate();
    let listed = listed.filter(|(place, session)| *place < MAX_SESSIONS || session.questions > 0);
    let here = sessions.iter().find(|session| Some(&*session.id) == looked_at);
    let mut listed: Vec<&SessionSummary> = listed.map(|(_, session)| session).collect();
    if let Some(here) = here.filter(|here| listed.iter().all(|session| session.id != here.id)) {
        listed.push(here);
    }
    let mut folders: Vec<(&str, Vec<&SessionSummary>)> = Vec::new();
    for session in listed {
        match folders.iter_mut().find(|(folder, _)| *folder == session.folder) {
            Some((_, sessions)) => sessions.push(session),
            None => folders.push((&session.folder, vec![session])),
        }
    }
    html! {
        @if sessions.is_empty() { p class="meta" { "No sessions yet." } }
        @for (folder, sessions) in &folders {
            h3 title=(folder) { (render::visible_line(name_of(folder))) }
            ul class="sessions" { @for session in sessions { (hub_session(desk, session, looked_at)) } }
        }
        @if sessions.len() > MAX_SESSIONS { p class="meta" { "Search finds older ones." } }
    }
}

/// What people call a session: what the agent does, or its first words.
pub(crate) fn name(session: &SessionSummary) -> &str {
    session.title.as_deref().unwrap_or("New session")
}

/// The last part of a folder's path.
fn name_of(folder: &str) -> &str {
    folder.rsplit('/').find(|part| !part.is_empty()).unwrap_or(folder)
}

fn hub_session(desk: &Desk, session: &SessionSummary, looked_at: Option<&str>) -> Markup {
    let SessionSummary { id, agent, owner, state, questions, .. } = session;
    let is_here = (Some(&**id) == looked_at).then_some("true");
    let (class, words) = match state {
        SessionState::Waiting if desk.may(Role::Answer) => ("st st-wait", "waits for you"),
        SessionState::Waiting => ("st st-wait", "waits for an answer"),
        SessionState::Working => ("st st-run", "working"),
        SessionState::Idle => ("st st-good", "done"),
        SessionState::AtRest => ("st st-off", "at rest"),
    };
    html! {
        li data-state=(state.as_str()) {
            button type="button" data-action="look" data-recording=(id) aria-current=[is_here] {
                span class="name" { (render::visible_line(name(session))) }
                span class="meta" {
                    span class=(class) { (words) }
                    @if *questions > 0 { " " span class="badge" { (questions) } }
                    " · " (render::visible_line(agent))
                    @if desk.has_company() { " · " (render::visible_line(owner)) }
                }
            }
        }
    }
}

/// The agents that a new session can have.
pub(crate) fn agents(desk: &Desk) -> Markup {
    html! { @for agent in desk.agents() { option value=(agent) { (render::visible_line(agent)) } } }
}

/// Folders that a new session may be in: those of the sessions that there are.
pub(crate) fn folders(desk: &Desk) -> Markup {
    let sessions = desk.sessions();
    let own = desk.app.folder.display().to_string();
    let folders: BTreeSet<&str> =
        sessions.iter().take(MAX_SESSIONS).map(|session| &*session.folder).chain([&*own]).collect();
    html! { @for folder in folders { option value=(folder) {} } }
}

/// The choices for always, each with a button to withdraw it.
pub(crate) fn choices(desk: &Desk) -> Markup {
    let choices = desk.choices();
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

/// How many sub-agents one list has.
const MAX_FAMILY: usize = 1000;

/// All sub-agents below a session, each with a way to it.
pub(crate) fn family(sight: Sight<'_>, session: &str) -> Markup {
    let descendants = sight.look(|it| family::descendants(it, session, MAX_FAMILY));
    html! {
        @if descendants.is_empty() { p class="meta" { "It has none." } }
        ul class="family-list" {
            @for descendant in &descendants {
                li data-depth=(descendant.depth.min(MAX_DEPTH)) {
                    (render::line(&sight.room.id, std::slice::from_ref(&descendant.named)))
                    " " span class="meta" {
                        (descendant.state)
                        " · " (descendant.length) @if descendant.length == 1 { " entry" } @else { " entries" }
                    }
                }
            }
        }
        @if descendants.len() == MAX_FAMILY { p class="meta" { "There may be more." } }
    }
}

/// Those further down are indented no more.
const MAX_DEPTH: usize = 6;
