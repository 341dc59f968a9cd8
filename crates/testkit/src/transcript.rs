//! The content of a session, extracted from the output of a reader.

use serde_json::Value;

/// An entry of the transcript, or a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// The kind of entry or question.
    pub kind: String,
    /// Its status, in the terms of the protocol.
    pub state: String,
    /// Its generated words, in the order of their first occurrence.
    pub words: Vec<String>,
}

/// The shown content of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The entries in their order.
    pub entries: Vec<Shown>,
    /// Sorted by their words, because readers show them in different places.
    pub questions: Vec<Shown>,
    /// All plans together.
    pub plans: Shown,
    /// Notices, and unknown kinds of updates.
    pub beside: Vec<String>,
}

impl Transcript {
    fn new(entries: Vec<Shown>, mut questions: Vec<Shown>, plans: Shown, mut beside: Vec<String>) -> Self {
        questions.sort_unstable();
        beside.sort_unstable();
        beside.dedup();
        Transcript { entries, questions, plans, beside }
    }
}

/// Returns whether a word belongs to a generated conversation.
fn is_own(word: &str) -> bool {
    word.starts_with("zq") || word.starts_with("zx")
}

/// Returns all words of a text.
pub fn all_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns the generated words in a text, in the order of their first occurrence.
pub fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in all_words(text).filter(|word| is_own(word)) {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    words
}

/// Returns whether words occur among others in the same order.
pub fn is_within<A: AsRef<str>, B: AsRef<str>>(some: &[A], others: &[B]) -> bool {
    let mut others = others.iter();
    some.iter().all(|word| others.any(|other| other.as_ref() == word.as_ref()))
}

fn shown(kind: &str, state: &str, text: &str) -> Shown {
    Shown { kind: kind.to_owned(), state: state.to_owned(), words: words(text) }
}

fn string<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

// ----- as JSON

/// Returns the content of a session that `fold` printed.
pub fn of_json(session: &Value) -> Transcript {
    let all = list(session, "entries");
    let anchored = |id: &str| {
        all.iter()
            .flat_map(|entry| list(entry, "content"))
            .any(|item| string(item, "type") == "terminal" && string(item, "terminalId") == id)
    };
    let mut entries = Vec::new();
    for entry in all {
        let text = entry_text(session, entry);
        match string(entry, "type") {
            "terminal" if anchored(string(entry, "terminalId")) => {}
            kind @ ("tool_call" | "compaction") => entries.push(shown(kind, string(entry, "status"), &text)),
            kind => entries.push(shown(kind, "", &text)),
        }
    }
    let permissions = list(session, "permissions").iter().map(|permission| {
        let chosen = list(permission, "options")
            .iter()
            .find(|option| permission["state"] == "answered" && option["optionId"] == permission["optionId"]);
        let name = chosen.map_or("", |option| string(option, "name"));
        let state = string(permission, "state").replace('_', " ");
        shown("permission", &state, &format!("{} {name}", string(permission, "title")))
    });
    let elicitations = list(session, "elicitations").iter().map(|elicitation| {
        let state = match (string(elicitation, "state"), elicitation["response"]["action"].as_str()) {
            ("answered", Some("cancel")) | ("cancelled", _) => "dismissed",
            ("answered", Some(action)) => action,
            (state, _) => state,
        };
        shown("elicitation", state, string(&elicitation["request"], "message"))
    });
    let beside = list(session, "notices").iter().map(|notice| string(notice, "title"));
    let unknown = list(session, "unknown").iter().map(|update| string(update, "sessionUpdate"));
    let beside: Vec<&str> = beside.chain(unknown).collect();
    let questions = permissions.chain(elicitations).collect();
    Transcript::new(entries, questions, plans_of_json(session), words(&beside.join(" ")))
}

/// Returns the readable text of an entry, in its order.
pub fn entry_text(session: &Value, entry: &Value) -> String {
    let mut texts: Vec<String> = Vec::new();
    texts.push(entry["title"].as_str().unwrap_or(string(entry, "name")).to_owned());
    texts.push(string(entry, "command").to_owned());
    texts.extend(list(entry, "locations").iter().map(|location| string(location, "path").to_owned()));
    texts.push(content_text(session, entry));
    texts.extend(list(entry, "summary").iter().map(block_text));
    texts.join("\n")
}

