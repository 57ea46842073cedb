//! A program cannot make a handle from a number.

use strandline::{Persist, Ptr, Stored};

fn load<'p>() -> Ptr<'p, u64> {
    Ptr::load(&[4096], Stored::new()).unwrap()
}

fn decode<'p>() -> Ptr<'p, u64> {
    Ptr::decode(&[4096], 8, Stored(std::marker::PhantomData)).unwrap()
}

fn main() {}
