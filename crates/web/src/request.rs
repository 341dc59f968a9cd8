//! What the page asks for.

use serde::{Deserialize, Serialize};

/// A message of the page. `number` comes back with the answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Numbered {
    #[serde(default)]
    pub(crate) number: u64,
    #[serde(flatten)]
    pub(crate) request: Request,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// The last frame is on the screen.
    Shown,
    /// Looks at a session of a recording; without a recording, at the agent's.
    Look {
        recording: Option<String>,
        session: Option<String>,
    },
    /// The entries that are in sight.
    Window {
        from: usize,
        to: usize,
    },
    /// The session as it stood after so many records; nothing: as it is.
    At {
        rows: Option<usize>,
    },
    /// Shows a sub-agent inside the entry that started it, or only its heading.
    Fold {
        session: String,
        open: bool,
    },
    /// A page of a long message before what is shown.
    Earlier {
        session: String,
        position: usize,
        before: usize,
    },
    /// The messages that are in sight; nothing: the inspector is closed.
    Wire {
        window: Option<(usize, usize)>,
        /// Those at the end, as many as are in the window.
        #[serde(default)]
        follows: bool,
        #[serde(default)]
        filter: Filter,
    },
    /// One message in full.
    Message {
        row: usize,
    },
    /// The messages that made an entry.
    MessagesOf {
        #[serde(default)]
        session: String,
        position: usize,
    },
    /// The message in which a permission was asked for.
    QuestionMessage {
        id: String,
    },
    /// Where a message stands in the filtered list.
    Find {
        row: usize,
    },
    /// Recorded sessions, and those of the agent.
    Sessions {
        #[serde(default)]
        query: String,
        /// Those of the agent that are put away, instead of the others.
        #[serde(default)]
        archived: bool,
        /// So many have been listed already.
        #[serde(default)]
        skip: usize,
    },
    Prompt {
        session: String,
        text: String,
        #[serde(default)]
        files: Vec<File>,
        /// Files of the session's folder that the text names, by their paths in it.
        #[serde(default)]
        mentions: Vec<String>,
    },
    /// Says once more what the message at a position says.
    Again {
        session: String,
        position: usize,
    },
    /// Takes back what was said and waits for its turn.
    TakeBack {
        prompt: u64,
    },
    /// Files of the session's folder whose paths fit what was typed.
    Files {
        query: String,
    },
    /// A message for the turn that is at work.
    Steer {
        session: String,
        text: String,
        #[serde(default)]
        files: Vec<File>,
        #[serde(default)]
        mentions: Vec<String>,
    },
    /// Makes a copy of a session.
    Fork {
        session: String,
    },
    Rename {
        session: String,
        title: String,
    },
    /// Puts a session away, or takes it back.
    Archive {
        session: String,
        away: bool,
    },
    Cancel {
        session: String,
    },
    /// Ends the agent process of the session that is looked at.
    EndAgent,
    CancelToolCall {
        session: String,
        id: String,
    },
    CancelTerminal {
        session: String,
        id: String,
    },
    /// Answers a permission.
    Choose {
        id: String,
        option: String,
        /// What was read before, by the name that the server gave it.
        revision: String,
    },
    /// Shows the rule that would answer a permission and its like.
    Rule {
        id: String,
        revision: String,
        decision: RuleDecision,
    },
    /// Makes the rule that was shown.
    SaveRule {
        id: String,
        revision: String,
        decision: RuleDecision,
        /// The rule as it was shown.
        rule: String,
    },
    /// Answers a request for data.
    Give {
        id: String,
        revision: String,
        action: Action,
        #[serde(default)]
        content: serde_json::Map<String, serde_json::Value>,
    },
    Configure {
        session: String,
        id: String,
        value: serde_json::Value,
    },
    New {
        folder: Option<String>,
        /// The agent's name, where there are several.
        #[serde(default)]
        agent: Option<String>,
    },
    /// Goes on with the session of a hub that is looked at.
    Attach,
    Resume {
        session: String,
        folder: String,
        /// The agent that remembers it; nothing: the first.
        #[serde(default)]
        agent: Option<String>,
    },
    Login {
        method: String,
    },
    /// Starts the agent again.
    Start,
    /// The questions that are in sight: those behind so many others.
    Questions {
        skip: usize,
    },
    /// Searches all output of a terminal.
    FindOutput {
        session: String,
        terminal: String,
        query: String,
    },
    /// A file that a tool call names or that the session has changed, and what became of it.
    File {
        session: String,
        path: String,
        line: Option<u32>,
    },
    /// The sub-agents below the session that is looked at.
    Family,
    /// Whether the recording keeps the protocol.
    Verdict,
    /// The choices for always.
    Choices,
    Withdraw {
        place: usize,
        since: i64,
    },
    /// A link that lets another browser in.
    Link,
    /// The text of an entry, to be copied.
    Copy {
        session: String,
        position: usize,
    },
    /// The entry that a message made or changed.
    EntryOf {
        row: usize,
    },
    /// All files that the session has changed.
    Changes,
    /// Time lines, tokens and cost.
    Pictures,
    /// The session as one file.
    Export {
        format: Format,
        #[serde(default)]
        redact: bool,
    },
    /// Deletes a session with its recording.
    Delete {
        recording: String,
    },
}

/// What a session is exported as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Html,
    Markdown,
    /// The inside of a page, to be printed.
    Print,
}

/// A file that goes with a prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct File {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) mime: String,
    /// Base64.
    pub(crate) data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    Accept,
    Decline,
    Cancel,
}

/// What a rule is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuleDecision {
    Allow,
    Deny,
}

/// Which messages the inspector shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    /// `in`: from the agent, `out`: to it.
    pub(crate) direction: String,
    /// `main`: the side that is shown as the session, `other`: the other side of the bridge, `notes`: what is no
    /// message.
    pub(crate) side: String,
    pub(crate) method: String,
    pub(crate) kind: String,
    pub(crate) session: String,
    pub(crate) problems: bool,
    /// Part of the message.
    pub(crate) text: String,
    /// Only what made one entry, by its position.
    pub(crate) entry: Option<usize>,
    /// The session that the entry is in, where it is not the one that is looked at.
    pub(crate) entry_session: Option<String>,
}
