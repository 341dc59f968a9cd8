//! Questions of the agent and their answers: by the rules, a recording or the user.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::display::visible_line;
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{WireFormat, v2};
use switchboard_peer::{ElicitationQuestion, PermissionQuestion};
use switchboard_policy::{Answer, RequestContext, Subject, Verdict};
use switchboard_session::{Decider, Session, Snapshot};
use switchboard_store::Channel;
use tokio::time::timeout;

use super::conversation::Runner;
use super::form::{Form, Typed};
use super::halt::Halt;
use super::permissions::{self, Keyboard};
use crate::rules::{self, RecordedDecision};

/// A question to the user.
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
        if self.is_input_closed {
            let title = visible_line(&question.request().title);
            let _ = question.dismiss();
            return Ok(self.view.note(&format!("asked after the turn, and not answered: {title}"))?);
        }
        let subject = self.subject(&question);
        let title = self.title(&question, &subject);
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
                None => self.deny(&question).await,
            };
        }
        let judged = self.evaluate(&question, &subject);
        if judged.is_only_watched() {
            self.view.note(&format!("{}: {title}", judged.in_words()))?;
        }
        let answer = judged.answer(&question.request().options);
        if answer == Answer::Ask && !judged.has_no_rules() {
            self.record(&judged.note(question.id(), &answer));
        }
        match answer {
            Answer::Ask if self.can_ask => {
                self.questions.push_back(Question::Permission(question));
                self.ask_next(self.questions.len() == 1)?;
                Ok(())
            }
            Answer::Ask => self.answer_by(&judged.without_person(), &question, &title).await,
            Answer::Select(_) | Answer::Cancel => self.answer_by(&judged, &question, &title).await,
        }
    }

    /// Returns the subject of a question, using its tool call in the session.
    fn subject(&self, question: &PermissionQuestion) -> Subject {
        let agent = Some(self.agent.description().name().to_owned());
        let scene = RequestContext { root: self.cwd.clone(), cwd: Some(self.cwd.clone()), agent };
        let left_out = question.left_out().iter().find(|problem| !problem.kept).map(ToString::to_string);
        let about = question.request().subject.as_ref();
        let of = |snapshot: &Snapshot, left_out: Option<&str>| Subject::of(snapshot, about, left_out, &scene);
        self.feed
            .sessions()
            .get(question.session(), |session| of(session, left_out.as_deref()))
            .unwrap_or_else(|| of(&Session::new(WireFormat::Any), Some("its session is closed")))
    }

    /// Returns the description of a question: its title, with the command if that is missing, and the asker.
    fn title(&self, question: &PermissionQuestion, subject: &Subject) -> String {
        let mut title = visible_line(&question.request().title);
        let letters = |text: &str| text.replace(|letter: char| !letter.is_alphanumeric(), "");
        if subject.command().is_some() {
            let command = visible_line(&subject.short_summary());
            if !letters(&title).contains(&letters(&command)) {
                title = format!("{title} {command}");
            }
        }
        match self.asker(Some(question.session())) {
            Some(asker) => format!("{title} (asked by {asker})"),
            None => title,
        }
    }

    /// Evaluates the rules for a question.
    fn evaluate(&mut self, question: &PermissionQuestion, subject: &Subject) -> RecordedDecision {
        self.rules.evaluate(subject, &question.request().options, &self.cwd)
    }

    /// Answers according to the rules.
    async fn answer_by(
        &mut self,
        judged: &RecordedDecision,
        question: &PermissionQuestion,
        title: &str,
    ) -> Result<(), Halt> {
        let is_allowed = judged.decision.verdict == Verdict::Allow;
        self.denied |= !is_allowed;
        self.view.note(&match (&judged.decision.rule, self.rules.are_said()) {
            (Some(_), false) => format!("{}: {title}", judged.in_words()),
            _ if is_allowed => format!("allowed: {title}"),
            _ => format!("denied: {title}"),
        })?;
        let answer = judged.answer(&question.request().options);
        self.record(&judged.note(question.id(), &answer));
        match answer {
            Answer::Select(option) => choose(question, &option, judged.decider()).await,
            Answer::Cancel | Answer::Ask => drop(question.dismiss()),
        }
        Ok(())
    }

    async fn deny(&mut self, question: &PermissionQuestion) -> Result<(), Halt> {
        let subject = self.subject(question);
        let judged = self.evaluate(question, &subject).without_person();
        self.answer_by(&judged, question, &self.title(question, &subject)).await
    }

    fn record(&self, note: &str) {
        if let Some(recording) = &self.recording {
            recording.record(Channel::Hub, note);
        }
    }

    /// Shows the first question when it has become the first.
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

    /// Returns the names of the asking sub-agent and its ancestors; `None` for the agent itself.
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

    /// Handles a typed line, or the end of the input.
    pub(super) async fn answer(&mut self, line: Option<String>) -> Result<(), Halt> {
        self.view.typed();
        let Some(line) = line else {
            // No user is left to ask.
            self.can_ask = false;
            self.keyboard = None;
            for question in std::mem::take(&mut self.questions) {
                match question {
                    Question::Permission(question) => {
                        self.deny(&question).await?;
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
        let by = rules::note_of_person(question.id(), "user");
        self.record(&by);
        choose(&question, &option.option_id, "user").await;
        self.questions.pop_front();
        self.view.answered(&format!("answered: {name}"))?;
        self.ask_next(true)?;
        Ok(())
    }

    /// Provides or declines the requested data.
    async fn give(
        &mut self,
        question: &ElicitationQuestion,
        answer: &v2::CreateElicitationResponse<'static>,
    ) -> Result<(), Halt> {
        // As with permissions: a question that was just cancelled needs no answer.
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

async fn choose(question: &PermissionQuestion, option: &str, by: impl Into<Decider>) {
    // A question that was just cancelled needs no answer, and an agent that does not read is detected
    // elsewhere.
    let _ = timeout(Duration::from_secs(1), question.choose(option, by)).await;
}
