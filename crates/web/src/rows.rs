//! Incremental frames of the visible entries, of the selected session and the sub-agents inside it. Tracks the parts
//! that the page has, and sends only the changed ones.
//!
//! A sub-agent is shown in the entry that started it: while active with the end of its transcript, otherwise as a
//! heading, unless the user has folded or unfolded it. The size of a frame is bounded for any number of sub-agents.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use switchboard_acp::v2::ToolCallStatus;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::{
    Activity, Elicitation, Entry, EntryKind, Permission, Snapshot, Subagent, Terminal,
};

use super::app::App;
use super::entry_times::Times;
use super::render::{self, Part, Place, TurnEnd, Waits, Work};
use super::runs::{self, Run};
use super::subagents::{EndedTurn, SessionNode, SessionSource, name_of_child};
use super::view::hash;

/// Number of entries at the end of a sub-agent that are shown inside its entry. Its own view has all.
const TAIL: usize = 40;

/// Maximum number of sub-agents that one entry shows. The list has all.
const MOST_CHILDREN: usize = 50;

/// Maximum depth of nested sub-agents.
const DEEPEST: usize = 5;

/// Maximum number of sub-agents' entries per frame: of active sub-agents, and of those that the user has unfolded.
const BUDGET: Budget = Budget { at_work: 240, wanted: 2000 };

/// Maximum number of fold states that are kept.
const MAX_FOLDS: usize = 2000;

#[derive(Debug, Serialize)]
pub(crate) struct EntryFrame {
    pub(crate) position: usize,
    class: &'static str,
    label: String,
    /// Unix milliseconds.
    first: i64,
    last: i64,
    /// `true` while the time of the entry is still running.
    runs: bool,
    /// Keys and HTML of the parts. A part without HTML is unchanged; without a list all are unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<PartFrame>>,
    /// All sub-agents inside the entry. Without a list all are unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    nests: Option<Vec<NestFrame>>,
}

type PartFrame = (String, Option<CommonText>);

/// A sub-agent inside an entry.
#[derive(Debug, Serialize)]
struct NestFrame {
    session: CommonText,
    open: bool,
    /// Range of the shown entries, by position.
    from: usize,
    to: usize,
    /// Parts above the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<PartFrame>>,
    /// Changed entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<EntryFrame>,
}

/// A shared text.
#[derive(Debug)]
struct CommonText(Arc<str>);

impl Serialize for CommonText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// State of an entry on the page.
#[derive(Default)]
struct KnownEntry {
    stamp: Option<Stamp>,
    parts: KnownParts,
    /// Sub-agents inside the entry, with their fold states and ranges.
    nests: Vec<(Arc<str>, bool, usize, usize)>,
}

/// Version of an entry's appearance.
#[derive(PartialEq)]
struct Stamp {
    /// Latest revision of the entry and of its terminals or sub-agents.
    revision: u64,
    /// Latest revision of its questions.
    answered: u64,
    waits: bool,
    /// Number of sub-agents in it.
    children: usize,
    /// True if a sub-agent is shown elsewhere.
    is_elsewhere: bool,
    /// The turn that it ends.
    end: Option<TurnEnd>,
    /// The run that it belongs to: its range, and whether it is unfolded.
    run: Option<(Range<usize>, bool)>,
    /// Number of notices below it.
    notices: usize,
}

/// Keys and hashes of parts.
type KnownParts = Vec<(String, u64)>;

/// State of a session on the page.
#[derive(Default)]
struct KnownSession {
    entries: HashMap<usize, KnownEntry>,
    /// Parts above its entries, if it is nested.
    parts: KnownParts,
    /// Session and position of the entry that contains it.
    inside: Option<(Arc<str>, usize)>,
    /// Number of the frame in which it was last visible.
    frame: u64,
}

/// Remaining number of sub-agents' entries for a frame.
#[derive(Clone, Copy)]
struct Budget {
    at_work: usize,
    wanted: usize,
}

