//! Output while the agent works.

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

/// Displays sessions: that of `run`, its sub-agents, and others that the agent mentions.
pub(super) trait View {
    /// Handles an opened session. The agent may have mentioned it before.
    fn begin(&mut self, _all: &Conversation, _root: &Arc<str>) -> io::Result<()> {
        Ok(())
    }

    /// Handles an applied update of any session.
    fn update(&mut self, all: &Conversation, update: &Update) -> io::Result<()>;

    /// Handles a change without an update, for example by a question with details of its tool call.
    fn changed(&mut self, _all: &Conversation, _session: &Arc<str>, _changes: &Changes) -> io::Result<()> {
        Ok(())
    }

    /// Shows a question to the user, with everything that matters for the answer, and the asker if it is not
    /// the agent itself.
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

    /// Shows the next field of a form.
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

    /// Handles a typed line, whose end the terminal has shown.
    fn typed(&mut self) {}

    /// Handles the answer or cancellation of a question.
    fn answered(&mut self, words: &str) -> io::Result<()>;

    /// Handles the end of a turn: held text is shown before the summary.
    fn turn_over(&mut self, _all: &Conversation) -> io::Result<()> {
        Ok(())
    }

    /// Handles the end of the work, while the agent is being ended; it may still write.
    fn ending(&mut self) {}

    /// Shows a note to the user.
    fn note(&mut self, words: &str) -> io::Result<()>;

    /// Handles the end of the run.
    fn end(&mut self, all: &Conversation, root: Option<&str>) -> io::Result<()>;
}

/// Returns the line above a question that names the asker.
pub(super) fn asked_by(asker: Option<&str>, style: Style) -> String {
    let line = |asker| format!("{}\n", style.paint(Role::Place, format!("{} asks:", visible_line(asker))));
    asker.map(line).unwrap_or_default()
}

/// Prints every update of every session on a line, as the parameters of `session/update`.
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

/// Prints the last message only.
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
