//! Parses the type that a derive is for. The compiler has parsed it already, so this does not check the syntax.

use std::iter::Peekable;
use std::vec::IntoIter;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::template::{fill, token};

/// An error, and the tokens that it is about.
pub struct Refused {
    message: String,
    first: Span,
    last: Span,
}

pub type Result<T> = std::result::Result<T, Refused>;

impl Refused {
    /// Returns an error about these tokens.
    pub fn new(tokens: &[TokenTree], message: impl Into<String>) -> Self {
        let span = |token: Option<&TokenTree>| token.map_or_else(Span::call_site, TokenTree::span);
        Self { message: message.into(), first: span(tokens.first()), last: span(tokens.last()) }
    }

    /// Returns an error about this name.
    pub fn name(name: &Ident, message: &str) -> Self {
        Self::new(&[name.clone().into()], message)
    }

    /// Returns a call of `compile_error`. The compiler underlines the code from the first token to the last.
    pub fn into_tokens(self) -> TokenStream {
        let mut call: Vec<TokenTree> = Vec::new();
        for word in ["core", "compile_error"] {
            call.extend([Punct::new(':', Spacing::Joint).into(), Punct::new(':', Spacing::Alone).into()]);
            call.push(Ident::new(word, self.first).into());
        }
        call.push(Punct::new('!', Spacing::Alone).into());
        call.iter_mut().for_each(|token| token.set_span(self.first));
        let mut message = Literal::string(&self.message);
        message.set_span(self.last);
        let mut arguments = Group::new(Delimiter::Brace, token(message));
        arguments.set_span(self.last);
        call.push(arguments.into());
        call.into_iter().collect()
    }
}

/// A struct or an enum.
pub struct Input {
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    /// The where clause, including the word `where`; empty if there is none.
    pub where_clause: TokenStream,
    /// The variants; a struct counts as one variant.
    pub variants: Vec<Variant>,
    pub is_enum: bool,
    /// The arguments of the type's `#[persist(…)]`.
    pub attributes: Vec<TokenStream>,
}

/// A generic parameter of the type.
pub struct Parameter {
    pub kind: ParameterKind,
    /// The form in which code refers to it: `'p`, `T`, `N`.
    pub name: Vec<TokenTree>,
    /// The bounds after the colon.
    bounds: Vec<TokenTree>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    Lifetime,
    Type,
    Const,
}

/// A variant of an enum, or a struct.
pub struct Variant {
    /// The name of the variant or of the struct.
    pub name: Ident,
    pub fields: Vec<Field>,
    /// The arguments of the variant's `#[persist(…)]`; empty for a struct.
    pub attributes: Vec<TokenStream>,
    /// The brackets around the fields; `None` for a unit variant.
    shape: Delimiter,
    is_enum: bool,
}

/// A field, and the variable that generated code binds it to.
pub struct Field {
    /// The field's name, or its index if it has none.
    pub name: String,
    /// The variable: `field_0`, `field_1`, and so on.
    pub variable: TokenStream,
    pub ty: Vec<TokenTree>,
    /// The arguments of the field's `#[persist(…)]`.
    pub attributes: Vec<TokenStream>,
    own_name: Option<Ident>,
}

impl Parameter {
    fn read(tokens: Vec<TokenTree>) -> Self {
        let mut tokens = without_attributes(tokens).peekable();
        let mut name: Vec<TokenTree> = tokens.next().into_iter().collect();
        let kind = match name.first() {
            Some(first) if is(first, '\'') => {
                name.extend(tokens.next());
                ParameterKind::Lifetime
            }
            Some(first) if is_word(first, "const") => {
                name = tokens.next().into_iter().collect();
                ParameterKind::Const
            }
            _ => ParameterKind::Type,
        };
        // Drops the parameter's default.
        let rest = split(tokens.collect(), '=').into_iter().next().unwrap_or_default();
        Self { kind, name, bounds: rest.into_iter().skip(1).collect() }
    }

    /// Refuses the bound `Persist` without a lifetime. The compiler's own error would only say that a lifetime is missing.
    pub fn check_bounds(&self) -> Result<()> {
        let is_bare = |at: usize| {
            is_word(&self.bounds[at], "Persist") && self.bounds.get(at + 1).is_none_or(|next| !is(next, '<'))
        };
        match (0..self.bounds.len()).find(|&at| is_bare(at)) {
            Some(at) => Err(Refused::new(
                &self.bounds[at..=at],
                "this bound needs the lifetime of a pool; `strandline::Value` stands for all types that a table can hold",
            )),
            None => Ok(()),
        }
    }

