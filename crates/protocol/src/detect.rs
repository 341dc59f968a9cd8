//! Detects the version and dialect of a peer from its messages.
//!
//! Version numbers are unreliable: several version 1 agents echo any number, and both dialects of version 2
//! call themselves `2`. So the structure of messages decides, and every result has its evidence.
//!
//! - [`Handshake::of_request`] and [`Handshake::of_answer`] evaluate the two halves of `initialize`.
//! - [`DialectTracker`] takes the messages of a version 2 peer, and reports its dialect as soon as it is
//!   detected.
//! - [`version_shown_by`] evaluates a single message if there is no handshake.
//! - [`EVIDENCE`] is the complete list of evidence.
//!
//! ```
//! use switchboard_acp::detect::{DialectTracker, Evidence, Handshake};
//! use switchboard_acp::{Raw, Version, WireFormat};
//!
//! // The number was repeated; the keys are those of version 1.
//! let answer = Raw::parse(r#"{"protocolVersion":2,"agentCapabilities":{"loadSession":true}}"#)?;
//! assert_eq!(Handshake::of_answer(&answer).version, Version::V1);
//!
//! let mut agent = DialectTracker::new();
//! assert_eq!(agent.wire_format(), WireFormat::Any);
//! agent.see_prompt_answer(&Raw::parse(r#"{"messageId":"u-1"}"#)?);
//! assert_eq!((agent.wire_format(), agent.evidence()), (WireFormat::Newest, Some(Evidence::PromptAnswerWithId)));
//! # Ok::<(), switchboard_acp::DecodeError>(())
//! ```

use std::fmt;

use crate::rpc::{Message, Request};
use crate::{Field, Raw, Version, WireFormat, v2};

/// Result of evaluating one half of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handshake {
    /// Version of the sender.
    pub version: Version,
    /// Version number, if given. May be above 2.
    pub number: Option<u64>,
    /// Evidence.
    pub evidence: HandshakeEvidence,
}

/// Evidence for the version in a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandshakeEvidence {
    /// Keys of version 1 only, regardless of the number.
    KeysOfVersion1,
    /// Keys of version 2 only, and none of version 1.
    KeysOfVersion2,
    /// Keys of both versions, as in a request that both understand: the number decides.
    NumberBesideBoth,
    /// The number is 1 or less, and a peer never claims an older version than it speaks.
    Number,
    /// No required key of version 2 is present.
    NothingOfVersion2,
}

impl HandshakeEvidence {
    /// Returns the evidence in words.
    pub fn as_str(self) -> &'static str {
        match self {
            HandshakeEvidence::KeysOfVersion1 => "it has keys that only version 1 has",
            HandshakeEvidence::KeysOfVersion2 => "it has keys that only version 2 has",
            HandshakeEvidence::NumberBesideBoth => "it has keys of both versions, and its number decides",
            HandshakeEvidence::Number => "its number is that of version 1",
            HandshakeEvidence::NothingOfVersion2 => "it lacks the keys that version 2 requires",
        }
    }
}

impl fmt::Display for HandshakeEvidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Keys of the parameters of `initialize` that exist in only one version.
const REQUEST_KEYS: Keys = Keys { v1: &["clientCapabilities", "clientInfo"], v2: &["info", "capabilities"] };
/// Keys of its result that exist in only one version.
const ANSWER_KEYS: Keys = Keys { v1: &["agentCapabilities", "agentInfo"], v2: &["info", "capabilities"] };

struct Keys {
    v1: &'static [&'static str],
    v2: &'static [&'static str],
}

/// Keys found in one half of a handshake, in one pass.
struct HandshakeKeys {
    number: Option<u64>,
    v1: bool,
    v2: bool,
}

