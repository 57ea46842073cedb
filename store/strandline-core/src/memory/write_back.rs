//! The instructions that write cache lines back. CPUID tells which ones the processor has.

use std::sync::atomic::AtomicU64;

/// The instruction that writes a cache line back.
///
/// ```
/// # use strandline_core::{self as strandline, Pool as Database};
/// # let (path, options) = strandline_core::example::path_and_options();
/// # Database::create(&path, &options)?.close()?;
/// use strandline::{Options, WriteBackInstruction};
///
/// for instruction in WriteBackInstruction::ALL {
///     let options = Options { instruction: Some(instruction), ..options.clone() };
///     // A database cannot be opened with an instruction that the processor lacks.
///     let opened = Database::open(&path, &options).is_ok();
///     assert_eq!(opened, instruction.is_supported(), "{}", instruction.name());
/// }
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteBackInstruction {
    /// `clwb`: keeps the line cached where the processor can.
    Clwb,
    /// `clflushopt`: evicts the line, without ordering.
    Clflushopt,
    /// `clflush`: evicts the lines one after another. The Blurred Persistence paper used it.
    Clflush,
}

impl WriteBackInstruction {
    /// All instructions, best first.
    pub const ALL: [Self; 3] = [Self::Clwb, Self::Clflushopt, Self::Clflush];

    /// Returns the instruction's mnemonic, which `--instruction` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clwb => "clwb",
            Self::Clflushopt => "clflushopt",
            Self::Clflush => "clflush",
        }
    }

    /// Returns whether this processor has the instruction (CPUID leaf 7, leaf 1 for `clflush`).
    pub fn is_supported(self) -> bool {
        imp::supported(self)
    }

    /// Returns the best instruction of this processor; `None` if it has none of these.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|i| i.is_supported())
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use super::*;
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    // In later versions of Rust than the oldest supported one, these intrinsics are safe.
    #[allow(unused_unsafe)]
    pub fn supported(instruction: WriteBackInstruction) -> bool {
        // SAFETY: every x86-64 processor has `cpuid`, and leaf 0, which says whether it has leaf 7, and leaf 1.
        let (leaf1, leaf7) =
            unsafe { (__cpuid(1).edx, if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 }) };
        match instruction {
            WriteBackInstruction::Clwb => leaf7 & (1 << 24) != 0,
            WriteBackInstruction::Clflushopt => leaf7 & (1 << 23) != 0,
            WriteBackInstruction::Clflush => leaf1 & (1 << 19) != 0,
        }
    }

    pub fn write_back(instruction: WriteBackInstruction, word: &AtomicU64) {
        let at = word.as_ptr();
        // SAFETY: the address comes from a live reference, and these instructions change nothing that a program can observe. The
        // instruction was found to be supported when it was chosen.
        unsafe {
            match instruction {
                WriteBackInstruction::Clwb => {
                    std::arch::asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags))
                }
                WriteBackInstruction::Clflushopt => {
                    std::arch::asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags))
                }
                WriteBackInstruction::Clflush => {
                    std::arch::asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags))
                }
            }
        }
    }

    pub fn prefetch(word: *const AtomicU64) {
        // SAFETY: a prefetch changes nothing and never faults, whatever the address; SSE is part of x86-64.
        unsafe {
            std::arch::asm!("prefetcht0 [{}]", in(reg) word, options(nostack, preserves_flags, readonly))
        }
    }

    pub fn prefetch_for_write(word: *const AtomicU64) {
        // SAFETY: a prefetch changes nothing and never faults, whatever the address; processors without `prefetchw` execute it as a
        // no-operation.
        unsafe { std::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags)) }
    }

    pub fn fence() {
        // SAFETY: sfence orders stores and has no other effect; SSE is part of x86-64.
        unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
    }

    #[cfg(feature = "worlds")]
    pub fn full_fence() {
        // SAFETY: mfence orders loads and stores and has no other effect; SSE2 is part of x86-64.
        unsafe { std::arch::asm!("mfence", options(nostack, preserves_flags)) }
    }

    pub fn store_non_temporal(word: &AtomicU64, value: u64) {
        // SAFETY: the reference is live and aligned, and an aligned 8-byte movnti is a single store.
        unsafe {
            std::arch::asm!("movnti [{}], {}", in(reg) word.as_ptr(), in(reg) value,
                options(nostack, preserves_flags))
        }
    }

    /// Stores a line as four pairs of words. Each word is stored atomically.
    pub fn store_line_non_temporal(words: &[AtomicU64; 8], pairs: &[[u64; 2]; 4]) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128};
        // SAFETY: the references are live, `words` is 64 aligned bytes, and SSE2 is part of x86-64. An aligned 16-byte `movntdq` stores
        // each of its 8-byte halves atomically.
        unsafe {
            let (to, from) = (words.as_ptr().cast::<__m128i>(), pairs.as_ptr().cast::<__m128i>());
            std::arch::asm!("movntdq [{0}], {1}", "movntdq [{0} + 16], {2}", "movntdq [{0} + 32], {3}", "movntdq [{0} + 48], {4}",
                in(reg) to, in(xmm_reg) _mm_loadu_si128(from), in(xmm_reg) _mm_loadu_si128(from.add(1)),
                in(xmm_reg) _mm_loadu_si128(from.add(2)), in(xmm_reg) _mm_loadu_si128(from.add(3)),
                options(nostack, preserves_flags))
        }
    }

    pub fn ticks() -> u64 {
        // SAFETY: `rdtsc` exists on every x86-64 processor, and Linux lets user mode execute it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Returns the number of ticks in `ns` nanoseconds, measured once against the system's clock.
    pub fn ticks_in(ns: u64) -> u64 {
        static TICKS_PER_MS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        let per_ms = *TICKS_PER_MS.get_or_init(|| {
            let (clock, first) = (std::time::Instant::now(), ticks());
            while clock.elapsed().as_millis() < 10 {
                std::hint::spin_loop();
            }
            (ticks() - first) * 1_000_000 / clock.elapsed().as_nanos().max(1) as u64
        });
        ns * per_ms / 1_000_000
    }
}

