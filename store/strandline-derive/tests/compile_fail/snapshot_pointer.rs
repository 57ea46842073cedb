use strandline::{Ptr, Store};

/// Pointers that are read at a snapshot are for no transaction, and those of a transaction for no snapshot.
fn mixed(store: &Store<u64>) -> strandline::Result<()> {
    let snapshot = store.snapshot()?;
    let (view, root) = snapshot.read();
    store.write(|tx, _| root.set(tx, &6))?;
    store.write(|tx, root| root.get(&view).map(|number| drop((Ptr::new(tx, &number), root))))
}

fn main() {}
