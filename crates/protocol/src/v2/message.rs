//! Messages: whole updates that replace, and chunks that append.

use crate::macros::object;
use crate::v2::ContentBlock;
use crate::{Meta, Text};

object! {
    /// Creates a message or changes one that is there. Its content is replaced as a whole, also what chunks
    /// have appended; without content, what is there stays.
    MessageUpdate {
        required message_id: Text<'a> = "messageId",
        patch content: Vec<ContentBlock<'a>> = "content",
        patch meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Appends one block to a message.
    ContentChunk {
        required message_id: Text<'a> = "messageId",
        required content: ContentBlock<'a> = "content",
        /// Metadata of this chunk alone.
        optional meta: Meta<'a> = "_meta",
    }
}
