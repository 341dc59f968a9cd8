//! A client of a server, built with the official SDK: `official-remote-client 1|2 PROMPT URL TOKEN`. The
//! prompt `flood COUNT` requests so many updates from a version 2 agent; then only their duration in seconds
//! is printed.

use agent_client_protocol::Error;
use agent_client_protocol_http::HttpClient;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let (version, prompt, url, token) = (next(), next(), next(), next());
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(Error::into_internal_error)?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
    let agent = HttpClient::builder_with_endpoint(url)
        .configure_http(|http| http.no_proxy().default_headers(headers))
        .build()
        .map_err(Error::into_internal_error)?;
    if let Some(count) = switchboard_interop::flood_of(&prompt) {
        println!("{}", switchboard_interop::take_flood(agent, count).await?.as_secs_f64());
        return Ok(());
    }
    switchboard_interop::run_client(agent, &version, prompt).await
}
