//! Review of a session's changes: one diff for each file over all turns. The user undoes hunks, restores undone ones, and
//! marks others as kept.
//!
//! An undo changes a file of the user. It is refused unless the file has exactly the content that was shown, it writes only
//! to files that the session has changed, and the diff crate keeps it inside the session's folder and off links. The
//! decisions are kept in memory until Switchboard ends.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use maud::{Markup, html};
use switchboard_diff::{
    ApplyOptions, BinaryForm, Body, BuildOptions, Diff, Direction, FilePatch, Header, Hunk, LineKind,
    PatchOptions, apply_patch, apply_to_bytes, build_from_bytes, parse_patch, write_patch,
};

use super::app::App;
use super::changes::{self, CallChange, ChangedFiles, UserChange, WholeChange};
use super::live::Failure;
use super::render::{self, Lines, icon};
use super::subagents::SessionSource;

/// Maximum number of files that are listed; further ones are only counted.
const MOST_FILES: usize = 500;
/// Maximum number of lines that are shown, over all files.
const MOST_LINES: usize = 20_000;
/// Number of files that are initially unfolded.
const UNFOLDED: usize = 20;
/// Number of lines from which a file is initially folded.
const LONG_FILE: usize = 400;
/// Maximum number of undone hunks, and of kept ones, of one session.
const MOST_DECISIONS: usize = 1000;
/// Number of context lines that covers every file, so that a patch applies to exactly one content.
const WHOLE_FILE: u32 = 10_000_000;

/// Decisions of users about the changes of each session, by the id of its recording.
#[derive(Default)]
pub(crate) struct Reviews(Mutex<HashMap<String, Arc<Mutex<Decisions>>>>);

/// Decisions of users about the changes of a session.
#[derive(Default)]
struct Decisions {
    /// Undone hunks that are not restored, in order.
    undone: Vec<Undone>,
    /// Kept hunks, as hashes of their path and lines.
    kept: HashSet<u64>,
    /// Number of the last undone hunk.
    last: u64,
}

/// A change that the user has undone.
struct Undone {
    number: u64,
    path: String,
    /// Number of tool calls that had changed the file before.
    after: usize,
    /// Patch that restores it.
    back: Vec<u8>,
}

/// The changes of one file, and the revision of the version that is shown.
struct Reviewed {
    whole: WholeChange,
    diff: Diff,
    revision: String,
}

/// The session whose changes are reviewed.
#[derive(Clone, Copy)]
pub(crate) struct Review<'a> {
    pub(crate) app: &'a App,
    pub(crate) source: SessionSource<'a>,
    pub(crate) session: &'a str,
    /// The session's folder, if its files may be read.
    pub(crate) folder: Option<&'a Path>,
    /// The reason why changes cannot be undone, if there is one.
    pub(crate) refusal: Option<&'static str>,
    /// True if files can be opened in the editor.
    pub(crate) has_editor: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(value: impl std::hash::Hash) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(value)
}

impl Reviews {
    /// Returns the decisions about a session. Drops those of other sessions that are empty and not in use.
    fn of(&self, recording: &str) -> Arc<Mutex<Decisions>> {
        let mut all = locked(&self.0);
        all.retain(|_, decisions| Arc::strong_count(decisions) > 1 || !locked(decisions).is_empty());
        Arc::clone(all.entry(recording.to_owned()).or_default())
    }
}

impl Decisions {
    fn is_empty(&self) -> bool {
        self.undone.is_empty() && self.kept.is_empty()
    }

    fn undone_of<'d>(&'d self, path: &'d str) -> impl Iterator<Item = &'d Undone> {
        self.undone.iter().filter(move |undone| undone.path == path)
    }

    /// Returns the changes of a file, with the undone ones taken into account.
    fn reviewed(&self, path: &str, steps: &[CallChange], folder: &Path) -> Result<Reviewed, Failure> {
        let by_user: Vec<UserChange<'_>> = self
            .undone_of(path)
            .map(|undone| UserChange { after: undone.after, back: &undone.back })
            .collect();
        let whole = changes::whole_change(Path::new(path), steps, &by_user, folder)?;
        let diff = whole.diff(Path::new(path));
        let revision = self.revision(path, steps, whole.now.as_deref());
        Ok(Reviewed { whole, diff, revision })
    }

