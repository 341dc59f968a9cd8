//! Charts of a session: activities of each turn over time, and the usage of tokens and money.

use maud::{Markup, html};
use switchboard_acp::Raw;
use switchboard_acp::display::elapsed;
use switchboard_session::{Conversation, Entry, EntryKind, Moment, Session, Settlement, Snapshot, Turn};

use super::live_recording::LiveRecording;
use super::render;
use super::subagents::{self, SessionSource};

/// Number of turns that are drawn, the latest ones.
const MOST_TURNS: usize = 20;
/// Maximum number of bars in one lane.
const MOST_BARS: usize = 400;
/// Maximum number of points in a curve.
const MOST_POINTS: usize = 200;
/// Maximum number of currencies; further ones are left out.
const MOST_CURRENCIES: usize = 4;
/// Width of a chart in its own units.
const WIDTH: i64 = 1000;
const LANE: i64 = 18;
/// Minimum width of a bar.
const LEAST: i64 = 4;

/// CSS class and label of each lane.
const LANES: [(&str, &str); 4] = [
    ("lane-think", "thinking"),
    ("lane-say", "answering"),
    ("lane-tool", "tools"),
    ("lane-wait", "waiting for you"),
];

/// An activity with a start and an end.
struct Bar {
    lane: usize,
    from: i64,
    to: i64,
    words: String,
}

/// Renders the charts of a session.
pub(crate) fn all(source: SessionSource<'_>, session: &str) -> Markup {
    let (turns, snapshot) =
        source.look(|it| (turns(it, session), subagents::session(it, session).map(Session::snapshot)));
    let Some(snapshot) = snapshot else { return html! { p class="meta" { "There is nothing to draw." } } };
    let (tokens, costs) = usage(source.room, session);
    html! {
        @if turns.is_empty() { p class="meta" { "No turn is over yet, so there is nothing to draw." } }
        ul class="legend" { @for (class, words) in LANES { li { span class=(class) aria-hidden="true" { "■" } " " (words) } } }
        @for (number, span) in turns.iter().enumerate() { (turn(source.room, session, &snapshot, number, span)) }
        (curve("Tokens in the context", &tokens))
        @for (currency, points) in &costs { (curve(&format!("Cost in {currency}"), points)) }
    }
}

/// A turn with its start, end and entries.
struct TurnSpan {
    from: i64,
    to: i64,
    entries: std::ops::Range<usize>,
}

fn turns(conversation: &Conversation, session: &str) -> Vec<TurnSpan> {
    let turns: Vec<&Turn> = conversation.turns((!session.is_empty()).then_some(session)).collect();
    let length = subagents::session(conversation, session).map_or(0, |session| session.snapshot().len());
    let mut spans: Vec<TurnSpan> = Vec::new();
    for (place, turn) in turns.iter().enumerate().rev().take(MOST_TURNS) {
        let next = turns.get(place + 1).map_or(length, |next| next.position());
        let Some(end) = turn.end() else { continue };
        let (from, to) = (turn.asked_at().0, end.at.0);
        spans.push(TurnSpan {
            from,
            to: to.max(from + 1),
            entries: turn.position()..next.max(turn.position()),
        });
    }
    spans.reverse();
    spans
}

fn turn(room: &LiveRecording, session: &str, snapshot: &Snapshot, number: usize, span: &TurnSpan) -> Markup {
    let bars = bars(room, session, snapshot, span);
    let said = span.entries.clone().take(8).filter_map(|place| snapshot.entry(place)?.as_message());
    let said = said
        .filter(|message| message.kind() == EntryKind::UserMessage)
        .map(|message| message.content().text());
    let said: String = said.take(1).collect::<String>().chars().take(80).collect();
    let length = span.to - span.from;
    let place = |time: i64| {
        ((time.clamp(span.from, span.to) - span.from).saturating_mul(WIDTH) / length).clamp(0, WIDTH)
    };
    let waited: i64 = bars.iter().filter(|bar| bar.lane == 3).map(|bar| bar.to - bar.from).sum();
    let height = LANE * i64::try_from(LANES.len()).unwrap_or(4);
    let words = format!("{} in all, {} of it waiting for you", duration(length), duration(waited));
    html! {
        figure class="timeline" data-turn=(number) {
            figcaption { (render::visible_line(&said)) " " span class="meta" { (words) } }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) preserveAspectRatio="none" role="img"
                aria-label=(format!("Time line: {words}")) {
                @for bar in &bars {
                    // Short bars have a minimum width, also at the right edge.
                    @let width = (place(bar.to) - place(bar.from)).max(LEAST);
                    rect class=(LANES[bar.lane].0) x=(place(bar.from).min(WIDTH - width)) y=(i64::try_from(bar.lane).unwrap_or(0) * LANE + 2)
                        width=(width) height=(LANE - 4) {
                        title { (switchboard_acp::display::visible_line(&bar.words)) ", " (duration(bar.to - bar.from)) }
                    }
                }
            }
        }
    }
}

