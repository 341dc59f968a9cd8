use bytes::BytesMut;
use proptest::prelude::*;
use switchboard_transport::{Frame, LineDecoder, LineReader, Substitute};

use crate::support::bounded;

const LIMIT: usize = 32;

fn frames_of(pieces: &[&[u8]]) -> Vec<Frame> {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(frame) = decoder.decode(&mut buffer) {
            frames.push(frame);
        }
    }
    while let Some(frame) = decoder.finish(&mut buffer) {
        frames.push(frame);
    }
    assert!(buffer.is_empty());
    frames
}

/// Formats a message unchanged, and any other frame in words.
fn describe(frame: &Frame) -> String {
    match frame {
        Frame::Message(text) => text.to_string(),
        Frame::Noise(noise) | Frame::Unfinished(noise) => format!("<{noise}>"),
        Frame::TooLong(too_long) => format!("<{too_long}>"),
    }
}

#[test]
fn each_line_is_a_message_or_noise() {
    let check = |input: &[u8], expected: &[&str]| {
        let found: Vec<_> = frames_of(&[input]).iter().map(describe).collect();
        assert_eq!(found, expected, "{}", input.escape_ascii());
    };
    check(b"", &[]);
    check(b"{}\n[1]\n", &["{}", "[1]"]);
    check(b"{}\r\n{}\r\n", &["{}", "{}"]);
    check(b" {} \n\t[]\r\n", &["{}", "[]"]);
    check(b"\n{}\n\r\n  \n", &["<an empty line>", "{}", "<an empty line>", "<an empty line>"]);
    check(b"\xEF\xBB\xBF{\"a\":1}\n", &["<a byte-order mark>", "{\"a\":1}"]);
    check(b"\x1B[2K\x1B[0m{}\n", &["<terminal escapes around a message: \"\\u{1b}[2K\\u{1b}[0m\">", "{}"]);
    check(b"{}\x1B[0m\r\n", &["<terminal escapes around a message: \"\\u{1b}[0m\">", "{}"]);
    check(b"\x1B[0m\n{}\n", &["<terminal escapes around a message: \"\\u{1b}[0m\">", "{}"]);
    check(b"INFO starting\n{}\n", &["<a line that is no message: \"INFO starting\">", "{}"]);
    check(b"sent {\"id\":1}\n", &["<a line that is no message: \"sent {\\\"id\\\":1}\">"]);
    check(
        b"12\n\"text\"\nnull\n",
        &[
            "<a line that is no message: \"12\">",
            "<a line that is no message: \"\\\"text\\\"\">",
            "<a line that is no message: \"null\">",
        ],
    );
    check(
        b"{\"a\":\"\xFF\"}\n{}\n",
        &["<a line that is not valid UTF-8: \"{\\\"a\\\":\\\"\u{FFFD}\\\"}\">", "{}"],
    );
    check(b"\xFE\xFF\n", &["<a line that is not valid UTF-8: \"\u{FFFD}\u{FFFD}\">"]);
    // Not JSON, but the message parser reports that better.
    check(b"{ level: 'info'\n[12:30] log\n", &["{ level: 'info'", "[12:30] log"]);
}

#[test]
fn the_end_of_the_stream_ends_the_last_line() {
    let check = |input: &[u8], expected: &[&str]| {
        let found: Vec<_> = frames_of(&[input]).iter().map(describe).collect();
        assert_eq!(found, expected, "{}", input.escape_ascii());
    };
    check(b"{}\n{\"a\":1}", &["{}", "{\"a\":1}"]);
    check(b"{\"a\":", &["<the end of the stream inside a message: \"{\\\"a\\\":\">"]);
    check(b"{\"a\":{}", &["<the end of the stream inside a message: \"{\\\"a\\\":{}\">"]);
    check(b"{\"a\":\"\xC3", &["<the end of the stream inside a message: \"{\\\"a\\\":\\\"\u{FFFD}\">"]);
    check(b"bye", &["<a line that is no message: \"bye\">"]);
    check(b"\xEF\xBB\xBF{}", &["<a byte-order mark>", "{}"]);
}

