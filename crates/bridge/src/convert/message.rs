//! Messages of either side. Version 2 can send and replace complete messages; version 1 can only append
//! chunks.

use switchboard_acp::{Extra, Field, Meta, Text, v1, v2};

use crate::Error;
use crate::convert::{Conversion, content, meta};

/// Converts a chunk to version 1.
pub(crate) fn chunk_to_v1<'a>(
    chunk: v2::ContentChunk<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::ContentChunk<'a>, Error> {
    let v2::ContentChunk { message_id, content, meta, extra, more: _ } = chunk;
    let content = content::to_v1(content, &mut cx.key("content"))?;
    Ok(v1::ContentChunk { content, message_id: Some(message_id), meta, extra, more: switchboard_acp::More })
}

/// Converts a chunk to version 2. Fails if it has no message id.
pub(crate) fn chunk_to_v2<'a>(
    chunk: v1::ContentChunk<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ContentChunk<'a>, Error> {
    let v1::ContentChunk { content, message_id, meta, extra, more: _ } = chunk;
    let Some(message_id) = message_id else {
        let reason = "version 2 requires a message id, and this chunk has none";
        return Err(cx.key("messageId").error(reason));
    };
    Ok(v2::ContentChunk {
        message_id,
        content: content::to_v2(content, &mut cx.key("content"))?,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// A complete message for version 1, which has none: blocks that were not sent before become chunks.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) id: Text<'a>,
    pub(crate) content: Field<Vec<v1::ContentBlock<'a>>>,
    pub(crate) rest: Rest<'a>,
}

/// Metadata and unknown keys of each chunk of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rest<'a> {
    pub(crate) meta: Option<Meta<'a>>,
    pub(crate) extra: Extra<'a>,
}

impl Rest<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.meta.is_none() && self.extra.is_empty()
    }
}

pub(crate) fn message_to_v1<'a>(
    message: v2::MessageUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Message<'a>, Error> {
    let v2::MessageUpdate { message_id, content, meta, extra, more: _ } = message;
    let content = match content {
        Field::Set(blocks) => Field::Set(cx.key("content").each(blocks, content::to_v1)?),
        Field::Clear => Field::Clear,
        Field::Keep => Field::Keep,
    };
    let meta = match meta {
        Field::Clear => {
            cx.key("_meta").report_loss(crate::Severity::Minor, "version 1 cannot clear metadata")?;
            None
        }
        meta => meta::to_v1(meta, cx),
    };
    Ok(Message { id: message_id, content, rest: Rest { meta, extra } })
}
