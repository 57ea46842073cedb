//! Fast, durable, isolated transactions on persistent memory, and on an ordinary file.
//!
//! ```
//! use strandline_core::{Options, Pool, Read, Runner, Transaction};
//!
//! # let path = strandline_core::example::path();
//! let pool = Pool::create(&path, &Options::default())?;
//! let mut worker = pool.worker()?;
//! // Durable when `run` returns; nothing of it happens if the closure returns an error.
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
//! A [`Pool`] holds the data, a [`Worker`](engine::Worker) runs transactions for one thread, and a [`Domain`] says what
//! survives. Applications use the crate `strandline`, which stands on this one and has types; this one is for who builds
//! structures on words, schemes or worlds.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `worlds` | no | hosted memory, the recorder and coroutines, for checkers, simulators and tests; the pools that examples begin with |
//! | `tracing` | no | spans and events for the crate of this name |
//! | `metrics` | no | `PoolStatistics::publish`, for the crate of this name |
//! | `calibration` | no | nothing: native addresses wrap as C's pointers do, to count the instructions of plain programs |
//!
//! An application compiles the dependencies of this crate first. So there are five, `arrayvec`, `bytemuck`, `crc32c`, `hdrhistogram` and `libc`
//! (on macOS also `parking_lot_core`), and hosted memory is behind a feature.
//!
//! # The parts
//!
//! Each uses only those above it; `tests/all/directions.rs` says so.
//!
//! | | |
//! |---|---|
//! | [`memory`] | the trait `Memory`: loads, stores, write-backs, fences, and the worlds that hosted memory calls; devices |
//! | [`layout`] | where everything lies in a pool |
//! | [`log`] | records, the logs of threads, what recovery reads of them |
//! | [`heap`] | the transactional allocator |
//! | [`transaction`] | the trait `Transaction`: what a structure may do; lock sets and write sets |
//! | [`scheme`] | the trait of schemes, BPPM, NP, and what all redo schemes share |
//! | [`sync`] | the `Sync` domain: the shared log, checkpoints |
//! | [`engine`] | the concurrency controls, and the workers that run transactions |
//! | [`mod@file`] | pools as files: create, lock, grow, back up, check, repair |
//! | [`structures`] | the structures that typed collections stand on |
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
