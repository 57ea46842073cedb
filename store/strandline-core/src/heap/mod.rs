//! The transactional allocator.
//!
//! The heap is a table of chunks, with a word for each: free, part of a large object, or a *small* chunk that has blocks of one size class
//! and belongs to one arena. A small chunk begins with a bitmap of its blocks. Table and bitmaps are ordinary pool words that transactions
//! read and write, so allocation and freeing commit, roll back and recover with the transaction that made them, and table and bitmaps
//! always show exactly the free space. To allocate a small block usually takes one write, and so does freeing it. A double free is an
//! error.
//!
//! An arena (one for each log) allocates from its own chunks, so that allocations do not make transactions conflict. A block is freed into
//! its own chunk, whichever arena that belongs to. Chunks without an allocated block are available to every arena, like free ones, and when
//! nothing else is left an arena takes blocks from other arenas' chunks (`arena/mod.rs`). A region, which transactions declare
//! ([`crate::transaction::Lock::Region`]), also has an arena, which never shares its chunks. Between transactions an arena keeps only hints
//! about where to look; every bit is read in the transaction before it is taken.
//!
//! ```text
//! reached      chunks that the pool's file holds; the table's words behind them are zero
//! chunk word   0                                    free
//!              1 | class << 8 | arena << 16         small
//!              2 | chunks << 8                      first chunk of a large object
//!              3 | chunks back to the first << 8    further chunk of a large object
//!              4                                    free, but held while its file space is released
//! ```

mod arena;
mod compact;
mod extents;
mod growth;
mod runs;
mod survey;

use crate::error::{Abort, Error};
use crate::memory::{LINE_BYTES, Memory, PAGE_BYTES, PersistentAddress, WORD_BYTES};

use crate::layout::{Layout, View};

pub use arena::Arenas;
pub(crate) use compact::bitmap_area;
pub use compact::{held, hold, release};
pub use extents::is_used;
pub(crate) use extents::{PagesAtHome, are_allocated, may_vacate, pages_at_home, vacated_pages};
pub use growth::{reach_end, reached_by, used_end};
pub use survey::{
    ClassUsage, HeapUsage, chunks_with_room, classes, is_free_from, next_allocated, repair_large_objects,
    usage, usage_in,
};

/// The numbers of arenas from this one on belong to regions.
const REGIONS: u64 = 1 << 16;

/// Returns the region that the block at `at` belongs to, an address inside the chunks.
pub fn region_at<M: Memory>(view: &View<M>, at: PersistentAddress) -> Option<u32> {
    let layout = &view.layout;
    let chunk = chunk_of(layout, at);
    match Chunk::decode(view.memory.peek(table(layout, chunk))) {
        Some(Chunk::Small { arena, .. }) => arena.checked_sub(REGIONS).map(|region| region as u32),
        _ => None,
    }
}

