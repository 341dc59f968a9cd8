//! Misbehaving peers. In each case the caller gets a clear error within a time limit, and no process is left.

use std::time::{Duration, Instant};

use switchboard_transport::{
    Anomaly, Answer, ConnectionOptions, Deadline, Error, Event, Exit, Inbox, Json, NoiseKind,
};

use crate::support::{LifeLine, bounded, end, next_anomaly, script};

const ANSWER: &str = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}'"#;

fn options() -> ConnectionOptions {
    ConnectionOptions::default()
}

/// Calls a method of the peer. Returns the response and all other events.
async fn call(
    caller: &switchboard_transport::Caller,
    inbox: &mut Inbox,
) -> (Result<Answer, Error>, Vec<Event>) {
    let mut events = Vec::new();
    let outcome = bounded(inbox.until(caller.call("m", Json::default()), |event| events.push(event))).await;
    (outcome, events)
}

fn closure_of(outcome: Result<Answer, Error>) -> String {
    match outcome {
        Err(Error::Closed(closure)) => closure.to_string(),
        other => panic!("not closed: {other:?}"),
    }
}

#[tokio::test]
async fn garbage_is_set_aside_and_the_answer_is_found_in_it() {
    let text =
        r#"read x; printf 'log\n\n\033[2K\033]0;t\007\377\376\n{"a":\n[1] boot\n\0\0\n\357\273\277'; "#;
    let (child, mut peer) = script(&format!("{text}{ANSWER}; exec cat")).connect(options()).unwrap();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    assert_eq!(outcome.unwrap(), Answer::Result("{}".into()));
    let kinds: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Anomaly(Anomaly::Noise(noise)) => noise.kind,
            other => panic!("{other:?}"),
        })
        .collect();
    use NoiseKind::{Blank, ByteOrderMark, Decoration, InvalidUtf8, Text};
    assert_eq!(kinds, [Text, Blank, InvalidUtf8, Text, Text, Decoration, ByteOrderMark]);
    end(&child).await;
}

