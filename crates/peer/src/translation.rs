//! Conversion of a connection of one protocol version to the other. All other modules of this crate use
//! version 2 only.

use std::sync::{Arc, OnceLock};

use switchboard_acp::rpc::{Message, Request, RequestId, Response, codes, is_batch};
use switchboard_acp::{Wire, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Loss, Output, Outputs, Port, Side, Version};
use switchboard_transport::{
    Anomaly, Closure, ClosureCause, Connection, ConnectionOptions, Event, Inbox, Received, SharedText,
    Substitute, invalid_line_answer, unique_salt,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::client::{Observed, Observer};

/// The reason why the translated peer has disconnected, once it has.
pub(crate) type Disconnected = Arc<OnceLock<Arc<Closure>>>;

/// State of a translated agent.
pub(crate) struct TranslatedAgent {
    pub(crate) gone: Disconnected,
    /// Protocol errors of the agent. They must be received, because the agent waits for that.
    pub(crate) anomalies: mpsc::Receiver<Anomaly>,
}

/// Maximum number of queued anomalies.
const ANOMALIES: usize = 16;

/// Converts a connection to a version 1 agent to one of version 2. `answer` is the agent's earlier response
/// to `initialize`, used if it refuses a second one.
pub(crate) fn to_version_one_agent(
    agent: Connection,
    options: ConnectionOptions,
    agent_name: &str,
    answer: String,
    observer: Option<Observer>,
) -> (Connection, TranslatedAgent) {
    let (anomalies, told) = mpsc::channel(ANOMALIES);
    let (near, far) = Connection::pair(options, ConnectionOptions::default());
    let gone = Disconnected::default();
    let mut bridge_options = BridgeOptions::between(Version::V2, Version::V1);
    bridge_options.agent_name = agent_name.to_owned();
    bridge_options.id_salt = unique_salt();
    let translation = Translation {
        driver: Driver::new(bridge_options),
        agent,
        client: far,
        handshake: Some(Handshake { answer, id: None }),
        observer,
        gone: Arc::clone(&gone),
        anomalies: Some(anomalies),
        asked: 0,
    };
    tokio::spawn(translation.run(None));
    (near, TranslatedAgent { gone, anomalies: told })
}

/// Converts a connection to a version 1 client to one of version 2. `first` is a line that was already read
/// from it.
pub(crate) fn to_version_one_client(
    client: Connection,
    options: ConnectionOptions,
    first: Option<SharedText>,
) -> Connection {
    let (near, far) = Connection::pair(options, ConnectionOptions::default());
    let translation = Translation {
        driver: Driver::new(BridgeOptions {
            id_salt: unique_salt(),
            ..BridgeOptions::between(Version::V1, Version::V2)
        }),
        agent: far,
        client,
        handshake: None,
        observer: None,
        gone: Disconnected::default(),
        anomalies: None,
        asked: 0,
    };
    tokio::spawn(translation.run(first));
    near
}

struct Translation {
    driver: Driver,
    agent: Connection,
    client: Connection,
    handshake: Option<Handshake>,
    observer: Option<Observer>,
    gone: Disconnected,
    /// Receiver of the agent's protocol errors.
    anomalies: Option<mpsc::Sender<Anomaly>>,
    /// The last request id sent to the agent, which the bridge counts.
    asked: i64,
}

/// The second `initialize` of a version 1 agent, now in its own version.
struct Handshake {
    /// Its response to the first one.
    answer: String,
    /// The id of the request, once it is sent.
    id: Option<RequestId<'static>>,
}

impl Translation {
    /// Forwards messages in both directions until one side disconnects.
    async fn run(mut self, first: Option<SharedText>) {
        if let Some(line) = first
            && self.carry(Side::Client, &line).await.is_none()
        {
            return;
        }
        loop {
            let due = self.driver.next_deadline().map(Instant::from_std);
            let (from, line) = tokio::select! {
                line = next_line(&mut self.agent.inbox, is_message) => (Side::Agent, line),
                line = next_line(&mut self.client.inbox, is_from_client) => (Side::Client, line),
                () = until(due) => {
                    let outputs = self.driver.tick();
                    if self.send(outputs).await.is_none() {
                        return;
                    }
                    continue;
                }
            };
            match line {
                Ok(PeerInput::Line(line)) => {
                    if self.carry(from, &line).await.is_none() {
                        return;
                    }
                }
                Ok(PeerInput::Anomaly(anomaly)) => {
                    if from == Side::Agent && self.take_anomaly(anomaly).await.is_none() {
                        return;
                    }
                }
                Err(closure) => {
                    if from == Side::Agent {
                        // Only the first reason counts.
                        let _ = self.gone.set(closure);
                    }
                    let outputs = self.driver.finish();
                    let _ = self.send(outputs).await;
                    return;
                }
            }
        }
    }

    /// Forwards a protocol error of the agent. A request whose response was too long fails.
    async fn take_anomaly(&mut self, anomaly: Anomaly) -> Option<()> {
        let substitute = match &anomaly {
            Anomaly::TooLong(too_long) => too_long.substitute(),
            _ => None,
        };
        self.tell(anomaly).await;
        match substitute {
            Some(Substitute::Answer(line)) => self.carry(Side::Agent, &SharedText::from(line)).await,
            // The connection itself has refused the request.
            Some(Substitute::Refusal(_)) | None => Some(()),
        }
    }

    async fn tell(&mut self, anomaly: Anomaly) {
        if let Some(anomalies) = &self.anomalies {
            // The receiver may be gone.
            let _ = anomalies.send(anomaly).await;
        }
    }

    /// Returns the fault of an agent's line that the bridge could not use, as the connection reports it for
    /// an agent without translation.
    fn fault(&self, line: &SharedText, outputs: &[Output]) -> Option<Anomaly> {
        let (code, reason) = outputs.iter().find_map(|output| match output {
            Output::Loss(loss) => {
                let is_all =
                    loss.pointer == "/params" || (loss.message == "answer" && loss.pointer.is_empty());
                is_all.then(|| (codes::INVALID_PARAMS, loss.reason.clone()))
            }
            Output::Line { to: Side::Agent, line } => match Message::decode(line, WireFormat::Any) {
                Ok(Message::Response(Response { outcome: Err(error), .. })) => {
                    Some((error.code, error.message.into_owned()))
                }
                _ => None,
            },
            Output::Line { to: Side::Client, .. } => None,
        })?;
        let malformed = |reason| Some(Anomaly::Malformed { line: line.clone(), reason });
        match Message::decode(line, WireFormat::Any).map(Message::into_owned) {
            Err(error) => malformed(error.to_string()),
            Ok(Message::Response(answer)) => Some(self.unwanted(answer, line)),
            Ok(Message::Request(request)) if code == codes::METHOD_NOT_FOUND => {
                let method = SharedText::from(request.method.into_owned());
                Some(Anomaly::UnknownMethod { method, wants_answer: true })
            }
            Ok(_) if code == codes::INVALID_PARAMS => malformed(in_params(&reason)),
            Ok(_) => None,
        }
    }

    /// Returns the anomaly for a response without a pending request.
    fn unwanted(&self, answer: Response<'static>, line: &SharedText) -> Anomaly {
        let (id, line) = (answer.id, line.clone());
        match (&id, answer.outcome) {
            (RequestId::Null, Err(error)) => Anomaly::ErrorWithoutRequest(error),
            (RequestId::Number(number), _) if (1..=self.asked).contains(number) => {
                Anomaly::SecondAnswer { id, line }
            }
            _ => Anomaly::UnaskedAnswer { id, line },
        }
    }

    /// Handles a line. Returns `None` if a side is unreachable.
    async fn carry(&mut self, from: Side, line: &SharedText) -> Option<()> {
        let substitute = self.handshake.as_ref().and_then(|handshake| handshake.substitute(from, line));
        if substitute.is_some() {
            self.handshake = None;
        }
        let text = substitute.as_deref().unwrap_or(line.as_str());
        let outputs = self.driver.receive(from, text);
        if from == Side::Agent
            && let Some(fault) = self.fault(line, outputs.items())
        {
            self.tell(fault).await;
        }
        if self.send(outputs).await? == Handled::Forward {
            self.to(from.other(), line.clone()).await?;
        }
        Some(())
    }

    /// Sends lines to either side and reports losses. Returns `None` if a side is unreachable.
    async fn send(&mut self, outputs: Outputs) -> Option<Handled> {
        let mut sorted = SplitOutput { lines: Vec::new(), observer: self.observer.as_ref() };
        let handled = outputs.deliver(&mut sorted);
        for (to, line) in sorted.lines {
            if to == Side::Agent
                && let Ok(Message::Request(request)) = Message::decode(&line, WireFormat::Any)
            {
                if let RequestId::Number(number) = request.id {
                    self.asked = number;
                }
                if let Some(handshake) = &mut self.handshake {
                    handshake.note(&request);
                }
            }
            self.to(to, SharedText::from(line)).await?;
        }
        Some(handled)
    }

    async fn to(&mut self, side: Side, line: SharedText) -> Option<()> {
        let connection = if side == Side::Agent { &self.agent } else { &self.client };
        match connection.caller.forward(&line).await {
            Ok(()) => Some(()),
            // The agent's input was closed on this side: nothing can be sent to it, but its output is read
            // until it exits.
            Err(switchboard_transport::Error::Closed(closure))
                if side == Side::Agent && matches!(closure.cause, ClosureCause::ClosedHere) =>
            {
                Some(())
            }
            Err(_) => None,
        }
    }
}

/// Lines to send; losses are passed to the observer.
struct SplitOutput<'a> {
    lines: Vec<(Side, String)>,
    observer: Option<&'a Observer>,
}

