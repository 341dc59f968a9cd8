//! Detection of the agent's version.

use switchboard_peer::{Client, ClientOptions, Error};
use switchboard_transport::{Connection, ConnectionOptions, Event, Json};

use crate::support::bounded;

/// Connects to an agent with these responses to `initialize`, in order: `Err` is an error response.
async fn connect(answers: Vec<Result<&'static str, &'static str>>) -> Result<Client, Error> {
    let (near, mut far) = Connection::pair(Client::connection_options(), ConnectionOptions::default());
    tokio::spawn(async move {
        let mut answers = answers.into_iter();
        while let Some(event) = far.inbox.next().await {
            let Event::Request(request) = event else { continue };
            match answers.next() {
                Some(Ok(result)) => {
                    let value: serde_json::Value = serde_json::from_str(result).unwrap();
                    request.respond(Json::from(value)).await.unwrap();
                }
                Some(Err(message)) => {
                    let error = switchboard_acp::rpc::RpcError::new(-32602, message);
                    request.fail(&error).await.unwrap();
                }
                None => drop(request),
            }
        }
    });
    bounded(Client::connect(near, ClientOptions::new("test", "1"))).await
}

const TWO: &str = r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}"#;
const ONE: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"old","version":"1"}}"#;

#[tokio::test]
async fn an_agent_of_version_2_is_taken_as_it_is() {
    let client = connect(vec![Ok(TWO)]).await.unwrap();
    assert_eq!(client.agent.description().version, 2);
    assert_eq!(client.agent.description().name(), "a");
    assert!(client.agent.description().capabilities.session.is_some());
}

#[tokio::test]
async fn the_shape_of_the_answer_decides() {
    for answer in [
        ONE,
        r#"{"protocolVersion":2,"agentCapabilities":{"loadSession":true}}"#,
        r#"{"protocolVersion":2,"agentInfo":{"name":"old","version":"1"},"authMethods":[]}"#,
        r#"{"protocolVersion":2}"#,
    ] {
        // The second request is in its own version.
        let client = connect(vec![Ok(answer), Ok(answer)]).await.unwrap();
        assert_eq!(client.agent.description().version, 1, "{answer}");
    }
}

#[tokio::test]
async fn an_agent_that_refuses_version_2_is_asked_for_1() {
    let client = connect(vec![Err("version?"), Ok(ONE), Ok(ONE)]).await.unwrap();
    assert_eq!((client.agent.description().version, client.agent.description().name()), (1, "old"));
    let client = connect(vec![Ok(ONE), Err("only once")]).await.unwrap();
    assert_eq!(client.agent.description().name(), "old");
    let refused = connect(vec![Err("first"), Err("second")]).await.unwrap_err();
    assert!(matches!(refused, Error::NotInitialized(error) if error.message == "second"));
}

#[tokio::test]
async fn nonsense_is_an_error() {
    assert!(matches!(connect(vec![Ok(r#"{"protocolVersion":7}"#)]).await, Err(Error::UnknownVersion(7))));
    assert!(matches!(connect(vec![Ok("[]")]).await, Err(Error::BadAnswer { .. })));
    assert!(matches!(connect(vec![Ok(r#"{"protocolVersion":"2"}"#)]).await, Err(Error::BadAnswer { .. })));
}
