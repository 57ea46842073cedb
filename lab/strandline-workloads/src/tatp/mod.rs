//! `tatp-update-location`: the Update Location transaction of TATP, the Telecom Application Transaction Processing benchmark (Deferred Commit,
//! section 7.1).
//!
//! The data are a mobile network's home location register: subscribers with one to four rows of access information and of special facilities, and up
//! to three call forwardings for each facility. Tables are hash tables of rows. Update Location finds a subscriber by number and stores the new
//! location of the handset: one word.

mod arrays;

pub use arrays::TATP_UPDATE_LOCATION_ARRAYS;
use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::{Array, HashTable};

use crate::table::{Hash, Table, table};
use crate::{Parameter, Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// TATP's Update Location: stores where a subscriber's handset is.
pub static TATP_UPDATE_LOCATION: WorkloadDescriptor = WorkloadDescriptor {
    name: "tatp-update-location",
    source: "TATP; Deferred Commit, 7.1",
    description: "stores where a subscriber's handset is: 100,000 subscribers, tables in hash tables",
    takes: &[Parameter::Operations],
    make: |sizes| Ok(Box::new(TatpUpdateLocationWorkload::new(sizes)?)),
    by_types: None,
    checked: None,
};

table! {
    /// A subscriber. The ten bits share one number, and so do the ten hexadecimal digits.
    subscriber {
        S_ID: Number(4), VLR_LOCATION: Number(4), MSC_LOCATION: Number(4), BIT_1_TO_10: Number(2),
        HEX_1_TO_10: Number(8), SUB_NBR: Text(15), BYTE2_1_TO_10: Text(10),
    }
}

table! {
    /// A subscriber's access permissions.
    access_info {
        S_ID: Number(4), AI_TYPE: Number(1), DATA1: Number(1), DATA2: Number(1), DATA3: Text(3), DATA4: Text(5),
    }
}

table! {
    /// A service that a subscriber has.
    special_facility {
        S_ID: Number(4), SF_TYPE: Number(1), IS_ACTIVE: Number(1), ERROR_CNTRL: Number(1), DATA_A: Number(1),
        DATA_B: Text(5),
    }
}

table! {
    /// A forwarding of calls, with its hours.
    call_forwarding {
        S_ID: Number(4), SF_TYPE: Number(1), START_TIME: Number(1), END_TIME: Number(1), NUMBERX: Text(15),
    }
}

/// The seed of the population.
const SEED: u64 = 0x7a79;
/// Elements of the directory: whether all rows are there, the number of subscribers, and the roots of the tables.
const POPULATED: u64 = 0;
const SUBSCRIBERS: u64 = 1;
const FIRST_ROOT: u64 = 2;
const TABLES: [&str; 5] = ["subscriber", "sub_nbr", "access_info", "special_facility", "call_forwarding"];

/// The register.
pub struct TatpUpdateLocationWorkload {
    subscribers: u64,
    /// The number of locations that a transaction updates.
    operations: u64,
}

struct Register {
    directory: Array<u64>,
    subscriber: Table<Hash>,
    /// Subscribers by SUB_NBR, with the same rows.
    by_number: Hash,
    access_info: Table<Hash>,
    special_facility: Table<Hash>,
    call_forwarding: Table<Hash>,
}

/// One thread that updates locations.
pub struct Client {
    register: Register,
    subscribers: u64,
    operations: u64,
    random: Rng,
    /// The addresses of the subscribers' rows, for the lock set.
    rows: Vec<PersistentAddress>,
    /// The next transaction: subscribers' numbers and locations.
    updates: Vec<(u64, u64)>,
    locks: Vec<Lock>,
}

/// Returns a subscriber's number: 15 digits (S_ID with leading zeros).
fn number_of(id: u64) -> Vec<u8> {
    format!("{id:015}").into_bytes()
}

/// Returns the key of a row that belongs to a subscriber: the subscriber, and a type.
fn key_of(id: u64, kind: u64) -> u64 {
    id << 8 | kind
}

fn capitals(random: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.uppercase() as u8).collect()
}

