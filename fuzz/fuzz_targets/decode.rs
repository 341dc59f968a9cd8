//! Any bytes as a line of any type: no panic, strict at least as strict as tolerant, and what is written is read
//! again as the same. The first byte chooses the type, the second the revision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_protocol::check::{Checker, Rules};
use switchboard_protocol::{Revision, wire_types};

fuzz_target!(|data: &[u8]| {
    let [chosen_type, chosen_revision, line @ ..] = data else { return };
    let revision = [Revision::V1, Revision::Spec, Revision::Newest, Revision::Any][usize::from(chosen_revision % 4)];
    let types: Vec<_> = wire_types(revision).collect();
    let wire_type = types[usize::from(*chosen_type) % types.len()];

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
