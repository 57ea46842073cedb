//! The description of a machine: its parts and their parameters, with the names that a TOML file uses.
//!
//! A description is plain data. [`Description::validate`] refuses an impossible machine, and names the key and the permitted values.
//! `docs/simulator.md` describes how each parameter is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod program;

pub use program::{
    BTree, Compiled, Contention, HomeCopies, LockScope, LogPointers, MnemosyneLog, ProgramChoices,
    SoftwareLog,
};

/// The size in bytes of a cache line, at every level.
pub const LINE_BYTES: u64 = strandline_core::memory::LINE_BYTES;

/// A simulated machine, as a machine file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The name on the command line.
    pub name: String,
    /// A description in one line.
    #[serde(default)]
    pub description: String,
    /// The source of its figures.
    #[serde(default)]
    pub source: String,
    /// The processor cores, which are all alike.
    pub cores: Cores,
    /// The cache levels, nearest to the core first; private ones come before shared ones.
    #[serde(rename = "cache")]
    pub caches: Vec<CacheLevel>,
    /// The connection of private caches, shared caches and controllers.
    #[serde(default)]
    pub network: Network,
    /// The memory controllers.
    #[serde(default)]
    pub controllers: Controllers,
    /// The memory that holds the pool.
    pub nvm: Device,
    /// The memory that holds volatile words; without it they are in the same memory as the pool.
    #[serde(default)]
    pub dram: Option<Device>,
    /// The data that survive, and the effect of the persistence instructions.
    #[serde(default)]
    pub persistence: Persistence,
    /// How threads share cores if there are more threads than cores; required for that.
    #[serde(default)]
    pub time_slices: Option<TimeSlices>,
    /// Choices that the papers leave open about the programs that they ran.
    #[serde(default)]
    pub program: ProgramChoices,
    /// Parameters of the machine's hardware scheme ([`Parameter`](crate::scheme::Parameter)). Those that are absent have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scheme: BTreeMap<String, u64>,
}

/// How an operating system shares the cores among ready threads: each in turn gets a core for a time slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeSlices {
    /// The length of a slice in nanoseconds.
    pub slice_ns: f64,
    /// The number of nanoseconds that a core takes to switch to another thread.
    pub switch_ns: f64,
}

impl Default for TimeSlices {
    /// Returns the values of Linux's scheduler of the time (CFS): 6 ms, increased by as much with each doubling of the cores (`sched_latency_ns`, 18
    /// ms on four), and shared by the two threads of a core. The time of a switch was measured with two processes that pass a byte back and forth on
    /// one core (docs/simulator.md).
    fn default() -> Self {
        Self { slice_ns: 9e6, switch_ns: 1800.0 }
    }
}

/// How a core executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// Accesses execute one after another. A store also blocks, unless there is a store queue.
    #[default]
    InOrder,
    /// Loads overlap as [`LoadOverlap`] specifies; stores retire through the store queue.
    OutOfOrder,
}

/// The loads of an out-of-order core that overlap. This is a rule because coroutines have no register dependences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOverlap {
    /// No load begins before the last one has ended: the lower bound of a sensitivity run.
    None,
    /// Single-word loads are serialised, as in pointer chasing; those of one range overlap.
    #[default]
    Range,
    /// All loads are independent, limited by reorder buffer and MSHRs: the upper bound.
    All,
}

