//! Cost of streaming.

use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use switchboard_acp::{WireFormat, v2};
use switchboard_session::{EntryKind, Session};

use super::sample::{session, tool_call, update};
use crate::render::{self, Part, Place, RenderCache};

fn chunk(session: &mut Session, text: &str) {
    let chunk = v2::ContentChunk::new("m", v2::ContentBlock::text(text));
    session.apply(&v2::SessionUpdate::AgentMessageChunk(chunk));
}

fn parts(session: &Session, cache: &RenderCache) -> Vec<Part> {
    let position = session.position(EntryKind::AgentMessage, "m").unwrap();
    render::entry(session, session.entry(position).unwrap(), None, &Place::default(), cache)
}

/// Returns the page that the button for earlier pages requests.
fn page_before(parts: &[Part]) -> Option<usize> {
    let button = parts.iter().find(|part| part.key == "earlier")?;
    button.html.split("data-before=\"").nth(1)?.split('"').next()?.parse().ok()
}

#[test]
fn while_text_streams_only_its_last_block_is_rendered_anew() {
    let cache = RenderCache::default();
    let mut session = Session::new(WireFormat::Any);
    let mut before: Vec<Part> = Vec::new();
    for number in 0..200 {
        chunk(&mut session, &format!("Paragraph {number} with `code` and **more**.\n\n- a\n- b\n\n"));
        let after = parts(&session, &cache);
        let shared =
            |part: &Part| after.iter().any(|it| it.key == part.key && Arc::ptr_eq(&it.html, &part.html));
        // The heading is rendered each time, with the same result.
        let changed = before.iter().skip(1).filter(|part| !shared(part)).count();
        assert!(changed <= 1, "{changed} parts changed at {number}");
        before = after;
    }
    assert!((30..100).contains(&before.len()), "{} parts", before.len());
}

