//! Checks of the local hub: whether it listens, and whether the token is valid.

use std::time::Duration;

use switchboard_transport::{Remote, RemoteError};

use super::Finding;
use crate::commands::connect::with_token;
use crate::commands::hub::status::{failing_targets, metrics_of};
use crate::commands::serve::PORT;
use crate::remote_agent::TOKEN;

/// Timeout for the hub.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn look(named: Option<&str>) -> Vec<Finding> {
    const SUBJECT: &str = "hub";
    let url = named.map_or_else(|| format!("http://127.0.0.1:{PORT}/metrics"), metrics_of);
    let has_token = std::env::var_os(TOKEN).is_some_and(|token| !token.is_empty());
    let remote = Remote::new(&url).map_err(|error| error.to_string());
    let remote = match remote.and_then(|remote| with_token(remote, None).map_err(|error| error.to_string())) {
        Ok(remote) => remote,
        Err(problem) => {
            return vec![Finding::problem(
                SUBJECT,
                problem,
                format!("correct the URL, or the token in {TOKEN}"),
            )];
        }
    };
    let answer = match tokio::time::timeout(TIMEOUT, remote.get()).await {
        Ok(answer) => answer,
        Err(_) => Err(remote.no_answer(TIMEOUT)),
    };
    let mut findings = Vec::new();
    if let Ok(text) = &answer {
        findings.extend(failing_targets(text).into_iter().map(|target| {
            let advice = "correct `hub.notify` in config.json, and try `switchboard hub notify --test`";
            Finding::problem("notifications", target, advice)
        }));
    }
    let is_missing = |reason: &str| !reason.contains("no answer within");
    let finding = match answer {
        Ok(text) if text.contains("switchboard_") => {
            let token = if has_token { format!("; the token in {TOKEN} is valid") } else { String::new() };
            Finding::fine(SUBJECT, format!("one runs at {url}{token}"))
        }
        Err(RemoteError::Refused { wants_token: true, .. }) if has_token => Finding::problem(
            SUBJECT,
            format!("the hub at {url} rejects the token in {TOKEN}"),
            "`switchboard tokens list` shows the tokens; `switchboard tokens add` creates one",
        ),
        Err(RemoteError::Refused { wants_token: true, .. }) => {
            Finding::fine(SUBJECT, format!("one runs at {url}; set a token in {TOKEN} for more details"))
        }
        Err(RemoteError::Unreachable { reason, .. }) if named.is_none() && is_missing(&reason) => {
            let token = if has_token {
                format!("; the token in {TOKEN} could not be checked")
            } else {
                String::new()
            };
            Finding::fine(SUBJECT, format!("none runs on this machine{token}"))
        }
        Err(error @ RemoteError::Unreachable { .. }) => Finding::problem(
            SUBJECT,
            error.to_string(),
            "start it with `switchboard serve`, or correct the URL",
        ),
        Ok(_) | Err(_) => Finding::problem(
            SUBJECT,
            format!("another program than a hub listens at {url}"),
            "end it, or use another port: switchboard serve --listen 127.0.0.1:PORT",
        ),
    };
    findings.insert(0, finding);
    findings
}