/// Input of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) app: &'a App,
    pub(crate) source: SessionSource<'a>,
    /// True if pending questions can be answered here.
    pub(crate) is_live: bool,
    /// True if the agent process has exited, so that nothing is active.
    pub(crate) is_over: bool,
    /// True if positions are those of the complete sessions, for which times are known.
    pub(crate) is_whole: bool,
}

#[derive(Default)]
pub(crate) struct Rows {
    sessions: HashMap<Arc<str>, KnownSession>,
    /// Fold states chosen by the user; `true` is unfolded.
    folds: HashMap<Arc<str>, bool>,
    /// Runs that the user has unfolded, by session and any position.
    runs: HashSet<(Arc<str>, usize)>,
    frame: u64,
}

impl Rows {
    /// Resets the state of the page to empty. Keeps the fold states.
    pub(crate) fn forget(&mut self) {
        self.sessions.clear();
    }

    /// Drops the state of a session's entries outside of a window.
    pub(crate) fn forget_outside(&mut self, session: &str, window: &Range<usize>) {
        if let Some(seen) = self.sessions.get_mut(session) {
            seen.entries.retain(|position, _| window.contains(position));
        }
    }

    /// Folds or unfolds a sub-agent.
    pub(crate) fn fold(&mut self, session: &str, open: bool) {
        if self.folds.len() >= MAX_FOLDS {
            self.folds.clear();
        }
        self.folds.insert(session.into(), open);
    }

    /// Unfolds the run with a position, or folds that with the first position.
    pub(crate) fn fold_run(&mut self, session: &str, position: usize, open: bool) {
        if self.runs.len() >= MAX_FOLDS {
            self.runs.clear();
        }
        if open {
            self.runs.insert((session.into(), position));
        } else {
            let run = position..position.saturating_add(runs::LONGEST);
            self.runs.retain(|(known, position)| **known != *session || !run.contains(position));
        }
    }

    fn is_unfolded(&self, session: &Arc<str>, run: &Run) -> bool {
        !self.runs.is_empty()
            && run.range.clone().any(|position| self.runs.contains(&(Arc::clone(session), position)))
    }

    /// Returns the changes in a window of a session.
    pub(crate) fn frame(
        &mut self,
        scene: Scene<'_>,
        session: &SessionNode,
        window: Range<usize>,
    ) -> Vec<EntryFrame> {
        self.frame += 1;
        let mut budget = BUDGET;
        let frames = self.entries(scene, session, window, 0, &mut budget);
        let frame = self.frame;
        self.sessions.retain(|_, seen| seen.frame == frame);
        frames
    }