    /// Returns whether the parameter already has the bound `Persist` or `Value`, here or in the where clause. A second such bound, for another
    /// lifetime, would be ambiguous to the compiler.
    fn is_bound(&self, where_clause: &[Vec<TokenTree>]) -> bool {
        let is_ours = |token: &TokenTree| is_word(token, "Persist") || is_word(token, "Value");
        let is_own = |condition: &[TokenTree]| {
            let colon = condition.iter().position(|token| is(token, ':'));
            colon.is_some_and(|colon| {
                let subject = condition[..colon].last().map(TokenTree::to_string);
                colon <= 2 && subject == self.name.first().map(TokenTree::to_string)
            })
        };
        let mut conditions = where_clause.iter().filter(|condition| is_own(condition));
        self.bounds.iter().any(is_ours) || conditions.any(|condition| condition.iter().any(is_ours))
    }

    /// Returns the parameter's declaration for an `impl`. Adds `bound` to a type parameter, unless it already has the bound `Persist` or `Value`.
    pub fn declaration(&self, bound: &TokenStream, where_clause: &[Vec<TokenTree>]) -> TokenStream {
        let nothing = TokenStream::new();
        let bound = if self.is_bound(where_clause) { &nothing } else { bound };
        let parts = [("name", &stream(&self.name)), ("bounds", &stream(&self.bounds)), ("bound", bound)];
        match (self.kind, self.bounds.last()) {
            (ParameterKind::Const, _) => fill("const $name: $bounds", &parts),
            (ParameterKind::Lifetime, _) => fill("$name: $bounds", &parts),
            (ParameterKind::Type, None) => fill("$name: $bound", &parts),
            (ParameterKind::Type, Some(_)) if bound.is_empty() => fill("$name: $bounds", &parts),
            (ParameterKind::Type, Some(last)) if is(last, '+') => fill("$name: $bounds $bound", &parts),
            (ParameterKind::Type, Some(_)) => fill("$name: $bounds + $bound", &parts),
        }
    }
}

impl Variant {
    fn read(name: Ident, body: Option<&Group>, is_enum: bool) -> Self {
        let (shape, fields) = match body {
            None => (Delimiter::None, Vec::new()),
            Some(body) => {
                let fields = split(body.stream().into_iter().collect(), ',');
                (body.delimiter(), fields.into_iter().filter(|field| !field.is_empty()).collect())
            }
        };
        let fields = fields.into_iter().enumerate();
        let fields =
            fields.map(|(index, field)| Field::read(index, field, shape == Delimiter::Brace)).collect();
        Self { name, fields, attributes: Vec::new(), shape, is_enum }
    }

    /// Returns the variant with its variables. The code serves as a pattern and as an expression.
    pub fn pattern(&self) -> TokenStream {
        let name = token(self.name.clone());
        let path = if self.is_enum { fill("Self::$name", &[("name", &name)]) } else { fill("Self", &[]) };
        let mut fields = TokenStream::new();
        for field in &self.fields {
            let name = field.own_name.clone().map(token).unwrap_or_default();
            let text = if self.shape == Delimiter::Brace { "$name: $variable," } else { "$variable," };
            fields.extend(fill(text, &[("name", &name), ("variable", &field.variable)]));
        }
        let parts = [("path", &path), ("fields", &fields)];
        match self.shape {
            Delimiter::Brace => fill("$path { $fields }", &parts),
            Delimiter::Parenthesis => fill("$path ($fields)", &parts),
            _ => path,
        }
    }
}

impl Field {
    fn read(index: usize, tokens: Vec<TokenTree>, is_named: bool) -> Self {
        let attributes = persist_attributes(&tokens);
        let mut tokens = without_visibility(without_attributes(tokens).collect()).into_iter();
        let own_name = match tokens.as_slice() {
            [TokenTree::Ident(name), ..] if is_named => Some(name.clone()),
            _ => None,
        };
        if is_named {
            // Skips the name and its colon.
            tokens.nth(1);
        }
        let name = own_name.as_ref().map_or_else(|| index.to_string(), Ident::to_string);
        let variable = token(Ident::new(&format!("field_{index}"), Span::call_site()));
        Self { name, variable, ty: tokens.collect(), attributes, own_name }
    }

