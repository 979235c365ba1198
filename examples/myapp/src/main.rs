//! Runs the controller of `MyApp` against the cluster that `KUBECONFIG` names, or that this pod runs in.

use skopos::controller::{LeaderConfig, Manager, ManagerConfig};
use skopos::{CancellationToken, Sources, connect};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().json().init();
    let client = connect(&Sources::of_variables(|name| std::env::var_os(name))).await?;
    let replica = format!("myapp-{}", std::process::id());
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new(client.default_namespace(), "myapp", &replica)),
        endpoint: Some(([127, 0, 0, 1], 8080).into()),
        ..ManagerConfig::new("stable.example.com/myapp")
    };
    let mut manager = Manager::new(&client, config)?;
    manager.add(skopos_example_myapp::controller());

    let shutdown = CancellationToken::new();
    let mut running = tokio::spawn(manager.run(shutdown.clone()));
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = &mut running => return Ok(ended??),
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    shutdown.cancel();
    Ok(running.await??)
}
