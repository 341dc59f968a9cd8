//! Shared test helpers: a time limit, scripted peers, and checks that no process is left.

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_transport::{
    Anomaly, Caller, Child, Connection, ConnectionOptions, Event, Grace, Inbox, Json, Program,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::unix::pipe;

/// Long enough for a busy machine, short enough to notice.
const BOUND: Duration = Duration::from_secs(60);

/// Fails the test if the future takes too long.
pub(crate) async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("the test must end in time")
}

pub(crate) fn json(text: &str) -> Json<'static> {
    Json::from(serde_json::from_str::<serde_json::Value>(text).unwrap())
}

/// A connection whose peer is the test.
pub(crate) struct Wire {
    pub(crate) caller: Caller,
    pub(crate) inbox: Inbox,
    pub(crate) peer: DuplexStream,
}

impl Wire {
    pub(crate) fn new(options: ConnectionOptions) -> Self {
        let (near, peer) = tokio::io::duplex(256 * 1024);
        let (reader, writer) = tokio::io::split(near);
        let Connection { caller, inbox } = Connection::new(reader, writer, options);
        Wire { caller, inbox, peer }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.peer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns the next line that the connection sends.
    pub(crate) async fn read(&mut self) -> String {
        read_line(&mut self.peer).await
    }

    /// Sends a text and returns the resulting event.
    pub(crate) async fn event(&mut self, text: &str) -> Event {
        self.write(text).await;
        self.inbox.next().await.unwrap()
    }

    /// Sends a text that must be an anomaly, and returns its description.
    pub(crate) async fn anomaly(&mut self, text: &str) -> String {
        match self.event(text).await {
            Event::Anomaly(anomaly) => anomaly.to_string(),
            other => panic!("not an anomaly: {other:?}"),
        }
    }

    /// Sends a text that the connection itself must answer, and returns the response.
    pub(crate) async fn reply_to(&mut self, text: &str) -> String {
        self.write(text).await;
        let Wire { inbox, peer, .. } = self;
        inbox.until(read_line(peer), drop).await
    }
}

pub(crate) async fn read_line(stream: &mut DuplexStream) -> String {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await.unwrap() {
            b'\n' => return String::from_utf8(line).unwrap(),
            byte => line.push(byte),
        }
    }
}

/// Short grace times, so that stubborn processes do not slow the tests down.
pub(crate) fn short_grace() -> Grace {
    Grace { input_closed: Duration::from_millis(100), terminate: Duration::from_millis(300) }
}

/// A shell script as the peer.
pub(crate) fn script(text: &str) -> Program {
    Program::new("/bin/sh").args(["-c", text]).grace(short_grace())
}

/// Ends the child and checks that only zombies of its group are left.
pub(crate) async fn end(child: &Child) {
    child.shut_down().await;
    let processes = std::process::Command::new("ps").args(["-eo", "pgid=,stat=,args="]).output().unwrap();
    let group = child.process_id().to_string();
    for process in String::from_utf8_lossy(&processes.stdout).lines() {
        let mut fields = process.split_ascii_whitespace();
        let left = fields.next() == Some(&*group) && !fields.next().unwrap().starts_with('Z');
        assert!(!left, "left over: {process}");
    }
}

/// Waits for the next anomaly.
pub(crate) async fn next_anomaly(inbox: &mut Inbox) -> Anomaly {
    loop {
        match inbox.next().await.unwrap() {
            Event::Anomaly(anomaly) => return anomaly,
            Event::Closed(closure) => panic!("closed: {closure}"),
            Event::Request(_) | Event::Notification(_) => {}
        }
    }
}

/// A named pipe that processes hold open while they live.
pub(crate) struct LifeLine {
    _folder: tempfile::TempDir,
    path: PathBuf,
    receiver: pipe::Receiver,
}

impl LifeLine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("life");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let receiver = pipe::OpenOptions::new().open_receiver(&path).unwrap();
        LifeLine { _folder: folder, path, receiver }
    }

    /// Returns the path, for `exec 9>"$LIFE"; echo >&9`.
    pub(crate) fn path(&self) -> OsString {
        self.path.clone().into()
    }

    /// Waits until `count` processes have started.
    pub(crate) async fn begun(&mut self, count: usize) {
        for _ in 0..count {
            assert_eq!(bounded(self.receiver.read_u8()).await.unwrap(), b'\n');
        }
    }

    /// Waits until no process holds the pipe.
    pub(crate) async fn over(mut self) {
        let mut rest = Vec::new();
        bounded(self.receiver.read_to_end(&mut rest)).await.unwrap();
    }
}
