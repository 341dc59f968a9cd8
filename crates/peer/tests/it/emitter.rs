//! Updates of an author arrive in the right order or not at all.

use std::sync::{Arc, Mutex};

use switchboard_acp::v2::{self, PermissionOptionKind as Kind, StopReason};
use switchboard_peer::{Decision, Error, Event};
use switchboard_session::{Activity, EntryKind, Permission};

use crate::support::{Test, bounded};

#[tokio::test]
async fn messages_thoughts_calls_and_terminals_arrive() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                turn.session().title("A title").await?;
                let thought = turn.thought();
                thought.text("hm").await?;
                let message = turn.message();
                message.text("Hello, ").await?;
                let call = turn.tool_call("Build").kind(v2::ToolKind::Execute).begin().await?;
                message.text("world").await?;
                let terminal = call.terminal("make", "/w").await?;
                terminal.output(b"\xC3").await?;
                terminal.output(b"\xA9\n").await?;
                terminal.exit(0).await?;
                call.text("done").await?;
                call.complete().await?;
                turn.plan("p", vec![]).await?;
                turn.session().usage(1, 10).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let end = test.run("go").await;
        assert_eq!(end.stop_reason, Some(StopReason::EndTurn));
        test.look(|session| {
            let entries: Vec<_> = session.entries().map(|entry| (entry.kind(), entry.id())).collect();
            assert_eq!(
                entries,
                [
                    (EntryKind::UserMessage, "user-1"),
                    (EntryKind::AgentThought, "thought-2"),
                    (EntryKind::AgentMessage, "message-3"),
                    (EntryKind::ToolCall, "call-4"),
                    (EntryKind::Terminal, "terminal-5"),
                ]
            );
            assert_eq!(session.entry(2).unwrap().as_message().unwrap().content().text(), "Hello, world");
            let call = session.tool_call("call-4").unwrap();
            assert_eq!(call.status(), &v2::ToolCallStatus::Completed);
            assert_eq!(call.terminal_ids().collect::<Vec<_>>(), ["terminal-5"]);
            assert_eq!(session.terminal("terminal-5").unwrap().output().to_vec(), "é\n".as_bytes());
            assert_eq!(session.title(), Some("A title"));
            assert_eq!(session.activity(), Activity::Idle);
        });
    })
    .await;
}

#[tokio::test]
async fn nothing_can_be_said_after_the_turn() {
    bounded(async {
        let late = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&late);
        let mut test = Test::scripted(move |turn| {
            let kept = Arc::clone(&kept);
            Box::pin(async move {
                let message = turn.message();
                let call = turn.tool_call("Left open").begin().await?;
                *kept.lock().unwrap() = Some((message, call));
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        test.run("go").await;
        let (message, call) = late.lock().unwrap().take().unwrap();
        assert!(matches!(message.text("late").await, Err(Error::TurnOver)));
        assert!(matches!(call.complete().await, Err(Error::TurnOver)));
        test.look(|session| {
            assert_eq!(session.tool_call("call-3").unwrap().status(), &v2::ToolCallStatus::Failed);
        });
    })
    .await;
}

#[tokio::test]
async fn states_and_endings_are_not_told_by_hand() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let idle = v2::StateUpdate::Idle(v2::IdleState::new());
                let refused = turn.update(v2::SessionUpdate::StateUpdate(Box::new(idle))).await;
                assert!(matches!(refused, Err(Error::BrokenRule(_))));
                let call = turn.tool_call("Call").begin().await?;
                let refused = call.update(|update| update.status(v2::ToolCallStatus::Completed)).await;
                assert!(matches!(refused, Err(Error::BrokenRule(_))));
                let twice = turn
                    .ask("Twice?")
                    .option("a", "A", Kind::AllowOnce)
                    .option("a", "B", Kind::RejectOnce)
                    .ask()
                    .await;
                assert!(matches!(twice, Err(Error::BrokenRule(_))));
                call.complete().await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        assert_eq!(test.run("go").await.stop_reason, Some(StopReason::EndTurn));
    })
    .await;
}

#[tokio::test]
async fn a_permission_is_asked_and_decided() {
    bounded(async {
        let decisions = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&decisions);
        let mut test = Test::scripted(move |turn| {
            let seen = Arc::clone(&seen);
            Box::pin(async move {
                let call = turn.tool_call("Edit").announce().await?;
                for title in ["allow", "reject", "dismiss"] {
                    let decision = turn.ask(title).about(&call).ask().await?;
                    seen.lock().unwrap().push(decision);
                }
                call.complete().await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut turn = test.prompt("go").await;
        let mut states = Vec::new();
        let sessions = test.client.feed.sessions();
        let id = test.session.clone();
        test.ended(&mut turn, |event| {
            let Event::Permission(question) = event else { return };
            states.push(sessions.get(&id, |session| session.activity()).unwrap());
            tokio::spawn(async move {
                match &*question.request().title {
                    "allow" => {
                        assert!(question.choose("made-up", "test").await.is_err());
                        question.choose("allow_once", "test").await.unwrap();
                        let again = question.choose("allow_once", "test").await;
                        assert!(matches!(again, Err(Error::AlreadySettled { .. })));
                    }
                    "reject" => question.choose("reject_once", "test").await.unwrap(),
                    _ => question.dismiss().unwrap(),
                }
            });
        })
        .await;
        assert_eq!(states, [Activity::RequiresAction; 3]);
        let decisions = decisions.lock().unwrap();
        assert!(matches!(&decisions[..], [Decision::Allowed(_), Decision::Rejected(_), Decision::Undecided]));
        test.look(|session| {
            let granted: Vec<_> = session.permissions().map(Permission::is_granted).collect();
            assert_eq!(granted, [true, false, false]);
        });
    })
    .await;
}

#[tokio::test]
async fn a_failure_ends_the_turn_with_its_error() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                if turn.text() == "panic" {
                    panic!("as asked");
                }
                Err(Error::BrokenRule("no luck".into()))
            })
        })
        .await;
        let end = test.run("fail").await;
        assert_eq!(end.stop_reason, Some(StopReason::Error));
        assert_eq!(end.error.unwrap().message, "no luck");
        let end = test.run("panic").await;
        assert_eq!(end.stop_reason, Some(StopReason::Error));
        assert_eq!(test.look(|session| session.activity()), Activity::Idle);
    })
    .await;
}
