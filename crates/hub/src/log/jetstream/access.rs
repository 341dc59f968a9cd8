//! Connecting and authenticating to NATS servers.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError};

use super::server::{REQUEST_TIMEOUT, error_text, locked};
use crate::log::jetstream_options::{JetStreamOptions, LogError};

/// The oldest supported server version.
const OLDEST: (u64, u64) = (2, 9);
/// Beginning of the servers' message about missing permissions.
const VIOLATION: &str = "Permissions Violation";

/// Permissions that the servers refused. They report refusals as separate events; the refused operation itself gets no
/// response.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<Option<String>>>);

impl Refusals {
    fn take(&self, event: Event) {
        if let Event::ServerError(ServerError::Other(text)) = event
            && text.starts_with(VIOLATION)
        {
            *locked(&self.0) = Some(text);
        }
    }

    /// Takes the last refusal, in the words of the server.
    pub(super) fn take_refusal(&self) -> Option<String> {
        locked(&self.0).take()
    }

    /// Takes the last refusal as an error for the operator.
    pub(super) fn error(&self) -> Option<LogError> {
        let problem =
            format!("the NATS server refuses a permission that the hub needs: {}", self.take_refusal()?);
        Some(LogError::new(problem, "grant its user the permissions in docs/cluster.md"))
    }
}

/// Connects to the servers. Refusals are collected from then on.
pub(super) async fn connect(options: &JetStreamOptions) -> Result<(Client, Refusals), LogError> {
    let servers = addresses(&options.servers)?;
    let refusals = Refusals::default();
    let known = refusals.clone();
    let connect = with_credentials(ConnectOptions::new(), options.credentials.as_deref())?
        .name("switchboard")
        .connection_timeout(REQUEST_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .event_callback(move |event| {
            known.take(event);
            std::future::ready(())
        });
    let connect = match &options.root_certificates {
        Some(file) => {
            check_certificates(file)?;
            connect.add_root_certificates(file.clone())
        }
        None => connect,
    };
    let client = connect.connect(servers).await.map_err(|error| not_connected(&options.servers, &error))?;
    Ok((client, refusals))
}

fn not_connected(servers: &str, error: &ConnectError) -> LogError {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => LogError::new(
            format!("the NATS server at {servers} refuses the credentials"),
            "set --session-log-credentials FILE or SWITCHBOARD_LOG_CREDENTIALS: a credentials file, USER:PASSWORD, or a token",
        ),
        ConnectErrorKind::Tls => not_secure(servers, &error_text(error)),
        _ if is_of_tls(error) => not_secure(servers, &error_text(error)),
        _ => LogError::new(
            format!("no NATS server answers at {servers}: {}", error_text(error)),
            "start one with `nats-server --jetstream`, or give another address with --session-log nats://HOST:PORT",
        ),
    }
}

fn not_secure(servers: &str, reason: &str) -> LogError {
    LogError::new(
        format!("no secure connection to the NATS server at {servers}: {reason}"),
        "pass the certificate of its authority with --session-log-ca FILE; for a server without TLS use nats://",
    )
}

/// Returns whether an error concerns TLS. The client library reports such an error as a broken connection.
fn is_of_tls(error: &(dyn Error + 'static)) -> bool {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inner = inner.and_then(|inner| inner.downcast_ref::<async_nats::rustls::Error>());
    inner.is_some() || error.source().is_some_and(is_of_tls)
}

/// Checks that a file contains certificates. Without any, no server would be trusted.
fn check_certificates(file: &Path) -> Result<(), LogError> {
    let found = CertificateDer::pem_file_iter(file).map(|mut certificates| certificates.next());
    let reason = match found {
        Ok(Some(Ok(_))) => return Ok(()),
        Ok(None) => "it has none".to_owned(),
        Ok(Some(Err(error))) | Err(error) => error.to_string(),
    };
    Err(LogError::new(
        format!("cannot read certificates from {}: {reason}", file.display()),
        "--session-log-ca FILE needs PEM certificates of the authority that signed the servers' certificates",
    ))
}

fn addresses(text: &str) -> Result<Vec<ServerAddr>, LogError> {
    let hint = "use for example nats://127.0.0.1:4222 or tls://one:4222,tls://two:4222,tls://three:4222";
    let parsed = text.split(',').map(|address| {
        let address = address.trim();
        let bad =
            |reason: &str| LogError::new(format!("invalid NATS server address {address}: {reason}"), hint);
        if !["nats://", "tls://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Err(bad("it must start with nats:// or tls://"));
        }
        let parsed: ServerAddr = address.parse().map_err(|error: std::io::Error| bad(&error.to_string()))?;
        if parsed.host().is_empty() {
            return Err(bad("it has no host name"));
        }
        if parsed.has_user_pass() {
            // The command line is visible to other users.
            let hint = "pass them with --session-log-credentials FILE or SWITCHBOARD_LOG_CREDENTIALS";
            return Err(LogError::new("the address of a NATS server must not contain credentials", hint));
        }
        Ok(parsed)
    });
    parsed.collect()
}

fn with_credentials(options: ConnectOptions, credentials: Option<&str>) -> Result<ConnectOptions, LogError> {
    let Some(text) = credentials.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(options) };
    if text.contains("BEGIN NATS USER JWT") {
        // The client library requires a line break after the last line.
        return options.credentials(&format!("{text}\n")).map_err(|error| {
            LogError::new(
                format!("cannot parse the NATS credentials: {error}"),
                "pass a file from `nsc generate creds` with --session-log-credentials FILE, or its text in SWITCHBOARD_LOG_CREDENTIALS",
            )
        });
    }
    Ok(match text.split_once(':') {
        Some((user, password)) => options.user_and_password(user.to_owned(), password.to_owned()),
        None => options.token(text.to_owned()),
    })
}

pub(super) fn check_version(version: &str) -> Result<(), LogError> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-']).map(|part| part.parse::<u64>().ok());
    let found = (numbers.next().flatten(), numbers.next().flatten());
    match found {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(LogError::new(
            format!("the NATS server has version {version}, which is too old"),
            format!("version {}.{} or newer is needed", OLDEST.0, OLDEST.1),
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn server_addresses_are_parsed() {
        assert_eq!(addresses("nats://127.0.0.1:4222").unwrap().len(), 1);
        assert_eq!(addresses("tls://one:1, nats://[::1]:2,nats://three").unwrap().len(), 3);
        for wrong in ["", "127.0.0.1:4222", "http://127.0.0.1:4222", "nats://a:1,", "nats://", "nats://a:x"] {
            assert!(addresses(wrong).unwrap_err().problem.contains("invalid NATS server address"), "{wrong}");
        }
        let refused = addresses("nats://me:secret@127.0.0.1:4222").unwrap_err();
        assert!(!refused.problem.contains("secret") && refused.hint.contains("--session-log-credentials"));
    }

    #[test]
    fn old_versions_are_refused() {
        for good in ["2.9.10", "2.10.0", "v2.12.1-beta", "3.0.0"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for old in ["2.8.4", "1.4.1", "", "new"] {
            assert!(check_version(old).unwrap_err().hint.contains("2.9"), "{old}");
        }
    }
}
