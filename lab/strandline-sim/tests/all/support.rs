//! Small machines for tests.

use strandline_sim::description::{
    CacheLevel, Controllers, CoreKind, Cores, Description, Device, Inclusion, LoadOverlap, Network,
    Persistence, Sharing,
};

/// Returns a private cache.
pub fn private(name: &str, bytes: u64, ways: usize, latency: u64) -> CacheLevel {
    CacheLevel {
        name: name.into(),
        bytes,
        ways,
        latency,
        sharing: Sharing::Private,
        inclusion: Inclusion::Inclusive,
        banks: 1,
        access_nj: None,
    }
}

/// Returns a shared cache.
pub fn shared(name: &str, bytes: u64, ways: usize, latency: u64, banks: usize) -> CacheLevel {
    CacheLevel { sharing: Sharing::Shared, banks, ..private(name, bytes, ways, latency) }
}

/// Returns a machine with in-order cores at 1 GHz, one cycle for each access and none in between, an L1 of 2 KB, and memory of 8 banks with 100 ns.
pub fn small(cores: usize) -> Description {
    Description {
        name: "small".into(),
        description: String::new(),
        source: String::new(),
        cores: Cores {
            count: cores,
            kind: CoreKind::InOrder,
            frequency_mhz: 1000,
            cycles_per_instruction: 1.0,
            instructions_per_access: Some(0.0),
            fetch_cycles: 0,
            reorder_buffer: 192,
            store_queue: 0,
            stores_in_flight: 1,
            mshrs: 16,
            write_combining_buffers: 10,
            fence_cycles: 0,
            pause_cycles: 10,
            load_overlap: LoadOverlap::Range,
        },
        caches: vec![private("L1", 2048, 2, 1)],
        network: Network::Fixed { latency: 0 },
        controllers: Controllers::default(),
        nvm: Device {
            banks: 8,
            read_ns: 100.0,
            write_ns: 300.0,
            row_buffer_bytes: 0,
            bank_bytes: 0,
            row_hit_ns: 0.0,
            activation_ns: 0.0,
            write_latency_ns: 0.0,
            interface_ns: 0.0,
            gigabytes_per_s: 0.0,
            energy: None,
        },
        dram: None,
        persistence: Persistence::default(),
        program: Default::default(),
        time_slices: None,
        scheme: Default::default(),
    }
}

/// Returns the machine of the LOC paper: one in-order core at 1 GHz, three levels.
pub fn three_levels() -> Description {
    let mut machine = small(1);
    machine.caches = vec![
        private("L1", 32 << 10, 2, 1),
        private("L2", 256 << 10, 8, 8),
        shared("LLC", 1 << 20, 16, 21, 1),
    ];
    machine.nvm.read_ns = 168.0;
    machine.nvm.write_ns = 168.0;
    machine.cores.instructions_per_access = Some(1.0);
    machine
}

/// Returns the machine of the ATOM paper: 32 out-of-order cores on a mesh.
pub fn mesh(cores: usize) -> Description {
    let mut machine = small(cores);
    machine.cores.kind = CoreKind::OutOfOrder;
    machine.cores.frequency_mhz = 2000;
    machine.cores.store_queue = 32;
    machine.cores.mshrs = 32;
    machine.cores.instructions_per_access = Some(1.0);
    machine.cores.cycles_per_instruction = 0.5;
    machine.caches =
        vec![private("L1", 32 << 10, 4, 3), shared("L2", cores as u64 * (1 << 20), 16, 30, cores)];
    machine.network = Network::Mesh { rows: 4.min(cores), flit_bytes: 16, hop_latency: 2 };
    machine.controllers = Controllers { count: 4, match_latency: 1, ..Controllers::default() };
    machine.nvm.read_ns = 120.0;
    machine.nvm.write_ns = 180.0;
    machine.nvm.gigabytes_per_s = 5.3;
    machine
}
