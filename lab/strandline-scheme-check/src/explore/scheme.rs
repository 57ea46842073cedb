//! The checked schemes, derived from their descriptors.

use strandline_core::Concurrency;
use strandline_core::memory::Step;
use strandline_core::scheme::{Mode, PRODUCT, SchemeKind, Schemes};
use strandline_schemes::{HARDWARE, HARDWARE_FLUSHED, Locking, Program};

/// A scheme in one of its modes.
#[derive(Clone, Copy)]
pub struct CheckedScheme {
    /// The name in `strandline-lab list`, or `strandline` for the product.
    pub name: &'static str,
    /// The scheme's descriptor.
    pub kind: SchemeKind,
    /// How its transactions are isolated.
    pub concurrency: Concurrency,
    /// True if it takes the product's path instead of the laboratory's.
    pub is_product: bool,
    /// The plain program that runs instead of transactions, in a pool of the scheme.
    pub plain: Option<Program>,
    /// Steps that may be left out in this mode, and the reasons.
    pub redundant: &'static [(Step, &'static str)],
    /// The schemes whose pools its program can recover.
    pub known: Schemes,
}

impl CheckedScheme {
    /// Creates a scheme in one of its modes, on the laboratory's path.
    pub fn new(kind: SchemeKind, mode: &Mode) -> Self {
        let Mode { name, concurrency, redundant } = *mode;
        let known = strandline_schemes::ALL;
        Self { name, kind, concurrency, is_product: false, plain: None, redundant, known }
    }

    /// Returns the same scheme in a program that knows these schemes.
    #[must_use]
    pub fn among(self, known: Schemes) -> Self {
        Self { known, ..self }
    }

    /// Returns the plain programs, which leave durability to hardware. Their histories declare no locks.
    pub(crate) fn plain() -> [Self; 2] {
        [("plain", &HARDWARE, false), ("plain-flushed", &HARDWARE_FLUSHED, true)].map(
            |(name, kind, flushes)| {
                let program = Program { locking: Some(Locking::One), in_regions: true, flushes };
                Self { name, plain: Some(program), ..Self::new(kind, &kind.modes[0]) }
            },
        )
    }

    /// Returns the scheme that applications use, on the product's path.
    fn product(mode: &Mode) -> Self {
        Self { is_product: true, ..Self::new(&PRODUCT, mode) }
    }

    /// Returns the scheme's steps, each of which yields a mutant.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        self.kind.all_steps()
    }

    /// Returns the reason why the scheme loses nothing without `step`, if known.
    pub fn redundant(&self, step: Step) -> Option<&'static str> {
        self.redundant.iter().find(|(other, _)| *other == step).map(|&(_, why)| why)
    }

    /// Returns whether its logs are written from beginning to end, in one run after another.
    pub(super) fn has_runs(&self) -> bool {
        self.steps().any(|step| step == Step::RestartPhase)
    }

    /// Returns whether it acknowledges commits only when a worker is drained.
    pub(crate) fn acknowledges_when_drained(&self) -> bool {
        self.kind.acknowledges_when_drained()
    }
}

/// Returns all schemes that promise durability on real memory: the product in its modes, and the others on the laboratory's path.
pub fn schemes() -> Vec<CheckedScheme> {
    schemes_of(strandline_schemes::ALL)
}

/// Like [`schemes`], for the schemes of another registry.
pub fn schemes_of(known: Schemes) -> Vec<CheckedScheme> {
    let product = PRODUCT.modes.iter().map(CheckedScheme::product);
    let durable = known.iter().filter(|kind| kind.is_durable() && kind.is_native);
    let laboratory =
        durable.flat_map(|kind| kind.modes.iter().map(move |mode| CheckedScheme::new(kind, mode)));
    product.chain(laboratory).map(|scheme| scheme.among(known)).collect()
}
