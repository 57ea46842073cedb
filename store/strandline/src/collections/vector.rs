//! A vector that grows without moving its elements.
//!
//! ```text
//! header      word 0 tag · word 1 length · word 2 address of the directory · word 3 number of its slots
//! directory   word 0 tag · then a word for each segment: its address, or 0 if it was never needed
//! segment k   word 0 tag · then 8 * 2^k - 1 elements
//! ```

use std::marker::PhantomData;

use crate::value::check::{Checker, Element, Look};
use crate::value::persist::{Fixed, Persist, Stored, replaced};
use crate::value::pointer::{
    check_block, check_tagged, handle, invalid, no_value, persist_handle, read_tagged,
};
use crate::value::recent::{Block, Recent};
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::{self, Stm};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::bytes::check_room;
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{Survey, Walk, with_buffer};
use strandline_core::transaction::{Abort, Read, Transaction};

pub(crate) const HEADER_WORDS: usize = 4;
const LENGTH: u64 = 1;
const DIRECTORY: u64 = 2;
const SLOTS: u64 = 3;
/// The name of a segment in errors of a [`Walk`].
const SEGMENT: &str = "a vector's segment";
/// The number of elements that segment 0 would have without its tag.
const FIRST: u64 = 8;
/// The number of slots in a vector's first directory.
const FIRST_SLOTS: u64 = 3;
/// The largest number of segments. More would hold more elements than any pool has bytes.
const MAX_SLOTS: u64 = 47;

handle! {
    /// A vector of values of one type. Every operation takes the same time whatever the length. Growing does not move elements, so that the
    /// transaction stays small.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// #[derive(Persist)]
    /// struct Journal<'p> {
    ///     lines: Vector<'p, u64>,
    /// }
    ///
    /// let store = Store::<Journal>::create_new(&path, &Options::default(), |tx| {
    ///     Ok(Journal { lines: Vector::new(tx)? })
    /// })?;
    /// store.write(|tx, root| {
    ///     let lines = root.get(tx)?.lines;
    ///     lines.push(tx, &3)?;
    ///     lines.push(tx, &5)
    /// })?;
    /// let sum: u64 = store.read(|tx, root| root.get(tx)?.lines.iter(tx)?.sum())?;
    /// assert_eq!(sum, 8);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    Vector<T>, "Vector"
}

persist_handle!('p, Vector<T: Persist<'p>>, "Vector", owned: true);

/// A vector's header.
#[derive(Clone, Copy)]
struct Header {
    length: u64,
    directory: PersistentAddress,
    slots: u64,
}

impl Header {
    /// Returns the header whose words behind the tag are these.
    fn of([length, directory, slots]: [u64; HEADER_WORDS - 1]) -> Self {
        Self { length, directory: PersistentAddress::new(directory), slots }
    }

    fn words(self) -> [u64; HEADER_WORDS - 1] {
        [self.length, self.directory.offset(), self.slots]
    }
}

/// Returns the segment of an element, and the element's index in this segment.
fn place(index: u64) -> (u64, u64) {
    // Without tags, segment k would begin at element `FIRST` · (2^k − 1). With its tag each segment has one element fewer, so that later segments
    // begin at lower indices, and the element may be in the next segment.
    let least: u64 = (index / FIRST + 1).ilog2().into();
    let segment = least + u64::from(index >= first_of(least + 1));
    (segment, index - first_of(segment))
}

/// Returns the index of the first element of a segment, which is also the number of elements in the segments before it.
fn first_of(segment: u64) -> u64 {
    FIRST * ((1 << segment) - 1) - segment
}

/// The tags of a vector's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    pub header: u64,
    directory: u64,
    segment: u64,
}

impl Tags {
    /// Returns the tags of a vector whose elements have this layout.
    pub const fn of(element: u64) -> Self {
        const fn tag(name: &str, element: u64) -> u64 {
            layout::tag(layout::field(layout::begin(name, 1), "", element))
        }
        Self {
            header: tag("Vector", element),
            directory: tag("Vector directory", element),
            segment: tag("Vector segment", element),
        }
    }
}

/// Returns the number of words in segment `segment`, if an element has `each` words.
fn segment_words(segment: u64, each: u64) -> u64 {
    (FIRST << segment).saturating_mul(each.max(1))
}

