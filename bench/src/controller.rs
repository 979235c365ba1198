//! Controllers beside each other: Skopos', controller-runtime's and kube-rs'.
//!
//! Each is a process of its own, all meet the same embedded server in the same run, in turns. Each has eight
//! workers, reads objects without a type, and lets changes of the status alone pass.

pub(crate) mod ours;

use std::path::{Path, PathBuf};
use std::time::Instant;

use skopos_conformance::{Endpoint, Kubeconfig, Request, Server, Start};

use crate::load;
use crate::watch::client::Client;

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// The skopos command, whose embedded server is used.
    #[arg(long)]
    program: PathBuf,
    /// controller-runtime's: `go build -C bench/go/controller -o …`.
    #[arg(long)]
    go: Option<PathBuf>,
    /// kube-rs', a binary of `bench/peers/kube`.
    #[arg(long)]
    kube: Option<PathBuf>,
    /// How many objects are reconciled for the rates.
    #[arg(long, default_value_t = 10_000)]
    reconciled: usize,
    /// How often each is measured, in turns; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What a reconcile does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Task {
    /// Reads the object from the cache.
    Read,
    /// Reads the object and writes its status.
    Status,
    /// Reads the object and takes 5 ms.
    Slow,
}

impl Task {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Status => "status",
            Self::Slow => "slow",
        }
    }
}

/// A controller to be measured.
struct Subject {
    title: &'static str,
    program: PathBuf,
    before: &'static [&'static str],
}

/// What it took to reconcile everything once.
#[derive(Debug, Clone, Copy)]
struct Figures {
    per_s: f64,
    cpu_s: f64,
    resident_mb: f64,
}

/// Measures all and prints tables.
pub(crate) async fn run(args: &Args, n_restart: usize, clients: usize) -> anyhow::Result<()> {
    let subjects = subjects(args)?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "8 workers each, {cores} cores, median of {} rounds\n",
        args.rounds
    );
    let mut bench = Bench::start(args).await?;
    bench.fill(args.reconciled, clients).await?;
    for task in [Task::Read, Task::Status] {
        bench.rates(args, &subjects, task)?;
    }
    bench.fill(n_restart, clients).await?;
    bench.reactions(args, &subjects).await
}

fn subjects(args: &Args) -> anyhow::Result<Vec<Subject>> {
    let ours = Subject {
        title: "Skopos",
        program: std::env::current_exe()?,
        before: &["reconcile"],
    };
    let go = args.go.clone().map(|program| Subject {
        title: "controller-runtime",
        program,
        before: &[],
    });
    let kube = args.kube.clone().map(|program| Subject {
        title: "kube-rs",
        program,
        before: &[],
    });
    Ok(std::iter::once(ours).chain(go).chain(kube).collect())
}

/// A server with objects in it.
struct Bench {
    server: Server,
    _home: tempfile::TempDir,
    shape: crate::shape::Shape,
    n_objects: usize,
    /// Makes every process look for something else.
    mark: usize,
}