    /// Returns a word that changes whenever the content of the file or the shown changes do.
    fn revision(&self, path: &str, steps: &[CallChange], now: Option<&[u8]>) -> String {
        let undone: Vec<u64> = self.undone_of(path).map(|undone| undone.number).collect();
        format!("{:016x}", hash((path, steps.len(), undone, now)))
    }
}

impl Review<'_> {
    /// Renders the changes of all files.
    pub(crate) fn render(&self) -> Markup {
        let files = changes::collect(self.source, self.session);
        let decisions = self.app.reviews.of(&self.source.room.id);
        let decisions = locked(&decisions);
        self.markup(&files, &decisions)
    }

    fn markup(&self, files: &ChangedFiles, decisions: &Decisions) -> Markup {
        let mut budget = Lines::new(MOST_LINES);
        let (mut added, mut removed) = (0, 0);
        let shown: Vec<Markup> = files
            .iter()
            .take(MOST_FILES)
            .enumerate()
            .map(|(number, (path, steps))| {
                let reviewed = match self.folder {
                    Some(folder) => decisions.reviewed(path, steps, folder).map_err(Some),
                    None => Err(None),
                };
                match reviewed {
                    Ok(reviewed) => {
                        let counts = counts(&reviewed.diff);
                        (added, removed) = (added + counts.0, removed + counts.1);
                        self.file(number, path, steps, &reviewed, decisions, &mut budget)
                    }
                    Err(reason) => {
                        for (more, fewer) in steps.iter().map(counts_of_step) {
                            (added, removed) = (added + more, removed + fewer);
                        }
                        self.file_by_steps(number, path, steps, reason.as_deref(), decisions, &mut budget)
                    }
                }
            })
            .collect();
        html! {
            div id="review" class="e changes" {
                @if files.is_empty() {
                    p class="meta" { "No file has been changed in this session." }
                } @else {
                    div class="review-head" {
                        p {
                            (files.len()) @if files.len() == 1 { " file " } @else { " files " }
                            (render::line_counts(added, removed))
                        }
                        button type="button" data-action="copy-patch" class="tinted" { (icon("copy")) "Copy as patch" }
                    }
                    @if let Some(refusal) = self.refusal { p class="meta" { (refusal) } }
                }
                @for file in &shown { (file) }
                @if files.len() > MOST_FILES { p class="note" { (files.len() - MOST_FILES) " more files are not listed." } }
                @if budget.left_out() > 0 { p class="note bad" { (budget.left_out()) " more lines are not shown." } }
            }
        }
    }

    fn file(
        &self,
        number: usize,
        path: &str,
        steps: &[CallChange],
        reviewed: &Reviewed,
        decisions: &Decisions,
        budget: &mut Lines,
    ) -> Markup {
        let Reviewed { whole, diff, revision } = reviewed;
        let patch = parse_patch(diff.patch.as_ref().map_or(b"", |patch| patch.text.as_bytes()));
        let section = patch.files.first();
        let hunks = section.map_or(&[][..], FilePatch::hunks);
        let count: usize = hunks.iter().map(|hunk| hunk.lines.len()).sum();
        let last = steps.last().map(|step| &step.change);
        html! {
            details class="df review-file" data-keep=(format!("rv{number}")) data-path=(path) data-revision=(revision)
                open[number < UNFOLDED && count <= LONG_FILE] {
                summary {
                    @if let Some(change) = diff.changes.first().or(last) {
                        (render::file_heading(change, section, self.source.room.folder()))
                    }
                    @if count > LONG_FILE { span class="dim" { " " (count) " lines" } }
                }
                (self.file_line(path, steps, (!hunks.is_empty()).then_some("Undo all in this file"), None))
                @if section.is_none() {
                    p class="note" {
                        @if whole.from == 0 { "The file is as it was before the session." }
                        @else { "The file is as it was before these changes." }
                    }
                }
                @if section.is_some() && hunks.is_empty() { p class="note" { "The change has no lines that could be shown." } }
                @for (place, hunk) in hunks.iter().enumerate() {
                    (self.hunk(&format!("rv{number}h{place}"), path, place, hunk, decisions, budget))
                }
                (self.undone(number, path, decisions, budget))
                @if whole.from > 0 {
                    details class="ctx review-earlier" data-keep=(format!("rv{number}e")) {
                        summary {
                            @if whole.from == 1 { "One earlier change" } @else { (whole.from) " earlier changes" }
                            ", after which another program or you have changed the same lines"
                        }
                        @for (place, step) in steps[..whole.from].iter().enumerate() {
                            (self.step(&format!("rv{number}s{place}"), path, step, budget))
                        }
                    }
                }
            }
        }
    }

    /// Renders a file whose changes cannot be shown as one diff, with one diff for each.
    fn file_by_steps(
        &self,
        number: usize,
        path: &str,
        steps: &[CallChange],
        reason: Option<&str>,
        decisions: &Decisions,
        budget: &mut Lines,
    ) -> Markup {
        let base = self.source.room.folder();
        let now = self.folder.and_then(|folder| changes::read(Path::new(path), folder).ok()).flatten();
        html! {
            details class="df review-file" data-keep=(format!("rv{number}")) data-path=(path)
                data-revision=(decisions.revision(path, steps, now.as_deref())) open[number < UNFOLDED] {
                summary {
                    @if let Some(step) = steps.last() { (render::file_heading(&step.change, None, base)) }
                }
                (self.file_line(path, steps, None, reason))
                @for (place, step) in steps.iter().enumerate() {
                    (self.step(&format!("rv{number}s{place}"), path, step, budget))
                }
                (self.undone(number, path, decisions, budget))
            }
        }
    }

    /// Renders the lines that one tool call has changed in a file.
    fn step(&self, keep: &str, path: &str, step: &CallChange, budget: &mut Lines) -> Markup {
        let patch = parse_patch(step.patch.as_deref().unwrap_or_default());
        let section = patch.files.first();
        let hunks = section.map_or(&[][..], FilePatch::hunks);
        html! {
            @if hunks.is_empty() {
                p class="note" {
                    @match section.map(|section| &section.body) {
                        None => "The agent did not send the changed lines.",
                        Some(Body::Hunks(_)) => "The content is as it was.",
                        Some(Body::BinaryNamed | Body::BinaryContent { .. }) => "Binary content is not shown.",
                    }
                }
            }
            @for (place, hunk) in hunks.iter().enumerate() {
                @let line = first_line(hunk);
                div class="review-hunk" role="group" aria-label=(format!("Change at line {line}")) {
                    div class="hunk-bar" {
                        span class="meta" { "Line " (line) }
                        span class="meta heading" { (render::visible_line(&String::from_utf8_lossy(&hunk.heading))) }
                        (self.editor_button(path, Some(line)))
                    }
                    (render::hunk(&format!("{keep}h{place}"), path, hunk, budget))
                }
            }
        }
    }

    /// Renders the line below the name of a file: how often it was changed, by which calls, and actions on all of it.
    fn file_line(
        &self,
        path: &str,
        steps: &[CallChange],
        undo: Option<&str>,
        reason: Option<&str>,
    ) -> Markup {
        let recording = Some((&*self.source.room.id, self.session));
        html! {
            div class="review-line" {
                p class="meta" {
                    (changes::times(steps.len())) ": " (changes::calls(steps, recording))
                    @if let Some(reason) = reason {
                        @if steps.len() > 1 { ". Shown one after the other, because " } @else { ". It cannot be undone here, because " }
                        (render::visible_line(reason))
                    }
                }
                (self.editor_button(path, None))
                @if let (Some(words), None) = (undo, self.refusal) {
                    button type="button" data-action="undo-change" { (icon("undo")) (words) }
                }
            }
        }
    }

    fn editor_button(&self, path: &str, line: Option<u32>) -> Markup {
        html! {
            @if self.has_editor {
                button type="button" class="icon-button" data-action="open-editor" data-file=(path) data-line=[line]
                    title="Open in the editor" aria-label=(match line {
                        Some(line) => format!("Open line {line} in the editor"),
                        None => "Open in the editor".to_owned(),
                    }) { (icon("open")) }
            }
        }
    }

    fn hunk(
        &self,
        keep: &str,
        path: &str,
        place: usize,
        hunk: &Hunk<'_>,
        decisions: &Decisions,
        budget: &mut Lines,
    ) -> Markup {
        let line = first_line(hunk);
        let is_kept = decisions.kept.contains(&key_of(path, hunk));
        let counts = counts_of(hunk);
        html! {
            div class=(if is_kept { "review-hunk is-kept" } else { "review-hunk" }) data-hunk=(place) role="group"
                aria-label=(format!("Change at line {line}")) {
                div class="hunk-bar" {
                    span class="meta" { "Line " (line) }
                    span class="meta heading" { (render::visible_line(&String::from_utf8_lossy(&hunk.heading))) }
                    @if is_kept { span class="tag" { "kept" } (render::line_counts(counts.0, counts.1)) }
                    @if !is_kept { (self.editor_button(path, Some(line))) }
                    @if self.refusal.is_none() {
                        @if is_kept {
                            button type="button" data-action="keep-change" data-kept="false" { "Show" }
                        } @else {
                            button type="button" data-action="undo-change" { (icon("undo")) "Undo" }
                            button type="button" data-action="keep-change" data-kept="true" { (icon("done")) "Keep" }
                        }
                    }
                }
                @if !is_kept { (render::hunk(keep, path, hunk, budget)) }
            }
        }
    }

    /// Renders the undone changes of a file.
    fn undone(&self, number: usize, path: &str, decisions: &Decisions, budget: &mut Lines) -> Markup {
        html! {
            @for undone in decisions.undone_of(path) {
                @let patch = parse_patch(&undone.back);
                @let hunks = patch.files.first().map_or(&[][..], FilePatch::hunks);
                @let (added, removed) = patch.files.first().map_or((0, 0), FilePatch::counts);
                div class="review-hunk is-undone" role="group" aria-label="Undone change" {
                    div class="hunk-bar" {
                        @if let Some(hunk) = hunks.first() { span class="meta" { "Line " (first_line(hunk)) } }
                        span class="tag" { "undone" }
                        (render::line_counts(added, removed))
                        @if self.refusal.is_none() {
                            button type="button" data-action="restore-change" data-change=(undone.number) { (icon("redo")) "Restore" }
                        }
                    }
                    details class="ctx" data-keep=(format!("rv{number}u{}", undone.number)) {
                        summary { "What was undone" }
                        @for (place, hunk) in hunks.iter().enumerate() {
                            (render::hunk(&format!("rv{number}u{}-{place}", undone.number), path, hunk, budget))
                        }
                    }
                }
            }
        }
    }

    /// Returns the folder in which changes can be undone.
    fn writable(&self) -> Result<&Path, Failure> {
        match (self.refusal, self.folder) {
            (Some(refusal), _) => Err(refusal.to_owned()),
            (None, Some(folder)) => Ok(folder),
            (None, None) => Err("the files of this session cannot be changed from here".to_owned()),
        }
    }

    /// Undoes one hunk of a file, or all of its changes. `revision` is that of the shown changes.
    pub(crate) fn undo(&self, path: &str, hunk: Option<usize>, revision: &str) -> Result<(), Failure> {
        let folder = self.writable()?;
        let files = changes::collect(self.source, self.session);
        let decisions = self.app.reviews.of(&self.source.room.id);
        undo(&files, &mut locked(&decisions), folder, path, hunk, revision)
    }

    /// Restores an undone change.
    pub(crate) fn restore(&self, number: u64) -> Result<(), Failure> {
        let folder = self.writable()?;
        let decisions = self.app.reviews.of(&self.source.room.id);
        restore(&mut locked(&decisions), folder, number)
    }

    /// Marks a hunk as kept, or no longer.
    pub(crate) fn keep(&self, path: &str, hunk: usize, revision: &str, kept: bool) -> Result<(), Failure> {
        let folder = self.writable()?;
        let files = changes::collect(self.source, self.session);
        let steps = files.get(path).ok_or(NOT_CHANGED)?;
        let decisions = self.app.reviews.of(&self.source.room.id);
        let mut decisions = locked(&decisions);
        let reviewed = decisions.reviewed(path, steps, folder)?;
        reviewed.check(revision)?;
        let patch = parse_patch(reviewed.diff.patch.as_ref().map_or(b"", |patch| patch.text.as_bytes()));
        let hunk = patch.files.first().and_then(|section| section.hunks().get(hunk)).ok_or(STALE)?;
        let key = key_of(path, hunk);
        if !kept {
            decisions.kept.remove(&key);
        } else if decisions.kept.len() >= MOST_DECISIONS {
            return Err(format!("{MOST_DECISIONS} changes are kept already, which is the limit"));
        } else {
            decisions.kept.insert(key);
        }
        Ok(())
    }

    /// Returns all changes as one patch for `git apply`, with paths relative to the session's folder.
    pub(crate) fn patch(&self) -> Result<String, Failure> {
        let files = changes::collect(self.source, self.session);
        let decisions = self.app.reviews.of(&self.source.room.id);
        let decisions = locked(&decisions);
        let mut out = Vec::new();
        for (path, steps) in &files {
            let reviewed = self.folder.and_then(|folder| decisions.reviewed(path, steps, folder).ok());
            match reviewed {
                Some(Reviewed { whole, .. }) => {
                    let patch = PatchOptions { binary: BinaryForm::Content, ..whole_patch(3) };
                    let options = BuildOptions { patch, ..BuildOptions::default() };
                    let (before, now) = (whole.before.as_deref(), whole.now.as_deref());
                    let diff = build_from_bytes(Path::new(path), before, now, &options).diff;
                    let text = diff.patch.map(|patch| patch.text).unwrap_or_default();
                    self.push_relative(&mut out, text.as_bytes());
                }
                None => {
                    for step in steps {
                        self.push_relative(&mut out, step.patch.as_deref().unwrap_or_default());
                    }
                }
            }
        }
        if out.is_empty() {
            return Err("there are no changed lines to copy".to_owned());
        }
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends a patch, with its paths relative to the session's folder.
    fn push_relative(&self, out: &mut Vec<u8>, patch: &[u8]) {
        let folder = self.source.room.folder().as_bytes();
        let short = |path: &[u8]| -> Vec<u8> {
            let inside = path.strip_prefix(folder).filter(|rest| rest.starts_with(b"/"));
            let path = inside.unwrap_or(path);
            path[path.iter().take_while(|byte| **byte == b'/').count()..].to_vec()
        };
        for mut section in parse_patch(patch).files {
            section.header = Header::Git { old_prefix: b"a/".into(), new_prefix: b"b/".into() };
            section.old_path = section.old_path.map(|path| short(&path).into());
            section.new_path = section.new_path.map(|path| short(&path).into());
            section.preamble = b"";
            out.extend(write_patch(&[section]));
        }
    }
}

