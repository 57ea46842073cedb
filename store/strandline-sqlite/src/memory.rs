//! Files in memory: those that SQLite uses within one connection, and the journals of databases whose commits are one transaction of the pool.
//! Neither is needed after a crash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    pub fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from `offset` on. Returns the number of bytes read.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let rest = bytes.get(offset..).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        read
    }

    pub fn write(&self, offset: usize, from: &[u8]) {
        let mut bytes = self.bytes();
        let end = offset + from.len();
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[offset..end].copy_from_slice(from);
    }
}

/// The journals by name.
#[derive(Default)]
pub(crate) struct Journals(Mutex<HashMap<Vec<u8>, Memory>>);

impl Journals {
    fn all(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the journal `name`. If it does not exist, creates it if `create` is set.
    pub fn open(&self, name: &[u8], create: bool) -> Option<Memory> {
        let mut journals = self.all();
        match journals.get(name) {
            Some(journal) => Some(journal.clone()),
            None if create => Some(journals.entry(name.to_vec()).or_default().clone()),
            None => None,
        }
    }

    /// Deletes a journal. Returns whether it existed.
    pub fn delete(&self, name: &[u8]) -> bool {
        self.all().remove(name).is_some()
    }

    /// Returns whether the database `name` has a journal to roll back: one that SQLite has not deleted, emptied or given a zeroed header, one of
    /// which it does to commit.
    pub fn is_hot(&self, name: &[u8]) -> bool {
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let name = [name, b"-journal"].concat();
        self.all().get(&name).is_some_and(|journal| journal.bytes().starts_with(&MAGIC))
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.all().contains_key(name)
    }
}