/// Returns the text in the content of a tool call or a message.
pub fn content_text(session: &Value, entry: &Value) -> String {
    let mut texts: Vec<String> = Vec::new();
    for item in list(entry, "content") {
        match string(item, "type") {
            "content" => texts.push(block_text(&item["content"])),
            "diff" => {
                for change in list(item, "changes") {
                    texts.push(format!("{} {}", string(change, "oldPath"), string(change, "path")));
                }
                texts.push(string(&item["patch"], "text").to_owned());
            }
            "terminal" => {
                let terminals =
                    list(session, "entries").iter().filter(|entry| string(entry, "type") == "terminal");
                let meant = |entry: &&Value| entry["terminalId"] == item["terminalId"];
                texts.extend(terminals.filter(meant).map(|terminal| string(terminal, "command").to_owned()));
            }
            _ => texts.push(block_text(item)),
        }
    }
    texts.join("\n")
}

fn block_text(block: &Value) -> String {
    match string(block, "type") {
        "text" => string(block, "text").to_owned(),
        "resource_link" => string(block, "name").to_owned(),
        "image" | "audio" | "resource" => String::new(),
        unknown => unknown.to_owned(),
    }
}

fn plans_of_json(session: &Value) -> Shown {
    let (mut state, mut text) = (String::new(), String::new());
    for plan in list(session, "plans") {
        if string(plan, "type") != "items" {
            text.push_str(string(plan, "type"));
            text.push(' ');
        }
        for entry in list(plan, "entries") {
            state.push(match string(entry, "status") {
                "completed" => 'x',
                "in_progress" => '>',
                "cancelled" => '-',
                _ => ' ',
            });
            text.push_str(string(entry, "content"));
            text.push(' ');
        }
    }
    shown("plans", &state, &text)
}

// ----- as text

/// Returns the content of a session in the transcript of `fold --text` and `sessions show`.
pub fn of_text(text: &str) -> Transcript {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        match blocks.last_mut() {
            Some(block) if line.starts_with("    ") => block.push(line),
            _ => blocks.push(vec![line]),
        }
    }
    let (mut entries, mut questions, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    let (mut steps, mut plans) = (String::new(), String::new());
    for block in blocks {
        let (head, rest) = (block[0], block[1..].join("\n"));
        let bracketed = head.rsplit_once('[').map_or("", |(_, state)| state.trim_end_matches(']'));
        match head.split([' ', ':']).next().unwrap_or_default() {
            "user" => entries.push(shown("user_message", "", &rest)),
            "agent" => entries.push(shown("agent_message", "", &rest)),
            "thought" => entries.push(shown("agent_thought", "", &rest)),
            "tool" => entries.push(shown("tool_call", bracketed, &format!("{head}\n{rest}"))),
            "terminal" => entries.push(shown("terminal", "", &rest)),
            "compaction" => entries.push(shown("compaction", bracketed, &rest)),
            "?" => questions.push(question_of_text(head, &block[1..])),
            "plan" => {
                for line in &block[1..] {
                    plans.push_str(line);
                    steps.extend(line.trim_start().strip_prefix('[').and_then(|step| step.chars().next()));
                }
            }
            _ => beside.extend(words(head)),
        }
    }
    Transcript::new(entries, questions, shown("plans", &steps, &plans), beside)
}

fn question_of_text(head: &str, lines: &[&str]) -> Shown {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
    let state = lines.last().copied().unwrap_or_default();
    let chosen = lines.iter().find(|line| line.starts_with("(x)")).copied().unwrap_or_default();
    let is_permission = lines.iter().any(|line| line.starts_with("( )") || line.starts_with("(x)"));
    let answer = state.rsplit_once(": ").map_or("", |(_, answer)| answer);
    let state = match state.split(' ').next().unwrap_or_default() {
        "answered" if !is_permission && answer == "cancel" => "dismissed",
        "answered" if !is_permission => answer,
        "cancelled" if !is_permission => "dismissed",
        "not" => "not approved",
        state => state,
    };
    shown(if is_permission { "permission" } else { "elicitation" }, state, &format!("{head} {chosen}"))
}

// ----- as HTML

/// Returns the text of our own HTML.
pub fn text_of_html(html: &str) -> String {
    // Elements that may begin and end within a word.
    const INLINE: [&str; 8] = ["em", "strong", "code", "a", "mark", "del", "s", "wbr"];
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = tag.split_once('>').unwrap_or((tag, ""));
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if !INLINE.contains(&name) {
            text.push(' ');
        }
        rest = after;
    }
    text.push_str(rest);
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// Returns the kind of an entry, from the class of its element.
pub fn kind_of_class(class: &str) -> &'static str {
    match class.split(' ').find_map(|class| class.strip_prefix("e-")) {
        Some("user") => "user_message",
        Some("agent") => "agent_message",
        Some("thought") => "agent_thought",
        Some("tool") => "tool_call",
        Some("term") => "terminal",
        Some("compact") => "compaction",
        Some("sub") => "subagent",
        Some("between") => "session_message",
        _ => "unknown",
    }
}

