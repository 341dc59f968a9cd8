//! Full-text search.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::read::{self, Batch, Block};
use crate::record::{Filter, Record};
use crate::segment::{Cursor, Folder};
use crate::store::Store;
use crate::text::{self, SearchableText, Text, TextKind};

/// Length of the excerpt on either side of a hit, in bytes.
const AROUND: usize = 60;
/// Number of sessions above which the agent filter is applied to hits instead of the index query.
const MAX_SCOPES: usize = 200;

/// A search query with filters.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Query text. All words must occur; words in quotation marks must follow each other; a word that ends
    /// with an asterisk matches as a prefix. Case and accents are ignored.
    pub query: String,
    /// Only this session.
    pub session: Option<String>,
    /// Only agents whose name contains this.
    pub agent: Option<String>,
    /// Only these kinds of text. Empty means all.
    pub kinds: Vec<TextKind>,
    /// Only texts at this time or later.
    pub since: Option<Moment>,
    /// Only texts before this time.
    pub until: Option<Moment>,
    /// Maximum number of hits, latest first. Default: 50.
    pub limit: Option<usize>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hit {
    /// Id of the session.
    pub session: String,
    /// Sequence number of the first record of the text.
    pub first: u64,
    /// Sequence number of its last record. Differs from `first` if the text arrived in chunks.
    pub last: u64,
    /// Time of the text.
    pub time: Moment,
    /// Kind of the text.
    pub kind: TextKind,
    /// The hit with the words around it.
    pub excerpt: String,
    /// True if the text was superseded later: its message or tool call got another text as a whole, without
    /// these words.
    pub withdrawn: bool,
}

/// A text assembled from the chunks in one block.
pub(crate) struct Gathered {
    first: u64,
    last: u64,
    time: Moment,
    text: Text,
}

/// The texts of some records, with chunks combined.
#[derive(Default)]
pub(crate) struct Gathering {
    texts: Vec<Gathered>,
    /// Runs whose text was replaced as a whole, with the record that last did so.
    replaced: HashMap<String, u64>,
}

pub(crate) fn gather(records: &[Record]) -> Gathering {
    let mut gathering = Gathering::default();
    let mut runs: HashMap<(TextKind, String), usize> = HashMap::new();
    for record in records {
        let SearchableText { texts, replaced } = text::read(record);
        for run in replaced {
            // The previous text stays searchable, and is marked as superseded.
            runs.retain(|(_, known), _| *known != run);
            gathering.replaced.insert(run, record.sequence);
        }
        for text in texts {
            // Each prompt is one text, so consecutive prompts must not be combined.
            if !text.run.is_empty() && text.run != "prompt" {
                if let Some(&place) = runs.get(&(text.kind, text.run.clone())) {
                    let run = &mut gathering.texts[place];
                    run.text.text.push_str(&text.text);
                    run.last = record.sequence;
                    continue;
                }
                runs.insert((text.kind, text.run.clone()), gathering.texts.len());
            }
            gathering.texts.push(Gathered {
                first: record.sequence,
                last: record.sequence,
                time: record.time,
                text,
            });
        }
    }
    gathering
}

/// Indexes texts.
pub(crate) fn index(
    transaction: &Transaction<'_>,
    session: i64,
    gathering: &Gathering,
) -> rusqlite::Result<()> {
    let Gathering { texts, replaced } = gathering;
    for Gathered { first, last, time, text } in texts {
        transaction
            .prepare_cached(
                "INSERT INTO texts (session, first, last, kind, time) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![session, *first as i64, *last as i64, text.kind.code(), time.0])?;
        put_words(transaction, transaction.last_insert_rowid(), session, text)?;
    }
    for (run, sequence) in replaced {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO replaced (session, run, sequence) VALUES (?1, ?2, ?3)")?
            .execute(params![session, run, *sequence as i64])?;
    }
    Ok(())
}

fn put_words(connection: &Connection, number: i64, session: i64, text: &Text) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO words (rowid, text, scope) VALUES (?1, ?2, ?3)")?
        .execute(params![number, text.text, format!("s{session} k{}", text.kind.as_str())])?;
    Ok(())
}

