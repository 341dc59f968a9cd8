//! Stateless translation of single messages. An element that the other version cannot express is an error
//! with element and reason.
//!
//! The rules are those of [`convert`](crate::convert), as in a bridge. This module selects the rule by method
//! and provides defaults where a bridge would use its state.

use std::collections::VecDeque;

use switchboard_acp::rpc::{Message, Notification, Response};
use switchboard_acp::{Correlator, Diagnostic, Field, Raw, Text, Wire, WireFormat, caller_of, v1, v2};
use switchboard_diff::{FileAtHand, read_back};

use crate::convert::initialize::{self, Served};
use crate::convert::message::{Message as Whole, Rest, chunk_to_v1, chunk_to_v2, message_to_v1};
use crate::convert::paths::PathNormalizer;
use crate::convert::permission::{self, Question, Subject};
use crate::convert::{Conversion, Losses, config, elicitation, lists, meta, session, tool_call, update};
use crate::loss::{Note, Severity};
use crate::{Error, Side, Version};

/// A translated value and the parts that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted<T> {
    /// The value in the other version.
    pub value: T,
    /// Parts that were left out, where the specification allows that.
    pub omitted: Vec<Note>,
}

/// Runs a conversion in which every loss is an error.
fn strictly<T>(
    message: &str,
    root: &str,
    convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
) -> Result<Converted<T>, Error> {
    let mut losses = Losses::refused();
    let value = convert(&mut losses.at(message, root))?;
    Ok(Converted { value, omitted: losses.entries })
}

/// Translates one update of version 2 into the equivalent updates of version 1.
///
/// A complete message becomes one chunk per block, which is only equivalent if no part of that message has
/// been sent before. Clears of a tool call's scalar and raw fields are left out and listed.
///
/// ```
/// use switchboard_bridge::{Error, update_to_v1};
/// use switchboard_acp::{Wire, WireFormat, v2};
///
/// let text = r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#;
/// let update = v2::SessionUpdate::decode(text, WireFormat::Spec)?;
/// let error = update_to_v1(update).unwrap_err();
/// assert_eq!(error.to_string(), "agent_message.content: version 1 cannot retract a message");
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

/// Returns the reason why version 1 has no such update.
fn why_not(update: &v2::SessionUpdate<'_>) -> &'static str {
    match update {
        v2::SessionUpdate::StateUpdate(_) => "version 1 has no states; a turn is a pending request",
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
            return Err(cx.key("content").error("version 1 cannot retract a message"));
        }
        Field::Keep => return Err(cx.error("version 1 can only append to a message")),
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

/// No session directory is known without state: relative paths are reported and pass unchanged.
const AS_SENT_BY_V1: PathNormalizer<'static> = PathNormalizer { directory: None, key: meta::V1_PATH };
const AS_SENT_BY_V2: PathNormalizer<'static> = PathNormalizer { directory: None, key: meta::V2_PATH };

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
        // Content that was translated from a version 2 diff is restored.
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

/// Translates one update of version 1 into the equivalent update of version 2.
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
                Err(_) => return Err(cx.error("the update can only be translated with state")),
            },
        })
    })
}

/// Translates a permission request of version 1 into the equivalent one of version 2. If its tool call has no
/// title, a default title is used.
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

/// Decodes and translates the parameters of a version 1 `session/update`. Also returns the first malformed
/// part that was left out. Version 1 terminals belong to the client and are left out.
pub fn read_v1_update(
    params: &str,
) -> Result<(v2::UpdateSessionNotification<'static>, Option<String>), String> {
    let read = v1::SessionNotification::decode_tolerant(params, WireFormat::V1);
    let (mut params, left_out) = read.map_err(|error| error.to_string())?;
    match &mut params.update {
        v1::SessionUpdate::ToolCall(call) => drop_terminals(call.content.as_mut()),
        v1::SessionUpdate::ToolCallUpdate(call) => drop_terminals(call.content.as_mut()),
        _ => {}
    }
    let update = update_to_v2(params.update).map_err(|error| error.to_string())?.value;
    let params = v2::UpdateSessionNotification::new(params.session_id, update);
    Ok((params.into_owned(), first_problem(&left_out)))
}