/// Draws one to four of the types 1 to 4; each number of types is equally likely (TATP, population rules).
fn some_types(random: &mut Rng) -> Vec<u64> {
    let mut types = vec![1, 2, 3, 4];
    random.shuffle(&mut types);
    types.truncate(random.usize(1..=4));
    types
}

impl Register {
    fn create<R: Runner>(runner: &mut R, root: PersistentAddress, subscribers: u64) -> Result<Self> {
        let directory = Array::create(runner, root, FIRST_ROOT + TABLES.len() as u64, |index| {
            if index == SUBSCRIBERS { subscribers } else { 0 }
        })?;
        for index in 0..TABLES.len() as u64 {
            let root = runner.view(|tx| directory.address(tx, FIRST_ROOT + index))?;
            // There is a bucket for each subscriber, also in the tables that have several rows for each.
            Hash::create(runner, root, subscribers, 1)?;
        }
        runner.view(|tx| Self::with_directory(tx, directory, subscribers, root))
    }

    fn open(tx: &mut impl Read, root: PersistentAddress, subscribers: u64) -> Result<Self, Abort> {
        let directory = Array::open(tx, root)?;
        let register = Self::with_directory(tx, directory, subscribers, root)?;
        if register.is_populated(tx)? {
            return Ok(register);
        }
        Err(tx.fail(Error::Incomplete { what: "TATP register", root: root.offset() }))
    }

    fn with_directory(
        tx: &mut impl Read,
        directory: Array<u64>,
        subscribers: u64,
        root: PersistentAddress,
    ) -> Result<Self, Abort> {
        if directory.get(tx, SUBSCRIBERS)? != subscribers {
            return Err(tx.fail(Error::WrongStructure { what: "TATP register", root: root.offset() }));
        }
        let mut next = FIRST_ROOT;
        let mut index = || -> Result<Hash, Abort> {
            let root = directory.address(tx, next)?;
            next += 1;
            HashTable::open(tx, root)
        };
        let [subscriber, _, access_info, special_facility, call_forwarding] = TABLES;
        Ok(Self {
            directory,
            subscriber: Table::new(index()?, subscriber),
            by_number: index()?,
            access_info: Table::new(index()?, access_info),
            special_facility: Table::new(index()?, special_facility),
            call_forwarding: Table::new(index()?, call_forwarding),
        })
    }

    fn is_populated(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        Ok(self.directory.get(tx, POPULATED)? == 1)
    }

    fn populate<R: Runner>(&self, runner: &mut R, subscribers: u64) -> Result<()> {
        let random = &mut Rng::with_seed(SEED);
        self.subscriber.fill(runner, None, (1..=subscribers).map(|id| (id, subscriber_row(random, id))))?;
        for id in 1..=subscribers {
            runner.run(|tx| {
                let row = self.subscriber.row(tx, id)?;
                self.by_number.insert(tx, id, &row)
            })?;
        }
        let (mut infos, mut facilities, mut forwardings) = (Vec::new(), Vec::new(), Vec::new());
        for id in 1..=subscribers {
            for kind in some_types(random) {
                infos.push((key_of(id, kind), access_info_row(random, id, kind)));
            }
            for kind in some_types(random) {
                facilities.push((key_of(id, kind), special_facility_row(random, id, kind)));
                let mut starts = [0, 8, 16];
                random.shuffle(&mut starts);
                for &start in &starts[..random.usize(..=3)] {
                    let key = key_of(id, kind) << 8 | start;
                    forwardings.push((key, call_forwarding_row(random, id, kind, start)));
                }
            }
        }
        self.access_info.fill(runner, None, infos.into_iter())?;
        self.special_facility.fill(runner, None, facilities.into_iter())?;
        self.call_forwarding.fill(runner, None, forwardings.into_iter())?;
        runner.run(|tx| self.directory.set(tx, POPULATED, 1))
    }
}

