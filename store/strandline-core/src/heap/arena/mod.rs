//! Arenas: the strategy by which blocks are found.
//!
//! An allocation uses freed space before it takes a new chunk, and searches the whole table only if nothing else has found space. For this an
//! arena keeps hints, which may be wrong:
//!
//! - a *cursor* for each class: the chunk from which blocks are taken until it is exhausted;
//! - the *partial* chunks of each class: its own ones in which this worker has freed blocks, oldest first. The cursor moves to the first of
//!   them that has an eighth of its blocks free. The chunk that was left alone longest has most room, so few have to be checked;
//! - *vacant* chunks: large objects that it freed, and small chunks whose last block it freed, whatever their class;
//! - how far it has *seen* the table. It learns there which chunks others have taken, and chunks that were never used begin where that part
//!   ends. It looks at each word once;
//! - a *hand* that goes round the part that it has seen, a little whenever a chunk is needed, and finds chunks that others have freed.
//!
//! Only if all of this finds nothing and the pool is used to its end is the whole table searched.
//!
//! A large transaction saves what it overwrites, except in chunks that were free when it began. So it takes no blocks from chunks in which it has freed
//! some, unless there is no other room or they are at the cursor. A chunk whose last block it frees is marked as free in the table: the next large
//! transaction saves nothing there.

use std::collections::{HashMap, VecDeque};

use self::cursor::Cursor;
use self::partial::least_room;
use self::search::{reclaim, take_run};
use super::extents::{self, bits_of};
use super::runs::{ChunkSet, Runs};
use super::{
    Access, CLASSES, Chunk, Division, FREE, REGIONS, chunk_at, class_of, growth, inside, start, table,
};
use crate::error::{Abort, Error};
use crate::memory::{PAGE_BYTES, PersistentAddress};

mod cursor;
mod pages;
mod partial;
mod search;
mod vacant;

/// The number of partial chunks, and of runs of vacant ones, that are tried for one allocation.
const TRIES: usize = 8;
/// The number of words of the table that the hand advances for an allocation that finds nothing.
const HAND_WORDS: u64 = 256;

/// An arena's hints. They may be wrong, and may be forgotten, without harm.
struct Arena {
    index: u64,
    cursors: [Cursor; CLASSES.len()],
    /// The arena's own chunks in which blocks may be free, by class, oldest first.
    partial: [VecDeque<u64>; CLASSES.len()],
    /// The chunks that are in `partial`.
    listed: ChunkSet,
    /// Chunks that may be free, or have no block.
    vacant: Runs,
    /// First chunks and lengths of runs that were taken lately. They are vacant if the transaction was rolled back.
    taken: Vec<(u64, u64)>,
    /// First chunks and lengths of runs that a large transaction has freed. It does not use them, and later ones do.
    emptied: Vec<(u64, u64)>,
    /// The number of words of the table that the arena has looked at, from the beginning.
    seen: u64,
    /// The word of the table, below `seen`, from which the hand moves on.
    hand: u64,
    /// The reason for which the file could not grow for the present allocation.
    refused: Option<std::io::Error>,
}

/// The arenas that a worker allocates from: its own, and those of the regions that its transactions declare.
pub struct Arenas {
    own: Arena,
    regions: HashMap<u32, Arena>,
}

impl Arenas {
    /// Returns the arenas of the worker with arena `index`.
    pub fn new(index: u64) -> Self {
        Self { own: Arena::new(index), regions: HashMap::new() }
    }

    /// Returns the arena of a transaction that declared `region`. Every such transaction allocates from the region's chunks, whatever
    /// isolates transactions, so that a pool that was filled under one scheme can be used under all.
    fn of(&mut self, region: Option<u32>) -> &mut Arena {
        match region {
            Some(region) => self.of_region(region),
            None => &mut self.own,
        }
    }

    #[inline(never)]
    fn of_region(&mut self, region: u32) -> &mut Arena {
        self.regions.entry(region).or_insert_with(|| Arena::new(REGIONS + u64::from(region)))
    }

    /// Allocates at least `bytes` bytes, from the chunks of `region` if the transaction declared one.
    ///
    /// # Errors
    /// Returns an error if no room is left, or after a conflict.
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
    /// Returns [`Error::InvalidFree`] if no allocated block begins at `at`, and an error after a conflict.
    pub fn free<A: Access>(
        &mut self,
        tx: &mut A,
        region: Option<u32>,
        at: PersistentAddress,
    ) -> Result<(), Abort> {
        self.of(region).free(tx, at)
    }

