//! Translation of one thing at a time, without memory: what cannot be said fails, by element and reason.

use std::collections::VecDeque;

use switchboard_acp::rpc::{Message, Notification, Response};
use switchboard_acp::{Correlator, Field, Raw, Text, Wire, WireFormat, caller_of, v1, v2};
use switchboard_diff::{FileAtHand, read_back};

use crate::convert::initialize::{self, Served};
use crate::convert::message::{Message as Whole, Rest, chunk_to_v1, chunk_to_v2, message_to_v1};
use crate::convert::paths::Places;
use crate::convert::permission::{self, Question, Subject};
use crate::convert::session::{self, Opened, OpenedV1, OpenedV2};
use crate::convert::{Conversion, Losses, config, elicitation, lists, meta, tool_call, update};
use crate::loss::{Note, Severity};
use crate::{Error, Side, Version};

/// A translated value, with what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted<T> {
    /// The value in the other version.
    pub value: T,
    /// What had to be left out, where the protocol's text allows that.
    pub omitted: Vec<Note>,
}

/// Converts something, failing rather than losing.
fn strictly<T>(
    message: &str,
    root: &str,
    convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
) -> Result<Converted<T>, Error> {
    let mut losses = Losses::refused();
    let value = convert(&mut losses.at(message, root))?;
    Ok(Converted { value, omitted: losses.entries })
}

/// Translates one update of version 2 into the updates of version 1 that say the same.
///
/// A whole message becomes a chunk for each block, which is the same only where nothing of that message has been
/// sent before. Clears of a tool call's scalar and raw fields are left out and listed.
///
/// ```
/// use switchboard_bridge::{Error, update_to_v1};
/// use switchboard_acp::{Wire, WireFormat, v2};
///
/// let text = r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#;
/// let update = v2::SessionUpdate::decode(text, WireFormat::Spec)?;
/// let error = update_to_v1(update).unwrap_err();
/// assert_eq!(error.to_string(), "agent_message.content: version 1 cannot take back what was said");
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn update_to_v1(update: v2::SessionUpdate<'_>) -> Result<Converted<Vec<v1::SessionUpdate<'_>>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    let tag = update.tag().to_owned();
    strictly(&tag, "/params/update", |cx| {
        let value = match update {
            V2::UserMessageChunk(chunk) => V1::UserMessageChunk(chunk_to_v1(chunk, cx)?),
            V2::AgentMessageChunk(chunk) => V1::AgentMessageChunk(chunk_to_v1(chunk, cx)?),
            V2::AgentThoughtChunk(chunk) => V1::AgentThoughtChunk(chunk_to_v1(chunk, cx)?),
            V2::UserMessage(message) => return fan_out(message, V1::UserMessageChunk, cx),
            V2::AgentMessage(message) => return fan_out(message, V1::AgentMessageChunk, cx),
            V2::AgentThought(message) => return fan_out(message, V1::AgentThoughtChunk, cx),
            V2::ToolCallUpdate(update) => V1::ToolCallUpdate(Box::new(call_to_v1(*update, cx)?)),
            V2::PlanUpdate(update) => V1::Plan(plan_to_v1(*update, cx)?),
            V2::ConfigOptionUpdate(update) => {
                V1::ConfigOptionUpdate(update::options_update_to_v1(update, true, cx)?)
            }
            other => match update::to_v1(other, cx)? {
                Ok(update) => update,
                Err(unsaid) => return Err(cx.error(why_not(&unsaid))),
            },
        };
        Ok(vec![value])
    })
}

