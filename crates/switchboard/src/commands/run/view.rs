//! What is printed while the agent works.

use std::io::{self, Write};

use switchboard_peer::{PermissionQuestion, Update};
use switchboard_protocol::{Wire, WireFormat};
use switchboard_session::{Changes, EntryKind, Session};

use super::form::Form;
use crate::standard_error;
use crate::terminal::style::Style;

/// Shows a session as it goes on.
pub(super) trait View {
    /// A session is open. The agent may have told of it before that, by these updates.
    fn begin(&mut self, _session: &Session, _early: &[Update]) -> io::Result<()> {
        Ok(())
    }

    /// An update has been applied.
    fn update(&mut self, session: &Session, update: &Update) -> io::Result<()>;

    /// The session changed without an update, as by a question that tells more of its tool call.
    fn changed(&mut self, _session: &Session, _changes: &Changes) -> io::Result<()> {
        Ok(())
    }

    /// Somebody is to be asked. All that matters for the answer must be shown.
    fn ask(&mut self, session: &Session, question: &PermissionQuestion) -> io::Result<()>;

    /// Somebody is to be asked for data: the next field of a form.
    fn ask_for_data(&mut self, form: &Form) -> io::Result<()> {
        standard_error::tell(&format!("{}> ", form.prompt(Style::PLAIN)));
        Ok(())
    }

    /// The question was answered, or taken back.
    fn answered(&mut self, words: &str) -> io::Result<()>;

    /// Something that a person should know.
    fn note(&mut self, words: &str) -> io::Result<()>;

    /// The work is over, or given up.
    fn end(&mut self, session: Option<&Session>) -> io::Result<()>;
}

/// Every update on a line.
pub(super) struct JsonView;

impl View for JsonView {
    fn begin(&mut self, session: &Session, early: &[Update]) -> io::Result<()> {
        early.iter().try_for_each(|update| self.update(session, update))
    }

    fn update(&mut self, _session: &Session, update: &Update) -> io::Result<()> {
        let Some(update) = update.read() else { return Ok(()) };
        let mut line = update.encode(WireFormat::Any);
        // A raw line break can only be white space between tokens.
        if line.contains(['\n', '\r']) {
            line = line.replace(['\n', '\r'], " ");
        }
        line.push('\n');
        io::stdout().write_all(line.as_bytes())
    }

    fn ask(&mut self, _session: &Session, question: &PermissionQuestion) -> io::Result<()> {
        super::permissions::ask_on_error(question)
    }

    fn answered(&mut self, words: &str) -> io::Result<()> {
        self.note(words)
    }

    fn note(&mut self, words: &str) -> io::Result<()> {
        standard_error::tell(&format!("switchboard: {words}\n"));
        Ok(())
    }

    fn end(&mut self, _session: Option<&Session>) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// The last message alone.
pub(super) struct QuietView;

impl View for QuietView {
    fn update(&mut self, _session: &Session, _update: &Update) -> io::Result<()> {
        Ok(())
    }

    fn ask(&mut self, _session: &Session, question: &PermissionQuestion) -> io::Result<()> {
        super::permissions::ask_on_error(question)
    }

    fn answered(&mut self, _words: &str) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, _words: &str) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, session: Option<&Session>) -> io::Result<()> {
        let Some(session) = session else { return Ok(()) };
        let messages = session.entries().filter(|entry| entry.kind() == EntryKind::AgentMessage);
        let texts = messages.filter_map(|entry| Some(entry.as_message()?.content().text()));
        if let Some(text) = texts.filter(|text| !text.trim().is_empty()).last() {
            let text = crate::terminal::text::visible(&text);
            let mut output = io::stdout().lock();
            writeln!(output, "{}", text.trim_end_matches('\n'))?;
        }
        Ok(())
    }
}
