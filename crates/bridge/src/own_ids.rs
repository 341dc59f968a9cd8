//! Ids that the bridge creates in the namespace of the agent's ids.

use std::collections::{HashSet, VecDeque};

use switchboard_acp::Text;

/// Ids created in one session, for messages or for tool calls.
#[derive(Debug, Default)]
pub(crate) struct OwnIds {
    made: HashSet<String>,
    order: VecDeque<String>,
}

/// Maximum number of tracked ids.
const REMEMBERED: usize = 1000;

impl OwnIds {
    /// Creates an id: the first that was not created before and that the agent is not known to use.
    pub(crate) fn make(
        &mut self,
        mut next: impl FnMut() -> String,
        is_used: impl Fn(&str) -> bool,
    ) -> String {
        let mut id = next();
        while self.made.contains(&id) || is_used(&id) {
            id = next();
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.made.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.made.insert(id.clone());
        id
    }

    /// Returns the client's id for an id of the agent: the same, unless the bridge created an equal one.
    pub(crate) fn disambiguate<'a>(&self, id: Text<'a>) -> Text<'a> {
        if self.made.is_empty() || !self.made.contains(&*id) {
            return id;
        }
        Text::Owned(format!("{id}~agent"))
    }

    /// Returns whether the bridge created an id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.made.contains(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::OwnIds;

    #[test]
    fn no_id_is_made_twice_or_taken_from_the_agent() {
        let mut own = OwnIds::default();
        let mut count = 0;
        let mut made = |is_used: &dyn Fn(&str) -> bool, own: &mut OwnIds| {
            own.make(
                || {
                    count += 1;
                    format!("m{count}")
                },
                is_used,
            )
        };
        assert_eq!(made(&|_| false, &mut own), "m1");
        assert_eq!(made(&|id| id == "m2", &mut own), "m3");
        assert_eq!(&*own.disambiguate("m1".into()), "m1~agent");
        assert_eq!(&*own.disambiguate("m2".into()), "m2");
        assert_eq!(own.make(|| "again".to_owned(), |_| false), "again");
        let mut words = ["again", "other"].into_iter();
        assert_eq!(own.make(|| words.next().unwrap().to_owned(), |_| false), "other");
    }
}