fn subscriber_row(random: &mut Rng, id: u64) -> [u64; subscriber::WORDS] {
    let mut row = [0; subscriber::WORDS];
    subscriber::S_ID.set_number(&mut row, id);
    subscriber::SUB_NBR.set_text(&mut row, &number_of(id));
    subscriber::BIT_1_TO_10.set_number(&mut row, random.u64(..1 << 10));
    subscriber::HEX_1_TO_10.set_number(&mut row, random.u64(..1 << 40));
    let bytes: Vec<u8> = (0..10).map(|_| random.u8(..)).collect();
    subscriber::BYTE2_1_TO_10.set_text(&mut row, &bytes);
    subscriber::MSC_LOCATION.set_number(&mut row, location(random));
    subscriber::VLR_LOCATION.set_number(&mut row, location(random));
    row
}

fn access_info_row(random: &mut Rng, id: u64, kind: u64) -> [u64; access_info::WORDS] {
    let mut row = [0; access_info::WORDS];
    access_info::S_ID.set_number(&mut row, id);
    access_info::AI_TYPE.set_number(&mut row, kind);
    access_info::DATA1.set_number(&mut row, random.u64(..256));
    access_info::DATA2.set_number(&mut row, random.u64(..256));
    access_info::DATA3.set_text(&mut row, &capitals(random, 3));
    access_info::DATA4.set_text(&mut row, &capitals(random, 5));
    row
}

fn special_facility_row(random: &mut Rng, id: u64, kind: u64) -> [u64; special_facility::WORDS] {
    let mut row = [0; special_facility::WORDS];
    special_facility::S_ID.set_number(&mut row, id);
    special_facility::SF_TYPE.set_number(&mut row, kind);
    special_facility::IS_ACTIVE.set_number(&mut row, u64::from(random.u64(..100) < 85));
    special_facility::ERROR_CNTRL.set_number(&mut row, random.u64(..256));
    special_facility::DATA_A.set_number(&mut row, random.u64(..256));
    special_facility::DATA_B.set_text(&mut row, &capitals(random, 5));
    row
}

fn call_forwarding_row(random: &mut Rng, id: u64, kind: u64, start: u64) -> [u64; call_forwarding::WORDS] {
    let mut row = [0; call_forwarding::WORDS];
    call_forwarding::S_ID.set_number(&mut row, id);
    call_forwarding::SF_TYPE.set_number(&mut row, kind);
    call_forwarding::START_TIME.set_number(&mut row, start);
    call_forwarding::END_TIME.set_number(&mut row, start + random.u64(1..=8));
    call_forwarding::NUMBERX.set_text(&mut row, &number_of(random.u64(1..1_000_000_000_000_000)));
    row
}

fn location(random: &mut Rng) -> u64 {
    random.u64(1..=u32::MAX.into())
}

/// Returns a random subscriber, some more often than others (TATP uses TPC-C's method, without its constant).
fn random_subscriber(random: &mut Rng, subscribers: u64) -> u64 {
    let a = match subscribers {
        ..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    };
    (random.u64(..=a) | random.u64(1..=subscribers)) % subscribers + 1
}

/// Refuses numbers of subscribers that do not fit their column.
fn check(subscribers: u64) -> Result<()> {
    match subscribers {
        1..=0xffff_ffff => Ok(()),
        other => Err(Error::Parameter(format!("TATP takes 1 to 4294967295 subscribers, not {other}"))),
    }
}

/// Returns whether a row belongs to the subscriber and has a location.
fn is_whole(id: u64, row: &[u64; subscriber::WORDS]) -> bool {
    subscriber::S_ID.number(row) == id
        && subscriber::SUB_NBR.text(row) == number_of(id)
        && subscriber::VLR_LOCATION.number(row) > 0
        && subscriber::MSC_LOCATION.number(row) > 0
}

