//! Agents and their processes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::AgentId;
use super::agent_process::{AgentProcess, Description};
use super::lifecycle::PendingCreation;

/// The agents that the hub was started with, and their processes.
pub(super) struct Agents {
    /// The last description of each agent.
    pub(super) descriptions: Vec<Option<Arc<Description>>>,
    pub(super) processes: BTreeMap<AgentId, AgentProcess>,
    pub(super) last_process: AgentId,
    /// Sessions whose logs are being created, by ticket.
    pub(super) creating: BTreeMap<u64, PendingCreation>,
    /// Time of the last start of each warm agent.
    pub(super) warmed: HashMap<usize, u64>,
}

impl Agents {
    /// Creates the state of a number of agents, of which no process runs.
    pub(super) fn new(agents: usize) -> Self {
        Agents {
            descriptions: vec![None; agents],
            processes: BTreeMap::new(),
            last_process: 0,
            creating: BTreeMap::new(),
            warmed: HashMap::new(),
        }
    }
}
