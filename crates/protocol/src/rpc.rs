//! The JSON-RPC 2.0 envelope. Parameters and results are parsed on demand.
//!
//! ```
//! use switchboard_acp::rpc::{Message, RequestId};
//! use switchboard_acp::{WireFormat, Wire, v2};
//!
//! let line = r#"{"jsonrpc":"2.0","id":5,"method":"session/close","params":{"sessionId":"s-1"}}"#;
//! let Message::Request(request) = Message::decode(line, WireFormat::Any)? else { unreachable!() };
//! assert_eq!(request.id, RequestId::Number(5));
//! let close = v2::CloseSessionRequest::decode(request.params_text(), WireFormat::Any)?;
//! assert_eq!(close.session_id, "s-1");
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```

mod batch;
mod glimpse;

pub use batch::{BATCH_LIMIT, BatchFault, batch_entries, is_batch, messages};
pub use glimpse::{Glimpse, Outline};

use std::fmt;

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::object;
use crate::schema::{Schemas, answer, anything, call, described};
use crate::wire::{Body, Wire, own};
use crate::{DecodeError, Diagnostic, Extra, Number, Raw, Text, WireFormat};

/// Error codes defined by the protocol.
pub mod codes {
    /// The text is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The message is not JSON-RPC.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method is unknown.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters do not match the method or the current state.
    pub const INVALID_PARAMS: i32 = -32602;
    /// Internal error.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The caller cancelled the request.
    pub const REQUEST_CANCELLED: i32 = -32800;
    /// The user must log in first.
    pub const AUTHENTICATION_REQUIRED: i32 = -32000;
    /// The session or resource does not exist.
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    /// The agent supports none of the requested versions.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
}

/// Id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestId<'a> {
    /// An integer.
    Number(i64),
    /// A string.
    Text(Text<'a>),
    /// `null`: permitted by older peers, and in an error for an unreadable request.
    Null,
    /// A number that is not a 64-bit integer, with its original spelling. It violates the rules, so
    /// validation refuses it. But its sender waits for a response, so it is accepted if the peer's dialect is
    /// unknown or reading is tolerant.
    Irregular(Number<'a>),
}

impl RequestId<'_> {
    /// Returns true if the protocol permits it.
    ///
    /// ```
    /// use switchboard_acp::rpc::RequestId;
    /// use switchboard_acp::{Wire, WireFormat};
    ///
    /// let id = RequestId::decode("1.50", WireFormat::Any)?;
    /// assert!(!id.is_regular());
    /// assert_eq!(id.encode(WireFormat::Any), "1.50");
    /// assert!(RequestId::decode("1.50", WireFormat::Newest).is_err());
    /// # Ok::<(), switchboard_acp::DecodeError>(())
    /// ```
    pub fn is_regular(&self) -> bool {
        !matches!(self, RequestId::Irregular(_))
    }
}

impl fmt::Display for RequestId<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Number(number) => write!(formatter, "{number}"),
            RequestId::Text(text) => write!(formatter, "{text:?}"),
            RequestId::Null => formatter.write_str("null"),
            RequestId::Irregular(number) => number.fmt(formatter),
        }
    }
}

impl From<i64> for RequestId<'_> {
    fn from(number: i64) -> Self {
        RequestId::Number(number)
    }
}

impl<'a> Wire<'a> for RequestId<'a> {
    type Owned = RequestId<'static>;

    fn into_owned(self) -> RequestId<'static> {
        match self {
            RequestId::Number(number) => RequestId::Number(number),
            RequestId::Text(text) => RequestId::Text(own(text)),
            RequestId::Null => RequestId::Null,
            RequestId::Irregular(number) => RequestId::Irregular(Wire::into_owned(number)),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let what = "a request id: a string or an integer of 64 bits";
        let offset = reader.position();
        match reader.peek() {
            Some(b'"') => reader.read_string().map(RequestId::Text),
            Some(b'n') if reader.revision() != WireFormat::Newest => {
                reader.take_null()?;
                Ok(RequestId::Null)
            }
            _ => {
                let number = reader.read_number(what)?;
                if let Ok(number) = number.parse() {
                    return Ok(RequestId::Number(number));
                }
                let passes = reader.revision() == WireFormat::Any && !reader.is_validating();
                if !passes {
                    reader.broken_rule(offset, what)?;
                }
                Ok(RequestId::Irregular(Number::from_checked(number)))
            }
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            RequestId::Number(number) => writer.display(number),
            RequestId::Text(text) => writer.string(text),
            RequestId::Null => writer.literal("null"),
            RequestId::Irregular(number) => number.write(writer),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("RequestId", |schemas| {
            let mut forms = vec![integer_id(), json!({"type": "string"})];
            if schemas.revision() != WireFormat::Newest {
                forms.push(json!({"type": "null"}));
            }
            json!({"description": "The id of a request.", "anyOf": forms})
        })
    }
}

