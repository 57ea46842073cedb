//! The transactional allocator.
//!
//! The heap is a table of chunks, a word for each: free, part of a large object, or a *small* chunk that
//! holds blocks of one size class and belongs to one arena. A small chunk begins with a bitmap of its blocks.
//! Table and bitmaps are ordinary pool words that transactions read and write, so allocation and freeing
//! commit, roll back and recover with the transaction that made them, and free space is what the table and
//! the bitmaps say, always.
//!
//! An arena (one for each log) allocates from its own chunks, so that allocating does not make transactions
//! conflict; a block is freed into the chunk it lies in, whosever it is. When nothing is left an arena takes
//! from others. A region, which transactions declare ([`crate::transaction::Lock::Region`]), has an arena too,
//! whose chunks are its alone. What an arena remembers between transactions are hints about where to look; every bit is
//! read in the transaction before it is taken.
//!
//! ```text
//! chunk word   0                                    free
//!              1 | class << 8 | arena << 16         small
//!              2 | chunks << 8                      first chunk of a large object
//!              3 | chunks back to the first << 8    further chunk of a large object
//! ```

use std::collections::HashMap;

use crate::error::Abort;
use crate::error::{Error, Result};
use crate::memory::{LINE_BYTES, Memory, PersistentAddress};

use crate::layout::{Layout, View};

/// Arenas from this number on are those of regions.
const REGIONS: u64 = 1 << 16;

/// The region that the block at `at`, an address inside the chunks, belongs to.
#[inline]
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
    /// Where the heap lies.
    fn layout(&self) -> &Layout;
    /// Sees to it that the pool's file has space for the `bytes` bytes at `at`, before they are handed out.
    fn make_space(&mut self, _at: PersistentAddress, _bytes: u64) -> Result<(), Abort> {
        Ok(())
    }
}

/// Block sizes in bytes, up to a quarter of a chunk; larger allocations take whole chunks.
const CLASSES: [u64; 25] = [
    16, 32, 48, 64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144,
    8192, 12288, 16384, 32768, 65536,
];

const FREE: u64 = 0;
const SMALL: u64 = 1;
const LARGE: u64 = 2;
const LARGE_REST: u64 = 3;

