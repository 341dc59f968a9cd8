//! Permissions and elicitations of a session: opened, answered, cancelled.

use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Wire, v2};

use crate::Moment;
use crate::change::{Change, Changes, ContentChange, EntryField, RequestEvent};
use crate::entry::EntryKind;
use crate::error::SessionError;
use crate::index::Index;
use crate::request::{Decider, Elicitation, Permission, Settlement};
use crate::session::Session;

impl Session {
    /// Opens a permission request. If its subject is a tool call, the call is updated first, like by an
    /// update. The text of the prompt changes nothing.
    ///
    /// ```
    /// use switchboard_acp::{WireFormat, v2};
    /// use switchboard_session::{Moment, Session, SessionError};
    ///
    /// let mut session = Session::new(WireFormat::Any);
    /// let yes = v2::PermissionOption::new("y", "Allow", v2::PermissionOptionKind::AllowOnce);
    /// let request = v2::RequestPermissionRequest::new("s-1", "Write to conf.json?", vec![yes]);
    /// session.open_permission(&5.into(), &request, Moment(1000));
    /// assert_eq!(session.pending_permissions().count(), 1);
    ///
    /// let refused = session.answer_permission(&5.into(), "n", "user", Moment(2000));
    /// assert!(matches!(refused, Err(SessionError::OptionNotOffered { .. })));
    /// session.answer_permission(&5.into(), "y", "user", Moment(2000))?;
    /// assert!(session.permission(&5.into()).unwrap().is_granted());
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn open_permission(
        &mut self,
        id: &RequestId<'_>,
        request: &v2::RequestPermissionRequest<'_>,
        at: Moment,
    ) -> Changes {
        let mut changes = Changes::default();
        if let Some(v2::RequestPermissionSubject::ToolCall(subject)) = &request.subject {
            if let Some(outlines) = &mut self.view.outlines {
                Arc::make_mut(outlines).tool_call_update(self.meta_rule, &subject.tool_call);
            }
            match &mut self.replay {
                _ if !self.keeps_transcript => {}
                Some(replay) => drop(replay.patch_tool_call(&subject.tool_call)),
                None => {
                    self.patch_tool_call(&subject.tool_call).into_iter().for_each(|it| changes.push(it));
                }
            }
        }
        // If the id of a pending request is reused, the agent has abandoned the first request.
        if let Some(index) = self.permission_place(id) {
            self.settle(index, Settlement::Cancelled { by: Decider::Agent, at }, &mut changes);
        }
        // Created after the tool call was updated, so its position follows the call.
        let mut permission = Permission::new(id, request, at, self.view.entries.len());
        permission.revision = self.view.revision + 1;
        permission.content_revision = permission.revision;
        let index = self.view.push_permission(Arc::new(permission));
        changes.push(Change::Permission { index, event: RequestEvent::Opened });
        let changes = self.finish(changes);
        // Other questions may refer to the same tool call.
        let changes = if self.pending.is_empty() { changes } else { self.update_asked(changes) };
        // If settled questions are not kept, look among the remaining ones.
        if self.keeps_settled {
            self.pending.push(index);
        }
        changes
    }

    /// Selects an option. Fails if it was not offered; the permission then stays pending.
    pub fn answer_permission(
        &mut self,
        id: &RequestId<'_>,
        option_id: &str,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let (index, permission) = self.open_permission_at(id)?;
        if permission.option(option_id).is_none() {
            let id = id.clone().into_owned();
            return Err(SessionError::OptionNotOffered { id, option_id: option_id.into() });
        }
        let settlement = Settlement::Answered { answer: option_id.into(), by: by.into(), at };
        let mut changes = Changes::default();
        self.settle(index, settlement, &mut changes);
        Ok(self.finish(changes))
    }

    /// Cancels a permission, or dismisses it without a choice.
    pub fn cancel_permission(
        &mut self,
        id: &RequestId<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let (index, _) = self.open_permission_at(id)?;
        let mut changes = Changes::default();
        self.settle(index, Settlement::Cancelled { by: by.into(), at }, &mut changes);
        Ok(self.finish(changes))
    }

    /// Applies an outcome from the wire. An unknown outcome or an option that was not offered settles the
    /// question, because the agent has got its answer, but is not an approval.
    pub fn settle_permission(
        &mut self,
        id: &RequestId<'_>,
        outcome: &v2::RequestPermissionOutcome<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let (_, permission) = self.open_permission_at(id)?;
        match outcome {
            v2::RequestPermissionOutcome::Selected(selected) => {
                let option_id = &*selected.option_id;
                if permission.option(option_id).is_some() {
                    return self.answer_permission(id, option_id, by, at);
                }
                self.settle_as_no_approval(id, &format!("the option {option_id:?} was not offered"), by, at)
            }
            v2::RequestPermissionOutcome::Cancelled(_) => self.cancel_permission(id, by, at),
            v2::RequestPermissionOutcome::Unknown(unknown) => {
                self.settle_as_no_approval(id, &format!("the outcome {:?} is unknown", unknown.tag), by, at)
            }
            v2::RequestPermissionOutcome::More(none) => none.never(),
        }
    }

