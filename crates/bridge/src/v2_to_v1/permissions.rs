//! Permission requests, whose words of the prompt version 1 puts into the tool call.

use switchboard_protocol::rpc::{Request, RequestId, Response, codes};
use switchboard_protocol::{Field, Text, Wire, WireFormat, v1, v2};

use super::{ToClient, V2ToV1, tell};
use crate::Side;
use crate::loss::Severity;
use crate::shared::Shared;

const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

impl V2ToV1 {
    pub(super) fn permission(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let params: v1::RequestPermissionRequest<'_> =
            match shared.params(Side::Agent, request, WireFormat::V1) {
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
        let mut call = session.patch(&session_id, params.tool_call, true, &self.terminals, keeps, shared);
        if stored.is_some() {
            // The call has a title; this one is only the prompt's.
            call.title = Field::Keep;
        }
        let offered = params.options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let mut wire = v2::RequestPermissionRequest::new(params.session_id, title, params.options);
        let subject = v2::ToolCallPermissionSubject::new(call);
        wire.subject = Some(v2::RequestPermissionSubject::ToolCall(Box::new(subject)));
        (wire.meta, wire.extra) = (params.meta, params.extra);
        let text = wire.encode(shared.peers.client_revision());
        let asked = ToClient::Permission {
            id: request.id.clone().into_owned(),
            session: session_id.clone(),
            offered,
        };
        self.to_client.ask(&request.id, "session/request_permission", &text, asked, shared);
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
        match response.outcome {
            Err(error) => shared.fail(Side::Agent, id, error),
            Ok(result) => {
                let answer = v2::RequestPermissionResponse::decode_tolerant(result.as_str(), WireFormat::Any);
                let is_sound = match &answer {
                    Ok((answer, _)) => match &answer.outcome {
                        v2::RequestPermissionOutcome::Cancelled(_) => true,
                        v2::RequestPermissionOutcome::Selected(choice) => {
                            offered.iter().any(|offered| *offered == choice.option_id)
                        }
                        v2::RequestPermissionOutcome::Unknown(_) => false,
                    },
                    Err(_) => false,
                };
                if is_sound {
                    shared.respond(Side::Agent, id, result.as_str());
                } else {
                    // Whatever it was, it was no approval.
                    let reason = "an answer that was not offered, or is unknown, counts as none";
                    shared.lose(
                        Some(session_id),
                        "session/request_permission",
                        "outcome",
                        reason,
                        Severity::Major,
                        Side::Agent,
                    );
                    shared.respond(Side::Agent, id, CANCELLED);
                }
            }
        }
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
