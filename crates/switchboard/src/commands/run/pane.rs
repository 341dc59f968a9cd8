//! Layout of a session on the screen, and the state of its display.

use std::collections::HashMap;
use std::time::Instant;

use switchboard_acp::display::visible_line;
use switchboard_session::Conversation;

use crate::terminal::markdown::MarkdownStream;

/// Maximum indentation of nested sessions.
const MOST_INDENT: usize = 24;

/// Displayed state of a session.
#[derive(Default)]
pub(super) struct Pane {
    pub(super) messages: HashMap<usize, ShownMessage>,
    pub(super) calls: HashMap<usize, Running>,
    /// Last shown state of a sub-agent.
    pub(super) state: Option<&'static str>,
}

/// Displayed state of a message.
#[derive(Default)]
pub(super) struct ShownMessage {
    pub(super) stream: MarkdownStream,
    /// The incomplete last line, without a terminal.
    pub(super) line: String,
    pub(super) thought: bool,
    pub(super) shown: bool,
}

impl ShownMessage {
    /// Returns the held text.
    pub(super) fn finish(&mut self, live: bool) -> Option<String> {
        if live {
            return self.stream.finish();
        }
        let line = std::mem::take(&mut self.line);
        (!line.is_empty()).then_some(line)
    }

    pub(super) fn has_something(&self) -> bool {
        self.shown || !self.stream.tail().is_empty() || !self.line.is_empty()
    }
}

/// Displayed state of a tool call.
pub(super) struct Running {
    pub(super) since: Instant,
    /// Set if its start was shown, because a sub-agent works for it.
    pub(super) begun: bool,
    /// Hash of the text shown at its end. It may change after that.
    pub(super) told: Option<u64>,
}

impl Running {
    pub(super) fn now() -> Self {
        Running { since: Instant::now(), begun: false, told: None }
    }
}

/// Layout of a session's text.
pub(super) struct SessionLayout {
    /// The speaker; `None` for the agent in the session of `run`.
    pub(super) who: Option<String>,
    /// Indentation of the line with the speaker.
    pub(super) heading: usize,
    /// Indentation of the text.
    pub(super) indent: usize,
}

/// Returns the layout of a session, relative to the session of `run`.
pub(super) fn place(all: &Conversation, root: Option<&str>, session: &str) -> SessionLayout {
    if root == Some(session) {
        return SessionLayout { who: None, heading: 0, indent: 0 };
    }
    let names = all.names(session);
    let who = match all.root(session) {
        top if root == Some(top) => names.join(" of "),
        // It has no known parent.
        top if names.is_empty() => format!("session {top}"),
        top => format!("{} of session {top}", names.join(" of ")),
    };
    // Below its tool call, if it has one.
    let width = |in_call: bool| if in_call { 4 } else { 2 };
    let indent: usize = all.ancestors(session).map(|parent| width(parent.tool_call.is_some())).sum();
    let indent = indent.clamp(2, MOST_INDENT);
    SessionLayout { who: Some(visible_line(&who)), heading: indent - 2, indent }
}

/// Indents every line of a text.
pub(super) fn moved_in(text: &str, indent: usize) -> String {
    text.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}
