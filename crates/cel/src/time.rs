//! Durations and timestamps, as Go reads and writes them.

use jiff::{SignedDuration, Timestamp, civil, tz};

use crate::{
    eval_error::{Eval, EvalError},
    value::Value,
};

const OVERFLOW: &str = "integer overflow";
const TIMESTAMP_OVERFLOW: &str = "timestamp overflow";
const MIN_SECONDS: i64 = -62_135_596_800;
const MAX_SECONDS: i64 = 253_402_300_799;

pub(crate) fn add(a: i64, b: i64) -> Eval<i64> {
    a.checked_add(b).ok_or(OVERFLOW.into())
}

pub(crate) fn subtract(a: i64, b: i64) -> Eval<i64> {
    a.checked_sub(b).ok_or(OVERFLOW.into())
}

/// A timestamp moved by nanoseconds.
pub(crate) fn shift<'a>(t: Timestamp, nanos: i128) -> Eval<Value<'a>> {
    let moved = Timestamp::from_nanosecond(t.as_nanosecond() + nanos).ok();
    in_range(moved).map(Value::Timestamp)
}

fn in_range(t: Option<Timestamp>) -> Eval<Timestamp> {
    t.filter(|t| (MIN_SECONDS..=MAX_SECONDS).contains(&t.as_second()))
        .ok_or(TIMESTAMP_OVERFLOW.into())
}

pub(crate) fn between(a: Timestamp, b: Timestamp) -> Eval<i64> {
    i64::try_from(a.as_nanosecond() - b.as_nanosecond()).map_err(|_| OVERFLOW.into())
}

pub(crate) fn from_seconds<'a>(seconds: i64) -> Eval<Value<'a>> {
    in_range(Timestamp::from_second(seconds).ok()).map(Value::Timestamp)
}

/// Reads a duration such as `1h30m` or `-1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let n_whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(n_whole);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let n_unit = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(n_unit);
        let unit = unit_nanos(unit)?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        total += fraction_of(fraction, unit);
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn fraction_of(digits: &str, unit: i128) -> i128 {
    // More digits than a nanosecond of an hour has do not count.
    let digits = &digits[..digits.len().min(15)];
    match digits.parse::<i128>() {
        Ok(value) => value * unit / 10_i128.pow(u32::try_from(digits.len()).unwrap_or(15)),
        Err(_) => 0,
    }
}

/// A duration as `string()` gives it: seconds.
pub(crate) fn format_duration(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "cel-go writes it as a float too")]
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

/// Reads RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Eval<Timestamp> {
    let bad = || EvalError::from("type conversion error from 'string' to 'google.protobuf.Timestamp'");
    let t = read_rfc3339(text).ok_or_else(bad)?;
    in_range(Some(t))
}

fn read_rfc3339(text: &str) -> Option<Timestamp> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let date = read_date(date)?;
    let rest = rest.strip_prefix('T')?;
    let bytes = rest.as_bytes();
    if bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (
        digits(rest.get(..2)?)?,
        digits(rest.get(3..5)?)?,
        digits(rest.get(6..8)?)?,
    );
    let mut zone = rest.get(8..)?;
    let mut nanos = 0;
    if let Some(fraction) = zone.strip_prefix(['.', ',']) {
        let n = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if n == 0 {
            return None;
        }
        let nine = format!("{:0<9}", &fraction[..n.min(9)]);
        nanos = nine.parse().ok()?;
        zone = &fraction[n..];
    }
    let time = civil::Time::new(narrow(hour)?, narrow(minute)?, narrow(second)?, nanos).ok()?;
    let offset = read_offset(zone)?;
    let utc = date
        .to_datetime(time)
        .to_zoned(tz::TimeZone::UTC)
        .ok()?
        .timestamp();
    utc.checked_sub(SignedDuration::from_secs(offset)).ok()
}

fn digits(text: &str) -> Option<u32> {
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
}

fn narrow(value: u32) -> Option<i8> {
    i8::try_from(value).ok()
}

