//! What one tab sees, and what it must be told to see what there is.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_protocol::{Wire, WireFormat};
use switchboard_session::{Elicitation, EntryKind, Permission, Session, Snapshot, Terminal, ToolCall};

use super::app::App;
use super::live::Live;
use super::live_recording::LiveRecording;
use super::panels;
use super::render::{self, Part, Waits};
use super::request::Filter;
use super::wire::WireView;

/// How many entries a tab may have in sight.
const MAX_WINDOW: usize = 200;

/// What changed since the last frame.
#[derive(Debug, Serialize)]
pub(crate) struct Frame {
    r#type: &'static str,
    recording: String,
    session: String,
    /// Whether something can be said in it.
    live: bool,
    /// How many entries there are.
    length: usize,
    /// How many records there are.
    rows: usize,
    /// After how many of them this is.
    at: Option<usize>,
    /// Whether everything that the page has must go first.
    fresh: bool,
    entries: Vec<EntryFrame>,
    panels: HashMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct EntryFrame {
    position: usize,
    class: &'static str,
    label: String,
    /// Milliseconds since 1970.
    first: i64,
    last: i64,
    /// Whether its time still runs.
    runs: bool,
    /// Key and HTML; without HTML it is as it was.
    parts: Vec<(String, Option<SharedHtml>)>,
}

/// HTML that the cache has too.
#[derive(Debug)]
struct SharedHtml(Arc<str>);

impl Serialize for SharedHtml {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What a tab has of an entry.
struct Seen {
    stamp: (u64, u64, bool),
    parts: Vec<(String, u64)>,
}

/// What one tab looks at.
pub(crate) struct View {
    pub(crate) room: Option<Arc<LiveRecording>>,
    pub(crate) session: String,
    at: Option<(usize, Snapshot)>,
    /// Whether the tab has been shown the end of a recording that was not read yet.
    was_preview: bool,
    window: Range<usize>,
    seen: HashMap<usize, Seen>,
    panels: HashMap<&'static str, u64>,
    fresh: bool,
    pub(crate) wire: Option<WireView>,
}

pub(crate) fn hash(text: &str) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(text)
}

impl View {
    pub(crate) fn new() -> Self {
        View {
            room: None,
            session: String::new(),
            at: None,
            was_preview: false,
            window: 0..0,
            seen: HashMap::new(),
            panels: HashMap::new(),
            fresh: true,
            wire: None,
        }
    }

    /// Looks at something else.
    pub(crate) fn look(&mut self, room: Option<Arc<LiveRecording>>, session: String) {
        (self.room, self.session) = (room, session);
        self.window = 0..0;
        self.at = None;
        self.wire = None;
        self.forget();
    }

    fn forget(&mut self) {
        self.seen.clear();
        self.panels.clear();
        self.fresh = true;
    }

    pub(crate) fn set_window(&mut self, from: usize, to: usize) {
        self.window = from..to.clamp(from, from.saturating_add(MAX_WINDOW));
        let window = &self.window;
        self.seen.retain(|position, _| window.contains(position));
    }

    /// Shows the session as it was.
    pub(crate) fn set_at(&mut self, at: Option<(usize, Snapshot)>) {
        self.at = at;
        self.seen.clear();
        self.panels.clear();
    }

    pub(crate) fn set_wire(&mut self, window: Option<(usize, usize)>, follows: bool, filter: Filter) {
        let Some(window) = window else {
            self.wire = None;
            return;
        };
        let known = self.wire.take().filter(|wire| *wire.filter() == filter);
        self.wire.insert(known.unwrap_or_else(|| WireView::new(filter))).set_window(window, follows);
    }

    /// The agent, if what is seen is its connection.
    pub(crate) fn live(&self, app: &App) -> Option<Arc<Live>> {
        let room = self.room.as_ref()?;
        app.live().filter(|live| Arc::ptr_eq(&live.room, room))
    }

