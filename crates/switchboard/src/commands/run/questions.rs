//! What the agent asks, and what becomes of it: an answer by the policy, by a recording or by the user.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use switchboard_peer::{ElicitationQuestion, PermissionQuestion};
use switchboard_protocol::rpc::RequestId;
use switchboard_protocol::v2;
use tokio::time::timeout;

use super::conversation::Runner;
use super::form::{Form, Typed};
use super::halt::Halt;
use super::permissions::{self, Keyboard, Verdict};
use crate::terminal::text::visible_line;

/// What the user is asked.
pub(super) enum Question {
    Permission(PermissionQuestion),
    Data(ElicitationQuestion, Form),
}

impl Question {
    fn session(&self) -> Option<&Arc<str>> {
        match self {
            Question::Permission(question) => Some(question.session()),
            Question::Data(question, _) => question.session(),
        }
    }

    pub(super) fn id(&self) -> &RequestId<'static> {
        match self {
            Question::Permission(question) => question.id(),
            Question::Data(question, _) => question.id(),
        }
    }
}

impl Runner {
    pub(super) async fn take_question(&mut self, question: PermissionQuestion) -> Result<(), Halt> {
        if self.stopping.is_some() {
            let _ = question.dismiss();
            return Ok(());
        }
        let asker = self.asker(Some(question.session()));
        let title = match &asker {
            Some(asker) => format!("{} (asked by {asker})", visible_line(&question.request().title)),
            None => visible_line(&question.request().title),
        };
        if let Some(answers) = &mut self.answers {
            let chosen = answers.pop_front().flatten();
            let option = question
                .request()
                .options
                .iter()
                .find(|option| Some(&*option.option_id) == chosen.as_deref());
            return match option {
                Some(option) => {
                    self.view
                        .note(&format!("answered as recorded: {}: {title}", visible_line(&option.name)))?;
                    choose(&question, &option.option_id, "recording").await;
                    Ok(())
                }
                None => self.deny(&question, &title).await,
            };
        }
        let sessions = self.feed.sessions();
        let verdict = sessions
            .get(question.session(), |session| {
                permissions::judge(self.policy, self.can_ask, session, &question)
            })
            .unwrap_or(Verdict::Deny);
        match verdict {
            Verdict::Approve => match permissions::allowing(&question) {
                Some(option) => {
                    self.view.note(&format!("allowed: {title}"))?;
                    choose(&question, &option.option_id, "policy").await;
                }
                None => self.deny(&question, &title).await?,
            },
            Verdict::Deny => self.deny(&question, &title).await?,
            Verdict::AskUser => {
                self.questions.push_back(Question::Permission(question));
                self.ask_next(self.questions.len() == 1)?;
            }
        }
        Ok(())
    }

    async fn deny(&mut self, question: &PermissionQuestion, title: &str) -> Result<(), Halt> {
        self.denied = true;
        self.view.note(&format!("denied: {title}"))?;
        match permissions::rejecting(question) {
            Some(option) => choose(question, &option.option_id, "policy").await,
            None => drop(question.dismiss()),
        }
        Ok(())
    }

    /// Shows the first question, when it has become the first.
    pub(super) fn ask_next(&mut self, is_new: bool) -> io::Result<()> {
        let Some(question) = self.questions.front().filter(|_| is_new) else { return Ok(()) };
        self.keyboard.get_or_insert_with(Keyboard::listen);
        let asker = self.asker(question.session());
        let Runner { view, feed, .. } = self;
        let Some(question) = self.questions.front() else { return Ok(()) };
        feed.sessions().conversation(|all| match question {
            Question::Permission(question) => view.ask(all, question, asker.as_deref()),
            Question::Data(question, form) => {
                view.ask_for_data(all, question.session(), form, asker.as_deref())
            }
        })
    }

    /// Who asks in a session, where that is not the agent in the session that this is about: down to the root.
    pub(super) fn asker(&self, session: Option<&Arc<str>>) -> Option<String> {
        let id = session.filter(|id| self.session.as_deref() != Some(&***id))?;
        let asker = self.feed.sessions().conversation(|all| {
            let (speaker, root) = (all.speaker(id), all.root(id));
            match speaker {
                Some(speaker) if self.session.as_deref() == Some(root) => speaker,
                Some(speaker) => format!("{speaker} of session {root}"),
                None => format!("session {id}"),
            }
        });
        Some(visible_line(&asker))
    }

    /// The user typed something, or left.
    pub(super) async fn answer(&mut self, line: Option<String>) -> Result<(), Halt> {
        self.view.typed();
        let Some(line) = line else {
            // Nobody is there to be asked any more.
            self.can_ask = false;
            self.keyboard = None;
            for question in std::mem::take(&mut self.questions) {
                match question {
                    Question::Permission(question) => {
                        let title = visible_line(&question.request().title);
                        self.deny(&question, &title).await?;
                    }
                    Question::Data(question, _) => drop(question.dismiss()),
                }
            }
            return Ok(());
        };
        let question = match self.questions.front_mut() {
            Some(Question::Permission(question)) => question.clone(),
            Some(Question::Data(question, form)) => {
                let question = question.clone();
                return match form.take(&line) {
                    Typed::Wrong(reason) => {
                        self.view.note(&reason)?;
                        Ok(self.ask_next(true)?)
                    }
                    Typed::Next => Ok(self.ask_next(true)?),
                    Typed::Done(answer) => self.give(&question, &answer).await,
                };
            }
            None => return Ok(()),
        };
        let Some(option) = permissions::chosen(&question, &line) else {
            self.view.note("please type the number of an option")?;
            self.ask_next(true)?;
            return Ok(());
        };
        use v2::PermissionOptionKind as Kind;
        if !matches!(option.kind, Kind::AllowOnce | Kind::AllowAlways) {
            self.denied = true;
        }
        let name = visible_line(&option.name);
        choose(&question, &option.option_id, "user").await;
        self.questions.pop_front();
        self.view.answered(&format!("answered: {name}"))?;
        self.ask_next(true)?;
        Ok(())
    }

    /// Gives the data that the agent asked for, or declines to.
    async fn give(
        &mut self,
        question: &ElicitationQuestion,
        answer: &v2::CreateElicitationResponse<'static>,
    ) -> Result<(), Halt> {
        // As with permissions: one that was taken back in this moment needs no answer.
        let _ = timeout(Duration::from_secs(1), question.answer(answer, "user")).await;
        self.questions.pop_front();
        self.view.answered(match answer {
            v2::CreateElicitationResponse::Accept(_) => "sent",
            v2::CreateElicitationResponse::Decline(_) => "declined",
            _ => "cancelled",
        })?;
        Ok(self.ask_next(true)?)
    }
}

async fn choose(question: &PermissionQuestion, option: &str, by: &str) {
    // One that was taken back in this moment needs no answer, and an agent that does not read is noticed elsewhere.
    let _ = timeout(Duration::from_secs(1), question.choose(option, by)).await;
}
