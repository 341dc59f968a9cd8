//! The handshake, cancelled requests, and elicitations.

use switchboard_acp::extensions::{NATIVE_VERSION, REPORTS_TURNS};
use switchboard_acp::rpc::{Request, RequestId, Response, codes};
use switchboard_acp::{Wire, WireFormat, v1, v2};

use super::{ToAgent, ToClient, V1ToV2};
use crate::context::session_of;
use crate::convert::{elicitation, initialize, meta};
use crate::optional_methods::OptionalMethods;
use crate::{Error, Side};

impl V1ToV2 {
    pub(super) fn initialize(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v1::InitializeRequest<'_> = self.context.params(Side::Client, request)?;
        // From here on, sessions that the client did not open are sub-agents.
        self.subagents.begin();
        self.learn(&params);
        let mut wire = initialize::request_to_v2(params);
        // Ask a hub to state outcomes of turns, and to send native lines.
        if self.context.options.is_shared {
            for (key, value) in [REPORTS_TURNS.entry(true), NATIVE_VERSION.entry(1_u64)] {
                meta::add(&mut wire.meta, &key, &value);
            }
        }
        self.to_agent.ask(request, "initialize", &wire, ToAgent::Initialize, &mut self.context);
        Ok(())
    }

    fn learn(&mut self, params: &v1::InitializeRequest<'_>) {
        let Some(capabilities) = &params.client_capabilities else { return };
        let displays = capabilities.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        self.context.peers.client_displays = displays.is_some_and(|value| value.as_str() == "true");
        let session = capabilities.session.as_ref();
        self.support.booleans = session
            .and_then(|session| session.config_options.as_ref())
            .is_some_and(|options| options.boolean.is_some());
        self.support.notices = session.is_some_and(|session| session.notices.is_some());
        self.support.compaction = session.is_some_and(|session| session.compaction.is_some());
        self.support.subagents = capabilities.subagents.is_some();
        self.context.native.learn(self.support.subagents);
        self.support.plans = capabilities.plan.is_some();
        let elicitation = capabilities.elicitation.as_ref();
        self.support.forms = elicitation.is_some_and(|modes| modes.form.is_some());
        self.support.urls = elicitation.is_some_and(|modes| modes.url.is_some());
    }

    /// Handles a version 2 response to the client's version 1 handshake.
    pub(crate) fn opened(&mut self, params: &str, response: &Response<'_>) {
        if let Ok((params, _)) = v1::InitializeRequest::decode_tolerant(params, WireFormat::V1) {
            self.learn(&params);
        }
        self.subagents.begin();
        let id = response.id.clone().into_owned();
        self.initialized(&id, response);
    }

    /// Handles the agent's response to the handshake.
    pub(super) fn initialized(&mut self, id: &RequestId<'static>, response: &Response<'_>) {
        let Some(answer) = self.context.result::<v2::InitializeResponse<'_>>(id, "initialize", response)
        else {
            return;
        };
        // Must be known before the client sends its next request, which its response triggers.
        let session = answer.capabilities.as_ref().and_then(|offered| offered.session.as_ref());
        self.offered = session.map(OptionalMethods::in_v2).unwrap_or_default();
        match self
            .context
            .convert(None, "initialize", "/result", Side::Client, |cx| initialize::response_to_v1(answer, cx))
        {
            Ok(answer) => self.context.respond(Side::Client, id, &answer, &response.extra),
            Err(error) => self.context.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string()),
        }
    }

    pub(super) fn elicitation(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let mut params: v2::CreateElicitationRequest<'_> = self.context.params(Side::Agent, request)?;
        let supported = match &params {
            v2::CreateElicitationRequest::Form(_) => self.support.forms,
            v2::CreateElicitationRequest::Url(_) => self.support.urls,
            v2::CreateElicitationRequest::Unknown(_) => false,
            v2::CreateElicitationRequest::More(none) => none.never(),
        };
        if !supported {
            return Err(Error::unrepresentable(
                "mode",
                "the client does not support this mode of elicitation",
            ));
        }
        // The agent names a request by the id that the bridge gave it.
        elicitation::rename_scope(&mut params, |id| self.to_agent.original(id).cloned());
        // Redirect before the conversion, so that losses are reported for the session that the client knows.
        self.redirect_elicitation(request, &mut params)?;
        let session = session_of(request.params.as_ref());
        let wire =
            self.context.convert(session.as_deref(), &request.method, "/params", Side::Client, |cx| {
                elicitation::to_v1(params, cx)
            })?;
        let session = session.map(|session| self.subagents.root_of(&session).to_owned());
        let purpose = ToClient::Elicitation { session };
        self.to_client.ask(request, "elicitation/create", &wire, purpose, &mut self.context);
        Ok(())
    }
}
