//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    eval_error::{Eval, EvalError},
    library::{
        Builtin,
        convert::shared,
        strings::{count, text},
    },
    opaque::{Inner, Opaque},
    value::Value,
};

/// A network: an address and the length of its prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn masked(&self) -> IpAddr {
        mask(self.address, self.bits)
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && mask(address, self.bits) == self.masked()
    }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "ip" => |_, args| match &args[0] {
            Value::Opaque(Opaque(Inner::Cidr(cidr))) => Ok(shared(cidr.address, Inner::Ip)),
            value => Ok(shared(parse_ip(text(value)?)?, Inner::Ip)),
        },
        "isIP" => |_, args| Ok(Value::Bool(parse_ip(text(&args[0])?).is_ok())),
        "ip.isCanonical" => |_, args| {
            let raw = text(&args[0])?;
            Ok(Value::Bool(parse_ip(raw)?.to_string() == raw))
        },
        "family" => |_, args| Ok(Value::Int(if ip(&args[0])?.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |_, args| Ok(Value::Bool(ip(&args[0])?.is_unspecified())),
        "isLoopback" => |_, args| Ok(Value::Bool(ip(&args[0])?.is_loopback())),
        "isLinkLocalMulticast" => |_, args| Ok(Value::Bool(is_link_local_multicast(ip(&args[0])?))),
        "isLinkLocalUnicast" => |_, args| Ok(Value::Bool(is_link_local_unicast(ip(&args[0])?))),
        "isGlobalUnicast" => |_, args| Ok(Value::Bool(is_global_unicast(ip(&args[0])?))),
        "cidr" => |_, args| {
            let parsed = parse_cidr(text(&args[0])?).map_err(|error| twice(&error))?;
            Ok(shared(parsed, Inner::Cidr))
        },
        "isCIDR" => |_, args| Ok(Value::Bool(parse_cidr(text(&args[0])?).is_ok())),
        "containsIP" => |_, args| {
            let network = cidr(&args[0])?;
            let address = match &args[1] {
                Value::String(raw) => parse_ip(raw)?,
                value => ip(value)?,
            };
            Ok(Value::Bool(network.contains(address)))
        },
        "containsCIDR" => |_, args| {
            let network = cidr(&args[0])?;
            let parsed;
            let other = match &args[1] {
                Value::String(raw) => {
                    parsed = parse_cidr(raw).map_err(|error| twice(&error))?;
                    &parsed
                }
                value => cidr(value)?,
            };
            Ok(Value::Bool(
                network.bits <= other.bits && network.contains(other.address),
            ))
        },
        "prefixLength" => |_, args| Ok(count(cidr(&args[0])?.bits.into())),
        "masked" => |_, args| {
            let network = cidr(&args[0])?;
            let masked = Cidr {
                address: network.masked(),
                bits: network.bits,
            };
            Ok(shared(masked, Inner::Cidr))
        },
        _ => return None,
    })
}

fn ip(value: &Value<'_>) -> Eval<IpAddr> {
    match value {
        Value::Opaque(Opaque(Inner::Ip(ip))) => Ok(**ip),
        _ => Err(EvalError::no_overload()),
    }
}

fn cidr<'v>(value: &'v Value<'_>) -> Eval<&'v Cidr> {
    match value {
        Value::Opaque(Opaque(Inner::Cidr(cidr))) => Ok(cidr),
        _ => Err(EvalError::no_overload()),
    }
}

/// kube-apiserver says it twice.
fn twice(error: &EvalError) -> EvalError {
    format!("network address parse error during conversion from string: {error}").into()
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(is_broadcast
        || ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip))
}

fn parse_ip(raw: &str) -> Eval<IpAddr> {
    if let Some((address, zone)) = raw.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        return Err(format!("IP address {raw:?} with zone value is not allowed").into());
    }
    match raw.parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {raw:?} is not allowed").into())
        }
        Ok(ip) => Ok(ip),
        Err(_) => {
            let why = why_no_address(raw);
            let message = format!(
                "IP Address {raw:?} parse error during conversion from string: ParseAddr({raw:?}): {why}"
            );
            Err(message.into())
        }
    }
}

/// The reason in Go's words, for the common ones.
fn why_no_address(raw: &str) -> String {
    let Some(first) = raw.find(['.', ':', '%']) else {
        return "unable to parse IP".to_owned();
    };
    match raw.as_bytes()[first] {
        b'%' => "missing IPv6 address".to_owned(),
        b':' => why_no_v6(raw),
        _ => why_no_v4(raw),
    }
}

fn why_no_v6(raw: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    match raw.find(|c| !is_part(c)) {
        Some(at) if at == 0 || raw.as_bytes()[at - 1] == b':' => {
            let rest = &raw[at..];
            format!("each colon-separated field must have at least one digit (at {rest:?})")
        }
        Some(at) => format!("unexpected character, want colon (at {:?})", &raw[at..]),
        None if raw.matches(':').count() < 7 => "address string too short".to_owned(),
        None => "trailing garbage after address".to_owned(),
    }
}

fn why_no_v4(raw: &str) -> String {
    let fields: Vec<&str> = raw.split('.').collect();
    if let Some(at) = raw.find(|c: char| !c.is_ascii_digit() && c != '.') {
        return format!("unexpected character (at {:?})", &raw[at..]);
    }
    if let Some(at) = raw.find("..") {
        return format!(
            "IPv4 field must have at least one digit (at {:?})",
            &raw[at + 1..]
        );
    }
    why_bad_fields(&fields).to_owned()
}

fn why_bad_fields(fields: &[&str]) -> &'static str {
    if fields.iter().any(|f| f.is_empty()) {
        return "IPv4 field must have at least one digit";
    }
    if fields.iter().any(|f| f.len() > 1 && f.starts_with('0')) {
        return "IPv4 field has octet with leading zero";
    }
    if fields.iter().any(|f| f.parse::<u8>().is_err()) {
        return "IPv4 field has value >255";
    }
    match fields.len() < 4 {
        true => "IPv4 address too short",
        false => "IPv4 address too long",
    }
}

fn parse_cidr(raw: &str) -> Eval<Cidr> {
    let bad = |why: &str| {
        let message = format!(
            "network address parse error during conversion from string: netip.ParsePrefix({raw:?}): {why}"
        );
        EvalError::from(message)
    };
    let (address, bits) = raw.rsplit_once('/').ok_or_else(|| bad("no '/'"))?;
    let address: IpAddr = match address.parse() {
        Ok(address) => address,
        Err(_) => {
            let why = format!("ParseAddr({address:?}): {}", why_no_address(address));
            return Err(bad(&why));
        }
    };
    let canonical = !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    if !canonical {
        return Err(bad(&format!("bad bits after slash: {bits:?}")));
    }
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits.parse::<u8>() {
        Ok(bits) if bits <= max => bits,
        _ => return Err(bad("prefix length out of range")),
    };
    if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {raw:?} is not allowed").into());
    }
    Ok(Cidr { address, bits })
}
