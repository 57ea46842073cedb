//! The parent's model of the pool, and how the parent judges the pool by it.

use std::path::Path;

use strandline::{Control, SingleWriter, Stm, Store};
use strandline_command::Failure;
use strandline_command::arguments::ControlName;
use strandline_command::torture::{self, Setting, Subject, Verdict};
use strandline_core::memory::Native;

use super::data::{Contents, Data};
use super::operation::{ACCOUNTS, FIRST_BALANCE, Operation};

/// The most violations shown for one verification; the first few suffice to find the cause.
const SHOWN: usize = 20;

/// The collections of [`Data`].
pub struct Collections {
    setting: Setting,
    contents: Contents,
    counters: Vec<u64>,
}

impl Subject for Collections {
    type Way = ControlName;
    const FLAG: &'static str = "--control";
    const WAYS: &'static str = "controls";

    fn name(control: ControlName) -> &'static str {
        control.name()
    }

    fn create(setting: &Setting, pool: &Path) -> Result<Self, Failure> {
        let threads = setting.threads;
        let options = setting.options();
        Store::<Data>::create_new(pool, &options, |tx| Data::new(tx, threads))?.close()?;
        let contents = Contents::new(threads);
        Ok(Self { setting: setting.clone(), contents, counters: vec![0; threads as usize] })
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn judge(&mut self, pool: &Path, control: ControlName, acknowledged: &[u64]) -> Verdict {
        match control {
            ControlName::Stm => self.judge_under::<Stm>(pool, acknowledged),
            ControlName::SingleWriter => self.judge_under::<SingleWriter>(pool, acknowledged),
        }
    }
}

impl Collections {
    fn judge_under<C: Control<Memory = Native>>(&mut self, pool: &Path, acknowledged: &[u64]) -> Verdict {
        let mut verdict = Verdict::default();
        let store = match Store::<Data, C>::open_existing(pool, &self.setting.options()) {
            Ok(store) => store,
            Err(error) => {
                verdict.unreadable(format_args!("the pool cannot be opened: {error:#}"));
                return verdict;
            }
        };
        verdict.replayed = store.recovery().replayed();
        if let Err(error) = self.compare(&store, acknowledged, &mut verdict.wrong) {
            verdict.unreadable(error);
        }
        if let Err(error) = store.close() {
            verdict.unreadable(format_args!("the pool cannot be closed: {error:#}"));
        }
        verdict
    }

    fn compare<C: Control<Memory = Native>>(
        &mut self,
        store: &Store<Data<'static>, C>,
        acknowledged: &[u64],
        wrong: &mut Vec<String>,
    ) -> strandline::Result<()> {
        let threads = self.setting.threads;
        let (found, counters) = store.read(|tx, root| root.get(tx)?.read_all(tx, threads))?;
        wrong.extend(self.follow(acknowledged, &found, &counters));
        wrong.extend(store.check()?.into_iter().map(|damage| format!("DAMAGED: {damage}")));
        // A leak grows from kill to kill, so any lost memory is reported.
        let lost = store.lost_memory()?;
        if lost.blocks > 0 {
            wrong.push(format!(
                "LEAK: {} blocks, {} bytes, can no longer be reached",
                lost.blocks, lost.bytes
            ));
        }
        Ok(())
    }

    /// Advances the model by the operations that the pool's counters show, and compares it with `found`. Returns what is wrong.
    fn follow(&mut self, acknowledged: &[u64], found: &Contents, counters: &[u64]) -> Vec<String> {
        let Self { setting, contents, counters: known } = self;
        let mut wrong = torture::follow(known, acknowledged, counters, |thread, number| {
            contents.apply(&Operation::new(setting.seed, setting.threads, thread, number), thread);
        });
        wrong.extend(contents.differences(found));
        let sum = found.accounts.iter().fold(0, |sum: u64, balance| sum.wrapping_add(*balance));
        let should = ACCOUNTS * FIRST_BALANCE;
        if sum != should {
            wrong.push(format!("TORN: the accounts add up to {sum} instead of {should}"));
        }
        wrong.truncate(SHOWN);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn tells_lost_torn_and_impossible_from_sound() {
        let flags = Setting::augment_args(clap::Command::new("torture"));
        let matches = flags.get_matches_from(["torture", "--threads", "2", "--seed", "3"]);
        let setting = Setting::from_arg_matches(&matches).unwrap();
        let new =
            || Collections { setting: setting.clone(), contents: Contents::new(2), counters: vec![0, 0] };
        let mut ahead = new();
        for number in 1..=50 {
            for thread in 0..2 {
                ahead.contents.apply(&Operation::new(3, 2, thread, number), thread);
            }
        }
        let follow = |acknowledged: [u64; 2], counters: [u64; 2], change: &dyn Fn(&mut Contents)| {
            let mut found = ahead.contents.clone();
            change(&mut found);
            new().follow(&acknowledged, &found, &counters)
        };
        assert_eq!(follow([50, 49], [50, 50], &|_| {}), [""; 0]);
        assert!(follow([51, 50], [50, 50], &|_| {})[0].starts_with("LOST"));
        assert!(follow([48, 50], [50, 50], &|_| {})[0].starts_with("IMPOSSIBLE"));
        assert!(follow([50, 50], [51, 50], &|_| {}).iter().any(|line| line.starts_with("TORN")));
        let torn = |change: &dyn Fn(&mut Contents)| follow([50, 50], [50, 50], change)[0].clone();
        assert!(torn(&|found| found.numbers.clear()).starts_with("TORN: numbers"));
        assert!(
            torn(&|found| found.texts.first_entry().unwrap().get_mut().push('!')).starts_with("TORN: texts")
        );
        assert!(torn(&|found| found.queues[1].push_back(1)).starts_with("TORN: queues at 1"));
        assert!(torn(&|found| found.accounts[0] += 1).starts_with("TORN: accounts at 0"));
    }
}
