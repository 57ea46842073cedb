use strandline_core::Result;
use strandline::{Ptr, Store};

fn keep(store: &Store<u64>) -> Result<()> {
    let mut kept = None;
    store.write(|tx, _| {
        kept = Some(Ptr::new(tx, &5u64)?);
        Ok(())
    })?;
    let number = store.write(|tx, _| Ptr::new(tx, &5u64))?;
    store.read(|tx, _| number.get(tx))?;
    Ok(())
}

fn main() {}
