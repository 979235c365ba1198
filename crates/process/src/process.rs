//! Facts about this process, read from `/proc` when metrics are asked for.

use std::{fmt, fs};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge};

/// Linux reports CPU time in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Shows in a registry the memory, processor time, threads and files of this process, as `process_*`. Nothing where there
/// is no `/proc`.
///
/// ```
/// let mut registry = prometheus_client::registry::Registry::default();
/// registry.register_collector(Box::new(skopos_process::Process));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for sample in samples() {
            let Sample { name, help, value } = sample;
            match value {
                Value::Counter(value) => {
                    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                    ConstCounter::new(value).encode(metric)?;
                }
                Value::Gauge(value) => {
                    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                    ConstGauge::new(value).encode(metric)?;
                }
            }
        }
        Ok(())
    }
}

struct Sample {
    name: &'static str,
    help: &'static str,
    value: Value,
}

#[derive(Debug, PartialEq)]
enum Value {
    Counter(f64),
    Gauge(f64),
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        samples.extend(from_status(&status));
    }
    if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
        samples.extend(from_stat(&stat, boot_time().unwrap_or_default()));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        samples.push(gauge(
            "process_open_fds",
            "Open file descriptors",
            open.count() as f64,
        ));
    }
    samples
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Sample {
    Sample {
        name,
        help,
        value: Value::Gauge(value),
    }
}

fn from_status(status: &str) -> Vec<Sample> {
    let number = |key: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let kib = |key: &str| number(key).map(|value| value * 1024.0);
    [
        kib("VmRSS:").map(|v| gauge("process_resident_memory_bytes", "Resident memory", v)),
        kib("VmHWM:").map(|v| {
            gauge(
                "process_resident_memory_peak_bytes",
                "Highest resident memory so far",
                v,
            )
        }),
        kib("VmSize:").map(|v| gauge("process_virtual_memory_bytes", "Virtual memory", v)),
        number("Threads:").map(|v| gauge("process_threads", "Threads", v)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn from_stat(stat: &str, boot_time: f64) -> Vec<Sample> {
    // The command, second field, may hold spaces; everything after its closing bracket is regular.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let (Some(user), Some(system), Some(started)) = (ticks(11), ticks(12), ticks(19)) else {
        return Vec::new();
    };
    let cpu = Sample {
        name: "process_cpu_seconds",
        help: "CPU time used",
        value: Value::Counter((user + system) / TICKS_PER_SECOND),
    };
    let started = boot_time + started / TICKS_PER_SECOND;
    vec![
        cpu,
        gauge(
            "process_start_time_seconds",
            "Start, in seconds since 1970",
            started,
        ),
    ]
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_with_a_strange_command_name() {
        let stat = "12 (a b) c) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 3 0 1000 5 6";
        let values: Vec<Value> = from_stat(stat, 100.0)
            .into_iter()
            .map(|sample| sample.value)
            .collect();
        assert_eq!(values, [Value::Counter(3.0), Value::Gauge(110.0)]);
        assert!(from_stat("", 0.0).is_empty());
    }
}
