//! Sub-agents: everything that an author sends arrives, and ends with its parent.

use std::sync::{Arc, Mutex};

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::v2::{self, StopReason};
use switchboard_peer::{Agent, Client, Event, Introduction, Recalled, Subagent, Turn, Versions};
use switchboard_session::{Conversation, EntryKind, Session};

use crate::support::{Scripted, Test, Work, bounded, path};

impl Test {
    fn conversation<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        self.client.feed.sessions().conversation(look)
    }

    /// Handles events until the conversation matches.
    async fn until(&mut self, wanted: impl Fn(&Conversation) -> bool) {
        while !self.conversation(&wanted) {
            self.client.feed.next().await.expect("more events");
        }
    }
}

fn texts(session: &Session) -> Vec<(EntryKind, String)> {
    let text = |entry: &switchboard_session::Entry| match entry {
        switchboard_session::Entry::Message(message) => message.content().text(),
        switchboard_session::Entry::SessionMessage(message) => message.content().text(),
        _ => String::new(),
    };
    session.entries().map(|entry| (entry.kind(), text(entry))).collect()
}

const CHILD: &str = "session-1.subagent-3";

#[tokio::test]
async fn a_child_has_its_id_its_call_its_task_its_states_and_its_report() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let call = turn.tool_call("Delegate").begin().await?;
                let child = call.subagent("Explorer").description("Looks").task("Look").start().await?;
                assert_eq!((child.id(), child.text().as_str()), (CHILD, "Look"));
                child.thought().text("hm").await?;
                let inner = child.tool_call("Read").begin().await?;
                inner.complete().await?;
                let grandchild = child.subagent("Deeper").start().await?;
                grandchild.say("from below").await?;
                grandchild.finish(StopReason::EndTurn).await?;
                child.report("Found").await?;
                child.finish(StopReason::MaxTokens).await?;
                call.complete().await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut states = Vec::new();
        let mut turn = test.prompt("go").await;
        let sessions = test.client.feed.sessions();
        test.ended(&mut turn, |_| {
            let words = sessions.conversation(|all| all.state_in_words(CHILD));
            if states.last() != Some(&words) {
                states.push(words);
            }
        })
        .await;
        assert_eq!(states, ["state not known", "at work", "out of tokens"]);
        test.conversation(|all| {
            let parent = all.parent(CHILD).unwrap();
            assert_eq!((&*parent.session, parent.tool_call.as_deref()), ("session-1", Some("call-2")));
            assert_eq!(
                all.speaker("session-1.subagent-3.subagent-4").unwrap(),
                "sub-agent \"Deeper\" of \"Explorer (Looks)\""
            );
            let child = all.session(Some(CHILD)).unwrap();
            use EntryKind::{AgentThought, SessionMessage, Subagent, ToolCall};
            assert_eq!(
                texts(child),
                [
                    (SessionMessage, "Look".into()),
                    (AgentThought, "hm".into()),
                    (ToolCall, String::new()),
                    (Subagent, String::new()),
                    (SessionMessage, "Found".into()),
                ]
            );
            assert_eq!(child.stop_reason(), Some(&StopReason::MaxTokens));
            let root = all.session(Some("session-1")).unwrap();
            let messages: Vec<_> =
                texts(root).into_iter().filter(|(kind, _)| *kind == SessionMessage).collect();
            assert_eq!(messages, [(SessionMessage, "Look".into()), (SessionMessage, "Found".into())]);
            assert_eq!(root.subagent(CHILD).unwrap().title(), Some("Explorer"));
        });
    })
    .await;
}

#[tokio::test]
async fn a_cancel_of_the_session_cancels_its_children_and_their_questions() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let child = turn.subagent("Asker").start().await?;
                let grandchild = child.subagent("Waiter").start().await?;
                let decision = child.ask("May I?").ask().await?;
                assert!(!decision.is_allowed());
                grandchild.cancelled().await;
                grandchild.finish(StopReason::EndTurn).await?;
                child.finish(StopReason::EndTurn).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        let mut turn = test.prompt("go").await;
        let child = "session-1.subagent-2";
        test.until(|all| {
            all.session(Some(child)).is_some_and(|session| session.pending_permissions().count() == 1)
        })
        .await;
        assert_eq!(test.conversation(|all| all.state_in_words(child)), "waiting for an answer");
        let Client { agent, feed } = &mut test.client;
        feed.until(agent.cancel(&test.session), drop).await.unwrap();
        let mut withdrawn = 0;
        test.ended(&mut turn, |event| withdrawn += usize::from(matches!(event, Event::Withdrawn { .. })))
            .await;
        assert_eq!(withdrawn, 1);
        test.conversation(|all| {
            for session in ["session-1.subagent-2", "session-1.subagent-2.subagent-1"] {
                assert_eq!(all.state_in_words(session), "cancelled", "{session}");
            }
        });
    })
    .await;
}

