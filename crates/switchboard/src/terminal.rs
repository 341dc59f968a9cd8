//! Output for a terminal. All that an agent sends goes through [`switchboard_acp::display::visible`] first.

pub(crate) mod diff;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
