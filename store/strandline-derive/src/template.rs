//! Generates code from text with placeholders.

use proc_macro::{Group, Literal, Span, TokenStream, TokenTree};

/// Returns the code of `text`, with each `$name` replaced by the part of that name.
///
/// # Panics
/// Panics if `text` is not Rust or names an unknown part, which is a mistake in this crate, whatever the input is.
pub fn fill(text: &str, parts: &[(&str, &TokenStream)]) -> TokenStream {
    filled(text, parts, None)
}

/// Like [`fill`], but the compiler's errors about the code point to `at`.
pub fn fill_at(at: Span, text: &str, parts: &[(&str, &TokenStream)]) -> TokenStream {
    filled(text, parts, Some(at))
}

fn filled(text: &str, parts: &[(&str, &TokenStream)], at: Option<Span>) -> TokenStream {
    replaced(text.parse().expect("templates are Rust"), parts, at)
}

fn replaced(template: TokenStream, parts: &[(&str, &TokenStream)], at: Option<Span>) -> TokenStream {
    let mut code = TokenStream::new();
    let mut tokens = template.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '$' => {
                let name = tokens.next().map(|name| name.to_string()).unwrap_or_default();
                let part = parts.iter().find(|(known, _)| *known == name);
                code.extend(part.expect("templates name the parts that they are given").1.clone());
            }
            TokenTree::Group(group) => {
                let inner = replaced(group.stream(), parts, at);
                let mut group = Group::new(group.delimiter(), inner);
                group.set_span(at.unwrap_or_else(Span::call_site));
                code.extend([TokenTree::Group(group)]);
            }
            mut token => {
                if let Some(at) = at {
                    token.set_span(at);
                }
                code.extend([token]);
            }
        }
    }
    code
}

/// Returns a literal or another token as code.
pub fn token(token: impl Into<TokenTree>) -> TokenStream {
    token.into().into()
}

/// Returns `text` as a string literal.
pub fn string(text: &str) -> TokenStream {
    token(Literal::string(text))
}
