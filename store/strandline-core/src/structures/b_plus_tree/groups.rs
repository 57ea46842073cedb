//! Group words: which pairs of a node come in which order, and which are free.
//!
//! A number belongs to one group of its node at a time, whether its pair is in use or not. So a group that owns a free
//! number takes a pair in by itself; others take numbers over from one that has some to spare.

/// Numbers that a group has room for.
pub(super) const ROOM: u64 = 7;
/// As far as this a full group moves numbers over; beyond, all groups of the node are laid out anew.
pub(super) const NEAR: usize = 4;

const COUNT: u32 = 56;
const OWNED: u32 = 60;

/// A group word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub u64);

/// A place in the order of a node's pairs: a group, and how many of its numbers come before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub group: u8,
    pub offset: u8,
}

impl Group {
    /// The group that owns nothing.
    pub const EMPTY: Self = Self(0);

    /// How many of its pairs are in use.
    pub fn count(self) -> u64 {
        self.0 >> COUNT & 15
    }

    /// How many numbers it owns.
    fn owned(self) -> u64 {
        self.0 >> OWNED
    }

    /// Returns whether its counts make sense. What changes a group takes that for granted.
    pub fn is_possible(self) -> bool {
        self.count() <= self.owned() && self.owned() <= ROOM
    }

    /// Returns whether it owns a free number.
    pub fn has_free(self) -> bool {
        self.count() < self.owned()
    }

    pub fn number(self, offset: u64) -> u8 {
        (self.0 >> (8 * offset)) as u8
    }

    /// The numbers it owns: those in use, in the order of their keys, and the free ones.
    pub fn numbers(self) -> (impl Iterator<Item = u8>, impl Iterator<Item = u8>) {
        let number = move |offset| self.number(offset);
        ((0..self.count()).map(number), (self.count()..self.owned()).map(number))
    }

    fn below(self, offset: u64) -> u64 {
        self.0 & ((1 << (8 * offset)) - 1)
    }

    /// Owns `number` as well, which comes to `offset`.
    fn own(self, offset: u64, number: u8) -> Self {
        let low = self.below(offset);
        let high = self.below(self.owned()) ^ low;
        let counts = (self.0 >> COUNT << COUNT) + (1 << OWNED);
        Self(counts | high << 8 | u64::from(number) << (8 * offset) | low)
    }

    /// Owns the number at `offset` no longer.
    fn disown(self, offset: u64) -> (Self, u8) {
        let low = self.below(offset);
        let high = self.below(self.owned()) ^ self.below(offset + 1);
        let counts = (self.0 >> COUNT << COUNT) - (1 << OWNED);
        (Self(counts | high >> 8 | low), self.number(offset))
    }

    /// Puts in use, at `offset`, a number that it has not owned.
    pub fn take_in(self, offset: u64, number: u8) -> Self {
        Self(self.own(offset, number).0 + (1 << COUNT))
    }

    /// Gives the number at `offset`, which is in use, away.
    fn hand_over(self, offset: u64) -> (Self, u8) {
        let (rest, number) = self.disown(offset);
        (Self(rest.0 - (1 << COUNT)), number)
    }

    /// Owns a free number more.
    pub fn take_free(self, number: u8) -> Self {
        self.own(self.owned(), number)
    }

    /// Puts its first free number in use, at `offset`.
    pub fn insert(self, offset: u64) -> (Self, u8) {
        let (rest, number) = self.disown(self.count());
        (rest.take_in(offset, number), number)
    }

    /// Makes the number at `offset` a free one.
    pub fn remove(self, offset: u64) -> Self {
        let (rest, number) = self.hand_over(offset);
        rest.own(rest.count(), number)
    }
}