const NOT_CHANGED: &str = "the session has not changed this file";
const STALE: &str = "the file has changed since this was shown; look at it again";

impl Reviewed {
    /// Fails if the user has seen another revision.
    fn check(&self, revision: &str) -> Result<(), Failure> {
        if self.revision == revision { Ok(()) } else { Err(STALE.to_owned()) }
    }
}

fn undo(
    files: &ChangedFiles,
    decisions: &mut Decisions,
    folder: &Path,
    path: &str,
    hunk: Option<usize>,
    revision: &str,
) -> Result<(), Failure> {
    let steps = files.get(path).ok_or(NOT_CHANGED)?;
    if decisions.undone.len() >= MOST_DECISIONS {
        return Err(format!("{MOST_DECISIONS} changes are undone already, which is the limit"));
    }
    let reviewed = decisions.reviewed(path, steps, folder)?;
    reviewed.check(revision)?;
    let WholeChange { before, now, from: _ } = reviewed.whole;
    let target = match hunk {
        None => before,
        Some(hunk) => {
            let patch = parse_patch(reviewed.diff.patch.as_ref().map_or(b"", |patch| patch.text.as_bytes()));
            let section = patch.files.first().ok_or(STALE)?;
            let hunk = section.hunks().get(hunk).ok_or(STALE)?.clone();
            let mut only = section.clone();
            only.body = Body::Hunks(vec![hunk]);
            only.index = None;
            let undone = apply_to_bytes(&only, now.as_deref(), Direction::Backward);
            undone.map_err(|error| error.to_string())?.content
        }
    };
    let back = patch_between(path, target.as_deref(), now.as_deref(), whole_patch(3))?;
    replace(path, folder, now.as_deref(), target.as_deref())?;
    decisions.last += 1;
    let (number, path) = (decisions.last, path.to_owned());
    decisions.undone.push(Undone { number, path, after: steps.len(), back });
    Ok(())
}

