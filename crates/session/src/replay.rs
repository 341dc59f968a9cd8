//! Replay of history: built beside the present state, put in its place at the end.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::change::{Change, Changes};
use crate::entry::{Entry, EntryKind, Origin};
use crate::index::Index;
use crate::session::Session;
use crate::shared_vec::SharedVec;
use crate::snapshot::Snapshot;

impl Session {
    /// History is about to be replayed. Until [`Session::end_replay`], updates build it up beside the present
    /// state, which stays readable and unchanged. A replay that was under way is forgotten.
    pub fn begin_replay(&mut self) {
        let mut replay = Session::new(self.view.dialect);
        replay.meta_rule = self.meta_rule;
        replay.terminal_limit = self.terminal_limit;
        replay.keeps_transcript = self.keeps_transcript;
        replay.keeps_settled = self.keeps_settled;
        replay.origin = Origin::Replayed;
        self.replay = Some(Box::new(replay));
    }

    /// Whether updates are taken as history at present.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// The replay failed: what it brought is forgotten.
    pub fn abandon_replay(&mut self) {
        self.replay = None;
    }

    /// The replay is complete: it takes the place of the present state.
    ///
    /// What both have is there once, as the replay has it. It is recognised by its id or, for peers that give
    /// other ids on every replay, by kind, order and content; the id known first stays, and the new one leads
    /// to the same entry. What the replay does not bring stays where it was. Replaying the same again changes
    /// nothing.
    pub fn end_replay(&mut self) -> Changes {
        let Some(replay) = self.replay.take() else { return Changes::default() };
        let mut changes = Changes::default();
        self.take_transcript(&replay.view, &mut changes);
        self.take_rest(&replay.view, &mut changes);
        self.recent = Default::default();
        let changes = self.finish(changes);
        if self.pending.is_empty() { changes } else { self.note_asked(changes) }
    }

    fn take_transcript(&mut self, replay: &Snapshot, changes: &mut Changes) {
        let known_as = match_entries(&self.view, replay);
        let order = merged_order(&known_as, self.view.entries.len());
        let revision = self.view.revision + 1;
        let mut changed = order.len() != self.view.entries.len();
        let mut entries = SharedVec::default();
        let mut aliases = HashMap::clone(&self.view.aliases);
        // Where each present entry goes.
        let mut moved = vec![0; self.view.entries.len()];
        for (position, source) in order.iter().enumerate() {
            let present = source.present.and_then(|place| Some((place, self.view.entries.get(place)?)));
            let replayed = source.replayed.and_then(|place| replay.entries.get(place));
            let entry = match (present, replayed) {
                (Some((place, present)), replayed) => {
                    moved[place] = position;
                    changed |= place != position;
                    let Some(replayed) = replayed else {
                        entries.push(present.clone());
                        continue;
                    };
                    let head = present.head();
                    if head.id != replayed.head().id {
                        aliases.insert((head.kind, replayed.head().id.clone()), position);
                    }
                    let mut entry = replayed.clone();
                    let new_head = entry.head_mut();
                    new_head.id = head.id.clone();
                    new_head.origin = head.origin;
                    new_head.revision = head.revision;
                    if entry == *present {
                        present.clone()
                    } else {
                        changed = true;
                        entry.head_mut().revision = revision;
                        entry
                    }
                }
                (None, Some(replayed)) => {
                    let mut entry = replayed.clone();
                    entry.head_mut().revision = revision;
                    entry
                }
                (None, None) => continue,
            };
            entries.push(entry);
        }
        for alias in &self.view.aliases.iter().collect::<Vec<_>>() {
            if let (Some(target), Some(&position)) = (aliases.get_mut(alias.0), moved.get(*alias.1)) {
                *target = position;
            }
        }
        self.view.aliases = Arc::new(aliases);
        if changed {
            self.view.set_entries(entries);
            self.move_requests(&moved);
            changes.push(Change::Replayed);
        }
    }

