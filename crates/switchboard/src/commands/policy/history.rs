//! Past permission requests, from the store or from recordings.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};

use indicatif::{ProgressBar, ProgressStyle};
use switchboard_acp::{Recorded, RecordedLine, v2};
use switchboard_policy::{
    PastAnswer, PastQuestion, PastQuestions, Question, QuestionReader, Relevance, Subject,
};
use switchboard_session::{Moment, Side};
use switchboard_store::{Channel, Filter, Item, Record, Store, Summary, apply_hub_note};

use super::explain::reader;
use crate::arguments::InputArgument;
use crate::lines::Lines;
use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, store_error};

/// Source of past requests.
#[derive(Debug, clap::Args)]
pub(super) struct PastArguments {
    /// Recordings as written by `sessions export`; default: the store
    recordings: Vec<PathBuf>,

    /// Path of the store
    #[arg(long, value_name = "FILE", conflicts_with = "recordings")]
    store: Option<PathBuf>,

    /// Value of $root; default: the directory of each session
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Name of the agent, overriding the one in the recordings
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

/// A past event.
pub(super) enum Event {
    /// A question with its answer, and whether rules answered it.
    Asked { question: Box<Question>, answered: PastAnswer, by_rule: bool },
    /// A tool call that ran without a question.
    Unasked(Box<Subject>),
}

/// Position of an event: a session or a recording's file, and the message number.
pub(super) struct EventPosition {
    pub(super) session: String,
    pub(super) message: u64,
}

/// Amount of data read.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct DataRead {
    pub(super) sessions: u64,
    pub(super) messages: u64,
}

/// Reads past events and passes each to a callback, session by session and in order. Several sessions or
/// recordings are read in parallel.
pub(super) fn read(
    arguments: &PastArguments,
    mut tell: impl FnMut(EventPosition, Event) -> Result<(), CommandError>,
) -> Result<(DataRead, Outcome), CommandError> {
    let new = || reader(arguments.root.as_ref(), arguments.agent.as_deref());
    let progress = progress();
    let past = |tell| SourceReader {
        extent: DataRead::default(),
        problems: Vec::new(),
        relevance: Relevance::new(),
        progress: progress.clone(),
        tell,
    };
    let ended = if arguments.recordings.is_empty() {
        let place = store_file::place(arguments.store.as_ref())?;
        if arguments.store.is_none() && !store_file::is_there(&place)? {
            return Ok((DataRead::default(), Outcome::Fine));
        }
        let store = Store::open_read_only(&place).map_err(store_error)?;
        let sessions = store.sessions(&Filter::default()).map_err(store_error)?;
        let work = |session: &Summary, tell: ResultSender| past(tell).session(&store, &session.id, new()?);
        side_by_side(&sessions, &work, &mut tell)
    } else {
        let work = |file: &PathBuf, tell: ResultSender| past(tell).recording(file, &new);
        side_by_side(&arguments.recordings, &work, &mut tell)
    };
    progress.finish_and_clear();
    let SourceSummary { extent, problems } = ended?;
    Ok((extent, if problems.is_empty() { Outcome::Fine } else { Outcome::Problems }))
}

/// Maximum number of queued events per session.
const MAX_AHEAD: usize = 1024;

/// Result of reading one session or recording.
enum ReadResult {
    Found(EventPosition, Event),
    SourceSummary(Result<SourceSummary, CommandError>),
}

/// Amount of data and problems of one source.
#[derive(Default)]
struct SourceSummary {
    extent: DataRead,
    problems: Vec<String>,
}

/// Sender of results.
type ResultSender = SyncSender<ReadResult>;

/// Processes items in parallel and passes the results on in order. Later items are only read ahead up to a
/// limit, so that memory is bounded.
fn side_by_side<T: Sync>(
    items: &[T],
    work: &(dyn Fn(&T, ResultSender) -> Result<SourceSummary, CommandError> + Sync),
    tell: &mut dyn FnMut(EventPosition, Event) -> Result<(), CommandError>,
) -> Result<SourceSummary, CommandError> {
    let at_a_time = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut all = SourceSummary::default();
    let mut items = items.iter();
    std::thread::scope(|scope| {
        let mut underway = VecDeque::new();
        loop {
            for item in items.by_ref().take(at_a_time.saturating_sub(underway.len())) {
                let (teller, told) = sync_channel(MAX_AHEAD);
                scope.spawn(move || {
                    let ended = work(item, teller.clone());
                    // The receiver may be gone.
                    let _ = teller.send(ReadResult::SourceSummary(ended));
                });
                underway.push_back(told);
            }
            let Some(told) = underway.pop_front() else { return Ok(all) };
            for told in told {
                match told {
                    ReadResult::Found(place, event) => tell(place, event)?,
                    ReadResult::SourceSummary(ended) => {
                        let SourceSummary { extent, problems } = ended?;
                        all.extent.sessions += extent.sessions;
                        all.extent.messages += extent.messages;
                        problems.iter().for_each(|problem| eprintln!("{problem}"));
                        all.problems.extend(problems);
                    }
                }
            }
        }
    })
}

fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} messages, {per_sec}") {
        bar.set_style(style);
    }
    bar
}

/// A session or recording that is being read.
struct SourceReader {
    extent: DataRead,
    problems: Vec<String>,
    relevance: Relevance,
    progress: ProgressBar,
    tell: ResultSender,
}

/// Maximum number of reported problems per recording.
const MAX_PROBLEMS: usize = 1000;

