//! A type does not claim another's layout without saying that it is unsafe.

use strandline::{Invalid, Persist, Ptr, Stored};

struct Evil(u64);

impl<'p> Persist<'p> for Evil {
    const WORDS: usize = 1;
    const NAME: &'static str = "Ptr";
    const LAYOUT: u64 = <Ptr<'p, u64> as Persist<'p>>::LAYOUT;
    fn store(&self, into: &mut [u64]) {
        into[0] = self.0;
    }
    fn load(from: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        Ok(Self(from[0]))
    }
}

fn main() {}
