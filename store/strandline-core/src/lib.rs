//! Fast, durable, isolated transactions on persistent memory and on ordinary files.
//!
//! ```
//! use strandline_core::{Options, Pool, Read, Runner, Transaction};
//!
//! # let path = strandline_core::example::path();
//! let pool = Pool::create(&path, &Options::default())?;
//! let mut worker = pool.worker()?;
//! // Durable when `run` returns. If the closure returns an error, nothing is changed.
//! let visits = worker.run(|tx| {
//!     let counter = tx.root(0);
//!     let visits = tx.read(counter)? + 1;
//!     tx.write(counter, visits)?;
//!     Ok(visits)
//! })?;
//! assert_eq!(visits, 1);
//! # Ok::<(), strandline_core::Error>(())
//! ```
//!
//! A [`Pool`] has the data, a [`Worker`](engine::Worker) runs transactions for one thread, and a [`Domain`] says which failures the data
//! survive. Applications use the crate `strandline`, which adds types. This crate is for programs that implement
//! structures on words, schemes, or worlds, which are the environments of hosted memory.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `worlds` | no | hosted memory, the recorder and coroutines, for checkers, simulators and tests; the set-up of examples |
//! | `tracing` | no | spans and events for the crate `tracing` |
//! | `metrics` | no | `PoolStatistics::publish`, for the crate `metrics` |
//! | `calibration` | no | native addresses wrap as C's pointers do, to count the instructions of plain programs; adds no interface |
//!
//! Dependencies cost an application build time. So there are only five, `arrayvec`, `bytemuck`, `crc32c`, `hdrhistogram` and `libc`
//! (on macOS also `parking_lot_core`), and hosted memory is behind a feature.
//!
//! # The parts
//!
//! Each part uses only those above it; `tests/all/directions.rs` checks this.
//!
//! | | |
//! |---|---|
//! | [`memory`] | the trait `Memory`: loads, stores, write-backs, fences, and the worlds that hosted memory calls; devices |
//! | [`layout`] | the layout of a pool: header, roots, logs, heap |
//! | [`log`] | records, the logs of threads, and their scan by recovery |
//! | [`heap`] | the transactional allocator |
//! | [`transaction`] | the trait `Transaction`, through which structures read and write; lock sets and write sets |
//! | [`scheme`] | the trait of schemes, BPPM, NP, and the code that all redo schemes share |
//! | [`sync`] | the `Sync` domain: the shared log, checkpoints |
//! | [`engine`] | the concurrency controls, and the workers that run transactions |
//! | [`mod@file`] | pools as files: create, lock, grow, back up, check, repair |
//! | [`structures`] | the structures that typed collections are built on |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(
    any(target_os = "linux", target_os = "macos"),
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!(
    "Strandline runs on Linux and macOS, on 64-bit little-endian processors. On Windows, build and run it in the Windows Subsystem for \
     Linux (`wsl --install`). A program for several systems depends on it for these two alone: \
     [target.'cfg(any(target_os = \"linux\", target_os = \"macos\"))'.dependencies]"
);

mod domain;
mod durations;
pub mod engine;
pub mod error;
#[cfg(feature = "worlds")]
#[doc(hidden)]
pub mod example;
pub mod file;
pub mod heap;
pub mod layout;
pub mod log;
pub mod memory;
pub mod scheme;
pub mod structures;
pub mod sync;
mod trace;
pub mod transaction;

pub use domain::Domain;
pub use error::{Abort, Error, ErrorKind, Result};
pub use file::{Options, Pool};
pub use layout::Geometry;
pub use memory::WriteBackInstruction;
pub use sync::SyncParameters;
pub use transaction::{Concurrency, Lock, Read, Runner, Transaction};