    /// Allocates an extent: from one to `most` consecutive pages. Returns the first page and the number of pages; `None` if chunks of this
    /// size have no extents.
    ///
    /// # Errors
    /// Returns an error if no room is left, or after a conflict.
    pub fn alloc_pages<A: Access>(
        &mut self,
        tx: &mut A,
        region: Option<u32>,
        most: u64,
    ) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        self.of(region).alloc_pages(tx, most)
    }

    /// Frees `pages` pages of an extent, from `at` on.
    ///
    /// # Errors
    /// Returns [`Error::InvalidFree`] if they are not allocated pages of an extent, and an error after a conflict.
    pub fn free_pages<A: Access>(
        &mut self,
        tx: &mut A,
        region: Option<u32>,
        at: PersistentAddress,
        pages: u64,
    ) -> Result<(), Abort> {
        self.of(region).free_pages(tx, at, pages)
    }
}

impl Arena {
    fn new(index: u64) -> Self {
        Self {
            index,
            cursors: [Cursor::NONE; CLASSES.len()],
            partial: Default::default(),
            listed: ChunkSet::default(),
            vacant: Runs::default(),
            taken: Vec::new(),
            emptied: Vec::new(),
            seen: 0,
            hand: 0,
            refused: None,
        }
    }

    /// Returns whether this arena may allocate from chunks of arena `owner`. Regions use only their own chunks, and no other arena uses
    /// these, since a region's lock covers its chunks.
    fn may_use(&self, owner: u64) -> bool {
        owner == self.index || owner.max(self.index) < REGIONS
    }

    fn alloc<A: Access>(&mut self, tx: &mut A, bytes: u64) -> Result<PersistentAddress, Abort> {
        self.alloc_of_class(tx, class_of(tx.layout(), bytes), bytes)
    }

    /// Allocates a block of `class`, or whole chunks if that is `None`.
    fn alloc_of_class<A: Access>(
        &mut self,
        tx: &mut A,
        class: Option<usize>,
        bytes: u64,
    ) -> Result<PersistentAddress, Abort> {
        if let Some(class) = class
            && let Some(block) = self.alloc_at_cursor(tx, class)?
        {
            return Ok(block);
        }
        self.alloc_anywhere(tx, class, bytes)
    }

    /// Allocates elsewhere if there is no room at the cursor.
    #[inline(never)]
    fn alloc_anywhere<A: Access>(
        &mut self,
        tx: &mut A,
        class: Option<usize>,
        bytes: u64,
    ) -> Result<PersistentAddress, Abort> {
        let found = match class {
            Some(class) => self.alloc_small(tx, class, Division::new(tx.layout(), class))?,
            None => self.alloc_large(tx, bytes)?,
        };
        found.ok_or_else(|| {
            tx.fail(match self.refused.take() {
                Some(why) => growth::refused(bytes, why),
                None => Error::Full { bytes },
            })
        })
    }

