//! Permission requests.

use maud::{Markup, PreEscaped, html};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::{Decider, Permission, Settlement, Snapshot, ToolCall};

use super::icons::icon;
use super::text::{prose, survives, visible, visible_line, with_relative_paths};
use super::{Part, Place, RenderCache, content, json, terminal, tool_call};

/// Renders a permission request: with buttons while it is pending, folded with its outcome once it is settled.
pub(crate) fn permission(
    snapshot: &Snapshot,
    permission: &Permission,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(description) = permission.description() {
        parts.push(Part::new("about", html! { p.p.said data-part="about" { (prose(description)) } }));
    }
    parts.extend(subject(snapshot, permission, place, cache));
    if permission.settlement().is_pending() {
        let head = html! {
            header.p.head data-part="head" {
                (icon("question"))
                h3.title { (visible_line(&with_relative_paths(permission.title(), place.folder))) }
            }
        };
        parts.insert(0, Part::new("head", head));
        parts.push(Part::new("options", options(permission)));
        return parts;
    }
    let html = html! {
        div.p.asked data-part="asked" {
            details data-keep="asked" {
                summary {
                    span.title { (visible_line(&with_relative_paths(permission.title(), place.folder))) }
                    (settled(permission))
                }
                (way_to_question(permission))
                @for part in &parts { (PreEscaped(&part.html)) }
                (offered(permission))
            }
        }
    };
    vec![Part::new("asked", html)]
}

/// Returns a request id as JSON, which is the form that the page sends back.
pub(super) fn request_id(id: &RequestId<'_>) -> String {
    id.encode(WireFormat::Any)
}

fn settled(permission: &Permission) -> Markup {
    match permission.settlement() {
        Settlement::Pending => html! {},
        Settlement::Cancelled { by, at } => html! {
            @match by {
                Decider::Rule(_) => {
                    span.st.st-off { span aria-hidden="true" { "∅ " } "dismissed" }
                    span.dim { (answered_by(by)) }
                },
                _ => span.st.st-off { span aria-hidden="true" { "∅ " } (cancelled_by(by)) },
            }
            time data-at=(at.0) {}
        },
        Settlement::NotAnApproval { reason, by, at } => html! {
            span.st.st-bad { span aria-hidden="true" { "✗ " } "not an approval: " (visible_line(reason)) }
            span.dim { "by " (visible_line(&by.to_string())) }
            time data-at=(at.0) {}
        },
        Settlement::Answered { answer, by, at } => {
            let (class, mark) =
                if permission.is_granted() { ("st st-good", "✓ ") } else { ("st st-bad", "✗ ") };
            html! {
                span class=(class) {
                    span aria-hidden="true" { (mark) }
                    @match permission.chosen() {
                        Some(option) if says(&option.name, &option.kind) => {
                            (visible_line(&option.name)) span.sr { " (" (meaning(&option.kind)) ")" }
                        },
                        Some(option) => { (meaning(&option.kind)) ": " (visible_line(&option.name)) },
                        None => { "not an offered option: " (visible_line(answer)) },
                    }
                }
                @if *by == Decider::Remembered {
                    span.tag { "answered by itself" }
                    span.dim { "as you chose for always before" }
                } @else {
                    span.dim { (answered_by(by)) }
                }
                time data-at=(at.0) {}
            }
        }
    }
}

/// Renders a button to the message of the question, which shows the decision. It is outside of the summary, which is
/// itself clickable.
fn way_to_question(permission: &Permission) -> Markup {
    html! {
        button.link type="button" data-action="question-message" data-request=(request_id(permission.id())) {
            "Show the message of the question"
        }
    }
}

fn answered_by(by: &Decider) -> Markup {
    match by {
        Decider::Rule(rule) => html! { "by the rule “" (visible_line(rule)) "”" },
        _ => html! { "by " (visible_line(&by.to_string())) },
    }
}

pub(super) fn cancelled_by(by: &Decider) -> Markup {
    match by {
        Decider::Agent => html! { "taken back by the agent" },
        Decider::ConnectionEnd => html! { "the connection ended" },
        Decider::Other(by) => html! { "dismissed by " (visible_line(by)) },
        Decider::Rule(_) => html! { "dismissed " (answered_by(by)) },
        _ => html! { "dismissed" },
    }
}

