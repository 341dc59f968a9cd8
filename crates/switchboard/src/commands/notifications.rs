//! Notifications of a hub: connects its events, its page and its metrics with the targets.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path as AxumPath;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::post;
use switchboard_acp::Moment;
use switchboard_hub::{AnswerResult, Hub, Listener, SessionEvent};
use switchboard_notify::{Gone, InvalidAnswer, Notifier, NotifierOptions, Outcomes, StateFile, Target};
use switchboard_store::{Channel, Store};
use switchboard_web::Notifications;

use super::log_place::CREDENTIALS;
use crate::configuration::notify::NotifySettings;
use crate::remote_agent::{HEADERS, TOKEN};
use crate::telemetry::HubTelemetry;
use crate::units::{ago, counted};

/// Name of the state in the store.
const STATE: &str = "notify";

/// The store as the place of the state.
struct StoredState(Store);

impl StateFile for StoredState {
    fn load(&self) -> Option<String> {
        self.0.kept(STATE).ok().flatten()
    }

    fn save(&self, state: &str) {
        // The store reports its own problems. Without the state, a restart withdraws nothing.
        let _ = self.0.keep(STATE, Some(state));
    }
}

/// Starts the notifications of a hub. `origin` is that of links to sessions.
pub(crate) fn start(settings: &NotifySettings, store: &Store, origin: &str) -> Notifier {
    start_with(settings, store, origin, &[], None)
}

/// The same with further targets, and a function that gets the names of those that no longer exist.
pub(crate) fn start_with(
    settings: &NotifySettings,
    store: &Store,
    origin: &str,
    more: &[Target],
    gone: Option<Gone>,
) -> Notifier {
    let mut options = NotifierOptions::new([&settings.targets[..], more].concat(), origin);
    options.gone = gone;
    options.state = Some(Arc::new(StoredState(store.clone())));
    options.hidden_variables = hidden_variables(settings);
    Notifier::start(options)
}

/// Returns the environment variables that commands do not get.
pub(crate) fn hidden_variables(settings: &NotifySettings) -> Vec<String> {
    let ours = [TOKEN, HEADERS, CREDENTIALS].map(str::to_owned);
    settings.secret_variables.iter().cloned().chain(ours).collect()
}

/// Observer of a hub: telemetry and notifications.
pub(crate) struct Observer {
    pub(crate) telemetry: Option<HubTelemetry>,
    pub(crate) notifier: Option<Notifier>,
}

impl Observer {
    /// Returns the observer, unless there is nothing to observe for.
    pub(crate) fn boxed(self) -> Option<Box<dyn Listener>> {
        let is_needed = self.telemetry.is_some() || self.notifier.is_some();
        is_needed.then(|| Box::new(self) as Box<dyn Listener>)
    }
}

impl Listener for Observer {
    fn record_appended(&mut self, session: &str, channel: Channel, text: &str) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.record_appended(session, channel, text);
        }
    }

    fn client_message(&mut self, line: &str) -> Option<String> {
        self.telemetry.as_mut()?.client_message(line)
    }

    fn session_event(&mut self, event: SessionEvent) {
        if let Some(notifier) = &self.notifier {
            notifier.event(&event);
        }
    }

    fn wants_events(&self) -> bool {
        self.notifier.is_some()
    }
}

/// Notifications for the page.
pub(crate) struct PageNotifications(pub(crate) Notifier);

impl Notifications for PageNotifications {
    fn look(&self, tab: u64, session: Option<&str>) {
        self.0.look(tab, session);
    }

    fn outcomes(&self) -> Vec<String> {
        let now = Moment::now();
        let line = |(name, outcomes): (String, Outcomes)| format!("{name}: {}", in_words(&outcomes, now));
        self.0.outcomes().into_iter().map(line).collect()
    }
}

