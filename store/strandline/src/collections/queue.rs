//! A first-in-first-out queue without a bound.
//!
//! ```text
//! header   word 0 tag · word 1 the number of the table, 0 if the queue is no table
//!          word 8, on a line of its own: the last node, 0 if there is none · word 9 items pushed
//!          word 16, on a line of its own: the first node, 0 if there is none · word 17 items popped
//! node     word 0 tag · word 1 the next node, 0 at the end · word 2 bytes in the item · then the item
//! ```
//!
//! A push changes the line of the last node, and a pop that of the first node, so that they conflict only if the queue has a single node. Each also
//! counts in the line that it changes; the number of items is the difference of the two counts. Both counts restart when an item is pushed to an
//! empty queue. In an empty queue they mean nothing.

use crate::value::check::{Checker, Element, Look};
use crate::value::persist::{Persist, Stored, replaced};
use crate::value::pointer::{
    check_block, check_tagged, handle, invalid, no_value, persist_handle, read_tagged,
};
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::bytes::with_words;
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{CircleGuard, Survey, Walk, with_buffer};
use strandline_core::transaction::{Abort, Read, Transaction};

const LAST: u64 = 8;
const FIRST: u64 = 16;
pub(crate) const HEADER_WORDS: usize = 3 * LINE_BYTES as usize / 8;
const NODE_WORDS: usize = 3;
const NEXT: u64 = 1;
const ITEM: u64 = 3;
/// The name of an item in errors of a [`Walk`].
const NODE: &str = "a queue's item";

handle! {
    /// A first-in-first-out queue of items of any size, which grows as long as the pool has room.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// #[derive(Persist)]
    /// struct Jobs<'p> {
    ///     waiting: Queue<'p, String>,
    /// }
    ///
    /// let store = Store::<Jobs>::create_new(&path, &Options::default(), |tx| {
    ///     Ok(Jobs { waiting: Queue::new(tx)? })
    /// })?;
    /// store.write(|tx, root| root.get(tx)?.waiting.push(tx, &"report".to_string()))?;
    /// let job = store.write(|tx, root| root.get(tx)?.waiting.pop(tx))?;
    /// assert_eq!(job.as_deref(), Some("report"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    Queue<T>, "Queue"
}

persist_handle!('p, Queue<T: Persist<'p>>, "Queue", owned: true);

/// A word of the header with the address of the first or of the last node, and the count that follows it.
#[derive(Clone, Copy)]
struct End {
    node: PersistentAddress,
    count: u64,
}

impl End {
    fn load(tx: &mut impl Read, at: PersistentAddress) -> Result<Self, Abort> {
        let [link, count] = tx.read_array(at)?;
        Ok(Self { node: PersistentAddress::new(link), count })
    }

    fn store(self, tx: &mut impl Transaction, at: PersistentAddress) -> Result<(), Abort> {
        tx.write_array(at, &[self.node.offset(), self.count])
    }

    /// Returns the end after a push or a pop has moved it to `node` and counted an item.
    fn moved_to(self, node: PersistentAddress) -> Self {
        Self { node, count: self.count.wrapping_add(1) }
    }
}

/// Returns the number of items of the queue at `at`.
fn length(tx: &mut impl Read, at: PersistentAddress) -> Result<u64, Abort> {
    let first = End::load(tx, at.word(FIRST))?;
    if first.node.is_null() {
        return Ok(0);
    }
    Ok(End::load(tx, at.word(LAST))?.count.wrapping_sub(first.count))
}

/// Returns whether the links from `node` on form a cycle.
#[cold]
fn runs_in_a_circle(
    tx: &mut impl Read,
    walk: &mut Walk,
    mut node: PersistentAddress,
    tag: u64,
) -> Result<bool, Abort> {
    let mut guard = CircleGuard::default();
    while !node.is_null() {
        if guard.closes(node) {
            return Ok(true);
        }
        walk.visit(tx, NODE, node, NODE_WORDS as u64)?;
        let [_, next] = read_tagged::<2>(tx, node, tag, "Queue item")?;
        node = PersistentAddress::new(next);
    }
    Ok(false)
}

#[cold]
fn circle(tx: &mut impl Read, at: PersistentAddress) -> Abort {
    tx.fail(Error::damaged(format!("the links of a queue form a cycle at {:#x}", at.offset())))
}

/// Returns the tags of a queue whose items have this layout, and of its nodes.
pub(crate) const fn tags(item: u64) -> (u64, u64) {
    let tag = layout::tag(layout::field(layout::begin("Queue", 1), "", item));
    (tag, layout::tag(layout::field(layout::begin("Queue node", 1), "", item)))
}

