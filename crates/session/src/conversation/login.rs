//! Whether somebody is logged in with the agent.

use std::sync::Arc;

use switchboard_acp::rpc::Notification;
use switchboard_acp::{Diagnostic, Raw, Wire, v2};
use v2::unstable::{AuthAccount, AuthState, AuthStatusResponse, AuthStatusUpdateNotification};

use super::{Conversation, ConversationError};

/// Whether somebody is logged in, and by which accounts.
pub type AuthStatus = AuthStatusUpdateNotification<'static>;

impl Conversation {
    /// Whether somebody is logged in with the agent, as it told last. [`None`] where it did not tell, or a login has
    /// succeeded since it told that nobody is.
    ///
    /// ```
    /// use switchboard_acp::{Moment, Side, WireFormat, v2::unstable::AuthState};
    /// use switchboard_session::Conversation;
    ///
    /// let mut conversation = Conversation::new(WireFormat::Any);
    /// let line = r#"{"jsonrpc":"2.0","method":"auth/status_update","params":{"state":"unauthenticated"}}"#;
    /// conversation.read(line, Some(Side::Agent), Moment(0))?;
    /// assert_eq!(conversation.auth_status().unwrap().state, AuthState::Unauthenticated);
    /// # Ok::<(), switchboard_session::ConversationError>(())
    /// ```
    pub fn auth_status(&self) -> Option<&Arc<AuthStatus>> {
        self.auth_status.as_ref()
    }

    /// The agent tells it by itself.
    pub(super) fn auth_notification(
        &mut self,
        message: &Notification<'_>,
        left_out: &mut Vec<Diagnostic>,
    ) -> Result<(), ConversationError> {
        let told: AuthStatusUpdateNotification<'_> =
            self.decode_part("/params", message.params_text(), left_out)?;
        self.auth_status = Some(Arc::new(told.into_owned()));
        Ok(())
    }

    /// The agent tells it in the words that agents used before the protocol had some: a kind of credentials, of which
    /// `none` stands for nobody being logged in, with a label.
    pub(super) fn early_auth_notification(&mut self, message: &Notification<'_>) {
        let told = message.params.as_ref().and_then(|params| params.get("authStatus"));
        let text = |key: &str| told.as_ref()?.text(key);
        // What is no such thing tells nothing: the name of an extension belongs to nobody.
        let Some(kind) = text("kind") else { return };
        let is_none = kind == "none";
        let state = if is_none { AuthState::Unauthenticated } else { AuthState::Authenticated };
        let mut status = AuthStatusUpdateNotification::new(state);
        if !is_none {
            let label = text("label").unwrap_or(kind);
            let label = match text("detail") {
                Some(detail) => format!("{label} ({detail})"),
                None => label,
            };
            status.accounts = Some(vec![AuthAccount::new(label)]);
        }
        self.auth_status = Some(Arc::new(status));
    }

    /// The agent tells it because it was asked.
    pub(super) fn auth_answer(&mut self, result: &Raw<'_>, left_out: &mut Vec<Diagnostic>) {
        let read = self.decode_part("/result", result.as_str(), left_out);
        if let Ok::<AuthStatusResponse<'_>, _>(answer) = read {
            let AuthStatusResponse { state, accounts, meta, extra, more: _ } = answer.into_owned();
            self.auth_status = Some(Arc::new(AuthStatusUpdateNotification {
                state,
                accounts,
                meta,
                extra,
                more: switchboard_acp::More,
            }));
        }
    }

    /// A login succeeded. The agent need not tell that it is no longer as it was.
    pub(super) fn logged_in(&mut self) {
        self.auth_status.take_if(|status| status.state == AuthState::Unauthenticated);
    }
}
