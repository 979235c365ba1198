//! Formats of network names and addresses.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // One label, or several whose last is letters only. Symbols such as emoji count as letters.
    let unit = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    let single = format!("{unit}(-?{unit}{{0,62}})?");
    let dotted = format!(r"({unit}({inner}{{0,61}}{unit})?\.)+[a-zA-Z\p{{L}}]{{2,63}}");
    Regex::new(&format!("^({single}|{dotted})$")).ok()
});

pub(crate) fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
        && HOSTNAME.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// An IP address whose IPv4 parts may have leading zeros.
pub(crate) fn is_ip_sloppy(text: &str) -> bool {
    is_ipv4_sloppy(text) || is_ipv6_sloppy(text)
}

fn is_ipv4_sloppy(text: &str) -> bool {
    let mut parts = 0;
    for part in text.split('.') {
        parts += 1;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let value = part.bytes().try_fold(0u32, |sum, b| {
            let next = sum * 10 + u32::from(b.saturating_sub(b'0'));
            (next <= 255).then_some(next)
        });
        if !digits || value.is_none() {
            return false;
        }
    }
    parts == 4
}

fn is_ipv6_sloppy(text: &str) -> bool {
    if text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    // An embedded IPv4 tail may have leading zeros, which the standard parser refuses.
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') && is_ipv4_sloppy(tail) => {
            format!("{head}:0.0.0.0").parse::<Ipv6Addr>().is_ok()
        }
        _ => false,
    }
}

pub(crate) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = if is_ipv4_sloppy(address) {
        32
    } else if is_ipv6_sloppy(address) {
        128
    } else {
        return false;
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

/// Six, eight or twenty octets, as `00:00`, `00-00` or `0000.0000`.
pub(crate) fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes() {
        [_, _, b':', ..] => (':', 2),
        [_, _, b'-', ..] => ('-', 2),
        [_, _, _, _, b'.', ..] => ('.', 4),
        _ => return false,
    };
    let mut octets = 0;
    for group in text.split(separator) {
        if group.len() != width || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        octets += width / 2;
    }
    matches!(octets, 6 | 8 | 20)
}

/// An absolute URI or an absolute path, as a request line may hold it.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Ok((scheme, rest)) = split_scheme(text) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() => {
            let end = after.find('/').unwrap_or(after.len());
            if !is_authority(&after[..end]) {
                return false;
            }
            &after[end..]
        }
        _ => rest,
    };
    percent_encoding_is_whole(path)
}

/// Splits off the scheme. A colon in front is an error, an odd character means there is no scheme.
pub(crate) fn split_scheme(text: &str) -> Result<(&str, &str), ()> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text
        .rsplit_once('@')
        .map_or((None, text), |(user, host)| (Some(user), host));
    let user_ok = user.is_none_or(|user| {
        percent_encoding_is_whole(user)
            && user
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b))
    });
    user_ok && is_host(host)
}

fn is_host(host: &str) -> bool {
    let port_at = match host.strip_prefix('[') {
        Some(_) => match host.rfind(']') {
            Some(end) => Some(end + 1),
            None => return false,
        },
        None => host.rfind(':'),
    };
    if let Some(at) = port_at {
        let port = &host[at..];
        let digits = port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
        if !port.is_empty() && !digits {
            return false;
        }
    }
    percent_encoding_is_whole(host)
        && host
            .bytes()
            .all(|b| !b.is_ascii() || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b))
}

fn percent_encoding_is_whole(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'%')
        .all(|(at, _)| {
            bytes
                .get(at + 1..at + 3)
                .is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit))
        })
}

/// A mail address, with or without a display name before `<address>`.
pub(crate) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    match text.strip_suffix('>').and_then(|head| head.rsplit_once('<')) {
        Some((name, address)) => is_display_name(name.trim_matches([' ', '\t'])) && is_addr_spec(address),
        None => is_addr_spec(text),
    }
}

fn is_display_name(name: &str) -> bool {
    let quoted = name.len() >= 2 && name.starts_with('"') && name.ends_with('"');
    quoted
        || name
            .split([' ', '\t'])
            .all(|word| word.chars().all(|c| is_atom_char(c) || c == '.'))
}

fn is_addr_spec(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() > 2
        && local.starts_with('"')
        && local.ends_with('"')
        && !local[1..local.len() - 1].contains(['"', '\n', '\r']);
    let literal = domain.starts_with('[') && domain.ends_with(']') && domain.len() > 2;
    (quoted || is_dot_atom(local)) && (literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    !text.is_empty()
        && text
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}
