//! Sessions and the sub-agents' sessions that were started in their course, as a tab needs them.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_acp::{WireFormat, v2};
use switchboard_session::{Conversation, Entry, EntryKind, Session, Snapshot, Turn, TurnOutcome};

use super::live_recording::LiveRecording;

/// Of longer lines of ancestors, only the root and so many of the nearest are named.
const MOST_ANCESTORS: usize = 8;

/// What a tab looks at: sessions as they are, or as they were.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub(crate) room: &'a LiveRecording,
    pub(crate) past: Option<&'a Conversation>,
}

impl Sight<'_> {
    /// Looks at all sessions. What is new waits meanwhile, so it must not take long.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        if let Some(past) = self.past {
            return look(past);
        }
        let preview = self.room.preview();
        match &*preview {
            Some(preview) => look(preview),
            None => {
                drop(preview);
                self.room.look(look)
            }
        }
    }

    /// A session, and where its children stand in it.
    pub(crate) fn relative(&self, id: &str) -> Option<Relative> {
        self.look(|conversation| Relative::of(conversation, id))
    }
}

/// The first words of a session, by which people know it until it has a better name.
pub(crate) fn first_words(snapshot: &Snapshot) -> Option<String> {
    let said = snapshot.entries().take(NEAR).filter(|entry| is_said(entry)).find_map(Entry::as_message)?;
    let text = said.content().text();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LONGEST_NAME).collect())
}

/// Longer first words are cut.
const LONGEST_NAME: usize = 80;

/// The turns of a session that went wrong, by the position of their last entry. One without entries is where the page was
/// told so, and nowhere else.
fn failures(conversation: &Conversation, id: &str, snapshot: &Snapshot) -> HashMap<usize, FailedTurn> {
    let mut failures = HashMap::new();
    let mut end = snapshot.len();
    for turn in conversation.turns((!id.is_empty()).then_some(id)).rev() {
        if let (Some((reason, at)), true) = (failure(turn), turn.position() < end) {
            let mut said = (turn.position()..end).take(NEAR);
            let said = said.find(|place| snapshot.entry(*place).is_some_and(is_said));
            failures.insert(end - 1, FailedTurn { reason, said, at });
        }
        end = end.min(turn.position());
    }
    failures
}

/// What was said is among the first entries of its turn.
const NEAR: usize = 8;

fn is_said(entry: &Entry) -> bool {
    entry.kind() == EntryKind::UserMessage
}

/// Why a turn did not come to a good end, and when. One that was cancelled did: somebody wanted it.
fn failure(turn: &Turn) -> Option<(String, i64)> {
    use v2::StopReason as Reason;
    let end = turn.end()?;
    let words = match &end.outcome {
        TurnOutcome::Idle(idle) => match (&idle.error, &idle.stop_reason) {
            (Some(error), _) => format!("The turn failed: {}", error.message),
            (None, Some(Reason::Error)) => "The turn failed; the agent does not say why.".to_owned(),
            (None, Some(Reason::MaxTokens)) => {
                "The turn ended early: there is no room for more tokens.".to_owned()
            }
            (None, Some(Reason::MaxTurnRequests)) => {
                "The turn ended early: it made too many requests.".to_owned()
            }
            (None, Some(Reason::Refusal)) => "The agent refuses to go on with this.".to_owned(),
            (None, Some(Reason::EndTurn | Reason::Cancelled | Reason::Unknown(_)) | None) => return None,
            (None, Some(Reason::More(none))) => none.never(),
        },
        TurnOutcome::Refused(error) => {
            format!("The agent did not take it: {} ({})", error.message, error.code)
        }
        TurnOutcome::ConnectionEnd => "The agent ended before it was done.".to_owned(),
        _ => return None,
    };
    Some((words, end.at.0))
}

/// The session with an id; that of messages without one has none.
pub(crate) fn session<'c>(conversation: &'c Conversation, id: &str) -> Option<&'c Session> {
    conversation.session((!id.is_empty()).then_some(id))
}

fn nothing_yet() -> Snapshot {
    Session::new(WireFormat::Any).snapshot()
}

