//! What was asked in the past, from the store or from recordings.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use switchboard_policy::{Observer, Question, Relevance, Subject};
use switchboard_protocol::{Recorded, RecordedLine, v2};
use switchboard_session::{Decider, Moment, Settlement, Side};
use switchboard_store::{Channel, Filter, Item, Store, apply_hub_note};

use super::explain::observer;
use crate::arguments::InputArgument;
use crate::lines::Lines;
use crate::outcome::{CommandError, Outcome};
use crate::store_file::{self, store_error};

/// Where the past is read from.
#[derive(Debug, clap::Args)]
pub(super) struct PastArguments {
    /// Recordings to read, as `sessions export` writes them; the store when missing
    recordings: Vec<PathBuf>,

    /// The store's file
    #[arg(long, value_name = "FILE", conflicts_with = "recordings")]
    store: Option<PathBuf>,

    /// What $root stands for; else the directory of each session
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// The agent's name, where the recordings do not tell it, or tell another one
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

/// How many questions may wait for an answer at a time; of older ones none is found.
pub(super) const MAX_WAITING: usize = 1000;

/// What became of a question then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answered {
    Allowed,
    Rejected,
    /// Taken back, dismissed, or answered with something that is no choice.
    Cancelled,
    /// The recording has no answer.
    Open,
}

impl Answered {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Answered::Allowed => "allowed",
            Answered::Rejected => "rejected",
            Answered::Cancelled => "cancelled",
            Answered::Open => "none",
        }
    }
}

/// Something that happened.
pub(super) enum Event {
    /// A question, with what was answered, and whether that was by rules.
    Asked { question: Box<Question>, answered: Answered, by_rule: bool },
    /// A tool call that ran, about which nobody was asked.
    Unasked(Box<Subject>),
}

/// Where it happened: a session, or a recording's file, and the number of the message there.
pub(super) struct Place {
    pub(super) session: String,
    pub(super) message: u64,
}

/// What was read.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Extent {
    pub(super) sessions: u64,
    pub(super) messages: u64,
}

