use strandline_core::Result;
use strandline::{Ptr, Store};

fn copy(one: &Store<u64>, other: &Store<u64>) -> Result<()> {
    one.write(|a, _| {
        other.write(|b, _| {
            let number = Ptr::new(a, &5u64)?;
            number.set(b, &6)
        })
    })
}

fn main() {}
