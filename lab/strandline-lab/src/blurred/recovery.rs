//! Fig. 12: the duration of recovery.

use std::time::Duration;

use strandline_core::memory::WriteBackInstruction;
use strandline_core::transaction::AnyRunner;
use strandline_core::{Concurrency, Domain};
use strandline_workloads::{DEFAULT_WRITE_LATENCY_NS, HASH, PoolSetting, Prepared, Selection};

use super::figures::LOGS;
use crate::error::Error;
use crate::measurements::{Key, Measurements};
use crate::session::Session;

/// Milliseconds of the steps of recovery; a series' system is the step, or [`TOTAL`].
pub const MILLISECONDS: &str = "ms";
const FIGURE: &str = "fig12";
/// The system that stands for all steps together.
pub const TOTAL: &str = "recovery";

/// Returns the instructions; recovery is measured only on this processor.
fn instructions(session: &Session) -> Vec<WriteBackInstruction> {
    if session.natively { session.sweep_instructions() } else { Vec::new() }
}

pub fn steps(session: &Session) -> u64 {
    let settings = session.points(&LOGS).len() * instructions(session).len();
    settings as u64 * session.repetitions(FIGURE).count() as u64
}

/// Fills logs, abandons pools and opens them again, with the sizes in turn.
pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let place = session.place()?;
    let domain = Domain::Emulated { write_latency_ns: DEFAULT_WRITE_LATENCY_NS };
    let selection = Selection::new(&HASH, &session.sizes())?;
    for instruction in instructions(session) {
        let logs = session.points(&LOGS);
        let mut pools = Vec::new();
        for (log_bytes, _) in &logs {
            let path = place.folder().join(format!("recovery-{log_bytes}"));
            let (log_bytes, instruction) = (*log_bytes, Some(instruction));
            let setting =
                PoolSetting { logs: 1, log_bytes, domain, instruction, concurrency: Concurrency::Stm };
            pools.push((Prepared::new(&path, &selection, setting)?, Vec::new()));
        }
        for repetition in session.repetitions(FIGURE) {
            for ((log_bytes, _), (pool, times)) in logs.iter().zip(&mut pools) {
                pool.crash(|pool| {
                    let mut worker = AnyRunner::new(pool.worker()?);
                    let seed = session.seed.wrapping_add(repetition);
                    selection.run_while(&mut worker, seed, |so_far| {
                        so_far.log_restarts == 0 && so_far.log_bytes < log_bytes / 100 * 95
                    })?;
                    Ok(worker)
                })?;
                times.push(*pool.pool().recovery());
                session.progress.inc(1);
            }
        }
        for ((_, x), (_, times)) in logs.iter().zip(&pools) {
            let mut add = |system, quantity, of: &dyn Fn(&strandline_core::file::Recovery) -> f64| {
                let values: Vec<f64> = times.iter().map(of).collect();
                let key = Key { figure: FIGURE, setting: instruction.name(), system, quantity };
                into.add_repetitions(key, x, &values);
            };
            let ms = |time: Duration| 1000.0 * time.as_secs_f64();
            add("scan", MILLISECONDS, &|r| ms(r.scan));
            add("sort", MILLISECONDS, &|r| ms(r.sort));
            add("replay", MILLISECONDS, &|r| ms(r.replay));
            add("truncate", MILLISECONDS, &|r| ms(r.truncate));
            add(TOTAL, MILLISECONDS, &|r| ms(r.scan + r.sort + r.replay + r.truncate));
            add(TOTAL, "transactions replayed", &|r| r.replayed() as f64);
        }
    }
    Ok(())
}
