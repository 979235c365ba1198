//! The parts of timestamps and durations.

use jiff::civil::DateTime;

use crate::{
    eval_error::{Eval, EvalError},
    library::{Builtin, strings},
    time,
    value::Value,
};

pub(super) fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "getFullYear" => |_, args| part(args, |t| t.year().into(), None),
        "getMonth" => |_, args| part(args, |t| i64::from(t.month()) - 1, None),
        "getDate" => |_, args| part(args, |t| t.day().into(), None),
        "getDayOfMonth" => |_, args| part(args, |t| i64::from(t.day()) - 1, None),
        "getDayOfWeek" => |_, args| part(args, |t| t.weekday().to_sunday_zero_offset().into(), None),
        "getDayOfYear" => |_, args| part(args, |t| i64::from(t.day_of_year()) - 1, None),
        "getHours" => |_, args| part(args, |t| t.hour().into(), Some(3_600_000_000_000)),
        "getMinutes" => |_, args| part(args, |t| t.minute().into(), Some(60_000_000_000)),
        "getSeconds" => |_, args| part(args, |t| t.second().into(), Some(1_000_000_000)),
        "getMilliseconds" => |_, args| {
            part(
                args,
                |t| i64::from(t.subsec_nanosecond()) / 1_000_000,
                Some(1_000_000),
            )
        },
        _ => return None,
    })
}

/// A part of a timestamp, or a duration in whole units of so many nanoseconds.
fn part<'a>(args: &[Value<'a>], of: impl Fn(DateTime) -> i64, unit: Option<i64>) -> Eval<Value<'a>> {
    match (&args[0], unit) {
        (Value::Timestamp(t), _) => {
            let zone = args.get(1).map_or(Ok("UTC"), strings::text)?;
            Ok(Value::Int(of(time::in_zone(*t, zone)?)))
        }
        (Value::Duration(nanos), Some(unit)) if args.len() == 1 => Ok(Value::Int(nanos / unit)),
        _ => Err(EvalError::no_overload()),
    }
}
