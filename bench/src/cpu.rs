//! What processes have used, as the system counts it.

use anyhow::Context as _;

/// CPU time of a process, in hundredths of a second.
pub(crate) fn seconds_of(id: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("/proc stat")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    // utime and stime, the 14th and 15th field of the line.
    let ticks: u64 =
        fields.get(11).context("utime")?.parse::<u64>()? + fields.get(12).context("stime")?.parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}