    /// Finds a free block of `class` in another chunk than the cursor's, which has none.
    fn alloc_small<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
    ) -> Result<Option<PersistentAddress>, Abort> {
        tx.begin_taking(1)?;
        self.refused = None;
        let own = Chunk::Small { class, arena: self.index }.encode();
        let least = least_room(division);
        self.look_ahead(tx);
        if let Some(block) = self.alloc_in_partial(tx, class, division, least)? {
            return Ok(Some(block));
        }
        // A region has an arena in each worker, and these share its chunks: another worker may have freed blocks in one.
        if self.index >= REGIONS
            && let Some(block) = self.alloc_from(tx, class, division, least, |word| word == own)?
        {
            return Ok(Some(block));
        }
        if let Some(chunk) = self.take_vacant(tx, 1)? {
            return self.alloc_in_new_chunk(tx, class, division, chunk);
        }
        self.look_around(tx, HAND_WORDS, Some(class));
        if let Some(block) = self.alloc_in_partial(tx, class, division, least)? {
            return Ok(Some(block));
        }
        if let Some(chunk) = self.take_vacant(tx, 1)? {
            return self.alloc_in_new_chunk(tx, class, division, chunk);
        }
        if let Some(chunk) = self.take_new(tx, 1)? {
            return self.alloc_in_new_chunk(tx, class, division, chunk);
        }
        // There are no free chunks any more. The last resorts are any chunk of the arena with room, any chunk of the class, and chunks
        // without an allocated block anywhere.
        if let Some(block) = self.alloc_from(tx, class, division, 1, |word| word == own)? {
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
        match take_run(tx, 1)? {
            Some(chunk) => self.alloc_in_new_chunk(tx, class, division, chunk),
            None => Ok(None),
        }
    }

    fn alloc_large<A: Access>(&mut self, tx: &mut A, bytes: u64) -> Result<Option<PersistentAddress>, Abort> {
        let chunks = bytes.div_ceil(tx.layout().geometry.chunk_bytes);
        if chunks > tx.layout().chunk_count {
            return Ok(None);
        }
        tx.begin_taking(chunks)?;
        self.refused = None;
        self.look_ahead(tx);
        let mut found = self.take_vacant(tx, chunks)?;
        if found.is_none() {
            self.look_around(tx, HAND_WORDS + 4 * chunks, None);
            found = self.take_vacant(tx, chunks)?;
        }
        if found.is_none() {
            found = self.take_new(tx, chunks)?;
        }
        if found.is_none() {
            reclaim(tx)?;
            found = take_run(tx, chunks)?;
        }
        let Some(first) = found else { return Ok(None) };
        for back in 0..chunks {
            let word = if back == 0 { Chunk::Large { chunks } } else { Chunk::LargeRest { back } };
            tx.write(table(tx.layout(), first + back), word.encode())?;
        }
        tx.expect_stores(start(tx.layout(), first), chunks * tx.layout().geometry.chunk_bytes);
        Ok(Some(start(tx.layout(), first)))
    }

    fn free<A: Access>(&mut self, tx: &mut A, at: PersistentAddress) -> Result<(), Abort> {
        let layout = *tx.layout();
        let invalid = || Error::InvalidFree(at.offset());
        let Some(chunk) = chunk_at(&layout, at) else { return Err(tx.fail(invalid())) };
        let base = start(&layout, chunk);
        match Chunk::decode(tx.read(table(&layout, chunk))?) {
            Some(Chunk::Small { class, arena }) => {
                let division = Division::new(&layout, class);
                let Some(number) = division.block_at(inside(&layout, at)) else {
                    return Err(tx.fail(invalid()));
                };
                self.free_blocks(tx, (chunk, class, arena), number, 1)
                    .and_then(|is_freed| if is_freed { Ok(()) } else { Err(tx.fail(invalid())) })
            }
            Some(Chunk::Large { chunks }) if at == base && chunk + chunks <= layout.chunk_count => {
                let mut is_avoided = false;
                for number in chunk..chunk + chunks {
                    is_avoided |= tx.note_freed(number);
                    tx.write(table(&layout, number), FREE)?;
                }
                if is_avoided {
                    self.emptied.push((chunk, chunks));
                } else {
                    self.vacant.insert(chunk, chunks);
                }
                Ok(())
            }
            _ => Err(tx.fail(invalid())),
        }
    }

    /// Frees `count` blocks of one word of the bitmap of a small chunk, from number `number` on. Returns whether all of them were
    /// allocated.
    fn free_blocks<A: Access>(
        &mut self,
        tx: &mut A,
        (chunk, class, arena): (u64, usize, u64),
        number: u64,
        count: u64,
    ) -> Result<bool, Abort> {
        let (division, base) = (Division::new(tx.layout(), class), start(tx.layout(), chunk));
        let (word, bits) = (number / 64, bits_of(number, count));
        let used = tx.read(base.word_inside(word))?;
        if used & bits != bits {
            return Ok(false);
        }
        tx.write(base.word_inside(word), used & !bits)?;
        if class == extents::CLASS {
            tx.note_vacated(base.byte(division.header + number * PAGE_BYTES), count * PAGE_BYTES);
        }
        let is_avoided = tx.note_freed(chunk);
        if arena == self.index && !is_avoided {
            self.list(class, chunk);
        }
        // This transaction cannot use pages of extents that it has freed itself. The hand finds them later.
        let is_of_use = class != extents::CLASS && self.may_use(arena);
        if used == bits && is_of_use && self.cursors[class].chunk != chunk + 1 {
            let is_used = |other| other != word && tx.hint(base.word_inside(other)) != 0;
            if !(0..division.words()).any(is_used) {
                if is_avoided {
                    // No other transaction runs, so that the hints are what the bitmap has.
                    tx.write(table(tx.layout(), chunk), FREE)?;
                    self.emptied.push((chunk, 1));
                } else {
                    self.vacant.insert(chunk, 1);
                }
            }
        }
        Ok(true)
    }
}
