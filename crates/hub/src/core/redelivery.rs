//! Prompts that never reached their agent, because it had closed its input or was gone. Nothing was done for them, so they
//! go to the agent that is started next instead of failing.

use std::collections::HashSet;

use switchboard_acp::Side;
use switchboard_acp::extensions::{HubRecord, PromptRecord};
use switchboard_acp::rpc::RequestId;

use super::hosting::Purpose;
use super::session::Prompt;
use super::{Core, HostId, Output, lines};

/// How often a prompt is delivered again. An agent that closes its input after each handshake would get it for ever.
const REDELIVERIES: usize = 2;

impl Core {
    /// Queues the prompts again that an agent, which is gone, has not got. They are named by the agent's ids of their
    /// sessions. To be called before [`Core::host_ended`], which answers all others with an error.
    pub(crate) fn undelivered(&mut self, host: HostId, agent_sessions: &[String]) {
        let Some(known) = self.hosts.get_mut(&host) else { return };
        let sessions: HashSet<_> =
            agent_sessions.iter().filter_map(|id| known.sessions.get(id).cloned()).collect();
        if self.ending || sessions.is_empty() {
            return;
        }
        let may_go = |purpose: &Purpose| match purpose {
            Purpose::Prompt { session, redeliveries, .. } => {
                sessions.contains(session) && *redeliveries < REDELIVERIES
            }
            _ => false,
        };
        let undelivered = known.open.drain_if(|_, _, purpose| may_go(purpose));
        // The last one first, as each is put before those that wait.
        for request in undelivered.into_iter().rev() {
            let Purpose::Prompt { session, client, operation, params, redeliveries } = request.about else {
                continue;
            };
            let RequestId::Number(number) = request.id else { continue };
            // Every reader of the log takes the prompt for one that was never sent.
            self.note(&session, &HubRecord::PromptUndelivered(PromptRecord::new().request(number)));
            let (connection, id) = client;
            let asked =
                self.connections.get_mut(&connection).and_then(|known| known.open.get_mut(Side::Client, &id));
            if let Some(asked) = asked {
                asked.at_host = None;
            }
            if let Some(known) = self.sessions.get_mut(&session) {
                let redeliveries = redeliveries + 1;
                known.prompts.push_front(Prompt { connection, id, params, operation, redeliveries });
            }
        }
    }

    /// Drops the prompts for an agent that is gone and that nobody has sent yet. Gives the agent's ids of their sessions.
    pub(super) fn take_unsent(&mut self, id: HostId) -> Vec<String> {
        let mut prompted = Vec::new();
        self.output.retain(|output| match output {
            Output::ToHost { host, line, .. } if *host == id => match lines::prompted(line) {
                Some(session) => {
                    prompted.push(session);
                    false
                }
                None => true,
            },
            _ => true,
        });
        prompted
    }
}
