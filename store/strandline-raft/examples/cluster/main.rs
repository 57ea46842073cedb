//! Three nodes on this machine that replicate texts by name, for trying what replication does. It is not a product: it does not authenticate clients,
//! and the members never change.
//!
//! ```text
//! cargo run --example cluster -- start                       three nodes, until this is interrupted
//! cargo run --example cluster -- put colour blue
//! cargo run --example cluster -- get colour
//! cargo run --example cluster -- range a z
//! cargo run --example cluster -- compare-and-set colour blue green
//! cargo run --example cluster -- status
//! cargo run --example cluster -- kill 2                      kills a node
//! cargo run --example cluster -- node 2                      starts it again
//! ```
//!
//! The nodes listen on 127.0.0.1, at ports 7101 to 7103, and keep their files in the folder `cluster` in the system's folder for temporary files.

mod network;
mod node;
mod store;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use node::{Exchange, Settings};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const NODES: std::ops::RangeInclusive<u64> = 1..=3;

fn address(id: u64) -> String {
    format!("127.0.0.1:{}", 7100 + id)
}

fn folder(id: u64) -> PathBuf {
    std::env::temp_dir().join("cluster").join(id.to_string())
}

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["start"] => start().await,
        ["node", id] => run(number(id)?).await,
        ["kill", id] => kill(number(id)?),
        ["status"] => status().await,
        ["put", key, value] => {
            ask(|client, node| client.put(format!("http://{node}/texts/{key}")).body(value.to_owned())).await
        }
        ["get", key] => ask(|client, node| client.get(format!("http://{node}/texts/{key}"))).await,
        ["range", from, to] => {
            ask(|client, node| {
                let bounds = node::Range { from: from.into(), to: to.into() };
                client.get(format!("http://{node}/texts")).query(&bounds)
            })
            .await
        }
        ["compare-and-set", key, expected, value] => {
            ask(|client, node| {
                let exchange = Exchange { expected: Some(expected.into()), value: value.into() };
                client.patch(format!("http://{node}/texts/{key}")).json(&exchange)
            })
            .await
        }
        _ => Err("start | node N | kill N | status | put KEY VALUE | get KEY | range FROM TO | \
                  compare-and-set KEY EXPECTED VALUE"
            .into()),
    }
}

fn number(id: &str) -> Outcome<u64> {
    id.parse()
        .ok()
        .filter(|id| NODES.contains(id))
        .ok_or_else(|| format!("there is no node {id}: 1, 2 or 3").into())
}

async fn start() -> Outcome {
    let program = std::env::current_exe()?;
    let nodes: Vec<_> = NODES
        .map(|id| Command::new(&program).args(["node", &id.to_string()]).stdin(Stdio::null()).spawn())
        .collect::<Result<_, _>>()?;
    println!("three nodes at {}; Ctrl-C ends them", NODES.map(address).collect::<Vec<_>>().join(", "));
    tokio::signal::ctrl_c().await?;
    for mut node in nodes {
        // The node may have been killed.
        let _ = node.kill();
        node.wait()?;
    }
    Ok(())
}

async fn run(id: u64) -> Outcome {
    std::fs::create_dir_all(folder(id))?;
    std::fs::write(folder(id).join("process"), std::process::id().to_string())?;
    let members: BTreeMap<u64, String> = NODES.map(|id| (id, address(id))).collect();
    node::run(Settings { id, folder: folder(id), members, routes: BTreeMap::new(), snapshot_every: 1000 })
        .await
}

fn kill(id: u64) -> Outcome {
    let process = std::fs::read_to_string(folder(id).join("process"))?;
    let done = Command::new("kill").args(["-KILL", process.trim()]).status()?;
    if done.success() { Ok(()) } else { Err(format!("node {id} does not run").into()) }
}

async fn status() -> Outcome {
    let client = reqwest::Client::new();
    for id in NODES {
        match client.get(format!("http://{}/status", address(id))).send().await {
            Ok(status) => println!("{}", status.text().await?),
            Err(_) => println!("node {id} does not answer"),
        }
    }
    Ok(())
}

/// Asks one node after the other until one answers. Nodes that do not lead name the leader, and the client follows.
async fn ask(request: impl Fn(&reqwest::Client, &str) -> reqwest::RequestBuilder) -> Outcome {
    let client = reqwest::Client::new();
    for id in NODES {
        if let Ok(answer) = request(&client, &address(id)).send().await
            && answer.status().is_success()
        {
            println!("{}", answer.text().await?);
            return Ok(());
        }
    }
    Err("no node answers, or they have no leader".into())
}