fn header(tx: &mut impl Read, at: PersistentAddress, tag: u64) -> Result<Header, Abort> {
    let [_, words @ ..] = read_tagged::<HEADER_WORDS>(tx, at, tag, "Vector")?;
    let header = Header::of(words);
    if header.slots > MAX_SLOTS || header.length > first_of(header.slots) {
        return Err(invalid(tx, at, "Vector"));
    }
    Ok(header)
}

/// Checks the vector at `at`, whose elements have `each` words, and calls `element` for each of them.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    tags: Tags,
    each: u64,
    element: Element<'_, 'v, 'p>,
) -> Result<()> {
    let Some(header) = checker.read(|tx| header(tx, at, tags.header))? else { return Ok(()) };
    let directory = header.directory;
    if header.slots == 0
        || !checker.tagged(directory, 1 + header.slots, tags.directory, "a vector's directory")?
    {
        return Ok(());
    }
    let mut words = Vec::new();
    for slot in 0..header.slots {
        let Some(first) = checker.read(|tx| tx.read(directory.word(1 + slot)))? else { continue };
        let used = header.length.clamp(first_of(slot), first_of(slot + 1)) - first_of(slot);
        if first == 0 {
            if used > 0 {
                checker.damaged(format!(
                    "the vector at {:#x} lacks segment {slot}, which its length needs",
                    at.offset()
                ));
            }
            continue;
        }
        let first = PersistentAddress::new(first);
        if !checker.tagged(first, segment_words(slot, each), tags.segment, SEGMENT)? {
            continue;
        }
        // The block of the segment has room for an element, so that `each` is not too large to allocate.
        words.resize(each as usize, 0);
        for number in 0..used {
            let at = first.word(1 + number * each);
            if checker.read(|tx| tx.read_range(at, &mut words))?.is_some() {
                element(checker, at, &words, 8 * each)?;
            }
        }
    }
    Ok(())
}

