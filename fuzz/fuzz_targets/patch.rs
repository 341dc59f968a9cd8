//! Any bytes as a patch: reading, writing, marking and applying it never panics. That well-formed patches come out
//! as they went in is for the property tests, with Git as judge; broken ones may be set right on the way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_diff::{Direction, apply_to_bytes, parse_patch, write_patch};

fuzz_target!(|data: &[u8]| {
    let patch = parse_patch(data);
    for file in &patch.files {
        for hunk in file.hunks() {
            hunk.intraline();
        }
        for direction in [Direction::Forward, Direction::Backward] {
            // Refusing is fine; only a panic is not.
            let _ = apply_to_bytes(file, Some(data), direction);
            let _ = apply_to_bytes(file, None, direction);
        }
    }
    parse_patch(&write_patch(&patch.files));
});
