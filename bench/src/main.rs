//! Puts load on one API server and prints what it measured, as JSON. `cargo xtask bench` runs it on two servers.
//!
//! Also measures the watch engine ([`watch`]), the work queue ([`queue`]) and controllers ([`controller`]) beside their
//! peers, and the journal ([`journal`]).
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command speaks on its terminal"
)]

mod controller;
mod cpu;
mod follow;
mod journal;
mod load;
mod queue;
mod replay;
mod shape;
mod transport;
mod watch;
mod watchers;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};
use serde_json::{Map, Value, json};
use skopos_conformance::{Endpoint, Kubeconfig, Request, Server, Start, memory_of};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    server: Which,
    /// How many objects.
    #[arg(short = 'n', long, default_value_t = 50_000, global = true)]
    objects: usize,
    /// How many clients create them at once.
    #[arg(long, default_value_t = 16, global = true)]
    clients: usize,
    /// How many watchers see one write.
    #[arg(long, default_value_t = 1_000, global = true)]
    watchers: usize,
}

#[derive(Subcommand)]
enum Which {
    /// Start the embedded server from a program, with its data on disk.
    Embedded {
        /// The skopos command.
        program: PathBuf,
        /// Where its data directory is made.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Measure controllers: ours, controller-runtime's and kube-rs'.
    Controller(controller::Args),
    /// Run Skopos' controller, driven by standard input.
    #[command(hide = true)]
    Reconcile(controller::ours::Args),
    /// Measure the journal and what reacts to it, durable and not.
    Journal(journal::Args),
    /// Measure one part of the journal in a process of its own.
    #[command(hide = true)]
    JournalPart(journal::part::Args),
    /// Measure the work queue, and those of client-go and controller-runtime beside it.
    Queue(queue::Args),
    /// Measure the watch engine, and its peers beside it.
    Watch(watch::Args),
    /// Measure one server over HTTP/1.1 or HTTP/2.
    Transport(transport::Args),
    /// Follow a server with Skopos' informer, driven by standard input.
    #[command(hide = true)]
    Follow(follow::Args),
    /// Serve objects that are made while they are sent.
    #[command(hide = true)]
    Replay(replay::Args),
    /// Use a server that runs already.
    Given {
        /// Its kubeconfig.
        kubeconfig: PathBuf,
        /// The processes whose memory counts.
        #[arg(long, value_delimiter = ',')]
        processes: Vec<u32>,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let mut figures = Map::new();
    match &cli.server {
        Which::Queue(args) => {
            // It starts runtimes of its own, which a task of this one may not.
            let args = args.clone();
            return tokio::task::spawn_blocking(move || queue::run(&args)).await?;
        }
        Which::Journal(args) => return journal::run(args),
        Which::JournalPart(args) => return journal::part::run(args).await,
        Which::Watch(args) => return watch::run(args, cli.objects, cli.clients).await,
        Which::Transport(args) => return transport::run(args, cli.objects, cli.clients, cli.watchers).await,
        Which::Controller(args) => return controller::run(args, cli.objects, cli.clients).await,
        Which::Reconcile(args) => return controller::ours::run(args).await,
        Which::Follow(args) => return follow::run(args).await,
        Which::Replay(args) => return replay::run(args, cli.objects).await,
        Which::Embedded { program, dir } => {
            let home = tempfile::tempdir_in(dir)?;
            let data = home.path().join("data");
            let start = Start {
                program: program.clone(),
                dir: data,
                in_memory: false,
                port: 0,
            };
            let begun = Instant::now();
            let server = Server::start_alone(&start)?;
            server
                .endpoint()?
                .send(Request::get("/readyz"))
                .await?
                .success()?;
            figures.insert(
                "first_start_ms".into(),
                json!(begun.elapsed().as_secs_f64() * 1e3),
            );
            // The first start also makes certificates; every later one finds them.
            server.stop()?;
            let begun = Instant::now();
            let server = Server::start_alone(&start)?;
            server
                .endpoint()?
                .send(Request::get("/readyz"))
                .await?
                .success()?;
            figures.insert("ready_ms".into(), json!(begun.elapsed().as_secs_f64() * 1e3));
            measure(&cli, &server.endpoint()?, &[server.id()], &mut figures).await?;
            server.stop()?;
        }
        Which::Given {
            kubeconfig,
            processes,
        } => {
            let endpoint = Endpoint::new(&Kubeconfig::read(kubeconfig)?)?;
            measure(&cli, &endpoint, processes, &mut figures).await?;
        }
    }
    println!("{}", Value::Object(figures));
    Ok(())
}

async fn measure(
    cli: &Cli,
    endpoint: &Endpoint,
    processes: &[u32],
    figures: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    let memory = || -> anyhow::Result<f64> {
        let mut sum = 0;
        for id in processes {
            sum += memory_of(*id)?.0;
        }
        Ok(sum as f64 / 1e6)
    };
    let mut note = |name: &str, value: f64| figures.insert(name.to_owned(), json!(value));
    note("idle_mb", memory()?);
    let shape = load::define(endpoint, &mut note).await?;
    note("object_bytes", shape.size() as f64);
    note(
        "creates_per_s",
        load::create(endpoint, &shape, 0..cli.objects, cli.clients).await?,
    );
    note("loaded_mb", memory()?);
    let list = load::list(endpoint).await?;
    note("list_s", list.seconds);
    note("list_mb", list.bytes as f64 / 1e6);
    note("after_list_mb", memory()?);
    let fan_out = watchers::fan_out(endpoint, &shape, cli.watchers).await?;
    note("fan_out_median_ms", fan_out.median_ms);
    note("fan_out_worst_ms", fan_out.worst_ms);
    note("watched_mb", memory()?);
    Ok(())
}
