//! Parses the arguments of `#[persist(…)]`.

use proc_macro::{TokenStream, TokenTree};

use crate::input::{Input, Refused, Result, is, is_word, split, stream};
use crate::template::{fill, string, token};

/// The arguments of `#[persist(…)]` on a type.
pub struct Attributes {
    /// The name of the type, as a string literal.
    pub name: TokenStream,
    pub version: u32,
}

pub fn attributes(input: &Input) -> Result<Attributes> {
    let mut attributes = Attributes { name: string(&input.name.to_string()), version: 1 };
    for content in &input.attributes {
        for meta in split(content.clone().into_iter().collect(), ',') {
            match meta.as_slice() {
                [] => {}
                [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "version") => {
                    let text = literal.to_string().replace('_', "");
                    let digits = text.strip_suffix("u32").unwrap_or(&text);
                    attributes.version = digits.parse().map_err(|_| {
                        Refused::new(&meta[2..], "expected a version: an integer of at most 32 bits")
                    })?;
                }
                [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "name") => {
                    let text = literal.to_string();
                    if !text.starts_with('"') && !text.starts_with("r\"") && !text.starts_with("r#") {
                        return Err(Refused::new(&meta[2..], "expected a name: a string"));
                    }
                    if text.contains(['#', ',', '<', '>', '(', ')', '[', ']', ';']) && !text.starts_with("r#")
                    {
                        return Err(Refused::new(
                            &meta[2..],
                            "a name has no brackets, commas, semicolons or `#`",
                        ));
                    }
                    attributes.name = token(literal.clone());
                }
                _ => return Err(Refused::new(&meta, "expected `version = 2` or `name = \"…\"`")),
            }
        }
    }
    Ok(attributes)
}

/// The arguments of `#[persist(…)]` on a field or a variant.
pub struct Change {
    /// The name in earlier versions, as a string literal.
    pub was: TokenStream,
    /// The expression for the value in versions that had no such field.
    pub default: Option<TokenStream>,
    /// The path of a module whose functions convert the field's value to what is stored, and back.
    pub with: Option<TokenStream>,
    /// True if the field is not stored. Loading a value then sets the field to its default.
    pub is_skipped: bool,
}

impl Change {
    /// Returns the type that is stored for the field, whose own type is `ty`.
    pub fn stored(&self, ty: TokenStream) -> TokenStream {
        match &self.with {
            Some(module) => fill("$module::Stored", &[("module", module)]),
            None => ty,
        }
    }
}

const OF_FIELDS: &str = "expected `was = \"…\"`, `default`, `default = …`, `skip`, or `with = module`, a module with \
     `type Stored`, `fn store(&T) -> Stored` and `fn load(Stored) -> Result<T, E>`";

pub fn change(attributes: &[TokenStream], is_field: bool) -> Result<Change> {
    let none = || fill("::core::option::Option::None", &[]);
    let mut change = Change { was: none(), default: None, with: None, is_skipped: false };
    let mut is_renamed = false;
    let metas = attributes.iter().flat_map(|content| split(content.clone().into_iter().collect(), ','));
    for meta in metas {
        match meta.as_slice() {
            [] => {}
            [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "was") => {
                let was = token(literal.clone());
                is_renamed = true;
                change.was = fill("::core::option::Option::Some($was.into())", &[("was", &was)]);
            }
            [name] if is_field && is_word(name, "default") => {
                change.default = Some(fill("::core::default::Default::default()", &[]));
            }
            [name, sign, value @ ..] if is_field && is(sign, '=') && is_word(name, "default") => {
                change.default = Some(stream(value));
            }
            [name] if is_field && is_word(name, "skip") => change.is_skipped = true,
            [name, sign, TokenTree::Literal(_)] if is(sign, '=') && is_word(name, "with") => {
                return Err(Refused::new(&meta[2..], "expected the path of a module, without quotes"));
            }
            [name, sign, path @ ..] if is_field && is(sign, '=') && is_word(name, "with") => {
                change.with = Some(stream(path));
            }
            _ => {
                return Err(Refused::new(&meta, if is_field { OF_FIELDS } else { "expected `was = \"…\"`" }));
            }
        }
    }
    let is_stored = change.with.is_some() || is_renamed;
    if let (true, Some(content)) = (change.is_skipped && is_stored, attributes.first()) {
        let content: Vec<TokenTree> = content.clone().into_iter().collect();
        let message = if change.with.is_some() {
            "a field that is skipped is not stored: remove `with`, or `skip`"
        } else {
            "a field that is skipped is not stored: remove `was`, or `skip`"
        };
        return Err(Refused::new(&content, message));
    }
    Ok(change)
}
