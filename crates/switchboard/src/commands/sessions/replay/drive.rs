//! The client of a recording: sends the recorded prompts to an agent.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_policy::Policy;
use switchboard_replay::{Action, Script};

use crate::commands::run::conversation::{self, Prompt, Task};
use crate::commands::run::{Format, working_directory};
use crate::configuration::chosen_program;
use crate::outcome::{CommandError, Outcome};
use crate::rules::Rules;

/// The agent to prompt.
pub(super) struct Agent<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) command: &'a [String],
}

pub(super) fn run(script: &Script, agent: &Agent<'_>, format: Format) -> Result<Outcome, CommandError> {
    let cwd = working_directory(None)?;
    let program = chosen_program(&cwd, agent.name, agent.command)?;
    let (sessions, answers) = prompts(script);
    if sessions.is_empty() {
        return Err(CommandError::failed("the recording has no prompts"));
    }
    conversation::run_to_end(Task {
        program: program.working_directory(&cwd),
        cwd: cwd.display().to_string(),
        sessions,
        format,
        rules: Rules::of(Policy::deny_all()),
        leaves_questions: false,
        answers: Some(answers),
        handshake_timeout: Duration::from_secs(30),
        timeout: None,
        session: None,
        fork: None,
        login: None,
        settings: Vec::new(),
        recording: None,
    })
}

/// Returns the prompts of each session, and the options that were selected for the agent's questions.
pub(crate) fn prompts(script: &Script) -> (Vec<Vec<Prompt>>, VecDeque<Option<String>>) {
    let mut sessions = Vec::new();
    let mut answers: Vec<(usize, Option<String>)> = Vec::new();
    for session in &script.sessions {
        let mut prompts: Vec<Prompt> = Vec::new();
        for step in &session.steps {
            match &step.action {
                Action::AwaitPrompt { prompt: Some(prompt), .. } => {
                    if let Ok(blocks) = Vec::<v2::ContentBlock<'_>>::decode(prompt.as_str(), WireFormat::Any)
                    {
                        prompts.push(blocks.into_iter().map(Wire::into_owned).collect());
                    }
                }
                Action::Ask { question, request } if request.method == "session/request_permission" => {
                    answers.push((*question, None));
                }
                Action::AwaitAnswer { question, outcome: Ok(result) } => {
                    let chosen = result.get("outcome").and_then(|outcome| outcome.text("optionId"));
                    if let Some((_, answer)) = answers.iter_mut().rev().find(|(asked, _)| asked == question) {
                        *answer = chosen;
                    }
                }
                _ => {}
            }
        }
        if !prompts.is_empty() {
            sessions.push(prompts);
        }
    }
    (sessions, answers.into_iter().map(|(_, answer)| answer).collect())
}
