//! The statistics of a pool: counts, durations, spans and metrics.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strandline::{Database, Error, Options};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn statistics_count_what_transactions_do() -> strandline::Result<()> {
    let folder = folder();
    let options = Options { slow_transaction: Duration::ZERO, ..Options::default() };
    let db = Database::open_with(folder.path().join("db"), &options)?;
    let table = db.table::<u64, u64>("numbers")?;
    let before = db.statistics()?;
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (db, table) = (db.clone(), &table);
            threads.spawn(move || {
                for n in 0..25 {
                    db.write(|tx| table.insert(tx, &(100 * thread + n), &n)).unwrap();
                    db.read(|tx| table.get(tx, &n)).unwrap();
                }
            });
        }
    });
    let refused = db.write(|_| Err::<(), _>(Error::ReadOnly));
    assert!(matches!(refused, Err(Error::ReadOnly)));
    db.checkpoint()?;
    let after = db.write(|_| db.statistics())?;
    assert_eq!((after.commits - before.commits, after.reads - before.reads), (100, 100));
    assert_eq!(after.given_up - before.given_up, 1);
    let flushed = after.device.log_writes - before.device.log_writes;
    assert!((1..=100).contains(&flushed), "{flushed} durable writes for 100 transactions");
    assert_eq!(after.log_writes.count() - before.log_writes.count(), flushed);
    assert!(after.device.log_bytes > before.device.log_bytes && after.record_bytes > before.record_bytes);
    assert_eq!(after.writes.count() - before.writes.count(), 100);
    // Every write counts as slow, since the limit is zero.
    assert_eq!(after.slow_writes, after.writes.count());
    assert_eq!(after.checkpoints.count() - before.checkpoints.count(), 1);
    assert!(after.writes.max() >= after.writes.quantile(0.5));
    db.close()?;
    assert!(matches!(db.statistics(), Err(Error::Closed)));
    Ok(())
}

#[test]
fn conflicts_are_counted() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, u64>("numbers")?;
    db.write(|tx| table.insert(tx, &0, &0))?;
    let before = db.statistics()?;
    let mut runs = 0;
    db.write(|tx| {
        runs += 1;
        let count = table.get(tx, &0)?.unwrap_or(0);
        if runs == 1 {
            // Another thread changes a value that this transaction has read.
            std::thread::scope(|threads| {
                threads.spawn(|| db.write(|tx| table.insert(tx, &0, &7)).unwrap());
            });
        }
        table.insert(tx, &0, &(count + 1))
    })?;
    let after = db.statistics()?;
    assert_eq!(runs, 2);
    assert_eq!((after.commits - before.commits, after.conflicts - before.conflicts), (2, 1));
    // In this domain nothing waits for a disk.
    assert_eq!((after.writes.count(), after.device.log_writes), (0, 0));
    Ok(())
}

/// Records the names of spans and the texts of events.
#[derive(Default)]
struct Log {
    next: AtomicU64,
    seen: Mutex<Vec<String>>,
}

struct Listener(Arc<Log>);

impl Subscriber for Listener {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target() == "strandline"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = format!("{}:", span.metadata().name());
        span.record(&mut |field: &Field, value: &dyn Debug| text += &format!(" {}={value:?}", field.name()));
        self.0.seen.lock().unwrap().push(text);
        Id::from_u64(1 + self.0.next.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = format!("{}:", event.metadata().level());
        event.record(&mut |field: &Field, value: &dyn Debug| text += &format!(" {}={value:?}", field.name()));
        self.0.seen.lock().unwrap().push(text);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn subscribers_are_told() -> strandline::Result<()> {
    let (folder, log) = (folder(), Arc::<Log>::default());
    let path = folder.path().join("orders.db");
    // The subscriber is set for all threads of the process: if another thread met a span first without a subscriber, no subscriber would see it
    // later.
    tracing::subscriber::set_global_default(Listener(log.clone())).expect("no other test has a subscriber");
    let options = Options { slow_transaction: Duration::ZERO, ..Options::default() };
    let db = Database::open_with(&path, &options)?;
    let table = db.table::<u64, u64>("numbers")?;
    db.write(|tx| table.insert(tx, &1, &1))?;
    db.checkpoint()?;
    db.compact()?;
    db.backup(folder.path().join("copy.db"))?;
    db.close()?;
    Database::open(&path)?.close()?;
    let seen = log.seen.lock().unwrap();
    let is_seen = |what: &str| seen.iter().any(|seen| seen.starts_with(what) && seen.contains("orders.db"));
    for span in ["create:", "open:", "recover:", "checkpoint:", "compact:", "backup:"] {
        assert!(is_seen(span), "no span {span} {seen:?}");
    }
    assert!(is_seen("WARN: message=slow transaction"), "{seen:?}");
    // The event names the line that called `write`.
    assert!(seen.iter().any(|event| event.starts_with("WARN") && event.contains(file!())), "{seen:?}");
    Ok(())
}

/// Records the published metrics.
#[derive(Default)]
struct Recorder(Mutex<std::collections::BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder {
    fn of(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        self.0.lock().unwrap().entry(format!("{} {}", key.name(), labels.join(" "))).or_default().clone()
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[test]
fn recorders_get_the_statistics() -> strandline::Result<()> {
    let folder = folder();
    let db = Database::open(folder.path().join("db"))?;
    let table = db.table::<u64, u64>("numbers")?;
    db.write(|tx| table.insert(tx, &1, &1))?;
    let statistics = db.statistics()?;
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || statistics.publish("orders"));
    let published = recorder.0.into_inner().unwrap();
    let value = |name: &str| published[name].load(Ordering::Relaxed);
    assert_eq!(value("strandline_commits_total pool=orders"), statistics.commits);
    assert_eq!(value("strandline_log_writes_total pool=orders"), statistics.device.log_writes);
    let longest = "strandline_duration_seconds pool=orders what=write quantile=1";
    assert_eq!(f64::from_bits(value(longest)), statistics.writes.max().as_secs_f64());
    Ok(())
}
