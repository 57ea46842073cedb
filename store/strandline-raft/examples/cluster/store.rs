//! The state that the nodes replicate: texts by name.

use openraft::{BasicNode, Entry, LogId, TokioRuntime};
use serde::{Deserialize, Serialize};
use strandline::{Result, Table, Tx};
use strandline_raft::{Application, Opener, SnapshotData};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    Put {
        key: String,
        value: String,
    },
    /// Stores `value` if the present text is `expected`, or if there is none and `expected` is `None`.
    CompareAndSet {
        key: String,
        expected: Option<String>,
        value: String,
    },
}

/// The previous text, and whether a text was stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub previous: Option<String>,
    pub stored: bool,
}

openraft::declare_raft_types!(
    pub Types:
        D = Command,
        R = Answer,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<Types>,
        SnapshotData = SnapshotData,
        AsyncRuntime = TokioRuntime,
);

pub struct Texts;

impl Application<Types> for Texts {
    type Tables = Table<String, String>;

    fn open(&self, opener: &mut Opener<'_>) -> Result<Self::Tables> {
        opener.table("texts")
    }

    fn apply(&self, tx: &Tx<'_>, texts: &Self::Tables, _: &LogId<u64>, command: &Command) -> Result<Answer> {
        match command {
            Command::Put { key, value } => {
                Ok(Answer { previous: texts.insert(tx, key, value)?, stored: true })
            }
            Command::CompareAndSet { key, expected, value } => {
                let previous = texts.get(tx, key)?;
                let stored = previous == *expected;
                if stored {
                    texts.insert(tx, key, value)?;
                }
                Ok(Answer { previous, stored })
            }
        }
    }
}
