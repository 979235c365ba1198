//! Named formats: `format.dns1123Label().validate(s)`.

use skopos_object::validation as names;

use crate::{
    eval_error::EvalError,
    library::{Builtin, convert::opaque, strings::text, url::Url},
    opaque::{Inner, Opaque},
    time,
    value::Value,
};

/// A format that strings can be checked against.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// The length of the pattern that kube-apiserver reckons with when it computes costs.
    pub(crate) pattern_len: usize,
    check: fn(&str) -> Vec<String>,
}

static FORMATS: [NamedFormat; 13] = [
    named("dns1123Label", 30, names::dns1123_label),
    named("dns1123Subdomain", 60, names::dns1123_subdomain),
    named("dns1035Label", 30, names::dns1035_label),
    named("qualifiedName", 60, names::label_key),
    named("dns1123LabelPrefix", 30, |s| names::dns1123_label(&prefix(s))),
    named("dns1123SubdomainPrefix", 60, |s| {
        names::dns1123_subdomain(&prefix(s))
    }),
    named("dns1035LabelPrefix", 30, |s| names::dns1035_label(&prefix(s))),
    named("labelValue", 40, names::label_value),
    named("uri", 1103, |s| Url::parse(s).err().into_iter().collect()),
    named("uuid", 72, |s| {
        unless(is_uuid(s), "does not match the UUID format")
    }),
    named("byte", 84, |s| unless(is_base64(s), "invalid base64")),
    named("date", 72, |s| {
        unless(time::schema_date(s).is_ok(), "invalid date")
    }),
    named("datetime", 72, |s| {
        unless(time::schema_date_time(s).is_ok(), "invalid datetime")
    }),
];

const fn named(name: &'static str, pattern_len: usize, check: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat {
        name,
        pattern_len,
        check,
    }
}

/// A prefix may end with a dash, where a name would go on.
fn prefix(s: &str) -> String {
    match s.strip_suffix('-') {
        Some(rest) if s.len() > 1 => format!("{rest}a"),
        _ => s.to_owned(),
    }
}

fn unless(valid: bool, message: &str) -> Vec<String> {
    if valid {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

fn is_uuid(s: &str) -> bool {
    let hex = s.bytes().filter(|b| *b != b'-');
    let places = |n: usize| {
        [8, 13, 18, 23]
            .iter()
            .take(n)
            .all(|at| s.as_bytes().get(*at) == Some(&b'-'))
    };
    let shape = (s.len() == 36 && places(4)) || (s.len() == 32 && !s.contains('-'));
    shape && hex.clone().count() == 32 && hex.clone().all(|b| b.is_ascii_hexdigit())
}

fn is_base64(s: &str) -> bool {
    use base64::Engine as _;
    !s.is_empty() && base64::engine::general_purpose::STANDARD.decode(s).is_ok()
}

fn lookup(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    /// A function that gives one format. The index is that of the table.
    macro_rules! constants {
        ($($index:literal)*) => {
            match FORMATS.iter().position(|format| name.strip_prefix("format.") == Some(format.name)) {
                $(Some($index) => Some(|_, _| Ok(opaque(Inner::Format(&FORMATS[$index])))),)*
                _ => None,
            }
        };
    }
    Some(match name {
        "format.named" => |_, args| {
            let found = lookup(text(&args[0])?).map(|format| opaque(Inner::Format(format)));
            Ok(found.map_or(Value::Optional(None), Value::some))
        },
        "validate" => |_, args| {
            let Value::Opaque(Opaque(Inner::Format(format))) = &args[0] else {
                return Err(EvalError::no_overload());
            };
            let complaints = (format.check)(text(&args[1])?);
            Ok(match complaints.is_empty() {
                true => Value::Optional(None),
                false => Value::some(Value::list(complaints.into_iter().map(Value::text).collect())),
            })
        },
        _ => return constants!(0 1 2 3 4 5 6 7 8 9 10 11 12),
    })
}
