//! A first-in-first-out queue without bound.
//!
//! ```text
//! header   word 0 tag · word 1 a table's number, else 0
//!          word 8, on a line of its own: the last node, 0 if there is none · word 9 items pushed
//!          word 16, on a line of its own: the first node, 0 if there is none · word 17 items popped
//! node     word 0 tag · word 1 the next node, 0 at the end · word 2 bytes in the item · then the item
//! ```
//!
//! A push changes the line of the last node, and a pop that of the first node, so that they conflict only if these are the same node. Each counts in the line
//! that it changes, and the number of items is the difference. Both counts start again when an item is pushed to an empty queue. Bit 0 of the addresses of the
//! first and the last node is set if there are counts. Queues in pools of format version 5 have none until they are empty or opened as a table; until then
//! a walk counts their items.

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
/// Set in the addresses of the first and the last node if counts follow them.
const COUNTED: u64 = 1;
pub(crate) const HEADER_WORDS: usize = 3 * LINE_BYTES as usize / 8;
const NODE_WORDS: usize = 3;
const NEXT: u64 = 1;
const ITEM: u64 = 3;
/// The name of items in errors of a [`Walk`].
const NODE: &str = "a queue's item";

handle! {
    /// A queue of items of any size, first in, first out, as long as there is room in the pool.
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

/// A word of the header that leads to the first or to the last node, and the count behind it.
#[derive(Clone, Copy)]
struct End {
    node: PersistentAddress,
    /// `None`: the queue has no counts, or the queue is empty.
    count: Option<u64>,
}

impl End {
    fn load(tx: &mut impl Read, at: PersistentAddress) -> Result<Self, Abort> {
        let [link, count] = tx.read_array(at)?;
        let count = (link & COUNTED != 0).then_some(count);
        Ok(Self { node: PersistentAddress::new(link & !COUNTED), count })
    }

    fn store(self, tx: &mut impl Transaction, at: PersistentAddress) -> Result<(), Abort> {
        match self.count {
            Some(count) => tx.write_array(at, &[self.node.offset() | COUNTED, count]),
            None => tx.write(at, self.node.offset()),
        }
    }

    /// The end once it has moved to `node`, by an item that was pushed or popped.
    fn moved_to(self, node: PersistentAddress) -> Self {
        Self { node, count: self.count.map(|count| count.wrapping_add(1)) }
    }
}

/// The number of items of the queue at `at`, if it is known without a walk.
fn counted(tx: &mut impl Read, at: PersistentAddress) -> Result<Option<u64>, Abort> {
    let first = End::load(tx, at.word(FIRST))?;
    if first.node.is_null() {
        return Ok(Some(0));
    }
    let Some(popped) = first.count else { return Ok(None) };
    Ok(End::load(tx, at.word(LAST))?.count.map(|pushed| pushed.wrapping_sub(popped)))
}

/// Returns whether the links from `node` on come back to one of the nodes that they have led to.
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
    tx.fail(Error::damaged(format!("a queue runs in a circle at {:#x}", at.offset())))
}

/// The tags of a queue whose items have this layout, and of its nodes.
pub(crate) const fn tags(item: u64) -> (u64, u64) {
    let tag = layout::tag(layout::field(layout::begin("Queue", 1), "", item));
    (tag, layout::tag(layout::field(layout::begin("Queue node", 1), "", item)))
}

/// Counts the items of the queue at `at`, whose nodes have the tag `node_tag`, by a walk.
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

