use strandline::{Database, SnapshotView, Table};

/// A view must not outlive its snapshot, nor an iterator its view.
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
