//! Looking a heap over: how full it is, whether its table of chunks contradicts itself, which blocks are allocated.
//!
//! Transactions store the words of the table and of the bitmaps one after the other while they commit, so words that are loaded beside them
//! contradict each other in a sound heap. Where a pool may have writers, a survey reads in a transaction or at a snapshot ([`usage_in`]);
//! functions that take a [`View`] load words directly, and are for pools in which no transaction runs.

use std::convert::Infallible;

use super::{
    Access, CLASSES, Chunk, Division, FREE, chunk_of, growth::reached, growth::reached_by, start, table,
};
use crate::error::{Abort, Error, Result};
use crate::layout::{Layout, View};
use crate::memory::{Memory, PersistentAddress};

/// Whether no chunk that reaches beyond byte `from` of the pool's file is in use.
pub fn is_free_from<M: Memory>(view: &View<M>, from: u64) -> bool {
    let layout = &view.layout;
    from >= layout.chunks.offset()
        && (chunk_of(layout, PersistentAddress::new(from))..reached_by(view))
            .all(|chunk| view.memory.load(table(layout, chunk)) == FREE)
}

/// The addresses of the chunks of small blocks in which a block is free, in the pool's order.
pub fn chunks_with_room<M: Memory>(view: &View<M>) -> Vec<PersistentAddress> {
    let layout = &view.layout;
    let has_room = |&chunk: &u64| match Chunk::decode(view.memory.load(table(layout, chunk))) {
        Some(Chunk::Small { class, .. }) => {
            let (division, base) = (Division::new(layout, class), start(layout, chunk));
            (0..division.words())
                .any(|word| !view.memory.load(base.word_inside(word)) & division.mask(word) != 0)
        }
        _ => false,
    };
    (0..reached_by(view)).filter(has_room).map(|chunk| start(layout, chunk)).collect()
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
/// # let db = pool();
/// # let block = db.worker()?.run(|tx| tx.alloc(5000))?;
/// let usage = db.usage()?;
/// println!("{} of {} bytes are allocated", usage.allocated_bytes, usage.total_bytes);
/// # // More than a quarter of a chunk takes whole chunks, which are 4096 bytes here.
/// # assert_eq!((usage.objects, usage.allocated_bytes), (1, 8192));
/// # db.worker()?.run(|tx| tx.free(block))?;
/// # assert_eq!(db.usage()?.free_chunks, usage.free_chunks + 2);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapUsage {
    /// Bytes of all chunks, as far as the heap has grown.
    pub total_bytes: u64,
    /// Chunks that are free, whole, and serve any size; those that held blocks of one size and have none left are among them.
    pub free_chunks: u64,
    /// Chunks of blocks of one size, some of which are free.
    pub partial_chunks: u64,
    /// Bytes in allocated blocks and large objects.
    pub allocated_bytes: u64,
    /// Bytes in free blocks of such chunks: they serve their size alone.
    pub free_block_bytes: u64,
    /// Allocated blocks and large objects.
    pub objects: u64,
}

/// Walks the chunk table and all bitmaps, by loads. For a pool in which no transaction runs.
///
/// # Errors
/// The table contradicts itself.
pub fn usage<M: Memory>(view: &View<M>) -> Result<HeapUsage> {
    by_loads(view).map(|(usage, _)| usage)
}

/// Walks the chunk table and all bitmaps in a transaction, beside others.
///
/// # Errors
/// A conflict; the table contradicts itself.
pub fn usage_in<A: Access>(tx: &mut A) -> Result<HeapUsage, Abort> {
    let layout = *tx.layout();
    let walked = walk(&layout, |at| tx.read(at))?;
    walked.map(|(usage, _)| usage).map_err(|damage| tx.fail(damage))
}

type Classes = [ClassUsage; CLASSES.len()];

fn by_loads<M: Memory>(view: &View<M>) -> Result<(HeapUsage, Classes)> {
    let walked = walk(&view.layout, |at| Ok::<_, Infallible>(view.memory.load(at)));
    walked.unwrap_or_else(|never| match never {})
}

