//! What one tab sees, and what it must be told to see what there is.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_hub::SessionActivity;
use switchboard_session::{Conversation, Session, Snapshot};

use super::desk::{Desk, Lobby};
use super::family::{self, Relative, Sight};
use super::live::{Failure, Live};
use super::live_recording::LiveRecording;
use super::panels::{self, Subject};
use super::request::Filter;
use super::rows::{EntryFrame, Rows, Scene};
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

/// What one tab looks at.
pub(crate) struct View {
    pub(crate) room: Option<Arc<LiveRecording>>,
    pub(crate) session: String,
    /// Why what was to be looked at cannot be.
    missing: Option<Failure>,
    /// The session of a hub that is looked at, where somebody can act in it, or why not.
    pub(crate) attached: Option<Result<Arc<Live>, Failure>>,
    at: Option<(usize, Conversation)>,
    /// Whether the tab has been shown the end of a recording that was not read yet.
    was_preview: bool,
    window: Range<usize>,
    /// How many questions come before those in sight.
    skipped_questions: usize,
    rows: Rows,
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
            missing: None,
            attached: None,
            at: None,
            was_preview: false,
            window: 0..0,
            skipped_questions: 0,
            rows: Rows::default(),
            panels: HashMap::new(),
            fresh: true,
            wire: None,
        }
    }

    /// Looks at something else.
    pub(crate) fn look(&mut self, room: Option<Arc<LiveRecording>>, session: String) {
        if room.as_ref().map(|room| &room.id) != self.room.as_ref().map(|room| &room.id) {
            self.attached = None;
        }
        (self.room, self.session) = (room, session);
        self.missing = None;
        self.window = 0..0;
        self.skipped_questions = 0;
        self.at = None;
        self.wire = None;
        self.forget();
    }

    /// Looks at nothing, because what was asked for is not there.
    pub(crate) fn miss(&mut self, reason: Failure) {
        self.look(None, String::new());
        self.missing = Some(reason);
    }

    fn forget(&mut self) {
        self.rows.forget();
        self.panels.clear();
        self.fresh = true;
    }

    pub(crate) fn set_window(&mut self, from: usize, to: usize) {
        self.window = from..to.clamp(from, from.saturating_add(MAX_WINDOW));
        self.rows.forget_outside(&self.session, &self.window);
    }

    pub(crate) fn skip_questions(&mut self, skip: usize) {
        self.skipped_questions = skip;
    }

    /// The user folds or unfolds a sub-agent.
    pub(crate) fn fold(&mut self, session: &str, open: bool) {
        self.rows.fold(session, open);
    }

    /// Shows the session as it was.
    pub(crate) fn set_at(&mut self, at: Option<(usize, Conversation)>) {
        self.at = at;
        self.rows.forget();
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

    /// The session in which somebody can act. Before there is one, an agent that waits for a login.
    pub(crate) fn live(&self, desk: &Desk) -> Option<Arc<Live>> {
        match (&self.room, desk.lobby()) {
            _ if self.missing.is_some() => None,
            (Some(_), _) => self.attached.clone()?.ok(),
            (None, Lobby::Refused(live, _)) => Some(live),
            (None, _) => None,
        }
    }

    pub(crate) fn sight(&self) -> Option<Sight<'_>> {
        let past = self.at.as_ref().map(|(_, conversation)| conversation);
        self.room.as_deref().map(|room| Sight { room, past })
    }

    /// A session as it is shown: that which is looked at, or a sub-agent inside it.
    pub(crate) fn snapshot(&self, session: &str) -> Option<Snapshot> {
        let sight = self.sight()?;
        sight.look(|conversation| family::session(conversation, session).map(Session::snapshot))
    }

    /// Whether it is shown as it is, and not as it was.
    pub(crate) fn is_now(&self) -> bool {
        self.at.is_none()
    }

    /// Whether there is more to tell than one frame holds.
    pub(crate) fn is_behind(&self) -> bool {
        self.wire.as_ref().is_some_and(WireView::is_behind)
    }

    /// What the tab must be told now.
    pub(crate) fn frame(&mut self, desk: &Desk) -> Frame {
        self.choose_session(desk);
        let live = self.live(desk);
        let is_preview = self.at.is_none() && self.room.as_ref().is_some_and(|room| room.preview().is_some());
        if self.was_preview && !is_preview {
            // From here on, positions are those of the whole session.
            self.window = 0..0;
            self.forget();
        }
        self.was_preview = is_preview;
        let sight = self.sight();
        let mut shown = sight.and_then(|sight| sight.relative(&self.session));
        if shown.is_none() && self.at.is_some() {
            shown = Some(Relative::empty(&self.session));
        }
        let rows = self.room.as_ref().map_or(0, |room| room.log().rows().len());
        let is_now = self.at.is_none();
        let subject = Subject {
            desk,
            missing: self.missing.as_ref(),
            refusal: self.attached.as_ref().and_then(|attached| attached.as_ref().err()),
            sight,
            live: live.as_deref(),
            session: &self.session,
            shown: shown.as_ref(),
            is_now,
            skipped_questions: self.skipped_questions,
        };
        let made = panels::all(&subject);
        let mut panels = HashMap::new();
        for (name, html) in made {
            let hash = hash(&html);
            if self.panels.insert(name, hash) != Some(hash) {
                panels.insert(name, html);
            }
        }
        let is_live = live.as_ref().is_some_and(|live| live.ended().is_none()) && is_now;
        let known = self.room.as_ref().and_then(|room| desk.session(&room.id));
        let is_over = is_now && known.is_some_and(|known| known.state == SessionActivity::Dormant);
        let past = self.at.as_ref().map(|(_, conversation)| conversation);
        let sight = self.room.as_deref().map(|room| Sight { room, past });
        let entries = match (&shown, sight) {
            (Some(shown), Some(sight)) => {
                let scene = Scene { app: &desk.app, sight, is_live, is_over, is_whole: !self.was_preview };
                self.rows.frame(scene, shown, self.window.clone())
            }
            _ => Vec::new(),
        };
        let wire = match (&mut self.wire, &self.room) {
            (Some(wire), Some(room)) => wire.frame(room, &self.session),
            _ => None,
        };
        Frame {
            r#type: "frame",
            recording: self.room.as_ref().map_or_else(String::new, |room| room.id.clone()),
            session: self.session.clone(),
            live: is_live,
            length: shown.as_ref().map_or(0, |shown| shown.snapshot.len()),
            rows,
            at: self.at.as_ref().map(|(rows, _)| *rows),
            fresh: std::mem::take(&mut self.fresh),
            entries,
            panels,
            wire,
        }
    }

    /// Where nothing is chosen yet: the first session that was opened, and the latest that it has been.
    fn choose_session(&mut self, desk: &Desk) {
        if self.room.is_none()
            && self.missing.is_none()
            && let Lobby::Opened(id) = desk.lobby()
        {
            self.room = desk.room(&id).ok();
        }
        let Some(room) = &self.room else { return };
        if self.session.is_empty() {
            self.session = latest_root(room);
            return;
        }
        // A link may name the session by an id under which it was continued.
        let sight = Sight { room, past: None };
        let canonical = sight.look(|conversation| conversation.canonical_id(&self.session).to_owned());
        if canonical != self.session {
            self.session = canonical;
            self.window = 0..0;
            self.forget();
        } else if self.at.is_none() && desk.session(&room.id).is_some() && is_root(room, &self.session) {
            // A log in which nobody noted that an agent has begun the session anew, under another id of its own.
            let latest = latest_root(room);
            if latest != self.session && !latest.is_empty() {
                self.session = latest;
                self.window = 0..0;
                self.forget();
            }
        }
    }
}

