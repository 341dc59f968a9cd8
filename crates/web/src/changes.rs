//! The files that a session and its sub-agents have changed, with the changes of each in order.

use std::collections::BTreeMap;
use std::io::Read;
use std::iter::once;
use std::path::Path;
use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use switchboard_acp::v2;
use switchboard_diff::{
    BuildOptions, Change, Diff, Direction, Operation, PatchFormat, PatchText, apply_to_bytes,
    build_from_bytes, parse_patch, sections, write_patch,
};
use switchboard_session::{Session, Snapshot};

use super::render::{self, RenderCache};
use super::subagents::{self, SessionSource};
use super::{files, live::Failure};

/// Maximum number of changes per file. A file with more is shown without the later ones.
pub(crate) const MOST_STEPS: usize = 200;
/// Maximum size of a file that is read, in bytes. A larger file shows its changes one by one.
const LARGEST: u64 = 2 * 1024 * 1024;
/// Maximum number of sub-agents whose changes are collected.
const MOST_SUBAGENTS: usize = 1000;

/// A change of one file by one tool call.
pub(crate) struct CallChange {
    /// Session of the tool call.
    pub(crate) session: Arc<str>,
    pub(crate) position: usize,
    pub(crate) change: Change,
    /// The section of the tool call's patch for this file, as a patch of its own.
    pub(crate) patch: Option<Vec<u8>>,
}

/// The changes of each file, by its path.
pub(crate) type ChangedFiles = BTreeMap<String, Vec<CallChange>>;

/// A change of a file that the user made between tool calls.
pub(crate) struct UserChange<'a> {
    /// Number of tool calls that had changed the file before.
    pub(crate) after: usize,
    /// Patch that reverts the user's change.
    pub(crate) back: &'a [u8],
}

/// The content of a file before a sequence of changes and now.
pub(crate) struct WholeChange {
    /// Number of earlier changes that are not part of it, because another program has changed the file since.
    pub(crate) from: usize,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) now: Option<Vec<u8>>,
}

/// Returns the changes of every file by a session and its sub-agents.
pub(crate) fn collect(source: SessionSource<'_>, session: &str) -> ChangedFiles {
    let sessions: Vec<(Arc<str>, Snapshot)> = source.look(|conversation| {
        let below = subagents::descendants(conversation, session, MOST_SUBAGENTS);
        let ids = once(session.into()).chain(below.into_iter().map(|below| below.named.id));
        let snapshot = |id: &str| subagents::session(conversation, id).map(Session::snapshot);
        ids.filter_map(|id: Arc<str>| Some((Arc::clone(&id), snapshot(&id)?))).collect()
    });
    collect_from(&sessions, |session, position| source.room.log().times(session, position).last)
}

/// Returns the changes of every file. `time` returns the time of the last change of an entry, which orders the tool
/// calls of several sessions.
fn collect_from(sessions: &[(Arc<str>, Snapshot)], time: impl Fn(&str, usize) -> i64) -> ChangedFiles {
    let mut calls = Vec::new();
    for (id, snapshot) in sessions {
        for (position, entry) in snapshot.entries().enumerate() {
            let Some(call) = entry.as_tool_call() else { continue };
            let has_diff = || call.content().items().any(|item| diff_of(item.structured()).is_some());
            if *call.status() == v2::ToolCallStatus::Completed && has_diff() {
                calls.push((if sessions.len() > 1 { time(id, position) } else { 0 }, id, position, call));
            }
        }
    }
    calls.sort_by_key(|(time, ..)| *time);
    let mut files = ChangedFiles::new();
    for (_, session, position, call) in calls {
        for diff in call.content().items().filter_map(|item| diff_of(item.structured())) {
            let diff = Diff::from(diff);
            let text = diff.patch.as_ref().filter(|patch| patch.format == PatchFormat::GitPatch);
            let patch = parse_patch(text.map_or(b"", |patch| patch.text.as_bytes()));
            for (change, section) in diff.changes.iter().zip(sections(&diff, &patch.files)) {
                let steps = files.entry(change.path.clone()).or_default();
                if steps.len() < MOST_STEPS {
                    let patch = section.map(|place| write_patch(std::slice::from_ref(&patch.files[place])));
                    steps.push(CallChange {
                        session: session.clone(),
                        position,
                        change: change.clone(),
                        patch,
                    });
                }
            }
        }
    }
    files
}