impl HandshakeKeys {
    fn of(half: Option<&Raw<'_>>, keys: &Keys) -> Self {
        let mut found = HandshakeKeys { number: None, v1: false, v2: false };
        for (key, value) in half.into_iter().flat_map(Raw::entries) {
            if key == "protocolVersion" {
                found.number = value.as_str().parse().ok();
            }
            found.v1 |= keys.v1.contains(&&*key);
            found.v2 |= keys.v2.contains(&&*key);
        }
        found
    }
}

impl Handshake {
    /// Evaluates the parameters of `initialize`. A client of both versions may use the keys of both; then its
    /// number decides, because it is a request.
    pub fn of_request(params: Option<&Raw<'_>>) -> Self {
        let HandshakeKeys { number, v1, v2 } = HandshakeKeys::of(params, &REQUEST_KEYS);
        let (version, evidence) = match (v1, v2) {
            (false, true) => (Version::V2, HandshakeEvidence::KeysOfVersion2),
            (true, true) => {
                let asks_for_more = number.is_some_and(|number| number > 1);
                let version = if asks_for_more { Version::V2 } else { Version::V1 };
                (version, HandshakeEvidence::NumberBesideBoth)
            }
            (true, false) => (Version::V1, HandshakeEvidence::KeysOfVersion1),
            (false, false) => (Version::V1, HandshakeEvidence::NothingOfVersion2),
        };
        Handshake { version, number, evidence }
    }

    /// Evaluates the result of `initialize`. Keys of version 1 outweigh the number, which several agents
    /// echo.
    pub fn of_answer(result: &Raw<'_>) -> Self {
        let HandshakeKeys { number, v1, v2 } = HandshakeKeys::of(Some(result), &ANSWER_KEYS);
        let (version, evidence) = match (v1, v2) {
            (true, _) => (Version::V1, HandshakeEvidence::KeysOfVersion1),
            (false, true) if number.is_some_and(|number| number < 2) => {
                (Version::V1, HandshakeEvidence::Number)
            }
            (false, true) => (Version::V2, HandshakeEvidence::KeysOfVersion2),
            (false, false) => (Version::V1, HandshakeEvidence::NothingOfVersion2),
        };
        Handshake { version, number, evidence }
    }

    /// Returns true if the version number is unknown.
    pub fn is_of_the_future(&self) -> bool {
        self.number.is_some_and(|number| number > 2)
    }
}

/// Returns the version that a single message indicates, for a conversation without a start.
///
/// ```
/// use switchboard_acp::detect::version_shown_by;
/// use switchboard_acp::rpc::Message;
/// use switchboard_acp::{Version, Wire, WireFormat};
///
/// let answer = Message::decode(r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#, WireFormat::Any)?;
/// assert_eq!(version_shown_by(&answer), Some(Version::V1));
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub fn version_shown_by(message: &Message<'_>) -> Option<Version> {
    let (method, params) = match message {
        Message::Request(request) => (&*request.method, request.params.as_ref()?),
        Message::Notification(notification) => (&*notification.method, notification.params.as_ref()?),
        Message::Response(response) => {
            let result = response.outcome.as_ref().ok()?;
            let of_version_2 = || result.text("messageId").map(|_| Version::V2);
            return result.text("stopReason").map(|_| Version::V1).or_else(of_version_2);
        }
    };
    match method {
        "session/update" => match &*params.get("update")?.text("sessionUpdate")? {
            "tool_call" | "plan" | "current_mode_update" => Some(Version::V1),
            "state_update"
            | "user_message"
            | "agent_message"
            | "agent_thought"
            | "tool_call_content_chunk"
            | "terminal_update"
            | "terminal_output_chunk" => Some(Version::V2),
            _ => None,
        },
        "session/request_permission" if params.get("title").is_some() => Some(Version::V2),
        "session/request_permission" if params.get("toolCall").is_some() => Some(Version::V1),
        _ => None,
    }
}