#[test]
fn a_line_over_the_limit_is_one_frame_and_the_next_is_read() {
    let long = "x".repeat(LIMIT + 1);
    let at_limit = format!("{{\"a\":\"{}\"}}", "x".repeat(LIMIT - 8));
    let text = format!("{long}\n{at_limit}\n{long}{long}\n{{}}\n{long}");
    let found: Vec<_> = frames_of(&[text.as_bytes()]).iter().map(describe).collect();
    let over = |length| format!("<a line of {length} bytes, over the limit of {LIMIT}>");
    assert_eq!(found, [over(LIMIT + 1), at_limit, over(2 * (LIMIT + 1)), "{}".to_owned(), over(LIMIT + 1)]);
}

#[test]
fn a_long_line_is_not_kept() {
    let mut decoder = LineDecoder::new(1024);
    let mut buffer = BytesMut::new();
    for _ in 0..10_000 {
        buffer.extend_from_slice(&[b'x'; 1000]);
        assert_eq!(decoder.decode(&mut buffer), None);
        assert!(buffer.capacity() < 16 * 1024);
    }
    buffer.extend_from_slice(b"\n");
    let Some(Frame::TooLong(too_long)) = decoder.decode(&mut buffer) else { panic!("not too long") };
    assert_eq!((too_long.limit, too_long.length, too_long.beginning.len()), (1024, 10_000_000, 1024));
}

#[test]
fn something_stands_in_for_a_long_message_that_somebody_waits_for() {
    let (limit, long) = (1024, "é".repeat(3000));
    let substitute = |text: String| {
        // Also in small pieces, so that the end is assembled from several.
        let stands_in = |piece: usize| {
            let mut decoder = LineDecoder::new(limit);
            let mut buffer = BytesMut::new();
            let mut frame = None;
            for bytes in format!("{text}\n").as_bytes().chunks(piece) {
                buffer.extend_from_slice(bytes);
                frame = frame.or_else(|| decoder.decode(&mut buffer));
            }
            let Some(Frame::TooLong(too_long)) = frame else { panic!("not too long: {frame:?}") };
            too_long.substitute()
        };
        assert_eq!(stands_in(7), stands_in(usize::MAX));
        stands_in(7)
    };
    let answer = |id: &str, length: usize| {
        let words = format!("the answer has {length} bytes, over the limit of {limit}");
        let error = format!(r#"{{"code":-32603,"message":"{words}"}}"#);
        Some(Substitute::Answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)))
    };
    let first = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#);
    assert_eq!(substitute(first.clone()), answer("7", first.len()));
    // The id after the result, with other keys around it, and one that is not the message's id.
    let last = format!(r#"{{"result":{{"a":"{long}","id":1,"method":"m"}}, "id":"x","jsonrpc":"2.0"}} "#);
    assert_eq!(substitute(last.clone()), answer(r#""x""#, last.len()));
    for request in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":"{long}"}}}}"#),
        format!(r#"{{"params":{{"a":"{long}"}},"method":"m","id":7}}"#),
    ] {
        let Some(Substitute::Refusal(line)) = substitute(request.clone()) else { panic!("no refusal") };
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600"#), "{line}");
    }
    for nobody in [
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":"{long}","id":3}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":"{long}\"id\":3}}"}}"#),
        long.clone(),
    ] {
        assert_eq!(substitute(nobody.clone()), None, "{}", &nobody[..60]);
    }
}

/// Returns the frames of an input, taking as many as possible in runs, each as its number of messages.
fn frames_in_runs(pieces: &[&[u8]], room: usize, passes: impl Fn(&[u8]) -> bool) -> (Vec<Frame>, Vec<usize>) {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut buffer = BytesMut::new();
    let (mut frames, mut runs) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            if let Some(run) = decoder.decode_run(&mut buffer, room, &passes, str::to_owned) {
                assert!(run.len() < room, "{} bytes and a line's end in {room}", run.len());
                runs.push(run.split('\n').count());
                frames.extend(run.split('\n').map(|line| Frame::Message(line.into())));
            } else if let Some(frame) = decoder.decode(&mut buffer) {
                frames.push(frame);
            } else {
                break;
            }
        }
    }
    while let Some(frame) = decoder.finish(&mut buffer) {
        frames.push(frame);
    }
    (frames, runs)
}

