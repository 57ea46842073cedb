//! Byte strings and text of any size, as fields.
//!
//! ```text
//! header   word 0 tag · word 1 number of bytes · word 2 address of the content, 0 if there is none
//! content  word 0 tag · then the bytes
//! ```

use super::check::{Checker, Look};
use super::persist::{Fixed, Invalid, Persist, Stored};
use super::pointer::{check_block, check_tagged, handle, invalid, persist_handle, read_tagged};
use super::schema::Types;
use super::transaction::{Control, Tx, View};
use super::values::to_words;
use strandline_core::error::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{Survey, with_buffer};
use strandline_core::structures::{
    bytes::check_length, bytes::read_bytes, bytes::rewrite, bytes::write_bytes,
};
use strandline_core::transaction::{Abort, Read, Transaction};

pub(crate) const TAG: u64 = layout::tag(layout::begin("bytes", 1));
const CONTENT_TAG: u64 = layout::tag(layout::begin("bytes content", 1));
pub(crate) const HEADER_WORDS: u64 = 3;
const LENGTH: u64 = 1;
const CONTENT: u64 = 2;

handle! {
    /// A byte string of any size. Its handle is stored as one word, the address of the string.
    ///
    /// If several transactions build a string, so that others can run between them, they can use [`Bytes::append`].
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let log = Bytes::new(tx, b"high water")?;
    /// log.append(tx, ", then ebb")?;
    /// assert_eq!(log.get(tx)?, b"high water, then ebb");
    /// log.set(tx, "calm")?;
    /// assert_eq!(log.len(tx)?, 4);
    /// log.destroy(tx)?;
    /// # Ok(())
    /// # });
    /// ```
    Bytes<>, "Bytes"
}