/// The cores, which are all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// The number of cores, 1 to 64. Each runs one simulated hardware thread.
    pub count: usize,
    /// In order or out of order.
    #[serde(default)]
    pub kind: CoreKind,
    /// The clock frequency in MHz; all cycles in a description are cycles of this clock.
    pub frequency_mhz: u64,
    /// Cycles per instruction that is not a memory access.
    #[serde(default = "one")]
    pub cycles_per_instruction: f64,
    /// Instructions charged for each word or line operation, for the code between two operations. The default is the number counted in the program
    /// that runs ([`Instructions`](crate::Instructions); docs/simulator.md, "Calibration").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_access: Option<f64>,
    /// The number of cycles that each load and store waits to be fetched before its access begins (in order only); with 0 it is fetched ahead. For
    /// other instructions fetching is part of `cycles_per_instruction`. If the value is not 0, loads and stores of the program's own memory, which
    /// always hit, also take these cycles and the first level's latency.
    #[serde(default)]
    pub fetch_cycles: u64,
    /// The number of entries that the reorder buffer has (out of order only).
    #[serde(default = "default_rob")]
    pub reorder_buffer: usize,
    /// The number of entries that the store queue has; with 0 (in order only) stores block.
    #[serde(default)]
    pub store_queue: usize,
    /// The number of stores of the queue that may be in the caches at a time; they still complete in order.
    #[serde(default = "default_stores_in_flight")]
    pub stores_in_flight: usize,
    /// The number of misses of a core that may be outstanding at a time.
    #[serde(default = "default_mshrs")]
    pub mshrs: usize,
    /// The number of lines that can collect non-temporal stores at a time.
    #[serde(default = "default_write_combining_buffers")]
    pub write_combining_buffers: usize,
    /// The number of cycles that a fence or an atomic operation takes, besides those that it waits.
    #[serde(default)]
    pub fence_cycles: u64,
    /// The number of cycles that a spin loop's pause takes.
    #[serde(default = "default_pause")]
    pub pause_cycles: u64,
    /// The loads that overlap (out of order only).
    #[serde(default)]
    pub load_overlap: LoadOverlap,
}

/// The cores that use a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One for each core.
    Private,
    /// One for all cores.
    Shared,
}

/// True if a level contains everything that the levels above it contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// A line that leaves this level also leaves the levels above.
    #[default]
    Inclusive,
    /// Lines are filled into every level on their way up, and leave each level independently.
    NonInclusive,
}

/// A level of the cache hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// Its name in statistics.
    pub name: String,
    /// The size in bytes: of each cache if private, of all banks together if shared.
    pub bytes: u64,
    /// The lines of a set; 1 means direct-mapped.
    pub ways: usize,
    /// Cycles of a lookup, hit or miss. The lookups of a miss add up from level to level.
    pub latency: u64,
    /// True if each core has its own, or all share it.
    pub sharing: Sharing,
    /// True if it contains all lines of the levels above it.
    #[serde(default)]
    pub inclusion: Inclusion,
    /// The banks of a shared level, each a tile of a mesh; lines are interleaved among them.
    #[serde(default = "default_banks")]
    pub banks: usize,
    /// Nanojoules of a lookup, hit or miss ([`Energy`](crate::statistics::Energy)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_nj: Option<f64>,
}

/// The on-chip network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Network {
    /// Every message takes the same time.
    Fixed {
        /// Cycles of a message between private caches, shared level and controllers.
        latency: u64,
    },
    /// A two-dimensional mesh with dimension-order routing; cores and banks are spread over its tiles in order.
    Mesh {
        /// The number of rows of tiles; the columns follow from the number of cores and banks.
        rows: usize,
        /// Bytes that a link carries in a cycle.
        flit_bytes: u64,
        /// Cycles of a router and a link.
        hop_latency: u64,
    },
}

impl Default for Network {
    fn default() -> Self {
        Self::Fixed { latency: 0 }
    }
}

/// The places of controllers in a mesh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// At the four corners, in turn.
    #[default]
    Corners,
    /// Evenly over the first column.
    Edge,
}

/// How the pages of a program are placed in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// One after another.
    #[default]
    InOrder,
    /// In a fixed permutation, like the pages of an operating system that has run for a while.
    Scattered,
}

/// When a channel writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// Whenever a bank is idle. At the high watermark the oldest writes take their banks, while reads continue in others.
    #[default]
    IdleBanks,
    /// Only in drains, from the high watermark down to the low one, during which no read begins. The exceptions are writes that a core or a scheme
    /// waits for, which begin whenever their bank is idle.
    Drained,
}