/// Evidence for a dialect of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Given explicitly, for example by the user.
    Told,
    /// The response to a prompt contains the message id.
    PromptAnswerWithId,
    /// The response to a prompt does not contain the message id.
    PromptAnswerWithoutId,
    /// Commands have a type.
    CommandsWithType,
    /// Commands have no type.
    CommandsWithoutType,
    /// Patch text is only under `text`.
    PatchText,
    /// Patch text is only under `diff`.
    PatchDiff,
    /// An update of a terminal, a notice or a compaction.
    UpdateOfNewest,
    /// A tool call has a name or capabilities.
    ToolCallOfNewest,
    /// Work stopped with an error.
    StopReasonError,
    /// A client supports elicitation or terminal logins.
    ClientCapability,
    /// A client cancels a single tool call or terminal.
    CancelsOne,
}

/// Weight of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Something that the other dialect requires is missing, which may be an omission.
    Absence,
    /// Something that only this dialect has is present.
    Presence,
    /// Not changed by any later evidence.
    Final,
}

/// A row of the table of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvidenceRow {
    /// The evidence.
    pub evidence: Evidence,
    /// Dialect that it indicates. `None` for [`Evidence::Told`], which indicates the given one.
    pub shows: Option<WireFormat>,
    /// Weight.
    pub weight: Weight,
    /// Description in words.
    pub words: &'static str,
}

macro_rules! evidence {
    ($($evidence:ident $shows:expr, $weight:ident, $words:literal;)*) => {
        /// All evidence for a dialect of version 2.
        pub const EVIDENCE: &[EvidenceRow] = &[
            $(EvidenceRow {
                evidence: Evidence::$evidence,
                shows: $shows,
                weight: Weight::$weight,
                words: $words,
            },)*
        ];
    };
}

evidence! {
    Told None, Final, "it was told";
    PromptAnswerWithId Some(WireFormat::Newest), Presence, "the answer to a prompt has \"messageId\"";
    PromptAnswerWithoutId Some(WireFormat::Spec), Absence, "the answer to a prompt has no \"messageId\"";
    CommandsWithType Some(WireFormat::Newest), Presence, "commands have \"type\"";
    CommandsWithoutType Some(WireFormat::Spec), Absence, "commands have no \"type\"";
    PatchText Some(WireFormat::Newest), Presence, "a patch has \"text\" and no \"diff\"";
    PatchDiff Some(WireFormat::Spec), Presence, "a patch has \"diff\" and no \"text\"";
    UpdateOfNewest Some(WireFormat::Newest), Presence, "an update of a terminal, a notice or a compaction";
    ToolCallOfNewest Some(WireFormat::Newest), Presence, "a tool call has \"name\" or \"capabilities\"";
    StopReasonError Some(WireFormat::Newest), Presence, "work stopped with the reason \"error\"";
    ClientCapability Some(WireFormat::Newest), Presence, "the client's capabilities have \"elicitation\" or \"auth\"";
    CancelsOne Some(WireFormat::Newest), Presence, "the client cancels a single tool call or terminal";
}

impl Evidence {
    /// Returns its row in the table.
    pub fn row(self) -> &'static EvidenceRow {
        // The table has a row for each variant in this order, which a test checks.
        &EVIDENCE[self as usize]
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.row().words)
    }
}

/// Detects the dialect of one version 2 peer from its messages.
///
/// Presence outweighs absence. Among equals the first wins, so that a peer that mixes the dialects does not
/// cause changes back and forth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DialectTracker {
    shown: Option<(WireFormat, Evidence)>,
}

impl DialectTracker {
    /// Creates a tracker without evidence.
    pub fn new() -> Self {
        DialectTracker::default()
    }

    /// Creates a tracker with a known dialect. [`WireFormat::Any`] means unknown.
    pub fn known(dialect: WireFormat) -> Self {
        match dialect {
            WireFormat::Spec | WireFormat::Newest => {
                DialectTracker { shown: Some((dialect, Evidence::Told)) }
            }
            WireFormat::V1 | WireFormat::Any => DialectTracker::new(),
        }
    }

