//! What a hub notes about the questions of a session, in words of the session engine.

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Moment, Raw, Wire, WireFormat};
use switchboard_session::{Conversation, Decider};

/// Tells a conversation what a hub noted ([`Channel::Hub`](crate::Channel::Hub)) about a question that is open: before
/// its answer, who gives it, and that there will be none. Says whether there was anything to tell.
///
/// `{"hub":"answered","request":ID,"by":{"token":NAME,"client":NAME,"version":VERSION,"decider":"remembered"}}`, where rules
/// answer `"by":{"policy":RULE or null,...}`, and somebody at the terminal `"by":{"person":NAME}`; and
/// `{"hub":"unanswered","request":ID,"reason":TEXT}`; `{"hub":"prompt undelivered","request":ID}` takes back a prompt that
/// never reached its agent; and `{"hub":"agent session","id":ID,"was":ID}` says that the session continues under another
/// id; all other notes are about something else.
pub fn apply_hub_note(conversation: &mut Conversation, note: &str, at: Moment) -> bool {
    let mut told = || -> Option<bool> {
        let note = Raw::parse(note).ok().filter(Raw::is_object)?;
        if &*note.text("hub")? == "agent session" {
            // An agent that has lost the session has opened another one in its place.
            let (before, id) = (note.text("was")?, note.text("id")?);
            return conversation.continue_as(&before, &id).ok();
        }
        let id = note.get("request")?;
        let id = RequestId::decode(id.as_str(), WireFormat::Any).ok()?;
        Some(match &*note.text("hub")? {
            // An agent that had closed its input: the prompt is sent again to the next one.
            "prompt undelivered" => {
                conversation.forget_call(&id, true);
                true
            }
            "answered" => conversation.name_answerer(&id, answerer(&note.get("by")?)?),
            "unanswered" => {
                let reason = note.text("reason").map_or_else(String::new, |reason| format!(" ({reason})"));
                conversation.dismiss(&id, Decider::Other(format!("hub{reason}").into()), at).is_ok()
            }
            _ => false,
        })
    };
    told().unwrap_or(false)
}

/// The rule that answered, or the name of a token, and with which client it was used.
fn answerer(by: &Raw<'_>) -> Option<Decider> {
    if by.get("policy").is_some() {
        let rule = by.text("policy");
        return Some(rule.map_or_else(|| Decider::Other("policy".into()), |rule| Decider::Rule(rule.into())));
    }
    if let Some(person) = by.text("person") {
        return Some(Decider::from(&*person));
    }
    let (token, client, version) = (by.text("token")?, by.text("client"), by.text("version"));
    let program: Vec<_> = [client, version].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let program = if program.is_empty() { String::new() } else { format!(" ({})", program.join(" ")) };
    if by.text("decider").as_deref() == Some("remembered") {
        return Some(Decider::Remembered);
    }
    Some(Decider::Other(format!("{token}{program}").into()))
}
