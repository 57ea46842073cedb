//! Random small programs.

use fastrand::Rng;

use super::Test;
use crate::litmus::{Ask, Location, Operand, Operation};

/// How large programs are.
#[derive(Clone, Copy)]
pub struct Shape {
    pub threads: usize,
    pub locations: usize,
    pub lines: usize,
    /// At most, in each thread.
    pub operations: usize,
}

/// A program. Values are small so that registers and memory meet; stores take registers as well as numbers, so
/// that what is loaded shows in what persists.
pub fn random(rng: &mut Rng, shape: Shape) -> Test {
    let location = |rng: &mut Rng, index: usize| Location {
        name: format!("l{index}"),
        // Each line has at least one.
        line: if index < shape.lines { index } else { rng.usize(..shape.lines) },
    };
    let locations: Vec<Location> = (0..shape.locations).map(|index| location(rng, index)).collect();
    let threads = (0..shape.threads)
        .map(|_| {
            let operations = rng.usize(2..=shape.operations);
            (0..operations).map(|at| operation(rng, shape, operations - at - 1)).collect()
        })
        .collect();
    Test {
        name: "random".into(),
        lines: (0..shape.lines).map(|line| format!("L{line}")).collect(),
        locations,
        threads,
        asks: vec![Ask { text: "l0=1".into(), values: vec![(0, 1)] }],
    }
}

fn operation(rng: &mut Rng, shape: Shape, left: usize) -> Operation {
    let location = rng.usize(..shape.locations);
    let line = rng.usize(..shape.lines);
    let register = rng.usize(..2);
    let operand = |rng: &mut Rng| match rng.u8(..4) {
        0 => Operand::Register(rng.usize(..2)),
        _ => Operand::Number(rng.u64(1..=2)),
    };
    match rng.u8(..24) {
        0..=6 => Operation::Store { location, value: operand(rng), non_temporal: false },
        7 => Operation::Store { location, value: operand(rng), non_temporal: true },
        8..=11 => Operation::Load { register, location },
        12 => Operation::CompareExchange {
            register,
            location,
            expected: Operand::Number(rng.u64(..=1)),
            new: operand(rng),
        },
        13 => Operation::FetchAdd { register, location, amount: Operand::Number(rng.u64(..=1)) },
        14 | 15 => Operation::Clflush { line },
        16..=18 => Operation::WriteBack { line },
        19 | 20 => Operation::Sfence,
        21 => Operation::Mfence,
        _ if left > 0 => Operation::If { register, equals: rng.u64(..=1), operations: rng.usize(1..=left) },
        _ => Operation::Store { location, value: operand(rng), non_temporal: false },
    }
}
