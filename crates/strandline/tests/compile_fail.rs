//! What the typed API refuses is refused by the compiler, with advice.

#[test]
fn the_compiler_refuses() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
