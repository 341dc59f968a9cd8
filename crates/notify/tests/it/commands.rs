//! Commands as targets.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use switchboard_notify::{Endpoint, Notifier, NotifierOptions, Target, send_test};

use crate::{asked, resolved};

fn shell(script: &str) -> Endpoint {
    Endpoint::Command(["sh", "-c", script].map(str::to_owned).to_vec())
}

/// Waits for the lines of a file.
async fn lines(file: &Path, count: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= count {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < until, "{text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_command_gets_the_event_on_standard_input_and_in_variables_but_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events");
    let script = format!(
        "read -r line; printf '%s|%s|%s|%s|%s|%s|%s\\n' \"$SWITCHBOARD_EVENT\" \"$SWITCHBOARD_SESSION\" \
         \"$SWITCHBOARD_AGENT\" \"$SWITCHBOARD_TITLE\" \"$SWITCHBOARD_URL\" \"$CARGO_MANIFEST_DIR\" \"$line\" >> {}",
        file.display()
    );
    let mut target = Target::new("mine", shell(&script));
    target.after = Duration::ZERO;
    let mut options = NotifierOptions::new(vec![target], "http://127.0.0.1:4173");
    options.hidden_variables = vec!["CARGO_MANIFEST_DIR".to_owned()];
    let notifier = Notifier::start(options);
    notifier.event(&asked("s", 7));
    assert_eq!(lines(&file, 1).await.len(), 1);
    let until = Instant::now() + Duration::from_secs(30);
    while notifier.outcomes()[0].1.sent == 0 {
        assert!(Instant::now() < until, "{:?}", notifier.outcomes());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    notifier.event(&resolved("s", 7));
    let lines = lines(&file, 2).await;
    let start = "question|s|claude|claude: project|http://127.0.0.1:4173/r/s||";
    let event: Value = serde_json::from_str(lines[0].strip_prefix(start).unwrap()).unwrap();
    assert_eq!((&event["event"], &event["question"]), (&"question".into(), &7.into()));
    assert!(lines[1].starts_with("question.resolved|s|"), "{lines:?}");
}

async fn test_of(endpoint: Endpoint) -> (bool, String) {
    send_test(&Target::new("t", endpoint), "http://127.0.0.1:4173", Vec::new()).await
}

#[tokio::test]
async fn failures_of_commands_are_told() {
    let (is_sent, response) = test_of(shell("exit 3")).await;
    assert!(!is_sent && response.contains("exit status: 3"), "{response}");
    let missing = Endpoint::Command(vec!["/nonexistent/program".to_owned()]);
    let (is_sent, response) = test_of(missing).await;
    assert!(!is_sent && response.contains("cannot start /nonexistent/program"), "{response}");
    // Words of the shell mean nothing.
    let words = Endpoint::Command(["true", ";", "false"].map(str::to_owned).to_vec());
    assert!(test_of(words).await.0);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_hangs_is_ended_with_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // The child of the shell would outlive it.
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let waiting = tokio::spawn(async move { test_of(shell(&script)).await });
    // Time stands still until the process has started.
    let file_ = file.clone();
    let pid = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match std::fs::read_to_string(&file_) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(Instant::now() < until),
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    })
    .await
    .unwrap();
    let (is_sent, response) = waiting.await.unwrap();
    assert!(!is_sent && response.contains("no response within 10 seconds"), "{response}");
    let until = Instant::now() + Duration::from_secs(30);
    let stat = format!("/proc/{pid}/stat");
    // A zombie has ended, whoever waits for it.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
        assert!(Instant::now() < until, "the process still runs");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
