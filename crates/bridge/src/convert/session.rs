//! Requests that open sessions, prompts, and the responses.

use switchboard_acp::extensions::TURN;
use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::v2::unstable::SystemPrompt;
use switchboard_acp::{Meta, Text, Wire, WireFormat, v1, v2};

use crate::Error;
use crate::convert::meta::{self, Origin};
use crate::convert::{Conversion, content, message::Rest, servers};
use crate::loss::Severity;

pub(crate) fn new_to_v2<'a>(
    request: v1::NewSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::NewSessionRequest<'a>, Error> {
    let v1::NewSessionRequest {
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v2, cx)?;
    let mcp_servers = Some(cx.key("mcpServers").each(mcp_servers, servers::to_v2)?);
    Ok(v2::NewSessionRequest {
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

pub(crate) fn new_to_v1<'a>(
    request: v2::NewSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::NewSessionRequest<'a>, Error> {
    let v2::NewSessionRequest {
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v1, cx)?;
    let mcp_servers = cx.key("mcpServers").each(mcp_servers.unwrap_or_default(), servers::to_v1)?;
    Ok(v1::NewSessionRequest {
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts a request to fork a session.
pub(crate) fn fork_to_v2<'a>(
    request: v1::unstable::ForkSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::unstable::ForkSessionRequest<'a>, Error> {
    let v1::unstable::ForkSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v2, cx)?;
    let mcp_servers = mcp_servers.map(|list| cx.key("mcpServers").each(list, servers::to_v2)).transpose()?;
    Ok(v2::unstable::ForkSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

pub(crate) fn fork_to_v1<'a>(
    request: v2::unstable::ForkSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::unstable::ForkSessionRequest<'a>, Error> {
    let v2::unstable::ForkSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v1, cx)?;
    let mcp_servers = mcp_servers.map(|list| cx.key("mcpServers").each(list, servers::to_v1)).transpose()?;
    Ok(v1::unstable::ForkSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts the status of a session. Version 1 states whether it is open, but not whether it is busy.
pub(crate) fn status_to_v1<'a>(
    answer: v2::unstable::SessionStatusResponse<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::unstable::SessionStatusResponse<'a>, Error> {
    let v2::unstable::SessionStatusResponse { status, state, meta, extra, more: _ } = answer;
    if state.is_some() {
        cx.key("state")
            .report_loss(Severity::Minor, "version 1 does not say whether a session is running")?;
    }
    Ok(v1::unstable::SessionStatusResponse { status, meta, extra, more: switchboard_acp::More })
}

pub(crate) fn status_to_v2(
    answer: v1::unstable::SessionStatusResponse<'_>,
) -> v2::unstable::SessionStatusResponse<'_> {
    let v1::unstable::SessionStatusResponse { status, mut meta, mut extra, more: _ } = answer;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["state"]);
    v2::unstable::SessionStatusResponse { status, state: None, meta, extra, more: switchboard_acp::More }
}

/// Converts a system prompt. It must arrive complete: a loss is an error.
fn prompt_words<'a>(
    prompt: Option<SystemPrompt<'a>>,
    convert: fn(v2::ContentBlock<'a>, &mut Conversion<'_>) -> Result<v2::ContentBlock<'a>, Error>,
    cx: &mut Conversion<'_>,
) -> Result<Option<SystemPrompt<'a>>, Error> {
    let Some(prompt) = prompt else { return Ok(None) };
    let SystemPrompt { mode, content, meta, extra, more: _ } = prompt;
    let content = cx.key("systemPrompt").key("content").each(content, convert)?;
    Ok(Some(SystemPrompt { mode, content, meta, extra, more: switchboard_acp::More }))
}

