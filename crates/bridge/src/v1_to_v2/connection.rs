//! The handshake, cancelled requests, and questions that pass through.

use switchboard_protocol::rpc::{
    CancelRequestNotification, Notification, Request, RequestId, Response, codes,
};
use switchboard_protocol::{Extra, Wire, WireFormat, v1, v2};

use super::{ToAgent, ToClient, V1ToV2};
use crate::convert::{elicitation, initialize};
use crate::shared::{Shared, session_of};
use crate::{Error, Side};

impl V1ToV2 {
    pub(super) fn initialize(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let params: v1::InitializeRequest<'_> = shared.params(Side::Client, request)?;
        self.learn(&params, shared);
        let wire = initialize::request_to_v2(params);
        let purpose = ToAgent::Initialize { id: request.id.clone().into_owned() };
        self.to_agent.ask(request, "initialize", &wire, purpose, shared);
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
        let Some(params) = shared.cancellation(from, notification) else { return };
        let own = params.request_id.clone().into_owned();
        match from {
            Side::Client => {
                if let Some(sent) = self.to_agent.find(|purpose| *purpose.original() == own) {
                    cancel(Side::Agent, sent, params, &notification.extra, shared);
                } else {
                    self.cancel_accepted_prompt(&own, params, &notification.extra, shared);
                }
            }
            Side::Agent => {
                let Some(sent) = self.to_client.find(|purpose| *purpose.original() == own) else {
                    return shared.lose_cancellation(from, &params, &notification.extra);
                };
                cancel(Side::Client, sent.clone(), params, &notification.extra, shared);
                // A version 1 client may not react. What it answers later finds nobody waiting.
                if let Some(ToClient::Permission(_)) = self.to_client.get(&sent)
                    && let Some(ToClient::Permission(asked)) = self.to_client.take(&sent)
                {
                    self.permission_withdrawn(&asked, shared);
                }
            }
        }
    }

    pub(super) fn elicitation(&mut self, request: &Request<'_>, shared: &mut Shared) -> Result<(), Error> {
        let mut params: v2::CreateElicitationRequest<'_> = shared.params(Side::Agent, request)?;
        let supported = match &params {
            v2::CreateElicitationRequest::Form(_) => self.support.forms,
            v2::CreateElicitationRequest::Url(_) => self.support.urls,
            v2::CreateElicitationRequest::Unknown(_) => false,
        };
        if !supported {
            return Err(Error::unrepresentable(
                "mode",
                "the client does not support this mode of elicitation",
            ));
        }
        elicitation::rename_scope(&mut params, |id| {
            self.to_agent.get(id).map(|purpose| purpose.original().clone())
        });
        let session = session_of(request.params.as_ref());
        let wire = shared.convert(session.as_deref(), &request.method, "/params", Side::Client, |cx| {
            elicitation::to_v1(params, cx)
        })?;
        let purpose = ToClient::Other { id: request.id.clone().into_owned() };
        self.to_client.ask(request, "elicitation/create", &wire, purpose, shared);
        Ok(())
    }
}

/// Takes back a request from the side that it was made of, as that side knows it.
pub(crate) fn cancel(
    to: Side,
    id: RequestId<'_>,
    params: CancelRequestNotification<'_>,
    envelope: &Extra<'_>,
    shared: &mut Shared,
) {
    // The sender knows it by another id.
    let CancelRequestNotification { request_id: _, meta, extra } = params;
    let params = CancelRequestNotification { request_id: id, meta, extra };
    shared.notify(to, "$/cancel_request", &params, envelope);
}

/// The agent's answer to the handshake.
pub(super) fn initialized(id: &RequestId<'static>, response: &Response<'_>, shared: &mut Shared) {
    let Some(answer) = shared.result::<v2::InitializeResponse<'_>>(id, "initialize", response) else {
        return;
    };
    match shared
        .convert(None, "initialize", "/result", Side::Client, |cx| initialize::response_to_v1(answer, cx))
    {
        Ok(answer) => shared.respond(Side::Client, id, &answer, &response.extra),
        Err(error) => shared.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string()),
    }
}
