//! Fast, durable, isolated transactions on persistent memory, and on an ordinary file.
#![warn(missing_docs)]

pub mod collections;
mod domain;
pub mod error;
pub mod log;
pub mod memory;
pub mod pool;
pub mod scheme;
pub mod sync;
pub mod transaction;

pub use domain::Domain;
pub use error::{Error, Result};
pub use pool::{Options, Pool};
pub use transaction::{Abort, Concurrency, Read, Runner, Transaction};
