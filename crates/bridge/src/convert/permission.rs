//! The options of a permission request.

use switchboard_protocol::v2::{PermissionOption, PermissionOptionKind};

use crate::Error;
use crate::loss::{At, Notes, Severity};

/// The options that version 1 can show. An unknown kind is a hint that must not be turned into an approval.
pub(crate) fn options_to_v1<'a>(
    options: Vec<PermissionOption<'a>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<PermissionOption<'a>>, Error> {
    let mut kept = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        if let PermissionOptionKind::Unknown(word) = &option.kind {
            let reason = format!("version 1 has no option of kind \"{word}\"; it is not offered");
            notes.lose(Severity::Major, &at.item(index), reason)?;
        } else {
            kept.push(option);
        }
    }
    Ok(kept)
}
