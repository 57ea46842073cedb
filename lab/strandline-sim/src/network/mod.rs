//! The on-chip network, which connects cores, banks of the shared levels, and memory controllers.

mod calendar;

pub use calendar::Calendars;

use crate::description::{Description, LINE_BYTES, Network as Described, Placement, Sharing};
use crate::numbers::{CoreId, Cycle};
use crate::statistics::NetworkStatistics;

/// A sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A core with its private caches.
    Core(CoreId),
    /// A bank of the first shared level, or the directory's slice if there is no shared level.
    Bank(usize),
    /// A memory controller, by its number.
    Controller(usize),
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request, an acknowledgement.
    Control,
    /// A line's 64 bytes, after the header.
    Data,
}

/// Bytes of a message's header.
const HEADER_BYTES: u64 = 8;

/// The connection of cores, cache banks and controllers.
pub struct Network {
    kind: Kind,
    /// Its counts.
    pub statistics: NetworkStatistics,
}

enum Kind {
    Fixed(u64),
    Mesh(Mesh),
}

struct Mesh {
    columns: usize,
    /// The row and the column of each tile.
    places: Vec<(usize, usize)>,
    hop_latency: u64,
    control_flits: u64,
    data_flits: u64,
    tiles: usize,
    /// The links of all tiles to the east, then those to the west, the south and the north.
    links: Calendars,
    controllers: Vec<usize>,
}

impl Network {
    /// Creates the network of a machine.
    pub fn new(machine: &Description) -> Self {
        let kind = match machine.network {
            Described::Fixed { latency } => Kind::Fixed(latency),
            Described::Mesh { rows, flit_bytes, hop_latency } => {
                let shared = machine.caches.iter().find(|level| level.sharing == Sharing::Shared);
                let tiles = machine.cores.count.max(shared.map_or(1, |level| level.banks));
                let columns = tiles.div_ceil(rows);
                let controllers = (0..machine.controllers.count)
                    .map(|number| match machine.controllers.placement {
                        Placement::Corners => {
                            let corner =
                                [0, columns - 1, (rows - 1) * columns, rows * columns - 1][number % 4];
                            corner.min(rows * columns - 1)
                        }
                        Placement::Edge => number * rows / machine.controllers.count * columns,
                    })
                    .collect();
                Kind::Mesh(Mesh {
                    columns,
                    places: (0..rows * columns).map(|tile| (tile / columns, tile % columns)).collect(),
                    hop_latency,
                    control_flits: HEADER_BYTES.div_ceil(flit_bytes),
                    data_flits: (HEADER_BYTES + LINE_BYTES).div_ceil(flit_bytes),
                    tiles: rows * columns,
                    links: Calendars::new(4 * rows * columns),
                    controllers,
                })
            }
        };
        Self { kind, statistics: NetworkStatistics::default() }
    }

    /// Sends a message at `at`. Returns when it arrives.
    pub fn send(&mut self, from: Node, to: Node, message: Message, at: Cycle) -> Cycle {
        self.statistics.messages += 1;
        match &mut self.kind {
            Kind::Fixed(latency) => at + *latency,
            Kind::Mesh(mesh) => {
                let (arrived, hops, waited) = mesh.send(from, to, message, at);
                self.statistics.hops += hops;
                self.statistics.wait_cycles += waited;
                arrived
            }
        }
    }
}

impl Mesh {
    /// Returns the tile of a node.
    fn tile(&self, node: Node) -> usize {
        let number = match node {
            Node::Core(core) => core.index(),
            Node::Bank(number) => number,
            Node::Controller(number) => return self.controllers[number],
        };
        if number < self.tiles { number } else { number % self.tiles }
    }

    /// Routes first along the row, then along the column. The head moves hop by hop, and the tail follows.
    fn send(&mut self, from: Node, to: Node, message: Message, at: Cycle) -> (Cycle, u64, u64) {
        let flits = match message {
            Message::Control => self.control_flits,
            Message::Data => self.data_flits,
        };
        let (mut tile, target) = (self.tile(from), self.tile(to));
        if tile == target {
            return (at, 0, 0);
        }
        let ((row, column), (target_row, target_column)) = (self.places[tile], self.places[target]);
        let (mut time, mut waited) = (at, 0);
        let mut go = |hops: usize, direction: usize, step: usize| {
            for _ in 0..hops {
                let begin = self.links.reserve(direction * self.tiles + tile, time, flits);
                waited += begin - time;
                time = begin + self.hop_latency;
                tile = tile.wrapping_add(step);
            }
        };
        let (columns, rows) = (column.abs_diff(target_column), row.abs_diff(target_row));
        if column < target_column {
            go(columns, 0, 1)
        } else {
            go(columns, 1, 1usize.wrapping_neg())
        }
        if row < target_row {
            go(rows, 2, self.columns)
        } else {
            go(rows, 3, self.columns.wrapping_neg())
        }
        (time + (flits - 1), (columns + rows) as u64, waited)
    }
}