/// Why version 1 has no such update.
fn why_not(update: &v2::SessionUpdate<'_>) -> &'static str {
    match update {
        v2::SessionUpdate::StateUpdate(_) => "version 1 has no states; a turn is a request that is open",
        v2::SessionUpdate::ToolCallContentChunk(_) => {
            "version 1 replaces content as a whole, which needs the content so far"
        }
        v2::SessionUpdate::TerminalUpdate(_) | v2::SessionUpdate::TerminalOutputChunk(_) => {
            "version 1 terminals belong to the client, not to the agent"
        }
        _ => "version 1 has no updates of this kind",
    }
}

fn fan_out<'a>(
    message: v2::MessageUpdate<'a>,
    variant: fn(v1::ContentChunk<'a>) -> v1::SessionUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<v1::SessionUpdate<'a>>, Error> {
    match &message.content {
        Field::Set(blocks) if !blocks.is_empty() => {}
        Field::Set(_) | Field::Clear => {
            return Err(cx.key("content").error("version 1 cannot take back what was said"));
        }
        Field::Keep => return Err(cx.error("version 1 cannot change a message without adding to it")),
    }
    let Whole { id, content, rest } = message_to_v1(message, cx)?;
    let chunk = |content| {
        let Rest { meta, extra } = rest.clone();
        variant(v1::ContentChunk {
            content,
            message_id: Some(id.clone()),
            meta,
            extra,
            more: switchboard_acp::More,
        })
    };
    Ok(content.into_value().unwrap_or_default().into_iter().map(chunk).collect())
}

/// Without memory no session's folder is known: paths that are not absolute are reported, and pass as they are.
const AS_SENT_BY_V1: Places<'static> = Places { directory: None, key: meta::V1_PATH };
const AS_SENT_BY_V2: Places<'static> = Places { directory: None, key: meta::V2_PATH };

fn call_to_v1<'a>(
    update: v2::ToolCallUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::ToolCallUpdate<'a>, Error> {
    let mut update = update;
    if let Field::Set(locations) = &mut update.locations {
        AS_SENT_BY_V2.settle_locations(locations, &mut cx.key("locations"));
    }
    let (mut wire, content) = tool_call::update_to_v1(update, false, cx)?;
    wire.content = match content {
        Field::Keep => None,
        Field::Clear => Some(Vec::new()),
        Field::Set(items) => {
            let convert =
                |item, cx: &mut Conversion<'_>| tool_call::item_to_v1(item, |_| FileAtHand::Unknown, cx);
            let items = cx.key("content").each(items, convert)?;
            Some(items.into_iter().flatten().collect())
        }
    };
    Ok(wire)
}

fn call_to_v2<'a>(
    update: v1::ToolCallUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ToolCallUpdate<'a>, Error> {
    let mut update = update;
    AS_SENT_BY_V1
        .settle_locations(update.locations.as_deref_mut().unwrap_or_default(), &mut cx.key("locations"));
    AS_SENT_BY_V1.settle_content(update.content.as_deref_mut().unwrap_or_default(), &mut cx.key("content"));
    let (mut wire, content) = tool_call::update_to_v2(update);
    if let Some(items) = content {
        wire.content = Field::Set(content_to_v2(items, &mut cx.key("content"))?);
    }
    Ok(wire)
}

fn content_to_v2<'a>(
    items: Vec<v1::ToolCallContent<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<v2::ToolCallContent<'a>>, Error> {
    let mut items = VecDeque::from(items);
    let (mut converted, mut index) = (Vec::with_capacity(items.len()), 0);
    loop {
        // What stands for a diff of version 2 is that diff again.
        if let Some((diff, count)) = read_back(items.make_contiguous()) {
            items.drain(..count);
            index += count;
            converted.push(v2::ToolCallContent::Diff(Box::new(diff)));
        } else if let Some(item) = items.pop_front() {
            converted.push(tool_call::item_to_v2(item, |_| FileAtHand::Unknown, &mut cx.item(index))?);
            index += 1;
        } else {
            return Ok(converted);
        }
    }
}

fn plan_to_v1<'a>(update: v2::PlanUpdate<'a>, cx: &mut Conversion<'_>) -> Result<v1::Plan<'a>, Error> {
    match lists::plan_to_v1(update, cx)? {
        Ok(plan) => {
            let lists::Plan { id: _, entries, rest: Rest { meta, extra } } = plan;
            cx.key("plan").key("planId").omit(Severity::Minor, "version 1 has one plan, without an id");
            Ok(v1::Plan { entries, meta, extra, more: switchboard_acp::More })
        }
        Err(other) => Err(cx.key("plan").error(format!("a plan of type \"{}\"", other.tag()))),
    }
}

