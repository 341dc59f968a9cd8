//! The inspector's list of messages, and the details of one message.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use maud::{Markup, html};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use switchboard_acp::rpc::messages;
use switchboard_session::{Change, ContentChange, FieldChange, Folded, RequestEvent, Side};
use switchboard_store::{Channel, Moment};

use super::excerpt::excerpt;
use super::live_recording::LiveRecording;
use super::message_log::{MessageLog, Row, Shape};
use super::names::Names;
use super::render;
use super::request::Filter;
use super::view::hash;

/// Maximum number of visible messages.
const MAX_WINDOW: usize = 200;

/// Maximum number of messages that are searched per frame.
const SEARCHED: usize = 20_000;

/// Maximum number of methods, kinds and sessions in the filter.
const MAX_CHOICES: usize = 500;

/// Maximum number of cached excerpts.
const MAX_EXCERPTS: usize = 4000;

#[derive(Debug, Serialize)]
struct WireFrame {
    /// Number of messages that match the filter.
    total: usize,
    /// Progress of the search in rows, while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched: Option<usize>,
    from: usize,
    rows: Vec<WireRow>,
    /// Values for the filter.
    methods: Vec<String>,
    kinds: Vec<String>,
    sessions: Vec<String>,
    /// Length of an interval in milliseconds, with messages and bytes per interval.
    rates: (i64, Vec<(u64, u64)>),
}

#[derive(Debug, Clone, Serialize)]
struct WireRow {
    row: usize,
    /// Milliseconds since the first message.
    time: i64,
    /// `in`, `out` or `note`.
    direction: &'static str,
    /// True if it is on the other side of a translation.
    other: bool,
    shape: &'static str,
    name: String,
    session: String,
    size: u32,
    /// Milliseconds between request and response.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<i64>,
    problem: bool,
    excerpt: String,
}

/// View of the messages in one tab.
pub(crate) struct WireView {
    filter: Filter,
    window: Range<usize>,
    /// True if the window follows the end.
    follows: bool,
    /// Rows that match the filter.
    rows: Vec<u32>,
    scanned: usize,
    behind: bool,
    entry_rows: Option<HashSet<u32>>,
    excerpts: HashMap<usize, String>,
    sent: u64,
}

/// The filter with interned names.
struct Numbers {
    method: Option<u16>,
    kind: Option<u16>,
    session: Option<u16>,
}

