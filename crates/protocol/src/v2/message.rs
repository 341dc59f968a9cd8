//! Messages: whole updates that replace, and chunks that append.

use crate::Text;
use crate::macros::object;
use crate::v2::ContentBlock;

object! {
    /// Creates a message or changes one that is there. Its content is replaced as a whole, also what chunks
    /// have appended; without content, what is there stays.
    MessageUpdate {
        /// The message; one that was not heard of yet is new.
        required message_id: Text<'a> = "messageId",
        /// All of its content.
        patch content: Vec<ContentBlock<'a>> = "content",
    } with patch _meta
}

object! {
    /// Appends one block to a message.
    ContentChunk {
        /// The message that it belongs to.
        required message_id: Text<'a> = "messageId",
        /// The block.
        required content: ContentBlock<'a> = "content",
        /// Metadata of this chunk alone.
    } with optional _meta
}
