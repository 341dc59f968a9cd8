//! Export of a session as one self-contained file: HTML without scripts and external resources, or Markdown.

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use switchboard_acp::v2;
use switchboard_session::{Conversation, Entry, EntryKind, Item, Message, Snapshot, ToolCall};
use switchboard_store::{Item as Stored, Redaction};

use super::app::App;
use super::live::Failure;
use super::live_recording::LiveRecording;
use super::message_log::MessageLog;
use super::subagents::{self, SessionNode, SessionSource};
use super::{render, rows};

/// Maximum depth of sub-agents that are exported; deeper ones are only named.
const DEEPEST: usize = 5;
/// Depth of entries that get no name for links, because the page has others of the same name.
const NAMELESS: usize = 1;
/// Maximum number of exported entries, over all sessions.
const MOST_ENTRIES: usize = 50_000;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:";
const STYLE: &str = concat!(
    include_str!("assets/tokens.css"),
    include_str!("assets/page.css"),
    include_str!("assets/entries.css"),
    include_str!("assets/export.css")
);

/// An export of a session.
pub(crate) struct Export<'a> {
    pub(crate) app: &'a App,
    pub(crate) room: &'a LiveRecording,
    pub(crate) session: &'a str,
    /// Title of the session in lists, used if the agent gave it none.
    pub(crate) title: Option<&'a str>,
    /// True to remove secrets and withdrawn content.
    pub(crate) is_redacted: bool,
}

impl Export<'_> {
    /// Renders a complete HTML file.
    pub(crate) fn html(&self) -> Result<String, Failure> {
        let (title, body) = self.body()?;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (switchboard_acp::display::visible_line(&title)) }
                    style { (PreEscaped(STYLE)) }
                }
                body class="export" { (render::sprite()) main { (body) } }
            }
        };
        Ok(page.into_string())
    }

    /// Renders all entries for printing, without the frame of a file.
    pub(crate) fn printed(&self) -> Result<String, Failure> {
        self.body().map(|(_, body)| body.into_string())
    }

    pub(crate) fn markdown(&self) -> Result<String, Failure> {
        let redacted = self.redacted()?;
        let source = SessionSource { room: self.room, past: redacted.as_ref() };
        let session = source.node(self.session).ok_or("there is no session")?;
        let mut out = format!("# {}\n\n", one_line(&self.name(&session)));
        let _ = writeln!(out, "{}\n", self.about());
        for entry in session.snapshot.entries().take(MOST_ENTRIES) {
            push_entry(&mut out, &session.snapshot, entry);
        }
        Ok(out)
    }

    /// Returns the title of the session, never an id.
    fn name(&self, session: &SessionNode) -> String {
        let own = Some(&*session.name).filter(|name| **name != *session.id);
        // The title is derived from prompts, and may contain their secrets.
        let said = if self.is_redacted { subagents::first_words(&session.snapshot) } else { None };
        let title = self.title.filter(|_| !self.is_redacted);
        own.or(title).map(str::to_owned).or(said).unwrap_or_else(|| "A session".to_owned())
    }

    fn about(&self) -> String {
        let about = &self.room.about;
        let parts = [about.agent.as_deref(), about.project.as_deref()];
        let parts: Vec<String> = parts.into_iter().flatten().map(one_line).collect();
        parts.join(" · ")
    }

    fn body(&self) -> Result<(String, Markup), Failure> {
        let redacted = self.redacted()?;
        let source = SessionSource { room: self.room, past: redacted.as_ref() };
        let session = source.node(self.session).ok_or("there is no session")?;
        let mut left = MOST_ENTRIES;
        let body = html! {
            h1 { (render::visible_line(&self.name(&session))) }
            p class="meta" { (render::visible_line(&self.about())) }
            (self.entries(source, &session, 0, &mut left, 0))
            @if left == 0 { p class="note" { "There is more, which is too much for one file." } }
        };
        Ok((self.name(&session), body))
    }

    /// Renders the last entries without names for links, and returns the number of all.
    pub(crate) fn end(&self, most: usize) -> Result<(usize, Markup), Failure> {
        let source = SessionSource { room: self.room, past: None };
        let session = source.node(self.session).ok_or("there is no session")?;
        let (count, mut left) = (session.snapshot.len(), MOST_ENTRIES);
        let from = count.saturating_sub(most);
        Ok((count, self.entries(source, &session, NAMELESS, &mut left, from)))
    }

    /// Renders entries from a position.
    fn entries(
        &self,
        source: SessionSource<'_>,
        session: &SessionNode,
        depth: usize,
        left: &mut usize,
        from: usize,
    ) -> Markup {
        let snapshot = &session.snapshot;
        let mut settled = rows::settled(snapshot, &(0..snapshot.len()));
        let mut all = Vec::new();
        for (position, entry) in snapshot.entries().enumerate().skip(from) {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let place = render::Place {
                recording: &self.room.id,
                session: &session.id,
                folder: self.room.folder(),
                parent: session.parent.as_deref(),
                is_shown_here: &|child| {
                    depth < DEEPEST
                        && (session.is_in_a_call(child)
                            || session.inside(entry).iter().any(|it| **it == *child))
                },
                name: &|id| source.look(|conversation| conversation.name(id)),
            };
            let mut parts = render::whole_entry(snapshot, entry, &place, &self.app.cache);
            for question in settled.remove(&position).unwrap_or_default() {
                parts.extend(question.parts(snapshot, &place, self.app));
            }
            let failure = session.ended_turn(position).and_then(|turn| turn.failure.as_ref());
            parts.extend(failure.map(|it| render::failed_turn(&it.reason, None)));
            let frame = render::frame(entry, |id| {
                source.look(|conversation| subagents::name_of_child(conversation, &session.id, id))
            });
            let children = if depth < DEEPEST { session.inside(entry) } else { &[] };
            let inside: Vec<Markup> = children
                .iter()
                .filter_map(|child| source.node(child))
                .map(|inside| {
                    html! {
                        section class="nest is-open" {
                            p class="nest-head" { strong { (render::visible_line(&inside.name)) } }
                            div { (self.entries(source, &inside, depth + 1, left, 0)) }
                        }
                    }
                })
                .collect();
            all.push(html! {
                article class=(frame.class) aria-label=(frame.label) id=[(depth == 0).then(|| format!("e{position}"))] {
                    @for part in &parts { (PreEscaped(&*part.html)) }
                    @for nest in inside { (nest) }
                }
            });
        }
        html! { @for entry in all { (entry) } }
    }

    /// Folds the recording again without its secrets, or returns `None` if it is not to be redacted.
    fn redacted(&self) -> Result<Option<Conversation>, Failure> {
        if !self.is_redacted {
            return Ok(None);
        }
        let store = &self.app.store;
        let words = |error: switchboard_store::StoreError| error.to_string();
        let protocol = store.session(&self.room.id).map_err(words)?.protocol;
        let mut withdrawals = store.withdrawals(&self.room.id).map_err(words)?;
        let (mut redaction, mut log) = (Redaction::new(), MessageLog::new(protocol));
        for item in store.read(&self.room.id, 0).map_err(words)? {
            if let Stored::Record(mut record) = item.map_err(words)? {
                record.bytes = withdrawals.take_out(&record).unwrap_or(record.bytes);
                record.bytes = redaction.redact(&record.bytes);
                log.push(&record);
            }
        }
        Ok(Some(log.into_conversation()))
    }
}

