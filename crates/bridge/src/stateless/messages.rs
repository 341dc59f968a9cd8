//! Whole messages: methods, parameters and results.

use std::collections::HashMap;

use switchboard_protocol::rpc::{Message, Notification, Request, RequestId, Response};
use switchboard_protocol::{Raw, Text, Wire, WireFormat, v1, v2};

use super::updates::{tool_call_to_v1, tool_call_to_v2};
use super::{Converted, update_to_v1, update_to_v2};
use crate::convert::initialize::{self, Served};
use crate::convert::{config, permission, servers};
use crate::loss::{At, Note, Notes, Severity};
use crate::{Error, Side, Version};

/// How many open requests are remembered; answers to others pass as they are.
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
    open: HashMap<(Side, RequestId<'static>), Box<str>>,
}

/// A method and its parameters.
type Call = (Text<'static>, String);

impl Stateless {
    /// A translation into a version.
    pub fn new(to: Version) -> Self {
        Stateless { to, open: HashMap::new() }
    }

    /// Translates one message. `from` is who sent it; where that is not known, an answer is taken to belong to
    /// whoever asked something under its id.
    pub fn convert(&mut self, line: &str, from: Option<Side>) -> Result<Converted<Vec<String>>, Error> {
        let mut omitted = Vec::new();
        let reading = match self.to {
            Version::V1 => WireFormat::Any,
            Version::V2 => WireFormat::V1,
        };
        let message = Message::decode(line, reading)?;
        let value = match message {
            Message::Request(request) => {
                let from = from.unwrap_or(sender_of(&request.method));
                let (id, asked) = (request.id.clone().into_owned(), request.method.clone());
                if self.open.len() < MAX_OPEN {
                    self.open.insert((from, id), asked.into());
                }
                let (method, params) = self.call(&request.method, request.params_text(), &mut omitted)?;
                vec![rewrap_request(request, method, params)]
            }
            Message::Notification(notification) if notification.method == "session/update" => {
                self.update(&notification, &mut omitted)?
            }
            Message::Notification(notification) => {
                let (method, params) =
                    self.call(&notification.method, notification.params_text(), &mut omitted)?;
                let had_params = notification.params.is_some();
                let params = had_params.then(|| raw(params));
                let message = Message::Notification(Notification { method, params, ..notification });
                vec![message.encode(self.writing())]
            }
            Message::Response(response) => vec![self.response(response, from, &mut omitted)?],
        };
        Ok(Converted { value, omitted })
    }

    fn writing(&self) -> WireFormat {
        match self.to {
            Version::V1 => WireFormat::V1,
            Version::V2 => WireFormat::Any,
        }
    }

    fn update(&self, notification: &Notification<'_>, omitted: &mut Vec<Note>) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        let mut push = |params: String| {
            let message = Message::notification("session/update", raw(params));
            lines.push(message.encode(self.writing()));
        };
        match self.to {
            Version::V1 => {
                let params =
                    v2::UpdateSessionNotification::decode(notification.params_text(), WireFormat::Any)?;
                let converted = update_to_v1(params.update)?;
                omitted.extend(converted.omitted);
                for update in converted.value {
                    let mut wire = v1::SessionNotification::new(params.session_id.clone(), update);
                    wire.meta = params.meta.clone();
                    push(wire.encode(WireFormat::V1));
                }
            }
            Version::V2 => {
                let params = v1::SessionNotification::decode(notification.params_text(), WireFormat::V1)?;
                let converted = update_to_v2(params.update)?;
                omitted.extend(converted.omitted);
                let mut wire = v2::UpdateSessionNotification::new(params.session_id, converted.value);
                wire.meta = params.meta;
                push(wire.encode(WireFormat::Any));
            }
        }
        Ok(lines)
    }

    fn call(&self, method: &str, params: &str, omitted: &mut Vec<Note>) -> Result<Call, Error> {
        let call = match self.to {
            Version::V1 => call_to_v1(method, params, omitted)?,
            Version::V2 => call_to_v2(method, params)?,
        };
        Ok(call.unwrap_or_else(|| (Text::Owned(method.to_owned()), params.to_owned())))
    }

    fn response(
        &mut self,
        response: Response<'_>,
        from: Option<Side>,
        omitted: &mut Vec<Note>,
    ) -> Result<String, Error> {
        let id = response.id.clone().into_owned();
        let askers = from.map_or(vec![Side::Client, Side::Agent], |from| vec![from.other()]);
        let asked = askers.into_iter().find_map(|asker| self.open.remove(&(asker, id.clone())));
        let mut response = response;
        if let (Some(method), Ok(result)) = (asked, &response.outcome) {
            let converted = match self.to {
                Version::V1 => result_to_v1(&method, result.as_str(), omitted)?,
                Version::V2 => result_to_v2(&method, result.as_str(), omitted)?,
            };
            if let Some(converted) = converted {
                response.outcome = Ok(raw(converted));
            }
        }
        Ok(Message::Response(response).encode(self.writing()))
    }
}

