//! The counts of a run: for each core, cache level, controller channel and bank; traffic and stalls by cause.
//!
//! All counts cover the region of interest: they are set to zero when it begins.

use serde::Serialize;

/// Why a line was written to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A cache evicted the line to make room.
    Eviction,
    /// Software wrote it back: clwb, clflushopt, clflush.
    ForcedWriteBack,
    /// The whole cache was written back (wbinvd).
    WriteBackAll,
    /// A non-temporal store.
    NonTemporal,
    /// Another core read a modified line, and no shared level could hold it.
    Downgrade,
    /// A hardware scheme's engine.
    Scheme,
}

impl Origin {
    /// All origins, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Eviction,
        Self::ForcedWriteBack,
        Self::WriteBackAll,
        Self::NonTemporal,
        Self::Downgrade,
        Self::Scheme,
    ];
}

/// The part of memory to which a line belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// The pool's data: in place.
    Data,
    /// The logs of software schemes in the pool.
    Log,
    /// The pool's header, watermark and directory.
    Metadata,
    /// Words that a crash loses: locks, clocks.
    Volatile,
}

impl Region {
    /// All regions, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Data, Self::Log, Self::Metadata, Self::Volatile];
}

/// Counts of lines by region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByRegion {
    /// Lines of data at home.
    pub data: u64,
    /// Lines of the software's logs.
    pub log: u64,
    /// Lines of the pool's header, watermark and log directory.
    pub metadata: u64,
    /// Lines of words that a crash loses.
    pub volatile: u64,
}

impl ByRegion {
    /// Returns the count of a region.
    pub fn of(&mut self, region: Region) -> &mut u64 {
        match region {
            Region::Data => &mut self.data,
            Region::Log => &mut self.log,
            Region::Metadata => &mut self.metadata,
            Region::Volatile => &mut self.volatile,
        }
    }

    /// Returns the lines of all regions.
    pub fn total(&self) -> u64 {
        self.data + self.log + self.metadata + self.volatile
    }
}

/// Lines between the caches and memory, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Reads by caches.
    pub reads: ByRegion,
    /// Writes: evictions.
    pub eviction: ByRegion,
    /// Writes: clwb, clflushopt, clflush.
    pub forced_write_back: ByRegion,
    /// Writes: wbinvd.
    pub write_back_all: ByRegion,
    /// Writes: non-temporal stores.
    pub non_temporal: ByRegion,
    /// Writes: modified lines that another core read.
    pub downgrade: ByRegion,
    /// Writes of a hardware scheme's engine.
    pub scheme: ByRegion,
}

impl Traffic {
    /// Counts a line written to memory.
    pub fn count_write(&mut self, origin: Origin, region: Region) {
        let by_region = match origin {
            Origin::Eviction => &mut self.eviction,
            Origin::ForcedWriteBack => &mut self.forced_write_back,
            Origin::WriteBackAll => &mut self.write_back_all,
            Origin::NonTemporal => &mut self.non_temporal,
            Origin::Downgrade => &mut self.downgrade,
            Origin::Scheme => &mut self.scheme,
        };
        *by_region.of(region) += 1;
    }

    /// Returns the lines written, whatever the cause.
    pub fn writes(&self) -> u64 {
        self.eviction.total()
            + self.forced_write_back.total()
            + self.write_back_all.total()
            + self.non_temporal.total()
            + self.downgrade.total()
            + self.scheme.total()
    }
}

/// Cycles in which a core did not continue, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// A load waited beyond its first-level lookup.
    pub load: u64,
    /// A store blocked (no store queue) beyond its first-level lookup.
    pub store: u64,
    /// The store queue was full.
    pub store_queue_full: u64,
    /// The reorder buffer was full.
    pub reorder_buffer_full: u64,
    /// An atomic operation, or a write-back of the whole cache, waited for the store queue.
    pub atomic_drain: u64,
    /// A fence waited for the store queue.
    pub fence_drain: u64,
    /// A fence waited for the persistence domain.
    pub fence_persist: u64,
    /// The whole cache was being written back.
    pub write_back_all: u64,
    /// A flush occupied the core, or the program waited for the flush's delay.
    pub flush: u64,
    /// A spin loop's pauses.
    pub pause: u64,
    /// A hardware scheme made the core wait.
    pub scheme: u64,
}

/// The counts of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoreStatistics {
    /// Cycles from the beginning of the region of interest to the end of this core's thread.
    pub cycles: u64,
    /// Instructions for which time was charged.
    pub instructions: u64,
    /// Accesses, fences included; a range is counted once.
    pub operations: u64,
    /// Loads of the program's own memory, as far as the program's were counted ([`Instructions`](crate::Instructions)).
    pub private_loads: u64,
    /// Stores to the program's own memory, as far as they were counted.
    pub private_stores: u64,
    /// Loads, a range counted word by word.
    pub loads: u64,
    /// Stores to the cache, a range counted word by word.
    pub stores: u64,
    /// Atomic read-modify-writes.
    pub atomics: u64,
    /// Loads served by the store queue.
    pub forwarded: u64,
    /// Words stored past the cache.
    pub non_temporal: u64,
    /// Write-backs of lines that the core requested.
    pub write_backs: u64,
    /// Fences that waited for persistence.
    pub fences: u64,
    /// Misses that found all MSHRs taken.
    pub mshr_full: u64,
    /// Accesses that joined an outstanding miss.
    pub mshr_merges: u64,
    /// The stall cycles.
    pub stalls: Stalls,
    /// The store queue's mean occupancy, sampled at each store.
    pub store_queue_occupancy: Mean,
}

