//! What a hub notes about the questions of a session, in words of the session engine.

use std::borrow::Cow;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Moment, Raw, Wire, WireFormat};
use switchboard_session::{Conversation, Decider};

/// Tells a conversation what a hub noted ([`Channel::Hub`](crate::Channel::Hub)) about a question that is open: before
/// its answer, who gives it, and that there will be none. Says whether there was anything to tell.
///
/// `{"hub":"answered","request":ID,"by":{"token":NAME,"client":NAME,"version":VERSION,"decider":"remembered"}}`, where rules
/// answer `"by":{"policy":RULE or null,...}`, and somebody at the terminal `"by":{"person":NAME}`; and
/// `{"hub":"unanswered","request":ID,"reason":TEXT}`; all other notes are about something else.
pub fn apply_hub_note(conversation: &mut Conversation, note: &str, at: Moment) -> bool {
    let mut told = || -> Option<bool> {
        let note = Raw::parse(note).ok().filter(Raw::is_object)?;
        let id = note.get("request")?;
        let id = RequestId::decode(id.as_str(), WireFormat::Any).ok()?;
        Some(match &*text(&note, "hub")? {
            "answered" => conversation.name_answerer(&id, answerer(&note.get("by")?)?),
            "unanswered" => {
                let reason = text(&note, "reason").map_or_else(String::new, |reason| format!(" ({reason})"));
                conversation.dismiss(&id, Decider::Other(format!("hub{reason}").into()), at).is_ok()
            }
            _ => false,
        })
    };
    told().unwrap_or(false)
}

fn text(object: &Raw<'_>, key: &str) -> Option<String> {
    object.get(key)?.as_text().map(Cow::into_owned)
}

/// The rule that answered, or the name of a token, and with which client it was used.
fn answerer(by: &Raw<'_>) -> Option<Decider> {
    if by.get("policy").is_some() {
        let rule = text(by, "policy");
        return Some(rule.map_or_else(|| Decider::Other("policy".into()), |rule| Decider::Rule(rule.into())));
    }
    if let Some(person) = text(by, "person") {
        return Some(Decider::from(&*person));
    }
    let (token, client, version) = (text(by, "token")?, text(by, "client"), text(by, "version"));
    let program: Vec<_> = [client, version].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let program = if program.is_empty() { String::new() } else { format!(" ({})", program.join(" ")) };
    if text(by, "decider").as_deref() == Some("remembered") {
        return Some(Decider::Remembered);
    }
    Some(Decider::Other(format!("{token}{program}").into()))
}
