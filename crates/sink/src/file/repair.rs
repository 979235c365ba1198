//! What a crash left at the end of a file.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

/// So much is read at a time, from the end backwards.
const CHUNK: u64 = 64 << 10;

/// No line of ours is longer.
const MAX_LINE: u64 = 64 << 20;

/// Cuts off a line that was not written to its end, and returns the length of the file.
///
/// A last line that is whole but for its end is kept. A file whose end is no beginning of a JSON object is none of
/// ours, and is left alone.
pub(super) fn repair(file: &mut File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let tail = tail(file, len)?;
    if tail.is_empty() {
        return Ok(len);
    }
    if tail[0] != b'{' || tail.len() as u64 >= MAX_LINE {
        return Err(io::Error::other(
            "it is not a file of JSON lines; name another path or move it away",
        ));
    }
    if serde_json::from_slice::<serde_json::Value>(&tail).is_ok() {
        file.write_all(b"\n")?;
        file.sync_data()?;
        return Ok(len + 1);
    }
    let whole = len - tail.len() as u64;
    file.set_len(whole)?;
    file.sync_data()?;
    Ok(whole)
}

/// What comes after the last line end, or enough of it to see that it is no line.
fn tail(file: &mut File, len: u64) -> io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    let mut start = len;
    while start > 0 && len - start < MAX_LINE {
        let size = CHUNK.min(start);
        start -= size;
        let mut chunk = vec![0; usize::try_from(size).expect("a chunk fits in memory")];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut chunk)?;
        let end = chunk.iter().rposition(|byte| *byte == b'\n');
        let mut later = std::mem::take(&mut tail);
        tail.extend_from_slice(&chunk[end.map_or(0, |end| end + 1)..]);
        tail.append(&mut later);
        if end.is_some() {
            break;
        }
    }
    Ok(tail)
}