/// A chunk's word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Free,
    Small { class: usize, arena: u64 },
    Large { chunks: u64 },
    LargeRest { back: u64 },
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
            _ => None,
        }
    }

    fn encode(self) -> u64 {
        match self {
            Self::Free => FREE,
            Self::Small { class, arena } => SMALL | (class as u64) << 8 | arena << 16,
            Self::Large { chunks } => LARGE | chunks << 8,
            Self::LargeRest { back } => LARGE_REST | back << 8,
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

/// For each chunk size and class.
static DIVISIONS: [[Division; CLASSES.len()]; (CHUNK_BITS.1 - CHUNK_BITS.0 + 1) as usize] = {
    let none = Division::of(1 << CHUNK_BITS.0, CLASSES[0]);
    let mut all = [[none; CLASSES.len()]; (CHUNK_BITS.1 - CHUNK_BITS.0 + 1) as usize];
    let mut bits = CHUNK_BITS.0;
    while bits <= CHUNK_BITS.1 {
        let mut class = 0;
        while class < CLASSES.len() {
            all[(bits - CHUNK_BITS.0) as usize][class] = Division::of(1 << bits, CLASSES[class]);
            class += 1;
        }
        bits += 1;
    }
    all
};

impl Division {
    #[inline(always)]
    fn new(layout: &Layout, class: usize) -> &'static Self {
        let bits = layout.geometry.chunk_bytes.trailing_zeros();
        &DIVISIONS[(bits - CHUNK_BITS.0) as usize][class]
    }

    const fn of(chunk: u64, block: u64) -> Self {
        // More cannot be with a bit for each; rounding the bitmap up takes a few away.
        let mut blocks = 8 * chunk / (8 * block + 1);
        loop {
            let header = (blocks.div_ceil(64) * 8).next_multiple_of(LINE_BYTES);
            if header + blocks * block <= chunk {
                return Self { block, blocks, header, by_block: Reciprocal::new(block) };
            }
            blocks -= 1;
        }
    }

    /// The number of the block that begins `inside` bytes into its chunk, if one does.
    #[inline]
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

fn table(layout: &Layout, chunk: u64) -> PersistentAddress {
    layout.chunk_table.word_inside(chunk)
}

/// The chunk that `at`, an address inside the chunks, lies in.
fn chunk_of(layout: &Layout, at: PersistentAddress) -> u64 {
    // A chunk's size is a power of two: `Layout::new`.
    (at.offset() - layout.chunks.offset()) >> layout.geometry.chunk_bytes.trailing_zeros()
}

fn start(layout: &Layout, chunk: u64) -> PersistentAddress {
    layout.chunks.word_inside(chunk * (layout.geometry.chunk_bytes / 8))
}

fn class_of(layout: &Layout, bytes: u64) -> Option<usize> {
    CLASSES
        .iter()
        .position(|&size| bytes <= size)
        .filter(|&class| CLASSES[class] <= layout.geometry.chunk_bytes / 4)
}

/// Where an arena looks first for blocks of one class.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The chunk's number plus one; 0 for none.
    chunk: u64,
    /// The next word of its bitmap to look at.
    word: u64,
    /// The chunk was free when the arena took it: what its bitmap's words hold at home may be the contents of
    /// whatever was there before, and no hint, until that transaction has committed.
    fresh: bool,
    /// Blocks of the class that this arena's worker has freed and not yet looked for.
    freed: u64,
}

/// An arena's hints. They may be wrong, and may be forgotten, without harm.
struct Arena {
    index: u64,
    cursors: [Cursor; CLASSES.len()],
}

/// The arenas that a worker allocates from: its own, and those of the regions that its transactions declare.
pub struct Arenas {
    own: Arena,
    regions: HashMap<u32, Arena>,
}

impl Arenas {
    /// Those of the worker with arena `index`.
    pub fn new(index: u64) -> Self {
        Self { own: Arena::new(index), regions: HashMap::new() }
    }

    /// The arena of a transaction that declared `region`. Everybody who does allocates from the region's chunks,
    /// whatever isolates transactions, so that a pool filled under one scheme can be used under all.
    fn of(&mut self, region: Option<u32>) -> &mut Arena {
        match region {
            Some(region) => {
                self.regions.entry(region).or_insert_with(|| Arena::new(REGIONS + u64::from(region)))
            }
            None => &mut self.own,
        }
    }

    /// Allocates at least `bytes` bytes, from the chunks of `region` where the transaction declared one.
    ///
    /// # Errors
    /// No room is left, or a conflict.
    pub fn alloc<A: Access>(
        &mut self,
        tx: &mut A,
        region: Option<u32>,
        bytes: u64,
    ) -> Result<PersistentAddress, Abort> {
        self.of(region).alloc(tx, bytes)
    }

    /// Frees the block that begins at `at`.
    ///
    /// # Errors
    /// No allocated block begins there, or a conflict.
    pub fn free<A: Access>(
        &mut self,
        tx: &mut A,
        region: Option<u32>,
        at: PersistentAddress,
    ) -> Result<(), Abort> {
        self.of(region).free(tx, at)
    }
}

impl Arena {
    fn new(index: u64) -> Self {
        Self { index, cursors: Default::default() }
    }

    /// Whether it may allocate from chunks of arena `owner`: regions keep to their own chunks, and others out of
    /// them, since a region's lock covers its chunks.
    fn may_use(&self, owner: u64) -> bool {
        owner == self.index || owner.max(self.index) < REGIONS
    }

    fn alloc<A: Access>(&mut self, tx: &mut A, bytes: u64) -> Result<PersistentAddress, Abort> {
        let found = match class_of(tx.layout(), bytes) {
            Some(class) => self.alloc_small(tx, class)?,
            None => self.alloc_large(tx, bytes)?,
        };
        found.ok_or_else(|| tx.fail(Error::Full(bytes)))
    }

    fn alloc_small<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let division = Division::new(tx.layout(), class);
        if let Some(block) = self.alloc_at_cursor(tx, class, division)? {
            return Ok(Some(block));
        }
        // The chunk is exhausted. Chunks of the arena in which much was freed, a free chunk, any chunk of
        // the arena with room, any chunk of the class, and free chunks that are small chunks by name only.
        let own = Chunk::Small { class, arena: self.index }.encode();
        if self.cursors[class].freed >= division.blocks / 2 {
            self.cursors[class].freed = 0;
            if let Some(block) = self.alloc_from(tx, class, division, division.blocks / 8, |w| w == own)? {
                return Ok(Some(block));
            }
        }
        if let Some(chunk) = take_run(tx, 1, Look::AtHints)? {
            return self.alloc_in_new_chunk(tx, class, division, chunk);
        }
        if let Some(block) = self.alloc_from(tx, class, division, 1, |w| w == own)? {
            return Ok(Some(block));
        }
        if self.index < REGIONS {
            let any = |word: u64| {
                matches!(Chunk::decode(word), Some(Chunk::Small { class: c, arena })
                    if c == class && arena < REGIONS)
            };
            if let Some(block) = self.alloc_from(tx, class, division, 1, any)? {
                return Ok(Some(block));
            }
        }
        reclaim(tx)?;
        if let Some(chunk) = take_run(tx, 1, Look::Everywhere)? {
            return self.alloc_in_new_chunk(tx, class, division, chunk);
        }
        Ok(None)
    }

    /// Makes the free chunk `chunk` this arena's, for blocks of `class`, and allocates the first.
    fn alloc_in_new_chunk<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        chunk: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let (at, base) = (table(tx.layout(), chunk), start(tx.layout(), chunk));
        tx.write(at, Chunk::Small { class, arena: self.index }.encode())?;
        for word in 0..division.words() {
            if tx.read(base.word(word))? != 0 {
                tx.write(base.word(word), 0)?;
            }
        }
        self.cursors[class] = Cursor { chunk: chunk + 1, word: 0, fresh: true, ..self.cursors[class] };
        self.alloc_at_cursor(tx, class, division)
    }

    /// Takes the next free block of the cursor's chunk.
    #[inline]
    fn alloc_at_cursor<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let Some(chunk) = self.cursors[class].chunk.checked_sub(1) else { return Ok(None) };
        // The chunk may have been reclaimed, or its allocation rolled back, and another arena's, since.
        let usable = matches!(
            Chunk::decode(tx.read(table(tx.layout(), chunk))?),
            Some(Chunk::Small { class: c, arena }) if c == class && self.may_use(arena)
        );
        let cursor = &mut self.cursors[class];
        if !usable {
            cursor.chunk = 0;
            return Ok(None);
        }
        let base = start(tx.layout(), chunk);
        while cursor.word < division.words() {
            let (at, mask) = (base.word_inside(cursor.word), division.mask(cursor.word));
            // A word full of blocks is left alone even though this transaction may have freed some.
            if cursor.fresh || tx.hint(at) & mask != mask {
                let used = tx.read(at)?;
                let free = !used & mask;
                if free != 0 {
                    let bit = free.trailing_zeros();
                    tx.write(at, used | 1 << bit)?;
                    let number = cursor.word * 64 + u64::from(bit);
                    return Ok(Some(base.byte(division.header + number * division.block)));
                }
            }
            cursor.word += 1;
        }
        cursor.chunk = 0;
        Ok(None)
    }

    /// Moves the cursor to a chunk that `wanted` accepts and that has `least` free blocks, and allocates.
    fn alloc_from<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        least: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<PersistentAddress>, Abort> {
        for chunk in 0..tx.layout().chunk_count {
            if !wanted(tx.hint(table(tx.layout(), chunk))) {
                continue;
            }
            let base = start(tx.layout(), chunk);
            let free: u64 = (0..division.words())
                .map(|word| u64::from((!tx.hint(base.word(word)) & division.mask(word)).count_ones()))
                .sum();
            if free >= least.max(1) {
                self.cursors[class] =
                    Cursor { chunk: chunk + 1, word: 0, fresh: false, ..self.cursors[class] };
                if let Some(block) = self.alloc_at_cursor(tx, class, division)? {
                    return Ok(Some(block));
                }
            }
        }
        Ok(None)
    }

    fn alloc_large<A: Access>(&mut self, tx: &mut A, bytes: u64) -> Result<Option<PersistentAddress>, Abort> {
        let chunks = bytes.div_ceil(tx.layout().geometry.chunk_bytes);
        if chunks > tx.layout().chunk_count {
            return Ok(None);
        }
        let found = match take_run(tx, chunks, Look::AtHints)? {
            Some(first) => Some(first),
            None => {
                reclaim(tx)?;
                take_run(tx, chunks, Look::Everywhere)?
            }
        };
        let Some(first) = found else { return Ok(None) };
        for back in 0..chunks {
            let word = if back == 0 { Chunk::Large { chunks } } else { Chunk::LargeRest { back } };
            tx.write(table(tx.layout(), first + back), word.encode())?;
        }
        Ok(Some(start(tx.layout(), first)))
    }

    fn free<A: Access>(&mut self, tx: &mut A, at: PersistentAddress) -> Result<(), Abort> {
        let layout = *tx.layout();
        let invalid = Error::InvalidFree(at.offset());
        if at < layout.chunks || at >= layout.end() {
            return Err(tx.fail(invalid));
        }
        let chunk = chunk_of(&layout, at);
        let base = start(&layout, chunk);
        match Chunk::decode(tx.read(table(&layout, chunk))?) {
            Some(Chunk::Small { class, .. }) => {
                let division = Division::new(&layout, class);
                let Some(number) = division.block_at(at.offset() - base.offset()) else {
                    return Err(tx.fail(invalid));
                };
                let (word, bit) = (base.word_inside(number / 64), 1 << (number % 64));
                let used = tx.read(word)?;
                if used & bit == 0 {
                    return Err(tx.fail(invalid));
                }
                tx.write(word, used & !bit)?;
                self.cursors[class].freed += 1;
                Ok(())
            }
            Some(Chunk::Large { chunks }) if at == base && chunk + chunks <= layout.chunk_count => {
                for number in chunk..chunk + chunks {
                    tx.write(table(&layout, number), FREE)?;
                }
                Ok(())
            }
            _ => Err(tx.fail(invalid)),
        }
    }
}

