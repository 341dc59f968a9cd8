//! Full-text search.

use switchboard_acp::{Wire, WireFormat};
use switchboard_store::{About, Channel, Filter, Moment, Record, Search, StoreError, TextKind};

use crate::support::{chunk, records, scratch, update};

fn search(query: &str) -> Search {
    Search { query: query.into(), ..Search::default() }
}

#[test]
fn texts_are_found_while_they_are_written_and_afterwards() {
    let scratch = scratch();
    let mut recorder = scratch.store.begin(&About { agent: Some("bot".into()), ..About::default() }).unwrap();
    let id = recorder.id().to_owned();
    for text in ["Die Änder", "ung an the con", "figuration"] {
        let _ = recorder.append(chunk("m-1", text).at(Moment(1000))).unwrap();
    }
    let _ = recorder
        .append(
            update(
                r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c",
                "title":"Edit main.rs","rawInput":{"command":"cargo build --release"},
                "content":[{"type":"diff","changes":[{"path":"/src/main.rs"}],"patch":{"text":"+let answer = 42;"}}]}}}"#,
            )
            .at(Moment(2000)),
        )
        .unwrap();
    recorder.sync().unwrap();
    let check = || {
        let found = |search: Search| {
            let hits = scratch.store.search(&search).unwrap();
            hits.iter().map(|hit| (hit.kind, hit.first, hit.last)).collect::<Vec<_>>()
        };
        assert_eq!(found(search("anderung configuration")), [(TextKind::Agent, 0, 2)]);
        assert_eq!(found(search("config*")), [(TextKind::Agent, 0, 2)]);
        assert_eq!(found(search("\"the configuration\"")), [(TextKind::Agent, 0, 2)]);
        assert_eq!(found(search("\"configuration the\"")), []);
        assert_eq!(found(search("answer")), [(TextKind::Patch, 3, 3)]);
        assert_eq!(found(search("cargo build")), [(TextKind::Command, 3, 3)]);
        assert_eq!(found(search("/src/main.rs")), [(TextKind::Path, 3, 3)]);
        let kinds = vec![TextKind::Title];
        assert_eq!(found(Search { kinds, ..search("main") }), [(TextKind::Title, 3, 3)]);
        assert_eq!(found(search("main")).len(), 2);
        assert_eq!(found(Search { until: Some(Moment(2000)), ..search("main") }), []);
        assert_eq!(found(Search { since: Some(Moment(2000)), ..search("main") }).len(), 2);
        assert_eq!(found(Search { agent: Some("bo".into()), ..search("main") }).len(), 2);
        assert_eq!(found(Search { agent: Some("cat".into()), ..search("main") }), []);
        assert_eq!(found(Search { session: Some(id.clone()), limit: Some(1), ..search("main") }).len(), 1);
        for odd in ["k\"", "AND OR", "a:b", "(", "scope:s1", "NEAR(a b)"] {
            let result = scratch.store.search(&search(odd));
            assert!(
                matches!(&result, Ok(hits) if hits.is_empty())
                    || matches!(result, Err(StoreError::EmptySearch { .. })),
                "{odd}"
            );
        }
    };
    check();
    recorder.complete().unwrap();
    check();
    scratch.store.delete(&id).unwrap();
    assert_eq!(scratch.store.search(&search("main")).unwrap(), []);
}

