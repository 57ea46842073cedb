//! A B+ tree from byte strings to byte strings whose pairs lie in its leaves.
//!
//! ```text
//! header   word 0 the root page · word 1 bytes of the largest page | the address of the counters, else 0, << 16
//! page     word 0 magic << 24 | words in the page << 8 | level (0: leaf)
//!          word 1 slot words · first word of the cells << 16 | words of garbage among them << 32 | how many cells << 48
//!          then the slot words; the cells lie at the page's end, and the room is between them
//! slots    four numbers of 16 bits each: where cells begin, in the order of their keys. Those in use come first, then zeros
//! cell     word 0 bytes of the value, bytes of the key << 32 (to 4096) · bit 61: the value is outside and in extents
//!          · bit 62: the value is outside · bit 63: the key is outside
//!          then the key in whole words, one at least, or the address of a block with it; then the value in whole words, or the
//!          address of a block with it, or of one that lists its extents (`outside.rs`)
//! ```
//!
//! Every written word is a log record. So a cell stays where it was put, and an insertion writes the cell, a word of its page's head and a
//! slot word or two: slot words need not be full, and one that is hands a slot to its neighbour, or becomes two. A removal leaves
//! garbage behind. A later cell takes a gap that has room for it; the gaps are closed up when one needs more than each of them has.
//!
//! A cell of an inner page has the address of a child for a value. Its key is not greater than any in that child; that of a page's first cell
//! is empty. A key that parts two leaves is as short as can be.
//!
//! *Insertion.* A leaf without room hands pairs to a sibling that has some room to spare, and is split otherwise, in the middle, or at its end if the
//! pair is the last of the tree: so pages that are filled in order are full. A root that is too small for another cell first becomes larger, up to
//! the largest page: small trees take little memory.
//!
//! *Removal.* A page below a quarter is merged with a sibling if both together fill three quarters at most. No leaf but the root is empty,
//! and an inner root has two children or more.
//!
//! *Loads* of sorted pairs fill leaves of their own and put each behind the others, once it is full.
//!
//! *Searches* are optimistic: the header and the first line of each page are their guards. So whatever changes slots, keys or children of a page also
//! writes its head, even with the same words, and a page is freed by a transaction that writes to the header or to its parent's head. Only the value
//! of a cell, and its size, change without that.
//!
//! Pages have no links to one another: a scan finds the next leaf by way of their parents.

mod cell;
mod check;
mod insert;
mod length;
mod load;
mod outside;
mod page;
mod remove;
mod scan;
mod slots;
mod stream;

use arrayvec::ArrayVec;

pub use cell::{Cell, Inside};
pub use load::Load;
use page::{Found, Page};
pub use scan::Leaf;
use slots::Place;
pub use stream::{StoredValue, ValueWriter};

use super::counters::Counters;
use super::header::Kind;
use super::walk::Walk;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, OptimisticSearch, Read, Transaction};

const KIND: Kind = Kind::PageTree;
/// What pages are called in errors of a [`Walk`].
const PAGE: &str = "a tree's page";
/// Inner pages have at least two children where they are not near the root.
const MAX_LEVELS: usize = 32;
/// Bytes of a new tree's only page.
const FIRST_PAGE_BYTES: u64 = 512;

/// A persistent B+ tree of byte strings.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::PageTree;
///
/// let tree = worker.run(|tx| {
///     let header = tx.alloc(16)?;
///     tx.write(root, header.offset())?;
///     PageTree::create_at(tx, header, 4096)
/// })?;
/// worker.run(|tx| {
///     for key in ["ebb", "flood", "slack"] {
///         let place = tree.locate(tx, key.as_bytes())?;
///         tree.insert(tx, place, key.as_bytes(), &[key.len() as u64], 8)?;
///     }
///     Ok(())
/// })?;
/// let value = worker.view(|tx| match tree.find(tx, b"flood")? {
///     Some(cell) => cell.with_value(tx, |words, _| words[0]).map(Some),
///     None => Ok(None),
/// })?;
/// assert_eq!(value, Some(5));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageTree {
    /// The word that holds the root's address.
    top: PersistentAddress,
    /// Words of the largest page.
    most_words: u64,
}

/// An inner page, and the place in it of the child that was taken.
#[derive(Clone, Copy)]
struct Step {
    page: PersistentAddress,
    place: Place,
}

/// The way down to a page, from the root on.
type Path = ArrayVec<Step, MAX_LEVELS>;

/// The place of a key: where it is, or where it belongs. It holds until the tree changes.
pub struct Located {
    path: Path,
    leaf: Page,
    place: Place,
    /// The key's cell, if it is there.
    pub cell: Option<Cell>,
}

/// The search for a key's cell.
struct Find<'t> {
    tree: &'t PageTree,
    key: &'t [u8],
}

impl OptimisticSearch for Find<'_> {
    type Found = Option<Cell>;

    fn search(&self, tx: &mut impl Read) -> Result<Option<Cell>, Abort> {
        let mut page = self.tree.root(tx)?;
        while page.level > 0 {
            let found = page.search(tx, self.key)?;
            page = PageTree::child(tx, &page, &found)?.1;
        }
        Ok(page.search(tx, self.key)?.cell)
    }
}

/// The search for a key's place.
struct Locate<'t> {
    tree: &'t PageTree,
    key: &'t [u8],
}

