//! Panels of a session: state, plan, usage, options, commands, notices.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};
use switchboard_acp::display::visible_line as plain_line;
use switchboard_acp::extensions::SANDBOX;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_policy::HostPattern;
use switchboard_session::{Activity, Snapshot};

use super::icons::icon;
use super::markdown::{self, is_safe_link};
use super::text::{cut, money, prose, size, visible_line};
use super::{Part, RenderCache, content, json};

/// Maximum number of bytes that are shown of a plan's text.
const PLAN_BYTES: usize = 64 << 10;
/// Maximum number of steps that are shown of a plan.
const MOST_STEPS: usize = 500;
/// Maximum number of commands, options or values.
const MOST_CHOICES: usize = 1000;
/// Number of options that are always visible.
const VISIBLE_OPTIONS: usize = 3;
/// Number of notices that are shown, the latest ones.
const MOST_NOTICES: usize = 20;

/// Renders the state of a session, and its last stop reason.
pub(crate) fn state(snapshot: &Snapshot) -> Markup {
    let (class, mark, words) = match snapshot.activity() {
        Activity::Running => ("st st-run", "◐", "running"),
        Activity::RequiresAction => ("st st-wait", "!", "waits for you"),
        Activity::Idle => ("st st-off", "○", "idle"),
        Activity::Unknown => ("st st-run", "?", snapshot.state().map_or("unknown", |state| state.tag())),
    };
    let background = snapshot.background().unwrap_or_default();
    // An ordinary end needs no word on the screen.
    let is_done = snapshot.activity() == Activity::Idle;
    let is_plain = matches!(snapshot.stop_reason(), None | Some(v2::StopReason::EndTurn));
    html! {
        span class=(class) role="status" {
            @if is_done { span.sr { (visible_line(words)) } }
            @else { span aria-hidden="true" { (mark) " " } (visible_line(words)) }
        }
        @if let Some(reason) = snapshot.stop_reason() {
            " " span.dim.sr[is_plain] { (stop_reason(reason)) }
        }
        @if !background.is_empty() {
            " " span.dim { (background.len()) " in the background" }
        }
    }
}

fn stop_reason(reason: &v2::StopReason) -> Markup {
    match reason {
        v2::StopReason::EndTurn => html! { "done" },
        v2::StopReason::MaxTokens => html! { "stopped: token limit" },
        v2::StopReason::MaxTurnRequests => html! { "stopped: too many requests" },
        v2::StopReason::Refusal => html! { "refused" },
        v2::StopReason::Cancelled => html! { "cancelled" },
        v2::StopReason::Error => html! { "failed" },
        v2::StopReason::Unknown(word) => visible_line(word),
        v2::StopReason::More(none) => none.never(),
    }
}

/// Renders all plans.
pub(crate) fn plans(snapshot: &Snapshot, cache: &RenderCache) -> Markup {
    html! {
        @for plan in snapshot.plans() {
            @match plan.content() {
                v2::PlanUpdateContent::Items(items) => (steps(&items.entries)),
                v2::PlanUpdateContent::File(file) => {
                    section.plan aria-label="Plan" { p { "The plan is in " (plan_file(&file.uri)) } }
                },
                v2::PlanUpdateContent::Markdown(markdown) => {
                    section.plan aria-label="Plan" { (plan_text(&markdown.content, cache)) }
                },
                v2::PlanUpdateContent::Unknown(unknown) => {
                    (content::unknown("plan", &unknown.tag, &plan.content().encode(WireFormat::Any)))
                },
                v2::PlanUpdateContent::More(none) => (none.never::<Markup>()),
            }
        }
    }
}

fn plan_file(uri: &str) -> Markup {
    html! {
        @if is_safe_link(uri) {
            a href=(uri) rel="noopener noreferrer nofollow" target="_blank" { (visible_line(uri)) }
        } @else {
            span.path { (visible_line(uri)) }
        }
    }
}

/// Renders a plan's text as Markdown, cut at a maximum length.
fn plan_text(text: &str, cache: &RenderCache) -> Markup {
    let shown = cut(text, PLAN_BYTES);
    let html = cache.html(("plan", shown), || markdown::whole(shown));
    html! {
        div.md { (PreEscaped(&*html)) }
        @if shown.len() < text.len() { p.note { "The first " (size(shown.len())) " of " (size(text.len())) " are shown." } }
    }
}

