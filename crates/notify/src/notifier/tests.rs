#![allow(clippy::unwrap_used)]

use switchboard_hub::{PendingQuestionEvent, SessionEventKind};
use tokio::sync::mpsc;

use super::*;
use crate::target::Endpoint;

fn asked(id: u64) -> SessionEvent {
    let question = PendingQuestionEvent {
        id,
        action: "asks to run a command",
        details: String::new(),
        is_complete: true,
        options: Vec::new(),
    };
    SessionEvent::new("s", "claude", "/w/p", SessionEventKind::Asked(question))
}

fn died() -> SessionEvent {
    SessionEvent::new("s", "claude", "/w/p", SessionEventKind::AgentDied { reason: String::new() })
}

fn target() -> Arc<Target> {
    Arc::new(Target::new("t", Endpoint::Command(vec!["x".to_owned()])))
}

/// Creates a notifier whose deliveries have the given results, and returns them with the time of each.
fn notifier(
    results: impl Fn(usize) -> Delivery + Send + Sync + 'static,
    state: Option<Arc<dyn StateFile>>,
) -> (Notifier, mpsc::Receiver<(Duration, Work)>) {
    let (sent, received) = mpsc::channel(100);
    let (begun, count) = (Instant::now(), Mutex::new(0));
    let deliver: Deliver = Arc::new(move |job| {
        let sent = sent.clone();
        let number = std::mem::replace(&mut *count.lock().unwrap(), 0);
        *count.lock().unwrap() = number + 1;
        let result = results(number);
        Box::pin(async move {
            sent.send((begun.elapsed(), job.work)).await.unwrap();
            result
        })
    });
    (Notifier::with(vec![target()], deliver, state, Arc::default(), None), received)
}

fn seconds(received: Option<(Duration, Work)>) -> u64 {
    received.unwrap().0.as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_sent_after_its_delay_without_a_further_event() {
    let (notifier, mut received) = notifier(|_| Delivery::Sent, None);
    notifier.event(&asked(1));
    assert_eq!(seconds(received.recv().await), 10);
    notifier.end(Duration::from_secs(1)).await;
    assert_eq!(notifier.outcomes()[0].1.sent, 1);
}

#[tokio::test(start_paused = true)]
async fn retries_happen_by_themselves() {
    let retry = || Delivery::Retry { reason: "503".to_owned(), after: None };
    let (notifier, mut received) =
        notifier(move |number| if number < 2 { retry() } else { Delivery::Sent }, None);
    notifier.event(&died());
    let times =
        [seconds(received.recv().await), seconds(received.recv().await), seconds(received.recv().await)];
    assert_eq!(times, [0, 2, 12]);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_who_leaves_releases_the_question() {
    let (notifier, mut received) = notifier(|_| Delivery::Sent, None);
    notifier.look(1, Some("s"));
    notifier.event(&asked(1));
    tokio::time::sleep(Duration::from_secs(20)).await;
    notifier.look(1, None);
    assert_eq!(seconds(received.recv().await), 20);
}

/// A state in memory.
#[derive(Default)]
struct Kept(Mutex<Option<String>>);

impl StateFile for Kept {
    fn load(&self) -> Option<String> {
        self.0.lock().unwrap().clone()
    }

    fn save(&self, state: &str) {
        *self.0.lock().unwrap() = Some(state.to_owned());
    }
}

#[tokio::test]
async fn the_state_is_saved_before_the_delivery_and_restored() {
    let kept = Arc::new(Kept::default());
    let seen = Arc::clone(&kept);
    let (sent, mut received) = mpsc::channel(1);
    let deliver: Deliver = Arc::new(move |_| {
        let (sent, state) = (sent.clone(), seen.load());
        Box::pin(async move {
            sent.send(state).await.unwrap();
            // This launch never gets a response.
            std::future::pending().await
        })
    });
    let state = Some(Arc::clone(&kept) as Arc<dyn StateFile>);
    let first = Notifier::with(vec![target()], deliver, state, Arc::default(), None);
    first.event(&died());
    let state = received.recv().await.unwrap();
    assert!(state.unwrap().contains("has ended unexpectedly"));
    let (_second, mut received) = notifier(|_| Delivery::Sent, Some(kept));
    let (_, work) = received.recv().await.unwrap();
    assert!(matches!(work, Work::Notice(_)), "{work:?}");
}
