//! Everything that the methods of a session need beside the session: outputs, clients, agents and the other hubs.

use super::CoreOptions;
use super::agents::Agents;
use super::clients::Clients;
use super::outbox::Outbox;
use super::ownership::Cluster;

/// The parts of the core beside its sessions.
pub(super) struct Context {
    pub(super) options: CoreOptions,
    pub(super) outbox: Outbox,
    pub(super) clients: Clients,
    pub(super) agents: Agents,
    /// Other hubs, and the requests forwarded to and by them.
    pub(super) cluster: Cluster,
    /// True if the hub is shutting down.
    pub(super) is_ending: bool,
    /// Reason why logs cannot be written at the moment.
    pub(super) log_problem: Option<String>,
    /// True if [`Output::Event`](super::Output::Event) is enabled.
    pub(super) has_events: bool,
    /// Name of the client whose answer is being recorded.
    pub(super) answered_by: Option<String>,
    /// Reason why the agent of the session that is being interrupted is gone.
    pub(super) interruption: Option<String>,
}

impl Context {
    pub(super) fn new(options: CoreOptions) -> Self {
        Context {
            agents: Agents::new(options.agents.len()),
            options,
            outbox: Outbox::default(),
            clients: Clients::default(),
            cluster: Cluster::default(),
            is_ending: false,
            log_problem: None,
            has_events: false,
            answered_by: None,
            interruption: None,
        }
    }
}
