//! The instructions that move a cache line towards memory, chosen by CPUID.

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
///     // A database is not opened with an instruction that the processor lacks.
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
    /// `clflush`: evicts the line, one after another. What the Blurred Persistence paper used.
    Clflush,
}

impl WriteBackInstruction {
    /// All instructions, best first.
    pub const ALL: [Self; 3] = [Self::Clwb, Self::Clflushopt, Self::Clflush];

    /// The instruction's mnemonic, as `--instruction` takes it.
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

    /// The best instruction this processor has; `None` on processors without any that we know.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|i| i.is_supported())
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use super::*;
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    // Later versions of Rust than the oldest that is supported have it safe.
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
        // SAFETY: the address comes from a live reference, and these instructions neither read nor change
        // what a program can observe. The instruction was found supported when it was chosen.
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
        // SAFETY: a prefetch changes nothing and faults nowhere, whatever the address; SSE is part of x86-64.
        unsafe {
            std::arch::asm!("prefetcht0 [{}]", in(reg) word, options(nostack, preserves_flags, readonly))
        }
    }

    pub fn prefetch_for_write(word: *const AtomicU64) {
        // SAFETY: a prefetch changes nothing and faults nowhere, whatever the address; processors without prefetchw take it as a
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

    /// Stores a line as four pairs of words, of which each word is stored at once.
    pub fn store_line_non_temporal(words: &[AtomicU64; 8], pairs: &[[u64; 2]; 4]) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128};
        // SAFETY: the references are live, the first one of 64 aligned bytes, and SSE2 is part of x86-64. An aligned 16-byte movntdq
        // stores each of its 8-byte halves at once.
        unsafe {
            let (to, from) = (words.as_ptr().cast::<__m128i>(), pairs.as_ptr().cast::<__m128i>());
            std::arch::asm!("movntdq [{0}], {1}", "movntdq [{0} + 16], {2}", "movntdq [{0} + 32], {3}", "movntdq [{0} + 48], {4}",
                in(reg) to, in(xmm_reg) _mm_loadu_si128(from), in(xmm_reg) _mm_loadu_si128(from.add(1)),
                in(xmm_reg) _mm_loadu_si128(from.add(2)), in(xmm_reg) _mm_loadu_si128(from.add(3)),
                options(nostack, preserves_flags))
        }
    }

    pub fn ticks() -> u64 {
        // SAFETY: rdtsc exists on every x86-64 processor and user mode may run it wherever Linux does.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Ticks in `ns` nanoseconds, measured once against the system's clock.
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

/// Without inline assembly: other processors and tools. No write-back instruction is supported here, and nothing here is reached but
/// the fence and the hint: the domains that write back refuse to open.
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

/// The instructions of this processor that order stores and write them back, for programs that observe what they do.
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

    /// Executes `clwb` for the word's line, or the best instruction instead of it that the processor has.
    pub fn clwb(&self, word: &AtomicU64) {
        imp::write_back(self.write_back, word);
    }
}

pub(super) use imp::{
    fence, prefetch, prefetch_for_write, store_line_non_temporal, store_non_temporal, ticks, ticks_in,
    write_back,
};
