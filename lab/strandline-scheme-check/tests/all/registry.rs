//! Software schemes and workloads of another crate, which a registry adds.

use std::time::Duration;

use super::HANG;
use strandline_check::{Session, Setting};
use strandline_core::memory::PersistentAddress;
use strandline_core::scheme::{Mode, SchemeDescriptor};
use strandline_core::transaction::{AnyRunner, Concurrency, Transaction};
use strandline_core::{Abort, Result};
use strandline_scheme_check::device;
use strandline_scheme_check::explore::{Case, Sampling, Workload, sample, schemes_of};
use strandline_scheme_check::{machine, persist_order};
use strandline_schemes::SCT_EPOCH;
use strandline_sim::Registry;
use strandline_structures::model::{Choices, Contents, Invariant, Operation, Outcome, Structure, Words};
use strandline_workloads::{Checked, SPS, WorkloadDescriptor};

const WORDS: Words = Words { count: 5, byte: |place| 256 + 64 * place, invariant: Invariant::Permutation };

/// A workload of the caller's: it exchanges words, and if it `forgets` it leaves some exchanges half done.
#[derive(Debug)]
struct Own {
    forgets: bool,
}

impl Structure for Own {
    fn name(&self) -> &'static str {
        "own words"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        WORDS.create(runner, root)
    }
    fn empty(&self) -> Contents {
        WORDS.empty()
    }
    fn places(&self) -> u64 {
        WORDS.places()
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        WORDS.change(choices)
    }
    fn apply(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        match operation {
            Operation::Exchange { places: [first, second], .. } if self.forgets && first + second == 4 => {
                let at = |place| root.byte((WORDS.byte)(place));
                let value = tx.read(at(*second))?;
                tx.write(at(*first), value)?;
                Ok(None)
            }
            _ => WORDS.apply(tx, root, operation),
        }
    }
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        WORDS.check(tx, root)
    }
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        WORDS.read(tx, root)
    }
}

const fn workload(name: &'static str, structure: &'static Own) -> WorkloadDescriptor {
    WorkloadDescriptor {
        name,
        source: "this test",
        description: "exchanges among words",
        takes: &[],
        make: |sizes| (SPS.make)(sizes),
        by_types: None,
        checked: Some(Checked { structure, chunks: 1, chunks_per_thread: 0 }),
    }
}

static RIGHT: WorkloadDescriptor = workload("own", &Own { forgets: false });
static WRONG: WorkloadDescriptor = workload("own-forgetful", &Own { forgets: true });

/// SCT under another number and name, so that only a program that knows it can recover its pools.
static SCHEME: SchemeDescriptor = SchemeDescriptor {
    code: 40,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "own-epoch", redundant: &[] }],
    source: "this test",
    description: "",
    ..SCT_EPOCH
};

fn registry() -> Registry {
    Registry::default().with_workloads(&[&RIGHT, &WRONG]).with_schemes(&[&SCHEME])
}

/// The caller's workload is found by name among the checker's own; a workload without a description of its structure is not.
#[test]
fn workloads_are_found_by_name() {
    let workloads = registry().workloads;
    let named = |name| Workload::of_name(workloads, name);
    assert_eq!(named("own").unwrap().name(), "own");
    assert_eq!(named("hash").unwrap(), Workload::Hash);
    assert_ne!(named("own").unwrap(), named("own-forgetful").unwrap());
    let refused = named("tatp").unwrap_err().to_string();
    assert!(refused.contains("own-forgetful") && refused.contains("sps"), "{refused}");
    assert_eq!(Workload::all_of(workloads).count(), Workload::ALL.len() + 2);
}

/// Every world runs the workload, and finds its fault.
#[test]
fn a_workload_of_ones_own_is_checked_in_every_world() {
    let registry = registry();
    for (name, is_wrong) in [("own", false), ("own-forgetful", true)] {
        let workload = Workload::of_name(registry.workloads, name).unwrap();
        let scheme = schemes_of(registry.schemes).into_iter().find(|scheme| scheme.name == "bppm").unwrap();
        let case = Case { scheme, workload, threads: 2, setting: Setting::Line, omitted: None };
        let sampling = Sampling { histories: 20, seed: 1, transactions: 8, limit: HANG };
        let x86 = sample(case, sampling, &Session::new(), |_| ())
            .unwrap()
            .violation
            .map(|violation| violation.what);

        let subject =
            machine::subjects(registry).into_iter().find(|subject| subject.name() == "bppm").unwrap();
        let case = machine::Case { subject, workload, threads: 2, omitted: None };
        let bounds = machine::Bounds { histories: 5, seed: 1, transactions: 8, limit: HANG };
        let machine = machine::sample(case, bounds, &Session::new(), |_| ())
            .unwrap()
            .violation
            .map(|violation| violation.what);

        let case = device::Case { concurrency: Concurrency::Stm, workload: Some(workload), omitted: None };
        let size = device::Size { lives: 4, transactions: 10 };
        let sampling = device::Sampling { histories: 20, seed: 1, size, limit: HANG };
        let device = device::sample(&case, sampling, &Session::new(), |_| ())
            .violation
            .map(|violation| violation.what);

        for (world, found) in [("x86", x86), ("machine", machine), ("device", device)] {
            assert_eq!(found.is_some(), is_wrong, "{name} in the world {world}: {found:?}");
        }
    }
}

/// A scheme of the caller's that is written for a persistency model is explored under that model with its barriers, and its pools are recovered.
#[test]
fn a_scheme_of_ones_own_is_explored_under_its_model() {
    let all = persist_order::schemes_of(registry().schemes);
    assert_eq!(all.len(), persist_order::schemes().len() + 1);
    let own = all.iter().find(|scheme| scheme.name() == "own-epoch").unwrap();
    let sampling =
        persist_order::Sampling { histories: 30, seed: 1, states: 500, limit: Duration::from_secs(600) };
    let found = own.explore(None, sampling, &Session::new(), |_| ()).unwrap();
    assert!(found.counts.states > 100 && found.violation.is_none(), "{:?}", found.violation);
    let without = own.barriers()[1];
    let sampling = persist_order::Sampling { histories: u64::MAX, ..sampling };
    assert!(
        own.explore(Some(without.step), sampling, &Session::new(), |_| ()).unwrap().violation.is_some(),
        "{}",
        without.name
    );
}

#[test]
fn every_durable_scheme_has_steps_that_are_checked() {
    for kind in strandline_schemes::ALL.iter().filter(|kind| kind.is_durable()) {
        assert!(kind.all_steps().count() > 0, "{kind:?} promises durability and names no steps");
        let is_explored = kind.is_native || kind.persistency.is_some();
        assert!(is_explored, "{kind:?} promises durability, and no world explores it");
        for mode in kind.modes {
            let unknown = mode.redundant.iter().find(|(step, _)| kind.all_steps().all(|own| own != *step));
            assert!(unknown.is_none(), "{} excuses a step that it does not have: {unknown:?}", mode.name);
        }
    }
}
