//! Bytes of a sandboxed program at the proxy: whatever is accepted has one meaning, and nothing in it is an address in
//! another spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_sandbox::{HttpRequest, MAX_HEAD, ServerName, Target, parse_http, parse_socks, server_name};

fn check(target: &Target) {
    assert_eq!(Target::parse(&target.to_string()).as_ref(), Some(target), "the spelling is the normal one");
    if target.address().is_none() {
        // Programs that read numbers take these for addresses.
        let last = target.host.rsplit('.').next().unwrap_or_default();
        let hexadecimal = last.strip_prefix("0x").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!last.bytes().all(|byte| byte.is_ascii_digit()) && hexadecimal.is_none(), "{target}");
        assert!(target.host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@' && byte != b'%'), "{target}");
    }
}

fuzz_target!(|data: &[u8]| {
    match parse_http(data) {
        Ok(HttpRequest::Connect(target)) => check(&target),
        Ok(HttpRequest::Plain { target, head, body: _ }) => {
            check(&target);
            let text = String::from_utf8(head).expect("the head was text");
            assert!(text.ends_with("\r\n\r\n") && text.matches("\r\n\r\n").count() == 1, "one request: {text:?}");
            assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "no bare line feed: {text:?}");
            let lower = text.to_ascii_lowercase();
            assert_eq!(lower.matches("\r\nhost:").count(), 1, "one host: {text:?}");
            assert!(!lower.contains("\r\ntransfer-encoding:"), "{text:?}");
            assert!(lower.matches("\r\ncontent-length:").count() <= 1, "{text:?}");
        }
        Err(_) => {}
    }
    if let Some(Ok(target)) = parse_socks(data) {
        check(&target);
    }
    // With more bytes, a name stays the same name.
    if let ServerName::Named(name) = server_name(data) {
        assert_eq!(name, name.to_ascii_lowercase());
        let more = [data, b"more"].concat();
        assert_eq!(server_name(&more), ServerName::Named(name));
        assert!(data.len() <= 8 * MAX_HEAD, "a name of bytes beyond the limit");
    }
});
