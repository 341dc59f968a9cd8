//! Tool calls: one update that creates or changes a call, and chunks that append to its content.

use crate::macros::{object, union};
use crate::v2::{
    Content, ContentBlock, Diff, EmptyObject, Terminal, ToolCallLocation, ToolCallStatus, ToolKind,
};
use crate::{Raw, Text};

object! {
    /// Creates a tool call or changes one that is there. Lists are replaced as a whole.
    ToolCallUpdate {
        /// The call; one that was not heard of yet is new.
        required tool_call_id: Text<'a> = "toolCallId",
        /// The tool's own name, for programs.
        patch name: Text<'a> = "name" @newest,
        /// What the tool is doing, for people; due with the first report of a call.
        patch title: Text<'a> = "title",
        /// What the tool does, as a hint for display.
        patch kind: ToolKind = "kind",
        /// How far it is.
        patch status: ToolCallStatus = "status",
        /// All that it has produced.
        patch content: Vec<ToolCallContent<'a>> = "content",
        /// All files that it works on.
        patch locations: Vec<ToolCallLocation<'a>> = "locations",
        /// What the tool was given.
        patch raw_input: Raw<'a> = "rawInput",
        /// What the tool gave back.
        patch raw_output: Raw<'a> = "rawOutput",
        /// What the client may ask of this call.
        patch capabilities: CancelCapabilities<'a> = "capabilities" @newest,
    } with patch _meta
}

object! {
    /// Appends one item to a tool call's content.
    ToolCallContentChunk {
        /// The call.
        required tool_call_id: Text<'a> = "toolCallId",
        /// The item.
        required content: ToolCallContent<'a> = "content",
        /// Metadata of this chunk alone.
    } with optional _meta
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        /// A content block.
        Content(Content<'a>) = "content",
        /// Changes to files.
        Diff(Box<Diff<'a>>) = "diff",
        /// The place of a terminal.
        Terminal(Terminal<'a>) = "terminal" @newest,
        /// The place of a sub-agent's session. **Unstable.**
        Session(SessionReference<'a>) = "session" @unstable,
    }
}

impl<'a> ToolCallContent<'a> {
    /// A content block as tool-call content.
    pub fn block(block: ContentBlock<'a>) -> Self {
        ToolCallContent::Content(Content::new(block))
    }

    /// A diff as tool-call content, with the tag that says so: the form in which diffs stand on the wire.
    pub fn diff(diff: Diff<'a>) -> Self {
        ToolCallContent::Diff(Box::new(diff))
    }

    /// Text as tool-call content.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        ToolCallContent::block(ContentBlock::text(text))
    }
}

impl<'a> From<Diff<'a>> for ToolCallContent<'a> {
    fn from(diff: Diff<'a>) -> Self {
        ToolCallContent::diff(diff)
    }
}

object! {
    /// Whether a tool call or a terminal can be cancelled by itself.
    CancelCapabilities {
        /// It can be cancelled.
        optional cancel: EmptyObject<'a> = "cancel",
    } with optional _meta
}

object! {
    /// The place of a session inside a tool call: the call started it. **Unstable.**
    SessionReference {
        /// The session.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
