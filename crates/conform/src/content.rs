//! Content of updates: tool calls, diffs, terminals, options and modes.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_acp::v2;
use switchboard_diff::{Disagreement, Note, check};

use crate::connection::{ConfigOption, MOST_REMEMBERED, ToolCall};
use crate::evaluator::{Evaluator, decoded};
use crate::rules::RuleId;

impl Evaluator {
    /// Checks the content of an update.
    pub(crate) fn content(&mut self, number: u64, session: &str, kind: &str, update: &Value, is_v1: bool) {
        match kind {
            "tool_call" if is_v1 => self.tool_call(number, session, update, is_v1, true),
            "tool_call_update" => self.tool_call(number, session, update, is_v1, false),
            "tool_call_content_chunk" => self.diff(number, &update["content"]),
            "terminal_update" => self.terminal(number, session, update),
            "config_option_update" => {
                let options = &update["configOptions"];
                let before =
                    self.connection.sessions.get(session).and_then(|session| session.options.as_ref());
                let before = before.map_or(0, Vec::len);
                if before > 1
                    && let Some(options) = options.as_array()
                {
                    self.findings.check(RuleId::ConfigComplete, number, options.len() != 1, || {
                        format!("the update has one option of {before}")
                    });
                }
                self.options(number, session, options, is_v1);
            }
            _ => {}
        }
    }

    /// Checks a tool call report. `announces`: it may be the first one.
    pub(crate) fn tool_call(
        &mut self,
        number: u64,
        session: &str,
        call: &Value,
        is_v1: bool,
        announces: bool,
    ) {
        if !is_v1 {
            for item in call["content"].as_array().into_iter().flatten() {
                self.diff(number, item);
            }
        } else if call["locations"].is_array() {
            self.findings.kept(RuleId::LocationPathsV1);
        }
        let Some(id) = call["toolCallId"].as_str() else { return };
        let findings = &mut self.findings;
        let Some(session) = self.connection.sessions.get_mut(session) else { return };
        let is_known = session.tool_calls.contains_key(id);
        if is_v1 && session.is_new && session.opening.is_none() {
            findings.check(RuleId::Announced, number, is_known || announces, || {
                format!("the tool call {id:?} was never announced")
            });
        }
        if !is_known && session.tool_calls.len() >= MOST_REMEMBERED {
            return;
        }
        let known = session.tool_calls.entry(id.to_owned()).or_insert_with(ToolCall::default);
        if let Some(name) = call["name"].as_str() {
            let is_same = known.name.as_deref().is_none_or(|before| before == name);
            if !is_v1 {
                findings.check(RuleId::ToolCallName, number, is_same, || {
                    format!("{id:?} was called {:?} before", known.name.as_deref().unwrap_or_default())
                });
            }
            known.name = Some(name.to_owned());
        }
        match call["status"].as_str() {
            Some("completed" | "failed" | "cancelled") => known.is_over = true,
            Some(status @ ("pending" | "in_progress")) => {
                if known.is_over {
                    findings.broken(
                        RuleId::ToolCallFinal,
                        number,
                        format!("{id:?} was over, and is {status} again"),
                    );
                }
                known.is_over = false;
            }
            _ => {}
        }
    }

    fn diff(&mut self, number: u64, item: &Value) {
        if item["type"] != "diff" {
            return;
        }
        let text = item.to_string();
        // Unreadable content breaks another rule.
        let Some(diff) = decoded::<v2::Diff<'_>>(&text) else { return };
        let findings = &mut self.findings;
        for rule in [
            RuleId::DiffChanges,
            RuleId::DiffPaths,
            RuleId::DiffOldPath,
            RuleId::DiffAgrees,
            RuleId::DiffOperation,
        ] {
            findings.kept(rule);
        }
        let diff = switchboard_diff::Diff::from(&diff);
        let checked = check(&diff);
        if diff.patch.is_some() {
            findings.kept(RuleId::DiffHeaders);
        }
        for note in checked.notes.iter().filter(|note| matches!(note, Note::Prefixed { .. })) {
            findings.broken(RuleId::DiffHeaders, number, note.to_string());
        }
        for disagreement in checked.disagreements {
            let rule = match &disagreement {
                Disagreement::ListedPathNotAbsolute { .. } | Disagreement::PatchPathNotAbsolute { .. } => {
                    RuleId::DiffPaths
                }
                Disagreement::OldPathMissing { .. } => RuleId::DiffOldPath,
                _ => RuleId::DiffAgrees,
            };
            // A relative path is one fault, not also one of the patch.
            findings.broken(rule, number, disagreement.to_string());
        }
        let is_text = item["changes"].as_array().into_iter().flatten().any(|change| {
            change["fileType"] == "text" && matches!(change["operation"].as_str(), Some("modify" | "add"))
        });
        if is_text {
            findings.check(RuleId::DiffPatch, number, diff.patch.is_some(), || {
                "a change of text without a patch".to_owned()
            });
        }
    }