/// The memory controllers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controllers {
    /// The number of controllers; lines are distributed among them in turn.
    pub count: usize,
    /// Their places in a mesh.
    pub placement: Placement,
    /// The number of channels that each controller has, each with its own queues, banks and bus.
    pub channels: usize,
    /// Consecutive bytes that belong to one channel; a power of two.
    pub interleave_bytes: u64,
    /// How the program's pages of 4 KB are placed before they are distributed among channels and banks. In order, data at distances of powers of two
    /// fall into the same bank.
    pub pages: Pages,
    /// The number of reads that a channel holds.
    pub read_queue: usize,
    /// The number of writes that a channel holds.
    pub write_queue: usize,
    /// The number of writes in the queue that make the channel switch to writing.
    pub high_watermark: usize,
    /// At how many writes it stops. Below that, `write_policy` determines when it writes.
    pub low_watermark: usize,
    /// When a channel writes.
    pub write_policy: WritePolicy,
    /// The number of cycles that it takes to compare a request's address with the queue's.
    pub match_latency: u64,
    /// The number of committed updates that a controller's back end (REDO) copies home at a time, 1 to 65536. The default is 32, as many as a
    /// controller's log manager follows in ATOM (section IV-D); the papers give no number for REDO.
    pub backend_window: usize,
    /// True if each controller's last channel carries only the hardware scheme's reserved lines.
    pub log_channel: bool,
}

impl Controllers {
    /// Returns the number, among all reserved lines, of line `index` of those behind `controller`. Reserved lines are interleaved among the
    /// controllers.
    pub fn reserved_line(&self, controller: usize, index: u64) -> u64 {
        let lines = self.interleave_bytes / LINE_BYTES;
        (index / lines * self.count as u64 + controller as u64) * lines + index % lines
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            count: 1,
            placement: Placement::Corners,
            channels: 1,
            interleave_bytes: 4096,
            pages: Pages::InOrder,
            read_queue: 64,
            write_queue: 64,
            high_watermark: 48,
            low_watermark: 16,
            write_policy: WritePolicy::default(),
            match_latency: 0,
            backend_window: 32,
            log_channel: false,
        }
    }
}

/// A memory device: the banks of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The number of banks that a channel has.
    #[serde(default = "default_device_banks")]
    pub banks: usize,
    /// The number of consecutive bytes of a channel that are in one bank: a power of two of at least 64, and not less than a row. 0 means
    /// the size of a row buffer. Without row buffers it means a line, so that consecutive lines are in consecutive banks.
    #[serde(default)]
    pub bank_bytes: u64,
    /// Nanoseconds that a bank takes to read a line that its row buffer does not hold.
    pub read_ns: f64,
    /// Nanoseconds that a bank takes to write a line.
    pub write_ns: f64,
    /// The size in bytes of a bank's row buffer; 0 if there is none.
    #[serde(default)]
    pub row_buffer_bytes: u64,
    /// Nanoseconds that it takes to read a line from the row buffer.
    #[serde(default)]
    pub row_hit_ns: f64,
    /// Nanoseconds that a bank takes to close its row and open another one before it writes a line there; for reads, `read_ns` includes this. With 0
    /// a write needs no open row.
    #[serde(default)]
    pub activation_ns: f64,
    /// Nanoseconds from a write's command until the bus carries its line.
    #[serde(default)]
    pub write_latency_ns: f64,
    /// Nanoseconds of a request's way to the device and back, during which neither a bank nor the bus is busy.
    #[serde(default)]
    pub interface_ns: f64,
    /// The number of gigabytes (10^9) per second that a channel carries; 0 means that the bus is not modelled.
    #[serde(default)]
    pub gigabytes_per_s: f64,
    /// The energy of its accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<DeviceEnergy>,
}

