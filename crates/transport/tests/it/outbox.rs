use std::time::Duration;

use switchboard_transport::{ClosureCause, Outbox, OutboxOptions};
use tokio::io::AsyncReadExt;

use crate::support::bounded;

fn options(queue: usize) -> OutboxOptions {
    OutboxOptions { queue, ..OutboxOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_sender_waits_while_the_queue_is_full() {
    let (ours, mut theirs) = tokio::io::duplex(16);
    let outbox = Outbox::new(ours, options(64));
    let mut sent = 0;
    let blocked = async {
        loop {
            outbox.send("0123456").await.unwrap();
            sent += 1;
        }
    };
    let stopped: Result<(), _> = tokio::time::timeout(Duration::from_secs(10), blocked).await;
    assert!(stopped.is_err());
    // The stream's 16 bytes, plus a buffer being written and another one queued, 64 bytes together.
    assert_eq!(sent, (16 + 64) / 8);

    let mut buffer = [0; 80];
    theirs.read_exact(&mut buffer).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), outbox.send("0123456")).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_message_longer_than_the_queue_goes_through_alone() {
    let (ours, mut theirs) = tokio::io::duplex(16);
    let outbox = Outbox::new(ours, options(8));
    let long = "x".repeat(1000);
    let sending = async {
        outbox.send("a").await.unwrap();
        outbox.send(&long).await.unwrap();
        outbox.send("b").await.unwrap();
        outbox.close().await;
    };
    let mut text = String::new();
    let (_, read) = bounded(async { tokio::join!(sending, theirs.read_to_string(&mut text)) }).await;
    read.unwrap();
    assert_eq!(text, format!("a\n{long}\nb\n"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_breaks_the_outbox_in_time() {
    let (ours, _theirs) = tokio::io::duplex(4);
    let outbox = Outbox::new(ours, options(8));
    outbox.send("0123456").await.unwrap();
    let error = outbox.send("0123456").await.unwrap_err();
    assert!(matches!(error, ClosureCause::NotReading(time) if time == Duration::from_secs(60)), "{error:?}");
    assert!(outbox.flush().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_long_for_a_peer_that_never_reads() {
    let (ours, _theirs) = tokio::io::duplex(4);
    let outbox = Outbox::new(ours, options(8));
    outbox.send("0123456").await.unwrap();
    tokio::time::timeout(Duration::from_secs(3), outbox.close()).await.unwrap();
    assert!(outbox.send("x").await.is_err());
}

#[tokio::test]
async fn flushing_waits_for_the_last_byte() {
    let (ours, mut theirs) = tokio::io::duplex(4);
    let outbox = Outbox::new(ours, options(64));
    outbox.send("0123456").await.unwrap();
    let mut buffer = [0; 4];
    let reading = async {
        theirs.read_exact(&mut buffer).await.unwrap();
    };
    bounded(async { tokio::join!(outbox.flush(), reading) }).await.0.unwrap();
    let mut rest = [0; 4];
    bounded(theirs.read_exact(&mut rest)).await.unwrap();
    assert_eq!(&[buffer, rest].concat(), b"0123456\n");
}

#[tokio::test]
async fn the_end_of_the_peer_is_told_to_senders() {
    let (ours, theirs) = tokio::io::duplex(4);
    let outbox = Outbox::new(ours, options(8));
    drop(theirs);
    let error = bounded(async {
        loop {
            if let Err(error) = outbox.send("0123456").await {
                return error;
            }
        }
    });
    assert!(matches!(error.await, ClosureCause::InputClosed));
}
