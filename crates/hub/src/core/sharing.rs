//! Sessions of a log that several hubs share. At each time one of them writes a session, and has its agent; the others show what
//! it writes, and pass on to it what their clients want. Who writes a session is decided where the log is: here is only what
//! was last heard of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use switchboard_acp::WireFormat;
use switchboard_acp::rpc::{Message, codes};
use switchboard_session::prompt_title_in;
use switchboard_store::Channel;

use super::connection::Answers;
use super::hosting::Purpose;
use super::lines::Outcome;
use super::notices::Act;
use super::passing::{Guest, Passed};
use super::session::Session;
use super::{ConnectionId, Core, HostId, Memory, Output, SessionId};

/// What is said in a session whose agent was at another hub, which is gone.
const HUB_GONE: &str = "the turn was interrupted: the hub that had the agent is gone";
/// After how many milliseconds it is looked again who writes a session, and what has no answer yet is passed on again.
const LOOK: u64 = 500;
/// After how many milliseconds without a word of the hub that writes a session that is at work it is asked for whether it does.
const SILENCE: u64 = 10_000;

/// After how many milliseconds without the servers of the log requests that were forwarded get an error.
const GIVE_UP: u64 = 60_000;

/// What other hubs are told of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubAbout {
    /// Where its clients find it.
    pub address: String,
    /// The folders below which its sessions may work.
    pub roots: Vec<String>,
}

/// Who writes a session.
#[derive(Debug)]
pub(crate) enum Owned {
    /// This hub, from now on: what its log amounts to, and how long it is.
    Here(Box<Memory>, u64),
    /// The hub of this name.
    There(Arc<str>),
}

/// What concerns other hubs.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// The other hubs that are there.
    pub(super) hubs: BTreeMap<Arc<str>, HubAbout>,
    /// What was passed on and has no answer.
    pub(super) passed: BTreeMap<u64, Passed>,
    /// What others have passed on and has no answer, by their names of it.
    pub(super) guests: HashMap<String, Guest>,
    /// The answers that they got, should they ask again.
    pub(super) served: Answers,
    pub(super) last_guest: u64,
    /// What clients here have last wanted of sessions that other hubs write.
    pub(super) acts: VecDeque<(SessionId, Act, ConnectionId)>,
    looked: u64,
    /// Since when the log cannot be written.
    problem_since: Option<u64>,
}

#[cfg(test)]
impl Sharing {
    /// Whether nothing waits for another hub, and no other hub for this one.
    pub(super) fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.guests.is_empty()
    }
}

impl Core {
    /// Whether this hub writes a session.
    pub(super) fn is_ours(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_none_or(|session| session.is_ours)
    }

    /// The other hubs that are there.
    pub(crate) fn hubs_are(&mut self, hubs: Vec<(Arc<str>, HubAbout)>) {
        self.sharing.hubs = hubs.into_iter().collect();
    }

    /// Has this hub write a session, unless another one does.
    pub(super) fn own(&mut self, id: &SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.asked_at = now;
        if !std::mem::replace(&mut session.is_asking, true) {
            self.output.push_back(Output::Own { session: Arc::clone(id) });
        }
    }