/// A session at one moment, and where its children stand in it.
pub(crate) struct Relative {
    pub(crate) id: Arc<str>,
    pub(crate) snapshot: Snapshot,
    pub(crate) parent: Option<Arc<str>>,
    /// What people know it by, and what it was doing last by what itself or its parent told, also in words.
    pub(crate) name: String,
    pub(crate) state: Option<v2::StateUpdate<'static>>,
    pub(crate) state_in_words: &'static str,
    /// The children that are shown in a tool call, by its id.
    by_call: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// All children, each with whether it is shown in a tool call. The others are shown where the session tells of them.
    children: HashMap<Arc<str>, bool>,
    /// The turns that went wrong, by the position of their last entry.
    failures: HashMap<usize, FailedTurn>,
}

/// A turn that did not come to a good end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedTurn {
    /// Why, in words.
    pub(crate) reason: String,
    /// The position of what was said, where the transcript has it.
    pub(crate) said: Option<usize>,
    /// When it ended.
    pub(crate) at: i64,
}

impl Relative {
    fn of(conversation: &Conversation, id: &str) -> Option<Self> {
        let snapshot = match session(conversation, id) {
            Some(session) => session.snapshot(),
            // Others tell of it, and it has not said anything itself yet.
            None if conversation.parent(id).is_some() => nothing_yet(),
            None => return None,
        };
        let mut by_call: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let mut children = HashMap::new();
        for (child, parent) in conversation.children(id) {
            let child: Arc<str> = child.into();
            let call = parent.tool_call.as_ref().filter(|call| snapshot.tool_call(call).is_some());
            if let Some(call) = call {
                by_call.entry(Arc::clone(call)).or_default().push(Arc::clone(&child));
            }
            children.insert(child, call.is_some());
        }
        let parent = conversation.parent(id).map(|parent| Arc::clone(&parent.session));
        let failures = failures(conversation, id, &snapshot);
        Some(Relative {
            id: id.into(),
            snapshot,
            parent,
            name: name(conversation, id),
            state: conversation.state(id).cloned(),
            state_in_words: conversation.state_in_words(id),
            by_call,
            children,
            failures,
        })
    }

    /// The turn that went wrong with an entry, if one did.
    pub(crate) fn failure(&self, position: usize) -> Option<&FailedTurn> {
        self.failures.get(&position)
    }