    /// Settles a permission with an answer that is not a choice.
    pub fn settle_as_no_approval(
        &mut self,
        id: &RequestId<'_>,
        reason: &str,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let (index, _) = self.open_permission_at(id)?;
        let mut changes = Changes::default();
        let settlement = Settlement::NotAnApproval { reason: reason.into(), by: by.into(), at };
        self.settle(index, settlement, &mut changes);
        Ok(self.finish(changes))
    }

    /// Returns true if changes affect the content of a permission. The status and the raw output of a tool
    /// call do not count.
    #[cold]
    pub(crate) fn update_asked(&mut self, mut changes: Changes) -> Changes {
        let revision = changes.revision();
        // Collect first: the changes added below must not affect the check.
        let concerned: Vec<usize> =
            self.pending.iter().copied().filter(|index| self.is_asked_otherwise(*index, &changes)).collect();
        for index in concerned {
            if let Some(permission) = self.view.permissions.get_mut(index) {
                let permission = Arc::make_mut(permission);
                permission.revision = revision;
                permission.content_revision = revision;
                changes.push(Change::Permission { index, event: RequestEvent::Changed });
            }
        }
        changes
    }

    /// Returns true if changes affect the content of a permission. The status and the output of a tool call
    /// do not count.
    fn is_asked_otherwise(&self, index: usize, changes: &Changes) -> bool {
        let call = self.permission_at(index).and_then(Permission::tool_call_id);
        let Some(call) = call else { return false };
        changes.iter().any(|change| match change {
            Change::Replayed => true,
            Change::Entry(change) => {
                let Some(entry) = self.entry(change.position) else { return false };
                let has = |field: EntryField| change.fields.get(field).is_some();
                match change.kind {
                    EntryKind::ToolCall
                        if self.position(EntryKind::ToolCall, call) == Some(change.position) =>
                    {
                        let others = change.fields.iter().map(|(field, _)| field);
                        let told = [EntryField::Status, EntryField::RawOutput];
                        change.created
                            || change.content != ContentChange::Kept
                            || others.into_iter().any(|field| !told.contains(&field))
                    }
                    EntryKind::Terminal if has(EntryField::Command) || has(EntryField::Cwd) => {
                        let shown = self.tool_call(call);
                        shown.is_some_and(|shown| shown.terminal_ids().any(|id| id == entry.id()))
                    }
                    _ => false,
                }
            }
            _ => false,
        })
    }

    /// Removes settled questions.
    pub(crate) fn forget_settled(&mut self) {
        let is_settled = |elicitation: &Elicitation| !elicitation.settlement.is_pending();
        if self.pending.len() < self.view.permissions.len() {
            let all = std::mem::take(&mut self.view.permissions);
            // Indices change, so rebuild the list, its index and the pending positions together.
            self.view.permission_index = Index::default();
            for permission in all.iter().filter(|permission| permission.settlement.is_pending()) {
                self.view.push_permission(Arc::clone(permission));
            }
            self.pending = (0..self.view.permissions.len()).collect();
        }
        if self.view.elicitations().any(is_settled) {
            let all = std::mem::take(&mut self.view.elicitations);
            self.view.elicitation_index = Index::default();
            for elicitation in all.iter().filter(|elicitation| !is_settled(elicitation)) {
                self.view.push_elicitation(Arc::clone(elicitation));
            }
        }
    }

    fn open_permission_at(&self, id: &RequestId<'_>) -> Result<(usize, &Permission), SessionError> {
        let index = self.permission_place(id);
        match index.and_then(|index| Some((index, self.permission_at(index)?))) {
            Some((index, permission)) if permission.settlement.is_pending() => Ok((index, permission)),
            Some(_) => Err(SessionError::AlreadySettled { id: id.clone().into_owned() }),
            None => Err(SessionError::NoSuchRequest { id: id.clone().into_owned() }),
        }
    }

    fn settle(&mut self, index: usize, settlement: Settlement<Arc<str>>, changes: &mut Changes) {
        let revision = self.view.revision + 1;
        // The first answer wins. A later one must not change the outcome.
        if !self.view.permissions.get(index).is_some_and(|it| it.settlement.is_pending()) {
            return;
        }
        if let Some(permission) = self.view.permissions.get_mut(index) {
            let event = event_of(&settlement);
            let permission = Arc::make_mut(permission);
            permission.settlement = settlement;
            self.pending.retain(|pending| *pending != index);
            permission.revision = revision;
            changes.push(Change::Permission { index, event });
        }
    }

