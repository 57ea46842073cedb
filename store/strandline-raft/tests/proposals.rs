//! Proposals that arrive together become one entry.

mod support {
    pub mod one_node;
}

use strandline::Database;
use strandline_raft::Proposals;
use support::one_node::{Put, start_one_node};

#[tokio::test]
async fn who_proposes_at_the_same_time_shares_entries_and_gets_his_own_response() {
    const CLIENTS: u64 = 64;
    const EACH: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("node.db")).unwrap();
    let raft = start_one_node(db, 1).await;
    let proposals = Proposals::new(raft.clone());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let proposals = proposals.clone();
            tokio::spawn(async move {
                for number in 0..EACH {
                    let put = Put { key: client.to_string(), value: format!("{client} {number}") };
                    let before = number.checked_sub(1).map(|number| format!("{client} {number}"));
                    assert_eq!(proposals.propose(put).await.unwrap(), before);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let entries = raft.metrics().borrow().last_applied.unwrap().index;
    assert!(entries < CLIENTS * EACH / 4, "{entries} entries for {} proposals", CLIENTS * EACH);
    raft.shutdown().await.unwrap();
    let put = Put { key: String::new(), value: String::new() };
    proposals.propose(put).await.expect_err("Raft has ended");
}
