//! The address space of a pool: how much of it is reserved for the pool's growth, and for the volatile words that belong to it.

use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, SharedLayout};
use crate::memory::{Mapping, MappingKind, SharedFile};

/// The mappings of a pool, and the layouts that they are for.
pub(super) struct AddressSpace {
    pub layout: Layout,
    pub shared: SharedLayout,
    pub persistent: Mapping,
    pub volatile: Mapping,
}

impl AddressSpace {
    /// Maps `file`, a pool with this layout, and the volatile words of `shared_for`.
    ///
    /// A pool that is only read gets as many bytes as it has. Another one gets `wanted`, or if that is `None` as many as it can come to have.
    /// Where the system refuses so many, it gets the first half, quarter, and so on that leaves as much again to the program.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if `wanted` is less than the pool has, [`Error::Io`] if the system refuses so little, and
    /// [`Error::NotPersistentMemory`].
    pub fn reserve(
        file: &SharedFile,
        kind: MappingKind,
        layout: Layout,
        wanted: Option<u64>,
        is_read_only: bool,
        shared_for: impl Fn(&Layout) -> SharedLayout,
    ) -> Result<Self> {
        let length = file.metadata().map_err(|e| Error::io("look at the pool's file", e))?.len();
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

    /// Returns whether the system would give the program as much as these mappings take.
    fn leaves_as_much(&self) -> bool {
        let taken = self.persistent.reserved() + self.volatile.reserved();
        Mapping::anonymous(taken.next_multiple_of(PAGE_BYTES)).is_ok()
    }
}

/// Returns whether the system refuses so much address space; valgrind's word for it is `EINVAL`.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL)))
}
