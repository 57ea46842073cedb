//! The crash checker explores every state that a power failure can leave.
//!
//! [`check`] tests a program of the caller's on persistent memory, `store` code over a Strandline database, [`recorded`] programs in C and C++, and
//! [`litmus`] small tests in a file. Code written against Strandline's [`Memory`](strandline_core::memory::Memory) runs in an
//! [`X86World`](x86::X86World), or in [`x86::check`]; [`x86::explorer`] judges its crashes by an oracle of the caller's.
//!
//! # Features
//!
//! By default there are none.
//!
//! | feature | what it adds |
//! |---|---|
//! | `store` | `store`, which checks code over a Strandline `Database` |
//! | `serde` | results implement `Serialize` |
//!
//! ```
//! use strandline_check::check;
//!
//! // The value is durable before the flag that makes it valid is stored.
//! let program = check(|pmem| {
//!     pmem.store(0, 42);
//!     pmem.persist(0, 8);
//!     pmem.store(64, 1);
//! });
//! program
//!     .invariant(|pmem, _| match (pmem.load(64), pmem.load(0)) {
//!         (1, value) if value != 42 => Err(format!("the valid value is {value}")),
//!         _ => Ok(()),
//!     })
//!     .exhaustive()
//!     .assert_clean();
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod counts;
mod coverage;
mod data_race;
mod finding;
pub mod litmus;
mod on_pmem;
mod pmem;
pub mod recorded;
mod session;
mod setting;
#[cfg(feature = "store")]
mod store;
pub mod x86;

pub use check::{Check, OnPmem, Outcome, Target};
pub use counts::Counts;
pub use coverage::{Coverage, Verdict};
pub use data_race::DataRace;
pub use finding::{Advice, Finding, FindingKind, Flush, PerformanceFinding, Places};
pub use on_pmem::check;
pub use pmem::Pmem;
pub use session::Session;
pub use setting::Setting;
#[cfg(feature = "store")]
pub use store::{Checked, Db, OnDatabase, store};
pub use x86::replay::BadReplay;
pub use x86::{Crashed, RacingAccess, Site, Source, Waste};

/// The page about checking programs, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/checking-programs.md")]
struct CheckingPrograms;

/// The page about checking code over databases, whose examples are tests.
#[cfg(all(doctest, feature = "store"))]
#[doc = include_str!("../../../docs/checking-databases.md")]
struct CheckingDatabases;
