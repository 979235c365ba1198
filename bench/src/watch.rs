//! The watch engine beside client-go's dynamic informer and kube-rs' reflector.
//!
//! Each client is a process of its own, all meet the same server in the same run, in turns, and the system's own
//! accounts of each process are what counts.

pub(crate) mod client;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::client::{Client, Events, Sync};
use crate::{load, shape};
use skopos_conformance::{Endpoint, Kubeconfig, Server, Start};

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// The skopos command, whose embedded server is listed. Without it the objects come from the replay server.
    #[arg(long)]
    program: Option<PathBuf>,
    /// List this server instead, which must be empty.
    #[arg(long, conflicts_with = "program")]
    kubeconfig: Option<PathBuf>,
    /// client-go's informer: `go build -C bench/go/informer -o …`.
    #[arg(long)]
    go: Option<PathBuf>,
    /// kube-rs' reflector, from bench/peers/kube.
    #[arg(long)]
    kube: Option<PathBuf>,
    /// How often each is measured, in turns; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long events are counted.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Sizes at which Skopos' growth is measured.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000,300000")]
    growth: Vec<usize>,
    /// The replay server sends events in blocks of so many bytes. By default each by itself, as API servers do.
    #[arg(long, default_value_t = 0)]
    block: usize,
    /// Which parts to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sync,events,growth")]
    parts: Vec<Measure>,
    /// Print figures as JSON.
    #[arg(long)]
    json: bool,
}

/// One of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Measure {
    /// List and cache everything.
    Sync,
    /// Changes, as fast as they are read.
    Events,
    /// Skopos at several sizes.
    Growth,
}

/// How many objects change in turn.
const CHANGING: usize = 1_000;

/// A client to be measured.
#[derive(Debug, Clone)]
struct Subject {
    title: &'static str,
    program: PathBuf,
    /// Before and after the path of the kubeconfig.
    before: &'static [&'static str],
    after: &'static [&'static str],
    /// Whether it is also asked for events.
    events: bool,
}

