//! Finding what was said.

use switchboard_protocol::{Wire, WireFormat};
use switchboard_store::{About, Channel, Filter, Record, Search, StoreError, TextKind, Time};

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
        let _ = recorder.append(chunk("m-1", text).at(Time(1000))).unwrap();
    }
    let _ = recorder
        .append(
            update(
                r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c",
                "title":"Edit main.rs","rawInput":{"command":"cargo build --release"},
                "content":[{"type":"diff","changes":[{"path":"/src/main.rs"}],"patch":{"text":"+let answer = 42;"}}]}}}"#,
            )
            .at(Time(2000)),
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
        assert_eq!(found(Search { until: Some(Time(2000)), ..search("main") }), []);
        assert_eq!(found(Search { since: Some(Time(2000)), ..search("main") }).len(), 2);
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
