//! Structures and enumerations that a program describes at run time.

use super::{Codec, Dynamic};
use crate::value::schema::{FieldDescription, TypeDescription, Types, VariantDescription};
use crate::value::shape::Shape;
use strandline_core::error::{Error, Result};
use strandline_core::structures::type_layout as layout;

/// Checks that a type called `name` can be described.
fn check_name(types: &Types, name: &str) -> Result<()> {
    if !matches!(Shape::of(name), Some(Shape::Named(own)) if own == name) {
        return Err(Error::Parameter(format!(
            "a type cannot be named {name}, which is the name of another type"
        )));
    }
    match types.get(name) {
        Some(_) => {
            Err(Error::Parameter(format!("there are two types of the name {name}: rename one of them")))
        }
        None => Ok(()),
    }
}

impl Types {
    /// Adds a structure with these fields, for [`Database::dynamic_table`](crate::Database::dynamic_table). Each field has a name, a type as text,
    /// and the value that it gets if a value of an earlier version has no such field. `#[derive(Persist)]` describes a structure with this name,
    /// version (1 if it names none) and fields in the same way.
    ///
    /// ```
    /// # use strandline::*;
    /// #[derive(Debug, PartialEq, Persist)]
    /// struct Person {
    ///     name: String,
    ///     born: Option<i64>,
    /// }
    ///
    /// let mut types = Types::default();
    /// types.add_structure("Person", 1, &[("name", "String", None), ("born", "Option<i64>", None)])?;
    /// let db = Database::in_memory()?;
    /// let people = db.dynamic_table("people", "u64", "Person", &types)?;
    /// let ann = [("name", Dynamic::Text("Ann".into())), ("born", Dynamic::Optional(None))];
    /// let ann = Dynamic::Record(ann.map(|(name, value)| (name.to_owned(), value)).to_vec());
    /// db.write(|tx| people.set(tx, &Dynamic::Unsigned(7), &ann))?;
    ///
    /// let people = db.table::<u64, Person>("people")?;
    /// let found = db.read(|tx| people.get(tx, &7))?;
    /// assert_eq!(found, Some(Person { name: "Ann".into(), born: None }));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is already a type with this name, if a field's type is not known, or if a default is not of its field's
    /// type.
    pub fn add_structure(
        &mut self,
        name: &str,
        version: u32,
        fields: &[(&str, &str, Option<&Dynamic>)],
    ) -> Result<()> {
        check_name(self, name)?;
        let mut hash = layout::begin_derived(name, version);
        let mut described = Vec::new();
        for (field, type_name, default) in fields {
            let refused =
                |what: &str| Error::Parameter(format!("the field {field} of {name} {what} {type_name}"));
            let codec = Codec::new(type_name, self).ok_or_else(|| refused("cannot be of the type"))?;
            hash = layout::field(
                hash,
                field,
                codec
                    .layout(false)
                    .map_err(|_| refused("has a type whose description contradicts itself:"))?,
            );
            let default = default.map(|default| codec.write_inside(default)).transpose();
            described.push(FieldDescription {
                name: (*field).to_owned(),
                type_name: (*type_name).to_owned(),
                was: None,
                default: default.map_err(|_| refused("has a default that is not of the type"))?,
            });
        }
        let variants = vec![VariantDescription { name: name.to_owned(), was: None, fields: described }];
        self.add(TypeDescription { name: name.to_owned(), version, layout: hash, is_enum: false, variants });
        Ok(())
    }

    /// States that the field `field` of `structure` was named `was` in earlier versions, like `#[persist(was = "…")]`. When a table is opened, the
    /// field keeps its values.
    ///
    /// ```
    /// # use strandline::*;
    /// let mut types = Types::default();
    /// types.add_structure("Book", 2, &[("title", "String", None)])?;
    /// types.rename_field("Book", "title", "name")?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is no such structure or field.
    pub fn rename_field(&mut self, structure: &str, field: &str, was: &str) -> Result<()> {
        let found = self.get_mut(structure).filter(|found| !found.is_enum);
        let found = found.and_then(|found| found.variants[0].fields.iter_mut().find(|one| one.name == field));
        let absent = || Error::Parameter(format!("there is no structure {structure} with a field {field}"));
        found.ok_or_else(absent)?.was = Some(was.to_owned());
        Ok(())
    }

    /// Adds an enumeration whose variants have no fields. See [`add_structure`](Self::add_structure).
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is already a type with this name.
    pub fn add_enumeration(&mut self, name: &str, version: u32, variants: &[&str]) -> Result<()> {
        check_name(self, name)?;
        let begin = layout::begin_derived(name, version);
        let hash = variants.iter().fold(begin, |hash, variant| layout::variant(hash, variant));
        let described = variants.iter().map(|variant| VariantDescription {
            name: (*variant).to_owned(),
            was: None,
            fields: Vec::new(),
        });
        let variants = described.collect();
        self.add(TypeDescription { name: name.to_owned(), version, layout: hash, is_enum: true, variants });
        Ok(())
    }
}
