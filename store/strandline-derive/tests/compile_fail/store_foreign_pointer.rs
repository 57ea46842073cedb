use strandline_core::Result;
use strandline::{HashMap, Persist, Ptr, Store};

#[derive(Persist)]
struct Index<'p> {
    numbers: HashMap<'p, u64, Ptr<'p, u64>>,
}

fn copy(one: &Store<Index<'static>>, other: &Store<Index<'static>>) -> Result<()> {
    one.write(|a, first| {
        let number = first.get(a)?.numbers.get(a, &1)?.unwrap();
        other.write(|b, second| second.get(b)?.numbers.insert(b, &1, &number).map(drop))
    })
}

fn main() {}
