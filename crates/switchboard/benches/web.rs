//! `switchboard open` in a real Chromium: how long until something is seen, and what the page holds meanwhile. Prints
//! figures; nothing fails for being slow. Names of measurements as arguments choose among them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_browser::{Browser, Page};

const ENTRIES: usize = 100_000;
const FLOOD: u64 = 1_000_000;
/// How long 1,000 updates a second are sent.
const STREAM: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(900);

fn main() {
    if std::env::args().any(|argument| argument == "--be-the-agent") {
        return be_the_agent();
    }
    let all: [(&str, fn()); 8] = [
        ("view", first_view),
        ("stream", updates_to_screen),
        ("paragraph", long_paragraph),
        ("flood", flood),
        ("tabs", tabs),
        ("memory", memory),
        ("questions", questions),
        ("calls", calls),
    ];
    let is_named = |name: &str| std::env::args().any(|argument| argument == name);
    let is_any_named = all.iter().any(|(name, _)| is_named(name));
    for (name, measure) in all {
        if is_named(name) || !is_any_named {
            measure();
        }
    }
}

/// `switchboard open` in a folder of its own.
struct Opened {
    child: Child,
    link: String,
    _folder: tempfile::TempDir,
}

impl Opened {
    fn start(folder: tempfile::TempDir, arguments: &[&str]) -> Opened {
        let store = folder.path().join("store.sqlite3");
        let mut child = Command::new(env!("CARGO_BIN_EXE_switchboard"))
            .args(["open", "--no-browser", "--store", store.to_str().unwrap()])
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut link = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
        Opened { child, link: link.trim().to_owned(), _folder: folder }
    }

    /// The most memory that the program has had, in megabytes.
    fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap_or_default();
        line.trim().split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) / 1024
    }
}

/// How long the processors have worked for a process.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything, user and system time are the 12th and 13th, in hundredths of a second.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn ready(opened: &Opened) -> (switchboard_browser::Visitor, Page) {
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&opened.link).patience(PATIENCE);
    page.wait_until("document.body.classList.contains('is-live')");
    (visitor, page)
}

fn say(page: &Page, prompt: &str) {
    page.type_into("#prompt", prompt);
    page.press("Enter");
}

/// A recording of many entries: how long until the page shows them, and how evenly it scrolls through them.
fn first_view() {
    let folder = tempfile::tempdir().unwrap();
    let recording = import(folder.path());
    let opened = Opened::start(folder, &["--recording", &recording]);
    println!("a recording of {ENTRIES} entries");
    let visitor = Browser::shared().visitor();
    let mut pages = Vec::new();
    for round in ["first", "second"] {
        let page = visitor.blank_page().patience(PATIENCE);
        let worked = processor_time(opened.child.id());
        let begin = Instant::now();
        page.visit(&opened.link);
        page.wait_for("article");
        let first = begin.elapsed();
        page.wait_for(&format!("#e{}", ENTRIES - 1));
        println!(
            "  {round} tab: entries after {} ms, the last of them after {} ms; the program worked {} ms for it",
            first.as_millis(),
            begin.elapsed().as_millis(),
            (processor_time(opened.child.id()) - worked).as_millis()
        );
        // The first tab stays open, so that the second finds the recording read.
        if round == "first" {
            pages.push(page);
            continue;
        }
        page.eval(
            "globalThis.frames = [], void requestAnimationFrame(function next(time) {
                frames.push(time);
                requestAnimationFrame(next);
            })",
        );
        for _ in 0..200 {
            page.scroll("#scroller", -400);
        }
        let gaps = "frames.slice(1).map((time, place) => time - frames[place]).sort((a, b) => a - b)";
        let [middle, most, worst] = ["0.5", "0.95", "0.999"]
            .map(|part| page.eval(&format!("({gaps}).at(Math.floor({part} * (frames.length - 1)))")));
        let [middle, most, worst] = [middle, most, worst].map(|gap| gap.as_f64().unwrap_or_default());
        println!("  scrolling: {middle:.0} ms between two frames, p95 {most:.0} ms, at most {worst:.0} ms");
        println!("  the page: {} kB of objects, {} elements", page.heap() / 1024, elements(&page));
    }
    println!("  the program: {} MB at most", opened.peak_memory());
}

fn elements(page: &Page) -> Value {
    page.eval("document.querySelectorAll('*').length")
}