/// A mean of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mean {
    /// The sum of all samples.
    pub sum: u64,
    /// The number of samples.
    pub samples: u64,
    /// The largest sample.
    pub largest: u64,
}

impl Mean {
    /// Adds a sample.
    pub fn add(&mut self, sample: u64) {
        self.sum += sample;
        self.samples += 1;
        self.largest = self.largest.max(sample);
    }

    /// Returns the mean; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.sum as f64 / self.samples as f64 }
    }
}

/// The counts of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStatistics {
    /// Lookups that found the line.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Lines that were evicted to make room.
    pub evictions: u64,
    /// The number of these that were modified.
    pub dirty_evictions: u64,
    /// Lines that another core's store, or an eviction from a lower level, removed.
    pub invalidations: u64,
    /// Hits that had to request the permission to write.
    pub upgrades: u64,
}

impl std::ops::AddAssign for CacheStatistics {
    fn add_assign(&mut self, more: Self) {
        self.hits += more.hits;
        self.misses += more.misses;
        self.evictions += more.evictions;
        self.dirty_evictions += more.dirty_evictions;
        self.invalidations += more.invalidations;
        self.upgrades += more.upgrades;
    }
}

/// A cache level: all its caches together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelStatistics {
    /// The level's name in the machine's description.
    pub name: String,
    /// The counts of its caches, added up.
    pub total: CacheStatistics,
    /// The counts of each core's cache, for a private level.
    pub caches: Vec<CacheStatistics>,
}

/// The counts of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStatistics {
    /// Messages sent, requests and lines alike.
    pub messages: u64,
    /// Links that they crossed.
    pub hops: u64,
    /// Cycles that they waited for links.
    pub wait_cycles: u64,
}

/// The counts of one bank of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankStatistics {
    /// Lines read from the medium.
    pub reads: u64,
    /// The number of these that the row buffer answered.
    pub row_hits: u64,
    /// Lines written to the medium.
    pub writes: u64,
    /// Rows opened, for reads and for writes.
    pub activations: u64,
    /// Cycles in which it read or wrote.
    pub busy_cycles: u64,
    /// Cycles that reads waited for it.
    pub wait_cycles: u64,
}

/// A channel of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelStatistics {
    /// `controller.channel`, and the kind of memory.
    pub name: String,
    /// Reads that reached the channel.
    pub reads: u64,
    /// Reads that the write queue answered.
    pub forwarded: u64,
    /// Cycles from a read's arrival to its data.
    pub read_cycles: u64,
    /// Writes that reached the channel.
    pub writes: u64,
    /// Writes that joined one in the queue.
    pub coalesced: u64,
    /// Writes that found the queue full, or closed while the channel drained.
    pub write_queue_full: u64,
    /// Cycles for which these writes waited.
    pub write_queue_full_cycles: u64,
    /// How often the high watermark made the channel switch to writing.
    pub drains: u64,
    /// Reads outstanding, sampled at each read.
    pub read_occupancy: Mean,
    /// Writes held, sampled at each write.
    pub write_occupancy: Mean,
    /// The channel's banks, by number.
    pub banks: Vec<BankStatistics>,
}

/// The energy of a run's accesses, in nanojoules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// The parts whose accesses have figures: cache levels by name, then `nvm` and `dram`.
    pub parts: Vec<EnergyPart>,
    /// The total of all parts; `None` if a part has no figures.
    pub total_nj: Option<f64>,
}

/// A part of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyPart {
    /// A cache level's name, `nvm` or `dram`.
    pub name: String,
    /// The energy of its accesses, in nanojoules.
    pub nj: f64,
}

/// Everything that a machine counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Cycles of the region of interest, up to the end of the last thread.
    pub cycles: u64,
    /// Word and line operations in the region of interest.
    pub accesses: u64,
    /// The cores, by number.
    pub cores: Vec<CoreStatistics>,
    /// The cache levels, nearest to the cores first.
    pub levels: Vec<LevelStatistics>,
    /// Messages between cores, banks and controllers.
    pub network: NetworkStatistics,
    /// Each channel of each controller.
    pub channels: Vec<ChannelStatistics>,
    /// Lines between caches and memory.
    pub traffic: Traffic,
    /// Bytes that the hardware scheme has written to its log behind the pool: records, headers, marks of commits, and the log's head. A write counts
    /// only the words that it carries.
    pub hardware_log_bytes: u64,
    /// The energy of the accesses, if the machine's description has figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// The hardware scheme's counts, by name.
    pub scheme: Vec<(String, u64)>,
}