/// Bytes of the block that begins at `at`, which the transaction reads as well: if somebody frees the block meanwhile, it conflicts
/// there, and so a look at the table as it is at home is enough where that says what was expected.
pub fn block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<u64, Abort> {
    let layout = tx.layout();
    if at >= layout.chunks && at < layout.end() {
        let word = tx.hint(table(layout, chunk_of(layout, at)));
        if let Some(bytes) = block_in(layout, at, word) {
            return Ok(bytes);
        }
    }
    find_block(tx, at)?.ok_or_else(|| tx.fail(Error::InvalidAddress(at.offset())))
}

/// Bytes of the block that begins at `at`, inside the chunks, if one does by this word of the table.
#[inline]
fn block_in(layout: &Layout, at: PersistentAddress, word: u64) -> Option<u64> {
    let chunk = chunk_of(layout, at);
    let inside = at.offset() - start(layout, chunk).offset();
    match Chunk::decode(word) {
        Some(Chunk::Small { class, .. }) => {
            let division = Division::new(layout, class);
            division.block_at(inside).map(|_| division.block)
        }
        Some(Chunk::Large { chunks }) => {
            let is_first = inside == 0 && chunks <= layout.chunk_count - chunk;
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
    let Some(number) = Division::new(tx.layout(), class).block_at(at.offset() - base.offset()) else {
        return Ok(false);
    };
    Ok(tx.read(base.word(number / 64))? >> (number % 64) & 1 == 1)
}

/// Bytes of the block that begins at `at`, if one does.
#[inline]
pub fn find_block<A: Access>(tx: &mut A, at: PersistentAddress) -> Result<Option<u64>, Abort> {
    let layout = tx.layout();
    if at < layout.chunks || at >= layout.end() {
        return Ok(None);
    }
    let word = tx.read(table(layout, chunk_of(layout, at)))?;
    Ok(block_in(tx.layout(), at, word))
}

/// Which table words to read in the transaction when looking for free chunks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Those that are free at home.
    AtHints,
    /// All: this transaction itself may have freed some.
    Everywhere,
}

/// The first of `chunks` consecutive free chunks, read in the transaction.
fn take_run<A: Access>(tx: &mut A, chunks: u64, look: Look) -> Result<Option<u64>, Abort> {
    let mut length = 0;
    for chunk in 0..tx.layout().chunk_count {
        let at = table(tx.layout(), chunk);
        if (look == Look::Everywhere || tx.hint(at) == FREE) && tx.read(at)? == FREE {
            length += 1;
            if length == chunks {
                let (first, bytes) = (chunk + 1 - chunks, chunks * tx.layout().geometry.chunk_bytes);
                let at = start(tx.layout(), first);
                tx.make_space(at, bytes)?;
                return Ok(Some(first));
            }
        } else {
            length = 0;
        }
    }
    Ok(None)
}

/// Frees the small chunks in which every block is free.
fn reclaim<A: Access>(tx: &mut A) -> Result<(), Abort> {
    let layout = *tx.layout();
    for chunk in 0..layout.chunk_count {
        let Some(Chunk::Small { class, .. }) = Chunk::decode(tx.hint(table(&layout, chunk))) else {
            continue;
        };
        let (division, base) = (Division::new(&layout, class), start(&layout, chunk));
        let words = || (0..division.words()).map(|word| base.word(word));
        if words().any(|at| tx.hint(at) != 0) {
            continue;
        }
        let mut empty = matches!(Chunk::decode(tx.read(table(&layout, chunk))?), Some(Chunk::Small { class: c, .. }) if c == class);
        for at in words() {
            empty = empty && tx.read(at)? == 0;
        }
        if empty {
            tx.write(table(&layout, chunk), FREE)?;
        }
    }
    Ok(())
}

/// Whether no chunk that reaches beyond byte `from` of the pool's file is in use.
pub fn is_free_from<M: Memory>(view: &View<M>, from: u64) -> bool {
    let layout = &view.layout;
    from >= layout.chunks.offset()
        && (chunk_of(layout, PersistentAddress::new(from))..layout.chunk_count)
            .all(|chunk| view.memory.load(table(layout, chunk)) == FREE)
}

/// Mends the words of large objects in a chunk table where the object's other words tell what they were; the chunks
/// whose words were changed. Each object's first word says how many chunks it has, and each other one how far back the
/// first is, so that first and last confirm each other; where they do not, one word alone must be at fault, and
/// plainly.
pub fn mend_large_objects(table: &mut [u64]) -> Vec<u64> {
    let mut mended = Vec::new();
    let rest = |back: usize| Chunk::LargeRest { back: back as u64 }.encode();
    let mut first = 0;
    while first < table.len() {
        // As many further chunks follow in unbroken order.
        let run = table[first + 1..].iter().zip(1..).take_while(|&(&word, back)| word == rest(back)).count();
        let chunks = match Chunk::decode(table[first]) {
            Some(Chunk::Large { chunks }) if (1..=(table.len() - first) as u64).contains(&chunks) => {
                let chunks = chunks as usize;
                let wrong: Vec<_> = (1..chunks).filter(|&back| table[first + back] != rest(back)).collect();
                let confirmed = chunks > 1 && table[first + chunks - 1] == rest(chunks - 1);
                let plainly = |back: usize| {
                    matches!(Chunk::decode(table[first + back]), None | Some(Chunk::LargeRest { .. }))
                };
                if confirmed || (wrong.len() == 1 && plainly(wrong[0])) {
                    for back in wrong {
                        table[first + back] = rest(back);
                        mended.push((first + back) as u64);
                    }
                }
                // More words than one say that there are more chunks.
                if run > chunks { run + 1 } else { chunks }
            }
            None | Some(Chunk::LargeRest { .. }) if run > 0 => run + 1,
            // A run of further chunks without a first one.
            _ if run > 1 => run + 1,
            _ => {
                first += 1;
                continue;
            }
        };
        let word = Chunk::Large { chunks: chunks as u64 }.encode();
        if table[first] != word {
            table[first] = word;
            mended.push(first as u64);
        }
        first += chunks;
    }
    mended.sort_unstable();
    mended
}

/// What the heap holds, from its table and bitmaps.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// let block = pool.worker()?.run(|tx| tx.alloc(5000))?;
/// let usage = pool.usage()?;
/// // More than a quarter of a chunk takes whole chunks, which are 4096 bytes here.
/// assert_eq!((usage.objects, usage.allocated_bytes), (1, 8192));
/// pool.worker()?.run(|tx| tx.free(block))?;
/// assert_eq!(pool.usage()?.free_chunks, usage.free_chunks + 2);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapUsage {
    /// Bytes of all chunks.
    pub total_bytes: u64,
    /// Chunks that are free, whole.
    pub free_chunks: u64,
    /// Bytes in allocated blocks and large objects.
    pub allocated_bytes: u64,
    /// Bytes in free blocks of small chunks.
    pub free_block_bytes: u64,
    /// Allocated blocks and large objects.
    pub objects: u64,
}

