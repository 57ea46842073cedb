//! What the parent does after a kill: opens the pool, which recovers it, and compares it with the model.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::Subject;
use super::acknowledged::Acknowledged;
use super::setting::Setting;
use crate::Failure;

/// What one verification found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Everything that is wrong; nothing if all is well.
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

/// Follows the counters that were found in the pool: calls `apply` with the thread and number of each operation since `counters`, which
/// become those. Returns what is wrong with them.
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
        // One operation may have committed and not been acknowledged when the process died.
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

/// The judge of a pool.
pub struct Verifier<S> {
    subject: S,
    pool: PathBuf,
    acknowledged: Acknowledged,
}

impl<S: Subject> Verifier<S> {
    /// Creates the pool, and the file of acknowledgements.
    ///
    /// # Errors
    /// Returns an error if the pool exists, or cannot be created.
    pub fn create(setting: &Setting, pool: &Path, acknowledged: &Path) -> Result<Self, Failure> {
        let subject = S::create(setting, pool)?;
        let acknowledged =
            Acknowledged::open(acknowledged).map_err(Failure::io("create the acknowledgements"))?;
        let verifier = Self { subject, pool: pool.into(), acknowledged };
        verifier.acknowledge()?;
        Ok(verifier)
    }

    /// Transactions that the model has seen.
    pub fn transactions(&self) -> u64 {
        self.subject.counters().iter().sum()
    }

    /// Compares the pool with the model, which goes on to where the pool is.
    ///
    /// # Errors
    /// Returns an error if the system's. That the pool cannot be opened or read is a verdict.
    pub fn verify(&mut self, way: S::Way) -> Result<Verdict, Failure> {
        let threads = self.subject.counters().len() as u64;
        let acknowledged =
            self.acknowledged.load(threads).map_err(Failure::io("read the acknowledgements"))?;
        let verdict = self.subject.judge(&self.pool, way, &acknowledged);
        // What was found is the ground that the next life stands on.
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