/// Walks the chunk table and all bitmaps, whose words `read` reads; what it finds, or the damage.
///
/// # Errors
/// Those of `read`.
fn walk<E>(
    layout: &Layout,
    mut read: impl FnMut(PersistentAddress) -> Result<u64, E>,
) -> Result<Result<(HeapUsage, Classes)>, E> {
    let chunk_bytes = layout.geometry.chunk_bytes;
    let reached = read(layout.reached())?.min(layout.chunk_count);
    let mut usage = HeapUsage { total_bytes: reached * chunk_bytes, ..HeapUsage::default() };
    let mut classes = [ClassUsage::default(); CLASSES.len()];
    let mut chunk = 0;
    while chunk < reached {
        let word = read(table(layout, chunk))?;
        let damaged = || Error::damaged(format!("chunk {chunk} has the impossible table word {word:#x}"));
        let Some(found) = Chunk::decode(word) else { return Ok(Err(damaged())) };
        match found {
            Chunk::Free | Chunk::Held => usage.free_chunks += 1,
            Chunk::Small { class, .. } => {
                if CLASSES[class] > chunk_bytes / 4 {
                    return Ok(Err(damaged()));
                }
                let division = Division::new(layout, class);
                let Some(blocks) = allocated_blocks(division, start(layout, chunk), &mut read)? else {
                    return Ok(Err(Error::damaged(format!("chunk {chunk} has blocks past its end"))));
                };
                classes[class].add_chunk(division, blocks);
                usage.add_small(division, blocks);
            }
            Chunk::Large { chunks } => {
                if chunks == 0 || chunks > reached - chunk {
                    return Ok(Err(damaged()));
                }
                if !is_whole(layout, chunk, chunks, &mut read)? {
                    let what = format!("the large object at chunk {chunk} is cut short");
                    return Ok(Err(Error::damaged(what)));
                }
                usage.objects += 1;
                usage.allocated_bytes += chunks * chunk_bytes;
                chunk += chunks - 1;
            }
            Chunk::LargeRest { .. } => return Ok(Err(damaged())),
        }
        chunk += 1;
    }
    Ok(Ok((usage, classes)))
}

/// The allocated blocks of the chunk of small blocks at `base`; `None` if its bitmap has some past its end.
fn allocated_blocks<E>(
    division: &Division,
    base: PersistentAddress,
    read: &mut impl FnMut(PersistentAddress) -> Result<u64, E>,
) -> Result<Option<u64>, E> {
    let mut blocks = 0;
    for word in 0..division.words() {
        let used = read(base.word(word))?;
        if used & !division.mask(word) != 0 {
            return Ok(None);
        }
        blocks += u64::from(used.count_ones());
    }
    Ok(Some(blocks))
}

/// Whether the words behind that of chunk `first` make `chunks` chunks one large object.
fn is_whole<E>(
    layout: &Layout,
    first: u64,
    chunks: u64,
    read: &mut impl FnMut(PersistentAddress) -> Result<u64, E>,
) -> Result<bool, E> {
    for back in 1..chunks {
        if read(table(layout, first + back))? != (Chunk::LargeRest { back }).encode() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl ClassUsage {
    /// Counts a chunk of the class in which `blocks` blocks are allocated.
    fn add_chunk(&mut self, division: &Division, blocks: u64) {
        self.block_bytes = division.block;
        self.chunks += 1;
        self.blocks += division.blocks;
        self.allocated += blocks;
    }
}

impl HeapUsage {
    /// Counts a chunk of small blocks, of which `blocks` are allocated.
    fn add_small(&mut self, division: &Division, blocks: u64) {
        if blocks == 0 {
            self.free_chunks += 1;
            return;
        }
        let free = division.blocks - blocks;
        self.objects += blocks;
        self.allocated_bytes += blocks * division.block;
        self.free_block_bytes += free * division.block;
        self.partial_chunks += u64::from(free > 0);
    }
}

/// The first allocated block that begins at or behind `from`, and its bytes.
pub fn next_allocated<A: Access>(
    tx: &mut A,
    from: PersistentAddress,
) -> Result<Option<(PersistentAddress, u64)>, Abort> {
    let layout = *tx.layout();
    let reached = reached(tx)?;
    let mut chunk = if from < layout.chunks { 0 } else { chunk_of(&layout, from) };
    while chunk < reached {
        let base = start(&layout, chunk);
        let inside = from.offset().saturating_sub(base.offset());
        match Chunk::decode(tx.read(table(&layout, chunk))?) {
            Some(Chunk::Small { class, .. }) => {
                let division = Division::new(&layout, class);
                let first = inside.saturating_sub(division.header).div_ceil(division.block);
                for word in first / 64..division.words() {
                    let behind = if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
                    let used = tx.read(base.word(word))? & behind & division.mask(word);
                    if used != 0 {
                        let number = 64 * word + u64::from(used.trailing_zeros());
                        let at = base.offset() + division.header + number * division.block;
                        return Ok(Some((PersistentAddress::new(at), division.block)));
                    }
                }
            }
            Some(Chunk::Large { chunks }) if inside == 0 && chunks <= layout.chunk_count - chunk => {
                return Ok(Some((base, chunks * layout.geometry.chunk_bytes)));
            }
            // What is behind the begin of a large object is no block; what is damaged is found elsewhere.
            _ => {}
        }
        chunk += 1;
    }
    Ok(None)
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
#[non_exhaustive]
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
    let (_, classes) = by_loads(view)?;
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
