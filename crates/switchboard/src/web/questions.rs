//! What the agent and its sub-agents ask, and nobody has answered.

use maud::{Markup, html};
use switchboard_peer::ElicitationQuestion;
use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::{Wire, WireFormat, v2};
use switchboard_session::{EntryKind, Moment, Permission, Session, Snapshot};

use super::asked::Asked;
use super::family::{Asking, Below};
use super::live::Live;
use super::panels::Subject;
use super::remembered::Remembered;
use super::{render, rule};

/// Of more questions that wait, the first are shown; each answer makes room for another.
const MOST_QUESTIONS: usize = 12;

/// What waits for an answer, in the session that is looked at and in all that descend from it.
pub(crate) fn all(subject: &Subject<'_>, below: &Below) -> Markup {
    let live = subject.asker();
    let loose = live.map(Live::loose_elicitations).unwrap_or_default();
    let mut cards = Vec::new();
    'all: for asking in &below.asking {
        for card in of_session(subject, live, asking) {
            if cards.len() >= MOST_QUESTIONS {
                break 'all;
            }
            cards.push(card);
        }
    }
    let waiting = below.questions + loose.len();
    html! {
        @if waiting > 1 {
            p class="question-count" {
                strong { (waiting) " questions wait for you" }
                @if cards.len() < below.questions { span class="meta" { ", the first " (cards.len()) " are here; each answer makes room for the next" } }
            }
        }
        @for card in cards { (card) }
        @for (id, loose) in loose {
            @let asked = asked_for_data(live, &id, loose.request());
            (question(live, &id, &asked, loose_elicitation(&id, &loose), None))
        }
    }
}

fn of_session<'a>(
    subject: &'a Subject<'_>,
    live: Option<&'a Live>,
    asking: &'a Asking,
) -> impl Iterator<Item = Markup> + 'a {
    let Asking { id, snapshot, whose } = asking;
    let recording = subject.room().map_or("", |room| &room.id);
    let whose = (!whose.is_empty()).then(|| render::whose(recording, whose));
    let head = whose.clone();
    let permissions = snapshot.pending_permissions().map(move |permission| {
        let asked = asked(live, id, snapshot, permission);
        let always = render::always(permission, Remembered::refuses(&asked));
        let rule = live.and_then(|live| rule::offer(subject.desk, live, id, snapshot, permission));
        let parts = render::permission(snapshot, permission, &subject.desk.app.cache);
        let parts = parts.into_iter().chain(always).chain(rule);
        // Where a call is long, its earlier pages are asked for by its position.
        let call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
        let place = call.map(|position| (&**id, position));
        question(live, permission.id(), &asked, head.clone().into_iter().chain(parts), place)
    });
    let elicitations = snapshot.pending_elicitations().map(move |elicitation| {
        let asked = asked_for_data(live, elicitation.id(), elicitation.request());
        let parts = whose.clone().into_iter().chain(render::elicitation(elicitation));
        question(live, elicitation.id(), &asked, parts, None)
    });
    permissions.chain(elicitations)
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

/// A request for data that belongs to no session, shown as in a session of its own.
fn loose_elicitation(id: &RequestId<'static>, question: &ElicitationQuestion) -> Vec<render::Part> {
    let mut session = Session::new(WireFormat::Any);
    session.open_elicitation(id, question.request(), Moment(0));
    session.elicitation(id).map(render::elicitation).unwrap_or_default()
}