#[tokio::test]
async fn one_that_is_dropped_is_cancelled_and_one_that_fails_tells_why() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let dropped = turn.subagent("Dropped").start().await?;
                let _open = dropped.tool_call("Left open").begin().await?;
                drop(dropped);
                let failing = turn.subagent("Failing").start().await?;
                failing.fail(RpcError::new(codes::INTERNAL_ERROR, "no luck")).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        test.run("go").await;
        test.until(|all| !all.is_at_work("session-1")).await;
        test.conversation(|all| {
            let [(dropped, _), (failing, _)] = all.children("session-1").collect::<Vec<_>>()[..] else {
                panic!("two children")
            };
            assert_eq!([all.state_in_words(dropped), all.state_in_words(failing)], ["cancelled", "failed"]);
            let call = all.session(Some(dropped)).unwrap().tool_call("call-1").unwrap();
            assert_eq!(call.status(), &v2::ToolCallStatus::Cancelled);
            let Some(v2::StateUpdate::Idle(idle)) = all.state(failing) else { panic!("idle") };
            assert_eq!(idle.error.as_ref().unwrap().message, "no luck");
        });
    })
    .await;
}

/// Returns an agent that starts a sub-agent which outlives the turn.
fn with_background(
    kept: &Arc<Mutex<Option<Subagent>>>,
) -> impl for<'t> Fn(&'t Turn) -> Work<'t> + Send + Sync + 'static {
    let kept = Arc::clone(kept);
    move |turn| {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let child = turn.subagent("Background").start().await?;
            *kept.lock().unwrap() = Some(child);
            Ok(StopReason::EndTurn)
        })
    }
}

#[tokio::test]
async fn a_child_in_the_background_outlives_the_turn_and_can_ask() {
    bounded(async {
        let kept = Arc::new(Mutex::new(None));
        let mut test = Test::scripted(with_background(&kept)).await;
        assert_eq!(test.run("go").await.stop_reason, Some(StopReason::EndTurn));
        assert!(test.conversation(|all| all.is_at_work("session-1")));
        let child = kept.lock().unwrap().take().unwrap();
        let asked = tokio::spawn(async move {
            let decision = child.ask("Still there?").ask().await.unwrap();
            child.say("After the turn.").await.unwrap();
            child.finish(StopReason::EndTurn).await.unwrap();
            decision.is_allowed()
        });
        let question = loop {
            if let Some(Event::Permission(question)) = test.client.feed.next().await {
                break question;
            }
        };
        let speaker = test.conversation(|all| all.speaker(question.session()));
        assert_eq!(speaker.unwrap(), "sub-agent \"Background\"");
        question.choose("allow_once", "test").await.unwrap();
        test.until(|all| !all.is_at_work("session-1")).await;
        assert!(asked.await.unwrap());
        assert_eq!(test.conversation(|all| all.state_in_words("session-1.subagent-2")), "done");
    })
    .await;
}

