//! A second, naive implementation of the protocol's rules, on plain JSON.

use serde_json::{Map, Value, json};
use switchboard_acp::{Base64, WireFormat};

pub(crate) struct Reference {
    merges: bool,
    session: Map<String, Value>,
    /// Attachments of plan updates, by plan.
    plan_updates: Vec<(Value, Map<String, Value>)>,
}

impl Reference {
    pub(crate) fn new(dialect: WireFormat) -> Self {
        let session = json!({
            "sessionId": null, "state": "idle", "stopReason": null, "title": null, "entries": [],
            "permissions": [], "plans": [], "commands": [], "configOptions": [], "usage": null, "unknown": [],
        });
        let Value::Object(session) = session else { unreachable!() };
        Reference { merges: dialect != WireFormat::Spec, session, plan_updates: Vec::new() }
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.session)
    }

    fn entry(&mut self, new: Value, key: &str) -> &mut Map<String, Value> {
        let entries = self.session["entries"].as_array_mut().unwrap();
        let is_it = |entry: &Value| entry["type"] == new["type"] && entry[key] == new[key];
        let position = entries.iter().position(is_it).unwrap_or_else(|| {
            entries.push(new);
            entries.len() - 1
        });
        entries[position].as_object_mut().unwrap()
    }

    pub(crate) fn apply(&mut self, update: &Value) {
        let merges = self.merges;
        let tag = update["sessionUpdate"].as_str().unwrap();
        match tag {
            "user_message" | "agent_message" | "agent_thought" => {
                let new = json!({"type": tag, "messageId": update["messageId"], "content": []});
                let entry = self.entry(new, "messageId");
                patch_content(entry, update);
                patch_meta(entry, update, merges);
            }
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let kind = tag.trim_end_matches("_chunk");
                let new = json!({"type": kind, "messageId": update["messageId"], "content": []});
                let entry = self.entry(new, "messageId");
                entry["content"].as_array_mut().unwrap().push(update["content"].clone());
            }
            "tool_call_update" | "tool_call_content_chunk" => {
                let new = json!({
                    "type": "tool_call", "toolCallId": update["toolCallId"],
                    "kind": "other", "status": "pending", "content": [], "locations": [],
                });
                let entry = self.entry(new, "toolCallId");
                if tag == "tool_call_content_chunk" {
                    entry["content"].as_array_mut().unwrap().push(update["content"].clone());
                    return;
                }
                patch(entry, update, "kind", json!("other"));
                patch(entry, update, "status", json!("pending"));
                patch_content(entry, update);
                patch(entry, update, "locations", json!([]));
                for key in ["title", "rawInput", "rawOutput"] {
                    patch(entry, update, key, Value::Null);
                }
                if let Some(value) = update.get("vendorKey") {
                    entry.insert("vendorKey".to_owned(), value.clone());
                }
                patch_meta(entry, update, merges);
            }
            "terminal_update" | "terminal_output_chunk" => {
                let id = &update["terminalId"];
                let new = json!({"type": "terminal", "terminalId": id, "output": {"data": ""}});
                let entry = self.entry(new, "terminalId");
                if tag == "terminal_output_chunk" {
                    let bytes = |value: &Value| Base64::parse(value.as_str().unwrap()).unwrap().to_bytes();
                    let all = [bytes(&entry["output"]["data"]), bytes(&update["data"])].concat();
                    entry["output"]["data"] = json!(Base64::from_bytes(&all).as_str());
                    return;
                }
                patch(entry, update, "output", json!({"data": ""}));
                patch(entry, update, "command", Value::Null);
                patch(entry, update, "exitStatus", Value::Null);
                patch_meta(entry, update, merges);
            }
            "state_update" => {
                self.session["state"] = update["state"].clone();
                self.session["stopReason"] = update["stopReason"].clone();
            }
            "plan_update" => {
                let plans = self.session["plans"].as_array_mut().unwrap();
                let plan = update["plan"].clone();
                let id = plan["planId"].clone();
                match plans.iter().position(|known| known["planId"] == id) {
                    Some(position) => plans[position] = plan,
                    None => plans.push(plan),
                }
                // In the order of the plans, only those with attachments.
                self.plan_updates.retain(|(known, _)| *known != id);
                if let Some(attached) = attached(update) {
                    self.plan_updates.push((id, attached));
                }
                let mut listed = Vec::new();
                for plan in self.session["plans"].as_array().unwrap() {
                    let found = self.plan_updates.iter().find(|(id, _)| *id == plan["planId"]);
                    if let Some((id, attached)) = found {
                        let mut listing = Map::from_iter([("planId".to_owned(), id.clone())]);
                        listing.extend(attached.clone());
                        listed.push(Value::Object(listing));
                    }
                }
                self.session.remove("planUpdates");
                if !listed.is_empty() {
                    self.session.insert("planUpdates".to_owned(), listed.into());
                }
            }
            "session_info_update" => {
                if let Some(title) = update.get("title") {
                    self.session["title"] = title.clone();
                }
                patch(&mut self.session, update, "updatedAt", Value::Null);
                patch_meta(&mut self.session, update, merges);
            }
            "usage_update" => {
                let mut usage = json!({"used": update["used"], "size": update["size"]});
                let cost = match update.get("cost") {
                    None if merges => self.session["usage"]["cost"].clone(),
                    None => Value::Null,
                    Some(cost) => cost.clone(),
                };
                if !cost.is_null() {
                    usage["cost"] = cost;
                }
                self.session["usage"] = usage;
            }
            "available_commands_update" => {
                self.session["commands"] = update["availableCommands"].clone();
                self.session.remove("commandsUpdate");
                if let Some(attached) = attached(update) {
                    self.session.insert("commandsUpdate".to_owned(), attached.into());
                }
            }
            _ => self.session["unknown"].as_array_mut().unwrap().push(update.clone()),
        }
    }
}