fn import(folder: &Path) -> String {
    let message = |message: Value, from_agent: bool| json!({ "t": 0.0, "dir": if from_agent { "agent->client" } else { "client->agent" }, "msg": message });
    let mut lines = vec![
        message(
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 2, "info": { "name": "c", "version": "1" } } }),
            false,
        ),
        message(
            json!({ "jsonrpc": "2.0", "id": 0, "result": { "protocolVersion": 2, "info": { "name": "a", "version": "1" } } }),
            true,
        ),
        message(
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": "/" } }),
            false,
        ),
        message(json!({ "jsonrpc": "2.0", "id": 1, "result": { "sessionId": "s" } }), true),
    ];
    for number in 0..ENTRIES {
        let text = json!([{ "type": "text", "text": format!("Entry **{number}** with `code` and some words about it.\n\n- one\n- two\n") }]);
        let update = match number % 3 {
            0 => json!({ "sessionUpdate": "user_message", "messageId": number.to_string(), "content": text }),
            1 => {
                json!({ "sessionUpdate": "agent_message", "messageId": number.to_string(), "content": text })
            }
            _ => {
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": number.to_string(), "title": format!("Read file {number}"),
                         "kind": "read", "status": "completed", "content": [{ "type": "content", "content": text[0] }] })
            }
        };
        let params = json!({ "sessionId": "s", "update": update });
        lines.push(message(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }), true));
    }
    let file = folder.join("recording.jsonl");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    for line in lines {
        writeln!(out, "{line}").unwrap();
    }
    out.into_inner().unwrap();
    let store = folder.join("store.sqlite3");
    let run = Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(["sessions", "--store", store.to_str().unwrap(), "import", file.to_str().unwrap()])
        .output()
        .unwrap();
    String::from_utf8(run.stdout).unwrap().trim().to_owned()
}

/// An agent that says 1,000 times a second what time it is.
fn be_the_agent() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({ "protocolVersion": 2, "info": { "name": "clock", "version": "1" }, "capabilities": { "session": {} } })
            }
            Some("session/new") => json!({ "sessionId": "s" }),
            Some("session/prompt") => json!({ "messageId": "u" }),
            _ => continue,
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).unwrap();
        out.flush().unwrap();
        if message["method"] == "session/prompt" {
            let prompt = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
            if let Some((_, count)) = prompt.split_once("ask ") {
                tell_calls(&mut out, count.parse().unwrap(), true);
                continue;
            }
            if let Some((_, count)) = prompt.split_once("calls ") {
                tell_calls(&mut out, count.parse().unwrap(), false);
                continue;
            }
            if let Some((_, numbers)) = prompt.split_once("prose ") {
                let numbers: Vec<usize> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
                tell_prose(&mut out, numbers[0], numbers[1]);
                continue;
            }
            // A paragraph has twenty of them, or there is only one.
            let is_endless = line.contains("paragraph");
            tell_the_time(&mut out, if is_endless { u32::MAX } else { 20 });
        }
    }
}

