//! `switchboard tokens`: access to a hub.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use switchboard_store::{Moment, Role, Store, StoreError, Token, TokenLimits};

use crate::commands::serve::{LAUNCH, parse_origin};
use crate::outcome::{CommandError, Outcome, write_error};
use crate::store_file::{self, store_error};
use crate::terminal::style::Style;
use crate::terminal::table::Table;
use crate::units::ago;

/// Create, list and revoke the tokens of a hub
///
/// A token grants access to the hub according to its role. Tokens are in the store of the hub: the file in
/// --store, else in the environment variable SWITCHBOARD_STORE, else the default one. A running hub applies
/// every change at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    switchboard tokens add phone --role answer --all   # prints the token, this once\n  \
    switchboard tokens add ci --role use > ci.token\n  \
    switchboard tokens add marimo --origin http://localhost:2718 --agent claude --expires 12h\n  \
    switchboard tokens list\n  \
    switchboard tokens revoke phone                    # its connections are closed at once")]
pub(crate) struct Arguments {
    /// Path of the store
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

/// Create a token and print it
///
/// Standard output contains only the token. It cannot be shown again: the store keeps only its hash.
#[derive(Debug, clap::Args)]
struct AddArguments {
    /// Name of the token, such as that of a person or a machine
    name: String,

    /// Role of the token: `view` sees sessions; `answer` also answers questions of agents; `use` also starts
    /// sessions and controls those that it started or that are shared with it; `admin` may do everything
    #[arg(long, value_name = "view|answer|use|admin", value_parser = parse_role, required_unless_present = "origin")]
    role: Option<Role>,

    /// Access to all sessions, not only to shared ones (admin always has it)
    #[arg(long)]
    all: bool,

    /// Make a token for pages of this origin, such as http://localhost:2718. It works only for WebSockets of
    /// these pages, and may be part of an address: ?token=TOKEN. Its role is `use` unless --role says less
    #[arg(long, value_name = "URL", value_parser = parse_origin, requires_all = ["agent", "expires"])]
    origin: Option<String>,

    /// Name of the only agent that the token is for
    #[arg(long, value_name = "NAME", requires = "origin")]
    agent: Option<String>,

    /// Time after which the token is invalid, such as 12h
    #[arg(long, value_name = "TIME", value_parser = crate::units::duration, requires = "origin")]
    expires: Option<Duration>,
}

/// List the tokens, without their values
#[derive(Debug, clap::Args)]
struct ListArguments {
    /// Print one JSON object per token
    #[arg(long)]
    json: bool,
}

/// Revoke tokens
///
/// Their connections are closed at once. Sessions shared with them are no longer shared, not even with a
/// later token of the same name.
#[derive(Debug, clap::Args)]
struct RevokeArguments {
    /// Names of the tokens
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
    let AddArguments { name, role, all, origin, agent, expires } = arguments;
    if name == LAUNCH {
        let problem = format!("{name:?} is reserved for the launch token of a hub");
        return Err(CommandError::usage(problem).hint("choose another name"));
    }
    let limits = match (origin, agent, expires) {
        (Some(origin), Some(agent), Some(expires)) => Some(TokenLimits {
            origin: origin.clone(),
            agent: agent.clone(),
            expires: Moment(Moment::now().0.saturating_add(Moment::from(*expires).0)),
        }),
        _ => None,
    };
    let role = role.unwrap_or(Role::Use);
    if limits.is_some() && role > Role::Use {
        let problem = "a token with --origin is in addresses, so its role is at most use";
        return Err(CommandError::usage(problem).hint("leave --role out, or use view or answer"));
    }
    let store = store_file::open(place)?;
    let token = store.add_limited_token(name, role, *all, limits).map_err(|error| match error {
        StoreError::TokenTaken { .. } => CommandError::usage(error.to_string())
            .hint(format!("choose another name, or revoke it first: switchboard tokens revoke {name}")),
        other => store_error(other),
    })?;
    let mut output = std::io::stdout().lock();
    // A token that could not be printed is useless.
    if let Err(error) = writeln!(output, "{token}").and_then(|()| output.flush()) {
        store.revoke_token(name).map_err(store_error)?;
        return Err(CommandError::failed(format!("cannot print the token, so it was revoked: {error}")));
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
    let Token { name, role, all, made, limits } = token;
    let mut object = json!({"name": name, "role": role.name(), "all": all, "made": made.0, "shared": shared});
    if let Some(TokenLimits { origin, agent, expires }) = limits {
        object["origin"] = origin.as_str().into();
        object["agent"] = agent.as_str().into();
        object["expires"] = expires.0.into();
    }
    object.to_string()
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

/// Opens an existing store: a new one would have nothing to change.
pub(super) fn existing(place: &Path) -> Result<Store, CommandError> {
    if !store_file::is_there(place)? {
        let problem = format!("the store {} does not exist", place.display());
        return Err(CommandError::usage(problem).hint("use the hub's store with --store FILE"));
    }
    store_file::open(place.to_owned())
}

/// Returns the error about an unknown token, with the existing names.
pub(super) fn unknown_token(store: &Store, error: StoreError) -> CommandError {
    let StoreError::UnknownToken { .. } = &error else { return store_error(error) };
    let names: Vec<String> =
        store.tokens().unwrap_or_default().into_iter().map(|token| token.name).take(20).collect();
    let told = CommandError::usage(format!("{error} in {}", store.path().display()));
    match &names[..] {
        [] => told.hint("there are no tokens; create one with `switchboard tokens add`"),
        names => told.hint(format!("existing tokens: {}", names.join(", "))),
    }
}
