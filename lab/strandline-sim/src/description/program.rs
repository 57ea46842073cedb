//! Choices that the papers leave open about the programs that they ran: keys of a machine's section `program`, each with the sentence from which it
//! follows.

use serde::{Deserialize, Serialize};
use strandline_core::Concurrency;
use strandline_core::scheme::SchemeKind;
use strandline_schemes::{
    BASE, BASE_TAIL, MNE_ASYNC, MNE_ASYNC_FENCED, MNE_SYNC, MNE_SYNC_FENCED, VCBP, VCBP_TAIL, XIL,
    XIL_UNMARKED,
};
use strandline_workloads::{Draws, SchemeName};

/// Choices that the papers leave open about the programs that they ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramChoices {
    /// The data that one lock guards in programs that declare their locks (`plain+locks`, `plain-flushed+locks`).
    pub lock_scope: LockScope,
    /// The width in bytes of a store to the pool: 1, 2, 4 or 8. A plain program stores a word in parts of this width. Each part is a store, an entry
    /// of the store queue, and an entry of a log that has one for each store. A copied word is charged the instructions counted for such a copy
    /// ([`copied_word`](crate::instructions::copied_word)). ATOM, section VI-D: "REDO generates 19x more log entries than ATOM-OPT. This is because
    /// in REDO, every store operation in an atomic section generates a log entry", and in ATOM "only the first write to a cache line", which has 8
    /// words. WrAP, section 4.2: a B Tree "has almost double the number of persistent store operations" of the other structures.
    pub store_bytes: u64,
    /// How the loops that copy were compiled. The papers do not say.
    pub compiled: Compiled,
    /// The treatment of the home copies of a transaction's blocks under S-WAL. Loose-Ordering Consistency, section 5.2: "the log writes and
    /// home-location writes have different memory addresses, and thus are independently cached in the CPU cache"; section 2.2 has the
    /// log truncated after "in-place update completes".
    pub home_copies: HomeCopies,
    /// The instructions that S-WAL is charged in addition to its accesses. Loose-Ordering Consistency, section 5.2: S-WAL "manages logging and
    /// ordering in software", and its throughput is compared with that of the same benchmark without transactions.
    pub software_log: SoftwareLog,
    /// The B Tree that WrAP's trace study runs. Section 4.2 there names "B Tree" beside the sets of the C++ library and gives no details.
    pub b_tree: BTree,
    /// Blocks of the array that SPS swaps two entries of in Loose-Ordering's evaluation, 1 to 4096. Table 2 there: a transaction of
    /// SPS persists 1.53 blocks on average, which is 23/15 for an array of two blocks; it nears 2 with more.
    pub swap_blocks: u64,
    /// The reaction of a transaction under STM to a conflict. Blurred Persistence, section IV-A: "We implement BPPM based on a software transactional
    /// memory implementation, TinySTM", whose default is `CM_SUICIDE`.
    pub contention: Contention,
    /// The pointers of the logs of `base`, `vcbp` and `xil`. Blurred Persistence, section III-A: "The XIL technique also avoids the use of log
    /// head and tail pointers, so as to eliminate the ordering before their updates. To achieve this, the XIL technique has to check the log from
    /// the beginning and detects the end by itself during recovery."
    pub log_pointers: LogPointers,
    /// How `mne-sync` and `mne-async` make a transaction's records durable. Blurred Persistence, section V-A: MNE is "an optimized implementation
    /// of the baseline system, which uses write combing technique to bypass the CPU cache to provide faster log persistence"; III-A:
    /// "the torn-bit technique, which is proposed in Mnemosyne".
    pub mnemosyne_log: MnemosyneLog,
    /// How Update Location on arrays chooses subscribers in Deferred Commit's evaluation. Section 7.1: "Update Location records the hand-off of a
    /// user from one cell tower to another", a transaction of TATP, which draws some users more often than others; section 7.2 has its "transactions
    /// rarely conflict", and the program that its authors have published draws evenly.
    pub subscriber_draws: Draws,
}

