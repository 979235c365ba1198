//! URLs as Go's `url.ParseRequestURI` takes them.

use std::collections::BTreeMap;

use crate::value::{Key, Value};

/// The parts of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// With the port.
    pub(crate) host: String,
    path: String,
    raw_query: String,
}

impl Url {
    /// Parses an absolute URL, or a path that starts with a slash.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let failed = |why: &str| Err(format!("parse {text:?}: {why}"));
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return failed("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return failed("empty url");
        }
        let (scheme, rest) = match split_scheme(text) {
            Ok(parts) => parts,
            Err(why) => return failed(why),
        };
        // The fragment counts as path or query for the check, and for nothing afterwards.
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return failed("invalid URI for request");
            }
            // Opaque, such as `mailto:`: nothing but the scheme is known.
            return Ok(Url {
                scheme: scheme.to_ascii_lowercase(),
                host: String::new(),
                path: String::new(),
                raw_query: String::new(),
            });
        }
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (rest, raw_query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() || !rest.starts_with("///") => {
                let end = after.find('/').unwrap_or(after.len());
                after.split_at(end)
            }
            _ => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if let Some(why) = why_bad_host(host) {
            return failed(&why);
        }
        if let Some(bad) = bad_escape(path) {
            return failed(&format!("invalid URL escape {bad:?}"));
        }
        Ok(Url {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            raw_query: raw_query.to_owned(),
        })
    }

    pub(crate) fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[')
            && let Some((address, _)) = rest.split_once(']')
        {
            return address;
        }
        self.host.split_once(':').map_or(&self.host, |(name, _)| name)
    }

    pub(crate) fn port(&self) -> &str {
        let after_name = self.host.rsplit_once(']').map_or(&*self.host, |(_, rest)| rest);
        after_name.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// The path with everything escaped that must be.
    pub(crate) fn escaped_path(&self) -> String {
        let mut escaped = String::with_capacity(self.path.len());
        for b in self.path.bytes() {
            match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(b.into()),
                b if b"-_.~$&+,/:;=@%!'()*[]".contains(&b) => escaped.push(b.into()),
                b => escaped.push_str(&format!("%{b:02X}")),
            }
        }
        escaped
    }

    /// The parameters, each with its values.
    pub(crate) fn query<'a>(&self) -> Value<'a> {
        let mut parameters: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
        for pair in self
            .raw_query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
                parameters.entry(key).or_default().push(Value::text(value));
            }
        }
        let entry = |(key, values): (String, Vec<Value<'a>>)| {
            let name = Value::text(key);
            Some((Key::of(&name)?, (name, Value::list(values))))
        };
        Value::map(parameters.into_iter().filter_map(entry).collect())
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn why_bad_host(host: &str) -> Option<String> {
    let after_name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, after)) => after,
            None => return Some("missing ']' in host".to_owned()),
        },
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    if !after_name.is_empty() && !after_name.strip_prefix(':').is_some_and(is_digits) {
        return Some(format!("invalid port {after_name:?} after host"));
    }
    let is_bad =
        |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c);
    let bad = host.chars().find(is_bad)?;
    Some(format!("invalid character {:?} in host name", bad.to_string()))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// The first percent sign that escapes nothing, with what follows it.
fn bad_escape(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let after = &rest.as_bytes()[at + 1..];
        let valid = after.len() >= 2 && after[..2].iter().all(u8::is_ascii_hexdigit);
        if !valid {
            let mut end = (at + 3).min(rest.len());
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            return Some(&rest[at..end]);
        }
        rest = &rest[at + 3..];
    }
    None
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        match b {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(hex, 16).ok()?);
                rest = &after[2..];
            }
            b => bytes.push(b),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
