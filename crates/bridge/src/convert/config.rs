//! Configuration options, and the modes of version 1.

use switchboard_protocol::{Extra, Text, Wire, v1, v2};

use crate::Error;
use crate::convert::content::whole;
use crate::loss::{At, Notes, Severity};

/// Options as version 1 has them. `booleans`: the client takes switches.
pub(crate) fn to_v1<'a>(
    options: Vec<v2::SessionConfigOption<'a>>,
    booleans: bool,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<v1::SessionConfigOption<'a>>, Error> {
    let mut converted = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        let at = at.item(index);
        match option {
            v2::SessionConfigOption::Select(select) => {
                converted.push(v1::SessionConfigOption::Select(select_to_v1(select)));
            }
            v2::SessionConfigOption::Boolean(_) if !booleans => {
                notes.lose(Severity::Minor, &at, "the client takes no options that are on or off")?;
            }
            v2::SessionConfigOption::Boolean(boolean) => {
                converted.push(v1::SessionConfigOption::Boolean(v1::SessionConfigBoolean {
                    id: boolean.config_id,
                    name: boolean.name,
                    description: boolean.description,
                    category: boolean.category,
                    current_value: boolean.current_value,
                    meta: boolean.meta,
                    extra: boolean.extra,
                }));
            }
            v2::SessionConfigOption::Unknown(unknown) => {
                let reason = format!("version 1 has no options of type \"{}\"", unknown.tag);
                notes.lose(Severity::Minor, &at, reason)?;
            }
        }
    }
    Ok(converted)
}

fn select_to_v1(select: v2::SessionConfigSelect<'_>) -> v1::SessionConfigSelect<'_> {
    let options = match select.options {
        v2::SessionConfigSelectOptions::Flat(options) => v1::SessionConfigSelectOptions::Flat(options),
        v2::SessionConfigSelectOptions::Grouped(groups) => v1::SessionConfigSelectOptions::Grouped(
            groups
                .into_iter()
                .map(|group| v1::SessionConfigSelectGroup {
                    group: group.group_id,
                    name: group.name,
                    options: group.options,
                    meta: group.meta,
                    extra: group.extra,
                })
                .collect(),
        ),
    };
    v1::SessionConfigSelect {
        id: select.config_id,
        name: select.name,
        description: select.description,
        category: select.category,
        current_value: select.current_value,
        options,
        meta: select.meta,
        extra: select.extra,
    }
}

/// Options as version 2 has them.
pub(crate) fn to_v2<'a>(
    options: Vec<v1::SessionConfigOption<'a>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<v2::SessionConfigOption<'a>>, Error> {
    let mut converted = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        let at = at.item(index);
        match option {
            v1::SessionConfigOption::Select(select) => {
                if select.options.has_empty_list() {
                    notes.lose(Severity::Minor, &at, "version 2 has no choice of nothing")?;
                } else {
                    converted.push(v2::SessionConfigOption::Select(select_to_v2(select)));
                }
            }
            v1::SessionConfigOption::Boolean(boolean) => {
                converted.push(v2::SessionConfigOption::Boolean(v2::SessionConfigBoolean {
                    config_id: boolean.id,
                    name: boolean.name,
                    description: boolean.description,
                    category: boolean.category,
                    current_value: boolean.current_value,
                    meta: boolean.meta,
                    extra: boolean.extra,
                }));
            }
            v1::SessionConfigOption::Unknown(unknown) => {
                let payload = whole(&unknown, "type");
                let reason = format!("an option that version 1 does not define: {payload}");
                notes.lose(Severity::Minor, &at, reason)?;
            }
        }
    }
    Ok(converted)
}

fn select_to_v2(select: v1::SessionConfigSelect<'_>) -> v2::SessionConfigSelect<'_> {
    let options = match select.options {
        v1::SessionConfigSelectOptions::Flat(options) => v2::SessionConfigSelectOptions::Flat(options),
        v1::SessionConfigSelectOptions::Grouped(groups) => v2::SessionConfigSelectOptions::Grouped(
            groups
                .into_iter()
                .map(|group| v2::SessionConfigSelectGroup {
                    group_id: group.group,
                    name: group.name,
                    options: group.options,
                    meta: group.meta,
                    extra: group.extra,
                })
                .collect(),
        ),
    };
    v2::SessionConfigSelect {
        config_id: select.id,
        name: select.name,
        description: select.description,
        category: select.category,
        current_value: select.current_value,
        options,
        meta: select.meta,
        extra: select.extra,
    }
}

/// The option that stands for the modes of a version 1 agent that has no other options.
pub(crate) fn option_of_modes(
    modes: &v1::SessionModeState<'_>,
    config_id: &str,
) -> v2::SessionConfigOption<'static> {
    let values = modes.available_modes.iter().map(|mode| {
        let mut value = v2::SessionConfigSelectOption::new(
            Text::Owned(mode.id.clone().into_owned()),
            Text::Owned(mode.name.clone().into_owned()),
        );
        value.description = mode.description.clone().map(Wire::into_owned);
        value.meta = mode.meta.clone().map(Wire::into_owned);
        value
    });
    let mut select = v2::SessionConfigSelect::new(
        Text::Owned(config_id.to_owned()),
        "Mode",
        Text::Owned(modes.current_mode_id.clone().into_owned()),
        values.collect::<Vec<_>>(),
    );
    select.category = Some(v2::SessionConfigOptionCategory::Mode);
    v2::SessionConfigOption::Select(select)
}

/// The first choice among the options that is about modes.
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

/// The modes that a choice stands for, for clients of version 1 that know no options.
pub(crate) fn modes_of_option(select: &v2::SessionConfigSelect<'_>) -> v1::SessionModeState<'static> {
    let modes = select.options.iter().map(|value| v1::SessionMode {
        id: Text::Owned(value.value.clone().into_owned()),
        name: Text::Owned(value.name.clone().into_owned()),
        description: value.description.clone().map(Wire::into_owned),
        meta: None,
        extra: Extra::new(),
    });
    let current = Text::Owned(select.current_value.clone().into_owned());
    v1::SessionModeState::new(current, modes.collect::<Vec<_>>())
}
