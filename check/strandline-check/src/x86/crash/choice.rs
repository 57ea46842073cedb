//! Who decides what survived: a depth-first search, chance, or a list of decisions.

use fastrand::Rng;

use crate::x86::mix;

/// A decision that a run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The word's number in the pool.
    pub word: u32,
    /// Which of its values, 0 the oldest.
    pub chosen: u32,
    /// How many there were.
    pub of: u32,
    /// The value.
    pub value: u64,
    /// The newest value that it might have had.
    pub newest: u64,
}

impl Decision {
    /// Returns whether a newer value was lost.
    pub fn is_loss(&self) -> bool {
        self.chosen + 1 < self.of
    }
}

/// How a random run decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mood {
    /// Of 65,535: how often the newest value survives.
    newest: u16,
    /// Of 256: how often the oldest does, where not the newest.
    oldest: u8,
    /// Whole lines go one way: half of them, by their number and this, the other way round.
    by_line: Option<u32>,
    /// Only words among the last so many that were stored may be lost, half of them; 0: any.
    latest: usize,
    /// What was stored about here is torn.
    torn: Option<Torn>,
}

/// Words side by side of which those before a place have gone one way and those behind it the other: a record's head without
/// its tail, or its tail without its head.
#[derive(Clone, Copy, Debug)]
struct Torn {
    /// The first word behind the place.
    at: u32,
    /// Whether those before it survive; otherwise the others do.
    before: bool,
    /// Whether the oldest value is there instead; otherwise the newest but one.
    oldest: bool,
}

impl Torn {
    /// The choice for `word`; `None` if it lies elsewhere.
    fn choose(self, word: u32, of: u32) -> Option<u32> {
        const REACH: u32 = 16;
        let lost = if self.oldest { 0 } else { of - 2 };
        let choice = if (word < self.at) == self.before { of - 1 } else { lost };
        (word.abs_diff(self.at) <= REACH).then_some(choice)
    }
}

impl Mood {
    /// A mood at random; extreme ones are as frequent as even ones.
    pub fn random(random: &mut Rng) -> Self {
        loop {
            let mood = Self::any(random);
            // All newest values and all oldest ones are one state each.
            let one = mood.newest == u16::MAX || mood.newest == 0 && mood.oldest == 255;
            if !one || mood.by_line.is_some() || mood.latest > 0 || random.u8(..8) == 0 {
                return mood;
            }
        }
    }

    fn any(random: &mut Rng) -> Self {
        let latest = if random.u8(..4) == 0 { 1 << random.u32(..5) } else { 0 };
        // With the last but one a word or two of a log are lost.
        let newest = [0, 5_000, 32_000, 60_000, 65_300, u16::MAX][random.usize(..6)];
        let oldest = [0, 128, 255][random.usize(..3)];
        Self { newest, oldest, by_line: (random.u8(..3) == 0).then(|| random.u32(..)), latest, torn: None }
    }

    /// A mood in which a record is torn at one of the words `stored` lately; all else survives, or little of it.
    pub fn torn(random: &mut Rng, stored: &[u32]) -> Self {
        let at = stored.get(random.usize(..stored.len().max(1))).map(|word| word + random.u32(..2));
        let newest = [u16::MAX, u16::MAX, 32_000, 0][random.usize(..4)];
        let torn = at.map(|at| Torn { at, before: random.bool(), oldest: random.u8(..4) > 0 });
        Self { newest, oldest: 128, by_line: None, latest: 0, torn }
    }

    /// The choice for `word`; `stored` are words that were stored lately, the last one first.
    fn choose(&self, random: &mut Rng, word: u32, of: u32, stored: &[u32]) -> u32 {
        if let Some(choice) = self.torn.and_then(|torn| torn.choose(word, of)) {
            return choice;
        }
        if self.latest > 0 && !stored.is_empty() {
            let may_be_lost = stored.iter().take(self.latest).any(|&other| other == word);
            return if may_be_lost { random.u32(of.saturating_sub(2)..of) } else { of - 1 };
        }
        let turned = self
            .by_line
            .is_some_and(|salt| (word / 8).wrapping_add(salt).wrapping_mul(0x9e37_79b9) >> 31 == 1);
        let (newest, oldest) = (random.u16(..), random.u8(..));
        let take_newest = newest < self.newest || self.newest == u16::MAX;
        if take_newest != turned {
            of - 1
        } else if turned || oldest < self.oldest || self.oldest == 255 {
            0
        } else {
            random.u32(..of)
        }
    }
}

