//! Elicitation requests. Both versions share the types; version 1 has only four text formats, and values that
//! are not objects.

use switchboard_acp::rpc::RequestId;
use switchboard_acp::v2::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationPropertySchema, StringFormat,
};
use switchboard_acp::{Map, Wire, WireFormat};

use crate::Error;
use crate::convert::Conversion;
use crate::loss::Severity;

/// Replaces the id of the request that a question refers to by the receiver's id of it.
pub(crate) fn rename_scope(
    request: &mut CreateElicitationRequest<'_>,
    known_as: impl Fn(&RequestId<'_>) -> Option<RequestId<'static>>,
) {
    let scope = match request {
        CreateElicitationRequest::Form(form) => &mut form.request_id,
        CreateElicitationRequest::Url(url) => &mut url.request_id,
        CreateElicitationRequest::Unknown(_) => return,
        CreateElicitationRequest::More(none) => none.never(),
    };
    if let Some(known) = scope.as_ref().and_then(known_as) {
        *scope = Some(known);
    }
}

/// Removes form elements that version 1 does not have.
pub(crate) fn to_v1<'a>(
    mut request: CreateElicitationRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<CreateElicitationRequest<'a>, Error> {
    if let CreateElicitationRequest::Form(form) = &mut request
        && let Some(properties) = form.requested_schema.properties.take()
    {
        let mut cx = cx.key("requestedSchema");
        let mut cx = cx.key("properties");
        let mut converted = Vec::new();
        for (name, property) in properties.iter() {
            let mut property = property.clone();
            if let ElicitationPropertySchema::String(field) = &mut property
                && let Some(StringFormat::Unknown(word)) = &field.format
            {
                let reason = format!("version 1 has no format \"{word}\"; any text is accepted");
                cx.key(name).key("format").report_loss(Severity::Minor, reason)?;
                field.format = None;
            }
            converted.push((name.to_owned().into(), property));
        }
        form.requested_schema.properties = Some(Map::from_iter(converted));
    }
    Ok(request)
}

/// Adds the type `object` to forms, which is optional in version 1 and required in version 2.
pub(crate) fn to_v2(mut request: CreateElicitationRequest<'_>) -> CreateElicitationRequest<'_> {
    if let CreateElicitationRequest::Form(form) = &mut request {
        let schema = &mut form.requested_schema;
        schema.type_name.get_or_insert_default();
        schema.properties.get_or_insert_default();
    }
    request
}

/// Converts an answer to values that version 1 has.
pub(crate) fn answer_to_v1<'a>(
    mut answer: CreateElicitationResponse<'a>,
    cx: &mut Conversion<'_>,
) -> Result<CreateElicitationResponse<'a>, Error> {
    if let CreateElicitationResponse::Accept(accept) = &mut answer
        && let Some(content) = accept.content.take()
    {
        let mut cx = cx.key("content");
        let mut converted = Vec::new();
        for (name, value) in content.iter() {
            let known =
                switchboard_acp::v1::ElicitationContentValue::decode(value.0.as_str(), WireFormat::V1);
            if known.is_ok() {
                converted.push((name.to_owned().into(), value.clone()));
            } else {
                cx.key(name).report_loss(Severity::Major, "version 1 has no such values")?;
            }
        }
        accept.content = Some(Map::from_iter(converted));
    }
    Ok(answer)
}