    /// Returns the dialect, or [`WireFormat::Any`] while it is unknown.
    pub fn wire_format(&self) -> WireFormat {
        self.shown.map_or(WireFormat::Any, |(dialect, _)| dialect)
    }

    /// Returns the evidence for it.
    pub fn evidence(&self) -> Option<Evidence> {
        self.shown.map(|(_, evidence)| evidence)
    }

    /// Adds evidence. Returns true if the dialect changed.
    pub fn see(&mut self, evidence: Evidence) -> bool {
        let row = evidence.row();
        let Some(shows) = row.shows else { return false };
        match self.shown {
            Some((_, known)) if known.row().weight >= row.weight => false,
            before => {
                self.shown = Some((shows, evidence));
                before.map(|(dialect, _)| dialect) != Some(shows)
            }
        }
    }

    fn see_if(&mut self, evidence: Option<Evidence>) -> bool {
        evidence.is_some_and(|evidence| self.see(evidence))
    }

    /// Evaluates an update of an agent. Returns true if the dialect changed.
    #[inline]
    pub fn see_update(&mut self, update: &v2::SessionUpdate<'_>) -> bool {
        // Nearly all updates have kinds that both dialects have.
        match update {
            v2::SessionUpdate::UserMessageChunk(_)
            | v2::SessionUpdate::AgentMessageChunk(_)
            | v2::SessionUpdate::AgentThoughtChunk(_) => false,
            _ if self.shown.is_some_and(|(_, known)| known.row().weight >= Weight::Presence) => false,
            update => self.see_if(evidence_of_update(update)),
        }
    }

    /// Evaluates the result of `session/prompt`. Returns true if the dialect changed.
    pub fn see_prompt_answer(&mut self, result: &Raw<'_>) -> bool {
        let evidence = if result.get("messageId").is_some() {
            Some(Evidence::PromptAnswerWithId)
        } else if result.is_object() && result.get("stopReason").is_none() {
            Some(Evidence::PromptAnswerWithoutId)
        } else {
            // Version 1 responds with a stop reason.
            None
        };
        self.see_if(evidence)
    }

    /// Evaluates a request of a client. Returns true if the dialect changed.
    pub fn see_client_request(&mut self, request: &Request<'_>) -> bool {
        let evidence = match &*request.method {
            "initialize" => {
                let capabilities = request.params.as_ref().and_then(|params| params.get("capabilities"));
                let has = |key: &str| capabilities.as_ref().is_some_and(|known| known.get(key).is_some());
                (has("elicitation") || has("auth")).then_some(Evidence::ClientCapability)
            }
            "tool_call/cancel" | "terminal/cancel" => Some(Evidence::CancelsOne),
            _ => None,
        };
        self.see_if(evidence)
    }

    /// Evaluates an undecoded notification or request of an agent: the form of patches and commands, and
    /// content of only one dialect. Returns true if the dialect changed.
    pub fn see_agent_call(&mut self, message: &Message<'_>) -> bool {
        let params = match message {
            Message::Request(request) if request.method == "session/request_permission" => {
                request.params.as_ref()
            }
            Message::Notification(notification) if notification.method == "session/update" => {
                notification.params.as_ref()
            }
            _ => None,
        };
        let evidence = params.and_then(|params| {
            let call = params.get("update").or_else(|| Some(own(params.get("subject")?.get("toolCall")?)));
            evidence_of_text(&call?)
        });
        self.see_if(evidence)
    }
}