    fn entries(
        &mut self,
        scene: Scene<'_>,
        session: &SessionNode,
        window: Range<usize>,
        depth: usize,
        budget: &mut Budget,
    ) -> Vec<EntryFrame> {
        let snapshot = &session.snapshot;
        let mut settled = settled(snapshot, &window);
        let waiting: HashSet<&str> =
            snapshot.pending_permissions().filter_map(Permission::tool_call_id).collect();
        let asked: HashSet<&str> = snapshot
            .pending_permissions()
            .filter_map(|permission| match permission.subject() {
                Some(v2::RequestPermissionSubject::Command(command)) => command.terminal_id.as_deref(),
                _ => None,
            })
            .collect();
        // Inside its parent, a sub-agent shows only its end, which may begin within a run.
        let scan = if depth == 0 { 0 } else { window.start };
        let runs = runs::in_window(session, &window, scan, &waiting);
        let notices = notices(scene, session);
        let mut seen = self.sessions.remove(&session.id).unwrap_or_default();
        seen.frame = self.frame;
        seen.entries.retain(|position, _| window.contains(position));
        let mut frames = Vec::new();
        for position in window.start..window.end.min(snapshot.len()) {
            let Some(entry) = snapshot.entry(position) else { break };
            let settled = settled.remove(&position).unwrap_or_default();
            let waits = match entry {
                Entry::ToolCall(call) => waiting.contains(call.id()),
                // The command is not shown as running before it is allowed.
                Entry::Terminal(terminal) => asked.contains(terminal.id()),
                _ => false,
            };
            let is_new = !seen.entries.contains_key(&position);
            let known = seen.entries.entry(position).or_default();
            let turn = session.ended_turn(position);
            let run = runs::at(&runs, position);
            let is_open = run.is_some_and(|run| self.is_unfolded(&session.id, run));
            let below = notices.get(&position).map_or(&[][..], Vec::as_slice);
            let stamp = Stamp {
                end: turn.map(|turn| turn_end(scene, session, position, turn)),
                run: run.map(|run| (run.range.clone(), is_open)),
                notices: below.len(),
                ..stamp(session, entry, &settled, waits)
            };
            let is_hidden = run.is_some() && !is_open;
            let parts = (is_new || known.stamp.as_ref() != Some(&stamp)).then(|| {
                let waits = waits.then_some(if scene.is_live { Waits::ForYou } else { Waits::ForAnswer });
                let line = run.filter(|run| run.range.start == position);
                let line = line.map(|run| run.line(scene, session, is_open));
                if is_hidden {
                    return changed(&mut known.parts, line.into_iter().collect());
                }
                let place = Place {
                    recording: &scene.source.room.id,
                    session: &session.id,
                    folder: scene.source.room.folder(),
                    parent: session.parent.as_deref(),
                    is_shown_here: &|child| session.is_in_a_call(child) || is_inside(session, entry, child),
                    name: &|id| scene.source.look(|conversation| conversation.name(id)),
                };
                let mut parts: Vec<Part> = line.into_iter().collect();
                parts.extend(render::entry(snapshot, entry, waits, &place, &scene.app.cache));
                for question in &settled {
                    parts.extend(question.parts(snapshot, &place, scene.app));
                }
                parts.extend(render::more(session.inside(entry).len().saturating_sub(MOST_CHILDREN)));
                parts.extend(below.iter().map(|(number, notice)| render::notice_part(*number, notice)));
                let failure = turn.and_then(|turn| turn.failure.as_ref());
                parts.extend(failure.map(|it| render::failed_turn(&it.reason, it.said)));
                // An entry without content, such as a terminal that its call shows, stays without an end.
                parts.extend(stamp.end.as_ref().filter(|_| !parts.is_empty()).map(render::turn_end));
                changed(&mut known.parts, parts)
            });
            known.stamp = Some(stamp);
            let children = session.inside(entry);
            let nests = self.nests(scene, session, (position, entry), children, is_new, (depth, budget));
            let shapes =
                nests.iter().map(|nest| (Arc::clone(&nest.session.0), nest.open, nest.from, nest.to));
            let shapes: Vec<_> = shapes.collect();
            let has_changed = nests.iter().any(|nest| nest.parts.is_some() || !nest.entries.is_empty())
                || known.nests != shapes;
            known.nests = shapes;
            if parts.is_none() && !has_changed {
                continue;
            }
            let frame = render::frame(entry, |id| {
                scene.source.look(|conversation| name_of_child(conversation, &session.id, id))
            });
            let times = match scene.is_whole {
                true => scene.source.room.log().times(&session.id, position),
                false => Times::default(),
            };
            frames.push(EntryFrame {
                position,
                class: if run.is_some() && is_open { IN_RUN } else { frame.class },
                label: frame.label,
                first: times.first,
                last: times.last,
                runs: scene.is_live && !waits && is_running(entry),
                parts,
                nests: has_changed.then_some(nests),
            });
        }
        self.sessions.insert(Arc::clone(&session.id), seen);
        frames
    }

