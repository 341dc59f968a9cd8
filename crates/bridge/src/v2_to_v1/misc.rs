//! Plans, commands, options, usage, notices, compactions, and what nobody knows.

use switchboard_protocol::{Field, v1, v2};

use super::{Session, tell};
use crate::Side;
use crate::convert::misc;
use crate::loss::Severity;
use crate::shared::Shared;

impl Session {
    pub(super) fn other_update(
        &mut self,
        id: &str,
        update: v1::SessionUpdate<'_>,
        keeps: bool,
        shared: &mut Shared,
    ) {
        use v1::SessionUpdate as Update;
        let wire = match update {
            Update::Plan(plan) => {
                let mut items = v2::PlanItems::new("main", plan.entries);
                items.extra = plan.extra;
                let mut wire = v2::PlanUpdate::new(v2::PlanUpdateContent::Items(items));
                wire.meta = plan.meta;
                v2::SessionUpdate::PlanUpdate(Box::new(wire))
            }
            Update::AvailableCommandsUpdate(update) => {
                let commands = misc::commands_to_v2(update.available_commands);
                let mut wire = v2::AvailableCommandsUpdate::new(commands);
                (wire.meta, wire.extra) = (update.meta, update.extra);
                v2::SessionUpdate::AvailableCommandsUpdate(wire)
            }
            Update::CurrentModeUpdate(update) => {
                if !self.change_mode(&update.current_mode_id) {
                    let reason = "the agent changed its mode, but has told of no modes";
                    return shared.lose(
                        Some(id),
                        "current_mode_update",
                        "currentModeId",
                        reason,
                        Severity::Minor,
                        Side::Client,
                    );
                }
                let mut wire = v2::ConfigOptionUpdate::new(self.options.clone());
                wire.meta = update.meta;
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            Update::ConfigOptionUpdate(update) => {
                let options = self.take_options(id, None, Some(update.config_options), shared);
                let mut wire = v2::ConfigOptionUpdate::new(options.unwrap_or_default());
                (wire.meta, wire.extra) = (update.meta, update.extra);
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            Update::SessionInfoUpdate(update) => v2::SessionUpdate::SessionInfoUpdate(update),
            Update::UsageUpdate(mut update) => {
                // `null` is the same as missing in version 1.
                if update.cost.is_clear() {
                    update.cost = Field::Keep;
                }
                v2::SessionUpdate::UsageUpdate(update)
            }
            Update::Notice(notice) => v2::SessionUpdate::Notice(notice),
            Update::CompactionUpdate(update) => v2::SessionUpdate::CompactionUpdate(update),
            Update::CompactionSummaryChunk(chunk) => v2::SessionUpdate::CompactionSummaryChunk(chunk),
            // Version 2 keeps what it does not know.
            Update::Unknown(unknown) => v2::SessionUpdate::Unknown(unknown),
            Update::UserMessageChunk(_)
            | Update::AgentMessageChunk(_)
            | Update::AgentThoughtChunk(_)
            | Update::ToolCall(_)
            | Update::ToolCallUpdate(_) => return,
        };
        tell(id, self, wire, keeps, shared);
    }
}
