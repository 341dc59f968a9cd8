//! Preview of rules on past requests, within a time limit.

use std::time::Instant;

use switchboard_policy::{
    Host, PastAnswer, PastQuestion, PastQuestions, Policy, QuestionReader, Relevance, Verdict, Version1,
};
use switchboard_session::Moment;
use switchboard_store::{Channel, Filter, Item, Record, Store, StoreError, Summary, apply_hub_note};

/// Maximum number of sessions, latest first.
const MAX_SESSIONS: usize = 2000;
/// Maximum number of questions shown.
const MAX_ROWS: usize = 12;
/// Number of records between checks of the clock.
const STEP: u64 = 64;

/// Settings for reading version 1 messages as version 2, which policies evaluate.
const VERSION_1: Version1 = Version1 {
    update: switchboard_bridge::read_v1_update,
    permission: switchboard_bridge::read_v1_permission,
};

/// The result of a preview.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    /// Number of sessions read, and of all sessions.
    pub(crate) sessions: usize,
    pub(crate) of_sessions: usize,
    /// Number of questions read.
    pub(crate) questions: u64,
    /// Number of questions that the rules would have decided, by recorded answer.
    pub(crate) allowed: u64,
    pub(crate) rejected: u64,
    pub(crate) unanswered: u64,
    /// The first of them, those with a different answer first.
    pub(crate) rows: Vec<PreviewRow>,
}

/// A question that the rules would have decided.
#[derive(Debug)]
pub(crate) struct PreviewRow {
    pub(crate) session: String,
    pub(crate) message: u64,
    pub(crate) words: String,
    pub(crate) answered: PastAnswer,
}

impl Preview {
    /// Returns the number of questions that the rules would have decided.
    pub(crate) fn decided(&self) -> u64 {
        self.allowed + self.rejected + self.unanswered
    }

    /// Reads the store until it is done or the time is up: sessions of a folder first, latest first.
    pub(crate) fn read(
        store: &Store,
        policy: &Policy,
        verdict: Verdict,
        host: &dyn Host,
        folder: &str,
        until: Instant,
    ) -> Result<Self, StoreError> {
        let mut sessions = store.sessions(&Filter { limit: Some(MAX_SESSIONS), ..Filter::default() })?;
        sessions.sort_by_key(|session| session.about.project.as_deref() != Some(folder));
        let mut preview = Preview { of_sessions: sessions.len(), ..Preview::default() };
        for session in &sessions {
            if Instant::now() >= until {
                break;
            }
            let mut reading = Reading { preview: &mut preview, session, policy, verdict, host };
            if reading.session(store, until)? {
                preview.sessions += 1;
            }
        }
        let differs = |found: &PreviewRow| match verdict {
            Verdict::Deny => found.answered == PastAnswer::Allowed,
            _ => found.answered == PastAnswer::Rejected,
        };
        preview.rows.sort_by_key(|found| !differs(found));
        preview.rows.truncate(MAX_ROWS);
        Ok(preview)
    }

    fn count(&mut self, answered: PastAnswer) {
        *match answered {
            PastAnswer::Allowed => &mut self.allowed,
            PastAnswer::Rejected => &mut self.rejected,
            PastAnswer::Cancelled | PastAnswer::Open => &mut self.unanswered,
        } += 1;
    }
}

/// A session that is being read.
struct Reading<'r> {
    preview: &'r mut Preview,
    session: &'r Summary,
    policy: &'r Policy,
    verdict: Verdict,
    host: &'r dyn Host,
}

impl Reading<'_> {
    /// Returns whether it was read completely.
    fn session(&mut self, store: &Store, until: Instant) -> Result<bool, StoreError> {
        let relevance = Relevance::new();
        let root = self.session.about.project.as_deref().unwrap_or("/");
        let mut past = PastQuestions::new(QuestionReader::new(root).reading_version_1(VERSION_1));
        for item in store.read(&self.session.id, 0)? {
            // Damaged records are skipped.
            let Item::Record(record) = item? else { continue };
            if record.sequence.is_multiple_of(STEP) && Instant::now() >= until {
                return Ok(false);
            }
            take(&mut past, &record, &relevance).iter().for_each(|asked| self.found(asked));
        }
        past.end().for_each(|asked| self.found(&asked));
        Ok(true)
    }

    fn found(&mut self, asked: &PastQuestion) {
        let PastQuestion { number, question, answered, .. } = asked;
        self.preview.questions += 1;
        let decision = self.policy.evaluate(&question.subject, self.host).offered(&question.options);
        if decision.verdict != self.verdict {
            return;
        }
        self.preview.count(*answered);
        // Enough of each kind, so that different answers are included.
        let alike = self.preview.rows.iter().filter(|found| found.answered == *answered).count();
        if alike < MAX_ROWS {
            let words = question.subject.short_summary();
            let session = self.session.id.clone();
            self.preview.rows.push(PreviewRow { session, message: *number, words, answered: *answered });
        }
    }
}

/// Reads a record of the store, and returns the questions that it settles.
fn take(past: &mut PastQuestions, record: &Record, relevance: &Relevance) -> Vec<PastQuestion> {
    let text = || String::from_utf8_lossy(&record.bytes);
    match record.channel.message() {
        _ if record.channel == Channel::Hub => {
            apply_hub_note(past.reader_mut().conversation_mut(), &text(), Moment(0));
        }
        Some((side, false)) if relevance.matters(&record.bytes) => {
            return past.read(&text(), Some(side), record.sequence);
        }
        _ => {}
    }
    Vec::new()
}
