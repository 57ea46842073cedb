//! What is to be known of a workload, in one value that stands in the workload's own file.
//!
//! Registries of workloads ([`Workloads`]) are values, which a program may extend: the command and the tests are made from
//! them.

use std::fmt;

use strandline_core::Result;
use strandline_core::error::Error;
use strandline_structures::model::Structure;

use crate::names::Entry;
use crate::typed::CreateTyped;
use crate::{InlinedWorkload, Sizes, UnknownName};

/// A workload, by what is to be known of it.
pub type WorkloadKind = &'static WorkloadDescriptor;

/// What a workload takes of the command's options. It has no use for the others.
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
}

/// What is to be known of a workload.
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
    /// The paper, or what else it is taken from.
    pub source: &'static str,
    /// What it does, at the default sizes.
    pub description: &'static str,
    /// The options that it takes.
    pub takes: &'static [Parameter],
    /// The workload with these sizes, which [`Selection::new`](crate::Selection::new) has looked at.
    pub make: fn(&Sizes) -> Result<Box<dyn InlinedWorkload>>,
    /// The same operations on the collections of the typed interface, where they have them: values of 8 bytes, and
    /// [`Mix::Toggle`](crate::Mix::Toggle).
    pub by_types: Option<CreateTyped>,
    /// What the crash checker does with it. It has histories of its own for the workloads of [`ALL`](crate::ALL) that it knows; with this
    /// it knows a workload of another crate too.
    pub checked: Option<Checked>,
}

/// A workload's structure for the crash checker, which explores small histories of it.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// The structure, with the reference model that says what is right.
    pub structure: &'static dyn Structure,
    /// Heap chunks of 4 KB that a small one needs.
    pub chunks: u64,
    /// Those that each thread needs beside them.
    pub chunks_per_thread: u64,
}

impl WorkloadDescriptor {
    /// What `strandline-lab list` says of it.
    pub fn entry(&self) -> Entry {
        Entry { name: self.name, source: self.source, description: self.description }
    }

    /// Refuses sizes that none, or not this workload, can have.
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

/// Workloads that a program knows.
///
/// ```
/// use strandline_workloads::{ALL, SPS, WorkloadKind, Workloads};
///
/// assert_eq!(ALL.of_name("sps")?, &SPS);
/// // Those of a program that knows one only.
/// static MINE: [WorkloadKind; 1] = [&SPS];
/// assert!(Workloads::new(&MINE).of_name("hash").is_err());
/// # Ok::<(), strandline_workloads::UnknownName>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Workloads(&'static [WorkloadKind]);

impl Workloads {
    /// A registry of these, in the order in which they are shown.
    pub const fn new(workloads: &'static [WorkloadKind]) -> Self {
        Self(workloads)
    }

    /// The workloads, in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = WorkloadKind> {
        self.0.iter().copied()
    }

    /// The workload of this name.
    ///
    /// # Errors
    /// There is none; it says which there are.
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
        // Where lines are written back, both paths log whole ones.
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
        // It logs what the product's path logs: each word's newest value.
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

            for system in [System::Words, System::SingleWriter, System::Types] {
                let path = place.folder().join("product");
                let setting = setting(system.concurrency());
                let Some(prepared) = PreparedProduct::new(&path, &selection, system, setting).unwrap() else {
                    assert!(system == System::Types && kind.by_types.is_none(), "{kind:?}");
                    continue;
                };
                let mut client = prepared.product().client(1).unwrap();
                let before = client.statistics();
                for _ in 0..TRANSACTIONS {
                    client.transaction().unwrap();
                }
                let after = client.statistics();
                if system != System::Types && Domain::Flush.is_supported() {
                    // The same transactions, on another path.
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

    /// A value size is refused by those alone that keep whole words.
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
