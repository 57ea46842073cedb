//! The limits of the system: no more file space, as on a full disk, and no more address space; and memory that pools release to the system. Each test
//! runs itself again in a process of its own, to which the limits apply.

use std::path::Path;
use std::process::Command;

use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};

const FOLDER: &str = "STRANDLINE_LIMITS_FOLDER";
const DOMAINS: [Domain; 2] = [Domain::Sync, Domain::Process];

fn options(domain: Domain) -> Options {
    let geometry = Geometry { logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 16, ..Geometry::default() };
    Options { domain, geometry, lock_bits: 10, snapshot_bytes: 1 << 20, ..Options::default() }
}

/// Runs `limited` in a new process, which runs the test called `name` again.
fn in_process(name: &str, limited: impl FnOnce(&Path)) {
    if let Ok(folder) = std::env::var(FOLDER) {
        return limited(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("limits::{name}"), "--test-threads=1", "--nocapture"])
        .env(FOLDER, folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    // Only root may raise the upper bound of the limit. SAFETY: the structure consists of numbers, for which zeros are valid.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the limit can be written during the whole call.
    assert_eq!(unsafe { libc::getrlimit(resource, &mut limit) }, 0);
    limit.rlim_cur = bytes.min(limit.rlim_max);
    // SAFETY: the limit is borrowed for the call, which changes only this process.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

/// A limit on the length of files takes the place of a full disk.
#[test]
fn a_full_disk_is_an_error_that_leaves_everything_usable() {
    in_process("a_full_disk_is_an_error_that_leaves_everything_usable", |folder| {
        // SAFETY: no handler is installed. Where the signal would end the process, the call now returns an error.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        for domain in DOMAINS {
            let path = folder.join(domain.name());
            let pool = Pool::create(&path, &options(domain)).unwrap();
            let mut worker = pool.worker().unwrap();
            let length = || std::fs::metadata(&path).unwrap().len();
            worker.run(|tx| tx.alloc(10 << 20)).unwrap();
            // By then the file has grown ahead of need.
            std::thread::sleep(std::time::Duration::from_millis(300));
            let before = length();
            // This is less than a step of growth, but leaves room for one more block.
            let most = before + (512 << 10);
            limit(libc::RLIMIT_FSIZE, most);
            let mut fill = |value: u64| {
                let mut blocks: Vec<PersistentAddress> = Vec::new();
                loop {
                    let filled = worker.run(|tx| {
                        let block = tx.alloc(256 << 10)?;
                        (0..64).try_for_each(|page| tx.write(block.byte(4096 * page), value + page))?;
                        Ok(block)
                    });
                    match filled {
                        Ok(block) => blocks.push(block),
                        Err(Error::Io { source, .. }) => {
                            assert_eq!(source.raw_os_error(), Some(libc::EFBIG));
                            return blocks;
                        }
                        Err(error) => panic!("{domain:?}: {error}"),
                    }
                    assert!(blocks.len() < 1000);
                }
            };
            let blocks = fill(1);
            assert!(length() > before && length() <= most, "as much as there is room for is used");
            assert!(!blocks.is_empty());
            assert_eq!(fill(2), [], "and no more");
            // Nothing else is affected.
            worker.run(|tx| tx.write(blocks[0], 77)).unwrap();
            pool.checkpoint().unwrap();
            worker.run(|tx| tx.free(blocks[0])).unwrap();
            let again = worker.run(|tx| tx.alloc(256 << 10)).unwrap();
            assert_eq!(worker.run(|tx| tx.block(again)).unwrap(), 256 << 10);
            // Now there is space again.
            limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
            worker.run(|tx| tx.alloc(10 << 20)).unwrap();
            assert!(length() > before + (10 << 20));
            drop(worker);
            pool.close().unwrap();
            let objects = 1 + blocks.len() as u64 + 1;
            assert_eq!(Pool::open(&path, &options(domain)).unwrap().usage().unwrap().objects, objects);
        }
    });
}

#[test]
fn where_address_space_is_limited_pools_take_less_of_it() {
    in_process("where_address_space_is_limited_pools_take_less_of_it", |folder| {
        // This is less than half of the memory that a pool may take for old versions, and much less than the 1 TB to which it may grow.
        limit(libc::RLIMIT_AS, 2 << 30);
        for domain in DOMAINS {
            let path = folder.join(domain.name());
            let pool = Pool::create(&path, &options(domain)).unwrap();
            let mut worker = pool.worker().unwrap();
            let block = worker.run(|tx| tx.alloc(100 << 20)).unwrap();
            assert_eq!(worker.view(|tx| tx.read(block)).unwrap(), 0);
            // At least as much address space is left to the program.
            let taken = pool.layout().end().offset();
            assert!(taken < 1 << 30, "{taken}");
            drop(vec![1u8; 200 << 20]);
            let error = worker.run(|tx| tx.alloc(1 << 30)).unwrap_err();
            assert!(
                matches!(error, Error::Full { .. }) && error.to_string().contains("address space"),
                "{error}"
            );
            drop(worker);
            pool.close().unwrap();

            // Several pools that are open for reading take no more than their files need.
            let readers = [(); 3].map(|()| Pool::open_read_only(&path, &options(domain)).unwrap());
            assert_eq!(readers.map(|pool| pool.usage().unwrap().objects), [1; 3]);
            assert_eq!(
                strandline_core::file::inspect(&path, Default::default()).unwrap().usage.unwrap().objects,
                1
            );

            // An explicit request is granted or refused.
            let asked = |bytes| Options { address_space: Some(bytes), ..options(domain) };
            let error = Pool::open(&path, &asked(8 << 30)).err().unwrap().to_string();
            assert!(error.contains("ulimit -v") && error.contains(path.to_str().unwrap()), "{error}");
            let pool = Pool::open(&path, &asked(256 << 20)).unwrap();
            assert!((224 << 20..=256 << 20).contains(&pool.layout().end().offset()));
            pool.close().unwrap();
            let error = Pool::open(&path, &asked(1 << 20)).err().unwrap().to_string();
            assert!(error.contains("Options::address_space"), "{error}");
        }
        // This limit is smaller than the file.
        let path = folder.join("sync");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
        let error = Pool::open(&path, &options(Domain::Sync)).err().unwrap().to_string();
        assert!(error.contains("ulimit -v"), "{error}");
    });
}

/// A program that has closed its standard descriptors, as daemons do, but still writes messages to standard error.
#[test]
fn no_file_of_a_pool_gets_a_standard_descriptor() {
    in_process("no_file_of_a_pool_gets_a_standard_descriptor", |folder| {
        let close = |which: &[i32]| {
            for &descriptor in which {
                // SAFETY: no object in this process owns a standard descriptor.
                unsafe { libc::close(descriptor) };
            }
        };
        let shout = || {
            for descriptor in 0..3 {
                let text = [b'!'; 8192];
                // SAFETY: the bytes are borrowed for the call, which reads them.
                unsafe { libc::write(descriptor, text.as_ptr().cast(), text.len()) };
            }
        };
        let files = || {
            let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let standard =
                descriptors.filter(|entry| entry.file_name().len() == 1 && entry.file_name() < *"3");
            standard
                .filter_map(|entry| entry.path().read_link().ok())
                .filter(|file| file.starts_with(folder))
                .count()
        };
        for domain in DOMAINS {
            for closed in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
                let path = folder.join(format!("{}{closed:?}", domain.name()));
                let sync = strandline_core::sync::SyncParameters { checksums: true, ..Default::default() };
                let options = Options { sync, ..options(domain) };
                close(closed);
                let pool = Pool::create(&path, &options).unwrap();
                shout();
                pool.worker().unwrap().run(|tx| tx.write(tx.root(0), 5)).unwrap();
                assert_eq!(files(), 0);
                pool.backup(path.with_extension("copy")).unwrap();
                shout();
                pool.close().unwrap();
                close(closed);
                let reader = Pool::open_read_only(&path, &options).unwrap();
                assert_eq!(files(), 0);
                shout();
                drop(reader);
                close(closed);
                let pool = Pool::open(&path, &options).unwrap();
                shout();
                assert_eq!((files(), pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap()), (0, 5));
            }
        }
    });
}