fn diff_of<'d>(content: Option<&'d v2::ToolCallContent<'static>>) -> Option<&'d v2::Diff<'static>> {
    match content {
        Some(v2::ToolCallContent::Diff(diff)) => Some(diff),
        _ => None,
    }
}

/// Renders the changes of one file. `folder` is the session's folder, if its files may be read; paths are relative to
/// `base`.
pub(crate) fn of_file(
    path: &str,
    steps: &[CallChange],
    folder: Option<&Path>,
    base: &str,
    cache: &RenderCache,
) -> Markup {
    let whole = folder.and_then(|folder| whole_change(Path::new(path), steps, &[], folder).ok());
    let whole = whole.filter(|whole| whole.from == 0);
    let diffs = match whole {
        Some(whole) => vec![(&whole.diff(Path::new(path))).into()],
        None => steps.iter().map(CallChange::diff).collect(),
    };
    html! {
        div class="e changes" {
            p class="meta" { (times(steps.len())) @if diffs.len() > 1 { ", one after the other" } ": " (calls(steps, None)) }
            @for (place, diff) in diffs.iter().enumerate() {
                @let part = render::diff(&format!("c{place}"), diff, base, cache);
                (PreEscaped(&*part.html))
            }
        }
    }
}

/// Returns how often a file was changed, in words.
pub(crate) fn times(count: usize) -> String {
    match count {
        1 => "changed once".to_owned(),
        MOST_STEPS => format!("changed {MOST_STEPS} times or more"),
        count => format!("changed {count} times"),
    }
}

/// Maximum number of tool calls that are linked for one file; the others are only counted.
const MOST_LINKS: usize = 8;

/// Renders links to the tool calls that changed a file. `recording` is needed for links into sub-agents.
pub(crate) fn calls(steps: &[CallChange], recording: Option<(&str, &str)>) -> Markup {
    html! {
        @for (place, step) in steps.iter().take(MOST_LINKS).enumerate() {
            @if place > 0 { ", " }
            @match recording.filter(|(_, shown)| **shown != *step.session) {
                Some((recording, _)) => a href=(format!("/r/{recording}/{}#e{}", percent(&step.session), step.position))
                    data-action="look" data-recording=(recording) data-session=(step.session) data-position=(step.position) {
                        "entry " (step.position + 1) " of a sub-agent"
                },
                None => a href=(format!("#e{}", step.position)) { "entry " (step.position + 1) },
            }
        }
        @if steps.len() > MOST_LINKS { " and " (steps.len() - MOST_LINKS) " more" }
    }
}

/// Encodes a session's id for the path of an address.
fn percent(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}

impl CallChange {
    /// Returns the change as a diff of its own.
    pub(crate) fn diff(&self) -> v2::Diff<'static> {
        let text = self.patch.as_ref().map(|patch| String::from_utf8_lossy(patch).into_owned());
        (&Diff { changes: vec![self.change.clone()], patch: text.map(PatchText::git), ..Diff::default() })
            .into()
    }
}

impl WholeChange {
    /// Returns the diff from the content before the session to the present one.
    pub(crate) fn diff(&self, path: &Path) -> Diff {
        build_from_bytes(path, self.before.as_deref(), self.now.as_deref(), &BuildOptions::default()).diff
    }
}