/// The operations of a transaction that the allocator needs.
pub trait Access {
    /// Reads the word at `at` in the transaction.
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort>;
    /// Reads consecutive words in the transaction.
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort>;
    /// Writes a word when the transaction commits.
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort>;
    /// Writes consecutive words when the transaction commits.
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort>;
    /// Returns the word at home, which may be stale or about to change: good for deciding where to look.
    fn hint(&self, at: PersistentAddress) -> u64;
    /// Dooms the transaction: it ends with `error`.
    fn fail(&mut self, error: Error) -> Abort;
    /// Returns a counter that tells whether a compaction holds chunks: if it is even and unchanged, no compaction has held any meanwhile.
    fn holding(&self) -> u64 {
        0
    }
    /// Ends this attempt of the transaction, which found no free chunk while a compaction held some. The transaction runs again when the
    /// compaction has released them.
    fn wait_for_held(&mut self) -> Abort {
        Abort::Conflict
    }
    /// Raises the versions of all lines in the `bytes` bytes at `at` when the transaction commits, as if it wrote there.
    fn raise_versions(&mut self, _at: PersistentAddress, _bytes: u64) -> Result<(), Abort> {
        Ok(())
    }
    /// Notes that this transaction frees the `bytes` bytes at `at`, which are whole pages of extents, or turns them into a chunk of
    /// extents.
    fn note_vacated(&mut self, _at: PersistentAddress, _bytes: u64) {}
    /// Notes that the `bytes` bytes at `at`, which were allocated, are not for extents: most of them will soon be stored to.
    fn expect_stores(&mut self, _at: PersistentAddress, _bytes: u64) {}
    /// Returns whether this transaction is the first that has got the `bytes` bytes at `at`. May return false if it does not know.
    fn is_unused(&self, _at: PersistentAddress, _bytes: u64) -> bool {
        false
    }
    /// Returns a bit mask of those pages of extents, of the `pages` (at most 64) from `at` on, that may still be lent to readers although
    /// they are free.
    fn lent(&self, _at: PersistentAddress, _pages: u64) -> u64 {
        0
    }
    /// Returns the layout of the pool.
    fn layout(&self) -> &Layout;
    /// Returns whether `chunk`, which is free now, has no contents that this transaction may have to restore.
    fn was_free(&self, _chunk: u64) -> bool {
        true
    }
    /// Notes that blocks of `chunk` are freed. Returns whether the transaction avoids the chunk from now on; then no other transaction runs.
    fn note_freed(&mut self, _chunk: u64) -> bool {
        false
    }
    /// Returns whether this transaction takes blocks of `chunk` only if there is no other room, since it has freed some and would have to save what they
    /// had.
    fn avoids(&self, _chunk: u64) -> bool {
        false
    }
    /// Called before the allocator searches for `chunks` free chunks and takes those that it finds.
    fn begin_taking(&mut self, _chunks: u64) -> Result<(), Abort> {
        Ok(())
    }
    /// Makes the pool's file grow to `most` bytes or, if there is no space for as many, to `least`. Returns its length then. The new bytes
    /// can be used immediately, whether the transaction commits or not.
    fn grow(&mut self, _least: u64, most: u64) -> std::io::Result<u64> {
        Ok(most)
    }
    /// Called when the pool has no room or is about to grow: asks for the checkpoints that find out which pages are not lent any more.
    fn expect_returned(&self) {}
    /// Asks for the pool's file to grow to `bytes` bytes later, if this transaction need not wait for that.
    fn foresee(&mut self, _bytes: u64) {}
    /// Allocates disk space in the pool's file for the `bytes` bytes at `at`, before they are handed out.
    fn make_space(&mut self, _at: PersistentAddress, _bytes: u64) -> Result<(), Abort> {
        Ok(())
    }
}

/// Block sizes in bytes, up to a quarter of a chunk; larger allocations take whole chunks. The last class is that of the pages of extents.
const CLASSES: [u64; 26] = [
    16, 32, 48, 64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144,
    8192, 12288, 16384, 32768, 65536, PAGE_BYTES,
];

const FREE: u64 = 0;
const SMALL: u64 = 1;
const LARGE: u64 = 2;
const LARGE_REST: u64 = 3;
const HELD: u64 = 4;

/// The decoded word of a chunk in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Free,
    Small { class: usize, arena: u64 },
    Large { chunks: u64 },
    LargeRest { back: u64 },
    Held,
}

impl Chunk {
    fn decode(word: u64) -> Option<Self> {
        match word & 0xff {
            FREE if word == 0 => Some(Self::Free),
            SMALL => {
                let class = (word >> 8 & 0xff) as usize;
                (class < CLASSES.len()).then_some(Self::Small { class, arena: word >> 16 })
            }
            LARGE => Some(Self::Large { chunks: word >> 8 }),
            LARGE_REST => Some(Self::LargeRest { back: word >> 8 }),
            HELD if word == HELD => Some(Self::Held),
            _ => None,
        }
    }