/// The energy of a memory device's accesses in nanojoules, all its chips together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEnergy {
    /// Opening a row: for each read that the row buffer cannot answer, and for each write to a row that is not open, if `activation_ns` is not 0.
    pub activation_nj: f64,
    /// Reading a line from the open row.
    pub read_nj: f64,
    /// Writing a line.
    pub write_nj: f64,
}

/// The data that survive a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PersistenceDomain {
    /// Only the contents of the memory devices.
    #[default]
    Media,
    /// Also the controllers' write queues (asynchronous DRAM refresh).
    Adr,
    /// Also the caches.
    FlushOnFail,
}

/// The instruction that a write-back uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackKind {
    /// Keeps the line.
    #[default]
    Clwb,
    /// Evicts the line.
    Clflushopt,
    /// Evicts the line; these instructions execute one after another.
    Clflush,
}

/// The event that a persistence fence waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceKind {
    /// For this thread's write-backs to be in the persistence domain (sfence). If that is the media, the fence waits for the media's acknowledgement
    /// of these lines.
    #[default]
    Own,
    /// For every write that any controller has accepted to be in the memory (sfence, pcommit, sfence).
    Pcommit,
}

/// When a write-back leaves the store queue; on a core without one, when the core continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackCompletes {
    /// A cycle after the write-back has been sent.
    Issued,
    /// When the core knows that the memory has accepted the line.
    Accepted,
    /// When the line is in the persistence domain. Write-backs complete one at a time, and later entries wait.
    Durable,
}

/// When a window of transactions that Loose-Ordering's hardware logs is complete. The next window waits for that. Systems with a non-volatile last
/// level (Kiln) have no in-place phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowCompletes {
    /// When it is durable in the log: after that, "home-location writes can be performed using the original dirty flag as in a conventional CPU
    /// cache" (section 4.2). Only H-WAL writes home immediately.
    #[default]
    Logged,
    /// When its blocks are durable at home, where its commit writes them: a transaction is in "the log writing phase, in-place writing phase updating
    /// home locations or could have completed the entire write-back" (section 4.2, Fig. 6(d)).
    Home,
}

/// The data that survive a power failure, and the effect of persistence instructions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Persistence {
    /// How far a store must have propagated to survive a power failure.
    pub domain: PersistenceDomain,
    /// How a line is written back.
    pub write_back: WriteBackKind,
    /// The event that a fence waits for.
    pub fence: FenceKind,
    /// When a write-back leaves the store queue. By default `issued` for clwb and clflushopt, which only fences order, and `accepted` for clflush,
    /// which is ordered by itself (Intel SDM, volume 2). ATOM, section VI-B, suggests more than `issued`: "the number of cache lines to be written
    /// back at the end of an atomic update increases. This places additional pressure on the SQ occupancy". Loose-Ordering Consistency, section 5.2,
    /// suggests `durable` under S-WAL: "H-WAL does not change the ordering behavior of S-WAL", and its commit logic waits for blocks to be durable.
    pub write_back_completes: Option<WriteBackCompletes>,
    /// The number of write-backs of blocks to the log that a hardware scheme's commit logic (Loose-Ordering Consistency) has in flight: another one
    /// leaves when the first of them is in the persistence domain. Blocks go home like evicted ones. 1 to 1024; the default is [`Cores::mshrs`],
    /// since the commit logic is next to a core's caches.
    pub commit_write_backs: Option<usize>,
    /// The number of write-backs of blocks home that this commit logic has in flight, each through the levels' latencies. 1 to 1024; by default
    /// blocks go home like evicted ones, all at once. Loose-Ordering Consistency, section 1: strict order requires "waiting for the completion of all
    /// memory writes within the transaction before a single write for the next transaction can be performed".
    pub home_write_backs: Option<usize>,
    /// When a window of Loose-Ordering's transactions is complete. Section 4.2 there: "CRL stalls new transactions until the current
    /// speculation window completes".
    pub window_completes: WindowCompletes,
    /// The least number of nanoseconds for which a write-back instruction occupies the core, whatever happens to its line; such instructions follow
    /// one another. With 0 the core continues when the instruction is in the store queue.
    pub flush_cost_ns: f64,
    /// Nanoseconds that the program busy-waits after each flush, as emulations of slow memory on DRAM do: after each write-back instruction, once
    /// after a write-back of the whole cache, and at the fence for each line that was stored past the cache.
    pub flush_delay_ns: f64,
}