/// Returns the number of bytes of this process's memory that belong to no file.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn the_memory_of_old_versions_goes_back_when_the_last_snapshot_ends() {
    in_process("the_memory_of_old_versions_goes_back_when_the_last_snapshot_ends", |folder| {
        const LINES: u64 = 200_000;
        for domain in DOMAINS {
            let options = Options { snapshot_bytes: 64 << 20, ..options(domain) };
            let pool = Pool::create(folder.join(domain.name()), &options).unwrap();
            let mut worker = pool.worker().unwrap();
            let block = worker.run(|tx| tx.alloc(64 * LINES)).unwrap();
            let mut fill = |value: u64| {
                for first in (0..LINES).step_by(500) {
                    let lines = first..first + 500;
                    let store = worker.run_later(|tx| {
                        lines.clone().try_for_each(|line| tx.write(block.byte(64 * line), value + line))
                    });
                    store.unwrap();
                }
            };
            fill(1);
            for round in 0..3 {
                let (before, mut snapshots) = (anonymous_bytes(), [(); 2].map(|()| pool.snapshot().unwrap()));
                fill(2 + round);
                let most = anonymous_bytes();
                assert!(most > before + (16 << 20), "{domain:?}: {before}, {most}");
                let [one, other] = &mut snapshots;
                let sum = |snapshot: &mut strandline_core::engine::Snapshot<_>| {
                    snapshot.read(|tx| {
                        (0..LINES).try_fold(0, |sum, line| Ok(sum + tx.read(block.byte(64 * line))? - line))
                    })
                };
                assert_eq!(sum(one).unwrap(), (1 + round) * LINES);
                assert_eq!(sum(other).unwrap(), (1 + round) * LINES);
                drop(snapshots);
                let left = anonymous_bytes();
                assert!(left < before + (6 << 20), "{domain:?}: {before}, {most}, {left}");
            }
        }
    });
}

