//! The structures as applications have them: on native memory, under the product's controls.

use super::*;
use strandline_core::Options;
use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::memory::Native;

fn pool<C: Control<Native>>(setup: Setup<C>) -> strandline_core::Pool<C> {
    let (path, options) = path_and_options();
    let geometry =
        Geometry { size: 32 << 20, logs: 2, log_bytes: 128 * KILOBYTE, chunk_bytes: 16 * KILOBYTE };
    setup.create(&path, &Options { geometry, ..options }).unwrap()
}

/// Runs a script there.
pub fn natively(structure: &dyn Structure, script: &Script) {
    fn under<C: Control<Native>>(setup: Setup<C>, structure: &dyn Structure, script: &Script) {
        let pool = pool(setup);
        let mut runner = AnyRunner::new(pool.worker().unwrap());
        let root = pool.layout().root(1);
        structure.create(&mut runner, root).unwrap();
        follow(&mut runner, structure, root, script);
    }
    under(Setup::from(SingleWriter), structure, script);
    under(Setup::from(Stm), structure, script);
}

#[test]
fn a_red_black_tree_may_be_deeper_than_most() {
    // Keys that rise make its right side twice as deep as its left one.
    const KEYS: u64 = 150_000;
    let pool = pool(Setup::from(SingleWriter));
    let mut worker = pool.worker().unwrap();
    let tree = worker.run(|tx| RedBlackTree::create(tx, tx.root(0))).unwrap();
    for key in 0..KEYS {
        assert_eq!(worker.run(|tx| tree.insert(tx, key, key)).unwrap(), None);
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS);
    for key in (0..KEYS).rev().step_by(3) {
        assert_eq!(worker.run(|tx| tree.remove(tx, key)).unwrap(), Some(key));
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS - KEYS.div_ceil(3));
}
