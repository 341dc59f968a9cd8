//! Pending requests that the bridge has sent to one side, each with its purpose.

use switchboard_acp::rpc::{Request, RequestId};
use switchboard_acp::v2::EmptyObject;
use switchboard_acp::{Correlator, Wire};

use crate::Side;
use crate::context::Context;

/// Pending requests by the id under which they were sent.
#[derive(Debug)]
pub(crate) struct Calls<P> {
    /// The side that received the requests.
    to: Side,
    open: Correlator<RelayedRequest<P>>,
    next: i64,
}

/// A pending request.
#[derive(Debug)]
struct RelayedRequest<P> {
    /// Its id at the side that sent it.
    original: RequestId<'static>,
    purpose: P,
}

impl<P> Calls<P> {
    pub(crate) fn new(to: Side, limit: usize) -> Self {
        Calls { to, open: Correlator::new(limit), next: 1 }
    }

    /// Returns whether the limit of pending requests is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() >= self.open.limit()
    }

    /// Sends a request to the other side on behalf of a received one, or refuses that if the limit is
    /// reached.
    pub(crate) fn ask<'a>(
        &mut self,
        request: &Request<'_>,
        method: &str,
        params: &impl Wire<'a>,
        purpose: P,
        context: &mut Context,
    ) {
        let id = self.id_for(context.options.keep_ids.then_some(&request.id));
        let call = RelayedRequest { original: request.id.clone().into_owned(), purpose };
        match self.open.open(self.to.other(), &id, call) {
            Ok(_) => context.request(self.to, &id, method, params, &request.extra),
            Err(_) => context.refuse_full(self.to.other(), &request.id),
        }
    }

    /// Sends a request with unchanged parameters.
    pub(crate) fn pass(&mut self, request: &Request<'_>, method: &str, purpose: P, context: &mut Context) {
        match &request.params {
            Some(params) => self.ask(request, method, params, purpose, context),
            None => self.ask(request, method, &EmptyObject::new(), purpose, context),
        }
    }

    /// Returns an id for a request at the other side: the original one if that is wanted and free, else one
    /// that was never used.
    fn id_for(&mut self, wanted: Option<&RequestId<'_>>) -> RequestId<'static> {
        let is_open = |id: &RequestId<'_>| self.open.contains(self.to.other(), id);
        if let Some(id) = wanted.filter(|id| **id != RequestId::Null && !is_open(id)) {
            return id.clone().into_owned();
        }
        loop {
            let id = RequestId::Number(self.next);
            self.next += 1;
            // An original id that was kept may have the same number.
            if !self.open.contains(self.to.other(), &id) {
                return id;
            }
        }
    }

    /// Removes a request that was answered. Returns its original id and its purpose.
    pub(crate) fn take(&mut self, id: &RequestId<'_>) -> Option<(RequestId<'static>, P)> {
        self.open.answered(self.to, id).map(|call| (call.original, call.purpose))
    }

    /// Returns the original id of a request.
    pub(crate) fn original(&self, id: &RequestId<'_>) -> Option<&RequestId<'static>> {
        self.open.get(self.to.other(), id).map(|call| &call.original)
    }

    /// Returns the id under which a request was sent.
    pub(crate) fn sent_as(&self, original: &RequestId<'_>) -> Option<RequestId<'static>> {
        self.open.iter().find_map(|(_, id, call)| (call.original == *original).then(|| id.clone()))
    }

    pub(crate) fn get(&self, id: &RequestId<'_>) -> Option<&P> {
        self.open.get(self.to.other(), id).map(|call| &call.purpose)
    }

    pub(crate) fn find(&self, matches: impl Fn(&P) -> bool) -> Option<RequestId<'static>> {
        self.open.iter().find_map(|(_, id, call)| matches(&call.purpose).then(|| id.clone()))
    }

    /// Removes all requests with a matching purpose, in the order in which they were sent. Returns the id
    /// under which each was sent, and its original id.
    pub(crate) fn take_all(
        &mut self,
        matches: impl Fn(&P) -> bool,
    ) -> Vec<(RequestId<'static>, RequestId<'static>)> {
        let taken = self.open.drain_if(|_, _, call| matches(&call.purpose));
        taken.into_iter().map(|request| (request.id, request.about.original)).collect()
    }
}