fn tell_the_time(out: &mut impl Write, in_paragraph: u32) {
    // Nobody sends on it: waiting for it is waiting for the time to pass.
    let (_sender, receiver) = channel::<()>();
    let begin = Instant::now();
    let mut say = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
            .unwrap();
        out.flush().unwrap();
    };
    say(json!({ "sessionUpdate": "state_update", "state": "running" }));
    for number in 0..u32::try_from(STREAM.as_millis()).unwrap() {
        let due = begin + Duration::from_millis(1) * number;
        let _ = receiver.recv_timeout(due.saturating_duration_since(Instant::now()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
        let end = if number % in_paragraph == in_paragraph - 1 { "\n\n" } else { " " };
        // A paragraph without end has much in it, as those of models do.
        let text = match in_paragraph {
            u32::MAX => format!("*T{now:.1}* and `code`{end}"),
            _ => format!("T{now:.1}{end}"),
        };
        say(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": { "type": "text", "text": text } }),
        );
    }
    say(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
}

/// Says so many megabytes of updates. Each chunk has so many bytes of text, and a message two kilobytes or one chunk.
fn tell_prose(out: &mut impl Write, megabytes: usize, piece: usize) {
    let words = "The quick brown fox jumps over the lazy dog, and nobody knows why. ".repeat(200);
    let mut said = 0;
    let mut say = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string();
        writeln!(out, "{line}").unwrap();
        line.len() + 1
    };
    say(json!({ "sessionUpdate": "state_update", "state": "running" }));
    for number in 0.. {
        let message = format!("m{}", number * piece / 2000);
        let start = number * 37 % 5000;
        let text = &words[start..start + piece];
        said += say(
            json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": { "type": "text", "text": text } }),
        );
        if said >= megabytes << 20 {
            break;
        }
    }
    say(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
    out.flush().unwrap();
}

/// Tells so many tool calls, and asks about each, or comes to rest.
fn tell_calls(out: &mut impl Write, count: usize, asks: bool) {
    let mut say = |message: Value| writeln!(out, "{message}").unwrap();
    let update = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
    };
    say(update(json!({ "sessionUpdate": "state_update", "state": "running" })));
    for number in 0..count {
        let id = format!("call-{number}");
        let text = json!({ "type": "text", "text": format!("File {number} has some lines that were read.") });
        say(update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "title": format!("Read file {number}"), "kind": "read",
            "status": if asks { "pending" } else { "completed" }, "rawInput": { "path": format!("/w/{number}") },
            "content": [{ "type": "content", "content": text }],
        })));
        if asks {
            let option = |id: &str, kind: &str| json!({ "optionId": id, "name": id, "kind": kind });
            say(json!({ "jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": {
                "sessionId": "s", "title": format!("Read file {number}?"),
                "subject": { "type": "tool_call", "toolCall": { "toolCallId": id } },
                "options": [option("once", "allow_once"), option("no", "reject_once")],
            }}));
        }
    }
    if !asks {
        say(update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" })));
    }
    out.flush().unwrap();
}

/// How long an answer takes while thousands of questions wait.
fn questions() {
    const QUESTIONS: usize = 5000;
    let (_opened, _visitor, page) = before_the_clock();
    let begin = Instant::now();
    say(&page, &format!("ask {QUESTIONS}"));
    let left = "Number.parseInt(document.querySelector('#question-count').innerText)";
    page.wait_until(&format!("{left} === {QUESTIONS}"));
    println!("{QUESTIONS} questions: all known after {} ms", begin.elapsed().as_millis());
    let mut times = Vec::new();
    for answered in 1..=20 {
        page.wait_until("find('[data-question] [data-option]:not(:disabled)').length > 0");
        let begin = Instant::now();
        page.eval("document.querySelector('[data-question] [data-option]:not(:disabled)').click()");
        page.wait_until(&format!("{left} === {}", QUESTIONS - answered));
        times.push(begin.elapsed().as_millis());
    }
    times.sort_unstable();
    println!(
        "  an answer is seen after {} ms, at most {} ms; {} elements",
        times[10],
        times[19],
        elements(&page)
    );
}

/// What the program needs for many tool calls.
fn calls() {
    let (opened, _visitor, page) = before_the_clock();
    let before = opened.memory("VmRSS:");
    say(&page, &format!("calls {ENTRIES}"));
    page.wait_until("document.body.dataset.activity === 'running'");
    page.wait_until("document.body.dataset.activity === 'idle'");
    page.wait_for(&format!("#e{ENTRIES}, #e{}", ENTRIES - 1));
    println!(
        "{ENTRIES} tool calls: the program has {} MB, {before} MB of it from the beginning; {} MB at most",
        opened.memory("VmRSS:"),
        opened.peak_memory()
    );
}

/// What the program keeps of what an agent says.
fn memory() {
    const MEGABYTES: u64 = 106;
    for piece in [20, 200, 2000] {
        let (opened, _visitor, page) = before_the_clock();
        let before = opened.memory("VmRSS:");
        say(&page, &format!("prose {MEGABYTES} {piece}"));
        page.wait_until("document.body.dataset.activity === 'running'");
        page.wait_until("document.body.dataset.activity === 'idle'");
        let (now, most) = (opened.memory("VmRSS:"), opened.peak_memory());
        println!(
            "{MEGABYTES} MB of updates with {piece} bytes of text each: the program has {now} MB, {:.2} times as much (to be \
             under 2), {before} MB of it from the beginning; {most} MB at most",
            now as f64 / MEGABYTES as f64
        );
    }
}