impl WireView {
    pub(crate) fn new(filter: Filter) -> Self {
        WireView {
            filter,
            window: 0..0,
            follows: false,
            rows: Vec::new(),
            scanned: 0,
            behind: false,
            entry_rows: None,
            excerpts: HashMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(crate) fn set_window(&mut self, (from, to): (usize, usize), follows: bool) {
        self.window = from..to.clamp(from, from.saturating_add(MAX_WINDOW));
        self.follows = follows;
    }

    /// Returns the visible range of the list.
    fn places(&self) -> Range<usize> {
        let length = self.rows.len();
        if self.follows {
            return length.saturating_sub(self.window.len())..length;
        }
        self.window.start.min(length)..self.window.end.min(length)
    }

    pub(crate) fn has_more_changes(&self) -> bool {
        self.behind
    }

    /// Returns the index of a row in the list.
    pub(crate) fn place(&self, row: usize) -> Option<usize> {
        self.rows.binary_search(&u32::try_from(row).ok()?).ok()
    }

    /// Returns the next frame, or `None` if nothing has changed.
    pub(crate) fn frame(&mut self, room: &LiveRecording, session: &str) -> Option<Box<RawValue>> {
        self.extend(room, session);
        let places = self.places();
        let wanted: Vec<usize> = self.rows[places.clone()].iter().map(|row| *row as usize).collect();
        self.read_excerpts(room, &wanted);
        let log = room.log();
        let rows = wanted.iter().filter_map(|&row| self.wire_row(&log, row)).collect();
        let (width, spans) = log.rates().spans();
        let spans = spans.iter().map(|span| (span.messages, span.bytes)).collect();
        let [methods, kinds, sessions] = choices(&log);
        let frame = WireFrame {
            total: self.rows.len(),
            searched: self.behind.then_some(self.scanned),
            from: places.start,
            rows,
            methods,
            kinds,
            sessions,
            rates: (width, spans),
        };
        drop(log);
        let frame = to_raw_value(&frame).ok()?;
        let hash = hash(frame.get());
        let is_new = std::mem::replace(&mut self.sent, hash) != hash;
        is_new.then_some(frame)
    }

    /// Adds rows that are new since the last call.
    fn extend(&mut self, room: &LiveRecording, session: &str) {
        let session = self.filter.entry_session.as_deref().unwrap_or(session);
        let snapshot = self.filter.entry.and_then(|_| room.session(session));
        let log = room.log();
        let end = log.rows().len();
        let numbers = self.numbers(log.names());
        self.entry_rows = self.filter.entry.map(|position| {
            let entry = snapshot.as_ref().and_then(|state| state.entry(position));
            let rows = entry.map(|entry| log.rows_of(session, entry.kind(), entry.id()));
            rows.unwrap_or_default().into_iter().collect()
        });
        let Some(numbers) = numbers else {
            self.behind = false;
            return;
        };
        let limit = if self.filter.text.is_empty() { usize::MAX } else { SEARCHED };
        let end_now = end.min(self.scanned.saturating_add(limit));
        let mut matching: Vec<u32> = (self.scanned..end_now)
            .filter(|&number| {
                log.rows().get(number).is_some_and(|row| self.lets_through(row, number, &numbers))
            })
            .map(|number| number as u32)
            .collect();
        drop(log);
        if !self.filter.text.is_empty() {
            let text = self.filter.text.to_lowercase();
            let found: HashSet<usize> = room
                .texts(self.scanned..end_now)
                .into_iter()
                .filter(|(_, candidate)| candidate.to_lowercase().contains(&text))
                .map(|(row, _)| row)
                .collect();
            matching.retain(|row| found.contains(&(*row as usize)));
        }
        self.rows.append(&mut matching);
        self.scanned = end_now;
        self.behind = end_now < end;
    }

    /// Returns the filter with interned names, or `None` if a name does not occur.
    fn numbers(&self, names: &Names) -> Option<Numbers> {
        let number = |word: &str| match word {
            "" => Some(None),
            word => names.find(word).map(Some),
        };
        Some(Numbers {
            method: number(&self.filter.method)?,
            kind: number(&self.filter.kind)?,
            session: number(&self.filter.session)?,
        })
    }

    fn lets_through(&self, row: &Row, number: usize, numbers: &Numbers) -> bool {
        let (direction, is_other) = direction(row.channel);
        let side = match (direction, is_other) {
            ("note", _) => "notes",
            (_, true) => "other",
            (_, false) => "main",
        };
        (self.filter.direction.is_empty() || self.filter.direction == direction)
            && (self.filter.side.is_empty() || self.filter.side == side)
            && numbers.method.is_none_or(|method| row.method == method)
            && numbers.kind.is_none_or(|kind| row.kind == kind)
            && numbers.session.is_none_or(|session| row.session == session)
            && (!self.filter.problems || row.is_problem)
            && self.entry_rows.as_ref().is_none_or(|rows| rows.contains(&(number as u32)))
    }

    fn read_excerpts(&mut self, room: &LiveRecording, wanted: &[usize]) {
        if self.excerpts.len() > MAX_EXCERPTS {
            self.excerpts.clear();
        }
        let mut missing = wanted.iter().copied().filter(|row| !self.excerpts.contains_key(row)).peekable();
        let mut texts = Vec::new();
        // Consecutive rows are read together.
        while let Some(first) = missing.next() {
            let mut end = first + 1;
            while missing.next_if_eq(&end).is_some() {
                end += 1;
            }
            texts.extend(room.texts(first..end));
        }
        for (row, text) in texts {
            self.excerpts.insert(row, excerpt(&text));
        }
    }

    fn wire_row(&self, log: &MessageLog, number: usize) -> Option<WireRow> {
        let row = log.rows().get(number)?;
        let (direction, other) = direction(row.channel);
        let began = log.rows().first()?.time;
        Some(WireRow {
            row: number,
            time: row.time - began,
            direction,
            other,
            shape: shape(row),
            name: name(log, row),
            session: log.names().word(row.session).to_owned(),
            size: row.size,
            latency: latency(log, row),
            problem: row.is_problem,
            excerpt: self.excerpts.get(&number).cloned().unwrap_or_default(),
        })
    }
}

fn direction(channel: Channel) -> (&'static str, bool) {
    match channel.message() {
        Some((Side::Agent, other)) => ("in", other),
        Some((Side::Client, other)) => ("out", other),
        None => ("note", false),
    }
}

fn shape(row: &Row) -> &'static str {
    match (row.shape, row.channel) {
        (Shape::Request, _) => "request",
        (Shape::Notification, _) => "notification",
        (Shape::Result, _) => "result",
        (Shape::Error, _) => "error",
        (Shape::Note, Channel::StandardError) => "stderr",
        (Shape::Note, Channel::Process) => "process",
        (Shape::Note, Channel::Hub) => "hub",
        (Shape::Note, Channel::Unknown(_)) => "unknown",
        (Shape::Note, _) => "problem",
    }
}

fn name(log: &MessageLog, row: &Row) -> String {
    let names = log.names();
    match (row.kind, row.method) {
        (0, 0) => shape(row).to_owned(),
        (0, method) => names.word(method).to_owned(),
        (kind, _) => names.word(kind).to_owned(),
    }
}

fn latency(log: &MessageLog, row: &Row) -> Option<i64> {
    let partner = log.rows().get(row.partner()?)?;
    Some((row.time - partner.time).abs())
}

/// Returns the values for the filter: methods, update kinds, sessions.
fn choices(log: &MessageLog) -> [Vec<String>; 3] {
    log.used_names().map(|numbers| {
        let words = numbers.iter().map(|&number| log.names().word(number).to_owned());
        let mut words: Vec<String> = words.take(MAX_CHOICES).collect();
        words.sort_unstable();
        words
    })
}

/// Renders one message in full, with its request or response and its changes.
pub(crate) fn message(room: &LiveRecording, number: usize) -> Option<Markup> {
    let text = room.texts(number..number.checked_add(1)?).into_iter().next().map(|(_, text)| text)?;
    let changed = changes_of(room, number, &text);
    let entry = entry_of(room, number);
    let log = room.log();
    let row = log.rows().get(number)?;
    let (way, is_other) = direction(row.channel);
    let way = match way {
        "in" => "from the agent",
        "out" => "to the agent",
        _ => "beside the messages",
    };
    Some(html! {
        header class="detail-head" {
            h2 { (render::visible_line(&name(&log, row))) }
            p class="meta" {
                "#" (number + 1) " · " (shape(row)) " · " (way)
                @if is_other { " · other side of the bridge" }
                " · " (row.size) " bytes"
                @if let Some(latency) = latency(&log, row) { " · " (latency) " ms" }
            }
            p class="actions" {
                @if let Some(partner) = row.partner() {
                    button type="button" data-action="message" data-row=(partner) {
                        @if row.shape == Shape::Request { "Its answer" } @else { "Its question" }
                    }
                }
                @if let Some((session, position)) = &entry {
                    button type="button" data-action="entry" data-position=(position) data-session=(session) {
                        "The entry that it made"
                    }
                }
                @if row.channel.is_message() {
                    button type="button" data-action="at" data-rows=(number + 1) { "The session after this" }
                }
                button type="button" data-action="copy-message" { "Copy" }
            }
        }
        @if let Some(problem) = log.problem(number) { p class="problem" role="note" { (render::visible(problem)) } }
        @if !changed.is_empty() {
            ul class="changed" aria-label="What it changed" { @for line in &changed { li { (line) } } }
        }
        @if row.channel.is_message() {
            (render::json_block(&text))
        } @else {
            pre { code { (render::visible(&text)) } }
        }
    })
}

/// Returns the session and the position of the entry that a message created or changed.
pub(crate) fn entry_of(room: &LiveRecording, number: usize) -> Option<(String, usize)> {
    let (session, kind, id) = {
        let log = room.log();
        let (session, kind, id) = log.entry_of(number)?;
        (session.to_owned(), kind, id.to_owned())
    };
    let position = room.session(&session)?.position(kind, &id)?;
    Some((session, position))
}

/// Describes the changes that a message made to its session.
fn changes_of(room: &LiveRecording, number: usize, text: &str) -> Vec<String> {
    let (channel, time, is_translated) = {
        let log = room.log();
        let Some(row) = log.rows().get(number) else { return Vec::new() };
        (row.channel, row.time, log.is_translated())
    };
    let Some((side, false)) = channel.message() else { return Vec::new() };
    if is_translated {
        return Vec::new();
    }
    let mut conversation = room.sessions_at(number);
    let mut changes = Vec::new();
    for message in messages(text) {
        let folded = conversation.read(message, Some(side), Moment(time));
        if let Ok(Folded { step: Some(step), .. }) = folded {
            changes.extend(step.changes.iter().map(describe));
        }
    }
    changes
}

fn describe(change: &Change) -> String {
    let event = |event: &RequestEvent| match event {
        RequestEvent::Opened => "asked",
        RequestEvent::Answered => "answered",
        RequestEvent::Cancelled => "taken back",
        RequestEvent::Completed => "completed",
        RequestEvent::Changed => "is another now",
    };
    match change {
        Change::Entry(entry) => {
            let mut parts = Vec::new();
            if entry.created {
                parts.push("created".to_owned());
            }
            match entry.content {
                ContentChange::Kept => {}
                ContentChange::Appended(count) => parts.push(format!("{count} appended")),
                ContentChange::Replaced(_) => parts.push("content replaced".to_owned()),
            }
            for (field, what) in entry.fields.iter() {
                let what = if what == FieldChange::Set { "set" } else { "cleared" };
                parts.push(format!("{} {what}", field.key()));
            }
            let kind = entry.kind.as_str().replace('_', " ");
            format!("{kind} {}: {}", entry.position + 1, parts.join(", "))
        }
        Change::State => "the session's state".to_owned(),
        Change::Title => "the title".to_owned(),
        Change::Info => "the session's time or metadata".to_owned(),
        Change::Commands => "the commands".to_owned(),
        Change::ConfigOptions => "the options".to_owned(),
        Change::Usage => "usage or cost".to_owned(),
        Change::Plan { index, created } => {
            format!("plan {}: {}", index + 1, if *created { "created" } else { "replaced" })
        }
        Change::PlanRemoved { index } => format!("plan {}: taken away", index + 1),
        Change::Permission { index, event: what } => format!("permission {}: {}", index + 1, event(what)),
        Change::Elicitation { index, event: what } => {
            format!("request for data {}: {}", index + 1, event(what))
        }
        Change::Notice => "a notice".to_owned(),
        Change::Unknown { .. } => "an update of an unknown kind was kept".to_owned(),
        Change::Replayed => "the history took the place of the transcript".to_owned(),
    }
}
