//! Walks over a whole store: to list, destroy or check it.

use std::collections::HashSet;

use super::{
    CELLS, Cell, KIND, KeyValueStore, MAX_DEPTH, NODE_NAME, Node, Position, TABLE, TABLE_NAME, hash,
};
use crate::error::Result;
use crate::memory::PersistentAddress;
use crate::structures::bytes::{check_length, check_room, read_bytes};
use crate::structures::survey::Survey;
use crate::structures::walk::Walk;
use crate::structures::words::Words;
use crate::transaction::{Abort, Read, Transaction};

impl KeyValueStore {
    /// Advances the position to the next chain, and returns its cell; `None` at the end.
    fn next_cell(&self, tx: &mut impl Read, position: &mut Position) -> Result<Option<Cell>, Abort> {
        let Position { path, walk } = position;
        match path.last_mut() {
            Some(last) => *last += 1,
            None => {
                check_room(tx, self.buckets.first, self.buckets.length)?;
                path.push(0);
            }
        }
        while path.len() > 1 && path.last() == Some(&CELLS) {
            path.pop();
            if let Some(last) = path.last_mut() {
                *last += 1;
            }
        }
        if path[0] >= self.buckets.length {
            path.truncate(1);
            path[0] = self.buckets.length;
            return Ok(None);
        }
        let (mut at, mut depth) = (self.buckets.word(path[0]), 0);
        let mut table = self.buckets.first();
        loop {
            let word = tx.read(at)?;
            if word & TABLE == 0 {
                path.truncate(depth + 1);
                return Ok(Some(Cell { at, word, depth: depth as u32, table }));
            }
            depth += 1;
            if depth > MAX_DEPTH as usize {
                return Err(KIND.damaged(tx, at, "too many tables below one another"));
            }
            table = PersistentAddress::new(word & !TABLE);
            if path.len() <= depth {
                path.push(0);
                // A walk that continues at one of the table's cells passes the tables above it again, once for each cell.
                walk.visit(tx, TABLE_NAME, table, CELLS * (1 + depth as u64))?;
            }
            at = table.word(path[depth]);
        }
    }

    /// Counts a visit to a node for the walk's bound. Fails if the node's block has no room for its lengths.
    pub(super) fn note(tx: &mut impl Read, walk: &mut Walk, node: &Node) -> Result<(), Abort> {
        check_length(tx, node.at, node.words())?;
        walk.visit(tx, NODE_NAME, node.at, node.words())
    }

    /// Walks the chain of `cell` as a part of a walk over all chains. Fails at a node that belongs to another chain, because the walk would
    /// visit it twice, or a search would never find it.
    fn walk_here<T: Read>(
        &self,
        tx: &mut T,
        cell: Cell,
        position: &mut Position,
        mut visit: impl FnMut(&mut T, &Node) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        Self::walk(tx, cell, |tx, node| {
            Self::note(tx, &mut position.walk, node)?;
            let hash = node.hash(tx)?;
            if !cell.may_have(hash) || !node.is_of(hash) || !position.holds(hash, self.buckets.length) {
                return Err(KIND.damaged(tx, node.at, "a node in the wrong chain"));
            }
            visit(tx, node).map(|()| false)
        })
        .map(drop)
    }