#[test]
fn a_long_message_shows_its_end_and_offers_the_rest() {
    let cache = RenderCache::default();
    let mut session = Session::new(WireFormat::Any);
    let mut text = String::new();
    let mut most = 0;
    for number in 0..40_000 {
        let word = format!("word {number}{}", if number % 20 == 0 { "\n\n" } else { " " });
        chunk(&mut session, &word);
        text.push_str(&word);
        if number % 1000 == 0 {
            most = most.max(parts(&session, &cache).iter().map(|part| part.html.len()).sum());
        }
    }
    assert!(most < 256 << 10, "{most} bytes of HTML");
    let position = session.position(EntryKind::AgentMessage, "m").unwrap();
    let entry = session.entry(position).unwrap();
    let live = render::entry(&session, entry, None, &Place::default(), &cache);
    assert_eq!(live[1].key, "earlier");
    let mut pages = vec![live];
    while let Some(button) = pages.last().unwrap().iter().find(|part| part.key == "earlier") {
        let before =
            button.html.split("data-before=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        pages.push(render::earlier(&session, entry, before, &cache));
    }
    // The pages are complete and disjoint, and their keys are unique in the entry.
    let mut shown = String::new();
    let mut keys: Vec<&str> = Vec::new();
    for part in pages.iter().rev().flatten().filter(|part| part.key.starts_with('b')) {
        for paragraph in part.html.split("<p>").skip(1) {
            let _ = write!(shown, "{} ", paragraph.split("</p>").next().unwrap());
        }
        keys.push(&part.key);
    }
    let mismatch =
        shown.split_whitespace().zip(text.split_whitespace()).position(|(left, right)| left != right);
    assert_eq!(
        mismatch,
        None,
        "{:?}",
        shown.split_whitespace().skip(mismatch.unwrap_or(0).saturating_sub(3)).take(6).collect::<Vec<_>>()
    );
    assert_eq!(shown.split_whitespace().count(), text.split_whitespace().count());
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn pages_keep_their_keys_while_a_message_grows() {
    let cache = RenderCache::default();
    let mut session = Session::new(WireFormat::Any);
    let mut before: Vec<Part> = Vec::new();
    let mut moved = 0;
    for number in 0..400 {
        let words = "A message that is long and grows longer. ".repeat(12);
        chunk(&mut session, &format!("Paragraph {number}. {words}\n\n"));
        let after = parts(&session, &cache);
        let kept = |part: &&Part| after.iter().any(|it| it.key == part.key);
        let lost = before.iter().filter(|part| !kept(part)).count();
        // A page that is dropped takes all its parts with it, and no other part changes.
        moved += usize::from(lost > 0);
        for part in before.iter().skip(2) {
            if let Some(now) = after.iter().find(|it| it.key == part.key) {
                let is_last = before.last().is_some_and(|last| last.key == part.key);
                assert!(now.hash == part.hash || is_last || lost > 0, "{} at {number}", part.key);
            }
        }
        before = after;
    }
    assert!((3..10).contains(&moved), "{moved}");
}

#[test]
fn other_content_keeps_its_place_between_texts() {
    let image =
        json!({"type": "content", "content": {"type": "resource_link", "name": "n", "uri": "file:///n"}});
    let text = |words: &str| json!({"type": "content", "content": {"type": "text", "text": words}});
    let session = session(&[tool_call(
        "c",
        json!({"content": [text("a"), text("b"), image, text("c"), image, image]}),
    )]);
    let parts =
        render::entry(&session, session.entry(0).unwrap(), None, &Place::default(), &RenderCache::default());
    let keys: Vec<&str> = parts.iter().map(|part| &*part.key).collect();
    assert_eq!(keys, ["head", "b0-0", "i2", "a2-0", "i4", "i5"]);
}

#[test]
fn too_many_attachments_are_left_out_and_counted() {
    let link =
        json!({"type": "content", "content": {"type": "resource_link", "name": "n", "uri": "file:///n"}});
    let session = session(&[tool_call("c", json!({"content": vec![link; 300]}))]);
    let parts =
        render::entry(&session, session.entry(0).unwrap(), None, &Place::default(), &RenderCache::default());
    assert_eq!(parts.len(), 2 + 256);
    assert!(parts[1].html.contains("44 attachments are not shown"), "{}", parts[1].html);
    assert_eq!(parts[2].key, "i44");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any content of a message, its pages together equal the message.
    #[test]
    fn pages_hold_everything_once(pieces in prop::collection::vec((0_usize..9000, 0_u8..8), 1..80)) {
        let mut content = Vec::new();
        let mut expected = String::new();
        for (number, (length, kind)) in pieces.into_iter().enumerate() {
            match kind {
                0 => {
                    content.push(json!({"type": "resource_link", "name": format!("link{number}"), "uri": "file:///n"}));
                    let _ = write!(expected, " link{number} ");
                }
                _ => {
                    let text = ["x", "x ", "x\n", "x y\n\n"][usize::from(kind) % 4].repeat(length / 3);
                    expected.push_str(&text);
                    content.push(json!({"type": "text", "text": text}));
                }
            }
        }
        let session = session(&[update(json!({"sessionUpdate": "user_message", "messageId": "m", "content": content}))]);
        let entry = session.entry(0).unwrap();
        let cache = RenderCache::default();
        let mut pages = vec![render::entry(&session, entry, None, &Place::default(), &cache)];
        while let Some(before) = page_before(pages.last().unwrap()) {
            pages.push(render::earlier(&session, entry, before, &cache));
        }
        let mut shown = String::new();
        for part in pages.iter().rev().flatten() {
            if let Some(text) = part.html.strip_prefix(&format!("<div class=\"p said\" data-part=\"{}\">", part.key)) {
                shown.push_str(text.strip_suffix("</div>").unwrap());
            } else if let Some(name) = part.html.split("<span class=\"path\">").nth(1) {
                let _ = write!(shown, " {} ", name.split('<').next().unwrap());
            }
        }
        prop_assert_eq!(shown, expected);
    }
}
