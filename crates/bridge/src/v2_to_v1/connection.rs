//! The handshake, cancelled requests, and elicitations.

use switchboard_acp::extensions::{V1_FILES, V1_TERMINALS};
use switchboard_acp::rpc::{Request, RequestId, Response, codes};
use switchboard_acp::{Raw, Wire, WireFormat, v1, v2};

use super::{ToAgent, ToClient, V2ToV1};
use crate::convert::elicitation;
use crate::convert::initialize::{self, Served};
use crate::loss::Severity;
use crate::optional_methods::OptionalMethods;
use crate::recorded_terminals::RecordedTerminals;
use crate::{Error, Side};

impl V2ToV1 {
    pub(super) fn initialize(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::InitializeRequest<'_> = self.context.params(Side::Client, request)?;
        // Stored before the request: the agent may ask at once.
        let modes = params.capabilities.as_ref().and_then(|offered| offered.elicitation.as_ref());
        self.forms = modes.is_some_and(|modes| modes.form.is_some());
        self.urls = modes.is_some_and(|modes| modes.url.is_some());
        // A version 1 client of a hub announces its own files and terminals in metadata.
        let offered = params.capabilities.as_ref().and_then(|offered| offered.meta.as_ref());
        self.client_files = offered.is_some_and(|meta| V1_FILES.read(meta).is_some());
        self.client_terminals = offered
            .and_then(|meta| V1_TERMINALS.read(meta))
            .is_some_and(|runs| runs)
            .then(RecordedTerminals::default);
        let served = Served {
            files: self.context.options.serve_files,
            terminals: self.context.options.serve_terminals,
        };
        let wire = initialize::request_to_v1(params, served);
        self.to_agent.ask(request, "initialize", &wire, ToAgent::Initialize, &mut self.context);
        Ok(())
    }

    /// Repeats the handshake in version 1 for an agent that answered a version 2 handshake in version 1, so
    /// that it gets the client's capabilities.
    pub(crate) fn opened(&mut self, request: &Request<'_>, answer: &str) {
        // Kept for an agent that refuses the second handshake.
        self.first_answer = Some(answer.to_owned());
        if let Err(error) = self.initialize(request) {
            self.context.fail(Side::Client, &request.id, error.to_rpc());
        }
    }

    pub(super) fn initialized(&mut self, id: &RequestId<'static>, mut response: Response<'_>) {
        // Taken in any case: it is valid for one handshake only.
        let first = self.first_answer.take();
        let is_held_to_first = response.outcome.is_err() && first.is_some();
        if let (true, Some(first)) = (is_held_to_first, first) {
            // The agent refuses a second handshake, so its first response is used.
            let Ok(first) = Raw::parse(first) else { return };
            response.outcome = Ok(first);
        }
        let Some(answer) = self.context.result::<v1::InitializeResponse<'_>>(id, "initialize", &response)
        else {
            return;
        };
        // Some version 1 agents answer 2, so the shape of the response decides.
        if !matches!(answer.protocol_version, 1 | 2) && !is_held_to_first {
            let message =
                format!("the agent answered a version 1 handshake with version {}", answer.protocol_version);
            self.context.report_loss(None, "initialize", "", message.clone(), Severity::Major, Side::Client);
            return self.context.refuse(Side::Client, id, codes::UNSUPPORTED_PROTOCOL_VERSION, message);
        }
        // The capabilities decide which methods the bridge emulates.
        let methods =
            answer.agent_capabilities.as_ref().and_then(|offered| offered.session_capabilities.as_ref());
        self.support.offered = OptionalMethods::in_v1(methods);
        if let Some(capabilities) = &answer.agent_capabilities {
            self.support.load = capabilities.load_session == Some(true);
            self.support.list = methods.is_some_and(|methods| methods.list.is_some());
            self.support.resume = methods.is_some_and(|methods| methods.resume.is_some());
            self.support.close = methods.is_some_and(|methods| methods.close.is_some());
            self.support.delete = methods.is_some_and(|methods| methods.delete.is_some());
            self.support.logout = capabilities.auth.as_ref().is_some_and(|auth| auth.logout.is_some());
        }
        let name = self.context.options.agent_name.clone();
        let wire = self.context.convert(None, "initialize", "/result", Side::Client, |cx| {
            initialize::response_to_v2(answer, &name, cx)
        });
        match wire {
            Ok(wire) => self.context.respond(Side::Client, id, &wire, &response.extra),
            Err(error) => self.context.refuse(Side::Client, id, codes::INTERNAL_ERROR, error.to_string()),
        }
    }

    pub(super) fn elicitation(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let mut params: v1::CreateElicitationRequest<'_> = self.context.params(Side::Agent, request)?;
        let supported = match &params {
            v1::CreateElicitationRequest::Form(_) => self.forms,
            v1::CreateElicitationRequest::Url(_) => self.urls,
            v1::CreateElicitationRequest::Unknown(_) => false,
            v1::CreateElicitationRequest::More(none) => none.never(),
        };
        if !supported {
            return Err(Error::unrepresentable(
                "mode",
                "the client does not support this mode of elicitation",
            ));
        }
        // The agent names a request by the id that the bridge gave it.
        elicitation::rename_scope(&mut params, |id| self.to_agent.original(id).cloned());
        let wire = elicitation::to_v2(params);
        let purpose = ToClient::Elicitation;
        self.to_client.ask(request, "elicitation/create", &wire, purpose, &mut self.context);
        Ok(())
    }

    pub(super) fn elicitation_answered(&mut self, id: &RequestId<'static>, response: Response<'_>) {
        let method = "elicitation/create";
        let answer = match &response.outcome {
            Ok(result) => v2::CreateElicitationResponse::decode(result.as_str(), WireFormat::Any),
            Err(_) => return self.context.pass_answer(Side::Agent, id, response),
        };
        let converted = answer.map_err(Error::from).and_then(|answer| {
            self.context
                .convert(None, method, "/result", Side::Agent, |cx| elicitation::answer_to_v1(answer, cx))
        });
        match converted {
            Ok(answer) => self.context.respond(Side::Agent, id, &answer, &response.extra),
            // Forward unchanged; the agent validates it.
            Err(_) => self.context.pass_answer(Side::Agent, id, response),
        }
    }
}