/// Whether no agent has started a session.
fn is_root(room: &LiveRecording, id: &str) -> bool {
    Sight { room, past: None }.look(|conversation| conversation.parent(id).is_none())
}

/// The latest session that no agent has started.
fn latest_root(room: &LiveRecording) -> String {
    let preview = room
        .preview()
        .as_ref()
        .map(|preview| preview.sessions().filter_map(|(id, _)| id).map(str::to_owned).collect::<Vec<_>>());
    let ids = preview.unwrap_or_else(|| room.session_ids());
    ids.into_iter().rev().find(|id| is_root(room, id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app;
    use switchboard_acp::WireFormat;
    use switchboard_session::{Moment, Side};
    use switchboard_store::{Channel, Record, Store};

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
        let desk = app::desk_for_tests(&store);
        let mut view = View::new();
        view.look(Some(Arc::clone(&room)), String::new());
        let frame = view.frame(&desk);
        assert_eq!((frame.session.as_str(), frame.length, frame.fresh), ("s", 1, true));

        *room.preview() = None;
        let frame = view.frame(&desk);
        assert_eq!((frame.length, frame.fresh, frame.entries.len()), (50, true, 0));
        view.set_window(40, 60);
        assert_eq!(view.frame(&desk).entries.len(), 10);
        assert_eq!(view.frame(&desk).entries.len(), 0, "nothing has changed");
        room.push(&Record::new(Channel::ToClient, chunk(45)));
        let changed: Vec<usize> = view.frame(&desk).entries.iter().map(|entry| entry.position).collect();
        assert_eq!(changed, [45]);
    }
}
