//! Settings: an address, or the environment variables that OpenTelemetry defines.

use std::time::Duration;

use http::Uri;

use crate::TelemetryError;

/// Default timeout for a response of the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The signals to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Signals {
    pub(crate) traces: bool,
    pub(crate) metrics: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) is_disabled: bool,
    pub(crate) signals: Signals,
    /// The given address without a trailing slash. The exporter reads the environment variables itself.
    pub(crate) endpoint: Option<String>,
    pub(crate) timeout: Duration,
    /// Set if a variable requests gRPC, which is not supported.
    pub(crate) wants_grpc: bool,
    /// Set if an address uses TLS.
    pub(crate) is_encrypted: bool,
}

impl Settings {
    pub(crate) fn of_environment(endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        Settings::of(endpoint, |name| std::env::var(name).ok())
    }

    fn of(endpoint: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, TelemetryError> {
        // An empty variable counts as unset.
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = endpoint.map(checked).transpose()?;
        let address = |signal: &str| {
            endpoint
                .clone()
                .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")))
                .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"))
        };
        let is_wanted = |signal: &str| {
            let exporter = variable(&format!("OTEL_{signal}_EXPORTER"));
            address(signal).is_some() && exporter.as_deref() != Some("none")
        };
        let timeout = variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|millis| millis.trim().parse().ok());
        let is_encrypted = |signal: &str| address(signal).is_some_and(|address| address.starts_with("https"));
        Ok(Settings {
            is_disabled: variable("OTEL_SDK_DISABLED")
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            signals: Signals { traces: is_wanted("TRACES"), metrics: is_wanted("METRICS") },
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            wants_grpc: ["", "TRACES_", "METRICS_"].iter().any(|signal| {
                variable(&format!("OTEL_EXPORTER_OTLP_{signal}PROTOCOL")).as_deref() == Some("grpc")
            }),
            is_encrypted: is_encrypted("TRACES") || is_encrypted("METRICS"),
            endpoint,
        })
    }
}

/// Returns a given address if it is valid.
fn checked(address: &str) -> Result<String, TelemetryError> {
    let found = address.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
    });
    match found {
        Some(_) => Ok(address.trim_end_matches('/').to_owned()),
        None => Err(TelemetryError::Address { address: address.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Settings {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Settings::of(endpoint, variable).unwrap()
    }

    #[test]
    fn nothing_is_sent_unless_an_address_is_known() {
        assert_eq!(settings(None, &[]).signals, Signals::default());
        assert_eq!(settings(None, &[("OTEL_SERVICE_NAME", "x")]).signals, Signals::default());
        assert_eq!(settings(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).signals, Signals::default());
        let all = Signals { traces: true, metrics: true };
        assert_eq!(settings(Some("http://localhost:4318/"), &[]).signals, all);
        assert_eq!(settings(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")]).signals, all);
    }

    #[test]
    fn each_signal_can_be_chosen_alone() {
        let traces = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://localhost/v1/traces")];
        let found = settings(None, &traces);
        assert_eq!(found.signals, Signals { traces: true, metrics: false });
        assert!(found.is_encrypted);
        let metrics = settings(Some("http://localhost:4318"), &[("OTEL_TRACES_EXPORTER", "none")]);
        assert_eq!(metrics.signals, Signals { traces: false, metrics: true });
        assert!(!metrics.is_encrypted);
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for address in ["", "localhost:4318", "file:///tmp", "http://", "grpc://localhost", "http://a?b=c"] {
            assert!(Settings::of(Some(address), |_| None).is_err(), "{address:?}");
        }
        assert_eq!(settings(Some("http://[::1]:4318//"), &[]).endpoint.unwrap(), "http://[::1]:4318");
    }

    #[test]
    fn variables_switch_off_and_ask_for_what_is_not_there() {
        let variables = [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ];
        let found = settings(None, &variables);
        assert!(found.is_disabled && found.wants_grpc);
        assert_eq!(found.timeout, Duration::from_millis(250));
        assert!(!settings(None, &[("OTEL_SDK_DISABLED", "yes")]).is_disabled);
    }
}