impl Persistence {
    /// Returns [`Persistence::write_back_completes`], or its default.
    pub fn completes(&self) -> WriteBackCompletes {
        self.write_back_completes.unwrap_or(match self.write_back {
            WriteBackKind::Clflush => WriteBackCompletes::Accepted,
            WriteBackKind::Clwb | WriteBackKind::Clflushopt => WriteBackCompletes::Issued,
        })
    }
}

fn one() -> f64 {
    1.0
}
fn default_rob() -> usize {
    192
}
fn default_stores_in_flight() -> usize {
    1
}
fn default_mshrs() -> usize {
    16
}
fn default_write_combining_buffers() -> usize {
    10
}
fn default_pause() -> u64 {
    10
}
fn default_banks() -> usize {
    1
}
fn default_device_banks() -> usize {
    8
}

/// The reason why a machine is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {allowed}")]
pub struct Impossible {
    /// The key in the file.
    pub key: String,
    /// The value that was given.
    pub value: String,
    /// The permitted values.
    pub allowed: String,
}

/// Refuses `value` of `key` unless `holds`.
fn demand(holds: bool, key: &str, value: impl ToString, allowed: &str) -> Result<(), Impossible> {
    if holds {
        return Ok(());
    }
    Err(Impossible { key: key.into(), value: value.to_string(), allowed: allowed.into() })
}

fn demand_range(value: usize, from: usize, to: usize, key: &str) -> Result<(), Impossible> {
    demand((from..=to).contains(&value), key, value, &format!("must be {from} to {to}"))
}

fn demand_time(value: f64, from: f64, to: f64, key: &str) -> Result<(), Impossible> {
    demand(value >= from && value <= to, key, value, &format!("must be {from} to {to}"))
}

fn demand_energy(value: f64, key: &str) -> Result<(), Impossible> {
    demand((0.0..=1e9).contains(&value), key, value, "must be 0 to 1000000000 nanojoules")
}

impl Description {
    /// Checks that the machine is possible.
    ///
    /// # Errors
    /// Returns the first key whose value is impossible, and the permitted values.
    pub fn validate(&self) -> Result<(), Impossible> {
        self.cores.validate()?;
        demand(!self.caches.is_empty(), "cache", "[]", "a machine has at least one cache level")?;
        demand(self.caches.len() <= 8, "cache", self.caches.len(), "a machine has at most 8 levels")?;
        let mut shared = false;
        for (index, level) in self.caches.iter().enumerate() {
            level.validate(&format!("cache[{index}]"))?;
            let private = level.sharing == Sharing::Private;
            demand(
                !(private && shared),
                &format!("cache[{index}].sharing"),
                "private",
                "a level below a shared one must be shared",
            )?;
            shared |= !private;
        }
        demand(
            self.caches[0].sharing == Sharing::Private,
            "cache[0].sharing",
            "shared",
            "the first level must be private",
        )?;
        self.network.validate()?;
        self.controllers.validate()?;
        self.nvm.validate("nvm")?;
        demand_range(self.commit_write_backs(), 1, 1024, "persistence.commit_write_backs")?;
        demand_range(
            self.persistence.home_write_backs.unwrap_or(1),
            1,
            1024,
            "persistence.home_write_backs",
        )?;
        demand(
            [1, 2, 4, 8].contains(&self.program.store_bytes),
            "program.store_bytes",
            self.program.store_bytes,
            "must be 1, 2, 4 or 8",
        )?;
        demand_range(self.program.swap_blocks as usize, 1, 4096, "program.swap_blocks")?;
        if let Some(slices) = &self.time_slices {
            demand_time(slices.slice_ns, 1.0, 1e12, "time_slices.slice_ns")?;
            demand_time(slices.switch_ns, 0.0, 1e9, "time_slices.switch_ns")?;
        }
        demand_time(self.persistence.flush_cost_ns, 0.0, 1e7, "persistence.flush_cost_ns")?;
        demand_time(self.persistence.flush_delay_ns, 0.0, 1e7, "persistence.flush_delay_ns")?;
        self.dram.as_ref().map_or(Ok(()), |dram| dram.validate("dram"))
    }