    /// Returns the sub-agents inside an entry. With `is_new`, the page has no part of the entry.
    fn nests(
        &mut self,
        scene: Scene<'_>,
        session: &SessionNode,
        (position, entry): (usize, &Entry),
        children: &[Arc<str>],
        is_new: bool,
        (depth, budget): (usize, &mut Budget),
    ) -> Vec<NestFrame> {
        let shown = &children[children.len().saturating_sub(MOST_CHILDREN)..];
        let mut nests = Vec::with_capacity(shown.len());
        for child in shown {
            let Some(inside) = scene.source.node(child) else { continue };
            let place = Some((Arc::clone(&session.id), position));
            let seen = self.sessions.entry(Arc::clone(child)).or_default();
            if is_new || seen.inside != place {
                *seen = KnownSession { inside: place, ..KnownSession::default() };
            }
            let is_fresh = seen.parts.is_empty();
            let subagent = session.snapshot.subagent(child);
            let length = inside.snapshot.len();
            let (is_at_work, work) = subagent_state(scene, &inside, entry);
            let wanted = self.folds.get(child).copied();
            let left = match wanted {
                Some(true) => &mut budget.wanted,
                Some(false) => &mut 0,
                None if is_at_work => &mut budget.at_work,
                None => &mut 0,
            };
            let count = length.min(TAIL).min(*left);
            let open = depth < DEEPEST && (count > 0 || (length == 0 && *left > 0));
            *left -= if open { count } else { 0 };
            let window = if open { length - count..length } else { length..length };
            let head = render::Nest {
                recording: &scene.source.room.id,
                session: child,
                subagent,
                name: &inside.name,
                state: inside.state.as_ref(),
                work,
                is_by_itself: entry.as_subagent().is_some(),
                can_cancel: scene.is_live && is_at_work,
                can_unfold: depth < DEEPEST,
                left_out: open.then_some(window.start),
            };
            let parts = render::nest(&head, &inside.snapshot, &scene.app.cache);
            let entries = match open {
                true => self.entries(scene, &inside, window.clone(), depth + 1, budget),
                false => Vec::new(),
            };
            let frame = self.frame;
            let seen = self.sessions.entry(Arc::clone(child)).or_default();
            seen.frame = frame;
            if !open {
                seen.entries.clear();
            }
            let before = seen.parts.clone();
            let parts = changed(&mut seen.parts, parts);
            let parts = (is_fresh || seen.parts != before).then_some(parts);
            let session = CommonText(Arc::clone(child));
            nests.push(NestFrame { session, open, from: window.start, to: window.end, parts, entries });
        }
        nests
    }
}

fn is_inside(session: &SessionNode, entry: &Entry, child: &str) -> bool {
    session.inside(entry).iter().any(|it| **it == *child)
}

/// Classes of a tool call in an unfolded run.
const IN_RUN: &str = "e e-tool in-run";

/// Returns the facts about a turn for the line at its end.
fn turn_end(scene: Scene<'_>, session: &SessionNode, position: usize, turn: &EndedTurn) -> TurnEnd {
    let cost = scene.is_whole.then(|| {
        let log = scene.source.room.log();
        let after = log.cost(&session.id, position + 1)?;
        let before = log.cost(&session.id, turn.start).filter(|before| before.currency == after.currency);
        let cost = after.amount - before.map_or(0.0, |before| before.amount);
        (cost > 0.0).then(|| render::money(cost, &after.currency))
    });
    let EndedTurn { at, took, tokens, is_cancelled, .. } = *turn;
    TurnEnd { at, took, cost: cost.flatten(), tokens, is_cancelled }
}

/// Notices with their numbers, by the position of the entry that they follow.
type NoticesBelow<'s> = HashMap<usize, Vec<(usize, &'s v2::Notice<'static>)>>;

/// Returns the notices of a session by the entry that they follow. In an earlier state their places are not known.
fn notices<'s>(scene: Scene<'_>, session: &'s SessionNode) -> NoticesBelow<'s> {
    let mut below = NoticesBelow::new();
    let all = session.snapshot.notices();
    if all.is_empty() || !scene.is_whole || scene.source.past.is_some() {
        return below;
    }
    let places = scene.source.room.log().notices(&session.id);
    for (number, (notice, length)) in all.iter().rev().zip(places.iter().rev()).enumerate() {
        if let Some(position) = length.checked_sub(1) {
            below
                .entry(position.min(session.snapshot.len().saturating_sub(1)))
                .or_default()
                .push((number, notice));
        }
    }
    below
}