fn subject(
    snapshot: &Snapshot,
    permission: &Permission,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let Some(subject) = permission.subject() else { return Vec::new() };
    let generic = |tag: &str| {
        let json = subject.encode(WireFormat::Any);
        let html = html! { div.p.block data-part="subject" { (content::unknown("subject", tag, &json)) } };
        vec![Part::new("subject", html)]
    };
    match subject {
        v2::RequestPermissionSubject::ToolCall(subject) => {
            match snapshot.tool_call(&subject.tool_call.tool_call_id) {
                Some(call) => call_subject(snapshot, permission, call, place, cache),
                None => generic("tool_call"),
            }
        }
        v2::RequestPermissionSubject::Command(subject) => {
            command_subject(snapshot, permission, subject, place, cache)
        }
        v2::RequestPermissionSubject::Unknown(unknown) => generic(&unknown.tag),
        v2::RequestPermissionSubject::More(none) => none.never(),
    }
}

/// Renders the complete tool call: its content, and the raw input, which describes the actual operation.
fn call_subject(
    snapshot: &Snapshot,
    permission: &Permission,
    call: &ToolCall,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let mut parts = Vec::new();
    // The headline often has the title of the call.
    let title = tool_call::title(call);
    if !permission.title().contains(title) {
        let title = with_relative_paths(title, place.folder);
        parts
            .push(Part::new("subject", html! { p.p.subject data-part="subject" { (visible_line(&title)) } }));
    }
    parts.extend(tool_call::body(snapshot, call, place, cache));
    if let Some(input) = call.raw_input() {
        // The input is folded if the content shows the operation already.
        if !call.content().is_empty() {
            parts.push(cache.part("more", ("input", json::source(input.as_str())), || {
                html! { div.p.raws data-part="more" { p.note { "Raw input" } (json::block(input.as_str())) } }
            }));
            return parts;
        }
        parts.push(cache.part("input", ("open", json::source(input.as_str())), || {
            html! { div.p.raws data-part="input" { (json::block(input.as_str())) } }
        }));
    }
    parts
}

fn command_subject(
    snapshot: &Snapshot,
    permission: &Permission,
    subject: &v2::CommandPermissionSubject<'_>,
    place: &Place<'_>,
    cache: &RenderCache,
) -> Vec<Part> {
    let call = subject.tool_call_id.as_deref().and_then(|id| snapshot.tool_call(id)).map(tool_call::title);
    let is_new = |title: &&str| *title != &*subject.command && !permission.title().contains(title);
    let html = html! {
        div.p.subject data-part="subject" {
            pre.cmd { code { (visible(&subject.command)) } }
            p { "in " span.path { (visible_line(&subject.cwd)) } }
            @if let Some(title) = call.filter(is_new) {
                p.dim { "for " (visible_line(&with_relative_paths(title, place.folder))) }
            }
        }
    };
    let mut parts = vec![Part::new("subject", html)];
    if let Some(terminal) = subject.terminal_id.as_deref().and_then(|id| snapshot.terminal(id)) {
        parts.push(terminal::part("terminal", snapshot, terminal, place.folder, cache));
    }
    parts
}

/// Renders the meaning of an option, independent of its name.
fn meaning(kind: &v2::PermissionOptionKind) -> Markup {
    match kind {
        v2::PermissionOptionKind::AllowOnce => html! { "allow once" },
        v2::PermissionOptionKind::AllowAlways => html! { "allow always" },
        v2::PermissionOptionKind::RejectOnce => html! { "reject once" },
        v2::PermissionOptionKind::RejectAlways => html! { "reject always" },
        v2::PermissionOptionKind::Unknown(word) => html! { "unknown meaning: " (visible_line(word)) },
        v2::PermissionOptionKind::More(none) => none.never(),
    }
}

/// Returns `true` if the name of an option has the words of its meaning, so that they need not be repeated.
fn says(name: &str, kind: &v2::PermissionOptionKind) -> bool {
    use v2::PermissionOptionKind as Kind;
    let name = name.trim().to_lowercase();
    let allows = name.starts_with("allow");
    let rejects = name.starts_with("reject") || name.starts_with("deny");
    let is_for_always = name.contains("always");
    // Any other word could turn the meaning around, so a longer name is explained.
    let is_short = name.split_whitespace().count() <= 2;
    is_short
        && match kind {
            Kind::AllowOnce => allows && !is_for_always,
            Kind::AllowAlways => allows && is_for_always,
            Kind::RejectOnce => rejects && !is_for_always,
            Kind::RejectAlways => rejects && is_for_always,
            Kind::Unknown(_) | Kind::More(_) => false,
        }
}