/// Returns the attachments of an update.
fn attached(update: &Value) -> Option<Map<String, Value>> {
    let keys = ["_meta", "vendorKey"].into_iter();
    let present: Map<_, _> =
        keys.filter_map(|key| Some((key.to_owned(), update.get(key)?.clone()))).collect();
    (!present.is_empty()).then_some(present)
}

fn patch(stored: &mut Map<String, Value>, update: &Value, key: &str, default: Value) {
    let value = match update.get(key) {
        None => return,
        Some(Value::Null) => default,
        Some(value) => value.clone(),
    };
    if value.is_null() {
        stored.remove(key);
    } else {
        stored.insert(key.to_owned(), value);
    }
}

/// Applies content. Equal content keeps its blocks, regardless of chunk boundaries.
fn patch_content(stored: &mut Map<String, Value>, update: &Value) {
    let blocks = |content: &Value| content.as_array().map_or(0, Vec::len);
    let content = &update["content"];
    if blocks(content) > 0 && blocks(&stored["content"]) > 0 && said(content) == said(&stored["content"]) {
        return;
    }
    patch(stored, update, "content", json!([]));
}

/// Normalizes content: plain text merged, with other blocks in between.
fn said(content: &Value) -> Vec<Value> {
    let mut said: Vec<Value> = Vec::new();
    for block in content.as_array().into_iter().flatten() {
        // A part of a tool call with metadata has more than its text.
        let is_wrapped = block["type"] == "content" && block.as_object().is_some_and(|part| part.len() == 2);
        let inner = if is_wrapped { &block["content"] } else { block };
        let text = inner["text"].as_str().filter(|text| *inner == json!({"type": "text", "text": text}));
        match (text, said.last_mut()) {
            (Some(""), _) => {}
            (Some(text), Some(Value::String(before))) => before.push_str(text),
            (Some(text), _) => said.push(json!(text)),
            (None, _) => said.push(block.clone()),
        }
    }
    said
}

fn patch_meta(stored: &mut Map<String, Value>, update: &Value, merges: bool) {
    let Some(Value::Object(meta)) = update.get("_meta").filter(|_| merges) else {
        return patch(stored, update, "_meta", Value::Null);
    };
    let mut merged = stored.get("_meta").cloned();
    for (key, value) in meta {
        match (&mut merged, value) {
            (None, Value::Null) => {}
            (Some(merged), Value::Null) => drop(merged.as_object_mut().unwrap().remove(key)),
            (merged, value) => merged.get_or_insert_with(|| json!({}))[key] = value.clone(),
        }
    }
    if let Some(merged) = merged {
        stored.insert("_meta".to_owned(), merged);
    }
}