/// Walks the chunk table and all bitmaps. For a pool in which no transaction runs.
///
/// # Errors
/// The table contradicts itself.
pub fn usage<M: Memory>(view: &View<M>) -> Result<HeapUsage> {
    let (memory, layout) = (&view.memory, &view.layout);
    let chunk_bytes = layout.geometry.chunk_bytes;
    let mut usage = HeapUsage { total_bytes: layout.chunk_count * chunk_bytes, ..HeapUsage::default() };
    let mut chunk = 0;
    while chunk < layout.chunk_count {
        let word = memory.load(table(layout, chunk));
        let damaged = || Error::Damaged(format!("chunk {chunk} has the impossible table word {word:#x}"));
        match Chunk::decode(word).ok_or_else(damaged)? {
            Chunk::Free => usage.free_chunks += 1,
            Chunk::Small { class, .. } => {
                if CLASSES[class] > chunk_bytes / 4 {
                    return Err(damaged());
                }
                let (division, base) = (Division::new(layout, class), start(layout, chunk));
                for word in 0..division.words() {
                    let used = memory.load(base.word(word));
                    if used & !division.mask(word) != 0 {
                        return Err(Error::Damaged(format!("chunk {chunk} has blocks past its end")));
                    }
                    let used = u64::from(used.count_ones());
                    let here = u64::from(division.mask(word).count_ones());
                    usage.objects += used;
                    usage.allocated_bytes += used * division.block;
                    usage.free_block_bytes += (here - used) * division.block;
                }
            }
            Chunk::Large { chunks } => {
                if chunks == 0 || chunks > layout.chunk_count - chunk {
                    return Err(damaged());
                }
                for back in 1..chunks {
                    let expected = Chunk::LargeRest { back }.encode();
                    if memory.load(table(layout, chunk + back)) != expected {
                        return Err(Error::Damaged(format!(
                            "the large object at chunk {chunk} is cut short"
                        )));
                    }
                }
                usage.objects += 1;
                usage.allocated_bytes += chunks * chunk_bytes;
                chunk += chunks - 1;
            }
            Chunk::LargeRest { .. } => return Err(damaged()),
        }
        chunk += 1;
    }
    Ok(usage)
}