    fn encode(self) -> u64 {
        match self {
            Self::Free => FREE,
            Self::Small { class, arena } => SMALL | (class as u64) << 8 | arena << 16,
            Self::Large { chunks } => LARGE | chunks << 8,
            Self::LargeRest { back } => LARGE_REST | back << 8,
            Self::Held => HELD,
        }
    }
}

/// 2^64 divided by a divisor, rounded up. A multiplication by this replaces a division, which would cost several times as much as the rest
/// of finding a block.
#[derive(Clone, Copy)]
struct Reciprocal(u64);

impl Reciprocal {
    const fn new(divisor: u64) -> Self {
        Self(u64::MAX / divisor + 1)
    }

    /// Exact while the dividend times the divisor is below 2^64: the rounding adds less than one part in 2^64 of the dividend times the
    /// divisor, so the result never reaches the next quotient.
    fn divide(self, dividend: u64) -> u64 {
        ((u128::from(dividend) * u128::from(self.0)) >> 64) as u64
    }
}

/// The division of a small chunk of a class into header and blocks.
#[derive(Clone, Copy)]
struct Division {
    block: u64,
    blocks: u64,
    header: u64,
    by_block: Reciprocal,
}

/// The smallest and the largest chunk have two to the power of these numbers bytes: see `Layout::new`.
const CHUNK_BITS: (u32, u32) = (12, 30);

/// The divisions for each power of two and each class. Only the powers within [`CHUNK_BITS`] are chunk sizes.
static DIVISIONS: [[Division; CLASSES.len()]; 32] = {
    let none = Division::of(1 << CHUNK_BITS.0, CLASSES[0]);
    let mut all = [[none; CLASSES.len()]; 32];
    let mut bits = CHUNK_BITS.0;
    while bits <= CHUNK_BITS.1 {
        let mut class = 0;
        while class < CLASSES.len() {
            all[bits as usize][class] = Division::of(1 << bits, CLASSES[class]);
            class += 1;
        }
        bits += 1;
    }
    all
};

impl Division {
    fn new(layout: &Layout, class: usize) -> &'static Self {
        // The remainder is always the number itself. It saves the bounds check.
        &DIVISIONS[layout.chunk_bits as usize % DIVISIONS.len()][class]
    }

    const fn of(chunk: u64, block: u64) -> Self {
        // An upper bound, with a bit for each block. To round the bitmap up takes a few blocks away.
        let mut blocks = 8 * chunk / (8 * block + 1);
        loop {
            // Blocks that are whole pages begin at page boundaries, since the system reads page by page.
            let unit = if block.is_multiple_of(PAGE_BYTES) { PAGE_BYTES } else { LINE_BYTES };
            let header = (blocks.div_ceil(64) * 8).next_multiple_of(unit);
            if header + blocks * block <= chunk {
                return Self { block, blocks, header, by_block: Reciprocal::new(block) };
            }
            blocks -= 1;
        }
    }

    /// Returns the number of the block that begins `inside` bytes into its chunk, if a block begins there.
    fn block_at(&self, inside: u64) -> Option<u64> {
        let from_first = inside.checked_sub(self.header)?;
        let number = self.by_block.divide(from_first);
        (number * self.block == from_first && number < self.blocks).then_some(number)
    }

    fn words(&self) -> u64 {
        self.blocks.div_ceil(64)
    }

    /// Returns the bits of bitmap word `word` that belong to blocks.
    fn mask(&self, word: u64) -> u64 {
        match self.blocks - word * 64 {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        }
    }
}

/// Returns the chunk whose word in the table is at `at`, if there is one.
pub(crate) fn chunk_of_word(layout: &Layout, at: PersistentAddress) -> Option<u64> {
    let chunk = at.offset().checked_sub(layout.chunk_table.offset())? / WORD_BYTES;
    (chunk < layout.chunk_count).then_some(chunk)
}