    /// Returns the cycles in `nanoseconds`, rounded to the nearest.
    pub fn cycles(&self, nanoseconds: f64) -> u64 {
        (nanoseconds * self.cores.frequency_mhz as f64 / 1000.0).round() as u64
    }

    /// Returns the seconds in `cycles`.
    pub fn seconds(&self, cycles: u64) -> f64 {
        cycles as f64 / (self.cores.frequency_mhz as f64 * 1e6)
    }

    /// Returns [`Persistence::commit_write_backs`], or its default.
    pub fn commit_write_backs(&self) -> usize {
        self.persistence.commit_write_backs.unwrap_or(self.cores.mshrs)
    }

    /// Returns how many levels each core has for itself.
    pub fn private_levels(&self) -> usize {
        self.caches.iter().take_while(|level| level.sharing == Sharing::Private).count()
    }
}

impl Cores {
    fn validate(&self) -> Result<(), Impossible> {
        demand_range(self.count, 1, 64, "cores.count")?;
        demand_range(self.frequency_mhz as usize, 1, 100_000, "cores.frequency_mhz")?;
        demand_time(self.cycles_per_instruction, 0.0, 1000.0, "cores.cycles_per_instruction")?;
        let instructions = self.instructions_per_access.unwrap_or_default();
        demand_time(instructions, 0.0, 1e6, "cores.instructions_per_access")?;
        demand_range(self.reorder_buffer, 1, 65536, "cores.reorder_buffer")?;
        demand_range(self.mshrs, 1, 1024, "cores.mshrs")?;
        demand_range(self.write_combining_buffers, 1, 64, "cores.write_combining_buffers")?;
        demand_range(self.store_queue, 0, 1024, "cores.store_queue")?;
        demand(
            self.kind == CoreKind::InOrder || self.store_queue > 0,
            "cores.store_queue",
            0,
            "an out-of-order core needs at least one entry",
        )?;
        demand_range(self.stores_in_flight, 1, 1024, "cores.stores_in_flight")?;
        demand_range(self.pause_cycles as usize, 1, 1_000_000, "cores.pause_cycles")?;
        demand_range(self.fence_cycles as usize, 0, 1_000_000, "cores.fence_cycles")
    }
}

impl CacheLevel {
    fn validate(&self, key: &str) -> Result<(), Impossible> {
        demand_range(self.ways, 1, 64, &format!("{key}.ways"))?;
        demand_range(self.banks, 1, 1024, &format!("{key}.banks"))?;
        demand(
            self.sharing == Sharing::Shared || self.banks == 1,
            &format!("{key}.banks"),
            self.banks,
            "a private level has one bank",
        )?;
        demand_range(self.latency as usize, 0, 100_000, &format!("{key}.latency"))?;
        demand_energy(self.access_nj.unwrap_or_default(), &format!("{key}.access_nj"))?;
        let way = LINE_BYTES * self.ways as u64 * self.banks as u64;
        let sets = self.bytes / way;
        demand(
            self.bytes.is_multiple_of(way) && sets.is_power_of_two() && self.bytes <= 1 << 34,
            &format!("{key}.bytes"),
            self.bytes,
            &format!("must be {way} (64-byte lines × ways × banks) times a power of two, 16 GB at most"),
        )
    }
}