/// Removes some texts of a session from the index. Returns false if there were none.
pub(crate) fn forget_some(transaction: &Transaction<'_>, session: i64, limit: i64) -> rusqlite::Result<bool> {
    let numbers = transaction
        .prepare_cached("SELECT number FROM texts WHERE session = ?1 LIMIT ?2")?
        .query_map([session, limit], |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for number in &numbers {
        transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([number])?;
        transaction.prepare_cached("DELETE FROM texts WHERE number = ?1")?.execute([number])?;
    }
    Ok(!numbers.is_empty())
}

/// Merges parts of the index with many deleted texts. Returns false if there were none.
pub(crate) fn merge_some(transaction: &Transaction<'_>, pages: i64) -> rusqlite::Result<bool> {
    // Merge any part with deletions. By default only parts of similar size are merged.
    transaction.execute("INSERT INTO words (words, rank) VALUES ('deletemerge', 1)", [])?;
    let before = transaction.total_changes();
    transaction.execute("INSERT INTO words (words, rank) VALUES ('merge', ?1)", [pages])?;
    // The statement itself counts as one change.
    let has_merged = transaction.total_changes() - before >= 2;
    transaction.execute("INSERT INTO words (words, rank) VALUES ('deletemerge', 0)", [])?;
    Ok(has_merged)
}

/// Parses a query into words and phrases. The flag marks a prefix.
fn terms(query: &str) -> Vec<(String, bool)> {
    let mut terms = Vec::new();
    for (index, part) in query.split('"').enumerate() {
        let phrases: Vec<&str> = if index % 2 == 1 { vec![part] } else { part.split_whitespace().collect() };
        for phrase in phrases {
            let prefix = index % 2 == 0 && phrase.ends_with('*');
            let phrase = phrase.trim_end_matches('*').trim();
            if phrase.chars().any(char::is_alphanumeric) {
                terms.push((phrase.to_owned(), prefix));
            }
        }
    }
    terms
}

struct Plan {
    expression: String,
    sessions: Option<Vec<i64>>,
    kinds: Vec<TextKind>,
    since: i64,
    until: i64,
    limit: usize,
}

impl Store {
    /// Searches all sessions, latest texts first. Records that are not indexed yet are scanned.
    pub fn search(&self, search: &Search) -> Result<Vec<Hit>> {
        let terms = terms(&search.query);
        if terms.is_empty() {
            return Err(StoreError::EmptySearch { query: search.query.clone() });
        }
        let mut expression = terms
            .iter()
            .map(|(term, prefix)| format!("text : \"{term}\"{}", if *prefix { " *" } else { "" }))
            .collect::<Vec<_>>()
            .join(" AND ");
        if !search.kinds.is_empty() {
            let kinds: Vec<_> = search.kinds.iter().map(|kind| format!("k{}", kind.as_str())).collect();
            expression = format!("({expression}) AND (scope : ({}))", kinds.join(" OR "));
        }
        let mut sessions = match &search.session {
            Some(session) => Some(vec![self.number(session)?.0]),
            None => None,
        };
        if search.agent.is_some() {
            let filter = Filter { agent: search.agent.clone(), ..Filter::default() };
            let mut allowed = Vec::new();
            for summary in self.sessions(&filter)? {
                allowed.push(self.number(&summary.id)?.0);
            }
            sessions = Some(match sessions {
                Some(named) => named.into_iter().filter(|number| allowed.contains(number)).collect(),
                None => allowed,
            });
        }
        if let Some(sessions) = &sessions {
            if sessions.is_empty() {
                return Ok(Vec::new());
            }
            if sessions.len() <= MAX_SCOPES {
                let scopes: Vec<_> = sessions.iter().map(|number| format!("s{number}")).collect();
                expression = format!("({expression}) AND (scope : ({}))", scopes.join(" OR "));
            }
        }
        let plan = Plan {
            expression,
            sessions,
            kinds: search.kinds.clone(),
            since: search.since.map_or(i64::MIN, |time| time.0),
            until: search.until.map_or(i64::MAX, |time| time.0),
            limit: search.limit.unwrap_or(50),
        };
        let words: Vec<String> = terms.into_iter().map(|(term, _)| term).collect();
        self.with_reader(|connection| {
            let mut later = Later::new();
            let mut hits = unindexed(connection, self.folder(), &plan, &words, &mut later)?;
            hits.sort_by_key(|hit| std::cmp::Reverse((hit.time, hit.first)));
            hits.truncate(plan.limit);
            let left = plan.limit - hits.len();
            if left > 0 {
                hits.extend(indexed(connection, &plan, &words, &later, left)?);
            }
            Ok(hits)
        })
    }
}

fn indexed(
    connection: &Connection,
    plan: &Plan,
    words: &[String],
    later: &Later,
    limit: usize,
) -> rusqlite::Result<Vec<Hit>> {
    // Texts are almost in order of time, so times translate well to a range of row numbers.
    let all = (i64::MIN, i64::MAX);
    let (lowest, highest) = if (plan.since, plan.until) == all {
        all
    } else {
        let bounds = connection
            .prepare_cached("SELECT min(number), max(number) FROM texts WHERE time >= ?1 AND time < ?2")?
            .query_row([plan.since, plan.until], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(lowest), Some(highest)) = bounds else { return Ok(Vec::new()) };
        (lowest, highest)
    };
    let mut statement = connection.prepare_cached(
        "SELECT texts.session, first, last, kind, time, sessions.id FROM words
         CROSS JOIN texts ON texts.number = words.rowid CROSS JOIN sessions ON sessions.number = texts.session
         WHERE sessions.closed < 3 AND words MATCH ?1 AND words.rowid >= ?4 AND words.rowid <= ?5 AND time >= ?2 AND time < ?3
         ORDER BY words.rowid DESC",
    )?;
    let mut rows = statement.query(params![plan.expression, plan.since, plan.until, lowest, highest])?;
    let mut hits = Vec::new();
    // Consecutive hits are often in the same block.
    let mut cached: Option<(i64, Block)> = None;
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(0)?;
        if plan.sessions.as_ref().is_some_and(|sessions| !sessions.contains(&session)) {
            continue;
        }
        let Some(kind) = TextKind::from_code(row.get(3)?) else { continue };
        let (first, last) = (row.get::<_, i64>(1)?.unsigned_abs(), row.get::<_, i64>(2)?.unsigned_abs());
        let range = first..last + 1;
        if !cached.as_ref().is_some_and(|(of, block)| *of == session && block.has(&range)) {
            cached = Block::around(connection, session, first)?.map(|block| (session, block));
        }
        // A hit in a damaged block is returned without an excerpt.
        let records = match &cached {
            Some((_, block)) => block.records(connection, range)?.unwrap_or_default(),
            None => Vec::new(),
        };
        let texts: Vec<_> = gather(&records)
            .texts
            .into_iter()
            .filter(|found| found.first == first && found.text.kind == kind)
            .collect();
        let shown = texts.iter().find(|found| place(&found.text.text, words).is_some()).or(texts.first());
        let withdrawn = match shown {
            Some(found) => is_withdrawn(connection, session, &found.text.run, last, words, later)?,
            None => false,
        };
        let excerpt = shown.map_or_else(String::new, |found| excerpt(&found.text.text, words));
        hits.push(Hit {
            session: row.get(5)?,
            first,
            last,
            time: Moment(row.get(4)?),
            kind,
            excerpt,
            withdrawn,
        });
        if hits.len() == limit {
            break;
        }
    }
    Ok(hits)
}

