//! Runs openraft's own tests of storage.

mod support;

use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use support::{Log, Machine, Types, open};

struct Builder;

impl StoreBuilder<Types, Log, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, Log, Machine), StorageError<u64>> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (log, machine) = open(&folder.path().join("node.db"));
        Ok((folder, log, machine))
    }
}

#[test]
fn openraft_finds_nothing_wrong() {
    if let Err(error) = Suite::test_all(Builder) {
        panic!("{error}");
    }
}
