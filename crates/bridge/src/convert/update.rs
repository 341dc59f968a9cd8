//! Updates of a session that mean the same whatever was said before.

use switchboard_protocol::{Field, v1, v2};

use crate::Error;
use crate::convert::{Conversion, config, content, lists, meta};
use crate::loss::Severity;

/// An update as version 1 has it, where no memory is needed for it; else it is given back.
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
        V2::SessionInfoUpdate(update) => {
            let v2::SessionInfoUpdate { title, updated_at, meta, extra } = *update;
            let meta = meta::to_v1(meta, cx).map_or(Field::Keep, Field::Set);
            V1::SessionInfoUpdate(Box::new(v1::SessionInfoUpdate { title, updated_at, meta, extra }))
        }
        V2::UsageUpdate(update) => {
            let v2::UsageUpdate { used, size, mut cost, meta, extra } = *update;
            if cost.is_clear() {
                cx.key("cost").omit(Severity::Minor, "version 1 cannot clear the cost");
                cost = Field::Keep;
            }
            V1::UsageUpdate(Box::new(v1::UsageUpdate { used, size, cost, meta, extra }))
        }
        V2::Notice(notice) => V1::Notice(notice),
        V2::CompactionUpdate(update) => {
            let v2::CompactionUpdate { compaction_id, status, summary, error, meta, extra } = *update;
            let summary = match summary {
                Field::Set(blocks) => Field::Set(cx.key("summary").each(blocks, content::to_v1)?),
                other => other,
            };
            let update = v1::CompactionUpdate { compaction_id, status, summary, error, meta, extra };
            V1::CompactionUpdate(Box::new(update))
        }
        V2::CompactionSummaryChunk(chunk) => {
            let v2::CompactionSummaryChunk { compaction_id, content, meta, extra } = chunk;
            let content = content::to_v1(content, &mut cx.key("content"))?;
            V1::CompactionSummaryChunk(v1::CompactionSummaryChunk { compaction_id, content, meta, extra })
        }
        other => return Ok(Err(other)),
    }))
}

/// An update as version 2 has it, where no memory is needed for it; else it is given back.
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
        V1::UsageUpdate(update) => {
            let v1::UsageUpdate { used, size, mut cost, meta, extra } = *update;
            // `null` is the same as missing in version 1.
            if cost.is_clear() {
                cost = Field::Keep;
            }
            V2::UsageUpdate(Box::new(v2::UsageUpdate { used, size, cost, meta, extra }))
        }
        V1::Notice(notice) => V2::Notice(notice),
        V1::CompactionUpdate(update) => {
            let v1::CompactionUpdate { compaction_id, status, summary, error, meta, extra } = *update;
            let summary = match summary {
                Field::Set(blocks) => Field::Set(cx.key("summary").each(blocks, content::to_v2)?),
                other => other,
            };
            let update = v2::CompactionUpdate { compaction_id, status, summary, error, meta, extra };
            V2::CompactionUpdate(Box::new(update))
        }
        V1::CompactionSummaryChunk(chunk) => {
            let v1::CompactionSummaryChunk { compaction_id, content, meta, extra } = chunk;
            let content = content::to_v2(content, &mut cx.key("content"))?;
            V2::CompactionSummaryChunk(v2::CompactionSummaryChunk { compaction_id, content, meta, extra })
        }
        // Version 2 keeps what it does not know.
        V1::Unknown(unknown) => V2::Unknown(unknown),
        other => return Ok(Err(other)),
    }))
}

/// The list of options as version 1 has it. `booleans`: the client takes switches.
pub(crate) fn options_update_to_v1<'a>(
    update: v2::ConfigOptionUpdate<'a>,
    booleans: bool,
    cx: &mut Conversion<'_>,
) -> Result<v1::ConfigOptionUpdate<'a>, Error> {
    let v2::ConfigOptionUpdate { config_options, meta, extra } = update;
    let config_options = config::to_v1(config_options, booleans, &mut cx.key("configOptions"))?;
    Ok(v1::ConfigOptionUpdate { config_options, meta, extra })
}

/// The list of options as version 2 has it.
pub(crate) fn options_update_to_v2<'a>(
    update: v1::ConfigOptionUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ConfigOptionUpdate<'a>, Error> {
    let v1::ConfigOptionUpdate { config_options, meta, extra } = update;
    let config_options = config::to_v2(config_options, &mut cx.key("configOptions"))?;
    Ok(v2::ConfigOptionUpdate { config_options, meta, extra })
}
