//! A B+ tree from byte strings to byte strings, with all pairs in its leaves.
//!
//! ```text
//! header   word 0 the root page · word 1 bytes of the largest page | the address of the counters, else 0, << 16
//! page     word 0 number of the heads << 56 | magic << 24 | words in the page << 8 | level (0: leaf)
//!          word 1 slot words · first word of the cells << 16 | words of garbage among them << 32 | how many cells << 48
//!          then the slot words; the cells lie at the page's end, and the room is between them
//! slots    four of 16 bits in each word, in the order of the keys: the word at which a cell begins | the head of its key << 9. Those in use come
//!          first, then zeros
//! cell     word 0 bytes of the value, bytes of the key << 32 (to 4096) · bit 61: the value is outside and in extents
//!          · bit 62: the value is outside · bit 63: the key is outside
//!          then the key in whole words, one at least, or the address of a block with it; then the value in whole words, or the
//!          address of a block with it, or of one that lists its extents (`outside.rs`)
//! ```
//!
//! Every written word is a log record. So a cell stays where it was put, and an insertion writes only the cell, one word of its page's
//! head, and one or two slot words. Slot words need not be full: a full one hands a slot to its neighbour, or is split into two. A removal
//! leaves garbage behind. A later cell uses a gap in the garbage that is large enough. If no gap is, but the free words together are, the
//! page is compacted.
//!
//! The head of a key is the 7 bits behind those that all keys of the page have in common (`heads.rs`). A search needs few cells besides the one that it finds.
//!
//! The value of a cell in an inner page is the address of a child. The cell's key is not greater than any key in that child; the first cell
//! of each inner page has an empty key. The key that separates two leaves is as short as possible.
//!
//! *Insertion.* A leaf without room moves pairs to a sibling that has room to spare. If neither sibling has, the leaf is split in the
//! middle, or at its end if the pair is the last of the tree; so pages that are filled in order are full. A root that has no room and is
//! not of the largest size is replaced by a larger page first, so that small trees take little memory.
//!
//! *Removal.* A page that is less than a quarter full is merged with a sibling if both together fill at most three quarters of a page. No
//! leaf except the root is empty, and an inner root has at least two children.
//!
//! *Batches* of pairs are sorted before they are set. Pairs behind all others fill new leaves. In a large transaction, where there are several
//! pairs for each leaf, new leaves take the place of those that follow each other under an inner page.
//!
//! *Bulk loads* of sorted pairs fill new leaves and add each behind the others when it is full.
//!
//! *Searches* are optimistic: the header and the first line of each page are their guards. So a transaction that changes anything in a page
//! also writes the page's head, even if that stays the same, and one that frees a page writes to the header or to the head of the page's
//! parent. A value that is in its page is read by the search that finds it; blocks and extents of others have no guard.
//!
//! Pages have no links to one another: a scan finds the next leaf through its parents.

mod batch;
mod cell;
mod check;
mod heads;
mod insert;
mod length;
mod load;
mod merge;
mod outside;
mod page;
mod remove;
mod scan;
mod search;
mod slots;
mod stream;

use arrayvec::ArrayVec;

pub use batch::Batch;
use cell::CellWords;
pub use cell::{Cell, Inside};
pub use load::Load;
use page::Page;
pub use scan::Leaf;
use search::{Found, Sought};
use slots::Place;
pub use stream::{StoredValue, ValueWriter};

use super::counters::Counters;
use super::header::Kind;
use super::walk::Walk;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, OptimisticSearch, Read, Transaction};

const KIND: Kind = Kind::PageTree;
/// The name of a page in errors of a [`Walk`].
const PAGE: &str = "a tree's page";
/// The greatest number of levels. A tree grows by a level only when its root is full, so none comes near this.
const MAX_LEVELS: usize = 32;
/// The size in bytes of a new tree's only page.
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
/// let value = worker.view(|tx| tree.read(tx, b"flood", |_, _, words| Ok(words.map(<[u64]>::to_vec))))?;
/// assert_eq!(value, Some(Some(vec![5])));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageTree {
    /// The address of the word that has the root's address.
    top: PersistentAddress,
    /// The number of words in the largest page.
    most_words: u64,
}

/// An inner page, and the place of the child in it that the path takes.
#[derive(Clone, Copy)]
struct Step {
    page: PersistentAddress,
    place: Place,
}

/// The path to a page, from the root on.
type Path = ArrayVec<Step, MAX_LEVELS>;

/// The place of a key: where it is, or where it would be inserted. It is valid until the tree changes.
pub struct Located {
    leaf: Page,
    place: Place,
    /// The key's cell, if the key is in the tree.
    pub cell: Option<Cell>,
}

impl Located {
    /// Returns whether the leaf surely has room for one more cell of `words` words.
    fn has_room_for(&self, words: u64) -> bool {
        let Page { words: all, cells, .. } = self.leaf;
        Page::holds(all, cells as usize + 1, self.leaf.used() + words)
    }
}

/// The search for a key's cell.
struct Find<'t> {
    tree: &'t PageTree,
    key: &'t [u8],
}

impl OptimisticSearch for Find<'_> {
    type Found = Option<Cell>;

    fn search(&mut self, tx: &mut impl Read) -> Result<Option<Cell>, Abort> {
        let mut leaf = Page::NONE;
        Ok(self.tree.search(tx, self.key, &mut leaf)?.cell())
    }
}

/// The search for a key's cell, which also reads the value if that is in the page.
struct ReadValue<'t> {
    tree: &'t PageTree,
    key: &'t [u8],
    value: CellWords,
}