#[test]
fn a_run_ends_before_what_is_not_usual() {
    let check = |input: &[u8], room: usize, expected: &[usize]| {
        let (frames, runs) = frames_in_runs(&[input], room, |line| line != b"{!}");
        assert_eq!(runs, expected, "{}", input.escape_ascii());
        assert_eq!(frames, frames_of(&[input]), "{}", input.escape_ascii());
    };
    check(b"", 100, &[]);
    check(b"{}\n{}\n{}\n", 100, &[3]);
    check(b"{}\n{}\n{}", 100, &[2]);
    check(b"{}\n{}\n{}\n{}\n", 8, &[2, 2]);
    check(b"{}\n", 2, &[]);
    check(b"{}\n{!}\n{}\n", 100, &[1, 1]);
    check(b"{}\n{}\r\n{}\n", 100, &[1, 1]);
    check(b"{}\nlog\n\n{}\n[]\n{}\n", 100, &[1, 1, 1]);
    check(b"\xEF\xBB\xBF{}\n{}\n", 100, &[1]);
    check(b"{}\n{}\n{\xFF}\n{}\n", 100, &[2, 1]);
    check("{\"a\":\"\u{e9}\"}\n{}\n".as_bytes(), 100, &[2]);
    let long = format!("{{}}\n{{{}}}\n{{}}\n", " ".repeat(LIMIT));
    check(long.as_bytes(), 100, &[1, 1]);
}

#[test]
fn a_run_does_not_begin_inside_a_long_line() {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut buffer = BytesMut::from(&*"x".repeat(LIMIT + 1));
    assert_eq!(decoder.decode(&mut buffer), None);
    buffer.extend_from_slice(b"{}\n{}\n");
    assert_eq!(decoder.decode_run(&mut buffer, 100, |_| true, str::len), None);
    assert!(matches!(decoder.decode(&mut buffer), Some(Frame::TooLong(_))));
    assert_eq!(decoder.decode_run(&mut buffer, 100, |_| true, str::len), Some(2));
}

proptest! {
    #[test]
    fn runs_are_the_same_messages(
        lines in prop::collection::vec(
            prop_oneof![
                4 => Just(&b"{}\n"[..]),
                2 => Just(&b"{\"a\":\"\xC3\xA9\"}\n"[..]),
                1 => prop::sample::select(vec![
                    &b"{!}\n"[..], b"{}\r\n", b"{\xC3}\n", b"\x1B[0m{}\n", b"log\n", b"\n", b"[]\n",
                    b"{\"a\":\"a line that is too long for the limit\"}\n",
                ]),
            ],
            0..20,
        ),
        cuts in prop::collection::vec(0..200_usize, 0..8),
        room in 1..60_usize,
    ) {
        let bytes = lines.concat();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let (frames, _) = frames_in_runs(&pieces, room, |line| line != b"{!}");
        prop_assert_eq!(frames, frames_of(&[&bytes]));
    }

    #[test]
    fn where_reads_cut_the_stream_does_not_matter(
        bytes in prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'{'), Just(b'}'), Just(b'\r'), Just(0x1B), Just(b'['), any::<u8>()],
            0..100,
        ),
        cuts in prop::collection::vec(0..100_usize, 0..8),
    ) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(frames_of(&pieces), frames_of(&[&bytes]));
    }
}

#[tokio::test]
async fn many_lines_come_out_of_one_read() {
    let text = "{}\n".repeat(5000);
    let mut lines = LineReader::new(text.as_bytes(), LIMIT);
    let first = bounded(lines.next()).await.unwrap();
    assert!(matches!(first, Some(Frame::Message(_))));
    for _ in 1..5000 {
        assert!(matches!(lines.ready(), Some(Frame::Message(_))));
    }
    assert_eq!(bounded(lines.next()).await.unwrap(), None);
}
