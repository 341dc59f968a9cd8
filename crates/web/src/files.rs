//! Files that a session names, shown to users who follow it. No other files are readable.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use maud::{Markup, html};
use switchboard_session::Snapshot;

use super::live::{Failure, Live};
use super::render;

/// Maximum number of bytes that are read of a file.
const MAX_FILE: u64 = 2 * 1024 * 1024;

/// Number of lines that are shown before and after the requested line.
const AROUND: usize = 200;

/// Renders a file. Fails unless a tool call of the session names or has changed it, and it is in the session's
/// folder.
pub(crate) fn show(
    live: &Live,
    snapshot: &Snapshot,
    path: &str,
    is_changed: bool,
    line: Option<u32>,
) -> Result<Markup, Failure> {
    if !is_changed && !names(snapshot, path) {
        return Err("the session does not name this file".to_owned());
    }
    let (file, _) = inside(Path::new(path), &live.folder)?;
    let mut bytes = Vec::new();
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(|error| format!("cannot read it: {error}"))?;
    Ok(listing(path, &live.folder.display().to_string(), &bytes, size, line))
}

/// Returns `true` if a tool call names a path.
pub(crate) fn names(snapshot: &Snapshot, path: &str) -> bool {
    snapshot
        .entries()
        .filter_map(|entry| entry.as_tool_call())
        .any(|call| call.locations().iter().any(|location| location.path.as_str() == path))
}

/// Opens a regular file and returns its canonical path. Fails if that is outside of the folder after resolving
/// symlinks.
pub(crate) fn inside(path: &Path, folder: &Path) -> Result<(File, PathBuf), Failure> {
    let real = |path: &Path| -> Result<PathBuf, Failure> {
        path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
    };
    if folder.as_os_str().is_empty() || !real(path)?.starts_with(real(folder)?) {
        return Err("the file is not in the session's folder".to_owned());
    }
    let real = real(path)?;
    // Opening a FIFO would block, so the type is checked first.
    if !real.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("this is not a regular file".to_owned());
    }
    let file = File::open(&real).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((file, real))
}

fn listing(path: &str, folder: &str, bytes: &[u8], size: u64, line: Option<u32>) -> Markup {
    let heading = html! { h2 id="dialog-title" { (render::visible_line(render::relative(path, folder))) } };
    let Ok(text) =
        std::str::from_utf8(bytes).or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]))
    else {
        return heading;
    };
    if bytes.contains(&0) {
        return html! { (heading) p class="meta" { "A binary file of " (size) " bytes." } };
    }
    let language = render::language_of(path);
    let meant = line.map_or(1, |line| line.max(1) as usize);
    let first = meant.saturating_sub(AROUND).max(1);
    let lines = text.lines().enumerate().map(|(place, text)| (place + 1, text));
    html! {
        (heading)
        @if size > MAX_FILE { p class="meta" { "Only the beginning of " (size) " bytes." } }
        ol class="file" start=(first) {
            @for (number, text) in lines.skip(first - 1).take(2 * AROUND) {
                li value=(number) aria-current=[(line.is_some() && number == meant).then_some("true")] {
                    code { (render::code_line(language, text)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_files_in_the_folder_can_be_opened() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        std::fs::write(folder.path().join("mine"), "m").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("way")).unwrap();
        let open = |name: &str| inside(&folder.path().join(name), folder.path()).map(drop);
        assert_eq!(open("mine"), Ok(()));
        for wrong in ["link", "way/secret", "../", ".", "missing", "way/../../etc/passwd"] {
            assert!(open(wrong).is_err(), "{wrong}");
        }
        assert!(inside(Path::new("/etc/passwd"), folder.path()).is_err());
        assert!(inside(&folder.path().join("mine"), Path::new("")).is_err());
    }

    #[test]
    fn the_line_that_is_meant_is_marked_and_markup_is_text() {
        let shown = listing("/w/a.html", "/w", b"one\n<b>two</b>\n", 15, Some(2)).into_string();
        assert!(
            shown.contains("&lt;b&gt;two") && shown.contains(r#"<li value="2" aria-current="true">"#),
            "{shown}"
        );
    }
}
