//! The recorder of the crash checker for C and C++: a library that `strandline-check program` loads into programs.
//!
//! It writes down what a program does to its pool, a file that it maps: stores, flushes, fences and what it says with the macros of
//! `include/strandline_check.h`. `docs/checking-c-programs.md` introduces it, and says how a recording is written.
//!
//! - Calls of libpmem's functions and of `msync` come here first, and go on to where they would have gone (`libpmem`, `system`).
//! - The header's macros call a table of functions, if there is one (`hooks`).
//! - Stores by ordinary instructions are seen on x86-64 Linux: the pool is mapped for reading only, and an instruction that stores to it is
//!   let through alone (`trap`).
//!
//! - A program that runs many times, as recovery does, is loaded once (`server`).
//!
//! Without the variables of the environment that the checker sets, it does nothing. On other systems than Linux it is empty.

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

/// Runs before the program's `main`.
extern "C" fn begin() {
    recording::open();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
