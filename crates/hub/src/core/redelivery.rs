//! Redelivery of prompts that never reached their agent because it had closed its input or exited. No work was done for
//! them, so they are sent to the next process instead of failing.

use std::collections::HashSet;

use switchboard_acp::Side;
use switchboard_acp::extensions::{HubRecord, PromptRecord};
use switchboard_acp::rpc::RequestId;

use super::agent_process::PendingAgentRequest;
use super::session::Prompt;
use super::{AgentId, Core};

/// Maximum number of redeliveries of a prompt. An agent that closes its input after each handshake would get it
/// forever.
const REDELIVERIES: usize = 2;

/// Queues the prompts again that an exited process has not received, named by the agent's session ids. Must be
/// called before [`Core::agent_exited`], which fails all other prompts.
pub(super) fn undelivered(core: &mut Core, process: AgentId, agent_sessions: &[String]) {
    let Some(known) = core.cx.agents.processes.get_mut(&process) else { return };
    let sessions: HashSet<_> =
        agent_sessions.iter().filter_map(|id| known.sessions.get(id).cloned()).collect();
    if core.cx.is_ending || sessions.is_empty() {
        return;
    }
    let may_go = |purpose: &PendingAgentRequest| match purpose {
        PendingAgentRequest::Prompt { session, redeliveries, .. } => {
            sessions.contains(session) && *redeliveries < REDELIVERIES
        }
        _ => false,
    };
    // Removed from the pending requests, so that the exit of the process does not fail them.
    let undelivered = known.pending.drain_if(|_, _, purpose| may_go(purpose));
    // In reverse order, because each is put at the front of the queue.
    for request in undelivered.into_iter().rev() {
        let PendingAgentRequest::Prompt { session, client, operation, params, redeliveries } = request.about
        else {
            continue;
        };
        let RequestId::Number(number) = request.id else { continue };
        // Readers of the log treat the prompt as never sent.
        core.append_hub_record(&session, &HubRecord::PromptUndelivered(PromptRecord::new().request(number)));
        let (connection, id) = client;
        let asked = core
            .cx
            .clients
            .connections
            .get_mut(&connection)
            .and_then(|known| known.pending.get_mut(Side::Client, &id));
        if let Some(asked) = asked {
            // The request has no id at an agent now: a cancellation by its client removes it from the queue.
            asked.at_agent = None;
        }
        if let Some(known) = core.sessions.get_mut(&session) {
            let redeliveries = redeliveries + 1;
            known.prompts.push_front(Prompt { connection, id, params, operation, redeliveries });
        }
    }
}
