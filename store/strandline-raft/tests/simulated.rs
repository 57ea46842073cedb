//! Three nodes in one thread, on simulated time, with a network that delays, loses and cuts off messages, and with crashes that lose everything that
//! was not flushed. A seed determines each history, which is checked for linearizability.
//!
//! `STRANDLINE_RAFT_HISTORIES=10000 cargo test --release --test simulated -- --ignored --nocapture`; it needs Go.
#![cfg(target_os = "linux")]
#![allow(dead_code, reason = "the example has more than one test uses")]

#[path = "../examples/cluster/store.rs"]
mod store;
mod support {
    #[path = "history.rs"]
    pub mod history;
    #[path = "simulation.rs"]
    pub mod simulation;
}

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use store::{Answer, Command};
use support::history::{self, Operation};
use support::simulation::{Raft, World};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

const CLIENTS: u64 = 4;
const KEYS: u64 = 3;
/// The largest number of operations of a client, and the time for which it tries.
const OPERATIONS: u64 = 50;
const LASTS: Duration = Duration::from_secs(60);

/// Random numbers from a seed, which all parts share.
type Random = Rc<RefCell<fastrand::Rng>>;

fn below(random: &Random, bound: u64) -> u64 {
    random.borrow_mut().u64(..bound)
}

async fn execute(raft: &Raft, operation: &Operation, world: &World, at: u64) -> Option<Answer> {
    let (key, value) = (operation.key.clone(), operation.value.clone());
    let command = match operation.kind {
        "get" => {
            raft.ensure_linearizable().await.ok()?;
            let state = world.state(at)?;
            let previous = state.read(|view, texts| texts.get(view, &key)).ok()?;
            return Some(Answer { previous, stored: false });
        }
        "put" => Command::Put { key, value },
        _ => Command::CompareAndSet { key, expected: operation.expected.clone(), value },
    };
    raft.client_write(command).await.ok().map(|written| written.data)
}

async fn work(client: u64, world: Rc<World>, random: Random, begun: Instant) -> Vec<Operation> {
    let mut done: Vec<Operation> = vec![];
    let mut seen: BTreeMap<String, Option<String>> = BTreeMap::new();
    let now = || u64::try_from(begun.elapsed().as_micros()).expect("it does not take so long");
    let mut number = 0;
    // There may be no leader for a while.
    while number < OPERATIONS && begun.elapsed() < LASTS {
        sleep(Duration::from_millis(below(&random, 40))).await;
        // A node that believes to lead, if there is one.
        let first = below(&random, 3);
        let leads = |raft: &Raft, at| raft.metrics().borrow().current_leader == Some(at);
        let leader = (first..first + 3).find_map(|at| {
            let at = 1 + at % 3;
            world.raft(at).filter(|raft| leads(raft, at)).map(|raft| (at, raft))
        });
        let Some((at, raft)) = leader else { continue };
        number += 1;
        let key = below(&random, KEYS).to_string();
        let mut operation = Operation {
            client,
            kind: ["get", "put", "compare"][below(&random, 3) as usize],
            value: format!("{client}-{number}"),
            expected: seen.get(&key).cloned().flatten(),
            key,
            call: now(),
            ..Operation::default()
        };
        if operation.kind != "compare" {
            operation.expected = None;
        }
        let life = world.life(at);
        match timeout(Duration::from_secs(1), execute(&raft, &operation, &world, at)).await {
            Ok(Some(Answer { previous, stored })) if world.life(at) == life => {
                let there = if stored { Some(operation.value.clone()) } else { previous.clone() };
                seen.insert(operation.key.clone(), there);
                (operation.previous, operation.stored, operation.returned) = (previous, stored, Some(now()));
                done.push(operation);
            }
            _ if operation.kind == "get" => {}
            // The operation was refused, or its outcome is unknown.
            _ => done.push(operation),
        }
    }
    done
}

async fn trouble(world: Rc<World>, random: Random) {
    loop {
        sleep(Duration::from_millis(below(&random, 400))).await;
        let id = 1 + below(&random, 3);
        let lasts = Duration::from_millis(50 + below(&random, 800));
        match below(&random, 5) {
            0 | 1 => {
                world.crash(id);
                sleep(lasts).await;
                world.start(id).await;
            }
            2 => {
                world.cut(id, true);
                sleep(lasts).await;
                world.cut(id, false);
            }
            3 => {
                world.lose(below(&random, 40));
                sleep(lasts).await;
                world.lose(0);
            }
            _ => {
                (1..=3).for_each(|id| world.crash(id));
                sleep(lasts).await;
                for id in 1..=3 {
                    world.start(id).await;
                }
            }
        }
    }
}

fn simulate(seed: u64, folder: &Path) -> (Vec<Operation>, u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    fastrand::seed(seed);
    let random: Random = Rc::new(RefCell::new(fastrand::Rng::with_seed(seed)));
    LocalSet::new().block_on(&runtime, async {
        let world = World::new(folder, seed);
        for id in 1..=3 {
            world.start(id).await;
        }
        world.initialize().await;
        let begun = Instant::now();
        let troubles = tokio::task::spawn_local(trouble(world.clone(), random.clone()));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| tokio::task::spawn_local(work(client, world.clone(), random.clone(), begun)))
            .collect();
        let mut history = vec![];
        for client in clients {
            history.extend(client.await.unwrap());
        }
        troubles.abort();
        let crashes = world.crashes();
        world.end().await;
        (history, crashes)
    })
}

#[test]
#[ignore = "takes a while, and needs Go"]
fn simulated_histories_are_linearizable() {
    let scratch = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let kept = tempfile::tempdir().unwrap().keep();
    println!("the histories are in {}", kept.display());
    let checker = history::checker(&kept);
    let first: u64 = std::env::var("STRANDLINE_RAFT_SEED").map_or(0, |seed| seed.parse().unwrap());
    let (mut operations, mut known, mut crashed) = (0, 0, 0);
    let histories = history::wanted(20);
    for seed in first..first + histories {
        let folder = scratch();
        let (history, crashes) = simulate(seed, folder.path());
        crashed += crashes;
        operations += history.len();
        known += history.iter().filter(|operation| operation.returned.is_some()).count();
        history::write(&kept.join(format!("{seed}.jsonl")), &history);
        if (seed + 1) % 100 == 0 {
            println!(
                "up to seed {seed}: {operations} operations, {known} of known outcome, {crashed} crashes"
            );
        }
    }
    println!("{histories} histories, {operations} operations, {known} of known outcome, {crashed} crashes");
    assert!(known as u64 > 5 * histories && crashed > histories / 2, "too little was done");
    history::check(&checker, &kept);
    std::fs::remove_dir_all(&kept).unwrap();
}
