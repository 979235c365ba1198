//! Timestamps to seconds, and seconds to the ages that `kubectl get` shows.

/// Parses an RFC 3339 timestamp into seconds since 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut fields = date.split('-');
    let year = number(fields.next()?, 4)?;
    let month = u32::try_from(number(fields.next()?, 2)?).ok()?;
    let day = u32::try_from(number(fields.next()?, 2)?).ok()?;
    if fields.next().is_some() || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock
        .split_once(['.', ','])
        .map_or((clock, None), |(clock, f)| (clock, Some(f)));
    if fraction.is_some_and(|f| f.is_empty() || !f.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let mut parts = clock.split(':');
    let (hour, minute, second) = (
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
    );
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?)
}

fn number(text: &str, width: usize) -> Option<i64> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    if hours > 24 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// The length of a month in the proleptic Gregorian calendar.
pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_epoch(year: i64, month: u32, day: u32) -> i64 {
    // Years are counted from March, so that the leap day is a year's last day.
    let month = i64::from(month);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Writes seconds since 1970 as an RFC 3339 timestamp in UTC.
#[must_use]
pub fn format_rfc3339(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    if !(0..=9999).contains(&year) {
        return format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    }
    let mut out = String::with_capacity("2026-01-05T09:03:07Z".len());
    // Every write comes through here, and the formatting of numbers by the standard library takes ten times as long.
    for (number, digits, end) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, 'Z'),
    ] {
        push_digits(&mut out, number, digits);
        out.push(end);
    }
    out
}

/// Writes a number that has no more than so many digits.
fn push_digits(out: &mut String, number: i64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + digit as u8));
    }
}

/// Words a span of seconds with two or three significant figures: `5s`, `2m3s`, `3h`, `5d4h`, `2y30d`.
///
/// A second or two into the future is clock skew and reads `0s`; more is `<invalid>`.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |a: i64, a_unit: char, b: i64, b_unit: char| match b {
        0 => format!("{a}{a_unit}"),
        _ => format!("{a}{a_unit}{b}{b_unit}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        pair(days, 'd', hours % 24, 'h')
    } else if hours < 24 * 365 * 2 {
        format!("{days}d")
    } else if hours < 24 * 365 * 8 {
        pair(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

/// The age of a timestamp as `kubectl get` shows it, at `now` in seconds since 1970.
///
/// An empty timestamp is `<unknown>`, one that is no timestamp `<invalid>`.
#[must_use]
pub fn age(timestamp: &str, now: i64) -> String {
    if timestamp.is_empty() || timestamp == "null" {
        return "<unknown>".to_owned();
    }
    match parse_rfc3339(timestamp) {
        // Go's zero time counts as no time at all.
        Some(-62_135_596_800) => "<unknown>".to_owned(),
        Some(then) => human_duration(now.saturating_sub(then)),
        None => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{age, format_rfc3339, human_duration, parse_rfc3339};

    #[test]
    fn words_durations_like_kubectl() {
        let minute = 60;
        let hour = 60 * minute;
        let day = 24 * hour;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (10 * minute + 5, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour + 5 * minute, "8h"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (5 * day + 4 * hour, "5d4h"),
            (8 * day + 4 * hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (760 * day, "2y30d"),
            (8 * 365 * day + 40 * day, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(seconds), expected);
        }
    }

    #[test]
    fn reads_timestamps() {
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_rfc3339("2024-02-29T12:30:45.5+02:00"), Some(1_709_202_645));
        assert_eq!(parse_rfc3339("1969-12-31T23:59:59Z"), Some(-1));
        for bad in [
            "",
            "2024-02-30T00:00:00Z",
            "2024-01-01",
            "2024-01-01T24:00:00Z",
            "x",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59Z",
            "1969-12-31T23:59:59Z",
            "2000-03-01T00:00:00Z",
        ] {
            assert_eq!(format_rfc3339(parse_rfc3339(text).unwrap()), text);
        }
    }

    #[test]
    fn ages_of_odd_timestamps() {
        assert_eq!(age("", 0), "<unknown>");
        assert_eq!(age("0001-01-01T00:00:00Z", 0), "<unknown>");
        assert_eq!(age("soon", 0), "<invalid>");
        assert_eq!(age("1970-01-01T00:00:00Z", 65), "65s");
        assert_eq!(age("9999-01-01T00:00:00Z", 65), "<invalid>");
    }
}