/// Returns the chunk that has the address `at`, if there is one.
pub(crate) fn chunk_at(layout: &Layout, at: PersistentAddress) -> Option<u64> {
    let chunk = at.offset().checked_sub(layout.chunks.offset())? >> layout.chunk_bits;
    (chunk < layout.chunk_count).then_some(chunk)
}

/// Takes a chunk that was free before this transaction, and returns its address. The search begins at chunk number `from`, which it
/// advances, and the heap grows if it reaches the end. `filled` is called before the chunk is marked as taken in the table.
pub(crate) fn take_chunk<A: Access>(
    tx: &mut A,
    from: &mut u64,
    filled: impl FnOnce(&mut A, PersistentAddress),
) -> Result<PersistentAddress, Abort> {
    let bytes = tx.layout().geometry.chunk_bytes;
    let seen = compact::HeldSeen::new(tx);
    loop {
        let chunk = *from;
        let error = match growth::reach(tx, chunk + 1)? {
            Ok(true) => None,
            Ok(false) => Some(Error::Full { bytes }),
            Err(why) => Some(growth::refused(bytes, why)),
        };
        if let Some(error) = error {
            seen.check(tx)?;
            return Err(tx.fail(error));
        }
        *from += 1;
        let (at, word) = (start(tx.layout(), chunk), table(tx.layout(), chunk));
        if tx.was_free(chunk) && tx.read(word)? == FREE {
            tx.make_space(at, bytes)?;
            tx.expect_stores(at, bytes);
            filled(tx, at);
            tx.write(word, Chunk::Large { chunks: 1 }.encode())?;
            return Ok(at);
        }
    }
}

/// Frees a chunk that [`take_chunk`] has taken.
pub(crate) fn give_chunk_back<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<(), Abort> {
    let word = table(tx.layout(), chunk_of(tx.layout(), at));
    tx.write(word, FREE)
}

fn table(layout: &Layout, chunk: u64) -> PersistentAddress {
    layout.chunk_table.word_inside(chunk)
}

/// Returns the chunk that has `at`, an address inside the chunks.
fn chunk_of(layout: &Layout, at: PersistentAddress) -> u64 {
    (at.offset() - layout.chunks.offset()) >> layout.chunk_bits
}

fn start(layout: &Layout, chunk: u64) -> PersistentAddress {
    PersistentAddress::new(layout.chunks.offset() + (chunk << layout.chunk_bits))
}

/// Returns the offset of `at` in its chunk, in bytes. `at` must be inside the chunks.
fn inside(layout: &Layout, at: PersistentAddress) -> u64 {
    // Chunks are aligned to their size.
    at.offset() & (layout.geometry.chunk_bytes - 1)
}

fn class_of(layout: &Layout, bytes: u64) -> Option<usize> {
    CLASSES[..extents::CLASS]
        .iter()
        .position(|&size| bytes <= size)
        .filter(|&class| CLASSES[class] <= layout.geometry.chunk_bytes / 4)
}

/// Returns the size in bytes of the block that an allocation of `bytes` bytes gets.
pub fn block_bytes(layout: &Layout, bytes: u64) -> u64 {
    class_of(layout, bytes)
        .map_or_else(|| bytes.next_multiple_of(layout.geometry.chunk_bytes), |class| CLASSES[class])
}

/// Returns the bytes of the block that begins at `at`. The transaction also reads the block, so it conflicts there if another one frees the
/// block meanwhile. So the table at home is enough if it shows a block; if not, [`find_block`] confirms that in the transaction.
pub fn block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<u64, Abort> {
    match seen_block(tx, at) {
        Some(bytes) => Ok(bytes),
        None => find_block(tx, at)?.ok_or_else(|| tx.fail(Error::InvalidAddress(at.offset()))),
    }
}