/// Counts the items of the queue at `at` by a walk. Its nodes must have the tag `node_tag`.
pub(crate) fn count(tx: &mut impl Read, at: PersistentAddress, node_tag: u64) -> Result<u64, Abort> {
    let (mut count, mut guard) = (0, CircleGuard::default());
    let mut node = End::load(tx, at.word(FIRST))?.node;
    let mut last = PersistentAddress::NULL;
    while !node.is_null() {
        if guard.closes(node) {
            return Err(circle(tx, node));
        }
        let [_, next] = read_tagged::<2>(tx, node, node_tag, "Queue item")?;
        count += 1;
        last = node;
        node = PersistentAddress::new(next);
    }
    if End::load(tx, at.word(LAST))?.node != last {
        let what = format!("the queue at {:#x} ends before its last item", at.offset());
        return Err(tx.fail(Error::damaged(what)));
    }
    Ok(count)
}

/// Checks the queue at `at`, whose nodes must have the tag `node_tag`, and calls `item` for each of its items.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    node_tag: u64,
    item: Element<'_, 'v, 'p>,
) -> Result<()> {
    let ends = checker.read(|tx| {
        let (first, last) = (End::load(tx, at.word(FIRST))?, End::load(tx, at.word(LAST))?);
        Ok((first.node, last.node, length(tx, at)?))
    })?;
    let Some((mut node, last, counted)) = ends else { return Ok(()) };
    let (mut before, mut items) = (PersistentAddress::NULL, 0);
    while !node.is_null() {
        // The node says how long its block must be, so the block is checked after its header was read.
        let found = checker.read(|tx| read_tagged::<NODE_WORDS>(tx, node, node_tag, "Queue item"))?;
        let Some([_, next, bytes]) = found else { return Ok(()) };
        if !checker.block(node, ITEM + bytes.div_ceil(8), NODE)? {
            return Ok(());
        }
        let words = checker.read(|tx| with_words(tx, node, ITEM, bytes, |words, _| words.to_vec()))?;
        if let Some(words) = words {
            item(checker, node, &words, bytes)?;
        }
        before = node;
        items += 1;
        node = PersistentAddress::new(next);
    }
    if before != last {
        checker.damaged(format!(
            "the last item of the queue at {:#x} is not the one in its header",
            at.offset()
        ));
    } else if counted != items {
        checker.damaged(format!(
            "the queue at {:#x} has {items} items, but its counts say {counted}",
            at.offset()
        ));
    }
    Ok(())
}

