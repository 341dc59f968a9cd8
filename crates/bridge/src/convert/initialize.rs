//! The handshake: names, capabilities and ways to log in.

use switchboard_protocol::{Text, Wire, v1, v2};

use crate::Error;
use crate::loss::{At, Notes, Severity};

/// What the bridge itself adds to a client of version 2 that talks to an agent of version 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    pub(crate) files: bool,
    pub(crate) terminals: bool,
}

/// The client's words to a version 2 agent.
pub(crate) fn request_to_v2<'a>(request: v1::InitializeRequest<'a>) -> v2::InitializeRequest<'a> {
    let info = request.client_info.unwrap_or_else(|| v2::Implementation::new("unknown-client", "unknown"));
    let offered = request.client_capabilities;
    let mut capabilities = v2::ClientCapabilities::new();
    if let Some(offered) = offered {
        if let Some(auth) = offered.auth.filter(|auth| auth.terminal == Some(true)) {
            let mut wire = v2::ClientAuthCapabilities::new();
            wire.terminal = Some(v2::EmptyObject::new());
            wire.meta = auth.meta;
            capabilities.auth = Some(wire);
        }
        capabilities.elicitation = offered.elicitation.map(|elicitation| {
            let mut wire = v2::ElicitationCapabilities::new();
            (wire.form, wire.url, wire.meta) = (elicitation.form, elicitation.url, elicitation.meta);
            wire
        });
        capabilities.meta = offered.meta;
    }
    let mut wire = v2::InitializeRequest::new(2u16, info);
    wire.capabilities = Some(capabilities);
    wire.meta = request.meta;
    wire
}

/// The client's words to a version 1 agent.
pub(crate) fn request_to_v1<'a>(
    request: v2::InitializeRequest<'a>,
    served: Served,
) -> v1::InitializeRequest<'a> {
    let offered = request.capabilities.unwrap_or_else(v2::ClientCapabilities::new);
    let mut capabilities = v1::ClientCapabilities::new();
    let mut files = v1::FileSystemCapabilities::new();
    (files.read_text_file, files.write_text_file) = (Some(served.files), Some(served.files));
    capabilities.fs = Some(files);
    capabilities.terminal = Some(served.terminals);
    let mut session = v1::ClientSessionCapabilities::new();
    session.notices = Some(v1::EmptyObject::new());
    session.compaction = Some(v1::EmptyObject::new());
    let mut options = v1::SessionConfigOptionsCapabilities::new();
    options.boolean = Some(v1::EmptyObject::new());
    session.config_options = Some(options);
    capabilities.session = Some(session);
    if offered.auth.is_some_and(|auth| auth.terminal.is_some()) {
        let mut auth = v1::ClientAuthCapabilities::new();
        auth.terminal = Some(true);
        capabilities.auth = Some(auth);
    }
    capabilities.elicitation = offered.elicitation.map(|elicitation| {
        let mut wire = v1::ElicitationCapabilities::new();
        (wire.form, wire.url, wire.meta) = (elicitation.form, elicitation.url, elicitation.meta);
        wire
    });
    // Agents that run commands themselves then tell what they put out.
    let yes = switchboard_protocol::Raw::from(serde_json::Value::Bool(true));
    capabilities.meta = Some(crate::convert::meta::with_entry(offered.meta, "terminal_output", &yes));
    let mut wire = v1::InitializeRequest::new(1u16);
    wire.client_capabilities = Some(capabilities);
    wire.client_info = Some(request.info);
    wire.meta = request.meta;
    wire
}

