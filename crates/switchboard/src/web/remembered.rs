//! Choices that the user has made for always: kept beside the store, shown, and withdrawn on demand.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use switchboard_protocol::{Wire, WireFormat, v2};
use switchboard_store::Time;

/// How many choices are remembered; the oldest go.
const MAX_CHOICES: usize = 1000;

/// The largest file that is read.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// One choice. It holds for exactly the same question again: same agent, same folder, same subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) agent: String,
    pub(crate) folder: String,
    /// What was asked, for people.
    pub(crate) title: String,
    /// What was asked, exactly.
    subject: String,
    pub(crate) allows: bool,
    /// Milliseconds since 1970.
    pub(crate) since: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    file: PathBuf,
    choices: Mutex<Vec<Choice>>,
}

impl Remembered {
    /// The choices in a file, which need not be there. One that cannot be read counts as empty: then everything is
    /// asked again.
    pub(crate) fn read(file: PathBuf) -> Self {
        let small = std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() <= MAX_FILE);
        let text = small.then(|| std::fs::read(&file).ok()).flatten();
        let choices = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Remembered { file, choices: Mutex::new(choices) }
    }

    fn choices(&self) -> MutexGuard<'_, Vec<Choice>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Choice> {
        self.choices().clone()
    }

    /// Remembers a choice, if it is one for always.
    pub(crate) fn note(
        &self,
        agent: &str,
        folder: &str,
        request: &v2::RequestPermissionRequest<'_>,
        option: &v2::PermissionOption<'_>,
    ) {
        let allows = match option.kind {
            v2::PermissionOptionKind::AllowAlways => true,
            v2::PermissionOptionKind::RejectAlways => false,
            _ => return,
        };
        let choice = Choice {
            agent: agent.to_owned(),
            folder: folder.to_owned(),
            title: request.title.to_string(),
            subject: subject(request),
            allows,
            since: Time::now().0,
        };
        let mut choices = self.choices();
        choices.retain(|known| !known.is_about(&choice.agent, &choice.folder, &choice.subject));
        if choices.len() >= MAX_CHOICES {
            choices.remove(0);
        }
        choices.push(choice);
        self.write(&choices);
    }

    /// Forgets a choice. Tells whether there was one.
    pub(crate) fn withdraw(&self, withdrawn: &Choice) -> bool {
        let mut choices = self.choices();
        let before = choices.len();
        choices.retain(|choice| choice != withdrawn);
        self.write(&choices);
        choices.len() < before
    }

    /// The option that an earlier choice for always means here.
    pub(crate) fn answer<'r>(
        &self,
        agent: &str,
        folder: &str,
        request: &'r v2::RequestPermissionRequest<'_>,
    ) -> Option<&'r str> {
        use v2::PermissionOptionKind as Kind;
        let subject = subject(request);
        let allows = self.choices().iter().find(|choice| choice.is_about(agent, folder, &subject))?.allows;
        let kinds = if allows {
            [Kind::AllowAlways, Kind::AllowOnce]
        } else {
            [Kind::RejectAlways, Kind::RejectOnce]
        };
        let offered = |kind: &Kind| request.options.iter().find(|option| option.kind == *kind);
        kinds.iter().find_map(offered).map(|option| &*option.option_id)
    }

    fn write(&self, choices: &[Choice]) {
        let written = serde_json::to_vec_pretty(choices).map_err(std::io::Error::other).and_then(|text| {
            let folder = self.file.parent().unwrap_or(std::path::Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            std::io::Write::write_all(&mut file, &text)?;
            file.persist(&self.file).map_err(|error| error.error)
        });
        if let Err(error) = written {
            eprintln!("switchboard: choices for always are not kept: {}: {error}", self.file.display());
        }
    }
}

impl Choice {
    fn is_about(&self, agent: &str, folder: &str, subject: &str) -> bool {
        self.agent == agent && self.folder == folder && self.subject == subject
    }
}

/// What a permission is about, without what differs each time.
fn subject(request: &v2::RequestPermissionRequest<'_>) -> String {
    let mut subject = request.subject.as_ref().map_or(serde_json::Value::Null, |subject| {
        serde_json::from_str(&subject.encode(WireFormat::Spec)).unwrap_or_default()
    });
    let forget = |object: Option<&mut serde_json::Value>| {
        if let Some(object) = object.and_then(serde_json::Value::as_object_mut) {
            for key in ["toolCallId", "terminalId", "status", "_meta"] {
                object.remove(key);
            }
        }
    };
    forget(subject.get_mut("toolCall"));
    forget(Some(&mut subject));
    serde_json::json!({"title": &*request.title, "description": &request.description, "subject": subject})
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(command: &str, id: &str) -> v2::RequestPermissionRequest<'static> {
        let text = serde_json::json!({
            "sessionId": "s", "title": "Run it",
            "subject": {"type": "command", "command": command, "cwd": "/w", "toolCallId": id},
            "options": [
                {"optionId": "y", "name": "Yes", "kind": "allow_once"},
                {"optionId": "a", "name": "Always", "kind": "allow_always"},
                {"optionId": "n", "name": "No", "kind": "reject_once"},
            ],
        });
        v2::RequestPermissionRequest::decode(&text.to_string(), WireFormat::Newest).unwrap().into_owned()
    }

    #[test]
    fn a_choice_for_always_holds_for_the_same_question_until_it_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("choices.json");
        let remembered = Remembered::read(file.clone());
        let asked = request("cargo test", "c-1");
        remembered.note("demo", "/w", &asked, &asked.options[0]);
        assert_eq!(remembered.answer("demo", "/w", &asked), None, "once is not always");
        remembered.note("demo", "/w", &asked, &asked.options[1]);

        let again = Remembered::read(file);
        assert_eq!(again.answer("demo", "/w", &request("cargo test", "c-2")), Some("a"));
        assert_eq!(again.answer("demo", "/w", &request("rm -rf .", "c-2")), None);
        assert_eq!(again.answer("demo", "/elsewhere", &asked), None);
        assert_eq!(again.answer("other", "/w", &asked), None);

        assert!(again.withdraw(&again.all()[0]));
        assert_eq!(again.answer("demo", "/w", &asked), None);
    }
}
