//! The crash checker's recorder for C and C++: a library that `strandline-check program` loads into programs.
//!
//! It records what a program does to its pool, a file that the program maps: stores, flushes, fences, and the calls of the macros of
//! `include/strandline_check.h`. `docs/checking-c-programs.md` introduces it and describes the recording's format.
//!
//! - The library intercepts calls of libpmem's functions and of `msync`, and passes them on (`libpmem`, `system`).
//! - The header's macros call a table of functions, if the table exists (`hooks`).
//! - On x86-64 Linux it sees stores by ordinary instructions: it maps the pool for reading only, and lets through each instruction that stores to it
//!   (`trap`).
//! - It loads a program that runs many times, as recovery does, only once (`server`).
//!
//! Without the environment variables that the checker sets, the library does nothing. On systems other than Linux it is empty.

#![cfg(target_os = "linux")]

mod hooks;
mod libpmem;
mod recording;
mod regions;
mod server;
mod system;
#[cfg(target_arch = "x86_64")]
mod trap;

pub use hooks::{EARLIER_HOOKS, HOOKS, Hooks};
pub use libpmem::*;
pub use server::__libc_start_main;
pub use system::*;

/// Starts recording before the program's `main`.
extern "C" fn begin() {
    recording::open();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
