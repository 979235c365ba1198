//! What an answer means.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::courier::Answer;

/// So much of an answer is read; longer ones cost the connection.
const MAX_READ_BYTES: usize = 64 << 10;
/// So much of it is told.
const MAX_TOLD_CHARS: usize = 300;

/// Reads an answer and says what it means for the spans.
pub(super) async fn judge<B>(answer: Response<B>, server: &str, now: SystemTime) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = answer.into_parts();
    let text = beginning(body).await;
    match head.status.as_u16() {
        200..=299 => taken(&text),
        // Those that the protocol says to try again.
        429 | 502 | 503 | 504 => Answer::Later {
            after: retry_after(&head.headers, now),
            problem: problem(server, head.status, &text),
        },
        _ => Answer::Refused(problem(server, head.status, &text)),
    }
}

/// Reads `partialSuccess`, which is there only if something is to be said.
fn taken(text: &[u8]) -> Answer {
    let answer: Value = serde_json::from_slice(text).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let n_rejected = match &partial["rejectedSpans"] {
        Value::String(number) => number.parse().unwrap_or(0),
        number => number.as_u64().unwrap_or(0),
    };
    let says = partial["errorMessage"].as_str().unwrap_or_default();
    Answer::Taken {
        n_rejected,
        says: told(says),
    }
}

fn problem(server: &str, status: StatusCode, text: &[u8]) -> String {
    let hint = match status.as_u16() {
        300..=399 => ": redirects are not followed, give the right address",
        401 | 403 | 407 => ": check the headers",
        404 | 405 | 410 => ": check the address, is it one of OTLP over HTTP?",
        413 => ": the receiver takes only smaller requests",
        415 => ": the receiver does not take JSON, put an OpenTelemetry Collector in between",
        _ => "",
    };
    let said: Value = serde_json::from_slice(text).unwrap_or_default();
    let said = match said["message"].as_str() {
        Some(message) => told(message),
        None => told(&String::from_utf8_lossy(text)),
    };
    match said.is_empty() {
        true => format!("{server} answered {status}{hint}"),
        false => format!("{server} answered {status}{hint}: {said}"),
    }
}

async fn beginning<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = MAX_READ_BYTES - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            break;
        }
    }
    read
}

/// The first words, on one line.
fn told(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_TOLD_CHARS)
        .collect()
}

/// Reads `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(value).ok()?;
            Some(at.duration_since(now).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn judged(status: u16, retry_after: Option<&str>, body: &str) -> Answer {
        let mut answer = Response::builder().status(status);
        if let Some(value) = retry_after {
            answer = answer.header(header::RETRY_AFTER, value);
        }
        let answer = answer.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        judge(answer, "http://c", now).await
    }

    #[tokio::test]
    async fn only_what_the_protocol_says_is_tried_again() {
        for (status, expect) in [
            (200, "Taken"),
            (202, "Taken"),
            (301, "Refused"),
            (400, "Refused"),
            (401, "Refused"),
            (404, "Refused"),
            (408, "Refused"),
            (413, "Refused"),
            (429, "Later"),
            (500, "Refused"),
            (502, "Later"),
            (503, "Later"),
            (504, "Later"),
        ] {
            let answer = format!("{:?}", judged(status, None, "").await);
            assert!(answer.starts_with(expect), "{status}: {answer}");
        }
    }

    #[tokio::test]
    async fn retry_after_is_seconds_or_a_date() {
        for (value, expect) in [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
        ] {
            let Answer::Later { after, .. } = judged(503, Some(value), "").await else {
                panic!("{value}");
            };
            assert_eq!(after, expect.map(Duration::from_secs), "{value}");
        }
    }

    #[tokio::test]
    async fn what_the_receiver_did_not_take_is_told() {
        let taken = |n_rejected, says: &str| Answer::Taken {
            n_rejected,
            says: says.into(),
        };
        for (body, expect) in [
            ("", taken(0, "")),
            ("{}", taken(0, "")),
            (r#"{"partialSuccess":{}}"#, taken(0, "")),
            (
                r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too\n old"}}"#,
                taken(3, "too old"),
            ),
            (r#"{"partialSuccess":{"rejectedSpans":2}}"#, taken(2, "")),
            ("nonsense", taken(0, "")),
        ] {
            assert_eq!(judged(200, None, body).await, expect, "{body}");
        }
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_do() {
        for (status, body, expect) in [
            (
                404,
                "404 page not found\n",
                "http://c answered 404 Not Found: check the address, is it one of OTLP over HTTP?: 404 page not found",
            ),
            (
                400,
                r#"{"code":3,"message":"bad span"}"#,
                "http://c answered 400 Bad Request: bad span",
            ),
            (
                415,
                "",
                "http://c answered 415 Unsupported Media Type: the receiver does not take JSON, put an OpenTelemetry \
                 Collector in between",
            ),
        ] {
            assert_eq!(
                judged(status, None, body).await,
                Answer::Refused(expect.into()),
                "{status}"
            );
        }
    }
}
