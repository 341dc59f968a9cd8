//! The handshake: the agent's version and capabilities.

use std::collections::VecDeque;

use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{Message, RpcError, codes};
use switchboard_acp::{Raw, Wire, WireFormat, v1, v2};
use switchboard_bridge::{Side, Stateless, Version};
use switchboard_transport::{Anomaly, Answer, Connection, Deadline, Event, Json, SharedText};
use tokio::sync::mpsc;

use super::ClientOptions;
use crate::Error;

/// An agent's description of itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentDescription {
    /// Its protocol version: 1 or 2. All other fields use version 2.
    pub version: u16,
    /// Its name and version if known.
    pub info: Option<v2::Implementation<'static>>,
    /// Its capabilities.
    pub capabilities: v2::AgentCapabilities<'static>,
    /// The login methods.
    pub auth_methods: Vec<v2::AuthMethod<'static>>,
    /// Its original response to `initialize`.
    pub answer: String,
}

impl AgentDescription {
    /// Returns the name to show for it.
    pub fn name(&self) -> &str {
        let shown = |info: &v2::Implementation<'static>| info.title.is_some();
        match &self.info {
            Some(info) if shown(info) => info.title.as_deref().unwrap_or_default(),
            Some(info) => &info.name,
            None => "the agent",
        }
    }
}

pub(super) const INITIALIZE: &str = "initialize";

/// Requests version 2, and version 1 if that is refused.
pub(super) async fn initialize(
    connection: &mut Connection,
    options: &ClientOptions,
    early: &mut EarlyAnomalies,
) -> Result<AgentDescription, Error> {
    let request = request(options);
    let first = ask(connection, Json::of(&request, WireFormat::Any), early).await?;
    let refused = match first {
        Answer::Result(text) => return read(&text),
        Answer::Error(error) => error,
    };
    let Some(request) = in_version_one(&request) else { return Err(Error::NotInitialized(refused)) };
    match ask(connection, Json::from(&request), early).await? {
        Answer::Result(text) => read(&text),
        Answer::Error(second) => Err(Error::NotInitialized(more_telling(refused, second))),
    }
}

/// Initializes a connection to a translated version 1 agent.
pub(super) async fn initialize_translated(
    connection: &mut Connection,
    options: &ClientOptions,
    anomalies: &mut mpsc::Receiver<Anomaly>,
    early: &mut EarlyAnomalies,
) -> Result<AgentDescription, Error> {
    // Messages of the translation itself do not concern the agent.
    let mut own = EarlyAnomalies::default();
    let asked = ask(connection, Json::of(&request(options), WireFormat::Any), &mut own);
    tokio::pin!(asked);
    let answer = loop {
        tokio::select! {
            biased;
            Some(anomaly) = anomalies.recv() => early.take(anomaly),
            answer = &mut asked => break answer?,
        }
    };
    match answer {
        Answer::Result(text) => Ok(AgentDescription { version: 1, ..read(&text)? }),
        Answer::Error(error) => Err(Error::NotInitialized(error)),
    }
}

/// Returns the request with the keys of both versions, since an agent may choose version 1 and continue.
fn request(options: &ClientOptions) -> v2::InitializeRequest<'static> {
    let mut request = v2::InitializeRequest {
        capabilities: Some(options.capabilities.clone()),
        ..v2::InitializeRequest::new(2u16, options.info.clone())
    };
    let other = in_version_one(&request);
    for (key, value) in other.iter().flat_map(Raw::entries) {
        if key != "protocolVersion" {
            request.extra.insert(key.into_owned(), value.into_owned());
        }
    }
    request
}

/// Returns the same request in version 1.
fn in_version_one(request: &v2::InitializeRequest<'_>) -> Option<Raw<'static>> {
    let params = request.encode(WireFormat::Any);
    let line = Message::request(0, INITIALIZE, Raw::parse(&params).ok()?).encode(WireFormat::Any);
    let converted = Stateless::new(Version::V1).convert(&line, Some(Side::Client)).ok()?;
    match Message::decode(converted.value.first()?, WireFormat::V1).ok()? {
        Message::Request(request) => request.params.map(Raw::into_owned),
        Message::Notification(_) | Message::Response(_) => None,
    }
}

/// Returns the refusal that is not about versions, since that is the actual obstacle.
fn more_telling(first: RpcError<'static>, second: RpcError<'static>) -> RpcError<'static> {
    if second.code == codes::UNSUPPORTED_PROTOCOL_VERSION { first } else { second }
}

async fn ask(
    connection: &mut Connection,
    params: Json<'_>,
    early: &mut EarlyAnomalies,
) -> Result<Answer, Error> {
    let Connection { caller, inbox } = connection;
    // The timeout covers the handshake as a whole.
    let call = async { caller.begin(INITIALIZE, params, Deadline::Never).await?.answer().await };
    // Requests and notifications before the handshake are ignored.
    let event = |event| {
        if let Event::Anomaly(anomaly) = event {
            early.take(anomaly);
        }
    };
    Ok(inbox.until(call, event).await?)
}

/// Protocol errors of an agent before its handshake.
#[derive(Debug, Default)]
pub(super) struct EarlyAnomalies(pub(super) VecDeque<Anomaly>);

impl EarlyAnomalies {
    /// Maximum number of stored errors.
    const MOST: usize = 1000;

    fn take(&mut self, anomaly: Anomaly) {
        if self.0.len() < Self::MOST {
            self.0.push_back(anomaly);
        }
    }
}

fn read(text: &SharedText) -> Result<AgentDescription, Error> {
    let bad = |reason| Error::BadAnswer { method: INITIALIZE, reason };
    let raw = Raw::parse(text.as_str()).map_err(bad)?;
    let handshake = Handshake::of_answer(&raw);
    match (handshake.version, handshake.number) {
        (_, Some(number)) if number > 2 => Err(Error::UnknownVersion(number)),
        (Version::V2, _) => {
            let (answer, _) = v2::InitializeResponse::decode_tolerant(text, WireFormat::Any).map_err(bad)?;
            let answer = answer.into_owned();
            Ok(AgentDescription {
                version: 2,
                info: Some(answer.info),
                capabilities: answer.capabilities.unwrap_or_else(v2::AgentCapabilities::new),
                auth_methods: answer.auth_methods.unwrap_or_default(),
                answer: text.as_str().to_owned(),
            })
        }
        (Version::V1, _) => {
            let (answer, _) = v1::InitializeResponse::decode_tolerant(text, WireFormat::V1).map_err(bad)?;
            Ok(AgentDescription {
                version: 1,
                info: answer.agent_info.map(Wire::into_owned),
                capabilities: v2::AgentCapabilities::new(),
                auth_methods: Vec::new(),
                answer: text.as_str().to_owned(),
            })
        }
    }
}
