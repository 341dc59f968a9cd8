//! Rules made from a question: preview on past questions, saving to the user's file, and the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use serde_json::{Value, json};
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_policy::{Draft, HostPattern, Mode, PastAnswer, Subject, Verdict};
use switchboard_session::{Permission, Snapshot};
use switchboard_store::Role;
use tokio::task::spawn_blocking;

use super::app::App;
use super::live::{Failure, Live};
use super::preview::Preview;
use super::request::RuleDecision;
use super::user_state::UserState;
use super::{RuleFile, message_address, render};

/// Time limit of the preview.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Renders the buttons that make a rule from a question, if the user may make rules.
pub(crate) fn offer(
    user: &UserState,
    live: &Live,
    session: &str,
    snapshot: &Snapshot,
    permission: &Permission,
) -> Option<render::Part> {
    if !user.may(Role::Admin) {
        return None;
    }
    let rules = user.app.rules.as_deref()?;
    if let Some(reason) = rules.refusal() {
        return Some(render::no_rule(&reason));
    }
    let subject = live.subject(session, snapshot, permission);
    let draft = |verdict| Draft::of(&subject, verdict, rules.host()).map(drop);
    Some(render::rule_offer(&draft(Verdict::Allow), &draft(Verdict::Deny)))
}

/// Returns the user's rule file. Fails if rules cannot be added.
fn rules(app: &App) -> Result<&dyn RuleFile, Failure> {
    app.rules.as_deref().ok_or_else(|| "rules cannot be added here".to_owned())
}

/// A rule that is about to be made, with its question.
struct Making {
    subject: Subject,
    options: Vec<v2::PermissionOption<'static>>,
    verdict: Verdict,
    folder: String,
    draft: Draft,
    /// Text of the rule for the file, with a comment about its origin.
    text: String,
}

impl Making {
    /// Derives the rule from a question. `read` is the revision that the user has read.
    fn of(
        user: &UserState,
        live: &Live,
        id: &str,
        read: &str,
        decision: RuleDecision,
    ) -> Result<Self, Failure> {
        if !user.may(Role::Admin) {
            return Err("only administrators of this hub can make rules".to_owned());
        }
        let rules = rules(&user.app)?;
        if let Some(reason) = rules.refusal() {
            return Err(reason);
        }
        let verdict = match decision {
            RuleDecision::Allow => Verdict::Allow,
            RuleDecision::Deny => Verdict::Deny,
        };
        let (subject, options) = live.open_subject(id, read)?;
        let draft = Draft::of(&subject, verdict, rules.host())
            .map_err(|reason| format!("no rule can be made of this, because {reason}"))?;
        let folder = live.folder.display().to_string();
        let text = format!("# Made of a question in the session {}.\n{}", live.room.id, draft.text);
        Ok(Making { subject, options, verdict, folder, draft, text })
    }

    /// Returns the reason why the policy with the new rule would not answer the question, if there is one.
    fn obstacle(&self, rules: &dyn RuleFile) -> Result<Option<String>, Failure> {
        let all = rules.with_appended(&self.text, self.folder.as_ref())?;
        let decision = all.evaluate(&self.subject, rules.host()).offered(&self.options);
        Ok(match all.mode() {
            Mode::Observe => Some("your rules are not enforced (mode = \"observe\")".to_owned()),
            Mode::Enforce => (decision.verdict != self.verdict).then_some(decision.reason),
        })
    }
}

/// Renders a rule before it is saved.
pub(crate) async fn show(
    user: &UserState,
    live: &Live,
    id: &str,
    read: &str,
    decision: RuleDecision,
) -> Result<Value, Failure> {
    let making = Making::of(user, live, id, read, decision)?;
    let app = Arc::clone(&user.app);
    let looked = spawn_blocking(move || {
        let rules = rules(&app)?;
        let obstacle = making.obstacle(rules)?;
        let until = Instant::now() + PATIENCE;
        let Making { draft, verdict, folder, .. } = &making;
        let preview = Preview::read(&app.store, &draft.policy, *verdict, rules.host(), folder, until);
        Ok::<_, Failure>((preview.map_err(|error| error.to_string()), obstacle, making))
    });
    let (preview, obstacle, making) = looked.await.map_err(|_| "the past cannot be read".to_owned())??;
    let markup = html! {
        (heading(making.verdict))
        p { "This goes into your own rules, which count for every agent:" }
        pre class="rule-text" { code { (render::visible(&making.text)) } }
        @if let Some(reason) = &obstacle {
            p class="note bad" { "It would not answer this question: " (render::visible_line(reason)) "." }
        }
        @match &preview {
            Ok(preview) => (past(preview, making.verdict)),
            Err(reason) => p class="note bad" { "The past cannot be read: " (render::visible_line(reason)) },
        }
        p class="opts" {
            button type="button" class="opt" data-action="save-rule" data-id=(id) data-revision=(read)
                data-decision=(making.verdict) data-rule=(making.text) disabled {
                @if making.verdict == Verdict::Allow { "Save the rule and allow" } @else { "Save the rule and deny" }
            }
        }
    };
    Ok(json!(markup.into_string()))
}