    /// Returns the field's type.
    pub fn ty(&self) -> TokenStream {
        stream(&self.ty)
    }

    /// Returns where the compiler's errors about the field point.
    pub fn span(&self) -> Span {
        self.ty.first().map_or_else(Span::call_site, TokenTree::span)
    }
}

impl Input {
    /// Parses the item.
    ///
    /// # Errors
    /// Returns an error if it is a union, or an enumeration without variants.
    pub fn read(item: TokenStream) -> Result<Self> {
        let item: Vec<TokenTree> = item.into_iter().collect();
        let attributes = persist_attributes(&item);
        let rest = without_visibility(without_attributes(item).collect());
        let mut tokens = rest.into_iter().peekable();
        let kind: Vec<TokenTree> = tokens.next().into_iter().collect();
        let Some(TokenTree::Ident(name)) = tokens.next() else {
            return Err(Refused::new(&kind, "expected a structure or an enumeration"));
        };
        let parameters = read_parameters(&mut tokens);

        let (mut where_clause, mut body, mut depth) = (Vec::new(), None, Depth::default());
        for token in tokens {
            match token {
                TokenTree::Group(group)
                    if body.is_none() && !depth.is_inside() && is_body(&group, &where_clause) =>
                {
                    body = Some(group);
                }
                token if is(&token, ';') => {}
                token => {
                    depth.pass(&token);
                    where_clause.push(token);
                }
            }
        }
        let is_enum = kind.iter().any(|kind| is_word(kind, "enum"));
        let variants = match (&body, is_enum) {
            _ if kind.iter().any(|kind| is_word(kind, "union")) => {
                let message = "a union cannot be kept in a pool: nothing says which of its fields is there; use an enumeration";
                return Err(Refused::new(&kind, message));
            }
            (Some(body), true) => read_variants(body),
            (body, _) => vec![Variant::read(name.clone(), body.as_ref(), false)],
        };
        if variants.is_empty() {
            return Err(Refused::name(&name, "an enumeration without variants has no value to keep"));
        }
        Ok(Self { name, parameters, where_clause: stream(&where_clause), variants, is_enum, attributes })
    }

    pub fn lifetimes(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Lifetime)
    }

    /// Returns the declaration of the parameters for an `impl`, in angle brackets: `first`, unless it is empty, and then the type's own. `bound` is
    /// added to each type parameter that has no such bound of its own.
    pub fn declarations(&self, first: &TokenStream, bound: &TokenStream) -> TokenStream {
        let mut all = TokenStream::new();
        let conditions = split(self.where_clause.clone().into_iter().collect(), ',');
        let own = self.parameters.iter().map(|parameter| parameter.declaration(bound, &conditions));
        for declaration in Some(first.clone()).filter(|first| !first.is_empty()).into_iter().chain(own) {
            all.extend(fill("$declaration,", &[("declaration", &declaration)]));
        }
        fill("< $all >", &[("all", &all)])
    }

    /// Returns the type with its own parameters as arguments.
    pub fn self_type(&self) -> TokenStream {
        let mut names = TokenStream::new();
        for parameter in &self.parameters {
            names.extend(fill("$name,", &[("name", &stream(&parameter.name))]));
        }
        fill("$type < $names >", &[("type", &token(self.name.clone())), ("names", &names)])
    }
}

/// Returns whether `group` holds the fields or the variants, and is not a part of the where clause.
fn is_body(group: &Group, where_clause: &[TokenTree]) -> bool {
    group.delimiter() == Delimiter::Brace
        || group.delimiter() == Delimiter::Parenthesis && where_clause.is_empty()
}

/// Returns the arguments of each `#[persist(…)]` before an item, a variant or a field.
fn persist_attributes(item: &[TokenTree]) -> Vec<TokenStream> {
    let attributes = item.windows(2).take_while(|pair| is(&pair[0], '#') || is(&pair[1], '#'));
    attributes.filter_map(|pair| persist_attribute(&pair[1])).collect()
}

fn persist_attribute(content: &TokenTree) -> Option<TokenStream> {
    let TokenTree::Group(content) = content else { return None };
    let mut content = content.stream().into_iter();
    match (content.next()?, content.next()?) {
        (name, TokenTree::Group(inside)) if is_word(&name, "persist") => Some(inside.stream()),
        _ => None,
    }
}

