//! The handshake, cancelled requests, and questions that pass through.

use switchboard_protocol::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, codes,
};
use switchboard_protocol::{Raw, Wire, WireFormat, v1, v2};

use super::{ToAgent, ToClient, V1ToV2};
use crate::convert::initialize;
use crate::loss::Notes;
use crate::shared::Shared;
use crate::{Error, Side};

impl V1ToV2 {
    pub(super) fn initialize(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::InitializeRequest<'_> = shared.params(Side::Client, request, WireFormat::V1)?;
        self.learn(&params, shared);
        let wire = initialize::request_to_v2(params).encode(WireFormat::Any);
        let purpose = ToAgent::Initialize { id: request.id.clone().into_owned() };
        self.to_agent.ask(&request.id, "initialize", &wire, purpose, shared);
        Ok(())
    }

    fn learn(&mut self, params: &v1::InitializeRequest<'_>, shared: &mut Shared) {
        let Some(capabilities) = &params.client_capabilities else { return };
        let displays = capabilities.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        shared.peers.client_displays = displays.is_some_and(|value| value.as_str() == "true");
        let session = capabilities.session.as_ref();
        self.support.booleans = session
            .and_then(|session| session.config_options.as_ref())
            .is_some_and(|options| options.boolean.is_some());
        self.support.notices = session.is_some_and(|session| session.notices.is_some());
        self.support.compaction = session.is_some_and(|session| session.compaction.is_some());
        let elicitation = capabilities.elicitation.as_ref();
        self.support.forms = elicitation.is_some_and(|modes| modes.form.is_some());
        self.support.urls = elicitation.is_some_and(|modes| modes.url.is_some());
    }

    /// The agent has answered the client's own words, in version 2.
    pub(crate) fn opened(&mut self, params: &str, response: &Response<'_>, shared: &mut Shared) {
        if let Ok((params, _)) = v1::InitializeRequest::decode_tolerant(params, WireFormat::V1) {
            self.learn(&params, shared);
        }
        let id = response.id.clone().into_owned();
        initialized(&id, response, shared);
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
        match from {
            Side::Client => {
                let own = params.request_id.into_owned();
                if let Some(sent) = self.to_agent.find(|purpose| *purpose.original() == own) {
                    cancel(Side::Agent, &sent, shared);
                } else {
                    self.cancel_accepted_prompt(&own, shared);
                }
            }
            Side::Agent => {
                let own = params.request_id.into_owned();
                let Some(sent) = self.to_client.find(|purpose| *purpose.original() == own) else { return };
                cancel(Side::Client, &sent, shared);
                // A version 1 client may not react. What it answers later finds nobody waiting.
                if let Some(ToClient::Permission(_)) = self.to_client.get(&sent)
                    && let Some(ToClient::Permission(asked)) = self.to_client.take(&sent)
                {
                    self.permission_withdrawn(&asked, shared);
                }
            }
        }
    }

    pub(super) fn elicitation(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let params = request.params.clone().unwrap_or_else(|| Raw::from(serde_json::json!({})));
        let mode = params.get("mode").and_then(|mode| mode.as_text().map(std::borrow::Cow::into_owned));
        let supported = match mode.as_deref() {
            Some("form") => self.support.forms,
            Some("url") => self.support.urls,
            _ => false,
        };
        if !supported {
            let message = "the client does not support this mode of elicitation";
            return shared.refuse(Side::Agent, &request.id, codes::INVALID_PARAMS, message);
        }
        let text = remap_scope(&params, |id| self.to_agent.get(id).map(|purpose| purpose.original().clone()));
        let purpose = ToClient::Other { id: request.id.clone().into_owned() };
        self.to_client.ask(&request.id, "elicitation/create", &text, purpose, shared);
    }
}

/// The same parameters with the id of the request they are about as the receiver knows it.
pub(crate) fn remap_scope(
    params: &Raw<'_>,
    known_as: impl Fn(&RequestId<'_>) -> Option<RequestId<'static>>,
) -> String {
    let Some(about) = params.get("requestId") else { return params.as_str().to_owned() };
    let Ok(id) = RequestId::decode(about.as_str(), WireFormat::Any) else {
        return params.as_str().to_owned();
    };
    let Some(known) = known_as(&id) else { return params.as_str().to_owned() };
    let entries = params.entries().map(|(key, value)| {
        let value = if key == "requestId" { crate::convert::meta::raw(&known) } else { value };
        (key, value)
    });
    switchboard_protocol::Meta::from_entries(entries).as_raw().as_str().to_owned()
}

pub(crate) fn cancel(to: Side, id: &RequestId<'_>, shared: &mut Shared) {
    let params = CancelRequestNotification::new(id.clone()).encode(WireFormat::Any);
    shared.notify(to, "$/cancel_request", &params);
}

/// The agent's answer to the handshake.
pub(super) fn initialized(id: &RequestId<'static>, response: &Response<'_>, shared: &mut Shared) {
    let Some(answer) =
        shared.result::<v2::InitializeResponse<'_>>(id, "initialize", response, WireFormat::Any)
    else {
        return;
    };
    let mut notes = Notes::default();
    match initialize::response_to_v1(answer, &mut notes) {
        Ok(answer) => {
            shared.note(None, "initialize", notes.entries, Side::Client);
            shared.respond(Side::Client, id, &answer.encode(WireFormat::V1));
        }
        Err(error) => shared.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string()),
    }
}