fn stamp(session: &SessionNode, entry: &Entry, settled: &[Settled<'_>], waits: bool) -> Stamp {
    let snapshot = &session.snapshot;
    let shown = match entry {
        Entry::ToolCall(call) => {
            call.terminal_ids().filter_map(|id| snapshot.terminal(id)).map(Terminal::revision).max()
        }
        // The message shows their names.
        Entry::SessionMessage(message) => {
            let ends = [message.sender(), message.recipient()].into_iter().flatten();
            ends.filter_map(|id| snapshot.subagent(id)).map(Subagent::revision).max()
        }
        _ => None,
    };
    let answered = settled.iter().map(Settled::revision).max();
    let revision = entry.revision().max(shown.unwrap_or(0));
    let is_elsewhere = entry.as_subagent().is_some_and(|it| session.is_in_a_call(it.session_id()));
    Stamp {
        revision,
        answered: answered.unwrap_or(0),
        waits,
        children: session.inside(entry).len(),
        is_elsewhere,
        end: None,
        run: None,
        notices: 0,
    }
}

fn is_running(entry: &Entry) -> bool {
    match entry {
        Entry::ToolCall(call) => {
            matches!(call.status(), ToolCallStatus::Pending | ToolCallStatus::InProgress)
        }
        Entry::Subagent(subagent) => subagent.activity() == Activity::Running,
        _ => false,
    }
}

/// Returns `true` if a sub-agent is active, and the state to show.
fn subagent_state(scene: Scene<'_>, inside: &SessionNode, entry: &Entry) -> (bool, Work) {
    use v2::StateUpdate as State;
    let snapshot = &inside.snapshot;
    let asks =
        snapshot.pending_permissions().next().is_some() || snapshot.pending_elicitations().next().is_some();
    if asks {
        return (true, Work::Waits(if scene.is_live { Waits::ForYou } else { Waits::ForAnswer }));
    }
    let is_at_work = match &inside.state {
        Some(State::Running(_) | State::RequiresAction(_)) => true,
        Some(State::Idle(_)) => false,
        // The status of its tool call is the only evidence.
        Some(State::Unobservable(_) | State::Unknown(_)) | None => {
            entry.as_tool_call().is_some_and(|call| !call.status().is_final())
        }
        Some(State::More(none)) => none.never(),
    };
    match is_at_work && scene.is_over {
        true => (false, Work::Over),
        false => (is_at_work, Work::Told(inside.state_in_words)),
    }
}

/// Returns the parts, with HTML for the changed ones.
fn changed(known: &mut KnownParts, parts: Vec<Part>) -> Vec<PartFrame> {
    let before: HashMap<&str, u64> = known.iter().map(|(key, hash)| (&**key, *hash)).collect();
    let frames = parts.iter().map(|part| {
        let same = before.get(&*part.key) == Some(&part.hash);
        (part.key.clone(), (!same).then(|| CommonText(Arc::clone(&part.html))))
    });
    let frames = frames.collect();
    *known = parts.into_iter().map(|part| (part.key, part.hash)).collect();
    frames
}

/// A settled question of the agent.
pub(crate) enum Settled<'s> {
    Permission(&'s Permission),
    Elicitation(&'s Elicitation),
}

/// Returns the settled questions, by the position of their entry in the window.
pub(crate) fn settled<'s>(snapshot: &'s Snapshot, window: &Range<usize>) -> HashMap<usize, Vec<Settled<'s>>> {
    let mut settled: HashMap<usize, Vec<Settled<'s>>> = HashMap::new();
    for permission in snapshot.permissions().filter(|it| !it.settlement().is_pending()) {
        let by_call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
        let position = by_call.unwrap_or_else(|| permission.position().saturating_sub(1));
        if window.contains(&position) {
            settled.entry(position).or_default().push(Settled::Permission(permission));
        }
    }
    for elicitation in snapshot.elicitations().filter(|it| !it.settlement().is_pending()) {
        let position = elicitation.position().saturating_sub(1);
        if window.contains(&position) {
            settled.entry(position).or_default().push(Settled::Elicitation(elicitation));
        }
    }
    settled
}

