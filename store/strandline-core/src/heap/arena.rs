//! Arenas: where blocks are looked for.
//!
//! Space that was freed is used again before a new chunk is taken, and nothing is looked for in the whole table each time. What an arena
//! remembers for that are hints, which may be wrong:
//!
//! - a *cursor* for each class: the chunk from which blocks are taken until it is exhausted;
//! - the *partial* chunks of each class, its own ones in which this worker freed something, oldest first. The first of them that has an
//!   eighth of its blocks free is the next one for the cursor. A chunk that was left alone longest has most room, so that few have to
//!   be looked at;
//! - *vacant* chunks: those that it freed, and those of small blocks whose last one it freed, whatever their class;
//! - how far it has *seen* the table. What others had taken when it came by it knows from there, and a chunk that nobody ever used begins
//!   where that ends. Each word is looked at once;
//! - a *hand* that goes round in the part that it has seen, a little whenever a chunk is needed, and finds what others have freed.
//!
//! Only when all of this finds nothing and the pool is used to its end is the whole table walked.

use std::collections::{HashMap, VecDeque};

use super::compact::HeldSeen;
use super::growth::{self, reached_hint};
use super::runs::{ChunkSet, Runs};
use super::{Access, CLASSES, Chunk, Division, FREE, REGIONS, chunk_at, class_of, inside, start, table};
use crate::error::{Abort, Error};
use crate::layout::Layout;
use crate::memory::PersistentAddress;

/// Partial chunks, and runs of vacant ones, that are tried for one allocation.
const TRIES: usize = 8;
/// Words of the table that the hand goes on by, for an allocation that finds nothing.
const HAND_WORDS: u64 = 256;
/// Chunks of small blocks among them at whose bitmaps it looks: so many of the class that is wanted, and of others.
const HAND_LOOKS: u64 = 8;

/// Where an arena looks first for blocks of one class: at a word of a chunk's bitmap.
#[derive(Clone, Copy)]
struct Cursor {
    /// The chunk's number plus one; 0 for none.
    chunk: u64,
    /// The chunk's word in the table when the cursor came: while the table still says so, it is of this class, and of an arena that may be used.
    state: u64,
    /// The word of the bitmap.
    at: PersistentAddress,
    /// Its bits that stand for blocks.
    mask: u64,
    /// The block of its lowest bit.
    first: PersistentAddress,
    /// The number of the word.
    word: u64,
    /// The chunk was free when the arena took it: what its bitmap's words hold at home may be the contents of
    /// whatever was there before, and no hint, until that transaction has committed.
    fresh: bool,
}

impl Cursor {
    const NONE: Self = Self {
        chunk: 0,
        state: 0,
        at: PersistentAddress::NULL,
        mask: 0,
        first: PersistentAddress::NULL,
        word: 0,
        fresh: false,
    };

    /// At the first word of the bitmap of a chunk with the word `state` in the table.
    fn new(layout: &Layout, division: &Division, chunk: u64, state: u64, fresh: bool) -> Self {
        let base = start(layout, chunk);
        let (mask, first) = (division.mask(0), base.byte(division.header));
        Self { chunk: chunk + 1, state, at: base, mask, first, word: 0, fresh }
    }

    /// Goes on to the next word, or to no chunk.
    fn go_on(&mut self, division: &Division) {
        self.word += 1;
        if self.word == division.words() {
            return *self = Self::NONE;
        }
        self.at = self.at.word(1);
        self.mask = division.mask(self.word);
        self.first = self.first.byte(64 * division.block);
    }

    /// Takes the first free block of the word.
    fn alloc<A: Access>(&self, tx: &mut A, class: usize) -> Result<Option<PersistentAddress>, Abort> {
        // A word full of blocks is left alone even though this transaction may have freed some.
        if !self.fresh && tx.hint(self.at) & self.mask == self.mask {
            return Ok(None);
        }
        let used = tx.read(self.at)?;
        let free = !used & self.mask;
        if free == 0 {
            return Ok(None);
        }
        let bit = free.trailing_zeros();
        tx.write(self.at, used | 1 << bit)?;
        Ok(Some(self.first.byte(u64::from(bit) * CLASSES[class])))
    }
}

