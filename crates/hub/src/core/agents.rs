//! Agents and their processes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use switchboard_acp::Raw;
use switchboard_acp::rpc::RequestId;

use super::agent_process::{AgentProcess, Description, PendingAgentRequest};
use super::lifecycle::PendingCreation;
use super::lines::{self, Rewrite};
use super::{AgentId, SessionId};

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

    /// Returns the running or starting process of an agent.
    pub(super) fn process_of(&self, agent: usize) -> Option<AgentId> {
        self.processes
            .iter()
            .find_map(|(id, process)| (process.agent == agent && process.takes_sessions()).then_some(*id))
    }

    pub(super) fn build_request(
        &mut self,
        process: AgentId,
        method: &str,
        params: Option<&Raw<'_>>,
        rewrite: Rewrite<'_>,
        purpose: PendingAgentRequest,
    ) -> Option<(RequestId<'static>, String)> {
        let id = self.processes.get_mut(&process)?.register(purpose)?;
        let line = lines::call(Some(&id), method, params, rewrite);
        Some((id, line))
    }

    /// Notes that a session is in a process or about to be.
    pub(super) fn enter(&mut self, process: AgentId, id: &SessionId) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.users.insert(SessionId::clone(id));
        }
    }

    /// Returns whether a session is in a process or about to be.
    pub(super) fn is_used(&self, process: AgentId) -> bool {
        self.processes.get(&process).is_some_and(|process| !process.users.is_empty())
            || self.creating.values().any(|creating| creating.process == process)
    }

    /// Notes that a session is not in a process any more.
    pub(super) fn leave(&mut self, process: AgentId, id: &SessionId) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.users.remove(id);
        }
    }

    /// Returns whether the agent has a pending request that opens a session, whose id is not known yet.
    pub(super) fn is_opening(&self, process: AgentId) -> bool {
        let opens = |purpose: &PendingAgentRequest| {
            matches!(
                purpose,
                PendingAgentRequest::New { .. }
                    | PendingAgentRequest::Recreate { .. }
                    | PendingAgentRequest::Fork { .. }
            )
        };
        self.processes
            .get(&process)
            .is_some_and(|process| process.pending.iter().any(|(.., purpose)| opens(purpose)))
            || self.creating.values().any(|creating| creating.process == process)
    }
}