/// Who decides.
#[derive(Debug)]
pub(super) enum Chooser {
    /// The path's choices, then the oldest values; the path goes on as a depth-first search.
    Search,
    /// At random.
    Random(Rng, Mood),
    /// By the values of these decisions on the same words; otherwise at random, or the newest.
    Given(Vec<Decision>, Option<(Rng, Mood)>),
    /// Whole lines: these survive and all others are lost, or the other way round.
    Lines { lines: Vec<u32>, survive: bool },
}

/// The decisions of a run, and of a search's path.
#[derive(Debug)]
pub(super) struct Path {
    chooser: Chooser,
    decisions: Vec<Decision>,
    /// How many of a search's decisions the run has come to.
    depth: usize,
    /// How many of a search's decisions are the last run's.
    repeated: usize,
    /// The words that were stored last before the crash, the last one first.
    pub stored: Vec<u32>,
}

impl Path {
    /// Of a run that has decided nothing.
    pub fn new(chooser: Chooser) -> Self {
        Self { chooser, decisions: Vec::new(), depth: 0, repeated: 0, stored: Vec::new() }
    }

    /// Begins a run that has decided nothing.
    pub fn begin(&mut self, chooser: Chooser) {
        (self.chooser, self.depth, self.repeated) = (chooser, 0, 0);
        self.decisions.clear();
    }

    /// Begins a search again at the run whose decisions are `left`, the last of which is a new one.
    pub fn resume(&mut self, left: Vec<Decision>) {
        self.begin(Chooser::Search);
        self.repeated = left.len().saturating_sub(1);
        self.decisions = left;
    }

    /// The decisions with which a search's next run begins, once [`Path::next`] has gone on to it.
    pub fn left(&self) -> &[Decision] {
        &self.decisions
    }

    /// Moves the search to its next run, and returns whether there is one. The next run repeats the first decisions of the last run, which stay
    /// made. Calls `undone` with each of the other decisions of the last run.
    pub fn next(&mut self, mut undone: impl FnMut(&Decision)) -> bool {
        self.decisions.truncate(self.depth);
        while let Some(last) = self.decisions.last_mut() {
            undone(last);
            if last.chosen + 1 < last.of {
                last.chosen += 1;
                self.repeated = self.decisions.len() - 1;
                self.depth = self.repeated;
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    /// None of a search's decisions is made yet.
    pub fn unmake(&mut self) {
        self.depth = 0;
    }

    /// The decisions that the search's last run made and this one makes again.
    pub fn repeated(&self) -> &[Decision] {
        &self.decisions[..self.repeated]
    }

    /// The value of `word` if the next decision is the one that the search's last run made on it.
    pub fn repeat(&mut self, word: u32) -> Option<u64> {
        let next = self.decisions.get(self.depth).filter(|_| self.depth < self.repeated)?;
        if next.word != word {
            return None;
        }
        self.depth += 1;
        Some(next.value)
    }

    /// Decides on `word` between `choices`, of which there are several; returns the value.
    pub fn choose(&mut self, word: u32, choices: &[(u32, u64)]) -> u64 {
        let of = choices.len() as u32;
        let newest = choices[choices.len() - 1].1;
        let chosen = match &mut self.chooser {
            Chooser::Search => {
                self.depth += 1;
                if let Some(decision) = self.decisions.get_mut(self.depth - 1) {
                    decision.value = choices[decision.chosen as usize].1;
                    return decision.value;
                }
                0
            }
            Chooser::Random(random, mood) => mood.choose(random, word, of, &self.stored),
            Chooser::Lines { lines, survive } => {
                if lines.contains(&(word / 8)) == *survive {
                    of - 1
                } else {
                    0
                }
            }
            Chooser::Given(given, rest) => {
                let decided = given.iter().find(|decision| decision.word == word);
                let same = decided.and_then(|one| choices.iter().position(|choice| choice.1 == one.value));
                match (same, rest) {
                    (Some(chosen), _) => chosen as u32,
                    (None, Some((random, mood))) => mood.choose(random, word, of, &self.stored),
                    (None, None) => of - 1,
                }
            }
        };
        let value = choices[chosen as usize].1;
        self.decisions.push(Decision { word, chosen, of, value, newest });
        value
    }

    /// Returns whether the search has been here before: here come the same decisions, and those that are still to come
    /// do not matter.
    pub fn was_here(&self) -> bool {
        matches!(self.chooser, Chooser::Search)
            && self.decisions[self.depth..].iter().any(|later| later.chosen > 0)
    }

    /// The decisions of this run.
    pub fn made(&self) -> &[Decision] {
        match self.chooser {
            Chooser::Search => &self.decisions[..self.depth],
            _ => &self.decisions,
        }
    }

    /// A number for the decisions of this run: runs of one crash that decide differently have different ones.
    pub fn number(&self) -> u64 {
        self.made().iter().fold(6, |hash, made| mix(mix(hash, made.word.into()), made.value))
    }
}
