//! A client inside the process.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::connection::{Carrier, Incoming, Outgoing, OutgoingLine, ServerConnection};
use super::mailbox::{Claim, Next, Reader};
use super::{ServerLimits, close_codes, message};
use crate::{Frame, LineReader};

/// Buffer size between the two ends in bytes.
const BUFFER: usize = 64 << 10;

impl ServerConnection {
    /// Creates a connection to a client in this process, which reads and writes one JSON value per line. It
    /// lasts until the client drops its end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use switchboard_transport::server::{Incoming, OutgoingLine, ServerConnection, ServerLimits};
    /// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    ///
    /// let (mut connection, client) = ServerConnection::local(ServerLimits::default());
    /// let (reader, mut writer) = tokio::io::split(client);
    /// writer.write_all(b"{\"id\":1,\"method\":\"initialize\"}\n").await?;
    /// assert!(matches!(connection.incoming.recv().await, Some(Incoming::Message(_))));
    /// connection.outgoing.send(OutgoingLine::new(r#"{"id":1,"result":{}}"#));
    /// let answer = BufReader::new(reader).lines().next_line().await?;
    /// assert_eq!(answer.as_deref(), Some(r#"{"id":1,"result":{}}"#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn local(limits: ServerLimits) -> (ServerConnection, DuplexStream) {
        let (client, ours) = tokio::io::duplex(BUFFER);
        let connection = ServerConnection::begin("local".into(), Carrier::Socket, Arc::new(limits));
        if let Ok(reader) = connection.outgoing.0.read(None, Claim::Free) {
            tokio::spawn(relay(reader, ours));
        }
        (connection, client)
    }
}

/// Exchanges lines until one side ends.
async fn relay(reader: Reader, ours: DuplexStream) {
    let (from_client, mut to_client) = tokio::io::split(ours);
    tokio::select! {
        () = receive(&reader, from_client) => {}
        () = send(&reader, &mut to_client) => {}
    }
    // Queued lines are discarded, and the client sees the end of the stream.
    let _ = to_client.shutdown().await;
    reader.shared.end(close_codes::NORMAL, "the client has left");
}

async fn send(reader: &Reader, to_client: &mut WriteHalf<DuplexStream>) {
    while let Next::Line(line) = poll_fn(|context| reader.poll_next(context)).await {
        let OutgoingLine { text, stream: _, cursor: _, written } = line;
        let mut bytes = text.into_bytes();
        if to_client.write_all_buf(&mut bytes).await.is_err() || to_client.write_all(b"\n").await.is_err() {
            return;
        }
        drop(written);
    }
}

async fn receive(reader: &Reader, from_client: ReadHalf<DuplexStream>) {
    let shared = &reader.shared;
    let mut lines = LineReader::new(from_client, shared.limits.message);
    loop {
        let text = match lines.next().await {
            Ok(Some(Frame::Message(text))) => text,
            Ok(Some(Frame::Noise(noise) | Frame::Unfinished(noise))) if noise.is_blank() => continue,
            Ok(Some(Frame::Noise(noise) | Frame::Unfinished(noise))) => noise.excerpt.into(),
            Ok(Some(Frame::TooLong(line))) => line.beginning.into(),
            Ok(None) | Err(_) => return,
        };
        match message::read(&text) {
            Ok(_) => {
                let Some(incoming) = shared.incoming() else { return };
                if incoming.send(Incoming::Message(text.to_string())).await.is_err() {
                    return;
                }
            }
            Err(answer) => Outgoing(Arc::clone(shared)).send(OutgoingLine::new(answer)),
        }
    }
}