impl Network {
    fn validate(&self) -> Result<(), Impossible> {
        match *self {
            Self::Fixed { latency } => demand_range(latency as usize, 0, 100_000, "network.latency"),
            Self::Mesh { rows, flit_bytes, hop_latency } => {
                demand_range(rows, 1, 64, "network.rows")?;
                demand_range(flit_bytes as usize, 1, 64, "network.flit_bytes")?;
                demand_range(hop_latency as usize, 0, 1000, "network.hop_latency")
            }
        }
    }
}

impl Controllers {
    fn validate(&self) -> Result<(), Impossible> {
        demand_range(self.count, 1, 64, "controllers.count")?;
        demand_range(self.channels, 1, 16, "controllers.channels")?;
        demand(
            !self.log_channel || self.channels > 1,
            "controllers.log_channel",
            self.log_channel,
            "needs controllers.channels of at least 2",
        )?;
        demand(
            self.interleave_bytes.is_power_of_two() && self.interleave_bytes >= LINE_BYTES,
            "controllers.interleave_bytes",
            self.interleave_bytes,
            "must be a power of two of at least 64",
        )?;
        demand_range(self.read_queue, 1, 4096, "controllers.read_queue")?;
        demand_range(self.write_queue, 1, 4096, "controllers.write_queue")?;
        demand_range(self.high_watermark, 1, self.write_queue, "controllers.high_watermark")?;
        demand_range(self.low_watermark, 0, self.high_watermark - 1, "controllers.low_watermark")?;
        demand_range(self.match_latency as usize, 0, 10_000, "controllers.match_latency")?;
        demand_range(self.backend_window, 1, 65536, "controllers.backend_window")
    }
}

impl Device {
    fn validate(&self, key: &str) -> Result<(), Impossible> {
        demand_range(self.banks, 1, 1024, &format!("{key}.banks"))?;
        demand_time(self.read_ns, 0.0, 1e7, &format!("{key}.read_ns"))?;
        demand_time(self.write_ns, 0.0, 1e7, &format!("{key}.write_ns"))?;
        demand_time(self.row_hit_ns, 0.0, 1e7, &format!("{key}.row_hit_ns"))?;
        demand_time(self.activation_ns, 0.0, 1e7, &format!("{key}.activation_ns"))?;
        demand_time(self.write_latency_ns, 0.0, 1e7, &format!("{key}.write_latency_ns"))?;
        demand_time(self.interface_ns, 0.0, 1e7, &format!("{key}.interface_ns"))?;
        demand_time(self.gigabytes_per_s, 0.0, 1e6, &format!("{key}.gigabytes_per_s"))?;
        if let Some(energy) = &self.energy {
            demand_energy(energy.activation_nj, &format!("{key}.energy.activation_nj"))?;
            demand_energy(energy.read_nj, &format!("{key}.energy.read_nj"))?;
            demand_energy(energy.write_nj, &format!("{key}.energy.write_nj"))?;
        }
        demand(
            self.bank_bytes == 0
                || self.bank_bytes.is_power_of_two()
                    && self.bank_bytes >= self.row_buffer_bytes.max(LINE_BYTES),
            &format!("{key}.bank_bytes"),
            self.bank_bytes,
            "must be 0 (a row) or a power of two of at least 64 and no less than row_buffer_bytes",
        )?;
        demand(
            self.row_buffer_bytes == 0
                || self.row_buffer_bytes.is_power_of_two() && self.row_buffer_bytes >= LINE_BYTES,
            &format!("{key}.row_buffer_bytes"),
            self.row_buffer_bytes,
            "must be 0 (none) or a power of two of at least 64",
        )
    }
}
