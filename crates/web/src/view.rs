//! View of one tab: its selection, and the incremental frames that keep it current.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_hub::SessionActivity;
use switchboard_session::{Conversation, Session, Snapshot};

use super::live::{Failure, Live};
use super::live_recording::LiveRecording;
use super::panels::{self, Subject};
use super::request::Filter;
use super::rows::{EntryFrame, Rows, Scene};
use super::subagents::{self, SessionNode, SessionSource};
use super::user_state::{FirstSession, UserState};
use super::wire::WireView;

/// Maximum number of visible entries.
const MAX_WINDOW: usize = 720;

/// Changes since the last frame.
#[derive(Debug, Serialize)]
pub(crate) struct Frame {
    r#type: &'static str,
    recording: String,
    session: String,
    /// True if messages can be sent in the session.
    live: bool,
    /// Number of entries.
    length: usize,
    /// Number of records.
    rows: usize,
    /// Number of records after which an earlier state is shown; `None` for the present state.
    at: Option<usize>,
    /// True if the page must clear its content first.
    fresh: bool,
    entries: Vec<EntryFrame>,
    panels: HashMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<Box<RawValue>>,
}

/// The selection of one tab.
pub(crate) struct View {
    pub(crate) room: Option<Arc<LiveRecording>>,
    pub(crate) session: String,
    /// Reason why the requested recording cannot be shown.
    missing: Option<Failure>,
    /// Connection to the selected session of the hub, or the error of attaching.
    pub(crate) attached: Option<Result<Arc<Live>, Failure>>,
    at: Option<(usize, Conversation)>,
    /// True if the last frame showed the preview of a recording that was not read yet.
    was_preview: bool,
    window: Range<usize>,
    /// Number of questions before the first visible one.
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

    /// Selects another recording or session.
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

    /// Deselects everything, because the requested recording cannot be shown.
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

    /// Folds or unfolds a sub-agent.
    pub(crate) fn fold(&mut self, session: &str, open: bool) {
        self.rows.fold(session, open);
    }

    /// Folds or unfolds a run of tool calls.
    pub(crate) fn fold_run(&mut self, session: &str, position: usize, open: bool) {
        self.rows.fold_run(session, position, open);
    }

    /// Shows an earlier state of the session.
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

    /// Returns the connection to the selected session, or to an agent that waits for a login before the first
    /// session.
    pub(crate) fn live(&self, user: &UserState) -> Option<Arc<Live>> {
        match (&self.room, user.first_session()) {
            _ if self.missing.is_some() => None,
            (Some(_), _) => self.attached.clone()?.ok(),
            (None, FirstSession::Refused(live, _)) => Some(live),
            (None, _) => None,
        }
    }

    pub(crate) fn source(&self) -> Option<SessionSource<'_>> {
        let past = self.at.as_ref().map(|(_, conversation)| conversation);
        self.room.as_deref().map(|room| SessionSource { room, past })
    }

    /// Returns a snapshot of the selected session or of a sub-agent inside it.
    pub(crate) fn snapshot(&self, session: &str) -> Option<Snapshot> {
        let source = self.source()?;
        source.look(|conversation| subagents::session(conversation, session).map(Session::snapshot))
    }

    /// Returns `true` if the present state is shown.
    pub(crate) fn is_now(&self) -> bool {
        self.at.is_none()
    }

    /// Returns `true` if another frame is needed for the remaining changes.
    pub(crate) fn has_more_changes(&self) -> bool {
        self.wire.as_ref().is_some_and(WireView::has_more_changes)
    }

    /// Builds the next frame.
    pub(crate) fn frame(&mut self, user: &UserState) -> Frame {
        self.choose_session(user);
        let live = self.live(user);
        let is_preview = self.at.is_none() && self.room.as_ref().is_some_and(|room| room.preview().is_some());
        if self.was_preview && !is_preview {
            // From here on, positions are those of the complete session.
            self.window = 0..0;
            self.forget();
        }
        self.was_preview = is_preview;
        let source = self.source();
        let mut shown = source.and_then(|source| source.node(&self.session));
        if shown.is_none() && self.at.is_some() {
            shown = Some(SessionNode::empty(&self.session));
        }
        let rows = self.room.as_ref().map_or(0, |room| room.log().rows().len());
        let is_now = self.at.is_none();
        let subject = Subject {
            user,
            missing: self.missing.as_ref(),
            refusal: self.attached.as_ref().and_then(|attached| attached.as_ref().err()),
            source,
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
        let known = self.room.as_ref().and_then(|room| user.session(&room.id));
        let is_over = is_now && known.is_some_and(|known| known.state == SessionActivity::Dormant);
        let past = self.at.as_ref().map(|(_, conversation)| conversation);
        let source = self.room.as_deref().map(|room| SessionSource { room, past });
        let entries = match (&shown, source) {
            (Some(shown), Some(source)) => {
                let scene = Scene { app: &user.app, source, is_live, is_over, is_whole: !self.was_preview };
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

    /// Selects a default: the session that was opened first, and the latest root session of the recording.
    fn choose_session(&mut self, user: &UserState) {
        if self.room.is_none()
            && self.missing.is_none()
            && let FirstSession::Opened(id) = user.first_session()
        {
            self.room = user.room(&id).ok();
        }
        let Some(room) = &self.room else { return };
        if self.session.is_empty() {
            self.session = latest_root(room);
            return;
        }
        // A link may contain an id under which the session was continued.
        let source = SessionSource { room, past: None };
        let canonical = source.look(|conversation| conversation.canonical_id(&self.session).to_owned());
        if canonical != self.session {
            self.session = canonical;
            self.window = 0..0;
            self.forget();
        } else if self.at.is_none() && user.session(&room.id).is_some() && is_root(room, &self.session) {
            // The log may lack a note that the agent restarted the session under another id.
            let latest = latest_root(room);
            if latest != self.session && !latest.is_empty() {
                self.session = latest;
                self.window = 0..0;
                self.forget();
            }
        }
    }
}

/// Returns `true` if a session has no parent.
fn is_root(room: &LiveRecording, id: &str) -> bool {
    SessionSource { room, past: None }.look(|conversation| conversation.parent(id).is_none())
}

/// Returns the latest session without a parent.
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
    fn a_frame_has_the_changes_and_the_preview_is_replaced_by_the_whole_recording() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("s.sqlite3")).unwrap();
        let room = LiveRecording::folding("r", &store, 2);
        for message in 0..50 {
            room.push(&Record::new(Channel::ToClient, chunk(message)));
        }
        let mut end = Conversation::new(WireFormat::Any);
        end.read(&chunk(49), Some(Side::Agent), Moment(0)).unwrap();
        *room.preview() = Some(end);
        let user = app::user_for_tests(&store);
        let mut view = View::new();
        view.look(Some(Arc::clone(&room)), String::new());
        let frame = view.frame(&user);
        assert_eq!((frame.session.as_str(), frame.length, frame.fresh), ("s", 1, true));

        *room.preview() = None;
        let frame = view.frame(&user);
        assert_eq!((frame.length, frame.fresh, frame.entries.len()), (50, true, 0));
        view.set_window(40, 60);
        assert_eq!(view.frame(&user).entries.len(), 10);
        assert_eq!(view.frame(&user).entries.len(), 0, "nothing has changed");
        room.push(&Record::new(Channel::ToClient, chunk(45)));
        let changed: Vec<usize> = view.frame(&user).entries.iter().map(|entry| entry.position).collect();
        assert_eq!(changed, [45]);
    }
}