/// From now on no thread can be started.
fn forbid_threads() {
    // SAFETY: the calls change only this process's user and limits. The limit does not apply to root.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgid(65534), 0);
            assert_eq!(libc::setuid(65534), 0);
        }
    }
    limit(libc::RLIMIT_NPROC, 0);
    let refused = std::thread::Builder::new().spawn(|| ()).expect_err("no thread can be started");
    assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
}

#[test]
fn without_threads_everything_is_done_by_the_caller() {
    in_process("without_threads_everything_is_done_by_the_caller", |folder| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        // The thread for checkpoints already runs, but the thread for tickets does not.
        let early = Pool::create(folder.join("early"), &options(Domain::Sync)).unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            // A copy gets the owner of its source. Only root can change that, and only root needs to.
            let _ = std::os::unix::fs::chown(file.unwrap().path(), Some(65534), Some(65534));
        }
        forbid_threads();
        let use_all = |pool: Pool, copy: &std::path::Path| {
            let mut worker = pool.worker().unwrap();
            let block = worker.run(|tx| tx.alloc(4 << 20)).unwrap();
            worker.run(|tx| (0..1 << 19).try_for_each(|word| tx.write(block.word(word), word))).unwrap();
            let (_, transaction) = worker.run_later(|tx| tx.write(tx.root(0), 7)).unwrap();
            let ticket = pool.ticket(transaction).unwrap();
            ticket.wait().unwrap();
            let mut snapshot = pool.snapshot().unwrap();
            worker.run(|tx| tx.free(block)).unwrap();
            assert_eq!(snapshot.read(|tx| tx.read(block.word(77_777))).unwrap(), 77_777);
            drop((snapshot, worker));
            pool.checkpoint().unwrap();
            assert!(pool.compact().unwrap().punched_bytes > 1 << 20);
            pool.backup(copy).unwrap();
            pool.close().unwrap();
            let copy = Pool::open(copy, &options(Domain::Sync)).unwrap();
            assert_eq!(copy.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap(), 7);
            copy.close().unwrap();
        };
        use_all(early, &folder.join("early copy"));
        use_all(
            Pool::create(folder.join("late"), &options(Domain::Sync)).unwrap(),
            &folder.join("late copy"),
        );
        use_all(
            Pool::create(folder.join("mapped"), &options(Domain::Process)).unwrap(),
            &folder.join("mapped copy"),
        );
        for checksums in [false, true] {
            let sync = strandline_core::sync::SyncParameters {
                ring_blocks: 32,
                initial_ring_blocks: 4,
                dirty_pages: 48,
                checksums,
                ..Default::default()
            };
            let options = Options { sync, ..options(Domain::Sync) };
            let path = folder.join(format!("pool{checksums}"));
            let pool = Pool::create(&path, &options).unwrap();
            let mut worker = pool.worker().unwrap();
            let block = worker.run(|tx| tx.alloc(4 << 20)).unwrap();
            for round in 0..5 {
                for page in 0..100 {
                    // The pages are scattered, so that several threads would write them.
                    let at = block.byte(4096 * (page * 7 % 1000));
                    worker.run(|tx| tx.write(at, round + page)).unwrap();
                }
                // These transactions need more than the ring has at first.
                worker
                    .run(|tx| (0..1500).try_for_each(|word| tx.write(block.word(3 * word + 1), round)))
                    .unwrap();
                let (_, transaction) = worker.run_later(|tx| tx.write(tx.root(0), round)).unwrap();
                assert!(
                    pool.ticket(transaction).unwrap().is_durable().unwrap(),
                    "no thread flushes it later"
                );
            }
            worker.run(|tx| (0..1 << 19).try_for_each(|word| tx.write(block.word(word), word))).unwrap();
            drop(worker);
            pool.close().unwrap();
            let pool = Pool::open(&path, &options).unwrap();
            assert_eq!(pool.worker().unwrap().view(|tx| tx.read(block.word(77_777))).unwrap(), 77_777);
        }
    });
}

