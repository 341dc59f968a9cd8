//! The one place where versions of the protocol meet: a connection of one version becomes one of the other. All
//! else in this crate knows version 2 alone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_bridge::{Bridge, BridgeOptions, Handled, Moment, Output, Side, Version};
use switchboard_protocol::rpc::{Message, RequestId};
use switchboard_protocol::{Wire, WireFormat};
use switchboard_transport::{
    Anomaly, Closure, Connection, ConnectionOptions, Event, Inbox, Received, SharedText, Substitute,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::client::{Observed, Observer};

/// Why the peer behind a translation is gone, once it is.
pub(crate) type Gone = Arc<OnceLock<Arc<Closure>>>;

/// What is known of an agent behind a translation.
pub(crate) struct Behind {
    pub(crate) gone: Gone,
    /// What it sent and should not have. Somebody must take it: the agent waits for that.
    pub(crate) anomalies: mpsc::Receiver<Anomaly>,
}

/// How many anomalies may wait to be taken.
const ANOMALIES: usize = 16;

/// Makes a connection to an agent of version 1 one to an agent of version 2. `answer` is what the agent answered to
/// `initialize` before, and stands for its answer where it refuses to be asked once more.
pub(crate) fn to_version_one_agent(
    agent: Connection,
    options: ConnectionOptions,
    agent_name: &str,
    answer: String,
    observer: Option<Observer>,
) -> (Connection, Behind) {
    let (anomalies, told) = mpsc::channel(ANOMALIES);
    let (near, far) = Connection::pair(options, ConnectionOptions::default());
    let gone = Gone::default();
    let mut bridge_options = BridgeOptions::between(Version::V2, Version::V1);
    bridge_options.agent_name = agent_name.to_owned();
    let translation = Translation {
        bridge: Bridge::new(bridge_options),
        begun: Instant::now(),
        agent,
        client: far,
        handshake: Some(Handshake { answer, id: None }),
        observer,
        gone: Arc::clone(&gone),
        anomalies: Some(anomalies),
    };
    tokio::spawn(translation.run(None));
    (near, Behind { gone, anomalies: told })
}

/// Makes a connection to a client of version 1 one to a client of version 2. `first` is what has been read from it
/// already.
pub(crate) fn to_version_one_client(
    client: Connection,
    options: ConnectionOptions,
    first: Option<SharedText>,
) -> Connection {
    let (near, far) = Connection::pair(options, ConnectionOptions::default());
    let translation = Translation {
        bridge: Bridge::new(BridgeOptions::between(Version::V1, Version::V2)),
        begun: Instant::now(),
        agent: far,
        client,
        handshake: None,
        observer: None,
        gone: Gone::default(),
        anomalies: None,
    };
    tokio::spawn(translation.run(first));
    near
}

struct Translation {
    bridge: Bridge,
    begun: Instant,
    agent: Connection,
    client: Connection,
    handshake: Option<Handshake>,
    observer: Option<Observer>,
    gone: Gone,
    /// Who is told what the agent should not have sent.
    anomalies: Option<mpsc::Sender<Anomaly>>,
}

/// The second `initialize` that an agent of version 1 gets, this time in its own words.
struct Handshake {
    /// What it answered to the first.
    answer: String,
    /// The request, once it is sent.
    id: Option<RequestId<'static>>,
}

impl Translation {
    /// Carries messages to and fro until one of the sides is gone.
    async fn run(mut self, first: Option<SharedText>) {
        if let Some(line) = first
            && self.carry(Side::Client, &line).await.is_none()
        {
            return;
        }
        loop {
            let due = self.bridge.next_deadline().map(|Moment(at)| self.begun + Duration::from_millis(at));
            let (from, line) = tokio::select! {
                line = next_line(&mut self.agent.inbox) => (Side::Agent, line),
                line = next_line(&mut self.client.inbox) => (Side::Client, line),
                () = until(due) => {
                    let now = self.now();
                    self.bridge.tick(now);
                    if self.send().await.is_none() {
                        return;
                    }
                    continue;
                }
            };
            match line {
                Ok(Came::Line(line)) => {
                    if self.carry(from, &line).await.is_none() {
                        return;
                    }
                }
                Ok(Came::Anomaly(anomaly)) => {
                    if from == Side::Agent && self.take_anomaly(anomaly).await.is_none() {
                        return;
                    }
                }
                Err(closure) => {
                    if from == Side::Agent {
                        // The first to know is the only one to tell.
                        let _ = self.gone.set(closure);
                    }
                    self.bridge.finish();
                    let _ = self.send().await;
                    return;
                }
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Passes on what the agent should not have sent. Whoever waits for an answer that was too long is told so.
    async fn take_anomaly(&mut self, anomaly: Anomaly) -> Option<()> {
        let substitute = match &anomaly {
            Anomaly::TooLong(too_long) => too_long.substitute(),
            _ => None,
        };
        if let Some(anomalies) = &self.anomalies {
            // Nobody may be there any more to be told.
            let _ = anomalies.send(anomaly).await;
        }
        match substitute {
            Some(Substitute::Answer(line)) => self.carry(Side::Agent, &SharedText::from(line)).await,
            // A request has been refused by the connection itself.
            Some(Substitute::Refusal(_)) | None => Some(()),
        }
    }

    /// `None` when a side cannot be reached any more.
    async fn carry(&mut self, from: Side, line: &SharedText) -> Option<()> {
        let now = self.now();
        let substitute = self.handshake.as_ref().and_then(|handshake| handshake.substitute(from, line));
        if substitute.is_some() {
            self.handshake = None;
        }
        let text = substitute.as_deref().unwrap_or(line.as_str());
        let handled = self.bridge.handle(from, text, now);
        self.send().await?;
        if handled == Handled::Forward {
            self.to(from.other(), line.clone()).await?;
        }
        Some(())
    }

    async fn send(&mut self) -> Option<()> {
        let output: Vec<Output> = self.bridge.drain().collect();
        for output in output {
            match output {
                Output::Line { to, line } => {
                    if to == Side::Agent
                        && let Some(handshake) = &mut self.handshake
                    {
                        handshake.note(&line);
                    }
                    self.to(to, SharedText::from(line)).await?;
                }
                // What a person would miss is said in the session by the bridge itself.
                Output::Loss(loss) => {
                    if let Some(observer) = &self.observer {
                        observer.see(Observed::Loss(&loss));
                    }
                }
            }
        }
        Some(())
    }

    async fn to(&mut self, side: Side, line: SharedText) -> Option<()> {
        let connection = if side == Side::Agent { &self.agent } else { &self.client };
        connection.caller.forward(&line).await.ok()
    }
}

impl Handshake {
    fn note(&mut self, line: &str) {
        if self.id.is_none()
            && let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any)
            && request.method == "initialize"
        {
            self.id = Some(request.id.into_owned());
        }
    }

    /// The line to take instead of a refusal to be asked twice.
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

/// What came from a peer.
enum Came {
    /// A message.
    Line(SharedText),
    /// Something that should not have come.
    Anomaly(Anomaly),
}

/// The next message as it came, or what came instead of one.
async fn next_line(inbox: &mut Inbox) -> Result<Came, Arc<Closure>> {
    loop {
        match inbox.next_or(|line| Some(line.clone())).await {
            Some(Received::Taken(line)) => return Ok(Came::Line(line)),
            Some(Received::Event(Event::Anomaly(anomaly))) => return Ok(Came::Anomaly(anomaly)),
            Some(Received::Event(Event::Closed(closure))) => return Err(closure),
            Some(Received::Event(_)) => {}
            // Only after the closure, which ends the translation.
            None => std::future::pending().await,
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
