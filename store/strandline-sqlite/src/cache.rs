//! Caches pages that were recently read or written, as the system does for ordinary files. The caller makes sure that nobody else writes to the pool.

use strandline_core::Result;

use crate::files::{PAGE_BYTES, Storage, pieces};

/// The most pages in the cache: 64 MB.
const PAGES: usize = 1 << 14;

/// Caches pages of the files in `storage`. A page's number determines its only place in the cache.
pub(crate) struct Cache<S> {
    storage: S,
    pages: Vec<Option<Kept>>,
    /// The file whose size was last asked for, and that size.
    size: Option<(u64, u64)>,
}

/// The file, a page's number in it, and the page's bytes. Bytes behind the file's end are zero.
type Kept = (u64, u64, Box<[u8]>);

fn place(file: u64, page: u64) -> usize {
    (page.wrapping_add(file.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % PAGES as u64) as usize
}

impl<S: Storage> Cache<S> {
    pub fn new(storage: S) -> Self {
        Self { storage, pages: (0..PAGES).map(|_| None).collect(), size: None }
    }

    /// Returns the page if it is cached.
    fn page(&mut self, file: u64, page: u64) -> Option<&mut [u8]> {
        match &mut self.pages[place(file, page)] {
            Some((kept_file, kept_page, bytes)) if (*kept_file, *kept_page) == (file, page) => Some(bytes),
            _ => None,
        }
    }

    fn forget(&mut self) {
        self.pages.fill_with(|| None);
        self.size = None;
    }
}

impl<S: Storage> Storage for Cache<S> {
    fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
        self.storage.find(name)
    }

    fn create(&mut self, name: &[u8]) -> Result<u64> {
        self.storage.create(name)
    }

    fn delete(&mut self, name: &[u8]) -> Result<bool> {
        self.forget();
        self.storage.delete(name)
    }

    fn size(&mut self, file: u64) -> Result<u64> {
        match self.size {
            Some((of, size)) if of == file => Ok(size),
            _ => {
                let size = self.storage.size(file)?;
                self.size = Some((file, size));
                Ok(size)
            }
        }
    }

    fn read(&mut self, file: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
        let size = self.size(file)?;
        let length = size.saturating_sub(offset).min(into.len() as u64) as usize;
        for piece in pieces(offset, length) {
            let part = &mut into[piece.from..piece.from + piece.length];
            let within = piece.within..piece.within + piece.length;
            if let Some(page) = self.page(file, piece.page) {
                part.copy_from_slice(&page[within]);
                continue;
            }
            let mut page = vec![0; PAGE_BYTES as usize].into_boxed_slice();
            self.storage.read(file, piece.page * PAGE_BYTES, &mut page)?;
            part.copy_from_slice(&page[within]);
            self.pages[place(file, piece.page)] = Some((file, piece.page, page));
        }
        Ok(length)
    }

    fn write(&mut self, file: u64, kept: u64, writes: &[(u64, &[u8])]) -> Result<()> {
        // `size` stays empty if the write fails, so that it is read again.
        let size = std::mem::take(&mut self.size);
        if let Err(error) = self.storage.write(file, kept, writes) {
            self.forget();
            return Err(error);
        }
        if size.is_none_or(|(of, size)| of != file || kept < size) {
            self.forget();
            return Ok(());
        }
        for &(offset, bytes) in writes {
            for piece in pieces(offset, bytes.len()) {
                let from = &bytes[piece.from..piece.from + piece.length];
                if let Some(page) = self.page(file, piece.page) {
                    page[piece.within..piece.within + piece.length].copy_from_slice(from);
                } else if from.len() as u64 == PAGE_BYTES {
                    self.pages[place(file, piece.page)] = Some((file, piece.page, from.into()));
                }
            }
        }
        Ok(())
    }

    fn truncate(&mut self, file: u64, size: u64) -> Result<()> {
        self.forget();
        self.storage.truncate(file, size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::tests::with_files;

    /// A borrowed storage.
    struct Lent<'a>(&'a mut dyn Storage);

    impl Storage for Lent<'_> {
        fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
            self.0.find(name)
        }
        fn create(&mut self, name: &[u8]) -> Result<u64> {
            self.0.create(name)
        }
        fn delete(&mut self, name: &[u8]) -> Result<bool> {
            self.0.delete(name)
        }
        fn size(&mut self, file: u64) -> Result<u64> {
            self.0.size(file)
        }
        fn read(&mut self, file: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
            self.0.read(file, offset, into)
        }
        fn write(&mut self, file: u64, kept: u64, writes: &[(u64, &[u8])]) -> Result<()> {
            self.0.write(file, kept, writes)
        }
        fn truncate(&mut self, file: u64, size: u64) -> Result<()> {
            self.0.truncate(file, size)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Writes and truncates two files through the cache. Reading through it must give what is stored, which must be what was written.
        #[test]
        fn a_cache_reads_what_is_stored(
            steps in prop::collection::vec((0usize..2, 0u64..40_000, 0usize..9000, any::<u8>(), prop::option::of(0u64..40_000)), 1..25),
        ) {
            with_files(|storage| {
                let files = [storage.create(b"one").unwrap(), storage.create(b"two").unwrap()];
                let mut models = [Vec::new(), Vec::new()];
                let mut cache = Cache::new(Lent(storage));
                for (which, at, length, byte, kept) in steps {
                    let (file, model, bytes) = (files[which], &mut models[which], vec![byte; length]);
                    if length == 0 {
                        cache.truncate(file, at).unwrap();
                        model.truncate(at as usize);
                    } else {
                        cache.write(file, kept.unwrap_or(u64::MAX), &[(at, &bytes)]).unwrap();
                        model.truncate(kept.map_or(usize::MAX, |kept| kept as usize));
                        let end = at as usize + length;
                        model.resize(model.len().max(end), 0u8);
                        model[at as usize..end].copy_from_slice(&bytes);
                    }
                    for (file, model) in files.into_iter().zip(&models) {
                        let (mut found, mut stored) = (vec![0xee; model.len() + 9], vec![0xee; model.len() + 9]);
                        assert_eq!(cache.read(file, 0, &mut found).unwrap(), model.len());
                        assert_eq!(cache.storage.read(file, 0, &mut stored).unwrap(), model.len());
                        assert!(found == stored && found[..model.len()] == model[..]);
                    }
                }
            });
        }
    }
}
