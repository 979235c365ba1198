//! Standard base64 with padding, as Go reads and writes byte slices.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Where the input stops being base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {0}")]
pub(crate) struct Corrupt(usize);

/// Encodes bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = ALPHABET[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

/// Decodes text; line breaks are skipped, padding is mandatory.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, Corrupt> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut quad = [0_u32; 4];
    let mut filled = 0;
    let mut bytes = text
        .bytes()
        .enumerate()
        .filter(|(_, b)| !matches!(b, b'\r' | b'\n'))
        .peekable();
    while let Some((at, byte)) = bytes.next() {
        if byte == b'=' {
            return finish(out, quad, filled, at, bytes, text.len());
        }
        quad[filled] = sextet(byte).ok_or(Corrupt(at))?;
        filled += 1;
        if filled == 4 {
            push(&mut out, quad, 3);
            filled = 0;
        }
    }
    // Go points at the start of the group that is not complete.
    if filled == 0 {
        Ok(out)
    } else {
        Err(Corrupt(text.len() - filled))
    }
}

fn finish(
    mut out: Vec<u8>,
    mut quad: [u32; 4],
    filled: usize,
    at: usize,
    mut rest: impl Iterator<Item = (usize, u8)>,
    end: usize,
) -> Result<Vec<u8>, Corrupt> {
    if filled < 2 {
        return Err(Corrupt(at));
    }
    if filled == 2 {
        match rest.next() {
            Some((_, b'=')) => {}
            Some((at, _)) => return Err(Corrupt(at)),
            None => return Err(Corrupt(end)),
        }
    }
    if let Some((at, _)) = rest.next() {
        return Err(Corrupt(at));
    }
    quad[filled..].fill(0);
    push(&mut out, quad, filled - 1);
    Ok(out)
}

fn push(out: &mut Vec<u8>, quad: [u32; 4], keep: usize) {
    let word = quad[0] << 18 | quad[1] << 12 | quad[2] << 6 | quad[3];
    out.extend_from_slice(&word.to_be_bytes()[1..=keep]);
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for length in 0..70_u8 {
            let bytes: Vec<u8> = (0..length).map(|b| b.wrapping_mul(37)).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
        assert_eq!(encode(b"hello"), "aGVsbG8=");
        assert_eq!(decode("aGVs\nbG8=\n").unwrap(), b"hello");
    }

    #[test]
    fn says_where_the_input_is_corrupt() {
        assert_eq!(decode("!!").unwrap_err(), Corrupt(0));
        assert_eq!(decode("YQ").unwrap_err(), Corrupt(0));
        assert_eq!(decode("YWFh=").unwrap_err(), Corrupt(4));
        assert_eq!(decode("YQ=a").unwrap_err(), Corrupt(3));
    }
}
