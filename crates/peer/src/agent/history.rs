//! The history of a session as updates.

use switchboard_acp::{Field, v2};
use switchboard_session::Session;

/// Returns the updates that reproduce a session, in order. Notices and lists that are sent separately are
/// left out.
pub(crate) fn updates(session: &Session) -> Vec<v2::SessionUpdate<'_>> {
    let mut all: Vec<v2::SessionUpdate<'_>> = session.entries().map(|entry| entry.to_update()).collect();
    for plan in session.plans() {
        all.push(v2::SessionUpdate::PlanUpdate(Box::new(plan.to_update())));
    }
    all.extend(session.unknown().map(|unknown| v2::SessionUpdate::Unknown(unknown.clone())));
    if session.title().is_some() {
        let info = v2::SessionInfoUpdate {
            title: session.title().map_or(Field::Keep, |title| Field::Set(title.into())),
            ..v2::SessionInfoUpdate::new()
        };
        all.push(v2::SessionUpdate::SessionInfoUpdate(Box::new(info)));
    }
    if let Some(usage) = session.usage() {
        let mut update = v2::UsageUpdate::new(usage.used, usage.size);
        update.cost = usage.cost.clone().map_or(Field::Keep, Field::Set);
        all.push(v2::SessionUpdate::UsageUpdate(Box::new(update)));
    }
    all
}
