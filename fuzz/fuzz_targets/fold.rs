//! Any lines as the messages of a connection: no panic, and a restored session equals the one that was stored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::Session;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut session = Session::new(WireFormat::Any);
    for line in text.lines() {
        if let Ok((update, _)) = v2::SessionUpdate::decode_tolerant(line, WireFormat::Any) {
            session.apply(&update);
        }
    }
    let stored = serde_json::to_string(&session).expect("a session can be stored");
    let restored: Session = serde_json::from_str(&stored).expect("what was stored can be restored");
    assert_eq!(serde_json::to_string(&restored).expect("a session can be stored"), stored);
});
