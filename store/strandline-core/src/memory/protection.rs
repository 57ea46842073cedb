//! Protection of a mapping against stray writes, by a memory protection key.
//!
//! The pages of the mapping have a key, and every thread has a register (PKRU) with its permissions for each key. A thread may read the
//! pages ([`ProtectionKey::admit`]), and may store to them only inside [`ProtectionKey::window`], which the library opens around its own
//! stores only. Any other store to the mapping, such as one through a wild pointer, is a segmentation fault at the instruction that makes
//! it.
//!
//! A thread that existed before the key was allocated may not even read at first, because its register has the system's default. Hence
//! `admit`, which only reads the register if the thread was admitted before.

use std::ffi::c_void;

use crate::error::{Error, Result};

/// A key that this process has allocated. There are 15.
#[derive(Debug)]
pub(super) struct AllocatedKey(ProtectionKey);

/// The number of a key, with which threads change their permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtectionKey(u32);

impl AllocatedKey {
    /// Allocates a key for the `bytes` bytes at `base`. From now on, threads can store to them only in [`ProtectionKey::window`].
    ///
    /// # Errors
    /// Returns [`Error::NoProtectionKey`] if the processor or the system has no keys, or if all are taken.
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
    /// Frees the key. The pages that have it must be unmapped already.
    fn drop(&mut self) {
        imp::free(self.0.0);
    }
}

impl ProtectionKey {
    /// Returns the register's bits for this key: the one that forbids access, and the one that forbids writes.
    fn bits(self) -> (u32, u32) {
        (1 << (2 * self.0), 2 << (2 * self.0))
    }

    /// Lets the calling thread read the pages that have the key.
    pub fn admit(self) {
        let (no_access, no_write) = self.bits();
        let rights = imp::rights();
        let wanted = rights & !no_access | no_write;
        if rights != wanted {
            imp::set_rights(wanted);
        }
    }

    /// Runs `access`, which must not panic, while the calling thread may store to the pages that have the key.
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

    /// The restriction of the thread that allocates a key: it may only read.
    const DISABLE_WRITE: u32 = 2;

    pub fn allocate() -> io::Result<u32> {
        // SAFETY: the call takes two numbers and touches no memory.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, DISABLE_WRITE) };
        u32::try_from(key).map_err(|_| io::Error::last_os_error())
    }

    pub fn attach(key: u32, base: *mut c_void, bytes: usize) -> io::Result<()> {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages are mapped for reading and writing and stay so; only the threads' permissions change.
        match unsafe { libc::syscall(libc::SYS_pkey_mprotect, base, bytes, both, key) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn free(key: u32) {
        // SAFETY: no page has the key any more, since its owner drops it after unmapping.
        unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    }

    pub fn rights() -> u32 {
        let rights;
        // SAFETY: a key has been allocated, so processor and system have the register; reading it changes nothing. The `asm!` has no
        // `nomem`, so that the compiler moves no access across it.
        unsafe {
            std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nostack, preserves_flags));
        }
        rights
    }

    pub fn set_rights(rights: u32) {
        // SAFETY: a key has been allocated, so processor and system have the register, and the caller changes only the bits of its own key.
        // The processor moves no access across the instruction, not even speculatively; without `nomem`, neither does the compiler.
        unsafe {
            std::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags));
        }
    }
}

/// Other processors, systems and tools have no keys: no key is ever allocated, and the other functions are never called.
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
