//! What one tab sees, and what it must be told to see what there is.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use switchboard_protocol::{Revision, Wire};
use switchboard_session::{EntryKind, Snapshot};

use super::app::App;
use super::live::Live;
use super::panels;
use super::render::{self, Part};
use super::request::Filter;
use super::room::Room;
use super::wire::{WireFrame, WireView};

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
    wire: Option<WireFrame>,
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
    stamp: (u64, u64),
    parts: Vec<(String, u64)>,
}

/// What one tab looks at.
pub(crate) struct View {
    pub(crate) room: Option<Arc<Room>>,
    pub(crate) session: String,
    at: Option<(usize, Snapshot)>,
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
            window: 0..0,
            seen: HashMap::new(),
            panels: HashMap::new(),
            fresh: true,
            wire: None,
        }
    }

    /// Looks at something else.
    pub(crate) fn look(&mut self, room: Option<Arc<Room>>, session: String) {
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

    pub(crate) fn set_wire(&mut self, window: Option<(usize, usize)>, filter: Filter) {
        match (window, &mut self.wire) {
            (None, _) => self.wire = None,
            (Some(window), Some(wire)) if *wire.filter() == filter => wire.set_window(window),
            (Some(window), _) => self.wire = Some(WireView::new(filter, window)),
        }
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
            None => self.room.as_ref()?.trace().session(&self.session).map(|session| session.snapshot()),
        }
    }

    /// Whether there is more to tell than one frame holds.
    pub(crate) fn is_behind(&self) -> bool {
        self.wire.as_ref().is_some_and(WireView::is_behind)
    }

    /// What the tab must be told now.
    pub(crate) fn frame(&mut self, app: &App) -> Frame {
        self.choose_session(app);
        let live = self.live(app);
        let snapshot = self.snapshot();
        let rows = self.room.as_ref().map_or(0, |room| room.trace().rows().len());
        let mut panels = HashMap::new();
        let made = panels::all(app, self.room.as_deref(), live.as_deref(), &self.session, snapshot.as_ref());
        for (name, html) in made {
            let hash = hash(&html);
            if self.panels.insert(name, hash) != Some(hash) {
                panels.insert(name, html);
            }
        }
        let entries = snapshot.as_ref().map(|snapshot| self.entries(app, snapshot)).unwrap_or_default();
        let wire = match (&mut self.wire, &self.room) {
            (Some(wire), Some(room)) => wire.frame(room, &self.session),
            _ => None,
        };
        let is_live = live.as_ref().is_some_and(|live| live.ended().is_none()) && self.at.is_none();
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
            let trace = room.trace();
            let last = trace.sessions().filter_map(|(id, _)| id).last();
            self.session = last.unwrap_or_default().to_owned();
        }
    }

    fn entries(&mut self, app: &App, snapshot: &Snapshot) -> Vec<EntryFrame> {
        let mut asked: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, permission) in snapshot.permissions().enumerate() {
            let by_call = permission.tool_call_id().and_then(|id| snapshot.position(EntryKind::ToolCall, id));
            let position = by_call.unwrap_or_else(|| permission.position().saturating_sub(1));
            if self.window.contains(&position) && !permission.settlement().is_pending() {
                asked.entry(position).or_default().push(index);
            }
        }
        let mut entries = Vec::new();
        for position in self.window.start..self.window.end.min(snapshot.len()) {
            let Some(entry) = snapshot.entry(position) else { break };
            let asked = asked.remove(&position).unwrap_or_default();
            let permissions = || asked.iter().filter_map(|&index| snapshot.permission_at(index));
            let terminals = entry.as_tool_call().into_iter().flat_map(|call| call.terminal_ids());
            let inside = terminals
                .filter_map(|id| snapshot.terminal(id))
                .map(switchboard_session::Terminal::revision)
                .max();
            let answered = permissions().map(|permission| permission.revision()).max();
            let stamp = (entry.revision().max(inside.unwrap_or(0)), answered.unwrap_or(0));
            let seen = self.seen.get(&position);
            if seen.is_some_and(|seen| seen.stamp == stamp) {
                continue;
            }
            let mut parts = render::entry(snapshot, entry, &app.cache);
            for permission in permissions() {
                let id = hash(&permission.id().encode(Revision::Any));
                let prefix = format!("permission-{id:x}-");
                parts.extend(
                    render::permission(snapshot, permission, &app.cache)
                        .into_iter()
                        .map(|part| Part { key: format!("{prefix}{}", part.key), ..part }),
                );
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
            let times = self.room.as_ref().map(|room| room.trace().times(&self.session, position));
            let times = times.unwrap_or_default();
            let runs = entry.as_tool_call().is_some_and(|call| {
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
