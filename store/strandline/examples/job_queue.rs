//! A queue of jobs for several workers, none of which is lost when the program is killed.
//!
//! ```text
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db add "resize photo.jpg" "send report"
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db work
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db status
//! ```
//!
//! Taking a job moves it from the queue to the jobs under way, in one transaction. So a job is always in exactly one
//! place, and what was under way when the program died goes back to the queue at the next start.

use strandline::{HashMap, Options, OrderedMap, Persist, Queue, Result, Store};

#[derive(Persist)]
struct Jobs<'p> {
    /// The text of every job that is not done.
    texts: HashMap<'p, u64, String>,
    waiting: Queue<'p, u64>,
    under_way: OrderedMap<'p, u64, ()>,
    last_number: u64,
    done: u64,
}

fn add(store: &Store<Jobs>, text: &str) -> Result<u64> {
    store.write(|tx, root| {
        let number = root.update(tx, |jobs| {
            jobs.last_number += 1;
            jobs.last_number
        })?;
        let jobs = root.get(tx)?;
        jobs.texts.insert(tx, &number, &text.to_string())?;
        jobs.waiting.push(tx, &number)?;
        Ok(number)
    })
}

/// Takes the oldest job: its number and text.
fn take(store: &Store<Jobs>) -> Result<Option<(u64, String)>> {
    store.write(|tx, root| {
        let jobs = root.get(tx)?;
        let Some(number) = jobs.waiting.pop(tx)? else { return Ok(None) };
        jobs.under_way.insert(tx, &number, &())?;
        Ok(jobs.texts.get(tx, &number)?.map(|text| (number, text)))
    })
}

fn finish(store: &Store<Jobs>, number: u64) -> Result<()> {
    store.write(|tx, root| {
        let jobs = root.get(tx)?;
        jobs.under_way.remove(tx, &number)?;
        jobs.texts.remove(tx, &number)?;
        root.update(tx, |jobs| jobs.done += 1)
    })
}

/// Puts the jobs that were under way when the program died back into the queue.
fn resume(store: &Store<Jobs>) -> Result<u64> {
    store.write(|tx, root| {
        let jobs = root.get(tx)?;
        let mut resumed = 0;
        while let Some((number, ())) = jobs.under_way.first(tx)? {
            jobs.under_way.remove(tx, &number)?;
            jobs.waiting.push(tx, &number)?;
            resumed += 1;
        }
        Ok(resumed)
    })
}

fn work(store: &Store<Jobs>) -> Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn(move || {
                    while let Some((number, text)) = take(store)? {
                        println!("worker {worker}: job {number}: {text}");
                        finish(store, number)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((path, command)) = arguments.split_first() else {
        eprintln!("usage: job_queue FILE add TEXT… | work | status");
        std::process::exit(2);
    };
    let options = Options { layout_name: "jobs".into(), ..Options::default() };
    let store = Store::<Jobs>::open(path, &options, |tx| {
        Ok(Jobs {
            texts: HashMap::new(tx)?,
            waiting: Queue::new(tx)?,
            under_way: OrderedMap::new(tx)?,
            last_number: 0,
            done: 0,
        })
    })?;
    let resumed = resume(&store)?;
    if resumed > 0 {
        println!("{resumed} jobs were under way when the program died");
    }
    match command.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["add", texts @ ..] => {
            for text in texts {
                println!("job {}", add(&store, text)?);
            }
        }
        ["work"] => work(&store)?,
        _ => {
            let (waiting, done) = store.read(|tx, root| {
                let jobs = root.get(tx)?;
                Ok((jobs.waiting.iter(tx)?.count(), jobs.done))
            })?;
            println!("{waiting} jobs wait, {done} are done");
        }
    }
    store.close()
}
