//! What sub-agents ask, for a client that does not know of them: in the session that it opened, under their names.

use switchboard_acp::rpc::{Request, RequestId, codes};
use switchboard_acp::{Raw, Text, Wire, WireFormat, v1, v2};

use super::subagents::Standing;
use super::tool_calls::{in_question, put};
use super::{V1ToV2, render};
use crate::convert::permission::{Question, Subject};
use crate::loss::Severity;
use crate::{Error, Side};

impl V1ToV2 {
    /// Refuses a question of a session that nobody knows.
    pub(super) fn refuse_strange(&mut self, id: &RequestId<'_>, session: &str, method: &str) {
        let reason = format!(
            "session {session:?} is neither one that the client opened nor told of as a sub-agent of one: \
             send subagent_update in its parent first"
        );
        self.context.lose(Some(session), method, "", reason.clone(), Severity::Major, Side::Client);
        self.context.refuse(Side::Agent, id, codes::INVALID_PARAMS, reason);
    }

    /// Who asks, for a question of a sub-agent.
    fn asks(&self, id: &str, words: &str) -> String {
        format!("Sub-agent '{}' asks: {words}", self.subagents.full_name(id))
    }

    /// The call that carries a question of a sub-agent in the client's session: the calls of the sub-agent are not there.
    pub(super) fn child_question<'q>(
        &mut self,
        id: &str,
        question: Question<'q>,
    ) -> (String, Question<'q>, Option<Box<v2::ToolCallUpdate<'q>>>) {
        let root = self.subagents.root_of(id).to_owned();
        let Question { session_id: _, title, description, subject, options, rest } = question;
        let title = Text::Owned(self.asks(id, &title));
        let (subject, call) = match subject {
            Subject::ToolCall(call) => (Subject::Other, Some(call)),
            other => (other, None),
        };
        let session_id = Text::Owned(root.clone());
        (root, Question { session_id, title, description, subject, options, rest }, call)
    }

    /// Puts what a sub-agent's call shows into the call that carries a question about it.
    pub(super) fn show_subject(
        &mut self,
        id: &str,
        patch: v2::ToolCallUpdate<'_>,
        carrier: &mut v1::ToolCallUpdate<'static>,
    ) {
        let reason = "a call of a sub-agent, of which the question shows text, diffs, places and input";
        let at = "/params/subject/toolCall";
        self.context.lose(Some(id), "session/request_permission", at, reason, Severity::Minor, Side::Client);
        let call_id = patch.tool_call_id.clone().into_owned();
        let size = patch.encode(WireFormat::Any).len();
        self.child_says(id, &v2::SessionUpdate::ToolCallUpdate(Box::new(patch)), size);
        let Some(call) = self.subagents.get(id).and_then(|child| child.fold.tool_call(&call_id)) else {
            return;
        };
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
            let content = in_question(description, shown);
            put(Some(content), &mut carrier.extra);
        }
    }

    /// Puts a question of a sub-agent to the user of the client's session, under its name.
    pub(super) fn adopt_elicitation(
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
        match self.standing(&id) {
            Standing::Opened => {}
            Standing::Child => {
                *message = Text::Owned(self.asks(&id, message));
                *session = Some(Text::Owned(self.subagents.root_of(&id).to_owned()));
                if call.take().is_some() {
                    let reason = "a call of a sub-agent, which the client does not know";
                    let (method, at) = (&request.method, "/params/toolCallId");
                    self.context.lose(Some(&id), method, at, reason, Severity::Minor, Side::Client);
                }
                self.show(&id, 0);
            }
            Standing::Stranger => {
                let reason = format!(
                    "session {id:?} is neither one that the client opened nor told of as a sub-agent of one"
                );
                self.context.lose(
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