impl TatpUpdateLocationWorkload {
    /// Creates the workload with these sizes.
    ///
    /// # Errors
    /// Returns an error if there are no subscribers, or more than fit their numbers.
    pub fn new(sizes: &Sizes) -> Result<Self> {
        check(sizes.subscribers)?;
        Ok(Self { subscribers: sizes.subscribers, operations: sizes.operations })
    }

    fn register<R: Runner>(&self, runner: &mut R) -> Result<Register> {
        let root = root(runner)?;
        runner.view(|tx| Register::open(tx, root, self.subscribers))
    }
}

impl Workload for TatpUpdateLocationWorkload {
    type Thread = Client;

    fn heap_bytes(&self) -> u64 {
        // There are five buckets; a subscriber in two indices; and at most 4 rows, 4 rows and 12 rows, each with a node.
        self.subscribers * (5 * 8 + 64 + 2 * 32 + (4 + 4 + 12) * (32 + 32)) * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let register = Register::create(runner, root, self.subscribers)?;
        if runner.view(|tx| register.is_populated(tx))? {
            return Ok(());
        }
        register.populate(runner, self.subscribers)
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Client> {
        let register = self.register(runner)?;
        let rows = register.subscriber.addresses(runner, 1..=self.subscribers)?;
        let Self { subscribers, operations } = *self;
        let random = Rng::with_seed(seed);
        Ok(Client { register, subscribers, operations, random, rows, updates: Vec::new(), locks: Vec::new() })
    }

    /// Checks that every row belongs to a subscriber, and that every subscriber is found by number and has a location.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let register = self.register(runner)?;
        let mut rows = Vec::new();
        let mut owners = Vec::new();
        runner.view(|tx| {
            rows.clear();
            owners.clear();
            let Register { subscriber, access_info, special_facility, call_forwarding, .. } = &register;
            for table in [subscriber, access_info, special_facility, call_forwarding] {
                table.check(tx)?;
            }
            subscriber.for_each(tx, |key, row: [u64; subscriber::WORDS]| rows.push((key, row)))?;
            access_info.for_each(tx, |key, row: [u64; access_info::WORDS]| {
                let ids = [access_info::S_ID, access_info::AI_TYPE].map(|id| id.number(&row));
                owners.push((key, key_of(ids[0], ids[1]), ids[0], "access_info"));
            })?;
            special_facility.for_each(tx, |key, row: [u64; special_facility::WORDS]| {
                let ids = [special_facility::S_ID, special_facility::SF_TYPE].map(|id| id.number(&row));
                owners.push((key, key_of(ids[0], ids[1]), ids[0], "special_facility"));
            })?;
            call_forwarding.for_each(tx, |key, row: [u64; call_forwarding::WORDS]| {
                let columns = [call_forwarding::S_ID, call_forwarding::SF_TYPE, call_forwarding::START_TIME];
                let [id, kind, start] = columns.map(|id| id.number(&row));
                owners.push((key, key_of(id, kind) << 8 | start, id, "call_forwarding"));
            })?;
            for &(id, _) in &rows {
                let (by_number, by_id) = (register.by_number.get(tx, id)?, subscriber.find(tx, id)?);
                if by_number != by_id {
                    return Err(tx.fail(subscriber.damaged(id, "a number that is another subscriber's")));
                }
            }
            Ok(())
        })?;
        if rows.len() as u64 != self.subscribers {
            return Err(Error::damaged(format!("{} subscribers of {}", rows.len(), self.subscribers)));
        }
        for (id, row) in rows {
            if !is_whole(id, &row) {
                return Err(register.subscriber.damaged(id, "a row that contradicts itself"));
            }
        }
        for (key, expected, id, table) in owners {
            if key != expected || !(1..=self.subscribers).contains(&id) {
                return Err(Error::damaged(format!("a row of {table} belongs to nobody: key {key:#x}")));
            }
        }
        Ok(())
    }
}

