//! A client drives an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use switchboard_acp::rpc::codes;
use switchboard_acp::v2::{self, StopReason};
use switchboard_peer::{Client, Error, Event};
use switchboard_session::{Activity, EntryKind, Session};
use tokio::sync::Notify;

use crate::support::{Test, bounded, path};

#[tokio::test]
async fn cancel_ends_the_work_and_its_questions() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let _call = turn.tool_call("Slow").begin().await?;
                let decision = turn.ask("May I?").ask().await?;
                assert!(!decision.is_allowed());
                turn.cancelled().await;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut turn = test.prompt("go").await;
        let asked = Arc::new(Notify::new());
        let notify = Arc::clone(&asked);
        let Client { agent, feed } = &mut test.client;
        feed.until(asked.notified(), |event| {
            if matches!(event, Event::Permission(_)) {
                notify.notify_one();
            }
        })
        .await;
        feed.until(agent.cancel(&test.session), drop).await.unwrap();
        let end = test.ended(&mut turn, drop).await;
        assert_eq!(end.stop_reason, Some(StopReason::Cancelled));
        test.look(|session| {
            assert_eq!(session.pending_permissions().count(), 0);
            assert_eq!(session.tool_call("call-2").unwrap().status(), &v2::ToolCallStatus::Cancelled);
        });
    })
    .await;
}

#[tokio::test]
async fn prompts_wait_for_their_turn_and_can_be_taken_back() {
    bounded(async {
        let go = Arc::new(Notify::new());
        let wait = Arc::clone(&go);
        let mut test = Test::scripted(move |turn| {
            let wait = Arc::clone(&wait);
            Box::pin(async move {
                if turn.text() == "first" {
                    wait.notified().await;
                }
                turn.say(&turn.text()).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut first = test.prompt("first").await;
        let Client { agent, feed } = &mut test.client;
        let text = |text: &'static str| vec![v2::ContentBlock::text(text)];
        // Dropped while queued: the agent must drop it, too.
        let taken_back = agent.prompt(&test.session, text("second"));
        let sent = async {
            tokio::select! {
                _ = taken_back => panic!("it cannot be inserted yet"),
                () = tokio::task::yield_now() => {}
            }
        };
        feed.until(sent, drop).await;
        let third = agent.prompt(&test.session, text("third"));
        go.notify_one();
        let mut third = feed.until(third, drop).await.unwrap().unwrap();
        feed.until(first.ended(), drop).await.unwrap();
        feed.until(third.ended(), drop).await.unwrap();
        let said: Vec<String> = test.look(|session| {
            let messages = session.entries().filter(|entry| entry.kind() == EntryKind::AgentMessage);
            messages.map(|entry| entry.as_message().unwrap().content().text()).collect()
        });
        assert_eq!(said, ["first", "third"]);
    })
    .await;
}

#[tokio::test]
async fn sessions_are_listed_resumed_with_history_closed_and_deleted() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                turn.session().title("Kept").await?;
                let message = turn.message();
                message.text("one ").await?;
                message.text("two").await?;
                let call = turn.tool_call("Call").begin().await?;
                call.complete_with(serde_json::json!({"ok": true})).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        test.run("hello").await;
        let before = test.look(Session::snapshot);
        let Client { agent, feed } = &mut test.client;
        let listed =
            feed.until(agent.list_sessions(&v2::ListSessionsRequest::new()), drop).await.unwrap().unwrap();
        assert_eq!(listed.sessions[0].session_id, test.session);
        assert_eq!(listed.sessions[0].title.as_deref(), Some("Kept"));

        feed.until(agent.close_session(&test.session), drop).await.unwrap().unwrap();
        let refused = feed
            .until(agent.prompt(&test.session, vec![v2::ContentBlock::text("closed")]), drop)
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.code, codes::RESOURCE_NOT_FOUND);
        feed.sessions().remove(&test.session);

        let mut resume = v2::ResumeSessionRequest::new(test.session.as_str(), path("/w"));
        resume.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap();
        feed.sessions()
            .get(&test.session, |session| {
                let ids = |snapshot: &switchboard_session::Snapshot| {
                    snapshot.entries().map(|entry| entry.id().to_owned()).collect::<Vec<_>>()
                };
                assert_eq!(ids(session), ids(&before));
                assert_eq!(session.title(), Some("Kept"));
                assert_eq!(session.entry(1).unwrap().as_message().unwrap().content().text(), "one two");
            })
            .unwrap();

        resume.cwd = path("/elsewhere");
        let refused = feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap_err();
        assert_eq!(refused.code, codes::INVALID_PARAMS);
        feed.until(agent.delete_session(&test.session), drop).await.unwrap().unwrap();
        resume.cwd = path("/w");
        let refused = feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap_err();
        assert_eq!(refused.code, codes::RESOURCE_NOT_FOUND);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_agent_ends_the_wait() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                turn.cancelled().await;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut turn = test.prompt("go").await;
        test.client.agent.caller().close().await;
        let lost = test.client.feed.until(turn.ended(), drop).await;
        assert!(matches!(lost, Err(Error::Transport(_))), "{lost:?}");
        let refused = test.client.agent.logout().await;
        assert!(matches!(refused, Err(Error::Transport(_))));
    })
    .await;
}

#[tokio::test]
async fn the_halves_work_in_different_tasks() {
    bounded(async {
        let test = Test::scripted(|turn| {
            Box::pin(async move {
                for word in ["a", "b", "c"] {
                    turn.say(word).await?;
                }
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let Test { client: Client { agent, mut feed }, session } = test;
        let sessions = feed.sessions();
        let driver = tokio::spawn(async move { while feed.next().await.is_some() {} });
        let mut turn = agent.prompt(&session, vec![v2::ContentBlock::text("x")]).await.unwrap().unwrap();
        assert_eq!(turn.message_id(), Some("user-1"));
        turn.ended().await.unwrap();
        let (length, activity) =
            sessions.get(&session, |session| (session.len(), session.activity())).unwrap();
        assert_eq!((length, activity), (4, Activity::Idle));
        agent.caller().close().await;
        driver.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_look_stops_the_agent() {
    const PIECES: u64 = 30_000;
    bounded(async {
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let mut test = Test::scripted(move |turn| {
            let count = Arc::clone(&count);
            Box::pin(async move {
                let message = turn.message();
                for _ in 0..PIECES {
                    message.text("piece ").await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut turn = test.prompt("go").await;
        // All tasks are blocked when nothing changes for many scheduler rounds.
        let (mut before, mut still) = (0, 0);
        while still < 1000 {
            tokio::task::yield_now().await;
            let now = sent.load(Ordering::Relaxed);
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
        assert!(before < PIECES / 2, "{before} pieces are on their way");
        test.ended(&mut turn, drop).await;
        assert_eq!(sent.load(Ordering::Relaxed), PIECES);
        let length = test.look(|session| session.entry(1).unwrap().as_message().unwrap().content().len());
        assert_eq!(length as u64, PIECES);
    })
    .await;
}