/// For processors and tools without this inline assembly. No write-back instruction is supported here, so the domains that need one refuse
/// to open, and only the fences and the prefetch are called.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    use super::*;
    use std::sync::atomic::{Ordering, fence as atomic_fence};

    pub fn supported(_: WriteBackInstruction) -> bool {
        false
    }
    pub fn write_back(_: WriteBackInstruction, _: &AtomicU64) {}
    pub fn prefetch(_: *const AtomicU64) {}
    pub fn prefetch_for_write(_: *const AtomicU64) {}
    pub fn fence() {
        atomic_fence(Ordering::SeqCst);
    }
    #[cfg(feature = "worlds")]
    pub fn full_fence() {
        atomic_fence(Ordering::SeqCst);
    }
    pub fn store_non_temporal(word: &AtomicU64, value: u64) {
        word.store(value, Ordering::Release);
    }
    pub fn store_line_non_temporal(words: &[AtomicU64; 8], pairs: &[[u64; 2]; 4]) {
        for (word, &value) in words.iter().zip(pairs.as_flattened()) {
            store_non_temporal(word, value);
        }
    }
    pub fn ticks() -> u64 {
        0
    }
    pub fn ticks_in(_: u64) -> u64 {
        0
    }
}

/// The instructions of this processor that order stores and write them back, for programs that observe their effects.
#[cfg(feature = "worlds")]
#[derive(Clone, Copy, Debug)]
pub struct StoreInstructions {
    write_back: WriteBackInstruction,
}

#[cfg(feature = "worlds")]
impl StoreInstructions {
    /// Returns the instructions; `None` on a processor that is not an x86-64 one.
    pub fn of_this_processor() -> Option<Self> {
        let write_back = WriteBackInstruction::best()?;
        WriteBackInstruction::Clflush.is_supported().then_some(Self { write_back })
    }

    /// Executes `movnti`.
    pub fn movnti(&self, word: &AtomicU64, value: u64) {
        imp::store_non_temporal(word, value);
    }

    /// Executes `sfence`.
    pub fn sfence(&self) {
        imp::fence();
    }

    /// Executes `mfence`.
    pub fn mfence(&self) {
        imp::full_fence();
    }

    /// Executes `clflush` for the word's line.
    pub fn clflush(&self, word: &AtomicU64) {
        imp::write_back(WriteBackInstruction::Clflush, word);
    }

    /// Executes `clwb` for the word's line, or the best instruction that the processor has instead.
    pub fn clwb(&self, word: &AtomicU64) {
        imp::write_back(self.write_back, word);
    }
}

pub(super) use imp::{
    fence, prefetch, prefetch_for_write, store_line_non_temporal, store_non_temporal, ticks, ticks_in,
    write_back,
};
