//! kube-rs' reflector, driven line by line by `skopos-bench watch`.
//!
//! `skopos-bench-kube KUBECONFIG [strip]` says `ready`, begins at `start`, says `synced N` once the store has
//! N objects, and answers `count` with how many events its one handler has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().context("usage: skopos-bench-kube KUBECONFIG [strip]")?;
    let strip = args.next().is_some_and(|arg| arg == "strip");
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let seen = Arc::new(AtomicU64::new(0));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "start" => {
                tokio::spawn(follow(client.clone(), seen.clone(), strip));
            }
            "count" => println!("count {0} {0}", seen.load(Ordering::Relaxed)),
            other => anyhow::bail!("unknown command {other}"),
        }
    }
    Ok(())
}

async fn follow(client: Client, seen: Arc<AtomicU64>, strip: bool) {
    let kind = GroupVersionKind::gvk("myapps.example.com", "v1", "Application");
    let resource = ApiResource::from_gvk_with_plural(&kind, "applications");
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let writer = reflector::store::Writer::new(resource);
    let store = writer.as_reader();
    tokio::spawn(async move {
        if store.wait_until_ready().await.is_ok() {
            println!("synced {}", store.len());
        }
    });
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .modify(move |object| {
            if strip {
                object.managed_fields_mut().clear();
            }
        })
        .reflect(writer)
        .touched_objects();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => {
                seen.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => eprintln!("kube: {error}"),
        }
    }
}
