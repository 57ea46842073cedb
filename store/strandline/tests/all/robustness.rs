//! Pools with damaged bytes, and images of a pool as a kill would leave them.
//!
//! `STRANDLINE_CASES=100000 cargo test --release -p strandline --test all robustness` runs longer; `fuzz/` searches further with a fuzzer.

use super::attacks::{self, Aimed, Change, Damage, Transaction};
use super::walks;
use proptest::prelude::*;
use strandline::Domain;
use strandline_structures::model::Numbers;
use strandline_structures::model::typed::All;

fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, ..ProptestConfig::default() }
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let value = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0..1u64 << 20];
    let one = (any::<u32>(), any::<u32>(), value, 1..=8u8);
    let one = one.prop_map(|(file, word, value, bytes)| Damage { file, word, value, bytes });
    prop::collection::vec(one, 1..12)
}

fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let operation =
        prop::array::uniform6(any::<u32>()).prop_map(|numbers| All::draw(&mut Numbers::new(numbers, 20)));
    let one = (prop::collection::vec(operation, 1..4), prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..30)
}

proptest! {
    #![proptest_config(cases(75))]

    #[test]
    fn damaged_pools_give_errors(damage in damage(), sync in any::<bool>(), clean in any::<bool>()) {
        attacks::open_damaged(if sync { Domain::Sync } else { Domain::Process }, clean, &damage);
    }
}

fn aimed() -> impl Strategy<Value = Vec<Aimed>> {
    let change = prop_oneof![
        2 => any::<u8>().prop_map(Change::FromTheEnd),
        2 => (-2..3i8).prop_map(Change::By),
        2 => ((-8..8i8), any::<bool>()).prop_map(|(words, marked)| Change::Itself(words, marked)),
        4 => any::<u32>().prop_map(Change::Another),
        2 => any::<u32>().prop_map(Change::AddressOf),
        2 => any::<u8>().prop_map(Change::Bit),
        1 => prop_oneof![Just(0), 0..1u64 << 20, any::<u64>()].prop_map(Change::Value),
    ];
    prop::collection::vec((any::<u32>(), change).prop_map(|(word, change)| Aimed { word, change }), 1..6)
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn damaged_structures_give_errors(damage in aimed()) {
        walks::do_bounded_work(&damage);
        attacks::open_aimed(&damage);
    }
}

#[test]
fn damage_to_the_roots_description_is_found_with_and_without_its_type() {
    let bits = (0..64).step_by(13).map(Change::Bit);
    for change in bits.chain([Change::Value(0), Change::Value(213_200), Change::FromTheEnd(0)]) {
        attacks::open_with_another_description(change);
    }
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn a_kill_at_any_time_leaves_whole_transactions(transactions in transactions(), images in any::<u32>()) {
        attacks::operate_and_kill(&transactions, images);
    }
}
