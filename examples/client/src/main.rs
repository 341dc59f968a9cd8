//! A client on the terminal: it starts an agent (or reaches one at a URL), gives it a prompt, and prints each change of the
//! session as it comes. What the agent asks is allowed once.
//!
//! ```sh
//! example-client FOLDER "notes.txt: buy milk" example-agent
//! example-client FOLDER "notes.txt: buy milk" ws://127.0.0.1:8080/acp
//! ```

use std::error::Error;

use switchboard_peer::session::{Change, ContentChange, Decider, Entry, Session};
use switchboard_peer::transport::Remote;
use switchboard_peer::{AbsolutePath, Client, ClientOptions, Connection, Event, Program, v2};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, prompt, agent, rest @ ..] = &arguments[..] else {
        return Err("usage: example-client FOLDER PROMPT AGENT [ARGUMENT...] | URL".into());
    };
    let options = ClientOptions::new("example-client", env!("CARGO_PKG_VERSION"));
    if Remote::is_address(agent) {
        let stream = Remote::new(agent)?.connect().await?;
        let connection = Connection::new(stream.reader, stream.writer, Client::connection_options());
        talk(Client::connect(connection, options).await?, folder, prompt).await
    } else {
        let program = Program::new(agent).args(rest);
        let (child, client) = Client::start(&program, options).await?;
        let outcome = talk(client, folder, prompt).await;
        child.shut_down().await;
        outcome
    }
}

/// One session with one prompt.
async fn talk(client: Client, folder: &str, prompt: &str) -> Result<(), Box<dyn Error>> {
    let Client { agent, mut feed } = client;
    let description = agent.description();
    let name = description.info.as_ref().map_or("without a name", |info| &info.name);
    println!("agent: {name}, version {:?}", description.version);
    let sessions = feed.sessions();
    // The one handler of all that happens, whatever is awaited: so nothing is missed.
    let handle = |event: Event| match event {
        Event::Update(update) => {
            sessions
                .get(update.session(), |session| update.changes().iter().for_each(|it| show(session, it)));
        }
        Event::Changed { session, changes } => {
            sessions.get(&session, |session| changes.iter().for_each(|it| show(session, it)));
        }
        Event::Permission(question) => {
            println!("asked: {}", question.request().title);
            let answered = match question.option_of(&[v2::PermissionOptionKind::AllowOnce]) {
                Some(option) => question.choose_at_once(&option.option_id, Decider::User),
                None => question.dismiss(),
            };
            if let Err(error) = answered {
                eprintln!("{error}");
            }
        }
        Event::Closed(closure) => println!("closed: {closure}"),
        _ => {}
    };
    let request = v2::NewSessionRequest::new(AbsolutePath::parse(folder)?);
    let session = feed.until(agent.new_session(&request), handle).await??.session_id;
    let prompt = vec![v2::ContentBlock::text(prompt)];
    let mut turn = feed.until(agent.prompt(&session, prompt), handle).await??;
    let end = feed.until(turn.ended(), handle).await?;
    println!("end: {}", end.stop_reason.map_or_else(|| "no reason told".to_owned(), |it| it.to_string()));
    Ok(())
}

/// Prints what a program with a window would draw anew.
fn show(session: &Session, change: &Change) {
    match change {
        Change::Entry(change) => {
            let Some(entry) = session.entry(change.position) else { return };
            let what = match (change.created, change.content) {
                (true, _) => "new",
                (false, ContentChange::Appended(_)) => "more",
                (false, _) => "changed",
            };
            println!("{what} {:?} {}: {}", change.kind, entry.id(), in_words(entry));
        }
        Change::State => println!("state: {:?}", session.activity()),
        other => println!("{other:?}"),
    }
}

fn in_words(entry: &Entry) -> String {
    if let Some(call) = entry.as_tool_call() {
        return format!("{} [{}]", call.title().unwrap_or("a tool call"), call.status());
    }
    entry.as_message().map(|message| message.content().text().to_string()).unwrap_or_default()
}
