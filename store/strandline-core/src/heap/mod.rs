//! The transactional allocator.
//!
//! The heap is a table of chunks, a word for each: free, part of a large object, or a *small* chunk that
//! holds blocks of one size class and belongs to one arena. A small chunk begins with a bitmap of its blocks.
//! Table and bitmaps are ordinary pool words that transactions read and write, so allocation and freeing
//! commit, roll back and recover with the transaction that made them, and free space is what the table and
//! the bitmaps say, always. Allocating a small block usually writes one word, and so does freeing it. A double free is an error.
//!
//! An arena (one for each log) allocates from its own chunks, so that allocating does not make transactions
//! conflict; a block is freed into the chunk it lies in, whosever it is. Chunks without a block serve everybody as free ones do, and
//! when nothing is left an arena takes from others (`arena/mod.rs`). A region, which transactions declare ([`crate::transaction::Lock::Region`]), has an arena too,
//! whose chunks are its alone. What an arena remembers between transactions are hints about where to look; every bit is
//! read in the transaction before it is taken.
//!
//! ```text
//! reached      chunks that the pool's file holds; the table's words behind them are zero
//! chunk word   0                                    free
//!              1 | class << 8 | arena << 16         small
//!              2 | chunks << 8                      first chunk of a large object
//!              3 | chunks back to the first << 8    further chunk of a large object
//!              4                                    free, but held while its file space is given back
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
    ClassUsage, HeapUsage, chunks_with_room, classes, is_free_from, mend_large_objects, next_allocated,
    usage, usage_in,
};

/// Arenas from this number on are those of regions.
const REGIONS: u64 = 1 << 16;

/// The region that the block at `at`, an address inside the chunks, belongs to.
pub fn region_at<M: Memory>(view: &View<M>, at: PersistentAddress) -> Option<u32> {
    let layout = &view.layout;
    let chunk = chunk_of(layout, at);
    match Chunk::decode(view.memory.peek(table(layout, chunk))) {
        Some(Chunk::Small { arena, .. }) => arena.checked_sub(REGIONS).map(|region| region as u32),
        _ => None,
    }
}

/// What the allocator needs of a transaction.
pub trait Access {
    /// Reads the word at `at` in the transaction.
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort>;
    /// Reads consecutive words in the transaction.
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort>;
    /// Writes a word when the transaction commits.
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort>;
    /// Writes consecutive words when the transaction commits.
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort>;
    /// The word at home, which may be stale or in the making: good for deciding where to look.
    fn hint(&self, at: PersistentAddress) -> u64;
    /// Dooms the transaction: it ends with `error`.
    fn fail(&mut self, error: Error) -> Abort;
    /// What tells whether a compaction holds chunks: unchanged and even, no compaction has held any since.
    fn holding(&self) -> u64 {
        0
    }
    /// Ends this attempt of the transaction, which found no free chunk while a compaction held some: it is made again once that has released
    /// them.
    fn wait_for_held(&mut self) -> Abort {
        Abort::Conflict
    }
    /// Raises the versions of all lines in the `bytes` bytes at `at` when the transaction commits, as if it wrote there.
    fn raise_versions(&mut self, _at: PersistentAddress, _bytes: u64) -> Result<(), Abort> {
        Ok(())
    }
    /// Notes that this transaction frees the `bytes` bytes at `at`, which are whole pages of extents, or makes them part of a chunk of extents.
    fn note_vacated(&mut self, _at: PersistentAddress, _bytes: u64) {}
    /// The `bytes` bytes at `at`, which were handed out, are not for extents: much of them will soon be stored to.
    fn expect_stores(&mut self, _at: PersistentAddress, _bytes: u64) {}
    /// Returns whether this transaction is the first that was handed out the `bytes` bytes at `at`. It may return false if it does not know.
    fn is_unused(&self, _at: PersistentAddress, _bytes: u64) -> bool {
        false
    }
    /// Returns which of the `pages` pages of extents from the one at `at` on, 64 at most, may still be lent to readers though they are free, as bits.
    fn lent(&self, _at: PersistentAddress, _pages: u64) -> u64 {
        0
    }
    /// Where the heap lies.
    fn layout(&self) -> &Layout;
    /// Whether nothing that this transaction may have to put back lies in `chunk`, which is free now.
    fn was_free(&self, _chunk: u64) -> bool {
        true
    }
    /// The allocator looks for so many free chunks, and is about to take those that it finds.
    fn begin_taking(&mut self, _chunks: u64) -> Result<(), Abort> {
        Ok(())
    }
    /// Has the pool's file grow to `most` bytes, or where there is no room for so many to `least`; how many it has then. They can be
    /// used at once, whether the transaction commits or not.
    fn grow(&mut self, _least: u64, most: u64) -> std::io::Result<u64> {
        Ok(most)
    }
    /// The pool has no room, or is about to grow: what is lent no more is to be told from what is.
    fn expect_returned(&self) {}
    /// Has the pool's file grow to `bytes` bytes some time, if that can be without this transaction's waiting for it.
    fn foresee(&mut self, _bytes: u64) {}
    /// Sees to it that the pool's file has space for the `bytes` bytes at `at`, before they are handed out.
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

/// A chunk's word, taken apart.
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

/// 2^64 divided by a divisor, rounded up: a multiplication instead of a division, which would cost several times as much
/// as all else that finding a block takes.
#[derive(Clone, Copy)]
struct Reciprocal(u64);

impl Reciprocal {
    const fn new(divisor: u64) -> Self {
        Self(u64::MAX / divisor + 1)
    }

