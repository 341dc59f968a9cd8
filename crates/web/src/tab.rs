//! Connection of one browser tab: handles its requests and sends frames of its view.
//!
//! A frame is sent when something has changed and the tab has acknowledged the last one (backpressure). A slow tab
//! skips frames but never state, and does not delay anything else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use serde::Serialize;
use serde_json::{Value, json};
use switchboard_hub::SessionActivity;
use switchboard_store::Role;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};

use super::export::Export;
use super::live::{Failure, Live};
use super::live_recording::LiveRecording;
use super::request::{Format, Numbered, Request};
use super::review::Review;
use super::user_state::UserState;
use super::view::View;
use super::{actions, changes, charts, export, files, find, lists, render, roles, verdict, wire};

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(16);

/// Timeouts of a tab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Time after which a silent tab, or one that does not take a message, is disconnected.
    pub(crate) max_silence: Duration,
    /// Interval of pings, which the browser answers by itself.
    pub(crate) ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_silence: Duration::from_secs(30), ping: Duration::from_secs(10) }
    }
}

/// Maximum length of a search text in bytes.
const MAX_SEARCH: usize = 10_000;

/// Number of entries of the original that a copy shows.
const MOST_HISTORY: usize = 40;

/// Maximum number of concurrent requests of one tab.
const MAX_CONCURRENT: usize = 32;

/// Serves a tab until it disconnects, and then releases its permit.
pub(crate) async fn serve(
    socket: WebSocket,
    user: Arc<UserState>,
    permit: OwnedSemaphorePermit,
    limits: Limits,
) {
    let (answers, answered) = mpsc::channel(MAX_CONCURRENT);
    let (attaches, attached) = mpsc::channel(MAX_CONCURRENT);
    let user_changes = user.changes();
    let mut ping = interval(limits.ping);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let number = user.app.last_tab.fetch_add(1, Ordering::Relaxed);
    let tab = Tab {
        socket,
        number,
        is_looking: false,
        user_changes,
        attaches,
        attached,
        attaching: None,
        room_changes: None,
        view: View::new(),
        answers,
        answered,
        next_frame: Instant::now(),
        is_shown: true,
        is_dirty: true,
        last_message: Instant::now(),
        ping,
        max_silence: limits.max_silence,
        user,
    };
    tab.run().await;
    drop(permit);
}

struct Tab {
    user: Arc<UserState>,
    /// Number of the tab, unique in this launch.
    number: u64,
    /// True if the tab said that it is visible and focused.
    is_looking: bool,
    socket: WebSocket,
    view: View,
    user_changes: watch::Receiver<u64>,
    /// Results of attaching to sessions of the hub.
    attaches: mpsc::Sender<Attached>,
    attached: mpsc::Receiver<Attached>,
    /// Session that is being attached to.
    attaching: Option<String>,
    room_changes: Option<(String, watch::Receiver<u64>)>,
    /// Results of requests that run in the background.
    answers: mpsc::Sender<Answer>,
    answered: mpsc::Receiver<Answer>,
    next_frame: Instant,
    /// Time of the last message.
    last_message: Instant,
    ping: Interval,
    max_silence: Duration,
    /// True if the last frame has been acknowledged.
    is_shown: bool,
    is_dirty: bool,
}

/// Result of a background request.
struct Answer {
    number: u64,
    outcome: Result<Value, Failure>,
}

/// Id of a session, and the result of attaching to it.
type Attached = (String, Result<Arc<Live>, Failure>);

impl Drop for Tab {
    fn drop(&mut self) {
        self.is_looking = false;
        self.report_looking();
    }
}

/// The tab has disconnected.
struct Gone;