fn integer_id() -> Value {
    json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX})
}

object! {
    /// Error of a request.
    RpcError {
        /// Error code, for programs.
        required code: i32 = "code",
        /// Message, for people.
        required message: Text<'a> = "message",
        /// Additional data in a custom format.
        optional data: Raw<'a> = "data",
    }
}

impl fmt::Display for RpcError<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for RpcError<'_> {}

object! {
    /// Cancels a request of the sender.
    CancelRequestNotification {
        /// Id of the request.
        required request_id: RequestId<'a> = "requestId",
    } with optional _meta
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Expects a response.
    Request(Request<'a>),
    /// Expects no response.
    Notification(Notification<'a>),
    /// A response.
    Response(Response<'a>),
}

/// A method call that expects a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// Request id.
    pub id: RequestId<'a>,
    /// Method.
    pub method: Text<'a>,
    /// Unparsed parameters.
    pub params: Option<Raw<'a>>,
    /// Other keys of the envelope.
    pub extra: Extra<'a>,
}

/// A method call without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification<'a> {
    /// Method.
    pub method: Text<'a>,
    /// Unparsed parameters.
    pub params: Option<Raw<'a>>,
    /// Other keys of the envelope.
    pub extra: Extra<'a>,
}

/// Response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// Request id. `Null` only in an error for an unreadable request.
    pub id: RequestId<'a>,
    /// Unparsed result, or the error.
    pub outcome: Result<Raw<'a>, RpcError<'a>>,
    /// Other keys of the envelope.
    pub extra: Extra<'a>,
}

impl Request<'_> {
    /// Returns the text of the parameters, or an empty object.
    pub fn params_text(&self) -> &str {
        self.params.as_ref().map_or("{}", Raw::as_str)
    }
}

impl Notification<'_> {
    /// Returns the text of the parameters, or an empty object.
    pub fn params_text(&self) -> &str {
        self.params.as_ref().map_or("{}", Raw::as_str)
    }
}

impl<'a> Message<'a> {
    /// Parses the envelope of one message.
    pub fn decode(text: &'a str, revision: WireFormat) -> Result<Self, DecodeError> {
        <Self as Wire>::decode(text, revision)
    }

    /// Creates a request with encoded parameters.
    pub fn request(id: impl Into<RequestId<'a>>, method: impl Into<Text<'a>>, params: Raw<'a>) -> Self {
        let extra = Extra::new();
        Message::Request(Request { id: id.into(), method: method.into(), params: Some(params), extra })
    }

    /// Creates a notification with encoded parameters.
    pub fn notification(method: impl Into<Text<'a>>, params: Raw<'a>) -> Self {
        Message::Notification(Notification {
            method: method.into(),
            params: Some(params),
            extra: Extra::new(),
        })
    }

    /// Creates a response.
    pub fn response(id: RequestId<'a>, outcome: Result<Raw<'a>, RpcError<'a>>) -> Self {
        Message::Response(Response { id, outcome, extra: Extra::new() })
    }

    /// Returns the method, if this is not a response.
    pub fn method(&self) -> Option<&str> {
        match self {
            Message::Request(request) => Some(&request.method),
            Message::Notification(notification) => Some(&notification.method),
            Message::Response(_) => None,
        }
    }
}