    /// Exact while the dividend times the divisor is below 2^64: the rounding adds less than one part in 2^64 of the
    /// dividend times the divisor, hence never reaches the next quotient.
    fn divide(self, dividend: u64) -> u64 {
        ((u128::from(dividend) * u128::from(self.0)) >> 64) as u64
    }
}

/// How a small chunk of a class is divided.
#[derive(Clone, Copy)]
struct Division {
    block: u64,
    blocks: u64,
    header: u64,
    by_block: Reciprocal,
}

/// The smallest and the largest chunk have 2 to these powers bytes: `Layout::new`.
const CHUNK_BITS: (u32, u32) = (12, 30);

/// For each power of two, of which only those of [`CHUNK_BITS`] are chunk sizes, and each class.
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
        // The remainder is the number itself, and needs no check.
        &DIVISIONS[layout.chunk_bits as usize % DIVISIONS.len()][class]
    }

    const fn of(chunk: u64, block: u64) -> Self {
        // More cannot be with a bit for each; rounding the bitmap up takes a few away.
        let mut blocks = 8 * chunk / (8 * block + 1);
        loop {
            // Blocks of whole pages are pages, each of which the system reads by itself.
            let unit = if block.is_multiple_of(PAGE_BYTES) { PAGE_BYTES } else { LINE_BYTES };
            let header = (blocks.div_ceil(64) * 8).next_multiple_of(unit);
            if header + blocks * block <= chunk {
                return Self { block, blocks, header, by_block: Reciprocal::new(block) };
            }
            blocks -= 1;
        }
    }

    /// The number of the block that begins `inside` bytes into its chunk, if one does.
    fn block_at(&self, inside: u64) -> Option<u64> {
        let from_first = inside.checked_sub(self.header)?;
        let number = self.by_block.divide(from_first);
        (number * self.block == from_first && number < self.blocks).then_some(number)
    }

    fn words(&self) -> u64 {
        self.blocks.div_ceil(64)
    }

    /// The bits of bitmap word `word` that stand for blocks.
    fn mask(&self, word: u64) -> u64 {
        match self.blocks - word * 64 {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        }
    }
}

/// The chunk whose word in the table lies at `at`, if one does.
pub(crate) fn chunk_of_word(layout: &Layout, at: PersistentAddress) -> Option<u64> {
    let chunk = at.offset().checked_sub(layout.chunk_table.offset())? / WORD_BYTES;
    (chunk < layout.chunk_count).then_some(chunk)
}

/// The chunk that `at` lies in, if it lies in one.
pub(crate) fn chunk_at(layout: &Layout, at: PersistentAddress) -> Option<u64> {
    let chunk = at.offset().checked_sub(layout.chunks.offset())? >> layout.chunk_bits;
    (chunk < layout.chunk_count).then_some(chunk)
}

