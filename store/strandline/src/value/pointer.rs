//! Pointers into a pool, and the tags with which values begin.
//!
//! ```text
//! value   word 0 tag: its type's layout · then the words of the value
//! ```
//!
//! Freeing a value clears its tag. So the next access detects a pointer to a freed value or to a value of another type, as long as the memory is not
//! used again for a value of the same type.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::check::{Checker, Look};
use super::persist::{Fixed, Invalid, Persist, Stored, replaced};
use super::schema::Types;
use super::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{Survey, bytes::read_few, with_buffer};
use strandline_core::transaction::{Abort, Read, Transaction};

/// An address with a brand.
pub(crate) struct Raw<'p> {
    pub at: PersistentAddress,
    /// Invariant, so that one brand cannot be used as another.
    brand: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl Clone for Raw<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Raw<'_> {}

impl<'p> Raw<'p> {
    pub fn new(at: PersistentAddress) -> Self {
        Self { at, brand: PhantomData }
    }

    #[inline]
    pub fn store(self, into: &mut [u64]) -> &mut [u64] {
        self.at.offset().store(into)
    }

    #[inline]
    pub fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        match u64::load(from, stored)? {
            0 => Err(Invalid),
            offset => Ok(Self::new(PersistentAddress::new(offset))),
        }
    }
}

/// Defines the handle of a structure in the pool: its address with a brand, which is stored as one word.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($parameter:ident),*>, $label:literal) => {
        $(#[$doc])*
        pub struct $name<'p, $($parameter),*> {
            raw: $crate::value::pointer::Raw<'p>,
            types: std::marker::PhantomData<fn() -> ($($parameter,)*)>,
        }

        impl<$($parameter),*> Clone for $name<'_, $($parameter),*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($parameter),*> Copy for $name<'_, $($parameter),*> {}

        impl<$($parameter),*> PartialEq for $name<'_, $($parameter),*> {
            /// Returns whether both are handles to the same structure.
            fn eq(&self, other: &Self) -> bool {
                self.raw.at == other.raw.at
            }
        }

        impl<$($parameter),*> Eq for $name<'_, $($parameter),*> {}

        impl<$($parameter),*> std::fmt::Debug for $name<'_, $($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($label, "({:#x})"), self.raw.at.offset())
            }
        }

        impl<'p, $($parameter),*> $name<'p, $($parameter),*> {
            #[allow(dead_code)]
            fn at(address: strandline_core::memory::PersistentAddress) -> Self {
                Self { raw: $crate::value::pointer::Raw::new(address), types: std::marker::PhantomData }
            }
        }
    };
}
pub(crate) use handle;

/// Implements [`Persist`](crate::Persist) for a handle. With `owned: true`, the value that holds the handle destroys the structure. Only the names of
/// the parameters are part of the layout, so that types can contain themselves. The structure's own tag identifies their layouts.
macro_rules! persist_handle {
    ($brand:lifetime, $name:ident<$($parameter:ident: $bound:path),*>, $label:literal, owned: $owns:literal) => {
        // SAFETY: the handle is stored as its address. The layout is that of this collection with these parameters.
        unsafe impl<$brand, $($parameter: $bound),*> $crate::Persist<$brand> for $name<$brand, $($parameter),*> {
            const NAME: &'static str = $label;
            const LAYOUT: u64 = {
                let hash = strandline_core::structures::type_layout::begin($label, 0);
                $(let hash = strandline_core::structures::type_layout::field(hash, <$parameter as $bound>::NAME, 0);)*
                hash
            };
            const SIZE: Option<usize> = Some(1);
            const NEVER_ZERO: bool = true;
            fn describe(types: &mut $crate::Types) -> String {
                let _ = &types;
                $crate::value::pointer::generic($label, &[$(<$parameter as $bound>::describe(types)),*])
            }
            #[inline]
            fn words(&self) -> usize {
                1
            }
            #[inline]
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                self.raw.store(into)
            }
            #[inline]
            fn load(from: &mut &[u64], stored: $crate::Stored<$brand>) -> Result<Self, $crate::Invalid> {
                Ok(Self { raw: $crate::value::pointer::Raw::load(from, stored)?, types: std::marker::PhantomData })
            }
            #[inline]
            fn visit(&self, checker: &mut $crate::Checker<'_, $brand>) -> strandline_core::Result<()> {
                self.reach(checker)
            }
            const OWNS: bool = $owns;
            fn collections(&self, found: &mut Vec<strandline_core::memory::PersistentAddress>) {
                if $owns {
                    found.push(self.raw.at);
                }
            }
            fn destroy_collections(
                &self,
                tx: &$crate::Tx<$brand, impl $crate::Control>,
                kept: &mut Vec<strandline_core::memory::PersistentAddress>,
            ) -> strandline_core::Result<()> {
                if !$owns || kept.contains(&self.raw.at) {
                    return Ok(());
                }
                kept.push(self.raw.at);
                self.destroy(tx)
            }
        }
        // SAFETY: the handle always has one word.
        unsafe impl<$brand, $($parameter: $bound),*> $crate::Fixed<$brand> for $name<$brand, $($parameter),*> {}
    };
}
pub(crate) use persist_handle;