/// Everything that was measured, by the titles of the subjects.
#[derive(Debug, Default)]
struct Figures {
    objects: usize,
    object_bytes: usize,
    server: &'static str,
    rounds: usize,
    sync: Vec<(&'static str, Sync)>,
    events: Vec<(&'static str, Events)>,
    growth: Vec<(usize, Sync)>,
    block: usize,
}

/// Measures and prints tables.
pub(crate) async fn run(args: &Args, objects: usize, clients: usize) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let subjects = subjects(args)?;
    let has = |part| args.parts.contains(&part);
    let mut figures = Figures {
        objects,
        object_bytes: shape::Template::new().size(),
        server: "the replay server (plain HTTP)",
        rounds: args.rounds,
        block: args.block,
        ..Figures::default()
    };
    if has(Measure::Sync) {
        let (_server, kubeconfig) = filled(args, home.path(), objects, clients, &mut figures).await?;
        figures.sync = sync(args.rounds, &subjects, &kubeconfig, objects)?;
    }
    if has(Measure::Events) {
        let (_server, kubeconfig) = replay(home.path(), CHANGING, true, args.block)?;
        figures.events = events(args, &subjects, &kubeconfig)?;
    }
    if has(Measure::Growth) {
        for &size in &args.growth {
            let (_server, kubeconfig) = replay(home.path(), size, false, args.block)?;
            // Once: what counts is how the sizes compare, not how they compare with others.
            let measured = sync(1, &subjects[..1], &kubeconfig, size)?;
            figures
                .growth
                .extend(measured.into_iter().map(|(_, sync)| (size, sync)));
        }
    }
    if args.json {
        println!("{}", table::json(&figures));
    } else {
        table::print(&figures);
    }
    Ok(())
}

fn subjects(args: &Args) -> anyhow::Result<Vec<Subject>> {
    let this = std::env::current_exe()?;
    let ours = |title, after, events| Subject {
        title,
        program: this.clone(),
        before: &["follow"],
        after,
        events,
    };
    let mut subjects = vec![
        ours("Skopos", &[], true),
        ours("Skopos, compressed", &["--compressed"], true),
    ];
    // The replay server sends whole objects to everyone.
    if args.program.is_some() || args.kubeconfig.is_some() {
        subjects.push(ours("Skopos, metadata only", &["--metadata"], false));
    }
    let peers = [
        (&args.go, ["client-go", "client-go, managedFields stripped"]),
        (&args.kube, ["kube-rs", "kube-rs, managedFields stripped"]),
    ];
    for (program, titles) in peers {
        let Some(program) = program else { continue };
        let strips: [&[&str]; 2] = [&[], &["strip"]];
        for (title, after) in titles.into_iter().zip(strips) {
            subjects.push(Subject {
                title,
                program: program.clone(),
                before: &[],
                after,
                events: after.is_empty(),
            });
        }
    }
    Ok(subjects)
}

impl Subject {
    fn start(&self, kubeconfig: &Path) -> anyhow::Result<Client> {
        let kubeconfig = kubeconfig.display().to_string();
        let mut args = self.before.to_vec();
        args.push(&kubeconfig);
        args.extend(self.after);
        eprintln!("  {}", self.title);
        Client::start(&self.program, &args)
    }
}

/// A server with objects in it, and the way to it.
async fn filled(
    args: &Args,
    home: &Path,
    objects: usize,
    clients: usize,
    figures: &mut Figures,
) -> anyhow::Result<(Option<Serving>, PathBuf)> {
    let (server, kubeconfig) = match (&args.program, &args.kubeconfig) {
        (Some(program), _) => {
            figures.server = "the embedded server (TLS)";
            let server = Server::start(&Start {
                program: program.clone(),
                dir: home.join("server"),
                in_memory: true,
                port: 0,
            })?;
            let kubeconfig = server.kubeconfig().to_owned();
            (Some(Serving::Embedded(server)), kubeconfig)
        }
        (None, Some(kubeconfig)) => {
            figures.server = "kube-apiserver with etcd (TLS)";
            (None, kubeconfig.clone())
        }
        (None, None) => {
            let (server, kubeconfig) = replay(home, objects, false, args.block)?;
            return Ok((Some(server), kubeconfig));
        }
    };
    eprintln!("creating {objects} objects");
    let endpoint = Endpoint::new(&Kubeconfig::read(&kubeconfig)?)?;
    load::define(&endpoint, &mut |_, _| ()).await?;
    // One is there already, which told how large they are. They have the owners that such objects have: with fewer,
    // as much would be made up by what a cache keeps.
    let shape = load::reported(&endpoint).await?;
    load::create(&endpoint, &shape, 0..objects - 1, clients).await?;
    load::report(&endpoint, 0..objects - 1, clients).await?;
    figures.object_bytes = shape.size();
    Ok((server, kubeconfig))
}

/// Keeps a server running while it is measured.
enum Serving {
    Embedded(#[expect(dead_code, reason = "stops when dropped")] Server),
    Replay(#[expect(dead_code, reason = "stops when dropped")] Client),
}

fn replay(home: &Path, objects: usize, events: bool, block: usize) -> anyhow::Result<(Serving, PathBuf)> {
    let kubeconfig = home.join("replay.kubeconfig");
    let (path, objects) = (kubeconfig.display().to_string(), objects.to_string());
    let block = block.to_string();
    let mut args = vec!["replay", &path, "-n", &objects, "--block", &block];
    if events {
        args.push("--events");
    }
    let server = Client::start(&std::env::current_exe()?, &args)?;
    Ok((Serving::Replay(server), kubeconfig))
}

fn sync(
    rounds: usize,
    subjects: &[Subject],
    kubeconfig: &Path,
    objects: usize,
) -> anyhow::Result<Vec<(&'static str, Sync)>> {
    eprintln!("list and cache {objects} objects");
    in_turns(
        rounds,
        subjects,
        |subject| subject.start(kubeconfig)?.sync(objects),
        |sync| sync.cpu_s,
    )
}

fn events(
    args: &Args,
    subjects: &[Subject],
    kubeconfig: &Path,
) -> anyhow::Result<Vec<(&'static str, Events)>> {
    eprintln!("changes of {CHANGING} objects, as fast as they are read");
    let subjects: Vec<_> = subjects
        .iter()
        .filter(|subject| subject.events)
        .cloned()
        .collect();
    let time = Duration::from_secs(args.seconds);
    in_turns(
        args.rounds,
        &subjects,
        |subject| subject.start(kubeconfig)?.events(time),
        |events| events.per_s,
    )
}

/// Measures each subject once in each round, so that a busy moment of the machine meets all of them; takes medians.
fn in_turns<T: Copy>(
    rounds: usize,
    subjects: &[Subject],
    measure: impl Fn(&Subject) -> anyhow::Result<T>,
    by: impl Fn(&T) -> f64,
) -> anyhow::Result<Vec<(&'static str, T)>> {
    let mut measured = vec![Vec::new(); subjects.len()];
    for _ in 0..rounds.max(1) {
        for (subject, measured) in subjects.iter().zip(&mut measured) {
            measured.push(measure(subject)?);
        }
    }
    let titles = subjects.iter().map(|subject| subject.title);
    let medians = measured.into_iter().map(|mut rounds| {
        rounds.sort_by(|a, b| by(a).total_cmp(&by(b)));
        rounds[rounds.len() / 2]
    });
    Ok(titles.zip(medians).collect())
}