fn own(raw: Raw<'_>) -> Raw<'static> {
    raw.into_owned()
}

/// Returns the evidence in a decoded update. Both forms of patches and commands are decoded alike.
fn evidence_of_update(update: &v2::SessionUpdate<'_>) -> Option<Evidence> {
    use v2::SessionUpdate as Update;
    match update {
        Update::TerminalUpdate(_)
        | Update::TerminalOutputChunk(_)
        | Update::Notice(_)
        | Update::CompactionUpdate(_)
        | Update::CompactionSummaryChunk(_) => Some(Evidence::UpdateOfNewest),
        Update::ToolCallUpdate(call) => {
            let has_more = call.name != Field::Keep || call.capabilities != Field::Keep;
            has_more.then_some(Evidence::ToolCallOfNewest)
        }
        Update::StateUpdate(state) => match &**state {
            v2::StateUpdate::Idle(idle) => {
                let failed = idle.error.is_some() && idle.stop_reason == Some(v2::StopReason::Error);
                failed.then_some(Evidence::StopReasonError)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the evidence in the text of an update or of a permission's tool call.
fn evidence_of_text(update: &Raw<'_>) -> Option<Evidence> {
    let tag = update.get("sessionUpdate");
    let tag = tag.as_ref().and_then(Raw::as_text);
    let is_newest = matches!(
        tag.as_deref(),
        Some(
            "terminal_update"
                | "terminal_output_chunk"
                | "notice"
                | "compaction_update"
                | "compaction_summary_chunk"
        )
    );
    if is_newest {
        return Some(Evidence::UpdateOfNewest);
    }
    for (key, value) in update.entries() {
        let evidence = match &*key {
            "availableCommands" => value.items().next().map(|command| {
                let typed = command.get("type").is_some();
                if typed { Evidence::CommandsWithType } else { Evidence::CommandsWithoutType }
            }),
            "content" if value.is_object() => evidence_of_patch(&value),
            "content" => value.items().find_map(|item| evidence_of_patch(&item)),
            "name" | "capabilities" if tag.as_deref() == Some("tool_call_update") => {
                Some(Evidence::ToolCallOfNewest)
            }
            _ => None,
        };
        if evidence.is_some() {
            return evidence;
        }
    }
    None
}

fn evidence_of_patch(content: &Raw<'_>) -> Option<Evidence> {
    let patch = content.get("patch")?;
    match (patch.get("text").is_some(), patch.get("diff").is_some()) {
        (true, false) => Some(Evidence::PatchText),
        (false, true) => Some(Evidence::PatchDiff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text).unwrap()
    }

    #[test]
    fn the_table_has_a_line_for_each_in_order() {
        for (place, row) in EVIDENCE.iter().enumerate() {
            assert_eq!(row.evidence as usize, place, "{row:?}");
            assert_eq!(row.shows.is_none(), row.weight == Weight::Final, "{row:?}");
        }
    }

    #[test]
    fn an_answer_is_judged_by_its_keys() {
        use HandshakeEvidence::*;
        let check = |answer: &str, version: Version, evidence: HandshakeEvidence| {
            let judged = Handshake::of_answer(&raw(answer));
            assert_eq!((judged.version, judged.evidence), (version, evidence), "{answer}");
        };
        check(r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#, Version::V2, KeysOfVersion2);
        check(r#"{"protocolVersion":2,"capabilities":{}}"#, Version::V2, KeysOfVersion2);
        check(r#"{"info":{}}"#, Version::V2, KeysOfVersion2);
        check(r#"{"protocolVersion":1,"info":{},"capabilities":{}}"#, Version::V1, Number);
        check(r#"{"protocolVersion":2,"agentCapabilities":{}}"#, Version::V1, KeysOfVersion1);
        check(r#"{"protocolVersion":2,"agentInfo":{},"info":{}}"#, Version::V1, KeysOfVersion1);
        check(
            r#"{"protocolVersion":2,"agentCapabilities":{},"capabilities":{}}"#,
            Version::V1,
            KeysOfVersion1,
        );
        check(r#"{"protocolVersion":1}"#, Version::V1, NothingOfVersion2);
        check(r#"{"protocolVersion":2}"#, Version::V1, NothingOfVersion2);
        check("null", Version::V1, NothingOfVersion2);
        assert!(Handshake::of_answer(&raw(r#"{"protocolVersion":3,"info":{}}"#)).is_of_the_future());
    }

    #[test]
    fn a_request_is_judged_by_its_keys_and_where_it_has_both_by_its_number() {
        let check = |params: &str, version: Version| {
            assert_eq!(Handshake::of_request(Some(&raw(params))).version, version, "{params}");
        };
        check(r#"{"protocolVersion":2,"info":{}}"#, Version::V2);
        check(r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#, Version::V2);
        check(r#"{"info":{}}"#, Version::V2);
        check(r#"{"protocolVersion":1,"info":{}}"#, Version::V2);
        check(r#"{"protocolVersion":2,"info":{},"clientInfo":{},"clientCapabilities":{}}"#, Version::V2);
        check(r#"{"protocolVersion":1,"info":{},"clientInfo":{},"clientCapabilities":{}}"#, Version::V1);
        check(r#"{"protocolVersion":2,"clientCapabilities":{}}"#, Version::V1);
        check(r#"{"protocolVersion":1}"#, Version::V1);
        assert_eq!(Handshake::of_request(None).version, Version::V1);
    }

    #[test]
    fn the_dialect_is_detected_from_messages() {
        let check = |params: &str, expected: Option<Evidence>| {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
            let mut tracker = DialectTracker::new();
            tracker.see_agent_call(&Message::decode(&line, WireFormat::Any).unwrap());
            assert_eq!(tracker.evidence(), expected, "{params}");
        };
        let update = |update: &str| format!(r#"{{"sessionId":"s","update":{update}}}"#);
        check(&update(r#"{"sessionUpdate":"notice","title":"x"}"#), Some(Evidence::UpdateOfNewest));
        check(
            &update(r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x"}]}"#),
            Some(Evidence::CommandsWithoutType),
        );
        check(
            &update(
                r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command"}]}"#,
            ),
            Some(Evidence::CommandsWithType),
        );
        check(&update(r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#), None);
        check(
            &update(r#"{"sessionUpdate":"x","content":[1,{"patch":{"text":""}}]}"#),
            Some(Evidence::PatchText),
        );
        check(&update(r#"{"sessionUpdate":"x","content":{"patch":{"diff":""}}}"#), Some(Evidence::PatchDiff));
        check(&update(r#"{"sessionUpdate":"x","content":{"patch":{"diff":"","text":""}}}"#), None);
        check(
            &update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","name":"read"}"#),
            Some(Evidence::ToolCallOfNewest),
        );
        check("{}", None);
    }

    #[test]
    fn presence_outweighs_absence_and_the_first_evidence_wins() {
        let mut tracker = DialectTracker::new();
        assert!(tracker.see_prompt_answer(&raw("{}")));
        assert_eq!(tracker.wire_format(), WireFormat::Spec);
        assert!(tracker.see(Evidence::UpdateOfNewest));
        assert!(!tracker.see(Evidence::PatchDiff));
        assert!(!tracker.see_prompt_answer(&raw("{}")));
        assert_eq!(
            (tracker.wire_format(), tracker.evidence()),
            (WireFormat::Newest, Some(Evidence::UpdateOfNewest))
        );

        let mut told = DialectTracker::known(WireFormat::Spec);
        assert!(!told.see(Evidence::UpdateOfNewest));
        assert_eq!(told.wire_format(), WireFormat::Spec);
        assert_eq!(DialectTracker::known(WireFormat::Any).evidence(), None);
    }

    #[test]
    fn an_answer_of_version_1_to_a_prompt_shows_nothing() {
        for answer in [r#"{"stopReason":"end_turn"}"#, "null", "7"] {
            let mut tracker = DialectTracker::new();
            assert!(!tracker.see_prompt_answer(&raw(answer)), "{answer}");
        }
    }
}
