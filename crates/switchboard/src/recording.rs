//! Recording of a running conversation into the store or a file.

mod file;
mod observed;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use switchboard_acp::display::visible_line;
use switchboard_acp::{Meta, Side};
use switchboard_peer::Observer;
use switchboard_store::{About, Channel, Record, Recorder, Store};
use switchboard_transport::{Child, Exit, Oddities, Remote};

use self::file::RecordedFile;
use self::observed::Sides;
use crate::ending::{self, Phase};
use crate::outcome::CommandError;
use crate::telemetry::{self, Telemetry};
use crate::{standard_error, store_file};

/// Timeout for the last standard error lines of an exited process.
const LAST_LINES: Duration = Duration::from_millis(300);

/// Timeout for the end of a recording.
const CLOSE: Duration = Duration::from_millis(1500);

/// Recording options.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArguments {
    /// Record the conversation in the store (see `switchboard sessions`), or as recorded lines in a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    record: Option<Option<PathBuf>>,

    /// Path of the store, instead of the default one
    #[arg(long, value_name = "FILE", requires = "record")]
    store: Option<PathBuf>,
}

impl RecordArguments {
    /// Starts the requested recording. A store that cannot be opened is reported, and the conversation
    /// continues without. Telemetry is derived from the same events, recorded or not.
    pub(crate) fn begin(
        &self,
        about: &About,
        telemetry: Option<Telemetry>,
    ) -> Result<Option<Recording>, CommandError> {
        let recording = self.begin_to_record(about)?;
        let Some(telemetry) = telemetry else { return Ok(recording) };
        let recording = recording.unwrap_or_else(|| Recording::new(Target::Nothing));
        Ok(Some(recording.with_telemetry(telemetry, about.agent.as_deref())))
    }

    fn begin_to_record(&self, about: &About) -> Result<Option<Recording>, CommandError> {
        match &self.record {
            None => Ok(None),
            Some(Some(file)) => Recording::into_file(file).map(Some),
            Some(None) => {
                let begun = store_file::place(self.store.as_ref())
                    .and_then(store_file::open_to_record)
                    .and_then(|store| Recording::into_store(&store, about));
                let not_recorded = |error: &CommandError| {
                    standard_error::say(format!("switchboard: nothing is recorded: {error}"));
                };
                Ok(begun.inspect_err(not_recorded).ok())
            }
        }
    }

    /// Returns the path of the store that was asked for.
    pub(crate) fn store(&self) -> Option<&PathBuf> {
        self.store.as_ref()
    }

    /// Returns whether a file gets the messages, and not the store.
    pub(crate) fn is_file(&self) -> bool {
        matches!(&self.record, Some(Some(_)))
    }
}

/// Records one conversation. It never blocks the conversation: a failure is reported once and ends the
/// recording. Clones share the recording.
///
/// Recorded data survives any exit of this process. Messages are recorded before they are forwarded, so
/// everything that the other side has received is recorded.
#[derive(Clone)]
pub(crate) struct Recording {
    sink: Arc<Mutex<Option<Sink>>>,
    /// The store, unless it records into a file.
    store: Option<Store>,
    telemetry: Option<Telemetry>,
}

/// An agent process whose standard error is recorded.
pub(crate) struct Watch(Child);

struct Sink {
    target: Target,
    /// The versions of the messages and of those on the other side, once they are known.
    versions: (u16, u16),
    /// Sides of a translation, for an own client.
    sides: Sides,
    /// Invalid lines of the client and of the agent.
    of_client: Oddities,
    of_agent: Oddities,
    telemetry: Option<telemetry::Connection>,
}

#[derive(Debug)]
enum Target {
    Store(Box<Recorder>),
    /// Only the messages.
    File(RecordedFile),
    /// Not recording.
    Nothing,
    /// Recording has failed.
    Failed,
}

impl Recording {
    /// Starts a recording into the store.
    pub(crate) fn into_store(store: &Store, about: &About) -> Result<Self, CommandError> {
        let recorder = store.begin(about).map_err(store_file::store_error)?;
        Ok(Recording { store: Some(store.clone()), ..Recording::new(Target::Store(Box::new(recorder))) })
    }

    /// Returns its store.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Starts a recording of the messages into a file, as recorded lines.
    pub(crate) fn into_file(path: &Path) -> Result<Self, CommandError> {
        RecordedFile::open(path).map(|file| Recording::new(Target::File(file)))
    }

    fn new(target: Target) -> Self {
        let sink = Sink {
            target,
            versions: (0, 0),
            sides: Sides::default(),
            of_client: Oddities::recorded(),
            of_agent: Oddities::recorded(),
            telemetry: None,
        };
        Recording { sink: Arc::new(Mutex::new(Some(sink))), store: None, telemetry: None }
    }

