//! Group words: the order of a node's pairs, and the free pairs.
//!
//! Each number belongs to exactly one group of its node, whether its pair is in use or free. So a group that owns a free number can add a
//! pair alone; other groups take numbers from one that has some to spare.

/// The numbers that a group has room for.
pub(super) const ROOM: u64 = 7;
/// The distance up to which a full group moves numbers to others. If none so near has room, all groups of the node are laid out again.
pub(super) const NEAR: usize = 4;

const COUNT: u32 = 56;
const OWNED: u32 = 60;

/// A group word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(pub u64);

/// A place in the order of a node's pairs: a group, and the number of its numbers before the place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub group: u8,
    pub offset: u8,
}

impl Group {
    /// A group that owns no numbers.
    pub const EMPTY: Self = Self(0);

    /// Returns the number of pairs in use.
    pub fn count(self) -> u64 {
        self.0 >> COUNT & 15
    }

    /// Returns the number of numbers that the group owns.
    fn owned(self) -> u64 {
        self.0 >> OWNED
    }

    /// Returns whether the group's counts are possible. The functions that change a group assume that they are.
    pub fn is_possible(self) -> bool {
        self.count() <= self.owned() && self.owned() <= ROOM
    }

    /// Returns whether the group owns a free number.
    pub fn has_free(self) -> bool {
        self.count() < self.owned()
    }

    pub fn number(self, offset: u64) -> u8 {
        (self.0 >> (8 * offset)) as u8
    }

    /// Returns the numbers that the group owns: first those in use, in the order of their keys, and then the free ones.
    pub fn numbers(self) -> (impl Iterator<Item = u8>, impl Iterator<Item = u8>) {
        let number = move |offset| self.number(offset);
        ((0..self.count()).map(number), (self.count()..self.owned()).map(number))
    }

    fn below(self, offset: u64) -> u64 {
        self.0 & ((1 << (8 * offset)) - 1)
    }

    /// Adds `number` to the group's numbers, at `offset`.
    fn own(self, offset: u64, number: u8) -> Self {
        let low = self.below(offset);
        let high = self.below(self.owned()) ^ low;
        let counts = (self.0 >> COUNT << COUNT) + (1 << OWNED);
        Self(counts | high << 8 | u64::from(number) << (8 * offset) | low)
    }

    /// Removes the number at `offset` from the group's numbers; returns it.
    fn disown(self, offset: u64) -> (Self, u8) {
        let low = self.below(offset);
        let high = self.below(self.owned()) ^ self.below(offset + 1);
        let counts = (self.0 >> COUNT << COUNT) - (1 << OWNED);
        (Self(counts | high >> 8 | low), self.number(offset))
    }

    /// Adds `number`, which another group has owned, as one in use, at `offset`.
    pub fn take_in(self, offset: u64, number: u8) -> Self {
        Self(self.own(offset, number).0 + (1 << COUNT))
    }

    /// Removes the number at `offset`, which is in use, from the group's numbers; returns it.
    fn hand_over(self, offset: u64) -> (Self, u8) {
        let (rest, number) = self.disown(offset);
        (Self(rest.0 - (1 << COUNT)), number)
    }

    /// Adds `number` as a free one.
    pub fn take_free(self, number: u8) -> Self {
        self.own(self.owned(), number)
    }

    /// Puts the group's first free number in use, at `offset`; returns it.
    pub fn insert(self, offset: u64) -> (Self, u8) {
        let (rest, number) = self.disown(self.count());
        (rest.take_in(offset, number), number)
    }

    /// Frees the number at `offset`, which stays with the group.
    pub fn remove(self, offset: u64) -> Self {
        let (rest, number) = self.hand_over(offset);
        rest.own(rest.count(), number)
    }
}

/// Puts a free number of these groups in use at a place; returns it. If the group at the place is full, it moves a number to the next
/// group, this one to the one after it, and so on to the nearest group with room. Returns `None`, with the groups unchanged, if no number
/// is free or no group near enough has room.
pub(super) fn insert_number(groups: &mut [Group], place: Place) -> Option<u8> {
    let (mut at, mut offset) = (usize::from(place.group), u64::from(place.offset));
    if !groups.iter().any(|group| group.has_free()) {
        return None;
    }
    if !groups[at].has_free() {
        // A place between two groups may belong to either.
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
        // If the group with room owns as many numbers as it can, it gives a free one away for the one that comes.
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
        // Takes half of the free numbers of the group that has most, so that this is rarely necessary.
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

/// Removes the last free number from a group that has one; returns it.
fn give_free(groups: &mut [Group], at: usize) -> u8 {
    let (rest, number) = groups[at].disown(groups[at].owned() - 1);
    groups[at] = rest;
    number
}

/// Moves a number in use from one group and offset to another group, which has room.
fn move_number(groups: &mut [Group], from: (usize, u64), to: (usize, u64)) {
    let (rest, number) = groups[from.0].hand_over(from.1);
    groups[from.0] = rest;
    groups[to.0] = groups[to.0].take_in(to.1, number);
}

/// Frees the number at a place. If its group has no other in use and groups after it do, the group gets one from a neighbour. Returns false
/// if each neighbour has only one in use itself: the caller must lay out all groups again.
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

/// Lays out all groups again: first the numbers in use, in their order, at least two to each group that gets any; and the free numbers
/// evenly over all groups.
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
