//! A type does not claim another's layout without saying that it is unsafe.

use strandline::{Invalid, Persist, Ptr, Stored};

struct Evil(u64);

impl<'p> Persist<'p> for Evil {
    const NAME: &'static str = "Ptr";
    const LAYOUT: u64 = <Ptr<'p, u64> as Persist<'p>>::LAYOUT;
    const SIZE: Option<usize> = Some(1);
    fn words(&self) -> usize {
        1
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.0.store(into)
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        u64::load(from, stored).map(Self)
    }
}

fn main() {}
