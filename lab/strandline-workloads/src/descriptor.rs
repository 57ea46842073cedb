//! The descriptor of a workload: one value in the workload's own file.
//!
//! Registries of workloads ([`Workloads`]) are values, which a program may extend. The command and the tests use such a registry.

use std::fmt;

use strandline_core::Result;
use strandline_core::error::Error;
use strandline_structures::model::Structure;

use crate::names::Entry;
use crate::typed::CreateTyped;
use crate::{InlinedWorkload, Sizes, UnknownName};

/// A reference to a workload's descriptor.
pub type WorkloadKind = &'static WorkloadDescriptor;

/// An option of the command that a workload uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// `--value-size`, any number of bytes.
    ValueBytes,
    /// `--value-size`, a multiple of 8.
    ValueWords,
    /// `--ops-per-tx`.
    Operations,
    /// `--read-share`.
    ReadShare,
    /// `--keys`.
    Keys,
}

/// The description of a workload.
///
/// ```
/// use strandline_workloads::{HASH, Parameter, Sizes};
///
/// assert_eq!(HASH.name, "hash");
/// assert!(HASH.takes.contains(&Parameter::Operations));
/// assert!((HASH.make)(&Sizes::small())?.heap_bytes() > 0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct WorkloadDescriptor {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// The paper, or another source.
    pub source: &'static str,
    /// The workload's operations, at the default sizes.
    pub description: &'static str,
    /// The options that it uses; it ignores all others.
    pub takes: &'static [Parameter],
    /// Makes the workload with these sizes, which [`Selection::new`](crate::Selection::new) has checked.
    pub make: fn(&Sizes) -> Result<Box<dyn InlinedWorkload>>,
    /// The same operations on the collections of the typed interface, if they exist: with values of 8 bytes, and with
    /// [`Mix::Toggle`](crate::Mix::Toggle).
    pub by_types: Option<CreateTyped>,
    /// How the crash checker checks the workload. The checker has its own histories for the workloads of [`ALL`](crate::ALL) that it knows; with this
    /// value it can also check a workload of another crate.
    pub checked: Option<Checked>,
}

/// A workload's structure for the crash checker, which explores small histories on it.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// The structure with its reference model.
    pub structure: &'static dyn Structure,
    /// The number of heap chunks of 4 KB that a small structure needs.
    pub chunks: u64,
    /// The number of chunks that each thread needs in addition.
    pub chunks_per_thread: u64,
}

impl WorkloadDescriptor {
    /// Returns its line of `strandline-lab list`.
    pub fn entry(&self) -> Entry {
        Entry { name: self.name, source: self.source, description: self.description }
    }

    /// Refuses sizes that are impossible, or impossible for this workload.
    pub(crate) fn check(&self, sizes: &Sizes) -> Result<()> {
        if sizes.counts().contains(&0) {
            return Err(Error::Parameter("a workload's sizes and operations must be at least 1".into()));
        }
        if sizes.read_percent > 100 {
            return Err(Error::Parameter(format!(
                "{} of 100 transactions cannot only read",
                sizes.read_percent
            )));
        }
        let bytes = sizes.value_bytes;
        if self.takes.contains(&Parameter::ValueWords) && (bytes == 0 || !bytes.is_multiple_of(8)) {
            return Err(Error::Parameter(format!(
                "{} keeps whole words: a value size of {bytes} bytes is no multiple of 8",
                self.name
            )));
        }
        Ok(())
    }
}

impl PartialEq for WorkloadDescriptor {
    /// Names are unique in a registry.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for WorkloadDescriptor {}

impl fmt::Debug for WorkloadDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A program's registry of workloads.
///
/// ```
/// use strandline_workloads::{ALL, SPS, WorkloadKind, Workloads};
///
/// assert_eq!(ALL.of_name("sps")?, &SPS);
/// // The registry of a program with one workload.
/// static MINE: [WorkloadKind; 1] = [&SPS];
/// assert!(Workloads::new(&MINE).of_name("hash").is_err());
/// # Ok::<(), strandline_workloads::UnknownName>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Workloads(&'static [WorkloadKind]);

impl Workloads {
    /// Creates a registry of these workloads, in the order in which they are shown.
    pub const fn new(workloads: &'static [WorkloadKind]) -> Self {
        Self(workloads)
    }