/// Looks the queue at `at` over, whose nodes have the tag `node_tag`, and hands its items on.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    node_tag: u64,
    item: Element<'_, 'v, 'p>,
) -> Result<()> {
    let ends = checker.read(|tx| {
        let ends = (End::load(tx, at.word(FIRST))?, End::load(tx, at.word(LAST))?);
        Ok((ends, counted(tx, at)?))
    })?;
    let Some(((first, last), counted)) = ends else { return Ok(()) };
    let (mut node, mut before, mut items) = (first.node, PersistentAddress::NULL, 0);
    while !node.is_null() {
        // The block is checked once it is known how long it must be.
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
    if before != last.node || first.count.is_some() != last.count.is_some() {
        checker.damaged(format!("the queue at {:#x} ends at another item than it says", at.offset()));
    } else if counted.is_some_and(|counted| counted != items) {
        let counted = counted.unwrap_or_default();
        checker.damaged(format!(
            "the queue at {:#x} has {items} items, and its counts say {counted}",
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

    /// An empty queue with a tag that is known otherwise.
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

    /// The queue whose header is at `at`, if it is one: each operation looks.
    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self::at(at)
    }

    /// Where a table's number stands, which a queue of no table has not.
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

    /// Puts an item at the end.
    ///
    /// # Errors
    /// Returns [`Error::Dangling`](crate::Error::Dangling) if the queue was destroyed, and an error if the pool is full or after a conflict, or if
    /// the log is full.
    pub fn push(self, tx: &Tx<'p, impl Control>, item: &T) -> Result<()> {
        self.push_encoded(tx, Self::NODE_TAG, item.bytes(), |words| item.encode(words))
    }

    /// The tag of what holds an item.
    pub(crate) fn node_tag() -> u64 {
        Self::NODE_TAG
    }

    /// As `push`, of an item of `bytes` bytes that `encode` writes, in what has the tag `tag`.
    pub(crate) fn push_encoded(
        self,
        tx: &Tx<'p, impl Control>,
        tag: u64,
        bytes: u64,
        encode: impl FnOnce(&mut [u64]),
    ) -> Result<()> {
        tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            let node = tx.alloc(8 * (NODE_WORDS as u64 + bytes.div_ceil(8)))?;
            tx.write_range(node, &[tag, 0, bytes])?;
            with_buffer(bytes.div_ceil(8), |words| {
                encode(words);
                tx.write_range(node.word(ITEM), words)
            })?;
            let last = End::load(tx, at.word(LAST))?;
            if last.node.is_null() {
                End { node, count: Some(0) }.store(tx, at.word(FIRST))?;
                return End { node, count: Some(1) }.store(tx, at.word(LAST));
            }
            check_tagged(tx, last.node, NODE_WORDS as u64, Self::NODE_TAG, "Queue item")?;
            tx.write(last.node.word(NEXT), node.offset())?;
            last.moved_to(node).store(tx, at.word(LAST))
        })
    }

    /// The item of a node, and the node behind it.
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

    /// Takes the item at the front, if there is one, with the collections in it.
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
            check_tagged(tx, first, NODE_WORDS as u64, Self::NODE_TAG, "Queue item")?;
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

    /// The item at the front, which stays.
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

    /// Returns whether there are no items.
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::front`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            Ok(tx.read(at.word(FIRST))? == 0)
        })
    }

    /// The items, from front to end. One that is popped before it was returned ends the iteration with [`Error::Dangling`](crate::Error::Dangling).
    /// So may pops from other queues do, if both are popped while this one is iterated over.
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

    /// Number of items, at the same cost for a queue of any length. A transaction that asks and also writes conflicts with those that push or pop at
    /// the same time.
    ///
    /// A queue that an earlier version of the library has made is counted by a walk until it has been empty once, or was opened as a table of a
    /// database.
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
            match counted(tx, at)? {
                Some(items) => Ok(items),
                None => count(tx, at, Self::NODE_TAG),
            }
        })
    }

    /// Counts the items by a walk.
    pub(crate) fn count(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            count(tx, at, Self::NODE_TAG)
        })
    }

    /// Returns whether [`len`](Self::len) needs no walk.
    pub(crate) fn is_counted(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| {
            let at = self.tagged(tx)?;
            Ok(counted(tx, at)?.is_some())
        })
    }

    /// Gives a queue without counts such ones.
    pub(crate) fn start_counting(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            if counted(tx, at)?.is_some() {
                return Ok(());
            }
            let items = count(tx, at, Self::NODE_TAG)?;
            for (place, count) in [(FIRST, 0), (LAST, items)] {
                let node = End::load(tx, at.word(place))?.node;
                End { node, count: Some(count) }.store(tx, at.word(place))?;
            }
            Ok(())
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

    /// Looks the queue and all that hangs from it over for damage: what is wrong, and nothing if all is well.
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

    /// Removes all items and gives the queue's memory back. Every copy of this handle dangles from then on.
    ///
    /// # Errors
    /// Returns the same errors as [`Queue::push`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        let number = tx.words(|tx| {
            let at = self.check_to_write(tx)?;
            tx.read(at.word(1))
        })?;
        if number != 0 {
            return Err(Error::Parameter("a table is deleted by its catalogue: Tables::delete".into()));
        }
        self.clear(tx)?;
        tx.words(|tx| {
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })
    }
}

/// The items of a [`Queue`].
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
    /// The first item when it began.
    first: PersistentAddress,
    next: PersistentAddress,
    /// Items that the transaction had popped when it began.
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
        // The next item may be among the popped ones, and its memory hold one that was pushed since, behind others.
        let may_be_gone = self.tx.popped.get() - self.popped > self.returned;
        let loaded = self.tx.words(|tx| {
            let at = queue.tagged(tx)?;
            if may_be_gone && ![first, here].contains(&End::load(tx, at.word(FIRST))?.node) {
                return Err(tx.fail(Error::Dangling { at: here.offset(), expected: "Queue item" }));
            }
            // A node may also have been freed and used again for another item, behind this one.
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
