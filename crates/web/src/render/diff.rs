//! Diffs: every changed path, and its hunks in the patch.

mod lines;

use maud::{Markup, PreEscaped, html};
use switchboard_acp::v2;
use switchboard_diff::{
    Body, Change, Checked, Diff, Disagreement, FilePatch, FileType, Hunk, Mode, Note, Operation, ParsedPatch,
    PatchFormat, check, parse_patch, sections,
};

use super::text::{cut, relative, size, visible, visible_line};
use super::{Part, RenderCache, code};
pub(crate) use lines::Lines;

/// Number of patch lines from which a file is folded.
const LONG_FILE: usize = 400;
/// Maximum number of lines that are shown, over all files.
const MOST_LINES: usize = 20_000;
/// Maximum number of listed changes.
const MOST_FILES: usize = 2000;
/// Maximum number of listed remarks about a patch.
const MOST_REMARKS: usize = 20;
/// Maximum number of bytes that are shown of an unreadable patch.
const SHOWN_BYTES: usize = 256 << 10;

/// Renders a diff as a part.
pub(crate) fn part(key: &str, diff: &v2::Diff<'static>, folder: &str, cache: &RenderCache) -> Part {
    cache.part(key, ("diff", diff, folder), || {
        html! {
            div.p.diff data-part=(key) role="group" aria-label="Changes to files" { (render(key, diff, folder)) }
        }
    })
}

/// Renders the number of added and removed lines of a diff. Empty if it has no patch.
pub(super) fn short_counts(diff: &v2::Diff<'static>, cache: &RenderCache) -> Markup {
    let html = cache.html(("counts", diff), || {
        let text = diff.patch.as_ref().map_or("", |patch| &*patch.text);
        let patch = parse_patch(text.as_bytes());
        html! { @if !patch.files.is_empty() { (total(&patch)) } }
    });
    PreEscaped(html.to_string())
}

fn total(patch: &ParsedPatch<'_>) -> Markup {
    let counts = patch.files.iter().map(FilePatch::counts);
    let (added, removed) = counts.fold((0, 0), |(a, r), (added, removed)| (a + added, r + removed));
    counts_of(added, removed)
}

fn render(key: &str, wire: &v2::Diff<'_>, folder: &str) -> Markup {
    let diff = Diff::from(wire);
    let text = diff.patch.as_ref().map_or("", |patch| &patch.text);
    let is_known = diff.patch.as_ref().is_none_or(|patch| patch.format == PatchFormat::GitPatch);
    let patch = if is_known { parse_patch(text.as_bytes()) } else { ParsedPatch::default() };
    let sections = sections(&diff, &patch.files);
    let checked = if text.is_empty() { Checked::default() } else { check(&diff) };
    let remarks =
        checked.disagreements.iter().filter(|remark| is_worth_saying(remark)).map(ToString::to_string);
    // These diffs are valid, but users who decide should know that a change is not shown in the patch. The spelling
    // of headers concerns authors of agents, not readers.
    let is_shown = |note: &&Note| !matches!(note, Note::UnknownFormat { .. } | Note::Prefixed { .. });
    let notes = checked.notes.iter().filter(is_shown);
    let remarks: Vec<String> = remarks.chain(notes.map(ToString::to_string)).collect();
    let unlisted: Vec<usize> =
        (0..patch.files.len()).filter(|place| !sections.contains(&Some(*place))).collect();
    let mut budget = Lines::new(MOST_LINES);
    html! {
        (summary(&diff, &patch))
        @for (number, (change, section)) in diff.changes.iter().zip(&sections).take(MOST_FILES).enumerate() {
            (file(&format!("{key}f{number}"), &Named::listed(change, folder), section.map(|place| &patch.files[place]), &mut budget))
        }
        @if diff.changes.len() > MOST_FILES {
            p.note.bad { (diff.changes.len() - MOST_FILES) " more files are not listed." }
        }
        @for place in unlisted.into_iter().take(MOST_FILES) {
            @let section = &patch.files[place];
            (file(&format!("{key}u{place}"), &Named::unlisted(section, folder), Some(section), &mut budget))
        }
        @if budget.left_out() > 0 {
            p.note.bad { (budget.left_out()) " more lines of the patch are not shown." }
        }
        @if diff.partial {
            p.note { "Line numbers count from the beginning of the piece that is shown, not of the file." }
        }
        @if !remarks.is_empty() {
            ul.note.bad aria-label="What does not fit together" {
                @for remark in remarks.iter().take(MOST_REMARKS) {
                    li { (visible_line(remark)) }
                }
                @if remarks.len() > MOST_REMARKS { li { (remarks.len() - MOST_REMARKS) " more" } }
            }
        }
        @if !is_known {
            @let format = wire.patch.as_ref().map_or("", |patch| patch.format.as_str());
            p.note { "The patch is in the format " code { (visible_line(format)) } ", which is not known here." }
        }
        @if !patch.faults.is_empty() || !is_known {
            (as_text(key, text))
        }
    }
}

