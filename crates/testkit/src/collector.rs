//! An OpenTelemetry collector on loopback that decodes the received data.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message as _;

/// Timeout of waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// Behaviour of the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Accepts everything.
    Well,
    /// Answers with this status and keeps nothing.
    With(u16),
    /// Reads and never answers.
    Never,
}

/// A received span. Ids are hexadecimal; the parent of a root span is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SeenSpan {
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub links: Vec<String>,
    pub is_error: bool,
    pub attributes: BTreeMap<String, String>,
}

/// A point of a counter or a histogram: count and sum.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct SeenNumber {
    pub name: String,
    pub count: u64,
    pub sum: f64,
    pub attributes: BTreeMap<String, String>,
}

/// A collector, which stops when it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    answers: Answers,
    received: Mutex<Received>,
    changed: Condvar,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Received {
    spans: Vec<SeenSpan>,
    /// The latest value of each point: values are cumulative.
    numbers: Vec<SeenNumber>,
    resource: BTreeMap<String, String>,
    /// The heads of all requests in lower case, and their bodies.
    requests: Vec<(String, Vec<u8>)>,
    connections: Vec<TcpStream>,
}

impl Collector {
    /// Starts to listen.
    pub fn start(answers: Answers) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answers,
            received: Mutex::default(),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let known = Arc::clone(&shared);
        let listening = std::thread::spawn(move || {
            let mut talks = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if known.is_over.load(Ordering::Acquire) {
                    break;
                }
                let Ok(copy) = stream.try_clone() else { continue };
                known.received().connections.push(copy);
                let known = Arc::clone(&known);
                talks.push(std::thread::spawn(move || known.talk(stream)));
            }
            talks.into_iter().for_each(|talk| drop(talk.join()));
        });
        Ok(Collector { address, shared, listening: Some(listening) })
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until there are so many spans with a name, and returns all spans.
    ///
    /// # Panics
    ///
    /// If they do not arrive in time.
    pub fn spans_when(&self, name: &str, count: usize) -> Vec<SeenSpan> {
        let is_there =
            |received: &Received| received.spans.iter().filter(|span| span.name == name).count() >= count;
        self.wait(&format!("{count} spans {name:?}"), is_there).spans.clone()
    }

    /// Waits for points of a metric, and returns all points.
    ///
    /// # Panics
    ///
    /// If none arrive in time.
    pub fn numbers_when(&self, name: &str) -> Vec<SeenNumber> {
        let is_there = |received: &Received| received.numbers.iter().any(|number| number.name == name);
        self.wait(&format!("points of {name:?}"), is_there).numbers.clone()
    }

    /// Returns the resource attributes of the sender.
    pub fn resource(&self) -> BTreeMap<String, String> {
        self.shared.received().resource.clone()
    }

    /// Returns the heads of the requests so far in lower case, with their bodies.
    pub fn requests(&self) -> Vec<(String, Vec<u8>)> {
        self.shared.received().requests.clone()
    }

    fn wait(&self, what: &str, is_there: impl Fn(&Received) -> bool) -> MutexGuard<'_, Received> {
        let received = self.shared.received();
        let waiting =
            self.shared.changed.wait_timeout_while(received, PATIENCE, |received| !is_there(received));
        let (received, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        assert!(
            !timeout.timed_out(),
            "waited in vain for {what}; there are {:?} and {:?}",
            received.spans,
            received.numbers
        );
        received
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Unblocks `accept`.
        drop(TcpStream::connect(self.address));
        for connection in self.shared.received().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        if let Some(listening) = self.listening.take() {
            drop(listening.join());
        }
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the requests of one connection.
    fn talk(&self, stream: TcpStream) {
        let Ok(mut writer) = stream.try_clone() else { return };
        let mut reader = BufReader::new(stream);
        while let Some((head, body)) = read_request(&mut reader) {
            let status = match self.answers {
                Answers::Well => {
                    self.take(&head, &body);
                    200
                }
                Answers::With(status) => status,
                Answers::Never => 0,
            };
            self.received().requests.push((head, body));
            self.changed.notify_all();
            let answer = format!("HTTP/1.1 {status} Answer\r\ncontent-length: 0\r\n\r\n");
            if status != 0 && writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn take(&self, head: &str, body: &[u8]) {
        let mut received = self.received();
        if head.starts_with("post /v1/traces ") {
            let Ok(request) = ExportTraceServiceRequest::decode(body) else { return };
            for of_resource in request.resource_spans {
                received.resource.extend(attributes(of_resource.resource.unwrap_or_default().attributes));
                for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    received.spans.push(SeenSpan {
                        name: span.name,
                        trace: hexadecimal(&span.trace_id),
                        id: hexadecimal(&span.span_id),
                        parent: hexadecimal(&span.parent_span_id),
                        links: span.links.iter().map(|link| hexadecimal(&link.span_id)).collect(),
                        is_error: span.status.is_some_and(|status| status.code == 2),
                        attributes: attributes(span.attributes),
                    });
                }
            }
        } else if head.starts_with("post /v1/metrics ") {
            let Ok(request) = ExportMetricsServiceRequest::decode(body) else { return };
            let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
            for metric in scopes.flat_map(|scope| scope.metrics) {
                let points: Vec<SeenNumber> = match metric.data {
                    Some(Data::Sum(sum)) => sum
                        .data_points
                        .into_iter()
                        .map(|point| {
                            let sum = match point.value {
                                Some(number_data_point::Value::AsInt(value)) => value as f64,
                                Some(number_data_point::Value::AsDouble(value)) => value,
                                None => 0.0,
                            };
                            let (name, attributes) = (metric.name.clone(), attributes(point.attributes));
                            SeenNumber { name, count: sum as u64, sum, attributes }
                        })
                        .collect(),
                    Some(Data::Histogram(histogram)) => histogram
                        .data_points
                        .into_iter()
                        .map(|point| {
                            let (count, sum) = (point.count, point.sum());
                            let (name, attributes) = (metric.name.clone(), attributes(point.attributes));
                            SeenNumber { name, count, sum, attributes }
                        })
                        .collect(),
                    _ => Vec::new(),
                };
                for point in points {
                    received
                        .numbers
                        .retain(|known| (&known.name, &known.attributes) != (&point.name, &point.attributes));
                    received.numbers.push(point);
                }
            }
        }
    }
}

/// Reads a request's head and body; `None` at the end.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length?.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, text_of(pair.value))).collect()
}

fn text_of(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::ArrayValue(array)) => {
            array.values.into_iter().map(|value| text_of(Some(value))).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}