    /// A session of which nothing has come yet.
    pub(crate) fn empty(id: &str) -> Self {
        Relative {
            id: id.into(),
            snapshot: nothing_yet(),
            parent: None,
            name: id.to_owned(),
            state: None,
            state_in_words: "",
            by_call: HashMap::new(),
            children: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// The children that are shown in an entry, in the order in which they were told.
    pub(crate) fn inside(&self, entry: &Entry) -> &[Arc<str>] {
        match entry {
            Entry::ToolCall(call) => self.by_call.get(call.id()).map_or(&[], Vec::as_slice),
            Entry::Subagent(subagent) => match self.children.get_key_value(subagent.session_id()) {
                Some((child, false)) => std::slice::from_ref(child),
                _ => &[],
            },
            _ => &[],
        }
    }

    /// Whether a session is a child that is shown in a tool call.
    pub(crate) fn is_in_a_call(&self, child: &str) -> bool {
        self.children.get(child) == Some(&true)
    }
}

/// A session with the name that people know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: Arc<str>,
    pub(crate) name: String,
}

/// The name of a session: what a sub-agent is known by, its title, or its id.
pub(crate) fn name(conversation: &Conversation, id: &str) -> String {
    let own = || session(conversation, id)?.title().filter(|title| !title.is_empty()).map(str::to_owned);
    conversation.name(id).or_else(own).unwrap_or_else(|| id.to_owned())
}

/// The name of a sub-agent where it is the child of a session. What the session tells of others is shown as it tells it.
pub(crate) fn name_of_child(conversation: &Conversation, session: &str, id: &str) -> Option<String> {
    let parent = conversation.parent(id).filter(|parent| *parent.session == *session);
    parent.and_then(|_| conversation.name(id))
}

/// Whether a session is at work by itself.
pub(crate) fn is_active(conversation: &Conversation, id: &str) -> bool {
    use v2::StateUpdate::{RequiresAction, Running};
    matches!(conversation.state(id), Some(Running(_) | RequiresAction(_)))
}

/// The sessions from the root down to one, without it. Empty where no agent has started it.
pub(crate) fn ancestors(conversation: &Conversation, id: &str) -> Vec<Named> {
    let all: Vec<&Arc<str>> = conversation.ancestors(id).map(|parent| &parent.session).collect();
    let nearest = all.len().min(MOST_ANCESTORS);
    let named = |id: &Arc<str>| Named { id: Arc::clone(id), name: name(conversation, id) };
    // What leads nowhere has no id.
    let gap = || Named { id: "".into(), name: "…".to_owned() };
    let beginning = match all[nearest..] {
        [] => vec![],
        [root] => vec![named(root)],
        [.., root] => vec![named(root), gap()],
    };
    beginning.into_iter().chain(all[..nearest].iter().rev().map(|id| named(id))).collect()
}

/// A session with questions that wait for an answer.
pub(crate) struct Asking {
    pub(crate) id: Arc<str>,
    pub(crate) snapshot: Snapshot,
    /// Whose questions they are: the sessions from the root down to this one. Empty for a session that no agent has
    /// started.
    pub(crate) whose: Vec<Named>,
}

/// What goes on in a session and below it.
#[derive(Default)]
pub(crate) struct Below {
    /// Those with questions, the session itself first.
    pub(crate) asking: Vec<Asking>,
    /// How many questions wait in all of them.
    pub(crate) questions: usize,
    /// How many sub-agents are at work.
    pub(crate) at_work: usize,
    /// How many sub-agents there are.
    pub(crate) count: usize,
}

/// Looks through a session and all that descend from it. Links between sessions never form a circle.
pub(crate) fn below(conversation: &Conversation, id: &str) -> Below {
    let mut below = Below::default();
    let mut open: Vec<&str> = vec![id];
    while let Some(id) = open.pop() {
        let before = open.len();
        let session = session(conversation, id);
        for (child, _) in conversation.children(id) {
            below.count += 1;
            below.at_work += usize::from(is_active(conversation, child));
            open.push(child);
        }
        open[before..].reverse();
        let Some(session) = session else { continue };
        let count = session.pending_permissions().count() + session.pending_elicitations().count();
        if count > 0 {
            below.questions += count;
            let whose = whose(conversation, id);
            below.asking.push(Asking { id: id.into(), snapshot: session.snapshot(), whose });
        }
    }
    below
}

/// Whose a session's questions are: the sessions from the root down to it, where an agent has started it.
fn whose(conversation: &Conversation, id: &str) -> Vec<Named> {
    let mut whose = ancestors(conversation, id);
    if !whose.is_empty() {
        whose.push(Named { id: id.into(), name: name(conversation, id) });
    }
    whose
}

/// A sub-agent somewhere below a session.
pub(crate) struct Descendant {
    pub(crate) named: Named,
    /// 0 for a child.
    pub(crate) depth: usize,
    /// What it is doing, in words.
    pub(crate) state: &'static str,
    /// How many entries its transcript has.
    pub(crate) length: usize,
}

/// The sub-agents below a session, each before its own, and at most so many.
pub(crate) fn descendants(conversation: &Conversation, id: &str, most: usize) -> Vec<Descendant> {
    let mut descendants = Vec::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    let expand = |open: &mut Vec<_>, parent, depth| {
        let before = open.len();
        open.extend(conversation.children(parent).map(|(child, _)| (child, depth)));
        open[before..].reverse();
    };
    expand(&mut open, id, 0);
    while let Some((child, depth)) = open.pop() {
        if descendants.len() >= most {
            break;
        }
        let own = conversation.session(Some(child));
        descendants.push(Descendant {
            named: Named { id: child.into(), name: name(conversation, child) },
            depth,
            state: conversation.state_in_words(child),
            length: own.map_or(0, |own| own.len()),
        });
        expand(&mut open, child, depth + 1);
    }
    descendants
}
