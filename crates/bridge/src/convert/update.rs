//! Session updates whose translation does not depend on earlier messages.

use switchboard_acp::{Field, v1, v2};

use crate::Error;
use crate::convert::{Conversion, config, content, lists, meta, subagent};
use crate::loss::Severity;

/// Converts an update to version 1 if no state is needed; returns it unchanged otherwise.
pub(crate) fn to_v1<'a>(
    update: v2::SessionUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Result<v1::SessionUpdate<'a>, v2::SessionUpdate<'a>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    Ok(Ok(match update {
        V2::AvailableCommandsUpdate(update) => {
            V1::AvailableCommandsUpdate(lists::commands_update_to_v1(update, cx)?)
        }
        // Both versions share the types from here on, so fields that are not named carry over.
        V2::SessionInfoUpdate(mut update) => {
            update.meta = meta::to_v1(update.meta, cx).map_or(Field::Keep, Field::Set);
            V1::SessionInfoUpdate(update)
        }
        V2::UsageUpdate(mut update) => {
            if update.cost.is_clear() {
                cx.key("cost").omit(Severity::Minor, "version 1 cannot clear the cost");
                update.cost = Field::Keep;
            }
            V1::UsageUpdate(update)
        }
        V2::Notice(notice) => V1::Notice(notice),
        V2::SubagentUpdate(update) => V1::SubagentUpdate(Box::new(subagent::to_v1(*update, cx)?)),
        V2::SessionMessage(mut message) => {
            message.content = blocks("content", message.content, content::to_v1, cx)?;
            V1::SessionMessage(message)
        }
        V2::SessionMessageChunk(mut chunk) => {
            chunk.content = content::to_v1(chunk.content, &mut cx.key("content"))?;
            V1::SessionMessageChunk(chunk)
        }
        V2::PlanRemoved(removed) => V1::PlanRemoved(removed),
        V2::CompactionUpdate(mut update) => {
            update.summary = blocks("summary", update.summary, content::to_v1, cx)?;
            V1::CompactionUpdate(update)
        }
        V2::CompactionSummaryChunk(mut chunk) => {
            chunk.content = content::to_v1(chunk.content, &mut cx.key("content"))?;
            V1::CompactionSummaryChunk(chunk)
        }
        other => return Ok(Err(other)),
    }))
}

/// Converts an update to version 2 if no state is needed; returns it unchanged otherwise.
pub(crate) fn to_v2<'a>(
    update: v1::SessionUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Result<v2::SessionUpdate<'a>, v1::SessionUpdate<'a>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    Ok(Ok(match update {
        V1::Plan(plan) => V2::PlanUpdate(Box::new(lists::plan_to_v2(plan))),
        V1::AvailableCommandsUpdate(update) => {
            V2::AvailableCommandsUpdate(lists::commands_update_to_v2(update))
        }
        V1::SessionInfoUpdate(update) => V2::SessionInfoUpdate(update),
        V1::UsageUpdate(mut update) => {
            // `null` means absent in version 1.
            if update.cost.is_clear() {
                update.cost = Field::Keep;
            }
            V2::UsageUpdate(update)
        }
        V1::Notice(notice) => V2::Notice(notice),
        V1::SubagentUpdate(update) => V2::SubagentUpdate(Box::new(subagent::to_v2(*update))),
        V1::SessionMessage(mut message) => {
            message.content = blocks("content", message.content, content::to_v2, cx)?;
            V2::SessionMessage(message)
        }
        V1::SessionMessageChunk(mut chunk) => {
            chunk.content = content::to_v2(chunk.content, &mut cx.key("content"))?;
            V2::SessionMessageChunk(chunk)
        }
        V1::PlanUpdate(update) => V2::PlanUpdate(Box::new(lists::named_plan_to_v2(*update))),
        V1::PlanRemoved(removed) => V2::PlanRemoved(removed),
        V1::CompactionUpdate(mut update) => {
            update.summary = blocks("summary", update.summary, content::to_v2, cx)?;
            V2::CompactionUpdate(update)
        }
        V1::CompactionSummaryChunk(mut chunk) => {
            chunk.content = content::to_v2(chunk.content, &mut cx.key("content"))?;
            V2::CompactionSummaryChunk(chunk)
        }
        // Version 2 keeps unknown variants.
        V1::Unknown(unknown) => V2::Unknown(unknown),
        other => return Ok(Err(other)),
    }))
}

/// Converts the blocks of a summary or a message below `key`.
fn blocks<'a>(
    key: &str,
    blocks: Field<Vec<v2::ContentBlock<'a>>>,
    convert: fn(v2::ContentBlock<'a>, &mut Conversion<'_>) -> Result<v2::ContentBlock<'a>, Error>,
    cx: &mut Conversion<'_>,
) -> Result<Field<Vec<v2::ContentBlock<'a>>>, Error> {
    Ok(match blocks {
        Field::Set(blocks) => Field::Set(cx.key(key).each(blocks, convert)?),
        other => other,
    })
}

/// Converts the list of options to version 1. `booleans`: the client supports boolean options.
pub(crate) fn options_update_to_v1<'a>(
    update: v2::ConfigOptionUpdate<'a>,
    booleans: bool,
    cx: &mut Conversion<'_>,
) -> Result<v1::ConfigOptionUpdate<'a>, Error> {
    let v2::ConfigOptionUpdate { config_options, meta, extra, more: _ } = update;
    let config_options = config::to_v1(config_options, booleans, &mut cx.key("configOptions"))?;
    Ok(v1::ConfigOptionUpdate { config_options, meta, extra, more: switchboard_acp::More })
}

/// Converts the list of options to version 2.
pub(crate) fn options_update_to_v2<'a>(
    update: v1::ConfigOptionUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ConfigOptionUpdate<'a>, Error> {
    let v1::ConfigOptionUpdate { config_options, meta, extra, more: _ } = update;
    let config_options = config::to_v2(config_options, &mut cx.key("configOptions"))?;
    Ok(v2::ConfigOptionUpdate { config_options, meta, extra, more: switchboard_acp::More })
}
