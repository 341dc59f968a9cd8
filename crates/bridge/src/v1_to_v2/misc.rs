//! Plans, commands, options, usage, notices, compactions, and what nobody knows.

use switchboard_protocol::{Field, Text, Wire, WireFormat, v1, v2};

use super::{Session, Support};
use crate::convert::{content, misc};
use crate::loss::{At, Notes, Severity};
use crate::shared::Shared;
use crate::{Policy, Side};

/// How many plans of a session are remembered.
const PLANS: usize = 64;

impl Session {
    pub(super) fn other_update(
        &mut self,
        id: &str,
        update: v2::SessionUpdate<'_>,
        support: &Support,
        shared: &mut Shared,
    ) {
        use v2::SessionUpdate as Update;
        let tag = update.tag().to_owned();
        let wire = match update {
            Update::PlanUpdate(update) => return self.plan(id, *update, shared),
            Update::AvailableCommandsUpdate(update) => {
                return self.commands(id, update.available_commands, shared);
            }
            Update::ConfigOptionUpdate(update) => {
                let before = self.current_mode();
                let (_, options) = self.take_options(id, Some(update.config_options), support, shared);
                let mut wire = v1::ConfigOptionUpdate::new(options.unwrap_or_default());
                wire.meta = update.meta;
                let wire = v1::SessionUpdate::ConfigOptionUpdate(wire);
                let params = v1::SessionNotification::new(Text::Borrowed(id), wire);
                shared.send_update(Side::Client, &params, WireFormat::V1);
                return self.tell_mode(id, before.as_deref(), shared);
            }
            Update::SessionInfoUpdate(mut update) => {
                if update.meta.is_clear() {
                    self.lose(id, &tag, "_meta", "version 1 cannot clear metadata", Severity::Minor, shared);
                    update.meta = Field::Keep;
                }
                v1::SessionUpdate::SessionInfoUpdate(update)
            }
            Update::UsageUpdate(mut update) => {
                if update.cost.is_clear() {
                    self.lose(id, &tag, "cost", "version 1 cannot clear the cost", Severity::Minor, shared);
                    update.cost = Field::Keep;
                }
                v1::SessionUpdate::UsageUpdate(update)
            }
            Update::Notice(notice) => {
                if !support.notices {
                    return self.notice(id, &notice, shared);
                }
                v1::SessionUpdate::Notice(notice)
            }
            Update::CompactionUpdate(mut update) if support.compaction => {
                if let Field::Set(blocks) = update.summary {
                    let mut notes = Notes::default();
                    let at = At::key("summary");
                    let convert = |(index, block)| content::to_v1(block, &at.item(index), &mut notes).ok();
                    let blocks = blocks.into_iter().enumerate().filter_map(convert).collect();
                    update.summary = Field::Set(blocks);
                    shared.note(Some(id), &tag, notes.entries, Side::Client);
                }
                v1::SessionUpdate::CompactionUpdate(update)
            }
            Update::CompactionSummaryChunk(mut chunk) if support.compaction => {
                let mut notes = Notes::default();
                let block = content::to_v1(chunk.content, &At::key("content"), &mut notes);
                shared.note(Some(id), &tag, notes.entries, Side::Client);
                let Ok(block) = block else { return };
                chunk.content = block;
                v1::SessionUpdate::CompactionSummaryChunk(chunk)
            }
            Update::CompactionUpdate(_) | Update::CompactionSummaryChunk(_) => {
                let reason = "the client takes no news of compactions";
                return self.lose(id, &tag, "update", reason, Severity::Minor, shared);
            }
            other => {
                let payload = other.encode(WireFormat::Any);
                let shown: String = payload.chars().take(400).collect();
                let reason = format!("version 1 has no updates of this kind: {shown}");
                return self.lose(id, &tag, "update", reason, Severity::Major, shared);
            }
        };
        let params = v1::SessionNotification::new(Text::Borrowed(id), wire);
        shared.send_update(Side::Client, &params, WireFormat::V1);
    }

    fn plan(&mut self, id: &str, update: v2::PlanUpdate<'_>, shared: &mut Shared) {
        let items = match update.plan {
            v2::PlanUpdateContent::Items(items) => items,
            v2::PlanUpdateContent::Unknown(unknown) => {
                let reason = format!("version 1 has no plans of type \"{}\"", unknown.tag);
                self.lose(id, "plan_update", "plan", reason, Severity::Major, shared);
                if let Some(text) = unknown.text("content").filter(|_| shared.options.policy != Policy::Quiet)
                {
                    let words = format!("[plan]\n\n{text}");
                    self.say(id, &words, shared);
                }
                return;
            }
        };
        let mut notes = Notes::default();
        let entries = misc::entries_to_v1(items.entries, &At::key("plan.entries"), &mut notes);
        shared.note(Some(id), "plan_update", notes.entries, Side::Client);
        let Ok(entries) = entries else { return };
        let (plan_id, entries) = (items.plan_id.into_owned(), entries.into_owned());
        match self.plans.iter_mut().find(|(known, _)| *known == plan_id) {
            Some((_, known)) => *known = entries,
            None => {
                if self.plans.len() >= PLANS {
                    self.plans.remove(0);
                }
                if !self.plans.is_empty() {
                    let reason = "version 1 has one plan; several are shown one after the other";
                    self.lose(id, "plan_update", "plan.planId", reason, Severity::Minor, shared);
                } else if plan_id != "main" {
                    let reason = "version 1 has one plan, without an id";
                    self.lose(id, "plan_update", "plan.planId", reason, Severity::Minor, shared);
                }
                self.plans.push((plan_id, entries));
            }
        }
        let entries: Vec<_> = self.plans.iter().flat_map(|(_, entries)| entries.iter().cloned()).collect();
        let mut wire = v1::Plan::new(entries);
        wire.meta = update.meta.or(items.meta);
        let params = v1::SessionNotification::new(Text::Borrowed(id), v1::SessionUpdate::Plan(wire));
        shared.send_update(Side::Client, &params, WireFormat::V1);
    }

    fn notice(&mut self, id: &str, notice: &v2::Notice<'_>, shared: &mut Shared) {
        let reason = "the client takes no notices; it is shown as a message";
        self.lose(id, "notice", "update", reason, Severity::Minor, shared);
        let mut words = format!("[{}] {}", notice.severity, &*notice.title);
        if let Some(description) = &notice.description {
            words.push_str("\n\n");
            words.push_str(description);
        }
        self.say(id, &words, shared);
    }
}
