//! Tool calls: one update that creates or changes a call, and chunks that append to its content.

use crate::macros::{object, union};
use crate::v2::{
    Content, ContentBlock, Diff, EmptyObject, Terminal, ToolCallLocation, ToolCallStatus, ToolKind,
};
use crate::{Raw, Text};

object! {
    /// Creates or changes a tool call. Lists are replaced as a whole.
    ToolCallUpdate {
        /// Id of the tool call. An unknown id creates a call.
        required tool_call_id: Text<'a> = "toolCallId",
        /// Name of the tool, for programs.
        patch name: Text<'a> = "name" @newest,
        /// Title for display. Expected in the first report of a call.
        patch title: Text<'a> = "title",
        /// Kind of tool, as a hint for display.
        patch kind: ToolKind = "kind",
        /// Status.
        patch status: ToolCallStatus = "status",
        /// Complete output.
        patch content: Vec<ToolCallContent<'a>> = "content",
        /// All files that the call works on.
        patch locations: Vec<ToolCallLocation<'a>> = "locations",
        /// Input of the tool.
        patch raw_input: Raw<'a> = "rawInput",
        /// Raw output of the tool.
        patch raw_output: Raw<'a> = "rawOutput",
        /// Actions that the client can request for this call.
        patch capabilities: CancelCapabilities<'a> = "capabilities" @newest,
    } with patch _meta
}

object! {
    /// Appends one item to a tool call's content.
    ToolCallContentChunk {
        /// Id of the tool call.
        required tool_call_id: Text<'a> = "toolCallId",
        /// The item.
        required content: ToolCallContent<'a> = "content",
        /// Metadata of this chunk only.
    } with optional _meta
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        /// A content block.
        Content(Content<'a>) = "content",
        /// Changes to files.
        Diff(Box<Diff<'a>>) = "diff",
        /// Position of a terminal.
        Terminal(Terminal<'a>) = "terminal" @newest,
        /// Position of a sub-agent's session. **Unstable.**
        Session(SessionReference<'a>) = "session" @unstable,
    }
}

impl<'a> ToolCallContent<'a> {
    /// Creates tool call content from a content block.
    pub fn block(block: ContentBlock<'a>) -> Self {
        ToolCallContent::Content(Content::new(block))
    }

    /// Creates tool call content from a diff, with its tag, which is its form on the wire.
    pub fn diff(diff: Diff<'a>) -> Self {
        ToolCallContent::Diff(Box::new(diff))
    }

    /// Creates tool call content from text.
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
    /// Support for cancelling a single tool call or terminal.
    CancelCapabilities {
        /// Cancelling is supported.
        optional cancel: EmptyObject<'a> = "cancel",
    } with optional _meta
}

object! {
    /// Position of a session inside the tool call that started it. **Unstable.**
    SessionReference {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}
