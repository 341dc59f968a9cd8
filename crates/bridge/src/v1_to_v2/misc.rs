//! Plans, commands, options, usage, notices, compactions and unknown updates.

use switchboard_acp::extensions::MEMORY_LOST;
use switchboard_acp::{Field, Wire, WireFormat, v1, v2};

use super::Active;
use crate::LossPolicy;
use crate::convert::message::Rest;
use crate::convert::meta::{self, Origin};
use crate::convert::{lists, update};
use crate::loss::Severity;

/// Maximum number of tracked plans per session.
const PLANS: usize = 64;

/// Returns whether a compaction says that the agent has lost all earlier context.
fn is_memory_loss(update: &v2::CompactionUpdate<'_>) -> bool {
    match &update.meta {
        Field::Set(meta) => MEMORY_LOST.read(meta) == Some(true),
        _ => false,
    }
}

impl Active<'_> {
    pub(super) fn other_update(&mut self, update: v2::SessionUpdate<'_>) {
        use v2::SessionUpdate as Update;
        let tag = update.tag().to_owned();
        match update {
            // Clients that announced a capability get the update itself; the others get the closest
            // equivalent.
            Update::PlanUpdate(update) if self.support.plans => {
                let wire = self.convert_update(&tag, |cx| lists::named_plan_to_v1(*update, cx));
                if let Some(wire) = wire {
                    self.update(v1::SessionUpdate::PlanUpdate(Box::new(wire)));
                }
            }
            Update::PlanUpdate(update) => self.plan(*update),
            Update::PlanRemoved(removed) if !self.support.plans => self.plan_removed(&removed),
            Update::ConfigOptionUpdate(update) => self.options_update(update),
            Update::Notice(notice) if !self.support.notices => self.notice(*notice),
            Update::CompactionUpdate(update) if !self.support.compaction && is_memory_loss(&update) => {
                self.memory_loss(&update);
            }
            Update::CompactionUpdate(_) | Update::CompactionSummaryChunk(_) if !self.support.compaction => {
                let reason = "the client does not support compaction updates";
                self.report_loss(&tag, "/params/update", reason, Severity::Minor);
            }
            other => match self.convert_update(&tag, |cx| update::to_v1(other, cx)) {
                Some(Ok(wire)) => self.update(wire),
                Some(Err(unknown)) => self.report_lost_kind(&tag, &unknown),
                None => {}
            },
        }
    }

    fn report_lost_kind(&mut self, tag: &str, update: &v2::SessionUpdate<'_>) {
        let payload = update.encode(WireFormat::Any);
        let shown: String = payload.chars().take(400).collect();
        let reason = format!("version 1 has no updates of this kind: {shown}");
        self.report_loss(tag, "/params/update", reason, Severity::Major);
    }

    /// Removes a plan that was shown as part of the only plan of version 1.
    fn plan_removed(&mut self, removed: &v2::unstable::PlanRemoved<'_>) {
        let v2::unstable::PlanRemoved { plan_id, meta, extra, more: _ } = removed;
        let before = self.session.plans.len();
        self.session.plans.retain(|(known, _)| *known != **plan_id);
        // The plan was evicted, or sent in a form that version 1 does not have.
        if self.session.plans.len() == before {
            let reason = "the client has no such plan";
            return self.report_loss("plan_removed", "/params/update", reason, Severity::Minor);
        }
        self.send_plans(Rest { meta: meta.clone(), extra: extra.clone() });
    }

    fn send_plans(&mut self, rest: Rest<'_>) {
        let entries = self.session.plans.iter().flat_map(|(_, entries)| entries.iter().cloned()).collect();
        let Rest { meta, extra } = rest;
        self.update(v1::SessionUpdate::Plan(v1::Plan { entries, meta, extra, more: switchboard_acp::More }));
    }

    fn options_update(&mut self, update: v2::ConfigOptionUpdate<'_>) {
        let before = self.current_mode();
        // Stored before the conversion, which consumes the update.
        self.session.options.set(update.config_options.clone().into_owned());
        let booleans = self.support.booleans;
        let converted = self
            .convert_update("config_option_update", |cx| update::options_update_to_v1(update, booleans, cx));
        if let Some(wire) = converted {
            self.update(v1::SessionUpdate::ConfigOptionUpdate(wire));
        }
        // Modes are an option in version 2 and an update of their own in version 1.
        self.send_mode(before.as_deref());
    }

    fn plan(&mut self, update: v2::PlanUpdate<'_>) {
        let plan = match self.convert_update("plan_update", |cx| lists::plan_to_v1(update, cx)) {
            Some(Ok(plan)) => plan,
            Some(Err(other)) => {
                // Plans that are not lists of steps are shown as text.
                if let Some(text) =
                    lists::plan_in_words(&other).filter(|_| self.context.options.policy != LossPolicy::Quiet)
                {
                    self.say(&format!("[plan]\n\n{text}"), Rest::default());
                }
                return;
            }
            None => return,
        };
        let (plan_id, entries) = (plan.id.into_owned(), plan.entries.into_owned());
        match self.session.plans.iter_mut().find(|(known, _)| *known == plan_id) {
            Some((_, known)) => *known = entries,
            None => {
                // The oldest plan is dropped; all others are sent together below.
                if self.session.plans.len() >= PLANS {
                    self.session.plans.remove(0);
                }
                let pointer = "/params/update/plan/planId";
                if !self.session.plans.is_empty() {
                    let reason = "version 1 has one plan; several are shown one after the other";
                    self.report_loss("plan_update", pointer, reason, Severity::Minor);
                } else if plan_id != "main" {
                    let reason = "version 1 has one plan, without an id";
                    self.report_loss("plan_update", pointer, reason, Severity::Minor);
                }
                self.session.plans.push((plan_id, entries));
            }
        }
        self.send_plans(plan.rest);
    }

    /// Shows that the agent has lost all earlier context.
    fn memory_loss(&mut self, update: &v2::CompactionUpdate<'_>) {
        let reason = "the client does not support compaction updates; it is shown as a message";
        self.report_loss("compaction_update", "/params/update", reason, Severity::Minor);
        let summary = match &update.summary {
            Field::Set(summary) => summary.iter().filter_map(v2::ContentBlock::as_text).collect(),
            _ => String::new(),
        };
        self.say(&format!("[warning] {summary}"), Rest::default());
    }

    fn notice(&mut self, notice: v2::Notice<'_>) {
        let reason = "the client does not support notices; it is shown as a message";
        self.report_loss("notice", "/params/update", reason, Severity::Minor);
        let v2::Notice { severity, title, description, mut meta, mut extra, more: _ } = notice;
        let mut words = format!("[{severity}] {}", &*title);
        if let Some(description) = &description {
            words.push_str("\n\n");
            words.push_str(description);
        }
        meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["content", "messageId"]);
        self.say(&words, Rest { meta, extra });
    }
}