fn steps(entries: &[v2::PlanEntry<'_>]) -> Markup {
    let done = entries.iter().filter(|entry| entry.status == v2::PlanEntryStatus::Completed).count();
    html! {
        section.plan aria-label="Plan" {
            p.plan-count { (done) " of " (entries.len()) " done" }
            progress max=(entries.len().max(1)) value=(done) aria-label="Progress of the plan" {}
            ol {
                @for entry in entries.iter().take(MOST_STEPS) {
                    @let (class, mark, words) = match &entry.status {
                        v2::PlanEntryStatus::Pending => ("step", "more", "to do"),
                        v2::PlanEntryStatus::InProgress => ("step step-now", "chevron", "in progress"),
                        v2::PlanEntryStatus::Completed => ("step step-done", "done", "done"),
                        v2::PlanEntryStatus::Cancelled => ("step step-off", "close", "cancelled"),
                        v2::PlanEntryStatus::Unknown(_) => ("step", "more", "unknown state"),
                        v2::PlanEntryStatus::More(none) => none.never(),
                    };
                    li class=(class) {
                        (icon(mark))
                        span.sr { (words) ": " }
                        span { (prose(&entry.content)) }
                        @if entry.priority == v2::PlanEntryPriority::High { span.tag { "high" } }
                    }
                }
            }
            @if entries.len() > MOST_STEPS { p.note { (entries.len() - MOST_STEPS) " more" } }
        }
    }
}

/// Renders the progress of the first plan with steps as one line: `2 of 5 · Make the test deterministic`.
pub(crate) fn plan_line(snapshot: &Snapshot) -> Markup {
    let steps = snapshot.plans().find_map(|plan| match plan.content() {
        v2::PlanUpdateContent::Items(items) => Some(&items.entries),
        _ => None,
    });
    let Some(steps) = steps.filter(|steps| !steps.is_empty()) else { return html! { "Plan" } };
    let is = |status: v2::PlanEntryStatus| move |step: &&v2::PlanEntry<'_>| step.status == status;
    let done = steps.iter().filter(is(v2::PlanEntryStatus::Completed)).count();
    let now = steps.iter().find(is(v2::PlanEntryStatus::InProgress));
    html! {
        progress max=(steps.len()) value=(done) aria-label="Progress of the plan" {}
        span {
            (done) " of " (steps.len())
            @match now {
                Some(now) => { " · " (visible_line(&now.content)) },
                None if done == steps.len() => " · done",
                None => {},
            }
        }
    }
}

/// Renders the used context, the cost, and the usage of the last turn.
pub(crate) fn usage(snapshot: &Snapshot) -> Markup {
    let turn = match snapshot.state() {
        Some(v2::StateUpdate::Idle(idle)) => idle.usage.as_deref(),
        _ => None,
    };
    let context = snapshot.usage();
    html! {
        @if context.is_some() || turn.is_some() {
            section.usage aria-label="Usage" {
                @if let Some(usage) = context {
                    @let percent = if usage.size == 0 { 0.0 } else { usage.used as f64 / usage.size as f64 * 100.0 };
                    @let words = format!("{} of {} tokens in the context", grouped(usage.used), grouped(usage.size));
                    meter min="0" max=(usage.size.max(1)) value=(usage.used) high=(usage.size / 10 * 8)
                        aria-label="Context" title=(words) {}
                    p title=(words) { (format!("{percent:.0} %")) span.sr { " (" (words) ")" } }
                    @if let Some(cost) = &usage.cost {
                        p title="Cost of the session" { (visible_line(&spent(cost))) }
                    }
                }
                @if let Some(turn) = turn { (turn_usage(turn)) }
            }
        }
    }
}

/// Renders the number of tokens of a turn, with a tooltip for the kinds.
fn turn_usage(usage: &v2::unstable::Usage<'_>) -> Markup {
    let mut kinds = format!("{} in, {} out", grouped(usage.input_tokens), grouped(usage.output_tokens));
    for (words, tokens) in [
        ("thought", usage.thought_tokens),
        ("read from cache", usage.cached_read_tokens),
        ("written to cache", usage.cached_write_tokens),
    ] {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            // Writing to a string does not fail.
            let _ = write!(kinds, ", {} {words}", grouped(tokens));
        }
    }
    html! { p.sr title=(kinds) { "last turn " (grouped(usage.total_tokens)) " tokens" } }
}

/// Formats a cost. An amount that is not a number is shown as it is.
fn spent(cost: &v2::Cost<'_>) -> String {
    match cost.amount.as_str().parse::<f64>() {
        Ok(amount) if amount.is_finite() => money(amount, &cost.currency),
        _ => format!("{} {}", cost.amount.as_str(), cost.currency),
    }
}

/// Returns a number in at most three digits: `980`, `4.3k`, `53k`, `1.2M`.
pub(super) fn compact(number: u64) -> String {
    let (amount, unit) = match number {
        0..1_000 => return number.to_string(),
        1_000..1_000_000 => (number as f64 / 1e3, "k"),
        _ => (number as f64 / 1e6, "M"),
    };
    if amount < 10.0 { format!("{amount:.1}{unit}") } else { format!("{amount:.0}{unit}") }
}

/// Returns a number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Renders the options of a session as controls. `data-config` is the id of the option. The first ones are always
/// visible, the others behind a button.
pub(crate) fn config_options(snapshot: &Snapshot) -> Markup {
    let options = snapshot.config_options();
    let (first, others) = options.split_at(options.len().min(VISIBLE_OPTIONS));
    html! {
        @for option in first { (config_option(option, true)) }
        @if !others.is_empty() {
            details.menu {
                summary aria-label="More settings" { (icon("more")) }
                div { @for option in others.iter().take(MOST_CHOICES) { (config_option(option, false)) } }
            }
        }
    }
}