    /// Calls `visit` with each key of the next chain that is not empty, and with the words and bytes of its value. Returns whether there
    /// was such a chain.
    pub fn visit_next<T: Read>(
        &self,
        tx: &mut T,
        position: &mut Position,
        mut visit: impl FnMut(&[u8], &[u64], u64) -> Result<(), Abort>,
    ) -> Result<bool, Abort> {
        let mut key = Vec::new();
        while let Some(cell) = self.next_cell(tx, position)? {
            self.walk_here(tx, cell, position, |tx, node| {
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                Self::with_value(tx, node, |words, bytes| visit(&key, words, bytes))?
            })?;
            if cell.word != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `visit` with every key and value, in no particular order.
    ///
    /// # Errors
    /// Returns the errors of [`KeyValueStore::get`] and `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut position = Position::default();
        while let Some(cell) = self.next_cell(tx, &mut position)? {
            self.walk_here(tx, cell, &mut position, |tx, node| {
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                read_bytes(tx, node.value(), node.value_bytes, &mut value)?;
                visit(&key, &value)
            })?;
        }
        Ok(())
    }

    /// Counts the keys by a walk.
    ///
    /// # Errors
    /// Returns the errors of [`KeyValueStore::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        let mut position = Position::default();
        while let Some(cell) = self.next_cell(tx, &mut position)? {
            self.walk_here(tx, cell, &mut position, |_, _| {
                count += 1;
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// Removes every key and frees all memory except the header.
    pub fn destroy(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        check_room(tx, self.buckets.first, self.buckets.length)?;
        let mut walk = Walk::default();
        for index in 0..self.buckets.length {
            Self::free_below(tx, &mut walk, self.buckets.word(index), 0)?;
        }
        tx.write(self.buckets.link, 0)?;
        tx.free(self.buckets.first)
    }

    fn free_below(
        tx: &mut impl Transaction,
        walk: &mut Walk,
        at: PersistentAddress,
        depth: u32,
    ) -> Result<(), Abort> {
        let word = tx.read(at)?;
        if word & TABLE == 0 {
            let mut nodes = Vec::new();
            Self::walk(tx, Cell { at, word, depth, table: at }, |tx, node| {
                Self::note(tx, walk, node)?;
                nodes.push(node.at);
                Ok(false)
            })?;
            return nodes.into_iter().try_for_each(|node| tx.free(node));
        }
        if depth == MAX_DEPTH {
            return Err(KIND.damaged(tx, at, "too many tables below one another"));
        }
        let table = PersistentAddress::new(word & !TABLE);
        walk.visit(tx, TABLE_NAME, table, CELLS)?;
        for index in 0..CELLS {
            Self::free_below(tx, walk, table.word(index), depth + 1)?;
        }
        tx.free(table)
    }

    /// Surveys the store: notes its blocks, and checks that every key is once in its own chain and its node has the right hash. `visit`
    /// gets each node's address, its key, the words of its value, and the number of bytes in the value.
    pub fn survey<S: Survey>(
        &self,
        survey: &mut S,
        mut visit: impl FnMut(&mut S, PersistentAddress, &[u8], &[u64], u64) -> Result<()>,
    ) -> Result<()> {
        let Words { first, length, .. } = self.buckets;
        let mut tables = Vec::new();
        if survey.block(first, length, "a key-value store's buckets")? {
            tables.push((first, length, Position::default()));
        }
        while let Some((table, cells, mut position)) = tables.pop() {
            for index in 0..cells {
                let at = table.word(index);
                let Some(word) = survey.read(|tx| tx.read(at))? else { continue };
                position.path.push(index);
                let next = PersistentAddress::new(word & !TABLE);
                if word & TABLE == 0 {
                    let cell = Cell { at, word, depth: position.path.len() as u32 - 1, table };
                    self.survey_chain(survey, &position, cell, &mut visit)?;
                } else if position.path.len() > MAX_DEPTH as usize {
                    survey.damaged(format!("too many tables lead to {:#x}", next.offset()));
                } else if survey.block(next, CELLS, TABLE_NAME)? {
                    tables.push((next, CELLS, position.clone()));
                }
                position.path.pop();
            }
        }
        Ok(())
    }

    fn survey_chain<S: Survey>(
        &self,
        survey: &mut S,
        position: &Position,
        cell: Cell,
        visit: &mut impl FnMut(&mut S, PersistentAddress, &[u8], &[u64], u64) -> Result<()>,
    ) -> Result<()> {
        let mut keys = HashSet::new();
        let mut at = cell.first();
        while !at.is_null() {
            let Some(node) = survey.read(|tx| Self::node(tx, at, at))? else { return Ok(()) };
            if !survey.block(at, node.words(), NODE_NAME)? {
                return Ok(());
            }
            let found = survey.read(|tx| {
                let mut key = Vec::new();
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                Ok((key, Self::with_value(tx, &node, |words, _| words.to_vec())?))
            })?;
            if let Some((key, value)) = found {
                let hash = hash(&key);
                if !node.is_of(hash)
                    || !cell.may_have(hash)
                    || !position.holds(hash, self.buckets.length)
                    || keys.contains(&key)
                {
                    survey.damaged(format!(
                        "a key twice, in the wrong chain, or with a wrong hash or filter, at {:#x}",
                        at.offset()
                    ));
                }
                visit(survey, at, &key, &value, node.value_bytes)?;
                keys.insert(key);
            }
            at = node.next;
        }
        Ok(())
    }

    /// Checks the store's invariants; returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        let mut position = Position::default();
        while let Some(cell) = self.next_cell(tx, &mut position)? {
            let mut keys = HashSet::new();
            Self::walk(tx, cell, |tx, node| {
                Self::note(tx, &mut position.walk, node)?;
                let mut key = Vec::new();
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                if node.value_bytes > 0 {
                    tx.read(node.value().word(node.value_bytes.div_ceil(8) - 1))?;
                }
                let hash = hash(&key);
                let is_here = cell.may_have(hash) && self.cell(tx, hash)?.at == cell.at;
                if !node.is_of(hash) || !is_here || keys.contains(&key) {
                    return Err(KIND.damaged(
                        tx,
                        node.at,
                        "a key twice, in the wrong chain, or with a wrong hash or filter",
                    ));
                }
                keys.insert(key);
                Ok(false)
            })?;
            count += keys.len() as u64;
        }
        Ok(count)
    }
}
