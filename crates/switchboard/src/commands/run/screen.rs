//! Text for people: on a terminal with colours, Markdown and a spinner, elsewhere plain.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use switchboard_peer::{PermissionQuestion, Update};
use switchboard_protocol::v2;
use switchboard_session::{
    Activity, Change, Changes, ContentChange, EntryChange, EntryField, EntryKind, FieldChanges, Message,
    Plan, Session, Subagent, ToolCall,
};

use super::entry_text::{self, Amount};
use super::form::Form;
use super::view::View;
use crate::standard_error;
use crate::terminal::markdown::{self, MarkdownStream};
use crate::terminal::style::{Role, Style};
use crate::terminal::text::{visible, visible_line};

/// How long the end of a line may be that the spinner shows.
const TAIL_WIDTH: usize = 60;

pub(super) struct Screen {
    style: Style,
    /// Whether somebody watches: then text is rendered, else passed on as it comes.
    live: bool,
    output: Box<dyn Write>,
    /// Where notes go that nobody watches for.
    tell: fn(&str),
    spinner: ProgressBar,
    messages: HashMap<usize, Written>,
    calls: HashMap<usize, Running>,
    /// The entry that was written to last, and whether its last line is open.
    open_line: Option<usize>,
}

/// What has been shown of a message.
#[derive(Default)]
struct Written {
    stream: MarkdownStream,
    shown: bool,
}

/// What has been shown of a tool call.
struct Running {
    since: Instant,
    /// What was told of it once it was over, as a hash. It may change after that.
    told: Option<u64>,
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

    /// Writes to somewhere, without colours and movement. `live`: whether somebody watches; else notes are told.
    pub(super) fn on(output: Box<dyn Write>, live: bool, tell: fn(&str)) -> Self {
        Screen {
            style: Style::PLAIN,
            live,
            output,
            tell,
            spinner: ProgressBar::hidden(),
            messages: HashMap::new(),
            calls: HashMap::new(),
            open_line: None,
        }
    }

    fn spin(&mut self, words: &str) {
        self.spinner.set_message(words.to_owned());
        self.spinner.enable_steady_tick(Duration::from_millis(100));
    }

    fn width() -> usize {
        usize::from(termimad::terminal_size().0)
    }

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

    fn entry(&mut self, session: &Session, change: EntryChange) -> io::Result<()> {
        let Some(entry) = session.entry(change.position) else { return Ok(()) };
        match change.kind {
            EntryKind::AgentMessage | EntryKind::AgentThought => match entry.as_message() {
                Some(message) => self.message(message, change),
                None => Ok(()),
            },
            EntryKind::ToolCall => match entry.as_tool_call() {
                Some(call) => self.tool_call(session, call, change),
                None => Ok(()),
            },
            EntryKind::Subagent => match entry.as_subagent() {
                Some(subagent) => self.subagent(subagent, change),
                None => Ok(()),
            },
            EntryKind::UserMessage
            | EntryKind::Terminal
            | EntryKind::Compaction
            | EntryKind::SessionMessage => Ok(()),
        }
    }

    /// Says that there is a sub-agent, and how far it is.
    fn subagent(&mut self, subagent: &Subagent, change: EntryChange) -> io::Result<()> {
        if !change.created && change.fields.get(EntryField::State).is_none() {
            return Ok(());
        }
        self.finish_messages()?;
        let title = subagent.title().unwrap_or(subagent.session_id());
        self.note(&format!("sub-agent {}: {}", visible_line(title), subagent.state_in_words()))
    }

    fn message(&mut self, message: &Message, change: EntryChange) -> io::Result<()> {
        let thought = change.kind == EntryKind::AgentThought;
        if thought && !self.live {
            return Ok(());
        }
        if change.created {
            self.finish_messages()?;
        }
        let written = self.messages.entry(change.position).or_default();
        let start = match change.content {
            ContentChange::Kept => return Ok(()),
            ContentChange::Appended(count) => message.content().len().saturating_sub(count),
            ContentChange::Replaced(_) => {
                let shown = written.shown || !written.stream.tail().is_empty();
                *written = Written::default();
                if shown {
                    let what = if message.content().is_empty() { "took back" } else { "replaced" };
                    self.note(&format!("the agent {what} the message above"))?;
                }
                0
            }
        };
        let mut piece = String::new();
        for item in message.content().items_from(start) {
            match item.text() {
                Some(text) => piece.push_str(text),
                None => piece.push_str(&entry_text::block(&item.block())),
            }
        }
        if piece.is_empty() {
            return Ok(());
        }
        if !self.live {
            return self.pass_on(change.position, &piece);
        }
        let written = self.messages.entry(change.position).or_default();
        let complete = written.stream.push(&piece);
        written.shown |= complete.is_some();
        let tail: String = written.stream.tail().chars().rev().take(TAIL_WIDTH).collect();
        let tail: String = tail.chars().rev().collect();
        if let Some(complete) = complete {
            self.show_markdown(&complete, thought)?;
        }
        self.spinner.set_message(if tail.trim().is_empty() { "working".into() } else { visible_line(&tail) });
        Ok(())
    }

    /// Writes text as it comes, each message on lines of its own.
    fn pass_on(&mut self, position: usize, piece: &str) -> io::Result<()> {
        if self.open_line.is_some_and(|open| open != position) {
            self.output.write_all(b"\n")?;
        }
        let shown = visible(piece);
        self.output.write_all(shown.as_bytes())?;
        self.open_line = (!shown.ends_with('\n')).then_some(position);
        self.messages.entry(position).or_default().shown = true;
        self.output.flush()
    }

