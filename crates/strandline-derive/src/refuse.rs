//! Types that can be refused by their looks, with advice. What else does not implement the trait is refused by
//! the compiler.

use syn::{Error, GenericArgument, PathArguments, Result, Type};

/// Refuses a field's type that points into volatile memory, wherever it stands in it.
pub fn refuse_volatile(ty: &Type) -> Result<()> {
    let refuse = |message: &str| Err(Error::new_spanned(ty, message));
    match ty {
        Type::Reference(_) => refuse(
            "a reference cannot be kept in a pool: what it points to is gone when the program ends; \
             keep the value itself, or a `Ptr<'p, T>` to a value in the pool",
        ),
        Type::Ptr(_) => refuse(
            "a raw pointer cannot be kept in a pool: the address means nothing to the next process; \
             use a `Ptr<'p, T>` to a value in the pool",
        ),
        Type::FnPtr(_) => refuse(
            "a function pointer cannot be kept in a pool: the address means nothing to the next process; \
             use an enumeration that names what to call",
        ),
        Type::TraitObject(_) | Type::ImplTrait(_) => refuse(
            "a trait object cannot be kept in a pool: its table of functions lies in this process; \
             use an enumeration of the types that it can be",
        ),
        Type::Array(array) => refuse_volatile(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(refuse_volatile),
        Type::Paren(paren) => refuse_volatile(&paren.elem),
        Type::Group(group) => refuse_volatile(&group.elem),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            let arguments = match &last.arguments {
                PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
                _ => None,
            };
            let branded = arguments.is_some_and(|arguments| {
                arguments.iter().any(|argument| matches!(argument, GenericArgument::Lifetime(_)))
            });
            match last.ident.to_string().as_str() {
                "Box" | "Rc" | "Arc" | "Weak" => refuse(
                    "a pointer into volatile memory cannot be kept in a pool; \
                     use a `Ptr<'p, T>` to a value in the pool",
                ),
                "Vec" | "VecDeque" | "BinaryHeap" | "LinkedList" => refuse(
                    "a volatile collection cannot be kept in a pool; \
                     use a `Vector<'p, T>` or a `Queue<'p, T>` (for bytes, `Bytes<'p>`)",
                ),
                "String" => refuse(
                    "a `String` has no fixed size and cannot be a field; \
                     use a `Text<'p>`, or keep the string as a map's key or value",
                ),
                "HashMap" | "BTreeMap" | "HashSet" | "BTreeSet" if !branded => refuse(
                    "a volatile collection cannot be kept in a pool; \
                     use strandline's `HashMap<'p, K, V>` or `OrderedMap<'p, K, V>`",
                ),
                "Cell" | "RefCell" | "Mutex" | "RwLock" => refuse(
                    "interior mutability has no place in a pool, where transactions isolate: \
                     keep the value itself",
                ),
                _ => arguments.into_iter().flatten().try_for_each(|argument| match argument {
                    GenericArgument::Type(ty) if !branded => refuse_volatile(ty),
                    _ => Ok(()),
                }),
            }
        }
        _ => Ok(()),
    }
}