/// Renders one entry as Markdown, for the clipboard.
pub(crate) fn copied(snapshot: &Snapshot, entry: &Entry) -> String {
    match entry {
        Entry::Message(message) => text_of(message),
        _ => {
            let mut out = String::new();
            push_entry(&mut out, snapshot, entry);
            out
        }
    }
}

fn push_entry(out: &mut String, snapshot: &Snapshot, entry: &Entry) {
    match entry {
        Entry::Message(message) => {
            let text = text_of(message);
            match message.kind() {
                EntryKind::UserMessage => {
                    let _ = writeln!(out, "## You\n\n{text}\n");
                }
                EntryKind::AgentThought => {
                    let _ = writeln!(out, "<details><summary>Thought</summary>\n\n{text}\n\n</details>\n");
                }
                _ => {
                    let _ = writeln!(out, "## Agent\n\n{text}\n");
                }
            }
        }
        Entry::ToolCall(call) => push_call(out, snapshot, call),
        Entry::Terminal(_) | Entry::Subagent(_) => {}
        Entry::Compaction(compaction) if compaction.is_memory_loss() => {
            let _ = writeln!(out, "---\n\n*{}*\n", one_line(&compaction.summary().text()));
        }
        Entry::Compaction(compaction) => {
            let _ = writeln!(out, "*The conversation was compacted ({}).*\n", compaction.status().as_str());
        }
        Entry::SessionMessage(message) => {
            let _ = writeln!(out, "*A message between sessions:* {}\n", one_line(&message.content().text()));
        }
    }
}

fn push_call(out: &mut String, snapshot: &Snapshot, call: &ToolCall) {
    let title = call.title().or(call.name()).unwrap_or("Tool call");
    let _ = writeln!(out, "### {} ({})\n", one_line(title), call.status().as_str());
    for item in call.content().items() {
        match (item.text(), item.structured()) {
            (Some(text), _) => {
                let _ = writeln!(out, "{text}\n");
            }
            (None, Some(v2::ToolCallContent::Diff(diff))) => match &diff.patch {
                Some(patch) => push_fenced(out, "diff", &patch.text),
                None => {
                    for change in &diff.changes {
                        let _ = writeln!(out, "- {}", one_line(&change.path().unwrap_or_default()));
                    }
                }
            },
            (None, Some(v2::ToolCallContent::Terminal(terminal))) => {
                if let Some(terminal) = snapshot.terminal(&terminal.terminal_id) {
                    let command =
                        terminal.command().map(|command| format!("$ {command}\n")).unwrap_or_default();
                    let output = String::from_utf8_lossy(&terminal.output().to_vec()).into_owned();
                    push_fenced(
                        out,
                        "console",
                        &switchboard_acp::display::visible(&format!("{command}{output}")),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Returns the text of a message, with a placeholder for other content.
fn text_of(message: &Message) -> String {
    let items = message.content().items();
    let text =
        items.map(|item: Item<'_, v2::ContentBlock<'static>>| match (item.text(), item.structured()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(v2::ContentBlock::ResourceLink(link))) => {
                format!("\n[{}]({})\n", one_line(&link.name), link.uri)
            }
            (None, Some(v2::ContentBlock::Image(_))) => "\n*(an image)*\n".to_owned(),
            (None, Some(_)) => "\n*(an attachment)*\n".to_owned(),
            (None, None) => String::new(),
        });
    text.collect()
}

/// Appends a code block whose fence is longer than any run of backticks in it.
fn push_fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = writeln!(out, "{fence}{language}\n{text}{end}{fence}\n");
}

fn one_line(text: &str) -> String {
    switchboard_acp::display::visible_line(text)
}
