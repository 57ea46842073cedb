//! Conversion of values, keys and descriptions to JSON and back.

use serde_json::{Map, Value, json};

use crate::described::dynamic::Dynamic;
use crate::described::shown::{TableDescription, TableKind};
use crate::value::schema::{FieldDescription, TypeDescription, Types, VariantDescription};

fn hex_of(number: u64) -> String {
    format!("{number:#x}")
}

fn text(of: &Value, name: &str) -> Option<String> {
    Some(of.get(name)?.as_str()?.to_owned())
}

fn number(of: &Value) -> Option<u64> {
    u64::from_str_radix(of.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn each<T>(of: &Value, name: &str, described: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    of.get(name)?.as_array()?.iter().map(described).collect()
}

fn described_field(field: &Value) -> Option<FieldDescription> {
    let (name, type_name) = (text(field, "name")?, text(field, "type")?);
    Some(FieldDescription { name, type_name, was: None, default: None })
}

fn described_variant(variant: &Value) -> Option<VariantDescription> {
    let (name, fields) = (text(variant, "name")?, each(variant, "fields", described_field)?);
    Some(VariantDescription { name, was: None, fields })
}

fn described_type(of: &Value) -> Option<TypeDescription> {
    Some(TypeDescription {
        name: text(of, "name")?,
        version: of.get("version")?.as_u64()?.try_into().ok()?,
        layout: number(of.get("layout")?)?,
        is_enum: of.get("enumeration")?.as_bool()?,
        variants: each(of, "variants", described_variant)?,
    })
}

impl Types {
    /// Returns the descriptions of the program's own types as JSON.
    pub fn to_json(&self) -> Value {
        let field = |field: &FieldDescription| json!({"name": field.name, "type": field.type_name});
        let variant = |variant: &VariantDescription| json!({"name": variant.name, "fields": variant.fields.iter().map(field).collect::<Vec<_>>()});
        let own = self.all().iter().filter(|of| !of.name.starts_with("strandline::"));
        let types = own.map(|of| {
        json!({
            "name": of.name, "version": of.version, "layout": hex_of(of.layout), "enumeration": of.is_enum,
            "variants": of.variants.iter().map(variant).collect::<Vec<_>>(),
        })
    });
        types.collect()
    }
}

impl TableDescription {
    /// Returns the description as JSON, with the number of the table's rows. `strandline pool dump --json` prints this line before the rows of a
    /// table.
    pub fn to_json(&self, rows: Option<u64>) -> Value {
        json!({
            "table": self.name, "kind": self.kind.to_string(), "rows": rows, "key": self.key, "value": self.value,
            "layouts": [hex_of(self.layouts.0), hex_of(self.layouts.1)],
            "types": self.types.to_json(),
        })
    }

    /// Returns the table that [`to_json`](Self::to_json) has described, or `None` if the JSON does not describe a table.
    pub fn from_json(line: &Value) -> Option<Self> {
        let kind = text(line, "kind")?;
        let kinds = [TableKind::Table, TableKind::Multimap, TableKind::Queue];
        let layouts = line.get("layouts")?;
        Some(Self {
            name: text(line, "table")?,
            kind: kinds.into_iter().find(|known| known.to_string() == kind)?,
            key: text(line, "key")?,
            value: text(line, "value")?,
            types: Types::from(each(line, "types", described_type)?),
            layouts: (number(layouts.get(0)?)?, number(layouts.get(1)?)?),
        })
    }
}

impl Dynamic {
    /// Returns the value as JSON. Numbers that JSON programs would round become strings, bytes become hexadecimal digits, a variant with fields
    /// becomes an object with one field, and a pointer or a collection becomes `{"at": "0x…"}`.
    pub fn to_json(&self) -> Value {
        match self {
            Dynamic::Unit => Value::Null,
            Dynamic::Bool(truth) => (*truth).into(),
            Dynamic::Char(character) => character.to_string().into(),
            Dynamic::Unsigned(number) => {
                u64::try_from(*number).map_or_else(|_| number.to_string().into(), Value::from)
            }
            Dynamic::Signed(number) => {
                i64::try_from(*number).map_or_else(|_| number.to_string().into(), Value::from)
            }
            Dynamic::Float(number) if number.is_finite() => (*number).into(),
            // A negative NaN is another key than a positive one.
            Dynamic::Float(number) if number.is_nan() && number.is_sign_negative() => "-NaN".into(),
            Dynamic::Float(number) => number.to_string().into(),
            Dynamic::Duration(seconds, nanos) => json!([seconds, nanos]),
            Dynamic::Text(text) => text.as_str().into(),
            Dynamic::Bytes(bytes) => hex::encode(bytes).into(),
            Dynamic::Optional(None) => Value::Null,
            // This distinguishes `Some(None)` from `None`.
            Dynamic::Optional(Some(inside)) if matches!(**inside, Dynamic::Optional(_) | Dynamic::Unit) => {
                json!([inside.to_json()])
            }
            Dynamic::Optional(Some(inside)) => inside.to_json(),
            Dynamic::List(list) => list.iter().map(Self::to_json).collect(),
            Dynamic::Record(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), value.to_json()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Dynamic::Variant(name, fields) if **fields == Dynamic::Unit => name.as_str().into(),
            Dynamic::Variant(name, fields) => json!({ name.as_str(): fields.to_json() }),
            Dynamic::Handle(_, at) => json!({"at": hex_of(*at)}),
        }
    }

    /// Returns the value that the JSON describes, for [`Database::load`](crate::Database::load), which knows its type. Returns `None` for a number
    /// that no value can have.
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Dynamic::Unit,
            Value::Bool(truth) => Dynamic::Bool(*truth),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Dynamic::Unsigned(number.into()),
                (_, Some(number)) => Dynamic::Signed(number.into()),
                _ => Dynamic::Float(number.as_f64()?),
            },
            Value::String(text) => Dynamic::Text(text.clone()),
            Value::Array(list) => Dynamic::List(list.iter().map(Self::from_json).collect::<Option<_>>()?),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Some((name.clone(), Self::from_json(value)?));
                Dynamic::Record(fields.iter().map(field).collect::<Option<_>>()?)
            }
        })
    }
}