    /// Adds telemetry.
    fn with_telemetry(self, telemetry: Telemetry, agent: Option<&str>) -> Self {
        self.with_sink(|sink| {
            let connection = telemetry.connection();
            sink.telemetry = Some(match agent {
                Some(agent) => connection.with_agent(agent),
                None => connection,
            });
            Ok(())
        });
        Recording { telemetry: Some(telemetry), ..self }
    }

    /// Returns a client's prompt with the span that it starts, for the agent; `None` if it stays unchanged.
    pub(crate) fn mark_prompt(&self, line: &str) -> Option<String> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.as_mut()?.telemetry.as_mut()?.mark_prompt(line)
    }

    /// Returns the metadata with the span of a prompt that is about to be sent.
    pub(crate) fn meta_of_prompt(&self, session: &str) -> Option<Meta<'static>> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = sink.as_mut()?.telemetry.as_mut()?.prepare(session)?;
        let meta = serde_json::json!({"traceparent": parent});
        meta.as_object().cloned().map(Meta::from)
    }

    /// Returns an observer that records everything a client sees.
    pub(crate) fn observer(&self) -> Observer {
        let recording = self.clone();
        Observer::new(move |observed| {
            recording.with_sink(|sink| {
                sink.see(observed)?;
                sink.commit()
            });
        })
    }

    /// Sets the versions of the messages and of those on the other side of a translation.
    pub(crate) fn versions(&self, messages: u16, other_side: u16) {
        self.with_sink(|sink| {
            sink.versions = (messages, other_side);
            Ok(())
        });
    }

    /// Records an entry with the current time.
    pub(crate) fn record(&self, channel: Channel, text: &str) {
        self.with_sink(|sink| {
            sink.append(Record::new(channel, text))?;
            sink.commit()
        });
    }

    /// Appends a message that becomes durable with the next [`commit`](Recording::commit) and must not be
    /// sent before: recording many at once is cheaper.
    pub(crate) fn put(&self, channel: Channel, text: &str) {
        self.with_sink(|sink| sink.append(Record::new(channel, text)));
    }

    /// Records messages with line ends between them. They and all earlier entries are durable when this
    /// returns.
    pub(crate) fn lines(&self, channel: Channel, lines: &str) {
        self.with_sink(|sink| sink.lines(channel, lines));
    }

    /// Makes all appended entries durable.
    pub(crate) fn commit(&self) {
        self.with_sink(Sink::commit);
    }

    /// Makes all entries durable, and waits until the store's session index includes them.
    pub(crate) fn settle(&self) {
        self.with_sink(|sink| match &mut sink.target {
            Target::Store(recorder) => recorder.settle().map_err(|error| error.to_string()),
            _ => sink.commit(),
        });
    }

    /// Records an invalid line.
    pub(crate) fn set_aside(&self, from: Side, what: &str) {
        self.with_sink(|sink| {
            sink.set_aside(from, what)?;
            sink.commit()
        });
    }

    fn with_sink(&self, work: impl FnOnce(&mut Sink) -> Result<(), String>) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = &mut *sink else { return };
        if let Err(reason) = work(sink) {
            standard_error::say(format!("switchboard: the recording ends here: {reason}"));
            sink.target = Target::Failed;
        }
    }

    /// Records the start of the agent's process, and its standard error until that ends.
    pub(crate) fn watch(&self, child: &Child) -> Watch {
        self.record(
            Channel::Process,
            &format!("{} started as process {}", child.program(), child.process_id()),
        );
        let recording = self.clone();
        child.on_standard_error(move |line| recording.record(Channel::StandardError, line));
        Watch(child.clone())
    }

    /// Ends the recording of an agent with a final reason.
    pub(crate) fn cut_off(&self, reason: &str) {
        self.end(reason, Phase::LastActs);
    }

    /// Ends the recording after the agent's process has exited.
    pub(crate) async fn finish(&self, watch: Watch, exit: Option<Exit>) {
        // A grandchild may hold standard error open; its later output is ignored.
        let patience = ending::at_most(LAST_LINES, Phase::Recording);
        let _ = tokio::time::timeout(patience, watch.0.standard_error_ended()).await;
        let end = exit.map_or_else(|| "did not end".to_owned(), |exit| exit.to_string());
        self.end(&format!("the process {end}"), Phase::Recording);
    }

    /// Ends the recording; everything is on disk afterwards, or a problem is reported.
    fn end(&self, reason: &str, phase: Phase) {
        self.with_sink(|sink| {
            sink.count_invalid_lines()?;
            sink.append(Record::new(Channel::Process, reason))?;
            sink.commit()
        });
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = sink.as_mut().and_then(|sink| sink.telemetry.as_mut()) {
            connection.end();
        }
        let result = match sink.map(|sink| sink.target) {
            Some(Target::Store(recorder)) => {
                let patience = ending::at_most(CLOSE, phase);
                recorder.close_within(patience).map_err(|error| error.to_string())
            }
            Some(Target::File(_) | Target::Nothing | Target::Failed) | None => Ok(()),
        };
        if let Err(reason) = result {
            standard_error::say(format!("switchboard: the recording is incomplete: {reason}"));
        }
        if let Some(telemetry) = &self.telemetry {
            telemetry.end(ending::at_most(telemetry::LAST_SENDING, phase));
        }
    }
}