fn read_parameters(tokens: &mut Peekable<IntoIter<TokenTree>>) -> Vec<Parameter> {
    if tokens.next_if(|token| is(token, '<')).is_none() {
        return Vec::new();
    }
    let (mut inside, mut depth) = (Vec::new(), Depth::default());
    for token in tokens {
        if !depth.is_inside() && is(&token, '>') && !depth.follows_a_dash {
            break;
        }
        depth.pass(&token);
        inside.push(token);
    }
    let parameters = split(inside, ',').into_iter().filter(|parameter| !parameter.is_empty());
    parameters.map(Parameter::read).collect()
}

fn read_variants(body: &Group) -> Vec<Variant> {
    let mut variants = Vec::new();
    let mut tokens = body.stream().into_iter().peekable();
    while tokens.peek().is_some() {
        let mut attributes = Vec::new();
        while tokens.next_if(|token| is(token, '#')).is_some() {
            attributes.extend(tokens.next().as_ref().and_then(persist_attribute));
        }
        // Only attributes can precede a variant's name: the compiler refuses a visibility there, but after the derive has run.
        let Some(TokenTree::Ident(name)) = tokens.find(|token| matches!(token, TokenTree::Ident(_))) else {
            break;
        };
        let body = match tokens.peek() {
            Some(TokenTree::Group(body)) => Some(body.clone()),
            _ => None,
        };
        variants.push(Variant { attributes, ..Variant::read(name, body.as_ref(), true) });
        // Skips the discriminant, up to the comma. A `<` after `::` opens a path's arguments, which may contain commas; any other `<` compares.
        let (mut depth, mut colons) = (0_usize, 0);
        for token in tokens.by_ref() {
            match &token {
                token if is(token, ',') && depth == 0 => break,
                token if is(token, '<') && (colons == 2 || depth > 0) => depth += 1,
                token if is(token, '>') => depth = depth.saturating_sub(1),
                _ => {}
            }
            colons = if is(&token, ':') { colons + 1 } else { 0 };
        }
    }
    variants
}

/// Counts open angle brackets. The `>` of an arrow (`->`) closes none.
#[derive(Default)]
pub struct Depth {
    open: usize,
    follows_a_dash: bool,
}

impl Depth {
    pub fn pass(&mut self, token: &TokenTree) {
        if is(token, '<') {
            self.open += 1;
        } else if is(token, '>') && !self.follows_a_dash {
            self.open = self.open.saturating_sub(1);
        }
        self.follows_a_dash = is(token, '-');
    }

    pub fn is_inside(&self) -> bool {
        self.open > 0
    }
}

/// Splits the tokens at each `sign` outside all brackets.
pub fn split(tokens: Vec<TokenTree>, sign: char) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut depth) = (vec![Vec::new()], Depth::default());
    for token in tokens {
        depth.pass(&token);
        if is(&token, sign) && !depth.is_inside() {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    parts
}

fn without_attributes(tokens: Vec<TokenTree>) -> IntoIter<TokenTree> {
    let mut tokens = tokens.into_iter();
    while tokens.as_slice().first().is_some_and(|token| is(token, '#')) {
        tokens.nth(1);
    }
    tokens
}

fn without_visibility(tokens: Vec<TokenTree>) -> Vec<TokenTree> {
    let mut tokens = tokens.into_iter();
    let first = match tokens.as_slice().first() {
        // A macro's `$visibility:vis` arrives as a group without delimiters.
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().next()
        }
        first => first.cloned(),
    };
    if first.is_none_or(|first| is_word(&first, "pub")) {
        tokens.next();
        // In a tuple struct, `pub (u32, u32)` is a public field that holds a pair.
        if let Some(TokenTree::Group(group)) = tokens.as_slice().first()
            && group.delimiter() == Delimiter::Parenthesis
        {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_place = |word| inside.first().is_some_and(|first| is_word(first, word));
            if is_place("in") || inside.len() == 1 && ["crate", "self", "super"].into_iter().any(is_place) {
                tokens.next();
            }
        }
    }
    tokens.collect()
}

pub fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

pub fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

pub fn stream(tokens: &[TokenTree]) -> TokenStream {
    tokens.iter().cloned().collect()
}
