//! What the parent does after a kill: opens the pool, which recovers it, and compares it with the model.

use std::path::{Path, PathBuf};
use strandline_schemes::laboratory;

use strandline_core::file::Pool;
use strandline_core::transaction::{Concurrency, Runner};
use strandline_workloads::SchemeName;

use super::acknowledged::Acknowledged;
use super::data::Data;
use super::model::Model;
use super::setting::{Setting, worker};
use strandline_command::Failure;

/// The judge of a pool.
pub struct Verifier {
    setting: Setting,
    pool: PathBuf,
    acknowledged: Acknowledged,
    model: Model,
    /// Heap objects of the empty structures.
    first_objects: u64,
}

/// What one verification found.
pub struct Verdict {
    /// Everything that is wrong; nothing if all is well.
    pub wrong: Vec<String>,
    /// Transactions that recovery replayed.
    pub replayed: u64,
}

impl Verifier {
    /// Creates the pool with empty structures, and the file of acknowledgements.
    ///
    /// # Errors
    /// The pool exists, or cannot be created.
    pub fn create(setting: &Setting, pool: &Path, acknowledged: &Path) -> Result<Self, Failure> {
        let open = laboratory(Concurrency::Stm).create(pool, &setting.options())?;
        Data::create(&mut open.worker()?, setting.threads)?;
        let first_objects = open.usage()?.objects;
        open.close()?;
        let acknowledged =
            Acknowledged::open(acknowledged).map_err(Failure::io("create the acknowledgements"))?;
        let verifier = Self {
            setting: setting.clone(),
            pool: pool.into(),
            acknowledged,
            model: Model::new(setting.seed, setting.threads),
            first_objects,
        };
        verifier.acknowledge()?;
        Ok(verifier)
    }

    /// Transactions that the model has seen.
    pub fn transactions(&self) -> u64 {
        self.model.counters.iter().sum()
    }

    /// Opens the pool and compares it, by a worker under `scheme`, with the model, which goes on to where the pool is.
    ///
    /// # Errors
    /// The system's. That the pool cannot be opened or read is a verdict.
    pub fn verify(&mut self, scheme: SchemeName) -> Result<Verdict, Failure> {
        let threads = self.setting.threads;
        let acknowledged =
            self.acknowledged.load(threads).map_err(Failure::io("read the acknowledgements"))?;
        let mut verdict = Verdict { wrong: Vec::new(), replayed: 0 };
        let pool = match laboratory(scheme.concurrency).open(&self.pool, &self.setting.options()) {
            Ok(pool) => pool,
            Err(error) => {
                verdict.wrong.push(format!("UNREADABLE: the pool cannot be opened: {error}"));
                return Ok(verdict);
            }
        };
        verdict.replayed = pool.recovery().replayed();
        if let Err(error) = self.compare(&pool, scheme, &acknowledged, &mut verdict.wrong) {
            verdict.wrong.push(format!("UNREADABLE: {error}"));
        }
        if let Err(error) = pool.close() {
            verdict.wrong.push(format!("UNREADABLE: the pool cannot be closed: {error}"));
        }
        // What was found is the ground that the next life stands on.
        self.acknowledge()?;
        Ok(verdict)
    }

    fn compare(
        &mut self,
        pool: &Pool<Concurrency>,
        scheme: SchemeName,
        acknowledged: &[u64],
        wrong: &mut Vec<String>,
    ) -> strandline_core::Result<()> {
        let mut worker = worker(pool, scheme)?;
        let data = Data::open(&mut worker)?;
        let found = worker.view(|tx| data.read_all(tx, self.setting.threads))?;
        wrong.extend(self.model.follow(acknowledged, &found));
        // The B+ tree has at most a node for each key and some above them; everything else has one object
        // for each pair. What leaks adds up from kill to kill.
        let usage = pool.usage()?;
        let least = self.first_objects + self.model.single_objects();
        let most = least + self.model.tree_pairs() + 8;
        if wrong.is_empty() && !(least..=most).contains(&usage.objects) {
            wrong.push(format!(
                "LEAK: the heap holds {} objects; the structures account for {least} to {most}",
                usage.objects
            ));
        }
        Ok(())
    }

    fn acknowledge(&self) -> Result<(), Failure> {
        for (thread, &counter) in (0..).zip(&self.model.counters) {
            self.acknowledged.store(thread, counter).map_err(Failure::io("write the acknowledgements"))?;
        }
        Ok(())
    }
}
