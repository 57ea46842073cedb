use strandline_core::Result;
use strandline::{Ptr, Store};

fn keep(store: &Store<u64>) -> Result<()> {
    let mut kept = None;
    store.update(|tx, _| {
        kept = Some(Ptr::new(tx, &5u64)?);
        Ok(())
    })?;
    let number = store.update(|tx, _| Ptr::new(tx, &5u64))?;
    store.view(|tx, _| number.get(tx))?;
    Ok(())
}

fn main() {}
