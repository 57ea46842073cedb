//! Collects what a connection writes to a database. On commit, all of it becomes one transaction of the pool.

use std::collections::BTreeMap;

use strandline_core::Result;

use crate::files::{PAGE_BYTES, Storage, pieces};

/// The changes to a file, which other connections do not see yet.
#[derive(Default)]
pub(crate) struct Buffer {
    /// `None` if nothing has changed.
    extent: Option<Extent>,
    pages: BTreeMap<u64, Box<[u8]>>,
}

#[derive(Clone, Copy)]
struct Extent {
    /// Size of the file, in bytes.
    size: u64,
    /// The number of bytes at the stored file's beginning that are still valid.
    kept: u64,
}

impl Buffer {
    fn begin(&mut self, storage: &mut dyn Storage, file: u64) -> Result<&mut Extent> {
        let size = if self.extent.is_none() { storage.size(file)? } else { 0 };
        Ok(self.extent.get_or_insert(Extent { size, kept: size }))
    }

    pub fn is_empty(&self) -> bool {
        self.extent.is_none()
    }

    pub fn size(&self, storage: &mut dyn Storage, file: u64) -> Result<u64> {
        self.extent.map_or_else(|| storage.size(file), |extent| Ok(extent.size))
    }

    /// Reads from `offset` on. Returns the number of bytes read.
    pub fn read(&self, storage: &mut dyn Storage, file: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
        let Some(Extent { size, kept }) = self.extent else { return storage.read(file, offset, into) };
        let length = size.saturating_sub(offset).min(into.len() as u64) as usize;
        for piece in pieces(offset, length) {
            let part = &mut into[piece.from..piece.from + piece.length];
            match self.pages.get(&piece.page) {
                Some(page) => part.copy_from_slice(&page[piece.within..piece.within + piece.length]),
                None => {
                    let at = offset + piece.from as u64;
                    let there = storage.read(file, at, part)?.min(kept.saturating_sub(at) as usize);
                    part[there..].fill(0);
                }
            }
        }
        Ok(length)
    }

    pub fn write(&mut self, storage: &mut dyn Storage, file: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        self.begin(storage, file)?;
        for piece in pieces(offset, bytes.len()) {
            let from = &bytes[piece.from..piece.from + piece.length];
            if from.len() as u64 == PAGE_BYTES {
                self.pages.insert(piece.page, from.into());
                continue;
            }
            if !self.pages.contains_key(&piece.page) {
                let mut page = vec![0; PAGE_BYTES as usize].into_boxed_slice();
                self.read(storage, file, piece.page * PAGE_BYTES, &mut page)?;
                self.pages.insert(piece.page, page);
            }
            if let Some(page) = self.pages.get_mut(&piece.page) {
                page[piece.within..piece.within + piece.length].copy_from_slice(from);
            }
        }
        let extent = self.begin(storage, file)?;
        extent.size = extent.size.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// Shortens the file to `size` bytes. Does nothing to a shorter file.
    pub fn truncate(&mut self, storage: &mut dyn Storage, file: u64, size: u64) -> Result<()> {
        let extent = self.begin(storage, file)?;
        extent.size = extent.size.min(size);
        extent.kept = extent.kept.min(size);
        drop(self.pages.split_off(&size.div_ceil(PAGE_BYTES)));
        if let Some(page) = self.pages.get_mut(&(size / PAGE_BYTES)) {
            page[(size % PAGE_BYTES) as usize..].fill(0);
        }
        Ok(())
    }

    /// Stores all changes in one transaction, or none of them. The buffer is empty afterwards in either case.
    pub fn commit(&mut self, storage: &mut dyn Storage, file: u64) -> Result<()> {
        let Some(Extent { size, kept }) = self.extent.take() else { return Ok(()) };
        let pages = std::mem::take(&mut self.pages);
        let mut writes: Vec<(u64, &[u8])> = pages
            .iter()
            .map(|(number, page)| {
                let offset = number * PAGE_BYTES;
                (offset, &page[..size.saturating_sub(offset).min(PAGE_BYTES) as usize])
            })
            .collect();
        let end = writes.last().map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
        if size > end.max(kept) {
            // The file ends in a hole, so the write of its last byte sets its size.
            writes.push((size - 1, &[0]));
        }
        storage.write(file, kept, &writes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::tests::with_files;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Truncate(u64),
        Commit,
        Forget,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u64..30_000, 1usize..9000, any::<u8>()).prop_map(|(at, length, byte)| Step::Write(at, vec![byte; length])),
            2 => (0u64..30_000).prop_map(Step::Truncate),
            2 => Just(Step::Commit),
            1 => Just(Step::Forget),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Compares a buffer with a vector of bytes. Both lose what was not committed when the buffer is dropped.
        #[test]
        fn a_buffer_reads_as_the_file_will(steps in prop::collection::vec(step(), 1..25)) {
            with_files(|storage| {
                let file = storage.create(b"file").unwrap();
                let (mut buffer, mut model, mut committed) = (Buffer::default(), Vec::new(), Vec::new());
                for step in steps {
                    match step {
                        Step::Write(at, bytes) => {
                            buffer.write(storage, file, at, &bytes).unwrap();
                            let end = at as usize + bytes.len();
                            model.resize(model.len().max(end), 0u8);
                            model[at as usize..end].copy_from_slice(&bytes);
                        }
                        Step::Truncate(size) => {
                            buffer.truncate(storage, file, size).unwrap();
                            model.truncate(size as usize);
                        }
                        Step::Commit => {
                            buffer.commit(storage, file).unwrap();
                            committed = model.clone();
                        }
                        Step::Forget => {
                            buffer = Buffer::default();
                            model = committed.clone();
                        }
                    }
                    for (buffer, expected) in [(&buffer, &model), (&Buffer::default(), &committed)] {
                        let mut found = vec![0xee; expected.len() + 100];
                        assert_eq!(buffer.size(storage, file).unwrap(), expected.len() as u64);
                        assert_eq!(buffer.read(storage, file, 0, &mut found).unwrap(), expected.len());
                        assert!(found[..expected.len()] == expected[..]);
                    }
                }
            });
        }
    }
}
