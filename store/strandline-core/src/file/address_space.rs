//! The address space of a pool, which is reserved for its growth and for its volatile words.

use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, SharedLayout};
use crate::memory::{Mapping, MappingKind, SharedFile};

/// The mappings of a pool, and their layouts.
pub(super) struct AddressSpace {
    pub layout: Layout,
    pub shared: SharedLayout,
    pub persistent: Mapping,
    pub volatile: Mapping,
}

impl AddressSpace {
    /// Maps `file`, a pool with this layout, and the volatile words that `shared_for` returns.
    ///
    /// A pool that is open for reading only gets its own size. Another one gets `wanted` bytes, or without that its greatest size. If the system
    /// refuses so much, it gets the first half, quarter and so on that leaves the program as much again.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if `wanted` is less than the pool's size, [`Error::Io`] if the system refuses even that, and
    /// [`Error::NotPersistentMemory`].
    pub fn reserve(
        file: &SharedFile,
        kind: MappingKind,
        layout: Layout,
        wanted: Option<u64>,
        is_read_only: bool,
        shared_for: impl Fn(&Layout) -> SharedLayout,
    ) -> Result<Self> {
        let length = file.metadata().map_err(|e| Error::io("read the metadata of the pool's file", e))?.len();
        let size = layout.geometry.size;
        let least = length.min(size).next_multiple_of(PAGE_BYTES);
        if let Some(wanted) = wanted.filter(|&wanted| wanted < least) {
            return Err(Error::Parameter(format!(
                "address space for {wanted} bytes is not enough: the pool has {length}; set Options::address_space higher"
            )));
        }
        let reserve = |bytes: u64| {
            let layout = layout.limited_to(bytes);
            let shared = shared_for(&layout);
            let (persistent, volatile) =
                (Mapping::file(file.clone(), bytes, kind)?, Mapping::anonymous(shared.bytes())?);
            Ok(Self { layout, shared, persistent, volatile })
        };
        let mut bytes = if is_read_only { least } else { wanted.unwrap_or(size).min(size) };
        loop {
            let is_last = bytes <= least || wanted.is_some();
            match reserve(bytes) {
                Err(error) if !is_last && is_refusal(&error) => {}
                Ok(space) if bytes < size && !is_last && !space.leaves_as_much() => {}
                reserved => return reserved,
            }
            bytes = (bytes / 2).next_multiple_of(PAGE_BYTES).max(least);
        }
    }

    /// Returns whether the system would give the program as much address space again.
    fn leaves_as_much(&self) -> bool {
        let taken = self.persistent.reserved() + self.volatile.reserved();
        Mapping::anonymous(taken.next_multiple_of(PAGE_BYTES)).is_ok()
    }
}

/// Returns whether the system refused the address space; valgrind does so with `EINVAL`.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL)))
}
