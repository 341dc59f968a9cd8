//! All files that a session has changed, with one diff each over all turns.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use maud::{Markup, PreEscaped, html};
use switchboard_acp::v2;
use switchboard_diff::{
    BuildOptions, Change, Diff, Direction, Operation, PatchFormat, PatchText, apply_to_bytes,
    build_from_bytes, parse_patch, sections, write_patch,
};
use switchboard_session::Snapshot;

use super::render::{self, RenderCache};
use super::{files, live::Failure};

/// Maximum number of files that are listed; further ones are only counted.
const MOST_FILES: usize = 500;
/// Maximum number of changes per file; later ones are ignored.
const MOST_STEPS: usize = 200;
/// Maximum size of a file that is read, in bytes. A larger file shows its changes one by one.
const LARGEST: u64 = 2 * 1024 * 1024;
/// Number of files that are initially unfolded.
const UNFOLDED: usize = 5;

/// A change of one file by one tool call.
struct CallChange {
    position: usize,
    change: Change,
    /// The section of the tool call's patch for this file, as a patch of its own.
    patch: Option<Vec<u8>>,
}

/// Renders the changes of every file. `folder` is the session's folder, if its files may be read; paths are relative
/// to `base`.
pub(crate) fn all(snapshot: &Snapshot, folder: Option<&Path>, base: &str, cache: &RenderCache) -> Markup {
    let files = collect(snapshot);
    html! {
        @if files.is_empty() { p class="meta" { "No file has been changed in this session." } }
        @else { p class="meta" { (files.len()) @if files.len() == 1 { " file" } @else { " files" } } }
        div class="e changes" {
            @for (number, (path, steps)) in files.iter().take(MOST_FILES).enumerate() {
                (file(number, path, steps, folder, base, cache))
            }
        }
        @if files.len() > MOST_FILES { p class="note" { (files.len() - MOST_FILES) " more files are not listed." } }
    }
}

/// Renders the changes of one file, or returns `None` if the session has not changed it.
pub(crate) fn of_file(
    snapshot: &Snapshot,
    path: &str,
    folder: Option<&Path>,
    base: &str,
    cache: &RenderCache,
) -> Option<Markup> {
    let steps = collect(snapshot).remove(path)?;
    Some(html! { div class="e changes" { (file(0, path, &steps, folder, base, cache)) } })
}

fn collect(snapshot: &Snapshot) -> BTreeMap<String, Vec<CallChange>> {
    let mut files: BTreeMap<String, Vec<CallChange>> = BTreeMap::new();
    let calls = snapshot
        .entries()
        .enumerate()
        .filter_map(|(position, entry)| Some((position, entry.as_tool_call()?)));
    for (position, call) in calls.filter(|(_, call)| *call.status() == v2::ToolCallStatus::Completed) {
        for item in call.content().items() {
            let Some(v2::ToolCallContent::Diff(diff)) = item.structured() else { continue };
            let diff = Diff::from(&**diff);
            let text = diff.patch.as_ref().filter(|patch| patch.format == PatchFormat::GitPatch);
            let patch = parse_patch(text.map_or(b"", |patch| patch.text.as_bytes()));
            for (change, section) in diff.changes.iter().zip(sections(&diff, &patch.files)) {
                let steps = files.entry(change.path.clone()).or_default();
                if steps.len() < MOST_STEPS {
                    let patch = section.map(|place| write_patch(std::slice::from_ref(&patch.files[place])));
                    steps.push(CallChange { position, change: change.clone(), patch });
                }
            }
        }
    }
    files
}

fn file(
    number: usize,
    path: &str,
    steps: &[CallChange],
    folder: Option<&Path>,
    base: &str,
    cache: &RenderCache,
) -> Markup {
    let whole = folder.and_then(|folder| combined_diff(Path::new(path), steps, folder).ok());
    let diffs = match &whole {
        Some(diff) => vec![diff.clone()],
        None => steps.iter().map(CallChange::diff).collect(),
    };
    html! {
        details open[number < UNFOLDED] {
            summary {
                span class="path" title=(switchboard_acp::display::visible_line(path)) { (render::visible_line(render::relative(path, base))) } " "
                span class="meta" {
                    @if steps.len() == 1 { "changed once" } @else { "changed " (steps.len()) " times" }
                    @if whole.is_none() && steps.len() > 1 { ", one after the other" }
                }
            }
            p class="meta" {
                "In "
                @for (place, step) in steps.iter().enumerate() {
                    @if place > 0 { ", " }
                    a href=(format!("#e{}", step.position)) { "entry " (step.position + 1) }
                }
            }
            @for (place, diff) in diffs.iter().enumerate() {
                @let part = render::diff(&format!("c{number}-{place}"), diff, base, cache);
                (PreEscaped(&*part.html))
            }
        }
    }
}

