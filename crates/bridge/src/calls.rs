//! Requests that the bridge has made of one side, each with what is to become of its answer.

use switchboard_acp::rpc::{Request, RequestId};
use switchboard_acp::v2::EmptyObject;
use switchboard_acp::{Correlator, Wire};

use crate::Side;
use crate::context::Context;

/// Requests without an answer yet, by the id that the side they were sent to knows them by.
#[derive(Debug)]
pub(crate) struct Calls<P> {
    /// Who is asked.
    to: Side,
    open: Correlator<RelayedRequest<P>>,
    next: i64,
}

/// One of them.
#[derive(Debug)]
struct RelayedRequest<P> {
    /// Its id at the side that made it.
    original: RequestId<'static>,
    purpose: P,
}

impl<P> Calls<P> {
    pub(crate) fn new(to: Side, limit: usize) -> Self {
        Calls { to, open: Correlator::new(limit), next: 1 }
    }

    /// Whether no more can be asked until something is answered.
    pub(crate) fn is_full(&self) -> bool {
        self.open.len() >= self.open.limit()
    }

    /// Makes a request for the other side of one that came, or refuses that when too many are open.
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

    /// The same with the parameters as they came.
    pub(crate) fn pass(&mut self, request: &Request<'_>, method: &str, purpose: P, context: &mut Context) {
        match &request.params {
            Some(params) => self.ask(request, method, params, purpose, context),
            None => self.ask(request, method, &EmptyObject::new(), purpose, context),
        }
    }

    /// The id of a request at the other side: its own if that is wanted and free, else one that never was there.
    fn id_for(&mut self, wanted: Option<&RequestId<'_>>) -> RequestId<'static> {
        let is_open = |id: &RequestId<'_>| self.open.contains(self.to.other(), id);
        if let Some(id) = wanted.filter(|id| **id != RequestId::Null && !is_open(id)) {
            return id.clone().into_owned();
        }
        loop {
            let id = RequestId::Number(self.next);
            self.next += 1;
            // One that was kept may have the number.
            if !self.open.contains(self.to.other(), &id) {
                return id;
            }
        }
    }

    /// Takes a request that is answered: its id at the side that made it, and what is to become of the answer.
    pub(crate) fn take(&mut self, id: &RequestId<'_>) -> Option<(RequestId<'static>, P)> {
        self.open.answered(self.to, id).map(|call| (call.original, call.purpose))
    }

    /// The id of a request at the side that made it.
    pub(crate) fn original(&self, id: &RequestId<'_>) -> Option<&RequestId<'static>> {
        self.open.get(self.to.other(), id).map(|call| &call.original)
    }

    /// The id that a request was sent under.
    pub(crate) fn sent_as(&self, original: &RequestId<'_>) -> Option<RequestId<'static>> {
        self.open.iter().find_map(|(_, id, call)| (call.original == *original).then(|| id.clone()))
    }

    pub(crate) fn get(&self, id: &RequestId<'_>) -> Option<&P> {
        self.open.get(self.to.other(), id).map(|call| &call.purpose)
    }

    pub(crate) fn find(&self, matches: impl Fn(&P) -> bool) -> Option<RequestId<'static>> {
        self.open.iter().find_map(|(_, id, call)| matches(&call.purpose).then(|| id.clone()))
    }

    /// Takes all requests that match, in the order in which they were made: the ids that they were sent under, and those
    /// that they have at the side that made them.
    pub(crate) fn take_all(
        &mut self,
        matches: impl Fn(&P) -> bool,
    ) -> Vec<(RequestId<'static>, RequestId<'static>)> {
        let taken = self.open.drain_if(|_, _, call| matches(&call.purpose));
        taken.into_iter().map(|request| (request.id, request.about.original)).collect()
    }
}