    /// It is known who writes a session.
    pub(crate) fn owned(&mut self, id: &SessionId, owned: Result<Owned, String>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_asking = false;
        let waiting = std::mem::take(&mut session.waiting);
        match owned {
            Ok(Owned::There(hub)) => {
                self.sharing.hubs.entry(Arc::clone(&hub)).or_default();
                session.hub = Some(hub);
            }
            Ok(Owned::Here(memory, length)) => {
                session.is_ours = true;
                session.hub = None;
                self.replace(id, *memory, length);
                self.interrupted(id, HUB_GONE, None);
                self.pump_all(id);
                let passed = self.sharing.passed.iter().filter(|(_, passed)| passed.session == *id);
                for ticket in passed.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
                    self.again(ticket, false);
                }
            }
            Err(reason) => {
                for (connection, line) in waiting {
                    let message = format!("the log of {id} cannot be written: {reason}");
                    let error = Outcome::error(codes::INTERNAL_ERROR, message, None);
                    self.not_started(connection, &line, &error);
                }
                return;
            }
        }
        for (connection, line) in waiting {
            self.dispatch(connection, &line);
        }
    }

    /// What the log of a session amounts to was read anew.
    fn replace(&mut self, id: &SessionId, memory: Memory, length: u64) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let is_closed = |place: &u64| !memory.questions.contains_key(place);
        let before = session.memory.as_ref().map(|memory| memory.questions.keys().copied());
        let closed: Vec<u64> = before.into_iter().flatten().filter(is_closed).collect();
        session.memory = Some(memory);
        session.goes_on_at(length);
        for place in closed {
            self.withdraw(id, place, None);
        }
    }

    /// Another hub has written to a session, or is about to.
    pub(crate) fn followed(&mut self, id: &str, hub: &Arc<str>, records: &[(u64, Channel, Arc<str>)]) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.is_ours {
            return;
        }
        let id = Arc::clone(session.id());
        session.hub = Some(Arc::clone(hub)).filter(|hub| self.options.name.as_ref() != Some(hub));
        session.heard_at = self.now;
        let end = records.last().map_or(0, |(sequence, ..)| sequence + 1);
        session.followed = session.followed.max(end);
        for (sequence, channel, text) in records {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            if *sequence < session.next {
                continue;
            }
            let is_next = *sequence == session.next;
            if session.memory.is_none() || !is_next {
                // It is read when somebody wants it; what is at hand ends here.
                self.states += u64::from(session.next == 0);
                session.goes_on_at(sequence + 1);
                session.known.changed = self.time;
                let is_nameless = session.known.title.is_none();
                if is_nameless && let Some((_, title)) = title_in(*channel, text) {
                    session.known.title = Some(title);
                    self.states += 1;
                }
                // The prompt that names it may be among the records that were missed.
                if session.memory.take().is_some() || (is_nameless && !is_next) {
                    self.load(&id);
                }
            } else {
                let notice = self.notice_in(&id, *channel, text);
                self.take_in(&id, *channel, Arc::clone(text), None);
                if let Some((update, except)) = notice {
                    self.notice(&id, &update, except);
                }
            }
        }
    }

    /// A session is written by somebody else by now.
    pub(super) fn lose(&mut self, id: &SessionId) {
        if self.options.name.is_none() {
            return;
        }
        // What was answered may not have got into the log.
        self.sharing.served = Answers::default();
        self.forget_parked(id);
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.is_ours = false;
        session.hub = None;
        let waiting = std::mem::take(&mut session.waiting);
        let mut wanted: Vec<_> =
            session.prompts.drain(..).map(|prompt| (prompt.connection, prompt.id)).collect();
        for host in self.hosts.values_mut() {
            let is_its = |purpose: &Purpose| match purpose {
                Purpose::Prompt { session, .. } => session == id,
                Purpose::Forwarded { session, .. } => session.as_ref() == Some(id),
                // Whoever takes it up anew asks anew.
                Purpose::Wake { session } | Purpose::Renew { session, .. } => session == id,
                _ => false,
            };
            for request in host.open.drain_if(|_, _, purpose| is_its(purpose)) {
                if let Purpose::Prompt { client, .. } | Purpose::Forwarded { client, .. } = request.about {
                    wanted.push(client);
                }
            }
        }
        let error = Outcome::error(codes::INTERNAL_ERROR, "another hub goes on with this session", None);
        for (connection, line) in waiting {
            self.not_started(connection, &line, &error);
        }
        for (connection, request) in wanted {
            match self.connections.get(&connection).and_then(|client| client.guest.clone()) {
                Some(key) => self.not_here(key, id),
                None => self.decline(connection, &request, error.clone()),
            }
        }
    }

    /// Ends an agent that has no session any more, because another hub goes on with the last one.
    pub(super) fn end_unneeded(&mut self, id: HostId, reason: &str) {
        let is_used = self.sessions.values().any(|session| session.host == Some(id))
            || self.creating.values().any(|creating| creating.host == id);
        if self.options.name.is_some() && !is_used {
            self.output.push_back(Output::EndHost { host: id });
            self.host_ended(id, reason, &[]);
        }
    }

    /// Looks after sessions that nobody needs to write any more, and after those whose hub is gone.
    pub(super) fn look_at_hubs(&mut self) {
        if self.options.name.is_none() || self.now < self.sharing.looked + LOOK {
            return;
        }
        self.sharing.looked = self.now;
        let is_well = self.log_problem.is_none() && !self.ending;
        match self.log_problem.clone() {
            None => self.sharing.problem_since = None,
            Some(problem) => {
                let since = *self.sharing.problem_since.get_or_insert(self.now);
                if self.now.saturating_sub(since) >= GIVE_UP {
                    self.give_up_forwarded(&problem);
                }
            }
        }
        let due: Vec<u64> = self
            .sharing
            .passed
            .iter_mut()
            .filter_map(|(ticket, passed)| std::mem::take(&mut passed.is_due).then_some(*ticket))
            .collect();
        for ticket in due {
            let Some(Passed { hub, message, is_refused, is_superseded, .. }) =
                self.sharing.passed.get(&ticket)
            else {
                continue;
            };
            if *is_superseded {
                self.send_anew(ticket);
            } else if *is_refused {
                self.again(ticket, true);
            } else if self.sharing.hubs.contains_key(hub) || !is_well {
                let (hub, message) = (Arc::clone(hub), Arc::clone(message));
                self.output.push_back(Output::PassOn { hub, ticket, message });
            } else {
                self.again(ticket, false);
            }
        }
        let mut rested = Vec::new();
        let mut orphaned = Vec::new();
        for session in self.sessions.values() {
            if session.is_ours && is_unneeded(session) {
                rested.push(Arc::clone(session.id()));
            }
            let is_at_work = |memory: &Memory| memory.is_busy() || !memory.questions.is_empty();
            let has_hub = session.hub.as_ref().is_some_and(|hub| self.sharing.hubs.contains_key(hub));
            // A hub that is there may have lost a session that nobody here wants anything of.
            let due = match has_hub {
                true => session.asked_at.max(session.heard_at) + SILENCE,
                false => session.asked_at + LOOK,
            };
            let is_followed = !session.is_ours && session.memory.as_ref().is_some_and(is_at_work);
            if is_followed && is_well && self.now >= due {
                orphaned.push(Arc::clone(session.id()));
            }
        }
        for id in rested {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.is_ours = false;
            }
            self.forget_parked(&id);
            self.output.push_back(Output::Release { session: id });
        }
        for id in orphaned {
            self.own(&id);
        }
    }

    /// What is said to a client whose session cannot go on here, with the hubs where it can.
    pub(super) fn with_hubs(&self, folder: &str, message: String, mut data: Value) -> (String, Value) {
        let has_it = |about: &&HubAbout| about.roots.iter().any(|root| Path::new(folder).starts_with(root));
        let hubs: Vec<&str> =
            self.sharing.hubs.values().filter(has_it).map(|about| about.address.as_str()).collect();
        if hubs.is_empty() {
            return (message, data);
        }
        let message = format!("{message}; these hubs have the folder: {}", hubs.join(", "));
        data["hubs"] = hubs.into();
        (message, data)
    }
}

fn is_unneeded(session: &Session) -> bool {
    session.host.is_none() && !session.is_waking && session.prompts.is_empty() && session.waiting.is_empty()
}

/// The title that a record of another hub makes, if it is a prompt.
fn title_in(channel: Channel, text: &str) -> Option<(String, String)> {
    if channel != Channel::ToAgent || !text.contains("\"session/prompt\"") {
        return None;
    }
    prompt_title_in(&Message::decode(text, WireFormat::Any).ok()?)
}
