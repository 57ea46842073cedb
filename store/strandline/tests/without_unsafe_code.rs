//! The derives are for programs that forbid unsafe code, too.

#![forbid(unsafe_code)]

use strandline::{HashMap, Key, Persist, Ptr};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Id {
    Number(u64),
    Name(String),
}

#[derive(Persist)]
struct Node<'p> {
    names: HashMap<'p, Id, u64>,
    next: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Clone, Copy, Persist)]
enum Colour {
    Red,
    Mixed(u8, u8, u8),
}

fn main() {}
