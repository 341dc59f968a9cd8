//! Plans, commands, options, usage, notices, compactions, and what nobody knows.

use switchboard_protocol::{Wire, v1, v2};

use super::{Session, tell};
use crate::Side;
use crate::convert::{config, update};
use crate::loss::Severity;
use crate::shared::Shared;

impl Session {
    pub(super) fn other_update(
        &mut self,
        id: &str,
        update: v1::SessionUpdate<'_>,
        keeps: bool,
        shared: &mut Shared,
    ) {
        use v1::SessionUpdate as Update;
        let tag = update.tag().to_owned();
        let wire = match update {
            Update::CurrentModeUpdate(update) => {
                if !config::change_mode(&mut self.options, &update.current_mode_id) {
                    let reason = "the agent changed its mode, but has told of no modes";
                    return shared.lose(
                        Some(id),
                        &tag,
                        "/params/update",
                        reason,
                        Severity::Minor,
                        Side::Client,
                    );
                }
                let wire = config::mode_update_to_v2(update, self.options.clone());
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            Update::ConfigOptionUpdate(update) => {
                let converted =
                    shared.convert_update(id, &tag, |cx| update::options_update_to_v2(update, cx));
                let Some(mut wire) = converted else { return };
                self.options = self.beside_modes(wire.config_options.into_owned(), None);
                wire.config_options = self.options.clone();
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            other => match shared.convert_update(id, &tag, |cx| update::to_v2(other, cx)) {
                Some(Ok(wire)) => wire,
                // What needs memory has been handled before.
                Some(Err(_)) | None => return,
            },
        };
        tell(id, self, wire, keeps, shared);
    }
}