#[tokio::test]
async fn closing_a_session_closes_its_children() {
    bounded(async {
        let kept = Arc::new(Mutex::new(None));
        let mut test = Test::scripted(with_background(&kept)).await;
        test.run("go").await;
        let Client { agent, feed } = &mut test.client;
        feed.until(agent.close_session(&test.session), drop).await.unwrap().unwrap();
        let child = kept.lock().unwrap().take().unwrap();
        assert!(child.is_cancelled());
        assert!(child.say("too late").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_resume_tells_the_history_of_the_children_too() {
    bounded(async {
        let mut test = Test::scripted(|turn| {
            Box::pin(async move {
                let child = turn.subagent("Explorer").task("Look").start().await?;
                let grandchild = child.subagent("Deeper").start().await?;
                grandchild.say("from below").await?;
                grandchild.finish(StopReason::EndTurn).await?;
                child.say("found").await?;
                child.finish(StopReason::EndTurn).await?;
                Ok(StopReason::EndTurn)
            })
        })
        .await;
        test.run("go").await;
        let ids = ["session-1", "session-1.subagent-2", "session-1.subagent-2.subagent-2"];
        let transcripts = |all: &Conversation| ids.map(|id| texts(all.session(Some(id)).unwrap()));
        let before = test.conversation(transcripts);
        let Client { agent, feed } = &mut test.client;
        ids.iter().for_each(|id| feed.sessions().remove(id));
        let mut resume = v2::ResumeSessionRequest::new("session-1", path("/w"));
        resume.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap();
        assert_eq!(test.conversation(transcripts), before);
        test.conversation(|all| {
            assert_eq!(all.speaker(ids[2]).unwrap(), "sub-agent \"Deeper\" of \"Explorer\"");
            assert_eq!(all.state_in_words(ids[2]), "done");
        });
        // A sub-agent's session can be resumed on its own.
        let Client { agent, feed } = &mut test.client;
        feed.sessions().remove(ids[2]);
        let mut resume = v2::ResumeSessionRequest::new(ids[2], path("/w"));
        resume.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap();
        assert_eq!(test.conversation(|all| texts(all.session(Some(ids[2])).unwrap())), before[2]);
    })
    .await;
}

/// An agent with a persistent session that has sub-agents.
struct Remembering;

impl Agent for Remembering {
    fn introduce(&self) -> Introduction {
        Introduction::new("remembering", "1.0")
    }

    async fn recall_session(&self, id: &str) -> Option<Recalled> {
        let say = |text: &'static str| {
            let chunk = v2::ContentChunk::new("message-7", v2::ContentBlock::text(text));
            vec![v2::SessionUpdate::AgentMessageChunk(chunk)]
        };
        let told = v2::unstable::SubagentUpdate {
            title: switchboard_acp::Field::Set("Old".into()),
            ..v2::unstable::SubagentUpdate::new("old.subagent-3")
        };
        (id == "old").then(|| Recalled {
            history: vec![v2::SessionUpdate::SubagentUpdate(Box::new(told))],
            subagents: vec![
                ("old.subagent-3.subagent-1".into(), say("grandchild")),
                ("old.subagent-3".into(), say("child")),
                ("elsewhere.subagent-1".into(), say("nobody's")),
            ],
            ..Recalled::new("/w")
        })
    }

    async fn prompt(&self, turn: &Turn) -> Result<StopReason, switchboard_peer::Error> {
        let child = turn.subagent("New").start().await?;
        child.finish(StopReason::EndTurn).await?;
        Ok(StopReason::EndTurn)
    }
}

#[tokio::test]
async fn a_session_from_before_comes_back_with_its_children_and_new_ids_do_not_meet_the_old() {
    bounded(async {
        let mut test = Test::with(Remembering).await;
        let Client { agent, feed } = &mut test.client;
        let mut resume = v2::ResumeSessionRequest::new("old", path("/w"));
        resume.replay_from = Some(v2::ReplayFrom::Start(v2::EmptyObject::new()));
        feed.until(agent.resume_session(&resume), drop).await.unwrap().unwrap();
        test.session = "old".into();
        test.run("go").await;
        test.conversation(|all| {
            let children: Vec<_> = all.children("old").map(|(child, _)| child.to_owned()).collect();
            assert_eq!(children, ["old.subagent-3", "old.subagent-5"]);
            let said = |id| texts(all.session(Some(id)).unwrap());
            assert_eq!(said("old.subagent-3"), [(EntryKind::AgentMessage, "child".into())]);
            assert_eq!(said("old.subagent-3.subagent-1"), [(EntryKind::AgentMessage, "grandchild".into())]);
            assert!(all.session(Some("elsewhere.subagent-1")).is_none());
        });
    })
    .await;
}

fn explore(turn: &Turn) -> Work<'_> {
    Box::pin(async move {
        let child = turn.subagent("Explorer").task("Look").start().await?;
        child.say("found").await?;
        child.finish(StopReason::EndTurn).await?;
        turn.say("done").await?;
        Ok(StopReason::EndTurn)
    })
}

#[tokio::test]
async fn children_reach_clients_of_version_one_without_an_error() {
    // The translation of sub-agents is tested elsewhere; here the emitter must not fail.
    bounded(async {
        let mut test = Test::speaking(Scripted(explore), Versions::One).await;
        assert_eq!(test.client.agent.description().version, 1);
        assert_eq!(test.run("go").await.stop_reason, Some(StopReason::EndTurn));
    })
    .await;
}