/// Replacements that are not indexed yet: session and run to sequence number and text.
type Later = HashMap<(i64, String), (u64, String)>;

/// Returns true if the words of a text do not occur in its replacement.
fn is_withdrawn(
    connection: &Connection,
    session: i64,
    run: &str,
    last: u64,
    words: &[String],
    later: &Later,
) -> rusqlite::Result<bool> {
    if run.is_empty() {
        return Ok(false);
    }
    if let Some((sequence, text)) = later.get(&(session, run.to_owned())) {
        return Ok(*sequence > last && !has_all(text, words));
    }
    let sequence = connection
        .prepare_cached("SELECT sequence FROM replaced WHERE session = ?1 AND run = ?2")?
        .query_row(params![session, run], |row| row.get::<_, i64>(0))
        .optional()?
        .map(i64::unsigned_abs);
    let Some(sequence) = sequence.filter(|sequence| *sequence > last) else { return Ok(false) };
    match read::stored(connection, session, sequence, sequence + 1)? {
        Batch::Records(records) => {
            Ok(!records.iter().any(|record| has_all(&text_of_run(record, run), words)))
        }
        Batch::Gap { .. } | Batch::End => Ok(true),
    }
}

/// Returns the text that a record sets for a run.
fn text_of_run(record: &Record, run: &str) -> String {
    text::read(record).texts.into_iter().filter(|text| text.run == run).map(|text| text.text).collect()
}

/// Returns true if all words occur, as far as that can be decided without the tokenizer.
fn has_all(text: &str, words: &[String]) -> bool {
    let lower = text.to_lowercase();
    words.iter().all(|word| lower.contains(&word.to_lowercase()))
}

