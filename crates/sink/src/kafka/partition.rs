//! Which partition a lane belongs to, as Java's own producer decides it, so that others find it there too.

/// The partition of a key; `partitions` is not empty.
pub(super) fn partition_of(key: &[u8], partitions: &[i32]) -> i32 {
    let hash = murmur2(key) & 0x7fff_ffff;
    let n = hash as usize % partitions.len().max(1);
    partitions.get(n).copied().unwrap_or_default()
}

/// The 32-bit MurmurHash2 with the seed that Kafka uses.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let chunks = data.chunks_exact(4);
    let tail = chunks.remainder();
    for chunk in chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (n, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * n);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_kafkas_own_producer_does() {
        for (key, expect) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, expect, "{key}");
        }
    }

    #[test]
    fn a_key_has_one_partition() {
        let partitions = [0, 1, 2, 3];
        assert_eq!(partition_of(b"u1", &partitions), partition_of(b"u1", &partitions));
        let used: std::collections::BTreeSet<_> = (0..100)
            .map(|n| partition_of(format!("u{n}").as_bytes(), &partitions))
            .collect();
        assert_eq!(used.len(), 4);
    }
}
