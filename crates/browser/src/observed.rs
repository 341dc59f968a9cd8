//! Events of a page besides its content.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum number of stored events.
const MOST: usize = 10_000;

/// A network request of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, ...; `WEBSOCKET` for opening one.
    pub method: String,
    /// The complete URL.
    pub url: String,
}

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) complaints: Vec<String>,
    pub(crate) requests: Vec<Request>,
    /// Registrations of service workers by their scopes.
    pub(crate) workers: HashMap<String, String>,
}

impl Observed {
    pub(crate) fn take(&mut self, method: &str, event: &Value) {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let complaint = match method {
            "Network.requestWillBeSent" => {
                self.request(text(&event["request"]["method"]), text(&event["request"]["url"]));
                return;
            }
            "ServiceWorker.workerRegistrationUpdated" => {
                for it in event["registrations"].as_array().into_iter().flatten() {
                    self.workers.insert(text(&it["scopeURL"]), text(&it["registrationId"]));
                }
                return;
            }
            "Network.webSocketCreated" => {
                self.request("WEBSOCKET".to_owned(), text(&event["url"]));
                return;
            }
            "Runtime.consoleAPICalled" if event["type"] == "error" || event["type"] == "assert" => {
                let arguments = event["args"].as_array().into_iter().flatten();
                let words: Vec<_> = arguments
                    .map(|argument| {
                        let value = if argument["value"].is_null() { "description" } else { "value" };
                        text(&argument[value])
                    })
                    .collect();
                format!("console: {}", words.join(" "))
            }
            "Runtime.exceptionThrown" => {
                let details = &event["exceptionDetails"];
                let description = &details["exception"]["description"];
                format!(
                    "exception: {}",
                    text(if description.is_null() { &details["text"] } else { description })
                )
            }
            "Log.entryAdded" if event["entry"]["level"] == "error" => {
                format!("log: {} {}", text(&event["entry"]["text"]), text(&event["entry"]["url"]))
            }
            "Audits.issueAdded" if event["issue"]["code"] == "ContentSecurityPolicyIssue" => {
                let details = &event["issue"]["details"]["contentSecurityPolicyIssueDetails"];
                format!("content security policy: {} {}", details["violatedDirective"], details["blockedURL"])
            }
            "Page.javascriptDialogOpening" => format!("dialog: {}", text(&event["message"])),
            "Inspector.targetCrashed" => "the page crashed".to_owned(),
            _ => return,
        };
        if self.complaints.len() < MOST {
            self.complaints.push(complaint);
        }
    }

    fn request(&mut self, method: String, url: String) {
        if self.requests.len() < MOST {
            self.requests.push(Request { method, url });
        }
    }
}