impl Bench {
    async fn start(args: &Args) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let server = Server::start(&Start {
            program: args.program.clone(),
            dir: home.path().join("server"),
            in_memory: true,
            port: 0,
        })?;
        let endpoint = Endpoint::new(&Kubeconfig::read(server.kubeconfig())?)?;
        let shape = load::define(&endpoint, &mut |_, _| ()).await?;
        Ok(Self {
            server,
            _home: home,
            shape,
            // The one that told how large they are.
            n_objects: 1,
            mark: 1_000,
        })
    }

    fn endpoint(&self) -> anyhow::Result<Endpoint> {
        Endpoint::new(&Kubeconfig::read(self.server.kubeconfig())?)
    }

    /// Creates objects until there are so many.
    async fn fill(&mut self, n_objects: usize, clients: usize) -> anyhow::Result<()> {
        eprintln!("creating objects until there are {n_objects}");
        let there = self.n_objects - 1;
        let missing = there..n_objects.saturating_sub(1).max(there);
        load::create(&self.endpoint()?, &self.shape, missing, clients).await?;
        self.n_objects = self.n_objects.max(n_objects);
        Ok(())
    }

    fn client(&mut self, subject: &Subject, task: Task) -> anyhow::Result<Client> {
        eprintln!("  {}: {}", subject.title, task.word());
        self.mark += 1;
        let kubeconfig = Path::new(self.server.kubeconfig()).display().to_string();
        let (n_objects, mark) = (self.n_objects.to_string(), self.mark.to_string());
        let mut words = subject.before.to_vec();
        words.extend([kubeconfig.as_str(), task.word(), &n_objects, &mark]);
        Client::start(&subject.program, &words)
    }

    fn rates(&mut self, args: &Args, subjects: &[Subject], task: Task) -> anyhow::Result<()> {
        let mut measured = vec![Vec::new(); subjects.len()];
        for _ in 0..args.rounds.max(1) {
            for (subject, measured) in subjects.iter().zip(&mut measured) {
                measured.push(self.rate(subject, task)?);
            }
        }
        println!(
            "| {} objects, {} | reconciles /s | ÷ Skopos' | CPU s | resident MB |",
            self.n_objects,
            task.word()
        );
        println!("|---|---|---|---|---|");
        let medians: Vec<Figures> = measured
            .into_iter()
            .map(|rounds| median(rounds, |figures| figures.per_s))
            .collect();
        for (subject, figures) in subjects.iter().zip(&medians) {
            println!(
                "| {} | {:.0} | {:.2} | {:.2} | {:.0} |",
                subject.title,
                figures.per_s,
                figures.per_s / medians[0].per_s,
                figures.cpu_s,
                figures.resident_mb
            );
        }
        println!();
        Ok(())
    }

    /// From the first request until everything was reconciled once.
    fn rate(&mut self, subject: &Subject, task: Task) -> anyhow::Result<Figures> {
        let mut client = self.client(subject, task)?;
        let (cpu, begun) = (client.cpu_s()?, Instant::now());
        client.say("start")?;
        client.expect("begun")?;
        client.expect("all")?;
        Ok(Figures {
            per_s: self.n_objects as f64 / begun.elapsed().as_secs_f64(),
            cpu_s: client.cpu_s()? - cpu,
            resident_mb: client.resident()? as f64 / 1e6,
        })
    }

    async fn reactions(&mut self, args: &Args, subjects: &[Subject]) -> anyhow::Result<()> {
        let mut measured = vec![Vec::new(); subjects.len()];
        for _ in 0..args.rounds.max(1) {
            for (subject, measured) in subjects.iter().zip(&mut measured) {
                measured.push(self.reaction(subject).await?);
            }
        }
        println!(
            "| restart with {} objects, 5 ms each | a change made at the first reconcile is handled after ms, goal < 1000 |",
            self.n_objects
        );
        println!("|---|---|");
        for (subject, rounds) in subjects.iter().zip(measured) {
            println!(
                "| {} | {:.0} |",
                subject.title,
                median(rounds, |milliseconds| *milliseconds)
            );
        }
        Ok(())
    }

    /// From the write of a change, while the initial list drains, until its reconcile; in milliseconds.
    async fn reaction(&mut self, subject: &Subject) -> anyhow::Result<f64> {
        let mut client = self.client(subject, Task::Slow)?;
        let endpoint = self.endpoint()?;
        // The last of the list, and each time another one.
        let number = self.n_objects - 2 - (self.mark % 1_000);
        let path = format!("{}/app-{number:06}", load::APPS);
        let change = format!(r#"{{"spec":{{"replicas":{}}}}}"#, self.mark);
        client.say("start")?;
        client.expect("begun")?;
        let begun = Instant::now();
        let patch =
            Request::new(http::Method::PATCH, path).body("application/merge-patch+json", change.clone());
        endpoint.send(patch).await?.success()?;
        client.expect("changed")?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }
}

fn median<T: Copy>(mut rounds: Vec<T>, by: impl Fn(&T) -> f64) -> T {
    rounds.sort_by(|a, b| by(a).total_cmp(&by(b)));
    rounds[rounds.len() / 2]
}