impl Tab {
    async fn run(mut self) {
        loop {
            self.watch_recording();
            self.attach_if_running();
            let room_changed = async {
                if let Some((_, changes)) = &mut self.room_changes
                    && changes.changed().await.is_ok()
                {
                    return;
                }
                std::future::pending::<()>().await;
            };
            let went = tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => {
                        self.last_message = Instant::now();
                        self.take(message).await
                    }
                    Some(Err(_)) | None => return,
                },
                Some(answer) = self.answered.recv() => self.send_answer(answer.number, answer.outcome).await,
                _ = self.ping.tick() => self.ping().await,
                () = room_changed => {
                    self.is_dirty = true;
                    Ok(())
                }
                _ = self.user_changes.changed() => {
                    self.is_dirty = true;
                    self.leave_hidden_session();
                    if self.user.is_revoked() { Err(Gone) } else { Ok(()) }
                }
                Some((id, outcome)) = self.attached.recv() => {
                    self.take_attached(&id, outcome);
                    Ok(())
                }
                () = sleep_until(self.next_frame), if self.is_dirty && self.is_shown => self.send_frame().await,
            };
            if went.is_err() {
                return;
            }
        }
    }

    /// Reports the session that the user looks at. Without it, or without focus, the user does not count as looking.
    fn report_looking(&self) {
        if let Some(notifications) = &self.user.app.notifications {
            let room = self.view.room.as_ref().filter(|_| self.is_looking);
            notifications.look(self.number, room.map(|room| room.id.as_str()));
        }
    }

    /// Deselects a session that the user may no longer see.
    fn leave_hidden_session(&mut self) {
        let is_hidden = |room: &Arc<LiveRecording>| !self.user.may_see(&room.id);
        if self.view.room.as_ref().is_some_and(is_hidden) {
            self.view.look(None, String::new());
            self.report_looking();
        }
    }

    /// Attaches to the selected session if its agent is running, so that attaching does not start one.
    fn attach_if_running(&mut self) {
        if self.view.attached.is_some() {
            return;
        }
        if let Some(live) = self.view.room.as_ref().and_then(|room| self.user.live(&room.id)) {
            self.view.attached = Some(Ok(live));
            self.is_dirty = true;
            return;
        }
        let known = self.view.room.as_ref().and_then(|room| self.user.session(&room.id));
        if known.is_some_and(|session| session.state != SessionActivity::Dormant) {
            self.attach();
        }
    }

    /// Attaches to the selected session of the hub.
    fn attach(&mut self) {
        let Some(id) = self.view.room.as_ref().map(|room| room.id.clone()) else { return };
        if self.attaching.as_ref() == Some(&id) {
            return;
        }
        self.attaching = Some(id.clone());
        let (user, attaches) = (Arc::clone(&self.user), self.attaches.clone());
        tokio::spawn(async move {
            let outcome = user.attach(&id).await;
            // The tab may have disconnected.
            let _ = attaches.send((id, outcome)).await;
        });
    }

    fn take_attached(&mut self, id: &str, outcome: Result<Arc<Live>, Failure>) {
        if self.attaching.as_deref() == Some(id) {
            self.attaching = None;
        }
        if self.view.room.as_ref().is_some_and(|room| room.id == id) {
            self.view.attached = Some(outcome);
            self.is_dirty = true;
        }
    }

    /// Sends a ping. Fails if the tab was silent for too long.
    async fn ping(&mut self) -> Result<(), Gone> {
        if self.last_message.elapsed() >= self.max_silence {
            return Err(Gone);
        }
        self.send_message(Message::Ping(Bytes::new())).await
    }

    /// Subscribes to changes of the selected recording.
    fn watch_recording(&mut self) {
        let now = self.view.room.as_ref().map(|room| &room.id);
        if now != self.room_changes.as_ref().map(|(id, _)| id) {
            self.room_changes = self.view.room.as_ref().map(|room| (room.id.clone(), room.changes()));
        }
    }

    async fn send(&mut self, message: &impl Serialize) -> Result<(), Gone> {
        let text = serde_json::to_string(message).map_err(|_| Gone)?;
        self.send_message(Message::Text(Utf8Bytes::from(text))).await
    }

    async fn send_message(&mut self, message: Message) -> Result<(), Gone> {
        match timeout(self.max_silence, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn send_frame(&mut self) -> Result<(), Gone> {
        self.is_dirty = false;
        // Building the frame may read from disk, and takes time for long messages.
        let frame = block_in_place(|| self.view.frame(&self.user));
        self.is_dirty |= self.view.has_more_changes();
        self.is_shown = false;
        self.next_frame = Instant::now() + FRAME;
        self.send(&frame).await
    }

    async fn send_answer(&mut self, number: u64, outcome: Result<Value, Failure>) -> Result<(), Gone> {
        self.is_dirty = true;
        match outcome {
            Ok(value) => self.send(&json!({"type": "answer", "number": number, "value": value})).await,
            Err(reason) => self.send(&json!({"type": "failure", "number": number, "reason": reason})).await,
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), Gone> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return Err(Gone),
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => return Ok(()),
        };
        let Numbered { number, request } = match serde_json::from_str(&text) {
            Ok(request) => request,
            Err(error) => {
                let reason = format!("the page said something that is not understood: {error}");
                return self.send_answer(0, Err(reason)).await;
            }
        };
        let needs = roles::needed(&request);
        if !self.user.may(needs) {
            return self.send_answer(number, Err(roles::refusal(self.user.role(), needs))).await;
        }
        let outcome = match request {
            Request::Shown => {
                self.is_shown = true;
                return Ok(());
            }
            Request::Look { recording, session } => {
                let outcome = self.look(recording, session);
                self.report_looking();
                outcome
            }
            Request::Looking { looking } => {
                self.is_looking = looking;
                self.report_looking();
                return Ok(());
            }
            Request::Notifications => {
                let lines = self.user.app.notifications.as_ref().map(|known| known.outcomes());
                Ok(json!(lists::notifications(&lines.unwrap_or_default()).into_string()))
            }
            Request::Window { from, to } => {
                self.view.set_window(from, to);
                Ok(Value::Null)
            }
            Request::Wire { filter, .. } if filter.text.len() > MAX_SEARCH => {
                Err("the text to search for is too long".to_owned())
            }
            Request::Wire { window, follows, filter } => {
                self.view.set_wire(window, follows, filter);
                Ok(Value::Null)
            }
            Request::Fold { session, open } => {
                self.view.fold(&session, open);
                Ok(Value::Null)
            }
            Request::FoldRun { session, position, open } => {
                self.view.fold_run(&session, position, open);
                Ok(Value::Null)
            }
            Request::Questions { skip } => {
                self.view.skip_questions(skip);
                Ok(Value::Null)
            }
            Request::At { rows } => self.at(rows),
            Request::Earlier { session, position, before } => self.earlier(&session, position, before),
            Request::Message { row } => self.message(row),
            Request::Find { row } => Ok(json!(self.view.wire.as_ref().and_then(|wire| wire.place(row)))),
            Request::QuestionMessage { id } => {
                let row = self.view.room.as_ref().and_then(|room| room.log().row_of_permission(&id));
                row.map(|row| json!(row))
                    .ok_or_else(|| "the message of this question is not known".to_owned())
            }
            Request::MessagesOf { session, position } => Ok(json!(self.messages_of(&session, position))),
            Request::Family => match self.view.source() {
                Some(source) => Ok(json!(lists::subagents(source, &self.view.session).into_string())),
                None => Err("there is no session".to_owned()),
            },
            Request::Verdict => self.verdict(),
            Request::Choices => Ok(json!(lists::choices(&self.user).into_string())),
            Request::Attach => {
                self.attach();
                Ok(Value::Null)
            }
            Request::Withdraw { place, since } => {
                let chosen = self.user.choices().into_iter().nth(place);
                let chosen = chosen.filter(|(_, choice)| choice.since.0 == since);
                match chosen.is_some_and(|(live, choice)| live.remembered.withdraw(&choice)) {
                    true => Ok(json!(lists::choices(&self.user).into_string())),
                    false => Err("this choice has been removed already".to_owned()),
                }
            }
            Request::Link => match self.user.app.guard.link("/", self.user.who()) {
                Ok(link) => {
                    let picture = lists::pairing(&link).into_string();
                    Ok(json!({"link": link, "picture": picture}))
                }
                Err(error) => Err(format!("no link can be made: {error}")),
            },
            Request::ShortCode => match self.user.app.guard.short_code(self.user.who()) {
                Ok(code) => Ok(json!(code)),
                Err(error) => Err(format!("no code can be made: {error}")),
            },
            Request::FindOutput { query, .. } if query.is_empty() || query.len() > MAX_SEARCH => {
                Err("the text to search for is empty or too long".to_owned())
            }
            Request::FindIn { query } if query.is_empty() || query.len() > MAX_SEARCH => {
                Err("the text to search for is empty or too long".to_owned())
            }
            Request::FindIn { query } => {
                let snapshot = self.view.snapshot(&self.view.session);
                let found = snapshot.map(|snapshot| block_in_place(|| find::in_session(&snapshot, &query)));
                found.map(|found| json!(found)).ok_or_else(|| "there is no session".to_owned())
            }
            Request::FindOutput { session, terminal, query } => self.find_output(&session, &terminal, &query),
            Request::File { session, path, line } => self.file(&session, &path, line),
            Request::Copy { session, position } => self.copy(&session, position),
            Request::EntryOf { row } => self.entry_of(row),
            Request::Changes => self.review(|_| Ok(())),
            Request::UndoChange { path, hunk, revision } => {
                self.review(|review| review.undo(&path, hunk, &revision))
            }
            Request::RestoreChange { change } => self.review(|review| review.restore(change)),
            Request::KeepChange { path, hunk, revision, kept } => {
                self.review(|review| review.keep(&path, hunk, &revision, kept))
            }
            Request::Patch => self.with_review(|review| review.patch().map(|patch| json!(patch))),
            Request::OpenEditor { session, path, line } => self.open_editor(&session, &path, line),
            Request::Pictures => match self.view.source() {
                Some(source) => {
                    let pictures = block_in_place(|| charts::all(source, &self.view.session));
                    Ok(json!(pictures.into_string()))
                }
                None => Err("there is no session".to_owned()),
            },
            Request::History => self.history(),
            Request::Export { format, redact } => self.export(format, redact),
            request => return self.begin(number, request).await,
        };
        self.is_dirty = true;
        if number == 0 && outcome.is_ok() {
            return Ok(());
        }
        self.send_answer(number, outcome).await
    }

    /// Runs a request in the background.
    async fn begin(&mut self, number: u64, request: Request) -> Result<(), Gone> {
        let Ok(permit) = self.answers.clone().try_reserve_owned() else {
            return self
                .send_answer(number, Err("too many requests are running; try again later".to_owned()))
                .await;
        };
        let (user, live) = (Arc::clone(&self.user), self.view.live(&self.user));
        tokio::spawn(async move {
            let outcome = actions::act(&user, live, request).await;
            permit.send(Answer { number, outcome });
        });
        Ok(())
    }

    fn look(&mut self, recording: Option<String>, session: Option<String>) -> Result<Value, Failure> {
        let is_chosen = recording.is_some();
        let room = match recording.or_else(|| self.user.default_session()) {
            Some(id) => block_in_place(|| self.user.room(&id)).map(Some),
            None => Ok(None),
        };
        match room {
            Ok(room) => self.view.look(room, session.unwrap_or_default()),
            // No other session is shown instead, because messages would go to the wrong session.
            Err(reason) if is_chosen => self.view.miss(reason),
            Err(reason) => return Err(reason),
        }
        Ok(Value::Null)
    }

    fn at(&mut self, rows: Option<usize>) -> Result<Value, Failure> {
        let (Some(rows), Some(room)) = (rows, self.view.room.clone()) else {
            self.view.set_at(None);
            return Ok(Value::Null);
        };
        let rows = rows.min(room.log().rows().len());
        let conversation = block_in_place(|| room.sessions_at(rows));
        self.view.set_at(Some((rows, conversation)));
        Ok(Value::Null)
    }

    fn earlier(&self, session: &str, position: usize, before: usize) -> Result<Value, Failure> {
        let snapshot = self.view.snapshot(session).ok_or("there is no session")?;
        let entry = snapshot.entry(position).ok_or("this entry is gone")?;
        let parts = render::earlier(&snapshot, entry, before, &self.user.app.cache);
        Ok(json!(parts.iter().map(|part| &*part.html).collect::<Vec<_>>()))
    }

    fn message(&self, row: usize) -> Result<Value, Failure> {
        let room = self.view.room.as_ref().ok_or("there is no recording")?;
        let message = block_in_place(|| wire::message(room, row));
        message.map(|markup| json!(markup.into_string())).ok_or("this message cannot be read".to_owned())
    }

    fn copy(&self, session: &str, position: usize) -> Result<Value, Failure> {
        let snapshot = self.view.snapshot(session).ok_or("there is no session")?;
        let entry = snapshot.entry(position).ok_or("this entry is gone")?;
        Ok(json!(export::copied(&snapshot, entry)))
    }

    /// Returns the entry that a message created, once the recording is read that far.
    fn entry_of(&self, row: usize) -> Result<Value, Failure> {
        let room = self.view.room.as_ref().ok_or("there is no recording")?;
        let found = wire::entry_of(room, row);
        Ok(found.map_or(Value::Null, |(session, position)| json!({"session": session, "position": position})))
    }

    fn find_output(&self, session: &str, terminal: &str, query: &str) -> Result<Value, Failure> {
        let snapshot = self.view.snapshot(session).ok_or("there is no session")?;
        let terminal = snapshot.terminal(terminal).ok_or("this terminal is gone")?;
        Ok(json!(block_in_place(|| find::in_output(terminal, query)).into_string()))
    }

    /// Renders the changes of a file, and the file itself if the user may read it.
    fn file(&self, session: &str, path: &str, line: Option<u32>) -> Result<Value, Failure> {
        let snapshot = self.view.snapshot(session).ok_or("there is no session")?;
        let folder = self.folder();
        let path = match &folder {
            // Messages may name files relative to the folder.
            Some(folder) => folder.join(path).display().to_string(),
            None => path.to_owned(),
        };
        let cache = &self.user.app.cache;
        let base = self.view.room.as_ref().map_or("", |room| room.folder());
        let source = self.view.source().ok_or("there is no session")?;
        let changes = block_in_place(|| {
            let files = changes::collect(source, session);
            let steps = files.get(&path)?;
            Some(changes::of_file(&path, steps, folder.as_deref(), base, cache))
        });
        let live = self.view.live(&self.user).filter(|_| self.user.may_read_files());
        let file = match live {
            Some(live) => block_in_place(|| files::show(&live, &snapshot, &path, changes.is_some(), line)),
            None => Err("no agent is running".to_owned()),
        };
        match (changes, file) {
            (None, file) => file.map(|file| json!(file.into_string())),
            (Some(changes), Ok(file)) => Ok(json!(changes.into_string() + &file.into_string())),
            (Some(changes), Err(_)) => {
                let heading = maud::html! { h2 id="dialog-title" { (render::visible_line(render::relative(&path, base))) } };
                Ok(json!(heading.into_string() + &changes.into_string()))
            }
        }
    }

    /// Returns the session's folder if the user may read its files, and only for the present state.
    fn folder(&self) -> Option<std::path::PathBuf> {
        let project = self.view.room.as_ref()?.about.project.as_ref();
        project.filter(|_| self.user.may_read_files() && self.view.is_now()).map(std::path::PathBuf::from)
    }

    /// Calls a function with the review of the selected session.
    fn with_review<T>(&self, act: impl FnOnce(&Review<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let source = self.view.source().ok_or("there is no session")?;
        let is_root = source.look(|conversation| conversation.parent(&self.view.session).is_none());
        let folder = self.folder();
        // Only the hub vouches for the folder of a session. That of another recording may be anything.
        let is_of_hub = self.user.session(&source.room.id).is_some();
        let refusal = match () {
            () if !self.user.may_read_files() => {
                Some("The role of your token does not allow undoing changes.")
            }
            () if !self.view.is_now() => {
                Some("Changes can be undone in the present state of the session only.")
            }
            () if source.room.preview().is_some() => {
                Some("Changes can be undone once the whole session is read.")
            }
            () if !is_of_hub => Some("Changes of a recording cannot be undone."),
            () if !is_root => Some("Changes of a sub-agent can be undone in the session that started it."),
            () => None,
        };
        let app = &*self.user.app;
        let has_editor = app.editor.is_some() && folder.is_some() && self.user.may(Role::Admin);
        let review = Review {
            app,
            source,
            session: &self.view.session,
            folder: folder.as_deref(),
            refusal,
            has_editor,
        };
        block_in_place(|| act(&review))
    }

    /// Acts on the changes of the session, and returns them as they are then.
    fn review(&self, act: impl FnOnce(&Review<'_>) -> Result<(), Failure>) -> Result<Value, Failure> {
        self.with_review(|review| act(review).map(|()| json!(review.render().into_string())))
    }

    /// Opens a file in the editor, under the same conditions under which it is shown.
    fn open_editor(&self, session: &str, path: &str, line: Option<u32>) -> Result<Value, Failure> {
        let editor = self.user.app.editor.as_ref().ok_or("no editor is configured")?;
        let snapshot = self.view.snapshot(session).ok_or("there is no session")?;
        let source = self.view.source().ok_or("there is no session")?;
        let folder = self.folder().filter(|_| self.user.session(&source.room.id).is_some());
        let folder = folder.ok_or("the files of this session cannot be read from here")?;
        let path = folder.join(path);
        block_in_place(|| {
            let name = path.display().to_string();
            if !files::names(&snapshot, &name)
                && !changes::collect(source, &self.view.session).contains_key(&name)
            {
                return Err("the session does not name this file".to_owned());
            }
            let (_, real) = files::inside(&path, &folder)?;
            editor.open(&real, line.unwrap_or(1).max(1)).map(|()| Value::Null)
        })
    }

    /// Renders the end of the session that the selected one is a copy of, as it was then.
    fn history(&self) -> Result<Value, Failure> {
        let room = self.view.room.as_ref().ok_or("there is no recording")?;
        let origin = room.origin().ok_or("this session is not a copy")?;
        let original = self.user.session(&origin.session).ok_or("you may not see the original")?;
        let app = &self.user.app;
        block_in_place(|| {
            let past = LiveRecording::until(&original.id, &app.store, origin.at);
            let past = past.map_err(|error| error.to_string())?;
            let session = past.session_ids().into_iter().rev();
            let session = session.into_iter().find(|id| past.look(|it| it.parent(id).is_none()));
            let Some(session) = session else { return Ok(Value::Null) };
            let export = Export { app, room: &past, session: &session, title: None, is_redacted: false };
            let (count, entries) = export.end(MOST_HISTORY)?;
            let earlier = count.saturating_sub(MOST_HISTORY);
            let history = maud::html! {
                h2 class="sr" { "History of the original" }
                @if earlier > 0 {
                    p class="meta" { (earlier) @if earlier == 1 { " earlier entry is" } @else { " earlier entries are" } " in the original." }
                }
                (entries)
                p class="copy-line" {
                    span {
                        "The copy of "
                        a href=(format!("/r/{}", original.id)) data-action="look" data-recording=(original.id) {
                            (render::visible_line(lists::name(&original)))
                        }
                        " begins here."
                    }
                }
            };
            Ok(json!(history.into_string()))
        })
    }

    fn export(&self, format: Format, redact: bool) -> Result<Value, Failure> {
        let room = self.view.room.as_ref().ok_or("there is no recording")?;
        let title = self.user.session(&room.id).and_then(|known| known.title).or(room.about.title.clone());
        let export = Export {
            app: &self.user.app,
            room,
            session: &self.view.session,
            title: title.as_deref(),
            is_redacted: redact,
        };
        let made = block_in_place(|| match format {
            Format::Html => export.html(),
            Format::Markdown => export.markdown(),
            Format::Print => export.printed(),
        });
        made.map(|made| json!(made))
    }

    fn verdict(&self) -> Result<Value, Failure> {
        let room = self.view.room.as_ref().ok_or("there is no recording")?;
        block_in_place(|| verdict::verdict(room)).map(|markup| json!(markup.into_string()))
    }

    fn messages_of(&self, session: &str, position: usize) -> Vec<u32> {
        let snapshot = self.view.snapshot(session);
        let (Some(room), Some(snapshot)) = (&self.view.room, snapshot) else { return Vec::new() };
        let Some(entry) = snapshot.entry(position) else { return Vec::new() };
        room.log().rows_of(session, entry.kind(), entry.id())
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::ws::WebSocketUpgrade;
    use axum::routing::get;
    use switchboard_store::Store;
    use switchboard_transport::server;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::app;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    /// Returns the socket of a tab with the given timeouts.
    async fn tab(limits: Limits) -> (TcpStream, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
        let user = app::user_for_tests(&store);
        let serve = move |upgrade: WebSocketUpgrade| {
            let user = Arc::clone(&user);
            async move {
                let permit = Arc::clone(&user.tab_permits).try_acquire_owned().unwrap();
                upgrade.on_upgrade(move |socket| serve(socket, user, permit, limits))
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let router = Router::new().route("/", get(serve));
        tokio::spawn(async move { server::serve(&listener, &router, None, Default::default()).await });
        stream.write_all(REQUEST).await.unwrap();
        (stream, folder)
    }

    const PING: &[u8] = &[0x89, 0];

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tab_that_gives_no_sign_of_life_is_gone() {
        let limits = Limits { max_silence: Duration::from_millis(50), ping: Duration::from_millis(10) };
        let (mut stream, _folder) = tab(limits).await;
        let mut last_message = Vec::new();
        stream.read_to_end(&mut last_message).await.unwrap();
        assert!(last_message.windows(2).any(|bytes| bytes == PING), "it was asked for one");
    }
}