impl<'p, T: Persist<'p>> Vector<'p, T> {
    const TAGS: Tags = Tags::of(T::LAYOUT);
    const TAG: u64 = Self::TAGS.header;
    const DIRECTORY_TAG: u64 = Self::TAGS.directory;
    const SEGMENT_TAG: u64 = Self::TAGS.segment;

    /// Number of words of an element.
    const EACH: u64 = layout::size(T::SIZE) as u64;

    /// Returns the number of words in segment `segment`.
    fn segment_words(segment: u64) -> u64 {
        segment_words(segment, Self::EACH)
    }

    /// Checks that the directory is a block with room for its slots, and that the segment is a block of its size. Returns the address of the segment.
    fn check_to_read(
        tx: &mut impl Transaction,
        header: Header,
        segment: u64,
    ) -> Result<PersistentAddress, Abort> {
        check_room(tx, header.directory, 1 + header.slots)?;
        let first = PersistentAddress::new(tx.read(header.directory.word(1 + segment))?);
        check_room(tx, first, Self::segment_words(segment))?;
        Ok(first)
    }

    /// Creates an empty vector.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self>
    where
        T: Fixed<'p>,
    {
        tx.words(|tx| {
            let at = tx.alloc(8 * HEADER_WORDS as u64)?;
            tx.write_range(at, &[Self::TAG, 0, 0, 0])?;
            Ok(Self::at(at))
        })
    }

    fn header(self, tx: &mut impl Read) -> Result<Header, Abort> {
        header(tx, self.raw.at, Self::TAG)
    }

    /// Like `header`, but also checks that the header may be written.
    fn header_to_write(self, tx: &mut impl Transaction) -> Result<Header, Abort> {
        check_block(tx, self.raw.at, HEADER_WORDS, Self::NAME)?;
        self.header(tx)
    }

    /// Runs an operation that needs the header, which is read unless the operation before has read it.
    fn operate<C: Control, R>(
        self,
        tx: &View<'p, C>,
        body: impl FnOnce(&mut engine::Tx<C>, &mut Recent) -> Result<R, Abort>,
    ) -> Result<R> {
        tx.words(|words| {
            let recent = &mut *tx.recent.borrow_mut();
            let collection = (self.raw.at, Self::TAG);
            let read = || self.header(words).map(Header::words);
            let recent = Recent::begin(recent, tx.operations(), collection, read)?;
            body(words, recent)
        })
    }

    /// Returns the address of an element. If it `is_written`, checks that its segment may be written.
    fn element(
        tx: &mut impl Transaction,
        recent: &mut Recent,
        index: u64,
        is_written: bool,
    ) -> Result<PersistentAddress, Abort> {
        let (segment, number) = place(index);
        // Each segment has twice the elements of the one before, so nearly all elements are in the last four.
        let block = &mut recent.blocks[segment as usize % recent.blocks.len()];
        if block.number != segment || block.at.is_null() {
            let slot = Header::of(recent.header).directory.word(1 + segment);
            *block = Block { at: PersistentAddress::new(tx.read(slot)?), number: segment, is_checked: false };
        }
        if is_written && !block.is_checked {
            Self::check_segment(tx, block.at, segment)?;
            block.is_checked = true;
        }
        Ok(block.at.word(1 + number.saturating_mul(Self::EACH)))
    }

    /// Checks that the block at `at` is segment number `segment`, so that it may be written or freed.
    fn check_segment(tx: &mut impl Transaction, at: PersistentAddress, segment: u64) -> Result<(), Abort> {
        check_tagged(tx, at, Self::segment_words(segment), Self::SEGMENT_TAG, "Vector segment")
    }

    /// Checks that the directory may be written or freed.
    fn check_directory(tx: &mut impl Transaction, header: Header) -> Result<(), Abort> {
        check_tagged(tx, header.directory, 1 + header.slots, Self::DIRECTORY_TAG, "Vector directory")
    }

    fn load(tx: &mut impl Transaction, recent: &mut Recent, index: u64) -> Result<T, Abort> {
        let at = Self::element(tx, recent, index, false)?;
        Self::load_at(tx, at)
    }

    /// Returns a copy of the element at an address.
    fn load_at(tx: &mut impl Transaction, at: PersistentAddress) -> Result<T, Abort> {
        with_buffer(Self::EACH, |words| {
            match &mut *words {
                [word] => *word = tx.read(at)?,
                words => tx.read_range(at, words)?,
            }
            T::load(&mut &*words, Stored::new()).map_err(|_| invalid(tx, at, T::NAME))
        })
    }

    fn write(tx: &mut impl Transaction, at: PersistentAddress, value: &T) -> Result<(), Abort> {
        with_buffer(Self::EACH, |words| {
            value.store(words);
            match words {
                &mut [word] => tx.write(at, word),
                words => tx.write_range(at, words),
            }
        })
    }

    fn outside(tx: &mut impl Transaction, index: u64, length: u64) -> Abort {
        tx.fail(Error::Parameter(format!("a vector of {length} elements has no element {index}")))
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// Returns [`Error::Dangling`] if the vector was destroyed, and an error after a conflict.
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| Ok(self.header(tx)?.length))
    }

    /// Returns whether the vector has no elements.
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::len`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// Returns a copy of element `index`, or `None` if the vector is not that long.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, [3u64, 5])?;
    /// assert_eq!((vector.get(tx, 1)?, vector.get(tx, 2)?), (Some(5), None));
    /// assert_eq!((vector.last(tx)?, vector.len(tx)?), (Some(5), 2));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::len`].
    pub fn get(self, tx: &View<'p, impl Control>, index: u64) -> Result<Option<T>> {
        self.operate(tx, |tx, recent| {
            if index < Header::of(recent.header).length {
                Self::load(tx, recent, index).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    /// Returns a copy of the last element, or `None` if the vector is empty.
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::len`].
    pub fn last(self, tx: &View<'p, impl Control>) -> Result<Option<T>> {
        self.operate(tx, |tx, recent| match Header::of(recent.header).length.checked_sub(1) {
            Some(last) => Self::load(tx, recent, last).map(Some),
            None => Ok(None),
        })
    }

    /// Replaces element `index` and returns the previous one. Collections in it that are not in `value` are destroyed.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.push(tx, &3u64)?;
    /// assert_eq!(vector.set(tx, 0, &4)?, 3);
    /// assert_eq!(vector.get(tx, 0)?, Some(4));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is no such element, and the errors of [`Vector::push`].
    pub fn set(self, tx: &Tx<'p, impl Control>, index: u64, value: &T) -> Result<T> {
        let old = self.exchange(tx, index, value)?;
        replaced(tx, &old, Some(value))?;
        Ok(old)
    }

    /// Replaces an element and keeps the collections in the previous one.
    fn exchange(self, tx: &Tx<'p, impl Control>, index: u64, value: &T) -> Result<T> {
        self.operate(tx, |tx, recent| {
            let length = Header::of(recent.header).length;
            if index >= length {
                return Err(Self::outside(tx, index, length));
            }
            let at = Self::element(tx, recent, index, true)?;
            let old = Self::load_at(tx, at)?;
            Self::write(tx, at, value)?;
            Ok(old)
        })
    }

    /// Appends an element at the end of the vector.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, and the errors of [`Vector::len`].
    pub fn push(self, tx: &Tx<'p, impl Control>, value: &T) -> Result<()> {
        tx.words(|tx| {
            let mut header = self.header_to_write(tx)?;
            let (segment, number) = place(header.length);
            if segment >= header.slots {
                header = self.grow_directory(tx, header)?;
            }
            let slot = header.directory.word(1 + segment);
            let mut first = PersistentAddress::new(tx.read(slot)?);
            if first.is_null() {
                Self::check_directory(tx, header)?;
                first = tx.alloc(Self::segment_words(segment).saturating_mul(8))?;
                tx.write(first, Self::SEGMENT_TAG)?;
                tx.write(slot, first.offset())?;
            } else {
                Self::check_segment(tx, first, segment)?;
            }
            Self::write(tx, first.word(1 + number.saturating_mul(Self::EACH)), value)?;
            tx.write(self.raw.at.word(LENGTH), header.length + 1)
        })
    }

    #[cold]
    fn grow_directory(self, tx: &mut impl Transaction, header: Header) -> Result<Header, Abort> {
        let slots = (2 * header.slots + 1).clamp(FIRST_SLOTS, MAX_SLOTS);
        if slots == header.slots {
            return Err(tx.fail(Error::Parameter("the vector cannot grow any further".into())));
        }
        let mut words = [0; 1 + MAX_SLOTS as usize];
        if header.slots > 0 {
            Self::check_directory(tx, header)?;
            tx.read_range(header.directory, &mut words[..=header.slots as usize])?;
        }
        words[0] = Self::DIRECTORY_TAG;
        let directory = tx.alloc(8 * (1 + slots))?;
        tx.write_range(directory, &words[..=slots as usize])?;
        tx.write_range(self.raw.at.word(DIRECTORY), &[directory.offset(), slots])?;
        if header.slots > 0 {
            tx.write(header.directory, 0)?;
            tx.free(header.directory)?;
        }
        debug_assert_eq!(SLOTS, DIRECTORY + 1);
        Ok(Header { directory, slots, ..header })
    }

    /// Appends all `values`.
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::push`].
    pub fn extend(self, tx: &Tx<'p, impl Control>, values: impl IntoIterator<Item = T>) -> Result<()> {
        values.into_iter().try_for_each(|value| self.push(tx, &value))
    }

    /// Removes the last element and returns it, or `None` if the vector is empty. The vector keeps the memory.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, ['a', 'b'])?;
    /// assert_eq!(vector.pop(tx)?, Some('b'));
    /// assert_eq!((vector.pop(tx)?, vector.pop(tx)?), (Some('a'), None));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::push`].
    pub fn pop(self, tx: &Tx<'p, impl Control>) -> Result<Option<T>> {
        self.operate(tx, |tx, recent| {
            check_block(tx, self.raw.at, HEADER_WORDS, Self::NAME)?;
            let header = Header::of(recent.header);
            let Some(last) = header.length.checked_sub(1) else { return Ok(None) };
            let value = Self::load(tx, recent, last)?;
            tx.write(self.raw.at.word(LENGTH), last)?;
            recent.header = Header { length: last, ..header }.words();
            Ok(Some(value))
        })
    }

    /// Removes element `index` and returns it. The last element takes its place.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, [1u64, 2, 3])?;
    /// assert_eq!(vector.swap_remove(tx, 0)?, 1);
    /// let left: Vec<u64> = vector.iter(tx)?.collect::<Result<_, _>>()?;
    /// assert_eq!(left, [3, 2]);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::set`].
    pub fn swap_remove(self, tx: &Tx<'p, impl Control>, index: u64) -> Result<T> {
        let length = self.len(tx)?;
        if index >= length {
            return tx.words(|tx| Err(Self::outside(tx, index, length)));
        }
        let Some(last) = self.pop(tx)? else { return Err(Error::Interrupted) };
        if index + 1 == length { Ok(last) } else { self.exchange(tx, index, &last) }
    }

    /// Swaps two elements.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, [1u64, 2])?;
    /// vector.swap(tx, 0, 1)?;
    /// assert_eq!(vector.get(tx, 0)?, Some(2));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::set`].
    pub fn swap(self, tx: &Tx<'p, impl Control>, one: u64, other: u64) -> Result<()> {
        self.operate(tx, |tx, recent| {
            let length = Header::of(recent.header).length;
            if one.max(other) >= length {
                return Err(Self::outside(tx, one.max(other), length));
            }
            let one = Self::element(tx, recent, one, true)?;
            let other = Self::element(tx, recent, other, true)?;
            let (first, second) = (Self::load_at(tx, one)?, Self::load_at(tx, other)?);
            Self::write(tx, one, &second)?;
            Self::write(tx, other, &first)
        })
    }

    /// Shortens the vector to `length` elements. Collections in the removed elements are destroyed; the vector keeps the memory.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, 0..10u64)?;
    /// vector.truncate(tx, 2)?;
    /// assert_eq!(vector.last(tx)?, Some(1));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::push`].
    pub fn truncate(self, tx: &Tx<'p, impl Control>, length: u64) -> Result<()> {
        self.destroy_elements(tx, length)?;
        tx.words(|tx| {
            if length < self.header_to_write(tx)?.length {
                tx.write(self.raw.at.word(LENGTH), length)?;
            }
            Ok(())
        })
    }

    /// Returns an iterator over the elements that the vector has now, in order and from either end. Each element is read when the iterator returns
    /// it. Elements that the transaction has removed by then are not returned.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.extend(tx, [1u64, 2, 3])?;
    /// let backwards: Vec<u64> = vector.iter(tx)?.rev().collect::<Result<_, _>>()?;
    /// assert_eq!(backwards, [3, 2, 1]);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::len`].
    pub fn iter<'v, C: Control>(self, tx: &'v View<'p, C>) -> Result<Iter<'v, 'p, T, C>> {
        let length = self.len(tx)?;
        Ok(Iter {
            tx,
            vector: self,
            next: 0,
            end: length,
            segments: [None; 2],
            walk: Walk::default(),
            element: PhantomData,
        })
    }

    /// Removes all elements and frees their memory. Collections in them are destroyed.
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::push`].
    pub fn clear(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.destroy_elements(tx, 0)?;
        tx.words(|tx| {
            self.free_elements(tx)?;
            tx.write_range(self.raw.at.word(LENGTH), &[0; 3])
        })
    }

    /// Destroys the collections in the elements from number `first` on.
    fn destroy_elements(self, tx: &Tx<'p, impl Control>, first: u64) -> Result<()> {
        if !T::OWNS {
            return Ok(());
        }
        let mut elements = self.iter(tx)?;
        elements.next = first.min(elements.end);
        elements.try_for_each(|element| replaced(tx, &element?, None))
    }

    fn free_elements(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let header = self.header_to_write(tx)?;
        if header.slots == 0 {
            return Ok(());
        }
        Self::check_directory(tx, header)?;
        for slot in 0..header.slots {
            let segment = PersistentAddress::new(tx.read(header.directory.word(1 + slot))?);
            if !segment.is_null() {
                Self::check_segment(tx, segment, slot)?;
                tx.write(segment, 0)?;
                tx.free(segment)?;
            }
        }
        tx.write(header.directory, 0)?;
        tx.free(header.directory)
    }

    /// Checks the vector and everything that it refers to, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let vector = Vector::new(tx)?;
    /// vector.push(tx, &5u64)?;
    /// assert!(vector.check(tx)?.is_empty());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| self.reach(checker))
    }

    fn reach(self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        checker.pointer(self.raw.at, Self::TAG, HEADER_WORDS as u64, Self::NAME, Look::Typed(Self::look))
    }

    fn look(checker: &mut Checker<'_, 'p>, at: PersistentAddress) -> Result<()> {
        survey(checker, at, Self::TAGS, Self::EACH, &mut |checker, at, mut words, _| {
            match T::load(&mut words, Stored::new()) {
                Ok(value) => value.visit(checker)?,
                Err(_) => checker.damaged(no_value(at, T::NAME)),
            }
            Ok(())
        })
    }

    /// Frees the vector's memory. Collections in its elements are destroyed; objects that the elements point to are kept. Every copy of this handle
    /// dangles afterwards.
    ///
    /// # Errors
    /// Returns the same errors as [`Vector::push`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // Collections in the elements are destroyed after the vector itself. In a cycle, the next collection then finds that the vector no longer
        // exists.
        let elements = if T::OWNS { self.iter(tx)?.collect::<Result<Vec<_>>>()? } else { Vec::new() };
        tx.words(|tx| {
            self.free_elements(tx)?;
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })?;
        elements.iter().try_for_each(|element| replaced(tx, element, None))
    }
}

/// An iterator over the elements of a [`Vector`]. [`Vector::iter`] creates it.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Journal<'p> {
///     lines: Vector<'p, u64>,
/// }
///
/// let store = Store::<Journal>::create_new(&path, &options, |tx| {
///     let lines = Vector::new(tx)?;
///     (10..15).try_for_each(|line| lines.push(tx, &line))?;
///     Ok(Journal { lines })
/// })?;
/// // The last two.
/// let last = store.read(|tx, root| {
///     root.get(tx)?.lines.iter(tx)?.rev().take(2).collect::<strandline::Result<Vec<_>>>()
/// })?;
/// assert_eq!(last, [14, 13]);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Iter<'v, 'p, T, C: Control = Stm> {
    tx: &'v View<'p, C>,
    vector: Vector<'p, T>,
    next: u64,
    end: u64,
    /// The segments that were already checked, at the front and at the back.
    segments: [Option<u64>; 2],
    walk: Walk,
    element: PhantomData<T>,
}

impl<'p, T: Persist<'p>, C: Control> Iter<'_, 'p, T, C> {
    /// Returns the element at `index`, or the vector's length if `index` is not less than it.
    fn at(&mut self, index: u64, end: usize) -> Result<Result<T, u64>> {
        let (vector, segment) = (self.vector, place(index).0);
        let is_new = self.segments[end].replace(segment) != Some(segment);
        self.tx.begin_step(&mut self.walk);
        let walk = &mut self.walk;
        let element = vector.operate(self.tx, |tx, recent| {
            let header = Header::of(recent.header);
            if index >= header.length {
                return Ok(Err(header.length));
            }
            if is_new {
                let first = Vector::<T>::check_to_read(tx, header, segment)?;
                walk.visit(tx, SEGMENT, first, Vector::<T>::segment_words(segment))?;
            }
            Vector::load(tx, recent, index).map(Ok)
        });
        match &element {
            Ok(Ok(_)) => {}
            // No element was read, so the segment was not checked.
            Ok(Err(_)) => self.segments[end] = None,
            Err(_) => self.end = self.next,
        }
        element
    }
}

impl<'p, T: Persist<'p>, C: Control> Iterator for Iter<'_, 'p, T, C> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Result<T>> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        match self.at(self.next - 1, 0) {
            Ok(Ok(element)) => Some(Ok(element)),
            // The vector has become shorter.
            Ok(Err(_)) => {
                self.end = self.next;
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl<'p, T: Persist<'p>, C: Control> DoubleEndedIterator for Iter<'_, 'p, T, C> {
    fn next_back(&mut self) -> Option<Result<T>> {
        while self.next < self.end {
            self.end -= 1;
            match self.at(self.end, 1) {
                Ok(Ok(element)) => return Some(Ok(element)),
                // The vector has become shorter. The next element is the last one that is left.
                Ok(Err(length)) => self.end = self.end.min(length).max(self.next),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

debug_as_name! { Iter<'_, '_; T> }
