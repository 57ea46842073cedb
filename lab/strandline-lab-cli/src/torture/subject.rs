//! The parent's knowledge of the pool, and how it judges the pool.

use std::path::Path;

use strandline_command::Failure;
use strandline_command::torture::{Setting, Subject, Verdict};
use strandline_core::file::Pool;
use strandline_core::transaction::{Concurrency, Runner};
use strandline_schemes::laboratory;
use strandline_workloads::SchemeName;

use super::data::Data;
use super::model::Model;
use super::worker;

/// The structures of [`super::operation::STRUCTURES`].
pub struct Structures {
    setting: Setting,
    model: Model,
    /// The number of heap objects that the empty structures have.
    first_objects: u64,
}

impl Subject for Structures {
    type Way = SchemeName;
    const FLAG: &'static str = "--scheme";
    const WAYS: &'static str = "schemes";

    fn name(scheme: SchemeName) -> &'static str {
        scheme.name()
    }

    fn create(setting: &Setting, pool: &Path) -> Result<Self, Failure> {
        let open = laboratory(Concurrency::Stm).create(pool, &setting.options())?;
        Data::create(&mut open.worker()?, setting.threads)?;
        let first_objects = open.usage()?.objects;
        open.close()?;
        let model = Model::new(setting.seed, setting.threads);
        Ok(Self { setting: setting.clone(), model, first_objects })
    }

    fn counters(&self) -> &[u64] {
        &self.model.counters
    }

    fn judge(&mut self, pool: &Path, scheme: SchemeName, acknowledged: &[u64]) -> Verdict {
        let mut verdict = Verdict::default();
        let pool = match laboratory(scheme.concurrency).open(pool, &self.setting.options()) {
            Ok(pool) => pool,
            Err(error) => {
                verdict.unreadable(format_args!("the pool cannot be opened: {error:#}"));
                return verdict;
            }
        };
        verdict.replayed = pool.recovery().replayed();
        if let Err(error) = self.compare(&pool, scheme, acknowledged, &mut verdict.wrong) {
            verdict.unreadable(error);
        }
        if let Err(error) = pool.close() {
            verdict.unreadable(format_args!("the pool cannot be closed: {error:#}"));
        }
        verdict
    }
}

impl Structures {
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
        // The B+ tree has at most a node for each key and some inner nodes; everything else has one object for each pair. Leaked objects would
        // accumulate from kill to kill.
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
}