    fn terminal(&mut self, number: u64, session: &str, update: &Value) {
        let (Some(id), Some(cwd)) = (update["terminalId"].as_str(), update["cwd"].as_str()) else { return };
        let Some(session) = self.connection.sessions.get_mut(session) else { return };
        if session.terminals.len() >= MOST_REMEMBERED {
            return;
        }
        let known = session.terminals.entry(id.to_owned()).or_insert_with(|| cwd.to_owned());
        self.findings.check(RuleId::TerminalCwd, number, known == cwd, || {
            format!("the terminal {id:?} was in {known:?} before, and is in {cwd:?}")
        });
    }

    pub(crate) fn modes(&mut self, number: u64, session: &str, modes: &Value) {
        let Some(available) = modes["availableModes"].as_array() else { return };
        let ids: Vec<String> =
            available.iter().filter_map(|mode| mode["id"].as_str()).map(str::to_owned).collect();
        let current = modes["currentModeId"].as_str().unwrap_or_default();
        self.findings.check(RuleId::ModesCurrent, number, ids.iter().any(|id| id == current), || {
            format!("the current mode {current:?} is none of {}", ids.join(", "))
        });
        self.connection.session(session).modes = Some(ids);
    }

    /// Checks a list of options.
    pub(crate) fn options(&mut self, number: u64, session: &str, options: &Value, is_v1: bool) {
        let Some(options) = options.as_array() else { return };
        let mut known = Vec::new();
        let mut ids = HashSet::new();
        for option in options {
            let id = option[if is_v1 { "id" } else { "configId" }].as_str().unwrap_or_default();
            let kind = option["type"].as_str().unwrap_or_default();
            if is_v1 && kind == "boolean" && self.connection.has_handshake {
                let has = self.connection.client_has("/session/configOptions/boolean");
                self.findings.check(RuleId::BooleanOption, number, has, || {
                    format!("the option {id:?} is boolean, which the client does not advertise")
                });
            } else if is_v1 {
                self.findings.kept(RuleId::BooleanOption);
            }
            let values = (kind == "select").then(|| values_of(&option["options"]));
            let problem = problem_of(option, id, values.as_deref(), ids.insert(id));
            self.findings
                .check(RuleId::ConfigValue, number, problem.is_none(), || problem.unwrap_or_default());
            known.push(ConfigOption { id: id.to_owned(), values });
        }
        if let Some(session) = self.connection.sessions.get_mut(session) {
            session.options = Some(known);
        }
    }
}

fn problem_of(option: &Value, id: &str, values: Option<&[String]>, is_new: bool) -> Option<String> {
    if !is_new {
        return Some(format!("two options have the id {id:?}"));
    }
    let values = values?;
    let mut seen = HashSet::new();
    if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
        return Some(format!("the option {id:?} has the value {twice:?} twice"));
    }
    let current = option["currentValue"].as_str()?;
    (!values.iter().any(|value| value == current))
        .then(|| format!("the option {id:?} is {current:?}, which is none of its values"))
}

/// Returns the values of an option, flat or in groups.
fn values_of(options: &Value) -> Vec<String> {
    let entries = options.as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .flat_map(|entry| match entry["options"].as_array() {
            Some(grouped) => grouped.as_slice(),
            None => std::slice::from_ref(entry),
        })
        .filter_map(|entry| entry["value"].as_str())
        .map(str::to_owned)
        .collect()
}
