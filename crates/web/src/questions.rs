//! Pending questions of the agent and its sub-agents.

use maud::{Markup, html};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_peer::ElicitationQuestion;
use switchboard_session::{Elicitation, EntryKind, Moment, Permission, Session, Snapshot};

use switchboard_store::Role;

use super::asked::Asked;
use super::live::Live;
use super::panels::Subject;
use super::remembered::Remembered;
use super::subagents::{Asking, Below};
use super::{render, rule};

/// Number of questions that are shown at once; the user can page through the others.
const MOST_QUESTIONS: usize = 12;

/// Renders the pending questions of the shown session and its descendants.
pub(crate) fn all(subject: &Subject<'_>, below: &Below) -> Markup {
    let live = subject.asker();
    let loose = live.map(Live::loose_elicitations).unwrap_or_default();
    let waiting = below.questions + loose.len();
    // If others have answered the questions on this page, the last page is shown.
    let last = below.questions.saturating_sub(1) / MOST_QUESTIONS * MOST_QUESTIONS;
    let first = subject.skipped_questions.min(last);
    let pending = below.asking.iter().flat_map(Pending::all).skip(first).take(MOST_QUESTIONS);
    let cards: Vec<Markup> = pending.map(|pending| card(subject, live, &pending)).collect();
    let end = first + cards.len();
    html! {
        @if waiting > 1 {
            div class="question-count" {
                strong { (waiting) " questions wait for you" }
                @if live.is_some() && subject.user.may(Role::Answer) {
                    button type="button" data-action="reject-all" {
                        @if cards.len() < below.questions { "Reject these " (cards.len()) } @else { "Reject all" }
                    }
                }
                @if cards.len() < below.questions {
                    span class="meta" { (first + 1) " to " (end) " are here" }
                    button type="button" data-action="questions" data-skip=(first.saturating_sub(MOST_QUESTIONS))
                        disabled[first == 0] { "Earlier" }
                    button type="button" data-action="questions" data-skip=(end) disabled[end == below.questions] { "Later" }
                }
            }
        }
        @for card in cards { (card) }
        @for (id, loose) in loose {
            @let asked = asked_for_data(live, &id, loose.request());
            (question(live, &id, &asked, loose_elicitation(&id, &loose), None))
        }
    }
}

/// A pending question of a session.
enum Pending<'a> {
    Permission(&'a Asking, &'a Permission),
    Elicitation(&'a Asking, &'a Elicitation),
}

impl<'a> Pending<'a> {
    fn all(asking: &'a Asking) -> impl Iterator<Item = Self> {
        let permissions = asking.snapshot.pending_permissions();
        let elicitations = asking.snapshot.pending_elicitations();
        permissions
            .map(move |permission| Pending::Permission(asking, permission))
            .chain(elicitations.map(move |elicitation| Pending::Elicitation(asking, elicitation)))
    }
}

fn card(subject: &Subject<'_>, live: Option<&Live>, pending: &Pending<'_>) -> Markup {
    let (Pending::Permission(asking, _) | Pending::Elicitation(asking, _)) = pending;
    let Asking { id, snapshot, whose } = asking;
    let recording = subject.room().map_or("", |room| &room.id);
    let head = (!whose.is_empty()).then(|| render::whose(recording, whose)).into_iter();
    match pending {
        Pending::Permission(_, permission) => {
            let asked = asked(live, id, snapshot, permission);
            let always = render::always(permission, Remembered::refuses(&asked));
            let rule = live.and_then(|live| rule::offer(subject.user, live, id, snapshot, permission));
            let folder = subject.room().map_or("", |room| room.folder());
            let place = render::Place { folder, ..render::Place::default() };
            let parts = render::permission(snapshot, permission, &place, &subject.user.app.cache);
            // What explains the question is behind one button.
            let (folded, parts): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.key == "more");
            let details: Vec<_> = folded.into_iter().chain(always).chain(rule).collect();
            let parts = head.chain(parts).chain(render::question_details(&details));
            // The position of a long tool call is needed to request its earlier pages.
            let call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
            question(live, permission.id(), &asked, parts, call.map(|position| (&**id, position)))
        }
        Pending::Elicitation(_, elicitation) => {
            let asked = asked_for_data(live, elicitation.id(), elicitation.request());
            question(live, elicitation.id(), &asked, head.chain(render::elicitation(elicitation)), None)
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
    call: Option<(&str, usize)>,
) -> Markup {
    let id = id.encode(WireFormat::Any);
    let is_open = live.is_some_and(|live| live.note_content(&id, asked));
    html! {
        section class="question" data-question=(id) data-revision=(asked.revision())
            data-session=[call.map(|(session, _)| session)] data-position=[call.map(|(_, position)| position)]
            data-open[is_open] {
            @if let Some(left_out) = asked.left_out() { (render::left_out(left_out)) }
            @for part in parts { (maud::PreEscaped(&*part.html)) }
        }
    }
}

/// Renders an elicitation request without a session, by folding it into an empty one.
fn loose_elicitation(id: &RequestId<'static>, question: &ElicitationQuestion) -> Vec<render::Part> {
    let mut session = Session::new(WireFormat::Any);
    session.open_elicitation(id, question.request(), Moment(0));
    session.elicitation(id).map(render::elicitation).unwrap_or_default()
}
