//! The parent's work after a kill: it opens the pool, which recovers it, and compares it with the model.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::Subject;
use super::acknowledged::Acknowledged;
use super::setting::Setting;
use crate::Failure;

/// The result of one verification.
#[derive(Debug, Default)]
pub struct Verdict {
    /// All that is wrong; empty if nothing is.
    pub wrong: Vec<String>,
    /// Transactions that recovery replayed.
    pub replayed: u64,
}

impl Verdict {
    /// Notes that the pool, or something in it, cannot be read.
    pub fn unreadable(&mut self, what: impl Display) {
        self.wrong.push(format!("UNREADABLE: {what}"));
    }
}

/// Compares the counters that the pool holds with `counters`, calls `apply` with the thread and number of each operation in between, and updates
/// `counters`. Returns what is wrong with them.
pub fn follow(
    counters: &mut [u64],
    acknowledged: &[u64],
    found: &[u64],
    mut apply: impl FnMut(u64, u64),
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (thread, before) in (0..).zip(counters) {
        let (counter, acknowledged) = (found[thread as usize], acknowledged[thread as usize]);
        if counter < acknowledged {
            wrong.push(format!(
                "LOST: thread {thread} was told that its operation {acknowledged} is durable; the pool ends at {counter}"
            ));
        }
        // When the process died, one operation may have been committed but not yet acknowledged.
        if counter > acknowledged + 1 {
            wrong.push(format!(
                "IMPOSSIBLE: thread {thread} is at operation {counter}, but had only begun {}",
                acknowledged + 1
            ));
            continue;
        }
        (*before + 1..=counter).for_each(|number| apply(thread, number));
        *before = counter;
    }
    wrong
}

/// Judges a pool after each kill.
pub struct Verifier<S> {
    subject: S,
    pool: PathBuf,
    acknowledged: Acknowledged,
}

impl<S: Subject> Verifier<S> {
    /// Creates the pool and the file of acknowledgements.
    ///
    /// # Errors
    /// Returns an error if the pool exists or cannot be created.
    pub fn create(setting: &Setting, pool: &Path, acknowledged: &Path) -> Result<Self, Failure> {
        let subject = S::create(setting, pool)?;
        let acknowledged =
            Acknowledged::open(acknowledged).map_err(Failure::io("create the acknowledgements"))?;
        let verifier = Self { subject, pool: pool.into(), acknowledged };
        verifier.acknowledge()?;
        Ok(verifier)
    }

    /// Returns the number of transactions in the model.
    pub fn transactions(&self) -> u64 {
        self.subject.counters().iter().sum()
    }

    /// Compares the pool with the model, and advances the model to the pool's state.
    ///
    /// # Errors
    /// Returns the system's errors. A pool that cannot be opened or read is a verdict, not an error.
    pub fn verify(&mut self, way: S::Way) -> Result<Verdict, Failure> {
        let threads = self.subject.counters().len() as u64;
        let acknowledged =
            self.acknowledged.load(threads).map_err(Failure::io("read the acknowledgements"))?;
        let verdict = self.subject.judge(&self.pool, way, &acknowledged);
        // The next life starts from what was found, so the parent acknowledges it.
        self.acknowledge()?;
        Ok(verdict)
    }

    fn acknowledge(&self) -> Result<(), Failure> {
        for (thread, &counter) in (0..).zip(self.subject.counters()) {
            self.acknowledged.store(thread, counter).map_err(Failure::io("write the acknowledgements"))?;
        }
        Ok(())
    }
}
