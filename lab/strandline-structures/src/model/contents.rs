//! The reference model: a structure's contents, in standard collections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Operation, Outcome};

/// The contents of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Values at keys or at the indices of an array.
    Map(BTreeMap<u64, u64>),
    /// A queue's or a vector's items, in order.
    Sequence {
        /// The items, with the one that leaves first in front.
        items: VecDeque<u64>,
        /// The number of items that there is room for.
        capacity: u64,
    },
    /// The contents of several structures.
    Several(Vec<Contents>),
}

impl Default for Contents {
    /// An empty map.
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

/// A place at which two contents differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key or index; for several structures that differ, the number of the first one that does.
    pub place: u64,
    /// The expected value.
    pub expected: Option<u64>,
    /// The structure's value; `None` if there is none.
    pub found: Option<u64>,
}

impl Contents {
    /// Returns an empty sequence that only the pool bounds.
    pub fn empty_sequence() -> Self {
        Self::Sequence { items: VecDeque::new(), capacity: u64::MAX }
    }

    /// Returns the number of keys, items or, for an array, indices.
    pub fn len(&self) -> u64 {
        match self {
            Self::Map(map) => map.len() as u64,
            Self::Sequence { items, .. } => items.len() as u64,
            Self::Several(parts) => parts.iter().map(Self::len).sum(),
        }
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at a place; `None` if there is none, or if these are several contents.
    pub fn get(&self, place: u64) -> Option<u64> {
        match self {
            Self::Map(map) => map.get(&place).copied(),
            Self::Sequence { items, .. } => items.get(usize::try_from(place).ok()?).copied(),
            Self::Several(_) => None,
        }
    }

    /// Returns the values, in the order of their places.
    pub fn values(&self) -> Vec<u64> {
        match self {
            Self::Map(map) => map.values().copied().collect(),
            Self::Sequence { items, .. } => items.iter().copied().collect(),
            Self::Several(parts) => parts.iter().flat_map(Self::values).collect(),
        }
    }

    /// Applies `operation` to the reference.
    ///
    /// # Panics
    /// Panics if these contents do not support the operation.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match self {
            Self::Map(map) => apply_to_map(map, operation),
            Self::Sequence { items, capacity } => apply_to_sequence(items, *capacity, operation),
            Self::Several(parts) => match operation {
                Operation::Of(part, operation) => parts[*part].apply(operation),
                _ => panic!("{operation:?} does not say on which of several structures"),
            },
        }
    }

    /// Returns the places where `found` differs from this.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        let places: BTreeSet<u64> = match (self, found) {
            (Self::Map(one), Self::Map(other)) => one.keys().chain(other.keys()).copied().collect(),
            (Self::Sequence { .. }, Self::Sequence { .. }) => (0..self.len().max(found.len())).collect(),
            (Self::Several(one), Self::Several(other)) if one.len() == other.len() => {
                let parts = (0..).zip(one.iter().zip(other)).filter(|(_, (one, other))| one != other);
                let difference = |(place, _)| Difference { place, expected: None, found: None };
                return parts.map(difference).collect();
            }
            _ => return vec![Difference { place: 0, expected: None, found: None }],
        };
        let difference = |place| Difference { place, expected: self.get(place), found: found.get(place) };
        places.into_iter().map(difference).filter(|found| found.expected != found.found).collect()
    }
}

fn apply_to_map(map: &mut BTreeMap<u64, u64>, operation: &Operation) -> Outcome {
    match *operation {
        Operation::Get(key) => map.get(&key).copied(),
        Operation::Insert(key, value) => map.insert(key, value),
        Operation::Write(key, value) => {
            map.insert(key, value);
            None
        }
        Operation::Remove(key) => map.remove(&key),
        Operation::Toggle(key, value) => map.remove(&key).or_else(|| map.insert(key, value)),
        Operation::Add(key) => {
            let times = map.get(&key).copied();
            map.insert(key, times.unwrap_or(0) + 1);
            times
        }
        Operation::Take(key) => {
            let times = map.remove(&key)?;
            if times > 1 {
                map.insert(key, times - 1);
            }
            Some(times)
        }
        Operation::Swap(one, other) => {
            let (a, b) = (map[&one], map[&other]);
            map.extend([(one, b), (other, a)]);
            Some(a)
        }
        Operation::Exchange { places: [one, other], stamps } => {
            let (a, b) = (map[&one], map[&other]);
            map.extend([(one, stamps[0] | b & 0xff), (other, stamps[1] | a & 0xff)]);
            Some(a)
        }
        Operation::Transfer { from, to, amount } => {
            let found = map[&from];
            map.insert(from, found.wrapping_sub(amount));
            map.insert(to, map[&to].wrapping_add(amount));
            Some(found)
        }
        _ => panic!("a map has no operation {operation:?}"),
    }
}

fn apply_to_sequence(items: &mut VecDeque<u64>, capacity: u64, operation: &Operation) -> Outcome {
    match *operation {
        Operation::Get(index) => items.get(index as usize).copied(),
        Operation::Insert(index, value) => {
            items.get_mut(index as usize).map(|item| std::mem::replace(item, value))
        }
        Operation::Toggle(index, _) if index + 1 == items.len() as u64 => items.pop_back(),
        Operation::Toggle(index, value) => match items.get_mut(index as usize) {
            Some(item) => Some(std::mem::replace(item, value)),
            None => {
                items.push_back(value);
                None
            }
        },
        Operation::Push(value) if items.len() as u64 == capacity => Some(value),
        Operation::Push(value) => {
            items.push_back(value);
            None
        }
        Operation::Rotate(value) => {
            let first = if items.len() > 1 { items.pop_front() } else { None };
            items.push_back(value);
            first
        }
        Operation::PopFirst => items.pop_front(),
        Operation::PopLast => items.pop_back(),
        _ => panic!("a sequence has no operation {operation:?}"),
    }
}
