//! Unstable features of agents: forks, titles, the archive, states, logins, steering.

use switchboard_acp::rpc::codes;
use switchboard_acp::v2::{self, StopReason, unstable};
use switchboard_acp::{Raw, WireFormat};
use switchboard_peer::{
    Agent, AgentSession, Client, ClientOptions, Error, Event, Introduction, Steered, Turn, Versions,
    agent_connection_options, serve_versions,
};
use switchboard_transport::{Connection, Event as Incoming, Json};

use crate::support::{Test, bounded, path};

/// An agent with all of them.
struct Full;

impl Agent for Full {
    fn introduce(&self) -> Introduction {
        let mut introduction = Introduction::new("full", "1.0");
        let yes = || Some(v2::EmptyObject::new());
        let session = introduction.capabilities.session.get_or_insert_with(v2::SessionCapabilities::new);
        (session.fork, session.archive, session.title, session.status) = (yes(), yes(), yes(), yes());
        let auth = v2::AgentAuthCapabilities { status: yes(), ..v2::AgentAuthCapabilities::new() };
        introduction.capabilities.auth = Some(auth);
        introduction
    }

    async fn fork_session(&self, from: &str, copy: &AgentSession) -> Result<(), Error> {
        copy.title(&format!("Copy of {from}")).await
    }

    async fn auth_status(&self) -> Result<unstable::AuthStatusResponse<'static>, Error> {
        Ok(unstable::AuthStatusResponse::new(unstable::AuthState::NotRequired))
    }

    async fn prompt(&self, turn: &Turn) -> Result<StopReason, Error> {
        turn.say(&turn.text()).await?;
        Ok(StopReason::EndTurn)
    }
}

#[tokio::test]
async fn a_copy_has_the_history_and_goes_on_by_itself() {
    bounded(async {
        let mut test = Test::with(Full).await;
        test.run("before").await;
        let Client { agent, feed } = &mut test.client;
        let request = unstable::ForkSessionRequest::new(test.session.as_str(), path("/w"));
        let copy = feed.until(agent.fork_session(&request), drop).await.unwrap().unwrap().session_id;
        assert_ne!(copy, test.session);
        let missing = unstable::ForkSessionRequest::new("nobody", path("/w"));
        let refused = feed.until(agent.fork_session(&missing), drop).await.unwrap().unwrap_err();
        assert_eq!(refused.code, codes::RESOURCE_NOT_FOUND);
        let mut resume = v2::ResumeSessionRequest::new(&*copy, path("/w"));
        resume.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap();
        let original = std::mem::replace(&mut test.session, copy.into_owned());
        test.run("after").await;
        let said = |test: &Test, id: &str| {
            let look = |session: &switchboard_session::Session| {
                session
                    .entries()
                    .map(|entry| entry.as_message().unwrap().content().text())
                    .collect::<Vec<_>>()
            };
            test.client.feed.sessions().get(id, look).unwrap()
        };
        assert_eq!(said(&test, &test.session), ["before", "before", "after", "after"]);
        assert_eq!(said(&test, &original), ["before", "before"]);
        assert_eq!(
            test.look(|session| session.title().map(str::to_owned)).unwrap(),
            format!("Copy of {original}")
        );
    })
    .await;
}

