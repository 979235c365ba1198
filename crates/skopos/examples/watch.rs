//! Shows the changes of any custom resource: `cargo run -p skopos --example watch -- KUBECONFIG GROUP PLURAL`.

use std::{env, error::Error, sync::Arc};

use skopos::{CancellationToken, CollectionName, Discovery, Informers, InformersConfig, Sources, connect};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it is what this program is for")]
async fn main() -> Result<(), Box<dyn Error>> {
    let [kubeconfig, group, plural] = [1, 2, 3].map(|n| env::args().nth(n).unwrap_or_default());
    let explicit = Some(kubeconfig.into());
    let client = connect(&Sources {
        explicit,
        ..Sources::default()
    })
    .await?;
    let informers = Informers::new(Arc::new(Discovery::new(&client)), InformersConfig::default());
    tokio::spawn(informers.clone().run(CancellationToken::new()));
    let mut changes = informers.informer(CollectionName::new(group, plural)).subscribe();
    while let Some(told) = changes.next().await {
        let (op, key) = (told.change.op, told.change.key().unwrap_or_default());
        println!("{op:?} {key}");
    }
    Ok(())
}