/// An arena's hints. They may be wrong, and may be forgotten, without harm.
struct Arena {
    index: u64,
    cursors: [Cursor; CLASSES.len()],
    /// Own chunks in which blocks may be free, by class, the oldest first.
    partial: [VecDeque<u64>; CLASSES.len()],
    /// Those that are in `partial`.
    listed: ChunkSet,
    /// Chunks that may be free, or have no block.
    vacant: Runs,
    /// First chunks and lengths of what was taken lately: vacant if that was rolled back.
    taken: Vec<(u64, u64)>,
    /// The words of the table below it were looked at.
    seen: u64,
    /// Below `seen`: the word to look at again.
    hand: u64,
    /// Why the file could not grow for the allocation that runs.
    refused: Option<std::io::Error>,
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
            Some(region) => self.of_region(region),
            None => &mut self.own,
        }
    }

    #[inline(never)]
    fn of_region(&mut self, region: u32) -> &mut Arena {
        self.regions.entry(region).or_insert_with(|| Arena::new(REGIONS + u64::from(region)))
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
        Self {
            index,
            cursors: [Cursor::NONE; CLASSES.len()],
            partial: Default::default(),
            listed: ChunkSet::default(),
            vacant: Runs::default(),
            taken: Vec::new(),
            seen: 0,
            hand: 0,
            refused: None,
        }
    }

    /// Whether it may allocate from chunks of arena `owner`: regions keep to their own chunks, and others out of
    /// them, since a region's lock covers its chunks.
    fn may_use(&self, owner: u64) -> bool {
        owner == self.index || owner.max(self.index) < REGIONS
    }

    fn alloc<A: Access>(&mut self, tx: &mut A, bytes: u64) -> Result<PersistentAddress, Abort> {
        let class = class_of(tx.layout(), bytes);
        if let Some(class) = class
            && let Some(block) = self.alloc_at_cursor(tx, class)?
        {
            return Ok(block);
        }
        self.alloc_anywhere(tx, class, bytes)
    }

    /// Allocates where there is no room at the cursor.
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
                None => Error::Full(bytes),
            })
        })
    }

    /// Finds a chunk with a free block of `class`: the cursor's has none.
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
        // A region has an arena in each worker, and the chunks are common to them: another's may have room.
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
        // No chunk is left: any chunk of the arena with room, any chunk of the class, and chunks without a block anywhere.
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

    /// Makes the vacant chunk `chunk` this arena's, for blocks of `class`, and allocates the first.
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
        let state = Chunk::Small { class, arena: self.index }.encode();
        self.cursors[class] = Cursor::new(tx.layout(), division, chunk, state, true);
        self.alloc_from_cursor_on(tx, class, division)
    }

    /// Takes the next free block of the cursor's chunk.
    fn alloc_at_cursor<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let cursor = &self.cursors[class];
        let Some(chunk) = cursor.chunk.checked_sub(1) else { return Ok(None) };
        // The chunk may have been reclaimed, or its allocation rolled back, and another arena's, since.
        if tx.read(table(tx.layout(), chunk))? != cursor.state {
            self.cursors[class] = Cursor::NONE;
            return Ok(None);
        }
        match cursor.alloc(tx, class)? {
            Some(block) => Ok(Some(block)),
            None => self.alloc_behind_cursor(tx, class),
        }
    }

    /// Takes the next free block of the cursor's chunk: its word has none.
    #[inline(never)]
    fn alloc_behind_cursor<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let division = Division::new(tx.layout(), class);
        self.cursors[class].go_on(division);
        self.alloc_from_cursor_on(tx, class, division)
    }

    /// The same, if its word may have one.
    fn alloc_from_cursor_on<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let cursor = &mut self.cursors[class];
        while cursor.chunk != 0 {
            if let Some(block) = cursor.alloc(tx, class)? {
                return Ok(Some(block));
            }
            cursor.go_on(division);
        }
        Ok(None)
    }

    /// Moves the cursor to `chunk`, if it is of this class and may be used, and allocates.
    fn alloc_in<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        chunk: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let state = tx.read(table(tx.layout(), chunk))?;
        self.cursors[class] = match Chunk::decode(state) {
            Some(Chunk::Small { class: c, arena }) if c == class && self.may_use(arena) => {
                Cursor::new(tx.layout(), division, chunk, state, false)
            }
            _ => Cursor::NONE,
        };
        self.alloc_from_cursor_on(tx, class, division)
    }

    /// Allocates in one of the oldest partial chunks that has `least` free blocks.
    fn alloc_in_partial<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        least: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        for _ in 0..self.partial[class].len().min(TRIES) {
            let Some(chunk) = self.partial[class].pop_front() else { break };
            match Chunk::decode(tx.hint(table(tx.layout(), chunk))) {
                Some(Chunk::Small { class: now, arena }) if arena == self.index => {
                    if now != class || room(tx, chunk, division) < least {
                        self.partial[now].push_back(chunk);
                        continue;
                    }
                }
                _ => {
                    self.listed.remove(chunk);
                    continue;
                }
            }
            // What is freed in it from now on lists it again.
            self.listed.remove(chunk);
            if let Some(block) = self.alloc_in(tx, class, division, chunk)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Moves the cursor to a chunk that `wanted` accepts and that has `least` free blocks, wherever in the table, and allocates.
    #[cold]
    fn alloc_from<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        least: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let chunks = reached_hint(tx);
        let hand = self.hand.min(chunks);
        for chunk in (hand..chunks).chain(0..hand) {
            if wanted(tx.hint(table(tx.layout(), chunk))) && room(tx, chunk, division) >= least {
                self.hand = chunk;
                if let Some(block) = self.alloc_in(tx, class, division, chunk)? {
                    return Ok(Some(block));
                }
            }
        }
        Ok(None)
    }

    /// Lists a chunk of this arena's as one that may have room.
    fn list(&mut self, class: usize, chunk: u64) {
        if self.listed.insert(chunk) {
            self.partial[class].push_back(chunk);
        }
    }

    /// Takes note of a word of the table that it had not seen.
    fn learn(&mut self, chunk: u64, word: u64) {
        if let Some(Chunk::Small { class, arena }) = Chunk::decode(word)
            && arena == self.index
        {
            self.list(class, chunk);
        }
    }

    /// Goes on with the table to the first free chunk.
    fn look_ahead<A: Access>(&mut self, tx: &A) {
        for (first, length) in std::mem::take(&mut self.taken) {
            if tx.hint(table(tx.layout(), first)) == FREE {
                self.vacant.insert(first, length);
            }
        }
        // Growth may have been rolled back.
        let reached = reached_hint(tx);
        self.seen = self.seen.min(reached);
        while self.seen < reached {
            let word = tx.hint(table(tx.layout(), self.seen));
            if word == FREE {
                break;
            }
            self.learn(self.seen, word);
            self.seen += 1;
        }
    }

    /// Goes round what it has seen of the table, as far as `words` words, for room in own chunks of `class` and for vacant chunks.
    fn look_around<A: Access>(&mut self, tx: &A, words: u64, class: Option<usize>) {
        let (mut looks, mut glances) = (HAND_LOOKS, HAND_LOOKS);
        for _ in 0..words.min(self.seen) {
            let chunk = self.hand % self.seen;
            self.hand = chunk + 1;
            let (of, arena) = match Chunk::decode(tx.hint(table(tx.layout(), chunk))) {
                Some(Chunk::Free) => {
                    self.vacant.insert(chunk, 1);
                    continue;
                }
                Some(Chunk::Small { class, arena }) => (class, arena),
                _ => continue,
            };
            if !self.may_use(arena) || self.cursors[of].chunk == chunk + 1 {
                continue;
            }
            let division = Division::new(tx.layout(), of);
            if Some(of) == class && arena == self.index {
                if room(tx, chunk, division) >= least_room(division) {
                    self.list(of, chunk);
                    return;
                }
                looks -= 1;
            } else if glances > 0 {
                glances -= 1;
                if seems_empty(tx, chunk, division) {
                    self.vacant.insert(chunk, 1);
                }
            }
            if looks == 0 {
                return;
            }
        }
    }

    /// Takes `chunks` consecutive chunks that are known to be vacant; the first one.
    fn take_vacant<A: Access>(&mut self, tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
        for _ in 0..TRIES {
            let Some(first) = self.vacant.find(chunks) else { return Ok(None) };
            let reached = growth::reached(tx)?;
            if first + chunks > reached {
                // Growth was rolled back.
                self.vacant.remove(first, chunks);
                continue;
            }
            let mut taken = 0;
            while taken < chunks && self.is_vacant(tx, first + taken)? {
                taken += 1;
            }
            if taken == chunks {
                self.vacant.remove(first, chunks);
                self.take(tx, first, chunks)?;
                return Ok(Some(first));
            }
            self.vacant.remove(first + taken, 1);
        }
        Ok(None)
    }

    /// Whether a chunk is free or has no block, read in the transaction.
    fn is_vacant<A: Access>(&self, tx: &mut A, chunk: u64) -> Result<bool, Abort> {
        match Chunk::decode(tx.read(table(tx.layout(), chunk))?) {
            Some(Chunk::Free) => Ok(true),
            Some(Chunk::Small { class, arena })
                if self.may_use(arena) && self.cursors[class].chunk != chunk + 1 =>
            {
                is_empty(tx, chunk, class)
            }
            _ => Ok(false),
        }
    }

    /// Takes `chunks` consecutive free chunks from where it has not seen the table yet; the first one.
    fn take_new<A: Access>(&mut self, tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
        let mut length = 0;
        loop {
            match growth::reach(tx, self.seen + length + 1)? {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    self.refused = Some(why);
                    break;
                }
            }
            let (chunk, first) = (self.seen + length, self.seen);
            let word = tx.hint(table(tx.layout(), chunk));
            if word == FREE && tx.read(table(tx.layout(), chunk))? == FREE {
                length += 1;
                if length == chunks {
                    self.seen = chunk + 1;
                    self.take(tx, first, chunks)?;
                    return Ok(Some(first));
                }
            } else {
                if length > 0 {
                    self.vacant.insert(first, length);
                }
                self.learn(chunk, word);
                (self.seen, length) = (chunk + 1, 0);
            }
        }
        if length > 0 {
            self.vacant.insert(self.seen, length);
            self.seen += length;
        }
        Ok(None)
    }

    /// Remembers that it takes these chunks, and sees to it that there is space for them.
    fn take<A: Access>(&mut self, tx: &mut A, first: u64, chunks: u64) -> Result<(), Abort> {
        self.taken.push((first, chunks));
        let bytes = chunks * tx.layout().geometry.chunk_bytes;
        tx.make_space(start(tx.layout(), first), bytes)
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
                let (word, bit) = (number / 64, 1 << (number % 64));
                let used = tx.read(base.word_inside(word))?;
                if used & bit == 0 {
                    return Err(tx.fail(invalid()));
                }
                tx.write(base.word_inside(word), used & !bit)?;
                if arena == self.index {
                    self.list(class, chunk);
                }
                if used == bit && self.may_use(arena) && self.cursors[class].chunk != chunk + 1 {
                    let is_used = |other| other != word && tx.hint(base.word_inside(other)) != 0;
                    if !(0..division.words()).any(is_used) {
                        self.vacant.insert(chunk, 1);
                    }
                }
                Ok(())
            }
            Some(Chunk::Large { chunks }) if at == base && chunk + chunks <= layout.chunk_count => {
                for number in chunk..chunk + chunks {
                    tx.write(table(&layout, number), FREE)?;
                }
                self.vacant.insert(chunk, chunks);
                Ok(())
            }
            _ => Err(tx.fail(invalid())),
        }
    }
}