impl Sink {
    /// Derives telemetry from a message.
    fn observe(&mut self, channel: Channel, protocol: u16, text: &str) {
        let Some(connection) = &mut self.telemetry else { return };
        match (channel, channel.message()) {
            (_, Some((from, false))) => connection.message(from, protocol, text),
            (Channel::Hub, _) => connection.note(text),
            _ => {}
        }
    }

    /// Records an invalid line; above a limit they are only counted.
    fn set_aside(&mut self, from: Side, what: &str) -> Result<(), String> {
        let invalid_lines = match from {
            Side::Client => &mut self.of_client,
            Side::Agent => &mut self.of_agent,
        };
        let words = invalid_lines.next(&visible_line(what));
        words.map_or(Ok(()), |words| self.append(noise(from, &words)))
    }

    fn count_invalid_lines(&mut self) -> Result<(), String> {
        for (from, total) in [(Side::Client, self.of_client.total()), (Side::Agent, self.of_agent.total())] {
            if let Some(words) = total {
                self.append(noise(from, &words))?;
            }
        }
        Ok(())
    }

    fn append(&mut self, record: Record) -> Result<(), String> {
        let protocol = if record.channel.is_other_side() { self.versions.1 } else { self.versions.0 };
        let record = record.with_protocol(protocol);
        if self.telemetry.is_some()
            && let Ok(text) = std::str::from_utf8(&record.bytes)
        {
            self.observe(record.channel, protocol, text);
        }
        match &mut self.target {
            Target::Nothing | Target::Failed => Ok(()),
            Target::Store(recorder) => recorder.put(record).map_err(|error| error.to_string()),
            Target::File(file) => file.append(&record).map_err(|error| error.to_string()),
        }
    }

    fn lines(&mut self, channel: Channel, lines: &str) -> Result<(), String> {
        let protocol = if channel.is_other_side() { self.versions.1 } else { self.versions.0 };
        if self.telemetry.is_some() && matches!(self.target, Target::Store(_)) {
            lines.split('\n').for_each(|line| self.observe(channel, protocol, line));
        }
        if let Target::Store(recorder) = &mut self.target {
            return recorder
                .append_lines(channel, protocol, lines)
                .map(drop)
                .map_err(|error| error.to_string());
        }
        for line in lines.split('\n') {
            self.append(Record::new(channel, line))?;
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<(), String> {
        match &mut self.target {
            Target::File(file) => file.commit().map_err(|error| error.to_string()),
            Target::Store(recorder) => recorder.write().map_err(|error| error.to_string()),
            Target::Nothing | Target::Failed => Ok(()),
        }
    }
}

/// Returns the diagnostic record of an invalid line.
fn noise(from: Side, what: &str) -> Record {
    Record::new(Channel::Diagnostic, serde_json::json!({"from": from, "noise": what}).to_string())
}

/// Returns a started process, or ends the recording with the reason of the failure.
pub(crate) fn started<T>(
    recording: Option<&Recording>,
    started: Result<T, switchboard_transport::Error>,
) -> Result<T, switchboard_transport::Error> {
    started.inspect_err(|error| {
        if let Some(recording) = recording {
            recording.cut_off(&error.to_string());
        }
    })
}

/// Returns the name of an agent: as configured, or the file name of its program.
pub(crate) fn agent_name(configured: Option<&str>, program: Option<&OsStr>) -> String {
    let remote = || {
        let address = program?.to_str().filter(|address| Remote::is_address(address))?;
        Some(url::Url::parse(address).ok()?.host_str()?.to_owned())
    };
    let file =
        || program.map(Path::new).and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    configured.map(str::to_owned).or_else(remote).or_else(file).unwrap_or_else(|| "agent".to_owned())
}
