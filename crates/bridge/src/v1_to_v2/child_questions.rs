//! Questions of sub-agents for a client without sub-agent support: asked in the parent's session, with the
//! sub-agent's name.

use switchboard_acp::rpc::{Request, RequestId, codes};
use switchboard_acp::{Raw, Text, Wire, WireFormat, v1, v2};

use super::subagents::SessionRelation;
use super::tool_calls::{in_question, put};
use super::{V1ToV2, render};
use crate::convert::permission::{Question, Subject};
use crate::loss::Severity;
use crate::{Error, Side};

impl V1ToV2 {
    /// Refuses a question of an unknown session.
    pub(super) fn refuse_unlinked(&mut self, id: &RequestId<'_>, session: &str, method: &str) {
        let reason = format!(
            "session {session:?} was neither opened by the client nor announced as a sub-agent: \
             send subagent_update in its parent first"
        );
        self.context.report_loss(Some(session), method, "", reason.clone(), Severity::Major, Side::Client);
        self.context.refuse(Side::Agent, id, codes::INVALID_PARAMS, reason);
    }

    /// Adds the sub-agent's name to the text of its question.
    fn asks(&self, id: &str, words: &str) -> String {
        format!("Sub-agent '{}' asks: {words}", self.subagents.full_name(id))
    }

    /// Prepares the tool call that carries a sub-agent's question in the client's session, which lacks the
    /// sub-agent's own calls.
    pub(super) fn child_question<'q>(
        &mut self,
        id: &str,
        question: Question<'q>,
    ) -> (String, Question<'q>, Option<Box<v2::ToolCallUpdate<'q>>>) {
        let root = self.subagents.root_of(id).to_owned();
        let Question { session_id: _, title, description, subject, options, rest } = question;
        let title = Text::Owned(self.asks(id, &title));
        let (subject, call) = match subject {
            // The client does not know the sub-agent's calls, so a synthetic call carries the question.
            Subject::ToolCall(call) => (Subject::Other, Some(call)),
            other => (other, None),
        };
        let session_id = Text::Owned(root.clone());
        (root, Question { session_id, title, description, subject, options, rest }, call)
    }

    /// Copies the content of a sub-agent's tool call into the call that carries a question about it.
    pub(super) fn show_subject(
        &mut self,
        id: &str,
        patch: v2::ToolCallUpdate<'_>,
        carrier: &mut v1::ToolCallUpdate<'static>,
    ) {
        let reason = "a call of a sub-agent, of which the question shows text, diffs, places and input";
        let at = "/params/subject/toolCall";
        self.context.report_loss(
            Some(id),
            "session/request_permission",
            at,
            reason,
            Severity::Minor,
            Side::Client,
        );
        let call_id = patch.tool_call_id.clone().into_owned();
        let size = patch.encode(WireFormat::Any).len();
        // The folded call then has everything, including parts that the question does not repeat.
        self.apply_child_update(id, &v2::SessionUpdate::ToolCallUpdate(Box::new(patch)), size);
        let Some(call) = self.subagents.get(id).and_then(|child| child.fold.tool_call(&call_id)) else {
            return;
        };
        // An unknown kind must not be shown as a known one.
        let known = |kind: &v2::ToolKind| !matches!(kind, v2::ToolKind::Unknown(_));
        if known(call.kind()) {
            carrier.kind = Some(call.kind().clone());
        }
        carrier.raw_input = call.raw_input().cloned();
        carrier.locations = Some(call.locations().to_vec()).filter(|locations| !locations.is_empty());
        let shown = render::content_of_call(&self.subagents, id, &call_id);
        if !shown.is_empty() {
            let description = carrier.content.take().unwrap_or_default();
            let description: Vec<Raw<'_>> =
                description.iter().map(|item| Raw::of(item, WireFormat::V1)).collect();
            // Diffs first, then the description, as for every question.
            let content = in_question(description, shown);
            put(Some(content), &mut carrier.extra);
        }
    }

    /// Redirects an elicitation of a sub-agent to the client's session, with the sub-agent's name.
    pub(super) fn redirect_elicitation(
        &mut self,
        request: &Request<'_>,
        params: &mut v2::CreateElicitationRequest<'_>,
    ) -> Result<(), Error> {
        let (session, call, message) = match params {
            v2::CreateElicitationRequest::Form(form) => {
                (&mut form.session_id, &mut form.tool_call_id, &mut form.message)
            }
            v2::CreateElicitationRequest::Url(url) => {
                (&mut url.session_id, &mut url.tool_call_id, &mut url.message)
            }
            v2::CreateElicitationRequest::Unknown(_) => return Ok(()),
            v2::CreateElicitationRequest::More(none) => none.never(),
        };
        let Some(id) = session.clone().map(Text::into_owned) else { return Ok(()) };
        match self.relation(&id) {
            // No change: the client knows the session.
            SessionRelation::Opened => {}
            SessionRelation::Child => {
                *message = Text::Owned(self.asks(&id, message));
                *session = Some(Text::Owned(self.subagents.root_of(&id).to_owned()));
                if call.take().is_some() {
                    let reason = "a call of a sub-agent, which the client does not know";
                    let (method, at) = (&request.method, "/params/toolCallId");
                    self.context.report_loss(Some(&id), method, at, reason, Severity::Minor, Side::Client);
                }
                // Show the sub-agent's latest work before the user decides.
                self.show(&id, 0);
            }
            SessionRelation::Unknown => {
                let reason =
                    format!("session {id:?} was neither opened by the client nor announced as a sub-agent");
                self.context.report_loss(
                    Some(&id),
                    &request.method,
                    "",
                    reason.clone(),
                    Severity::Major,
                    Side::Client,
                );
                return Err(Error::unrepresentable("sessionId", reason));
            }
        }
        Ok(())
    }
}