persist_handle!('p, Bytes<>, "Bytes", owned: false);

fn header(tx: &mut impl Read, at: PersistentAddress) -> Result<(u64, PersistentAddress), Abort> {
    let [_, bytes, content] = read_tagged::<{ HEADER_WORDS as usize }>(tx, at, TAG, "Bytes")?;
    Ok((bytes, PersistentAddress::new(content)))
}

/// Checks that `content` may be written and has room for `bytes` bytes.
fn check_content(tx: &mut impl Transaction, content: PersistentAddress, bytes: u64) -> Result<(), Abort> {
    check_tagged(tx, content, 1 + bytes.div_ceil(8), CONTENT_TAG, "Bytes")
}

/// Frees the content, if there is any.
fn free_content(tx: &mut impl Transaction, content: PersistentAddress) -> Result<(), Abort> {
    if content.is_null() {
        return Ok(());
    }
    check_content(tx, content, 0)?;
    tx.write(content, 0)?;
    tx.free(content)
}

/// Checks the string at `at`, and returns its bytes if it is not damaged.
#[inline]
pub(crate) fn look(checker: &mut Checker<'_, '_>, at: PersistentAddress) -> Result<Option<Vec<u8>>> {
    let Some((bytes, content)) = checker.read(|tx| header(tx, at))? else { return Ok(None) };
    if bytes == 0 && content.is_null() {
        return Ok(Some(Vec::new()));
    }
    if !checker.tagged(content, 1 + bytes.div_ceil(8), CONTENT_TAG, "a byte string's content")? {
        return Ok(None);
    }
    checker.read(|tx| {
        let mut all = Vec::new();
        read_bytes(tx, content.word(1), bytes, &mut all)?;
        Ok(all)
    })
}

/// Checks the text at `at`, and returns it if it is not damaged.
pub(crate) fn look_at_text(checker: &mut Checker<'_, '_>, at: PersistentAddress) -> Result<Option<String>> {
    let text = look(checker, at)?.map(String::from_utf8);
    if let Some(Err(_)) = text {
        checker.damaged(format!("the text at {:#x} is not valid UTF-8", at.offset()));
    }
    Ok(text.and_then(Result::ok))
}

impl<'p> Bytes<'p> {
    /// Stores a byte string in the pool.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>, bytes: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = bytes.as_ref();
        tx.words(|tx| {
            let at = tx.alloc(8 * HEADER_WORDS)?;
            let content = Self::put(tx, bytes)?;
            tx.write_range(at, &[TAG, bytes.len() as u64, content.offset()])?;
            Ok(Self::at(at))
        })
    }

    pub(crate) fn address(self) -> PersistentAddress {
        self.raw.at
    }

    /// Returns the byte string whose header is at `at`. Nothing is checked here: each operation checks the header.
    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self::at(at)
    }

    fn put(tx: &mut impl Transaction, bytes: &[u8]) -> Result<PersistentAddress, Abort> {
        if bytes.is_empty() {
            return Ok(PersistentAddress::NULL);
        }
        let content = tx.alloc(8 * (1 + (bytes.len() as u64).div_ceil(8)))?;
        tx.write(content, CONTENT_TAG)?;
        write_bytes(tx, content.word(1), bytes)?;
        Ok(content)
    }

    /// Returns the number of bytes.
    ///
    /// # Errors
    /// Returns [`Error::Dangling`](crate::Error::Dangling) if the string was destroyed, and an error after a conflict.
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| Ok(header(tx, self.raw.at)?.0))
    }

    /// Returns whether the string is empty.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::len`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// Returns a copy of the bytes.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::len`].
    pub fn get(self, tx: &View<'p, impl Control>) -> Result<Vec<u8>> {
        tx.words(|tx| {
            let (bytes, content) = header(tx, self.raw.at)?;
            check_length(tx, content, 1 + bytes.div_ceil(8))?;
            let mut all = Vec::new();
            read_bytes(tx, content.word(1), bytes, &mut all)?;
            Ok(all)
        })
    }

    /// Replaces the bytes. If the new ones take as many words as the old ones, only the words that differ are written.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::new`] and [`Bytes::len`].
    pub fn set(self, tx: &Tx<'p, impl Control>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let bytes = bytes.as_ref();
        tx.words(|tx| {
            check_block(tx, self.raw.at, HEADER_WORDS as usize, "Bytes")?;
            let (old, content) = header(tx, self.raw.at)?;
            let (new, at) = (bytes.len() as u64, self.raw.at);
            if old != new {
                tx.write(at.word(LENGTH), new)?;
            }
            if old.div_ceil(8) == new.div_ceil(8) {
                if new == 0 {
                    return Ok(());
                }
                check_content(tx, content, new)?;
                return with_buffer(new.div_ceil(8), |words| {
                    to_words(bytes, words);
                    rewrite(tx, content.word(1), words).map(drop)
                });
            }
            free_content(tx, content)?;
            let content = Self::put(tx, bytes)?;
            tx.write(at.word(CONTENT), content.offset())
        })
    }

    /// Appends bytes. As long as they fit into the string's block, only they are written. Otherwise the string moves to a new block, which is half as
    /// large again as needed.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::set`].
    pub fn append(self, tx: &Tx<'p, impl Control>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Ok(());
        }
        tx.words(|tx| {
            check_block(tx, self.raw.at, HEADER_WORDS as usize, "Bytes")?;
            let (old, mut content) = header(tx, self.raw.at)?;
            let room = if content.is_null() { 0 } else { tx.block(content)? - 8 };
            if old > room && (content.is_null() || !tx.has_room(content, old.saturating_add(8))?) {
                return Err(invalid(tx, self.raw.at, "Bytes"));
            }
            let new = old + bytes.len() as u64;
            if new > room {
                let larger = tx.alloc((8 + new + new / 2).next_multiple_of(8))?;
                tx.write(larger, CONTENT_TAG)?;
                let mut piece = [0; 64];
                let words = old.div_ceil(8);
                for first in (0..words).step_by(piece.len()) {
                    let piece = &mut piece[..(words - first).min(64) as usize];
                    tx.read_range(content.word(1 + first), piece)?;
                    tx.write_range(larger.word(1 + first), piece)?;
                }
                free_content(tx, content)?;
                tx.write(self.raw.at.word(CONTENT), larger.offset())?;
                content = larger;
            } else {
                check_content(tx, content, new)?;
            }
            // The write starts with the last word in use, which the new bytes may complete.
            let (full, mut joined) = (old / 8, Vec::new());
            read_bytes(tx, content.word(1 + full), old % 8, &mut joined)?;
            joined.extend_from_slice(bytes);
            write_bytes(tx, content.word(1 + full), &joined)?;
            tx.write(self.raw.at.word(LENGTH), new)
        })
    }

    /// Checks the string for damage, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let log = Bytes::new(tx, b"high water")?;
    /// assert!(log.check(tx)?.is_empty());
    /// log.destroy(tx)?;
    /// assert_eq!(log.check(tx)?.len(), 1);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| self.reach(checker))
    }

    #[inline]
    fn reach(self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        let look = Look::Typed(|checker, at| look(checker, at).map(drop));
        checker.pointer(self.raw.at, TAG, HEADER_WORDS, "Bytes", look)
    }

    /// Frees the string's memory. Every copy of this handle dangles afterwards.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::set`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        tx.words(|tx| {
            check_block(tx, self.raw.at, HEADER_WORDS as usize, "Bytes")?;
            let (_, content) = header(tx, self.raw.at)?;
            free_content(tx, content)?;
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })
    }
}