/// Converts a load to a resume with full replay.
pub(crate) fn load_to_v2<'a>(
    request: v1::LoadSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ResumeSessionRequest<'a>, Error> {
    let v1::LoadSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        mut meta,
        mut extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v2, cx)?;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["replayFrom"]);
    let mcp_servers = Some(cx.key("mcpServers").each(mcp_servers, servers::to_v2)?);
    let replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
    Ok(v2::ResumeSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        replay_from,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

pub(crate) fn resume_to_v2<'a>(
    request: v1::ResumeSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ResumeSessionRequest<'a>, Error> {
    let v1::ResumeSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        mut meta,
        mut extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v2, cx)?;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["replayFrom"]);
    let mcp_servers = mcp_servers.map(|list| cx.key("mcpServers").each(list, servers::to_v2)).transpose()?;
    Ok(v2::ResumeSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        replay_from: None,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts a resume without replay, or with a replay from another source.
pub(crate) fn resume_to_v1<'a>(
    request: v2::ResumeSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::ResumeSessionRequest<'a>, Error> {
    let v1::LoadSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: _,
    } = load_to_v1(request, cx)?;
    let mcp_servers = Some(mcp_servers);
    Ok(v1::ResumeSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts a resume to a load, whose replay the caller may suppress.
pub(crate) fn load_to_v1<'a>(
    request: v2::ResumeSessionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::LoadSessionRequest<'a>, Error> {
    let v2::ResumeSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        replay_from,
        system_prompt,
        mut meta,
        extra,
        more: _,
    } = request;
    let system_prompt = prompt_words(system_prompt, content::to_v1, cx)?;
    match replay_from {
        None => {}
        Some(v2::ReplayFrom::Start(start)) if start == v2::EmptyObject::new() => {}
        Some(start @ v2::ReplayFrom::Start(_)) => {
            meta::add(&mut meta, meta::REPLAY_FROM, &meta::raw(&start));
        }
        Some(v2::ReplayFrom::Unknown(unknown)) => {
            let reason = format!("a version 1 agent cannot replay from \"{}\"", unknown.tag);
            return Err(cx.key("replayFrom").error(reason));
        }
        Some(v2::ReplayFrom::More(none)) => none.never(),
    }
    let mcp_servers = cx.key("mcpServers").each(mcp_servers.unwrap_or_default(), servers::to_v1)?;
    Ok(v1::LoadSessionRequest {
        session_id,
        cwd,
        additional_directories,
        mcp_servers,
        system_prompt,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts the response to a request that creates a session. The caller has already taken modes, options and
/// commands from it.
pub(crate) fn made_to_v2<'a>(
    answer: v1::NewSessionResponse<'a>,
    config_options: Option<Vec<v2::SessionConfigOption<'a>>>,
) -> v2::NewSessionResponse<'a> {
    let v1::NewSessionResponse { session_id, modes: _, config_options: _, mut meta, mut extra, more } =
        answer;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["availableCommands"]);
    v2::NewSessionResponse { session_id, config_options, available_commands: None, meta, extra, more }
}

/// Converts the response to a request that resumes a session.
pub(crate) fn resumed_to_v2<'a>(
    answer: v1::LoadSessionResponse<'a>,
    config_options: Option<Vec<v2::SessionConfigOption<'a>>>,
) -> v2::ResumeSessionResponse<'a> {
    let v1::LoadSessionResponse { modes: _, config_options: _, mut meta, mut extra, more } = answer;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["availableCommands"]);
    v2::ResumeSessionResponse { config_options, available_commands: None, meta, extra, more }
}

/// Modes and options of a session for a version 1 client.
pub(crate) type Choices<'a> = (Option<v1::SessionModeState<'a>>, Option<Vec<v1::SessionConfigOption<'a>>>);

/// Converts the response to a request that creates a session, in the other direction than [`made_to_v2`].
pub(crate) fn made_to_v1<'a>(
    answer: v2::NewSessionResponse<'a>,
    (modes, config_options): Choices<'a>,
) -> v1::NewSessionResponse<'a> {
    let v2::NewSessionResponse {
        session_id,
        config_options: _,
        available_commands: _,
        mut meta,
        mut extra,
        more,
    } = answer;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["modes"]);
    v1::NewSessionResponse { session_id, modes, config_options, meta, extra, more }
}

/// Converts the response to a request that resumes a session, in the other direction than [`resumed_to_v2`].
pub(crate) fn resumed_to_v1<'a>(
    answer: v2::ResumeSessionResponse<'a>,
    (modes, config_options): Choices<'a>,
) -> v1::LoadSessionResponse<'a> {
    let v2::ResumeSessionResponse { config_options: _, available_commands: _, mut meta, mut extra, more } =
        answer;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["modes"]);
    v1::LoadSessionResponse { modes, config_options, meta, extra, more }
}

pub(crate) fn prompt_to_v2<'a>(
    request: v1::PromptRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::PromptRequest<'a>, Error> {
    let v1::PromptRequest { session_id, prompt, meta, extra, more: _ } = request;
    let prompt = cx.key("prompt").each(prompt, content::to_v2)?;
    Ok(v2::PromptRequest { session_id, prompt, meta, extra, more: switchboard_acp::More })
}

/// Converts a prompt, which must arrive complete: a block that version 1 does not have is an error.
pub(crate) fn prompt_to_v1<'a>(
    request: v2::PromptRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::PromptRequest<'a>, Error> {
    let v2::PromptRequest { session_id, prompt, meta, extra, more: _ } = request;
    let prompt = cx.key("prompt").each(prompt, |block, cx| match block.as_unknown() {
        Some(unknown) => Err(cx.error(format!("version 1 has no content of type \"{}\"", unknown.tag))),
        None => content::to_v1(block, cx),
    })?;
    Ok(v1::PromptRequest { session_id, prompt, meta, extra, more: switchboard_acp::More })
}

