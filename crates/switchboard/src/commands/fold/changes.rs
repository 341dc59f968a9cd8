//! The change feed as JSON, one object per update.

use serde_json::{Value, json};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat};
use switchboard_session::{
    Change, ContentChange, Conversation, EntryChange, FieldChange, RequestEvent, Session, Step,
};

pub(crate) fn to_json(conversation: &Conversation, step: &Step, line: u64) -> Value {
    let Some((id, session)) = conversation.session_at(step.session) else { return Value::Null };
    let changes: Vec<_> = step.changes.iter().map(|change| change_json(session, change)).collect();
    // All messages of a batch have been applied by now.
    let revision = if changes.is_empty() { session.revision() } else { step.changes.revision() };
    json!({"line": line, "sessionId": id, "revision": revision, "changes": changes})
}

fn change_json(session: &Session, change: &Change) -> Value {
    match change {
        Change::Entry(change) => entry_json(session, change),
        Change::State => json!({
            "change": "state",
            "state": session.state().map(|state| state.tag().to_owned()),
            "stopReason": session.stop_reason().map(|reason| reason.as_str().to_owned()),
        }),
        Change::Title => json!({"change": "title", "title": session.title()}),
        Change::Info => json!({"change": "info"}),
        Change::Commands => json!({"change": "commands", "count": session.commands().len()}),
        Change::ConfigOptions => json!({"change": "config_options", "count": session.config_options().len()}),
        Change::Usage => json!({"change": "usage"}),
        Change::Plan { index, created } => {
            let id = session.plans().nth(*index).map(|plan| plan.id().to_owned());
            json!({"change": "plan", "index": index, "planId": id, "created": created})
        }
        Change::PlanRemoved { index } => json!({"change": "plan_removed", "index": index}),
        Change::Permission { index, event } => {
            let id = session.permission_at(*index).map(|permission| id_json(permission.id()));
            json!({"change": "permission", "index": index, "requestId": id, "event": event_name(*event)})
        }
        Change::Elicitation { index, event } => {
            let id = session.elicitations().nth(*index).map(|elicitation| id_json(elicitation.id()));
            json!({"change": "elicitation", "index": index, "requestId": id, "event": event_name(*event)})
        }
        Change::Notice => json!({
            "change": "notice",
            "title": session.notices().last().map(|notice| notice.title.to_string()),
        }),
        Change::Unknown { index } => {
            let tag = session.unknown().nth(*index).map(|unknown| unknown.tag.clone());
            json!({"change": "unknown", "index": index, "sessionUpdate": tag})
        }
        Change::Replayed => json!({"change": "replayed", "entries": session.len()}),
    }
}

fn entry_json(session: &Session, change: &EntryChange) -> Value {
    let mut object = json!({
        "change": "entry",
        "position": change.position,
        "type": change.kind.as_str(),
        "id": session.entry(change.position).map(|entry| entry.id().to_owned()),
        "created": change.created,
    });
    match change.content {
        ContentChange::Kept => {}
        ContentChange::Appended(count) => object["appended"] = json!(count),
        ContentChange::Replaced(count) => object["replaced"] = json!(count),
    }
    for (name, wanted) in [("set", FieldChange::Set), ("cleared", FieldChange::Cleared)] {
        let fields = change.fields.iter().filter(|(_, change)| *change == wanted);
        let keys: Vec<_> = fields.map(|(field, _)| field.key()).collect();
        if !keys.is_empty() {
            object[name] = json!(keys);
        }
    }
    object
}

fn event_name(event: RequestEvent) -> &'static str {
    match event {
        RequestEvent::Opened => "opened",
        RequestEvent::Answered => "answered",
        RequestEvent::Cancelled => "cancelled",
        RequestEvent::Completed => "completed",
        RequestEvent::Changed => "changed",
    }
}

fn id_json(id: &RequestId<'_>) -> Value {
    serde_json::from_str(&id.encode(WireFormat::Any)).unwrap_or_default()
}