impl CallChange {
    fn diff(&self) -> v2::Diff<'static> {
        let text = self.patch.as_ref().map(|patch| String::from_utf8_lossy(patch).into_owned());
        (&Diff { changes: vec![self.change.clone()], patch: text.map(PatchText::git), ..Diff::default() })
            .into()
    }
}

/// Builds one diff from the content before the first change to the current content, by reverting all changes in
/// memory, the last one first. Fails if another program has changed the file, or if it was moved or copied.
fn combined_diff(path: &Path, steps: &[CallChange], folder: &Path) -> Result<v2::Diff<'static>, Failure> {
    let has_moved = |step: &CallChange| {
        matches!(step.change.operation, Operation::Move | Operation::Copy | Operation::Other(_))
    };
    if steps.iter().any(has_moved) {
        return Err("the file was moved or copied".to_owned());
    }
    let now = match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.starts_with(folder) => None,
        _ => {
            let (file, _) = files::inside(path, folder)?;
            let mut bytes = Vec::new();
            file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            if bytes.len() as u64 > LARGEST {
                return Err("the file is too large".to_owned());
            }
            Some(bytes)
        }
    };
    let mut content = now.clone();
    for step in steps.iter().rev() {
        let patch = parse_patch(step.patch.as_deref().ok_or("the tool call has no patch for the file")?);
        let section = patch.files.first().ok_or("the tool call has no patch for the file")?;
        let undone = apply_to_bytes(section, content.as_deref(), Direction::Backward)
            .map_err(|error| error.to_string())?;
        content = undone.content;
    }
    let built = build_from_bytes(path, content.as_deref(), now.as_deref(), &BuildOptions::default());
    Ok((&built.diff).into())
}

#[cfg(test)]
mod tests {
    use switchboard_acp::{Wire, WireFormat};
    use switchboard_session::Session;

    use super::*;

    fn edited(session: &mut Session, id: usize, path: &Path, old: &str, new: &str) {
        let built =
            build_from_bytes(path, Some(old.as_bytes()), Some(new.as_bytes()), &BuildOptions::default());
        let diff = v2::ToolCallContent::Diff(Box::new((&built.diff).into())).encode(WireFormat::Any);
        let update = format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c{id}","title":"Edit","status":"completed","content":[{diff}]}}"#
        );
        session.apply(&v2::SessionUpdate::decode(&update, WireFormat::Any).unwrap());
    }

    #[test]
    fn two_changes_of_a_file_are_one_diff_unless_another_program_changed_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a.txt");
        let mut session = Session::new(WireFormat::Any);
        edited(&mut session, 1, &path, "one\ntwo\n", "1\ntwo\n");
        edited(&mut session, 2, &path, "1\ntwo\n", "1\n2<b>\n");
        std::fs::write(&path, "1\n2<b>\n").unwrap();
        let cache = RenderCache::default();
        let shown = all(&session.snapshot(), Some(&root), "", &cache).into_string();
        assert!(shown.contains("changed 2 times") && !shown.contains("one after the other"), "{shown}");
        assert_eq!(shown.matches("class=\"p diff\"").count(), 1, "{shown}");
        assert!(!shown.contains("<b>") && shown.contains("#e1"), "{shown}");
        std::fs::write(&path, "somebody else\n").unwrap();
        let shown = all(&session.snapshot(), Some(&root), "", &cache).into_string();
        assert!(shown.contains("one after the other"), "{shown}");
        assert_eq!(shown.matches("class=\"p diff\"").count(), 2, "{shown}");
        let shown = all(&Session::new(WireFormat::Any).snapshot(), None, "", &cache).into_string();
        assert!(shown.contains("No file has been changed"), "{shown}");
    }
}
