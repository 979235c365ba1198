//! Numbers and texts in a row of bytes, and back.

use jiff::Timestamp;

/// What cannot be read: the bytes end too early or are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Appends to a buffer.
pub(crate) struct Out<'a>(pub(crate) &'a mut Vec<u8>);

impl Out<'_> {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Seven bits a byte, the lowest first.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// To the microsecond.
    pub(crate) fn time(&mut self, at: Timestamp) {
        self.0.extend_from_slice(&at.as_microsecond().to_le_bytes());
    }
}

/// Reads from the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct In<'a>(pub(crate) &'a [u8]);

impl<'a> In<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed("length"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("number"))
    }

    pub(crate) fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed("size"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.size()?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("text"))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed("time"))?;
        Timestamp::from_microsecond(i64::from_le_bytes(bytes)).map_err(|_| Malformed("time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut buffer = Vec::new();
        let mut out = Out(&mut buffer);
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for number in numbers {
            out.number(number);
        }
        out.text("päth");
        out.time(Timestamp::UNIX_EPOCH);
        let mut input = In(&buffer);
        for number in numbers {
            assert_eq!(input.number(), Ok(number));
        }
        assert_eq!(input.text(), Ok("päth"));
        assert_eq!(input.time(), Ok(Timestamp::UNIX_EPOCH));
        assert!(input.0.is_empty());
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_not_a_panic() {
        let mut buffer = Vec::new();
        Out(&mut buffer).text("something long");
        for end in 0..buffer.len() {
            assert!(In(&buffer[..end]).text().is_err(), "{end}");
        }
        assert_eq!(In(&[0xff; 11]).number(), Err(Malformed("number")));
    }
}
