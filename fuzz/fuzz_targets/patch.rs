//! Any bytes as a patch: no panic, and what was read without a fault is written and read again as the same.
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
    if patch.faults.is_empty() {
        let written = write_patch(&patch.files);
        let again = parse_patch(&written);
        assert!(again.faults.is_empty(), "what we wrote has faults: {:?}", again.faults);
        assert_eq!(again.files, patch.files);
    }
});
