//! Login state of the agent.

use std::sync::Arc;

use switchboard_acp::rpc::Notification;
use switchboard_acp::{Diagnostic, Raw, Wire, v2};
use v2::unstable::{AuthAccount, AuthState, AuthStatusResponse, AuthStatusUpdateNotification};

use super::{Conversation, ConversationError};

/// Login state and accounts.
pub type AuthStatus = AuthStatusUpdateNotification<'static>;

impl Conversation {
    /// Returns the last reported login state. [`None`] if not reported, or if a login has succeeded since the
    /// agent reported that no user is logged in.
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

    /// Applies a notification of the agent.
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

    /// Applies a notification in the form that agents used before the protocol had one: a kind of credentials
    /// with a label, where `none` means not logged in.
    pub(super) fn early_auth_notification(&mut self, message: &Notification<'_>) {
        let told = message.params.as_ref().and_then(|params| params.get("authStatus"));
        let text = |key: &str| told.as_ref()?.text(key);
        // Ignore anything else: the name of an extension is not reserved.
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

    /// Applies the response to a status request.
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

    /// Applies a successful login. The agent need not report the new state.
    pub(super) fn logged_in(&mut self) {
        self.auth_status.take_if(|status| status.state == AuthState::Unauthenticated);
    }
}
