//! Any bytes as a line of any type: no panic, strict at least as strict as tolerant, and what is written is read
//! again as the same. The first line of the data names the revision and the type; what names none is spread
//! over all of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::{WireFormat, WireType, wire_type, wire_types};

const REVISIONS: [(&str, WireFormat); 4] = [
    ("v1", WireFormat::V1),
    ("seed", WireFormat::Spec),
    ("latest", WireFormat::Newest),
    ("any", WireFormat::Any),
];

fn choose(head: &[u8]) -> (WireFormat, &'static WireType) {
    let named = || {
        let (revision, name) = std::str::from_utf8(head).ok()?.split_once(' ')?;
        let (_, revision) = REVISIONS.into_iter().find(|(name, _)| *name == revision)?;
        Some((revision, wire_type(name, revision)?))
    };
    named().unwrap_or_else(|| {
        let sum: usize = head.iter().map(|byte| usize::from(*byte)).sum();
        let (_, revision) = REVISIONS[sum % 4];
        let types: Vec<_> = wire_types(revision).collect();
        (revision, types[sum / 4 % types.len()])
    })
}

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (revision, wire_type) = choose(&data[..end]);
    let line = data.get(end + 1..).unwrap_or_default();

    let rules = Rules { revision, tolerant: true, write_back: true, wire_type: None };
    Checker::new(rules).check(line);
    let Ok(text) = std::str::from_utf8(line) else { return };
    let strict = wire_type.rewrite(text, revision);
    let tolerant = wire_type.rewrite_tolerant(text, revision);
    if let Ok(written) = &strict {
        assert!(!written.contains('\n'), "a message is one line");
        assert_eq!(wire_type.rewrite(written, revision).as_ref(), Ok(written));
        let (tolerated, diagnostics) = tolerant.as_ref().expect("what is valid is tolerated");
        assert_eq!((tolerated, diagnostics.len()), (written, 0));
    }
});
