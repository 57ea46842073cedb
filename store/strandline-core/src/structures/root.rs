//! The description of a store's root in the pool: its type, and the address of its value.
//!
//! ```text
//! root word 0   the address of the root's description
//! description   word 0 tag · 1 layout · 2 version · 3 words · 4 address of the value · 5 address of the schema, a byte string
//!               6 bytes in the name · 7.. name
//! ```

use std::fmt;

use super::type_layout;
use crate::error::{Abort, Error};
use crate::memory::PersistentAddress;
use crate::transaction::{Read, Transaction};

const TAG: u64 = type_layout::tag(type_layout::begin("root", 2));
const NAME_WORDS: usize = 8;
/// The number of words before the name.
const HEAD_WORDS: usize = 7;
/// The number of words in a description.
pub const DESCRIPTION_WORDS: usize = HEAD_WORDS + NAME_WORDS;

/// A type, as a description in the pool names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootType {
    /// The type's name; only its beginning if it is long.
    pub name: String,
    /// The hash of the type's layout.
    pub layout: u64,
    /// The version that the program gave the type.
    pub version: u64,
    /// The number of words in a value.
    pub words: u64,
}

impl fmt::Display for RootType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number of words may have any value if the description is damaged.
        let bytes = self.words.saturating_mul(8);
        write!(f, "{}, version {}, {bytes} bytes, layout {:#x}", self.name, self.version, self.layout)
    }
}

impl RootType {
    /// Returns the message for a description whose parts do not agree.
    pub fn contradiction(&self) -> String {
        format!("the description of the root contradicts itself: {self}")
    }
}

/// A pool's root, as the pool describes it.
#[derive(Clone, Debug)]
pub struct RootDescription {
    /// The address of the description.
    pub at: PersistentAddress,
    /// The address of the value.
    pub value: PersistentAddress,
    /// The address of the schema, which describes all types in the value for programs that do not know them.
    pub schema: PersistentAddress,
    /// The type of the value.
    pub root_type: RootType,
}

impl RootDescription {
    /// Reads the description of the pool's root; `None` if the pool has none yet.
    ///
    /// # Errors
    /// Returns [`Error::WrongStructure`] if the root word refers to something else.
    pub fn find(tx: &mut (impl Read + ?Sized)) -> Result<Option<Self>, Abort> {
        let root = tx.root(0);
        let at = PersistentAddress::new(tx.read(root)?);
        if at.is_null() {
            return Ok(None);
        }
        let mut words = [0; DESCRIPTION_WORDS];
        tx.read_range(at, &mut words)?;
        let [tag, layout, version, value_words, value, schema, bytes, name @ ..] = words;
        if tag != TAG {
            return Err(tx.fail(Error::WrongStructure { what: "store's root", root: root.offset() }));
        }
        let name: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = bytes.min(name.len() as u64) as usize;
        let name = String::from_utf8_lossy(&name[..bytes]).into_owned();
        let root_type = RootType { name, layout, version, words: value_words };
        let (value, schema) = (PersistentAddress::new(value), PersistentAddress::new(schema));
        Ok(Some(Self { at, value, schema, root_type }))
    }

    /// Writes the description to its address.
    ///
    /// # Errors
    /// Returns the errors of the transaction.
    pub fn write(&self, tx: &mut (impl Transaction + ?Sized)) -> Result<(), Abort> {
        let RootType { name, layout, version, words } = &self.root_type;
        let name = &name.as_bytes()[..name.len().min(8 * NAME_WORDS)];
        let mut all = [0; DESCRIPTION_WORDS];
        let (value, schema) = (self.value.offset(), self.schema.offset());
        all[..HEAD_WORDS].copy_from_slice(&[
            TAG,
            *layout,
            *version,
            *words,
            value,
            schema,
            name.len() as u64,
        ]);
        for (word, bytes) in all[HEAD_WORDS..].iter_mut().zip(name.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        tx.write_range(self.at, &all)
    }

    /// Fails unless the value's block has room for its tag and its words.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if it has not.
    pub fn check(&self, tx: &mut (impl Transaction + ?Sized)) -> Result<(), Abort> {
        if tx.has_room(self.value, self.root_type.words.saturating_add(1).saturating_mul(8))? {
            return Ok(());
        }
        let what = format!("the root's value is smaller than its description says: {}", self.root_type);
        Err(tx.fail(Error::damaged(what)))
    }
}