fn restore(decisions: &mut Decisions, folder: &Path, number: u64) -> Result<(), Failure> {
    let place = decisions.undone.iter().position(|undone| undone.number == number);
    let place = place.ok_or("this change has been restored already")?;
    let undone = &decisions.undone[place];
    let now = changes::read(Path::new(&undone.path), folder)?;
    let target = changes::patched(&undone.back, now.as_deref(), Direction::Forward).map_err(|reason| {
        format!("the file has changed since, so the lines do not fit any more: {reason}")
    })?;
    replace(&undone.path, folder, now.as_deref(), target.as_deref())?;
    decisions.undone.remove(place);
    Ok(())
}

/// Replaces the content of a file, unless it has changed since it was read.
fn replace(path: &str, folder: &Path, now: Option<&[u8]>, target: Option<&[u8]>) -> Result<(), Failure> {
    let patch = patch_between(path, now, target, whole_patch(WHOLE_FILE))?;
    apply_patch(&patch, folder, &ApplyOptions::default()).map(drop).map_err(|error| error.to_string())
}

fn whole_patch(context: u32) -> PatchOptions {
    PatchOptions { context, max_size: usize::MAX, ..PatchOptions::default() }
}

/// Returns the patch from one content of a file to another.
fn patch_between(
    path: &str,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    patch: PatchOptions,
) -> Result<Vec<u8>, Failure> {
    let options = BuildOptions { patch, ..BuildOptions::default() };
    let diff = build_from_bytes(Path::new(path), from, to, &options).diff;
    diff.patch.map(|patch| patch.text.into_bytes()).ok_or_else(|| "the file is as it was before".to_owned())
}

