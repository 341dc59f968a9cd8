//! Policy rules in a hub, which answer before a client is asked.

use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_hub::{PermissionRequest, Policy, PolicyDecision};
use switchboard_policy::{Answer, RequestContext, Subject};

use crate::rules::{Rules, result};

/// The rules of a hub. They keep no messages: a request arrives with the state of its session.
pub(crate) struct HubRules {
    rules: Rules,
}

impl HubRules {
    pub(crate) fn new(rules: Rules) -> Self {
        HubRules { rules }
    }
}

impl Policy for HubRules {
    fn evaluate(&mut self, request: &PermissionRequest<'_>) -> Option<PolicyDecision> {
        // The hub has refused unreadable requests.
        let read = v2::RequestPermissionRequest::decode_tolerant(request.params.as_str(), WireFormat::Any);
        let (asked, left_out) = read.ok()?;
        let left_out = left_out.iter().find(|problem| !problem.kept).map(ToString::to_string);
        let folder = request.folder;
        let scene =
            RequestContext { root: folder.to_owned(), cwd: None, agent: request.agent.map(str::to_owned) };
        let subject = Subject::of(request.session, asked.subject.as_ref(), left_out.as_deref(), &scene);
        let judged = self.rules.evaluate(&subject, &asked.options, folder);
        // Without rules there is nothing to report.
        if judged.has_no_rules() {
            return None;
        }
        let answer = judged.answer(&asked.options);
        let option = match &answer {
            Answer::Select(option) => Some(option.as_str()),
            Answer::Cancel | Answer::Ask => None,
        };
        Some(PolicyDecision {
            by: judged.to_json(option),
            result: result(&answer).map(|result| result.encode(WireFormat::Any)),
            notice: format!("{}: {}", judged.in_words(), subject.short_summary()),
        })
    }
}
