//! How long a request may take: which requests have no end, and the `timeout` parameter.

use std::time::Duration;

use http::{Method, Uri};

use super::query;

const LONG_RUNNING_SUBRESOURCES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Whether a request is a stream without a natural end, judged by its shape alone.
pub(super) fn looks_long_running(method: &Method, uri: &Uri) -> bool {
    let path = uri.path();
    if !path.starts_with("/api/") && !path.starts_with("/apis/") {
        return false;
    }
    if method == Method::GET && (asks_to_watch(uri) || watches_by_path(path)) {
        return true;
    }
    path.split('/')
        .skip(5)
        .any(|segment| LONG_RUNNING_SUBRESOURCES.contains(&segment))
}

/// The `watch` parameter in the reading of apimachinery: present and neither `false` nor `0`.
fn asks_to_watch(uri: &Uri) -> bool {
    query::first(uri, "watch").is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
}

/// The deprecated `/api/v1/watch/…` and `/apis/group/version/watch/…` forms.
fn watches_by_path(path: &str) -> bool {
    let segments: Vec<&str> = path.trim_matches('/').splitn(5, '/').collect();
    matches!(
        segments.as_slice(),
        ["api", _, "watch", ..] | ["apis", _, _, "watch", ..]
    )
}

/// The `timeout` parameter: `None` when absent or zero, which both mean the server's own.
pub(super) fn requested_timeout(uri: &Uri) -> Result<Option<Duration>, String> {
    let Some(value) = query::first(uri, "timeout").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    match parse_go_duration(&value) {
        Ok(duration) => Ok(duration.filter(|duration| !duration.is_zero())),
        Err(problem) => Err(format!(
            "invalid timeout specified in the request URL - {problem}"
        )),
    }
}

/// Reads a duration as Go writes it (`1h30m`, `1.5s`). Negative ones give `None`.
fn parse_go_duration(text: &str) -> Result<Option<Duration>, String> {
    let quoted = || format!("{:?}", truncated(text));
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(format!("time: invalid duration {}", quoted()));
    }
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let Ok(number) = number.parse::<f64>() else {
            return Err(format!("time: invalid duration {}", quoted()));
        };
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted()));
        }
        let Some(scale) = unit_seconds(unit) else {
            return Err(format!(
                "time: unknown unit {:?} in duration {}",
                truncated(unit),
                quoted()
            ));
        };
        seconds += number * scale;
        rest = tail;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if seconds < i64::MAX as f64 / 1e9 => Ok((!is_negative).then_some(duration)),
        _ => Err(format!("time: invalid duration {}", quoted())),
    }
}

/// Answers must not grow with what the client sent.
fn truncated(text: &str) -> &str {
    const LONGEST: usize = 128;
    let end = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= LONGEST)
        .last();
    &text[..end.unwrap_or(0)]
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(value: &str) -> Result<Option<Duration>, String> {
        requested_timeout(&format!("/api/v1/pods?timeout={value}").parse().unwrap())
    }

    #[test]
    fn reads_durations_as_go_does() {
        assert_eq!(timeout("1h30m"), Ok(Some(Duration::from_secs(5400))));
        assert_eq!(timeout("1.5s"), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(timeout("0s"), Ok(None));
        assert_eq!(timeout("0"), Ok(None));
        assert_eq!(timeout(""), Ok(None));
        assert_eq!(timeout("-5s"), Ok(None));
    }

    #[test]
    fn words_bad_durations_as_go_does() {
        let prefix = "invalid timeout specified in the request URL - ";
        assert_eq!(
            timeout("xx"),
            Err(format!("{prefix}time: invalid duration \"xx\""))
        );
        assert_eq!(
            timeout("10"),
            Err(format!("{prefix}time: missing unit in duration \"10\""))
        );
        assert_eq!(
            timeout("10y"),
            Err(format!("{prefix}time: unknown unit \"y\" in duration \"10y\""))
        );
        assert!(timeout("99999999999999999h").is_err());
        assert!(timeout(&"9".repeat(4000)).unwrap_err().len() < 300);
    }

    #[test]
    fn tells_streams_from_requests_that_end() {
        let check = |uri: &str, expect: bool| {
            assert_eq!(
                looks_long_running(&Method::GET, &uri.parse().unwrap()),
                expect,
                "{uri}"
            );
        };
        check("/api/v1/pods?watch=true", true);
        check("/api/v1/pods?limit=1&watch=1", true);
        check("/api/v1/pods?watch", true);
        check("/api/v1/pods?watch=false", false);
        check("/api/v1/pods?watch=0", false);
        check("/api/v1/watch/pods", true);
        check("/apis/apps/v1/watch/namespaces/x/deployments", true);
        check("/api/v1/namespaces/watch/pods", false);
        check("/api/v1/namespaces/x/pods/y/log", true);
        check("/api/v1/namespaces/log", false);
        check("/healthz?watch=true", false);
    }
}
