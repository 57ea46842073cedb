//! Tests each rule of time separately.

use std::cell::RefCell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::{Channel, Line, Medium, NOT_HELD, Progress, Regions};
use strandline_sim::description::{
    CoreKind, Description, LoadOverlap, PersistenceDomain, WriteBackCompletes, WriteBackKind, WritePolicy,
};
use strandline_sim::numbers::{Cycle, LineNumber};
use strandline_sim::nvm::Banks;
use strandline_sim::{Contents, Machine, Statistics};

const LINES: usize = 4096;

/// Runs one thread. Returns what it measured, and the machine's counts. `measure` gets the view and a clock.
fn run(
    description: &Description,
    measure: impl Fn(&Hosted, &dyn Fn() -> u64) -> Vec<u64>,
) -> (Vec<u64>, Statistics, Rc<Machine>) {
    let contents =
        Contents { persistent: vec![0; 8 * LINES], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, None, None).unwrap());
    let found = RefCell::new(Vec::new());
    let clock = || machine.clock(0).number();
    let body = |memory: &Hosted| *found.borrow_mut() = measure(memory, &clock);
    machine.run(vec![Box::new(body) as Thread<'_>]);
    let statistics = machine.statistics();
    (found.into_inner(), statistics, machine)
}

fn line(number: u64) -> PersistentAddress {
    PersistentAddress::new(64 * number)
}

/// Returns how long each of several steps takes.
fn times(clock: &dyn Fn() -> u64, steps: &[&dyn Fn()]) -> Vec<u64> {
    steps
        .iter()
        .map(|step| {
            let before = clock();
            step();
            clock() - before
        })
        .collect()
}

/// A channel and its medium; a line's number in the channel equals that in memory.
struct OneChannel {
    channel: Channel,
    medium: Medium,
}

impl OneChannel {
    fn new(change: impl Fn(&mut Description)) -> Self {
        let mut description = support::small(1);
        description.nvm.banks = 2;
        change(&mut description);
        let banks = Banks::new(&description.nvm, &description);
        let medium = Medium { words: vec![0; 8 * LINES], held: vec![NOT_HELD; LINES] };
        Self { channel: Channel::new("0.0".into(), &description.controllers, banks), medium }
    }

    /// Reads a line. Returns when its words are available, and the words.
    fn read(&mut self, line: u32, at: u64) -> (u64, Line) {
        let (at, words) =
            self.channel.read(LineNumber::new(line), u64::from(line), Cycle::new(at), &mut self.medium);
        (at.number(), words)
    }

    /// Writes `value` to the words in `mask`. Returns when that was accepted.
    fn write(&mut self, line: u32, value: u64, mask: u8, at: u64) -> u64 {
        let place = (LineNumber::new(line), u64::from(line));
        self.channel.write(place, (&[value; 8], mask), 0, Cycle::new(at), &mut self.medium).0.number()
    }

    fn advance(&mut self, to: u64) {
        self.channel.advance(Cycle::new(to), &mut self.medium);
    }

    /// Writes a line as soon as its bank is free. Returns when it is on the medium.
    fn written(&mut self, line: u32, at: u64) -> u64 {
        self.write(line, 1, 0xff, at);
        let number = LineNumber::new(line);
        self.channel.hurry(number, u64::from(line), Cycle::new(at), &self.medium).number()
    }
}

#[test]
fn a_bank_is_busy_to_the_cycle() {
    let mut channel = OneChannel::new(|_| ());
    let mut read = |line, at| channel.read(line, at).0;
    assert_eq!(read(0, 1000), 1100);
    assert_eq!(read(2, 1099), 1200, "one cycle early: it waits one cycle");
    assert_eq!(read(4, 1200), 1300, "on time");
    assert_eq!(read(1, 1200), 1300, "the other bank is free");
}

#[test]
fn a_row_buffer_hit_is_short() {
    let mut channel = OneChannel::new(|machine| {
        machine.nvm.row_buffer_bytes = 256;
        machine.nvm.row_hit_ns = 20.0;
    });
    let mut read = |line, at| channel.read(line, at).0 - at;
    assert_eq!(read(0, 1000), 100);
    assert_eq!(read(3, 2000), 20, "the same row");
    assert_eq!(read(8, 3000), 100, "another row of the same bank");
    assert_eq!(read(0, 4000), 100, "its row was closed");
    assert_eq!(read(4, 5000), 100, "the other bank");
}

#[test]
fn a_write_to_a_closed_row_opens_it_first() {
    let mut channel = OneChannel::new(|machine| {
        machine.nvm.row_buffer_bytes = 256;
        machine.nvm.row_hit_ns = 20.0;
        machine.nvm.activation_ns = 80.0;
        machine.nvm.write_latency_ns = 15.0;
    });
    assert_eq!(channel.written(0, 1000), 1000 + 80 + 15 + 300);
    assert_eq!(
        channel.written(1, 1000),
        1395 + 300,
        "the open row: its command came before the first had ended"
    );
    assert_eq!(
        channel.written(8, 1000),
        1695 + 80 + 15 + 300,
        "another row of the bank is opened after that"
    );
    assert_eq!(channel.read(9, 3000).0, 3020, "and is open for reads");
    assert_eq!(channel.written(10, 3000), 3020 + 300, "as a read's row is for writes");
}

#[test]
fn a_row_stays_open_until_its_line_has_left() {
    let mut channel = OneChannel::new(|machine| {
        machine.nvm.row_buffer_bytes = 256;
        machine.nvm.row_hit_ns = 20.0;
        machine.nvm.gigabytes_per_s = 6.4;
    });
    assert_eq!(channel.read(0, 1000).0, 1110);
    assert_eq!(channel.read(8, 1000).0, 1110 + 100 + 10, "another row of the bank");
}

#[test]
fn the_way_to_the_device_keeps_no_bank() {
    let mut channel = OneChannel::new(|machine| machine.nvm.interface_ns = 30.0);
    assert_eq!(channel.read(0, 1000).0, 1130);
    assert_eq!(channel.read(2, 1000).0, 1230);
    assert_eq!(channel.written(4, 1000), 1200 + 300 + 30);
}

#[test]
fn the_bus_carries_one_line_at_a_time() {
    let mut channel = OneChannel::new(|machine| machine.nvm.gigabytes_per_s = 6.4);
    let mut read = |line, at| channel.read(line, at).0;
    assert_eq!(read(0, 1000), 1110, "100 ns, then 64 bytes at 6.4 GB/s");
    assert_eq!(read(1, 1000), 1120, "the other bank, after the first line");
}

#[test]
fn reads_go_before_writes_that_have_not_begun_and_every_write_reaches_memory() {
    let mut channel = OneChannel::new(|_| ());
    // The write arrives together with a read of the same bank, which goes first.
    assert_eq!(channel.write(0, 7, 0xff, 1000), 1000);
    assert_eq!(channel.read(2, 1000).0, 1100);
    assert_eq!(channel.read(4, 1100).0, 1200, "and so is the next");
    // Now the bank is idle from 1200 on, far below any watermark.
    channel.advance(1202);
    assert_eq!(channel.read(6, 1203).0, 1600, "a write under way is not interrupted");
    channel.advance(1500);
    assert_eq!(channel.medium.words[0], 0, "it ends at 1500");
    channel.advance(1501);
    assert_eq!(channel.medium.words[0], 7);
    assert_eq!(channel.channel.held(), 0);
}

#[test]
fn a_read_is_answered_by_the_write_queue_and_writes_join() {
    let mut channel = OneChannel::new(|machine| machine.controllers.match_latency = 3);
    channel.write(0, 7, 0xff, 1000);
    channel.write(0, 9, 0x01, 1000);
    assert_eq!((channel.channel.statistics.coalesced, channel.channel.held()), (1, 1));
    let (at, data) = channel.read(0, 1000);
    assert_eq!((at, data[0], data[1]), (1003, 9, 7));
    assert_eq!(channel.channel.statistics.forwarded, 1);
}

#[test]
fn the_high_watermark_drains_to_the_low_one_before_later_reads() {
    let mut channel = OneChannel::new(|machine| {
        machine.controllers.high_watermark = 4;
        machine.controllers.low_watermark = 2;
    });
    // A read keeps bank 0 busy, so that the writes stay in the queue.
    channel.read(100, 990);
    for i in 0..3 {
        channel.write(2 * i, 1, 0xff, 1000);
    }
    assert_eq!(channel.channel.statistics.drains, 0);
    channel.write(6, 1, 0xff, 1000);
    assert_eq!(channel.channel.statistics.drains, 1);
    // Two writes of 300 follow the read that ends at 1090.
    assert_eq!(channel.read(8, 1001).0, 1090 + 600 + 100);
    assert_eq!(channel.channel.held(), 4);
}

/// Returns a channel that writes only in drains of three.
fn drained() -> OneChannel {
    OneChannel::new(|machine| {
        machine.controllers.write_policy = WritePolicy::Drained;
        machine.controllers.high_watermark = 4;
        machine.controllers.low_watermark = 1;
    })
}

#[test]
fn drains_alone_keep_reads_and_writes_waiting() {
    let mut channel = drained();
    for line in [0, 2, 4] {
        assert_eq!(channel.write(line, 1, 0xff, 1000), 1000);
    }
    channel.advance(5000);
    assert_eq!(channel.channel.held(), 3, "below the watermark no write begins in idle banks");
    assert_eq!(channel.read(6, 5000).0, 5100);
    assert_eq!(channel.write(8, 1, 0xff, 6000), 6000);
    // All are for one bank, which takes the third when it has been sent the second's command.
    assert_eq!(channel.read(1, 6001).0, 6300 + 100, "the other bank is idle, and yet the read waits");
    assert_eq!(channel.write(1, 1, 0xff, 6001), 6300, "and so does a write");
    assert_eq!(channel.channel.statistics.drains, 1);
}

#[test]
fn a_drain_writes_to_the_open_row_first() {
    let mut channel = OneChannel::new(|machine| {
        machine.controllers.write_policy = WritePolicy::Drained;
        machine.controllers.high_watermark = 3;
        machine.controllers.low_watermark = 1;
        machine.nvm.row_buffer_bytes = 256;
        machine.nvm.row_hit_ns = 20.0;
        machine.nvm.activation_ns = 80.0;
    });
    channel.read(0, 100);
    for (line, value) in [(8, 1), (1, 2), (2, 3)] {
        channel.write(line, value, 0xff, 1000);
    }
    channel.advance(1601);
    let words = [8, 1, 2].map(|line| channel.medium.words[8 * line]);
    assert_eq!(words, [0, 2, 3], "the oldest needs another row and waits for the next drain");
}

#[test]
fn a_write_that_somebody_waits_for_needs_no_drain() {
    let mut channel = drained();
    channel.write(0, 7, 0xff, 1000);
    channel.write(2, 7, 0xff, 1000);
    let line = LineNumber::new(2);
    assert_eq!(channel.channel.wait_for(line, 1, &channel.medium).0, 1);
    channel.advance(1700);
    assert_eq!(
        (channel.medium.words[0], channel.medium.words[16]),
        (7, 7),
        "it and the one before it in its bank"
    );
    channel.write(4, 7, 0xff, 2000);
    assert!(matches!(channel.channel.progress(LineNumber::new(4), &channel.medium), Progress::Waiting(_)));
    channel.advance(2400);
    assert_eq!(channel.channel.held(), 0, "a scheme that asks waits too");
}

#[test]
fn a_full_write_queue_makes_writes_wait_for_the_medium() {
    let mut channel = OneChannel::new(|machine| {
        machine.controllers.write_queue = 2;
        machine.controllers.high_watermark = 2;
        machine.controllers.low_watermark = 1;
    });
    let mut write = |line| channel.write(line, 1, 0xff, 1000);
    assert_eq!((write(0), write(2)), (1000, 1000));
    assert_eq!(write(4), 1300, "when the first write has ended");
}

#[test]
fn lookups_add_up_and_a_hit_is_a_hit() {
    let mut machine = support::three_levels();
    machine.cores.instructions_per_access = Some(0.0);
    let (found, statistics, _) = run(&machine, |memory, clock| {
        times(
            clock,
            &[
                &|| assert_eq!(memory.load(line(0)), 0),
                &|| assert_eq!(memory.load(line(0).word(7)), 0),
                &|| memory.store(line(0), 1),
            ],
        )
    });
    assert_eq!(found, [1 + 8 + 21 + 168, 1, 1]);
    assert_eq!((statistics.levels[0].total.hits, statistics.levels[0].total.misses), (2, 1));
    assert_eq!(statistics.traffic.reads.total(), 1);
}

/// On a core that fetches in its own time, each access's instruction is fetched first.
#[test]
fn an_access_waits_for_its_instruction() {
    let mut machine = support::small(1);
    machine.caches[0].latency = 3;
    let cycles = |machine: &Description| {
        run(machine, |memory, clock| {
            memory.load(line(1));
            times(clock, &[&|| _ = memory.load(line(1)), &|| memory.store(line(1), 5), &|| memory.work(4)])
        })
        .0
    };
    assert_eq!(cycles(&machine), [3, 3, 4]);
    machine.cores.fetch_cycles = 2;
    assert_eq!(cycles(&machine), [5, 5, 4]);
}

#[test]
fn a_dirty_victim_is_written_back_and_a_clean_one_is_not() {
    let machine = support::small(1);
    // With 16 sets of 2 ways, three lines share one set.
    for (dirty, writes) in [(false, 0), (true, 1)] {
        let (_, statistics, machine) = run(&machine, |memory, _| {
            if dirty {
                memory.store(line(0), 5);
            } else {
                memory.load(line(0));
            }
            memory.load(line(16));
            memory.load(line(32));
            Vec::new()
        });
        assert_eq!(statistics.traffic.eviction.total(), writes);
        assert_eq!(statistics.levels[0].total.dirty_evictions, writes);
        machine.idle(1000);
        assert_eq!(machine.survivors()[0], 5 * writes);
    }
}

#[test]
fn a_fence_waits_for_the_persistence_domain() {
    for (domain, write_back, fence) in [
        // The write is accepted immediately; the medium takes 300, beginning after the core has checked.
        (PersistenceDomain::Adr, WriteBackKind::Clwb, 0..=1),
        (PersistenceDomain::Media, WriteBackKind::Clwb, 299..=301),
        (PersistenceDomain::FlushOnFail, WriteBackKind::Clwb, 0..=0),
        (PersistenceDomain::Media, WriteBackKind::Clflushopt, 299..=301),
    ] {
        let mut machine = support::small(1);
        machine.persistence.domain = domain;
        machine.persistence.write_back = write_back;
        let (found, statistics, machine) = run(&machine, |memory, clock| {
            memory.store(line(3), 9);
            times(
                clock,
                &[
                    &|| memory.write_back(line(3), Step::CommitWriteBack),
                    &|| memory.fence(Step::CommitFence),
                    &|| memory.fence(Step::CommitFence),
                    &|| assert_eq!(memory.load(line(3)), 9),
                ],
            )
        });
        assert!(fence.contains(&found[1]), "{domain:?}: {found:?}");
        assert_eq!(found[2], 0, "nothing is left to wait for");
        assert_eq!(machine.survivors()[24], 9);
        let evicted = write_back != WriteBackKind::Clwb;
        assert_eq!(statistics.levels[0].total.misses, 1 + u64::from(evicted));
        let writes = u64::from(domain != PersistenceDomain::FlushOnFail);
        assert_eq!(statistics.traffic.forced_write_back.total(), writes);
    }
}

#[test]
fn loads_of_a_range_overlap_up_to_the_mshrs() {
    let time = |overlap, mshrs| {
        let mut machine = support::small(1);
        machine.cores.kind = CoreKind::OutOfOrder;
        machine.cores.store_queue = 4;
        machine.cores.load_overlap = overlap;
        machine.cores.mshrs = mshrs;
        let (found, statistics, _) = run(&machine, |memory, clock| {
            memory.load_range(line(0), &mut [0; 64]);
            // An atomic operation waits for all loads, whatever overlaps.
            memory.fetch_add(line(1), 0);
            vec![clock()]
        });
        (found[0], statistics.cores[0])
    };
    let (one_by_one, _) = time(LoadOverlap::None, 16);
    assert!((8 * 101..8 * 101 + 70).contains(&one_by_one), "{one_by_one}");
    let (together, statistics) = time(LoadOverlap::Range, 16);
    assert!((101..120).contains(&together), "eight banks at once: {together}");
    assert_eq!(statistics.mshr_merges, 56, "seven words of each line join its miss");
    let (two, statistics) = time(LoadOverlap::Range, 2);
    assert!((4 * 100..4 * 101 + 20).contains(&two), "two at a time: {two}");
    assert!(statistics.mshr_full > 0);
    assert_eq!(time(LoadOverlap::All, 16).0, together);
}

#[test]
fn stores_stall_only_when_the_queue_is_full() {
    let mut machine = support::small(1);
    machine.cores.kind = CoreKind::OutOfOrder;
    machine.cores.store_queue = 4;
    let (found, statistics, _) = run(&machine, |memory, clock| {
        let stores: Vec<u64> = (0..6).flat_map(|i| times(clock, &[&|| memory.store(line(i), i)])).collect();
        let forwarded = memory.load(line(5));
        stores.into_iter().chain([forwarded]).collect()
    });
    assert_eq!(found[..4], [0; 4], "four places");
    assert_eq!(found[4..6], [101, 101], "then each store waits for a miss");
    assert_eq!(found[6], 5, "a load sees the queue");
    assert_eq!(statistics.cores[0].stalls.store_queue_full, 202);
    assert_eq!(statistics.cores[0].forwarded, 1);
}

#[test]
fn non_temporal_stores_combine_and_bypass() {
    let mut machine = support::small(1);
    machine.persistence.domain = PersistenceDomain::Adr;
    let (_, statistics, machine) = run(&machine, |memory, _| {
        memory.store(line(1).word(7), 3);
        (0..16).for_each(|i| memory.store_non_temporal(line(0).word(i), i + 1));
        memory.store_non_temporal(line(2), 1);
        memory.fence(Step::CommitFence);
        Vec::new()
    });
    assert_eq!(statistics.traffic.non_temporal.total(), 3, "two whole lines and a part of one");
    assert_eq!(statistics.levels[0].total.misses, 1);
    let image = machine.survivors();
    assert!((0..16).all(|i| image[i] == i as u64 + 1) && image[16] == 1);
}

#[test]
fn a_fence_sends_non_temporal_stores_off_in_every_domain() {
    for domain in [PersistenceDomain::Media, PersistenceDomain::Adr, PersistenceDomain::FlushOnFail] {
        let mut description = support::small(1);
        description.persistence.domain = domain;
        let contents =
            Contents { persistent: vec![0; 8 * LINES], volatile_bytes: 64, regions: Regions::default() };
        let machine = Rc::new(Machine::new(&description, contents, None, None).unwrap());
        machine.crash_at(vec![Cycle::new(5_000), Cycle::new(15_000)]);
        machine.run(vec![Box::new(|memory: &Hosted| {
            memory.store_non_temporal(line(3), 7);
            memory.work(10_000);
            memory.fence(Step::CommitFence);
            memory.work(10_000);
        })]);
        let survived: Vec<u64> = machine.take_crashes().iter().map(|crash| crash.image[24]).collect();
        assert_eq!(survived, [0, 7], "{domain:?}: in the core's buffer, and beyond it");
    }
}

#[test]
fn the_whole_cache_is_written_back() {
    let (_, statistics, machine) = run(&support::three_levels(), |memory, _| {
        (0..100).for_each(|i| memory.store(line(i), i));
        assert!(memory.write_back_all(Step::BulkDataWriteBack));
        memory.fence(Step::BulkDataFence);
        Vec::new()
    });
    assert_eq!(statistics.traffic.write_back_all.total(), 100);
    assert_eq!(machine.unsettled().0, 0);
    let image = machine.survivors();
    assert!((0..100).all(|i| image[8 * i] == i as u64));
}

/// A thread's own words hit the first level: loads of one range overlap where ranges do, and stores retire through the store queue.
#[test]
fn a_threads_own_memory_takes_time() {
    let mut machine = support::small(1);
    machine.caches[0].latency = 3;
    let cycles = |machine: &Description| {
        let (found, statistics, _) = run(machine, |memory, clock| {
            times(clock, &[&|| memory.loaded_own(1), &|| memory.loaded_own(4), &|| memory.stored_own(2)])
        });
        assert_eq!((statistics.cores[0].loads, statistics.cores[0].stores), (5, 2));
        assert_eq!((statistics.levels[0].total.hits, statistics.levels[0].total.misses), (7, 0));
        found
    };
    assert_eq!(cycles(&machine), [3, 12, 6]);
    machine.cores.kind = CoreKind::OutOfOrder;
    machine.cores.store_queue = 4;
    assert_eq!(cycles(&machine), [3, 3, 0]);
    machine.cores.instructions_per_access = Some(10.0);
    assert_eq!(cycles(&machine), [13, 43, 20]);
}

/// Flushes occupy the core for the machine's cost, one after another, while their lines are written back; then the program waits. wbinvd is one
/// flush, and a line stored past the cache has its delay at the fence.
#[test]
fn a_flush_keeps_the_core_and_then_the_program_waits() {
    let found = |cost: f64, delay: f64| {
        let mut machine = support::small(1);
        machine.cores.kind = CoreKind::OutOfOrder;
        machine.cores.store_queue = 8;
        machine.persistence.flush_cost_ns = cost;
        machine.persistence.flush_delay_ns = delay;
        let (found, statistics, _) = run(&machine, |memory, clock| {
            (0..4).for_each(|i| memory.store(line(i), i));
            times(
                clock,
                &[
                    &|| memory.write_back(line(0), Step::CommitWriteBack),
                    &|| memory.write_back(line(1), Step::CommitWriteBack),
                    &|| memory.fence(Step::CommitFence),
                    &|| assert!(memory.write_back_all(Step::BulkDataWriteBack)),
                    &|| memory.fence(Step::BulkDataFence),
                    &|| (16..40).for_each(|i| memory.store_non_temporal(line(0).word(i), i)),
                    &|| memory.fence(Step::CommitFence),
                ],
            )
        });
        assert_eq!(statistics.cores[0].stalls.flush, 2 * (cost + delay) as u64 + 4 * delay as u64);
        found
    };
    let free = found(0.0, 0.0);
    assert_eq!(free[..2], [0, 0]);
    let costly = found(1000.0, 0.0);
    assert_eq!(costly[..2], [1000, 1000], "serially");
    assert!(costly[2] < free[2], "the lines have gone their way meanwhile: {costly:?}, {free:?}");
    assert_eq!(costly[3..], free[3..], "neither wbinvd nor stores past the cache are that instruction");
    let delayed = found(1000.0, 500.0);
    assert_eq!(delayed[..2], [1500, 1500]);
    assert_eq!(delayed[3], free[3] + 500, "one flush, of two lines");
    assert_eq!(delayed[6], free[6] + 3 * 500, "three lines past the cache");
}

/// A thread that waits for a latch is suspended until its line is lost, but not if a tape records each load. Both take the same time and have the
/// same counts.
#[test]
fn a_thread_left_alone_while_it_waits_takes_the_same_time() {
    let run = |taped: bool| {
        let description = support::mesh(2);
        let contents =
            Contents { persistent: vec![0; 8 * LINES], volatile_bytes: 4096, regions: Regions::default() };
        let machine = Rc::new(Machine::new(&description, contents, None, None).unwrap());
        if taped {
            machine.record(Box::new(|_, _| ()));
        }
        let latch = VolatileAddress::new(64);
        let body = |thread: u64| {
            Box::new(move |memory: &Hosted| {
                for i in 0..50 {
                    memory.lock(latch);
                    for number in 0..20 + 7 * thread {
                        memory.store(line(number), memory.load(line(number + 40 * i)) + 1);
                    }
                    memory.fence(Step::HomeFence);
                    memory.unlock(latch);
                    memory.work(100 * thread as u32);
                }
            }) as Thread<'_>
        };
        machine.run(vec![body(0), body(1)]);
        machine.statistics()
    };
    let (left_alone, taped) = (run(false), run(true));
    assert!(taped.cores[1].stalls.pause > 50 * 64 * 10, "it waits longer than a latch spins: {taped:?}");
    assert_eq!(left_alone, taped);
}

/// Returns when the store queue is empty after two write-backs, and when the following fence is over.
#[test]
fn a_write_back_leaves_the_store_queue_when_the_machine_says() {
    let drained = |completes, kind| {
        let mut description = support::mesh(1);
        description.persistence.write_back_completes = completes;
        description.persistence.write_back = kind;
        let (found, ..) = run(&description, |memory, clock| {
            for number in 0..2 {
                memory.store(line(number), 1);
            }
            memory.fetch_add(VolatileAddress::new(0), 1);
            let before = clock();
            for number in 0..2 {
                memory.write_back(line(number), Step::HomeWriteBack);
            }
            // An atomic operation waits for the queue, and a fence also for the medium.
            memory.fetch_add(VolatileAddress::new(0), 1);
            let empty = clock() - before;
            memory.fence(Step::HomeFence);
            vec![empty, clock() - before]
        });
        (found[0], found[1])
    };
    use WriteBackCompletes::{Accepted, Durable, Issued};
    let clwb = |completes| drained(completes, WriteBackKind::Clwb);
    let (issued, accepted, durable) = (clwb(Some(Issued)), clwb(Some(Accepted)), clwb(Some(Durable)));
    assert!(issued.0 < accepted.0 && accepted.0 < durable.0, "{issued:?} {accepted:?} {durable:?}");
    // The second write-back leaves the core when the first is on the medium, so the fence has nothing to wait for.
    assert!(2 * durable.0 > 3 * accepted.1 && durable.1 == durable.0, "{accepted:?} {durable:?}");
    assert_eq!(clwb(None), issued);
    assert_eq!(drained(None, WriteBackKind::Clflush), drained(Some(Accepted), WriteBackKind::Clflush));
}

#[test]
fn lines_are_dealt_to_banks_by_so_many_bytes() {
    let banks = |bytes| {
        let mut description = support::small(1);
        description.nvm.bank_bytes = bytes;
        let banks = Banks::new(&description.nvm, &description);
        (0..10).map(|line| banks.bank_of(line)).collect::<Vec<_>>()
    };
    assert_eq!(banks(0), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    assert_eq!(banks(256), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
}