/// Decodes and translates the parameters of a version 1 `session/request_permission`, like
/// [`read_v1_update`].
pub fn read_v1_permission(
    params: &str,
) -> Result<(v2::RequestPermissionRequest<'static>, Option<String>), String> {
    let read = v1::RequestPermissionRequest::decode_tolerant(params, WireFormat::V1);
    let (mut request, left_out) = read.map_err(|error| error.to_string())?;
    drop_terminals(request.tool_call.content.as_mut());
    let request = permission_to_v2(request).map_err(|error| error.to_string())?.value;
    Ok((request.into_owned(), first_problem(&left_out)))
}

fn drop_terminals(content: Option<&mut Vec<v1::ToolCallContent<'_>>>) {
    if let Some(content) = content {
        content.retain(|item| !matches!(item, v1::ToolCallContent::Terminal(_)));
    }
}

fn first_problem(left_out: &[Diagnostic]) -> Option<String> {
    left_out.iter().find(|problem| !problem.kept).map(ToString::to_string)
}

const NO_MODES: &str = "version 2 has no modes; the option for them is only known with state";

/// Maximum number of tracked requests; responses to older ones pass unchanged.
const MAX_OPEN: usize = 100_000;

/// Translates messages one by one. Only the methods of pending requests are tracked.
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

/// A method and its parameters; `None` if both are the same in both versions.
type ConvertedCall = Option<(&'static str, Raw<'static>)>;

impl Stateless {
    /// Creates a translation into a version.
    pub fn new(to: Version) -> Self {
        Stateless { to, open: Correlator::new(MAX_OPEN) }
    }

