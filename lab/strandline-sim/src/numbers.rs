//! Types for numbers that must not be confused.

use std::fmt;
use std::ops::{Add, AddAssign, Index, IndexMut, Range, Sub};

use crate::description::LINE_BYTES;

/// The number of words that a line has.
const LINE_WORDS: usize = LINE_BYTES as usize / 8;

/// A line's number in memory: its address / 64. The pool's lines come first, then those reserved for hardware, then the volatile ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineNumber(u32);

impl LineNumber {
    /// Returns the line with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the line that contains the byte at `address`.
    pub const fn containing(address: u64) -> Self {
        Self((address / LINE_BYTES) as u32)
    }

    /// Returns its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the address of its first byte.
    pub const fn address(self) -> u64 {
        self.0 as u64 * LINE_BYTES
    }

    /// Returns the index of its first word among all words of memory.
    pub const fn first_word(self) -> usize {
        self.0 as usize * LINE_WORDS
    }

    /// Returns the indices of its words.
    pub const fn words(self) -> Range<usize> {
        self.first_word()..self.first_word() + LINE_WORDS
    }

    /// Returns the lines from `range.start` to before `range.end`.
    pub fn all(range: Range<Self>) -> impl Iterator<Item = Self> + use<> {
        (range.start.0..range.end.0).map(Self)
    }
}

impl fmt::Display for LineNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add<u32> for LineNumber {
    type Output = Self;

    fn add(self, lines: u32) -> Self {
        Self(self.0 + lines)
    }
}

/// The difference is the number of lines between two.
impl Sub for LineNumber {
    type Output = u32;

    fn sub(self, earlier: Self) -> u32 {
        self.0 - earlier.0
    }
}

/// A list with an element for each line of memory.
impl<T> Index<LineNumber> for Vec<T> {
    type Output = T;

    fn index(&self, line: LineNumber) -> &T {
        &self[line.0 as usize]
    }
}

impl<T> IndexMut<LineNumber> for Vec<T> {
    fn index_mut(&mut self, line: LineNumber) -> &mut T {
        &mut self[line.0 as usize]
    }
}

/// A core, or the hardware thread that it runs: from 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(u8);

impl CoreId {
    /// Returns core number `index`.
    pub const fn new(index: usize) -> Self {
        assert!(index < 64, "a core beyond the 64th");
        Self(index as u8)
    }

    /// Returns its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns its bit in a set of cores.
    pub const fn bit(self) -> u64 {
        1 << self.0
    }

    /// Returns the first `count` cores.
    pub fn first(count: usize) -> impl DoubleEndedIterator<Item = Self> + use<> {
        (0..count).map(Self::new)
    }

    /// Returns the cores whose bits are set in `cores`.
    pub fn in_set(mut cores: u64) -> impl Iterator<Item = Self> + use<> {
        std::iter::from_fn(move || {
            let first = (cores != 0).then(|| Self(cores.trailing_zeros() as u8))?;
            cores &= cores - 1;
            Some(first)
        })
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A list with an element for each core.
impl<T> Index<CoreId> for Vec<T> {
    type Output = T;

    fn index(&self, core: CoreId) -> &T {
        &self[core.index()]
    }
}

impl<T> IndexMut<CoreId> for Vec<T> {
    fn index_mut(&mut self, core: CoreId) -> &mut T {
        &mut self[core.index()]
    }
}

/// A point in simulated time, in cycles since its beginning. The difference of two is a plain number of cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycle(u64);

impl Cycle {
    /// The beginning of simulated time.
    pub const ZERO: Self = Self(0);
    /// A time after all others.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the point after so many cycles.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the cycles since the beginning.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the cycles since `earlier`, or 0 if that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the point so many cycles earlier, or the beginning.
    pub const fn before(self, cycles: u64) -> Self {
        Self(self.0.saturating_sub(cycles))
    }

    /// Returns the point so many cycles later, or [`NEVER`](Self::NEVER).
    pub const fn saturating_add(self, cycles: u64) -> Self {
        Self(self.0.saturating_add(cycles))
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add<u64> for Cycle {
    type Output = Self;

    fn add(self, cycles: u64) -> Self {
        Self(self.0 + cycles)
    }
}

impl AddAssign<u64> for Cycle {
    fn add_assign(&mut self, cycles: u64) {
        self.0 += cycles;
    }
}

/// The difference is the number of cycles between two.
impl Sub for Cycle {
    type Output = u64;

    fn sub(self, earlier: Self) -> u64 {
        self.0 - earlier.0
    }
}
