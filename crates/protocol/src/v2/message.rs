//! Messages: whole updates that replace, and chunks that append.

use crate::Text;
use crate::macros::object;
use crate::v2::ContentBlock;

object! {
    /// Creates or changes a message. Content replaces all previous content, including appended chunks.
    /// Without content, the previous content stays.
    MessageUpdate {
        /// Id of the message. An unknown id creates a message.
        required message_id: Text<'a> = "messageId",
        /// Complete content.
        patch content: Vec<ContentBlock<'a>> = "content",
    } with patch _meta
}

object! {
    /// Appends one block to a message.
    ContentChunk {
        /// Id of the message.
        required message_id: Text<'a> = "messageId",
        /// The block.
        required content: ContentBlock<'a> = "content",
        /// Metadata of this chunk only.
    } with optional _meta
}
