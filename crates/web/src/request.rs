//! Requests of the page, as JSON messages over the WebSocket.

use serde::{Deserialize, Serialize};

/// A request of the page. The response has the same `number`.
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
    /// Acknowledges the last frame, which has been drawn. The server sends the next one only afterwards
    /// (backpressure).
    Shown,
    /// Selects a session of a recording, or the default session.
    Look {
        recording: Option<String>,
        session: Option<String>,
    },
    /// Reports whether the tab is visible and focused. A tab that is repeats it.
    Looking {
        looking: bool,
    },
    /// Creates a code to type into another device.
    ShortCode,
    /// Requests the outcomes of the hub's notifications.
    Notifications,
    /// Sets the range of visible entries.
    Window {
        from: usize,
        to: usize,
    },
    /// Shows the session after a number of records, or the present state.
    At {
        rows: Option<usize>,
    },
    /// Unfolds a sub-agent inside the entry that started it, or folds it to its heading.
    Fold {
        session: String,
        open: bool,
    },
    /// Unfolds the line of several finished tool calls, or folds them again.
    FoldRun {
        session: String,
        /// Position of the first call, or of any to unfold.
        position: usize,
        open: bool,
    },
    /// Requests the page of a long message before the shown ones.
    Earlier {
        session: String,
        position: usize,
        before: usize,
    },
    /// Sets the range of visible messages in the inspector, or closes it.
    Wire {
        window: Option<(usize, usize)>,
        /// Follows the end, with as many messages as the window has.
        #[serde(default)]
        follows: bool,
        #[serde(default)]
        filter: Filter,
    },
    /// Requests one message in full.
    Message {
        row: usize,
    },
    /// Requests the messages that created or changed an entry.
    MessagesOf {
        #[serde(default)]
        session: String,
        position: usize,
    },
    /// Requests the message of a permission request.
    QuestionMessage {
        id: String,
    },
    /// Requests the index of a message in the filtered list.
    Find {
        row: usize,
    },
    /// Lists recorded sessions, and those of the agent.
    Sessions {
        #[serde(default)]
        query: String,
        /// Lists the agent's archived sessions instead of the others.
        #[serde(default)]
        archived: bool,
        /// Number of sessions that are listed already.
        #[serde(default)]
        skip: usize,
    },
    Prompt {
        session: String,
        text: String,
        #[serde(default)]
        files: Vec<File>,
        /// Files that the text mentions, by their paths in the session's folder.
        #[serde(default)]
        mentions: Vec<String>,
    },
    /// Sends the message at a position again.
    Again {
        session: String,
        position: usize,
    },
    /// Cancels a queued prompt, and returns its content.
    TakeBack {
        prompt: u64,
    },
    /// Lists files of the session's folder whose paths match a query.
    Files {
        query: String,
    },
    /// Sends a message to the running turn.
    Steer {
        session: String,
        text: String,
        #[serde(default)]
        files: Vec<File>,
        #[serde(default)]
        mentions: Vec<String>,
    },
    /// Forks a session.
    Fork {
        session: String,
    },
    Rename {
        session: String,
        title: String,
    },
    /// Archives or unarchives a session.
    Archive {
        session: String,
        away: bool,
    },
    Cancel {
        session: String,
    },
    /// Ends the agent process of the selected session.
    EndAgent,
    CancelToolCall {
        session: String,
        id: String,
    },
    CancelTerminal {
        session: String,
        id: String,
    },
    /// Answers a permission request.
    Choose {
        id: String,
        option: String,
        /// Revision of the content that the user has read.
        revision: String,
    },
    /// Shows the rule that would answer a permission request and similar ones.
    Rule {
        id: String,
        revision: String,
        decision: RuleDecision,
    },
    /// Lets sandboxes reach a host that a notice names.
    AllowHost {
        host: String,
    },
    /// Saves the rule that was shown.
    SaveRule {
        id: String,
        revision: String,
        decision: RuleDecision,
        /// Text of the rule as it was shown.
        rule: String,
    },
    /// Answers an elicitation request.
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
        /// Name of the agent; the first one unless set.
        #[serde(default)]
        agent: Option<String>,
    },
    /// Attaches to the selected session of the hub.
    Attach,
    Resume {
        session: String,
        folder: String,
        /// Name of the agent that has the session; the first one unless set.
        #[serde(default)]
        agent: Option<String>,
    },
    Login {
        method: String,
    },
    /// Starts the agent and the first session again.
    Start,
    /// Sets the number of questions before the first visible one.
    Questions {
        skip: usize,
    },
    /// Searches the complete output of a terminal.
    FindOutput {
        session: String,
        terminal: String,
        query: String,
    },
    /// Searches all entries of the selected session.
    FindIn {
        query: String,
    },
    /// Shows a file that a tool call names or has changed, with its changes.
    File {
        session: String,
        path: String,
        line: Option<u32>,
    },
    /// Lists the sub-agents below the selected session.
    Family,
    /// Checks the recording against the protocol.
    Verdict,
    /// Lists the remembered choices.
    Choices,
    Withdraw {
        place: usize,
        since: i64,
    },
    /// Creates a link that signs in another browser.
    Link,
    /// Returns the text of an entry for the clipboard.
    Copy {
        session: String,
        position: usize,
    },
    /// Returns the entry that a message created or changed.
    EntryOf {
        row: usize,
    },
    /// Shows the end of the session that the selected one is a copy of.
    History,
    /// Shows all changes of the session, by file and hunk.
    Changes,
    /// Undoes one hunk of a file, or all of its changes.
    UndoChange {
        path: String,
        /// Place of the hunk in the file; all of them unless set.
        #[serde(default)]
        hunk: Option<usize>,
        /// Revision of the file that the user has seen.
        revision: String,
    },
    /// Restores an undone change.
    RestoreChange {
        change: u64,
    },
    /// Marks a hunk as kept, or no longer.
    KeepChange {
        path: String,
        hunk: usize,
        revision: String,
        kept: bool,
    },
    /// Returns all changes of the session as one patch.
    Patch,
    /// Opens a file that the session names or has changed in the user's editor.
    OpenEditor {
        session: String,
        path: String,
        #[serde(default)]
        line: Option<u32>,
    },
    /// Shows charts of turns, tokens and cost.
    Pictures,
    /// Exports the session as one file.
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

/// Export format of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Html,
    Markdown,
    /// Content of a page for printing.
    Print,
}

/// A file attached to a prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct File {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) mime: String,
    /// Content in base64.
    pub(crate) data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    Accept,
    Decline,
    Cancel,
}

/// Effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuleDecision {
    Allow,
    Deny,
}

/// Filter of the inspector. Empty fields match every message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    /// `in` for messages from the agent, `out` for messages to it.
    pub(crate) direction: String,
    /// `main` for the side that the session shows, `other` for the other side of the bridge, `notes` for other
    /// records.
    pub(crate) side: String,
    pub(crate) method: String,
    pub(crate) kind: String,
    pub(crate) session: String,
    pub(crate) problems: bool,
    /// Substring of the message.
    pub(crate) text: String,
    /// Position of an entry; only messages that created or changed it match.
    pub(crate) entry: Option<usize>,
    /// Session of that entry, if it is not the selected one.
    pub(crate) entry_session: Option<String>,
}
