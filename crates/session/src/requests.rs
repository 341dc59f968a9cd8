//! Permissions and elicitations of a session: asked, answered, taken back.

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
    /// The agent asks for a permission. A tool call that it is about is changed first, exactly as an update
    /// would change it; the words of the prompt change nothing.
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
        // An id that is used again while its request is open: the agent has forgotten the first one.
        if let Some(index) = self.permission_place(id) {
            self.settle(index, Settlement::Cancelled { by: Decider::Agent, at }, &mut changes);
        }
        let mut permission = Permission::new(id, request, at, self.view.entries.len());
        permission.revision = self.view.revision + 1;
        permission.content_revision = permission.revision;
        let index = self.view.push_permission(Arc::new(permission));
        changes.push(Change::Permission { index, event: RequestEvent::Opened });
        let changes = self.finish(changes);
        // The other questions may be about the same tool call.
        let changes = if self.pending.is_empty() { changes } else { self.note_asked(changes) };
        // Where settled questions are forgotten, it is among those that are left.
        if self.keeps_settled {
            self.pending.push(index);
        }
        changes
    }

    /// Somebody chooses an option. One that was not offered is refused, and the permission stays open.
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

    /// One of the sides takes the question back, or dismisses it without a choice.
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

    /// The outcome as it goes over the wire. One of an unknown kind and one that was not offered settle the question,
    /// because the agent has got its answer; but they are no approval.
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

    /// The permission was answered with something that is no choice.
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

    /// After changes that may concern what open questions are about: those of which it is true get a new content
    /// revision, and that is told with the changes.
    #[cold]
    pub(crate) fn note_asked(&mut self, mut changes: Changes) -> Changes {
        let revision = changes.revision();
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

    /// Whether changes make another question of a permission. The status of a tool call and what came out of it are
    /// not asked about.
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

    /// Keeps only the questions that wait for an answer.
    pub(crate) fn forget_settled(&mut self) {
        let is_settled = |elicitation: &Elicitation| !elicitation.settlement.is_pending();
        if self.pending.len() < self.view.permissions.len() {
            let all = std::mem::take(&mut self.view.permissions);
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

    /// The agent asks for data.
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

    /// Somebody gives the data, declines, or dismisses the question. An unknown action counts as dismissed.
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

    /// One of the sides takes the question back.
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

    /// The agent tells that the user is done with a web page, which it names by the page's own id.
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

    /// Takes back every question that is still open: the session's work was cancelled, or the connection is
    /// gone. Updates that come later still apply.
    pub fn cancel_requests(&mut self, by: impl Into<Decider>, at: Moment) -> Changes {
        let by = by.into();
        let mut changes = Changes::default();
        // Those that are settled already stay as they are.
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