impl ProgramChoices {
    /// Returns the scheme that runs under the name `named` in a paper.
    pub fn scheme(&self, named: SchemeName) -> SchemeName {
        if named.plain.is_some() {
            return named;
        }
        let variant = |kind: SchemeKind| {
            let variant = self.variant(kind);
            if variant.mode(named.concurrency).is_some() { variant } else { kind }
        };
        let retries_at_once = named.concurrency == Concurrency::Stm && self.contention == Contention::Suicide;
        SchemeName { kind: named.kind.map(variant), retries_at_once, ..named }
    }

    fn variant(&self, kind: SchemeKind) -> SchemeKind {
        let variants: [(bool, [(SchemeKind, SchemeKind); 3]); 2] = [
            (
                self.log_pointers == LogPointers::AllButXil,
                [(&BASE, &BASE_TAIL), (&VCBP, &VCBP_TAIL), (&XIL, &XIL_UNMARKED)],
            ),
            (
                self.mnemosyne_log == MnemosyneLog::Fenced,
                [(&MNE_SYNC, &MNE_SYNC_FENCED), (&MNE_ASYNC, &MNE_ASYNC_FENCED), (&BASE, &BASE)],
            ),
        ];
        let chosen = variants.into_iter().filter(|(chosen, _)| *chosen).flat_map(|(_, pairs)| pairs);
        let variant = chosen.into_iter().find(|&(named, variant)| named == kind && variant != kind);
        variant.map_or(kind, |(_, variant)| variant)
    }
}

impl Default for ProgramChoices {
    fn default() -> Self {
        Self {
            lock_scope: LockScope::default(),
            store_bytes: 8,
            compiled: Compiled::default(),
            home_copies: HomeCopies::default(),
            software_log: SoftwareLog::default(),
            b_tree: BTree::default(),
            swap_blocks: 2,
            contention: Contention::default(),
            log_pointers: LogPointers::default(),
            mnemosyne_log: MnemosyneLog::default(),
            subscriber_draws: Draws::default(),
        }
    }
}

/// The reaction of a transaction under STM to a conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contention {
    /// It waits for the conflicting transaction. Repeated conflicts queue up, and after some of them the transaction keeps others from beginning.
    /// Applications' transactions do the same.
    #[default]
    Wait,
    /// It aborts and immediately runs again ([`Worker::retry_at_once`](strandline_core::engine::Worker::retry_at_once)).
    Suicide,
}

/// The pointers of logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogPointers {
    /// A truncation mark for each truncated transaction, also in XIL; no log has a tail pointer.
    #[default]
    Marks,
    /// The logs of BASE and BP(VCBP) also have a tail pointer, and that of BP(XIL) has no mark.
    AllButXil,
}

/// How MNE makes a transaction's records durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MnemosyneLog {
    /// With torn bits and one fence.
    #[default]
    TornBits,
    /// With BASE's steps, past the cache: a fence before the commit record and one after it. There is no tail pointer.
    Fenced,
}

/// How a program was compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compiled {
    /// With optimisation (`-O2`), like all other counts.
    #[default]
    Optimised,
    /// Without (`-O0`).
    Unoptimised,
}

/// The treatment of the home copies of blocks that a software log has made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HomeCopies {
    /// The transaction writes them back and truncates its log, so it waits for every block twice.
    #[default]
    WrittenBack,
    /// They stay in the caches until they are evicted. This only models timing: power failures are refused, because S-WAL's log does not append.
    Cached,
}

/// A B-tree in C++.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BTree {
    /// The textbook's: sorted arrays that an insertion or deletion shifts.
    #[default]
    Textbook,
    /// Abseil's, traced.
    Library,
}

/// The location of the code that keeps a software log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SoftwareLog {
    /// In this library's transactions, with the instructions counted for them ([`Instructions::TRANSACTIONS`](crate::Instructions::TRANSACTIONS)).
    #[default]
    Library,
    /// In the benchmark itself: an access to data or log costs as many instructions as one of the plain program, but at most as many as one of the
    /// library's.
    CompiledIn,
}

/// The data that one lock of a plain program guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockScope {
    /// All data.
    Structure,
    /// The parts that a program knows beforehand: an array's entry, a hash table's bucket, a graph's vertex, a district; a tree or a queue as a
    /// whole.
    #[default]
    Part,
    /// Nothing: each thread has its own structure, with a share of the size.
    Thread,
}