fn options(permission: &Permission) -> Markup {
    let class = |kind: &v2::PermissionOptionKind| match kind {
        v2::PermissionOptionKind::AllowOnce => "opt opt-allow",
        v2::PermissionOptionKind::AllowAlways => "opt opt-allow opt-always",
        v2::PermissionOptionKind::RejectOnce => "opt opt-reject",
        v2::PermissionOptionKind::RejectAlways => "opt opt-reject opt-always",
        v2::PermissionOptionKind::Unknown(_) => "opt",
        v2::PermissionOptionKind::More(none) => none.never(),
    };
    html! {
        div.p.opts data-part="options" data-permission=(request_id(permission.id())) role="group" aria-label="Answer" {
            @for (place, option) in permission.options().iter().enumerate() {
                @let id = Some(&*option.option_id).filter(|id| survives(id));
                button class=(class(&option.kind)) type="button" data-option=[id] disabled[id.is_none()] {
                    span.opt-name { (visible_line(&option.name)) }
                    " " span class=(if says(&option.name, &option.kind) { "sr" } else { "opt-means" }) {
                        (meaning(&option.kind))
                    }
                    @if place < 9 { kbd aria-hidden="true" { (place + 1) } }
                }
            }
        }
    }
}

/// Renders the effect of an "always" option, if one is offered. `asked_again` is the reason why it has none.
pub(crate) fn always(permission: &Permission, asked_again: Option<&str>) -> Option<Part> {
    use v2::PermissionOptionKind as Kind;
    let is_for_always = |kind: &Kind| matches!(kind, Kind::AllowAlways | Kind::RejectAlways);
    permission.options().iter().any(|option| is_for_always(&option.kind)).then(|| {
        let html = html! {
            p.p.note data-part="always" {
                @match asked_again {
                    None => "“Always” goes to the agent; Switchboard too answers exactly this again by itself, in this session.",
                    Some(reason) => { "“Always” goes to the agent; Switchboard will ask you again, because " (reason) "." },
                }
            }
        };
        Part::new("always", html)
    })
}

/// Renders the buttons that make a rule from a question, or the reasons why there are none.
pub(crate) fn rule_offer(allow: &Result<(), String>, deny: &Result<(), String>) -> Part {
    let ways = [(allow, "allow", "Always allow this, in this project…"), (deny, "deny", "Always deny it…")];
    let html = html! {
        div.p.rule data-part="rule" {
            @for (_, decision, words) in ways.iter().filter(|(way, ..)| way.is_ok()) {
                button.small type="button" data-action="rule" data-decision=(decision) { (words) }
            }
            @match (allow, deny) {
                (Err(reason), Err(_)) => span.dim { "No rule can be made of this, because " (visible_line(reason)) "." },
                (Err(reason), Ok(())) => span.dim { "No rule can allow it, because " (visible_line(reason)) "." },
                (Ok(()), Err(reason)) => span.dim { "No rule can deny it, because " (visible_line(reason)) "." },
                (Ok(()), Ok(())) => {},
            }
        }
    };
    Part::new("rule", html)
}

/// Renders the reason why no rule can be made.
pub(crate) fn no_rule(reason: &str) -> Part {
    Part::new(
        "rule",
        html! { div.p.rule data-part="rule" { span.dim { "No rule can be made here: " (reason) "." } } },
    )
}

/// Renders a notice of malformed parts of a question, which may be missing.
pub(crate) fn left_out(problem: &str) -> Markup {
    html! {
        p.p.note.bad data-part="left-out" {
            "A part of this question is malformed, and left out where it makes no sense: " (prose(problem))
        }
    }
}

/// Renders explanations of a question behind one button, if there are any.
pub(crate) fn question_details(parts: &[Part]) -> Option<Part> {
    (!parts.is_empty()).then(|| {
        let html = html! {
            div.p.details-part data-part="details" {
                details data-keep="details" {
                    summary { "Details" }
                    @for part in parts { (PreEscaped(&part.html)) }
                }
            }
        };
        Part::new("details", html)
    })
}

/// Renders the options of a settled permission request.
fn offered(permission: &Permission) -> Markup {
    let chosen = permission.chosen().map(|option| &*option.option_id);
    html! {
        ul.offered aria-label="Options" {
            @for option in permission.options() {
                li {
                    @if chosen == Some(&*option.option_id) { strong { (visible_line(&option.name)) " (chosen)" } }
                    @else { (visible_line(&option.name)) }
                    " " span.dim { (meaning(&option.kind)) }
                }
            }
        }
    }
}
