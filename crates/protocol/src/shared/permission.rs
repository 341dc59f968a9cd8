//! The choices of a permission request and the answer to it.

use crate::Text;
use crate::macros::{object, open_enum, union};
use crate::shared::common::EmptyObject;

object! {
    /// One choice that the user has.
    PermissionOption {
        /// The name by which an answer chooses it.
        required option_id: Text<'a> = "optionId",
        /// The words on the button.
        required name: Text<'a> = "name",
        /// What choosing it means, as a hint for display.
        required kind: PermissionOptionKind = "kind",
    } with optional _meta
}

open_enum! {
    /// What choosing an option means.
    PermissionOptionKind {
        /// Allow this once.
        AllowOnce = "allow_once",
        /// Allow this and what is like it from now on.
        AllowAlways = "allow_always",
        /// Refuse this once.
        RejectOnce = "reject_once",
        /// Refuse this and what is like it from now on.
        RejectAlways = "reject_always",
    }
}

object! {
    /// The answer to a permission request.
    RequestPermissionResponse {
        /// What the user chose, if anything.
        required outcome: RequestPermissionOutcome<'a> = "outcome",
    } with optional _meta
}

union! {
    /// What became of a permission request. Only `selected` with an option that was offered can be an
    /// approval; everything unknown is not.
    RequestPermissionOutcome by "outcome" {
        /// No choice was made.
        Cancelled(EmptyObject<'a>) = "cancelled",
        /// One of the options was chosen.
        Selected(SelectedPermissionOutcome<'a>) = "selected",
    }
}

object! {
    /// The option that was chosen.
    SelectedPermissionOutcome {
        /// The option's name, as the request gave it.
        required option_id: Text<'a> = "optionId",
    } with optional _meta
}