/// Returns the description of a type with parameters.
pub(crate) fn generic(name: &str, parameters: &[String]) -> String {
    if parameters.is_empty() { name.into() } else { format!("{name}<{}>", parameters.join(", ")) }
}

/// A pointer to a value of type `T` in the pool of brand `'p`. It can be copied and stored in the pool. Dropping it does not free the value.
///
/// A pointer lives as long as its transaction. A later transaction finds the value again through pointers that start at the store's root.
///
/// ```compile_fail
/// # use strandline::{Ptr, Store, Root};
/// # fn f<R: Root>(one: &Store<R>, other: &Store<R>) -> strandline::Result<()> {
/// one.write(|a, _| other.write(|b, _| {
///     let number = Ptr::new(a, &5u64)?;
///     number.set(b, &6) // a pointer of one pool, used in another
/// }))
/// # }
/// ```
///
/// # After a free
/// [`Ptr::free`] frees a value explicitly, and other pointers to the same value may remain. Reading or writing through one of them returns
/// [`Error::Dangling`], unless the memory has meanwhile been used for a value of the same type at the same address. The pointer then refers to that
/// value. In no case does it damage the heap's own data, or read anything as a `T` that is not one.
pub struct Ptr<'p, T> {
    raw: Raw<'p>,
    pointee: PhantomData<fn() -> T>,
}

impl<T> Clone for Ptr<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<'_, T> {}

impl<T> PartialEq for Ptr<'_, T> {
    /// Returns whether both point to the same value.
    fn eq(&self, other: &Self) -> bool {
        self.raw.at == other.raw.at
    }
}

impl<T> Eq for Ptr<'_, T> {}

impl<T> Hash for Ptr<'_, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.at.hash(state);
    }
}

impl<T> fmt::Debug for Ptr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({:#x})", self.raw.at.offset())
    }
}

// SAFETY: the pointer is stored as its address. The layout has the name of the pointee's type, and every value begins with a tag for its layout.
unsafe impl<'p, T: Persist<'p>> Persist<'p> for Ptr<'p, T> {
    const NAME: &'static str = "Ptr";
    // Only the name of the pointee's type is included, so that types can point to themselves. The pointee's own tag identifies its layout.
    const LAYOUT: u64 = layout::field(layout::begin("Ptr", 0), T::NAME, 0);
    const SIZE: Option<usize> = Some(1);
    const NEVER_ZERO: bool = true;
    fn describe(types: &mut Types) -> String {
        generic("Ptr", &[T::describe(types)])
    }
    #[inline]
    fn words(&self) -> usize {
        1
    }
    #[inline]
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.raw.store(into)
    }
    #[inline]
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Ok(Self { raw: Raw::load(from, stored)?, pointee: PhantomData })
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        checker.pointer(self.raw.at, Self::TAG, Self::BLOCK_WORDS as u64, T::NAME, Look::Typed(Self::look))
    }
}

