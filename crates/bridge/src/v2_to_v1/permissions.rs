//! Permission requests. Version 1 has title and description of the question in the tool call.

use switchboard_acp::rpc::{Request, RequestId, Response, codes};
use switchboard_acp::{Field, Text, v1, v2};

use super::tool_calls::CallPosition;
use super::{ToClient, V2ToV1};
use crate::Side;
use crate::convert::permission::question_to_v2;

const METHOD: &str = "session/request_permission";

impl V2ToV1 {
    pub(super) fn permission(&mut self, request: &Request<'_>) {
        let params: v1::RequestPermissionRequest<'_> = match self.context.params(Side::Agent, request) {
            Ok(params) => params,
            Err(error) => return self.context.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        // Checked before any state changes. A user could not answer such a question.
        if params.options.is_empty() {
            let message = "the permission request has no options";
            return self.context.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        if let Some(id) = twice(&params.options) {
            let message = format!("two options have the id \"{id}\"");
            return self.context.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        // Checked before the tool call is updated for a question that is never asked.
        if self.to_client.is_full() {
            return self.context.refuse_full(Side::Agent, &request.id);
        }
        let session_id = params.session_id.clone().into_owned();
        let mut active = self.active(&session_id);
        // A question ends the current message.
        active.session.run = None;
        let stored = active.session.calls.title(&params.tool_call.tool_call_id);
        let title = params
            .tool_call
            .title
            .clone()
            .map(Text::into_owned)
            .or_else(|| stored.clone())
            .unwrap_or_else(|| "Permission requested".to_owned());
        let offered = params.options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let converted = question_to_v2(params, Text::Owned(title), |call| {
            let place = CallPosition { message: METHOD, root: "/params/toolCall", in_question: true };
            // The question contains all content of the call, so nothing is appended separately.
            let mut call = active.patch(call, place);
            if stored.is_some() {
                // The call has its own title; this one belongs to the question.
                call.title = Field::Keep;
            }
            active.context.show_terminals(&session_id, &mut call);
            Ok(call)
        });
        let wire = match converted {
            Ok(wire) => wire,
            Err(error) => return self.context.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        let asked = ToClient::Permission { session: session_id.clone(), offered };
        // The question first, then the state: a client that sees `requires_action` looks for its question.
        self.to_client.ask(request, METHOD, &wire, asked, &mut self.context);
        let mut active = self.active(&session_id);
        if !std::mem::replace(&mut active.session.asks, true) {
            active.send_state(v2::StateUpdate::RequiresAction(v2::ActiveState::new()));
        }
    }

    pub(super) fn permission_answered(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        offered: &[String],
        response: Response<'_>,
    ) {
        // The agent gets its answer before the client sees the new state.
        self.context.answer_question(id, session_id, offered, response);
        let still_asks = self
            .to_client
            .find(|purpose| matches!(purpose, ToClient::Permission { session, .. } if session == session_id))
            .is_some();
        let is_child_at_work = self.subagents.is_active(session_id);
        let mut active = self.active(session_id);
        // Several questions may be pending; only the last answer ends the state.
        if !still_asks && std::mem::take(&mut active.session.asks) {
            let is_working = active.session.turn.is_some() || is_child_at_work;
            active.send_state(if is_working {
                v2::StateUpdate::Running(v2::ActiveState::new())
            } else {
                v2::StateUpdate::Idle(v2::IdleState::new())
            });
        }
    }
}

fn twice<'o>(options: &'o [v1::PermissionOption<'_>]) -> Option<&'o str> {
    let mut seen = std::collections::HashSet::new();
    options.iter().map(|option| &*option.option_id).find(|id| !seen.insert(*id))
}
