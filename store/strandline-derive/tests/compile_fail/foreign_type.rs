use strandline::{Key, Persist};

struct Plain(u64);

#[derive(Persist)]
struct Holder {
    plain: Plain,
    list: Vec<Plain>,
}

#[derive(Persist)]
enum Choice<T> {
    None,
    Some { value: T, plain: (u8, Plain) },
}

#[derive(Key)]
struct Measure {
    metres: Vec<String>,
}

#[derive(Key)]
struct Id {
    number: u64,
    #[persist(skip)]
    cached: bool,
}

#[derive(Persist)]
struct Misspelt {
    #[persist(whit = module)]
    number: u64,
}

#[derive(Persist)]
struct Quoted {
    #[persist(with = "module")]
    number: u64,
}

#[derive(Persist)]
struct Page<T: Clone + Persist> {
    rows: Vec<T>,
}

fn main() {}