impl<'a> Wire<'a> for Message<'a> {
    type Owned = Message<'static>;

    fn into_owned(self) -> Message<'static> {
        match self {
            Message::Request(request) => Message::Request(Request {
                id: Wire::into_owned(request.id),
                method: own(request.method),
                params: request.params.map(Raw::into_owned),
                extra: request.extra.into_owned(),
            }),
            Message::Notification(notification) => Message::Notification(Notification {
                method: own(notification.method),
                params: notification.params.map(Raw::into_owned),
                extra: notification.extra.into_owned(),
            }),
            Message::Response(response) => Message::Response(response.into_owned()),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        read_envelope(reader, true)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin_object();
        writer.key("jsonrpc");
        writer.string("2.0");
        match self {
            Message::Request(request) => {
                writer.key("id");
                request.id.write(writer);
                write_call(writer, &request.method, request.params.as_ref());
                writer.extra(&request.extra);
            }
            Message::Notification(notification) => {
                write_call(writer, &notification.method, notification.params.as_ref());
                writer.extra(&notification.extra);
            }
            Message::Response(response) => response.write_body(writer),
        }
        writer.end_object();
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("JsonRpcMessage", |schemas| {
            let id = RequestId::schema(schemas);
            let response = Response::schema(schemas);
            let method = || json!({"type": "string"});
            let params = || json!({"anyOf": [{"type": "object"}, {"type": "array"}, {"type": "null"}]});
            json!({
                "description": "A request, a notification or a response.",
                "anyOf": [
                    call(Some(id), method(), params(), false),
                    call(None, method(), params(), false),
                    answer(&response),
                ],
            })
        })
    }
}

/// Reads the envelope of a message. With `version_required`, it must have a version.
fn read_envelope<'a>(reader: &mut Reader<'a>, version_required: bool) -> Read<Message<'a>> {
    let mut body = Body::open(reader)?;
    let (mut id, mut method, mut params) = (None, None, None);
    let (mut result, mut error) = (None, None);
    let mut versioned = false;
    let mut extra = Extra::new();
    let mut seen = 0;
    while let Some(key) = reader.next_key(&mut body.first)? {
        match &*key {
            "jsonrpc" => {
                body.once(reader, &mut seen, 0, "jsonrpc")?;
                let offset = reader.position();
                if reader.read_string()? != "2.0" {
                    return reader.fault(offset, Problem::Expected("the version \"2.0\"".into()));
                }
                versioned = true;
            }
            "id" => {
                body.once(reader, &mut seen, 1, "id")?;
                id = Some((reader.position(), read_id(reader)?));
            }
            "method" => {
                body.once(reader, &mut seen, 2, "method")?;
                method = Some(reader.read_string()?);
            }
            "params" => {
                body.once(reader, &mut seen, 3, "params")?;
                match reader.peek() {
                    Some(b'{' | b'[') => params = Some(reader.read_raw()?),
                    _ if reader.take_null()? => {}
                    _ => return reader.expected("an object"),
                }
            }
            "result" => {
                body.once(reader, &mut seen, 4, "result")?;
                result = Some(reader.read_raw()?);
            }
            "error" => {
                body.once(reader, &mut seen, 5, "error")?;
                error = Some(RpcError::read(reader)?);
            }
            _ => body.unknown_key(reader, key, &mut extra)?,
        }
    }
    body.no_duplicates(reader, &extra)?;
    let start = body.start;
    if !versioned && version_required {
        return reader.fault(start, Problem::Missing("jsonrpc"));
    }
    let outcome = match (result, error) {
        (Some(_), Some(_)) => {
            let rule = "either \"result\" or \"error\", not both";
            return reader.fault(start, Problem::Rule(rule.into()));
        }
        (Some(result), None) => Some(Ok(result)),
        (None, Some(error)) => Some(Err(error)),
        (None, None) => None,
    };
    match (method, outcome) {
        (Some(_), Some(_)) => {
            let rule = "a call or an answer, not a \"method\" beside a \"result\" or \"error\"";
            reader.fault(start, Problem::Rule(rule.into()))
        }
        (Some(method), None) => match id {
            Some((offset, RequestId::Null)) if reader.revision() == WireFormat::Newest => {
                reader.fault(offset, Problem::Expected("a request id that is not null".into()))
            }
            Some((_, id)) => Ok(Message::Request(Request { id, method, params, extra })),
            None => Ok(Message::Notification(Notification { method, params, extra })),
        },
        (None, Some(outcome)) => match id {
            Some((offset, RequestId::Null)) if outcome.is_ok() => {
                reader.fault(offset, Problem::Expected("the id of the request that succeeded".into()))
            }
            Some((_, id)) => Ok(Message::Response(Response { id, outcome, extra })),
            None => reader.fault(start, Problem::Missing("id")),
        },
        (None, None) => reader.fault(start, Problem::Missing("method")),
    }
}

