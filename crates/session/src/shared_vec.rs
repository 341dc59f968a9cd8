//! A vector whose copies share common parts.

use std::sync::Arc;

const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;
const MASK: usize = WIDTH - 1;
const TAIL: usize = 2 * WIDTH;

/// A vector that only grows: a tree with 16 branches per node. A copy shares the tree; changing one item of a
/// copied vector copies the path to it, which is a few nodes.
///
/// The last items, at most 32, are outside the tree, because most changes are there. These are copied.
#[derive(Debug)]
pub(crate) struct SharedVec<T> {
    /// Contains full leaves only.
    root: Option<Node<T>>,
    /// Number of levels above the leaves.
    height: u32,
    /// Number of items in the tree.
    rooted: usize,
    /// Items after the tree. More than a leaf's, unless the tree is empty.
    tail: Vec<T>,
}

#[derive(Debug)]
enum Node<T> {
    Leaf(Arc<Vec<T>>),
    Branch(Arc<Vec<Node<T>>>),
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(items) => Node::Leaf(Arc::clone(items)),
            Node::Branch(nodes) => Node::Branch(Arc::clone(nodes)),
        }
    }
}

impl<T: Clone> Clone for SharedVec<T> {
    fn clone(&self) -> Self {
        let (root, tail) = (self.root.clone(), self.tail.clone());
        SharedVec { root, height: self.height, rooted: self.rooted, tail }
    }
}

impl<T> Default for SharedVec<T> {
    fn default() -> Self {
        SharedVec { root: None, height: 0, rooted: 0, tail: Vec::new() }
    }
}

impl<T> SharedVec<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rooted + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(self.rooted) {
            Some(index) => self.tail.get(index),
            None => self.leaf(index)?.get(index & MASK),
        }
    }

    /// Returns the items of the leaf that contains an item of the tree.
    fn leaf(&self, index: usize) -> Option<&[T]> {
        let mut node = self.root.as_ref()?;
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
        let leaves = (start & !MASK..self.rooted).step_by(WIDTH);
        let in_tree = leaves.flat_map(|index| self.leaf(index).unwrap_or_default()).skip(start & MASK);
        let tail = self.tail.get(start.saturating_sub(self.rooted)..).unwrap_or_default();
        in_tree.chain(tail)
    }
}

impl<T: Clone> SharedVec<T> {
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(self.rooted) {
            Some(index) => self.tail.get_mut(index),
            None => self.get_mut_rooted(index),
        }
    }

    fn get_mut_rooted(&mut self, index: usize) -> Option<&mut T> {
        let mut node = self.root.as_mut()?;
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Leaf(items) => return Arc::make_mut(items).get_mut(index & MASK),
                Node::Branch(nodes) => node = Arc::make_mut(nodes).get_mut((index >> shift) & MASK)?,
            }
            shift = shift.saturating_sub(BITS);
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.tail.len() == TAIL {
            let mut tail = Vec::with_capacity(TAIL);
            tail.extend(self.tail.drain(WIDTH..));
            let mut leaf = std::mem::replace(&mut self.tail, tail);
            leaf.shrink_to_fit();
            self.root_leaf(Arc::new(leaf));
        }
        self.tail.push(item);
    }

    /// Adds a full leaf to the tree.
    fn root_leaf(&mut self, leaf: Arc<Vec<T>>) {
        let index = self.rooted;
        self.rooted += WIDTH;
        let mut root = match self.root.take() {
            None => {
                self.root = Some(Node::Leaf(leaf));
                return;
            }
            Some(root) if index == WIDTH << (self.height * BITS) => {
                self.height += 1;
                Node::Branch(Arc::new(vec![root]))
            }
            Some(root) => root,
        };
        let mut node = &mut root;
        let mut shift = self.height * BITS;
        while let Node::Branch(nodes) = node {
            let nodes = Arc::make_mut(nodes);
            if shift == BITS {
                nodes.push(Node::Leaf(leaf));
                break;
            }
            let branch = (index >> shift) & MASK;
            if branch == nodes.len() {
                nodes.push(Node::Branch(Arc::default()));
            }
            node = &mut nodes[branch];
            shift -= BITS;
        }
        self.root = Some(root);
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
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_pushed_at_every_size_where_the_tree_changes_shape() {
        for length in [0, 1, 31, 32, 33, 48, 49, 271, 272, 273, 288, 289, 4112, 4113, 4128, 4129, 40000] {
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