/// Who makes a request, by its method.
pub(crate) fn sender_of(method: &str) -> Side {
    match method {
        "session/request_permission" | "elicitation/create" => Side::Agent,
        _ if method.starts_with("fs/") => Side::Agent,
        "terminal/cancel" => Side::Client,
        _ if method.starts_with("terminal/") => Side::Agent,
        _ => Side::Client,
    }
}

fn raw(text: String) -> Raw<'static> {
    // What is written is JSON, so reading it again cannot fail.
    Raw::parse(text).unwrap_or_else(|_| Raw::from(serde_json::Value::Null))
}

fn rewrap_request(request: Request<'_>, method: Text<'static>, params: String) -> String {
    let params = request.params.is_some().then(|| raw(params));
    Message::Request(Request { id: request.id, method, params, extra: request.extra }).encode(WireFormat::Any)
}

fn named(method: &'static str, params: String) -> Option<Call> {
    Some((Text::Borrowed(method), params))
}

/// `None`: the call is the same in both versions.
fn call_to_v2(method: &str, params: &str) -> Result<Option<Call>, Error> {
    let at = At::key(method);
    Ok(match method {
        "initialize" => {
            let request = v1::InitializeRequest::decode(params, WireFormat::V1)?;
            named("initialize", initialize::request_to_v2(request).encode(WireFormat::Any))
        }
        "authenticate" => named("auth/login", params.to_owned()),
        "logout" => named("auth/logout", params.to_owned()),
        "session/new" => {
            let request = v1::NewSessionRequest::decode(params, WireFormat::V1)?;
            let mut wire = v2::NewSessionRequest::new(request.cwd);
            wire.additional_directories = request.additional_directories;
            wire.mcp_servers = Some(servers::to_v2(request.mcp_servers, &at.then("mcpServers"))?);
            (wire.meta, wire.extra) = (request.meta, request.extra);
            named("session/new", wire.encode(WireFormat::Any))
        }
        "session/load" => {
            let request = v1::LoadSessionRequest::decode(params, WireFormat::V1)?;
            let mut wire = v2::ResumeSessionRequest::new(request.session_id, request.cwd);
            wire.additional_directories = request.additional_directories;
            wire.mcp_servers = Some(servers::to_v2(request.mcp_servers, &at.then("mcpServers"))?);
            wire.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
            (wire.meta, wire.extra) = (request.meta, request.extra);
            named("session/resume", wire.encode(WireFormat::Any))
        }
        "session/resume" => {
            let request = v1::ResumeSessionRequest::decode(params, WireFormat::V1)?;
            let mut wire = v2::ResumeSessionRequest::new(request.session_id, request.cwd);
            wire.additional_directories = request.additional_directories;
            let at = at.then("mcpServers");
            wire.mcp_servers = request.mcp_servers.map(|list| servers::to_v2(list, &at)).transpose()?;
            (wire.meta, wire.extra) = (request.meta, request.extra);
            named("session/resume", wire.encode(WireFormat::Any))
        }
        "session/set_mode" => {
            return Err(Error::unrepresentable(
                at,
                "version 2 has no modes; the option for them is known only to who remembers it",
            ));
        }
        "session/set_config_option" => {
            let request = v1::SetSessionConfigOptionRequest::decode(params, WireFormat::V1)?;
            let wire = match request {
                v1::SetSessionConfigOptionRequest::Id(set) => v2::SetSessionConfigOptionRequest::Id(set),
                v1::SetSessionConfigOptionRequest::Boolean(set) => {
                    v2::SetSessionConfigOptionRequest::Boolean(set)
                }
                v1::SetSessionConfigOptionRequest::Unknown(unknown) => {
                    v2::SetSessionConfigOptionRequest::Unknown(unknown)
                }
            };
            named("session/set_config_option", wire.encode(WireFormat::Any))
        }
        "session/request_permission" => {
            let request = v1::RequestPermissionRequest::decode(params, WireFormat::V1)?;
            if request.options.is_empty() {
                return Err(Error::unrepresentable(
                    at.then("options"),
                    "version 2 wants at least one option",
                ));
            }
            let title = request.tool_call.title.clone().unwrap_or(Text::Borrowed("Permission requested"));
            let call = tool_call_to_v2(request.tool_call, &at.then("toolCall"))?;
            let mut wire = v2::RequestPermissionRequest::new(request.session_id, title, request.options);
            let subject = v2::ToolCallPermissionSubject::new(call);
            wire.subject = Some(v2::RequestPermissionSubject::ToolCall(Box::new(subject)));
            (wire.meta, wire.extra) = (request.meta, request.extra);
            named("session/request_permission", wire.encode(WireFormat::Any))
        }
        "fs/read_text_file" | "fs/write_text_file" => {
            return Err(Error::unrepresentable(
                at,
                "version 2 clients read and write no files for the agent",
            ));
        }
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => {
            return Err(Error::unrepresentable(at, "version 2 clients run no commands for the agent"));
        }
        _ => None,
    })
}