/// Translates one update of version 1 into the update of version 2 that says the same.
///
/// ```
/// use switchboard_bridge::update_to_v2;
/// use switchboard_acp::{Wire, WireFormat, v1};
///
/// let text = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","kind":"read"}"#;
/// let update = update_to_v2(v1::SessionUpdate::decode(text, WireFormat::V1)?).unwrap().value;
/// assert_eq!(
///     update.encode(WireFormat::Spec),
///     r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Read","kind":"read"}"#,
/// );
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn update_to_v2(update: v1::SessionUpdate<'_>) -> Result<Converted<v2::SessionUpdate<'_>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    let tag = update.tag().to_owned();
    strictly(&tag, "/params/update", |cx| {
        Ok(match update {
            V1::UserMessageChunk(chunk) => V2::UserMessageChunk(chunk_to_v2(chunk, cx)?),
            V1::AgentMessageChunk(chunk) => V2::AgentMessageChunk(chunk_to_v2(chunk, cx)?),
            V1::AgentThoughtChunk(chunk) => V2::AgentThoughtChunk(chunk_to_v2(chunk, cx)?),
            V1::ToolCall(call) => call_to_v2(tool_call::announced(*call), cx)?.into(),
            V1::ToolCallUpdate(update) => call_to_v2(*update, cx)?.into(),
            V1::ConfigOptionUpdate(update) => {
                V2::ConfigOptionUpdate(update::options_update_to_v2(update, cx)?)
            }
            V1::CurrentModeUpdate(_) => return Err(cx.error(NO_MODES)),
            other => match update::to_v2(other, cx)? {
                Ok(update) => update,
                Err(_) => return Err(cx.error("an update that needs memory")),
            },
        })
    })
}

/// Translates a question of version 1 into the one of version 2 that asks the same. Where its tool call has no title, the
/// question has one of ours.
///
/// ```
/// use switchboard_bridge::permission_to_v2;
/// use switchboard_acp::v1;
///
/// let mut call = v1::ToolCallUpdate::new("c");
/// call.title = Some("Remove a folder".into());
/// let question = permission_to_v2(v1::RequestPermissionRequest::new("s", call, vec![]))?.value;
/// assert_eq!(question.title, "Remove a folder");
/// # Ok::<(), switchboard_bridge::Error>(())
/// ```
pub fn permission_to_v2(
    request: v1::RequestPermissionRequest<'_>,
) -> Result<Converted<v2::RequestPermissionRequest<'_>>, Error> {
    strictly("session/request_permission", "/params", |cx| question_to_v2(request, cx))
}

const NO_MODES: &str = "version 2 has no modes; the option for them is known only to who remembers it";

/// How many open requests are remembered; answers to older ones pass as they are.
const MAX_OPEN: usize = 100_000;

/// Translates messages one by one. It remembers only which method an answer belongs to.
///
/// ```
/// use switchboard_bridge::{Side, Stateless, Version};
///
/// let mut stateless = Stateless::new(Version::V2);
/// let line = r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"login"}}"#;
/// let converted = stateless.convert(line, Some(Side::Client))?;
/// assert!(converted.value[0].contains(r#""method":"auth/login""#));
/// # Ok::<(), switchboard_bridge::Error>(())
/// ```
#[derive(Debug)]
pub struct Stateless {
    to: Version,
    open: Correlator<Box<str>>,
}

/// A method and its parameters; `None`: both are the same in both versions.
type ConvertedCall = Option<(&'static str, Raw<'static>)>;

impl Stateless {
    /// A translation into a version.
    pub fn new(to: Version) -> Self {
        Stateless { to, open: Correlator::new(MAX_OPEN) }
    }

