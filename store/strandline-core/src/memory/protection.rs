//! Protection of a mapping against stray writes, by a memory protection key.
//!
//! The pages of the mapping carry a key, and every thread has a register (PKRU) that says, key by key, what it may do.
//! A thread may read the pages ([`ProtectionKey::admit`]) and may store to them only while it is inside
//! [`ProtectionKey::window`], which the library opens around its own stores and nothing else. Any other store to the
//! mapping, a wild pointer's, is a segmentation fault at the instruction that makes it.
//!
//! A thread that existed before the key was allocated may at first not even read: its register is the system's default.
//! Hence `admit`, which costs a read of the register where it has been done before.

use std::ffi::c_void;

use crate::error::{Error, Result};

/// A key of this process, of which there are 15.
#[derive(Debug)]
pub(super) struct AllocatedKey(ProtectionKey);

/// The number of a key, as threads need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtectionKey(u32);

impl AllocatedKey {
    /// A key of its own for the `bytes` bytes at `base`, which nobody can store to from now on but through [`ProtectionKey::window`].
    ///
    /// # Errors
    /// Returns [`Error::NoProtectionKey`] if the processor or the system has no keys, or all are taken.
    pub fn protecting(base: *mut c_void, bytes: usize) -> Result<Self> {
        let key = Self(ProtectionKey(imp::allocate().map_err(|source| Error::NoProtectionKey { source })?));
        imp::attach(key.0.0, base, bytes)
            .map_err(|source| Error::io("protect the pool's mapping", source))?;
        key.0.admit();
        Ok(key)
    }

    pub fn number(&self) -> ProtectionKey {
        self.0
    }
}

impl Drop for AllocatedKey {
    /// The pages that carry it must be unmapped already.
    fn drop(&mut self) {
        imp::free(self.0.0);
    }
}

impl ProtectionKey {
    /// The register's bits for this key: no access, no write.
    fn bits(self) -> (u32, u32) {
        (1 << (2 * self.0), 2 << (2 * self.0))
    }

    /// Lets the calling thread read what carries the key.
    pub fn admit(self) {
        let (no_access, no_write) = self.bits();
        let rights = imp::rights();
        let wanted = rights & !no_access | no_write;
        if rights != wanted {
            imp::set_rights(wanted);
        }
    }

    /// Runs `access`, which must not panic, with the calling thread allowed to store to what carries the key.
    pub fn window<R>(self, access: impl FnOnce() -> R) -> R {
        let (no_access, no_write) = self.bits();
        let rights = imp::rights() & !no_access;
        imp::set_rights(rights & !no_write);
        let result = access();
        imp::set_rights(rights | no_write);
        result
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod imp {
    use std::ffi::c_void;
    use std::io;

    /// The right that a thread has to a key when it allocates it: reading.
    const DISABLE_WRITE: u32 = 2;

    pub fn allocate() -> io::Result<u32> {
        // SAFETY: the call takes two numbers and touches no memory.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, DISABLE_WRITE) };
        u32::try_from(key).map_err(|_| io::Error::last_os_error())
    }

    pub fn attach(key: u32, base: *mut c_void, bytes: usize) -> io::Result<()> {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages are mapped for reading and writing and stay so; who may store to them is what changes.
        match unsafe { libc::syscall(libc::SYS_pkey_mprotect, base, bytes, both, key) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn free(key: u32) {
        // SAFETY: no page carries the key any more: its owner drops it after unmapping.
        unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    }

    pub fn rights() -> u32 {
        let rights;
        // SAFETY: a key has been allocated, so that processor and system have the register; reading changes nothing.
        // Without `nomem`, so that no access moves across.
        unsafe {
            std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nostack, preserves_flags));
        }
        rights
    }

    pub fn set_rights(rights: u32) {
        // SAFETY: as above; the caller changes the bits of its own key alone. The processor lets no access, not even a
        // speculative one, across, and without `nomem` the compiler moves none.
        unsafe {
            std::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags));
        }
    }
}

/// Other processors and tools have no keys: none is ever allocated, and nothing else here is reached.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod imp {
    use std::ffi::c_void;
    use std::io;

    pub fn allocate() -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn attach(_: u32, _: *mut c_void, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn free(_: u32) {}
    pub fn rights() -> u32 {
        0
    }
    pub fn set_rights(_: u32) {}
}