impl SourceReader {
    fn session(
        mut self,
        store: &Store,
        id: &str,
        reader: QuestionReader,
    ) -> Result<SourceSummary, CommandError> {
        let mut reading = SessionReader::new(id, reader);
        for item in store.read(id, 0).map_err(store_error)? {
            match item.map_err(store_error)? {
                Item::Record(record) => {
                    if matches!(record.channel.message(), Some((_, false))) {
                        self.count();
                    }
                    reading.record(&record, &self.relevance);
                }
                Item::Gap { from, to, reason } => {
                    self.problem(format!("session {id}, {}", store_file::gap_in_words(from, to, &reason)));
                }
            }
        }
        self.extent.sessions += 1;
        reading.end(&self.tell);
        Ok(self.ended())
    }

    fn recording(
        mut self,
        file: &Path,
        new: &dyn Fn() -> Result<QuestionReader, CommandError>,
    ) -> Result<SourceSummary, CommandError> {
        let name = file.display().to_string();
        let input = InputArgument { file: Some(file.to_owned()) };
        let mut lines = Lines::of(&input)?;
        let mut reading = SessionReader::new(&name, new()?);
        self.extent.sessions += 1;
        while let Some((number, text)) = lines.next_text(&input)? {
            self.count();
            let text = match text {
                Ok(text) if !self.relevance.matters(text.as_bytes()) => continue,
                Ok(text) => text,
                Err(problem) => {
                    self.problem(format!("{name}, line {number}: {problem}"));
                    continue;
                }
            };
            match RecordedLine::parse(text) {
                Ok(line) => {
                    if line.began.is_some() && number > 1 {
                        self.extent.sessions += 1;
                        std::mem::replace(&mut reading, SessionReader::new(&name, new()?)).end(&self.tell);
                    }
                    match &line.recorded {
                        Recorded::Message { from, other_side: false, text } => {
                            reading.take(text, *from, number);
                        }
                        Recorded::Hub(note) => reading.note(note),
                        _ => {}
                    }
                }
                Err(error) => self.problem(format!("{name}, line {number}: {error}")),
            }
        }
        reading.end(&self.tell);
        Ok(self.ended())
    }

    fn problem(&mut self, problem: String) {
        match self.problems.len() {
            MAX_PROBLEMS => self.problems.push("and more".to_owned()),
            count if count < MAX_PROBLEMS => self.problems.push(problem),
            _ => {}
        }
    }

    fn count(&mut self) {
        const STEP: u64 = 4096;
        self.extent.messages += 1;
        if self.extent.messages.is_multiple_of(STEP) {
            self.progress.inc(STEP);
        }
    }

    fn ended(self) -> SourceSummary {
        SourceSummary { extent: self.extent, problems: self.problems }
    }
}

/// A session that is being read.
struct SessionReader {
    name: String,
    session: PastQuestions,
    questions: Vec<PastQuestion>,
    begun: Vec<(u64, Option<String>, String)>,
}

impl SessionReader {
    fn new(name: &str, reader: QuestionReader) -> Self {
        let session = PastQuestions::new(reader);
        SessionReader { name: name.to_owned(), session, questions: Vec::new(), begun: Vec::new() }
    }

    fn record(&mut self, record: &Record, relevance: &Relevance) {
        let text = || String::from_utf8_lossy(&record.bytes);
        match record.channel.message() {
            _ if record.channel == Channel::Hub => self.note(&text()),
            Some((side, false)) if relevance.matters(&record.bytes) => {
                self.take(&text(), Some(side), store_file::message_number(record.sequence));
            }
            _ => {}
        }
    }

    /// Applies a record of a hub, which names who answers.
    fn note(&mut self, note: &str) {
        apply_hub_note(self.session.reader_mut().conversation_mut(), note, Moment(0));
    }

    fn take(&mut self, message: &str, from: Option<Side>, number: u64) {
        self.questions.extend(self.session.read(message, from, number));
        self.note_begun(number);
    }

    fn note_begun(&mut self, number: u64) {
        let begun = self.session.reader_mut().take_begun();
        self.begun.extend(begun.map(|(session, call)| (number, session, call)));
    }

    /// Sends the results, as long as they are wanted.
    fn end(self, tell: &ResultSender) {
        let SessionReader { name, mut session, mut questions, begun } = self;
        questions.extend(session.end());
        questions.sort_by_key(|asked| asked.index);
        let reader = session.reader();
        let asked: std::collections::HashSet<(Option<&str>, &str)> = questions
            .iter()
            .filter_map(|PastQuestion { question, .. }| {
                Some((question.session.as_deref(), question.tool_call.as_deref()?))
            })
            .collect();
        let unasked: Vec<_> = begun
            .iter()
            .filter(|(_, session, call)| !asked.contains(&(session.as_deref(), call)))
            .filter(|(_, session, call)| has_run(reader, session.as_deref(), call))
            .filter_map(|(number, session, call)| {
                Some((*number, reader.subject_of_call(session.as_deref(), call)?))
            })
            .collect();
        let place = |message| EventPosition { session: name.clone(), message };
        let asked =
            questions.into_iter().map(|PastQuestion { number, question, answered, by_rule, .. }| {
                ReadResult::Found(
                    place(number),
                    Event::Asked { question: Box::new(question), answered, by_rule },
                )
            });
        let unasked = unasked
            .into_iter()
            .map(|(number, subject)| ReadResult::Found(place(number), Event::Unasked(Box::new(subject))));
        let _ = asked.chain(unasked).try_for_each(|told| tell.send(told));
    }
}

fn has_run(reader: &QuestionReader, session: Option<&str>, call: &str) -> bool {
    let session = reader.conversation().session(session);
    let outline = session.and_then(|session| session.tool_call_outline(call));
    outline.is_some_and(|outline| *outline.call().status() != v2::ToolCallStatus::Pending)
}
