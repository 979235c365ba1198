//! Cron schedules: five fields or a word such as `@hourly`.

/// Checks a schedule; the error is worded as the Go parser words it.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    if let Some(word) = schedule.strip_prefix('@') {
        return descriptor(schedule, word);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    let bounds = [
        Bounds {
            min: 0,
            max: 59,
            names: &[],
        },
        Bounds {
            min: 0,
            max: 23,
            names: &[],
        },
        Bounds {
            min: 1,
            max: 31,
            names: &[],
        },
        Bounds {
            min: 1,
            max: 12,
            names: MONTHS,
        },
        Bounds {
            min: 0,
            max: 6,
            names: DAYS,
        },
    ];
    for (field, bounds) in fields.iter().zip(bounds) {
        for expression in field.split(',').filter(|e| !e.is_empty()) {
            range(expression, &bounds)?;
        }
    }
    Ok(())
}

const MONTHS: &[(&str, u32)] = &[
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: &[(&str, u32)] = &[
    ("sun", 0),
    ("mon", 1),
    ("tue", 2),
    ("wed", 3),
    ("thu", 4),
    ("fri", 5),
    ("sat", 6),
];

struct Bounds {
    min: u32,
    max: u32,
    names: &'static [(&'static str, u32)],
}

fn descriptor(schedule: &str, word: &str) -> Result<(), String> {
    let known = [
        "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly",
    ];
    let every = word
        .strip_prefix("every ")
        .is_some_and(|span| span.starts_with(|c: char| c.is_ascii_digit()));
    if known.contains(&word) || every {
        return Ok(());
    }
    Err(format!("unrecognized descriptor: {schedule}"))
}

/// `number`, `number-number`, `*`, each with an optional `/step`.
fn range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let single = ends.len() == 1;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?"] => (bounds.min, bounds.max),
        [one] => {
            let number = number(one, bounds)?;
            (number, number)
        }
        [first, last] => (number(first, bounds)?, number(last, bounds)?),
        _ => return Err(format!("too many hyphens: {expression}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if single && !matches!(parts[0], "*" | "?") {
                end = bounds.max;
            }
            plain(step)?
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    if start < bounds.min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {expression}",
            bounds.min
        ));
    }
    if end > bounds.max {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {expression}",
            bounds.max
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {expression}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().find(|(name, _)| *name == lower) {
        Some((_, number)) => Ok(*number),
        None => plain(text),
    }
}

fn plain(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_usual_schedules() {
        for schedule in [
            "* * * * *",
            "*/5 0-6 1,15 jan-MAR sun",
            "0 12 * * 1-5/2",
            "@hourly",
            "@every 1h30m",
            "5/15 * * * ?",
        ] {
            assert_eq!(parse(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn words_errors_as_the_server_does() {
        let check = |schedule, message: &str| assert_eq!(parse(schedule).unwrap_err(), message);
        check("x", "expected exactly 5 fields, found 1: [x]");
        check("61 * * * *", "end of range (61) above maximum (59): 61");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check(
            "5-1 * * * *",
            "beginning of range (5) beyond end of range (1): 5-1",
        );
        check("@noon", "unrecognized descriptor: @noon");
    }
}