/// Returns the route that takes answers from notifications. Only POST has an effect.
pub(crate) fn answer_route(hub: &Hub, notifier: &Notifier) -> Router {
    let (hub, notifier) = (hub.clone(), notifier.clone());
    Router::new().route(
        "/answer/{code}",
        post(move |AxumPath(code): AxumPath<String>| async move {
            let words = |status: StatusCode, words: &'static str| (status, words).into_response();
            let answer = match notifier.take_answer(&code) {
                Ok(answer) => answer,
                Err(InvalidAnswer::TooEarly) => {
                    return words(StatusCode::CONFLICT, "Too early: read the question, and press again.\n");
                }
                Err(InvalidAnswer::Unknown) => {
                    return words(StatusCode::NOT_FOUND, "This link is unknown, used or expired.\n");
                }
            };
            let by = format!("notification {}", answer.target);
            match hub.answer_shown(&answer.session, &answer.question, &answer.option, &by).await {
                AnswerResult::Answered => words(StatusCode::OK, "Answered.\n"),
                AnswerResult::Changed => words(
                    StatusCode::CONFLICT,
                    "The question has changed since. Open the session to answer it.\n",
                ),
                AnswerResult::NotPending => {
                    words(StatusCode::NOT_FOUND, "The question no longer waits for an answer.\n")
                }
            }
        }),
    )
}

/// Formats the outcomes of a target.
pub(crate) fn in_words(outcomes: &Outcomes, now: Moment) -> String {
    let Outcomes { sent, suppressed, failed, dropped, last_failure, .. } = outcomes;
    let mut words = format!("{sent} sent");
    for (count, what) in [(suppressed, "suppressed"), (failed, "failed"), (dropped, "dropped")] {
        if *count > 0 {
            let _ = write!(words, ", {count} {what}");
        }
    }
    if let Some((reason, at)) = last_failure {
        let _ = write!(words, ", last failed {reason} {}", ago(Moment(*at), now));
    }
    words
}

/// Returns the outcomes in the Prometheus text format. Without targets there are none.
pub(crate) fn metrics(notifier: &Notifier) -> String {
    let outcomes = notifier.outcomes();
    if outcomes.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "# HELP switchboard_notifications_total Notifications by target and outcome.\n\
         # TYPE switchboard_notifications_total counter\n",
    );
    for (name, outcomes) in &outcomes {
        let Outcomes { sent, suppressed, failed, dropped, .. } = outcomes;
        for (outcome, count) in
            [("sent", sent), ("suppressed", suppressed), ("failed", failed), ("dropped", dropped)]
        {
            let _ = writeln!(
                text,
                "switchboard_notifications_total{{target=\"{name}\",outcome=\"{outcome}\"}} {count}"
            );
        }
    }
    text.push_str(
        "# HELP switchboard_notification_time_seconds Time of the last success and failure by target.\n\
         # TYPE switchboard_notification_time_seconds gauge\n",
    );
    for (name, outcomes) in &outcomes {
        if let Some(at) = outcomes.last_success {
            let _ = writeln!(
                text,
                "switchboard_notification_time_seconds{{target=\"{name}\",outcome=\"sent\",reason=\"\"}} {}",
                at / 1000
            );
        }
        if let Some((reason, at)) = &outcomes.last_failure {
            let reason: String =
                reason.chars().filter(|letter| !letter.is_control() && !"\"\\".contains(*letter)).collect();
            let _ = writeln!(
                text,
                "switchboard_notification_time_seconds{{target=\"{name}\",outcome=\"failed\",reason=\"{reason}\"}} {}",
                at / 1000
            );
        }
    }
    text
}

/// Formats the number of targets for a launch message.
pub(crate) fn announced(settings: &NotifySettings) -> String {
    let names: Vec<&str> = settings.targets.iter().map(|target| &*target.name).collect();
    format!("notifying {}: {}", counted(names.len() as u64, "target"), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_in_words() {
        let mut outcomes = Outcomes::default();
        assert_eq!(in_words(&outcomes, Moment(0)), "0 sent");
        (outcomes.sent, outcomes.suppressed) = (12, 1);
        outcomes.last_failure = Some(("403".to_owned(), 1_000_000));
        let now = Moment(1_000_000 + 2 * 3_600_000);
        assert_eq!(in_words(&outcomes, now), "12 sent, 1 suppressed, last failed 403 2 hours ago");
    }
}
