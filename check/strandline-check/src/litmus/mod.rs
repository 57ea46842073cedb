//! Litmus tests: small programs in a text format, and every state that a power failure can leave of them.
//!
//! ```
//! use strandline_check::Setting;
//! use strandline_check::litmus::{Limits, Test};
//!
//! let test = Test::parse(
//!     "name: commit without a fence
//!      line A: data
//!      line B: commit
//!      thread:
//!        store data 1
//!        clwb data          # asked for, not waited for
//!        store commit 1
//!      ask: commit=1 data=0",
//! )?;
//! let states = test.explore(Limits::default())?;
//! assert_eq!(states.count(Setting::Line), 4);
//! assert!(states.allows(Setting::Line, &test.asks[0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format
//!
//! One statement a line; `#` starts a comment; indentation and blank lines mean nothing.
//!
//! | statement | meaning |
//! |---|---|
//! | `name: TEXT` | the test's name; once |
//! | `line LINE: LOCATION...` | a cache line and the 8-byte locations on it; a location is declared before its use and starts 0 |
//! | `thread:` | begins a thread: the operations that follow; any number of threads |
//! | `ask: LOCATION=NUMBER...` | is there a crash state in which all of these hold? |
//! | `final: THREAD:REGISTER=NUMBER... LOCATION=NUMBER...` | does some run without a crash end like this? Threads are numbered from 0 |
//! | `source: TEXT` | the publication that the test is from; at most once |
//! | `answer: allowed`, `answer: forbidden` | the answer that the source gives to the question before it, of an `ask` under the setting `line` |
//!
//! There is at least one `ask` or `final`.
//!
//! | operation | effect |
//! |---|---|
//! | `store LOCATION VALUE` | a store |
//! | `store-nt LOCATION VALUE` | a non-temporal store: visible and durable by the next fence |
//! | `load REGISTER LOCATION` | a load |
//! | `cas REGISTER LOCATION EXPECTED NEW` | compare-and-swap; the register gets the old value |
//! | `add REGISTER LOCATION VALUE` | fetch-and-add (wrapping); the register gets the old value |
//! | `clflush LOCATION`, `clflushopt LOCATION`, `clwb LOCATION` | write back the line of the location |
//! | `sfence`, `mfence` | fences |
//! | `if REGISTER == NUMBER then COUNT` | the next COUNT operations run only if it holds |
//!
//! Numbers are decimal, 0 to 2⁶⁴ − 1. Registers are `r` and a number (`r1`), belong to their thread and start 0.
//! A VALUE (also EXPECTED and NEW) is a number or a register of the same thread; the place tells a register
//! from a location, so that a location may be called `r1`. An `if` counts as an operation of an `if` before it
//! and must not reach beyond the end of its thread; one that is itself skipped guards nothing.
//!
//! # The model
//!
//! The view-based Px86 model (Cho, Lee, Raad, Kang, PLDI 2021). Memory is the list of all stores in the order
//! in which they become globally visible; a store's timestamp is its place in the list, 0 is the initial
//! state. Threads hold *views*, timestamps that say how much of the list they must have seen; a load may
//! return an older store as long as no view forbids it, which is how the store buffers of total store order
//! appear in a model that has none. Stores of a thread with non-temporal stores may join the list late and in another order. The rules are in
//! `view.rs`, one match arm for each row of the table.
//!
//! A crash may come before, between and after all operations. What is on the medium is, for each line, a *cut*
//! of the list that is not earlier than what is known to be written back: evictions by the cache are the
//! freedom to choose a later cut.
//!
//! # Exhaustive, and how it stays small
//!
//! All interleavings, all choices of loads and all crash points are explored, without sampling. `line` and `word` in
//! one search, `flush-on-fail` in another, where write-backs are left out, and the ends of runs in a third. Four things keep this small, and none of them
//! loses a crash state (`tests/` compares with an explorer that does without them):
//!
//! - *Canonical configurations* (`canonical.rs`): configurations with the same future are visited once.
//!   Timestamps are replaced by positions in the line's own list, and everything that no operation left to run
//!   can see is dropped.
//! - *Silent steps*: an `if`, a write-back, a fence that completes nothing and a non-temporal store that is not yet visible change only their
//!   own thread and no crash state, so that no other thread need be interleaved with them.
//! - *What may go first*: a load of a location that no other thread will store to has the same choices now as later. A
//!   store to a line that no other thread will name persists or not as it likes until its own thread fences; early in
//!   the order of stores it raises no view to the stores of others, and lower views permit no less; a late store becomes visible at
//!   once for the same reason, unless a `clflush` of its line is to come in its thread. Under `flush-on-fail`, whose crash states are the order itself,
//!   it has to wait.
//! - *Crash states once*: only a store adds crash states, and only those in which it persisted.
//!
//! Configurations are compared by 128-bit fingerprints. [`Test::run`] runs a test on the processor.
//! A test that exceeds [`Limits`] all the same ends in [`TooLarge`], never in a partial answer.

mod canonical;
mod future;
mod native;
mod parse;
mod program;
mod report;
mod search;
mod shipped;
mod view;

#[cfg(test)]
mod tests;

pub use native::{Histogram, Runs, Unrunnable};
pub use parse::Malformed;
pub use program::{Ask, End, Final, Location, Operand, Operation, Test, Verdict};
pub use report::{Answer, Row};
pub use search::{CrashStates, Limits, TooLarge};
pub use shipped::shipped;
