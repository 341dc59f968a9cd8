//! Text for people: with colors, Markdown and a spinner on a terminal, plain elsewhere.
//!
//! Output of sub-agents is indented below the line that announces them. If several speak alternately, a line
//! names the speaker; their text is shown in whole lines, so that it stays readable.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use switchboard_acp::display::{visible, visible_line};
use switchboard_acp::v2;
use switchboard_peer::{PermissionQuestion, Update};
use switchboard_session::{
    Activity, Change, Changes, Content, ContentChange, Conversation, Entry, EntryChange, EntryField,
    EntryKind, FieldChanges, Plan, Session, SessionMessage, ToolCall,
};

use super::entry_text::{self, Amount};
use super::form::Form;
use super::pane::{self, Pane, Running, ShownMessage, moved_in};
use super::view::{View, asked_by};
use crate::standard_error;
use crate::terminal::markdown;
use crate::terminal::style::{Role, Style};

/// Maximum width of the text next to the spinner.
const TAIL_WIDTH: usize = 60;

/// Maximum number of tracked messages between sessions, to avoid showing them twice.
const MOST_MESSAGES: usize = 10_000;

pub(super) struct Screen {
    style: Style,
    /// Set if a person watches: text is rendered, otherwise passed on as it arrives.
    live: bool,
    output: Box<dyn Write>,
    /// Output of notes without a terminal.
    tell: fn(&str),
    spinner: ProgressBar,
    /// The session of `run`, once it is open.
    root: Option<Arc<str>>,
    panes: HashMap<Arc<str>, Pane>,
    /// The session that was printed last.
    speaker: Option<Arc<str>>,
    /// The target of an incomplete last line.
    open_line: Option<OpenLine>,
    /// Shown messages between sessions: the session, and the id there.
    sent: HashSet<(Arc<str>, Arc<str>)>,
}

/// An incomplete line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenLine {
    /// Of an entry of the root session.
    Entry(usize),
    /// Before typed input.
    Prompt,
}

/// A session with its conversation.
#[derive(Clone, Copy)]
struct ShownSession<'c> {
    all: &'c Conversation,
    id: &'c Arc<str>,
    session: &'c Session,
}

impl<'c> ShownSession<'c> {
    fn of(all: &'c Conversation, id: &'c Arc<str>) -> Option<Self> {
        Some(ShownSession { all, id, session: all.session(Some(id))? })
    }
}

