//! Recovery and the oracle, which judge a scheme's crashes.

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use strandline_core::layout::Layout;
use strandline_core::log::RECORD_BLOCKS;
use strandline_core::memory::{Hosted, Step, World};
use strandline_core::scheme::recover;
use strandline_structures::model::Contents;

use super::life::{Ground, Life, contents, in_recovery};
use super::oracle::Expectation;
use super::workload::apply;
use strandline_check::Setting;
use strandline_check::x86::ChoicePoint;
use strandline_check::x86::CrashMemory;
use strandline_check::x86::Trace;
use strandline_check::x86::explorer::{Judge, Lived, TRIES, Tries};
use strandline_check::x86::{mix, panic_text};

/// Tries for steps left out of recovery, which show only if power fails during recovery.
const RECOVERY_TRIES: Tries = Tries { visit: 1024, first: 16, random: 16, recoveries: 9, repaired: 4000 };

impl Lived for Life {
    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn began(&self) -> u32 {
        self.began
    }

    fn choices(&self) -> &[ChoicePoint] {
        &self.choices
    }

    fn found_shared(&self) -> &BTreeSet<u32> {
        &self.found_shared
    }
}

/// Judges crashes on one ground.
pub struct SchemeJudge<'a> {
    ground: &'a Ground,
    /// Sets S of transactions for which the structure has been checked.
    checked: HashSet<u64>,
    /// The structure's contents when the threads began, and a fingerprint of the memory that held them.
    began_with: Option<(u64, Contents)>,
    /// The present expectation, which holds until a transaction enters commit or an acknowledgement follows.
    expected: Option<([usize; 3], Rc<Expectation>)>,
}

impl<'a> SchemeJudge<'a> {
    /// Creates a judge that has judged nothing yet.
    pub fn new(ground: &'a Ground) -> Self {
        Self { ground, checked: HashSet::new(), began_with: None, expected: None }
    }

    /// Runs the structure's own check, and compares it with its sequential model.
    fn check_structure(
        &mut self,
        world: &Rc<dyn World>,
        life: &Life,
        members: &[usize],
    ) -> Result<(), String> {
        let found = self.contents(world.clone())?;
        if self.began_with.as_ref().is_none_or(|(key, _)| *key != life.home.settled_key()) {
            // The empty set of transactions: the contents that the threads found.
            let before = Rc::new(CrashMemory::new(
                self.ground.image.len(),
                self.ground.shared.bytes(),
                self.ground.data.clone(),
            ));
            let settled = Trace::new(life.home.settled().to_vec());
            before.crash(&settled, 0, self.ground.case.setting, None, true);
            before.search();
            self.began_with = Some((life.home.settled_key(), self.contents(before)?));
        }
        let mut model = self.began_with.as_ref().map(|(_, model)| model.clone()).unwrap_or_default();
        let mut members: Vec<_> = members.to_vec();
        members.sort_by_key(|&index| life.trace.updates[index].order);
        for index in members {
            let id = life.trace.updates[index].id;
            apply(&mut model, &life.effects[index]).map_err(|what| format!("transaction {id}: {what}"))?;
        }
        if found != model {
            return Err(format!("the structure holds {found:x?} instead of {model:x?}"));
        }
        Ok(())
    }

    fn contents(&self, world: Rc<dyn World>) -> Result<Contents, String> {
        let view = Hosted::new(world, 0);
        catch_unwind(AssertUnwindSafe(|| contents(self.ground, &view)))
            .map_err(|panic| format!("the structure's check panics: {}", panic_text(&*panic)))?
            .map_err(|error| format!("the structure's check: {error:#}"))
    }
}

impl Judge for SchemeJudge<'_> {
    type Life = Life;
    type Expected = Expectation;

    fn memory(&self) -> CrashMemory {
        let ground = self.ground;
        CrashMemory::new(ground.image.len(), ground.shared.bytes(), ground.data.clone())
    }

    fn setting(&self) -> Setting {
        self.ground.case.setting
    }

    fn omitted(&self) -> Option<Step> {
        self.ground.case.omitted
    }

    fn tries(&self) -> &'static Tries {
        if self.ground.case.omitted.is_some_and(in_recovery) { &RECOVERY_TRIES } else { &TRIES }
    }

    fn begin_run(&mut self) {
        if self.checked.len() > 1 << 16 {
            self.checked.clear();
        }
        self.expected = None;
    }

    fn expected(&mut self, life: &Life, time: u32) -> Rc<Expectation> {
        let trace = &life.trace;
        let changes = [
            trace.updates.iter().filter(|update| update.entered <= time).count(),
            trace.updates.iter().filter(|update| update.acknowledged <= time).count(),
            trace.readers.iter().filter(|reader| reader.acknowledged <= time).count(),
        ];
        match &self.expected {
            Some((same, expected)) if *same == changes => expected.clone(),
            _ => {
                let expected = Rc::new(Expectation::at(trace, &life.home, &life.effects, time));
                self.expected = Some((changes, expected.clone()));
                expected
            }
        }
    }

    fn expected_of(&self, life: &Life, trace: &Trace, time: u32) -> Expectation {
        Expectation::at(trace, &life.home, &life.effects, time)
    }

    fn fingerprint(expected: &Expectation) -> u64 {
        expected.fingerprint()
    }

    fn recover(&self, world: &Rc<dyn World>) -> Result<(), String> {
        let view = self.ground.view(Hosted::new(world.clone(), 0));
        match catch_unwind(AssertUnwindSafe(|| recover(&view, self.ground.case.scheme.known, |_| ()))) {
            Err(panic) => Err(format!("recovery panics: {}", panic_text(&*panic))),
            Ok(Err(error)) => Err(format!("recovery fails: {error:#}")),
            Ok(Ok(_)) => Ok(()),
        }
    }

    fn verdict(
        &mut self,
        (memory, world): &(Rc<CrashMemory>, Rc<dyn World>),
        life: &Life,
        expected: &Expectation,
    ) -> Result<(), String> {
        let set = expected.judge(&life.home, &**memory)?;
        // A TxID that comes from the contents of an old record may be near 2^64, after which TxIDs wrap to 0.
        let watermark = memory.load_word((Layout::WATERMARK.offset() / 8) as u32);
        if let Some(clock) = life.clock.filter(|&clock| watermark > clock) {
            return Err(format!(
                "recovery leaves the watermark {watermark:#x}, but TxIDs went up to {clock:#x} only"
            ));
        }
        // The words are those of S, so the structure is the same for each state with this S.
        if self.checked.insert(mix(expected.key(set), life.home.settled_key())) {
            self.check_structure(world, life, &expected.members(set))?;
        }
        Ok(())
    }

    fn describe(&self, word: u32) -> String {
        let (layout, at) = (&self.ground.layout, 8 * u64::from(word));
        if at == Layout::WATERMARK.offset() {
            return "watermark".into();
        }
        let directory = Layout::LOG_DIRECTORY.offset();
        if (directory..directory + 8 * layout.geometry.logs).contains(&at) {
            return format!("log directory [{}]", (at - directory) / 8);
        }
        if let Some(within) = at.checked_sub(layout.logs.offset()).filter(|_| at < layout.data.offset()) {
            let (log, record) = (
                within / layout.geometry.log_bytes,
                within % layout.geometry.log_bytes / (8 * RECORD_BLOCKS),
            );
            let part = if within / 8 % RECORD_BLOCKS == 0 { "data" } else { "meta" };
            return format!("log {log} record {record} {part}");
        }
        format!("home {at:#x}")
    }

    fn fresh(&self) -> Self {
        Self::new(self.ground)
    }
}
