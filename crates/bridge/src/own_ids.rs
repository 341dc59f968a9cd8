//! Ids that the bridge makes where the agent makes ids, too.

use std::collections::{HashSet, VecDeque};

use switchboard_acp::Text;

/// The ids that were made in one session, of messages or of tool calls.
#[derive(Debug, Default)]
pub(crate) struct OwnIds {
    made: HashSet<String>,
    order: VecDeque<String>,
}

/// How many are remembered.
const REMEMBERED: usize = 1000;

impl OwnIds {
    /// Makes an id: the first that was not made before and that the agent is not known to use.
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

    /// What an id of the agent is for the client: the same, unless it is one that was made here.
    pub(crate) fn set_apart<'a>(&self, id: Text<'a>) -> Text<'a> {
        if self.made.is_empty() || !self.made.contains(&*id) {
            return id;
        }
        Text::Owned(format!("{id}~agent"))
    }

    /// Whether an id was made here.
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
        assert_eq!(&*own.set_apart("m1".into()), "m1~agent");
        assert_eq!(&*own.set_apart("m2".into()), "m2");
        assert_eq!(own.make(|| "again".to_owned(), |_| false), "again");
        let mut words = ["again", "other"].into_iter();
        assert_eq!(own.make(|| words.next().unwrap().to_owned(), |_| false), "other");
    }
}
