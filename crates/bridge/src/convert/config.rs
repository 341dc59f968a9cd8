//! Configuration options, and the modes of version 1.

use switchboard_acp::{Extra, Text, Wire, v1, v2};

use crate::Error;
use crate::convert::content::whole;
use crate::convert::meta::{self, Origin};
use crate::convert::{Conversion, message::Rest};
use crate::loss::Severity;

/// Converts options to version 1. `booleans`: the client supports boolean options.
pub(crate) fn to_v1<'a>(
    options: Vec<v2::SessionConfigOption<'a>>,
    booleans: bool,
    cx: &mut Conversion<'_>,
) -> Result<Vec<v1::SessionConfigOption<'a>>, Error> {
    let mut converted = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        let mut cx = cx.item(index);
        match option {
            v2::SessionConfigOption::Select(select) => {
                converted.push(v1::SessionConfigOption::Select(select_to_v1(select)));
            }
            v2::SessionConfigOption::Boolean(boolean) if !booleans => {
                converted.push(v1::SessionConfigOption::Select(switch_to_v1(boolean)));
            }
            v2::SessionConfigOption::Boolean(boolean) => {
                converted.push(v1::SessionConfigOption::Boolean(boolean_to_v1(boolean)));
            }
            v2::SessionConfigOption::Unknown(unknown) => {
                let reason = format!("version 1 has no options of type \"{}\"", unknown.tag);
                cx.report_loss(Severity::Minor, reason)?;
            }
            v2::SessionConfigOption::More(none) => none.never(),
        }
    }
    Ok(converted)
}