fn heading(verdict: Verdict) -> Markup {
    html! {
        h2 id="dialog-title" {
            @if verdict == Verdict::Allow { "Always allow this, in this project" }
            @else { "Always deny this, in this project" }
        }
    }
}

/// Renders the past decisions of the rule.
fn past(preview: &Preview, verdict: Verdict) -> Markup {
    let Preview { sessions, of_sessions, questions, allowed, rejected, unanswered, rows } = preview;
    let did = if verdict == Verdict::Allow { "allowed" } else { "denied" };
    html! {
        p class="rule-past" {
            "In the past it would have " (did) " " strong { (preview.decided()) }
            " of " (questions) " questions: " (allowed) " that were allowed then, " (rejected) " that were rejected, "
            (unanswered) " without an answer. "
            @if sessions < of_sessions {
                "There was time to look at " (sessions) " of " (of_sessions) " sessions."
            } @else {
                "That is all that is recorded."
            }
        }
        ul class="rule-rows" {
            @for row in rows {
                li {
                    a href=(message_address(&row.session, row.message)) target="_blank" rel="noopener" {
                        code { (render::visible_line(&row.words)) }
                    }
                    " "
                    @let differs = match verdict {
                        Verdict::Deny => row.answered == PastAnswer::Allowed,
                        _ => row.answered == PastAnswer::Rejected,
                    };
                    span class=(if differs { "st st-bad" } else { "dim" }) {
                        @match row.answered {
                            PastAnswer::Allowed => "was allowed",
                            PastAnswer::Rejected => "was rejected",
                            PastAnswer::Cancelled => "was dismissed",
                            PastAnswer::Open => "has no answer",
                        }
                    }
                }
            }
        }
        @let more = preview.decided().saturating_sub(rows.len() as u64);
        @if more > 0 { p class="meta" { "and " (more) " more" } }
    }
}

/// Appends the shown rule to the user's file, and answers the question by it. Returns a message for the user.
pub(crate) async fn save(
    user: &UserState,
    live: &Live,
    id: &str,
    read: &str,
    decision: RuleDecision,
    shown: &str,
) -> Result<Value, Failure> {
    let making = Making::of(user, live, id, read, decision)?;
    if making.text != shown {
        return Err("the rule has changed since it was shown; review it again".to_owned());
    }
    let app = Arc::clone(&user.app);
    let saved = spawn_blocking(move || {
        let rules = rules(&app)?;
        let obstacle = making.obstacle(rules)?;
        Ok::<_, Failure>((rules.append(&making.text)?, obstacle))
    });
    let (file, obstacle) = saved.await.map_err(|_| "the rule cannot be saved".to_owned())??;
    let answered = user.app.hub.reevaluate_policy().await;
    let is_this = |(session, request): &(Arc<str>, RequestId<'_>)| {
        **session == *live.room.id && request.encode(WireFormat::Any) == id
    };
    let is_answered = answered.iter().any(is_this);
    let words = match obstacle {
        _ if is_answered => format!("The rule is in {}, and has answered.", file.display()),
        Some(reason) => format!("The rule is in {}. This question still waits: {reason}.", file.display()),
        None => format!("The rule is in {}. Somebody else has answered this question.", file.display()),
    };
    Ok(json!(words))
}

/// Adds a host to those that sandboxes reach, in the user's own file. Returns a message for the user.
pub(crate) async fn allow_host(user: &UserState, host: &str) -> Result<Value, Failure> {
    if !user.may(Role::Admin) {
        return Err("only administrators of this hub can allow hosts".to_owned());
    }
    let pattern = HostPattern::parse(host)?;
    // The button has one host; a pattern for many is written by hand.
    if pattern.is_many() {
        return Err(format!("{host:?} is not one host"));
    }
    if let Some(reason) = rules(&user.app)?.refusal() {
        return Err(format!("the host cannot be added: {reason}"));
    }
    let app = Arc::clone(&user.app);
    let saved = spawn_blocking(move || rules(&app)?.allow_host(&pattern).map(|file| (pattern, file)));
    let (pattern, file) = saved.await.map_err(|_| "the host cannot be added".to_owned())??;
    Ok(json!(format!(
        "{pattern} is in `hosts` of {}. It applies to sandboxes that start from now on.",
        file.display()
    )))
}