/// A control group that limits memory. It is removed when it is dropped.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    /// Creates a group with `bytes` of memory, or returns `None` if this process may not create any.
    fn new(bytes: u64) -> Option<Self> {
        let roots = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
        roots.into_iter().find_map(|(root, limit)| {
            let group = Self(Path::new(root).join(format!("strandline-{}", std::process::id())));
            std::fs::create_dir(&group.0).ok()?;
            let is_group = group.0.join("cgroup.procs").exists();
            (is_group && std::fs::write(group.0.join(limit), bytes.to_string()).is_ok()).then_some(group)
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Threads write more than the memory of a container, by `STRANDLINE_MEGABYTES` megabytes (300).
#[test]
fn a_container_with_little_memory_is_enough() {
    const GROUP: &str = "STRANDLINE_LIMITS_GROUP";
    const CONTAINER: u64 = 300 << 20;
    let name = "a_container_with_little_memory_is_enough";
    if std::env::var_os(FOLDER).is_none() {
        // The folder is on a disk, since the content of a folder in memory also counts as memory of the group.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(group) = MemoryGroup::new(CONTAINER) else {
            return println!("left out: memory groups cannot be made here");
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("limits::{name}"), "--test-threads=1", "--nocapture"]);
        let output = command.env(FOLDER, folder.path()).env(GROUP, &group.0).output().unwrap();
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        return;
    }
    in_process(name, |folder| {
        let group = std::env::var(GROUP).unwrap();
        std::fs::write(Path::new(&group).join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let megabytes: u64 = std::env::var("STRANDLINE_MEGABYTES").map_or(300, |text| text.parse().unwrap());
        const THREADS: u64 = 8;
        let path = folder.join("pool");
        let pool = Pool::create(&path, &Options::default()).unwrap();
        let each = (megabytes << 20) / THREADS;
        let blocks: Vec<PersistentAddress> = std::thread::scope(|threads| {
            let pool = &pool;
            let write = move |thread: u64| {
                let mut worker = pool.worker().unwrap();
                let block = worker.run(|tx| tx.alloc(each)).unwrap();
                for page in 0..each / 4096 {
                    let words: [u64; 512] = std::array::from_fn(|word| thread + page + word as u64);
                    worker.run_later(|tx| tx.write_range(block.byte(4096 * page), &words)).unwrap();
                }
                block
            };
            let all: Vec<_> = (0..THREADS).map(|thread| threads.spawn(move || write(thread))).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        pool.close().unwrap();
        let pool = Pool::open(&path, &Options::default()).unwrap();
        let mut worker = pool.worker().unwrap();
        for (thread, block) in (0..).zip(blocks) {
            for page in (0..each / 4096).step_by(7) {
                assert_eq!(worker.view(|tx| tx.read(block.byte(4096 * page))).unwrap(), thread + page);
            }
        }
    });
}
