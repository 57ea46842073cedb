use strandline::{Key, Persist};

struct Plain(u64);

#[derive(Persist)]
struct Holder {
    plain: Plain,
}

#[derive(Key)]
struct Measure {
    metres: f64,
}

fn main() {}