/// Returns the number of the first changed line in the present file.
fn first_line(hunk: &Hunk<'_>) -> u32 {
    let before = hunk.lines.iter().take_while(|line| line.kind == LineKind::Context).count();
    hunk.new_start.saturating_add(u32::try_from(before).unwrap_or(u32::MAX)).max(1)
}

/// Returns the key of a hunk among the kept ones.
fn key_of(path: &str, hunk: &Hunk<'_>) -> u64 {
    let lines: Vec<(u8, &[u8], bool)> =
        hunk.lines.iter().map(|line| (line.kind.marker(), line.content, line.newline)).collect();
    hash((path, lines))
}

fn counts_of_step(step: &CallChange) -> (usize, usize) {
    parse_patch(step.patch.as_deref().unwrap_or_default()).files.first().map_or((0, 0), FilePatch::counts)
}

fn counts(diff: &Diff) -> (usize, usize) {
    let patch = parse_patch(diff.patch.as_ref().map_or(b"", |patch| patch.text.as_bytes()));
    patch.files.first().map_or((0, 0), FilePatch::counts)
}

fn counts_of(hunk: &Hunk<'_>) -> (usize, usize) {
    let count = |kind| hunk.lines.iter().filter(|line| line.kind == kind).count();
    (count(LineKind::Added), count(LineKind::Removed))
}

