//! The handshake, cancelled requests, and questions that pass through.

use switchboard_protocol::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, codes,
};
use switchboard_protocol::{Raw, Wire, WireFormat, v1, v2};

use super::{ToAgent, ToClient, V2ToV1};
use crate::convert::initialize::{self, Served};
use crate::loss::Notes;
use crate::shared::Shared;
use crate::v1_to_v2::{cancel, remap_scope};
use crate::{Error, Side};

impl V2ToV1 {
    pub(super) fn initialize(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v2::InitializeRequest<'_> = shared.params(Side::Client, request, WireFormat::Any)?;
        let modes = params.capabilities.as_ref().and_then(|offered| offered.elicitation.as_ref());
        self.forms = modes.is_some_and(|modes| modes.form.is_some());
        self.urls = modes.is_some_and(|modes| modes.url.is_some());
        let served = Served { files: shared.options.serve_files, terminals: shared.options.serve_terminals };
        let wire = initialize::request_to_v1(params, served).encode(WireFormat::V1);
        let purpose = ToAgent::Initialize { id: request.id.clone().into_owned() };
        self.to_agent.ask(&request.id, "initialize", &wire, purpose, shared);
        Ok(())
    }

    /// The agent answered a version 2 handshake in version 1: say hello again in its own version, so that it
    /// learns what the client can do.
    pub(crate) fn opened(&mut self, request: &Request<'_>, answer: &str, shared: &mut Shared) {
        self.first_answer = Some(answer.to_owned());
        if let Err(error) = self.initialize(request, shared) {
            shared.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    pub(super) fn initialized(
        &mut self,
        id: &RequestId<'static>,
        mut response: Response<'_>,
        shared: &mut Shared,
    ) {
        let first = self.first_answer.take();
        let is_held_to_first = response.outcome.is_err() && first.is_some();
        if let (true, Some(first)) = (is_held_to_first, first) {
            // It does not take a second handshake, so that its first answer holds.
            let Ok(first) = Raw::parse(first) else { return };
            response.outcome = Ok(first);
        }
        let Some(answer) =
            shared.result::<v1::InitializeResponse<'_>>(id, "initialize", &response, WireFormat::V1)
        else {
            return;
        };
        // Some agents of version 1 say 2: what counts is the shape of the answer.
        if !matches!(answer.protocol_version, 1 | 2) && !is_held_to_first {
            let message =
                format!("asked for version 1, the agent answers in version {}", answer.protocol_version);
            return shared.refuse(Side::Client, id, codes::UNSUPPORTED_PROTOCOL_VERSION, message);
        }
        if let Some(capabilities) = &answer.agent_capabilities {
            let methods = capabilities.session_capabilities.as_ref();
            self.support.load = capabilities.load_session == Some(true);
            self.support.list = methods.is_some_and(|methods| methods.list.is_some());
            self.support.resume = methods.is_some_and(|methods| methods.resume.is_some());
            self.support.close = methods.is_some_and(|methods| methods.close.is_some());
            self.support.delete = methods.is_some_and(|methods| methods.delete.is_some());
            self.support.logout = capabilities.auth.as_ref().is_some_and(|auth| auth.logout.is_some());
        }
        let mut notes = Notes::default();
        let name = shared.options.agent_name.clone();
        match initialize::response_to_v2(answer, &name, &mut notes) {
            Ok(wire) => {
                shared.note(None, "initialize", notes.entries, Side::Client);
                let revision = shared.peers.client_revision();
                shared.respond(Side::Client, id, &wire.encode(revision));
            }
            Err(error) => shared.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string()),
        }
    }

    /// Either side takes back a request that it made.
    pub(super) fn cancel_request(
        &mut self,
        from: Side,
        notification: &Notification<'_>,
        shared: &mut Shared,
    ) {
        let Ok(params) = CancelRequestNotification::decode(notification.params_text(), WireFormat::Any)
        else {
            return;
        };
        let own = params.request_id.into_owned();
        match from {
            Side::Client => {
                if let Some(sent) = self.to_agent.find(|purpose| purpose.original() == Some(&own)) {
                    cancel(Side::Agent, &sent, shared);
                } else {
                    self.cancel_prompt(&own, shared);
                }
            }
            Side::Agent => {
                if let Some(sent) = self.to_client.find(|purpose| *purpose.original() == own) {
                    cancel(Side::Client, &sent, shared);
                }
            }
        }
    }

    pub(super) fn elicitation(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let mode = params.get("mode").and_then(|mode| mode.as_text().map(std::borrow::Cow::into_owned));
        let supported = match mode.as_deref() {
            Some("form") => self.forms,
            Some("url") => self.urls,
            _ => false,
        };
        if !supported {
            let message = "the client does not support this mode of elicitation";
            return shared.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        let mut text =
            remap_scope(&params, |id| self.to_agent.get(id).and_then(|purpose| purpose.original().cloned()));
        if let Ok(complete) = complete_schema(&text) {
            text = complete;
        }
        let purpose = ToClient::Other { id: request.id.clone().into_owned() };
        self.to_client.ask(&request.id, "elicitation/create", &text, purpose, shared);
    }
}

/// Version 1 lets a form leave out that it is an object; version 2 wants to be told.
fn complete_schema(params: &str) -> Result<String, Error> {
    let mut request = v1::CreateElicitationRequest::decode(params, WireFormat::V1)?;
    if let v1::CreateElicitationRequest::Form(form) = &mut request {
        let schema = &mut form.requested_schema;
        schema.type_name.get_or_insert_default();
        schema.properties.get_or_insert_default();
    }
    Ok(request.encode(WireFormat::Any))
}