/// Renders one option. A short one shows only its value; the name is for screen readers and under the pointer.
fn config_option(option: &v2::SessionConfigOption<'_>, is_short: bool) -> Markup {
    let about = |name: &str, description: Option<&str>| match description {
        Some(description) => plain_line(&format!("{name}: {description}")),
        None => plain_line(name),
    };
    html! {
        @match option {
            v2::SessionConfigOption::Select(select) => label.config title=(about(&select.name, select.description.as_deref())) {
                span class=[is_short.then_some("sr")] { (visible_line(&select.name)) }
                " " select data-config=(select.config_id) { (values(select)) }
            },
            v2::SessionConfigOption::Boolean(boolean) => label.config title=(about(&boolean.name, boolean.description.as_deref())) {
                input type="checkbox" data-config=(boolean.config_id) checked[boolean.current_value];
                " " span { (visible_line(&boolean.name)) }
            },
            v2::SessionConfigOption::Unknown(unknown) => {
                (json::folded(&plain_line(&unknown.text("name").unwrap_or_default()), "unknown", &option.encode(WireFormat::Any)))
            },
            v2::SessionConfigOption::More(none) => (none.never::<Markup>()),
        }
    }
}

fn values(select: &v2::SessionConfigSelect<'_>) -> Markup {
    let value = |option: &v2::SessionConfigSelectOption<'_>| {
        html! {
            option value=(option.value) selected[option.value == select.current_value]
                title=[option.description.as_deref().map(plain_line)] { (plain_line(&option.name)) }
        }
    };
    html! {
        @match &select.options {
            v2::SessionConfigSelectOptions::Flat(options) => @for option in options.iter().take(MOST_CHOICES) { (value(option)) },
            v2::SessionConfigSelectOptions::Grouped(groups) => @for group in groups.iter().take(MOST_CHOICES) {
                optgroup label=(plain_line(&group.name)) {
                    @for option in group.options.iter().take(MOST_CHOICES) { (value(option)) }
                }
            },
        }
        // The current value is shown even if it is not among the values.
        @if !select.options.iter().any(|option| option.value == select.current_value) {
            option value=(select.current_value) selected { (plain_line(&select.current_value)) }
        }
    }
}

/// Renders the commands. `data-command` is the name, `data-hint` describes the argument.
pub(crate) fn commands(snapshot: &Snapshot) -> Markup {
    html! {
        @for command in snapshot.commands().iter().take(MOST_CHOICES) {
            @if let v2::AvailableCommand::Command(command) = command {
                @let hint = match &command.input {
                    Some(v2::AvailableCommandInput::Text(input)) => Some(plain_line(&input.hint)),
                    _ => None,
                };
                li.command role="option" data-command=(command.name) data-hint=[hint] {
                    code { "/" (visible_line(&command.name)) }
                    " " span.dim { (prose(&command.description)) }
                }
            }
        }
    }
}

/// Renders the latest notices, the newest first.
pub(crate) fn notices<'n>(notices: impl DoubleEndedIterator<Item = &'n v2::Notice<'n>>) -> Markup {
    html! { @for notice in notices.rev().take(MOST_NOTICES) { (self::notice(notice)) } }
}

/// Renders a notice below the entry that it follows. `number` is unique in the entry.
pub(crate) fn notice_part(number: usize, notice: &v2::Notice<'_>) -> Part {
    let key = format!("notice-{number}");
    let html = html! { div.p.notice-part data-part=(key) { (self::notice(notice)) } };
    Part::new(key, html)
}

fn notice(notice: &v2::Notice<'_>) -> Markup {
    let (class, words) = match &notice.severity {
        v2::NoticeSeverity::Info => ("notice", "Note"),
        v2::NoticeSeverity::Warning => ("notice notice-warn", "Warning"),
        v2::NoticeSeverity::Error => ("notice notice-bad", "Error"),
        v2::NoticeSeverity::Unknown(_) => ("notice", "Notice"),
        v2::NoticeSeverity::More(none) => none.never(),
    };
    html! {
        div class=(class) {
            strong { (words) ": " (visible_line(&notice.title)) }
            @if let Some(description) = &notice.description { p { (prose(description)) } }
            @if let Some(host) = denied_host(notice) {
                p class="opts" {
                    button type="button" class="opt" data-action="allow-host" data-host=(host.to_string()) {
                        "Allow " (host.to_string())
                    }
                }
            }
        }
    }
}

/// Returns the host that a sandbox refused, as it would be in the rules.
fn denied_host(notice: &v2::Notice<'_>) -> Option<HostPattern> {
    let meta = SANDBOX.read(notice.meta.as_ref()?)?.to_value();
    let host = HostPattern::parse(meta.get("rule")?.as_str()?).ok()?;
    (meta.get("denied")? == "host" && !host.is_many()).then_some(host)
}