/// Stores the location of a subscriber's handset.
///
/// # Errors
/// Returns an error if there is no such subscriber, and the errors of [`Transaction::write`].
fn update_location(
    register: &Register,
    tx: &mut impl Transaction,
    number: u64,
    location: u64,
) -> Result<(), Abort> {
    let Some(at) = register.by_number.get(tx, number)? else {
        return Err(tx.fail(register.subscriber.damaged(number, "a subscriber is missing")));
    };
    let mut row = [0; subscriber::WORDS];
    subscriber::VLR_LOCATION.read(tx, at, &mut row)?;
    subscriber::VLR_LOCATION.set_number(&mut row, location);
    let words = subscriber::VLR_LOCATION.words();
    tx.write_range(at.word(words.start as u64), &row[words])
}

impl Transactions for Client {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { register, subscribers, operations, random, rows, updates, locks } = self;
        updates.clear();
        updates.extend((0..*operations).map(|_| (random_subscriber(random, *subscribers), location(random))));
        locks.clear();
        if runner.takes_locks() {
            locks.extend(updates.iter().map(|&(number, _)| {
                // The subscriber's number is their identity with leading zeros.
                Lock::word(rows[number as usize - 1].word(subscriber::VLR_LOCATION.words().start as u64))
            }));
        }
        runner.run_locked(locks, |tx| {
            updates.iter().try_for_each(|&(number, location)| update_location(register, tx, number, location))
        })
    }
}

#[cfg(test)]
mod tests {
    use strandline_core::file::{Options, Pool};
    use strandline_core::layout::Geometry;

    use super::*;

    #[test]
    fn a_location_is_updated_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            geometry: Geometry { size: 16 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 64 << 10 },
            domain: strandline_core::Domain::Process,
            ..Options::default()
        };
        let pool = Pool::create(folder.path().join("pool"), &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let workload = TatpUpdateLocationWorkload::new(&Sizes::small()).unwrap();
        workload.prepare(&mut worker).unwrap();
        workload.prepare(&mut worker).unwrap();
        workload.check(&mut worker).unwrap();
        let register = workload.register(&mut worker).unwrap();
        let row = |worker: &mut _, id| {
            let mut row = [0; subscriber::WORDS];
            Runner::view(worker, |tx: &mut strandline_core::engine::Tx<_>| {
                let at = register.subscriber.row(tx, id)?;
                tx.read_range(at, &mut row)
            })
            .unwrap();
            row
        };
        let [before, other]: [[u64; subscriber::WORDS]; 2] = [row(&mut worker, 17), row(&mut worker, 18)];
        worker.run(|tx| update_location(&register, tx, 17, 0xfeed_f00d)).unwrap();
        let after = row(&mut worker, 17);
        let mut expected = before;
        subscriber::VLR_LOCATION.set_number(&mut expected, 0xfeed_f00d);
        assert_eq!((after, row(&mut worker, 18)), (expected, other));
        workload.check(&mut worker).unwrap();
        assert!(worker.run(|tx| update_location(&register, tx, 0, 1)).is_err());

        // A row of another subscriber, and an invalid location.
        worker.run(|tx| update_location(&register, tx, 5, 0)).unwrap();
        assert!(workload.check(&mut worker).unwrap_err().to_string().contains("contradicts"));
        worker.run(|tx| update_location(&register, tx, 5, 1)).unwrap();
        let strange = special_facility_row(&mut Rng::with_seed(1), 1 << 20, 2);
        worker.run(|tx| register.special_facility.insert(tx, key_of(1 << 20, 2), &strange)).unwrap();
        assert!(workload.check(&mut worker).unwrap_err().to_string().contains("nobody"));
    }

    #[test]
    fn the_population_has_the_shares_of_the_rules() {
        let random = &mut Rng::with_seed(3);
        let counts: Vec<usize> = (0..40_000).map(|_| some_types(random).len()).collect();
        for count in 1..=4 {
            let share = counts.iter().filter(|&&c| c == count).count() as f64 / counts.len() as f64;
            assert!((0.24..0.26).contains(&share), "{share} have {count}");
        }
        assert!((0..10_000).all(|_| (1..=100).contains(&random_subscriber(random, 100))));
    }
}
