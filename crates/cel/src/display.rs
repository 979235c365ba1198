//! Values as text: one that says the type, for people and for tests.

use std::fmt;

use crate::{
    opaque::{Inner, Opaque},
    value::Value,
};

/// Unambiguous text: `1u`, `double 1.5e0`, `"text"`, `duration 1000000000`, `{"a": [1]}`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Uint(u) => write!(f, "{u}u"),
            Value::Double(d) if d.is_nan() => f.write_str("double NaN"),
            Value::Double(d) if d.is_infinite() => {
                f.write_str(if *d > 0.0 { "double +Inf" } else { "double -Inf" })
            }
            Value::Double(d) => write!(f, "double {d:e}"),
            Value::String(s) => write!(f, "{}", serde_json::Value::from(&**s)),
            Value::Bytes(bytes) => {
                f.write_str("bytes ")?;
                bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
            Value::Duration(nanos) => write!(f, "duration {nanos}"),
            Value::Timestamp(t) => write!(f, "timestamp {t}"),
            Value::Type(t) => write!(f, "type {}", t.name()),
            Value::Optional(None) => f.write_str("optional()"),
            Value::Optional(Some(value)) => write!(f, "optional({value})"),
            Value::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    match item {
                        Ok(item) => write!(f, "{item}")?,
                        Err(error) => write!(f, "error {error}")?,
                    }
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                let entry = |key: Value<'_>| match map.find(&key) {
                    Ok(Some(value)) => format!("{key}: {value}"),
                    Ok(None) => format!("{key}: error no such key: {key}"),
                    Err(error) => format!("{key}: error {error}"),
                };
                let mut entries: Vec<String> = map.keys().into_iter().map(entry).collect();
                entries.sort();
                write!(f, "{{{}}}", entries.join(", "))
            }
            Value::Opaque(opaque) => write!(f, "{opaque}"),
        }
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Quantity(quantity) => write!(f, "quantity {}", quantity.nanos),
            Inner::Url(url) => write!(f, "url {}{}", url.host, url.escaped_path()),
            Inner::Ip(ip) => write!(f, "ip {ip}"),
            Inner::Cidr(cidr) => write!(f, "cidr {cidr}"),
            Inner::Format(format) => write!(f, "format {}", format.name),
            Inner::Semver(version) => write!(f, "semver {version}"),
        }
    }
}