/// Takes a chunk that was free before this transaction; where it begins. It is looked for from chunk number `from` on, which goes on,
/// and past the end of the heap, which grows. `filled` is called before the table says that it is taken.
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

/// Gives back a chunk that [`take_chunk`] has taken.
pub(crate) fn give_chunk_back<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<(), Abort> {
    let word = table(tx.layout(), chunk_of(tx.layout(), at));
    tx.write(word, FREE)
}

fn table(layout: &Layout, chunk: u64) -> PersistentAddress {
    layout.chunk_table.word_inside(chunk)
}

/// The chunk that `at`, an address inside the chunks, lies in.
fn chunk_of(layout: &Layout, at: PersistentAddress) -> u64 {
    (at.offset() - layout.chunks.offset()) >> layout.chunk_bits
}

fn start(layout: &Layout, chunk: u64) -> PersistentAddress {
    PersistentAddress::new(layout.chunks.offset() + (chunk << layout.chunk_bits))
}

/// How many bytes into its chunk `at`, an address inside the chunks, lies.
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

/// Bytes of the block that an allocation of `bytes` bytes takes.
pub fn block_bytes(layout: &Layout, bytes: u64) -> u64 {
    class_of(layout, bytes)
        .map_or_else(|| bytes.next_multiple_of(layout.geometry.chunk_bytes), |class| CLASSES[class])
}

/// Bytes of the block that begins at `at`, which the transaction reads as well: if somebody frees the block meanwhile, it conflicts
/// there, and so a look at the table as it is at home is enough where that says what was expected. What else it says has to be confirmed
/// by [`find_block`].
pub fn block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<u64, Abort> {
    match seen_block(tx, at) {
        Some(bytes) => Ok(bytes),
        None => find_block(tx, at)?.ok_or_else(|| tx.fail(Error::InvalidAddress(at.offset()))),
    }
}

/// The same by the look at home alone, if that finds one.
#[inline(never)]
pub fn seen_block<A: Access>(tx: &A, at: PersistentAddress) -> Option<u64> {
    let layout = tx.layout();
    block_in(layout, at, tx.hint(table(layout, chunk_at(layout, at)?)))
}

/// Bytes of the block that begins at `at`, inside the chunks, if one does by this word of the table.
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

/// Whether a block that is allocated begins at `at`.
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

/// Whether nothing is at `at`, inside the chunks: neither a block that is allocated, nor what leads to blocks.
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
    // Behind the last block there is nothing.
    if division.block_at(division.header + number * division.block).is_none() {
        return Ok(false);
    }
    Ok(tx.read(base.word(number / 64))? >> (number % 64) & 1 == 0)
}

/// Bytes of the block that begins at `at`, if one does.
pub fn find_block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<Option<u64>, Abort> {
    let layout = tx.layout();
    let Some(chunk) = chunk_at(layout, at) else { return Ok(None) };
    let word = tx.read(table(layout, chunk))?;
    Ok(block_in(tx.layout(), at, word))
}

/// Whether no block of a chunk is allocated, as far as one can tell.
fn seems_empty<A: Access>(tx: &A, chunk: u64, division: &Division) -> bool {
    let base = start(tx.layout(), chunk);
    (0..division.words()).all(|word| tx.hint(base.word_inside(word)) == 0)
}

/// Free blocks of a chunk, as far as one can tell.
fn room<A: Access>(tx: &A, chunk: u64, division: &Division) -> u64 {
    let base = start(tx.layout(), chunk);
    let free = |word| (!tx.hint(base.word_inside(word)) & division.mask(word)).count_ones();
    (0..division.words()).map(|word| u64::from(free(word))).sum()
}

/// Whether no block of a small chunk is allocated, read in the transaction.
fn is_empty<A: Access>(tx: &mut A, chunk: u64, class: usize) -> Result<bool, Abort> {
    let (division, base) = (Division::new(tx.layout(), class), start(tx.layout(), chunk));
    for word in 0..division.words() {
        if tx.read(base.word_inside(word))? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
