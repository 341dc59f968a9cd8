//! The choices of a permission request and the answer to it.

use crate::macros::{object, open_enum, union};
use crate::shared::common::EmptyObject;
use crate::{Meta, Text};

object! {
    /// One choice that the user has.
    PermissionOption {
        required option_id: Text<'a> = "optionId",
        required name: Text<'a> = "name",
        required kind: PermissionOptionKind = "kind",
        optional meta: Meta<'a> = "_meta",
    }
}

open_enum! {
    /// What choosing an option means.
    PermissionOptionKind {
        AllowOnce = "allow_once",
        AllowAlways = "allow_always",
        RejectOnce = "reject_once",
        RejectAlways = "reject_always",
    }
}

object! {
    /// The answer to a permission request.
    RequestPermissionResponse {
        required outcome: RequestPermissionOutcome<'a> = "outcome",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// What became of a permission request. Only `selected` with an option that was offered can be an
    /// approval; everything unknown is not.
    RequestPermissionOutcome by "outcome" {
        /// No choice was made.
        Cancelled(EmptyObject<'a>) = "cancelled",
        Selected(SelectedPermissionOutcome<'a>) = "selected",
    }
}

object! {
    /// The option that was chosen.
    SelectedPermissionOutcome {
        required option_id: Text<'a> = "optionId",
        optional meta: Meta<'a> = "_meta",
    }
}