/// Renders the operation, the name and the number of changed lines of a file.
pub(crate) fn file_heading(change: &Change, section: Option<&FilePatch<'_>>, folder: &str) -> Markup {
    heading(&Named::listed(change, folder), section)
}

/// Renders the lines of one hunk of a file. `keep` is the prefix of the keys of its folds.
pub(crate) fn hunk(keep: &str, path: &str, hunk: &Hunk<'_>, budget: &mut Lines) -> Markup {
    lines::hunks(keep, code::language_of(path), std::slice::from_ref(hunk), budget)
}

/// Renders numbers of added and removed lines. Empty without any.
pub(crate) fn line_counts(added: usize, removed: usize) -> Markup {
    html! { @if (added, removed) != (0, 0) { (counts_of(added, removed)) } }
}

/// Returns `true` if a remark is shown. Relative paths in the patch are frequent among agents, and deceive no reader.
fn is_worth_saying(remark: &Disagreement) -> bool {
    !matches!(remark, Disagreement::PatchPathNotAbsolute { .. } | Disagreement::FileType { .. })
}

fn as_text(key: &str, text: &str) -> Markup {
    let shown = cut(text, SHOWN_BYTES);
    html! {
        details.raw data-keep={ (key) "text" } open {
            summary { "The patch as text, " (size(text.len())) }
            pre { code { (visible(shown)) } }
            @if shown.len() < text.len() {
                p.note.bad { "The first " (size(shown.len())) " are shown." }
            }
        }
    }
}

fn summary(diff: &Diff, patch: &ParsedPatch<'_>) -> Markup {
    let files = diff.changes.len();
    html! {
        p.diff-sum.is-one[files == 1 && patch.files.len() == 1] {
            span { @if files == 1 { "1 file" } @else { (files) " files" } }
            @if !patch.files.is_empty() {
                " " (total(patch))
                label.sbs { input type="checkbox"; " side by side" }
            }
        }
    }
}

fn counts_of(added: usize, removed: usize) -> Markup {
    html! {
        span.cnt {
            span.plus { "+" (added) } " " span.minus { "−" (removed) }
            span.sr { " (" (added) " lines added, " (removed) " removed)" }
        }
    }
}

/// A file, by its name in the list of changes or only in the patch.
struct Named<'a> {
    operation: &'a Operation,
    /// The complete path.
    full: String,
    /// Path relative to the session's folder.
    path: String,
    old_path: Option<String>,
    file_type: Option<&'a FileType>,
    is_listed: bool,
}

impl<'a> Named<'a> {
    fn listed(change: &'a Change, folder: &str) -> Self {
        let short = |path: &String| relative(path, folder).to_owned();
        Named {
            operation: &change.operation,
            full: change.path.clone(),
            path: short(&change.path),
            old_path: change.old_path.as_ref().map(short),
            file_type: change.file_type.as_ref(),
            is_listed: true,
        }
    }

