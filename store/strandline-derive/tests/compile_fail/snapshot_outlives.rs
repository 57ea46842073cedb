use strandline::{Database, SnapshotView, Table};

/// A view lasts no longer than its snapshot, nor an iterator than its view.
fn view(db: &Database) -> strandline::Result<SnapshotView<'_>> {
    let snapshot = db.snapshot()?;
    Ok(snapshot.read())
}

fn iterator(db: &Database, table: &Table<u64, u64>) -> strandline::Result<()> {
    let snapshot = db.snapshot()?;
    let mut rows = table.iter(&snapshot.read())?;
    rows.next();
    Ok(())
}

fn main() {}