/// Scans records that are not indexed yet, with a temporary index.
fn unindexed(
    connection: &Connection,
    folder: &Folder,
    plan: &Plan,
    words: &[String],
    later: &mut Later,
) -> rusqlite::Result<Vec<Hit>> {
    let journals = folder.journals().unwrap_or_default();
    let mut statement = connection
        .prepare_cached("SELECT number, id, indexed, indexed < length FROM sessions WHERE closed < 3")?;
    let mut rows = statement.query([])?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let (session, id): (i64, String) = (row.get(0)?, row.get(1)?);
        let is_behind = row.get(3)? || journals.iter().any(|(journal, _)| *journal == id);
        if !is_behind || plan.sessions.as_ref().is_some_and(|sessions| !sessions.contains(&session)) {
            continue;
        }
        let mut at = row.get::<_, i64>(2)?.unsigned_abs();
        let mut journal = Cursor::new(folder, &id, at);
        let mut found = Vec::new();
        loop {
            match read::batch(connection, session, &mut journal, at, u64::MAX)? {
                Batch::Records(records) => {
                    at = records.last().map_or(at + 1, |record| record.sequence + 1);
                    let gathering = gather(&records);
                    for (run, sequence) in gathering.replaced {
                        let record = records.iter().find(|record| record.sequence == sequence);
                        let text = record.map(|record| text_of_run(record, &run)).unwrap_or_default();
                        later.insert((session, run), (sequence, text));
                    }
                    scan(plan, words, (session, &id), &gathering.texts, &mut found)?;
                }
                Batch::Gap { to, .. } => at = to.max(at + 1),
                Batch::End => break,
            }
        }
        for (mut hit, run) in found {
            hit.withdrawn = is_withdrawn(connection, session, &run, hit.last, words, later)?;
            hits.push(hit);
        }
    }
    Ok(hits)
}

/// Finds matching texts, each with its key.
fn scan(
    plan: &Plan,
    words: &[String],
    (session, id): (i64, &str),
    gathered: &[Gathered],
    hits: &mut Vec<(Hit, String)>,
) -> rusqlite::Result<()> {
    let fits = |found: &Gathered| {
        (plan.since..plan.until).contains(&found.time.0)
            && (plan.kinds.is_empty() || plan.kinds.contains(&found.text.kind))
            && may_have(&found.text.text, words)
    };
    let gathered: Vec<&Gathered> = gathered.iter().filter(|found| fits(found)).collect();
    if gathered.is_empty() {
        return Ok(());
    }
    let memory = Connection::open_in_memory()?;
    memory.execute_batch(
        "CREATE VIRTUAL TABLE words USING fts5 (text, scope, content='', tokenize=\"unicode61 remove_diacritics 2\")",
    )?;
    for (number, found) in gathered.iter().enumerate() {
        put_words(&memory, number as i64, session, &found.text)?;
    }
    let mut statement = memory.prepare("SELECT rowid FROM words WHERE words MATCH ?1")?;
    let numbers = statement
        .query_map(params_from_iter([&plan.expression]), |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for found in numbers.into_iter().filter_map(|number| gathered.get(usize::try_from(number).ok()?)) {
        let hit = Hit {
            session: id.to_owned(),
            first: found.first,
            last: found.last,
            time: found.time,
            kind: found.text.kind,
            excerpt: excerpt(&found.text.text, words),
            withdrawn: false,
        };
        hits.push((hit, found.text.run.clone()));
    }
    Ok(())
}

/// Returns false if a text cannot contain all words. Only ASCII letters can be compared without the
/// tokenizer.
fn may_have(text: &str, words: &[String]) -> bool {
    if !text.is_ascii() {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    let parts = words.iter().flat_map(|word| word.split(|letter: char| !letter.is_ascii_alphanumeric()));
    parts
        .filter(|part| !part.is_empty())
        .all(|part| words.iter().any(|word| !word.is_ascii()) || lower.contains(&part.to_ascii_lowercase()))
}

/// Returns the position of the first of the words, as far as that can be found without the tokenizer.
fn place(text: &str, words: &[String]) -> Option<usize> {
    let lower = text.to_lowercase();
    let found = words.iter().find_map(|word| lower.find(&word.to_lowercase()))?;
    // Lower case may change the length; the excerpt is then slightly off.
    Some(text.floor_char_boundary(found.min(text.len())))
}

fn excerpt(text: &str, words: &[String]) -> String {
    let at = place(text, words).unwrap_or(0);
    let start = text.floor_char_boundary(at.saturating_sub(AROUND));
    let end = text.ceil_char_boundary((at + 2 * AROUND).min(text.len()));
    let mut excerpt = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    if start > 0 {
        excerpt.insert_str(0, "...");
    }
    if end < text.len() {
        excerpt.push_str("...");
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::{excerpt, terms};

    #[test]
    fn queries_fall_into_words_and_phrases() {
        let shown = |query| {
            terms(query).into_iter().map(|(term, prefix)| format!("{term}{}", if prefix { "*" } else { "" }))
        };
        assert_eq!(shown(r#"a "b c" d* -- e"#).collect::<Vec<_>>(), ["a", "b c", "d*", "e"]);
        assert_eq!(shown("\" \" * '").count(), 0);
    }

    #[test]
    fn an_excerpt_is_cut_at_characters() {
        let text = format!("{}needle{}", "ä".repeat(100), "ß".repeat(200));
        let excerpt = excerpt(&text, &["NEEDLE".to_owned()]);
        assert!(excerpt.starts_with("...") && excerpt.contains("needle") && excerpt.ends_with("..."));
    }
}
