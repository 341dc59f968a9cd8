//! Agents that are named by a URL: `switchboard connect` is their program, so that everything works as for
//! local agents.

use std::collections::BTreeMap;

use switchboard_transport::Program;

use crate::outcome::CommandError;

/// The environment variable with the token for servers.
pub(crate) const TOKEN: &str = "SWITCHBOARD_TOKEN";

/// The environment variable with headers for `connect`, as a JSON object: they may be secrets, which do not
/// belong on a command line.
pub(crate) const HEADERS: &str = "SWITCHBOARD_HEADERS";

/// Returns the program for an agent at a URL that the user typed.
pub(crate) fn program(url: &str) -> Result<Program, CommandError> {
    Ok(ourselves(["connect", "--no-wait", url])?.relay_for(url))
}

/// Returns this program with other arguments.
pub(crate) fn ourselves<const COUNT: usize>(arguments: [&str; COUNT]) -> Result<Program, CommandError> {
    let ourselves = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
    Ok(Program::new(ourselves).args(arguments))
}

/// Returns the environment of `connect` for an agent of a configuration file. The user's token must not be
/// sent to a server in a file that others may have written.
pub(crate) fn environment(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let headers = serde_json::json!(headers).to_string();
    BTreeMap::from([(HEADERS.to_owned(), headers), (TOKEN.to_owned(), String::new())])
}
