//! Walks over a whole heap: how full it is, whether its table of chunks contradicts itself, and which blocks are allocated.
//!
//! A committing transaction stores the words of the table and of the bitmaps one after another, so plain loads that run at the same time
//! can contradict each other in a sound heap. If a pool may have writers, a walk reads in a transaction or at a snapshot ([`usage_in`]).
//! Functions that take a [`View`] load words directly, and are for pools in which no transaction runs.

use std::convert::Infallible;

use super::{
    Access, CLASSES, Chunk, Division, FREE, chunk_of, growth::reached, growth::reached_by, start, table,
};
use crate::error::{Abort, Error, Result};
use crate::layout::{Layout, View};
use crate::memory::{Memory, PersistentAddress};

/// Returns whether no chunk is in use that reaches beyond byte `from` of the pool's file.
pub fn is_free_from<M: Memory>(view: &View<M>, from: u64) -> bool {
    let layout = &view.layout;
    from >= layout.chunks.offset()
        && (chunk_of(layout, PersistentAddress::new(from))..reached_by(view))
            .all(|chunk| view.memory.load(table(layout, chunk)) == FREE)
}

/// Returns the addresses of the small chunks that have a free block, in the pool's order.
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

/// Repairs the words of large objects in a chunk table from the object's other words. Returns the chunks whose words were changed. An
/// object's first word has the number of its chunks, and each other word the distance to the first one, so that first and last word confirm
/// each other. If they do not, exactly one word must be wrong, and must be impossible as it is.
pub fn repair_large_objects(table: &mut [u64]) -> Vec<u64> {
    let mut repaired = Vec::new();
    let rest = |back: usize| Chunk::LargeRest { back: back as u64 }.encode();
    let mut first = 0;
    while first < table.len() {
        // The number of further chunks that follow in unbroken order.
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
                        repaired.push((first + back) as u64);
                    }
                }
                // More than one word says that there are more chunks.
                if run > chunks { run + 1 } else { chunks }
            }
            None | Some(Chunk::LargeRest { .. }) if run > 0 => run + 1,
            // A run of further chunks without a valid first word.
            _ if run > 1 => run + 1,
            _ => {
                first += 1;
                continue;
            }
        };
        let word = Chunk::Large { chunks: chunks as u64 }.encode();
        if table[first] != word {
            table[first] = word;
            repaired.push(first as u64);
        }
        first += chunks;
    }
    repaired.sort_unstable();
    repaired
}

/// The usage of the heap, from its table and bitmaps.
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
    /// The bytes of all chunks that the heap has reached.
    pub total_bytes: u64,
    /// The number of chunks that are free as a whole and can be used for any size, including those that had blocks of one size and have
    /// none left.
    pub free_chunks: u64,
    /// The number of chunks with blocks of one size, of which some are free.
    pub partial_chunks: u64,
    /// The bytes in allocated blocks and large objects.
    pub allocated_bytes: u64,
    /// The bytes in free blocks of partial chunks, which are available to their size only.
    pub free_block_bytes: u64,
    /// The number of allocated blocks and large objects.
    pub objects: u64,
}

/// Walks the chunk table and all bitmaps with plain loads. For a pool in which no transaction runs.
///
/// # Errors
/// Returns [`Error::Damaged`] if the table contradicts itself.
pub fn usage<M: Memory>(view: &View<M>) -> Result<HeapUsage> {
    by_loads(view).map(|(usage, _)| usage)
}

/// Walks the chunk table and all bitmaps in a transaction, while others run.
///
/// # Errors
/// Returns an error after a conflict, or [`Error::Damaged`] if the table contradicts itself.
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

/// Walks the chunk table and all bitmaps, whose words `read` returns. Returns the usage, or the damage that it finds.
///
/// # Errors
/// Returns the errors of `read`.
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

/// Returns the number of allocated blocks in the small chunk at `base`; `None` if its bitmap has some past its end.
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

/// Returns whether the words behind that of chunk `first` confirm that `chunks` chunks are one large object.
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
    /// Counts a chunk of this class with `blocks` allocated blocks.
    fn add_chunk(&mut self, division: &Division, blocks: u64) {
        self.block_bytes = division.block;
        self.chunks += 1;
        self.blocks += division.blocks;
        self.allocated += blocks;
    }
}

impl HeapUsage {
    /// Counts a small chunk with `blocks` allocated blocks.
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

/// Returns the first allocated block that begins at or behind `from`, and its bytes.
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
            // The further chunks of a large object are not blocks. Damage is found elsewhere.
            _ => {}
        }
        chunk += 1;
    }
    Ok(None)
}

/// The chunks that have blocks of one size.
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
    /// The bytes in a block.
    pub block_bytes: u64,
    /// The number of chunks that have such blocks.
    pub chunks: u64,
    /// The number of blocks that fit in these chunks.
    pub blocks: u64,
    /// The number of allocated blocks.
    pub allocated: u64,
    /// The number of chunks that would be free if the blocks were packed into as few chunks as possible.
    pub reclaimable_chunks: u64,
}

/// Returns the usage of small blocks by size, for the sizes that occur. For a pool in which no transaction runs.
///
/// # Errors
/// Returns the errors of [`usage`].
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
        assert_eq!(repair_large_objects(&mut whole.clone()), []);
        for chunk in (1..10).chain(11..14) {
            for word in [0xff, Chunk::LargeRest { back: 77 }.encode()] {
                let mut table = whole.clone();
                table[chunk] = word;
                assert_eq!(repair_large_objects(&mut table), [chunk as u64], "{word:#x}");
                assert_eq!(table, whole);
            }
        }
        // Eight words of the table, a line, are lost between two ends that are known.
        let mut table = large(20);
        table[8..16].fill(FREE);
        assert_eq!(repair_large_objects(&mut table).len(), 8);
        assert_eq!(table, large(20));
        // A first word that looks valid, against more than one other word.
        for word in [FREE, small, Chunk::Large { chunks: 2 }.encode()] {
            let mut table = whole.clone();
            table[1] = word;
            assert_eq!(repair_large_objects(&mut table), [1], "{word:#x}");
            assert_eq!(table, whole);
        }
    }

    #[test]
    fn where_two_words_disagree_and_none_is_plainly_wrong_nothing_is_done() {
        let small = Chunk::Small { class: 3, arena: 1 }.encode();
        // Either an object of three whose last word looks like a small chunk, or one of two with a wrong count.
        let mut table = large(3);
        table[2] = small;
        assert_eq!(repair_large_objects(&mut table), []);
        // A single further chunk behind a small one: either word may be wrong.
        assert_eq!(repair_large_objects(&mut [small, Chunk::LargeRest { back: 1 }.encode(), FREE]), []);
        // A small chunk's word cannot be derived from other words.
        assert_eq!(repair_large_objects(&mut [0xff, small]), []);
    }
}
