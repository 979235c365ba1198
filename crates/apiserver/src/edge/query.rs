//! Reads query parameters.

use std::borrow::Cow;

use http::Uri;

/// The decoded values of every `key` in the query, in order.
pub(super) fn all<'a>(uri: &'a Uri, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let pairs = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name) == key).then(|| decode(value).into_owned())
    })
}

/// The first value of `key`; empty when the key stands alone.
pub(super) fn first(uri: &Uri, key: &str) -> Option<String> {
    all(uri, key).next()
}

/// Percent-decoding with `+` as space; broken escapes stay as they are.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => match escape(bytes.clone()) {
                Some(decoded) => {
                    out.push(decoded);
                    bytes.nth(1);
                }
                None => out.push(b'%'),
            },
            other => out.push(other),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn escape(mut rest: impl Iterator<Item = u8>) -> Option<u8> {
    let mut digit = || rest.next().and_then(|byte| (byte as char).to_digit(16));
    u8::try_from(digit()? * 16 + digit()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_keys_and_values() {
        let uri: Uri = "/x?a=1&b=%20x+y&a=2&c&%61=3&d=%zz".parse().unwrap();
        assert_eq!(all(&uri, "a").collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(first(&uri, "b").as_deref(), Some(" x y"));
        assert_eq!(first(&uri, "c").as_deref(), Some(""));
        assert_eq!(first(&uri, "d").as_deref(), Some("%zz"));
        assert_eq!(first(&uri, "e"), None);
    }
}
