//! Refuses types that are recognizable by their names, with advice. The compiler refuses other types that lack the trait.

use proc_macro::{Delimiter, TokenTree};

use crate::input::{Depth, Refused, Result, is, is_word, split};

/// Unpacks a type that came through a macro's `$type:ty`, whose tokens are in a group without delimiters.
pub fn ungrouped(ty: &[TokenTree]) -> Vec<TokenTree> {
    match ty {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            ungrouped(&group.stream().into_iter().collect::<Vec<_>>())
        }
        ty => ty.to_vec(),
    }
}

/// Returns an error if a field's type contains a pointer into volatile memory, or the type `own` that the derive is for.
pub fn refuse_volatile(ty: &[TokenTree], own: &str) -> Result<()> {
    let inside = ungrouped(ty);
    let refuse = |message: &str| Err(Refused::new(ty, message));
    match inside.as_slice() {
        [] => Ok(()),
        [first, ..] if is(first, '&') => refuse(
            "a reference cannot be kept in a pool: what it points to is gone when the program ends; \
             keep the value itself, or in a `Store` a `Ptr<'p, T>` to a value in the pool",
        ),
        [first, ..] if is(first, '*') => refuse(
            "a raw pointer cannot be kept in a pool: the address means nothing to the next process; \
             keep the value itself, or in a `Store` a `Ptr<'p, T>` to a value in the pool",
        ),
        [first, ..] if ["fn", "unsafe", "extern", "for"].into_iter().any(|word| is_word(first, word)) => {
            refuse(
                "a function pointer cannot be kept in a pool: the address means nothing to the next process; \
             use an enumeration that names what to call",
            )
        }
        [first, ..] if is_word(first, "dyn") || is_word(first, "impl") => refuse(
            "a trait object cannot be kept in a pool: its table of functions lies in this process; \
             use an enumeration of the types that it can be",
        ),
        [TokenTree::Group(group)] => {
            let content: Vec<TokenTree> = group.stream().into_iter().collect();
            match group.delimiter() {
                // Only the element's type matters, not the array's length.
                Delimiter::Bracket => refuse_volatile(&split(content, ';')[0], own),
                _ => split(content, ',').iter().try_for_each(|element| refuse_volatile(element, own)),
            }
        }
        path => refuse_path(path, own, refuse),
    }
}

/// Returns the last name of a path and the name's arguments.
fn last_name(path: &[TokenTree]) -> Option<(String, Vec<Vec<TokenTree>>)> {
    let (mut name, mut arguments, mut depth) = (None, Vec::new(), Depth::default());
    for token in path {
        let was_inside = depth.is_inside();
        depth.pass(token);
        match token {
            // A macro call may produce any type.
            token if is(token, '!') && !was_inside => return None,
            TokenTree::Ident(ident) if !was_inside => {
                name = Some(ident.to_string());
                arguments.clear();
            }
            token if was_inside && depth.is_inside() => arguments.push(token.clone()),
            _ => {}
        }
    }
    Some((name?, split(arguments, ',')))
}

fn refuse_path(path: &[TokenTree], own: &str, refuse: impl Fn(&str) -> Result<()>) -> Result<()> {
    let Some((name, arguments)) = last_name(path) else { return Ok(()) };
    let is_lifetime = |argument: &Vec<TokenTree>| argument.first().is_some_and(|first| is(first, '\''));
    let branded = arguments.iter().any(is_lifetime);
    // A path of several names may refer to another type of that name.
    let is_own = name == own && path.first().is_some_and(|first| is_word(first, own));
    match name.as_str() {
        _ if is_own || name == "Self" => refuse(
            "a type that holds itself cannot be stored, since its description has no end; \
             keep its parts in a table, each with the keys of others, or in a `Store` a `Ptr<'p, T>`",
        ),
        "Weak" => refuse(
            "a pointer that owns nothing cannot be stored: what it points to is gone when the program ends; \
             use the key of a row, or in a `Store` a `Ptr<'p, T>`",
        ),
        "BinaryHeap" | "LinkedList" => refuse(
            "this collection cannot be stored; use a `Vec<T>` or a `VecDeque<T>` where all of it is part of the value, \
             else a table or queue of its own, or in a `Store` a `Vector<'p, T>` or a `Queue<'p, T>`",
        ),
        "Cell" | "RefCell" | "Mutex" | "RwLock" => refuse(
            "interior mutability has no place in a pool, where transactions isolate: \
             keep the value itself",
        ),
        // A type with a brand decides about its arguments itself.
        _ if branded => Ok(()),
        _ => {
            arguments.iter().filter(|argument| is_type(argument)).try_for_each(|ty| refuse_volatile(ty, own))
        }
    }
}

/// Returns whether an argument is a type, and not a value or a condition on an associated type.
fn is_type(argument: &[TokenTree]) -> bool {
    let is_value = match argument.first() {
        Some(TokenTree::Literal(_)) => true,
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        Some(first) => is(first, '-'),
        None => true,
    };
    !is_value && split(argument.to_vec(), '=').len() == 1
}