    /// Translates one message. `from` is who sent it; where that is not known, an answer is taken to belong to
    /// whoever asked something under its id.
    pub fn convert(&mut self, line: &str, from: Option<Side>) -> Result<Converted<Vec<String>>, Error> {
        let reading = match self.to {
            Version::V1 => WireFormat::Any,
            Version::V2 => WireFormat::V1,
        };
        match Message::decode(line, reading)? {
            Message::Request(mut request) => {
                let from = from.or_else(|| caller_of(&request.method)).unwrap_or(Side::Client);
                drop(self.open.open_or_evict(from, &request.id, request.method.clone().into()));
                let call = self.call(&request.method, request.params_text())?;
                if let Some((method, params)) = call.value {
                    request.params = request.params.map(|_| params);
                    request.method = Text::Borrowed(method);
                }
                Ok(self.written(&Message::Request(request), call.omitted))
            }
            Message::Notification(notification) if notification.method == "session/update" => {
                self.update(notification)
            }
            Message::Notification(mut notification) => {
                let call = self.call(&notification.method, notification.params_text())?;
                if let Some((method, params)) = call.value {
                    notification.params = notification.params.map(|_| params);
                    notification.method = Text::Borrowed(method);
                }
                Ok(self.written(&Message::Notification(notification), call.omitted))
            }
            Message::Response(response) => self.response(response, from),
        }
    }

    fn writing(&self) -> WireFormat {
        match self.to {
            Version::V1 => WireFormat::V1,
            Version::V2 => WireFormat::Any,
        }
    }

    fn written(&self, message: &Message<'_>, omitted: Vec<Note>) -> Converted<Vec<String>> {
        Converted { value: vec![message.encode(self.writing())], omitted }
    }

    fn update(&self, notification: Notification<'_>) -> Result<Converted<Vec<String>>, Error> {
        let text = notification.params_text();
        let (all, omitted): (Vec<Raw<'static>>, _) = match self.to {
            Version::V1 => {
                let params = v2::UpdateSessionNotification::decode(text, WireFormat::Any)?;
                let v2::UpdateSessionNotification { session_id, update, meta, extra, more: _ } = params;
                let Converted { value, omitted } = update_to_v1(update)?;
                let told = value.into_iter().map(|update| {
                    let (session_id, meta, extra) = (session_id.clone(), meta.clone(), extra.clone());
                    Raw::of(
                        &v1::SessionNotification {
                            session_id,
                            update,
                            meta,
                            extra,
                            more: switchboard_acp::More,
                        },
                        WireFormat::V1,
                    )
                });
                (told.collect(), omitted)
            }
            Version::V2 => {
                let params = v1::SessionNotification::decode(text, WireFormat::V1)?;
                let v1::SessionNotification { session_id, update, meta, extra, more: _ } = params;
                let converted = update_to_v2(update)?;
                let update = converted.value;
                let told = v2::UpdateSessionNotification {
                    session_id,
                    update,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                };
                (vec![Raw::of(&told, WireFormat::Any)], converted.omitted)
            }
        };
        let Notification { method, params: _, extra } = notification;
        let line = |params| {
            let (method, extra) = (method.clone(), extra.clone());
            Message::Notification(Notification { method, params: Some(params), extra }).encode(self.writing())
        };
        Ok(Converted { value: all.into_iter().map(line).collect(), omitted })
    }

    fn call(&self, method: &str, params: &str) -> Result<Converted<ConvertedCall>, Error> {
        strictly(method, "/params", |cx| match self.to {
            Version::V1 => call_in_v1(method, params, cx),
            Version::V2 => call_in_v2(method, params, cx),
        })
    }

    fn response(
        &mut self,
        mut response: Response<'_>,
        from: Option<Side>,
    ) -> Result<Converted<Vec<String>>, Error> {
        let askers = from.map_or(vec![Side::Client, Side::Agent], |from| vec![from.other()]);
        let asked = askers.into_iter().find_map(|asker| self.open.close(asker, &response.id));
        let mut omitted = Vec::new();
        if let (Some(method), Ok(result)) = (asked, &response.outcome) {
            let converted = strictly(&method, "/result", |cx| match self.to {
                Version::V1 => result_in_v1(&method, result.as_str(), cx),
                Version::V2 => result_in_v2(&method, result.as_str(), cx),
            })?;
            omitted = converted.omitted;
            if let Some(result) = converted.value {
                response.outcome = Ok(result);
            }
        }
        Ok(self.written(&Message::Response(response), omitted))
    }
}

/// A call as it is written, under the method that it becomes.
fn named<'v>(
    method: &'static str,
    params: &impl Wire<'v>,
    format: WireFormat,
) -> Result<ConvertedCall, Error> {
    Ok(Some((method, Raw::of(params, format))))
}

