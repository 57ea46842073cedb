use strandline_core::Result;
use strandline::{Ptr, Store};

fn copy(one: &Store<u64>, other: &Store<u64>) -> Result<()> {
    one.update(|a, _| {
        other.update(|b, _| {
            let number = Ptr::new(a, &5u64)?;
            number.set(b, &6)
        })
    })
}

fn main() {}
