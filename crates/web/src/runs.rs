//! Runs of finished tool calls, which the transcript shows as one line each.
//!
//! A run is found from the entries around the window alone, so that the cost of a frame does not depend on the length
//! of the session, and an entry belongs to the same run in every window. A run has a maximum length, because the page
//! requests its entries even while they are hidden; a longer sequence of calls is several runs.

use std::collections::HashSet;
use std::ops::Range;

use switchboard_acp::display::elapsed;
use switchboard_session::{Entry, Moment};

use super::render::{self, Part, RunCounts};
use super::rows::Scene;
use super::subagents::SessionNode;

/// Maximum number of entries in a run.
pub(crate) const LONGEST: usize = 24;
/// Minimum number of calls in a run.
const SHORTEST: usize = 3;
/// Number of entries before a window in which the start of a sequence is searched. Sequences whose start is further
/// away are divided at multiples of the maximum length. It is itself such a multiple.
const LOOK_BACK: usize = 20 * LONGEST;

/// Consecutive finished calls.
pub(crate) struct Run {
    /// Positions of the entries.
    pub(crate) range: Range<usize>,
    counts: RunCounts,
}

impl Run {
    /// Renders the line that stands for the calls.
    pub(crate) fn line(&self, scene: Scene<'_>, session: &SessionNode, is_open: bool) -> Part {
        let took = scene.is_whole.then(|| {
            let log = scene.source.room.log();
            let first = log.times(&session.id, self.range.start).first;
            log.times(&session.id, self.range.end - 1).last.saturating_sub(first)
        });
        let took = took.filter(|took| *took >= 1000).map(|took| elapsed(Moment(took).since(Moment(0))));
        render::run_line(self.counts, self.range.start, took.as_deref(), is_open)
    }
}

/// Returns the runs that contain entries of a window. No run begins before `least`. `waiting` has the calls with
/// pending questions.
pub(crate) fn in_window(
    session: &SessionNode,
    window: &Range<usize>,
    least: usize,
    waiting: &HashSet<&str>,
) -> Vec<Run> {
    let length = session.snapshot.len();
    let is_member = |position: usize| is_member(session, position, waiting);
    // The start of the sequence that contains the start of the window.
    let farthest = window.start.saturating_sub(LOOK_BACK + LONGEST).max(least);
    let mut start = window.start;
    while start > farthest && is_member(start - 1) {
        start -= 1;
    }
    let is_start_known = start > farthest || start == least;
    let mut begin = is_start_known.then_some(start);
    let mut at = if is_start_known { start } else { window.start / LONGEST * LONGEST };
    let mut runs = Vec::new();
    let mut current: Option<(usize, usize, RunCounts)> = None;
    let last = length.min(window.end + LONGEST);
    while at <= last {
        let is_in = at < last && is_member(at);
        let is_cut = match begin {
            Some(begin) if at - begin <= LOOK_BACK => (at - begin).is_multiple_of(LONGEST),
            _ => at.is_multiple_of(LONGEST),
        };
        if let Some((first, calls, counts)) = current.take_if(|_| !is_in || is_cut)
            && calls >= SHORTEST
        {
            runs.push(Run { range: first..at, counts });
        }
        if is_in {
            let (_, calls, counts) = current.get_or_insert((at, 0, RunCounts::default()));
            if let Some(call) = session.snapshot.entry(at).and_then(Entry::as_tool_call) {
                *calls += 1;
                counts.add(call);
            }
        } else {
            begin = Some(at + 1);
        }
        at += 1;
    }
    runs
}

/// Returns the run that contains a position. The runs are in order.
pub(crate) fn at(runs: &[Run], position: usize) -> Option<&Run> {
    let place = runs.partition_point(|run| run.range.end <= position);
    runs.get(place).filter(|run| run.range.contains(&position))
}

/// Returns `true` if an entry can be hidden in a run: a finished call that has changed no file and is not the end of a
/// turn, or a terminal that its call shows.
fn is_member(session: &SessionNode, position: usize, waiting: &HashSet<&str>) -> bool {
    let Some(entry) = session.snapshot.entry(position) else { return false };
    let is_routine = match entry {
        Entry::ToolCall(call) => {
            render::is_routine(call) && !waiting.contains(call.id()) && session.inside(entry).is_empty()
        }
        Entry::Terminal(terminal) => render::has_tool_call(&session.snapshot, terminal.id()),
        _ => false,
    };
    is_routine && session.ended_turn(position).is_none()
}