/// Converts the end of a turn to the idle state.
pub(crate) fn prompt_answer_to_v2(answer: v1::PromptResponse<'_>) -> v2::IdleState<'_> {
    let v1::PromptResponse { stop_reason, usage, mut meta, mut extra, more: _ } = answer;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["sessionUpdate", "state", "error", "background"]);
    let usage = usage.map(Box::new);
    v2::IdleState {
        stop_reason: Some(stop_reason),
        error: None,
        usage,
        background: None,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Splits the response that accepts a prompt into the message id and the rest, which belongs to the end of
/// the turn.
pub(crate) fn acceptance(answer: v2::PromptResponse<'_>) -> (Option<Text<'_>>, Rest<'_>) {
    let v2::PromptResponse { message_id, mut meta, mut extra, more: _ } = answer;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["stopReason"]);
    (message_id, Rest { meta, extra })
}

/// Removes the turn's outcome from the metadata of a prompt response; `None` if there is none.
pub(crate) fn turn_outcome(meta: &mut Option<Meta<'static>>) -> Option<Option<v2::IdleState<'static>>> {
    let told = TURN.read(meta.as_ref()?)?;
    let ended = match v2::SessionUpdate::decode(told.as_str(), WireFormat::Any) {
        Ok(v2::SessionUpdate::StateUpdate(state)) => match *state.into_owned() {
            v2::StateUpdate::Idle(idle) => Some(idle),
            _ => None,
        },
        _ => None,
    };
    *meta = meta.as_ref().and_then(|meta| {
        let mut rest = meta.entries().filter(|(key, _)| key != TURN.name()).peekable();
        rest.peek().is_some().then(|| Meta::from_entries(rest))
    });
    Some(ended)
}

/// Converts the end of work to the response of its prompt, or to its error. `accepted` is the metadata of the
/// agent's acceptance.
pub(crate) fn idle_to_v1<'a>(
    idle: v2::IdleState<'a>,
    is_cancelled: bool,
    accepted: Rest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Result<v1::PromptResponse<'a>, RpcError<'a>>, Error> {
    let v2::IdleState { stop_reason, error, usage, background, meta, extra, more: _ } = idle;
    if background.is_some() {
        cx.key("background").report_loss(Severity::Minor, "version 1 has no background work")?;
    }
    // The response to the prompt has the first value of a key, which wins. `cx` is the position of the second
    // one, so that the report names the dropped value.
    if stop_reason == Some(v2::StopReason::Error) {
        let mut failed = match error {
            Some(error) => *error,
            None => RpcError::new(codes::INTERNAL_ERROR, "the agent failed"),
        };
        let own = failed.extra.remove("_meta").and_then(|own| Meta::parse(own.as_str().to_owned()).ok());
        let joined = meta::join(accepted.meta, own, &mut cx.key("error"))?;
        let joined = meta::join(joined, meta, cx)?;
        let own = meta::join_extra(accepted.extra, failed.extra, &mut cx.key("error"))?;
        failed.extra = meta::join_extra(own, extra, cx)?;
        if let Some(meta) = joined {
            failed.extra.insert("_meta", meta.as_raw().clone());
        }
        if usage.is_some() {
            cx.key("usage").report_loss(Severity::Minor, "version 1 has no usage in errors")?;
        }
        return Ok(Err(failed));
    }
    let mut meta = meta::join(accepted.meta, meta, cx)?;
    let extra = meta::join_extra(accepted.extra, extra, cx)?;
    if error.is_some() {
        cx.key("error")
            .report_loss(Severity::Minor, "the state has an error although the work did not fail")?;
    }
    let stop_reason = match stop_reason {
        Some(v2::StopReason::Unknown(word)) => {
            let reason = format!("version 1 has no stop reason \"{word}\"; \"end_turn\" stands for it");
            cx.key("stopReason").report_loss(Severity::Minor, reason)?;
            meta::add(&mut meta, meta::STOP_REASON, &meta::text(&word));
            v1::StopReason::EndTurn
        }
        Some(reason) => reason,
        None if is_cancelled => v1::StopReason::Cancelled,
        None => v1::StopReason::EndTurn,
    };
    let usage = usage.map(|usage| *usage);
    Ok(Ok(v1::PromptResponse { stop_reason, usage, meta, extra, more: switchboard_acp::More }))
}

/// Reports the content of a state that version 1 expresses with a pending request or a question.
pub(crate) fn report_lost_state(state: &v2::StateUpdate<'_>, cx: &mut Conversion<'_>) -> Result<(), Error> {
    let (background, meta, extra) = match state {
        v2::StateUpdate::Running(active)
        | v2::StateUpdate::RequiresAction(active)
        | v2::StateUpdate::Unobservable(active) => {
            let v2::ActiveState { background, meta, extra, more: _ } = active;
            (background, meta, extra)
        }
        v2::StateUpdate::Idle(idle) => {
            // The stop reason of work without a prompt has no place either, but carries no news.
            let v2::IdleState { stop_reason: _, error, usage, background, meta, extra, more: _ } = idle;
            if usage.is_some() {
                cx.key("usage")
                    .report_loss(Severity::Minor, "no prompt is pending whose response could carry it")?;
            }
            if error.is_some() {
                cx.key("error").report_loss(Severity::Major, "no prompt is pending that could fail")?;
            }
            (background, meta, extra)
        }
        v2::StateUpdate::Unknown(unknown) => {
            return cx.report_loss(Severity::Minor, format!("version 1 has no state \"{}\"", unknown.tag));
        }
        v2::StateUpdate::More(none) => none.never(),
    };
    if background.is_some() {
        cx.key("background").report_loss(Severity::Minor, "version 1 has no background work")?;
    }
    cx.report_lost_rest(meta.as_ref(), extra, "version 1 has no states; the pending request implies this one")
}
