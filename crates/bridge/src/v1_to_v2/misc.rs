//! Plans, commands, options, usage, notices, compactions, and what nobody knows.

use switchboard_protocol::{Wire, WireFormat, v1, v2};

use super::{Session, Support};
use crate::Policy;
use crate::convert::message::Rest;
use crate::convert::meta::{self, Origin};
use crate::convert::{lists, update};
use crate::loss::Severity;
use crate::shared::Shared;

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
        match update {
            Update::PlanUpdate(update) => self.plan(id, *update, shared),
            Update::ConfigOptionUpdate(update) => self.options_update(id, update, support, shared),
            Update::Notice(notice) if !support.notices => self.notice(id, *notice, shared),
            Update::CompactionUpdate(_) | Update::CompactionSummaryChunk(_) if !support.compaction => {
                let reason = "the client takes no news of compactions";
                self.lose(id, &tag, "/params/update", reason, Severity::Minor, shared);
            }
            other => match shared.convert_update(id, &tag, |cx| update::to_v1(other, cx)) {
                Some(Ok(wire)) => shared.update_v1(id, wire),
                Some(Err(unknown)) => {
                    let payload = unknown.encode(WireFormat::Any);
                    let shown: String = payload.chars().take(400).collect();
                    let reason = format!("version 1 has no updates of this kind: {shown}");
                    self.lose(id, &tag, "/params/update", reason, Severity::Major, shared);
                }
                None => {}
            },
        }
    }

    fn options_update(
        &mut self,
        id: &str,
        update: v2::ConfigOptionUpdate<'_>,
        support: &Support,
        shared: &mut Shared,
    ) {
        let before = self.current_mode();
        self.options = update.config_options.clone().into_owned();
        let converted = shared.convert_update(id, "config_option_update", |cx| {
            update::options_update_to_v1(update, support.booleans, cx)
        });
        if let Some(wire) = converted {
            shared.update_v1(id, v1::SessionUpdate::ConfigOptionUpdate(wire));
        }
        self.tell_mode(id, before.as_deref(), shared);
    }

    fn plan(&mut self, id: &str, update: v2::PlanUpdate<'_>, shared: &mut Shared) {
        let plan = match shared.convert_update(id, "plan_update", |cx| lists::plan_to_v1(update, cx)) {
            Some(Ok(plan)) => plan,
            Some(Err(unknown)) => {
                if let Some(text) = unknown.text("content").filter(|_| shared.options.policy != Policy::Quiet)
                {
                    self.say(id, &format!("[plan]\n\n{text}"), Rest::default(), shared);
                }
                return;
            }
            None => return,
        };
        let (plan_id, entries) = (plan.id.into_owned(), plan.entries.into_owned());
        match self.plans.iter_mut().find(|(known, _)| *known == plan_id) {
            Some((_, known)) => *known = entries,
            None => {
                if self.plans.len() >= PLANS {
                    self.plans.remove(0);
                }
                let pointer = "/params/update/plan/planId";
                if !self.plans.is_empty() {
                    let reason = "version 1 has one plan; several are shown one after the other";
                    self.lose(id, "plan_update", pointer, reason, Severity::Minor, shared);
                } else if plan_id != "main" {
                    let reason = "version 1 has one plan, without an id";
                    self.lose(id, "plan_update", pointer, reason, Severity::Minor, shared);
                }
                self.plans.push((plan_id, entries));
            }
        }
        let entries = self.plans.iter().flat_map(|(_, entries)| entries.iter().cloned()).collect();
        let Rest { meta, extra } = plan.rest;
        shared.update_v1(id, v1::SessionUpdate::Plan(v1::Plan { entries, meta, extra }));
    }

    fn notice(&mut self, id: &str, notice: v2::Notice<'_>, shared: &mut Shared) {
        let reason = "the client takes no notices; it is shown as a message";
        self.lose(id, "notice", "/params/update", reason, Severity::Minor, shared);
        let v2::Notice { severity, title, description, mut meta, mut extra } = notice;
        let mut words = format!("[{severity}] {}", &*title);
        if let Some(description) = &description {
            words.push_str("\n\n");
            words.push_str(description);
        }
        meta::set_apart(&mut meta, Origin::V2, &mut extra, &["content", "messageId"]);
        self.say(id, &words, Rest { meta, extra }, shared);
    }
}