impl OptimisticSearch for Locate<'_> {
    type Found = Located;

    fn search(&self, tx: &mut impl Read) -> Result<Located, Abort> {
        let (mut path, mut page) = (Path::new(), self.tree.root(tx)?);
        loop {
            let found = page.search(tx, self.key)?;
            if page.level == 0 {
                return Ok(Located { path, leaf: page, place: found.place, cell: found.cell });
            }
            let (place, child) = PageTree::child(tx, &page, &found)?;
            path.push(Step { page: page.at, place });
            page = child;
        }
    }
}

impl PageTree {
    /// Words of a tree's header.
    pub const HEADER_WORDS: usize = 2;
    /// The longest key.
    pub const MAX_KEY_BYTES: usize = 4096;

    /// Returns whether pages may have so many bytes.
    fn is_possible(bytes: u64) -> bool {
        bytes.is_power_of_two() && (FIRST_PAGE_BYTES..=4096).contains(&bytes)
    }

    /// Creates an empty tree whose header is at `at`. `page_bytes`: bytes of its largest page, a power of two from 512 to 4096.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    ///
    /// # Panics
    /// Panics if pages cannot have so many bytes.
    pub fn create_at(
        tx: &mut impl Transaction,
        at: PersistentAddress,
        page_bytes: u64,
    ) -> Result<Self, Abort> {
        assert!(Self::is_possible(page_bytes), "pages of {page_bytes} bytes are not possible");
        let root = Page::create(tx, FIRST_PAGE_BYTES / 8, 0, &[])?;
        tx.write_range(at, &[root.offset(), page_bytes])?;
        Ok(Self { top: at, most_words: page_bytes / 8 })
    }

    /// The tree whose header at `at` has these words.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if it is none.
    pub fn of_header(
        tx: &mut impl Read,
        at: PersistentAddress,
        words: [u64; Self::HEADER_WORDS],
    ) -> Result<Self, Abort> {
        let (page_bytes, _) = Counters::split(words[1]);
        if !Self::is_possible(page_bytes) {
            return Err(KIND.damaged(tx, at, "pages of an impossible size"));
        }
        Ok(Self { top: at, most_words: page_bytes / 8 })
    }

    fn root(&self, tx: &mut impl Read) -> Result<Page, Abort> {
        tx.guard(self.top)?;
        let at = PersistentAddress::new(tx.read(self.top)?);
        Page::load(tx, at, None)
    }

    /// The child that has the keys from the one that was found, or the one below it, and its place in the inner page `page`.
    fn child(tx: &mut impl Read, page: &Page, found: &Found) -> Result<(Place, Page), Abort> {
        let Place { word, index } = found.place;
        let (place, cell) = match (found.cell, found.below) {
            (Some(cell), _) => (found.place, cell),
            (None, Some(cell)) => (Place { word, index: index - 1 }, cell),
            (None, None) => return Err(KIND.damaged(tx, page.at, "a key before the first one")),
        };
        let child = cell.child(tx)?;
        Ok((place, Page::load(tx, child, Some(page.level - 1))?))
    }

    /// The cell of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn find(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Cell>, Abort> {
        let search = Find { tree: self, key };
        match tx.search_optimistically(&search) {
            Some(found) => found.map(|cell| cell.reloaded(tx)).transpose(),
            None => search.search(tx),
        }
    }

    /// The place of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn locate(&self, tx: &mut impl Read, key: &[u8]) -> Result<Located, Abort> {
        let search = Locate { tree: self, key };
        let Some(mut located) = tx.search_optimistically(&search) else { return search.search(tx) };
        located.cell = located.cell.map(|cell| cell.reloaded(tx)).transpose()?;
        Ok(located)
    }

    /// Returns whether there are no keys.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn is_empty(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        Ok(self.root(tx)?.cells == 0)
    }

    /// Counts the keys by a walk: the sum of what the heads of the leaves say. A scan looks at the slots and [`len`](Self::len) at the counters, so that these
    /// disagree where one of them is wrong.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut walk = Walk::default();
        let (mut count, mut waited) = (0, tx.pages_waited_for());
        let mut waiting = vec![self.root(tx)?];
        while let Some(page) = waiting.pop() {
            walk.visit(tx, PAGE, page.at, page.words)?;
            if page.level == 0 {
                count += page.cells;
                continue;
            }
            let mut children = Vec::with_capacity(page.cells as usize);
            for offset in page.slots(tx)?.offsets() {
                children.push(page.cell(tx, offset)?.child(tx)?);
            }
            let now = tx.pages_waited_for();
            if std::mem::replace(&mut waited, now) != now {
                // They have to come from the file: all together, rather than one after another.
                tx.read_ahead(&mut children, page.words as usize, 0);
            }
            for child in children {
                waiting.push(Page::load(tx, child, Some(page.level - 1))?);
            }
        }
        Ok(count)
    }

    /// Frees all of its pages, its counters, and the blocks of what lies outside of the pages. The header is the caller's.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if there is damage.
    pub fn destroy(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let mut walk = Walk::default();
        let mut waiting = vec![self.root(tx)?];
        while let Some(page) = waiting.pop() {
            walk.visit(tx, PAGE, page.at, page.words)?;
            for offset in page.slots(tx)?.offsets() {
                let cell = page.cell(tx, offset)?;
                if page.level > 0 {
                    let child = cell.child(tx)?;
                    waiting.push(Page::load(tx, child, Some(page.level - 1))?);
                }
                cell.free_outside(tx)?;
            }
            tx.free(page.at)?;
        }
        self.counters(tx)?.free(tx)?;
        // Searches that are under way notice.
        tx.write(self.top, 0)
    }
}