/// Determines the content of a file before its first change, by reverting all changes of the present content in memory,
/// the last one first. Stops at a change of which another program has changed the lines since. Fails if that is the last
/// one, or if the file was moved or copied.
pub(crate) fn whole_change(
    path: &Path,
    steps: &[CallChange],
    by_user: &[UserChange<'_>],
    folder: &Path,
) -> Result<WholeChange, Failure> {
    let has_moved = |step: &CallChange| {
        matches!(step.change.operation, Operation::Move | Operation::Copy | Operation::Other(_))
    };
    if steps.iter().any(has_moved) {
        return Err("it was moved or copied".to_owned());
    }
    if steps.len() == MOST_STEPS {
        return Err("it was changed too often".to_owned());
    }
    let now = read(path, folder)?;
    let changed_since = |_| "another program or you have changed it since".to_owned();
    let mut content = now.clone();
    let mut by_user = by_user.iter().rev().peekable();
    for (place, step) in steps.iter().enumerate().rev() {
        let mut reverted = Ok(content.clone());
        while let Some(change) = by_user.next_if(|change| change.after > place) {
            reverted =
                reverted.and_then(|content| patched(change.back, content.as_deref(), Direction::Forward));
        }
        let patch = step.patch.as_deref().ok_or("the agent did not send the changed lines")?;
        let reverted = reverted.and_then(|content| patched(patch, content.as_deref(), Direction::Backward));
        match reverted {
            Ok(reverted) => content = reverted,
            Err(reason) if place + 1 == steps.len() => return Err(changed_since(reason)),
            Err(_) => return Ok(WholeChange { from: place + 1, before: content, now }),
        }
    }
    Ok(WholeChange { from: 0, before: content, now })
}

/// Applies the first section of a patch to a content.
pub(crate) fn patched(
    patch: &[u8],
    content: Option<&[u8]>,
    direction: Direction,
) -> Result<Option<Vec<u8>>, Failure> {
    let patch = parse_patch(patch);
    let section = patch.files.first().ok_or("the patch has no section")?;
    apply_to_bytes(section, content, direction)
        .map(|applied| applied.content)
        .map_err(|error| error.to_string())
}

/// Reads a file in a folder. `None` if it does not exist.
pub(crate) fn read(path: &Path, folder: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.starts_with(folder) => Ok(None),
        _ => {
            let (file, _) = files::inside(path, folder)?;
            let mut bytes = Vec::new();
            file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            if bytes.len() as u64 > LARGEST {
                return Err("it is too large".to_owned());
            }
            Ok(Some(bytes))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use switchboard_acp::{Wire, WireFormat};

    use super::*;

    /// Adds a completed tool call that changes a file.
    pub(crate) fn edited(
        session: &mut Session,
        id: usize,
        path: &Path,
        old: Option<&str>,
        new: Option<&str>,
    ) {
        let built =
            build_from_bytes(path, old.map(str::as_bytes), new.map(str::as_bytes), &BuildOptions::default());
        let diff = v2::ToolCallContent::Diff(Box::new((&built.diff).into())).encode(WireFormat::Any);
        let update = format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c{id}","title":"Edit","status":"completed","content":[{diff}]}}"#
        );
        session.apply(&v2::SessionUpdate::decode(&update, WireFormat::Any).unwrap());
    }

    /// Returns the changes of one session.
    pub(crate) fn changed(session: &Session) -> ChangedFiles {
        collect_from(&[("s".into(), session.snapshot())], |_, _| 0)
    }

    #[test]
    fn two_changes_of_a_file_are_one_diff_unless_another_program_changed_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a.txt");
        let mut session = Session::new(WireFormat::Any);
        edited(&mut session, 1, &path, Some("one\ntwo\n"), Some("1\ntwo\n"));
        edited(&mut session, 2, &path, Some("1\ntwo\n"), Some("1\n2<b>\n"));
        std::fs::write(&path, "1\n2<b>\n").unwrap();
        let cache = RenderCache::default();
        let files = changed(&session);
        let steps = &files[path.to_str().unwrap()];
        let shown = of_file(path.to_str().unwrap(), steps, Some(&root), "", &cache).into_string();
        assert!(shown.contains("changed 2 times") && !shown.contains("one after the other"), "{shown}");
        assert_eq!(shown.matches("class=\"p diff\"").count(), 1, "{shown}");
        assert!(!shown.contains("<b>") && shown.contains("#e1"), "{shown}");
        std::fs::write(&path, "somebody else\n").unwrap();
        let shown = of_file(path.to_str().unwrap(), steps, Some(&root), "", &cache).into_string();
        assert!(shown.contains("one after the other"), "{shown}");
        assert_eq!(shown.matches("class=\"p diff\"").count(), 2, "{shown}");
    }

    #[test]
    fn changes_of_several_sessions_are_in_the_order_of_their_times() {
        let path = Path::new("/w/a");
        let (mut parent, mut child) = (Session::new(WireFormat::Any), Session::new(WireFormat::Any));
        edited(&mut parent, 1, path, Some("2\n"), Some("3\n"));
        edited(&mut child, 1, path, Some("1\n"), Some("2\n"));
        let sessions = [("parent".into(), parent.snapshot()), ("child".into(), child.snapshot())];
        let files = collect_from(&sessions, |session, _| if session == "child" { 1 } else { 2 });
        let order: Vec<&str> = files["/w/a"].iter().map(|step| &*step.session).collect();
        assert_eq!(order, ["child", "parent"]);
        let links = calls(&files["/w/a"], Some(("r", "parent"))).into_string();
        assert!(links.contains(r##"href="/r/r/child#e0""##) && links.contains(r##"href="#e0""##), "{links}");
    }
}
