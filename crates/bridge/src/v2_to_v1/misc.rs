//! Plans, commands, options, usage, notices, compactions and unknown updates.

use switchboard_acp::{Wire, v1, v2};

use super::Active;
use crate::convert::{config, update};
use crate::loss::Severity;

impl Active<'_> {
    pub(super) fn other_update(&mut self, update: v1::SessionUpdate<'_>) {
        use v1::SessionUpdate as Update;
        let tag = update.tag().to_owned();
        let wire = match update {
            Update::CurrentModeUpdate(update) => {
                let mode = &*update.current_mode_id;
                // Modes are an option in version 2, so the change is sent as the complete list of options.
                if !self.session.options.change(|options| config::change_mode(options, mode)) {
                    let reason = "the agent changed its mode but never sent its modes";
                    return self.report_loss(&tag, "/params/update", reason, Severity::Minor);
                }
                let wire = config::mode_update_to_v2(update, self.session.options.to_vec());
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            Update::ConfigOptionUpdate(update) => {
                let converted =
                    self.context.convert_update(self.id, &tag, |cx| update::options_update_to_v2(update, cx));
                let Some(mut wire) = converted else { return };
                // Keep the mode option, which version 1 agents do not repeat.
                wire.config_options = self.session.with_mode_option(wire.config_options.into_owned(), None);
                v2::SessionUpdate::ConfigOptionUpdate(wire)
            }
            other => match self.context.convert_update(self.id, &tag, |cx| update::to_v2(other, cx)) {
                Some(Ok(wire)) => wire,
                // Updates that need state have been handled before.
                Some(Err(_)) | None => return,
            },
        };
        self.tell(wire);
    }
}
