//! Skopos' informer, driven line by line by [`crate::watch`], as its peers are in `go/informer` and `peers/kube`.
//!
//! It says `ready`, begins at `start`, says `synced N` once cache and handler have N objects, and answers `count`
//! with how many changes its one handler was told and how many events the cache took.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skopos_client::{Api, Resource, Sources, connect};
use skopos_informer::{Compression, Informer, InformerConfig};
use skopos_object::{Content, GroupVersionKind};
use tokio_util::sync::CancellationToken;

/// What to follow, and how to keep it.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Leads to the server.
    kubeconfig: PathBuf,
    /// Keep objects compressed.
    #[arg(long)]
    compressed: bool,
    /// Keep metadata only.
    #[arg(long)]
    metadata: bool,
}

/// Follows until standard input ends.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let sources = Sources {
        explicit: Some(args.kubeconfig.clone()),
        ..Sources::default()
    };
    let client = connect(&sources).await?;
    let kind = GroupVersionKind::new("myapps.example.com", "v1", "Application");
    let mut api = Api::all(&client, &Resource::known(&kind, "applications", true));
    if args.metadata {
        api = api.with_content(Content::Metadata);
    }
    let config = InformerConfig {
        compression: if args.compressed {
            Compression::Lz4
        } else {
            Compression::default()
        },
        ..InformerConfig::default()
    };
    let informer = Informer::new("applications", config);
    let told = Arc::new(AtomicU64::new(0));
    println!("ready");
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let _here = runtime.enter();
        for line in std::io::stdin().lines() {
            match line?.as_str() {
                "start" => start(&informer, &api, &told),
                "count" => println!(
                    "count {} {}",
                    told.load(Ordering::Relaxed),
                    informer.report().events
                ),
                other => anyhow::bail!("unknown command {other}"),
            }
        }
        Ok(())
    })
    .await?
}

fn start(informer: &Informer, api: &Api, told: &Arc<AtomicU64>) {
    let mut changes = informer.subscribe();
    let mut synced = changes.sync_watch();
    let handler = told.clone();
    tokio::spawn(async move {
        while changes.next().await.is_some() {
            handler.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (running, source) = (informer.clone(), Arc::new(api.clone()));
    tokio::spawn(async move { running.run(source, CancellationToken::new()).await });
    let store = informer.store().clone();
    tokio::spawn(async move {
        if synced.synced().await {
            println!("synced {}", store.len());
        }
    });
}
