//! Answers requests from a database.

use std::ops::Bound;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Request;
use crate::described::dynamic::Dynamic;
use crate::described::shown::TableKind;
use crate::value::transaction::Control;
use crate::{Database, Durations};
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

impl<C: Control<Memory = Native>> Database<C> {
    /// Answers a request: calls `line` with each object of the answer, in order. If `line` returns an error, the answer ends.
    ///
    /// ```
    /// # use strandline::*;
    /// use strandline::control::Request;
    ///
    /// let db = Database::in_memory()?;
    /// let names = db.table::<u64, String>("names")?;
    /// db.write(|tx| names.insert(tx, &7, "Ann"))?;
    /// let mut lines = Vec::new();
    /// db.answer(&Request::Get { table: "names".into(), key: 7.into() }, |line| {
    ///     lines.push(line.to_string());
    ///     Ok(())
    /// })?;
    /// assert_eq!(lines, [r#"{"key":7,"value":"Ann"}"#]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NoTable`], [`Error::Parameter`] if a key has another type than the table's, the errors of the request itself, and those of
    /// `line`.
    pub fn answer(&self, request: &Request, mut line: impl FnMut(Value) -> Result<()>) -> Result<()> {
        match request {
            Request::List => self.list_all(|table, rows| line(table.to_json(rows))),
            Request::Usage => line(self.usage_as_json()?),
            Request::Statistics => line(self.statistics_as_json()?),
            Request::Checkpoint => self.checkpoint(),
            Request::Get { table, key } => {
                let key = key_of(key)?;
                self.dump_range(table, Some(&key), Bound::Included(&key), |key, value| {
                    line(row(TableKind::Table, &key, &value)).map(|()| true)
                })
            }
            Request::Range { table, from, to, limit } => {
                let from = from.as_ref().map(key_of).transpose()?;
                let to = to.as_ref().map(key_of).transpose()?;
                let mut rest = limit.unwrap_or(u64::MAX);
                if rest == 0 {
                    return Ok(());
                }
                let to = to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                self.dump_range(table, from.as_ref(), to, |key, value| {
                    rest -= 1;
                    line(row(TableKind::Table, &key, &value)).map(|()| rest > 0)
                })
            }
            Request::Dump { table } => {
                let mut is_there = table.is_none();
                // Two closures write lines, so they share this one.
                let line = std::cell::RefCell::new(line);
                let put = |object| (*line.borrow_mut())(object);
                self.dump_all(
                    |name| table.as_ref().is_none_or(|wanted| wanted == name),
                    |about, rows| {
                        is_there = true;
                        put(about.to_json(Some(rows)))
                    },
                    |about, key, value| put(row(about.kind, &key, &value)),
                )?;
                match table {
                    Some(name) if !is_there => Err(Error::NoTable { name: name.clone() }),
                    _ => Ok(()),
                }
            }
            Request::Backup { to } => {
                let report = self.backup(to)?;
                line(json!({
                    "heap_bytes": report.heap_bytes, "log_blocks": report.log_blocks, "replayed": report.replayed,
                }))
            }
        }
    }

    fn usage_as_json(&self) -> Result<Value> {
        let (heap, space, snapshots) = (self.usage()?, self.space()?, self.snapshot_usage()?);
        Ok(json!({
            "heap": {
                "total_bytes": heap.total_bytes, "allocated_bytes": heap.allocated_bytes, "objects": heap.objects,
                "free_chunks": heap.free_chunks, "partial_chunks": heap.partial_chunks, "free_block_bytes": heap.free_block_bytes,
            },
            "space": {
                "file_bytes": space.file_bytes, "disk_bytes": space.disk_bytes, "log_disk_bytes": space.log_disk_bytes,
            },
            "snapshots": { "count": snapshots.snapshots, "versions": snapshots.versions, "most_versions": snapshots.most_versions, "ended": snapshots.ended },
        }))
    }

    fn statistics_as_json(&self) -> Result<Value> {
        let all = self.statistics()?;
        let device = all.device;
        Ok(json!({
            "commits": all.commits, "reads": all.reads, "conflicts": all.conflicts, "given_up": all.given_up,
            "record_bytes": all.record_bytes, "slow_writes": all.slow_writes,
            "device": {
                "log_writes": device.log_writes, "log_bytes": device.log_bytes, "heap_writes": device.heap_writes,
                "heap_bytes": device.heap_bytes, "heap_flushes": device.heap_flushes,
            },
            "log_write_seconds": durations(&all.log_writes), "checkpoint_seconds": durations(&all.checkpoints),
            "write_seconds": durations(&all.writes),
        }))
    }
}

fn durations(of: &Durations) -> Value {
    let seconds = |duration: Duration| duration.as_secs_f64();
    json!({
        "count": of.count(), "mean": seconds(of.mean()), "median": seconds(of.quantile(0.5)), "p99": seconds(of.quantile(0.99)),
        "p999": seconds(of.quantile(0.999)), "max": seconds(of.max()),
    })
}

fn key_of(json: &Value) -> Result<Dynamic> {
    Dynamic::from_json(json).ok_or_else(|| Error::Parameter(format!("{json} cannot be a key")))
}

/// Returns a row as a line. An item of a queue has no key.
fn row(kind: TableKind, key: &Dynamic, value: &Dynamic) -> Value {
    let mut row = Map::new();
    if kind != TableKind::Queue {
        row.insert("key".into(), key.to_json());
    }
    row.insert("value".into(), value.to_json());
    Value::Object(row)
}