impl<'p, T: Persist<'p>> Queue<'p, T> {
    const TAG: u64 = if T::ANY { layout::ANY_TAG } else { tags(T::LAYOUT).0 };
    const NODE_TAG: u64 = if T::ANY { layout::ANY_TAG } else { tags(T::LAYOUT).1 };

    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Self::with_tag(tx, Self::TAG)
    }

    /// Creates an empty queue with this tag, for a caller that does not know the type.
    pub(crate) fn with_tag(tx: &Tx<'p, impl Control>, tag: u64) -> Result<Self> {
        tx.words(|tx| {
            let at = tx.alloc(8 * HEADER_WORDS as u64)?;
            tx.write_range(at, &[tag, 0])?;
            tx.write(at.word(LAST), 0)?;
            tx.write(at.word(FIRST), 0)?;
            Ok(Self::at(at))
        })
    }

    pub(crate) fn address(self) -> PersistentAddress {
        self.raw.at
    }

    /// Returns the queue whose header is at `at`. Nothing is checked here: each operation checks the header.
    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self::at(at)
    }

    /// Returns the address of the word with the number of the table, which is 0 in a queue that is no table.
    pub(crate) fn number(self) -> PersistentAddress {
        self.raw.at.word(1)
    }

    fn tagged(self, tx: &mut impl Transaction) -> Result<PersistentAddress, Abort> {
        read_tagged::<1>(tx, self.raw.at, Self::TAG, "Queue")?;
        Ok(self.raw.at)
    }

    fn check_to_write(self, tx: &mut impl Transaction) -> Result<PersistentAddress, Abort> {
        check_block(tx, self.raw.at, HEADER_WORDS, "Queue")?;
        self.tagged(tx)
    }

    /// Appends an item at the end of the queue.
    ///
    /// # Errors
    /// Returns [`Error::Dangling`](crate::Error::Dangling) if the queue was destroyed, and an error if the pool or the log is full, or after a
    /// conflict.
    pub fn push(self, tx: &Tx<'p, impl Control>, item: &T) -> Result<()> {
        self.push_encoded(tx, Self::NODE_TAG, item.bytes(), |words| item.encode(words))
    }

    /// Returns the tag of the queue's nodes.
    pub(crate) fn node_tag() -> u64 {
        Self::NODE_TAG
    }

    /// Like `push`, for an item of `bytes` bytes that `encode` writes, in a node that gets the tag `tag`.
    pub(crate) fn push_encoded(
        self,
        tx: &Tx<'p, impl Control>,
        tag: u64,
        bytes: u64,
        encode: impl FnOnce(&mut [u64]),
    ) -> Result<()> {
        tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            let words = ITEM + bytes.div_ceil(8);
            let node = tx.alloc(8 * words)?;
            with_buffer(words, |words| {
                let (head, item) = words.split_at_mut(NODE_WORDS);
                head.copy_from_slice(&[tag, 0, bytes]);
                encode(item);
                tx.write_range(node, words)
            })?;
            let last = End::load(tx, at.word(LAST))?;
            if last.node.is_null() {
                End { node, count: 0 }.store(tx, at.word(FIRST))?;
                return End { node, count: 1 }.store(tx, at.word(LAST));
            }
            check_tagged(tx, last.node, NODE_WORDS as u64, Self::NODE_TAG, "Queue item")?;
            tx.write(last.node.word(NEXT), node.offset())?;
            last.moved_to(node).store(tx, at.word(LAST))
        })
    }

    /// Returns the item of a node, and the next node.
    fn load(
        tx: &mut impl Read,
        walk: &mut Walk,
        node: PersistentAddress,
    ) -> Result<(T, PersistentAddress), Abort> {
        let [_, next, bytes] = read_tagged::<NODE_WORDS>(tx, node, Self::NODE_TAG, "Queue item")?;
        let item = with_words(tx, node, ITEM, bytes, |words, bytes| T::decode(words, bytes, Stored::new()))?;
        walk.visit(tx, NODE, node, ITEM + bytes.div_ceil(8))?;
        match item {
            Ok(item) => Ok((item, PersistentAddress::new(next))),
            Err(_) => Err(invalid(tx, node, T::NAME)),
        }
    }

    /// Removes the item at the front and returns it with its collections, or `None` if the queue is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// queue.push(tx, &"first".to_string())?;
    /// queue.push(tx, &"second".to_string())?;
    /// assert_eq!(queue.pop(tx)?.as_deref(), Some("first"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::push`].
    pub fn pop(self, tx: &Tx<'p, impl Control>) -> Result<Option<T>> {
        let popped = tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            let end = End::load(tx, at.word(FIRST))?;
            let first = end.node;
            if first.is_null() {
                return Ok(None);
            }
            check_block(tx, first, NODE_WORDS, "Queue item")?;
            let (item, next) = Self::load(tx, &mut Walk::default(), first)?;
            if next.is_null() {
                tx.write(at.word(FIRST), 0)?;
                tx.write(at.word(LAST), 0)?;
            } else {
                end.moved_to(next).store(tx, at.word(FIRST))?;
            }
            tx.write(first, 0)?;
            tx.free(first)?;
            Ok(Some(item))
        })?;
        tx.popped.update(|count| count + u64::from(popped.is_some()));
        Ok(popped)
    }

    /// Returns the item at the front without removing it, or `None` if the queue is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// queue.push(tx, &5u64)?;
    /// assert_eq!(queue.front(tx)?, Some(5));
    /// assert!(!queue.is_empty(tx)?);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Dangling`](crate::Error::Dangling) if the queue was destroyed, and an error after a conflict.
    pub fn front(self, tx: &View<'p, impl Control>) -> Result<Option<T>> {
        self.iter(tx)?.next().transpose()
    }

    /// Returns whether the queue has no items.
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::front`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            Ok(tx.read(at.word(FIRST))? == 0)
        })
    }

    /// Returns an iterator over the items, from front to end. If the transaction pops an item before the iterator has returned it, the iteration ends
    /// with [`Error::Dangling`](crate::Error::Dangling). Pops from other queues during the iteration can have the same effect if items of this queue
    /// are popped, too.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// for job in 0..3u64 {
    ///     queue.push(tx, &job)?;
    /// }
    /// let waiting: Vec<u64> = queue.iter(tx)?.collect::<Result<_, _>>()?;
    /// assert_eq!(waiting, [0, 1, 2]);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::front`].
    pub fn iter<'v, C: Control>(self, tx: &'v View<'p, C>) -> Result<Iter<'v, 'p, T, C>> {
        let next = tx.words(|words| {
            let at = self.tagged(words)?;
            Ok(End::load(words, at.word(FIRST))?.node)
        })?;
        let popped = tx.popped.get();
        let (guard, walk) = (CircleGuard::default(), Walk::default());
        Ok(Iter { tx, queue: self, first: next, next, popped, returned: 0, guard, walk })
    }

    /// Returns the number of items, in the same time for a queue of any length. A transaction that calls this and also writes conflicts with
    /// transactions that push or pop at the same time.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// queue.push(tx, &5u64)?;
    /// assert_eq!(queue.len(tx)?, 1);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::front`].
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            length(tx, at)
        })
    }

    /// Counts the items by a walk.
    pub(crate) fn count(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            count(tx, at, Self::NODE_TAG)
        })
    }

    /// Removes all items. Collections in them are destroyed.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// queue.push(tx, &5u64)?;
    /// queue.clear(tx)?;
    /// assert!(queue.is_empty(tx)?);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::push`].
    pub fn clear(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        while let Some(item) = self.pop(tx)? {
            replaced(tx, &item, None)?;
        }
        Ok(())
    }

    /// Checks the queue and everything that it refers to, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let queue = Queue::new(tx)?;
    /// queue.push(tx, &5u64)?;
    /// assert!(queue.check(tx)?.is_empty());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| self.reach(checker))
    }

    fn reach(self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        checker.pointer(self.raw.at, Self::TAG, HEADER_WORDS as u64, "Queue", Look::Typed(Self::look))
    }

    fn look(checker: &mut Checker<'_, 'p>, at: PersistentAddress) -> Result<()> {
        survey(checker, at, Self::NODE_TAG, &mut |checker, node, words, bytes| {
            match T::decode(words, bytes, Stored::new()) {
                Ok(item) => item.visit(checker)?,
                Err(_) => checker.damaged(no_value(node, T::NAME)),
            }
            Ok(())
        })
    }

    /// Removes all items and frees the queue's memory. Collections in the items are destroyed. Every copy of this handle dangles afterwards.
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::push`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        let number = tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            tx.read(at.word(1))
        })?;
        if number != 0 {
            return Err(Error::Parameter(
                "this is a table of a catalogue: delete it with Tables::delete".into(),
            ));
        }
        self.clear(tx)?;
        tx.words(|tx| {
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })
    }
}

/// An iterator over the items of a [`Queue`]. [`Queue::iter`] creates it.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Jobs<'p> {
///     waiting: Queue<'p, String>,
/// }
///
/// let store = Store::<Jobs>::create_new(&path, &options, |tx| {
///     let waiting = Queue::new(tx)?;
///     waiting.push(tx, &"report".to_string())?;
///     waiting.push(tx, &"backup".to_string())?;
///     Ok(Jobs { waiting })
/// })?;
/// let jobs = store.read(|tx, root| {
///     root.get(tx)?.waiting.iter(tx)?.collect::<strandline::Result<Vec<_>>>()
/// })?;
/// assert_eq!(jobs, ["report", "backup"]);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Iter<'v, 'p, T, C: Control = Stm> {
    tx: &'v View<'p, C>,
    queue: Queue<'p, T>,
    /// The first item of the queue when the iteration began.
    first: PersistentAddress,
    next: PersistentAddress,
    /// Number of items that the transaction had popped from any queue when the iteration began.
    popped: u64,
    returned: u64,
    guard: CircleGuard,
    walk: Walk,
}

impl<'p, T: Persist<'p>, C: Control> Iterator for Iter<'_, 'p, T, C> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Result<T>> {
        if self.next.is_null() {
            return None;
        }
        let (queue, here) = (self.queue, self.next);
        self.tx.begin_step(&mut self.walk);
        let walk = &mut self.walk;
        let suspicious = self.guard.closes(here);
        let first = self.first;
        // The next item may have been popped, and its memory may hold an item that was pushed since, behind others.
        let may_be_gone = self.tx.popped.get() - self.popped > self.returned;
        let loaded = self.tx.words(|tx| {
            let at = queue.tagged(tx)?;
            if may_be_gone && ![first, here].contains(&End::load(tx, at.word(FIRST))?.node) {
                return Err(tx.fail(Error::Dangling { at: here.offset(), expected: "Queue item" }));
            }
            // The memory of a node may also have been freed and used again for a later item, which is no cycle.
            if suspicious && runs_in_a_circle(tx, walk, here, Queue::<T>::NODE_TAG)? {
                return Err(circle(tx, here));
            }
            Queue::<T>::load(tx, walk, here)
        });
        match loaded {
            Ok((item, next)) => {
                self.next = next;
                self.returned += 1;
                Some(Ok(item))
            }
            Err(error) => {
                self.next = PersistentAddress::NULL;
                Some(Err(error))
            }
        }
    }
}

debug_as_name! { Iter<'_, '_; T> }