#[cfg(test)]
mod tests {
    use switchboard_acp::WireFormat;
    use switchboard_session::Session;

    use super::*;
    use crate::changes::tests::{changed, edited};

    const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n";
    const NEW: &str = "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\nfifteen\n";

    struct Bench {
        folder: tempfile::TempDir,
        session: Session,
        decisions: Decisions,
    }

    impl Bench {
        /// Returns a session that has made two changes, far from each other, in the file `a`.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let bench =
                Bench { folder, session: Session::new(WireFormat::Any), decisions: Decisions::default() };
            bench.edit("a", Some(OLD), Some(NEW))
        }

        fn root(&self) -> std::path::PathBuf {
            self.folder.path().canonicalize().unwrap()
        }

        fn path(&self, name: &str) -> String {
            self.root().join(name).to_str().unwrap().to_owned()
        }

        fn edit(mut self, name: &str, old: Option<&str>, new: Option<&str>) -> Self {
            let path = self.root().join(name);
            let id = self.session.snapshot().len();
            edited(&mut self.session, id, &path, old, new);
            match new {
                Some(new) => std::fs::write(path, new).unwrap(),
                None => drop(std::fs::remove_file(path)),
            }
            self
        }

        fn text(&self, name: &str) -> Option<String> {
            std::fs::read_to_string(self.root().join(name)).ok()
        }