fn boolean_to_v1(boolean: v2::SessionConfigBoolean<'_>) -> v1::SessionConfigBoolean<'_> {
    let v2::SessionConfigBoolean {
        config_id,
        name,
        description,
        category,
        current_value,
        mut meta,
        mut extra,
        more: _,
    } = boolean;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["id"]);
    v1::SessionConfigBoolean {
        id: config_id,
        name,
        description,
        category,
        current_value,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Values of a boolean option that is shown as a select option.
const SWITCH: [(&str, &str); 2] = [("off", "Off"), ("on", "On")];

/// Converts a boolean option for a client without boolean support: a select option with `off` and `on`.
fn switch_to_v1(boolean: v2::SessionConfigBoolean<'_>) -> v1::SessionConfigSelect<'_> {
    let v1::SessionConfigBoolean {
        id,
        name,
        description,
        category,
        current_value,
        mut meta,
        mut extra,
        more: _,
    } = boolean_to_v1(boolean);
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["options"]);
    let values = SWITCH.map(|(value, name)| v2::SessionConfigSelectOption::new(value, name));
    v1::SessionConfigSelect {
        id,
        name,
        description,
        category,
        current_value: Text::Borrowed(SWITCH[usize::from(current_value)].0),
        options: v1::SessionConfigSelectOptions::Flat(values.into()),
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Converts a selected value to the boolean option that it represents.
pub(crate) fn set_switch_to_v2<'a>(
    request: v2::SetConfigId<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::SetSessionConfigOptionRequest<'a>, Error> {
    let v2::SetConfigId { session_id, config_id, value, mut meta, mut extra, more: _ } = request;
    let Some(is_on) = SWITCH.iter().position(|(word, _)| *word == value) else {
        return Err(cx.key("value").error(format!("\"{value}\" is neither \"off\" nor \"on\"")));
    };
    meta::disambiguate_type(&mut meta, &mut extra, "boolean");
    let set = v2::SetConfigBoolean {
        session_id,
        config_id,
        value: is_on == 1,
        meta,
        extra,
        more: switchboard_acp::More,
    };
    Ok(v2::SetSessionConfigOptionRequest::Boolean(set))
}

fn boolean_to_v2(boolean: v1::SessionConfigBoolean<'_>) -> v2::SessionConfigBoolean<'_> {
    let v1::SessionConfigBoolean {
        id,
        name,
        description,
        category,
        current_value,
        mut meta,
        mut extra,
        more: _,
    } = boolean;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["configId"]);
    v2::SessionConfigBoolean {
        config_id: id,
        name,
        description,
        category,
        current_value,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

fn select_to_v1(select: v2::SessionConfigSelect<'_>) -> v1::SessionConfigSelect<'_> {
    let v2::SessionConfigSelect {
        config_id,
        name,
        description,
        category,
        current_value,
        options,
        mut meta,
        mut extra,
        more: _,
    } = select;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["id"]);
    let options = match options {
        v2::SessionConfigSelectOptions::Flat(options) => v1::SessionConfigSelectOptions::Flat(options),
        v2::SessionConfigSelectOptions::Grouped(groups) => {
            v1::SessionConfigSelectOptions::Grouped(groups.into_iter().map(group_to_v1).collect())
        }
    };
    v1::SessionConfigSelect {
        id: config_id,
        name,
        description,
        category,
        current_value,
        options,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

fn group_to_v1(group: v2::SessionConfigSelectGroup<'_>) -> v1::SessionConfigSelectGroup<'_> {
    let v2::SessionConfigSelectGroup { group_id, name, options, mut meta, mut extra, more: _ } = group;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["group"]);
    v1::SessionConfigSelectGroup { group: group_id, name, options, meta, extra, more: switchboard_acp::More }
}

/// Converts options to version 2.
pub(crate) fn to_v2<'a>(
    options: Vec<v1::SessionConfigOption<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<v2::SessionConfigOption<'a>>, Error> {
    let mut converted = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        let mut cx = cx.item(index);
        match option {
            v1::SessionConfigOption::Select(select) => {
                if select.options.has_empty_list() {
                    cx.report_loss(Severity::Minor, "version 2 has no select option without a value")?;
                } else {
                    converted.push(v2::SessionConfigOption::Select(select_to_v2(select)));
                }
            }
            v1::SessionConfigOption::Boolean(boolean) => {
                converted.push(v2::SessionConfigOption::Boolean(boolean_to_v2(boolean)));
            }
            v1::SessionConfigOption::Unknown(unknown) => {
                let payload = whole(&unknown, "type");
                let reason = format!("an option that version 1 does not define: {payload}");
                cx.report_loss(Severity::Minor, reason)?;
            }
            v1::SessionConfigOption::More(none) => none.never(),
        }
    }
    Ok(converted)
}

fn select_to_v2(select: v1::SessionConfigSelect<'_>) -> v2::SessionConfigSelect<'_> {
    let v1::SessionConfigSelect {
        id,
        name,
        description,
        category,
        current_value,
        options,
        mut meta,
        mut extra,
        more: _,
    } = select;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["configId"]);
    let options = match options {
        v1::SessionConfigSelectOptions::Flat(options) => v2::SessionConfigSelectOptions::Flat(options),
        v1::SessionConfigSelectOptions::Grouped(groups) => {
            v2::SessionConfigSelectOptions::Grouped(groups.into_iter().map(group_to_v2).collect())
        }
    };
    v2::SessionConfigSelect {
        config_id: id,
        name,
        description,
        category,
        current_value,
        options,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

fn group_to_v2(group: v1::SessionConfigSelectGroup<'_>) -> v2::SessionConfigSelectGroup<'_> {
    let v1::SessionConfigSelectGroup { group, name, options, mut meta, mut extra, more: _ } = group;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["groupId"]);
    v2::SessionConfigSelectGroup { group_id: group, name, options, meta, extra, more: switchboard_acp::More }
}

/// Returns the option that stands for the modes of a version 1 agent.
pub(crate) fn option_of_modes<'a>(
    modes: v1::SessionModeState<'a>,
    config_id: &str,
) -> v2::SessionConfigOption<'a> {
    let v1::SessionModeState { current_mode_id, available_modes, mut meta, mut extra, more: _ } = modes;
    let known = ["type", "configId", "name", "description", "category", "currentValue", "options"];
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &known);
    v2::SessionConfigOption::Select(v2::SessionConfigSelect {
        config_id: Text::Owned(config_id.to_owned()),
        name: Text::Borrowed("Mode"),
        description: None,
        category: Some(v2::SessionConfigOptionCategory::Mode),
        current_value: current_mode_id,
        options: v2::SessionConfigSelectOptions::Flat(
            available_modes.into_iter().map(value_of_mode).collect(),
        ),
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

fn value_of_mode(mode: v1::SessionMode<'_>) -> v2::SessionConfigSelectOption<'_> {
    let v1::SessionMode { id, name, description, mut meta, mut extra, more: _ } = mode;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["value"]);
    v2::SessionConfigSelectOption { value: id, name, description, meta, extra, more: switchboard_acp::More }
}

/// Reports the modes of an agent that also has an option for them. Only information that the option lacks is
/// a loss.
pub(crate) fn report_lost_modes(
    modes: &v1::SessionModeState<'_>,
    option: Option<&v2::SessionConfigSelect<'_>>,
    cx: &mut Conversion<'_>,
) -> Result<(), Error> {
    let reason = "a client that supports options ignores modes";
    let v1::SessionModeState { current_mode_id, available_modes, meta, extra, more: _ } = modes;
    if option.is_none_or(|option| option.current_value != *current_mode_id) {
        cx.key("currentModeId").report_loss(Severity::Minor, reason)?;
    }
    cx.report_lost_rest(meta.as_ref(), extra, reason)?;
    let mut cx = cx.key("availableModes");
    for (index, mode) in available_modes.iter().enumerate() {
        let mut cx = cx.item(index);
        let v1::SessionMode { id, name, description, meta, extra, more: _ } = mode;
        let Some(value) = option.and_then(|option| option.options.iter().find(|value| value.value == *id))
        else {
            cx.report_loss(Severity::Minor, reason)?;
            continue;
        };
        if value.name != *name {
            cx.key("name").report_loss(Severity::Minor, reason)?;
        }
        if description.is_some() && value.description != *description {
            cx.key("description").report_loss(Severity::Minor, reason)?;
        }
        cx.report_lost_rest(meta.as_ref(), extra, reason)?;
    }
    Ok(())
}

/// Returns the id of an option of a known kind.
pub(crate) fn id_of<'o>(option: &'o v2::SessionConfigOption<'_>) -> Option<&'o str> {
    match option {
        v2::SessionConfigOption::Select(select) => Some(&select.config_id),
        v2::SessionConfigOption::Boolean(boolean) => Some(&boolean.config_id),
        v2::SessionConfigOption::Unknown(_) => None,
        v2::SessionConfigOption::More(none) => none.never(),
    }
}

/// Returns the first select option of category `mode`.
pub(crate) fn mode_option<'o, 'a>(
    options: &'o [v2::SessionConfigOption<'a>],
) -> Option<&'o v2::SessionConfigSelect<'a>> {
    options.iter().find_map(|option| match option {
        v2::SessionConfigOption::Select(select)
            if select.category == Some(v2::SessionConfigOptionCategory::Mode) =>
        {
            Some(select)
        }
        _ => None,
    })
}

/// Sets the value of the mode option. Returns whether one exists.
pub(crate) fn change_mode(options: &mut [v2::SessionConfigOption<'_>], mode: &str) -> bool {
    for option in options {
        if let v2::SessionConfigOption::Select(select) = option
            && select.category == Some(v2::SessionConfigOptionCategory::Mode)
        {
            select.current_value = Text::Owned(mode.to_owned());
            return true;
        }
    }
    false
}

/// Applies a request to set an option, for agents that do not send the resulting options. Returns whether the
/// option exists.
pub(crate) fn apply(
    options: &mut [v2::SessionConfigOption<'_>],
    request: &v2::SetSessionConfigOptionRequest<'_>,
) -> bool {
    use v2::{SessionConfigOption as Known, SetSessionConfigOptionRequest as Set};
    options.iter_mut().any(|option| match (option, request) {
        (Known::Select(select), Set::Id(set)) if select.config_id == set.config_id => {
            select.current_value = Text::Owned(set.value.clone().into_owned());
            true
        }
        (Known::Boolean(boolean), Set::Boolean(set)) if boolean.config_id == set.config_id => {
            boolean.current_value = set.value;
            true
        }
        _ => false,
    })
}

/// Converts a select option to modes, for version 1 clients that do not know options. The option itself is
/// sent as well.
pub(crate) fn modes_of_option(select: &v2::SessionConfigSelect<'_>) -> v1::SessionModeState<'static> {
    let modes = select.options.iter().map(|value| v1::SessionMode {
        id: Text::Owned(value.value.clone().into_owned()),
        name: Text::Owned(value.name.clone().into_owned()),
        description: value.description.clone().map(Wire::into_owned),
        meta: None,
        extra: Extra::new(),
        more: switchboard_acp::More,
    });
    let current = Text::Owned(select.current_value.clone().into_owned());
    v1::SessionModeState::new(current, modes.collect::<Vec<_>>())
}

/// Converts a request to set an option to version 2.
pub(crate) fn set_to_v2<'a>(
    request: v1::SetSessionConfigOptionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v2::SetSessionConfigOptionRequest<'a>, Error> {
    match request {
        v1::SetSessionConfigOptionRequest::Id(mut set) => {
            meta::disambiguate_type(&mut set.meta, &mut set.extra, "id");
            Ok(v2::SetSessionConfigOptionRequest::Id(set))
        }
        v1::SetSessionConfigOptionRequest::Boolean(set) => {
            Ok(v2::SetSessionConfigOptionRequest::Boolean(set))
        }
        v1::SetSessionConfigOptionRequest::Unknown(unknown) => {
            Err(cx.key("type").error(format!("a value of type \"{}\"", unknown.tag)))
        }
        v1::SetSessionConfigOptionRequest::More(none) => none.never(),
    }
}

/// Converts a request to set an option to version 1.
pub(crate) fn set_to_v1<'a>(
    request: v2::SetSessionConfigOptionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::SetSessionConfigOptionRequest<'a>, Error> {
    match request {
        v2::SetSessionConfigOptionRequest::Id(set) => Ok(v1::SetSessionConfigOptionRequest::Id(set)),
        v2::SetSessionConfigOptionRequest::Boolean(set) => {
            Ok(v1::SetSessionConfigOptionRequest::Boolean(set))
        }
        v2::SetSessionConfigOptionRequest::Unknown(unknown) => {
            let reason = format!("version 1 has no values of type \"{}\"", unknown.tag);
            Err(cx.key("value").error(reason))
        }
        v2::SetSessionConfigOptionRequest::More(none) => none.never(),
    }
}

/// Converts a request to change the mode to one that sets the mode option.
pub(crate) fn set_mode_to_v2<'a>(
    request: v1::SetSessionModeRequest<'a>,
    config_id: &str,
) -> v2::SetSessionConfigOptionRequest<'a> {
    let v1::SetSessionModeRequest { session_id, mode_id, mut meta, mut extra, more: _ } = request;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["type", "configId", "value"]);
    let config_id = Text::Owned(config_id.to_owned());
    v2::SetSessionConfigOptionRequest::Id(v2::SetConfigId {
        session_id,
        config_id,
        value: mode_id,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts a request that sets the mode option to one that changes the mode.
pub(crate) fn set_mode_to_v1(request: v2::SetConfigId<'_>) -> v1::SetSessionModeRequest<'_> {
    let v2::SetConfigId { session_id, config_id: _, value, mut meta, mut extra, more: _ } = request;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["modeId"]);
    v1::SetSessionModeRequest { session_id, mode_id: value, meta, extra, more: switchboard_acp::More }
}

/// Splits the response to a request to set an option into the options, which the caller tracks, and the rest.
pub(crate) fn set_answer_to_v1<'a>(
    answer: v2::SetSessionConfigOptionResponse<'a>,
) -> (Vec<v2::SessionConfigOption<'a>>, Rest<'a>) {
    let v2::SetSessionConfigOptionResponse { config_options, meta, extra, more: _ } = answer;
    (config_options, Rest { meta, extra })
}

/// Splits the response to a request to set an option into the options, which the caller tracks, and the rest.
pub(crate) fn set_answer_to_v2<'a>(
    answer: v1::SetSessionConfigOptionResponse<'a>,
) -> (Vec<v1::SessionConfigOption<'a>>, Rest<'a>) {
    let v1::SetSessionConfigOptionResponse { config_options, meta, extra, more: _ } = answer;
    (config_options, Rest { meta, extra })
}

/// Converts the response to a mode change to the list of all options.
pub(crate) fn mode_answer_to_v2<'a>(
    answer: v1::EmptyResponse<'a>,
    options: Vec<v2::SessionConfigOption<'a>>,
) -> v2::SetSessionConfigOptionResponse<'a> {
    let v1::EmptyResponse { mut meta, mut extra, more: _ } = answer;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["configOptions"]);
    v2::SetSessionConfigOptionResponse { config_options: options, meta, extra, more: switchboard_acp::More }
}

/// Converts a change of the mode to the list of all options.
pub(crate) fn mode_update_to_v2<'a>(
    update: v1::CurrentModeUpdate<'a>,
    options: Vec<v2::SessionConfigOption<'a>>,
) -> v2::ConfigOptionUpdate<'a> {
    let v1::CurrentModeUpdate { current_mode_id: _, mut meta, mut extra, more: _ } = update;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["configOptions"]);
    v2::ConfigOptionUpdate { config_options: options, meta, extra, more: switchboard_acp::More }
}
