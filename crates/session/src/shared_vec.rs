//! A vector whose copies share what they have in common.

use std::sync::Arc;

const BITS: u32 = 5;
const WIDTH: usize = 1 << BITS;
const MASK: usize = WIDTH - 1;

/// A vector that only grows: a tree with 32 branches a node. A copy costs one reference count; changing one
/// item of a copied vector copies the path to it, a few nodes, and never the whole.
#[derive(Debug)]
pub(crate) struct SharedVec<T> {
    root: Option<Arc<Node<T>>>,
    /// Levels of branches above the leaves.
    height: u32,
    length: usize,
}

#[derive(Debug, Clone)]
enum Node<T> {
    Leaf(Vec<T>),
    Branch(Vec<Arc<Node<T>>>),
}

impl<T> Clone for SharedVec<T> {
    fn clone(&self) -> Self {
        SharedVec { root: self.root.clone(), height: self.height, length: self.length }
    }
}

impl<T> Default for SharedVec<T> {
    fn default() -> Self {
        SharedVec { root: None, height: 0, length: 0 }
    }
}

impl<T> SharedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.leaf(index)?.get(index & MASK)
    }

    /// The items from the one at the index, rounded down to a leaf, up to the end of that leaf.
    fn leaf(&self, index: usize) -> Option<&[T]> {
        if index >= self.length {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Leaf(items) => return Some(items),
                Node::Branch(nodes) => node = nodes.get((index >> shift) & MASK)?,
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.iter_from(0)
    }

    pub(crate) fn iter_from(&self, start: usize) -> impl Iterator<Item = &T> + Clone {
        let first_leaf = start & !MASK;
        (first_leaf..self.length)
            .step_by(WIDTH)
            .flat_map(|index| self.leaf(index).unwrap_or_default())
            .skip(start & MASK)
    }
}

impl<T: Clone> SharedVec<T> {
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.length {
            return None;
        }
        let mut node = Arc::make_mut(self.root.as_mut()?);
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Leaf(items) => return items.get_mut(index & MASK),
                Node::Branch(nodes) => node = Arc::make_mut(nodes.get_mut((index >> shift) & MASK)?),
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        let index = self.length;
        let mut root = match self.root.take() {
            None => Arc::new(Node::Leaf(Vec::new())),
            Some(root) if index == WIDTH << (self.height * BITS) => {
                self.height += 1;
                Arc::new(Node::Branch(vec![root]))
            }
            Some(root) => root,
        };
        let mut node = Arc::make_mut(&mut root);
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Leaf(items) => {
                    items.push(item);
                    break;
                }
                Node::Branch(nodes) => {
                    let branch = (index >> shift) & MASK;
                    if branch == nodes.len() {
                        let below = if shift == BITS { Node::Leaf(Vec::new()) } else { Node::Branch(Vec::new()) };
                        nodes.push(Arc::new(below));
                    }
                    node = Arc::make_mut(&mut nodes[branch]);
                }
            }
            shift = shift.saturating_sub(BITS);
        }
        self.root = Some(root);
        self.length += 1;
    }
}

impl<T: Clone> FromIterator<T> for SharedVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut vector = SharedVec::default();
        for item in items {
            vector.push(item);
        }
        vector
    }
}

impl<T: PartialEq> PartialEq for SharedVec<T> {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_pushed_at_every_size_where_the_tree_changes_shape() {
        for length in [0, 1, 31, 32, 33, 1023, 1024, 1025, 32768, 32769, 40000] {
            let vector: SharedVec<usize> = (0..length).collect();
            assert_eq!(vector.len(), length);
            assert!(vector.iter().copied().eq(0..length));
            assert_eq!(vector.get(length), None);
            for index in [0, length / 3, length.saturating_sub(1)] {
                assert_eq!(vector.get(index).copied(), (index < length).then_some(index));
                assert!(vector.iter_from(index).copied().eq(index..length));
            }
        }
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut vector: SharedVec<usize> = (0..2000).collect();
        let copy = vector.clone();
        for index in 0..2000 {
            *vector.get_mut(index).unwrap() += 1;
        }
        vector.push(7);
        assert!(copy.iter().copied().eq(0..2000));
        assert!(vector.iter().copied().eq((1..2001).chain([7])));
    }
}