    fn show_markdown(&mut self, text: &str, thought: bool) -> io::Result<()> {
        let rendered = markdown::render(text, self.style.is_coloured() && !thought, Self::width());
        if thought {
            let faint: String =
                rendered.lines().map(|line| self.style.paint(Role::Faint, line) + "\n").collect();
            return self.print(&faint);
        }
        self.print(&rendered)
    }

    /// Shows what has been held back of messages, since something else begins.
    fn finish_messages(&mut self) -> io::Result<()> {
        let mut waiting: Vec<(usize, String)> = Vec::new();
        for (position, written) in &mut self.messages {
            if let Some(rest) = written.stream.finish() {
                written.shown = true;
                waiting.push((*position, rest));
            }
        }
        waiting.sort_unstable();
        for (_, rest) in waiting {
            self.show_markdown(&rest, false)?;
        }
        Ok(())
    }

    fn tool_call(&mut self, session: &Session, call: &ToolCall, change: EntryChange) -> io::Result<()> {
        if change.created {
            self.finish_messages()?;
        }
        let begun = Running { since: Instant::now(), told: None };
        let running = self.calls.entry(change.position).or_insert(begun);
        if !call.status().is_final() {
            self.spinner.set_message(entry_text::title(call));
            return Ok(());
        }
        if running.told.is_none() {
            self.tell(session, call, change.position)?;
            self.spinner.set_message("working");
        }
        Ok(())
    }

    fn plan(&mut self, plan: &Plan) -> io::Result<()> {
        let Some(line) = entry_text::plan(plan.content()) else { return Ok(()) };
        let line = self.style.paint(Role::Faint, line);
        self.print(&format!("{line}\n"))
    }

    /// Shows how a call stands, unless that has been told.
    fn tell(&mut self, session: &Session, call: &ToolCall, position: usize) -> io::Result<()> {
        let content = entry_text::content(session, call, Amount::Tail, self.style);
        let text: String = content.lines().map(|line| format!("  {line}\n")).collect();
        let Some(running) = self.calls.get_mut(&position) else { return Ok(()) };
        let mut hasher = DefaultHasher::new();
        (entry_text::headline(call, None, Style::PLAIN), &text).hash(&mut hasher);
        if running.told.replace(hasher.finish()) == Some(hasher.finish()) {
            return Ok(());
        }
        let took = running.since.elapsed();
        let headline = entry_text::headline(call, Some(took), self.style);
        self.print(&format!("{headline}\n{text}"))
    }
}

impl View for Screen {
    fn begin(&mut self, session: &Session, _early: &[Update]) -> io::Result<()> {
        for (position, entry) in session.entries().enumerate() {
            let items = entry.as_message().map_or(0, |message| message.content().len());
            let content = ContentChange::Appended(items);
            let (kind, fields) = (entry.kind(), FieldChanges::default());
            self.entry(session, EntryChange { position, kind, created: true, content, fields })?;
        }
        session.plans().try_for_each(|plan| self.plan(plan))
    }

    fn update(&mut self, session: &Session, update: &Update) -> io::Result<()> {
        self.changed(session, update.changes())
    }

    fn changed(&mut self, session: &Session, changes: &Changes) -> io::Result<()> {
        for change in changes.iter() {
            match change {
                Change::Entry(change) => self.entry(session, *change)?,
                Change::State => match session.activity() {
                    Activity::Idle => {}
                    Activity::RequiresAction => self.spinner.set_message("waiting for an answer"),
                    Activity::Running | Activity::Unknown => self.spinner.set_message("working"),
                },
                Change::Plan { index, .. } => {
                    session.plans().nth(*index).map_or(Ok(()), |plan| self.plan(plan))?;
                }
                Change::Notice => {
                    if let Some(notice) = session.notices().last() {
                        let role = match notice.severity {
                            v2::NoticeSeverity::Error => Role::Bad,
                            v2::NoticeSeverity::Warning => Role::Doubtful,
                            _ => Role::Faint,
                        };
                        let line = format!("{}: {}", notice.severity, notice.title.as_str());
                        let line = self.style.paint(role, visible_line(&line));
                        self.print(&format!("{line}\n"))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn ask(&mut self, session: &Session, question: &PermissionQuestion) -> io::Result<()> {
        self.finish_messages()?;
        let text = entry_text::question(session, question.request(), self.style);
        self.spinner.finish_and_clear();
        self.print(&format!("{text}> "))
    }

    fn ask_for_data(&mut self, form: &Form) -> io::Result<()> {
        self.finish_messages()?;
        self.spinner.finish_and_clear();
        let text = form.prompt(self.style);
        self.print(&format!("{text}> "))
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
            return self.print(&format!("{line}\n"));
        }
        (self.tell)(&format!("switchboard: {}\n", visible_line(words)));
        Ok(())
    }

    fn end(&mut self, session: Option<&Session>) -> io::Result<()> {
        self.finish_messages()?;
        if let Some(session) = session {
            // Those that did not come to an end, and those that went on after it.
            let mut calls: Vec<usize> = self.calls.keys().copied().collect();
            calls.sort_unstable();
            for position in calls {
                if let Some(call) = session.entry(position).and_then(|entry| entry.as_tool_call()) {
                    self.tell(session, call, position)?;
                }
            }
        }
        // What comes after this is about another session.
        self.messages.clear();
        self.calls.clear();
        self.spinner.finish_and_clear();
        self.print("")
    }
}
