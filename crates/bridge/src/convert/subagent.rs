//! Sub-agents, which are nearly the same in both versions.

use switchboard_acp::{Field, Text, v1, v2};

use crate::Error;
use crate::convert::meta::{self, Origin};
use crate::convert::{Conversion, content};
use crate::loss::Severity;

/// Converts a sub-agent to version 2.
pub(crate) fn to_v2(update: v1::unstable::SubagentUpdate<'_>) -> v2::unstable::SubagentUpdate<'_> {
    let v1::unstable::SubagentUpdate {
        session_id,
        title,
        description,
        capabilities,
        state,
        cwd,
        additional_directories,
        meta,
        extra,
        more: _,
    } = update;
    v2::unstable::SubagentUpdate {
        session_id,
        title,
        description,
        capabilities,
        state: state.map(state_to_v2),
        cwd,
        additional_directories,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

fn state_to_v2(state: v1::unstable::StateUpdate<'_>) -> v2::StateUpdate<'_> {
    use v1::unstable::StateUpdate as V1;
    // This key has a meaning in version 2 only.
    let active = |state| {
        let v2::EmptyObject { mut meta, mut extra, more: _ } = state;
        meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["background"]);
        v2::ActiveState { background: None, meta, extra, more: switchboard_acp::More }
    };
    match state {
        V1::Running(state) => v2::StateUpdate::Running(active(state)),
        V1::RequiresAction(state) => v2::StateUpdate::RequiresAction(active(state)),
        V1::Unobservable(state) => v2::StateUpdate::Unobservable(active(state)),
        V1::Idle(state) => {
            let v1::unstable::IdleState { stop_reason, error, usage, mut meta, mut extra, more: _ } = state;
            meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["background"]);
            let stop_reason = stop_reason.map(|reason| v2::StopReason::from(&*reason));
            v2::StateUpdate::Idle(v2::IdleState {
                stop_reason,
                error,
                usage,
                background: None,
                meta,
                extra,
                more: switchboard_acp::More,
            })
        }
        V1::Unknown(unknown) => v2::StateUpdate::Unknown(unknown),
        V1::More(none) => none.never(),
    }
}

/// Converts a sub-agent to version 1, for clients that support sub-agents.
pub(crate) fn to_v1<'a>(
    update: v2::unstable::SubagentUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::unstable::SubagentUpdate<'a>, Error> {
    let v2::unstable::SubagentUpdate {
        session_id,
        title,
        description,
        capabilities,
        state,
        cwd,
        additional_directories,
        meta,
        extra,
        more: _,
    } = update;
    let state = match state {
        Field::Set(state) => Field::Set(state_to_v1(state, &mut cx.key("state"))?),
        Field::Clear => Field::Clear,
        Field::Keep => Field::Keep,
    };
    Ok(v1::unstable::SubagentUpdate {
        session_id,
        title,
        description,
        capabilities,
        state,
        cwd,
        additional_directories,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

fn state_to_v1<'a>(
    state: v2::StateUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::unstable::StateUpdate<'a>, Error> {
    use v1::unstable::StateUpdate as V1;
    let mut without_background = |background: Option<Vec<v2::BackgroundWork<'a>>>| match background {
        Some(_) => cx.key("background").report_loss(Severity::Minor, "version 1 has no background work"),
        None => Ok(()),
    };
    let mut active = |state| {
        let v2::ActiveState { background, meta, extra, more: _ } = state;
        without_background(background)?;
        Ok::<_, Error>(v2::EmptyObject { meta, extra, more: switchboard_acp::More })
    };
    Ok(match state {
        v2::StateUpdate::Running(state) => V1::Running(active(state)?),
        v2::StateUpdate::RequiresAction(state) => V1::RequiresAction(active(state)?),
        v2::StateUpdate::Unobservable(state) => V1::Unobservable(active(state)?),
        v2::StateUpdate::Idle(state) => {
            let v2::IdleState { stop_reason, error, usage, background, meta, extra, more: _ } = state;
            without_background(background)?;
            let stop_reason = stop_reason.map(|reason| Text::Owned(reason.as_str().to_owned()));
            V1::Idle(v1::unstable::IdleState {
                stop_reason,
                error,
                usage,
                meta,
                extra,
                more: switchboard_acp::More,
            })
        }
        v2::StateUpdate::Unknown(unknown) => V1::Unknown(unknown),
        v2::StateUpdate::More(none) => none.never(),
    })
}

/// Converts a session reference in a tool call to text, because version 1 has none.
pub(crate) fn reference_in_words<'a>(
    reference: v2::unstable::SessionReference<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::ToolCallContent<'a>, Error> {
    cx.report_loss(Severity::Minor, "version 1 has no sessions in tool calls; a text is shown in its place")?;
    let v2::unstable::SessionReference { session_id, meta, extra, more: _ } = reference;
    let block = content::to_v1(v2::ContentBlock::text(format!("[session {session_id}]")), cx)?;
    Ok(v1::ToolCallContent::Content(v1::Content { content: block, meta, extra, more: switchboard_acp::More }))
}
