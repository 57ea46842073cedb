//! The compiler refuses what the typed API forbids, with advice.

#[test]
fn the_compiler_refuses() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