/// A version 2 agent's words to a version 1 client.
pub(crate) fn response_to_v1<'a>(
    response: v2::InitializeResponse<'a>,
    notes: &mut Notes,
) -> Result<v1::InitializeResponse<'a>, Error> {
    let offered = response.capabilities.unwrap_or_else(v2::AgentCapabilities::new);
    let Some(session) = offered.session else {
        return Err(Error::unrepresentable("capabilities.session", "the agent has no sessions"));
    };
    let mut capabilities = v1::AgentCapabilities::new();
    capabilities.load_session = Some(true);
    if let Some(prompt) = session.prompt {
        let mut wire = v1::PromptCapabilities::new();
        wire.image = Some(prompt.image.is_some());
        wire.audio = Some(prompt.audio.is_some());
        wire.embedded_context = Some(prompt.embedded_context.is_some());
        wire.meta = prompt.meta;
        capabilities.prompt_capabilities = Some(wire);
    }
    let mut servers = v1::McpCapabilities::new();
    servers.http = Some(session.mcp.as_ref().is_some_and(|mcp| mcp.http.is_some()));
    servers.sse = Some(false);
    capabilities.mcp_capabilities = Some(servers);
    let mut methods = v1::SessionCapabilities::new();
    methods.list = Some(v1::EmptyObject::new());
    methods.resume = Some(v1::EmptyObject::new());
    methods.close = Some(v1::EmptyObject::new());
    methods.delete = session.delete;
    methods.additional_directories = session.additional_directories;
    methods.meta = session.meta;
    capabilities.session_capabilities = Some(methods);
    capabilities.meta = offered.meta;
    let mut auth_methods = Vec::new();
    let at = At::key("authMethods");
    for (index, method) in response.auth_methods.unwrap_or_default().into_iter().enumerate() {
        match method {
            v2::AuthMethod::Agent(method) => auth_methods.push(v1::AuthMethod::Agent(v1::AuthMethodAgent {
                id: method.method_id,
                name: method.name,
                description: method.description,
                meta: method.meta,
                extra: method.extra,
            })),
            v2::AuthMethod::Terminal(method) => {
                let env =
                    method.env.map(|env| env.into_iter().map(|entry| (entry.name, entry.value)).collect());
                auth_methods.push(v1::AuthMethod::Terminal(v1::AuthMethodTerminal {
                    id: method.method_id,
                    name: method.name,
                    description: method.description,
                    args: method.args,
                    env,
                    meta: method.meta,
                    extra: method.extra,
                }));
            }
            v2::AuthMethod::Unknown(unknown) => {
                let reason = format!("version 1 has no login of type \"{}\"", unknown.tag);
                notes.lose(Severity::Minor, &at.item(index), reason)?;
            }
        }
    }
    if !auth_methods.is_empty() {
        let mut auth = v1::AgentAuthCapabilities::new();
        auth.logout = Some(v1::EmptyObject::new());
        capabilities.auth = Some(auth);
    }
    let mut wire = v1::InitializeResponse::new(1u16);
    wire.agent_capabilities = Some(capabilities);
    wire.auth_methods = Some(auth_methods);
    wire.agent_info = Some(response.info);
    wire.meta = response.meta;
    Ok(wire)
}

/// A version 1 agent's words to a version 2 client.
pub(crate) fn response_to_v2<'a>(
    response: v1::InitializeResponse<'a>,
    program: &str,
    notes: &mut Notes,
) -> Result<v2::InitializeResponse<'a>, Error> {
    let offered = response.agent_capabilities.unwrap_or_else(v1::AgentCapabilities::new);
    let mark = |supported: Option<bool>| (supported == Some(true)).then(v2::EmptyObject::new);
    let mut session = v2::SessionCapabilities::new();
    if let Some(prompt) = offered.prompt_capabilities {
        let mut wire = v2::PromptCapabilities::new();
        wire.image = mark(prompt.image);
        wire.audio = mark(prompt.audio);
        wire.embedded_context = mark(prompt.embedded_context);
        wire.meta = prompt.meta;
        session.prompt = Some(wire);
    }
    let mut servers = v2::McpCapabilities::new();
    servers.stdio = Some(v2::EmptyObject::new());
    if let Some(mcp) = offered.mcp_capabilities {
        servers.http = mark(mcp.http);
        if mcp.sse == Some(true) {
            let at = At::key("agentCapabilities.mcpCapabilities.sse");
            notes.lose(Severity::Minor, &at, "version 2 has no servers that send events (sse)")?;
        }
    }
    session.mcp = Some(servers);
    if let Some(methods) = offered.session_capabilities {
        session.delete = methods.delete;
        session.additional_directories = methods.additional_directories;
        session.meta = methods.meta;
    }
    let mut capabilities = v2::AgentCapabilities::new();
    capabilities.session = Some(session);
    capabilities.meta = offered.meta;
    let mut auth_methods = Vec::new();
    for method in response.auth_methods.unwrap_or_default() {
        match method {
            v1::AuthMethod::Agent(method) => auth_methods.push(v2::AuthMethod::Agent(v2::AuthMethodAgent {
                method_id: method.id,
                name: method.name,
                description: method.description,
                meta: method.meta,
                extra: method.extra,
            })),
            v1::AuthMethod::Terminal(method) => {
                let env = method.env.map(|env| {
                    let variable = |(name, value): (&str, &Text<'a>)| {
                        v2::EnvVariable::new(name.to_owned(), value.clone())
                    };
                    env.iter().map(variable).collect()
                });
                auth_methods.push(v2::AuthMethod::Terminal(v2::AuthMethodTerminal {
                    method_id: method.id,
                    name: method.name,
                    description: method.description,
                    args: method.args,
                    env,
                    meta: method.meta,
                    extra: method.extra,
                }));
            }
            v1::AuthMethod::Unknown(unknown) => {
                let reason = format!("a login that version 1 does not define: \"{}\"", unknown.tag);
                notes.lose(Severity::Minor, &At::key("authMethods"), reason)?;
            }
        }
    }
    let info = response
        .agent_info
        .unwrap_or_else(|| v2::Implementation::new(program.to_owned(), "unknown").into_owned());
    let mut wire = v2::InitializeResponse::new(2u16, info);
    wire.capabilities = Some(capabilities);
    wire.auth_methods = Some(auth_methods);
    wire.meta = response.meta;
    Ok(wire)
}
