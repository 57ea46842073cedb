//! The cursors of an arena: for each class, the chunk from which blocks are taken until it is exhausted.

use super::Arena;
use crate::error::Abort;
use crate::heap::{Access, CLASSES, Chunk, Division, extents, start, table};
use crate::layout::Layout;
use crate::memory::PersistentAddress;

/// The place where an arena looks first for blocks of one class: a word of a chunk's bitmap.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The chunk's number plus one; 0 for none.
    pub chunk: u64,
    /// The chunk's word in the table when the cursor was set. While the table still has it, the chunk is of this class, and of an arena
    /// that may be used.
    state: u64,
    /// The address of the word in the bitmap.
    at: PersistentAddress,
    /// The bits of the word that belong to blocks.
    mask: u64,
    /// The address of the block of the word's lowest bit.
    first: PersistentAddress,
    /// The number of the word.
    word: u64,
    /// True if the chunk was free when the arena took it. Until that transaction has committed, the bitmap's words at home may have
    /// arbitrary old contents, and are no hint.
    fresh: bool,
}

impl Cursor {
    pub const NONE: Self = Self {
        chunk: 0,
        state: 0,
        at: PersistentAddress::NULL,
        mask: 0,
        first: PersistentAddress::NULL,
        word: 0,
        fresh: false,
    };

    /// Returns a cursor at the first word of the bitmap of a chunk whose word in the table is `state`.
    pub fn new(layout: &Layout, division: &Division, chunk: u64, state: u64, fresh: bool) -> Self {
        let base = start(layout, chunk);
        let (mask, first) = (division.mask(0), base.byte(division.header));
        Self { chunk: chunk + 1, state, at: base, mask, first, word: 0, fresh }
    }

    /// Moves to the next word; behind the last one, to no chunk.
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
        // A word that is full at home is skipped even if this transaction has freed some of its blocks.
        if !self.fresh && tx.hint(self.at) & self.mask == self.mask {
            return Ok(None);
        }
        if class != extents::CLASS {
            return self.alloc_of(tx, class, u64::MAX);
        }
        if extents::free_at_home(tx, self.at, self.first, self.mask) == 0 {
            return Ok(None);
        }
        tx.read(self.at)?;
        self.alloc_of(tx, class, extents::free_at_home(tx, self.at, self.first, self.mask))
    }

    /// Takes the first free block of the word that is in the bit mask `among`.
    fn alloc_of<A: Access>(
        &self,
        tx: &mut A,
        class: usize,
        among: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let used = tx.read(self.at)?;
        let free = !used & self.mask & among;
        if free == 0 {
            return Ok(None);
        }
        let bit = free.trailing_zeros();
        tx.write(self.at, used | 1 << bit)?;
        Ok(Some(self.first.byte(u64::from(bit) * CLASSES[class])))
    }
}

impl Arena {
    /// Gives the vacant chunk `chunk` to this arena, for blocks of `class`, and allocates its first block.
    pub(super) fn alloc_in_new_chunk<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        chunk: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let (at, base) = (table(tx.layout(), chunk), start(tx.layout(), chunk));
        let had_extents = class == extents::CLASS && extents::are_in(tx.hint(at));
        tx.write(at, Chunk::Small { class, arena: self.index }.encode())?;
        let bytes = tx.layout().geometry.chunk_bytes;
        if class != extents::CLASS {
            tx.expect_stores(base, bytes);
        } else if !had_extents && !tx.is_unused(base, bytes) {
            // A transaction on its way to a block that was here must notice, and stores past the log raise no versions.
            tx.raise_versions(base, bytes)?;
            tx.note_vacated(base, bytes);
        }
        for word in 0..division.words() {
            if tx.read(base.word(word))? != 0 {
                tx.write(base.word(word), 0)?;
            }
        }
        let state = Chunk::Small { class, arena: self.index }.encode();
        self.cursors[class] = Cursor::new(tx.layout(), division, chunk, state, true);
        // No page is lent: the search for a vacant chunk has checked this.
        self.cursors[class].alloc_of(tx, class, u64::MAX)
    }

    /// Takes the next free block of the cursor's chunk.
    pub(super) fn alloc_at_cursor<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let cursor = &self.cursors[class];
        let Some(chunk) = cursor.chunk.checked_sub(1) else { return Ok(None) };
        // Since then, the chunk may have been reclaimed, or its allocation rolled back, and another arena may have it.
        if tx.read(table(tx.layout(), chunk))? != cursor.state {
            self.cursors[class] = Cursor::NONE;
            return Ok(None);
        }
        match cursor.alloc(tx, class)? {
            Some(block) => Ok(Some(block)),
            None => self.alloc_behind_cursor(tx, class),
        }
    }

    /// Takes the next free block of the cursor's chunk from the words behind the cursor's.
    #[inline(never)]
    pub(super) fn alloc_behind_cursor<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let division = Division::new(tx.layout(), class);
        self.cursors[class].go_on(division);
        self.alloc_from_cursor_on(tx, class, division)
    }

    /// Takes the next free block of the cursor's chunk, from the cursor's word on.
    pub(super) fn alloc_from_cursor_on<A: Access>(
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
    pub(super) fn alloc_in<A: Access>(
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
}