fn call_to_v1(method: &str, params: &str, omitted: &mut Vec<Note>) -> Result<Option<Call>, Error> {
    let at = At::key(method);
    let mut notes = Notes::failing();
    let call = match method {
        "initialize" => {
            let request = v2::InitializeRequest::decode(params, WireFormat::Any)?;
            let served = Served::default();
            named("initialize", initialize::request_to_v1(request, served).encode(WireFormat::V1))
        }
        "auth/login" => named("authenticate", params.to_owned()),
        "auth/logout" => named("logout", params.to_owned()),
        "session/new" => {
            let request = v2::NewSessionRequest::decode(params, WireFormat::Any)?;
            let list = servers::to_v1(request.mcp_servers.unwrap_or_default(), &at.then("mcpServers"))?;
            let mut wire = v1::NewSessionRequest::new(request.cwd, list);
            wire.additional_directories = request.additional_directories;
            (wire.meta, wire.extra) = (request.meta, request.extra);
            named("session/new", wire.encode(WireFormat::V1))
        }
        "session/resume" => {
            let request = v2::ResumeSessionRequest::decode(params, WireFormat::Any)?;
            let list = servers::to_v1(request.mcp_servers.unwrap_or_default(), &at.then("mcpServers"))?;
            match request.replay_from {
                None => {
                    let mut wire = v1::ResumeSessionRequest::new(request.session_id, request.cwd);
                    wire.mcp_servers = Some(list);
                    wire.additional_directories = request.additional_directories;
                    (wire.meta, wire.extra) = (request.meta, request.extra);
                    named("session/resume", wire.encode(WireFormat::V1))
                }
                Some(v2::ReplayFrom::Start(_)) => {
                    let mut wire = v1::LoadSessionRequest::new(request.session_id, request.cwd, list);
                    wire.additional_directories = request.additional_directories;
                    (wire.meta, wire.extra) = (request.meta, request.extra);
                    named("session/load", wire.encode(WireFormat::V1))
                }
                Some(v2::ReplayFrom::Unknown(unknown)) => {
                    let reason = format!("version 1 cannot replay from \"{}\"", unknown.tag);
                    return Err(Error::unrepresentable(at.then("replayFrom"), reason));
                }
            }
        }
        "session/set_config_option" => {
            let request = v2::SetSessionConfigOptionRequest::decode(params, WireFormat::Any)?;
            let wire = match request {
                v2::SetSessionConfigOptionRequest::Id(set) => v1::SetSessionConfigOptionRequest::Id(set),
                v2::SetSessionConfigOptionRequest::Boolean(set) => {
                    v1::SetSessionConfigOptionRequest::Boolean(set)
                }
                v2::SetSessionConfigOptionRequest::Unknown(unknown) => {
                    let reason = format!("version 1 has no values of type \"{}\"", unknown.tag);
                    return Err(Error::unrepresentable(at.then("value"), reason));
                }
            };
            named("session/set_config_option", wire.encode(WireFormat::V1))
        }
        "session/request_permission" => {
            let request = v2::RequestPermissionRequest::decode(params, WireFormat::Any)?;
            named("session/request_permission", permission_to_v1(request, &at, &mut notes)?)
        }
        "tool_call/cancel" | "terminal/cancel" => {
            return Err(Error::unrepresentable(at, "version 1 can cancel a whole turn only"));
        }
        _ => None,
    };
    omitted.append(&mut notes.entries);
    Ok(call)
}

