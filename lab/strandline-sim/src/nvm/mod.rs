//! Memory devices: banks with row buffers behind a bus. The same model with other figures represents DRAM.

use crate::description::{Description, Device, LINE_BYTES};
use crate::network::Calendars;
use crate::numbers::Cycle;
use crate::statistics::BankStatistics;

/// Marks a bank without an open row.
const NO_ROW: u64 = u64::MAX;

/// The banks of one channel.
#[derive(Clone)]
pub struct Banks {
    banks: Vec<Bank>,
    bus: Calendars,
    read: u64,
    write: u64,
    row_hit: u64,
    /// The time to close a row and open another one before a write.
    activation: u64,
    /// The time from a write's command until the bus carries its line.
    write_latency: u64,
    /// The time from the end of a line's transfer or programming until the controller answers.
    interface: u64,
    burst: u64,
    /// Lines in a row; 0 without row buffers.
    row_lines: u64,
    /// Consecutive lines of a bank.
    bank_lines: u64,
}

#[derive(Clone)]
struct Bank {
    /// When it can take a command for its open row.
    free: Cycle,
    /// When its row can be closed: when the last line that was read has left it.
    closes: Cycle,
    /// When the command of its last access was sent to the open row.
    sent: Cycle,
    row: u64,
    statistics: BankStatistics,
}

impl Banks {
    /// Creates the banks that `device` describes, in cycles of `machine`.
    pub fn new(device: &Device, machine: &Description) -> Self {
        let burst_ns = match device.gigabytes_per_s {
            0.0 => 0.0,
            rate => LINE_BYTES as f64 / rate,
        };
        let bank = || Bank {
            free: Cycle::ZERO,
            closes: Cycle::ZERO,
            sent: Cycle::ZERO,
            row: NO_ROW,
            statistics: BankStatistics::default(),
        };
        Self {
            banks: (0..device.banks).map(|_| bank()).collect(),
            bus: Calendars::new(1),
            read: machine.cycles(device.read_ns),
            write: machine.cycles(device.write_ns),
            row_hit: machine.cycles(device.row_hit_ns),
            activation: machine.cycles(device.activation_ns),
            write_latency: machine.cycles(device.write_latency_ns),
            interface: machine.cycles(device.interface_ns),
            burst: machine.cycles(burst_ns),
            row_lines: device.row_buffer_bytes / LINE_BYTES,
            bank_lines: match device.bank_bytes {
                0 => device.row_buffer_bytes.max(LINE_BYTES),
                bytes => bytes,
            } / LINE_BYTES,
        }
    }

    /// Returns the number of banks.
    pub fn count(&self) -> usize {
        self.banks.len()
    }

    /// Returns the bank of the channel's line number `line`.
    pub fn bank_of(&self, line: u64) -> usize {
        (line / self.bank_lines) as usize % self.banks.len()
    }

    fn row_of(&self, line: u64) -> u64 {
        line / self.row_lines.max(1)
    }

    /// Returns when `bank` was sent the command of its last access.
    pub fn command_sent(&self, bank: usize) -> Cycle {
        self.banks[bank].sent
    }

    /// Returns whether the row of `line` is open in bank `number`.
    pub fn is_open(&self, number: usize, line: u64) -> bool {
        self.row_lines != 0 && self.banks[number].row == self.row_of(line)
    }

    /// Returns when the bank of `line` can begin to write it. In the open row the command overlaps the end of the previous access.
    pub fn write_ready(&self, line: u64) -> Cycle {
        let number = self.bank_of(line);
        let bank = &self.banks[number];
        match self.is_open(number, line) {
            true => bank.free.before(self.write_latency),
            false => bank.closes,
        }
    }

    /// Reads a line from `at` on, or when its bank is free. Returns when the controller has it.
    pub fn read(&mut self, line: u64, at: Cycle) -> Cycle {
        let (number, row) = (self.bank_of(line), self.row_of(line));
        let hit = self.is_open(number, line);
        let bank = &mut self.banks[number];
        let begin = at.max(if hit { bank.free } else { bank.closes });
        let latency = if hit { self.row_hit } else { self.read };
        bank.statistics.reads += 1;
        bank.statistics.row_hits += u64::from(hit);
        bank.statistics.activations += u64::from(!hit);
        bank.statistics.busy_cycles += latency;
        bank.statistics.wait_cycles += begin - at;
        bank.row = row;
        bank.sent = begin + latency.saturating_sub(self.row_hit);
        bank.free = begin + latency;
        let arrived = self.bus.reserve(0, begin + latency, self.burst) + self.burst;
        bank.closes = if self.row_lines == 0 { bank.free } else { arrived };
        arrived + self.interface
    }

    /// Writes a line from `at` on, or when its bank is free. Returns when the controller knows that it is on the medium.
    pub fn write(&mut self, line: u64, at: Cycle) -> Cycle {
        let (number, row) = (self.bank_of(line), self.row_of(line));
        let begin = at.max(self.write_ready(line));
        let activation = if self.is_open(number, line) { 0 } else { self.activation };
        let sent = begin + activation + self.write_latency;
        let arrived = self.bus.reserve(0, sent, self.burst) + self.burst;
        let bank = &mut self.banks[number];
        bank.statistics.writes += 1;
        bank.statistics.activations += u64::from(activation > 0);
        bank.statistics.busy_cycles += arrived - begin + self.write;
        bank.row = row;
        bank.sent = begin + activation;
        bank.free = arrived + self.write;
        bank.closes = bank.free;
        bank.free + self.interface
    }

    /// Returns the counts of each bank.
    pub fn statistics(&self) -> Vec<BankStatistics> {
        self.banks.iter().map(|bank| bank.statistics).collect()
    }

    /// Sets all counts to zero: the region of interest begins.
    pub fn reset_statistics(&mut self) {
        self.banks.iter_mut().for_each(|bank| bank.statistics = BankStatistics::default());
    }
}
