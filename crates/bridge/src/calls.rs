//! Requests that the bridge has made of one side, each with what is to become of its answer.

use std::collections::HashMap;

use switchboard_protocol::Wire;
use switchboard_protocol::rpc::{Request, RequestId};
use switchboard_protocol::v2::EmptyObject;

use crate::Side;
use crate::bridge::refuse_full;
use crate::shared::Shared;

/// Requests without an answer yet, by the id that the side they were sent to knows them by.
#[derive(Debug)]
pub(crate) struct Calls<P> {
    /// Who is asked.
    to: Side,
    open: HashMap<RequestId<'static>, P>,
    next: i64,
    limit: usize,
}

impl<P> Calls<P> {
    pub(crate) fn new(to: Side, limit: usize) -> Self {
        Calls { to, open: HashMap::new(), next: 1, limit }
    }

    /// Makes a request for the other side of one that came, or refuses that when too many are open.
    pub(crate) fn ask<'a>(
        &mut self,
        request: &Request<'_>,
        method: &str,
        params: &impl Wire<'a>,
        purpose: P,
        shared: &mut Shared,
    ) {
        if self.open.len() >= self.limit {
            return refuse_full(shared, self.to.other(), &request.id);
        }
        let wanted = shared.options.keep_ids.then_some(&request.id);
        let sent = self.begin(wanted, purpose);
        shared.request(self.to, &sent, method, params, &request.extra);
    }

    /// The same with the parameters as they came.
    pub(crate) fn pass(&mut self, request: &Request<'_>, method: &str, purpose: P, shared: &mut Shared) {
        match &request.params {
            Some(params) => self.ask(request, method, params, purpose, shared),
            None => self.ask(request, method, &EmptyObject::new(), purpose, shared),
        }
    }

    /// Remembers a request and gives it an id: its own if that is wanted and free.
    fn begin(&mut self, wanted: Option<&RequestId<'_>>, purpose: P) -> RequestId<'static> {
        let id = match wanted {
            Some(id) if *id != RequestId::Null && !self.open.contains_key(&id.clone().into_owned()) => {
                id.clone().into_owned()
            }
            _ => self.mint(),
        };
        self.open.insert(id.clone(), purpose);
        id
    }

    fn mint(&mut self) -> RequestId<'static> {
        loop {
            let id = RequestId::Number(self.next);
            self.next += 1;
            if !self.open.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn take(&mut self, id: &RequestId<'_>) -> Option<P> {
        self.open.remove(&id.clone().into_owned())
    }

    pub(crate) fn get(&self, id: &RequestId<'_>) -> Option<&P> {
        self.open.get(&id.clone().into_owned())
    }

    pub(crate) fn find(&self, matches: impl Fn(&P) -> bool) -> Option<RequestId<'static>> {
        self.open.iter().find_map(|(id, purpose)| matches(purpose).then(|| id.clone()))
    }

    /// Takes all requests that match, lowest id first.
    pub(crate) fn take_all(&mut self, matches: impl Fn(&P) -> bool) -> Vec<(RequestId<'static>, P)> {
        let mut ids: Vec<_> =
            self.open.iter().filter(|(_, purpose)| matches(purpose)).map(|(id, _)| id.clone()).collect();
        ids.sort_by_key(|id| match id {
            RequestId::Number(number) => (*number, String::new()),
            RequestId::Text(text) => (i64::MAX, text.to_string()),
            RequestId::Null => (i64::MAX, String::new()),
            RequestId::Irregular(number) => (i64::MAX, number.to_string()),
        });
        ids.into_iter().filter_map(|id| self.open.remove(&id).map(|purpose| (id, purpose))).collect()
    }
}
