//! Values of types that implement serde's traits.

use std::fmt;
use std::marker::PhantomData;

use ::serde::Serialize;
use ::serde::de::DeserializeOwned;

use super::persist::{Invalid, Persist, Stored};
use super::schema::Types;
use strandline_core::error::{Error, Result};

/// A value of a type that implements serde's `Serialize` and `Deserialize`, stored as CBOR. Needs the feature `serde`.
///
/// Use it for types of other crates, or for types that already have serde's attributes. It is stored like a `Vec<u8>`, so that a table of one can be
/// opened as a table of the other. Only serde knows the type and the version of the bytes. CBOR has the names of fields, so that fields with
/// `#[serde(default)]` can be added and others removed. A type that derives `Persist` takes less space, and is checked when the table is opened.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use strandline::{Database, Serde};
///
/// #[derive(Debug, Deserialize, PartialEq, Serialize)]
/// struct Job {
///     command: String,
///     #[serde(default)]
///     urgent: bool,
/// }
///
/// let db = Database::in_memory()?;
/// let jobs = db.table::<u64, Serde<Job>>("jobs")?;
/// let job = Job { command: "sweep".into(), urgent: true };
/// db.write(|tx| jobs.insert(tx, &1, &Serde::new(&job)?))?;
/// let found = db.read(|tx| jobs.get(tx, &1))?.expect("it is there");
/// assert_eq!(found.get()?, job);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Serde<T> {
    bytes: Vec<u8>,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize> Serde<T> {
    /// Serializes `value`.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the value cannot be serialized.
    pub fn new(value: &T) -> Result<Self> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes)
            .map_err(|error| Error::Parameter(format!("the value cannot be serialised: {error}")))?;
        Ok(Self { bytes, value: PhantomData })
    }
}

impl<T: DeserializeOwned> Serde<T> {
    /// Deserializes the value.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the bytes are not a valid value of this type.
    pub fn get(&self) -> Result<T> {
        let mut rest = self.bytes.as_slice();
        let value = ciborium::from_reader(&mut rest);
        let wrong = |why: &dyn fmt::Display| {
            Error::Parameter(format!(
                "the bytes are not a valid value of {}: {why}",
                std::any::type_name::<T>()
            ))
        };
        match value {
            Ok(value) if rest.is_empty() => Ok(value),
            Ok(_) => Err(wrong(&"further bytes follow it")),
            Err(error) => Err(wrong(&error)),
        }
    }
}

impl<T> Serde<T> {
    /// Returns the value's CBOR bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T> Clone for Serde<T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), value: PhantomData }
    }
}

impl<T> PartialEq for Serde<T> {
    /// Returns whether both have the same bytes.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Serde<T> {}

impl<T> fmt::Debug for Serde<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Serde").field(&self.bytes).finish()
    }
}

impl<T> From<Vec<u8>> for Serde<T> {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, value: PhantomData }
    }
}

// SAFETY: everything is that of a vector of bytes, including the layout: the same words, with the same meaning.
unsafe impl<'p, T> Persist<'p> for Serde<T> {
    const NAME: &'static str = <Vec<u8> as Persist<'p>>::NAME;
    const LAYOUT: u64 = <Vec<u8> as Persist<'p>>::LAYOUT;
    const SIZE: Option<usize> = <Vec<u8> as Persist<'p>>::SIZE;
    fn describe(types: &mut Types) -> String {
        <Vec<u8> as Persist<'p>>::describe(types)
    }
    fn words(&self) -> usize {
        self.bytes.words()
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.bytes.store(into)
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Vec::load(from, stored).map(Self::from)
    }
    fn bytes(&self) -> u64 {
        Persist::bytes(&self.bytes)
    }
    fn encode(&self, into: &mut [u64]) {
        self.bytes.encode(into);
    }
    fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        Vec::decode(from, bytes, stored).map(Self::from)
    }
}
