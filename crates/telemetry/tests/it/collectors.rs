//! Collectors that are unreachable, refuse or never answer: the session is not affected.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_acp::Side;
use switchboard_telemetry::{Options, Telemetry, TelemetryError};
use switchboard_testkit::{Answers, Collector};

/// Sends telemetry to an address. Returns the reported problems.
fn problems(endpoint: String, patience: Duration) -> Vec<String> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = Options {
        endpoint: Some(endpoint),
        ..Options::new(move |problem| heard.lock().unwrap().push(problem.to_owned()))
    };
    let telemetry = Telemetry::start(options).unwrap().unwrap();
    let mut connection = telemetry.connection();
    for id in 0..5000 {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[]}}}}"#
        );
        connection.message(Side::Client, 2, &line);
        let refused = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no"}}}}"#);
        connection.message(Side::Agent, 2, &refused);
    }
    connection.end();
    telemetry.end(patience);
    // A second end has no effect.
    telemetry.end(Duration::MAX);
    told.lock().unwrap().clone()
}

#[test]
fn one_that_is_away_is_told_once() {
    // No process listens there any more.
    let address = Collector::start(Answers::Well).unwrap().url();
    let told = problems(address.clone(), Duration::from_secs(20));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("cannot send telemetry to {address}/v1/")), "{told:?}");
}

#[test]
fn one_that_refuses_is_told_once_with_its_answer() {
    let collector = Collector::start(Answers::With(401)).unwrap();
    let told = problems(collector.url(), Duration::from_secs(20));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("it answers 401"), "{told:?}");
}

#[test]
fn one_that_never_answers_is_not_waited_for() {
    let collector = Collector::start(Answers::Never).unwrap();
    let told = problems(collector.url(), Duration::from_millis(300));
    assert_eq!(told, ["not all telemetry was sent: the collector timed out"]);
}

#[test]
fn invalid_addresses_are_refused() {
    let options = Options { endpoint: Some("localhost:4318".to_owned()), ..Options::new(|_| ()) };
    let refused = Telemetry::start(options).unwrap_err();
    assert_eq!(refused, TelemetryError::Address { address: "localhost:4318".to_owned() });
}
