//! Runs the controller of `MyApp` against the cluster that `KUBECONFIG` names, or that this pod runs in.

use skopos::controller::{LeaderConfig, Manager, ManagerConfig};
use skopos::{CancellationToken, Sources, connect};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().json().init();
    let client = connect(&Sources::of_variables(|name| std::env::var_os(name))).await?;
    let variable = |name, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    // The name of the pod, where there is one; chance tells those on one machine apart.
    let replica = format!("{}-{:08x}", variable("HOSTNAME", "myapp"), fastrand::u32(..));
    let config = ManagerConfig {
        leader: Some(LeaderConfig::new(client.default_namespace(), "myapp", &replica)),
        endpoint: Some(variable("LISTEN", "127.0.0.1:8080").parse()?),
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
    if running.await?.is_err() {
        // The log says why. At once: a thread that is blocked would keep the runtime from ending.
        std::process::exit(1);
    }
    Ok(())
}