fn bars(room: &LiveRecording, session: &str, snapshot: &Snapshot, span: &TurnSpan) -> Vec<Bar> {
    let log = room.log();
    let mut bars = Vec::new();
    for place in span.entries.clone().take(MOST_BARS) {
        let Some(entry) = snapshot.entry(place) else { break };
        let (lane, words) = match entry {
            Entry::Message(message) => match message.kind() {
                EntryKind::UserMessage => continue,
                EntryKind::AgentThought => (0, "thinking".to_owned()),
                _ => (1, "answering".to_owned()),
            },
            Entry::ToolCall(call) => (2, call.title().or(call.name()).unwrap_or("tool").to_owned()),
            _ => continue,
        };
        let times = log.times(session, place);
        if times.first > 0 {
            bars.push(Bar { lane, from: times.first, to: times.last, words });
        }
    }
    drop(log);
    let ended = |at: Option<Moment>| at.map_or(span.to, |at| at.0);
    let permissions =
        snapshot.permissions().map(|it| (it.opened_at(), settled_at(it.settlement()), it.title().to_owned()));
    let forms =
        snapshot.elicitations().map(|it| (it.opened_at(), settled_at(it.settlement()), "a form".to_owned()));
    let asked = permissions.chain(forms).map(|(from, to, words)| (from.0, ended(to), words));
    let asked = asked.filter(|(from, ..)| (span.from..=span.to).contains(from)).take(MOST_BARS);
    bars.extend(asked.map(|(from, to, words)| Bar { lane: 3, from, to, words }));
    bars
}

fn settled_at<A>(settlement: &Settlement<A>) -> Option<Moment> {
    match settlement {
        Settlement::Pending => None,
        Settlement::Answered { at, .. }
        | Settlement::Cancelled { at, .. }
        | Settlement::NotAnApproval { at, .. } => Some(*at),
    }
}

fn duration(milliseconds: i64) -> String {
    elapsed(Moment(milliseconds).since(Moment(0)))
}

/// Pairs of a time in Unix milliseconds and an amount.
type Points = Vec<(i64, f64)>;

/// Returns the used context over time, and the cost over time by currency.
fn usage(room: &LiveRecording, session: &str) -> (Points, Vec<(String, Points)>) {
    let told: Vec<(usize, i64)> = {
        let log = room.log();
        let names = log.names();
        let (kind, here) = (names.find("usage_update"), names.find(session));
        let is_told = |row: &super::message_log::Row| Some(row.kind) == kind && Some(row.session) == here;
        log.rows()
            .iter()
            .enumerate()
            .filter(|(_, row)| is_told(row))
            .map(|(place, row)| (place, row.time))
            .collect()
    };
    let step = told.len().div_ceil(MOST_POINTS).max(1);
    // Includes the last value, which is the total.
    let chosen = told.iter().step_by(step).chain(told.last());
    let (mut tokens, mut costs): (Points, Vec<(String, Points)>) = (Vec::new(), Vec::new());
    for (row, time) in chosen {
        let Some((_, text)) = room.texts(*row..*row + 1).into_iter().next() else { continue };
        let Ok(message) = Raw::parse(&*text) else { continue };
        let Some(params) = message.get("params") else { continue };
        let Some(update) = params.get("update") else { continue };
        let number = |value: Option<Raw<'_>>| {
            value.and_then(|value| value.as_str().parse::<f64>().ok()).filter(|it| it.is_finite())
        };
        tokens.extend(number(update.get("used")).map(|used| (*time, used)));
        let Some(cost) = update.get("cost") else { continue };
        let Some(amount) = number(cost.get("amount")) else { continue };
        let currency = cost.text("currency").unwrap_or_default();
        match costs.iter().position(|(known, _)| *known == currency) {
            Some(place) => costs[place].1.push((*time, amount)),
            None if costs.len() < MOST_CURRENCIES => costs.push((currency, vec![(*time, amount)])),
            None => {}
        }
    }
    (tokens, costs)
}

/// Renders a curve over time. Needs at least two points.
fn curve(name: &str, points: &[(i64, f64)]) -> Markup {
    let [(from, _), .., (to, last)] = points else { return html! {} };
    let most = points.iter().map(|(_, amount)| *amount).fold(f64::MIN_POSITIVE, f64::max);
    let width = (to - from).max(1);
    let point = |(time, amount): &(i64, f64)| {
        let x = (time - from).saturating_mul(WIDTH) / width;
        format!("{x},{:.1}", 98.0 - (amount / most).clamp(0.0, 1.0) * 94.0)
    };
    let line: Vec<String> = points.iter().map(point).collect();
    html! {
        figure class="timeline curve" {
            figcaption { (render::visible_line(name)) " " span class="meta" { (format!("{last} at the end, {most} at most")) } }
            svg viewBox=(format!("0 0 {WIDTH} 100")) preserveAspectRatio="none" role="img" aria-label=(switchboard_acp::display::visible_line(name)) {
                polyline points=(line.join(" ")) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_within_the_picture_and_hostile_names_are_text() {
        let svg = curve("<b>x</b>", &[(1, 0.0), (2, 5.0), (3, 10.0)]).into_string();
        assert!(svg.contains("points=\"0,98.0 500,51.0 1000,4.0\""), "{svg}");
        assert!(!svg.contains("<b>"), "{svg}");
        assert_eq!(curve("x", &[(1, 0.0)]).into_string(), "");
    }
}