// SAFETY: the pointer always has one word. (The pointee may itself hold such a pointer, so its size is not checked here.)
unsafe impl<'p, T: Persist<'p>> Fixed<'p> for Ptr<'p, T> {}

#[cold]
pub(crate) fn dangling(tx: &mut impl Read, at: PersistentAddress, expected: &'static str) -> Abort {
    tx.fail(Error::Dangling { at: at.offset(), expected })
}

#[cold]
pub(crate) fn invalid(tx: &mut impl Read, at: PersistentAddress, expected: &'static str) -> Abort {
    tx.fail(Error::damaged(no_value(at, expected)))
}

/// Returns the message about words that are not a valid value of the type `expected`.
pub(crate) fn no_value(at: PersistentAddress, expected: &str) -> String {
    format!("the value at {:#x} is not valid for type {expected}", at.offset())
}

/// Reads the words of the structure at `at`, which must begin with `tag`.
#[inline]
pub(crate) fn read_tagged<const WORDS: usize>(
    tx: &mut impl Read,
    at: PersistentAddress,
    tag: u64,
    name: &'static str,
) -> Result<[u64; WORDS], Abort> {
    let words: [u64; WORDS] = tx.read_array(at)?;
    if layout::is_of(words[0], tag) { Ok(words) } else { Err(dangling(tx, at, name)) }
}

/// Checks that a block of at least `words` words begins at `at`, so that writing to it changes nothing else.
#[inline]
pub(crate) fn check_block(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    words: usize,
    name: &'static str,
) -> Result<(), Abort> {
    if tx.has_room(at, 8 * words as u64)? { Ok(()) } else { Err(dangling(tx, at, name)) }
}

/// Checks, before a write or a free, that a block of at least `words` words begins at `at`, and that it has this tag.
#[inline]
pub(crate) fn check_tagged(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    words: u64,
    tag: u64,
    name: &'static str,
) -> Result<(), Abort> {
    check_block(tx, at, words as usize, name)?;
    if layout::is_of(tx.read(at)?, tag) { Ok(()) } else { Err(dangling(tx, at, name)) }
}

