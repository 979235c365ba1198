//! The string and number formats that schemas can name.

pub(crate) mod address;
mod code;
mod time;

use skopos_object::validation::{dns1123_label, dns1123_subdomain};

use crate::structural::Type;

/// A format that is checked. Formats nobody knows are ignored, so they have no value here.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    /// As the schema wrote it: error messages quote it.
    pub(crate) name: Box<str>,
    pub(crate) kind: FormatKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatKind {
    Int32,
    Int64,
    Float,
    Double,
    Text(TextFormat),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// The format `name` for values of `declared` type, if it is one that is checked there.
    pub(crate) fn parse(name: &str, declared: Option<Type>) -> Option<Format> {
        let kind = match declared {
            None | Some(Type::String) => FormatKind::Text(TextFormat::parse(name)?),
            Some(Type::Integer) => match name {
                "int32" => FormatKind::Int32,
                "int64" => FormatKind::Int64,
                _ => return None,
            },
            Some(Type::Number) => match name {
                "float" => FormatKind::Float,
                "double" => FormatKind::Double,
                _ => return None,
            },
            Some(_) => return None,
        };
        Some(Format {
            name: name.into(),
            kind,
        })
    }
}

impl TextFormat {
    fn parse(name: &str) -> Option<TextFormat> {
        // Dashes do not count in format names: date-time and datetime are one.
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => TextFormat::BsonObjectId,
            "uri" => TextFormat::Uri,
            "email" => TextFormat::Email,
            "hostname" => TextFormat::Hostname,
            "ipv4" => TextFormat::Ipv4,
            "ipv6" => TextFormat::Ipv6,
            "cidr" => TextFormat::Cidr,
            "mac" => TextFormat::Mac,
            "uuid" => TextFormat::Uuid,
            "uuid3" => TextFormat::Uuid3,
            "uuid4" => TextFormat::Uuid4,
            "uuid5" => TextFormat::Uuid5,
            "isbn" => TextFormat::Isbn,
            "isbn10" => TextFormat::Isbn10,
            "isbn13" => TextFormat::Isbn13,
            "creditcard" => TextFormat::CreditCard,
            "ssn" => TextFormat::Ssn,
            "hexcolor" => TextFormat::HexColor,
            "rgbcolor" => TextFormat::RgbColor,
            "byte" => TextFormat::Byte,
            "password" => TextFormat::Password,
            "date" => TextFormat::Date,
            "duration" => TextFormat::Duration,
            "datetime" => TextFormat::DateTime,
            "k8sshortname" => TextFormat::ShortName,
            "k8slongname" => TextFormat::LongName,
            _ => return None,
        })
    }

    /// Whether `text` has this format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            TextFormat::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            TextFormat::Uri => address::is_request_uri(text),
            TextFormat::Email => address::is_email(text),
            TextFormat::Hostname => address::is_hostname(text),
            TextFormat::Ipv4 => text.contains('.') && address::is_ip_sloppy(text),
            TextFormat::Ipv6 => text.parse::<std::net::Ipv6Addr>().is_ok(),
            TextFormat::Cidr => address::is_cidr(text),
            TextFormat::Mac => address::is_mac(text),
            TextFormat::Uuid => code::is_uuid(text, None),
            TextFormat::Uuid3 => code::is_uuid(text, Some(b'3')),
            TextFormat::Uuid4 => code::is_uuid(text, Some(b'4')),
            TextFormat::Uuid5 => code::is_uuid(text, Some(b'5')),
            TextFormat::Isbn => code::is_isbn10(text) || code::is_isbn13(text),
            TextFormat::Isbn10 => code::is_isbn10(text),
            TextFormat::Isbn13 => code::is_isbn13(text),
            TextFormat::CreditCard => code::is_credit_card(text),
            TextFormat::Ssn => code::is_ssn(text),
            TextFormat::HexColor => code::is_hex_color(text),
            TextFormat::RgbColor => code::is_rgb_color(text),
            TextFormat::Byte => code::is_base64(text),
            TextFormat::Password => true,
            TextFormat::Date => time::is_date(text),
            TextFormat::Duration => time::is_duration(text),
            TextFormat::DateTime => time::is_date_time(text),
            TextFormat::ShortName => text.len() <= 63 && dns1123_label(text).is_empty(),
            TextFormat::LongName => text.len() <= 253 && dns1123_subdomain(text).is_empty(),
        }
    }
}
