//! Litmus tests: small programs in a text format. The checker computes every state that a power failure can leave.
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
//!        clwb data          # requested, but no fence waits for it
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
//! Numbers are decimal, 0 to 2⁶⁴ − 1. Registers are `r` and a number (`r1`), belong to their thread and start 0. A VALUE (also EXPECTED and NEW) is a
//! number or a register of the same thread; the place tells a register from a location, so that a location may be called `r1`. An `if` counts as an
//! operation of an `if` before it and must not reach beyond the end of its thread; one that is itself skipped guards nothing.
//!
//! # The model
//!
//! The checker implements the view-based Px86 model (Cho, Lee, Raad, Kang, PLDI 2021). Memory is the list of all stores in the order in which they
//! become globally visible; a store's timestamp is its place in the list, 0 is the initial state. Threads hold *views*: timestamps up to which a
//! thread must have seen the list. A load may return an older store if no view forbids it; this has the effect of the store buffers of total store
//! order, which the model does not have explicitly. If a thread has non-temporal stores, its stores may join the list late and in another order. The
//! rules are in `view.rs`, one match arm for each row of the table.
//!
//! A crash may come before, between and after all operations. For each line the medium then holds a *cut* of the list: all stores to the line up to
//! some place. The cut includes at least the stores that are known to be written back. A later cut stands for evictions by the cache.
//!
//! # Exhaustive search and its reductions
//!
//! The search covers all interleavings, all choices of loads and all crash points, without sampling. One search explores `line` and `word`, another
//! `flush-on-fail`, without write-backs, and a third the ends of runs. Four reductions keep the searches small without losing a crash state (`tests/`
//! compares them with an explorer that has no reductions):
//!
//! - *Canonical configurations* (`canonical.rs`): configurations with the same future are visited once. Positions in the line's own list replace
//!   timestamps, and everything that no remaining operation can observe is dropped.
//! - *Silent steps*: an `if`, a write-back, a fence that completes nothing and a non-temporal store that is not yet visible change only their own
//!   thread and no crash state, so that they need not be interleaved with other threads.
//! - *Operations that may go first*: a load of a location that no other thread will store to has the same choices now as later. A store to a line
//!   that no other thread will access may persist or not until its own thread fences. Early in the order of stores it raises no view to the stores of
//!   other threads, and lower views permit at least as much. A late store becomes visible immediately for the same reason, unless its thread will
//!   still execute a `clflush` of the line. Under `flush-on-fail` the order itself gives the crash states, so a store has to wait there.
//! - *Each crash state once*: only a store adds crash states, and only those in which it persisted.
//!
//! Configurations are compared by 128-bit fingerprints. [`Test::run`] runs a test on the processor. A test that exceeds [`Limits`] nevertheless
//! returns [`TooLarge`], never a partial answer.

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
