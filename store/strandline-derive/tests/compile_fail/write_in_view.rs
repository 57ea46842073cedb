use strandline_core::Result;
use strandline::{HashMap, Persist, Ptr, Store};

#[derive(Persist)]
struct Index<'p> {
    numbers: HashMap<'p, u64, u64>,
}

fn write(store: &Store<Index<'static>>) -> Result<()> {
    store.read(|tx, root| root.get(tx)?.numbers.insert(tx, &1, &2))?;
    store.read(|tx, _| Ptr::new(tx, &5u64).map(drop))
}

fn main() {}