    /// The session as it is shown.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match &self.at {
            Some((_, snapshot)) => Some(snapshot.clone()),
            None => self.preview().or_else(|| self.whole()),
        }
    }

    fn preview(&self) -> Option<Snapshot> {
        let session = (!self.session.is_empty()).then_some(&*self.session);
        let preview = self.room.as_ref().filter(|_| self.at.is_none())?.preview();
        preview.as_ref()?.session(session).map(Session::snapshot)
    }

    fn whole(&self) -> Option<Snapshot> {
        self.room.as_ref()?.session(&self.session)
    }

    /// Whether there is more to tell than one frame holds.
    pub(crate) fn is_behind(&self) -> bool {
        self.wire.as_ref().is_some_and(WireView::is_behind)
    }

    /// What the tab must be told now.
    pub(crate) fn frame(&mut self, app: &App) -> Frame {
        self.choose_session(app);
        let live = self.live(app);
        let preview = self.preview();
        if self.was_preview && preview.is_none() {
            // From here on, positions are those of the whole session.
            self.window = 0..0;
            self.forget();
        }
        self.was_preview = preview.is_some();
        let snapshot = preview.or_else(|| self.snapshot());
        let rows = self.room.as_ref().map_or(0, |room| room.log().rows().len());
        let mut panels = HashMap::new();
        let (room, live_now, is_now) = (self.room.as_deref(), live.as_deref(), self.at.is_none());
        let made = panels::all(app, room, live_now, &self.session, snapshot.as_ref(), is_now);
        for (name, html) in made {
            let hash = hash(&html);
            if self.panels.insert(name, hash) != Some(hash) {
                panels.insert(name, html);
            }
        }
        let is_live = live.as_ref().is_some_and(|live| live.ended().is_none()) && self.at.is_none();
        let entries =
            snapshot.as_ref().map(|snapshot| self.entries(app, snapshot, is_live)).unwrap_or_default();
        let wire = match (&mut self.wire, &self.room) {
            (Some(wire), Some(room)) => wire.frame(room, &self.session),
            _ => None,
        };
        Frame {
            r#type: "frame",
            recording: self.room.as_ref().map_or_else(String::new, |room| room.id.clone()),
            session: self.session.clone(),
            live: is_live,
            length: snapshot.as_ref().map_or(0, Snapshot::len),
            rows,
            at: self.at.as_ref().map(|(rows, _)| *rows),
            fresh: std::mem::take(&mut self.fresh),
            entries,
            panels,
            wire,
        }
    }

    /// Where nothing is chosen yet: the agent's connection, and its latest session.
    fn choose_session(&mut self, app: &App) {
        if self.room.is_none() {
            self.room = app.live().map(|live| Arc::clone(&live.room));
        }
        if self.session.is_empty()
            && let Some(room) = &self.room
        {
            let last = match &*room.preview() {
                Some(preview) => preview.sessions().filter_map(|(id, _)| id).last().map(str::to_owned),
                None => room.session_ids().pop(),
            };
            self.session = last.unwrap_or_default();
        }
    }

    /// Questions of the agent that are settled, by the entry in sight that they belong to.
    fn asked<'s>(&self, snapshot: &'s Snapshot) -> HashMap<usize, Vec<Asked<'s>>> {
        let mut asked: HashMap<usize, Vec<Asked<'s>>> = HashMap::new();
        for permission in snapshot.permissions().filter(|it| !it.settlement().is_pending()) {
            let by_call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
            let position = by_call.unwrap_or_else(|| permission.position().saturating_sub(1));
            if self.window.contains(&position) {
                asked.entry(position).or_default().push(Asked::Permission(permission));
            }
        }
        for elicitation in snapshot.elicitations().filter(|it| !it.settlement().is_pending()) {
            let position = elicitation.position().saturating_sub(1);
            if self.window.contains(&position) {
                asked.entry(position).or_default().push(Asked::Elicitation(elicitation));
            }
        }
        asked
    }

    fn entries(&mut self, app: &App, snapshot: &Snapshot, is_live: bool) -> Vec<EntryFrame> {
        let mut asked = self.asked(snapshot);
        let waiting: HashSet<&str> =
            snapshot.pending_permissions().filter_map(Permission::tool_call_id).collect();
        let mut entries = Vec::new();
        for position in self.window.start..self.window.end.min(snapshot.len()) {
            let Some(entry) = snapshot.entry(position) else { break };
            let asked = asked.remove(&position).unwrap_or_default();
            let terminals = entry.as_tool_call().into_iter().flat_map(ToolCall::terminal_ids);
            let inside = terminals.filter_map(|id| snapshot.terminal(id)).map(Terminal::revision).max();
            let answered = asked.iter().map(Asked::revision).max();
            let waits = entry.as_tool_call().is_some_and(|call| waiting.contains(call.id()));
            let stamp = (entry.revision().max(inside.unwrap_or(0)), answered.unwrap_or(0), waits);
            let seen = self.seen.get(&position);
            if seen.is_some_and(|seen| seen.stamp == stamp) {
                continue;
            }
            let waits_for = waits.then_some(if is_live { Waits::ForYou } else { Waits::ForAnswer });
            let mut parts = render::entry(snapshot, entry, waits_for, &app.cache);
            for question in &asked {
                parts.extend(question.parts(snapshot, app));
            }
            let known: HashMap<&str, u64> =
                seen.into_iter().flat_map(|seen| &seen.parts).map(|(key, hash)| (&**key, *hash)).collect();
            let changed = parts
                .iter()
                .map(|part| {
                    let same = known.get(&*part.key) == Some(&part.hash);
                    (part.key.clone(), (!same).then(|| SharedHtml(Arc::clone(&part.html))))
                })
                .collect();
            let frame = render::frame(entry);
            let room = self.room.as_ref().filter(|_| !self.was_preview);
            let times = room.map(|room| room.log().times(&self.session, position));
            let times = times.unwrap_or_default();
            let runs = is_live
                && !waits
                && entry.as_tool_call().is_some_and(|call| {
                    use switchboard_protocol::v2::ToolCallStatus as Status;
                    matches!(call.status(), Status::Pending | Status::InProgress)
                });
            entries.push(EntryFrame {
                position,
                class: frame.class,
                label: frame.label,
                first: times.first,
                last: times.last,
                runs,
                parts: changed,
            });
            let parts = parts.into_iter().map(|part| (part.key, part.hash)).collect();
            self.seen.insert(position, Seen { stamp, parts });
        }
        entries
    }
}