#[tokio::test]
async fn titles_the_archive_and_states_are_looked_after() {
    bounded(async {
        let mut test = Test::with(Full).await;
        let (agent, session) = (test.client.agent.clone(), test.session.clone());
        let feed = &mut test.client.feed;
        assert_eq!(feed.until(agent.set_title(&session, "Mine"), drop).await.unwrap().unwrap(), "Mine");
        assert_eq!(
            feed.sessions().get(&session, |it| it.title().map(str::to_owned)).flatten().unwrap(),
            "Mine"
        );
        let status = feed.until(agent.session_status(&session), drop).await.unwrap().unwrap();
        assert_eq!(status.status, unstable::SessionStatus::Open);
        assert!(matches!(status.state, Some(v2::StateUpdate::Idle(_))));
        feed.until(agent.close_session(&session), drop).await.unwrap().unwrap();
        let status = feed.until(agent.session_status(&session), drop).await.unwrap().unwrap();
        assert_eq!((status.status, status.state), (unstable::SessionStatus::Saved, None));
        let refused = feed.until(agent.session_status("nobody"), drop).await.unwrap().unwrap_err();
        assert_eq!(refused.code, codes::RESOURCE_NOT_FOUND);

        feed.until(agent.archive_session(&session), drop).await.unwrap().unwrap();
        use unstable::SessionArchiveFilter as Filter;
        for (filter, expected) in
            [(None, 0), (Some(Filter::Exclude), 0), (Some(Filter::Only), 1), (Some(Filter::Include), 1)]
        {
            let request =
                v2::ListSessionsRequest { archived: filter.clone(), ..v2::ListSessionsRequest::new() };
            let listed = feed.until(agent.list_sessions(&request), drop).await.unwrap().unwrap();
            assert_eq!(listed.sessions.len(), expected, "{filter:?}");
            assert!(listed.sessions.iter().all(|info| info.archived == Some(true)));
        }
        feed.until(agent.unarchive_session(&session), drop).await.unwrap().unwrap();
        let listed =
            feed.until(agent.list_sessions(&v2::ListSessionsRequest::new()), drop).await.unwrap().unwrap();
        assert_eq!(listed.sessions.len(), 1);

        let status = feed.until(agent.auth_status(), drop).await.unwrap().unwrap();
        assert_eq!(status.state, unstable::AuthState::NotRequired);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_did_not_tell_of_a_method_refuses_it() {
    bounded(async {
        let mut test = Test::scripted(|_| Box::pin(async { Ok(StopReason::EndTurn) })).await;
        let (agent, session) = (test.client.agent.clone(), test.session.clone());
        let feed = &mut test.client.feed;
        let fork = unstable::ForkSessionRequest::new(session.as_str(), path("/w"));
        let mut refusals = vec![feed.until(agent.fork_session(&fork), drop).await.unwrap().unwrap_err()];
        refusals.push(feed.until(agent.set_title(&session, "x"), drop).await.unwrap().unwrap_err());
        refusals.push(feed.until(agent.archive_session(&session), drop).await.unwrap().unwrap_err());
        refusals.push(feed.until(agent.unarchive_session(&session), drop).await.unwrap().unwrap_err());
        refusals.push(feed.until(agent.session_status(&session), drop).await.unwrap().unwrap_err());
        refusals.push(feed.until(agent.auth_status(), drop).await.unwrap().unwrap_err());
        refusals.push(feed.until(agent.steer(&session, Vec::new()), drop).await.unwrap().unwrap_err());
        assert!(refusals.iter().all(|error| error.code == codes::METHOD_NOT_FOUND), "{refusals:?}");
        assert!(!agent.description().can_steer());
    })
    .await;
}

#[tokio::test]
async fn the_loss_of_a_login_is_told_in_both_versions_and_kept() {
    for versions in [Versions::Two, Versions::One] {
        bounded(async {
            let (near, far) = Connection::pair(Client::connection_options(), agent_connection_options());
            let caller = far.caller.clone();
            tokio::spawn(serve_versions(Full, far, versions));
            let Client { mut feed, .. } =
                Client::connect(near, ClientOptions::new("test", "1.0")).await.unwrap();
            let state = |feed: &switchboard_peer::Feed| {
                feed.sessions().conversation(|all| all.auth_status().map(|status| status.state.clone()))
            };
            let params = unstable::AuthStatusUpdateNotification::new(unstable::AuthState::Unauthenticated);
            caller.notify("auth/status_update", Json::of(&params, WireFormat::Any)).await.unwrap();
            while !matches!(feed.next().await, Some(Event::AuthStatus)) {}
            assert_eq!(state(&feed), Some(unstable::AuthState::Unauthenticated));
            let early = Raw::parse(r#"{"authStatus":{"kind":"api_key","label":"A key"}}"#).unwrap();
            caller.notify("_auth/status_update", Json::from(early)).await.unwrap();
            while !matches!(feed.next().await, Some(Event::AuthStatus)) {}
            assert_eq!(state(&feed), Some(unstable::AuthState::Authenticated));
            let malformed = Raw::parse(r#"{"state":7}"#).unwrap();
            caller.notify("auth/status_update", Json::from(malformed)).await.unwrap();
            while !matches!(feed.next().await, Some(Event::Malformed { .. })) {}
            assert_eq!(state(&feed), Some(unstable::AuthState::Authenticated));
        })
        .await;
    }
}

#[tokio::test]
async fn a_turn_at_work_is_steered_and_none_is_begun() {
    bounded(async {
        let (near, mut far) = Connection::pair(Client::connection_options(), Default::default());
        tokio::spawn(async move {
            let mut outcomes = ["steered", "promptRequired"].into_iter();
            while let Some(event) = far.inbox.next().await {
                let Incoming::Request(request) = event else { continue };
                let answer = match request.method() {
                    "initialize" => {
                        r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"_meta":{"steering":{"supported":true}}}"#
                            .to_owned()
                    }
                    method => {
                        assert_eq!(method, "_session/steering");
                        let idle = Raw::parse(request.params()).unwrap().get("_meta").unwrap().as_str().to_owned();
                        assert!(idle.contains("promptRequired"), "{idle}");
                        format!(r#"{{"outcome":"{}"}}"#, outcomes.next().unwrap())
                    }
                };
                request.respond(Json::from(Raw::parse(answer).unwrap())).await.unwrap();
            }
        });
        let Client { agent, mut feed } = Client::connect(near, ClientOptions::new("test", "1.0")).await.unwrap();
        assert!(agent.description().can_steer());
        for expected in [Steered::Taken, Steered::NoTurn] {
            let content = vec![v2::ContentBlock::text("and tests")];
            assert_eq!(feed.until(agent.steer("s", content), drop).await.unwrap().unwrap(), expected);
        }
    })
    .await;
}