        fn revision(&self, name: &str) -> String {
            let (files, path) = (changed(&self.session), self.path(name));
            self.decisions.reviewed(&path, &files[&path], &self.root()).unwrap().revision
        }

        fn undo(&mut self, name: &str, hunk: Option<usize>) -> Result<(), Failure> {
            let revision = self.revision(name);
            self.undo_as(name, hunk, &revision)
        }

        fn undo_as(&mut self, name: &str, hunk: Option<usize>, revision: &str) -> Result<(), Failure> {
            let (files, path, root) = (changed(&self.session), self.path(name), self.root());
            undo(&files, &mut self.decisions, &root, &path, hunk, revision)
        }

        fn restore(&mut self, number: u64) -> Result<(), Failure> {
            let root = self.root();
            restore(&mut self.decisions, &root, number)
        }
    }

    #[test]
    fn hunks_are_undone_and_restored_one_by_one() {
        let mut bench = Bench::new();
        bench.undo("a", Some(0)).unwrap();
        assert_eq!(bench.text("a").unwrap(), NEW.replace("one\n", "1\n"));
        // The other hunk is the first one now.
        bench.undo("a", Some(0)).unwrap();
        assert_eq!(bench.text("a").unwrap(), OLD);
        bench.restore(1).unwrap();
        assert_eq!(bench.text("a").unwrap(), OLD.replacen("1\n", "one\n", 1));
        bench.restore(2).unwrap();
        assert_eq!(bench.text("a").unwrap(), NEW);
        assert!(bench.restore(2).unwrap_err().contains("restored already"));
    }

    #[test]
    fn a_change_after_an_undo_is_reviewed_with_it() {
        let mut bench = Bench::new();
        bench.undo("a", Some(0)).unwrap();
        let undone = bench.text("a").unwrap();
        let mut bench = bench.edit("a", Some(&undone), Some(&undone.replace("\n5\n", "\nfive\n")));
        bench.undo("a", Some(0)).unwrap();
        assert_eq!(bench.text("a").unwrap(), undone, "the change of the second call is undone");
        bench.restore(1).unwrap();
        assert_eq!(bench.text("a").unwrap(), NEW);
        bench.undo("a", None).unwrap();
        assert_eq!(bench.text("a").unwrap(), OLD);
    }

    #[test]
    fn changes_before_that_of_another_program_do_not_hinder_later_ones() {
        let bench = Bench::new();
        let other = OLD.replace("\n15\n", "\nXV\n");
        let mut bench = bench.edit("a", Some(&other), Some(&other.replace("\n5\n", "\nfive\n")));
        let (files, path) = (changed(&bench.session), bench.path("a"));
        let reviewed = bench.decisions.reviewed(&path, &files[&path], &bench.root()).unwrap();
        assert_eq!((reviewed.whole.from, counts(&reviewed.diff)), (1, (1, 1)));
        bench.undo("a", None).unwrap();
        assert_eq!(bench.text("a").unwrap(), other);
    }

    #[test]
    fn new_and_deleted_files_are_undone_as_a_whole() {
        let bench = Bench::new().edit("new", None, Some("text\n"));
        std::fs::write(bench.root().join("old"), "kept\n").unwrap();
        let mut bench = bench.edit("old", Some("kept\n"), None);
        bench.undo("new", Some(0)).unwrap();
        bench.undo("old", None).unwrap();
        assert_eq!((bench.text("new"), bench.text("old").as_deref()), (None, Some("kept\n")));
        bench.restore(1).unwrap();
        bench.restore(2).unwrap();
        assert_eq!((bench.text("new").as_deref(), bench.text("old")), (Some("text\n"), None));
    }

    #[test]
    fn nothing_is_written_if_the_file_is_not_as_it_was_shown() {
        let mut bench = Bench::new();
        let shown = bench.revision("a");
        let other = NEW.replace("8\n", "eight\n");
        std::fs::write(bench.root().join("a"), &other).unwrap();
        assert_eq!(bench.undo_as("a", Some(0), &shown), Err(STALE.to_owned()));
        assert_eq!(bench.text("a").unwrap(), other);
        // The change of the other program is no change of the session, and stays.
        bench.undo("a", None).unwrap();
        assert_eq!(bench.text("a").unwrap(), OLD.replace("8\n", "eight\n"));
        // Where it was made decides whether the undone lines fit.
        std::fs::write(bench.root().join("a"), "another file\n").unwrap();
        assert!(bench.restore(1).unwrap_err().contains("do not fit any more"));
        assert_eq!(bench.text("a").unwrap(), "another file\n");
    }

    #[test]
    fn only_changed_files_inside_the_folder_are_written_and_never_through_links() {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().canonicalize().unwrap().join("a");
        std::fs::write(&target, NEW).unwrap();
        let mut bench = Bench::new();
        let revision = bench.revision("a");
        assert_eq!(bench.undo_as("other", None, &revision), Err(NOT_CHANGED.to_owned()));
        // The file becomes a link to one with the same content.
        std::fs::rename(bench.root().join("a"), bench.root().join("b")).unwrap();
        std::os::unix::fs::symlink("b", bench.root().join("a")).unwrap();
        assert!(bench.undo_as("a", None, &revision).is_err());
        assert_eq!(bench.text("b").unwrap(), NEW);
        std::fs::remove_file(bench.root().join("a")).unwrap();
        std::os::unix::fs::symlink(&target, bench.root().join("a")).unwrap();
        assert!(bench.undo_as("a", None, &revision).is_err());
        // A session that claims to have changed a file elsewhere.
        edited(&mut bench.session, 9, &target, Some(OLD), Some(NEW));
        let (files, path) = (changed(&bench.session), target.to_str().unwrap());
        let root = bench.root();
        let refused = undo(&files, &mut bench.decisions, &root, path, None, &revision);
        assert!(refused.unwrap_err().contains("not in the session's folder"));
        // Git's own files.
        std::fs::create_dir(bench.root().join(".git")).unwrap();
        let mut bench = bench.edit(".git/hook", Some("x\n"), Some("y\n"));
        let refused = bench.undo(".git/hook", None).unwrap_err();
        assert!(refused.contains(".git"), "{refused}");
        assert_eq!(
            (bench.text(".git/hook").as_deref(), bench.text("b").as_deref()),
            (Some("y\n"), Some(NEW))
        );
        assert_eq!(std::fs::read_to_string(&target).unwrap(), NEW);
    }

    #[test]
    fn an_executable_stays_one() {
        use std::os::unix::fs::PermissionsExt;
        let mut bench = Bench::new();
        let file = bench.root().join("a");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        bench.undo("a", Some(1)).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }
}
