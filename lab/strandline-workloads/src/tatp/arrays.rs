//! `tatp-update-location-arrays`: Update Location on an array of subscribers, as in a C program written for the experiment (Deferred Commit, section
//! 7.1). The number of a subscriber is the number of the row.
//!
//! ```text
//! directory   an array: 0 populated · 1 subscribers · 2 the address of their rows
//! ```

use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::Array;

use super::{SEED, location, random_subscriber, subscriber, subscriber_row};
use crate::rows::Rows;
use crate::{Draws, Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// Update Location on an array.
pub static TATP_UPDATE_LOCATION_ARRAYS: WorkloadDescriptor = WorkloadDescriptor {
    name: "tatp-update-location-arrays",
    source: "TATP; Deferred Commit, 7.1",
    description: "stores where a subscriber's handset is: 100,000 subscribers in an array",
    takes: &[],
    make: |sizes| Ok(Box::new(TatpUpdateLocationArraysWorkload::new(sizes)?)),
    by_types: None,
    checked: None,
};

const POPULATED: u64 = 0;
const SUBSCRIBERS: u64 = 1;
const ROWS: u64 = 2;

/// The register.
pub struct TatpUpdateLocationArraysWorkload {
    subscribers: u64,
    draws: Draws,
}

/// One thread that updates locations.
pub struct Client {
    rows: Rows,
    subscribers: u64,
    draws: Draws,
    random: Rng,
}

impl TatpUpdateLocationArraysWorkload {
    /// Creates the workload with as many subscribers as `sizes` says.
    ///
    /// # Errors
    /// Returns an error if there are too many.
    pub fn new(sizes: &Sizes) -> Result<Self> {
        super::check(sizes.subscribers)?;
        Ok(Self { subscribers: sizes.subscribers, draws: sizes.subscriber_draws })
    }

    fn rows<R: Runner>(&self, runner: &mut R) -> Result<Rows> {
        let root = root(runner)?;
        runner.view(|tx| {
            let directory = Array::<u64>::open(tx, root)?;
            if directory.get(tx, SUBSCRIBERS)? != self.subscribers {
                return Err(tx.fail(Error::WrongStructure { what: "TATP register", root: root.offset() }));
            }
            if directory.get(tx, POPULATED)? != 1 {
                return Err(tx.fail(Error::Incomplete { what: "TATP register", root: root.offset() }));
            }
            Ok(Rows::new(PersistentAddress::new(directory.get(tx, ROWS)?), subscriber::WORDS))
        })
    }
}

impl Workload for TatpUpdateLocationArraysWorkload {
    type Thread = Client;

    fn heap_bytes(&self) -> u64 {
        8 * self.subscribers * subscriber::WORDS as u64 + (2 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let directory = Array::<u64>::create(runner, root, ROWS + 1, |index| {
            if index == SUBSCRIBERS { self.subscribers } else { 0 }
        })?;
        if runner.view(|tx| directory.get(tx, POPULATED))? == 1 {
            return Ok(());
        }
        let mut random = Rng::with_seed(SEED);
        let rows: Vec<_> = (1..=self.subscribers).map(|id| subscriber_row(&mut random, id)).collect();
        let home = runner.view(|tx| directory.address(tx, ROWS))?;
        Rows::create(runner, home, rows.into_iter())?;
        runner.run(|tx| directory.set(tx, POPULATED, 1))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Client> {
        let rows = self.rows(runner)?;
        let Self { subscribers, draws } = *self;
        Ok(Client { rows, subscribers, draws, random: Rng::with_seed(seed) })
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let rows = self.rows(runner)?;
        for id in 1..=self.subscribers {
            let mut row = [0; subscriber::WORDS];
            runner.view(|tx| tx.read_range(rows.at(id - 1), &mut row))?;
            if !super::is_whole(id, &row) {
                return Err(Error::damaged(format!("the row of subscriber {id} contradicts itself")));
            }
        }
        Ok(())
    }
}

impl Transactions for Client {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let id = match self.draws {
            Draws::Even => self.random.u64(1..=self.subscribers),
            Draws::Tatp => random_subscriber(&mut self.random, self.subscribers),
        };
        let location = location(&mut self.random);
        let words = subscriber::VLR_LOCATION.words();
        let at = self.rows.at(id - 1).word(words.start as u64);
        runner.run_locked(&[Lock::word(at)], |tx| {
            let mut row = [0; subscriber::WORDS];
            tx.read_range(at, &mut row[words.clone()])?;
            subscriber::VLR_LOCATION.set_number(&mut row, location);
            tx.write_range(at, &row[words.clone()])
        })
    }
}
