use strandline::{Ptr, Store};

/// A transaction cannot use pointers that were read at a snapshot, nor a snapshot those of a transaction.
fn mixed(store: &Store<u64>) -> strandline::Result<()> {
    let snapshot = store.snapshot()?;
    let (view, root) = snapshot.read();
    store.write(|tx, _| root.set(tx, &6))?;
    store.write(|tx, root| root.get(&view).map(|number| drop((Ptr::new(tx, &number), root))))
}

fn main() {}