fn permission_to_v1(
    request: v2::RequestPermissionRequest<'_>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<String, Error> {
    let subject = match request.subject {
        Some(v2::RequestPermissionSubject::ToolCall(subject)) => subject,
        Some(other) => {
            let reason = format!("version 1 permissions are about tool calls, not \"{}\"", other.tag());
            return Err(Error::unrepresentable(at.then("subject"), reason));
        }
        None => {
            return Err(Error::unrepresentable(
                at.then("subject"),
                "version 1 permissions are about tool calls",
            ));
        }
    };
    if request.description.is_some() {
        let reason = "version 1 has no words of the prompt apart from the tool call's own";
        return Err(Error::unrepresentable(at.then("description"), reason));
    }
    let mut call = tool_call_to_v1(subject.tool_call, &at.then("subject.toolCall"), notes)?;
    match &call.title {
        Some(title) if *title != request.title => {
            let reason = "version 1 has one title for the prompt and the tool call, and they differ";
            return Err(Error::unrepresentable(at.then("title"), reason));
        }
        Some(_) => {}
        None => call.title = Some(request.title),
    }
    let options = permission::options_to_v1(request.options, &at.then("options"), notes)?;
    let mut wire = v1::RequestPermissionRequest::new(request.session_id, call, options);
    (wire.meta, wire.extra) = (request.meta, request.extra);
    Ok(wire.encode(WireFormat::V1))
}

/// `None`: the result is the same in both versions.
fn result_to_v2(method: &str, result: &str, omitted: &mut Vec<Note>) -> Result<Option<String>, Error> {
    let at = At::key(method);
    let mut notes = Notes::failing();
    let result = match method {
        "initialize" => {
            let response = v1::InitializeResponse::decode(result, WireFormat::V1)?;
            let converted = initialize::response_to_v2(response, "unknown-agent", &mut Notes::default())?;
            Some(converted.encode(WireFormat::Any))
        }
        "session/new" => {
            let response = v1::NewSessionResponse::decode(result, WireFormat::V1)?;
            let mut wire = v2::NewSessionResponse::new(response.session_id);
            wire.config_options = options_to_v2(response.modes, response.config_options, &at, &mut notes)?;
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::Any))
        }
        "session/load" | "session/resume" => {
            let response = v1::LoadSessionResponse::decode(result, WireFormat::V1)?;
            let mut wire = v2::ResumeSessionResponse::new();
            wire.config_options = options_to_v2(response.modes, response.config_options, &at, &mut notes)?;
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::Any))
        }
        "session/set_config_option" => {
            let response = v1::SetSessionConfigOptionResponse::decode(result, WireFormat::V1)?;
            let options = config::to_v2(response.config_options, &at.then("configOptions"), &mut notes)?;
            let mut wire = v2::SetSessionConfigOptionResponse::new(options);
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::Any))
        }
        "session/prompt" => {
            let reason = "version 2 answers a prompt when it is accepted and tells its end by a state";
            return Err(Error::unrepresentable(at.then("stopReason"), reason));
        }
        _ => None,
    };
    omitted.append(&mut notes.entries);
    Ok(result)
}

