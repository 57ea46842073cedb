//! Compares energy with counts derived by reasoning.

use std::rc::Rc;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{Description, DeviceEnergy};
use strandline_sim::statistics::{Energy, EnergyPart};
use strandline_sim::{Contents, Machine};

use super::support;

const NVM: DeviceEnergy = DeviceEnergy { activation_nj: 10.0, read_nj: 1.0, write_nj: 100.0 };
const DRAM: DeviceEnergy = DeviceEnergy { activation_nj: 20.0, read_nj: 2.0, write_nj: 3.0 };

/// Loads a line twice and another one once, stores to a third, loads a fourth, writes the third back, and loads a volatile word.
fn program(memory: &Hosted) {
    let line = |number: u64| PersistentAddress::new(64 * number);
    memory.load(line(0));
    memory.load(line(0));
    memory.load(line(1));
    memory.store(line(2), 1);
    memory.load(line(3));
    memory.write_back(line(2), Step::HomeWriteBack);
    memory.fence(Step::HomeFence);
    memory.load(VolatileAddress::new(64));
}

fn energy(change: impl Fn(&mut Description)) -> Option<Energy> {
    let mut description = support::small(1);
    description.dram = Some(description.nvm.clone());
    change(&mut description);
    let contents =
        Contents { persistent: vec![0; 8 * 64], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(&description, contents, None, None).unwrap());
    machine.run(vec![Box::new(program) as Thread<'_>]);
    machine.statistics().energy
}

fn part(name: &str, nj: f64) -> EnergyPart {
    EnergyPart { name: name.into(), nj }
}

#[test]
fn accesses_are_counted_by_kind() {
    let all = |machine: &mut Description| {
        machine.caches[0].access_nj = Some(0.5);
        machine.nvm.energy = Some(NVM);
        machine.dram.as_mut().unwrap().energy = Some(DRAM);
    };
    // There are six lookups; four reads of NVM, each of which opens a row, and a write; and a read of DRAM.
    let parts = [part("L1", 6.0 * 0.5), part("nvm", 4.0 * 11.0 + 100.0), part("dram", 22.0)];
    assert_eq!(energy(all), Some(Energy { parts: parts.to_vec(), total_nj: Some(169.0) }));
    // With rows of four lines, three of the four reads find their row open.
    let rows = energy(|machine| {
        all(machine);
        machine.nvm.row_buffer_bytes = 256;
    });
    assert_eq!(rows.unwrap().parts[1], part("nvm", 10.0 + 4.0 + 100.0));
    // With rows of one line, the write opens its own row if it needs one.
    let rows = |activation_ns: f64| {
        energy(|machine| {
            all(machine);
            (machine.nvm.banks, machine.nvm.row_buffer_bytes) = (1, 64);
            machine.nvm.activation_ns = activation_ns;
        })
    };
    assert_eq!(rows(0.0).unwrap().parts[1], part("nvm", 4.0 * 11.0 + 100.0));
    assert_eq!(rows(50.0).unwrap().parts[1], part("nvm", 5.0 * 10.0 + 4.0 + 100.0));
}

#[test]
fn what_has_no_figures_has_no_energy() {
    assert_eq!(energy(|_| ()), None);
    let some = energy(|machine| machine.nvm.energy = Some(NVM)).unwrap();
    assert_eq!(some, Energy { parts: vec![part("nvm", 144.0)], total_nj: None });
}

/// The machine of NVMain's file has all figures; a machine that inherits only the processor has none for its memory.
#[test]
fn machines_say_where_they_have_figures() {
    let load = |name| strandline_sim::file::load(name, &[""; 0]).unwrap();
    let pcm = load("pcm");
    assert_eq!(pcm.nvm.energy.unwrap().write_nj, 1.684_811);
    assert!(pcm.dram.unwrap().energy.is_some() && pcm.caches.iter().all(|level| level.access_nj.is_some()));
    assert!(load("gem5-nvm").nvm.energy.is_none());
    assert!(load("loc").nvm.energy.is_none());
    let refused = strandline_sim::file::load("pcm", &["nvm.energy.write_nj=-1"]).unwrap_err().to_string();
    assert!(refused.contains("nvm.energy.write_nj = -1"), "{refused}");
}