#[test]
fn the_other_side_of_a_translation_is_kept_but_neither_folded_nor_found_nor_counted() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let other = |text: &str| Record { channel: Channel::OtherToClient, ..chunk("m", text) };
    let written = [
        chunk("m", "canonical"),
        other("translated"),
        Record::new(
            Channel::OtherToAgent,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/p"}}"#,
        ),
        Record::new(Channel::Diagnostic, r#"{"lost":"a colour"}"#),
    ];
    for record in written {
        let _ = recorder.append(record).unwrap();
    }
    recorder.sync().unwrap();
    for closed in [false, true] {
        let found = |query: &str| scratch.store.search(&search(query)).unwrap().len();
        assert_eq!((found("canonical"), found("translated"), found("colour")), (1, 0, 1), "{closed}");
        let state = scratch.store.state(&id, None).unwrap();
        let folded = state.conversation.session(Some("s-1")).unwrap();
        let texts: Vec<String> =
            folded.entries().map(|entry| entry.to_update().encode(WireFormat::Any)).collect();
        assert!(texts.len() == 1 && !texts[0].contains("translated"), "{texts:?}");
        let statistics = scratch.store.statistics(&Filter::default()).unwrap();
        assert_eq!(statistics.agents.values().map(|share| share.records).collect::<Vec<_>>(), [2]);
        assert_eq!(scratch.store.session(&id).unwrap().about.project, None);
        assert_eq!(records(&scratch.store, &id).len(), 4);
        if !closed {
            recorder = {
                recorder.complete().unwrap();
                scratch.store.resume(&id).unwrap()
            };
        }
    }
}

/// Returns an update that replaces a message as a whole, with a text or empty.
fn whole(message: &str, text: Option<&str>) -> Record {
    let content = text.map_or_else(
        || "[]".to_owned(),
        |text| format!(r#"[{{"type":"text","text":{}}}]"#, serde_json::Value::from(text)),
    );
    update(&format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"agent_message","messageId":"{message}","content":{content}}}}}}}"#
    ))
}

#[test]
fn replaced_text_is_found_and_marked() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    for record in [
        chunk("m-1", "the first dra"),
        chunk("m-1", "ft is wrong"),
        whole("m-1", Some("the final text is right")),
        chunk("m-2", "a password by mistake"),
        whole("m-2", None),
        chunk("m-3", "kept and"),
        whole("m-3", Some("kept and repeated")),
        // Another session on the same connection, with a message of the same id.
        update(&String::from_utf8(chunk("m-2", "mistake elsewhere").bytes).unwrap().replace("s-1", "s-2")),
    ] {
        let _ = recorder.append(record).unwrap();
    }
    let mut recorder = Some(recorder);
    // In the journal, in the index, and with the replacement in a later block.
    for _ in 0..2 {
        let found = |query: &str| {
            let hits = scratch.store.search(&search(query)).unwrap();
            hits.iter().map(|hit| (hit.first, hit.last, hit.withdrawn)).collect::<Vec<_>>()
        };
        assert_eq!(found("\"first draft is\""), [(0, 1, true)]);
        assert_eq!(found("\"final text\""), [(2, 2, false)]);
        assert_eq!(found("wrong"), [(0, 1, true)]);
        assert_eq!(found("password"), [(3, 3, true)]);
        assert_eq!(found("kept"), [(6, 6, false), (5, 5, false)]);
        assert_eq!(found("mistake"), [(7, 7, false), (3, 3, true)]);
        if let Some(recorder) = recorder.take() {
            recorder.complete().unwrap();
        }
    }
    let id = scratch.store.sessions(&Filter::default()).unwrap()[0].id.clone();
    let mut later = scratch.store.resume(&id).unwrap();
    let _ = later.append(whole("m-1", None)).unwrap();
    for _ in 0..2 {
        let hits = scratch.store.search(&search("final")).unwrap();
        assert!(hits.len() == 1 && hits[0].withdrawn, "{hits:?}");
        later = {
            later.complete().unwrap();
            scratch.store.resume(&id).unwrap()
        };
    }
}

#[test]
fn retracted_text_can_be_omitted() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for record in [chunk("m-1", "secret"), whole("m-1", Some("public")), chunk("m-2", "stays")] {
        let _ = recorder.append(record).unwrap();
    }
    recorder.close().unwrap();
    let mut withdrawals = scratch.store.withdrawals(&id).unwrap();
    let changed: Vec<_> =
        records(&scratch.store, &id).iter().map(|record| withdrawals.take_out(record)).collect();
    let expected = String::from_utf8(chunk("m-1", "secret").bytes).unwrap().replace("secret", "[withdrawn]");
    assert_eq!(changed, [Some(expected.into_bytes()), None, None]);
    assert_eq!(withdrawals.count(), 1);
}
