//! What a run counts: per core, cache level, controller channel and bank; traffic and stalls by cause.
//!
//! All counts belong to the region of interest: they are set to zero when it begins.

use serde::Serialize;

/// Why a line was written to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A cache needed the place.
    Eviction,
    /// clwb, clflushopt, clflush.
    ForcedWriteBack,
    /// The whole cache was written back (wbinvd).
    WriteBackAll,
    /// A non-temporal store.
    NonTemporal,
    /// Another core read a modified line, and no shared level took it.
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

/// What part of memory a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// The pool's data: in place.
    Data,
    /// The pool's logs.
    Log,
    /// The pool's header, watermark and directory.
    Metadata,
    /// Volatile words.
    Volatile,
}

impl Region {
    /// All regions, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Data, Self::Log, Self::Metadata, Self::Volatile];
}

/// Lines by region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByRegion {
    /// Data, in place.
    pub data: u64,
    /// Logs.
    pub log: u64,
    /// Header, watermark, directory.
    pub metadata: u64,
    /// Volatile words.
    pub volatile: u64,
}

impl ByRegion {
    /// The count of a region.
    pub fn of(&mut self, region: Region) -> &mut u64 {
        match region {
            Region::Data => &mut self.data,
            Region::Log => &mut self.log,
            Region::Metadata => &mut self.metadata,
            Region::Volatile => &mut self.volatile,
        }
    }

    /// All regions together.
    pub fn total(&self) -> u64 {
        self.data + self.log + self.metadata + self.volatile
    }
}

/// Lines between the caches and memory, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Reads that caches asked for.
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
    /// Counts a write.
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

    /// All writes.
    pub fn writes(&self) -> u64 {
        self.eviction.total()
            + self.forced_write_back.total()
            + self.write_back_all.total()
            + self.non_temporal.total()
            + self.downgrade.total()
            + self.scheme.total()
    }
}

/// Cycles in which a core did not go on, by cause.
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
    /// A spin loop's pauses.
    pub pause: u64,
    /// A hardware scheme made the core wait.
    pub scheme: u64,
}

/// A core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoreStatistics {
    /// Cycles from the beginning of the region of interest to the end of this core's thread.
    pub cycles: u64,
    /// Instructions charged.
    pub instructions: u64,
    /// Words loaded.
    pub loads: u64,
    /// Words stored.
    pub stores: u64,
    /// Atomic operations.
    pub atomics: u64,
    /// Loads served by the store queue.
    pub forwarded: u64,
    /// Words stored past the cache.
    pub non_temporal: u64,
    /// Write-backs of a line asked for.
    pub write_backs: u64,
    /// Persistence fences.
    pub fences: u64,
    /// Misses that found all MSHRs taken.
    pub mshr_full: u64,
    /// Accesses that joined an outstanding miss.
    pub mshr_merges: u64,
    /// Where the cycles went.
    pub stalls: Stalls,
    /// The store queue's mean occupancy, sampled at each store.
    pub store_queue_occupancy: Mean,
}

/// A mean of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mean {
    /// Their sum.
    pub sum: u64,
    /// Their number.
    pub samples: u64,
    /// The largest.
    pub largest: u64,
}

impl Mean {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, sample: u64) {
        self.sum += sample;
        self.samples += 1;
        self.largest = self.largest.max(sample);
    }

    /// The mean; 0 of nothing.
    pub fn mean(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.sum as f64 / self.samples as f64 }
    }
}

/// A cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStatistics {
    /// Lookups that found the line.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Lines that left for want of room.
    pub evictions: u64,
    /// Of these, modified ones.
    pub dirty_evictions: u64,
    /// Lines that another core's store or a lower level's eviction took away.
    pub invalidations: u64,
    /// Hits that had to ask for the permission to write.
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
    /// The level's name.
    pub name: String,
    /// Its caches together.
    pub total: CacheStatistics,
    /// Each core's, of a private level.
    pub caches: Vec<CacheStatistics>,
}

/// The network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStatistics {
    /// Messages sent.
    pub messages: u64,
    /// Links that they crossed.
    pub hops: u64,
    /// Cycles that they waited for links.
    pub wait_cycles: u64,
}

/// A bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankStatistics {
    /// Lines read.
    pub reads: u64,
    /// Of these, from the row buffer.
    pub row_hits: u64,
    /// Lines written.
    pub writes: u64,
    /// Cycles in which it read or wrote.
    pub busy_cycles: u64,
    /// Cycles that reads waited for it.
    pub wait_cycles: u64,
}

/// A channel of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelStatistics {
    /// `controller.channel`, and what is behind it.
    pub name: String,
    /// Reads asked for.
    pub reads: u64,
    /// Reads that the write queue answered.
    pub forwarded: u64,
    /// Cycles from a read's arrival to its data.
    pub read_cycles: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Writes that joined one in the queue.
    pub coalesced: u64,
    /// Writes that found the queue full.
    pub write_queue_full: u64,
    /// Cycles that they waited.
    pub write_queue_full_cycles: u64,
    /// Times that the high watermark turned the channel to writing.
    pub drains: u64,
    /// Reads outstanding, sampled at each read.
    pub read_occupancy: Mean,
    /// Writes held, sampled at each write.
    pub write_occupancy: Mean,
    /// Each bank.
    pub banks: Vec<BankStatistics>,
}

/// Everything that a machine counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Cycles of the region of interest: to the end of the last thread.
    pub cycles: u64,
    /// Word and line operations in the region of interest.
    pub accesses: u64,
    /// Each core.
    pub cores: Vec<CoreStatistics>,
    /// Each cache level.
    pub levels: Vec<LevelStatistics>,
    /// The network.
    pub network: NetworkStatistics,
    /// Each channel of each controller.
    pub channels: Vec<ChannelStatistics>,
    /// Lines between caches and memory.
    pub traffic: Traffic,
    /// What the hardware scheme counts, by name.
    pub scheme: Vec<(String, u64)>,
}