fn read_date(text: &str) -> Option<civil::Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = i16::try_from(digits(text.get(..4)?)?).ok()?;
    let (month, day) = (digits(text.get(5..7)?)?, digits(text.get(8..)?)?);
    civil::Date::new(year, narrow(month)?, narrow(day)?).ok()
}

/// Seconds east of UTC.
fn read_offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let bytes = zone.as_bytes();
    if bytes.len() != 6 || bytes[3] != b':' {
        return None;
    }
    let (hours, minutes) = (digits(zone.get(1..3)?)?, digits(zone.get(4..)?)?);
    (hours <= 24 && minutes < 60).then(|| sign * i64::from(hours * 3600 + minutes * 60))
}

/// A string of format `duration`.
pub(crate) fn schema_duration<'a>(text: &str) -> Eval<Value<'a>> {
    let nanos = parse_duration(text).or_else(|| spelled_duration(text));
    nanos
        .map(Value::Duration)
        .ok_or_else(|| format!("Invalid duration {text}: unable to parse {text} as duration").into())
}

/// Durations such as `3 weeks`, which the format allows beside Go's.
fn spelled_duration(text: &str) -> Option<i64> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: i64 = text[..n].parse().ok()?;
    let unit = text[n..].trim().to_ascii_lowercase();
    let nanos = match unit.strip_suffix('s').filter(|u| u.len() > 1).unwrap_or(&unit) {
        "ns" | "nano" => 1,
        "us" | "\u{b5}s" | "micro" => 1_000,
        "ms" | "milli" => 1_000_000,
        "s" | "sec" | "second" => 1_000_000_000,
        "m" | "min" | "minute" => 60_000_000_000,
        "h" | "hr" | "hour" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        "w" | "wk" | "week" => 604_800_000_000_000,
        _ => return None,
    };
    count.checked_mul(nanos)
}

/// A string of format `date`.
pub(crate) fn schema_date<'a>(text: &str) -> Eval<Value<'a>> {
    let zoned = read_date(text).and_then(|date| date.to_zoned(tz::TimeZone::UTC).ok());
    match zoned {
        Some(zoned) => Ok(Value::Timestamp(zoned.timestamp())),
        None => Err(format!("Invalid date formatted string {text}").into()),
    }
}

/// A string of format `date-time`.
pub(crate) fn schema_date_time<'a>(text: &str) -> Eval<Value<'a>> {
    let upper = text.to_ascii_uppercase();
    let read = |text: &str| text.parse::<Timestamp>().ok();
    match read_rfc3339(&upper).or_else(|| read(&upper)) {
        Some(t) => Ok(Value::Timestamp(t)),
        None => Err(format!("Invalid date-time formatted string {text}").into()),
    }
}

/// The wall clock of a timestamp in a zone: a name, or an offset such as `-02:30`.
pub(crate) fn in_zone(t: Timestamp, zone: &str) -> Eval<civil::DateTime> {
    let zone = match zone.split_once(':') {
        Some((hours, minutes)) => {
            let bad = |part: &str| format!("strconv.Atoi: parsing {part:?}: invalid syntax");
            let hours_east: i32 = hours.parse().map_err(|_| EvalError::from(bad(hours)))?;
            let minutes_east: i32 = minutes.parse().map_err(|_| EvalError::from(bad(minutes)))?;
            let sign = if hours.starts_with('-') { -1 } else { 1 };
            let seconds = hours_east
                .checked_mul(3600)
                .and_then(|s| s.checked_add(sign * minutes_east.checked_mul(60)?));
            let offset = seconds.and_then(|s| tz::Offset::from_seconds(s).ok());
            tz::TimeZone::fixed(offset.ok_or("time zone offset out of range")?)
        }
        None if zone.is_empty() || zone == "UTC" => tz::TimeZone::UTC,
        None => tz::TimeZone::get(zone).map_err(|_| EvalError::from(format!("unknown time zone {zone}")))?,
    };
    Ok(zone.to_datetime(t))
}
