use strandline::Persist;

#[derive(Persist)]
struct Reference<'p> {
    name: &'p str,
}

#[derive(Persist)]
struct Boxed {
    value: Box<u64>,
}

#[derive(Persist)]
struct Listed {
    values: Option<std::collections::VecDeque<u64>>,
}

#[derive(Persist)]
struct Raw {
    at: *const u8,
}

#[derive(Persist)]
struct Volatile {
    map: std::collections::HashMap<u64, u64>,
}

#[derive(Persist)]
union Either {
    number: u64,
    float: f64,
}

#[derive(Persist)]
struct TwoBrands<'p, 'q> {
    one: strandline::Text<'p>,
    other: strandline::Text<'q>,
}

fn main() {}
