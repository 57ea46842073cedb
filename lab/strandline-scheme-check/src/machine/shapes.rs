//! The machines on which histories run. Their caches are small, so that lines are evicted often. They cover every kind of core, hierarchy and
//! persistence domain.

use fastrand::Rng;
use strandline_sim::Description;
use strandline_sim::description::{
    CacheLevel, Controllers, CoreKind, Cores, Device, Inclusion, LoadOverlap, Network, Persistence,
    PersistenceDomain, Sharing, WriteBackCompletes, WriteBackKind,
};

fn level(name: &str, bytes: u64, ways: usize, latency: u64, sharing: Sharing, banks: usize) -> CacheLevel {
    CacheLevel {
        name: name.into(),
        bytes,
        ways,
        latency,
        sharing,
        inclusion: Inclusion::Inclusive,
        banks,
        access_nj: None,
    }
}

/// The levels and cores of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// In-order cores, two private levels and a shared one.
    ThreeLevels,
    /// Out-of-order cores on a mesh, a private level and a banked shared one.
    Mesh,
    /// In-order cores with one direct-mapped level.
    OneLevel,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::ThreeLevels, Self::Mesh, Self::OneLevel];
}

/// A device without row buffers, whose writes take three times as long as its reads.
const NVM: Device = Device {
    banks: 4,
    read_ns: 60.0,
    write_ns: 180.0,
    row_buffer_bytes: 0,
    bank_bytes: 0,
    row_hit_ns: 0.0,
    activation_ns: 0.0,
    write_latency_ns: 0.0,
    interface_ns: 0.0,
    gigabytes_per_s: 0.0,
    energy: None,
};

/// Returns the caches of this shape for `cores` cores, `scale` times their smallest size.
fn caches(shape: Shape, cores: usize, scale: u64) -> Vec<CacheLevel> {
    match shape {
        Shape::ThreeLevels => vec![
            level("L1", 512 * scale, 2, 1, Sharing::Private, 1),
            level("L2", 1024 * scale, 4, 8, Sharing::Private, 1),
            level("LLC", 4096 * scale, 8, 21, Sharing::Shared, 1),
        ],
        Shape::Mesh => {
            let banks = cores.next_power_of_two();
            vec![
                level("L1", 512 * scale, 2, 3, Sharing::Private, 1),
                level("L2", 2048 * scale * banks as u64, 8, 30, Sharing::Shared, banks),
            ]
        }
        Shape::OneLevel => vec![level("L1", 1024 * scale, 1, 1, Sharing::Private, 1)],
    }
}

/// Returns `count` cores of this shape.
fn cores_of(shape: Shape, count: usize) -> Cores {
    let out_of_order = shape == Shape::Mesh;
    Cores {
        count,
        kind: if out_of_order { CoreKind::OutOfOrder } else { CoreKind::InOrder },
        frequency_mhz: 1000,
        cycles_per_instruction: 1.0,
        instructions_per_access: Some(1.0),
        fetch_cycles: 0,
        reorder_buffer: 32,
        store_queue: if out_of_order { 8 } else { 0 },
        stores_in_flight: 1,
        mshrs: 8,
        write_combining_buffers: 4,
        fence_cycles: 2,
        pause_cycles: 10,
        load_overlap: LoadOverlap::Range,
    }
}

/// Returns a machine of this shape with `cores` cores; caches have `scale` times their smallest size.
pub(super) fn machine(shape: Shape, domain: PersistenceDomain, cores: usize, scale: u64) -> Description {
    Description {
        name: format!("{shape:?}, {domain:?}, caches times {scale}"),
        description: String::new(),
        source: String::new(),
        cores: cores_of(shape, cores),
        caches: caches(shape, cores, scale),
        network: match shape {
            Shape::Mesh => Network::Mesh { rows: 2, flit_bytes: 16, hop_latency: 2 },
            _ => Network::Fixed { latency: 2 },
        },
        controllers: Controllers {
            count: if shape == Shape::Mesh { 2 } else { 1 },
            match_latency: 1,
            ..Controllers::default()
        },
        nvm: NVM,
        dram: None,
        persistence: Persistence { domain, ..Persistence::default() },
        program: Default::default(),
        time_slices: None,
        scheme: Default::default(),
    }
}

/// Draws a random machine with `cores` cores.
pub(super) fn random(cores: usize, domains: &[PersistenceDomain], random: &mut Rng) -> Description {
    let shape = Shape::ALL[random.usize(..3)];
    let domain = domains[random.usize(..domains.len())];
    let mut machine = machine(shape, domain, cores, 1 << random.u32(..4));
    machine.nvm.read_ns = [10.0, 60.0, 200.0][random.usize(..3)];
    machine.nvm.write_ns = [20.0, 180.0, 900.0][random.usize(..3)];
    machine.nvm.banks = [1, 4, 16][random.usize(..3)];
    // If rows have several lines, adjacent lines share a bank, and writes to other banks overtake them.
    machine.nvm.row_buffer_bytes = [0, 0, 512][random.usize(..3)];
    machine.nvm.row_hit_ns = machine.nvm.read_ns;
    machine.cores.instructions_per_access = Some(f64::from(random.u8(..8)));
    machine.persistence.write_back =
        [WriteBackKind::Clwb, WriteBackKind::Clflushopt, WriteBackKind::Clflush][random.usize(..3)];
    // A second channel for a hardware scheme's log, as in ATOM's -2C designs.
    if machine.controllers.count > 1 && random.u8(..4) == 0 {
        machine.controllers.channels = 2;
        machine.controllers.log_channel = true;
    }
    if machine.cores.store_queue > 0 {
        machine.cores.stores_in_flight = random.usize(1..4);
    }
    // Uses a copy, so that the draws that follow stay the same.
    let mut random = random.clone();
    machine.persistence.commit_write_backs = [None, None, Some(1), Some(2)][random.usize(..4)];
    machine.controllers.backend_window = [1, 2, 32][random.usize(..3)];
    machine.persistence.write_back_completes = [
        None,
        Some(WriteBackCompletes::Issued),
        Some(WriteBackCompletes::Accepted),
        Some(WriteBackCompletes::Durable),
    ][random.usize(..4)];
    machine
}
