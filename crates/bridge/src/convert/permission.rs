//! Permission requests and the answers to them.

use switchboard_acp::v2::{PermissionOption, PermissionOptionKind};
use switchboard_acp::{Text, v1, v2};

use crate::Error;
use crate::convert::meta::{self, Origin};
use crate::convert::{
    Conversion,
    content::{plain_text, whole},
    message::Rest,
};
use crate::loss::Severity;

/// A question for version 1, whose subject is a tool call that the caller makes of what is given back here.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) session_id: Text<'a>,
    pub(crate) title: Text<'a>,
    pub(crate) description: Option<Text<'a>>,
    pub(crate) subject: Subject<'a>,
    pub(crate) options: Vec<PermissionOption<'a>>,
    pub(crate) rest: Rest<'a>,
}

/// What a question is about.
#[derive(Debug)]
pub(crate) enum Subject<'a> {
    ToolCall(Box<v2::ToolCallUpdate<'a>>),
    /// A command line and where it is run.
    Command(Text<'a>, Text<'a>),
    /// Nothing that could be named.
    Other,
}

/// A question of version 2, taken apart. What version 1 has no place for in its subject goes along as metadata.
pub(crate) fn question_to_v1<'a>(
    request: v2::RequestPermissionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Question<'a>, Error> {
    let v2::RequestPermissionRequest {
        session_id,
        title,
        description,
        subject,
        options,
        mut meta,
        mut extra,
        more: _,
    } = request;
    meta::set_apart(&mut meta, Origin::V2, &mut extra, &["toolCall"]);
    let subject = match subject {
        None => Subject::Other,
        Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
            let v2::ToolCallPermissionSubject { tool_call, meta: inner, extra: more, more: _ } = *subject;
            if inner.is_some() || !more.is_empty() {
                let rest = v2::EmptyObject { meta: inner, extra: more, more: switchboard_acp::More };
                meta::add(&mut meta, meta::SUBJECT, &meta::raw(&rest));
            }
            Subject::ToolCall(Box::new(tool_call))
        }
        Some(v2::RequestPermissionSubject::Command(subject)) => {
            let (command, cwd) = (subject.command.clone(), subject.cwd.clone());
            // What is said in words is all that it says, or it goes along.
            if subject != v2::CommandPermissionSubject::new(command.clone(), cwd.clone()) {
                meta::add(&mut meta, meta::SUBJECT, &meta::raw(&subject));
            }
            Subject::Command(command, Text::Owned(cwd.as_str().to_owned()))
        }
        Some(v2::RequestPermissionSubject::Unknown(unknown)) => {
            let reason = format!(
                "version 1 permissions are about tool calls, not \"{}\"; only the words are shown",
                unknown.tag
            );
            cx.key("subject").lose(Severity::Major, reason)?;
            meta::add(&mut meta, meta::SUBJECT, &whole(&unknown, "type"));
            Subject::Other
        }
        Some(v2::RequestPermissionSubject::More(none)) => none.never(),
    };
    let options = options_to_v1(options, &mut cx.key("options"))?;
    Ok(Question { session_id, title, description, subject, options, rest: Rest { meta, extra } })
}

/// The options that version 1 can show. An unknown kind is a hint that must not be turned into an approval.
fn options_to_v1<'a>(
    options: Vec<PermissionOption<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<PermissionOption<'a>>, Error> {
    let mut kept = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        if let PermissionOptionKind::Unknown(word) = &option.kind {
            let reason = format!("version 1 has no option of kind \"{word}\"; it is not offered");
            cx.item(index).lose(Severity::Major, reason)?;
        } else {
            kept.push(option);
        }
    }
    Ok(kept)
}