/// Returns the content of the frame of a tab that sees all of a session.
pub fn of_frame(frame: &Value) -> Transcript {
    let (mut entries, mut questions) = (Vec::new(), Vec::new());
    let mut notices = String::new();
    for entry in list(frame, "entries") {
        let kind = kind_of_class(string(entry, "class"));
        let parts: Vec<(&str, &str)> = list(entry, "parts")
            .iter()
            .map(|part| (part[0].as_str().unwrap_or_default(), part[1].as_str().unwrap_or_default()))
            .collect();
        let (asked, own): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(key, _)| key.starts_with("asked-"));
        // Notices are below the entry that they follow, and the end of a turn below its last one.
        let (beside, own): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|(key, _)| key.starts_with("notice-") || *key == "turn");
        notices.extend(beside.iter().map(|(_, html)| *html));
        questions.extend(asked.iter().filter_map(|(key, html)| question_of_html(key, html)));
        let html: String = own.iter().map(|(_, html)| *html).collect();
        let state = match kind {
            "tool_call" => status_of_html(&html),
            "compaction" => compaction_of_html(&html).to_owned(),
            "terminal" if own.is_empty() => continue,
            _ => String::new(),
        };
        entries.push(shown(kind, &state, &text_of_html(&html)));
    }
    let panels = &frame["panels"];
    let plans = string(panels, "plans");
    let mark = |step: &str| match step.split('"').next() {
        Some("step step-done") => 'x',
        Some("step step-now") => '>',
        Some("step step-off") => '-',
        _ => ' ',
    };
    let steps: String = plans.split("<li class=\"").skip(1).map(mark).collect();
    let beside = format!("{notices} {} {}", string(panels, "notices"), string(panels, "unknown"));
    let plans = shown("plans", &steps, &text_of_html(plans));
    Transcript::new(entries, questions, plans, words(&text_of_html(&beside)))
}

/// Returns the status in the heading of a tool call, in the terms of the protocol.
pub fn status_of_html(html: &str) -> String {
    let status = html.split_once("class=\"st ").map_or("", |(_, rest)| rest);
    let status =
        text_of_html(&format!("<{}", status.split("<span class=\"took\"").next().unwrap_or_default()));
    let status = status.trim().split_once(' ').map_or("", |(_, words)| words.trim());
    if status == "running" { "in_progress".to_owned() } else { status.to_owned() }
}

fn compaction_of_html(html: &str) -> &'static str {
    let states = [
        ("unknown state", "_odd"),
        ("is being", "in_progress"),
        ("was cancelled", "cancelled"),
        ("was compacted", "completed"),
        ("failed", "failed"),
    ];
    states.into_iter().find(|(words, _)| html.contains(words)).map_or("", |(_, state)| state)
}

fn question_of_html(key: &str, html: &str) -> Option<Shown> {
    if key.ends_with("-asked") {
        let summary = html.split("</summary>").next().unwrap_or_default();
        let state = match summary {
            summary if summary.contains("not an approval") => "not approved",
            summary if summary.contains("st-off") => "cancelled",
            _ => "answered",
        };
        return Some(shown("permission", state, &text_of_html(summary)));
    }
    let text = text_of_html(html);
    let states = [("answered", "accept"), ("declined", "decline"), ("_whim", "_whim")];
    let state =
        states.into_iter().find(|(words, _)| text.contains(words)).map_or("dismissed", |(_, state)| state);
    key.ends_with("-head").then(|| shown("elicitation", state, &text))
}

// ----- as `run` prints it

/// The output of `run` about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its title.
    pub title: String,
    /// Its status, in the protocol's words.
    pub status: String,
    /// The text of its content.
    pub content: String,
}

/// Returns the tool calls that `run` printed, with their last state.
pub fn told(printed: &str) -> Vec<Told> {
    let mut calls: Vec<Told> = Vec::new();
    let mut lines = printed.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(headline) = ["✓ ", "✗ ", "∅ ", "… "].iter().find_map(|mark| line.strip_prefix(mark))
        else {
            continue;
        };
        let (title, details) = headline.rsplit_once(" (").unwrap_or((headline, ""));
        let status = details.split(',').next().unwrap_or_default().to_owned();
        let mut content = String::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            content.push_str(line);
            content.push('\n');
        }
        calls.retain(|known| known.title != title);
        calls.push(Told { title: title.to_owned(), status, content });
    }
    calls
}
