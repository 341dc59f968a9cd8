//! Export to the collector: HTTP with our own client, on a separate thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use http::Uri;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Handle, Runtime};

use crate::settings::Settings;
use crate::{SCOPE, TelemetryError, Tell};

/// Maximum length of a collector's response in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The pipelines that collect and send telemetry.
pub(crate) struct Exporter {
    pub(crate) traces: SdkTracerProvider,
    pub(crate) metrics: SdkMeterProvider,
    complaint: FirstProblem,
    runtime: Mutex<Option<Runtime>>,
}

impl Exporter {
    pub(crate) fn start(settings: &Settings, tell: Tell) -> Result<Self, TelemetryError> {
        let failed = |error: &dyn fmt::Display| TelemetryError::SetUp(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("telemetry")
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        if settings.wants_grpc {
            tell(
                "telemetry uses http/protobuf; gRPC, which OTEL_EXPORTER_OTLP_PROTOCOL requests, is not supported",
            );
        }
        let complaint = FirstProblem { tell, is_told: Arc::default() };
        let client = Collector::new(settings, runtime.handle().clone(), complaint.clone())?;
        let resource = resource();
        let mut traces = SdkTracerProvider::builder().with_resource(resource.clone());
        let mut metrics = SdkMeterProvider::builder().with_resource(resource);
        let endpoint = |path: &str| settings.endpoint.as_ref().map(|endpoint| format!("{endpoint}{path}"));
        if settings.signals.traces {
            let mut builder = SpanExporter::builder()
                .with_http()
                .with_http_client(client.clone())
                .with_protocol(Protocol::HttpBinary);
            if let Some(endpoint) = endpoint("/v1/traces") {
                builder = builder.with_endpoint(endpoint);
            }
            traces = traces.with_batch_exporter(builder.build().map_err(|error| failed(&error))?);
        }
        if settings.signals.metrics {
            let mut builder = MetricExporter::builder()
                .with_http()
                .with_http_client(client)
                .with_protocol(Protocol::HttpBinary);
            if let Some(endpoint) = endpoint("/v1/metrics") {
                builder = builder.with_endpoint(endpoint);
            }
            metrics = metrics.with_periodic_exporter(builder.build().map_err(|error| failed(&error))?);
        }
        let (traces, metrics) = (traces.build(), metrics.build());
        Ok(Exporter { traces, metrics, complaint, runtime: Mutex::new(Some(runtime)) })
    }

    /// Sends the remaining data, with a timeout.
    pub(crate) fn end(&self, patience: Duration) {
        let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let until = Instant::now() + patience;
        let (traces, metrics) = (self.traces.clone(), self.metrics.clone());
        let (traced, spans) = mpsc::sync_channel(1);
        let (measured, numbers) = mpsc::sync_channel(1);
        // On separate threads: one must not use up the time of the other. After the timeout the results are
        // not needed.
        let senders = [
            std::thread::Builder::new().spawn(move || {
                let _ = traces.shutdown_with_timeout(patience);
                let _ = traced.send(());
            }),
            std::thread::Builder::new().spawn(move || {
                let _ = metrics.shutdown_with_timeout(patience);
                let _ = measured.send(());
            }),
        ];
        let is_sent = senders.iter().all(Result::is_ok)
            && [spans, numbers]
                .iter()
                .all(|done| done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok());
        if !is_sent {
            self.complaint.tell("not all telemetry was sent: the collector timed out");
        }
        runtime.shutdown_background();
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // This may be dropped inside a task, where blocking on a runtime is not allowed.
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the resource of this program: from the environment variables, with a default name.
fn resource() -> Resource {
    let named = Resource::builder().build();
    let name = named.get(&Key::new("service.name")).map(|name| name.to_string());
    let mut resource = Resource::builder();
    if name.is_none_or(|name| name.starts_with("unknown_service")) {
        resource = resource.with_service_name(SCOPE);
    }
    if named.get(&Key::new("service.version")).is_none() {
        resource = resource.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    resource.build()
}

/// Reports the first problem only.
#[derive(Clone)]
struct FirstProblem {
    tell: Tell,
    is_told: Arc<AtomicBool>,
}

impl FirstProblem {
    fn tell(&self, what: &str) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            (self.tell)(what);
        }
    }
}

/// A client of the collector. It may be awaited on any thread: the work runs on the exporter's own runtime.
#[derive(Clone)]
struct Collector {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    handle: Handle,
    timeout: Duration,
    complaint: FirstProblem,
}

impl fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Collector")
    }
}

impl Collector {
    fn new(settings: &Settings, handle: Handle, complaint: FirstProblem) -> Result<Self, TelemetryError> {
        let tls = switchboard_transport::client_tls(settings.is_encrypted).map_err(TelemetryError::SetUp)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(settings.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.as_ref().clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Collector { http, handle, timeout: settings.timeout, complaint })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let answer = self.http.request(Request::from_parts(parts, Full::new(body))).await?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let place = shown(request.uri());
        let collector = self.clone();
        let sent = self.handle.spawn(async move {
            match tokio::time::timeout(collector.timeout, collector.send(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {:?}", collector.timeout).into()),
            }
        });
        let answer = match sent.await {
            Ok(answer) => answer,
            // The runtime has ended: the timeout is over.
            Err(error) => return Err(error.into()),
        };
        let problem = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(in_words(error.as_ref())),
        };
        if let Some(problem) = problem {
            self.complaint.tell(&format!("cannot send telemetry to {place}: {problem}"));
        }
        answer
    }
}

/// Returns an address without parts that may be secret.
fn shown(address: &Uri) -> String {
    let scheme = address.scheme_str().unwrap_or("http");
    let host = address.host().unwrap_or_default();
    let port = address.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    format!("{scheme}://{host}{port}{}", address.path())
}

/// Formats an error with its causes, since the outermost often has no details.
fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_an_address_are_not_shown() {
        let address: Uri = "https://user:word@collector.test:4318/v1/traces?key=secret".parse().unwrap();
        assert_eq!(shown(&address), "https://collector.test:4318/v1/traces");
    }
}