    /// Requests stand behind the entry that they stood behind before.
    fn move_requests(&mut self, moved: &[usize]) {
        let after = |position: usize| {
            let before = position.checked_sub(1).and_then(|before| moved.get(before));
            before.map_or(0, |before| before + 1)
        };
        for index in 0..self.view.permissions.len() {
            if let Some(permission) = self.view.permissions.get_mut(index) {
                let permission = Arc::make_mut(permission);
                permission.position = after(permission.position);
            }
        }
        for index in 0..self.view.elicitations.len() {
            if let Some(elicitation) = self.view.elicitations.get_mut(index) {
                let elicitation = Arc::make_mut(elicitation);
                elicitation.position = after(elicitation.position);
            }
        }
    }

    /// What is not transcript: the replay's value where it has one.
    fn take_rest(&mut self, replay: &Snapshot, changes: &mut Changes) {
        let revision = self.view.revision + 1;
        let view = &mut self.view;
        if take(&mut view.state, replay.state.as_ref()) {
            changes.push(Change::State);
        }
        if take(&mut view.info.title, replay.info.title.as_ref()) {
            changes.push(Change::Title);
        }
        let mut info = take(&mut view.info.updated_at, replay.info.updated_at.as_ref());
        info |= take(&mut view.info.meta, replay.info.meta.as_ref());
        for (key, value) in replay.info.extra.iter() {
            info |= view.info.extra.get(key) != Some(value);
            view.info.extra.insert(key.to_owned(), value.clone());
        }
        if info {
            changes.push(Change::Info);
        }
        if take(&mut view.commands, replay.commands.as_ref()) {
            changes.push(Change::Commands);
        }
        if take(&mut view.config_options, replay.config_options.as_ref()) {
            changes.push(Change::ConfigOptions);
        }
        if take(&mut view.usage, replay.usage.as_ref()) {
            changes.push(Change::Usage);
        }
        for plan in replay.plans.iter() {
            let mut plan = Arc::clone(plan);
            Arc::make_mut(&mut plan).revision = revision;
            let known = view.plan_place(&plan.id);
            match known.and_then(|index| view.plans.get_mut(index)) {
                Some(stored) if stored.says_the_same(&plan) => continue,
                Some(stored) => *stored = plan,
                None => view.push_plan(plan),
            }
            let index = known.unwrap_or(view.plans.len() - 1);
            changes.push(Change::Plan { index, created: known.is_none() });
        }
        let mut known: HashMap<_, usize> = HashMap::new();
        for unknown in view.unknown.iter() {
            *known.entry(Arc::clone(unknown)).or_default() += 1;
        }
        for unknown in replay.unknown.iter() {
            match known.get_mut(unknown) {
                Some(count) if *count > 0 => *count -= 1,
                _ => {
                    changes.push(Change::Unknown { index: view.unknown.len() });
                    view.unknown.push(Arc::clone(unknown));
                }
            }
        }
    }
}

fn take<T: PartialEq + Clone>(stored: &mut Option<T>, replayed: Option<&T>) -> bool {
    if replayed.is_none() || stored.as_ref() == replayed {
        return false;
    }
    *stored = replayed.cloned();
    true
}

impl Snapshot {
    pub(crate) fn set_entries(&mut self, entries: SharedVec<Entry>) {
        let mut index = Index::default();
        for (position, entry) in entries.iter().enumerate() {
            let hash = index.hash((entry.kind() as u8, entry.id()));
            index.insert(hash, position);
        }
        self.entries = entries;
        self.entry_index = index;
    }
}