/// The same parameters under another method.
fn renamed(method: &'static str, params: &str) -> Result<ConvertedCall, Error> {
    Ok(Some((method, Raw::parse(params.to_owned())?)))
}

fn call_in_v2(method: &str, params: &str, cx: &mut Conversion<'_>) -> Result<ConvertedCall, Error> {
    const IN: WireFormat = WireFormat::V1;
    const OUT: WireFormat = WireFormat::Any;
    match method {
        "initialize" => {
            named("initialize", &initialize::request_to_v2(v1::InitializeRequest::decode(params, IN)?), OUT)
        }
        "authenticate" => renamed("auth/login", params),
        "logout" => renamed("auth/logout", params),
        "session/new" => {
            named("session/new", &session::new_to_v2(v1::NewSessionRequest::decode(params, IN)?, cx)?, OUT)
        }
        "session/load" => {
            let request = v1::LoadSessionRequest::decode(params, IN)?;
            named("session/resume", &session::load_to_v2(request, cx)?, OUT)
        }
        "session/resume" => {
            let request = v1::ResumeSessionRequest::decode(params, IN)?;
            named("session/resume", &session::resume_to_v2(request, cx)?, OUT)
        }
        "session/fork" => {
            let request = v1::unstable::ForkSessionRequest::decode(params, IN)?;
            named("session/fork", &session::fork_to_v2(request, cx)?, OUT)
        }
        "session/set_mode" => Err(cx.error(NO_MODES)),
        "session/set_config_option" => {
            let request = v1::SetSessionConfigOptionRequest::decode(params, IN)?;
            named("session/set_config_option", &config::set_to_v2(request, cx)?, OUT)
        }
        "session/prompt" => {
            let request = v1::PromptRequest::decode(params, IN)?;
            named("session/prompt", &session::prompt_to_v2(request, cx)?, OUT)
        }
        "session/request_permission" => {
            let request = v1::RequestPermissionRequest::decode(params, IN)?;
            if request.options.is_empty() {
                return Err(cx.key("options").error("version 2 wants at least one option"));
            }
            named("session/request_permission", &question_to_v2(request, cx)?, OUT)
        }
        "elicitation/create" => {
            let request = v1::CreateElicitationRequest::decode(params, IN)?;
            named("elicitation/create", &elicitation::to_v2(request), OUT)
        }
        "fs/read_text_file" | "fs/write_text_file" => {
            Err(cx.error("version 2 clients read and write no files for the agent"))
        }
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => Err(cx.error("version 2 clients run no commands for the agent")),
        _ => Ok(None),
    }
}

fn call_in_v1(method: &str, params: &str, cx: &mut Conversion<'_>) -> Result<ConvertedCall, Error> {
    const IN: WireFormat = WireFormat::Any;
    const OUT: WireFormat = WireFormat::V1;
    match method {
        "initialize" => {
            let request = v2::InitializeRequest::decode(params, IN)?;
            named("initialize", &initialize::request_to_v1(request, Served::default()), OUT)
        }
        "auth/login" => renamed("authenticate", params),
        "auth/logout" => renamed("logout", params),
        "session/new" => {
            named("session/new", &session::new_to_v1(v2::NewSessionRequest::decode(params, IN)?, cx)?, OUT)
        }
        "session/resume" => {
            let request = v2::ResumeSessionRequest::decode(params, IN)?;
            if request.replay_from.is_some() {
                named("session/load", &session::load_to_v1(request, cx)?, OUT)
            } else {
                named("session/resume", &session::resume_to_v1(request, cx)?, OUT)
            }
        }
        "session/fork" => {
            let request = v2::unstable::ForkSessionRequest::decode(params, IN)?;
            named("session/fork", &session::fork_to_v1(request, cx)?, OUT)
        }
        "session/set_config_option" => {
            let request = v2::SetSessionConfigOptionRequest::decode(params, IN)?;
            named("session/set_config_option", &config::set_to_v1(request, cx)?, OUT)
        }
        "session/prompt" => {
            let request = v2::PromptRequest::decode(params, IN)?;
            named("session/prompt", &session::prompt_to_v1(request, cx)?, OUT)
        }
        "session/request_permission" => {
            let request = v2::RequestPermissionRequest::decode(params, IN)?;
            named("session/request_permission", &question_to_v1(request, cx)?, OUT)
        }
        "elicitation/create" => {
            let request = v2::CreateElicitationRequest::decode(params, IN)?;
            named("elicitation/create", &elicitation::to_v1(request, cx)?, OUT)
        }
        "tool_call/cancel" | "terminal/cancel" => Err(cx.error("version 1 can cancel a whole turn only")),
        _ => Ok(None),
    }
}

