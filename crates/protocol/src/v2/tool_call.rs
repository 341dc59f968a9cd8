//! Tool calls: one update that creates or changes a call, and chunks that append to its content.

use crate::macros::{object, union};
use crate::v2::{
    Content, ContentBlock, Diff, EmptyObject, Terminal, ToolCallLocation, ToolCallStatus, ToolKind,
};
use crate::{Meta, Raw, Text};

object! {
    /// Creates a tool call or changes one that is there. Lists are replaced as a whole.
    ToolCallUpdate {
        required tool_call_id: Text<'a> = "toolCallId",
        /// The tool's own name, for programs.
        patch name: Text<'a> = "name" @newest,
        /// What the tool is doing, for people; due with the first report of a call.
        patch title: Text<'a> = "title",
        patch kind: ToolKind = "kind",
        patch status: ToolCallStatus = "status",
        patch content: Vec<ToolCallContent<'a>> = "content",
        patch locations: Vec<ToolCallLocation<'a>> = "locations",
        patch raw_input: Raw<'a> = "rawInput",
        patch raw_output: Raw<'a> = "rawOutput",
        /// What the client may ask of this call.
        patch capabilities: CancelCapabilities<'a> = "capabilities" @newest,
        patch meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Appends one item to a tool call's content.
    ToolCallContentChunk {
        required tool_call_id: Text<'a> = "toolCallId",
        required content: ToolCallContent<'a> = "content",
        /// Metadata of this chunk alone.
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// One item of a tool call's content.
    ToolCallContent by "type" {
        Content(Content<'a>) = "content",
        Diff(Box<Diff<'a>>) = "diff",
        Terminal(Terminal<'a>) = "terminal" @newest,
    }
}

impl<'a> ToolCallContent<'a> {
    /// A content block as tool-call content.
    pub fn block(block: ContentBlock<'a>) -> Self {
        ToolCallContent::Content(Content::new(block))
    }

    /// A diff as tool-call content.
    pub fn diff(diff: Diff<'a>) -> Self {
        ToolCallContent::Diff(Box::new(diff))
    }

    /// Text as tool-call content.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        ToolCallContent::block(ContentBlock::text(text))
    }
}

object! {
    /// Whether a tool call or a terminal can be cancelled by itself.
    CancelCapabilities {
        optional cancel: EmptyObject<'a> = "cancel",
        optional meta: Meta<'a> = "_meta",
    }
}
