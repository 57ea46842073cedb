//! Calendars: reservations of links, buses and ports, for requests that arrive slightly out of order.

use crate::numbers::Cycle;

/// The number of cycles that a bucket has.
const WIDTH: u64 = 16;
/// The number of buckets that are kept.
const BUCKETS: usize = 1024;

/// Reservations of several resources in simulated time.
///
/// The machine computes a whole access at once, so that reservations reach far ahead, and later ones are for the time in between. A single "free
/// from" time would make these wait for later events. The calendar keeps how many cycles of each bucket of 16 are reserved, within the last 16,384
/// cycles. Within a bucket, a reservation out of order is delayed by at most the bucket's width.
///
/// The buckets of all resources for the same time are adjacent, one byte each: the memory used at a time is small, and so stays in the host's caches.
#[derive(Clone)]
pub struct Calendars {
    resources: usize,
    /// The number of each bucket: its first cycle divided by its width.
    numbers: Box<[u64; BUCKETS]>,
    /// The number of cycles of each bucket that each resource has reserved.
    used: Box<[u8]>,
}

impl Calendars {
    /// Creates so many resources, all free.
    pub fn new(resources: usize) -> Self {
        Self { resources, numbers: Box::new([0; BUCKETS]), used: vec![0; resources * BUCKETS].into() }
    }

    /// Returns how many cycles of a resource's bucket `number` are reserved; `None` if the ring has advanced past it.
    fn used(&mut self, resource: usize, number: u64) -> Option<&mut u8> {
        let slot = number as usize % BUCKETS;
        if self.numbers[slot] != number {
            if self.numbers[slot] > number {
                return None;
            }
            self.numbers[slot] = number;
            self.used[slot * self.resources..][..self.resources].fill(0);
        }
        Some(&mut self.used[slot * self.resources + resource])
    }

    /// Reserves a resource for `length` cycles from `at` on, or as soon as it is free after that. Returns when.
    pub fn reserve(&mut self, resource: usize, at: Cycle, length: u64) -> Cycle {
        let number = at.number() / WIDTH;
        // Usually the bucket has room and is unused. The host can then continue speculatively with `at`.
        if let Some(used) = self.used(resource, number) {
            let (taken, wanted) = (u64::from(*used), at.number() % WIDTH);
            if taken <= wanted && length != 0 && wanted + length <= WIDTH {
                *used = (wanted + length) as u8;
                return at;
            }
            if taken > wanted && length != 0 && taken + length <= WIDTH {
                *used = (taken + length) as u8;
                return Cycle::new(number * WIDTH + taken);
            }
        }
        self.reserve_beyond(resource, at, length)
    }

    /// Reserves a resource if more than one bucket is involved.
    fn reserve_beyond(&mut self, resource: usize, at: Cycle, length: u64) -> Cycle {
        if length == 0 {
            return at;
        }
        let mut number = at.number() / WIDTH;
        let mut begin = at.number();
        loop {
            let Some(used) = self.used(resource, number) else { return Cycle::new(begin) };
            begin = begin.max(number * WIDTH + u64::from(*used));
            if begin < (number + 1) * WIDTH {
                break;
            }
            number += 1;
        }
        let mut left = length;
        let mut from = begin - number * WIDTH;
        while left > 0 {
            let Some(used) = self.used(resource, number) else { break };
            let first = from.max(u64::from(*used));
            let taken = left.min(WIDTH - first);
            *used = (first + taken) as u8;
            left -= taken;
            from = 0;
            number += 1;
        }
        Cycle::new(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_waits_and_what_does_not_goes_through() {
        let mut calendar = Calendars::new(3);
        let mut reserve = |resource, at, length| calendar.reserve(resource, Cycle::new(at), length).number();
        assert_eq!(reserve(1, 100, 5), 100);
        assert_eq!(reserve(1, 100, 5), 105);
        assert_eq!(reserve(1, 500, 5), 500);
        assert_eq!(reserve(1, 200, 5), 200, "a later reservation does not delay an earlier one");
        assert_eq!(reserve(1, 110, 5), 110);
        assert_eq!(reserve(1, 111, 5), 115);
        assert_eq!(reserve(2, 111, 5), 111, "another resource");
    }

    #[test]
    fn long_reservations_fill_the_buckets_that_follow() {
        let mut calendar = Calendars::new(3);
        let mut reserve = |resource, at, length| calendar.reserve(resource, Cycle::new(at), length).number();
        assert_eq!(reserve(1, 0, 40), 0);
        assert_eq!(reserve(1, 0, 8), 40);
        assert_eq!(reserve(1, 0, 8), 48);
    }
}
