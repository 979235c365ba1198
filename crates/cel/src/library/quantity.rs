//! Kubernetes quantities: `1Gi`, `500m`, `2e3`.

use std::cmp::Ordering;

const NANO: i128 = 1_000_000_000;
const BAD_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const BAD_SUFFIX: &str = "unable to parse quantity's suffix";

/// A quantity, exact to the nano.
#[derive(Debug, Clone)]
pub(crate) struct Quantity {
    pub(crate) nanos: i128,
    /// The form in which kube-apiserver keeps it as long as it fits: what `isInteger` says depends on it.
    scaled: Option<Scaled>,
}

/// `value * 10^scale`
#[derive(Debug, Clone, Copy)]
struct Scaled {
    value: i64,
    scale: i32,
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Quantity, &'static str> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let n_number = unsigned
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b'.')
            .count();
        let (number, suffix) = unsigned.split_at(n_number);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if text.is_empty() || fraction.contains('.') || number == "." {
            return Err(BAD_FORMAT);
        }
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        check_suffix(suffix)?;
        let (base, exponent) = unit(suffix).ok_or(BAD_SUFFIX)?;
        let sign = if negative { -1 } else { 1 };
        let scaled = scaled(whole, fraction, base, exponent).map(|s| Scaled {
            value: s.value * sign,
            scale: s.scale,
        });
        let nanos = match scaled {
            Some(scaled) => scaled.nanos(),
            None => i128::from(sign) * nanos(whole, fraction, base, exponent),
        };
        Ok(Quantity { nanos, scaled })
    }

    pub(crate) fn from_int(value: i64) -> Quantity {
        Quantity {
            nanos: i128::from(value) * NANO,
            scaled: Some(Scaled { value, scale: 0 }),
        }
    }

    pub(crate) fn compare(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    pub(crate) fn plus(&self, other: &Quantity) -> Quantity {
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos),
            scaled: self.scaled.zip(other.scaled).and_then(|(a, b)| a.plus(b)),
        }
    }

    pub(crate) fn minus(&self, other: &Quantity) -> Quantity {
        self.plus(&Quantity {
            nanos: -other.nanos,
            scaled: other.scaled.and_then(|s| {
                let value = s.value.checked_neg()?;
                Some(Scaled { value, ..s })
            }),
        })
    }

    /// The value as an integer, if kube-apiserver finds that it is one.
    pub(crate) fn as_int(&self) -> Option<i64> {
        let scaled = self.scaled?;
        match scaled.scale {
            0 => Some(scaled.value),
            scale if scale < 0 => None,
            scale => scale_up(scaled.value, scale),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the caller asks for an approximation")]
    pub(crate) fn as_float(&self) -> f64 {
        match self.scaled {
            Some(Scaled { value, scale: 0 }) => value as f64,
            Some(Scaled { value, scale }) => {
                value as f64 * format!("1e{scale}").parse::<f64>().unwrap_or(f64::NAN)
            }
            None => self.nanos as f64 / NANO as f64,
        }
    }
}

impl Scaled {
    fn nanos(self) -> i128 {
        let power = self.scale + 9;
        match u32::try_from(power) {
            Ok(power) => {
                let factor = 10_i128.checked_pow(power).unwrap_or(i128::MAX);
                i128::from(self.value).saturating_mul(factor)
            }
            Err(_) => 0,
        }
    }

    fn plus(self, other: Scaled) -> Option<Scaled> {
        if other.value == 0 {
            return Some(self);
        }
        if self.value == 0 {
            return Some(other);
        }
        let scale = self.scale.min(other.scale);
        let a = scale_up(self.value, self.scale - scale)?;
        let b = scale_up(other.value, other.scale - scale)?;
        let value = a.checked_add(b)?;
        Some(Scaled { value, scale })
    }
}

fn scale_up(value: i64, power: i32) -> Option<i64> {
    let factor = 10_i64.checked_pow(u32::try_from(power).ok()?)?;
    value.checked_mul(factor)
}

fn check_suffix(suffix: &str) -> Result<(), &'static str> {
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    match digits.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(()),
        false => Err(BAD_FORMAT),
    }
}

/// Base and exponent of a suffix.
fn unit(suffix: &str) -> Option<(u8, i32)> {
    Some(match suffix {
        "" => (10, 0),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            (10, digits.parse().ok().filter(|e: &i32| e.abs() < 10_000)?)
        }
    })
}

/// The short form, for numbers of up to 18 digits.
fn scaled(whole: &str, fraction: &str, base: u8, exponent: i32) -> Option<Scaled> {
    let n_digits = i32::try_from(whole.len() + fraction.len()).ok()?;
    let (precision, mantissa, scale) = match base {
        10 => (18 - n_digits, 1_i64, exponent),
        _ if fraction.is_empty() => (
            15 - n_digits - exponent * 3 / 10 - 1,
            1_i64.checked_shl(u32::try_from(exponent).ok()?)?,
            0,
        ),
        _ => return None,
    };
    let scale = scale - i32::try_from(fraction.len()).ok()?;
    if precision < 0 || scale < -9 {
        return None;
    }
    let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
    let value = digits.checked_mul(mantissa)?;
    Some(Scaled { value, scale })
}

/// The value in nanos, what is smaller rounded up, and no larger than what is allowed.
fn nanos(whole: &str, fraction: &str, base: u8, exponent: i32) -> i128 {
    let fraction = &fraction[..fraction.len().min(18)];
    let whole = if whole.len() > 20 {
        "99999999999999999999"
    } else {
        whole
    };
    let n = i32::try_from(fraction.len()).unwrap_or(18);
    let digits: i128 = format!("{whole}{fraction}").parse().unwrap_or(i128::MAX / 2);
    if base == 2 {
        let total = digits.saturating_mul(1_i128 << exponent.clamp(0, 60));
        return scale_nanos(total.min(i128::MAX / 10), 9 - n);
    }
    scale_nanos(digits, exponent + 9 - n)
}

fn scale_nanos(value: i128, power: i32) -> i128 {
    if power >= 0 {
        let factor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
        return value.saturating_mul(factor);
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(divisor) => value / divisor + i128::from(value % divisor != 0),
        None => i128::from(value != 0),
    }
}
