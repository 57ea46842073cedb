//! Keys and values of unknown types, as raw words and bytes.

use super::key::{Key, KeyBytes, KeyRef};
use super::persist::{Invalid, Persist, Stored};
use super::schema::Types;
use strandline_core::structures::type_layout as layout;

/// A value of an unknown type, for code that only handles blocks and links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Any;

// SAFETY: no value is stored or loaded as this type, and the tags of its collections stand for no layout.
unsafe impl<'p> Persist<'p> for Any {
    const NAME: &'static str = "any";
    const LAYOUT: u64 = layout::begin("any", 0);
    // The number has no meaning. A root of this type needs one.
    const SIZE: Option<usize> = Some(1);
    const ANY: bool = true;
    fn describe(_: &mut Types) -> String {
        <Self as Persist<'p>>::NAME.into()
    }
    fn words(&self) -> usize {
        0
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        into
    }
    fn load(from: &mut &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        *from = &[];
        Ok(Self)
    }
    fn decode(_: &[u64], _: u64, _: Stored<'p>) -> Result<Self, Invalid> {
        Ok(Self)
    }
}

/// The bytes of a key of an unknown type.
#[derive(Clone, Debug)]
pub(crate) struct RawKey(pub Vec<u8>);

// SAFETY: these are the bytes that were read.
unsafe impl KeyRef for RawKey {
    fn write_key(&self, into: &mut KeyBytes) {
        into.push(&self.0);
    }
}

// SAFETY: the bytes are copied unchanged, in collections whose tags stand for no layout.
unsafe impl Key for RawKey {
    const NAME: &'static str = "any";
    const LAYOUT: u64 = layout::begin("any", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        Ok(Self(std::mem::take(from).to_vec()))
    }
}

/// The words of a value of an unknown type.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub words: Vec<u64>,
    pub bytes: u64,
}

// SAFETY: the words are copied unchanged, in collections whose tags stand for no layout.
unsafe impl<'p> Persist<'p> for Raw {
    const NAME: &'static str = "any";
    const LAYOUT: u64 = layout::begin("any", 0);
    const SIZE: Option<usize> = None;
    const ANY: bool = true;
    fn describe(_: &mut Types) -> String {
        <Self as Persist<'p>>::NAME.into()
    }
    fn words(&self) -> usize {
        self.words.len()
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        let (own, rest) = into.split_at_mut(self.words.len());
        own.copy_from_slice(&self.words);
        rest
    }
    fn load(_: &mut &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        Err(Invalid)
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn plain(&self) -> Option<&[u8]> {
        Some(&bytemuck::cast_slice(&self.words)[..self.bytes as usize])
    }
    fn decode(from: &[u64], bytes: u64, _: Stored<'p>) -> Result<Self, Invalid> {
        Ok(Self { words: from.to_vec(), bytes })
    }
}
