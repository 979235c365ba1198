//! What an answer means.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;

use crate::Failure;

use super::request::Form;

/// So much of an answer is read, that the connection can be used again; longer ones cost the connection.
const MAX_READ_BYTES: usize = 64 << 10;
/// For so long: the status has come, and says what became of the events.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// So much of it is told.
const MAX_TOLD_CHARS: usize = 300;
/// No server is left alone for longer, whatever it asks for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Reads an answer and says what it means for the events.
pub(super) async fn judge<B>(answer: Response<B>, form: &Form, now: SystemTime) -> Result<(), Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = answer.into_parts();
    let text = beginning(body).await;
    let told = told(&text, |text| form.shown(text));
    let says = match told.is_empty() {
        true => String::new(),
        false => format!(": {told}"),
    };
    let (server, status) = (form.server(), head.status);
    match verdict(status) {
        Verdict::Delivered => Ok(()),
        Verdict::Unavailable => {
            let failure = Failure::unavailable(format!("{server} answered {status}{says}"));
            Err(failure.retry_after(retry_after(&head.headers, now)))
        }
        Verdict::Misconfigured(what) => {
            let failure = Failure::unavailable(format!("{server} answered {status}: {what}{says}"));
            Err(failure.retry_after(retry_after(&head.headers, now)))
        }
        Verdict::Refused => Err(Failure::refused(format!("{server} answered {status}{says}"))),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Delivered,
    /// It may work later.
    Unavailable,
    /// It will work when someone has mended something.
    Misconfigured(&'static str),
    Refused,
}

fn verdict(status: StatusCode) -> Verdict {
    match status.as_u16() {
        200..=299 => Verdict::Delivered,
        300..=399 => Verdict::Misconfigured("redirects are not followed, put the right address in url"),
        401 | 403 | 407 => Verdict::Misconfigured("check auth"),
        404 | 405 | 410 => Verdict::Misconfigured("check url"),
        408 | 425 | 429 => Verdict::Unavailable,
        400..=499 => Verdict::Refused,
        _ => Verdict::Unavailable,
    }
}

/// What comes of an answer in time.
async fn beginning<B: Body<Data = Bytes> + Unpin>(body: B) -> Vec<u8> {
    let mut read = Vec::new();
    let _ = tokio::time::timeout(READ_TIMEOUT, read_into(&mut read, body)).await;
    read
}

async fn read_into<B: Body<Data = Bytes> + Unpin>(read: &mut Vec<u8>, mut body: B) {
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = MAX_READ_BYTES - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            break;
        }
    }
}

/// The first words of what may be shown, on one line.
fn told(text: &[u8], shown: impl Fn(&str) -> String) -> String {
    let text = String::from_utf8_lossy(text);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Before it is cut: a part of a secret is not recognized.
    shown(&words)
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_TOLD_CHARS)
        .collect()
}

/// Reads `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value)
            .ok()?
            .duration_since(now)
            .unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::StreamBody;

    #[test]
    fn codes_that_a_person_mends_are_not_refusals() {
        for (code, expect) in [
            (204, "Delivered"),
            (302, "Misconfigured"),
            (400, "Refused"),
            (401, "Misconfigured"),
            (404, "Misconfigured"),
            (408, "Unavailable"),
            (413, "Refused"),
            (422, "Refused"),
            (429, "Unavailable"),
            (500, "Unavailable"),
            (503, "Unavailable"),
        ] {
            let verdict = format!("{:?}", verdict(StatusCode::from_u16(code).unwrap()));
            assert!(verdict.starts_with(expect), "{code}: {verdict}");
        }
    }

    /// The status has come, and says what became of the event.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_ends_counts_by_its_status() {
        let endless = |text: &'static str| {
            let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from(text)))]);
            StreamBody::new(first.chain(futures_util::stream::pending()))
        };
        assert_eq!(beginning(endless("so far")).await, b"so far");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |value: &'static str, expect: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
            assert_eq!(
                retry_after(&headers, now),
                expect.map(Duration::from_secs),
                "{value}"
            );
        };
        check("7", Some(7));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
        check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
        check("99999999999", Some(86_400));
        check("soon", None);
    }
}
