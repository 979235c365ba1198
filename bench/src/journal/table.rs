//! Figures for readers.

use serde_json::{Value, json};

use super::Figures;
use crate::shape::Template;

/// Prints everything as tables, the goals last.
pub(super) fn print(figures: &Figures) {
    println!(
        "Objects of {} bytes, each part a process of its own; {}, data on {}",
        Template::new().size(),
        machine(),
        figures.disk
    );
    if figures.disk == "tmpfs" {
        println!("\nThis is not a disk: to be durable costs nothing here. Choose another with --dir.");
    }
    print_throughput(figures);
    print_latency(figures);
    print_memory(figures);
    print_start(figures);
    match figures.args.as_ref().is_some_and(|args| args.quick) {
        true => println!("\nA quick run: it shows that the measurement works, and nothing else."),
        false => print_goals(figures),
    }
}

fn print_throughput(figures: &Figures) {
    if figures.throughput.is_empty() {
        return;
    }
    println!("\n| into the journal | changes /s | MB/s on disk | bytes each | commits /s | CPU µs each |");
    println!("|---|---|---|---|---|---|");
    for (title, row) in &figures.throughput {
        println!(
            "| {title} | {:.0} | {:.1} | {:.0} | {:.0} | {:.1} |",
            number(row, "changes_per_s"),
            number(row, "mb_per_s"),
            number(row, "bytes_per_change"),
            number(row, "commits_per_s"),
            number(row, "cpu_us")
        );
    }
}

fn print_latency(figures: &Figures) {
    let Some(args) = figures.args.as_ref().filter(|_| !figures.latency.is_empty()) else {
        return;
    };
    println!(
        "\n{} changes a second, until the sink has acknowledged:\n",
        args.per_second
    );
    println!("| change to sink | median ms | 99th percentile ms | longest ms | CPU µs each |");
    println!("|---|---|---|---|---|");
    for (title, row) in &figures.latency {
        println!(
            "| {title} | {:.2} | {:.2} | {:.2} | {:.0} |",
            number(row, "p50_ms"),
            number(row, "p99_ms"),
            number(row, "max_ms"),
            number(row, "cpu_us")
        );
    }
}

fn print_memory(figures: &Figures) {
    let Some(args) = figures.args.as_ref().filter(|_| !figures.memory.is_null()) else {
        return;
    };
    let row = &figures.memory;
    println!(
        "\n| {} objects, durable | s | resident bytes per object |",
        args.mirrored
    );
    println!("|---|---|---|");
    println!(
        "| listed | {:.2} | {:.0} |",
        number(row, "list_s"),
        number(row, "listed_bytes_per_object")
    );
    println!(
        "| each updated once | {:.2} | {:.0} |",
        number(row, "updates_s"),
        number(row, "updated_bytes_per_object")
    );
    println!(
        "\nThe process had {:.0} MB then, and {:.0} MB at its highest.",
        number(row, "resident_mb"),
        number(row, "peak_mb")
    );
}

fn print_start(figures: &Figures) {
    let Some((_, first)) = figures.start.first() else {
        return;
    };
    println!(
        "\nA journal of {:.2} GB, {} changes of {} objects, written in {:.0} s, read from the page cache:\n",
        number(first, "disk_gb"),
        first["changes"],
        first["objects"],
        number(&figures.fill, "seconds")
    );
    println!("| start | s | resident MB | history of one object | ms |");
    println!("|---|---|---|---|---|");
    for (title, row) in &figures.start {
        println!(
            "| {title} | {:.3} | {:.1} | {} changes | {:.1} |",
            number(row, "open_s"),
            number(row, "resident_mb"),
            row["history_entries"],
            number(row, "history_ms")
        );
    }
}

/// A goal and what came of it.
struct Goal {
    what: &'static str,
    goal: &'static str,
    reached: String,
    met: bool,
}

fn print_goals(figures: &Figures) {
    let goals = goals(figures);
    if goals.is_empty() {
        return;
    }
    println!("\n| figure | goal | here | |");
    println!("|---|---|---|---|");
    for goal in goals {
        let met = if goal.met { "met" } else { "missed" };
        println!("| {} | {} | {} | {met} |", goal.what, goal.goal, goal.reached);
    }
}

fn goals(figures: &Figures) -> Vec<Goal> {
    let rate = |title| find(&figures.throughput, title, "changes_per_s");
    let mut goals = Vec::new();
    if let Some(durable) = rate("durable") {
        goals.push(Goal {
            what: "changes a second into the journal, durable",
            goal: "≥ 20,000",
            reached: format!("{durable:.0}"),
            met: durable >= 20_000.0,
        });
    }
    if let Some((durable, not)) = rate("durable").zip(rate("not durable")) {
        let ratio = not / durable;
        goals.push(Goal {
            what: "what durable costs, by changes a second",
            goal: "≤ 1.5 ×",
            reached: format!("{ratio:.2} ×"),
            met: ratio <= 1.5,
        });
    }
    let sinks = [
        (
            "change to sink in process, durable, 99th percentile",
            "durable, sink in process",
        ),
        ("change to webhook, durable, 99th percentile", "durable, webhook"),
    ];
    for (what, title) in sinks {
        goals.extend(find(&figures.latency, title, "p99_ms").map(|p99| Goal {
            what,
            goal: "≤ 10 ms",
            reached: format!("{p99:.2} ms"),
            met: p99 <= 10.0,
        }));
    }
    goals
}

fn find(rows: &[(&str, Value)], title: &str, figure: &str) -> Option<f64> {
    let (_, row) = rows.iter().find(|(other, _)| *other == title)?;
    row[figure].as_f64()
}

fn number(row: &Value, figure: &str) -> f64 {
    row[figure].as_f64().unwrap_or(f64::NAN)
}

/// Everything as one value.
pub(super) fn json(figures: &Figures) -> Value {
    let rows = |rows: &[(&str, Value)]| -> Vec<Value> {
        let row = |(title, figures): &(&str, Value)| json!({"subject": title, "figures": figures});
        rows.iter().map(row).collect()
    };
    let goal_of =
        |goal: Goal| json!({"figure": goal.what, "goal": goal.goal, "here": goal.reached, "met": goal.met});
    json!({
        "machine": machine(), "file_system": figures.disk, "object_bytes": Template::new().size(),
        "throughput": rows(&figures.throughput), "latency": rows(&figures.latency), "memory": figures.memory,
        "fill": figures.fill, "start": rows(&figures.start),
        "goals": goals(figures).into_iter().map(goal_of).collect::<Vec<_>>(),
    })
}

/// What this runs on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    format!("{cores} cores, {os} {arch}, load {load}")
}
