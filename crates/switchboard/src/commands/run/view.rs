//! What is printed while the agent works.

use std::io::{self, Write};
use std::sync::Arc;

use switchboard_acp::display::visible_line;
use switchboard_acp::{Wire, WireFormat};
use switchboard_peer::{PermissionQuestion, Update};
use switchboard_session::{Changes, Conversation, EntryKind};

use super::entry_text;
use super::form::Form;
use crate::standard_error;
use crate::terminal::style::{Role, Style};

/// Shows sessions as they go on: the one that `run` is about, its sub-agents, and whatever else the agent tells of.
pub(super) trait View {
    /// A session is open. The agent may have told of it before that.
    fn begin(&mut self, _all: &Conversation, _root: &Arc<str>) -> io::Result<()> {
        Ok(())
    }

    /// An update has been applied, of any session.
    fn update(&mut self, all: &Conversation, update: &Update) -> io::Result<()>;

    /// A session changed without an update, as by a question that tells more of its tool call.
    fn changed(&mut self, _all: &Conversation, _session: &Arc<str>, _changes: &Changes) -> io::Result<()> {
        Ok(())
    }

    /// Somebody is to be asked. All that matters for the answer must be shown; also who asks, where that is not the
    /// agent itself.
    fn ask(
        &mut self,
        all: &Conversation,
        question: &PermissionQuestion,
        asker: Option<&str>,
    ) -> io::Result<()> {
        let Some(session) = all.session(Some(question.session())) else { return Ok(()) };
        let text = entry_text::question(session, question.request(), Style::PLAIN);
        standard_error::tell(&format!("{}{text}> ", asked_by(asker, Style::PLAIN)));
        Ok(())
    }

    /// Somebody is to be asked for data: the next field of a form.
    fn ask_for_data(
        &mut self,
        _all: &Conversation,
        _session: Option<&Arc<str>>,
        form: &Form,
        asker: Option<&str>,
    ) -> io::Result<()> {
        let asked_by = if form.is_new() { asked_by(asker, Style::PLAIN) } else { String::new() };
        standard_error::tell(&format!("{asked_by}{}> ", form.prompt(Style::PLAIN)));
        Ok(())
    }

    /// Somebody typed a line, whose end the terminal has shown.
    fn typed(&mut self) {}

    /// The question was answered, or taken back.
    fn answered(&mut self, words: &str) -> io::Result<()>;

    /// A turn is over: what is held back is shown, since what comes then is about all of it.
    fn turn_over(&mut self, _all: &Conversation) -> io::Result<()> {
        Ok(())
    }

    /// The work is over and the agent is being ended; it may still write.
    fn ending(&mut self) {}

    /// Something that a person should know.
    fn note(&mut self, words: &str) -> io::Result<()>;

    /// The work is over, or given up.
    fn end(&mut self, all: &Conversation, root: Option<&str>) -> io::Result<()>;
}

/// The line above a question that says who asks.
pub(super) fn asked_by(asker: Option<&str>, style: Style) -> String {
    let line = |asker| format!("{}\n", style.paint(Role::Place, format!("{} asks:", visible_line(asker))));
    asker.map(line).unwrap_or_default()
}

/// Every update of every session on a line, as the parameters of `session/update`.
pub(super) struct JsonView;

impl View for JsonView {
    fn update(&mut self, _all: &Conversation, update: &Update) -> io::Result<()> {
        let Some(params) = update.read() else { return Ok(()) };
        let mut line = params.encode(WireFormat::Any);
        // A raw line break can only be white space between tokens.
        if line.contains(['\n', '\r']) {
            line = line.replace(['\n', '\r'], " ");
        }
        line.push('\n');
        io::stdout().write_all(line.as_bytes())
    }

    fn answered(&mut self, words: &str) -> io::Result<()> {
        self.note(words)
    }

    fn note(&mut self, words: &str) -> io::Result<()> {
        standard_error::tell(&format!("switchboard: {words}\n"));
        Ok(())
    }

    fn end(&mut self, _all: &Conversation, _root: Option<&str>) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// The last message alone.
pub(super) struct QuietView;

impl View for QuietView {
    fn update(&mut self, _all: &Conversation, _update: &Update) -> io::Result<()> {
        Ok(())
    }

    fn answered(&mut self, _words: &str) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, _words: &str) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, all: &Conversation, root: Option<&str>) -> io::Result<()> {
        let Some(session) = root.and_then(|root| all.session(Some(root))) else { return Ok(()) };
        let messages = session.entries().filter(|entry| entry.kind() == EntryKind::AgentMessage);
        let texts = messages.filter_map(|entry| Some(entry.as_message()?.content().text()));
        if let Some(text) = texts.filter(|text| !text.trim().is_empty()).last() {
            let text = switchboard_acp::display::visible(&text);
            let mut output = io::stdout().lock();
            writeln!(output, "{}", text.trim_end_matches('\n'))?;
        }
        Ok(())
    }
}
