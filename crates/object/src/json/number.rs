//! Numbers by the API's rules: an integer if it fits 64 bits, otherwise a float.

use serde_json::{Number, Value};

/// Reads a number that follows the JSON grammar. Gives nothing if no float can hold it.
pub(super) fn parse(literal: &str) -> Option<Value> {
    if let Ok(integer) = literal.parse::<i64>() {
        return Some(integer.into());
    }
    from_float(literal.parse().ok()?)
}

/// The value for a float: an integer if it has no fraction. Gives nothing for what JSON cannot say.
pub(crate) fn from_float(float: f64) -> Option<Value> {
    match integral(float) {
        Some(integer) => Some(integer.into()),
        None => Number::from_f64(float).map(Value::Number),
    }
}

/// The integer that Go would print for this float, if it prints one that fits 64 bits.
fn integral(float: f64) -> Option<i64> {
    // 2^63 as a float; the comparison is also false for what is not a number.
    let fits = float.abs() < 9_223_372_036_854_775_808.0;
    if !fits || float.fract() != 0.0 {
        return None;
    }
    if float.abs() < 9_007_199_254_740_992.0 {
        return Some(float as i64);
    }
    // Above 2^53 the shortest digits that name the float end in zeros and differ from its exact value.
    format!("{float}").parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follows_go_in_what_is_an_integer() {
        for (literal, expect) in [
            ("0", json!(0)),
            ("-0", json!(0)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("-2.50e1", json!(-25)),
            ("1.5", json!(1.5)),
            ("9223372036854775807", json!(i64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("9223372036854775808", json!(9223372036854775808.0)),
            ("1234567890123456789.0", json!(1234567890123456800_i64)),
            ("1e20", json!(1e20)),
            ("1e-7", json!(1e-7)),
        ] {
            assert_eq!(parse(literal), Some(expect), "{literal}");
        }
        assert_eq!(parse("1e400"), None);
    }
}