/// From the agent's write to the frame that shows it.
fn updates_to_screen() {
    let (opened, _visitor, page) = before_the_clock();
    tell_delays(&opened, &page, "");
    page.click("#show-inspector");
    tell_delays(&opened, &page, ", with the inspector");
}

/// The same for a message that is one long paragraph.
fn long_paragraph() {
    let (opened, _visitor, page) = before_the_clock();
    tell_delays(&opened, &page, ", one paragraph");
}

fn before_the_clock() -> (Opened, switchboard_browser::Visitor, Page) {
    let program = std::env::current_exe().unwrap();
    let opened =
        Opened::start(tempfile::tempdir().unwrap(), &["--", program.to_str().unwrap(), "--be-the-agent"]);
    let (visitor, page) = ready(&opened);
    (opened, visitor, page)
}

fn tell_delays(opened: &Opened, page: &Page, how: &str) {
    page.eval(
        "globalThis.delays = [], globalThis.newest = 0, globalThis.frames = 0, globalThis.run = (globalThis.run ?? 0) + 1,
        void (mine => requestAnimationFrame(function next() {
            if (run !== mine) return;
            const now = performance.timeOrigin + performance.now();
            const parts = [...document.querySelectorAll('article.e-agent > .p')].slice(-4);
            const words = parts.map(part => part.textContent.slice(-4000)).join(' ');
            const times = (words.match(/T\\d+\\.\\d/g) ?? []).map(time => Number(time.slice(1)));
            const fresh = times.filter(time => time > newest);
            delays.push(...fresh.map(time => now - time));
            if (fresh.length) frames += 1;
            newest = Math.max(newest, ...times);
            requestAnimationFrame(next);
        }))(run)",
    );
    let worked = processor_time(opened.child.id());
    say(page, if how.contains("paragraph") { "paragraph" } else { "go" });
    page.wait_until("document.body.dataset.activity === 'running'");
    page.wait_until("document.body.dataset.activity === 'idle'");
    let delays: Vec<f64> = serde_json::from_value(page.eval("delays.sort((a, b) => a - b)")).unwrap();
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!(
        "1,000 updates a second for {STREAM:?}{how}: on the screen after {:.0} ms, p95 {:.0} ms, at most {:.0} ms ({} seen \
         in {} frames); the program worked {} ms",
        at(0.5),
        at(0.95),
        at(1.0),
        delays.len(),
        page.eval("frames"),
        (processor_time(opened.child.id()) - worked).as_millis()
    );
}

/// What the page holds while a message grows without end.
fn flood() {
    let opened = Opened::start(tempfile::tempdir().unwrap(), &["demo"]);
    let (_visitor, page) = ready(&opened);
    println!("a flood of {FLOOD} updates");
    println!("  before: {} kB of objects, {} elements", page.heap() / 1024, elements(&page));
    let begin = Instant::now();
    say(&page, &format!("flood {FLOOD}"));
    let last =
        r"Number(document.querySelector('article.e-agent')?.textContent.match(/piece (\d+)\s*$/)?.[1] ?? -1)";
    for part in [10, 4, 2, 1] {
        page.wait_until(&format!("{last} >= {}", FLOOD / part - 1));
        println!(
            "  after {:>9} in {:>5.1?}: {} kB of objects, {} elements",
            page.eval(last),
            begin.elapsed(),
            page.heap() / 1024,
            elements(&page)
        );
    }
    println!("  the program: {} MB at most", opened.peak_memory());
}

/// Whether tabs slow the agent.
fn tabs() {
    const UPDATES: u64 = 200_000;
    let mut alone = 0.0;
    for count in [1, 5] {
        let opened = Opened::start(tempfile::tempdir().unwrap(), &["demo"]);
        let (visitor, page) = ready(&opened);
        let more: Vec<Page> =
            (1..count).map(|_| visitor.open(page.eval("location.href").as_str().unwrap())).collect();
        let begin = Instant::now();
        say(&page, &format!("flood {UPDATES}"));
        page.wait_until("document.body.dataset.activity === 'running'");
        page.wait_until("document.body.dataset.activity === 'idle'");
        let took = begin.elapsed().as_secs_f64();
        if count == 1 {
            alone = took;
        }
        println!("{UPDATES} updates with {count} tabs: {took:.1} s, {:.2} times as long", took / alone);
        drop(more);
    }
}