impl OptimisticSearch for ReadValue<'_> {
    type Found = Option<Cell>;

    fn search(&mut self, tx: &mut impl Read) -> Result<Option<Cell>, Abort> {
        let mut leaf = Page::NONE;
        let cell = self.tree.search(tx, self.key, &mut leaf)?.cell();
        if let Some(cell) = cell
            && !cell.is_outside()
        {
            cell.read_inside(tx, &leaf, &mut self.value)?;
        }
        Ok(cell)
    }
}

/// The search for a key's place.
struct Locate<'t> {
    tree: &'t PageTree,
    key: &'t [u8],
}

impl OptimisticSearch for Locate<'_> {
    type Found = Located;

    fn search(&mut self, tx: &mut impl Read) -> Result<Located, Abort> {
        let mut leaf = Page::NONE;
        let found = self.tree.search(tx, self.key, &mut leaf)?;
        Ok(Located { leaf, place: found.place, cell: found.cell() })
    }
}

impl PageTree {
    /// The number of words in a tree's header.
    pub const HEADER_WORDS: usize = 2;
    /// The length of the longest key, in bytes.
    pub const MAX_KEY_BYTES: usize = 4096;

    /// Returns whether `bytes` is a possible size of the largest page.
    fn is_possible(bytes: u64) -> bool {
        bytes.is_power_of_two() && (FIRST_PAGE_BYTES..=4096).contains(&bytes)
    }

    /// Creates an empty tree with its header at `at`. `page_bytes` is the size of its largest page, a power of two from 512 to 4096.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    ///
    /// # Panics
    /// Panics if `page_bytes` is not such a number.
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

    /// Returns the tree whose header at `at` has these words.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if the header is not that of a tree.
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

    /// Returns the child of the inner page `page` whose keys begin at the key that was found, or at the last one below it, and the child's
    /// place in `page`.
    fn child(tx: &mut impl Read, page: &Page, found: &Found) -> Result<(Place, Page), Abort> {
        let (place, cell) = Self::cell_of_child(tx, page, found)?;
        let child = cell.child(tx)?;
        Ok((place, Page::load(tx, child, Some(page.level - 1))?))
    }

    fn cell_of_child(tx: &mut impl Read, page: &Page, found: &Found) -> Result<(Place, Cell), Abort> {
        found.not_behind().ok_or_else(|| KIND.damaged(tx, page.at, "a key before the first one"))
    }

    /// Searches for a key from the root on. Returns the result of the search in its leaf, and puts that into `page`.
    fn search(&self, tx: &mut impl Read, key: &[u8], page: &mut Page) -> Result<Found, Abort> {
        let sought = Sought::new(key);
        tx.guard(self.top)?;
        let root = PersistentAddress::new(tx.read(self.top)?);
        page.go_to(tx, root, None)?;
        while page.level > 0 {
            let found = page.search_for(tx, &sought)?;
            let child = Self::cell_of_child(tx, page, &found)?.1.child(tx)?;
            page.go_to(tx, child, Some(page.level - 1))?;
        }
        page.search_for(tx, &sought)
    }

    /// Returns the path to `page`, to which a search for `key` must lead. Few changes need the path, so the search for a key's place does not note it. Reads only pages
    /// above `page`.
    fn path_to(&self, tx: &mut impl Read, page: &Page, key: &[u8]) -> Result<Path, Abort> {
        let (mut path, mut above) = (Path::new(), self.root(tx)?);
        while above.at != page.at {
            if above.level <= page.level {
                return Err(KIND.damaged(tx, page.at, "a page to which its keys do not lead"));
            }
            let found = above.search(tx, key)?;
            let (place, child) = Self::child(tx, &above, &found)?;
            path.push(Step { page: above.at, place });
            above = child;
        }
        Ok(path)
    }

    /// Returns the cell of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn find(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Cell>, Abort> {
        let mut search = Find { tree: self, key };
        tx.search_optimistically(&mut search).map_or_else(|| search.search(tx), Ok)
    }

    /// Calls `body` with the cell of `key`, if the tree has the key, and with the words of its value, if they are in the cell's page.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage, and the errors of `body`.
    pub fn read<T: Read, R>(
        &self,
        tx: &mut T,
        key: &[u8],
        body: impl FnOnce(&mut T, Cell, Option<&[u64]>) -> Result<R, Abort>,
    ) -> Result<Option<R>, Abort> {
        let mut search = ReadValue { tree: self, key, value: CellWords::new() };
        let found = tx.search_optimistically(&mut search).map_or_else(|| search.search(tx), Ok)?;
        found.map(|cell| body(tx, cell, (!cell.is_outside()).then_some(&search.value))).transpose()
    }

    /// Returns the place of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn locate(&self, tx: &mut impl Read, key: &[u8]) -> Result<Located, Abort> {
        let mut search = Locate { tree: self, key };
        tx.search_optimistically(&mut search).map_or_else(|| search.search(tx), Ok)
    }

    /// Returns whether the tree has no keys.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn is_empty(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        Ok(self.root(tx)?.cells == 0)
    }

    /// Counts the keys by a walk: adds the numbers of cells in the heads of the leaves. A scan reads the slots and [`len`](Self::len) the
    /// counters, so a difference between the results shows that one of them is wrong.
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
                // Asks the system to read all children from the file together, rather than one after another.
                tx.read_ahead(&mut children, page.words as usize, 0);
            }
            for child in children {
                waiting.push(Page::load(tx, child, Some(page.level - 1))?);
            }
        }
        Ok(count)
    }

    /// Frees all pages, the counters, and the blocks and extents of keys and values outside the pages. The caller frees the header.
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
        // Searches in progress notice this write.
        tx.write(self.top, 0)
    }
}