#[tokio::test]
async fn half_a_message_is_reported_with_the_end() {
    let peer = script(r#"read x; printf '{"jsonrpc":"2.0","id":1,"res'; echo broken >&2; exit 3"#);
    let (child, mut peer) = peer.connect(options()).unwrap();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    let expected = "the peer closed its output; /bin/sh ended with exit code 3; \
                    the last lines of its standard error:\n    broken";
    assert_eq!(closure_of(outcome), expected);
    let unfinished =
        |event: &Event| matches!(event, Event::Anomaly(Anomaly::Unfinished(noise)) if noise.length == 28);
    assert!(events.iter().any(unfinished), "{events:?}");
    end(&child).await;
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_one_error_and_the_next_line_is_read() {
    let long =
        r#"printf '{"jsonrpc":"2.0","id":1,"result":"'; head -c 100000000 /dev/zero | tr '\0' x; echo '"}'"#;
    let next = r#"echo '{"jsonrpc":"2.0","id":2,"result":{}}'"#;
    let (child, mut peer) = script(&format!("read x; {long}; {next}; exec cat")).connect(options()).unwrap();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    let error = outcome.unwrap_err().to_string();
    assert_eq!(error, "the answer to m has 100000036 bytes, over the limit of 33554432");
    assert!(matches!(events[..], [Event::Anomaly(Anomaly::TooLong(_))]), "{events:?}");
    let (outcome, _) = call(&peer.caller, &mut peer.inbox).await;
    assert_eq!(outcome.unwrap(), Answer::Result("{}".into()));
    end(&child).await;
}

#[tokio::test]
async fn answers_to_questions_never_asked_are_reported_and_dropped() {
    let text = r#"read x; echo '{"jsonrpc":"2.0","id":77,"result":{}}'; echo '{"jsonrpc":"2.0","id":"1","result":{}}'; "#;
    let (child, mut peer) =
        script(&format!("{text}{ANSWER}; {ANSWER}; exec cat")).connect(options()).unwrap();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    assert_eq!(outcome.unwrap(), Answer::Result("{}".into()));
    assert!(events.iter().all(|event| matches!(event, Event::Anomaly(Anomaly::UnaskedAnswer { .. }))));
    assert_eq!(events.len(), 2);
    assert!(matches!(bounded(next_anomaly(&mut peer.inbox)).await, Anomaly::SecondAnswer { .. }));
    end(&child).await;
}

#[tokio::test]
async fn a_peer_that_dies_is_told_with_its_signal() {
    let (child, mut peer) = script("read x; echo last words >&2; kill -9 $$").connect(options()).unwrap();
    let (outcome, _) = call(&peer.caller, &mut peer.inbox).await;
    let closure = closure_of(outcome);
    assert!(closure.contains("was ended by signal 9 (kill)") && closure.ends_with("last words"), "{closure}");
    assert_eq!(child.exit(), Some(Exit::Signal(9)));
    end(&child).await;
}

#[tokio::test]
async fn sending_to_a_peer_that_died_tells_how_it_died() {
    let (child, peer) = script("echo sorry >&2; exit 7").connect(options()).unwrap();
    bounded(child.wait()).await;
    let error = bounded(async {
        loop {
            if let Err(error) = peer.caller.notify("m", Json::default()).await {
                return error.to_string();
            }
        }
    });
    let error = error.await;
    assert!(error.contains("exit code 7") && error.ends_with("sorry"), "{error}");
    let error = bounded(peer.caller.call("m", Json::default())).await.unwrap_err().to_string();
    assert!(error.contains("exit code 7"), "{error}");
    end(&child).await;
}

#[tokio::test]
async fn a_peer_that_never_answers_costs_the_deadline() {
    let (child, mut peer) = script("exec cat >/dev/null").connect(options()).unwrap();
    let deadline = Deadline::After(Duration::from_millis(50));
    let mut pending = peer.caller.begin("m", Json::default(), deadline).await.unwrap();
    let error = bounded(peer.inbox.until(pending.answer(), drop)).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer to m within 50ms");
    end(&child).await;
}

#[tokio::test]
async fn a_peer_that_closes_only_its_output_is_noticed() {
    let (child, mut peer) = script("read x; exec >&-; exec cat >/dev/null").connect(options()).unwrap();
    let (outcome, _) = call(&peer.caller, &mut peer.inbox).await;
    assert_eq!(closure_of(outcome), "the peer closed its output; /bin/sh still runs");
    end(&child).await;
}

#[tokio::test]
async fn a_flood_is_taken_in_without_an_end_and_stopped_at_will() {
    let text = r#"exec yes '{"jsonrpc":"2.0","method":"n","params":{"text":"flood"}}'"#;
    let (child, mut peer) = script(text).connect(options()).unwrap();
    for _ in 0..100_000 {
        let event = bounded(peer.inbox.next()).await.unwrap();
        assert!(matches!(event, Event::Notification(_)), "{event:?}");
    }
    end(&child).await;
    let rest = async { while peer.inbox.next().await.is_some() {} };
    bounded(rest).await;
}

#[tokio::test]
async fn a_flood_on_standard_error_neither_blocks_the_peer_nor_fills_memory() {
    let text = format!("read x; yes complaint | head -n 300000 >&2; {ANSWER}; exec cat");
    let (child, mut peer) = script(&text).connect(options()).unwrap();
    let (outcome, _) = call(&peer.caller, &mut peer.inbox).await;
    assert_eq!(outcome.unwrap(), Answer::Result("{}".into()));
    assert_eq!(child.last_lines(1), ["complaint"]);
    assert!(child.last_lines(usize::MAX).len() <= 500);
    end(&child).await;
}

#[tokio::test]
async fn a_peer_that_ignores_cancel_costs_the_grace_time() {
    let options = ConnectionOptions { cancel_grace: Duration::from_millis(50), ..options() };
    let (child, mut peer) = script("exec cat >/dev/null").connect(options).unwrap();
    let mut pending = peer.caller.begin("m", Json::default(), Deadline::Never).await.unwrap();
    pending.cancel();
    let error = bounded(peer.inbox.until(pending.answer(), drop)).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer to m within 50ms after it was cancelled");
    end(&child).await;
}

#[tokio::test]
async fn a_grandchild_in_the_group_that_keeps_the_pipe_open_is_ended_with_it() {
    let mut life = LifeLine::new();
    let text =
        r#"read x; (trap '' TERM; exec 9>"$LIFE"; echo >&9; while :; do sleep 1; done) & read y; exit 4"#;
    let (child, mut peer) = script(text).env("LIFE", life.path()).connect(options()).unwrap();
    let call = async {
        let call = peer.caller.call("m", Json::default());
        let go = async {
            life.begun(1).await;
            peer.caller.notify("go", Json::default()).await
        };
        tokio::join!(call, go).0
    };
    let outcome = bounded(peer.inbox.until(call, drop)).await;
    assert!(closure_of(outcome).contains("exit code 4"));
    end(&child).await;
    life.over().await;
}

#[tokio::test]
async fn a_grandchild_that_left_the_group_and_keeps_the_pipe_open_does_not_hang_us() {
    // The grandchild ends when the test closes the pipe that it reads.
    let folder = tempfile::tempdir().unwrap();
    let hold = folder.path().join("hold");
    assert!(std::process::Command::new("mkfifo").arg(&hold).status().unwrap().success());
    let holder = tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_sender(&hold).unwrap();
    let text = r#"read x; exec 8<"$HOLD"; setsid cat <&8 & echo '{"jsonrpc":"2.0","method":"n"}'; exit 5"#;
    let (child, mut peer) = script(text).env("HOLD", &hold).connect(options()).unwrap();
    let begun = Instant::now();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    assert!(closure_of(outcome).contains("exit code 5"));
    assert!(matches!(events[0], Event::Notification(_)), "what it wrote before its end is read");
    assert!(begun.elapsed() < Duration::from_secs(60));
    end(&child).await;
    drop(holder);
}

#[test]
fn no_task_is_left_after_a_fault() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for text in ["exit 1", "exec cat >/dev/null", "exec >&-; exec cat", "kill -9 $$", "yes"] {
            let (child, mut peer) = script(text).connect(options()).unwrap();
            let deadline = Deadline::After(Duration::from_millis(20));
            if let Ok(mut pending) = peer.caller.begin("m", Json::default(), deadline).await {
                assert!(bounded(peer.inbox.until(pending.answer(), drop)).await.is_err(), "{text}");
            }
            end(&child).await;
        }
        let none_left = async {
            while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        };
        bounded(none_left).await;
    });
}