/// Puts a free number of these groups in use at a place; returns it. A full group first moves a number to the next one,
/// and so on as far as the nearest with room. `None`, and nothing is changed: no number is free, or no room.
pub(super) fn insert_number(groups: &mut [Group], place: Place) -> Option<u8> {
    let (mut at, mut offset) = (usize::from(place.group), u64::from(place.offset));
    if !groups.iter().any(|group| group.has_free()) {
        return None;
    }
    if !groups[at].has_free() {
        // Between two groups, it may go to either.
        let is_end = offset == groups[at].count() && at + 1 < groups.len();
        if is_end && (groups[at + 1].has_free() || offset == ROOM) {
            (at, offset) = (at + 1, 0);
        } else if offset == 0 && at > 0 && groups[at - 1].has_free() {
            (at, offset) = (at - 1, groups[at - 1].count());
        }
    }
    if groups[at].count() == ROOM {
        let has_room = |&i: &usize| groups[i].count() < ROOM;
        let right = (at + 1..groups.len()).take(NEAR).find(has_room);
        let left = (0..at).rev().take(NEAR).find(has_room).filter(|_| offset > 0);
        let room = match (right, left) {
            (Some(right), Some(left)) if right - at > at - left => left,
            (right, left) => right.or(left)?,
        };
        // For what comes there, one that owns as many as it has room for gives a free one.
        let freed = (groups[room].owned() == ROOM).then(|| give_free(groups, room));
        if room > at {
            for i in (at..room).rev() {
                move_number(groups, (i, ROOM - 1), (i + 1, 0));
            }
        } else {
            for i in room..at {
                let end = groups[i].count();
                move_number(groups, (i + 1, 0), (i, end));
            }
            offset -= 1;
        }
        if let Some(number) = freed {
            groups[at] = groups[at].take_free(number);
        }
    }
    if !groups[at].has_free() {
        // Half of the free ones of the richest, so that the next time comes late.
        let free = |group: Group| group.owned() - group.count();
        let donor = (0..groups.len()).max_by_key(|&i| free(groups[i]))?;
        let moved = free(groups[donor]).div_ceil(2).min(ROOM - groups[at].owned());
        for _ in 0..moved {
            let number = give_free(groups, donor);
            groups[at] = groups[at].take_free(number);
        }
    }
    let (group, number) = groups[at].insert(offset);
    groups[at] = group;
    Some(number)
}

/// Takes the last free number from a group that has one.
fn give_free(groups: &mut [Group], at: usize) -> u8 {
    let (rest, number) = groups[at].disown(groups[at].owned() - 1);
    groups[at] = rest;
    number
}

/// Moves a number in use from one group and offset to another, which has room.
fn move_number(groups: &mut [Group], from: (usize, u64), to: (usize, u64)) {
    let (rest, number) = groups[from.0].hand_over(from.1);
    groups[from.0] = rest;
    groups[to.0] = groups[to.0].take_in(to.1, number);
}

/// Makes the number at a place a free one. A group before others that is left with none gets one from beside it. `false`:
/// those have only one themselves, and the groups are to be laid out anew.
pub(super) fn remove_number(groups: &mut [Group], place: Place) -> bool {
    let at = usize::from(place.group);
    groups[at] = groups[at].remove(place.offset.into());
    let count = |at: usize| groups.get(at).map_or(0, |group| group.count());
    if groups[at].count() > 0 || count(at + 1) == 0 {
        return true;
    }
    let before = at.checked_sub(1);
    let (from, offset) = match (count(at + 1), before.map_or(0, count)) {
        (2.., _) => (at + 1, 0),
        (_, before @ 2..) => (at - 1, before - 1),
        _ => return false,
    };
    let freed = (groups[at].owned() == ROOM).then(|| give_free(groups, at));
    move_number(groups, (from, offset), (at, 0));
    if let Some(number) = freed {
        groups[from] = groups[from].take_free(number);
    }
    true
}

/// Lays the numbers out in groups anew: those in use, in their order, with two at least to a group that has any, in front; and
/// the free ones evenly.
pub(super) fn lay_out(groups: &mut [Group], used: &[u8], free: &[u8]) {
    let with_some = used.len().div_ceil(2).min(groups.len());
    let part = |all: usize, i: usize, parts: usize| i * all / parts..(i + 1) * all / parts;
    let parts = groups.len();
    for (i, group) in groups.iter_mut().enumerate() {
        *group = Group::EMPTY;
        if i < with_some {
            for &number in &used[part(used.len(), i, with_some)] {
                *group = group.take_in(group.count(), number);
            }
        }
        for &number in &free[part(free.len(), i, parts)] {
            *group = group.take_free(number);
        }
    }
}
