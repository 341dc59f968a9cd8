//! Replay of history: built next to the current state, and merged into it at the end.

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
    /// Starts a replay. Until [`Session::end_replay`], updates are collected next to the current state, which
    /// stays readable and unchanged. Discards a replay in progress.
    pub fn begin_replay(&mut self) {
        let mut replay = Session::new(self.view.dialect);
        replay.meta_rule = self.meta_rule;
        replay.terminal_limit = self.terminal_limit;
        replay.keeps_transcript = self.keeps_transcript;
        replay.keeps_settled = self.keeps_settled;
        replay.origin = Origin::Replayed;
        self.replay = Some(Box::new(replay));
    }

    /// Returns true while updates are collected as a replay.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Discards a failed replay.
    pub fn abandon_replay(&mut self) {
        self.replay = None;
    }

    /// Completes the replay and merges it into the current state.
    ///
    /// Entries in both appear once, with the content of the replay. They are matched by id or, for peers that
    /// assign new ids on every replay, by kind, order and content. The first id stays, and the new one
    /// becomes an alias. Entries that the replay lacks keep their position. Replaying the same history again
    /// changes nothing.
    pub fn end_replay(&mut self) -> Changes {
        let Some(replay) = self.replay.take() else { return Changes::default() };
        let mut changes = Changes::default();
        // Transcript first: the positions of questions depend on it. Then the rest, and last the questions
        // whose tool calls have changed.
        self.merge_transcript(&replay.view, &mut changes);
        self.merge_rest(&replay.view, &mut changes);
        // Positions have moved, so cached ones are invalid.
        self.recent = Default::default();
        let changes = self.finish(changes);
        if self.pending.is_empty() { changes } else { self.update_asked(changes) }
    }

    fn merge_transcript(&mut self, replay: &Snapshot, changes: &mut Changes) {
        // Match by id or content, merge both orders, then rebuild the list with the original ids and
        // revisions.
        let matches = match_entries(&self.view, replay);
        let order = merged_order(&matches, self.view.entries.len());
        let revision = self.view.revision + 1;
        let mut changed = order.len() != self.view.entries.len();
        let mut entries = SharedVec::default();
        let mut aliases = HashMap::clone(&self.view.aliases);
        // New position of each current entry.
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
                    // The peer assigned a new id in the replay. Later updates may use either, so add an
                    // alias.
                    if head.id != replayed.head().id {
                        aliases.insert((head.kind, replayed.head().id.clone()), position);
                    }
                    let mut entry = replayed.clone();
                    let new_head = entry.head_mut();
                    new_head.id = head.id.clone();
                    new_head.origin = head.origin;
                    new_head.revision = head.revision;
                    // Keep the current entry and its revision if nothing changed, so that consumers do not
                    // redraw it.
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
        // Aliases of earlier replays refer to old positions.
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

    /// Moves requests, so that they stay after the same entry.
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

    /// Merges everything except the transcript: the replay's value if it has one.
    fn merge_rest(&mut self, replay: &Snapshot, changes: &mut Changes) {
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
                Some(stored) if stored.has_same_content(&plan) => continue,
                Some(stored) => *stored = plan,
                None => view.push_plan(plan),
            }
            let index = known.unwrap_or(view.plans.len() - 1);
            changes.push(Change::Plan { index, created: known.is_none() });
        }
        // Unknown updates have no id. Count equal ones, so that a replay does not duplicate them.
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

/// Returns the matching current entry for each replayed entry.
fn match_entries(present: &Snapshot, replay: &Snapshot) -> Vec<Option<usize>> {
    let mut taken = vec![false; present.entries.len()];
    let mut matches: Vec<Option<usize>> = Vec::with_capacity(replay.entries.len());
    for entry in replay.entries() {
        // Ids first. Each current entry is matched at most once.
        let place = present.position(entry.kind(), entry.id()).filter(|&place| !taken[place]);
        if let Some(place) = place {
            taken[place] = true;
        }
        matches.push(place);
    }
    if matches.iter().all(Option::is_some) || taken.iter().all(|taken| *taken) {
        return matches;
    }
    // Then by content, only for entries that are still unmatched, in order.
    let state = RandomState::new();
    let mut by_content: HashMap<u64, VecDeque<usize>> = HashMap::new();
    for (place, entry) in present.entries().enumerate().filter(|(place, _)| !taken[*place]) {
        by_content.entry(fingerprint(&state, entry)).or_default().push_back(place);
    }
    for (matches, entry) in matches.iter_mut().zip(replay.entries()).filter(|(known, _)| known.is_none()) {
        let Some(places) = by_content.get_mut(&fingerprint(&state, entry)) else { continue };
        let same = places
            .iter()
            .position(|&place| present.entry(place).is_some_and(|it| it.has_same_content(entry)));
        *matches = same.and_then(|same| places.remove(same));
    }
    matches
}

/// Returns equal hashes for entries with equal content.
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

/// Origin of an entry of the merged transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    present: Option<usize>,
    replayed: Option<usize>,
}

/// Returns the merged order, which is the replay's order. A current entry that the replay lacks stays after
/// its predecessor. Without a predecessor, it goes to the end if the replay has no current entry, else to the
/// start.
fn merged_order(matches: &[Option<usize>], present: usize) -> Vec<Source> {
    let mut replayed_at = vec![None; present];
    for (replayed, place) in matches.iter().enumerate() {
        if let Some(place) = *place {
            replayed_at[place] = Some(replayed);
        }
    }
    let mut leading = Vec::new();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); matches.len()];
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
    for (replayed, &present) in matches.iter().enumerate() {
        order.push(Source { present, replayed: Some(replayed) });
        order.extend(behind[replayed].iter().map(|&place| kept(place)));
    }
    order.extend(last.into_iter().map(kept));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(matches: &[Option<usize>], present: usize) -> String {
        let name = |source: &Source| match (source.present, source.replayed) {
            (Some(place), None) => format!("p{place}"),
            (Some(place), Some(replayed)) => format!("p{place}=r{replayed}"),
            (None, replayed) => format!("r{}", replayed.unwrap()),
        };
        merged_order(matches, present).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn entries_missing_from_a_replay_keep_their_position() {
        assert_eq!(order(&[], 2), "p0 p1");
        assert_eq!(order(&[None, None], 1), "r0 r1 p0");
        assert_eq!(order(&[None, Some(0)], 2), "r0 p0=r1 p1");
        assert_eq!(order(&[Some(1)], 3), "p0 p1=r0 p2");
        assert_eq!(order(&[Some(1), Some(0)], 2), "p1=r0 p0=r1");
    }
}