impl Port for SplitOutput<'_> {
    fn send(&mut self, to: Side, line: String) {
        self.lines.push((to, line));
    }

    fn report_loss(&mut self, loss: Loss) {
        if let Some(observer) = self.observer {
            observer.see(Observed::Loss(&loss));
        }
    }
}

impl Handshake {
    fn note(&mut self, request: &Request<'_>) {
        if self.id.is_none() && request.method == "initialize" {
            self.id = Some(request.id.clone().into_owned());
        }
    }

    /// Returns the line to use instead of a refusal of the second handshake.
    fn substitute(&self, from: Side, line: &str) -> Option<String> {
        let id = self.id.as_ref().filter(|_| from == Side::Agent)?;
        match Message::decode(line, WireFormat::Any) {
            Ok(Message::Response(response)) if response.id == *id && response.outcome.is_err() => {
                Some(format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#,
                    id.encode(WireFormat::Any),
                    self.answer
                ))
            }
            _ => None,
        }
    }
}

/// Input of a peer.
enum PeerInput {
    /// A message.
    Line(SharedText),
    /// A protocol error.
    Anomaly(Anomaly),
}

/// Returns the next message or protocol error.
async fn next_line(inbox: &mut Inbox, is_taken: fn(&str) -> bool) -> Result<PeerInput, Arc<Closure>> {
    loop {
        match inbox.next_or(|line| is_taken(line).then(|| line.clone())).await {
            Some(Received::Taken(line)) => return Ok(PeerInput::Line(line)),
            Some(Received::Event(Event::Anomaly(anomaly))) => return Ok(PeerInput::Anomaly(anomaly)),
            Some(Received::Event(Event::Closed(closure))) => return Err(closure),
            Some(Received::Event(_)) => {}
            // Only after the closure, which ends the translation.
            None => std::future::pending().await,
        }
    }
}

/// Returns the fault in a message's parameters, with its pointer in the message.
fn in_params(reason: &str) -> String {
    let reason = reason.strip_prefix("malformed: ").unwrap_or(reason);
    match reason.strip_prefix("at ") {
        Some(place) => format!("at /params{place}"),
        None => format!("at /params: {reason}"),
    }
}

/// Returns whether a line is for the bridge. The connection handles invalid lines itself, as without
/// translation; the bridge answers malformed messages in the same way.
fn is_message(line: &str) -> bool {
    line.starts_with(r#"{"jsonrpc""#) || is_batch(line) || Message::decode(line, WireFormat::Any).is_ok()
}

/// Returns the same for a client, whose connection answers invalid lines and arrays itself.
fn is_from_client(line: &str) -> bool {
    is_message(line) && invalid_line_answer(line).is_none()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
