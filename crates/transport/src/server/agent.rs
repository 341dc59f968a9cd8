//! Adapter from a client's connection to an agent in this process.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use switchboard_acp::rpc::{Message, RequestId};
use switchboard_acp::{Correlator, Raw, Side, Text, WireFormat};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};

use super::connection::{Incoming, Outgoing, OutgoingLine, ServerConnection};
use super::flow::Flow;
use super::{Refusal, close_codes};
use crate::text::on_one_line;
use crate::{Connection, ConnectionOptions, DEFAULT_MESSAGE_LIMIT, Frame, LineReader};

/// Buffer size between the two ends in bytes.
const BUFFER: usize = 64 << 10;

/// Send window in bytes.
const FLOW: usize = 256 << 10;

/// Maximum number of requests whose session is remembered.
const REQUESTS: usize = 4096;

/// Sessions of the client's pending requests.
type PendingSessions = Mutex<Correlator<Arc<str>>>;

impl ServerConnection {
    /// Converts the connection for an agent in this process, as if the client had started it. Agents of
    /// `switchboard-peer` are served this way. A slow client slows the agent (backpressure). Broken streams
    /// are not resumed from their cursor.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), switchboard_transport::Error> {
    /// use switchboard_transport::server::{ServerConnection, ServerLimits};
    /// use switchboard_transport::{Connection, ConnectionOptions, Event, Json};
    ///
    /// let (connection, client) = ServerConnection::local(ServerLimits::default());
    /// let mut agent = connection.into_connection(ConnectionOptions::default());
    /// tokio::spawn(async move {
    ///     while let Some(event) = agent.inbox.next().await {
    ///         if let Event::Request(request) = event {
    ///             request.respond(Json::default()).await.unwrap();
    ///         }
    ///     }
    /// });
    /// let (reader, writer) = tokio::io::split(client);
    /// let mut client = Connection::new(reader, writer, ConnectionOptions::default());
    /// let call = client.caller.call("initialize", Json::default());
    /// assert!(client.inbox.until(call, drop).await?.into_result().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_connection(self, options: ConnectionOptions) -> Connection {
        let (near, far) = tokio::io::duplex(BUFFER);
        let (reader, writer) = tokio::io::split(near);
        tokio::spawn(carry(self, far));
        Connection::new(reader, writer, options)
    }
}

/// Relays messages until one side ends.
async fn carry(connection: ServerConnection, agent: DuplexStream) {
    let ServerConnection { id: _, incoming, outgoing } = connection;
    let (from_agent, mut to_agent) = tokio::io::split(agent);
    let asked = Mutex::new(Correlator::new(REQUESTS));
    tokio::select! {
        () = receive(incoming, &mut to_agent, &asked) => {}
        () = send(&outgoing, from_agent, &asked) => {}
    }
    // The agent sees the end of its input, and the client the end of the connection.
    let _ = to_agent.shutdown().await;
    outgoing.close(close_codes::NORMAL, "the agent has ended");
}

async fn receive(
    mut incoming: mpsc::Receiver<Incoming>,
    to_agent: &mut WriteHalf<DuplexStream>,
    asked: &PendingSessions,
) {
    while let Some(incoming) = incoming.recv().await {
        match incoming {
            Incoming::Message(text) => {
                note(asked, &text);
                let line = on_one_line(text.into());
                if to_agent.write_all(line.as_bytes()).await.is_err()
                    || to_agent.write_all(b"\n").await.is_err()
                {
                    return;
                }
            }
            Incoming::Resume(request) => {
                let message = "this agent does not tell again what it has said";
                request.reply.send(Err(Refusal::new(StatusCode::CONFLICT, message)));
            }
            // Queued lines go to the new socket.
            Incoming::Reconnected(gate) => drop(gate),
        }
    }
}

async fn send(outgoing: &Outgoing, from_agent: ReadHalf<DuplexStream>, asked: &PendingSessions) {
    let room = Arc::new(Notify::new());
    let flow = Flow::new(Arc::clone(&room), FLOW / 4);
    let mut lines = LineReader::new(from_agent, DEFAULT_MESSAGE_LIMIT);
    // An agent in this process writes complete messages. Anything else is a truncated last one.
    while let Ok(Some(Frame::Message(text))) = lines.next().await {
        let (stream, written) = (stream_of(asked, &text), Some(flow.take(text.len())));
        outgoing.send(OutgoingLine { text, stream, cursor: None, written });
        while flow.outstanding() > FLOW && !outgoing.is_closed() {
            room.notified().await;
        }
    }
}

/// Records the session of a client request.
fn note(asked: &PendingSessions, text: &str) {
    if let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any)
        && let Some(session) = session_of(request.params.as_ref())
    {
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        drop(asked.open_or_evict(Side::Client, &request.id, session));
    }
}

/// Returns the stream for a message of the agent: that of its session.
fn stream_of(asked: &PendingSessions, text: &str) -> Option<Arc<str>> {
    match Message::decode(text, WireFormat::Any).ok()? {
        Message::Request(request) => session_of(request.params.as_ref()),
        Message::Notification(notification) => session_of(notification.params.as_ref()),
        Message::Response(response) => answered(asked, &response.id),
    }
}

fn answered(asked: &PendingSessions, id: &RequestId<'_>) -> Option<Arc<str>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).answered(Side::Agent, id)
}

fn session_of(params: Option<&Raw<'_>>) -> Option<Arc<str>> {
    let session = params?.get("sessionId")?;
    session.as_text().as_ref().map(|session: &Text<'_>| Arc::from(&**session))
}