impl Settled<'_> {
    fn revision(&self) -> u64 {
        match self {
            Settled::Permission(permission) => permission.revision(),
            Settled::Elicitation(elicitation) => elicitation.revision(),
        }
    }

    /// Renders the parts of the question, with keys that are unique in the entry.
    pub(crate) fn parts(
        &self,
        snapshot: &Snapshot,
        place: &Place<'_>,
        app: &App,
    ) -> impl Iterator<Item = Part> {
        let (id, parts) = match self {
            Settled::Permission(permission) => {
                (permission.id(), render::permission(snapshot, permission, place, &app.cache))
            }
            Settled::Elicitation(elicitation) => (elicitation.id(), render::elicitation(elicitation)),
        };
        let prefix = hash(&id.encode(WireFormat::Any));
        parts.into_iter().map(move |part| Part { key: format!("asked-{prefix:x}-{}", part.key), ..part })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use switchboard_store::{Channel, Record, Store};

    use super::*;
    use crate::app::user_for_tests;
    use crate::live_recording::LiveRecording;
    use crate::user_state::UserState;

    /// A tab that shows a recording to which messages are appended.
    struct Tab {
        room: Arc<LiveRecording>,
        user: Arc<UserState>,
        rows: Rows,
        is_over: bool,
        _folder: tempfile::TempDir,
    }

    impl Tab {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(folder.path().join("s.sqlite3")).unwrap();
            let room = LiveRecording::folding("r", &store, 2);
            let user = user_for_tests(&store);
            Tab { room, user, rows: Rows::default(), is_over: false, _folder: folder }
        }

        fn told(&self, session: &str, update: &Value) {
            let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } });
            self.room.push(&Record::new(Channel::ToClient, message.to_string()));
        }

        fn started(&self, parent: &str, child: &str) {
            let state = json!({ "state": "running" });
            self.told(
                parent,
                &json!({ "sessionUpdate": "subagent_update", "sessionId": child, "state": state }),
            );
        }

        fn says(&self, session: &str, id: usize) {
            let content = json!({ "type": "text", "text": "word " });
            let update = json!({ "sessionUpdate": "agent_message_chunk", "messageId": format!("m-{id}"), "content": content });
            self.told(session, &update);
        }

        /// Returns the frame of the session `s`.
        fn frame(&mut self) -> Value {
            let source = SessionSource { room: &self.room, past: None };
            let session = source.node("s").unwrap();
            let scene =
                Scene { app: &self.user.app, source, is_live: true, is_over: self.is_over, is_whole: true };
            serde_json::to_value(self.rows.frame(scene, &session, 0..200)).unwrap()
        }
    }

    /// Returns the number of entries inside sub-agents at any depth.
    fn inside(frame: &Value) -> usize {
        let nests = frame.as_array().unwrap().iter().filter_map(|entry| entry["nests"].as_array()).flatten();
        nests
            .filter_map(|nest| nest.get("entries"))
            .map(|entries| entries.as_array().unwrap().len() + inside(entries))
            .sum()
    }

    #[test]
    fn only_changes_inside_subagents_are_sent() {
        let mut tab = Tab::new();
        tab.started("s", "a");
        (0..3).for_each(|id| tab.says("a", id));
        let frame = tab.frame();
        let nest = &frame[0]["nests"][0];
        assert_eq!((&nest["session"], &nest["open"], inside(&frame)), (&json!("a"), &json!(true), 3));
        assert_eq!(tab.frame(), json!([]), "nothing has changed");
        tab.says("a", 1);
        let frame = tab.frame();
        let (entry, nest) = (&frame[0], &frame[0]["nests"][0]);
        assert_eq!((entry.get("parts"), nest.get("parts")), (None, None), "{frame}");
        assert_eq!((inside(&frame), &nest["entries"][0]["position"]), (1, &json!(1)));
        // After folding and unfolding, the page needs all parts again.
        tab.rows.fold("a", false);
        let frame = tab.frame();
        assert_eq!((inside(&frame), &frame[0]["nests"][0]["open"]), (0, &json!(false)));
        tab.rows.fold("a", true);
        assert_eq!(inside(&tab.frame()), 3);
        // It also does after the entry was outside of the window.
        tab.rows.forget_outside("s", &(5..9));
        let frame = tab.frame();
        assert!(inside(&frame) == 3 && frame[0]["nests"][0]["parts"][0][1].is_string(), "{frame}");
    }

    #[test]
    fn one_that_a_call_claims_later_moves_there_as_a_whole() {
        let mut tab = Tab::new();
        tab.started("s", "a");
        tab.says("a", 0);
        tab.frame();
        let content = json!([{ "type": "session", "sessionId": "a" }]);
        tab.told("s", &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Ask", "content": content }));
        let frame = tab.frame();
        assert_eq!((&frame[0]["nests"], &frame[0]["parts"]), (&json!([]), &json!([])), "{frame}");
        let nest = &frame[1]["nests"][0];
        assert!(nest["parts"][0][1].is_string() && nest["entries"][0]["parts"][0][1].is_string(), "{frame}");
    }

    #[test]
    fn active_subagents_are_bounded_and_unfolded_ones_are_shown() {
        let mut tab = Tab::new();
        for child in 0..20 {
            let id = format!("child-{child}");
            tab.started("s", &id);
            (0..60).for_each(|entry| tab.says(&id, entry));
        }
        let frame = tab.frame();
        assert_eq!(inside(&frame), BUDGET.at_work);
        assert_eq!(frame[19]["nests"][0]["open"], false);
        tab.rows.fold("child-19", true);
        let frame = tab.frame();
        assert_eq!(inside(&frame), TAIL);
        assert_eq!((&frame[0]["nests"][0]["from"], &frame[0]["nests"][0]["to"]), (&json!(20), &json!(60)));
        // The exit of the agent ends all activity. Sub-agents that the user has unfolded stay unfolded.
        let state = json!({ "state": "idle" });
        tab.told("s", &json!({ "sessionUpdate": "subagent_update", "sessionId": "child-0", "state": state }));
        tab.is_over = true;
        let frame = tab.frame();
        let is_open = |entry: &&Value| entry["nests"][0]["open"] == true;
        assert_eq!(frame.as_array().unwrap().iter().filter(is_open).count(), 1, "{frame}");
        let head = |place: usize| frame[place]["nests"][0]["parts"][0][1].as_str().unwrap();
        assert!(head(0).contains("done") && head(1).contains("gone with the agent"), "{frame}");
    }

    #[test]
    fn very_deep_ones_are_named_and_not_unfolded() {
        let mut tab = Tab::new();
        tab.started("s", "d-0");
        for depth in 0..10 {
            tab.started(&format!("d-{depth}"), &format!("d-{}", depth + 1));
            tab.rows.fold(&format!("d-{depth}"), true);
        }
        let mut frame = tab.frame();
        let mut depth = 0;
        while frame[0]["nests"][0]["open"] == true {
            frame = frame[0]["nests"][0]["entries"].clone();
            depth += 1;
        }
        assert_eq!(depth, DEEPEST);
        let head = frame[0]["nests"][0]["parts"][0][1].as_str().unwrap();
        assert!(head.contains("nest-name") && head.contains("/r/r/d-5"), "{head}");
    }
}