/// A response inside of another envelope, which may lack its version.
impl<'a> Wire<'a> for Response<'a> {
    type Owned = Response<'static>;

    fn into_owned(self) -> Response<'static> {
        Response {
            id: Wire::into_owned(self.id),
            outcome: match self.outcome {
                Ok(result) => Ok(result.into_owned()),
                Err(error) => Err(Wire::into_owned(error)),
            },
            extra: self.extra.into_owned(),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let offset = reader.position();
        match read_envelope(reader, false)? {
            Message::Response(response) => Ok(response),
            Message::Request(_) | Message::Notification(_) => {
                reader.fault(offset, Problem::Expected("an answer".into()))
            }
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin_object();
        self.write_body(writer);
        writer.end_object();
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("Response", |schemas| {
            let id = RequestId::schema(schemas);
            let error = RpcError::schema(schemas);
            let request = "Id of the request.";
            json!({
                "description": "Response to a request.",
                "type": "object",
                "oneOf": [
                    {
                        "properties": {
                            "id": described(json!({"anyOf": [integer_id(), {"type": "string"}]}), request),
                            "result": described(anything(), "Result of the request."),
                        },
                        "required": ["id", "result"],
                    },
                    {
                        "properties": {
                            "id": described(json!({"anyOf": [id, {"type": "null"}]}), request),
                            "error": described(error, "Error of the request."),
                        },
                        "required": ["id", "error"],
                    },
                ],
            })
        })
    }
}

impl Response<'_> {
    fn write_body(&self, writer: &mut Writer<'_>) {
        writer.key("id");
        self.id.write(writer);
        match &self.outcome {
            Ok(result) => {
                writer.key("result");
                writer.raw(result);
            }
            Err(error) => {
                writer.key("error");
                error.write(writer);
            }
        }
        writer.extra(&self.extra);
    }
}

/// Parameters of a method.
pub trait Params<'a>: Wire<'a> {
    /// Method with these parameters.
    const METHOD: &'static str;
}

/// Appends a notification with its envelope, in one pass.
pub fn encode_notification<'a, P: Params<'a>>(params: &P, out: &mut String, format: WireFormat) {
    encode_call(None, P::METHOD, params, &Extra::new(), out, format);
}

/// Appends a request or, without an id, a notification, with its envelope and extra keys, in one pass.
pub fn encode_call<'a>(
    id: Option<&RequestId<'_>>,
    method: &str,
    params: &impl Wire<'a>,
    extra: &Extra<'_>,
    out: &mut String,
    format: WireFormat,
) {
    let mut writer = Writer::new(out, format);
    writer.begin_object();
    writer.key("jsonrpc");
    writer.string("2.0");
    if let Some(id) = id {
        writer.key("id");
        id.write(&mut writer);
    }
    writer.key("method");
    writer.string(method);
    writer.key("params");
    params.write(&mut writer);
    writer.extra(extra);
    writer.end_object();
}

/// Appends a response with its envelope and extra keys, in one pass.
pub fn encode_answer<'a>(
    id: &RequestId<'_>,
    result: &impl Wire<'a>,
    extra: &Extra<'_>,
    out: &mut String,
    format: WireFormat,
) {
    let mut writer = Writer::new(out, format);
    writer.begin_object();
    writer.key("jsonrpc");
    writer.string("2.0");
    writer.key("id");
    id.write(&mut writer);
    writer.key("result");
    result.write(&mut writer);
    writer.extra(extra);
    writer.end_object();
}

/// A message on a connection where most messages are notifications of one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected<'a, P> {
    /// A notification of that method, parsed in one pass.
    Params(P),
    /// Any other message.
    Other(Message<'a>),
}