    /// Opens an elicitation.
    pub fn open_elicitation(
        &mut self,
        id: &RequestId<'_>,
        request: &v2::CreateElicitationRequest<'_>,
        at: Moment,
    ) -> Changes {
        let mut changes = Changes::default();
        if let Some(index) = self.elicitation_place(id) {
            self.settle_data(index, Settlement::Cancelled { by: Decider::Agent, at }, &mut changes);
        }
        let index = self.view.push_elicitation(Arc::new(Elicitation {
            id: id.clone().into_owned(),
            request: Arc::new(request.clone().into_owned()),
            opened_at: at,
            position: self.view.entries.len(),
            settlement: Settlement::Pending,
            completed: false,
            revision: self.view.revision + 1,
        }));
        changes.push(Change::Elicitation { index, event: RequestEvent::Opened });
        self.finish(changes)
    }

    /// Answers, declines or dismisses an elicitation. An unknown action counts as dismissed.
    pub fn answer_elicitation(
        &mut self,
        id: &RequestId<'_>,
        response: &v2::CreateElicitationResponse<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let index = self.open_elicitation_at(id)?;
        let answer = Arc::new(response.clone().into_owned());
        let mut changes = Changes::default();
        self.settle_data(index, Settlement::Answered { answer, by: by.into(), at }, &mut changes);
        Ok(self.finish(changes))
    }

    /// Cancels an elicitation.
    pub fn cancel_elicitation(
        &mut self,
        id: &RequestId<'_>,
        by: impl Into<Decider>,
        at: Moment,
    ) -> Result<Changes, SessionError> {
        let index = self.open_elicitation_at(id)?;
        let mut changes = Changes::default();
        self.settle_data(index, Settlement::Cancelled { by: by.into(), at }, &mut changes);
        Ok(self.finish(changes))
    }

    /// Marks a web page as finished, by the page's own id.
    pub fn complete_elicitation(&mut self, elicitation_id: &str) -> Changes {
        let mut changes = Changes::default();
        let revision = self.view.revision + 1;
        let places = self.elicitations().enumerate();
        let open = places.filter(|(_, known)| !known.completed && known.page() == Some(elicitation_id));
        if let Some(index) = open.map(|(index, _)| index).last()
            && let Some(elicitation) = self.view.elicitations.get_mut(index)
        {
            let elicitation = Arc::make_mut(elicitation);
            elicitation.completed = true;
            elicitation.revision = revision;
            changes.push(Change::Elicitation { index, event: RequestEvent::Completed });
        }
        self.finish(changes)
    }

    fn open_elicitation_at(&self, id: &RequestId<'_>) -> Result<usize, SessionError> {
        let index = self.elicitation_place(id);
        match index.and_then(|index| Some((index, self.view.elicitations.get(index)?))) {
            Some((index, elicitation)) if elicitation.settlement.is_pending() => Ok(index),
            Some(_) => Err(SessionError::AlreadySettled { id: id.clone().into_owned() }),
            None => Err(SessionError::NoSuchRequest { id: id.clone().into_owned() }),
        }
    }

    fn settle_data(
        &mut self,
        index: usize,
        settlement: Settlement<Arc<v2::CreateElicitationResponse<'static>>>,
        changes: &mut Changes,
    ) {
        let revision = self.view.revision + 1;
        if !self.view.elicitations.get(index).is_some_and(|it| it.settlement.is_pending()) {
            return;
        }
        if let Some(elicitation) = self.view.elicitations.get_mut(index) {
            let event = event_of(&settlement);
            let elicitation = Arc::make_mut(elicitation);
            elicitation.settlement = settlement;
            elicitation.revision = revision;
            changes.push(Change::Elicitation { index, event });
        }
    }

    /// Cancels all pending questions, because the session's work was cancelled or the connection ended. Later
    /// updates still apply.
    pub fn cancel_requests(&mut self, by: impl Into<Decider>, at: Moment) -> Changes {
        let by = by.into();
        let mut changes = Changes::default();
        // Settled ones stay unchanged.
        for index in 0..self.view.permissions.len() {
            self.settle(index, Settlement::Cancelled { by: by.clone(), at }, &mut changes);
        }
        for index in 0..self.view.elicitations.len() {
            self.settle_data(index, Settlement::Cancelled { by: by.clone(), at }, &mut changes);
        }
        self.finish(changes)
    }
}

fn event_of<A>(settlement: &Settlement<A>) -> RequestEvent {
    match settlement {
        Settlement::Pending => RequestEvent::Opened,
        Settlement::Answered { .. } | Settlement::NotAnApproval { .. } => RequestEvent::Answered,
        Settlement::Cancelled { .. } => RequestEvent::Cancelled,
    }
}