fn question_to_v2<'a>(
    request: v1::RequestPermissionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::RequestPermissionRequest<'a>, Error> {
    let title = request.tool_call.title.clone().unwrap_or(Text::Borrowed("Permission requested"));
    permission::question_to_v2(request, title, |call| call_to_v2(call, &mut cx.key("toolCall")))
}

fn question_to_v1<'a>(
    request: v2::RequestPermissionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::RequestPermissionRequest<'a>, Error> {
    let about = request.subject.as_ref().map(|subject| subject.tag().to_owned());
    let question = permission::question_to_v1(request, cx)?;
    let Question { session_id, title, description, subject, options, rest: Rest { meta, extra } } = question;
    let Subject::ToolCall(call) = subject else {
        let reason = match about {
            Some(tag) => format!("version 1 permissions are about tool calls, not \"{tag}\""),
            None => "version 1 permissions are about tool calls".to_owned(),
        };
        return Err(cx.key("subject").error(reason));
    };
    if description.is_some() {
        let reason = "version 1 has no words of the prompt apart from the tool call's own";
        return Err(cx.key("description").error(reason));
    }
    let mut tool_call = call_to_v1(*call, &mut cx.key("subject").key("toolCall"))?;
    match &tool_call.title {
        Some(own) if *own != title => {
            let reason = "version 1 has one title for the prompt and the tool call, and they differ";
            return Err(cx.key("title").error(reason));
        }
        Some(_) => {}
        None => tool_call.title = Some(title),
    }
    Ok(v1::RequestPermissionRequest {
        session_id,
        tool_call,
        options,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// `None`: the result is the same in both versions.
fn result_in_v2(method: &str, result: &str, cx: &mut Conversion<'_>) -> Result<Option<Raw<'static>>, Error> {
    const IN: WireFormat = WireFormat::V1;
    const OUT: WireFormat = WireFormat::Any;
    Ok(Some(match method {
        "initialize" => {
            let response = v1::InitializeResponse::decode(result, IN)?;
            // What cannot be offered is not offered, as everywhere.
            let convert = |cx: &mut Conversion<'_>| initialize::response_to_v2(response, "unknown-agent", cx);
            Raw::of(&cx.leaving_out(convert)?, OUT)
        }
        "session/status" => {
            Raw::of(&session::status_to_v2(v1::unstable::SessionStatusResponse::decode(result, IN)?), OUT)
        }
        "session/new" | "session/fork" => {
            let answer = OpenedV1::from(v1::NewSessionResponse::decode(result, IN)?);
            let Opened { session_id, modes, options, commands: _, rest: Rest { meta, extra } } = answer;
            let config_options = options_to_v2(modes, options, cx)?;
            let session_id = session_id.unwrap_or_default();
            let available_commands = None;
            Raw::of(
                &v2::NewSessionResponse {
                    session_id,
                    config_options,
                    available_commands,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/load" | "session/resume" => {
            let answer = OpenedV1::from(v1::LoadSessionResponse::decode(result, IN)?);
            let Opened { session_id: _, modes, options, commands: _, rest: Rest { meta, extra } } = answer;
            let config_options = options_to_v2(modes, options, cx)?;
            let available_commands = None;
            Raw::of(
                &v2::ResumeSessionResponse {
                    config_options,
                    available_commands,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/set_config_option" => {
            let answer = v1::SetSessionConfigOptionResponse::decode(result, IN)?;
            let (options, Rest { meta, extra }) = config::set_answer_to_v2(answer);
            let config_options = config::to_v2(options, &mut cx.key("configOptions"))?;
            Raw::of(
                &v2::SetSessionConfigOptionResponse {
                    config_options,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/prompt" => {
            let reason = "version 2 answers a prompt when it is accepted and tells its end by a state";
            return Err(cx.key("stopReason").error(reason));
        }
        _ => return Ok(None),
    }))
}

fn options_to_v2<'a>(
    modes: Option<v1::SessionModeState<'a>>,
    options: Option<Vec<v1::SessionConfigOption<'a>>>,
    cx: &mut Conversion<'_>,
) -> Result<Option<Vec<v2::SessionConfigOption<'a>>>, Error> {
    match (modes, options) {
        (Some(modes), None) => Ok(Some(vec![config::option_of_modes(modes, "mode")])),
        (modes, options) => {
            if modes.is_some() {
                let reason = "a client that knows options looks at those, not at modes";
                cx.key("modes").omit(Severity::Minor, reason);
            }
            options.map(|options| config::to_v2(options, &mut cx.key("configOptions"))).transpose()
        }
    }
}

/// `None`: the result is the same in both versions.
fn result_in_v1(method: &str, result: &str, cx: &mut Conversion<'_>) -> Result<Option<Raw<'static>>, Error> {
    const IN: WireFormat = WireFormat::Any;
    const OUT: WireFormat = WireFormat::V1;
    Ok(Some(match method {
        "initialize" => {
            Raw::of(&initialize::response_to_v1(v2::InitializeResponse::decode(result, IN)?, cx)?, OUT)
        }
        "session/status" => {
            let answer = v2::unstable::SessionStatusResponse::decode(result, IN)?;
            Raw::of(&session::status_to_v1(answer, cx)?, OUT)
        }
        "session/new" | "session/fork" => {
            let answer = OpenedV2::from(v2::NewSessionResponse::decode(result, IN)?);
            let Opened { session_id, modes: _, options, commands, rest: Rest { meta, extra } } = answer;
            let config_options = options_to_v1(options, commands.is_some(), cx)?;
            let session_id = session_id.unwrap_or_default();
            Raw::of(
                &v1::NewSessionResponse {
                    session_id,
                    modes: None,
                    config_options,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/resume" => {
            let answer = OpenedV2::from(v2::ResumeSessionResponse::decode(result, IN)?);
            let Opened { session_id: _, modes: _, options, commands, rest: Rest { meta, extra } } = answer;
            let config_options = options_to_v1(options, commands.is_some(), cx)?;
            Raw::of(
                &v1::LoadSessionResponse {
                    modes: None,
                    config_options,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/set_config_option" => {
            let answer = v2::SetSessionConfigOptionResponse::decode(result, IN)?;
            let (options, Rest { meta, extra }) = config::set_answer_to_v1(answer);
            let config_options = config::to_v1(options, true, &mut cx.key("configOptions"))?;
            Raw::of(
                &v1::SetSessionConfigOptionResponse {
                    config_options,
                    meta,
                    extra,
                    more: switchboard_acp::More,
                },
                OUT,
            )
        }
        "session/prompt" => {
            let reason = "version 1 answers a prompt when the turn has ended, which a state tells later";
            return Err(cx.error(reason));
        }
        "session/request_permission" => {
            let response = v2::RequestPermissionResponse::decode(result, IN)?;
            if let v2::RequestPermissionOutcome::Unknown(unknown) = &response.outcome {
                return Err(cx.key("outcome").error(format!("version 1 has no outcome \"{}\"", unknown.tag)));
            }
            return Ok(None);
        }
        "elicitation/create" => {
            Raw::of(&elicitation::answer_to_v1(v2::CreateElicitationResponse::decode(result, IN)?, cx)?, OUT)
        }
        _ => return Ok(None),
    }))
}

fn options_to_v1<'a>(
    options: Option<Vec<v2::SessionConfigOption<'a>>>,
    has_commands: bool,
    cx: &mut Conversion<'_>,
) -> Result<Option<Vec<v1::SessionConfigOption<'a>>>, Error> {
    if has_commands {
        return Err(cx.key("availableCommands").error("version 1 tells commands by an update only"));
    }
    options.map(|options| config::to_v1(options, true, &mut cx.key("configOptions"))).transpose()
}