    fn unlisted(section: &'a FilePatch<'_>, folder: &str) -> Self {
        let text = |path: &[u8]| relative(&String::from_utf8_lossy(path), folder).to_owned();
        let old_path = section.old_path.as_deref().filter(|_| section.operation.has_old_path());
        Named {
            operation: &section.operation,
            full: String::from_utf8_lossy(section.path()).into_owned(),
            path: text(section.path()),
            old_path: old_path.map(text),
            file_type: None,
            is_listed: false,
        }
    }
}

fn file(keep: &str, named: &Named<'_>, section: Option<&FilePatch<'_>>, budget: &mut Lines) -> Markup {
    let heading = heading(named, section);
    let Some(section) = section else {
        return html! { div.df.df-bare { (heading) } };
    };
    let count: usize = section.hunks().iter().map(|hunk| hunk.lines.len()).sum();
    html! {
        details.df data-keep=(keep) open[count <= LONG_FILE] {
            summary { (heading) @if count > LONG_FILE { span.dim { " " (count) " lines" } } }
            (modes(section.old_mode, section.new_mode))
            @match &section.body {
                Body::BinaryNamed | Body::BinaryContent { .. } => p.note { "Binary content is not shown." },
                Body::Hunks(hunks) if hunks.is_empty() => {
                    @if section.old_mode.is_none() && section.new_mode.is_none() {
                        p.note { "The content is as it was." }
                    }
                },
                Body::Hunks(hunks) => (lines::hunks(keep, code::language_of(&named.path), hunks, budget)),
            }
        }
    }
}

fn heading(named: &Named<'_>, section: Option<&FilePatch<'_>>) -> Markup {
    let (class, mark) = match named.operation {
        Operation::Add => ("op op-add", "new"),
        Operation::Delete => ("op op-del", "deleted"),
        Operation::Modify => ("op op-mod", "changed"),
        Operation::Move => ("op op-mov", "moved"),
        Operation::Copy => ("op op-cpy", "copied"),
        _ => ("op op-oth", "?"),
    };
    let in_patch = section.and_then(FilePatch::file_type);
    let file_type = named.file_type.or(in_patch.as_ref()).filter(|kind| **kind != FileType::Text);
    html! {
        span class=(class) aria-hidden="true" { (mark) }
        span.sr { (visible_line(named.operation.as_str())) " " }
        @if let Some(old_path) = &named.old_path {
            span.path.dim { (path(old_path)) }
            span aria-label="to" { " → " }
        }
        span.path title=(switchboard_acp::display::visible_line(&named.full)) { (path(&named.path)) }
        @if let Some(file_type) = file_type {
            span.tag { (visible_line(file_type.as_str())) }
        }
        @if !named.is_listed {
            span.tag.bad { "not in the list of changes" }
        }
        @if let Some((added, removed)) = section.map(FilePatch::counts).filter(|counts| *counts != (0, 0)) {
            (counts_of(added, removed))
        }
    }
}

/// Renders a path with an emphasized file name.
fn path(path: &str) -> Markup {
    let name = path.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
    html! { span.dir { (visible_line(&path[..name])) } (visible_line(&path[name..])) }
}

fn modes(old: Option<Mode>, new: Option<Mode>) -> Markup {
    let word = |mode: Mode| match mode {
        Mode::FILE => "file".to_owned(),
        Mode::EXECUTABLE => "executable".to_owned(),
        Mode::SYMLINK => "symbolic link".to_owned(),
        other => format!("mode {other}"),
    };
    html! {
        @match (old, new) {
            (Some(old), Some(new)) if old != new => p.note { (word(old)) " → " (word(new)) },
            (None, Some(new)) if new != Mode::FILE => p.note { (word(new)) },
            (Some(old), None) if old != Mode::FILE => p.note { (word(old)) },
            _ => {},
        }
    }
}
