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

/// A program. Every store has a value of its own, and each thread ends by storing both its registers to a line of
/// its own: what was loaded shows in what persists. Without that hardly any program told a model that lets
/// loads read too old a store from the right one.
pub fn random(rng: &mut Rng, shape: Shape) -> Test {
    // The first locations make sure that each line has one.
    let line =
        |rng: &mut Rng, index: usize| if index < shape.lines { index } else { rng.usize(..shape.lines) };
    let mut lines: Vec<usize> = (0..shape.locations).map(|index| line(rng, index)).collect();
    let mut threads: Vec<Vec<Operation>> = Vec::new();
    for thread in 0..shape.threads {
        let length = rng.usize(2..=shape.operations);
        let value = |at: usize| (10 * (thread + 1) + at) as u64;
        let mut operations: Vec<Operation> =
            (0..length).map(|at| operation(rng, shape, value(at), length - at - 1)).collect();
        let loaded: Vec<usize> = operations.iter().filter_map(Operation::writes_register).collect();
        for register in (0..2).filter(|register| loaded.contains(register)) {
            let (location, value) = (lines.len(), Operand::Register(register));
            operations.push(Operation::Store { location, value, non_temporal: false });
            lines.push(shape.lines + thread);
        }
        threads.push(operations);
    }
    let location = |(index, &line)| Location { name: format!("l{index}"), line };
    Test {
        name: "random".into(),
        lines: (0..shape.lines + shape.threads).map(|line| format!("L{line}")).collect(),
        locations: lines.iter().enumerate().map(location).collect(),
        threads,
        asks: vec![Ask { text: "l0=1".into(), values: vec![(0, 1)] }],
    }
}

fn operation(rng: &mut Rng, shape: Shape, value: u64, left: usize) -> Operation {
    let location = rng.usize(..shape.locations);
    let line = rng.usize(..shape.lines);
    let register = rng.usize(..2);
    let value = if rng.u8(..8) == 0 { Operand::Register(register) } else { Operand::Number(value) };
    match rng.u8(..24) {
        0..=5 => Operation::Store { location, value, non_temporal: false },
        6 => Operation::Store { location, value, non_temporal: true },
        7..=12 => Operation::Load { register, location },
        13 => Operation::CompareExchange { register, location, expected: Operand::Number(0), new: value },
        14 => Operation::FetchAdd { register, location, amount: Operand::Number(rng.u64(..=1)) },
        15 | 16 => Operation::Clflush { line },
        17 | 18 => Operation::WriteBack { line },
        19 | 20 => Operation::Sfence,
        21 | 22 => Operation::Mfence,
        _ if left > 0 => Operation::If { register, equals: 0, operations: rng.usize(1..=left) },
        _ => Operation::Store { location, value, non_temporal: false },
    }
}
