//! Fast, durable, isolated transactions on persistent memory, and on an ordinary file.
//!
//! ```
//! use strandline::{Options, Pool, Read, Runner, Transaction};
//!
//! # fn main() -> strandline::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("pool");
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
//! # Ok(())
//! # }
//! ```
//!
//! A [`Pool`] holds the data, a [`Worker`](transaction::Worker) runs transactions for one thread, a
//! [`Domain`] says what survives, and [`collections`] are what is usually kept. `docs/guide.md` goes through
//! all of it.

// The derives name this crate from outside, and its own tests use them.
#[cfg(test)]
extern crate self as strandline;

pub mod collections;
mod domain;
pub mod error;
pub mod log;
pub mod memory;
pub mod pool;
pub mod scheme;
pub mod sync;
pub mod transaction;
pub mod typed;

pub use domain::Domain;
pub use error::{Error, Result};
pub use pool::{Options, Pool};
pub use transaction::{Abort, Concurrency, Lock, Read, Runner, Transaction};

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