/// For each replayed entry, the present entry that it is.
fn match_entries(present: &Snapshot, replay: &Snapshot) -> Vec<Option<usize>> {
    let mut taken = vec![false; present.entries.len()];
    let mut known_as: Vec<Option<usize>> = Vec::with_capacity(replay.entries.len());
    for entry in replay.entries() {
        let place = present.position(entry.kind(), entry.id()).filter(|&place| !taken[place]);
        if let Some(place) = place {
            taken[place] = true;
        }
        known_as.push(place);
    }
    if known_as.iter().all(Option::is_some) || taken.iter().all(|taken| *taken) {
        return known_as;
    }
    let state = RandomState::new();
    let mut by_content: HashMap<u64, VecDeque<usize>> = HashMap::new();
    for (place, entry) in present.entries().enumerate().filter(|(place, _)| !taken[*place]) {
        by_content.entry(fingerprint(&state, entry)).or_default().push_back(place);
    }
    for (known_as, entry) in known_as.iter_mut().zip(replay.entries()).filter(|(known, _)| known.is_none()) {
        let Some(places) = by_content.get_mut(&fingerprint(&state, entry)) else { continue };
        let same =
            places.iter().position(|&place| present.entry(place).is_some_and(|it| it.says_the_same(entry)));
        *known_as = same.and_then(|same| places.remove(same));
    }
    known_as
}

/// Equal for entries that say the same.
fn fingerprint(state: &RandomState, entry: &Entry) -> u64 {
    match entry {
        Entry::Message(message) => state.hash_one((message.kind(), message.content.text())),
        Entry::ToolCall(call) => state.hash_one((EntryKind::ToolCall, &call.title, call.content.text())),
        Entry::Terminal(terminal) => state.hash_one((EntryKind::Terminal, &terminal.command)),
        Entry::Compaction(compaction) => state.hash_one((EntryKind::Compaction, compaction.summary.text())),
        Entry::Subagent(subagent) => state.hash_one((EntryKind::Subagent, subagent.session_id())),
        Entry::SessionMessage(message) => {
            state.hash_one((EntryKind::SessionMessage, message.sender(), message.content.text()))
        }
    }
}

/// Where an entry of the new transcript comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    present: Option<usize>,
    replayed: Option<usize>,
}

/// The replay's order. A present entry that the replay lacks stays behind the one that it stood behind; when
/// there is none, it is newer than all history if the replay has nothing of the present, else older.
fn merged_order(known_as: &[Option<usize>], present: usize) -> Vec<Source> {
    let mut replayed_at = vec![None; present];
    for (replayed, place) in known_as.iter().enumerate() {
        if let Some(place) = *place {
            replayed_at[place] = Some(replayed);
        }
    }
    let mut leading = Vec::new();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); known_as.len()];
    let mut anchor = None;
    for (place, replayed) in replayed_at.iter().enumerate() {
        match (replayed, anchor) {
            (Some(replayed), _) => anchor = Some(*replayed),
            (None, Some(anchor)) => behind[anchor].push(place),
            (None, None) => leading.push(place),
        }
    }
    let kept = |place: usize| Source { present: Some(place), replayed: None };
    let (first, last) = if anchor.is_some() { (leading, Vec::new()) } else { (Vec::new(), leading) };
    let mut order: Vec<Source> = first.into_iter().map(kept).collect();
    for (replayed, &present) in known_as.iter().enumerate() {
        order.push(Source { present, replayed: Some(replayed) });
        order.extend(behind[replayed].iter().map(|&place| kept(place)));
    }
    order.extend(last.into_iter().map(kept));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(known_as: &[Option<usize>], present: usize) -> String {
        let name = |source: &Source| match (source.present, source.replayed) {
            (Some(place), None) => format!("p{place}"),
            (Some(place), Some(replayed)) => format!("p{place}=r{replayed}"),
            (None, replayed) => format!("r{}", replayed.unwrap()),
        };
        merged_order(known_as, present).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_the_replay_lacks_stays_where_it_was() {
        assert_eq!(order(&[], 2), "p0 p1");
        assert_eq!(order(&[None, None], 1), "r0 r1 p0");
        assert_eq!(order(&[None, Some(0)], 2), "r0 p0=r1 p1");
        assert_eq!(order(&[Some(1)], 3), "p0 p1=r0 p2");
        assert_eq!(order(&[Some(1), Some(0)], 2), "p1=r0 p0=r1");
    }
}