impl<'a, P: Params<'a>> Expected<'a, P> {
    /// Decodes a message strictly.
    ///
    /// ```
    /// use switchboard_acp::rpc::Expected;
    /// use switchboard_acp::{WireFormat, v2};
    ///
    /// let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
    ///     {"sessionUpdate":"agent_thought_chunk","messageId":"t","content":{"type":"text","text":"maybe"}}}}"#;
    /// let message = Expected::<v2::UpdateSessionNotification<'_>>::decode(line, WireFormat::Any)?;
    /// assert!(matches!(message, Expected::Params(notification) if notification.session_id == "s"));
    /// # Ok::<(), switchboard_acp::DecodeError>(())
    /// ```
    pub fn decode(text: &'a str, revision: WireFormat) -> Result<Self, DecodeError> {
        Self::decode_with(&mut Reader::new(text, revision))
    }

    /// Decodes a message tolerantly. Returns the omitted parts as well.
    pub fn decode_tolerant(
        text: &'a str,
        revision: WireFormat,
    ) -> Result<(Self, Vec<Diagnostic>), DecodeError> {
        let mut reader = Reader::new(text, revision).tolerant();
        let message = Self::decode_with(&mut reader)?;
        Ok((message, reader.take_tolerated().locate(text)))
    }

    fn decode_with(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (start, noted) = (reader.place(), reader.tolerated_count());
        if begins_plainly(reader, P::METHOD) {
            match P::read(reader) {
                Ok(params) if ends_plainly(reader) => return Ok(Expected::Params(params)),
                Ok(_) => {}
                Err(fault) => return Err(DecodeError::new(&fault, reader.text())),
            }
        }
        reader.forget_since(start, noted);
        match read_expected::<P>(reader) {
            Ok(Some(params)) => Ok(Expected::Params(params)),
            Ok(None) => {
                reader.forget_since(start, noted);
                crate::wire::read_whole(reader).map(Expected::Other)
            }
            Err(fault) => Err(DecodeError::new(&fault, reader.text())),
        }
    }
}

/// Returns true if a notification of the method starts here in its usual form. Moves the position to its
/// parameters.
#[inline(always)]
fn begins_plainly(reader: &mut Reader<'_>, method: &'static str) -> bool {
    reader.peek() == Some(b'{')
        && reader.begin_object().is_ok()
        && reader.take_text(r#""jsonrpc":"2.0","method":""#)
        && reader.take_text(method)
        && reader.take_text(r#"","params":"#)
        && reader.peek() == Some(b'{')
}

/// Returns true if only the end of the message follows.
#[inline(always)]
fn ends_plainly(reader: &mut Reader<'_>) -> bool {
    reader.take_text("}") && reader.finish().is_ok()
}

/// Returns the parameters if the envelope is a notification of the method. Otherwise returns `None`, and the
/// message must be parsed from its start.
fn read_expected<'a, P: Params<'a>>(reader: &mut Reader<'a>) -> Read<Option<P>> {
    reader.begin_object()?;
    let mut first = true;
    let (mut versioned, mut called) = (false, false);
    let mut params = None;
    while let Some(key) = reader.next_key(&mut first)? {
        match &*key {
            "jsonrpc" if !versioned => versioned = reader.read_string()? == "2.0",
            "method" if !called => called = reader.read_string()? == P::METHOD,
            "params" if called && params.is_none() => params = Some(P::read(reader)?),
            _ => return Ok(None),
        }
    }
    reader.finish()?;
    Ok(if versioned { params } else { None })
}

/// Several messages in one array. Newer peers refuse them, so this library never sends one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a>(pub Vec<Message<'a>>);

impl<'a> Wire<'a> for Batch<'a> {
    type Owned = Batch<'static>;

    fn into_owned(self) -> Batch<'static> {
        Batch(self.0.into_owned())
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let offset = reader.position();
        let messages = reader.keeping_all_items(Vec::read)?;
        if messages.is_empty() {
            return reader.fault(offset, Problem::Rule("at least one message in a batch".into()));
        }
        Ok(Batch(messages))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.0.write(writer);
    }

    fn schema(schemas: &mut Schemas) -> Value {
        json!({"type": "array", "minItems": 1, "items": Message::schema(schemas)})
    }
}

/// Reads the id of any message. `null` is checked later, when the kind of message is known.
fn read_id<'a>(reader: &mut Reader<'a>) -> Read<RequestId<'a>> {
    if reader.take_null()? { Ok(RequestId::Null) } else { RequestId::read(reader) }
}

fn write_call(writer: &mut Writer<'_>, method: &str, params: Option<&Raw<'_>>) {
    writer.key("method");
    writer.string(method);
    if let Some(params) = params {
        writer.key("params");
        writer.raw(params);
    }
}