impl Screen {
    pub(super) fn new() -> Self {
        let live = io::stdout().is_terminal();
        let spinner = if live && io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            spinner.set_style(style);
        }
        let mut screen = Screen::on(Box::new(io::stdout()), live, standard_error::tell);
        (screen.style, screen.spinner) = (Style::of_output(), spinner);
        screen.spin("starting");
        screen
    }

    /// Creates a screen without colors and movement. `live`: a person watches; otherwise notes are passed to
    /// `tell`.
    pub(super) fn on(output: Box<dyn Write>, live: bool, tell: fn(&str)) -> Self {
        Screen {
            style: Style::PLAIN,
            live,
            output,
            tell,
            spinner: ProgressBar::hidden(),
            root: None,
            panes: HashMap::new(),
            speaker: None,
            open_line: None,
            sent: HashSet::new(),
        }
    }

    fn spin(&mut self, words: &str) {
        self.spinner.set_message(words.to_owned());
        self.spinner.enable_steady_tick(Duration::from_millis(100));
    }

    fn width(indent: usize) -> usize {
        usize::from(termimad::terminal_size().0).saturating_sub(indent).max(20)
    }

    fn pane(&mut self, id: &Arc<str>) -> &mut Pane {
        self.panes.entry(Arc::clone(id)).or_default()
    }

    /// Returns the shown sessions in a stable order.
    fn shown(&self) -> Vec<Arc<str>> {
        let mut ids: Vec<Arc<str>> = self.panes.keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    fn is_root(&self, id: &Arc<str>) -> bool {
        self.root.as_ref() == Some(id)
    }

    // ----- lines

    /// Prints whole lines.
    fn print(&mut self, text: &str) -> io::Result<()> {
        let open = self.open_line.take().is_some();
        let output = &mut self.output;
        self.spinner.suspend(|| {
            if open {
                output.write_all(b"\n")?;
            }
            output.write_all(text.as_bytes())?;
            output.flush()
        })
    }

    /// Prints whole lines of a session with its layout, and names the speaker after a change.
    fn print_of(&mut self, seen: ShownSession<'_>, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let place = pane::place(seen.all, self.root.as_deref(), seen.id);
        let mut lines = String::new();
        if self.speaker.as_ref() != Some(seen.id) {
            self.introduce(seen)?;
            if let Some(who) = &place.who {
                let who = self.style.paint(Role::Place, format!("⤷ {who}"));
                let _ = writeln!(lines, "{:width$}{who}", "", width = place.heading);
            }
            self.speaker = Some(Arc::clone(seen.id));
        }
        lines.push_str(&moved_in(text, place.indent));
        self.print(&lines)
    }

    /// Shows the tool call of a sub-agent before the sub-agent's first output.
    fn introduce(&mut self, seen: ShownSession<'_>) -> io::Result<()> {
        let Some(parent) = seen.all.parent(seen.id) else { return Ok(()) };
        let Some(above) = ShownSession::of(seen.all, &parent.session) else { return Ok(()) };
        let Some(id) = &parent.tool_call else { return Ok(()) };
        let Some(position) = above.session.position(EntryKind::ToolCall, id) else { return Ok(()) };
        let Some(call) = above.session.tool_call(id) else { return Ok(()) };
        let running = self.pane(above.id).calls.entry(position).or_insert_with(Running::now);
        if running.begun || running.told.is_some() {
            return Ok(());
        }
        running.begun = true;
        let headline = entry_text::headline(call, None, self.style);
        self.finish_messages(above)?;
        self.print_of(above, &headline)
    }

    // ----- entries

    fn entry(&mut self, seen: ShownSession<'_>, change: EntryChange) -> io::Result<()> {
        let Some(entry) = seen.session.entry(change.position) else { return Ok(()) };
        match entry {
            Entry::Message(_) if change.kind == EntryKind::UserMessage => Ok(()),
            Entry::Message(message) => self.message(seen, message.content(), change),
            Entry::ToolCall(call) => self.tool_call(seen, call, change),
            Entry::Subagent(_) => {
                if change.created {
                    self.finish_messages(seen)?;
                }
                let told = change.created || change.fields.get(EntryField::State).is_some();
                let child: Arc<str> = entry.id().into();
                // Another session may have announced it first: then it belongs to that one.
                let is_child = seen.all.parent(&child).is_some_and(|parent| parent.session == *seen.id);
                match told && is_child {
                    true => self.subagent(seen.all, &child).and_then(|()| self.ended_with(seen.all, &child)),
                    false => Ok(()),
                }
            }
            Entry::SessionMessage(message) => self.session_message(seen, message, change),
            Entry::Terminal(_) | Entry::Compaction(_) => Ok(()),
        }
    }

    /// Shows the start and end of a sub-agent. In between, its output shows the progress.
    fn subagent(&mut self, all: &Conversation, child: &Arc<str>) -> io::Result<()> {
        let words = all.state_in_words(child);
        let is_over = matches!(all.state(child), Some(v2::StateUpdate::Idle(_)));
        let known = self.pane(child).state;
        if known == Some(words) || (known.is_some() && !is_over) {
            return Ok(());
        }
        // The session may not exist yet if it was only announced.
        let none = Session::new(switchboard_acp::WireFormat::Any);
        let session = all.session(Some(child)).unwrap_or(&none);
        let seen = ShownSession { all, id: child, session };
        self.finish_messages(seen)?;
        self.introduce(seen)?;
        self.pane(child).state = Some(words);
        let place = pane::place(all, self.root.as_deref(), child);
        let who = place.who.unwrap_or_default();
        let words = all.state(child).map(|_| format!(": {words}")).unwrap_or_default();
        let line = self.style.paint(Role::Place, format!("⤷ {who}{words}"));
        self.speaker = Some(Arc::clone(child));
        self.print(&format!("{:width$}{line}\n", "", width = place.heading))
    }

    /// Shows the ends of sub-agents that ended with their parent session.
    fn ended_with(&mut self, all: &Conversation, session: &str) -> io::Result<()> {
        if !matches!(all.state(session), Some(v2::StateUpdate::Idle(_))) {
            return Ok(());
        }
        for child in all.subagents().descendants(session) {
            let is_told = self.panes.get(&child).is_some_and(|pane| pane.state.is_some());
            if is_told && all.subagents().outcome(&child).is_some() {
                self.subagent(all, &child)?;
            }
        }
        Ok(())
    }

    /// Shows a message between sessions once: in the first transcript that has it, or with the sub-agent if
    /// one started the other.
    fn session_message(
        &mut self,
        seen: ShownSession<'_>,
        message: &SessionMessage,
        change: EntryChange,
    ) -> io::Result<()> {
        let own = (Arc::clone(seen.id), Arc::from(message.id()));
        if self.sent.contains(&own) {
            return Ok(());
        }
        let is_sent = message.sender() == Some(&**seen.id);
        let (other, there) = if is_sent {
            (message.recipient(), message.recipient_message())
        } else {
            (message.sender(), message.sender_message())
        };
        if let Some((session, id)) = other.zip(there).filter(|_| self.sent.len() < MOST_MESSAGES) {
            self.sent.insert((session.into(), id.into()));
        }
        if !change.created {
            return self.message(seen, message.content(), change);
        }
        let child =
            other.filter(|other| seen.all.parent(other).is_some_and(|parent| parent.session == *seen.id));
        let child: Option<Arc<str>> = child.map(Into::into);
        let here = child.as_ref().and_then(|child| ShownSession::of(seen.all, child)).unwrap_or(seen);
        // A message to the parent needs no name.
        let is_upwards = seen
            .all
            .parent(here.id)
            .is_some_and(|parent| here.id != seen.id || other.is_some_and(|other| *parent.session == *other));
        let name = match other {
            _ if is_upwards => String::new(),
            Some(id) if self.root.as_deref() == Some(id) => "the agent: ".to_owned(),
            Some(id) => format!("{}: ", seen.all.name(id).unwrap_or_else(|| format!("session {id}"))),
            None => "unknown session: ".to_owned(),
        };
        let arrow = if is_sent == (here.id == seen.id) { "→" } else { "←" };
        self.finish_messages(seen)?;
        self.finish_messages(here)?;
        let mut text = format!("{arrow} {}", visible_line(&name));
        for item in message.content().items() {
            match item.text() {
                Some(piece) => text.push_str(&visible(piece)),
                None => text.push_str(&entry_text::block(&item.block())),
            }
        }
        self.print_of(here, &text)
    }

    fn message(
        &mut self,
        seen: ShownSession<'_>,
        content: &Content<v2::ContentBlock<'static>>,
        change: EntryChange,
    ) -> io::Result<()> {
        let thought = change.kind == EntryKind::AgentThought;
        if thought && !self.live {
            return Ok(());
        }
        if change.created {
            self.finish_messages(seen)?;
        }
        let written = self.pane(seen.id).messages.entry(change.position).or_default();
        written.thought = thought;
        let start = match change.content {
            ContentChange::Kept => return Ok(()),
            ContentChange::Appended(count) => content.len().saturating_sub(count),
            ContentChange::Replaced(_) => {
                let had_something = written.has_something();
                *written = ShownMessage { thought, ..ShownMessage::default() };
                if had_something {
                    let what = if content.is_empty() { "took back" } else { "replaced" };
                    let who = match pane::place(seen.all, self.root.as_deref(), seen.id).who {
                        Some(who) => who,
                        None => "the agent".to_owned(),
                    };
                    self.note(&format!("{who} {what} the message above"))?;
                }
                0
            }
        };
        let mut piece = String::new();
        for item in content.items_from(start) {
            match item.text() {
                Some(text) => piece.push_str(text),
                None => piece.push_str(&entry_text::block(&item.block())),
            }
        }
        if piece.is_empty() {
            return Ok(());
        }
        if !self.live {
            return match self.is_root(seen.id) {
                true => self.pass_on(seen, change.position, &piece),
                false => self.pass_on_lines(seen, change.position, &piece),
            };
        }
        let written = self.pane(seen.id).messages.entry(change.position).or_default();
        let complete = written.stream.push(&piece);
        written.shown |= complete.is_some();
        let tail: String = written.stream.tail().chars().rev().take(TAIL_WIDTH).collect();
        let tail: String = tail.chars().rev().collect();
        if let Some(complete) = complete {
            self.show_markdown(seen, &complete, thought)?;
        }
        self.spinner.set_message(if tail.trim().is_empty() { "working".into() } else { visible_line(&tail) });
        Ok(())
    }

    /// Writes text as it arrives, each message on its own lines.
    fn pass_on(&mut self, seen: ShownSession<'_>, position: usize, piece: &str) -> io::Result<()> {
        if self.open_line.is_some_and(|open| open != OpenLine::Entry(position)) {
            self.output.write_all(b"\n")?;
        }
        let shown = visible(piece);
        self.output.write_all(shown.as_bytes())?;
        self.open_line = (!shown.ends_with('\n')).then_some(OpenLine::Entry(position));
        self.speaker = Some(Arc::clone(seen.id));
        self.pane(seen.id).messages.entry(position).or_default().shown = true;
        self.output.flush()
    }

    /// Writes text of one of several speakers: the last line waits until it is complete.
    fn pass_on_lines(&mut self, seen: ShownSession<'_>, position: usize, piece: &str) -> io::Result<()> {
        let written = self.pane(seen.id).messages.entry(position).or_default();
        written.line.push_str(&visible(piece));
        let Some(end) = written.line.rfind('\n') else { return Ok(()) };
        let rest = written.line.split_off(end + 1);
        let lines = std::mem::replace(&mut written.line, rest);
        written.shown = true;
        self.print_of(seen, &lines)
    }

    fn show_markdown(&mut self, seen: ShownSession<'_>, text: &str, thought: bool) -> io::Result<()> {
        let indent = pane::place(seen.all, self.root.as_deref(), seen.id).indent;
        let rendered = markdown::render(text, self.style.is_coloured() && !thought, Self::width(indent));
        if thought {
            let faint: String =
                rendered.lines().map(|line| self.style.paint(Role::Faint, line) + "\n").collect();
            return self.print_of(seen, &faint);
        }
        self.print_of(seen, &rendered)
    }

    /// Shows the held text of a session's messages before another entry.
    fn finish_messages(&mut self, seen: ShownSession<'_>) -> io::Result<()> {
        let live = self.live;
        let mut waiting: Vec<(usize, bool, String)> = Vec::new();
        for (position, written) in &mut self.pane(seen.id).messages {
            if let Some(rest) = written.finish(live) {
                written.shown = true;
                waiting.push((*position, written.thought, rest));
            }
        }
        waiting.sort_unstable();
        for (_, thought, rest) in waiting {
            match live {
                true => self.show_markdown(seen, &rest, thought)?,
                false => self.print_of(seen, &rest)?,
            }
        }
        Ok(())
    }

    fn tool_call(&mut self, seen: ShownSession<'_>, call: &ToolCall, change: EntryChange) -> io::Result<()> {
        if change.created {
            self.finish_messages(seen)?;
        }
        let running = self.pane(seen.id).calls.entry(change.position).or_insert_with(Running::now);
        let is_told = running.told.is_some();
        if !call.status().is_final() {
            self.spinner.set_message(entry_text::title(call));
            return Ok(());
        }
        if !is_told {
            self.tell(seen, call, change.position)?;
            self.spinner.set_message("working");
        }
        Ok(())
    }

    fn plan(&mut self, seen: ShownSession<'_>, plan: &Plan) -> io::Result<()> {
        let Some(line) = entry_text::plan(plan.content()) else { return Ok(()) };
        let line = self.style.paint(Role::Faint, line);
        self.print_of(seen, &line)
    }

    /// Shows the state of a tool call if it has changed.
    fn tell(&mut self, seen: ShownSession<'_>, call: &ToolCall, position: usize) -> io::Result<()> {
        let content = entry_text::content(seen.session, call, Amount::Tail, self.style);
        let text = moved_in(&content, 2);
        let Some(running) = self.pane(seen.id).calls.get_mut(&position) else { return Ok(()) };
        let mut hasher = DefaultHasher::new();
        (entry_text::headline(call, None, Style::PLAIN), &text).hash(&mut hasher);
        if running.told.replace(hasher.finish()) == Some(hasher.finish()) {
            return Ok(());
        }
        let took = running.since.elapsed();
        let headline = entry_text::headline(call, Some(took), self.style);
        self.print_of(seen, &format!("{headline}\n{text}"))
    }

    /// Shows the existing content of a session.
    fn catch_up(&mut self, seen: ShownSession<'_>) -> io::Result<()> {
        for (position, entry) in seen.session.entries().enumerate() {
            let items = match entry {
                Entry::Message(message) => message.content().len(),
                Entry::SessionMessage(message) => message.content().len(),
                _ => 0,
            };
            let content = ContentChange::Appended(items);
            let (kind, fields) = (entry.kind(), FieldChanges::default());
            self.entry(seen, EntryChange { position, kind, created: true, content, fields })?;
        }
        seen.session.plans().try_for_each(|plan| self.plan(seen, plan))
    }

    fn change(&mut self, seen: ShownSession<'_>, changes: &Changes) -> io::Result<()> {
        for change in changes.iter() {
            match change {
                Change::Entry(change) => self.entry(seen, *change)?,
                Change::State if seen.all.parent(seen.id).is_some() => {
                    self.subagent(seen.all, seen.id)?;
                    self.ended_with(seen.all, seen.id)?;
                }
                Change::State => match seen.session.activity() {
                    Activity::Idle => self.ended_with(seen.all, seen.id)?,
                    Activity::RequiresAction => self.spinner.set_message("waiting for an answer"),
                    Activity::Running | Activity::Unknown => self.spinner.set_message("working"),
                },
                Change::Plan { index, .. } => {
                    seen.session.plans().nth(*index).map_or(Ok(()), |plan| self.plan(seen, plan))?;
                }
                Change::Notice => {
                    if let Some(notice) = seen.session.notices().last() {
                        let role = match notice.severity {
                            v2::NoticeSeverity::Error => Role::Bad,
                            v2::NoticeSeverity::Warning => Role::Doubtful,
                            _ => Role::Faint,
                        };
                        let line = format!("{}: {}", notice.severity, notice.title.as_str());
                        let line = self.style.paint(role, visible_line(&line));
                        self.print_of(seen, &line)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl View for Screen {
    fn begin(&mut self, all: &Conversation, root: &Arc<str>) -> io::Result<()> {
        self.root = Some(Arc::clone(root));
        // The agent may have announced this and other sessions before its response.
        let others = all.sessions().filter_map(|(id, _)| id.map(Arc::<str>::from));
        let others = others.filter(|id| id != root && !self.panes.contains_key(id));
        let early: Vec<Arc<str>> = std::iter::once(Arc::clone(root)).chain(others).collect();
        early.iter().filter_map(|id| ShownSession::of(all, id)).try_for_each(|seen| self.catch_up(seen))
    }

    fn update(&mut self, all: &Conversation, update: &Update) -> io::Result<()> {
        self.changed(all, update.session(), update.changes())
    }

    fn changed(&mut self, all: &Conversation, session: &Arc<str>, changes: &Changes) -> io::Result<()> {
        // Updates before the session is open are shown when it is.
        let is_shown = self.root.is_some() || self.panes.contains_key(session);
        match ShownSession::of(all, session).filter(|_| is_shown) {
            Some(seen) => self.change(seen, changes),
            None => Ok(()),
        }
    }

    fn ask(
        &mut self,
        all: &Conversation,
        question: &PermissionQuestion,
        asker: Option<&str>,
    ) -> io::Result<()> {
        let Some(seen) = ShownSession::of(all, question.session()) else { return Ok(()) };
        self.finish_messages(seen)?;
        let text = entry_text::question(seen.session, question.request(), self.style);
        self.spinner.finish_and_clear();
        self.speaker = None;
        self.print(&format!("{}{text}> ", asked_by(asker, self.style)))?;
        self.open_line = Some(OpenLine::Prompt);
        Ok(())
    }

    fn ask_for_data(
        &mut self,
        all: &Conversation,
        session: Option<&Arc<str>>,
        form: &Form,
        asker: Option<&str>,
    ) -> io::Result<()> {
        if let Some(seen) = session.and_then(|session| ShownSession::of(all, session)) {
            self.finish_messages(seen)?;
        }
        self.spinner.finish_and_clear();
        let text = form.prompt(self.style);
        self.speaker = None;
        let asked_by = if form.is_new() { asked_by(asker, self.style) } else { String::new() };
        self.print(&format!("{asked_by}{text}> "))?;
        self.open_line = Some(OpenLine::Prompt);
        Ok(())
    }

    fn typed(&mut self) {
        self.open_line = None;
    }

    fn answered(&mut self, words: &str) -> io::Result<()> {
        self.spinner.reset();
        self.spin("working");
        self.note(words)
    }

    fn note(&mut self, words: &str) -> io::Result<()> {
        let style = self.style;
        if self.live {
            let line = style.paint(Role::Faint, visible_line(words));
            self.speaker = None;
            return self.print(&format!("{line}\n"));
        }
        (self.tell)(&format!("switchboard: {}\n", visible_line(words)));
        Ok(())
    }

    fn turn_over(&mut self, all: &Conversation) -> io::Result<()> {
        let ids = self.shown();
        ids.iter().filter_map(|id| ShownSession::of(all, id)).try_for_each(|seen| self.finish_messages(seen))
    }

    fn ending(&mut self) {
        self.spinner.set_message("waiting for the agent to end");
    }

    fn end(&mut self, all: &Conversation, _root: Option<&str>) -> io::Result<()> {
        self.turn_over(all)?;
        for seen in self.shown().iter().filter_map(|id| ShownSession::of(all, id)) {
            // Calls without an end, and those that changed after it.
            let mut calls: Vec<usize> = self.pane(seen.id).calls.keys().copied().collect();
            calls.sort_unstable();
            for position in calls {
                if let Some(call) = seen.session.entry(position).and_then(|entry| entry.as_tool_call()) {
                    self.tell(seen, call, position)?;
                }
            }
        }
        // Later output concerns another session; shown content is not repeated.
        for pane in self.panes.values_mut() {
            pane.messages.clear();
            pane.calls.clear();
        }
        self.root = None;
        self.spinner.finish_and_clear();
        self.print("")
    }
}
