//! The handshake: names, capabilities and login methods.

use switchboard_acp::extensions::{V1_FILES, V1_TERMINALS};
use switchboard_acp::v2::EmptyObject;
use switchboard_acp::{Map, Meta, Text, Wire, WireFormat, v1, v2};

use crate::Error;
use crate::convert::Conversion;
use crate::convert::meta::{self, Origin, keep, keep_mark};
use crate::loss::Severity;

/// Capabilities that the bridge adds for a version 2 client of a version 1 agent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    pub(crate) files: bool,
    pub(crate) terminals: bool,
}

/// Converts a version 1 flag to a version 2 marker object.
fn mark(flag: Option<bool>) -> Option<EmptyObject<'static>> {
    (flag == Some(true)).then(EmptyObject::new)
}

/// Converts a version 2 marker object to a flag. The content of the marker is kept as metadata.
fn flag(mark: Option<&EmptyObject<'_>>, name: &str, meta: &mut Option<Meta<'_>>) -> bool {
    keep_mark(meta, Origin::V2, name, mark);
    mark.is_some()
}

/// Converts the client's handshake for a version 2 agent.
pub(crate) fn request_to_v2(request: v1::InitializeRequest<'_>) -> v2::InitializeRequest<'_> {
    // The bridge sets the agent's version.
    let v1::InitializeRequest {
        protocol_version: _,
        client_capabilities,
        client_info,
        mut meta,
        mut extra,
        more: _,
    } = request;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["info", "capabilities"]);
    let info = client_info.unwrap_or_else(|| v2::Implementation::new("unknown-client", "unknown"));
    let capabilities = client_capabilities.map_or_else(v2::ClientCapabilities::new, client_to_v2);
    v2::InitializeRequest {
        protocol_version: 2,
        info,
        capabilities: Some(capabilities),
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Converts client capabilities to version 2. File and terminal access do not exist there and are kept as
/// metadata.
fn client_to_v2(offered: v1::ClientCapabilities<'_>) -> v2::ClientCapabilities<'_> {
    let v1::ClientCapabilities {
        fs,
        terminal,
        session,
        auth,
        elicitation,
        // Every version 2 client supports both.
        subagents,
        plan,
        mut meta,
        extra,
        more: _,
    } = offered;
    keep(&mut meta, Origin::V1, "subagents", subagents.as_ref());
    keep(&mut meta, Origin::V1, "plan", plan.as_ref());
    keep(&mut meta, Origin::V1, "fs", fs.as_ref());
    keep(&mut meta, Origin::V1, "terminal", terminal.as_ref());
    keep(&mut meta, Origin::V1, "session", session.as_ref());
    let auth = auth.and_then(|auth| {
        let v1::ClientAuthCapabilities { terminal, meta, extra, more: _ } = auth;
        let auth =
            v2::ClientAuthCapabilities { terminal: mark(terminal), meta, extra, more: switchboard_acp::More };
        (auth != v2::ClientAuthCapabilities::new()).then_some(auth)
    });
    let elicitation = elicitation.map(|elicitation| {
        let v1::ElicitationCapabilities { form, url, meta, extra, more: _ } = elicitation;
        v2::ElicitationCapabilities { form, url, meta, extra, more: switchboard_acp::More }
    });
    v2::ClientCapabilities { auth, elicitation, meta, extra, more: switchboard_acp::More }
}

/// Converts the client's handshake for a version 1 agent.
pub(crate) fn request_to_v1(request: v2::InitializeRequest<'_>, served: Served) -> v1::InitializeRequest<'_> {
    // The bridge sets the agent's version.
    let v2::InitializeRequest { protocol_version: _, info, capabilities, mut meta, mut extra, more: _ } =
        request;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["clientInfo", "clientCapabilities"]);
    let offered = capabilities.unwrap_or_else(v2::ClientCapabilities::new);
    let client_capabilities = Some(client_to_v1(offered, served));
    v1::InitializeRequest {
        protocol_version: 1,
        client_capabilities,
        client_info: Some(info),
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

fn client_to_v1(offered: v2::ClientCapabilities<'_>, served: Served) -> v1::ClientCapabilities<'_> {
    let v2::ClientCapabilities { auth, elicitation, mut meta, mut extra, more: _ } = offered;
    meta::disambiguate(
        &mut meta,
        Origin::V2,
        &mut extra,
        &["fs", "terminal", "session", "subagents", "plan"],
    );
    // Agents that run commands themselves then report their output.
    meta::add(&mut meta, "terminal_output", &switchboard_acp::Raw::from(serde_json::Value::Bool(true)));
    // A version 1 client of a hub has files and terminals of its own.
    let own = meta::take(&mut meta, V1_FILES.name());
    let own = own.and_then(|own| {
        v1::FileSystemCapabilities::decode(own.as_str(), WireFormat::V1).ok().map(Wire::into_owned)
    });
    let fs = own.unwrap_or_else(|| {
        let mut fs = v1::FileSystemCapabilities::new();
        (fs.read_text_file, fs.write_text_file) = (Some(served.files), Some(served.files));
        fs
    });
    let runs_commands = meta::take(&mut meta, V1_TERMINALS.name()).is_some_and(|own| own.as_str() == "true");
    let mut session = v1::ClientSessionCapabilities::new();
    session.notices = Some(EmptyObject::new());
    session.compaction = Some(EmptyObject::new());
    let mut options = v1::SessionConfigOptionsCapabilities::new();
    options.boolean = Some(EmptyObject::new());
    session.config_options = Some(options);
    let auth = auth.and_then(|auth| {
        let v2::ClientAuthCapabilities { terminal, mut meta, extra, more: _ } = auth;
        let terminal = flag(terminal.as_ref(), "terminal", &mut meta).then_some(true);
        let auth = v1::ClientAuthCapabilities { terminal, meta, extra, more: switchboard_acp::More };
        (auth != v1::ClientAuthCapabilities::new()).then_some(auth)
    });
    let elicitation = elicitation.map(|elicitation| {
        let v2::ElicitationCapabilities { form, url, meta, extra, more: _ } = elicitation;
        v1::ElicitationCapabilities { form, url, meta, extra, more: switchboard_acp::More }
    });
    v1::ClientCapabilities {
        fs: Some(fs),
        terminal: Some(served.terminals || runs_commands),
        session: Some(session),
        auth,
        elicitation,
        // Every version 2 client gets sub-agent updates.
        subagents: Some(EmptyObject::new()),
        plan: Some(EmptyObject::new()),
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Converts a version 2 agent's handshake response for a version 1 client.
pub(crate) fn response_to_v1<'a>(
    response: v2::InitializeResponse<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::InitializeResponse<'a>, Error> {
    // The bridge sets the client's version.
    let v2::InitializeResponse {
        protocol_version: _,
        info,
        capabilities,
        auth_methods,
        mut meta,
        mut extra,
        more: _,
    } = response;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["agentInfo", "agentCapabilities"]);
    let offered = capabilities.unwrap_or_else(v2::AgentCapabilities::new);
    let mut methods = Vec::new();
    let mut at_methods = cx.key("authMethods");
    for (index, method) in auth_methods.unwrap_or_default().into_iter().enumerate() {
        methods.extend(login_to_v1(method, &mut at_methods.item(index))?);
    }
    let capabilities = agent_to_v1(offered, !methods.is_empty(), &mut cx.key("capabilities"))?;
    Ok(v1::InitializeResponse {
        protocol_version: 1,
        agent_capabilities: Some(capabilities),
        auth_methods: Some(methods),
        agent_info: Some(info),
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

fn agent_to_v1<'a>(
    offered: v2::AgentCapabilities<'a>,
    has_logins: bool,
    cx: &mut Conversion<'_>,
) -> Result<v1::AgentCapabilities<'a>, Error> {
    let v2::AgentCapabilities { session, auth, providers, mut meta, mut extra, more: _ } = offered;
    let Some(session) = session else { return Err(cx.key("session").error("the agent has no sessions")) };
    let known = ["loadSession", "promptCapabilities", "mcpCapabilities", "sessionCapabilities"];
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &known);
    let v2::SessionCapabilities {
        prompt,
        mcp,
        delete,
        additional_directories,
        fork,
        archive,
        title,
        status,
        system_prompt,
        meta: mut session_meta,
        extra: mut session_extra,
        more: _,
    } = session;
    meta::disambiguate(&mut session_meta, Origin::V2, &mut session_extra, &["list", "resume", "close"]);
    let prompt_capabilities = prompt.map(|prompt| {
        let v2::PromptCapabilities { image, audio, embedded_context, mut meta, extra, more: _ } = prompt;
        v1::PromptCapabilities {
            image: Some(flag(image.as_ref(), "image", &mut meta)),
            audio: Some(flag(audio.as_ref(), "audio", &mut meta)),
            embedded_context: Some(flag(embedded_context.as_ref(), "embeddedContext", &mut meta)),
            meta,
            extra,
            more: switchboard_acp::More,
        }
    });
    let v2::McpCapabilities { stdio, http, acp, meta: mut mcp_meta, extra: mut mcp_extra, more: _ } =
        mcp.unwrap_or_else(v2::McpCapabilities::new);
    meta::disambiguate(&mut mcp_meta, Origin::V2, &mut mcp_extra, &["sse"]);
    // Version 1 implies stdio.
    keep_mark(&mut mcp_meta, Origin::V2, "stdio", stdio.as_ref());
    let http = Some(flag(http.as_ref(), "http", &mut mcp_meta));
    let acp = flag(acp.as_ref(), "acp", &mut mcp_meta).then_some(true);
    let auth = match auth {
        None if has_logins => Some(v2::AgentAuthCapabilities::new()),
        auth => auth,
    };
    let auth = auth.map(|auth| {
        let v2::AgentAuthCapabilities { status, mut meta, mut extra, more: _ } = auth;
        meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["logout"]);
        v1::AgentAuthCapabilities {
            // A version 1 agent may have it without offering a login.
            logout: (meta::take_mark(&mut meta, Origin::V1, "logout") || has_logins).then(EmptyObject::new),
            status,
            meta,
            extra,
            more: switchboard_acp::More,
        }
    });
    Ok(v1::AgentCapabilities {
        load_session: Some(true),
        prompt_capabilities,
        mcp_capabilities: Some(v1::McpCapabilities {
            http,
            sse: Some(false),
            acp,
            meta: mcp_meta,
            extra: mcp_extra,
            more: switchboard_acp::More,
        }),
        session_capabilities: Some(v1::SessionCapabilities {
            list: Some(EmptyObject::new()),
            delete,
            additional_directories,
            resume: Some(EmptyObject::new()),
            close: Some(EmptyObject::new()),
            fork,
            archive,
            title,
            status,
            system_prompt,
            meta: session_meta,
            extra: session_extra,
            more: switchboard_acp::More,
        }),
        auth,
        providers,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

fn login_to_v1<'a>(
    method: v2::AuthMethod<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Option<v1::AuthMethod<'a>>, Error> {
    Ok(match method {
        v2::AuthMethod::Agent(method) => {
            let v2::AuthMethodAgent { method_id, name, description, mut meta, mut extra, more: _ } = method;
            meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["id"]);
            let method = v1::AuthMethodAgent {
                id: method_id,
                name,
                description,
                meta,
                extra,
                more: switchboard_acp::More,
            };
            Some(v1::AuthMethod::Agent(method))
        }
        v2::AuthMethod::Terminal(method) => {
            let v2::AuthMethodTerminal {
                method_id,
                name,
                description,
                args,
                env,
                mut meta,
                mut extra,
                more: _,
            } = method;
            meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["id"]);
            let env = env.map(|env| environment_to_v1(env, &mut meta, &mut cx.key("env"))).transpose()?;
            let method = v1::AuthMethodTerminal {
                id: method_id,
                name,
                description,
                args,
                env,
                meta,
                extra,
                more: switchboard_acp::More,
            };
            Some(v1::AuthMethod::Terminal(method))
        }
        v2::AuthMethod::Unknown(unknown) => {
            let reason = format!("version 1 has no login of type \"{}\"", unknown.tag);
            cx.report_loss(Severity::Minor, reason)?;
            None
        }
        v2::AuthMethod::More(none) => none.never(),
    })
}

/// Converts environment variables to the map of version 1: each name once, with only its value.
fn environment_to_v1<'a>(
    env: Vec<v2::EnvVariable<'a>>,
    meta: &mut Option<Meta<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Map<'a, Text<'a>>, Error> {
    if env.iter().any(|variable| variable.meta.is_some() || !variable.extra.is_empty()) {
        keep(meta, Origin::V2, "env", Some(&env));
    }
    let mut entries: Vec<(Text<'a>, Text<'a>)> = Vec::with_capacity(env.len());
    for (index, variable) in env.into_iter().enumerate() {
        // The rest of the variable is in the metadata.
        let v2::EnvVariable { name, value, meta: _, extra: _, more: _ } = variable;
        if entries.iter().any(|(known, _)| *known == name) {
            cx.item(index).report_loss(Severity::Minor, format!("version 1 has one value for {name}"))?;
        } else {
            entries.push((name, value));
        }
    }
    Ok(entries.into_iter().collect())
}

/// Converts a version 1 agent's handshake response for a version 2 client.
pub(crate) fn response_to_v2<'a>(
    response: v1::InitializeResponse<'a>,
    program: &str,
    cx: &mut Conversion<'_>,
) -> Result<v2::InitializeResponse<'a>, Error> {
    // The bridge sets the client's version.
    let v1::InitializeResponse {
        protocol_version: _,
        agent_capabilities,
        auth_methods,
        agent_info,
        mut meta,
        mut extra,
        more: _,
    } = response;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["info", "capabilities"]);
    let offered = agent_capabilities.unwrap_or_else(v1::AgentCapabilities::new);
    let capabilities = agent_to_v2(offered, &mut cx.key("agentCapabilities"))?;
    let mut methods = Vec::new();
    let mut at_methods = cx.key("authMethods");
    for (index, method) in auth_methods.unwrap_or_default().into_iter().enumerate() {
        methods.extend(login_to_v2(method, &mut at_methods.item(index))?);
    }
    let info =
        agent_info.unwrap_or_else(|| v2::Implementation::new(program.to_owned(), "unknown").into_owned());
    Ok(v2::InitializeResponse {
        protocol_version: 2,
        info,
        capabilities: Some(capabilities),
        auth_methods: Some(methods),
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

fn agent_to_v2<'a>(
    offered: v1::AgentCapabilities<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::AgentCapabilities<'a>, Error> {
    let v1::AgentCapabilities {
        // Required in version 2. The bridge emulates it for agents that lack it.
        load_session: _,
        prompt_capabilities,
        mcp_capabilities,
        session_capabilities,
        auth,
        providers,
        mut meta,
        mut extra,
        more: _,
    } = offered;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["session"]);
    let prompt = prompt_capabilities.map(|prompt| {
        let v1::PromptCapabilities { image, audio, embedded_context, meta, extra, more: _ } = prompt;
        let (image, audio, embedded_context) = (mark(image), mark(audio), mark(embedded_context));
        v2::PromptCapabilities { image, audio, embedded_context, meta, extra, more: switchboard_acp::More }
    });
    let v1::McpCapabilities { http, sse, acp, meta: mut mcp_meta, extra: mut mcp_extra, more: _ } =
        mcp_capabilities.unwrap_or_else(v1::McpCapabilities::new);
    meta::disambiguate(&mut mcp_meta, Origin::V1, &mut mcp_extra, &["stdio"]);
    if sse == Some(true) {
        let reason = "version 2 has no servers that send events (sse)";
        cx.key("mcpCapabilities").key("sse").report_loss(Severity::Minor, reason)?;
    }
    let stdio = Some(EmptyObject::new());
    let (http, acp) = (mark(http), mark(acp));
    let mcp = Some(v2::McpCapabilities {
        stdio,
        http,
        acp,
        meta: mcp_meta,
        extra: mcp_extra,
        more: switchboard_acp::More,
    });
    let v1::SessionCapabilities {
        list,
        delete,
        additional_directories,
        resume,
        close,
        fork,
        archive,
        title,
        status,
        system_prompt,
        meta: mut session_meta,
        extra: mut session_extra,
        more: _,
    } = session_capabilities.unwrap_or_else(v1::SessionCapabilities::new);
    meta::disambiguate(&mut session_meta, Origin::V1, &mut session_extra, &["prompt", "mcp"]);
    // Required in version 2. The bridge emulates those that the agent lacks.
    for (name, marked) in [("list", list), ("resume", resume), ("close", close)] {
        keep_mark(&mut session_meta, Origin::V1, name, marked.as_ref());
    }
    let auth = auth.and_then(|auth| {
        let v1::AgentAuthCapabilities { logout, status, mut meta, extra, more: _ } = auth;
        // Every version 2 agent with logins can log out. Without logins, this records the capability.
        keep(&mut meta, Origin::V1, "logout", logout.as_ref());
        let auth = v2::AgentAuthCapabilities { status, meta, extra, more: switchboard_acp::More };
        (auth != v2::AgentAuthCapabilities::new()).then_some(auth)
    });
    let session = Some(v2::SessionCapabilities {
        prompt,
        mcp,
        delete,
        additional_directories,
        fork,
        archive,
        title,
        status,
        system_prompt,
        meta: session_meta,
        extra: session_extra,
        more: switchboard_acp::More,
    });
    Ok(v2::AgentCapabilities { session, auth, providers, meta, extra, more: switchboard_acp::More })
}

fn login_to_v2<'a>(
    method: v1::AuthMethod<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Option<v2::AuthMethod<'a>>, Error> {
    Ok(match method {
        v1::AuthMethod::Agent(method) => {
            let v1::AuthMethodAgent { id, name, description, mut meta, mut extra, more: _ } = method;
            meta::disambiguate_type(&mut meta, &mut extra, "agent");
            meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["methodId"]);
            let method = v2::AuthMethodAgent {
                method_id: id,
                name,
                description,
                meta,
                extra,
                more: switchboard_acp::More,
            };
            Some(v2::AuthMethod::Agent(method))
        }
        v1::AuthMethod::Terminal(method) => {
            let v1::AuthMethodTerminal { id, name, description, args, env, mut meta, mut extra, more: _ } =
                method;
            meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["methodId"]);
            let env = env.map(|env| {
                let variable =
                    |(name, value): (&str, &Text<'a>)| v2::EnvVariable::new(name.to_owned(), value.clone());
                env.iter().map(variable).collect()
            });
            let method = v2::AuthMethodTerminal {
                method_id: id,
                name,
                description,
                args,
                env,
                meta,
                extra,
                more: switchboard_acp::More,
            };
            Some(v2::AuthMethod::Terminal(method))
        }
        v1::AuthMethod::Unknown(unknown) => {
            let reason = format!("a login that version 1 does not define: \"{}\"", unknown.tag);
            cx.report_loss(Severity::Minor, reason)?;
            None
        }
        v1::AuthMethod::More(none) => none.never(),
    })
}
