use strandline::Persist;

#[derive(Persist)]
struct Reference<'p> {
    name: &'p str,
}

#[derive(Persist)]
struct Watching {
    value: std::rc::Weak<u64>,
}

#[derive(Persist)]
struct Listed {
    values: Option<std::collections::LinkedList<u64>>,
}

#[derive(Persist)]
struct Raw {
    at: *const u8,
}

#[derive(Persist)]
struct Called {
    then: Box<dyn Fn()>,
}

#[derive(Persist)]
struct Tree {
    children: Vec<Tree>,
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

#[derive(Persist)]
struct Renamed {
    #[persist(skip, was = "cache")]
    seen: u64,
}

fn main() {}
