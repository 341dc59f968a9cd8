//! Makes a diff of two folders, looks at it, sends it as a tool call would, and applies it to a copy of the first.
//!
//! ```sh
//! example-diff OLD NEW COPY-OF-OLD
//! ```

use std::error::Error;
use std::path::Path;

use switchboard_diff::{
    ApplyOptions, BuildOptions, Diff, LineKind, apply, build_from_trees, check, parse_patch,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [old, new, copy] = &arguments[..] else { return Err("usage: example-diff OLD NEW COPY".into()) };

    // Problems are files that cannot be read, and the like: the rest is there.
    let built = build_from_trees(Path::new(old), Path::new(new), &BuildOptions::default())?;
    for problem in &built.problems {
        eprintln!("{problem}");
    }
    show(&built.diff);
    assert!(check(&built.diff).agrees(), "what is listed is what the patch does");

    // The paths are those of the old folder. The diff says so itself, and goes on wherever a copy of that is.
    let applied = apply(&built.diff, Path::new(copy), &ApplyOptions::default())?;
    for path in applied.written.iter().chain(&applied.removed) {
        println!("applied: {}", path.display());
    }
    Ok(())
}

fn show(diff: &Diff) {
    for change in &diff.changes {
        println!("{}: {}", change.operation.as_str(), change.path);
    }
    let Some(patch) = &diff.patch else { return };
    for file in parse_patch(patch.text.as_bytes()).files {
        let lines = || file.hunks().iter().flat_map(|hunk| &hunk.lines);
        let count = |kind| lines().filter(|line| line.kind == kind).count();
        println!("{} lines in, {} lines out", count(LineKind::Added), count(LineKind::Removed));
    }
}