/// Reads the past, and tells each thing of it, session by session.
pub(super) fn read(
    arguments: &PastArguments,
    mut tell: impl FnMut(Place, Event) -> Result<(), CommandError>,
) -> Result<(Extent, Outcome), CommandError> {
    let new = || observer(arguments.root.as_ref(), arguments.agent.as_deref());
    let progress = progress();
    let mut past =
        Past { extent: Extent::default(), outcome: Outcome::Fine, relevance: Relevance::new(), progress };
    if arguments.recordings.is_empty() {
        let place = store_file::place(arguments.store.as_ref())?;
        if place.exists() || arguments.store.is_some() {
            let store = Store::open_read_only(&place).map_err(store_error)?;
            for session in store.sessions(&Filter::default()).map_err(store_error)? {
                past.session(&store, &session.id, new()?, &mut tell)?;
            }
        }
    } else {
        for file in &arguments.recordings {
            past.recording(file, &new, &mut tell)?;
        }
    }
    past.progress.finish_and_clear();
    Ok((past.extent, past.outcome))
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

struct Past {
    extent: Extent,
    outcome: Outcome,
    relevance: Relevance,
    progress: ProgressBar,
}

type Tell<'t> = &'t mut dyn FnMut(Place, Event) -> Result<(), CommandError>;

impl Past {
    fn session(
        &mut self,
        store: &Store,
        id: &str,
        observer: Observer,
        tell: Tell<'_>,
    ) -> Result<(), CommandError> {
        let mut reading = Reading::new(id, observer);
        for item in store.read(id, 0).map_err(store_error)? {
            match item.map_err(store_error)? {
                Item::Record(record) if record.channel == Channel::Hub => {
                    reading.note(&String::from_utf8_lossy(&record.bytes));
                }
                Item::Record(record) => {
                    let Some((side, false)) = record.channel.message() else { continue };
                    self.count();
                    if self.relevance.matters(&record.bytes) {
                        reading.take(&String::from_utf8_lossy(&record.bytes), Some(side), record.sequence);
                    }
                }
                Item::Gap { from, to, reason } => {
                    self.outcome = Outcome::Problems;
                    eprintln!("session {id}, records {from} to {}: {reason}", to - 1);
                }
            }
        }
        self.extent.sessions += 1;
        reading.end(tell)
    }

    fn recording(
        &mut self,
        file: &Path,
        new: &dyn Fn() -> Result<Observer, CommandError>,
        tell: Tell<'_>,
    ) -> Result<(), CommandError> {
        let name = file.display().to_string();
        let input = InputArgument { file: Some(file.to_owned()) };
        let mut lines = Lines::of(&input)?;
        let mut reading = Reading::new(&name, new()?);
        self.extent.sessions += 1;
        while let Some((number, text)) = lines.next_text(&input)? {
            self.count();
            let text = match text {
                Ok(text) if !self.relevance.matters(text.as_bytes()) => continue,
                Ok(text) => text,
                Err(problem) => {
                    self.problem(&name, number, &problem);
                    continue;
                }
            };
            match RecordedLine::parse(text) {
                Ok(line) => {
                    if line.began.is_some() && number > 1 {
                        self.extent.sessions += 1;
                        std::mem::replace(&mut reading, Reading::new(&name, new()?)).end(tell)?;
                    }
                    match &line.recorded {
                        Recorded::Message { from, other_side: false, text } => {
                            reading.take(text, *from, number);
                        }
                        Recorded::Hub(note) => reading.note(note),
                        _ => {}
                    }
                }
                Err(error) => self.problem(&name, number, &error.to_string()),
            }
        }
        reading.end(tell)
    }

    fn problem(&mut self, name: &str, number: u64, problem: &str) {
        self.outcome = Outcome::Problems;
        eprintln!("{name}, line {number}: {problem}");
    }

    fn count(&mut self) {
        self.extent.messages += 1;
        if self.extent.messages.is_multiple_of(4096) {
            self.progress.set_position(self.extent.messages);
        }
    }
}

/// A question, and what became of it.
struct Asked {
    number: u64,
    question: Question,
    answered: Answered,
    by_rule: bool,
}

/// A session that is being read.
struct Reading {
    name: String,
    observer: Observer,
    questions: Vec<Asked>,
    /// Which of them have no answer yet.
    open: Vec<usize>,
    begun: Vec<(u64, Option<String>, String)>,
}

impl Reading {
    fn new(name: &str, observer: Observer) -> Self {
        Reading {
            name: name.to_owned(),
            observer,
            questions: Vec::new(),
            open: Vec::new(),
            begun: Vec::new(),
        }
    }

    fn take(&mut self, message: &str, from: Option<Side>, number: u64) {
        let asked = self.observer.read(message, from, Moment(0));
        self.begun.extend(
            self.observer.begun().iter().map(|(session, call)| (number, session.clone(), call.clone())),
        );
        // A question is settled before another one can take its id.
        self.settle();
        for question in asked {
            if self.open.len() >= MAX_WAITING {
                self.open.remove(0);
            }
            self.open.push(self.questions.len());
            self.questions.push(Asked { number, question, answered: Answered::Open, by_rule: false });
        }
    }

    /// Takes a note about who answers.
    fn note(&mut self, note: &str) {
        apply_hub_note(self.observer.conversation_mut(), note, Moment(0));
    }

    fn settle(&mut self) {
        let (observer, questions) = (&self.observer, &mut self.questions);
        self.open.retain(|place| {
            let Some(asked) = questions.get_mut(*place) else { return false };
            if let Some(found) = answer(observer, &asked.question) {
                (asked.answered, asked.by_rule) = found;
            }
            asked.answered == Answered::Open
        });
    }

    fn end(self, tell: Tell<'_>) -> Result<(), CommandError> {
        let Reading { name, observer, questions, open: _, begun } = self;
        let asked: std::collections::HashSet<(Option<String>, String)> = questions
            .iter()
            .filter_map(|Asked { question, .. }| {
                Some((question.session.clone(), question.tool_call.clone()?))
            })
            .collect();
        let unasked: Vec<_> = begun
            .into_iter()
            .filter(|(_, session, call)| !asked.contains(&(session.clone(), call.clone())))
            .filter(|(_, session, call)| has_run(&observer, session.as_deref(), call))
            .filter_map(|(number, session, call)| {
                Some((number, observer.subject_of_call(session.as_deref(), &call)?))
            })
            .collect();
        for Asked { number: message, question, answered, by_rule } in questions {
            let event = Event::Asked { question: Box::new(question), answered, by_rule };
            tell(Place { session: name.clone(), message }, event)?;
        }
        for (message, subject) in unasked {
            tell(Place { session: name.clone(), message }, Event::Unasked(Box::new(subject)))?;
        }
        Ok(())
    }
}

fn has_run(observer: &Observer, session: Option<&str>, call: &str) -> bool {
    let call = observer.conversation().session(session).and_then(|session| session.tool_call(call));
    call.is_some_and(|call| *call.status() != v2::ToolCallStatus::Pending)
}

/// What was answered to a question, once it is settled, and whether that was by rules.
pub(super) fn answer(observer: &Observer, question: &Question) -> Option<(Answered, bool)> {
    let session = observer.conversation().session(question.session.as_deref())?;
    let permission = session.permission(question.id.as_ref()?)?;
    let is_rule = |by: &Decider| match by {
        Decider::Rule(_) => true,
        // Rules decided, and none of them by itself: the default, or nobody to ask.
        Decider::Other(by) => **by == *"policy",
        _ => false,
    };
    Some(match permission.settlement() {
        Settlement::Pending => return None,
        Settlement::Answered { by, .. } if permission.is_granted() => (Answered::Allowed, is_rule(by)),
        Settlement::Answered { by, .. } => (Answered::Rejected, is_rule(by)),
        Settlement::Cancelled { by, .. } | Settlement::NotAnApproval { by, .. } => {
            (Answered::Cancelled, is_rule(by))
        }
    })
}