#[tokio::test]
async fn a_peer_that_closes_its_input_is_noticed_without_another_message() {
    // It receives the request, sends something, and stays alive.
    let text =
        r#"read x; exec <&-; echo '{"jsonrpc":"2.0","method":"last"}'; echo closing >&2; exec sleep 1000"#;
    let (child, mut peer) = script(text).connect(options()).unwrap();
    let (outcome, events) = call(&peer.caller, &mut peer.inbox).await;
    let closure = closure_of(outcome);
    assert!(closure.starts_with("the peer closed its input; /bin/sh still runs"), "{closure}");
    assert!(closure.ends_with("closing"), "{closure}");
    // Messages that it sent before count.
    assert!(matches!(events.first(), Some(Event::Notification(_))), "{events:?}");
    end(&child).await;
}

#[tokio::test]
async fn the_last_lines_of_standard_error_are_told_in_bounds_and_without_escapes() {
    let text = r#"read x; printf '\033[31m%s\n' "$(head -c 5000 /dev/zero | tr '\0' x)" >&2; exit 1"#;
    let (child, mut peer) = script(text).connect(options()).unwrap();
    let (outcome, _) = call(&peer.caller, &mut peer.inbox).await;
    let closure = closure_of(outcome);
    assert!(closure.ends_with(&format!("\n    {}...", "x".repeat(300))), "{closure}");
    assert!(!closure.contains('\u{1B}'), "{closure}");
    end(&child).await;
}