    /// Returns the workloads, in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = WorkloadKind> {
        self.0.iter().copied()
    }

    /// Returns the workload with this name.
    ///
    /// # Errors
    /// Returns an error that lists the known names if there is none.
    pub fn of_name(self, name: &str) -> Result<WorkloadKind, UnknownName> {
        let names = || self.iter().map(|kind| kind.name);
        self.iter().find(|kind| kind.name == name).ok_or_else(|| UnknownName::new("workload", name, names()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use strandline_core::{Concurrency, Domain};
    use strandline_schemes::VCBP_STREAMED;

    use super::*;
    use strandline_command::Place;

    use crate::{ALL, PoolSetting, Prepared, PreparedProduct, SchemeName, Selection, System, runner};

    const TRANSACTIONS: u64 = 20;

    fn setting(concurrency: Concurrency) -> PoolSetting {
        // If lines are written back, both paths log whole lines.
        let domain = if Domain::Flush.is_supported() { Domain::Flush } else { Domain::Process };
        PoolSetting { logs: 2, log_bytes: 128 << 10, domain, instruction: None, concurrency }
    }

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = ALL.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), ALL.iter().count());
        for kind in ALL.iter() {
            assert_eq!(ALL.of_name(kind.name), Ok(kind));
            assert!(System::all().all(|system| system.name() != kind.name));
        }
        assert!(ALL.of_name("nothing").unwrap_err().to_string().contains("sps"));
    }

    #[test]
    fn every_workload_runs_and_checks_on_both_paths() {
        // This scheme logs what the product's path logs: each word's newest value.
        let scheme = SchemeName::of(&VCBP_STREAMED, Concurrency::Stm);
        for kind in ALL.iter() {
            let place = Place::in_memory().unwrap();
            let selection = Selection::new(kind, &Sizes::small()).unwrap();

            let path = place.folder().join("erased");
            let prepared = Prepared::new(&path, &selection, setting(Concurrency::Stm)).unwrap();
            let mut client = selection.client(prepared.pool(), scheme, 0, 1).unwrap();
            for _ in 0..TRANSACTIONS {
                client.transaction().unwrap();
            }
            let erased = client.statistics();
            drop(client);
            selection.check(&mut runner(prepared.pool(), scheme, 0).unwrap()).unwrap();

            for system in [System::Words, System::SingleWriter, System::Types, System::TypesSingleWriter] {
                let path = place.folder().join("product");
                let setting = setting(system.concurrency());
                let Some(prepared) = PreparedProduct::new(&path, &selection, system, setting).unwrap() else {
                    assert!(system.is_typed() && kind.by_types.is_none(), "{kind:?}");
                    continue;
                };
                let mut client = prepared.product().client(1).unwrap();
                let before = client.statistics();
                for _ in 0..TRANSACTIONS {
                    client.transaction().unwrap();
                }
                let after = client.statistics();
                if !system.is_typed() && Domain::Flush.is_supported() {
                    // The counts of the same transactions on another path.
                    let written = |of: &strandline_core::transaction::Statistics| (of.commits, of.log_bytes);
                    let done = (after.commits - before.commits, after.log_bytes - before.log_bytes);
                    assert_eq!(done, written(&erased), "{kind:?}");
                }
                assert!(after.commits > before.commits, "{kind:?}");
                drop(client);
                prepared.product().check().unwrap();
            }
        }
    }

    /// Only the workloads that store whole words refuse such a value size.
    #[test]
    fn sizes_that_none_can_have() {
        let sizes = Sizes { value_bytes: 12, ..Sizes::small() };
        for kind in ALL.iter() {
            let is_refused = Selection::new(kind, &sizes).is_err();
            assert_eq!(is_refused, kind.takes.contains(&Parameter::ValueWords), "{kind:?}");
            assert!(Selection::new(kind, &Sizes { operations: 0, ..sizes }).is_err());
        }
    }
}
