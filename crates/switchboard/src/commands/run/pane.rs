//! Where the words of a session stand on the screen, and what of it has been shown.

use std::collections::HashMap;
use std::time::Instant;

use switchboard_acp::display::visible_line;
use switchboard_session::Conversation;

use crate::terminal::markdown::MarkdownStream;

/// How far a session's words are moved in at most, however deep its lineage is.
const MOST_INDENT: usize = 24;

/// What has been shown of a session.
#[derive(Default)]
pub(super) struct Pane {
    pub(super) messages: HashMap<usize, Written>,
    pub(super) calls: HashMap<usize, Running>,
    /// How a sub-agent stood when that was told last.
    pub(super) state: Option<&'static str>,
}

/// What has been shown of a message.
#[derive(Default)]
pub(super) struct Written {
    pub(super) stream: MarkdownStream,
    /// The last line, which is not complete yet, where nobody watches.
    pub(super) line: String,
    pub(super) thought: bool,
    pub(super) shown: bool,
}

impl Written {
    /// What is held back of it.
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

/// What has been shown of a tool call.
pub(super) struct Running {
    pub(super) since: Instant,
    /// Whether it was told that it has begun, because a sub-agent works for it.
    pub(super) begun: bool,
    /// What was told of it once it was over, as a hash. It may change after that.
    pub(super) told: Option<u64>,
}

impl Running {
    pub(super) fn now() -> Self {
        Running { since: Instant::now(), begun: false, told: None }
    }
}

/// Where a session's words stand.
pub(super) struct Place {
    /// Who speaks; nobody has to be named where the agent does in the session that `run` is about.
    pub(super) who: Option<String>,
    /// By how much the line that names the speaker is moved in.
    pub(super) heading: usize,
    /// By how much the words are.
    pub(super) indent: usize,
}

/// The place of a session, seen from the one that `run` is about.
pub(super) fn place(all: &Conversation, root: Option<&str>, session: &str) -> Place {
    if root == Some(session) {
        return Place { who: None, heading: 0, indent: 0 };
    }
    let names = all.names(session);
    let who = match all.root(session) {
        top if root == Some(top) => names.join(" of "),
        // It belongs to nobody here.
        top if names.is_empty() => format!("session {top}"),
        top => format!("{} of session {top}", names.join(" of ")),
    };
    // Under the tool call that stands for it, where one does.
    let width = |in_call: bool| if in_call { 4 } else { 2 };
    let indent: usize = all.ancestors(session).map(|parent| width(parent.tool_call.is_some())).sum();
    let indent = indent.clamp(2, MOST_INDENT);
    Place { who: Some(visible_line(&who)), heading: indent - 2, indent }
}

/// Text with every line moved in.
pub(super) fn moved_in(text: &str, indent: usize) -> String {
    text.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}
