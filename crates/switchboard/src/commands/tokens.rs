//! `switchboard tokens`: who may use a hub.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_store::{Moment, Role, Store, StoreError, Token};

use crate::commands::serve::LAUNCH;
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};
use crate::terminal::style::Style;
use crate::terminal::table::Table;
use crate::units::ago;

/// Make, list and revoke the tokens of a hub
///
/// A token lets whoever has it use the hub, as far as its role goes. Tokens are in the store of the hub: the file in
/// --store, else in the environment variable SWITCHBOARD_STORE, else the usual one. A hub that runs heeds every change
/// at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard tokens add phone --role answer --all   # prints the token, this once\n  \
    switchboard tokens add ci --role use > ci.token\n  \
    switchboard tokens list\n  \
    switchboard tokens revoke phone                    # its connections are closed at once")]
pub(crate) struct Arguments {
    /// The store's file
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,

    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokensCommand {
    Add(AddArguments),
    List(ListArguments),
    Revoke(RevokeArguments),
}

/// Make a token, and print it
///
/// Standard output gets the token and nothing else. It cannot be shown again: the store keeps only its hash.
#[derive(Debug, clap::Args)]
struct AddArguments {
    /// A name for it, such as that of a person or a machine
    name: String,

    /// What it allows: to view sessions; also to answer what agents ask; also to start sessions and control those that it
    /// started or that are shared with it; everything
    #[arg(long, value_name = "view|answer|use|admin", value_parser = parse_role)]
    role: Role,

    /// For all sessions, not only for those that are shared with it (admin sees all in any case)
    #[arg(long)]
    all: bool,
}

/// List the tokens, without their texts
#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Print a JSON object a token
    #[arg(long)]
    json: bool,
}

/// Make tokens worthless
///
/// Their connections are closed at once. What was shared with them is not any more, also not with a later token of the
/// same name.
#[derive(Debug, clap::Args)]
struct RevokeArguments {
    /// The names of the tokens
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "expected view, answer, use or admin".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let place = store_file::place(arguments.store.as_ref())?;
    match &arguments.command {
        TokensCommand::Add(arguments) => add(place, arguments),
        TokensCommand::List(arguments) => list(&place, arguments),
        TokensCommand::Revoke(arguments) => revoke(&place, arguments),
    }
}

fn add(place: PathBuf, arguments: &AddArguments) -> Result<Outcome, CommandError> {
    let AddArguments { name, role, all } = arguments;
    if name == LAUNCH {
        let problem = format!("{name:?} is what the token is called that each start of a hub makes");
        return Err(CommandError::usage(problem).hint("take another name"));
    }
    let store = store_file::open(place)?;
    let token = store.add_token(name, *role, *all).map_err(|error| match error {
        StoreError::TokenTaken { .. } => CommandError::usage(error.to_string())
            .hint(format!("take another name, or revoke it first: switchboard tokens revoke {name}")),
        other => store_error(other),
    })?;
    let mut output = std::io::stdout().lock();
    // A token that nobody has seen is of no use to anybody.
    if let Err(error) = writeln!(output, "{token}").and_then(|()| output.flush()) {
        store.revoke_token(name).map_err(store_error)?;
        return Err(CommandError::failed(format!("cannot write the token, so there is none: {error}")));
    }
    Ok(Outcome::Fine)
}

fn list(place: &Path, arguments: &ListArguments) -> Result<Outcome, CommandError> {
    let store = match store_file::is_there(place)? {
        true => Some(Store::open_read_only(place).map_err(store_error)?),
        false => None,
    };
    let tokens = store.as_ref().map_or_else(|| Ok(Vec::new()), Store::tokens).map_err(store_error)?;
    if tokens.is_empty() {
        eprintln!("no tokens in {}", place.display());
    }
    let mut output = BufWriter::new(std::io::stdout().lock());
    let now = Moment::now();
    let mut table = Table::new(&["NAME", "ROLE", "CREATED", "SEES"]);
    for (token, store) in tokens.iter().zip(std::iter::repeat(store.as_ref()).flatten()) {
        let shared = store.shared_with(&token.name).map_err(store_error)?;
        if arguments.json {
            writeln!(output, "{}", to_json(token, &shared)).map_err(write_error)?;
        } else {
            table.row([
                token.name.clone(),
                token.role.name().to_owned(),
                ago(token.made, now),
                sees(token, &shared),
            ]);
        }
    }
    table.write(Style::of_output(), &mut output).map_err(write_error)?;
    output.flush().map_err(write_error)?;
    Ok(Outcome::Fine)
}

fn to_json(token: &Token, shared: &[String]) -> String {
    let Token { name, role, all, made } = token;
    json!({"name": name, "role": role.name(), "all": all, "made": made.0, "shared": shared}).to_string()
}

/// Returns which sessions a token sees, in words.
fn sees(token: &Token, shared: &[String]) -> String {
    match (token.role, token.all, shared) {
        (Role::Admin, _, _) | (_, true, _) => "all sessions".to_owned(),
        (_, _, []) => "no session yet".to_owned(),
        (_, _, [one]) => one.clone(),
        (_, _, more) => format!("{} sessions", more.len()),
    }
}

fn revoke(place: &Path, arguments: &RevokeArguments) -> Result<Outcome, CommandError> {
    let store = existing(place)?;
    for name in &arguments.names {
        store.revoke_token(name).map_err(|error| unknown_token(&store, error))?;
        println!("{name}");
    }
    Ok(Outcome::Fine)
}

/// Opens a store that must be there: in a new one there would be nothing to change.
pub(super) fn existing(place: &Path) -> Result<Store, CommandError> {
    if !store_file::is_there(place)? {
        let problem = format!("there is no store {}", place.display());
        return Err(CommandError::usage(problem).hint("name the one of the hub with --store FILE"));
    }
    store_file::open(place.to_owned())
}

/// The error about a token, with the names of those that there are.
pub(super) fn unknown_token(store: &Store, error: StoreError) -> CommandError {
    let StoreError::UnknownToken { .. } = &error else { return store_error(error) };
    let names: Vec<String> =
        store.tokens().unwrap_or_default().into_iter().map(|token| token.name).take(20).collect();
    let told = CommandError::usage(format!("{error} in {}", store.path().display()));
    match &names[..] {
        [] => told.hint("there are none; switchboard tokens add makes one"),
        names => told.hint(format!("there are {}", names.join(", "))),
    }
}
