//! Writes patch text.

use std::io::Write as _;

use super::model::{BinaryHunk, BinaryMethod, Body, FilePatch, Header, Hunk, Similarity};
use super::quote::write_name;
use crate::model::Operation;

const NO_NEWLINE: &[u8] = b"\\ No newline at end of file\n";

/// Writes sections as patch text.
///
/// Sections from [`crate::parse_patch`] are written unchanged, except for equivalent spellings such as a name
/// that was quoted needlessly.
pub fn write_patch(files: &[FilePatch<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for file in files {
        write_file(&mut out, file);
    }
    out
}

pub(crate) fn write_file(out: &mut Vec<u8>, file: &FilePatch<'_>) {
    out.extend_from_slice(file.preamble);
    match &file.header {
        Header::Git { old_prefix, new_prefix } => write_git_header(out, file, old_prefix, new_prefix),
        Header::Plain { .. } if file.body == Body::BinaryNamed => {}
        Header::Plain { old_label, new_label } => {
            for (mark, label) in [(b"--- ", old_label), (b"+++ ", new_label)] {
                out.extend_from_slice(mark);
                out.extend_from_slice(label);
                out.push(b'\n');
            }
        }
    }
    match &file.body {
        Body::Hunks(hunks) => hunks.iter().for_each(|hunk| write_hunk(out, hunk)),
        Body::BinaryNamed => write_plain_binary(out, &file.header),
        Body::BinaryContent { forward, backward } => {
            out.extend_from_slice(b"GIT binary patch\n");
            write_binary(out, forward);
            backward.iter().for_each(|hunk| write_binary(out, hunk));
        }
    }
}

fn write_git_header(out: &mut Vec<u8>, file: &FilePatch<'_>, old_prefix: &[u8], new_prefix: &[u8]) {
    let path = file.path();
    let old = file.old_path.as_deref().unwrap_or(path);
    let new = file.new_path.as_deref().unwrap_or(path);
    out.extend_from_slice(b"diff --git ");
    write_name(out, old_prefix, old);
    out.push(b' ');
    write_name(out, new_prefix, new);
    out.push(b'\n');

    let mode = |out: &mut Vec<u8>, label: &str, mode| {
        if let Some(mode) = mode {
            push(out, format_args!("{label} {mode}\n"));
        }
    };
    match file.operation {
        Operation::Add => mode(out, "new file mode", file.new_mode),
        Operation::Delete => mode(out, "deleted file mode", file.old_mode),
        _ if file.old_mode != file.new_mode => {
            mode(out, "old mode", file.old_mode);
            mode(out, "new mode", file.new_mode);
        }
        _ => {}
    }
    match file.similarity {
        Some(Similarity::Alike(percent)) => push(out, format_args!("similarity index {percent}%\n")),
        Some(Similarity::Different(percent)) => push(out, format_args!("dissimilarity index {percent}%\n")),
        None => {}
    }
    let word = match file.operation {
        Operation::Move => Some("rename"),
        Operation::Copy => Some("copy"),
        _ => None,
    };
    // Different names without these lines come from a comparison of two files that Git does not call a
    // rename. The lines then make the meaning explicit.
    if let Some(word) = word {
        for (end, name) in [("from", old), ("to", new)] {
            push(out, format_args!("{word} {end} "));
            write_name(out, b"", name);
            out.push(b'\n');
        }
    }
    if let Some(index) = &file.index {
        out.extend_from_slice(b"index ");
        out.extend_from_slice(&index.old);
        out.extend_from_slice(b"..");
        out.extend_from_slice(&index.new);
        match (file.old_mode, file.new_mode) {
            (Some(old), Some(new)) if old == new => push(out, format_args!(" {old}")),
            _ => {}
        }
        out.push(b'\n');
    }
    let missing = |side: &Option<_>| side.is_none();
    match &file.body {
        Body::Hunks(hunks) if hunks.is_empty() => {}
        Body::Hunks(_) => {
            write_side(out, b"--- ", old_prefix, old, missing(&file.old_path));
            write_side(out, b"+++ ", new_prefix, new, missing(&file.new_path));
        }
        Body::BinaryNamed => {
            out.extend_from_slice(b"Binary files ");
            write_or_null(out, old_prefix, old, missing(&file.old_path));
            out.extend_from_slice(b" and ");
            write_or_null(out, new_prefix, new, missing(&file.new_path));
            out.extend_from_slice(b" differ\n");
        }
        Body::BinaryContent { .. } => {}
    }
}

fn write_plain_binary(out: &mut Vec<u8>, header: &Header<'_>) {
    if let Header::Plain { old_label, new_label } = header {
        let parts: [&[u8]; 5] = [b"Binary files ", old_label, b" and ", new_label, b" differ\n"];
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}

fn write_side(out: &mut Vec<u8>, mark: &[u8], prefix: &[u8], path: &[u8], missing: bool) {
    out.extend_from_slice(mark);
    let start = out.len();
    write_or_null(out, prefix, path, missing);
    // Git appends a tab to a name with a space, for readers that expect a time after the name.
    if out[start..].contains(&b' ') {
        out.push(b'\t');
    }
    out.push(b'\n');
}

fn write_or_null(out: &mut Vec<u8>, prefix: &[u8], path: &[u8], missing: bool) {
    if missing {
        out.extend_from_slice(b"/dev/null");
    } else {
        write_name(out, prefix, path);
    }
}

fn write_hunk(out: &mut Vec<u8>, hunk: &Hunk<'_>) {
    out.extend_from_slice(b"@@ -");
    write_range(out, hunk.old_start, hunk.old_count);
    out.extend_from_slice(b" +");
    write_range(out, hunk.new_start, hunk.new_count);
    out.extend_from_slice(b" @@");
    if !hunk.heading.is_empty() {
        out.push(b' ');
        out.extend_from_slice(&hunk.heading);
    }
    out.push(b'\n');
    for line in &hunk.lines {
        out.push(line.kind.marker());
        out.extend_from_slice(line.content);
        out.push(b'\n');
        if !line.newline {
            out.extend_from_slice(NO_NEWLINE);
        }
    }
}

fn write_range(out: &mut Vec<u8>, start: u32, count: u32) {
    write_number(out, start);
    if count != 1 {
        out.push(b',');
        write_number(out, count);
    }
}

/// Writes decimal digits without the formatting machinery, which is measurable in a patch with many small
/// hunks.
fn write_number(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_binary(out: &mut Vec<u8>, hunk: &BinaryHunk<'_>) {
    let word = match hunk.method {
        BinaryMethod::Literal => "literal",
        BinaryMethod::Delta => "delta",
    };
    push(out, format_args!("{word} {}\n", hunk.size));
    out.extend_from_slice(&hunk.encoded);
    if !hunk.encoded.is_empty() && !hunk.encoded.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}
