//! The model of the structures: contents that differ, and numbers that become keys and values and numbers again.

use strandline_structures::model::*;

use encoding::*;

#[path = "../../src/model/encoding.rs"]
mod encoding;

#[test]
fn contents_tell_where_they_differ() {
    let map = |pairs: &[(u64, u64)]| Contents::Map(pairs.iter().copied().collect());
    let difference = |place, expected, found| Difference { place, expected, found };
    let (one, other) = (map(&[(1, 5), (2, 6), (4, 7)]), map(&[(1, 5), (2, 8), (3, 9)]));
    assert_eq!(one.differences(&one), []);
    assert_eq!(
        one.differences(&other),
        [difference(2, Some(6), Some(8)), difference(3, None, Some(9)), difference(4, Some(7), None)]
    );
    let mut items = Contents::empty_sequence();
    items.apply(&Operation::Push(3));
    let several = |parts: [&Contents; 2]| Contents::Several(parts.map(Contents::clone).to_vec());
    assert_eq!(items.differences(&Contents::empty_sequence()), [difference(0, Some(3), None)]);
    assert_eq!(
        several([&one, &items]).differences(&several([&one, &Contents::empty_sequence()])),
        [difference(1, None, None)]
    );
    assert_eq!(one.differences(&items).len(), 1);
}

#[test]
fn what_is_made_of_a_number_leads_back_to_it() {
    for number in (0..3000).chain([u64::MAX, u64::MAX - 77]) {
        assert_eq!(number_of(signed(number)), number);
        assert_eq!(of_words(&words(number, 1 + number % 9)), Some(number));
        assert_eq!(of_key(&key(number)), Some(number));
        assert_eq!(of_bytes(&bytes(number)), Some(number));
    }
    assert_eq!(of_words(&[5, 5]), None);
    assert_eq!(of_key(b"7"), None);
    assert_eq!(of_bytes(&[5, 0, 0, 0, 0, 0, 0, 0]), None);
}
