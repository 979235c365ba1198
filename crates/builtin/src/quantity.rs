//! Quantities (`100m`, `1.5Gi`, `1e3`): reading, canonical text, comparing.

use std::cmp::Ordering;

const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NANOS: i128 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// An amount in billionths, with the family of suffixes it was written in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nanos: i128,
    form: Form,
}

impl Quantity {
    /// Reads a quantity; the error is worded as Go words it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self {
                nanos: 0,
                form: Form::Decimal,
            });
        }
        let (negative, digits) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = digits
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(FORMAT);
        }
        let (scale, form) = scale(suffix)?;
        let nanos = amount(whole, fraction, scale);
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            form,
        })
    }

    /// The text that the server stores: no fraction, the largest suffix that keeps it whole.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.form {
            Form::Binary if !small => self.canonical_binary(),
            Form::Exponent => self.canonical_decimal(true),
            _ => self.canonical_decimal(false),
        }
    }

    fn canonical_binary(self) -> String {
        // Binary quantities are whole: a remainder rounds away from zero.
        let mut value = self.nanos / NANOS + (self.nanos % NANOS).signum();
        let mut suffix = 0;
        while value % 1024 == 0 && suffix < 6 {
            value /= 1024;
            suffix += 1;
        }
        format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][suffix])
    }

    fn canonical_decimal(self, exponent_form: bool) -> String {
        let mut value = self.nanos;
        let mut exponent = -9;
        while value % 1_000 == 0 && exponent < 18 {
            value /= 1_000;
            exponent += 3;
        }
        if exponent_form {
            return if exponent == 0 {
                value.to_string()
            } else {
                format!("{value}e{exponent}")
            };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            0 => "",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            _ => "E",
        };
        format!("{value}{suffix}")
    }

    /// Compares two amounts, whatever their suffixes.
    pub(crate) fn cmp(self, other: Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// Whether the amount is below zero.
    pub(crate) fn negative(self) -> bool {
        self.nanos < 0
    }
}

#[derive(Clone, Copy)]
enum Scale {
    Power10(i32),
    Power2(u32),
}

fn scale(suffix: &str) -> Result<(Scale, Form), &'static str> {
    let decimal = |power| Ok((Scale::Power10(power), Form::Decimal));
    let binary = |power| Ok((Scale::Power2(power), Form::Binary));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => exponent(suffix),
    }
}

fn exponent(suffix: &str) -> Result<(Scale, Form), &'static str> {
    let known = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = known.strip_prefix(['+', '-']).unwrap_or(known);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FORMAT);
    }
    let power = suffix
        .strip_prefix(['e', 'E'])
        .and_then(|rest| rest.trim_start_matches('+').parse().ok());
    power
        .map(|power| (Scale::Power10(power), Form::Exponent))
        .ok_or(SUFFIX)
}

/// Billionths of `whole.fraction × scale`, rounded away from zero, capped at the largest 64 bit number.
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let cap = i128::from(i64::MAX) * NANOS;
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (factor, power) = match scale {
        Scale::Power10(power) => (1, power.saturating_sub(places).saturating_add(9)),
        Scale::Power2(bits) => (1_i128 << bits, 9_i32.saturating_sub(places)),
    };
    // Digits beyond the 27th cannot matter below the cap; they only round up.
    let kept = &digits[..digits.len().min(27)];
    let dropped = i32::try_from(digits.len() - kept.len()).unwrap_or(i32::MAX);
    let power = power.saturating_add(dropped);
    let mantissa: i128 = kept.parse::<i128>().unwrap_or(0) + i128::from(dropped > 0);
    let Some(value) = mantissa.checked_mul(factor) else {
        return scaled_wide(mantissa, factor, power, cap);
    };
    scaled(value, power, cap)
}

fn scaled(value: i128, power: i32, cap: i128) -> i128 {
    if power >= 0 {
        let factor = 10_i128.checked_pow(power.unsigned_abs());
        return factor
            .and_then(|f| value.checked_mul(f))
            .map_or(cap, |v| v.min(cap));
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(divisor) => (value / divisor + i128::from(value % divisor != 0)).min(cap),
        None => 1,
    }
}

/// The product of a long fraction and a large binary suffix: the fraction is cut first.
fn scaled_wide(mantissa: i128, factor: i128, power: i32, cap: i128) -> i128 {
    let cut = mantissa / 1_000_000_000_000;
    cut.checked_mul(factor)
        .map_or(cap, |value| scaled(value, power.saturating_add(12), cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_canonical_text() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("100Mi", "100Mi"),
            ("1Ki", "1Ki"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1200e-3", "1200e-3"),
            ("9E", "9E"),
            ("1000k", "1M"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-5m", "-5m"),
            ("0.1n", "1n"),
            ("128974848", "128974848"),
            ("", "0"),
            ("99999999999999999999999E", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().canonical(), canonical, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_quantity() {
        for (text, message) in [
            ("abc", FORMAT),
            ("1.2.3", FORMAT),
            ("1x", FORMAT),
            ("1mm", SUFFIX),
            ("1ki", SUFFIX),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn compares_across_suffixes() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1Gi").cmp(quantity("1024Mi")), Ordering::Equal);
        assert_eq!(quantity("1G").cmp(quantity("1Gi")), Ordering::Less);
    }
}