impl<'p, T: Persist<'p>> Ptr<'p, T> {
    const TAG: u64 = layout::tag(T::LAYOUT);
    const BLOCK_WORDS: usize = 1 + layout::size(T::SIZE);

    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self { raw: Raw::new(at), pointee: PhantomData }
    }

    pub(crate) fn address(self) -> PersistentAddress {
        self.raw.at
    }

    /// Stores a value in the pool, and returns a pointer to it.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let pointer = Ptr::new(tx, &(7u64, 'x'))?;
    /// assert_eq!(pointer.get(tx)?, (7, 'x'));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>, value: &T) -> Result<Self>
    where
        T: Fixed<'p>,
    {
        tx.words(|tx| {
            let at = tx.alloc(8 * Self::BLOCK_WORDS as u64)?;
            with_buffer(Self::BLOCK_WORDS as u64, |words| {
                words[0] = Self::TAG;
                value.store(&mut words[1..]);
                tx.write_range(at, words)
            })?;
            Ok(Self::of(at))
        })
    }

    /// Checks the pointee.
    fn look(checker: &mut Checker<'_, 'p>, at: PersistentAddress) -> Result<()> {
        match checker.read(|tx| Self::of(at).load(tx))? {
            Some(value) => value.visit(checker),
            None => Ok(()),
        }
    }

    /// Checks the value and everything that it refers to, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let pointer = Ptr::new(tx, &7u64)?;
    /// assert!(pointer.check(tx)?.is_empty());
    /// pointer.free(tx)?;
    /// assert_eq!(pointer.check(tx)?.len(), 1);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| Persist::visit(&self, checker))
    }

    #[inline]
    fn read(self, tx: &mut impl Read, words: &mut [u64]) -> Result<(), Abort> {
        read_few(tx, self.raw.at, words)?;
        if words[0] == Self::TAG { Ok(()) } else { Err(dangling(tx, self.raw.at, T::NAME)) }
    }

    #[inline]
    fn decode(self, tx: &mut impl Read, words: &[u64]) -> Result<T, Abort> {
        T::load(&mut &words[1..], Stored::new()).map_err(|_| invalid(tx, self.raw.at, T::NAME))
    }

    #[inline]
    fn load(self, tx: &mut impl Read) -> Result<T, Abort> {
        const FEW: usize = 8;
        if Self::BLOCK_WORDS <= FEW {
            // Written without a closure, so that the compiler inlines it.
            let words = &mut [0; FEW][..Self::BLOCK_WORDS];
            self.read(tx, words)?;
            return self.decode(tx, words);
        }
        with_buffer(Self::BLOCK_WORDS as u64, |words| {
            self.read(tx, words)?;
            self.decode(tx, words)
        })
    }

    /// Writes the words of `value` that differ from `old`, the words of the block.
    fn write(self, tx: &mut impl Transaction, old: &[u64], value: &T) -> Result<(), Abort> {
        check_block(tx, self.raw.at, Self::BLOCK_WORDS, T::NAME)?;
        with_buffer(Self::BLOCK_WORDS as u64 - 1, |new| {
            value.store(new);
            for (i, (&old, &new)) in (1..).zip(old[1..].iter().zip(&*new)) {
                if old != new {
                    tx.write(self.raw.at.word(i), new)?;
                }
            }
            Ok(())
        })
    }

    /// Returns a copy of the value.
    ///
    /// # Errors
    /// Returns [`Error::Dangling`] if there is no value of this type at the address, and an error after a conflict.
    #[inline]
    pub fn get(self, tx: &View<'p, impl Control>) -> Result<T> {
        tx.beside(|tx| self.load(tx))
    }

    /// Replaces the value. Only the words that differ are written. Collections in the old value that are not in `value` are destroyed.
    ///
    /// # Errors
    /// Returns an error if the log is full, and the errors of [`Ptr::get`].
    pub fn set(self, tx: &Tx<'p, impl Control>, value: &T) -> Result<()> {
        if T::OWNS {
            let old = self.get(tx)?;
            self.write_over(tx, value)?;
            return replaced(tx, &old, Some(value));
        }
        self.write_over(tx, value)
    }

    fn write_over(self, tx: &Tx<'p, impl Control>, value: &T) -> Result<()> {
        tx.words(|tx| {
            with_buffer(Self::BLOCK_WORDS as u64, |old| {
                self.read(tx, old)?;
                self.write(tx, old, value)
            })
        })
    }

    /// Changes the value in place: reads it, calls `change` with the copy, stores the copy, and returns the result of `change`.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let counter = Ptr::new(tx, &7u64)?;
    /// let before = counter.update(tx, |count| {
    ///     *count += 1;
    ///     *count - 1
    /// })?;
    /// assert_eq!((before, counter.get(tx)?), (7, 8));
    /// counter.set(tx, &0)?;
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Ptr::set`].
    pub fn update<R>(self, tx: &Tx<'p, impl Control>, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        with_buffer(Self::BLOCK_WORDS as u64, |old| {
            let mut value = tx.words(|tx| {
                self.read(tx, old)?;
                self.decode(tx, old)
            })?;
            let before = tx.operations();
            let result = change(&mut value);
            // `change` may have used the transaction, so that `old` may be out of date.
            if tx.operations() == before && !T::OWNS {
                tx.words(|tx| self.write(tx, old, &value))?;
            } else {
                self.set(tx, &value)?;
            }
            Ok(result)
        })
    }

    /// Frees the value's memory when the transaction commits, and returns the value. Objects that it points to are kept, and so are collections in
    /// it.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let pointer = Ptr::new(tx, &7u64)?;
    /// assert_eq!(pointer.free(tx)?, 7);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Ptr::set`].
    pub fn free(self, tx: &Tx<'p, impl Control>) -> Result<T> {
        tx.words(|tx| {
            check_block(tx, self.raw.at, Self::BLOCK_WORDS, T::NAME)?;
            let value = self.load(tx)?;
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)?;
            Ok(value)
        })
    }
}
