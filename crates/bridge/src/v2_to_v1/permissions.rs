//! Permission requests, whose words of the prompt version 1 puts into the tool call.

use switchboard_protocol::rpc::{Request, RequestId, Response, codes};
use switchboard_protocol::{Field, Text, Wire, v1, v2};

use super::tool_calls::Place;
use super::{ToClient, V2ToV1, tell};
use crate::Side;
use crate::bridge::refuse_full;
use crate::convert::permission::question_to_v2;
use crate::shared::Shared;

const METHOD: &str = "session/request_permission";

impl V2ToV1 {
    pub(super) fn permission(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let params: v1::RequestPermissionRequest<'_> = match shared.params(Side::Agent, request) {
            Ok(params) => params,
            Err(error) => return shared.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        if params.options.is_empty() {
            let message = "a permission request without options";
            return shared.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        if let Some(id) = twice(&params.options) {
            let message = format!("two options with the id \"{id}\"");
            return shared.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        if self.to_client.is_full() {
            return refuse_full(shared, Side::Agent, &request.id);
        }
        let session_id = params.session_id.clone().into_owned();
        let keeps = !self.support.load;
        let session = self.sessions.open(&session_id);
        session.run = None;
        let stored = session.calls.title(&params.tool_call.tool_call_id);
        let title = params
            .tool_call
            .title
            .clone()
            .map(Text::into_owned)
            .or_else(|| stored.clone())
            .unwrap_or_else(|| "Permission requested".to_owned());
        let offered = params.options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let terminals = &self.terminals;
        let converted = question_to_v2(params, Text::Owned(title), |call| {
            let place = Place { message: METHOD, root: "/params/toolCall", in_question: true };
            let mut call = session.patch(&session_id, call, place, terminals, keeps, shared);
            if stored.is_some() {
                // The call has a title; this one is only the prompt's.
                call.title = Field::Keep;
            }
            shared.show_terminals(&session_id, &mut call);
            Ok(call)
        });
        let wire = match converted {
            Ok(wire) => wire,
            Err(error) => return shared.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        let asked = ToClient::Permission {
            id: request.id.clone().into_owned(),
            session: session_id.clone(),
            offered,
        };
        self.to_client.ask(request, METHOD, &wire, asked, shared);
        let session = self.sessions.open(&session_id);
        if !session.asks {
            session.asks = true;
            let state = v2::StateUpdate::RequiresAction(v2::ActiveState::new());
            tell(&session_id, session, v2::SessionUpdate::StateUpdate(Box::new(state)), false, shared);
        }
    }

    pub(super) fn permission_answered(
        &mut self,
        id: &RequestId<'static>,
        session_id: &str,
        offered: &[String],
        response: Response<'_>,
        shared: &mut Shared,
    ) {
        shared.answer_question(id, session_id, offered, response);
        let still_asks = self
            .to_client
            .find(|purpose| matches!(purpose, ToClient::Permission { session, .. } if session == session_id))
            .is_some();
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        if session.asks && !still_asks {
            session.asks = false;
            let state = if session.turn.is_some() {
                v2::StateUpdate::Running(v2::ActiveState::new())
            } else {
                v2::StateUpdate::Idle(v2::IdleState::new())
            };
            tell(session_id, session, v2::SessionUpdate::StateUpdate(Box::new(state)), false, shared);
        }
    }
}

fn twice<'o>(options: &'o [v1::PermissionOption<'_>]) -> Option<&'o str> {
    let mut seen = std::collections::HashSet::new();
    options.iter().map(|option| &*option.option_id).find(|id| !seen.insert(*id))
}