    /// Translates one message. `from` is its sender; if unknown, a response is assigned to the side with a
    /// pending request of that id.
    pub fn convert(&mut self, line: &str, from: Option<Side>) -> Result<Converted<Vec<String>>, Error> {
        match Message::decode(line, self.formats().0)? {
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

    fn formats(&self) -> Formats {
        match self.to {
            Version::V1 => TO_V1,
            Version::V2 => TO_V2,
        }
    }

    fn written(&self, message: &Message<'_>, omitted: Vec<Note>) -> Converted<Vec<String>> {
        Converted { value: vec![message.encode(self.formats().1)], omitted }
    }

    fn update(&self, notification: Notification<'_>) -> Result<Converted<Vec<String>>, Error> {
        let text = notification.params_text();
        let (all, omitted): (Vec<Raw<'static>>, _) = match self.to {
            Version::V1 => {
                let params = v2::UpdateSessionNotification::decode(text, TO_V1.0)?;
                let v2::UpdateSessionNotification { session_id, update, meta, extra, more: _ } = params;
                let Converted { value, omitted } = update_to_v1(update)?;
                let told = value.into_iter().map(|update| {
                    let (session_id, meta, extra) = (session_id.clone(), meta.clone(), extra.clone());
                    let more = switchboard_acp::More;
                    Raw::of(&v1::SessionNotification { session_id, update, meta, extra, more }, TO_V1.1)
                });
                (told.collect(), omitted)
            }
            Version::V2 => {
                let params = v1::SessionNotification::decode(text, TO_V2.0)?;
                let v1::SessionNotification { session_id, update, meta, extra, more: _ } = params;
                let Converted { value: update, omitted } = update_to_v2(update)?;
                let more = switchboard_acp::More;
                let told = v2::UpdateSessionNotification { session_id, update, meta, extra, more };
                (vec![Raw::of(&told, TO_V2.1)], omitted)
            }
        };
        let Notification { method, params: _, extra } = notification;
        let line = |params| {
            let (method, extra) = (method.clone(), extra.clone());
            Message::Notification(Notification { method, params: Some(params), extra })
                .encode(self.formats().1)
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

/// Wire formats for decoding the original and encoding the translation.
type Formats = (WireFormat, WireFormat);
const TO_V2: Formats = (WireFormat::V1, WireFormat::Any);
const TO_V1: Formats = (WireFormat::Any, WireFormat::V1);

/// Translates parameters or a result with a rule.
fn by_rule<'t, V: Wire<'t>, W: Wire<'t>>(
    text: &'t str,
    (reading, writing): Formats,
    rule: impl FnOnce(V) -> Result<W, Error>,
) -> Result<Raw<'static>, Error> {
    Ok(Raw::of(&rule(V::decode(text, reading)?)?, writing))
}

fn call_in_v2(method: &str, params: &str, cx: &mut Conversion<'_>) -> Result<ConvertedCall, Error> {
    Ok(Some(match method {
        "initialize" => {
            ("initialize", by_rule(params, TO_V2, |request| Ok(initialize::request_to_v2(request)))?)
        }
        "authenticate" => ("auth/login", Raw::parse(params.to_owned())?),
        "logout" => ("auth/logout", Raw::parse(params.to_owned())?),
        "session/new" => ("session/new", by_rule(params, TO_V2, |request| session::new_to_v2(request, cx))?),
        "session/load" => {
            ("session/resume", by_rule(params, TO_V2, |request| session::load_to_v2(request, cx))?)
        }
        "session/resume" => {
            ("session/resume", by_rule(params, TO_V2, |request| session::resume_to_v2(request, cx))?)
        }
        "session/fork" => {
            ("session/fork", by_rule(params, TO_V2, |request| session::fork_to_v2(request, cx))?)
        }
        "session/set_mode" => return Err(cx.error(NO_MODES)),
        "session/set_config_option" => {
            ("session/set_config_option", by_rule(params, TO_V2, |request| config::set_to_v2(request, cx))?)
        }
        "session/prompt" => {
            ("session/prompt", by_rule(params, TO_V2, |request| session::prompt_to_v2(request, cx))?)
        }
        "session/request_permission" => {
            let params = by_rule(params, TO_V2, |request: v1::RequestPermissionRequest<'_>| {
                if request.options.is_empty() {
                    return Err(cx.key("options").error("version 2 requires at least one option"));
                }
                question_to_v2(request, cx)
            })?;
            ("session/request_permission", params)
        }
        "elicitation/create" => {
            ("elicitation/create", by_rule(params, TO_V2, |request| Ok(elicitation::to_v2(request)))?)
        }
        "fs/read_text_file" | "fs/write_text_file" => {
            return Err(cx.error("version 2 clients read and write no files for the agent"));
        }
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => return Err(cx.error("version 2 clients run no commands for the agent")),
        _ => return Ok(None),
    }))
}

fn call_in_v1(method: &str, params: &str, cx: &mut Conversion<'_>) -> Result<ConvertedCall, Error> {
    Ok(Some(match method {
        "initialize" => {
            let rule = |request| Ok(initialize::request_to_v1(request, Served::default()));
            ("initialize", by_rule(params, TO_V1, rule)?)
        }
        "auth/login" => ("authenticate", Raw::parse(params.to_owned())?),
        "auth/logout" => ("logout", Raw::parse(params.to_owned())?),
        "session/new" => ("session/new", by_rule(params, TO_V1, |request| session::new_to_v1(request, cx))?),
        "session/resume" => {
            let request = v2::ResumeSessionRequest::decode(params, TO_V1.0)?;
            if request.replay_from.is_some() {
                ("session/load", Raw::of(&session::load_to_v1(request, cx)?, TO_V1.1))
            } else {
                ("session/resume", Raw::of(&session::resume_to_v1(request, cx)?, TO_V1.1))
            }
        }
        "session/fork" => {
            ("session/fork", by_rule(params, TO_V1, |request| session::fork_to_v1(request, cx))?)
        }
        "session/set_config_option" => {
            ("session/set_config_option", by_rule(params, TO_V1, |request| config::set_to_v1(request, cx))?)
        }
        "session/prompt" => {
            ("session/prompt", by_rule(params, TO_V1, |request| session::prompt_to_v1(request, cx))?)
        }
        "session/request_permission" => {
            ("session/request_permission", by_rule(params, TO_V1, |request| question_to_v1(request, cx))?)
        }
        "elicitation/create" => {
            ("elicitation/create", by_rule(params, TO_V1, |request| elicitation::to_v1(request, cx))?)
        }
        "tool_call/cancel" | "terminal/cancel" => {
            return Err(cx.error("version 1 can only cancel a whole turn"));
        }
        _ => return Ok(None),
    }))
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
        let reason = "version 1 has no title and description apart from the tool call's own";
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

/// Translates a result into version 2. `None` if it is the same in both versions.
fn result_in_v2(method: &str, result: &str, cx: &mut Conversion<'_>) -> Result<Option<Raw<'static>>, Error> {
    Ok(Some(match method {
        "initialize" => by_rule(result, TO_V2, |answer| {
            // Capabilities without a counterpart are left out, as everywhere.
            cx.leaving_out(|cx| initialize::response_to_v2(answer, "unknown-agent", cx))
        })?,
        "session/status" => by_rule(result, TO_V2, |answer| Ok(session::status_to_v2(answer)))?,
        "session/new" | "session/fork" => {
            by_rule(result, TO_V2, |mut answer: v1::NewSessionResponse<'_>| {
                let options = options_to_v2(answer.modes.take(), answer.config_options.take(), cx)?;
                Ok(session::made_to_v2(answer, options))
            })?
        }
        "session/load" | "session/resume" => {
            by_rule(result, TO_V2, |mut answer: v1::LoadSessionResponse<'_>| {
                let options = options_to_v2(answer.modes.take(), answer.config_options.take(), cx)?;
                Ok(session::resumed_to_v2(answer, options))
            })?
        }
        "session/set_config_option" => by_rule(result, TO_V2, |answer| {
            let (options, Rest { meta, extra }) = config::set_answer_to_v2(answer);
            let config_options = config::to_v2(options, &mut cx.key("configOptions"))?;
            let more = switchboard_acp::More;
            Ok(v2::SetSessionConfigOptionResponse { config_options, meta, extra, more })
        })?,
        "session/prompt" => {
            let reason = "version 2 answers a prompt when it is accepted and reports its end as a state";
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
                let reason = "a client that supports options ignores modes";
                cx.key("modes").omit(Severity::Minor, reason);
            }
            options.map(|options| config::to_v2(options, &mut cx.key("configOptions"))).transpose()
        }
    }
}

/// Translates a result into version 1. `None` if it is the same in both versions.
fn result_in_v1(method: &str, result: &str, cx: &mut Conversion<'_>) -> Result<Option<Raw<'static>>, Error> {
    Ok(Some(match method {
        "initialize" => by_rule(result, TO_V1, |answer| initialize::response_to_v1(answer, cx))?,
        "session/status" => by_rule(result, TO_V1, |answer| session::status_to_v1(answer, cx))?,
        "session/new" | "session/fork" => {
            by_rule(result, TO_V1, |mut answer: v2::NewSessionResponse<'_>| {
                let options =
                    options_to_v1(answer.config_options.take(), answer.available_commands.is_some(), cx)?;
                Ok(session::made_to_v1(answer, (None, options)))
            })?
        }
        "session/resume" => by_rule(result, TO_V1, |mut answer: v2::ResumeSessionResponse<'_>| {
            let options =
                options_to_v1(answer.config_options.take(), answer.available_commands.is_some(), cx)?;
            Ok(session::resumed_to_v1(answer, (None, options)))
        })?,
        "session/set_config_option" => by_rule(result, TO_V1, |answer| {
            let (options, Rest { meta, extra }) = config::set_answer_to_v1(answer);
            let config_options = config::to_v1(options, true, &mut cx.key("configOptions"))?;
            let more = switchboard_acp::More;
            Ok(v1::SetSessionConfigOptionResponse { config_options, meta, extra, more })
        })?,
        "session/prompt" => {
            let reason =
                "version 1 answers a prompt when the turn has ended, which is reported later as a state";
            return Err(cx.error(reason));
        }
        "session/request_permission" => {
            let response = v2::RequestPermissionResponse::decode(result, TO_V1.0)?;
            if let v2::RequestPermissionOutcome::Unknown(unknown) = &response.outcome {
                return Err(cx.key("outcome").error(format!("version 1 has no outcome \"{}\"", unknown.tag)));
            }
            return Ok(None);
        }
        "elicitation/create" => by_rule(result, TO_V1, |answer| elicitation::answer_to_v1(answer, cx))?,
        _ => return Ok(None),
    }))
}

fn options_to_v1<'a>(
    options: Option<Vec<v2::SessionConfigOption<'a>>>,
    has_commands: bool,
    cx: &mut Conversion<'_>,
) -> Result<Option<Vec<v1::SessionConfigOption<'a>>>, Error> {
    if has_commands {
        return Err(cx.key("availableCommands").error("version 1 sends commands only as an update"));
    }
    options.map(|options| config::to_v1(options, true, &mut cx.key("configOptions"))).transpose()
}