/// The free blocks for which it pays to go on to a chunk.
fn least_room(division: &Division) -> u64 {
    (division.blocks / 8).max(1)
}

/// Whether no block of a chunk is allocated, as far as one can tell.
pub(super) fn seems_empty<A: Access>(tx: &A, chunk: u64, division: &Division) -> bool {
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
pub(super) fn is_empty<A: Access>(tx: &mut A, chunk: u64, class: usize) -> Result<bool, Abort> {
    let (division, base) = (Division::new(tx.layout(), class), start(tx.layout(), chunk));
    for word in 0..division.words() {
        if tx.read(base.word_inside(word))? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first of `chunks` consecutive free chunks, read in the transaction: it itself may have freed some.
#[cold]
fn take_run<A: Access>(tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
    tx.begin_taking(chunks)?;
    let seen = HeldSeen::new(tx);
    let mut length = 0;
    for chunk in 0..growth::reached(tx)? {
        let word = tx.read(table(tx.layout(), chunk))?;
        if word == FREE {
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
    seen.check(tx)?;
    Ok(None)
}

/// Frees the small chunks in which every block is free.
#[cold]
fn reclaim<A: Access>(tx: &mut A) -> Result<(), Abort> {
    let layout = *tx.layout();
    for chunk in 0..reached_hint(tx) {
        let Some(Chunk::Small { class, .. }) = Chunk::decode(tx.hint(table(&layout, chunk))) else {
            continue;
        };
        let division = Division::new(&layout, class);
        if !seems_empty(tx, chunk, division) {
            continue;
        }
        let same = matches!(Chunk::decode(tx.read(table(&layout, chunk))?), Some(Chunk::Small { class: c, .. }) if c == class);
        if same && is_empty(tx, chunk, class)? {
            tx.write(table(&layout, chunk), FREE)?;
        }
    }
    Ok(())
}
