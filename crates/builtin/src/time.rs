//! Timestamps as Go reads and writes them, and ages as kubectl prints them.

pub(crate) use skopos_schema::human_duration;

/// A moment: seconds since the epoch and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// How many digits follow the seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// `metav1.Time`: a fraction is read, but not written.
    Seconds,
    /// `metav1.MicroTime`: six digits, read and written.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Reads a timestamp; the error is worded as Go words it.
pub(crate) fn parse(text: &str, precision: Precision) -> Result<Moment, String> {
    let mut reader = Reader {
        text,
        rest: text,
        precision,
    };
    let year = reader.number(4, "2006")?;
    reader.literal("-")?;
    let month = reader.number(2, "01")?;
    reader.literal("-")?;
    let day = reader.number(2, "02")?;
    reader.literal("T")?;
    let hour = reader.number(2, "15")?;
    reader.literal(":")?;
    let minute = reader.number(2, "04")?;
    reader.literal(":")?;
    let second = reader.number(2, "05")?;
    let nanos = reader.fraction()?;
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reader.rest));
    }
    let in_range = |what: &str| format!("parsing time {text:?}: {what} out of range");
    if !(1..=12).contains(&month) {
        return Err(in_range("month"));
    }
    if day < 1 || day > days_in_month(year, month) {
        return Err(in_range("day"));
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(in_range(if hour > 23 {
            "hour"
        } else if minute > 59 {
            "minute"
        } else {
            "second"
        }));
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    Ok(Moment { seconds, nanos })
}

/// Writes a timestamp in UTC.
pub(crate) fn format(moment: Moment, precision: Precision) -> String {
    let (year, month, day) = civil_from_days(moment.seconds.div_euclid(86_400));
    let of_day = moment.seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let head = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match precision {
        Precision::Seconds => format!("{head}Z"),
        Precision::Micros => format!("{head}.{:06}Z", moment.nanos / 1_000),
    }
}

/// Seconds since the epoch of a timestamp field, if it holds one.
pub(crate) fn seconds(value: &serde_json::Value) -> Option<i64> {
    let text = value.as_str()?;
    parse(text, Precision::Seconds).ok().map(|moment| moment.seconds)
}

/// The age that kubectl shows for a timestamp: `5m3s`, `7d`, or `<unknown>` for none.
pub(crate) fn age(since: &serde_json::Value, now: i64) -> String {
    match seconds(since) {
        Some(since) => human_duration(now - since),
        None => "<unknown>".to_owned(),
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Reader<'_> {
    fn fail<T>(&self, element: &str) -> Result<T, String> {
        let layout = self.precision.layout();
        Err(format!(
            "parsing time {:?} as {layout:?}: cannot parse {:?} as {element:?}",
            self.text, self.rest
        ))
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        match self
            .rest
            .get(..digits)
            .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))
        {
            Some(found) => {
                self.rest = &self.rest[digits..];
                Ok(found.parse().unwrap_or(0))
            }
            None => self.fail(element),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.fail(literal),
        }
    }

    fn fraction(&mut self) -> Result<u32, String> {
        let digits = match self.rest.strip_prefix(['.', ',']) {
            Some(rest) => rest.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        if self.precision == Precision::Micros && digits != 6 {
            return self.fail(".000000");
        }
        if digits == 0 {
            return Ok(0);
        }
        let text = &self.rest[1..=digits];
        self.rest = &self.rest[1 + digits..];
        let nanos: String = text.chars().chain("000000000".chars()).take(9).collect();
        Ok(nanos.parse().unwrap_or(0))
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let shaped = bytes.len() >= 6 && matches!(bytes[0], b'+' | b'-') && bytes[3] == b':';
        let digit = |at: usize| {
            bytes
                .get(at)
                .filter(|b| b.is_ascii_digit())
                .map(|b| i64::from(b - b'0'))
        };
        let parts = (digit(1), digit(2), digit(4), digit(5));
        let (true, (Some(h1), Some(h2), Some(m1), Some(m2))) = (shaped, parts) else {
            return self.fail("Z07:00");
        };
        let offset = (h1 * 10 + h2) * 3_600 + (m1 * 10 + m2) * 60;
        let sign = if bytes[0] == b'-' { -1 } else { 1 };
        self.rest = &self.rest[6..];
        Ok(sign * offset)
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar, counted in years that start in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_timestamps() {
        for (text, canonical) in [
            ("2026-11-15T21:54:24Z", "2026-11-15T21:54:24Z"),
            ("2024-02-29T23:59:59.5+02:00", "2024-02-29T21:59:59Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            let moment = parse(text, Precision::Seconds).unwrap();
            assert_eq!(format(moment, Precision::Seconds), canonical);
        }
        let micro = parse("2026-11-15T21:54:24.000120Z", Precision::Micros).unwrap();
        assert_eq!(format(micro, Precision::Micros), "2026-11-15T21:54:24.000120Z");
    }

    #[test]
    fn words_errors_as_go_does() {
        let check = |text: &str, precision, message: &str| {
            assert_eq!(parse(text, precision).unwrap_err(), message);
        };
        check(
            "yesterday",
            Precision::Seconds,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        );
        check(
            "2020-01-01T00:00:00Z",
            Precision::Micros,
            r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        );
        check(
            "2020-02-30T00:00:00Z",
            Precision::Seconds,
            r#"parsing time "2020-02-30T00:00:00Z": day out of range"#,
        );
    }

    #[test]
    fn shows_coarser_ages_the_older_a_thing_is() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (303, "5m3s"),
            (3_600, "60m"),
            (3 * 3_600 + 60, "3h1m"),
            (9 * 3_600, "9h"),
            (3 * 86_400, "3d"),
            (3 * 86_400 + 3_600, "3d1h"),
            (100 * 86_400, "100d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
