//! The end of a long session is the end of the whole of it.

use switchboard_session::Conversation;
use switchboard_store::{Channel, Record, State, Store};
use switchboard_testkit::{TagPlace, stream};

use crate::support::{chunk, scratch, update};

fn last_entries(conversation: &Conversation, count: usize) -> Vec<String> {
    let session = conversation.sessions().next().unwrap().1;
    let skip = session.len().saturating_sub(count);
    session
        .entries()
        .skip(skip)
        .map(|entry| {
            use switchboard_protocol::{Wire, WireFormat};
            entry.to_update().encode(WireFormat::Any)
        })
        .collect()
}

fn compare(store: &Store, id: &str, at: u64, count: usize) -> (State, State) {
    let (full, window) = (store.state(id, Some(at)).unwrap(), store.window(id, Some(at), count).unwrap());
    assert_eq!(last_entries(&full.conversation, count), last_entries(&window.conversation, count), "at {at}");
    let (all, end) =
        (full.conversation.sessions().next().unwrap().1, window.conversation.sessions().next().unwrap().1);
    assert_eq!(all.title(), end.title());
    assert_eq!(all.len(), window.hidden[0] + end.len());
    let plans = |session: &switchboard_session::Session| {
        session.plans().map(|plan| format!("{:?}", plan.content())).collect::<Vec<_>>()
    };
    assert_eq!(plans(all), plans(end));
    assert_eq!(all.usage().map(|usage| usage.used), end.usage().map(|usage| usage.used));
    (full, window)
}

#[test]
fn the_end_of_a_session_is_the_same_with_and_without_checkpoints() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    for (number, line) in stream(12_000, TagPlace::First).iter().enumerate() {
        let _ = recorder.append(update(line)).unwrap();
        if number % 3000 == 100 {
            // Late chunks for what came long ago, and a question that stays open over several checkpoints.
            let late = String::from_utf8(chunk("msg_000000", "late").bytes).unwrap();
            let _ = recorder.append(update(&late.replace("s-1", "sess_abc123def456"))).unwrap();
            let _ = recorder.append(chunk("other", "in a second session")).unwrap();
            let _ = recorder
                .append(update(&format!(
                    r#"{{"jsonrpc":"2.0","id":{number},"method":"session/request_permission","params":{{"sessionId":"sess_abc123def456","title":"May I?","options":[],"subject":{{"type":"tool_call","toolCall":{{"toolCallId":"toolu_0100000001","title":"asked {number}"}}}}}}}}"#
                )))
                .unwrap();
        }
        if number % 3000 == 2999 {
            let asked = number - 2899;
            let _ = recorder
                .append(Record::new(
                    Channel::ToAgent,
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{asked},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#
                    ),
                ))
                .unwrap();
        }
    }
    recorder.complete().unwrap();
    assert!(scratch.store.sizes().unwrap().checkpoints > 0);
    let length = scratch.store.session(&id).unwrap().length;
    for at in (0..=length).step_by(977).skip(1).chain([length]) {
        let (full, window) = compare(&scratch.store, &id, at, 50);
        let pending =
            |state: &State| state.conversation.sessions().next().unwrap().1.pending_permissions().count();
        assert_eq!(pending(&full), pending(&window), "at {at}");
    }
    let window = scratch.store.window(&id, None, 50).unwrap();
    assert!(window.hidden[0] > 500, "{:?}", window.hidden);
}