/// Text of any size. Its handle is stored as one word, the address of the text.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// let title = Text::new(tx, "Persistence")?;
/// title.set(tx, "Persistent memory")?;
/// assert_eq!(title.get(tx)?, "Persistent memory");
/// title.destroy(tx)?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'p>(Bytes<'p>);

// SAFETY: the handle is stored as its address, with a layout of its own.
unsafe impl<'p> Persist<'p> for Text<'p> {
    const NAME: &'static str = "Text";
    const LAYOUT: u64 = layout::begin("Text", 0);
    const SIZE: Option<usize> = Some(1);
    const NEVER_ZERO: bool = true;
    fn describe(_: &mut Types) -> String {
        "Text".into()
    }
    fn words(&self) -> usize {
        1
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.0.store(into)
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Bytes::load(from, stored).map(Self)
    }
    #[inline]
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        self.reach(checker)
    }
}

// SAFETY: the handle always has one word.
unsafe impl<'p> Fixed<'p> for Text<'p> {}

impl<'p> Text<'p> {
    /// Stores a text in the pool.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::new`].
    pub fn new(tx: &Tx<'p, impl Control>, text: impl AsRef<str>) -> Result<Self> {
        Bytes::new(tx, text.as_ref()).map(Self)
    }

    /// Returns a copy of the text.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if the bytes are not valid UTF-8, and the errors of [`Bytes::get`].
    pub fn get(self, tx: &View<'p, impl Control>) -> Result<String> {
        let bytes = self.0.get(tx)?;
        String::from_utf8(bytes).or_else(|_| tx.words(|tx| Err(invalid(tx, self.0.raw.at, "Text"))))
    }

    /// Replaces the text.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::set`].
    pub fn set(self, tx: &Tx<'p, impl Control>, text: impl AsRef<str>) -> Result<()> {
        self.0.set(tx, text.as_ref())
    }

    /// Checks the text for damage, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let title = Text::new(tx, "Persistence")?;
    /// assert!(title.check(tx)?.is_empty());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| self.reach(checker))
    }

    #[inline]
    fn reach(self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        let look = Look::Typed(|checker, at| look_at_text(checker, at).map(drop));
        checker.pointer(self.0.raw.at, TAG, HEADER_WORDS, "Text", look)
    }

    /// Frees the text's memory. Every copy of this handle dangles afterwards.
    ///
    /// # Errors
    /// Returns the same errors as [`Bytes::destroy`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.0.destroy(tx)
    }
}
