//! Options of a permission request, and the response to it.

use crate::Text;
use crate::macros::{object, open_enum, union};
use crate::shared::common::EmptyObject;

object! {
    /// One option for the user.
    PermissionOption {
        /// Id with which a response selects it.
        required option_id: Text<'a> = "optionId",
        /// Label of the option.
        required name: Text<'a> = "name",
        /// Effect of the option, as a hint for display.
        required kind: PermissionOptionKind = "kind",
    } with optional _meta
}

open_enum! {
    /// Effect of an option.
    PermissionOptionKind {
        /// Allow once.
        AllowOnce = "allow_once",
        /// Allow this and similar requests from now on.
        AllowAlways = "allow_always",
        /// Reject once.
        RejectOnce = "reject_once",
        /// Reject this and similar requests from now on.
        RejectAlways = "reject_always",
    }
}

object! {
    /// Response to a permission request.
    RequestPermissionResponse {
        /// Outcome of the request.
        required outcome: RequestPermissionOutcome<'a> = "outcome",
    } with optional _meta
}

union! {
    /// Outcome of a permission request. Only `selected` with an offered option can be an approval. An unknown
    /// outcome is not an approval.
    RequestPermissionOutcome by "outcome" {
        /// No choice was made.
        Cancelled(EmptyObject<'a>) = "cancelled",
        /// An option was selected.
        Selected(SelectedPermissionOutcome<'a>) = "selected",
    }
}

object! {
    /// The selected option.
    SelectedPermissionOutcome {
        /// Id of the option in the request.
        required option_id: Text<'a> = "optionId",
    } with optional _meta
}
