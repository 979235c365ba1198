//! Figures for readers.

use serde_json::{Value, json};

use super::client::{Events, Sync};
use super::{CHANGING, Figures};

/// Prints everything as tables, the goals last.
pub(super) fn print(figures: &Figures) {
    println!(
        "Objects of {} bytes, one handler that counts, each client a process of its own, medians of {} rounds; {}",
        figures.object_bytes,
        figures.rounds,
        machine()
    );
    if !figures.sync.is_empty() {
        print_sync(figures);
    }
    if !figures.events.is_empty() {
        print_events(figures);
    }
    if !figures.growth.is_empty() {
        print_growth(figures);
    }
    print_goals(figures);
}

fn print_sync(figures: &Figures) {
    println!("\n{} objects from {}:\n", figures.objects, figures.server);
    println!("| list and cache | CPU s | wall s | resident KB per object | peak ÷ steady |");
    println!("|---|---|---|---|---|");
    for (title, sync) in &figures.sync {
        println!(
            "| {title} | {:.2} | {:.2} | {:.2} | {:.2} |",
            sync.cpu_s,
            sync.wall_s,
            sync.bytes_per_object / 1e3,
            sync.peak
        );
    }
}

fn print_events(figures: &Figures) {
    let sent = match figures.block {
        0 => "each by itself".to_owned(),
        block => format!("in blocks of {block} bytes"),
    };
    println!("\nMODIFIED events of {CHANGING} objects, as fast as they are read, plain HTTP, {sent}:\n");
    println!("| events | through the cache /s | told to the handler /s | CPU µs each |");
    println!("|---|---|---|---|");
    for (title, events) in &figures.events {
        println!(
            "| {title} | {:.0} | {:.0} | {:.2} |",
            events.per_s, events.told_per_s, events.cpu_us
        );
    }
}

fn print_growth(figures: &Figures) {
    println!("\nGrowth of Skopos, from the replay server:\n");
    println!("| objects | CPU µs each | wall s | resident KB per object | peak ÷ steady |");
    println!("|---|---|---|---|---|");
    for (objects, sync) in &figures.growth {
        println!(
            "| {objects} | {:.1} | {:.2} | {:.2} | {:.2} |",
            sync.cpu_s * 1e6 / *objects as f64,
            sync.wall_s,
            sync.bytes_per_object / 1e3,
            sync.peak
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
    let sync = |title: &str| find(&figures.sync, title);
    let events = |title: &str| find(&figures.events, title);
    let mut goals = Vec::new();
    let mut add = |what, goal, reached: Option<(String, bool)>| {
        goals.extend(reached.map(|(reached, met)| Goal {
            what,
            goal,
            reached,
            met,
        }));
    };
    let cpu = |peer: Option<Sync>, goal| {
        let ratio = peer?.cpu_s / sync("Skopos")?.cpu_s;
        Some((format!("1/{ratio:.1}"), ratio >= goal))
    };
    add(
        "CPU to list and cache, by client-go's",
        "≤ 1/20",
        cpu(sync("client-go"), 20.0),
    );
    add(
        "CPU to list and cache, by kube-rs'",
        "≤ 1/8",
        cpu(sync("kube-rs"), 8.0),
    );
    let memory = |title, goal| {
        let kilobytes = sync(title)?.bytes_per_object / 1e3;
        Some((format!("{kilobytes:.2} KB"), kilobytes <= goal))
    };
    add("resident memory per object", "≤ 1.5 KB", memory("Skopos", 1.5));
    add(
        "the same, compressed",
        "≤ 0.7 KB",
        memory("Skopos, compressed", 0.7),
    );
    let peak = |title| {
        let peak = sync(title)?.peak;
        Some((format!("{peak:.2} ×"), peak <= 1.15))
    };
    add("peak over steady memory", "≤ 1.15 ×", peak("Skopos"));
    add("the same, compressed", "≤ 1.15 ×", peak("Skopos, compressed"));
    let rate = |peer: Option<Events>, goal| {
        let ratio = events("Skopos")?.per_s / peer?.per_s;
        Some((format!("{ratio:.1} ×"), ratio >= goal))
    };
    add(
        "events per second, by client-go's",
        "≥ 30 ×",
        rate(events("client-go"), 30.0),
    );
    add(
        "events per second, by kube-rs'",
        "≥ 8 ×",
        rate(events("kube-rs"), 8.0),
    );
    add(
        "CPU and memory per object, largest size by the one before",
        "linear",
        growth(&figures.growth),
    );
    goals
}

/// How much more an object takes at the largest size than at the one before.
fn growth(sizes: &[(usize, Sync)]) -> Option<(String, bool)> {
    let [.., before, largest] = sizes else {
        return None;
    };
    let each = |(objects, sync): &(usize, Sync)| (sync.cpu_s / *objects as f64, sync.bytes_per_object);
    let (before, largest) = (each(before), each(largest));
    let (cpu, memory) = (largest.0 / before.0, largest.1 / before.1);
    Some((
        format!("{cpu:.2} × and {memory:.2} ×"),
        cpu <= 1.2 && memory <= 1.2,
    ))
}

fn find<T: Copy>(figures: &[(&str, T)], title: &str) -> Option<T> {
    let found = figures.iter().find(|(other, _)| *other == title);
    found.map(|(_, figure)| *figure)
}

/// Everything as one value.
pub(super) fn json(figures: &Figures) -> Value {
    let sync = |sync: &Sync| {
        json!({
            "cpu_s": sync.cpu_s, "wall_s": sync.wall_s,
            "resident_bytes_per_object": sync.bytes_per_object, "peak_by_steady": sync.peak,
        })
    };
    let events = |events: &Events| json!({"per_s": events.per_s, "told_per_s": events.told_per_s, "cpu_us": events.cpu_us});
    let sync_of = |(title, figure): &(&str, Sync)| json!({"client": title, "figures": sync(figure)});
    let events_of = |(title, figure): &(&str, Events)| json!({"client": title, "figures": events(figure)});
    let growth_of = |(objects, figure): &(usize, Sync)| json!({"objects": objects, "figures": sync(figure)});
    let goal_of =
        |goal: Goal| json!({"figure": goal.what, "goal": goal.goal, "here": goal.reached, "met": goal.met});
    json!({
        "machine": machine(), "objects": figures.objects, "object_bytes": figures.object_bytes,
        "server": figures.server, "rounds": figures.rounds, "block_bytes": figures.block,
        "sync": figures.sync.iter().map(sync_of).collect::<Vec<_>>(),
        "events": figures.events.iter().map(events_of).collect::<Vec<_>>(),
        "growth": figures.growth.iter().map(growth_of).collect::<Vec<_>>(),
        "goals": goals(figures).into_iter().map(goal_of).collect::<Vec<_>>(),
    })
}

/// What this runs on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    format!("{cores} cores, {os} {arch}, the system's allocator, load {load}")
}