/// A question of the agent.
enum Asked<'s> {
    Permission(&'s Permission),
    Elicitation(&'s Elicitation),
}

impl Asked<'_> {
    fn revision(&self) -> u64 {
        match self {
            Asked::Permission(permission) => permission.revision(),
            Asked::Elicitation(elicitation) => elicitation.revision(),
        }
    }

    /// Its parts, with keys that no other question and no entry has.
    fn parts(&self, snapshot: &Snapshot, app: &App) -> impl Iterator<Item = Part> {
        let (id, parts) = match self {
            Asked::Permission(permission) => {
                (permission.id(), render::permission(snapshot, permission, &app.cache))
            }
            Asked::Elicitation(elicitation) => (elicitation.id(), render::elicitation(elicitation)),
        };
        let prefix = hash(&id.encode(WireFormat::Any));
        parts.into_iter().map(move |part| Part { key: format!("asked-{prefix:x}-{}", part.key), ..part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::guard::Guard;
    use switchboard_session::{Conversation, Moment, Side};
    use switchboard_store::{Channel, Record, Store};
    use switchboard_transport::Program;

    fn chunk(message: usize) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m-{message}","content":{{"type":"text","text":"word"}}}}}}}}"#
        )
    }

    #[test]
    fn a_frame_has_what_changed_and_the_end_of_a_long_recording_gives_way_to_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("s.sqlite3")).unwrap();
        let room = LiveRecording::folding("r", &store, 2);
        for message in 0..50 {
            room.push(&Record::new(Channel::ToClient, chunk(message)));
        }
        let mut end = Conversation::new(WireFormat::Any);
        end.read(&chunk(49), Some(Side::Agent), Moment(0)).unwrap();
        *room.preview() = Some(end);
        let (program, folder) = (Program::new("true"), folder.path().to_owned());
        let app = App::new(store, program, "agent".into(), folder, Guard::new(1));
        let mut view = View::new();
        view.look(Some(Arc::clone(&room)), String::new());
        let frame = view.frame(&app);
        assert_eq!((frame.session.as_str(), frame.length, frame.fresh), ("s", 1, true));

        *room.preview() = None;
        let frame = view.frame(&app);
        assert_eq!((frame.length, frame.fresh, frame.entries.len()), (50, true, 0));
        view.set_window(40, 60);
        assert_eq!(view.frame(&app).entries.len(), 10);
        assert_eq!(view.frame(&app).entries.len(), 0, "nothing has changed");
        room.push(&Record::new(Channel::ToClient, chunk(45)));
        let changed: Vec<usize> = view.frame(&app).entries.iter().map(|entry| entry.position).collect();
        assert_eq!(changed, [45]);
    }
}