fn options_to_v2<'a>(
    modes: Option<v1::SessionModeState<'a>>,
    options: Option<Vec<v1::SessionConfigOption<'a>>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Option<Vec<v2::SessionConfigOption<'a>>>, Error> {
    if let Some(modes) = modes {
        if options.is_none() {
            return Ok(Some(vec![config::option_of_modes(&modes, "mode")]));
        }
        let reason = "a client that knows options looks at those, not at modes";
        notes.omit(Severity::Minor, &at.then("modes"), reason);
    }
    options.map(|options| config::to_v2(options, &at.then("configOptions"), notes)).transpose()
}

/// `None`: the result is the same in both versions.
fn result_to_v1(method: &str, result: &str, omitted: &mut Vec<Note>) -> Result<Option<String>, Error> {
    let at = At::key(method);
    let mut notes = Notes::failing();
    let result = match method {
        "initialize" => {
            let response = v2::InitializeResponse::decode(result, WireFormat::Any)?;
            Some(initialize::response_to_v1(response, &mut notes)?.encode(WireFormat::V1))
        }
        "session/new" => {
            let response = v2::NewSessionResponse::decode(result, WireFormat::Any)?;
            if response.available_commands.is_some() {
                let reason = "version 1 tells commands by an update only";
                return Err(Error::unrepresentable(at.then("availableCommands"), reason));
            }
            let mut wire = v1::NewSessionResponse::new(response.session_id);
            wire.config_options = options_to_v1(response.config_options, &at, &mut notes)?;
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::V1))
        }
        "session/resume" => {
            let response = v2::ResumeSessionResponse::decode(result, WireFormat::Any)?;
            if response.available_commands.is_some() {
                let reason = "version 1 tells commands by an update only";
                return Err(Error::unrepresentable(at.then("availableCommands"), reason));
            }
            let mut wire = v1::LoadSessionResponse::new();
            wire.config_options = options_to_v1(response.config_options, &at, &mut notes)?;
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::V1))
        }
        "session/set_config_option" => {
            let response = v2::SetSessionConfigOptionResponse::decode(result, WireFormat::Any)?;
            let options =
                config::to_v1(response.config_options, true, &at.then("configOptions"), &mut notes)?;
            let mut wire = v1::SetSessionConfigOptionResponse::new(options);
            (wire.meta, wire.extra) = (response.meta, response.extra);
            Some(wire.encode(WireFormat::V1))
        }
        "session/prompt" => {
            let reason = "version 1 answers a prompt when the turn has ended, which a state tells later";
            return Err(Error::unrepresentable(at, reason));
        }
        "session/request_permission" => {
            let response = v2::RequestPermissionResponse::decode(result, WireFormat::Any)?;
            if let v2::RequestPermissionOutcome::Unknown(unknown) = &response.outcome {
                let reason = format!("version 1 has no outcome \"{}\"", unknown.tag);
                return Err(Error::unrepresentable(at.then("outcome"), reason));
            }
            None
        }
        _ => None,
    };
    omitted.append(&mut notes.entries);
    Ok(result)
}

fn options_to_v1<'a>(
    options: Option<Vec<v2::SessionConfigOption<'a>>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Option<Vec<v1::SessionConfigOption<'a>>>, Error> {
    options.map(|options| config::to_v1(options, true, &at.then("configOptions"), notes)).transpose()
}
