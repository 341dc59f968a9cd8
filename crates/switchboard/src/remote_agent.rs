//! Agents that are named by an address: `switchboard connect` is the program that reaches them, so that everything
//! which holds for agents on this machine holds for them, too.

use std::collections::BTreeMap;

use switchboard_transport::Program;

use crate::outcome::CommandError;

/// The environment variable with the token for servers that want one.
pub(crate) const TOKEN: &str = "SWITCHBOARD_TOKEN";

/// The environment variable in which `connect` is given headers, as a JSON object: they may be secrets, which do not
/// belong on a command line.
pub(crate) const HEADERS: &str = "SWITCHBOARD_HEADERS";

/// The program that reaches an agent at an address that the user typed.
pub(crate) fn program(url: &str) -> Result<Program, CommandError> {
    Ok(ourselves(["connect", "--no-wait", url])?.relay_for(url))
}

/// This program, with other arguments.
pub(crate) fn ourselves<const COUNT: usize>(arguments: [&str; COUNT]) -> Result<Program, CommandError> {
    let ourselves = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
    Ok(Program::new(ourselves).args(arguments))
}

/// What `connect` is given in its environment for an agent of a configuration file. The user's token is not for a
/// server that somebody else may have written into a file.
pub(crate) fn environment(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let headers = serde_json::json!(headers).to_string();
    BTreeMap::from([(HEADERS.to_owned(), headers), (TOKEN.to_owned(), String::new())])
}