/// The description of a question as content of its tool call. It is marked, so that whoever translates the question back
/// can tell it from the content of the call.
pub(crate) fn description_to_v1(description: Text<'_>) -> v1::ToolCallContent<'_> {
    let mut content = v1::Content::new(v1::ContentBlock::text(description));
    meta::add(&mut content.meta, meta::DESCRIPTION, &meta::raw(&true));
    v1::ToolCallContent::Content(content)
}

/// How the ids of calls begin that only carry a question which is about none.
pub(crate) const SYNTHETIC: &str = "bridge-perm-";

/// Takes the description of a question of version 2 out of the content of its tool call, where it went through version 1.
fn take_description<'a>(call: &mut v1::ToolCallUpdate<'a>) -> Option<Text<'a>> {
    let is_synthetic = call.tool_call_id.starts_with(SYNTHETIC);
    // Such a call shows the description and, of a question about a command, the command behind it.
    let of_command = usize::from(call.kind == Some(v1::ToolKind::Execute));
    let items = call.content.as_mut()?;
    let has_description = is_synthetic && items.len() == 1 + of_command;
    let place = items.iter().enumerate().position(|(index, item)| match item {
        v1::ToolCallContent::Content(item) => {
            let is_marked = item.meta.as_ref().is_some_and(|meta| meta.get(meta::DESCRIPTION).is_some());
            (is_marked || (has_description && index == 0)) && plain_text(&item.content).is_some()
        }
        _ => false,
    })?;
    let v1::ToolCallContent::Content(item) = items.remove(place) else { return None };
    // The call itself shows nothing then, or what it showed before.
    call.content = call.content.take().filter(|items| !items.is_empty());
    plain_text(&item.content).map(|text| Text::Owned(text.to_owned()))
}

/// A question of version 1, whose tool call the caller has converted. `title` is the prompt's.
pub(crate) fn question_to_v2<'a>(
    request: v1::RequestPermissionRequest<'a>,
    title: Text<'a>,
    convert_call: impl FnOnce(v1::ToolCallUpdate<'a>) -> Result<v2::ToolCallUpdate<'a>, Error>,
) -> Result<v2::RequestPermissionRequest<'a>, Error> {
    let v1::RequestPermissionRequest { session_id, mut tool_call, options, mut meta, mut extra, more: _ } =
        request;
    let description = take_description(&mut tool_call);
    meta::set_apart(&mut meta, Origin::V1, &mut extra, &["title", "description", "subject"]);
    let subject = v2::ToolCallPermissionSubject::new(convert_call(tool_call)?);
    let subject = Some(v2::RequestPermissionSubject::ToolCall(Box::new(subject)));
    Ok(v2::RequestPermissionRequest {
        session_id,
        title,
        description,
        subject,
        options,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// An answer that may be an approval only if it chooses an option that was offered. Whatever else it is counts as
/// `cancelled`. Also gives whether something was chosen.
pub(crate) fn answer<'a>(
    answer: v2::RequestPermissionResponse<'a>,
    offered: &[String],
    cx: &mut Conversion<'_>,
) -> Result<(v2::RequestPermissionResponse<'a>, bool), Error> {
    let v2::RequestPermissionResponse { outcome, meta, extra, more: _ } = answer;
    let is_offered = |id: &str| offered.iter().any(|known| known == id);
    let (outcome, is_selected) = match outcome {
        v2::RequestPermissionOutcome::Cancelled(mark) => {
            (v2::RequestPermissionOutcome::Cancelled(mark), false)
        }
        v2::RequestPermissionOutcome::Selected(choice) if is_offered(&choice.option_id) => {
            (v2::RequestPermissionOutcome::Selected(choice), true)
        }
        v2::RequestPermissionOutcome::Selected(_) | v2::RequestPermissionOutcome::Unknown(_) => {
            let reason = "an answer that was not offered, or is unknown, counts as none";
            cx.key("outcome").lose(Severity::Major, reason)?;
            (cancelled_outcome(), false)
        }
        v2::RequestPermissionOutcome::More(none) => none.never(),
    };
    Ok((v2::RequestPermissionResponse { outcome, meta, extra, more: switchboard_acp::More }, is_selected))
}

/// The answer that is none.
pub(crate) fn cancelled() -> v2::RequestPermissionResponse<'static> {
    v2::RequestPermissionResponse::new(cancelled_outcome())
}

fn cancelled_outcome() -> v2::RequestPermissionOutcome<'static> {
    v2::RequestPermissionOutcome::Cancelled(v2::EmptyObject::new())
}

/// A command, for who does not know that questions can be about one.
pub(crate) fn command_in_words(subject: &v2::CommandPermissionSubject<'_>) -> String {
    format!("{}\n\n(in {})", subject.command, subject.cwd)
}
