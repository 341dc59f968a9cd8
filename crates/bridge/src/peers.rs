//! Properties of the two peers.

use switchboard_acp::detect::{DialectTracker, Weight};
use switchboard_acp::rpc::{Message, Request};
use switchboard_acp::{Raw, WireFormat};

use crate::{BridgeOptions, Dialect, Side};

/// Properties of the peers: from the options, and detected from their messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers {
    pub(crate) client_dialect: Option<Dialect>,
    pub(crate) agent_dialect: Option<Dialect>,
    client: DialectTracker,
    agent: DialectTracker,
    /// Set if a version 1 client displays terminals of the agent that are described in metadata.
    pub(crate) client_displays: bool,
    /// The side of version 1 if the versions differ.
    pub(crate) old: Option<Side>,
}

impl Peers {
    pub(crate) fn new(options: &BridgeOptions) -> Self {
        Peers {
            client_dialect: options.client_dialect,
            agent_dialect: options.agent_dialect,
            client: tracker(options.client_dialect),
            agent: tracker(options.agent_dialect),
            client_displays: false,
            old: None,
        }
    }

    /// Updates the client's dialect from a request.
    pub(crate) fn learn_from_client(&mut self, request: &Request<'_>) {
        if self.client.see_client_request(request) {
            self.client_dialect = dialect(self.client.wire_format());
        }
    }

    /// Updates the agent's dialect from an update or a question.
    pub(crate) fn learn_from_agent(&mut self, message: &Message<'_>) {
        if self.agent.see_agent_call(message) {
            self.agent_dialect = dialect(self.agent.wire_format());
        }
    }

    /// Updates the agent's dialect from its response to a prompt.
    pub(crate) fn learn_from_answer(&mut self, result: &Raw<'_>) {
        if self.agent.see_prompt_answer(result) {
            self.agent_dialect = dialect(self.agent.wire_format());
        }
    }

    /// Returns whether the evidence for the agent's dialect is conclusive.
    pub(crate) fn knows_agent(&self) -> bool {
        self.agent.evidence().is_some_and(|evidence| evidence.row().weight >= Weight::Presence)
    }

    /// Returns the wire format for messages to a side.
    pub(crate) fn format(&self, side: Side) -> WireFormat {
        match side {
            _ if self.old == Some(side) => WireFormat::V1,
            Side::Client => self.client_revision(),
            Side::Agent => WireFormat::Any,
        }
    }

    /// Returns the wire format for messages to a version 2 client.
    pub(crate) fn client_revision(&self) -> WireFormat {
        match self.client_dialect {
            Some(Dialect::Spec) => WireFormat::Spec,
            Some(Dialect::Newest) => WireFormat::Newest,
            None => WireFormat::Any,
        }
    }
}

fn tracker(told: Option<Dialect>) -> DialectTracker {
    match told {
        Some(Dialect::Spec) => DialectTracker::known(WireFormat::Spec),
        Some(Dialect::Newest) => DialectTracker::known(WireFormat::Newest),
        None => DialectTracker::new(),
    }
}

fn dialect(format: WireFormat) -> Option<Dialect> {
    match format {
        WireFormat::Spec => Some(Dialect::Spec),
        WireFormat::Newest => Some(Dialect::Newest),
        WireFormat::V1 | WireFormat::Any => None,
    }
}