/// The chunks that hold blocks of one size.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// let pool = Pool::create(&path, &options)?;
/// pool.worker()?.run(|tx| (0..3).try_for_each(|_| tx.alloc(64).map(drop)))?;
/// pool.close()?;
/// let report = strandline_core::file::check(&path, Default::default())?;
/// let class = report.classes.iter().find(|class| class.block_bytes == 64).unwrap();
/// assert_eq!((class.chunks, class.allocated, class.reclaimable_chunks), (1, 3, 0));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUsage {
    /// Bytes in a block.
    pub block_bytes: u64,
    /// Chunks that hold such blocks.
    pub chunks: u64,
    /// Blocks that fit in them.
    pub blocks: u64,
    /// Blocks that are allocated.
    pub allocated: u64,
    /// Chunks that would be free if the blocks were packed into as few as possible.
    pub reclaimable_chunks: u64,
}

/// The small blocks by size, sizes that occur only. For a pool in which no transaction runs.
///
/// # Errors
/// As [`usage`].
pub fn classes<M: Memory>(view: &View<M>) -> Result<Vec<ClassUsage>> {
    usage(view)?;
    let (memory, layout) = (&view.memory, &view.layout);
    let mut classes = [ClassUsage::default(); CLASSES.len()];
    for chunk in 0..layout.chunk_count {
        let Some(Chunk::Small { class, .. }) = Chunk::decode(memory.load(table(layout, chunk))) else {
            continue;
        };
        let (division, base) = (Division::new(layout, class), start(layout, chunk));
        let used = |word| u64::from(memory.load(base.word(word)).count_ones());
        let usage = &mut classes[class];
        usage.block_bytes = division.block;
        usage.chunks += 1;
        usage.blocks += division.blocks;
        usage.allocated += (0..division.words()).map(used).sum::<u64>();
    }
    let used = classes.into_iter().filter(|class| class.chunks > 0).map(|class| {
        let in_a_chunk = class.blocks / class.chunks;
        let needed = class.allocated.div_ceil(in_a_chunk.max(1));
        ClassUsage { reclaimable_chunks: class.chunks - needed, ..class }
    });
    Ok(used.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(chunks: u64) -> Vec<u64> {
        let rest = (1..chunks).map(|back| Chunk::LargeRest { back }.encode());
        std::iter::once(Chunk::Large { chunks }.encode()).chain(rest).collect()
    }

    #[test]
    fn each_word_of_a_large_object_is_told_by_the_others() {
        let small = Chunk::Small { class: 3, arena: 1 }.encode();
        let whole: Vec<u64> = [vec![small], large(5), large(4), vec![FREE], large(3), large(1)].concat();
        assert_eq!(mend_large_objects(&mut whole.clone()), []);
        for chunk in (1..10).chain(11..14) {
            for word in [0xff, Chunk::LargeRest { back: 77 }.encode()] {
                let mut table = whole.clone();
                table[chunk] = word;
                assert_eq!(mend_large_objects(&mut table), [chunk as u64], "{word:#x}");
                assert_eq!(table, whole);
            }
        }
        // A line of the table, eight words of it: both ends of what is between them are known.
        let mut table = large(20);
        table[8..16].fill(FREE);
        assert_eq!(mend_large_objects(&mut table).len(), 8);
        assert_eq!(table, large(20));
        // A first word that looks like another, and more than one word against it.
        for word in [FREE, small, Chunk::Large { chunks: 2 }.encode()] {
            let mut table = whole.clone();
            table[1] = word;
            assert_eq!(mend_large_objects(&mut table), [1], "{word:#x}");
            assert_eq!(table, whole);
        }
    }

    #[test]
    fn where_two_words_disagree_and_none_is_plainly_wrong_nothing_is_done() {
        let small = Chunk::Small { class: 3, arena: 1 }.encode();
        // Large of three whose last looks like a small chunk: or large of two, and the count is wrong.
        let mut table = large(3);
        table[2] = small;
        assert_eq!(mend_large_objects(&mut table), []);
        // A single further chunk behind a small one: either may be wrong.
        assert_eq!(mend_large_objects(&mut [small, Chunk::LargeRest { back: 1 }.encode(), FREE]), []);
        // What a small chunk's word was, nobody knows.
        assert_eq!(mend_large_objects(&mut [0xff, small]), []);
    }
}