/// Like [`block`], but reads only the table at home; `None` if that shows no block.
#[inline(never)]
pub fn seen_block<A: Access>(tx: &A, at: PersistentAddress) -> Option<u64> {
    let layout = tx.layout();
    block_in(layout, at, tx.hint(table(layout, chunk_at(layout, at)?)))
}

/// Returns the bytes of the block that begins at `at`, inside the chunks, if there is one according to `word`, the word of its chunk in the
/// table.
fn block_in(layout: &Layout, at: PersistentAddress, word: u64) -> Option<u64> {
    let inside = inside(layout, at);
    match Chunk::decode(word) {
        Some(Chunk::Small { class, .. }) => {
            let division = Division::new(layout, class);
            division.block_at(inside).map(|_| division.block)
        }
        Some(Chunk::Large { chunks }) => {
            let is_first = inside == 0 && chunks <= layout.chunk_count - chunk_of(layout, at);
            is_first.then(|| chunks * layout.geometry.chunk_bytes)
        }
        _ => None,
    }
}

/// Returns whether an allocated block begins at `at`.
pub fn is_allocated<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<bool, Abort> {
    if find_block(tx, at)?.is_none() {
        return Ok(false);
    }
    let chunk = chunk_of(tx.layout(), at);
    let base = start(tx.layout(), chunk);
    let at_table = table(tx.layout(), chunk);
    let Some(Chunk::Small { class, .. }) = Chunk::decode(tx.read(at_table)?) else {
        return Ok(true);
    };
    let Some(number) = Division::new(tx.layout(), class).block_at(inside(tx.layout(), at)) else {
        return Ok(false);
    };
    Ok(tx.read(base.word(number / 64))? >> (number % 64) & 1 == 1)
}

/// Returns whether `at`, inside the chunks, is in a free chunk or in a free block.
pub(crate) fn is_vacant<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<bool, Abort> {
    let chunk = chunk_of(tx.layout(), at);
    let base = start(tx.layout(), chunk);
    let word = tx.read(table(tx.layout(), chunk))?;
    if word == FREE {
        return Ok(true);
    }
    let Some(Chunk::Small { class, .. }) = Chunk::decode(word) else { return Ok(false) };
    let division = Division::new(tx.layout(), class);
    let Some(inside) = inside(tx.layout(), at).checked_sub(division.header) else { return Ok(false) };
    let number = inside / division.block;
    // The rest of a chunk behind its last block counts as used.
    if division.block_at(division.header + number * division.block).is_none() {
        return Ok(false);
    }
    Ok(tx.read(base.word(number / 64))? >> (number % 64) & 1 == 0)
}

/// Returns the bytes of the block that begins at `at`, if there is one.
pub fn find_block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<Option<u64>, Abort> {
    let layout = tx.layout();
    let Some(chunk) = chunk_at(layout, at) else { return Ok(None) };
    let word = tx.read(table(layout, chunk))?;
    Ok(block_in(tx.layout(), at, word))
}

/// Returns whether no block of a chunk is allocated, as a hint.
fn seems_empty<A: Access>(tx: &A, chunk: u64, division: &Division) -> bool {
    let base = start(tx.layout(), chunk);
    (0..division.words()).all(|word| tx.hint(base.word_inside(word)) == 0)
}

/// Returns the number of free blocks in a chunk, as a hint.
fn room<A: Access>(tx: &A, chunk: u64, division: &Division) -> u64 {
    let base = start(tx.layout(), chunk);
    let free = |word| (!tx.hint(base.word_inside(word)) & division.mask(word)).count_ones();
    (0..division.words()).map(|word| u64::from(free(word))).sum()
}

/// Returns whether no block of a small chunk is allocated, read in the transaction.
fn is_empty<A: Access>(tx: &mut A, chunk: u64, class: usize) -> Result<bool, Abort> {
    let (division, base) = (Division::new(tx.layout(), class), start(tx.layout(), chunk));
    for word in 0..division.words() {
        if tx.read(base.word_inside(word))? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
